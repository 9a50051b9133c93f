"""copy_ahead: what a loop loads iterations ahead goes to shared memory, where each thread finds it.

Before:  body: %v = load %p                   After:  first: async_copy stage 0, 1, 2; a group each
               ...                                    body:  async_wait {pending = 2}
                                                             %v = shared_load stage %s
                                                             async_copy stage %s - 1, three ahead
                                                             async_commit

A thread waits for its copies by groups, in their order.  For registers that are loaded it waits by
scoreboards, of which it has six, and ptxas gives all loads that pass from one iteration to another
the same one: to wait for the oldest of them is to wait for the newest.  Loaded three iterations
ahead, an iteration still took a latency of memory (sums down 1171 columns of floats: 0.49 us, by
4 warps as by 8).

Each thread copies what it will read itself, so no barrier is needed, and registers are free.

Where other blocks of a multiprocessor fill the time, copies only cost instructions: asked for by
the meta-parameter `num_stages`, as entries for launches of few programs do, and made where a loop
is too long to be repeated, so that registers would be moved, and moves wait (`alternate_registers`:
complex recurrences of 512 and 1024 programs 23.1 and 40.7 us, loaded ahead 25.5 and 47.9)."""

from dataclasses import replace

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import fills_zeros, needed
from tritonc.backend.pipeline.chains.alternate_registers import MOST_OPS
from tritonc.backend.pipeline.channel import copy_width
from tritonc.backend.pipeline.loop_slice import Slice, advance, find_slice, initial_values
from tritonc.backend.pipeline.staged_loop import buffer_of, elements_per_thread
from tritonc.backend.shared.allocate_shared import fits
from tritonc.backend.shared.shared_memory import buffer_bytes, own_buffer
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Loop, add_incoming, make_phi
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout, log2
from tritonc.ir.types import I32, Tile, scalar

PIECE = 16  # bytes of the widest copy
LEAST, MOST = 4, 32  # stages
FLIGHT = 16 << 10  # bytes of a block's stages, if there are to be more than is asked for
WRITTEN = 64  # pieces that a thread copies before the loop, in straight code
# A loop that itself reads or writes shared memory more often than this for each piece waits for
# that, not for memory.  A histogram of bytes, eight additions for one piece: 135 us, copied 204.
TOUCHED = 4


def copy_ahead(kernel: Kernel, loop: Loop, context: Context) -> bool:
    """Copy all that a loop loads ahead, if there are such copies, room for them, and no store that
    may change it."""
    body, before, loads = loop.body, loop.preheader, [op for op in loop.ops() if op.name == "load"]
    stages = context.meta.get("num_stages", LEAST if len([*loop.ops()]) > MOST_OPS else 1)
    if stages < 2 or stores_may_reach(kernel, loop.blocks, loads, pointer_roots(kernel)):
        return False
    condition = loop.header.terminator.operands[0]
    part = find_slice(loop, [condition, *(v for op in loads for v in op.inputs())],
                      set(loop.blocks))
    infos = axis_info.analyze(kernel)
    places = [place for op in loads if (place := _place(op, infos)) is not None]
    if body is None or before is None or part is None or part.loads or not loads or (
            "async_copy" not in context.target.features or len(places) < len(loads)):
        return False
    size, pieces = (sum(numbers) for numbers in zip(*(
        (buffer_bytes(buffer), elements_per_thread(op.result) // wide)
        for op, (buffer, wide) in zip(loads, places, strict=True)), strict=True))
    touched = sum(elements_per_thread(op.operands[1]) for op in loop.ops()
                  if op.name in ("shared_atomic", "shared_store"))
    if touched > TOUCHED * pieces:
        return False
    while stages < MOST and stages * size < FLIGHT and 2 * stages * pieces <= WRITTEN:
        stages *= 2
    if not fits(kernel, context.target.shared_per_block, stages * size):
        return False
    made = [buffer for buffer, _ in places]
    build, mapping, comes = Builder(before, len(before.ops) - 1), initial_values(part), None
    for op in made:
        op.result.type = replace(buffer_of(op.result), stages=stages)
        build.insert(op)
    for stage in range(stages - 1):
        at = build.constant(stage, I32), stage
        comes, mapping = _copy(part, loads, made, mapping, at, comes, build)
    assert comes is not None
    first, one, none = (build.constant(n, I32) for n in (0, 1, 0))
    last, count = build.constant(stages - 1, I32), build.constant(stages, I32)
    phi, more = make_phi([first], [before], "stage"), make_phi([comes], [before], "comes")
    later = [make_phi([mapping[old.result]], [before], old.result.name) for old in part.phis]
    loop.header.ops[:0] = [phi, more, *later]
    old, body.ops = body.ops, []
    build = Builder(body)
    build.emit("async_wait", pending=stages - 2)
    values = []  # they are read before the next copies, behind which a thread would wait for them
    for op, buffer in zip(loads, made, strict=True):
        build.span = op.span
        view = build.value("buffer_stage", buffer.result, phi.result, ahead=0)
        values.append(build.value("shared_load", view, type=op.result.type))
    at_end = build.value("icmp", phi.result, first, predicate="eq")
    free = build.value("select", at_end, last, build.value("sub", phi.result, one))
    comes, mapping = _copy(part, loads, made, {a.result: b.result for a, b in zip(
        part.phis, later, strict=True)}, (free, stages - 1), more.result, build)
    add_incoming(more, comes, body)
    for a, b in zip(part.phis, later, strict=True):
        add_incoming(b, mapping[a.result], body)
    following = build.value("add", phi.result, one)
    wraps = build.value("icmp", following, count, predicate="eq")
    turn = build.value("select", wraps, none, following)
    replaced: dict[Value, Value] = {}
    for op in old:
        if op in loads:
            build.span, value = op.span, values[loads.index(op)]
            if op.guard is not None and not fills_zeros(op):
                value = build.value("select", op.guard, value, build.constant(
                    op.attributes["other"], value.type))
            value.name, replaced[op.result] = op.result.name, value
        else:
            build.insert(op)
    kernel.replace(replaced)
    add_incoming(phi, turn, body)
    context.remark("load_ahead", f"copied {stages - 1} iterations ahead", loads[0].span)
    return True


def _copy(part: Slice, loads: list[Op], buffers: list[Op], mapping: dict[Value, Value],
          stage: tuple[Value, int], before: Value | None, build: Builder
          ) -> tuple[Value, dict[Value, Value]]:
    """Start the copies of an iteration, if it comes, to a stage so far ahead; whether it and all
    before it come, and the phis of the next one."""
    condition, here = part.loop.header.terminator.operands[0], {**mapping}
    for op in copy_ops(needed(part.ops, [condition, *(v for load in loads
                                                      for v in load.inputs())]), here):
        build.insert(op)
    comes = here.get(condition, condition)
    if before is not None:
        comes = build.value("and", before, comes)
    for load, buffer in zip(loads, buffers, strict=True):
        build.span = load.span
        view = build.value("buffer_stage", buffer.result, stage[0], ahead=stage[1])
        pointer = here.get(load.operands[0], load.operands[0])
        build.emit("async_copy", view, pointer, comes,
                   guard=load.guard and here.get(load.guard, load.guard))
    build.emit("async_commit")
    steps, following = advance(part, {**mapping})
    for op in steps:
        build.insert(op)
    return comes, following


def _place(load: Op, infos: axis_info.Infos) -> tuple[Op, int] | None:
    """A buffer that has what each thread loads, so that it copies the widest pieces that memory
    has; the elements of a piece."""
    t = load.result.type
    if not isinstance(t, Tile) or t.layout is None or load.attributes.get("volatile"):
        return None
    size = scalar(t).bytes
    for held in range(min(_along(t.layout), log2(PIECE // size)), -1, -1):
        buffer = own_buffer(t, 1, held, span=load.span)
        if copy_width(load.operands[0], load.guard, buffer.result, infos) == size << held:
            return buffer, 1 << held
    return None


def _along(layout: Layout) -> int:
    """How many of the first registers' bits are those of neighbours along one axis, which pieces of
    memory are."""
    found, steps = 0, [layout.coordinates(basis) for basis in layout.register]
    while found < len(steps) and sum(steps[0]) == 1 and steps[found] == tuple(
            n << found for n in steps[0]):
        found += 1
    return found
