"""A warm start: threads bring the first operands themselves, while maps for the rest are made.

Claiming a slot for tensor maps, making and publishing them takes a block longer than memory takes
to bring what the first product reads.  Copies that need no map (cp.async) start at once; from the
next operands on, TMA makes the copies.

Before:  preheader: tensor_map ...                 After:  async_copy %s[0], %p ...; async_commit
                    start_producer                         tensor_map ...; start_producer
                    tma_load %s[0], %full[0]            async_wait; proxy_fence; barrier
                                                           arrive_full %full[0]

One thread says at the stage's barrier that the operands are there, as the bytes of boxes would
have done: who reads them sees no difference.  Boxes and these copies bring the same, zeros outside
of the tensor, because both are of the same load."""

from collections.abc import Iterable, Sequence

from tritonc.analysis.axis.axis_info import Infos
from tritonc.backend.pipeline.channel import Channel, Means, copied_load, copy_width
from tritonc.backend.pipeline.expander import Expander
from tritonc.backend.pipeline.loop_slice import Slice, find_slice, initial_values
from tritonc.backend.pipeline.staged_loop import StagedLoop, widen
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Buffer
from tritonc.records import dataclass

PIECE = 16  # bytes: smaller ones take the threads longer than maps take to be made
FEW = 2048  # bytes, of which that is not so


@dataclass
class WarmStart:
    """The copies of the first iteration's operands with all that they need, and whether there is
    such an iteration."""

    copies: list[Op]
    runs: Value


def copyable(staged: StagedLoop, stores: Iterable[Op], infos: Infos) -> bool:
    """Whether threads can copy these of the loop's operands as fast as memory brings them."""
    return all(isinstance(load := copied_load(store, staged, infos), Op)
               and _quick(load, store, infos) for store in stores)


def all_quick(channels: Iterable[Channel], infos: Infos) -> bool:
    """The same of what is loaded before the loop."""
    return all(one.load is not None and _quick(one.load, one.store, infos) for one in channels)


def _quick(load: Op, store: Op, infos: Infos) -> bool:
    width = copy_width(load.operands[0], load.guard, store.operands[0], infos)
    t = store.operands[0].type
    return width == PIECE or (width > 0 and isinstance(t, Buffer) and t.stage_bytes <= FEW)


def warm_start(kernel: Kernel, staged: StagedLoop, channels: Sequence[Channel], stages: int,
               outer: Loop | None, fixed: Sequence[Channel] = (), fixed_stages: int = 1
               ) -> WarmStart | None:
    """Copies of the operands of some channels to the first of `stages` stages, to run before the
    loop, and of what is `fixed` in it to the first of its own.

    `outer`: a loop around it, before which they run, for its first iteration, which comes.  Nothing
    is copied where some of them have no first iteration, as under a mask that skips tiles:
    windows and causal attention were 1 to 4 % slower with it on an H200."""
    channels = [Channel(one.store, Means.COPIES, one.load) for one in channels]
    inputs = [v for one in channels if one.load is not None for v in one.load.inputs()]
    part = find_slice(staged.loop, [staged.condition, *inputs], staged.always)
    if part is None or part.loads:
        return None
    rewrite = Expander(kernel, staged, part, channels, stages, 1)
    ops = rewrite.copies(initial_values(part), rewrite.number(0), 0)
    assert rewrite.runs is not None
    if outer is None:
        return WarmStart(ops, rewrite.runs)
    for one in fixed:
        assert one.load is not None
        stage = widen(one.store.operands[0], fixed_stages, rewrite.number(0), 0)
        ops[:0] = [stage, make_op("async_copy", [stage.result, one.load.operands[0]],
                                  guard=one.load.guard, span=one.load.span)]
    cfg = Cfg(kernel)
    always = {block for block in outer.blocks
              if outer.latch is not None and cfg.dominates(block, outer.latch)}
    made = {result for op in ops for result in op.results}

    def outside(values: list[Value]) -> Slice | None:
        """What computes them, and those that copies of the loop's operations make of them."""
        found = list(dict.fromkeys(values))
        for value in found:
            if value in made and value.op is not None:
                found += [v for v in dict.fromkeys(value.op.inputs()) if v not in found]
        return find_slice(outer, [v for v in found if v not in made], always, comes=True)

    whole = outside([*(v for op in ops for v in op.inputs()), rewrite.runs])
    test = outside([rewrite.runs])
    if whole is None or test is None or test.phis:
        return None
    values = initial_values(whole)
    before = copy_ops(whole.ops, values)
    for op in ops:
        op.replace_inputs(values)
    return WarmStart([*before, *ops], values.get(rewrite.runs, rewrite.runs))


def hoisted(ops: list[Op], new: list[Op]) -> tuple[list[Op], list[Op]]:
    """`ops` with `new` in them, before the loads and stores to shared memory that end them, and
    those that it passes."""
    at, first = len(ops), list(new)
    rest: list[Op] = []
    needed = {v for op in new for v in op.inputs()}
    while at:
        op = ops[at - 1]
        pure = op.pure and op.name != "phi"
        if not pure and (op.name not in ("load", "shared_store")
                         or op.attributes.get("volatile") or needed & set(op.results)):
            break
        if needed & set(op.results):
            first.insert(0, op)
            needed.update(op.inputs())
        else:
            rest.insert(0, op)
        at -= 1
    return [*ops[:at], *first, *rest], rest


def taken_stores(block: Block) -> list[Op]:
    """The stores to shared memory at the end of the block, of what threads load there, taken out:
    while it is on its way, they make maps and barriers, and the first copies start."""
    taken: list[Op] = []
    for op in reversed(block.ops[:-1]):
        if op.name == "shared_store":
            taken.insert(0, op)
        elif op.name == "phi" or not (op.pure or op.name == "load"):
            break
    block.ops = [op for op in block.ops if op not in taken]
    return taken
