"""specialize_warps: a producer warp makes the TMA loads, beside the consumer warpgroups.

Before:  each thread: ...                 After:  the consumers          the producer
           wait_full; wgmma                         wait_full; wgmma       wait_empty
           first thread: wait_empty,                arrive_empty           expect_full
             expect_full, tma_load                                         tma_load
           arrive_empty

Where the barriers say both that operands are there (wait_full) and that they have been read
(arrive_empty, wait_empty), the copies are a program of their own: control flow, starts of boxes,
and waits.  A thread that runs nothing else is ahead of the others by as many stages as there are,
also while they store a result, and none of them waits for another in the loop.

The kernel's text stays one: it says in which order things happen if one thread of the block makes
the copies, and is run so by the interpreter.  The emitter writes it twice, once for each role,
without what the other one does.  Both come to the same result because roles meet at these barriers
alone, where each waits for the other, whoever is first (Kahn 1974): so the pass marks the kernel
only if

  - the copies, and the branches on the way to them, depend on parameters and program numbers alone,
    and on scalars that are loaded before the program stores anything,
    or around what only the others do (`passes`);
  - each copy is behind a wait_empty of what it writes, and a start_producer is before all of them;
  - as long as copies can follow, nothing but products and their barriers uses the bytes that they
    write.

A kernel with several bodies, of which a launch runs one, may have copies in each.

The producer's warps also make the barriers, claim the slot and make the maps, while the others load
what they need.  Where these need no map, for results that leave by one, they do not wait for that:
only for the barriers (`early`).  Unless that meets with what copies write, the producer begins
before the others are ready: a warm start's stage, too, is written again only when the readers have
released it.

Needs allocate_shared."""

from collections.abc import Iterable

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.axis import axis_info
from tritonc.analysis.quotients import in_steps
from tritonc.analysis.signs import known_signs, loop_order
from tritonc.analysis.values import closure
from tritonc.backend.launch.choose_pingpong import refuse
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.pipeline.tma.pingpong_programs import prevents
from tritonc.backend.pipeline.tma.roles import (
    COPIES,
    PRODUCER_WARPS,
    SETUP,
    START,
    leading_to_copies,
    passed_by,
    producer_blocks,
    registers,
)
from tritonc.backend.pipeline.tma.tma_access import ALIGNMENT, forward, recognize
from tritonc.backend.shared.shared_memory import HANDS_OVER, accesses, allocation, buffer_bytes
from tritonc.ir.cfg import Cfg, incoming, reached
from tritonc.ir.context import Again, Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import WRITE
from tritonc.ir.types import Tile, scalar


def specialize_warps(kernel: Kernel, context: Context) -> bool:
    """Mark the kernel.  Raises Again if its copies cannot be made by a warp of its own: text that
    waits before it copies, as rotated loops do (`wait_early`), would hang."""
    pingpong = kernel.attributes.pop("pingpong", 1)
    starts = [op for op in kernel.ops() if op.name == START]
    if not starts:
        return False
    if not _apart(kernel, starts):
        raise Again("no producer warp: the addresses of the copies depend on results of the other "
                    "warps", producer=0)
    if pingpong > 1 and (why := prevents(kernel)):
        refuse(context, why, kernel.span)
        pingpong = 1
    found = registers(kernel.attributes["num_warps"] * pingpong, context.target)
    if found is None:
        raise Again("no producer warp: too many registers", producer=0)
    if pingpong > 1:
        kernel.attributes["pingpong"] = pingpong
    for start in starts:
        start.attributes["waits"] = _waits(kernel, start)
        start.attributes["early"] = not start.attributes["waits"] and _maps_for_copies(
            kernel, start)
    kernel.attributes.update(producer_warps=PRODUCER_WARPS, registers=found)
    if any(found):  # setmaxnreg wants the number at the start to be known
        kernel.attributes["min_blocks"] = 1
    return True


def _apart(kernel: Kernel, starts: list[Op]) -> bool:
    """Whether the copies of all bodies are programs of their own; no body leads to another."""
    cfg = Cfg(kernel)
    bodies = [_Body(cfg, start) for start in starts]
    apart = (op for op in kernel.ops() if op.name in SETUP or op.name in COPIES)
    return all(sum(op in body.setup or cfg.block_of[op] in body.blocks for body in bodies) == 1
               for op in apart) and all(
        body.apart(kernel) and not any(other.home in body.blocks for other in bodies
                                       if other is not body) for body in bodies)


class _Body:
    """What follows one start of the copies: `blocks`, the first of them `home` from there on."""

    def __init__(self, cfg: Cfg, start: Op) -> None:
        self.cfg, self.start, self.home = cfg, start, cfg.block_of[start]
        self.blocks = [block for block in cfg.order if cfg.dominates(self.home, block)]
        self.ready = self.home.ops[: self.home.ops.index(start)]
        self.setup = [op for op in self.ready if op.name in SETUP]

    def apart(self, kernel: Kernel) -> bool:
        """Whether its copies are a program of their own."""
        cfg, start, home = self.cfg, self.start, self.home
        inside = [op for block in self.blocks for op in block.ops]
        if home in cfg.innermost or any(op.name in SETUP and op not in self.setup for op in inside):
            return False
        for op in kernel.ops():  # consumers know the slot once they have met the producer's warps
            if start.operands[0] in op.operands and op is not start and op not in self.setup and (
                    op in self.ready or not cfg.dominates(home, cfg.block_of[op])):
                return False
        copies = [op for op in inside if op.name in COPIES]
        leading = leading_to_copies(cfg.order)
        written: set[Op] = set()
        for op in copies:
            block = cfg.block_of[op]
            before = block.ops[: block.ops.index(op)]
            if block is home and start not in before:
                return False
            if op.name == "tma_load":
                written.add(allocation(op.operands[0])[0])
                if not any(other.name == "wait_empty" and op.operands[0] in other.operands
                           and _within(cfg, op.guard, other.guard) for other in before):
                    return False
        loads = steady_loads(cfg)
        for block in leading:
            end = block.terminator
            if end.name == "cond_br" and not computable(end.operands, start, loads):
                passes = passed_by(cfg, block)
                if passes is not None:
                    end.attributes["passes"] = passes
        needed = [v for op in copies for v in op.inputs()]
        needed += [v for op in self.setup for v in op.inputs() if v is not start.operands[0]]
        needed += [block.terminator.operands[0] for block in producer_blocks(cfg.order)
                   if block.terminator.name == "cond_br"
                   and "passes" not in block.terminator.attributes and (
                       block in self.blocks or not cfg.dominates(home, block))]
        return computable(needed, start, loads) and not any(
            _disturbs(op, written) for block in leading if block in self.blocks
            for op in _until_copies(block, leading)[block is home and block.ops.index(start):])


def _until_copies(block: Block, leading: list[Block]) -> list[Op]:
    """The operations of a block that copies can follow, which blocks `leading` to them have."""
    if any(after in leading for after in block.successors):
        return block.ops
    return block.ops[: max(i for i, op in enumerate(block.ops) if op.name in (*COPIES, START))]


def _within(cfg: Cfg, guard: Value | None, other: Value | None,
            before: frozenset[tuple[Value, Value]] = frozenset()) -> bool:
    """Whether a guard holds only where the other one does: it asks for that and more, or a loop
    carries both, and this is so of each pair (`before` has those of the iteration before)."""
    if guard is other or other is None:
        return True
    if guard is None or guard.op is None or other.op is None:
        return False
    if guard.op.name == "and":
        return any(_within(cfg, v, other, before) for v in guard.op.operands)
    if not guard.op.name == other.op.name == "phi" or (
            cfg.block_of[guard.op] is not cfg.block_of[other.op]):
        return False
    return (guard, other) in before or all(
        _within(cfg, v, incoming(other.op, block), before | {(guard, other)})
        for v, block in zip(guard.op.operands, guard.op.blocks, strict=True))


def _waits(kernel: Kernel, start: Op) -> bool:
    """Whether something before `start` may meet with the copies behind it."""
    cfg = Cfg(kernel)
    home = cfg.block_of[start]
    at = home.ops.index(start)
    before = reached([home], cfg.predecessors.__getitem__)
    written = {allocation(op.operands[0])[0] for op in kernel.ops() if op.name == "tma_load"}
    warm = any(op.name == "arrive_full" for op in home.ops[at:])
    return any(WRITE in op.effects or _disturbs(op, written)
               for block in before for op in (home.ops[:at] if block is home else block.ops)
               if op.name not in SETUP and not (warm and op.name == "async_copy"
                                                and allocation(op.operands[0])[0] in written))


def _maps_for_copies(kernel: Kernel, start: Op) -> bool:
    """Whether nobody but the producer uses maps of its slot: no result leaves by one."""
    slot, own = start.operands[0], start.result
    return all(op.name in ("tma_load", "publish_maps", "release_slot") or op is start
               for op in kernel.ops() if slot in op.operands or own in op.operands) and all(
        set(op.attributes["indices"]) <= set(start.attributes["indices"])
        for op in kernel.ops() if op.name == "publish_maps" and op.operands[0] is slot)


def steady_loads(cfg: Cfg) -> set[Op]:
    """Loads of scalars that give both roles the same, whenever they come to them: nothing is stored
    before in their program, and programs have no order."""
    starts = [loop.header for loop in cfg.loops if counts_programs(loop)]
    writes = {block: next((i for i, op in enumerate(block.ops) if WRITE in op.effects),
                          len(block.ops)) for block in cfg.order}
    behind = reached((after for block in cfg.order if writes[block] < len(block.ops)
                      for after in block.successors), stop=starts)
    return {op for block in cfg.order if block not in behind for op in block.ops[: writes[block]]
            if op.name == "load" and not isinstance(op.result.type, Tile)
            and (op.guard is None or "other" in op.attributes)
            and not op.attributes.get("volatile")}


def computable(values: list[Value], start: Op | None, loads: set[Op]) -> bool:
    """Whether one thread can compute the values from parameters, these loads, and the slot."""
    def inputs(value: Value) -> Iterable[Value]:
        known = value.op is None or value.op is start or value.op.name == "alloc_shared"
        return () if known or value.op is None else value.op.inputs()

    return all(not inputs(value) or (not isinstance(value.type, Tile) and value.op is not None and (
        value.op.pure or value.op in loads)) for value in closure(values, inputs))


def _disturbs(op: Op, written: set[Op]) -> bool:
    """Whether an operation other than products and their barriers uses bytes that copies write."""
    if op.name in (*COPIES, "wgmma") or op.name in HANDS_OVER:
        return False
    return any(_overlap(access.allocation, other) for access in accesses(op) for other in written
               if op.name != "shared_load" or access.allocation not in written)


def _overlap(a: Op, b: Op) -> bool:
    (start, end), (first, last) = (
        (op.attributes["offset"], op.attributes["offset"] + buffer_bytes(op)) for op in (a, b))
    return bool(start < last and first < end)


def copied_by_threads(kernel: Kernel, infos: axis_info.Infos) -> set[Block]:
    """The bodies in which threads find rows of operands or copy less than TMA can, or in which TMA
    might begin before a tensor, if it brings all in another one: where a producer warp makes the
    copies of one, it makes those of all."""
    cfg = Cfg(kernel)
    products = [block for block in cfg.order if any(op.name == "wgmma" for op in block.ops)]
    found = [block for block in products if _in_pieces(block, infos) or any(
        op.name == "load" and in_steps(op) for op in block.ops) or _backward(
        kernel, cfg, block, infos)]
    if len(found) == len(products):
        return set()
    sides = [[side for test in cfg.order if test.terminator.attributes.get("facts")
              for side in test.successors if cfg.dominates(side, block)] for block in found]
    return {block for starts in sides if starts for block in cfg.order
            if cfg.dominates(starts[-1], block)}


def _backward(kernel: Kernel, cfg: Cfg, block: Block, infos: axis_info.Infos) -> bool:
    """Whether boxes of an operand may begin before its tensor, as far as the body knows."""
    loop = cfg.innermost.get(block)
    if loop is None or loop.preheader is None:
        return False
    known, iteration = known_signs(kernel, cfg, loop.preheader, loop_order(loop)), Iteration(loop)
    affinity = Affinity(iteration, known)
    for op in block.ops:
        load = op.operands[1].op if op.name == "shared_store" else None
        strip = recognize(load, scalar(load.result.type).bytes, affinity, iteration, infos,
                          cut=True) if load is not None and load.name == "load" else ""
        if not isinstance(strip, str) and not forward(strip, known):
            return True
    return False


def _in_pieces(block: Block, infos: axis_info.Infos) -> bool:
    """Whether rows of an operand begin where TMA cannot copy from."""
    for op in block.ops:
        load = op.operands[1].op if op.name == "shared_store" else None
        info = infos.get(load.operands[0]) if load is not None and load.name == "load" else None
        if load is not None and info is not None:
            size = scalar(load.result.type).bytes
            if all(axis_info.vector_length(info, None, axis, size) * size < ALIGNMENT
                   for axis in range(len(info.contiguity))):
                return True
    return False
