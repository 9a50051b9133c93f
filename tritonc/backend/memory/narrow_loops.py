"""narrow_loops: a loop of atomics and scalars runs in one warp; the others wait after it.

Before:  loop: %seen = atomic_rmw %p ...           After:        barrier
               cond_br (%seen == 0), loop, exit                  cond_br first_warp, enter, join
         exit: ... %seen                                  loop:  %mine = atomic_rmw %p ...
                                                                 %seen = from_first_lane %mine
                                                                 cond_br (%seen == 0), loop, leave
                                                          join:  %last = phi [%seen], [0]
                                                                 shared_store, shared_load of %last

A loop that waits for other programs, or looks back over what they have told, asks memory for one
number after the other.  One thread asks; to bring the answer to all warps takes two barriers in
each iteration, a warp alone has it by a shuffle.  What is read behind the loop is brought to all
once.  Atomics that change nothing need not release anything in each iteration, either: one fence
before the loop does.

Legal where the loop does nothing but arithmetic and atomics of scalars, which one thread performs
in its order; or reads tiles that each warp holds, an element in each lane; or where all that it
does with memory is to load scalars, volatile.  Needs layouts; what the loop leaves goes through
buffers, as from an atomic (`lower_atomics`, which comes behind)."""

from tritonc.analysis.values import int_of
from tritonc.backend.memory.ask_ahead import ask_ahead
from tritonc.backend.memory.lower_atomics import asks, share
from tritonc.ir.build import Builder, follow_each, make_op
from tritonc.ir.cfg import Cfg, Loop, follow, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import CONTROL
from tritonc.ir.types import I1, Buffer, Tile, Type, is_float, is_pointer

_ROLES = ("start_producer", "wgmma", "mma_dot", "fma_dot")


def narrow_loops(kernel: Kernel, context: Context) -> bool:
    """Give loops of scalars to the first warp, the outermost ones first."""
    if kernel.attributes["num_warps"] == 1 or not any(map(asks, kernel.ops())) or any(
            op.name in _ROLES for op in kernel.ops()):
        return False
    done: set[Block] = set()
    changed = False
    while (loop := _next(kernel, done)) is not None:
        if ask_ahead(kernel, loop, context):
            continue
        done.update(loop.blocks)
        _narrow(kernel, loop)
        context.remark("narrow_loops", "this loop runs in a single "
                                       "warp", loop.header.terminator.span)
        changed = True
    return changed


def _next(kernel: Kernel, done: set[Block]) -> Loop | None:
    """An outermost loop that one warp can run and that leaves numbers: buffers hold no pointers."""
    cfg = Cfg(kernel)
    found = [loop for loop in cfg.loops if loop.header not in done and _legal(loop, cfg)
             and not any(is_pointer(value.type) for value in _left(kernel, loop))]
    return min(found, key=lambda loop: loop.depth, default=None)


def _changes_nothing(op: Op) -> bool:
    """Whether an atomic only reads, as `atomic_or(p, 0)` does.  A fence before the loop releases
    what was written before; in the loop nothing is written that could be."""
    if op.name != "atomic_rmw" or op.attributes.get("scope") == "system":
        return False
    if op.attributes["kind"] == "load":
        return True
    if op.attributes["kind"] not in ("add", "or", "xor", "and"):
        return False
    return int_of(op.operands[1]) == (-1 if op.attributes["kind"] == "and" else 0)


def _legal(loop: Loop, cfg: Cfg) -> bool:
    ops = list(loop.ops())
    asking = [op for op in ops if asks(op)]
    if not asking or loop.preheader is None or len(loop.exits) != 1 \
            or len({op.name == "load" for op in asking}) > 1:
        return False
    outside = loop.exits[0][1]
    if cfg.predecessors[outside] != [loop.exits[0][0]]:
        return False
    return all(op in asking or not op.effects - {CONTROL} for op in ops) and all(
        _in_each_warp(v.type) for op in ops for v in (*op.results, *op.inputs())) and (
        not any(isinstance(op.operands[0].type, Tile) for op in asking)
        or all(map(_reads_apart, asking)))


def _reads_apart(op: Op) -> bool:
    """Whether it only reads, each element in one lane: then no thread waits for another's."""
    t = op.operands[0].type
    return op.attributes.get("kind") == "load" and (
        not isinstance(t, Tile) or (t.layout is not None and all(t.layout.lane)))


def _in_each_warp(t: Type) -> bool:
    """Whether each warp has all of a value."""
    if isinstance(t, Tile):
        return t.layout is not None and not any(t.layout.warp)
    return not isinstance(t, Buffer)


def _narrow(kernel: Kernel, loop: Loop) -> None:
    before, (last, behind) = loop.preheader, loop.exits[0]
    assert before is not None
    enter, leave, join = (Block(f"{loop.header.name}.{name}")
                          for name in ("enter", "leave", "join"))
    follow(loop.header, before, enter)
    redirect(last, behind, leave)
    asking = [op for op in loop.ops() if asks(op)]
    for op in asking:
        if isinstance(op.operands[0].type, Tile):
            op.attributes["narrow"] = True
    if all(map(_changes_nothing, asking)):
        Builder(enter).emit("device_fence")
        for op in asking:
            if op.attributes.get("order", "acq_rel") == "acq_rel":
                op.attributes["order"] = "acquire"
    for block, target in ((enter, loop.header), (leave, join)):
        Builder(block).emit("br", blocks=[target])
    before.ops.pop()
    b = Builder(before)
    b.emit("barrier")
    first = b.emit("first_warp", type=I1).result
    b.emit("cond_br", first, blocks=[enter, join])
    _share_in_warp(kernel, loop)
    left = _left(kernel, loop)
    replaced: dict[Value, Value] = {}
    b = Builder(before, len(before.ops) - 1)
    added: list[Op] = []
    for value in left:
        none = b.constant(0.0 if is_float(value.type) else 0, value.type)
        phi = make_phi([value, none], [leave, before])
        join.ops.append(phi)
        new = share(kernel, phi)
        added += new
        replaced[value] = new[-1].result
    join.ops += added
    Builder(join).emit("br", blocks=[behind])
    follow(behind, last, join)
    inside = {*loop.blocks, join}
    for block in kernel.blocks:
        if block not in inside:
            for op in block.ops:
                op.replace_inputs(replaced)
    at = kernel.blocks.index(loop.header)
    kernel.blocks.insert(at, enter)
    at = 1 + max(kernel.blocks.index(block) for block in loop.blocks)
    kernel.blocks[at:at] = [leave, join]


def _share_in_warp(kernel: Kernel, loop: Loop) -> None:
    """What the first thread has read, all of its warp have, and nobody else reads."""
    def same(op: Op) -> list[Op]:
        return [make_op("from_first_lane", [op.result], span=op.span, named=op.result.name)] if (
            asks(op) and not isinstance(op.result.type, Tile)) else []

    follow_each(kernel, loop.blocks, same)


def _left(kernel: Kernel, loop: Loop) -> list[Value]:
    made = {r: None for op in loop.ops() for r in op.results}
    inside = set(loop.ops())
    readers = uses(kernel)
    return [value for value in made if any(op not in inside for op in readers.get(value, ()))]
