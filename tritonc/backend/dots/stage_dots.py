"""stage_dots: operands of products go to shared memory or registers, as their instruction reads
them.

On CUDA cores, through shared memory:

    %d = dot %a, %b, %c        ->      %s = alloc_shared : buffer<1 x f32<M, K>>
                                       %t = alloc_shared : buffer<1 x f32<K, N>>
                                       shared_store %s, %a
                                       shared_store %t, %b
                                       %d = fma_dot %s, %t, %c

Every thread reads rows of one operand and columns of the other that other threads loaded.  In
shared memory the axis that is not reduced is contiguous, so that a thread reads a nano-tile's four
rows (or columns) of one k at once.

An operand that comes with K contiguous is transposed on its way.  Lanes that differ in k alone
would then hit one bank, so their bits are XORed into the bank (`staging_layout`).

A `channel` (`raw_operands`) becomes a buffer in the order that its tile has in memory, a store to
it and a load from it: the store is for `pipeline` to replace.

Products with batches, which are small (`slice_k` makes them), read such an operand as it comes,
four k of a row at once: the copy is as wide as the load.  Its buffer is that of a conversion
between the layout of the load and what the product reads (`layout_choice.fma_operand`).  Large
products lose by it: numbers of one k then lie in one bank of the register file.  Elements of less
than a word would fill too many registers.

For mma.sync the operands are read back into fragments (`shared_load`), by ldmatrix where it fits;
for wgmma they stay in shared memory, with a fence between the stores and its reads, which go
another way to memory.  Both want the 128-byte swizzle, in whichever order the operand was
loaded.  A left operand that was computed from another dot's result goes from registers to
registers.

Operands that do not fit into the target's shared memory, beside what else is in use there, go in
slices of k, one after the other through the same buffers:

    shared_store %s, %a {bits = [128], index = 0}        the first half of k
    shared_store %t, %b {bits = [1024], index = 0}
    %e = fma_dot %s, %t, %c
    shared_store %s, %a {bits = [128], index = 1}
    shared_store %t, %b {bits = [1024], index = 1}
    %d = fma_dot %s, %t, %e

An operand that several products read in one layout is stored once (`share_operands`).  What else
reads its load, such as sums beside the product, reads it there (`read_operands`).

Needs layouts.  Leaves barriers to insert_barriers and overlap to pipeline."""

from collections.abc import Callable, Sequence
from typing import Any

from tritonc.backend.dots.keep_tables import keep_tables
from tritonc.backend.dots.promote import promoted, started
from tritonc.backend.dots.read_operands import read_operands
from tritonc.backend.dots.share_operands import share_operands
from tritonc.backend.dots.staged_operand import InMemory, InRegisters, slices_of
from tritonc.backend.launch.persist import rare_programs
from tritonc.backend.layout.conversion import Shared, layout_of, part_layout, plan_conversion
from tritonc.backend.layout.dot_layouts import fma_operand, operand_layouts, operands_in_registers
from tritonc.backend.layout.staging_layout import panel_layout, staging_layout
from tritonc.backend.layout.swizzle import conversion_buffer
from tritonc.backend.memory.masks.unwrap_indices import mark_unread
from tritonc.backend.shared.allocate_shared import fits
from tritonc.backend.shared.shared_memory import allocate
from tritonc.backend.target import matrix
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout, SharedLayout, axis_bases
from tritonc.ir.layouts.shared_layout import BANK_BYTES, tensor_row, transpose
from tritonc.ir.types import F8E4M3, F8E5M2, TF32, Buffer, Tile, scalar, shape

RARE = 16 * 1024  # bytes of the operands of a body that few programs take
_MOVES = ("trans", "reshape")  # operations whose results are views of a buffer


def stage_dots(kernel: Kernel, context: Context) -> bool:
    """Replace every generic dot by a machine dot on staged operands."""
    target: Target = context.target
    warps, exact = kernel.attributes["num_warps"], not context.fast_math
    rare = rare_programs(kernel)
    if "tensor_map" in target.features and any(
            "wgmma" in op.attributes.get("instruction", "") for op in kernel.ops()):
        mark_unread(kernel)
    staged: list[_Staged] = []
    raw: list[Op] = []  # buffers of what is brought as memory has it
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "dot":
                staged.append(_Staged(op, warps, exact))
                if block in rare:  # the others shall have the memory
                    staged[-1].thin(RARE)
                ops += staged[-1].ops
            elif op.name == "channel":
                ops += _channel(op, raw)
            else:
                ops.append(op)
        block.ops = ops
    kernel.entry.ops[:0] = [*raw, *(buffer for one in staged for buffer in one.buffers)]
    _replace(kernel, staged, {one.dot.result: one.ops[-1].result for one in staged})
    _store_early(kernel)
    undo = share_operands(kernel)
    if not fits(kernel, target.shared_per_block):
        undo()
        _fit(kernel, staged, target.shared_per_block)
        share_operands(kernel)
    read_operands(kernel)
    keep_tables(kernel)
    for one in staged:
        if one.bits > one.chosen_bits:
            context.remark("stage_dots", f"this product is computed in {1 << one.bits} slices of "
                           "its inner axis: its operands do not fit into shared memory",
                           one.dot.span, missed=True)
    return bool(staged)


Operands = Sequence[InMemory | InRegisters]
Product = Callable[[Value], list[Op]]  # of what is seen of operands, added to a sum


class _Staged:
    """A dot and what computes it, in 1 << `bits` slices of its inner axis."""

    def __init__(self, dot: Op, warps: int, exact: bool) -> None:
        name = dot.attributes.get("instruction")
        self.dot, self.warps, self.exact = dot, warps, exact
        self.row = matrix.BY_NAME[name] if name is not None else None
        self.chosen_bits = 0  # bits that it has without need
        self.stage(0)

    def thin(self, limit: int) -> None:
        """Take no more than so many bytes, if slices can be so thin."""
        while self.thinner and self.bytes > limit:
            self.stage(self.bits + 1)
        self.chosen_bits = self.bits

    def stage(self, bits: int) -> None:
        """Make `buffers` and `ops`, of which the last has the result."""
        self.bits, self.buffers, self.ops = bits, list[Op](), list[Op]()
        if self.row is None:
            operands, product = _on_cores(self.dot, bits, self.buffers)
        elif self.row.kind == matrix.MMA:
            operands, product = _in_warps(self.dot, self.row, self.warps, bits, self.buffers)
        else:
            operands, product = _in_warpgroups(self.dot, self.row, self.warps, bits,
                                               self.buffers, self.exact)
        total = self.dot.operands[2]
        for index in range(1 << bits):
            self.ops += [op for one in operands for op in one.ready(index)]
            self.ops += product(total)
            total = self.ops[-1].result
        total.name = self.dot.result.name

    @property
    def thinner(self) -> bool:
        if self.row is not None and len(shape(self.dot.result.type)) > 2 and (
                self.row.kind == matrix.WGMMA or "registers" in self.dot.attributes):
            return False
        return shape(self.dot.operands[0].type)[-1] >> self.bits > (self.row.depth if self.row
                                                                    else 1)

    @property
    def bytes(self) -> int:
        return sum(op.result.type.bytes for op in self.buffers
                   if isinstance(op.result.type, Buffer))


def _replace(kernel: Kernel, staged: list[_Staged], mapping: dict[Value, Value]) -> None:
    kernel.replace(mapping)
    for one in staged:
        one.dot.replace_inputs(mapping)


def _fit(kernel: Kernel, staged: list[_Staged], limit: int) -> None:
    """Halve the slices of the largest operands until what is in use at once fits into `limit`
    bytes, or no slice can be thinner: then allocate_shared complains."""
    while not fits(kernel, limit):
        able = [one for one in staged if one.thinner]
        if not able:
            return
        one = max(able, key=lambda one: one.bytes)
        dropped, last = {*one.ops, *one.buffers}, one.ops[-1]
        one.stage(one.bits + 1)
        for block in kernel.blocks:
            block.ops = [new for op in block.ops for new in (one.ops if op is last else [op])
                         if new not in dropped]
        kernel.entry.ops[:0] = one.buffers
        _replace(kernel, staged, {last.result: one.ops[-1].result})


def _store_early(kernel: Kernel) -> None:
    """Each store to shared memory right behind what it stores, but those of slices, which take
    transposes in a buffer.

    Registers are free sooner, and what does not change in a loop is stored before it."""
    behind: dict[Op, list[Op]] = {}
    for op in kernel.ops():
        whole = op.name == "shared_store" and "index" not in op.attributes
        source = op.operands[1].op if whole else None
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


def _channel(op: Op, buffers: list[Op]) -> list[Op]:
    """A tile by way of a buffer in the order that it has in memory.  The result stays the same
    value, for whoever reads it."""
    (source,) = op.operands
    buffer = allocate(scalar(source.type), _panel(source, ()), span=op.span,
                      named=f"{source.name}_raw" if source.name else "raw")
    buffers.append(buffer)
    op.name, op.operands, op.attributes = "shared_load", [buffer.result], {}
    return [make_op("shared_store", [buffer.result, source], span=op.span), op]


def _on_cores(op: Op, bits: int, buffers: list[Op]) -> tuple[Operands, Product]:
    a, b, _ = op.operands
    result, depth = layout_of(op.result), shape(a.type)[-1] >> bits
    staged = []
    for operand, axis in ((a, -2), (b, -1)):
        inner, e = -3 - axis, scalar(operand.type)
        slices = slices_of(operand, inner, bits)
        source = part_layout(layout_of(operand), slices)
        steps = axis_bases(source.shape, inner)
        if len(source.shape) > 2 and e.bytes >= BANK_BYTES and steps \
                and steps[0] in source.register:
            layout = conversion_buffer(source, fma_operand(result, depth, operand is a), e.bits)
        else:
            layout = staging_layout(source, axis, e.bytes)
        staged.append(InMemory(operand, layout, slices, buffers, _MOVES))
    part: dict[str, Any] = {} if bits else _taking_part(op, 1)
    return staged, lambda total: [
        make_op("fma_dot", [*(one.seen for one in staged), total], span=op.span, **part,
                **matrix.sign(op))]


def _in_warps(op: Op, row: matrix.MatrixInstruction, warps: int, bits: int, buffers: list[Op]
              ) -> tuple[Operands, Product]:
    a, b, _ = op.operands
    extents, depth = shape(op.result.type), shape(a.type)[-1]
    whole, thin = (operand_layouts(op, k, warps) for k in (depth, depth >> bits))
    staged: list[InMemory | InRegisters] = []
    computed = op.attributes.get("registers", ())
    part: dict[str, Any] = {} if bits else _taking_part(op, row.depth)
    rounded = list[int]()  # by threads that store: others read an element several times
    for number, (operand, layout, axis) in enumerate(zip((a, b), whole, (-1, -2), strict=True)):
        assert layout is not None
        slices = slices_of(operand, axis, bits)
        if number not in computed and _needs_memory(operand, layout):
            rounds = row.operand == TF32 and not _loaded(operand)
            rounded += [number] if rounds else []
            staged.append(InMemory(operand, _seen_panel(operand, slices), slices, buffers,
                                   _MOVES if len(extents) > 2 else _MOVES[:1], rounds))
        else:
            staged.append(InRegisters(operand, layout, slices, op.span))

    def product(total: Value) -> list[Op]:
        ops, fragments = list[Op](), list[Value]()
        for one, operand, to in zip(staged, (a, b), thin, strict=True):
            if isinstance(one, InMemory):
                assert to is not None
                t = Tile(scalar(operand.type), to.shape, to)
                ops.append(make_op("shared_load", [one.seen], t, span=op.span,
                                   named=operand.name))
            fragments.append(ops[-1].result if isinstance(one, InMemory) else one.seen)
        dot = make_op("mma_dot", [*fragments, total], span=op.span, instruction=row.name,
                      **part, **matrix.sign(op))
        if rounded:
            dot.attributes["rounded"] = tuple(rounded)
        return [*ops, dot]

    return staged, product


def _in_warpgroups(op: Op, row: matrix.MatrixInstruction, warps: int, bits: int,
                   buffers: list[Op], exact: bool) -> tuple[Operands, Product]:
    a, b, _ = op.operands
    computed, _ = operands_in_registers(op, warps)
    wanted = computed or matrix.operand_layouts(row, shape(op.result.type), shape(a.type)[-1],
                                                warps)[0]
    flat, rounds = len(shape(a.type)) == 2, row.operand == TF32  # else wgmma would cut numbers

    def in_memory(operand: Value, inner: int) -> InMemory:
        slices = slices_of(operand, inner, bits)
        panel = _panel(operand, slices, None if row.transposes else inner % 2) if flat \
            else _seen_panel(operand, slices)
        return InMemory(operand, panel, slices, buffers, _MOVES[:1] if flat else _MOVES, rounds)

    left = in_memory(a, -1) if computed is None and _needs_memory(a, wanted) \
        else InRegisters(a, wanted, slices_of(a, -1, bits), op.span)
    right = in_memory(b, -2)

    def product(total: Value) -> list[Op]:
        fence = make_op("proxy_fence", [], span=op.span)
        if exact and row.operand in (F8E4M3, F8E5M2):
            return [fence, *promoted(op, row, left.seen, right.seen, total)]
        part = None if bits else _taking_part(op, row.depth)
        return [fence, *started(op, row, left.seen, right.seen, total, part)]

    return (left, right), product


def _taking_part(dot: Op, step: int) -> dict[str, tuple[int, int]]:
    """The k that are no padding, in steps of the instruction; nothing for all."""
    first, last = dot.attributes.get("inner", (0, 0))
    last = -(-last // step) * step
    part = 0 < last < shape(dot.operands[0].type)[-1]
    return {"inner": (first, last)} if part else {}


def _needs_memory(operand: Value, layout: Layout) -> bool:
    """Whether the operand reaches a fragment layout only through shared memory."""
    plan = plan_conversion(layout_of(operand), layout, scalar(operand.type).bits)
    return isinstance(plan, Shared) or _loaded(operand)


def _loaded(value: Value) -> bool:
    """Whether the value comes from memory by elementwise operations only."""
    while value.op is not None and value.op.operands and (
            value.op.info.elementwise
            or (value.op.name == "reshape" and len(shape(value.type)) > 2)):
        value = value.op.operands[-1]
    return value.op is not None and value.op.name in ("load", "trans")


def _seen_panel(operand: Value, slices: tuple[int, ...]) -> SharedLayout:
    """The panels of an operand; of one with a batch those of the matrix that it is a view of."""
    made = operand.op
    if len(shape(operand.type)) == 2 or slices or made is None or made.name not in _MOVES:
        return _panel(operand, slices)
    before = _seen_panel(made.operands[0], slices)
    if made.name == "trans":
        return transpose(before, made.attributes["permutation"])
    return SharedLayout(shape(operand.type), before.offset, before.alignment)


def _panel(operand: Value, slices: tuple[int, ...], inner: int | None = None) -> SharedLayout:
    part = part_layout(layout_of(operand), slices)
    if len(part.shape) == 1:
        return tensor_row(*part.shape)
    return panel_layout(part, scalar(operand.type).bytes, inner)
