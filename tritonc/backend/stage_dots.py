"""stage_dots: the operands of dots go where their instruction reads them.

On CUDA cores, through shared memory:

    %d = dot %a, %b, %c        ->      %s = alloc_shared : buffer<1 x f32<M, K>>
                                       %t = alloc_shared : buffer<1 x f32<K, N>>
                                       shared_store %s, %a
                                       shared_store %t, %b
                                       %d = fma_dot %s, %t, %c

Every thread reads rows of one operand and columns of the other that other threads loaded.  In
shared memory the axis that is not reduced is contiguous, so that a thread reads a nano-tile's four
rows (or columns) of one k at once.

An operand that comes with K contiguous is turned on its way.  Lanes that differ in k alone would
then hit one bank, so their bits are XORed into the bank (`staging_layout`).

Products with batches, which are small (`split_dots` makes them), read such an operand as it comes,
four k of a row at once: the copy is as wide as the load.  Its buffer is that of a conversion
between the layout of the load and what the product reads (`layout_choice.fma_operand`).  Large
products lose by it: numbers of one k then lie in one bank of the register file.  Elements of less
than a word would fill too many registers.

For mma.sync the operands are read back into fragments (`shared_load`), by ldmatrix where it fits;
for wgmma they stay in shared memory, with a fence between the stores and its reads, which go
another way to memory.  Both want the 128-byte swizzle, in whichever order the operand was
loaded.  A left operand that was computed from another dot's result goes from registers to
registers.

Needs layouts.  Leaves barriers to insert_barriers and overlap to prefetch and pipeline.
"""

from __future__ import annotations

from tritonc.backend import matrix
from tritonc.backend.access import bank_conflicts
from tritonc.backend.conversion import Shared, plan_conversion
from tritonc.backend.layout_choice import fma_operand
from tritonc.backend.machine_ops import ALL_OPS
from tritonc.backend.swizzle import conversion_buffer
from tritonc.ir import f2
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layout import Layout, SharedLayout, axis_bases, log2
from tritonc.ir.shared_layout import BANK_BYTES, BANKS, row_major, tensor_core, transpose
from tritonc.ir.types import F8E4M3, F8E5M2, TF32, Buffer, Tile, scalar, shape, with_layout

PROMOTED = 128  # elements of k that 8-bit floats add in the tensor cores' own format


def stage_dots(kernel: Kernel, context: Context) -> bool:
    """Replace every generic dot by a machine dot on staged operands."""
    buffers: list[Op] = []
    replaced: dict[Value, Value] = {}
    warps = kernel.attributes["num_warps"]
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name != "dot":
                ops.append(op)
                continue
            name = op.attributes.get("instruction")
            row = matrix.BY_NAME[name] if name is not None else None
            if row is None:
                new = _on_cores(op, buffers)
            elif row.kind == matrix.MMA:
                new = _in_warps(op, row, warps, buffers)
            else:
                new = _in_warpgroups(op, row, warps, buffers, not context.fast_math)
            new[-1].result.name = op.result.name
            replaced[op.result] = new[-1].result
            ops += new
        block.ops = ops
    kernel.entry.ops[:0] = buffers
    kernel.replace(replaced)
    _store_early(kernel)
    return bool(replaced)


def _store_early(kernel: Kernel) -> None:
    """Each store to shared memory right behind what it stores.

    Registers are free sooner, and what does not change in a loop is stored before it.
    """
    behind: dict[Op, list[Op]] = {}
    for block in kernel.blocks:
        for op in block.ops:
            source = op.operands[1].op if op.name == "shared_store" else None
            if source is not None:
                behind.setdefault(source, []).append(op)
    moved = {op for stores in behind.values() for op in stores}
    for block in kernel.blocks:
        found: list[Op] = []
        waiting: list[Op] = []  # stores of phis come after all phis
        for op in block.ops:
            if op.name != "phi":
                found += waiting
                waiting = []
            if op not in moved:
                found.append(op)
                (waiting if op.name == "phi" else found).extend(behind.get(op, []))
        block.ops = found


def _on_cores(op: Op, buffers: list[Op]) -> list[Op]:
    a, b, c = op.operands
    ops: list[Op] = []
    result, depth = _layout(op.result), shape(a.type)[-1]
    staged = []
    for operand, axis in ((a, -2), (b, -1)):
        source, e = _layout(operand), scalar(operand.type)
        inner = axis_bases(source.shape, len(source.shape) - 3 - axis)
        if len(source.shape) > 2 and e.bytes >= BANK_BYTES and inner \
                and inner[0] in source.register:
            layout = conversion_buffer(source, fma_operand(result, depth, operand is a), e.bits)
        else:
            layout = staging_layout(source, axis, e.bytes)
        staged.append(_store(operand, layout, buffers, ops, ("trans", "reshape")))
    return [*ops, make_op("fma_dot", [*staged, c], span=op.span, table=ALL_OPS)]


def _in_warps(op: Op, row: matrix.MatrixInstruction, warps: int, buffers: list[Op]) -> list[Op]:
    a, b, c = op.operands
    ops: list[Op] = []
    wanted = matrix.operand_layouts(row, shape(op.result.type), shape(a.type)[-1], warps)
    fragments: list[Value] = []
    for operand, layout in zip((a, b), wanted, strict=True):
        assert layout is not None
        if not _needs_memory(operand, layout):
            move = make_op("convert_layout", [operand], with_layout(operand.type, layout),
                           span=op.span, table=ALL_OPS)
        else:
            buffer = _store(operand, panel_layout(operand), buffers, ops)
            move = make_op("shared_load", [buffer], with_layout(operand.type, layout),
                           span=op.span, table=ALL_OPS)
        move.result.name = operand.name
        ops.append(move)
        fragments.append(move.result)
    return [*ops, make_op("mma_dot", [*fragments, c], span=op.span, table=ALL_OPS,
                          instruction=row.name)]


def _in_warpgroups(op: Op, row: matrix.MatrixInstruction, warps: int, buffers: list[Op],
                   exact: bool) -> list[Op]:
    a, b, c = op.operands
    ops: list[Op] = []
    wanted, _ = matrix.operand_layouts(row, shape(op.result.type), shape(a.type)[-1], warps)
    if _needs_memory(a, wanted):
        left = _store(a, panel_layout(a, inner=None if row.transposes else 1), buffers, ops)
    else:
        move = make_op("convert_layout", [a], with_layout(a.type, wanted), span=op.span,
                       table=ALL_OPS)
        ops.append(move)
        left = move.result
    right = _store(b, panel_layout(b, inner=None if row.transposes else 0), buffers, ops)
    for store in ops:
        if store.name == "shared_store" and row.operand == TF32:
            store.attributes["round"] = True  # wgmma would cut the numbers that it reads
    ops.append(make_op("proxy_fence", [], span=op.span, table=ALL_OPS))
    if exact and row.operand in (F8E4M3, F8E5M2):
        return [*ops, *_promoted(op, row, left, right)]
    return [*ops, *_started(op, row, left, right, c)]


def _started(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value, c: Value,
             inner: tuple[int, int] | None = None) -> list[Op]:
    start = make_op("wgmma", [left, right, c], span=op.span, table=ALL_OPS, instruction=row.name)
    if inner is not None:
        start.attributes["inner"] = inner
    return [start, make_op("wgmma_wait", [start.result], span=op.span, table=ALL_OPS, pending=0)]


def _promoted(op: Op, row: matrix.MatrixInstruction, left: Value, right: Value) -> list[Op]:
    """Products of at most PROMOTED elements each from zero, added as floats.

    The tensor cores keep some 14 bits of a sum of products of 8-bit floats.  With -ffast-math
    that is enough, and the accumulators stay theirs.
    """
    total, depth = op.operands[2], shape(right.type)[0]
    zero = make_op("constant", [], op.result.type, span=op.span, value=0.0)
    ops = [zero]
    for start in range(0, depth, PROMOTED):
        part = (start, min(start + PROMOTED, depth))
        ops += _started(op, row, left, right, zero.result, part if depth > PROMOTED else None)
        ops.append(make_op("fadd", [total, ops[-1].result], span=op.span))
        total = ops[-1].result
    return ops


def _layout(value: Value) -> Layout:
    assert isinstance(value.type, Tile) and value.type.layout is not None
    return value.type.layout


def _needs_memory(operand: Value, layout: Layout) -> bool:
    """Whether the operand reaches a fragment layout only through shared memory."""
    plan = plan_conversion(_layout(operand), layout, scalar(operand.type).bits)
    return isinstance(plan, Shared) or _loaded(operand)


def _loaded(value: Value) -> bool:
    """Whether the value comes from memory by elementwise operations only."""
    while value.op is not None and ALL_OPS[value.op.name].elementwise and value.op.operands:
        value = value.op.operands[-1]
    return value.op is not None and value.op.name in ("load", "trans")


def _store(operand: Value, layout: SharedLayout, buffers: list[Op], ops: list[Op],
           moves: tuple[str, ...] = ("trans",)) -> Value:
    """Store the operand to a new buffer; the buffer, or the view of it that has `layout`.

    What operations of `moves` made is stored as it was before, and the buffer is seen so.
    """
    span, source, held = operand.op.span if operand.op else None, operand, layout
    views: list[Op] = []  # from the last
    while source.op is not None and source.op.name in moves:
        (before,) = source.op.operands
        if not isinstance(before.type, Tile):
            break
        view = Op(f"buffer_{source.op.name}", [], dict(source.op.attributes),
                  (Buffer(scalar(operand.type), held.shape, 1, held),), span=span)
        views.append(view)
        if source.op.name == "trans":
            order = source.op.attributes["permutation"]
            held = transpose(held, sorted(range(len(order)), key=lambda d: order[d]))
        else:
            held = SharedLayout(shape(before.type), held.offset, held.alignment)
        source = before
    buffer = make_op("alloc_shared", [], Buffer(scalar(source.type), shape(source.type), 1, held),
                     table=ALL_OPS, span=span)
    buffer.result.name = f"{source.name}_shared" if source.name else "shared"
    buffers.append(buffer)
    ops.append(make_op("shared_store", [buffer.result, source], table=ALL_OPS, span=span))
    seen = buffer.result
    for view in reversed(views):
        view.operands = [seen]
        ops.append(view)
        seen = view.result
    return seen


def contiguous_axis(layout: Layout) -> int:
    """The axis along which a thread, or else neighbouring lanes, hold neighbours."""
    def run(axis: int) -> tuple[int, bool, int]:
        steps = axis_bases(layout.shape, axis)
        held = 0
        while held < len(steps) and steps[held] in layout.register:
            held += 1
        first_lane = bool(steps[held:]) and steps[held] == layout.lane[0]
        return held, first_lane, axis

    return max(range(len(layout.shape)), key=run)


def panel_layout(operand: Value, inner: int | None = None) -> SharedLayout:
    """The swizzled layout that ldmatrix and wgmma read, contiguous along `inner`, or as loaded."""
    layout = _layout(operand)
    size = scalar(operand.type).bytes
    axis = contiguous_axis(layout) if inner is None else inner
    order = (axis, *[d for d in reversed(range(len(layout.shape))) if d != axis])
    row = layout.shape[axis] * size
    for swizzle in (128, 64, 32):
        if row >= swizzle:
            return tensor_core(layout.shape, order, size, swizzle)
    if row >= 16:
        return tensor_core(layout.shape, order, size, 0)
    return row_major(layout.shape, order)


def staging_layout(layout: Layout, axis: int, element_bytes: int) -> SharedLayout:
    """A shared layout with `axis` contiguous, free of bank conflicts for stores from `layout`.

    Reads take 16 bytes along `axis` at one position of the others, which the compiler knows: so an
    XOR with bits of that position keeps the words whole, and inside a word it permutes elements in
    a way known to the compiler.  The bank bits that no lane reaches by its steps along
    `axis` are given, by XOR, to lanes that step along the other axes.

    >>> from tritonc.ir.layout import Layout
    >>> k_contiguous = Layout((32, 16), (1, 2), (4, 8, 16, 32, 64), (128, 256))
    >>> staging_layout(k_contiguous, 0, 4).index[:4]      # k steps 1, 2 as they are; 4, 8 swizzled
    (32, 64, 136, 272)
    """
    extents = layout.shape
    axis %= len(extents)
    order = (axis, *[d for d in reversed(range(len(extents))) if d != axis])
    plain = row_major(extents, order)
    if bank_conflicts(layout, plain, 8 * element_bytes) == 1:
        return plain
    index = list(plain.index)
    along = axis_bases(extents, axis)
    reached = {log2(plain.offset_of(basis)) for basis in layout.lane if basis in along}
    free = [bit for bit in range(log2(max(1, BANK_BYTES // element_bytes)),
                                 min(log2(BANKS * BANK_BYTES // element_bytes), len(along)))
            if bit not in reached]
    for basis in layout.lane:
        if basis and basis not in along and free:
            index[log2(basis)] ^= 1 << free.pop(0)
    swizzled = SharedLayout(extents, f2.inverse(tuple(index)), plain.alignment)
    return min(plain, swizzled, key=lambda s: bank_conflicts(layout, s, 8 * element_bytes))
