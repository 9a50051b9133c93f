"""Addresses: registers that differ by a constant share one, and accesses take the constants."""

from tritonc.backend.emit.elements.packed import each_register
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import address_space, llvm_type, memory_type
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import coordinates
from tritonc.ir.types import Pointer, element, shape

# Addresses of a pointer among which LLVM looks for sums to share.  Straight-line strength reduction
# subtracts the offset of each from those of all before it: 1472 of a Winograd product take 6.3 s of
# LLVM, 2.7 by windows of 64.  But fewer are found in common: by 64, beyond the first 128, pooling
# of 13 x 88 planes took 1.37 times as long (H200).
WINDOW = 256


def addptr(f: FunctionEmitter, op: Op) -> None:
    """The index of getelementptr is signed, of any width.

    Registers often differ by a constant.  It is kept apart, so that they share one address and the
    constants go into the accesses; the index is taken not to wrap."""
    pointer = element(op.result.type)
    assert isinstance(pointer, Pointer)
    t, at, index = memory_type(pointer.element), llvm_type(pointer), f.type(op.operands[1])
    emit, parts, size = f.op, f.constant_parts, pointer.element.bytes
    addresses: dict[tuple[str, str], str] = {}

    def compute(p: str, i: str) -> str:
        first, m = parts.get(p, (p, 0))
        second, n = parts.get(i, (i, 0))
        distance = m + n * size
        base = addresses.get((first, second))
        if base is None:
            start = _renamed(f, first, pointer)
            base = emit(f"getelementptr {t}, {at} {start}, {index} {second}")
            addresses[first, second] = base
        if not distance:
            return base
        total = emit(f"getelementptr i8, {at} {base}, i64 {distance}")
        parts[total] = base, distance
        return total

    each_register(f, op, compute)


def _renamed(f: FunctionEmitter, pointer: str, t: Pointer) -> str:
    """The pointer that one more address starts from: beyond the first addresses of a function under
    a new name for each WINDOW in a block."""
    made = f.addresses[pointer] = f.addresses.get(pointer, 0) + 1
    if made <= 2 * WINDOW:
        return pointer
    name, uses = f.renamed.get((f.label, pointer), ("", WINDOW))
    if uses == WINDOW:
        name, uses = f.call(f"llvm.launder.invariant.group.p{address_space(t)}", llvm_type(t),
                            f"{llvm_type(t)} {pointer}"), 0
    f.renamed[f.label, pointer] = name, uses + 1
    return name


def step_pointers(f: FunctionEmitter, op: Op) -> None:
    """The address of the first register; from each, that of a register with one bit more."""
    pointer = element(op.result.type)
    assert isinstance(pointer, Pointer)
    p, offset, *strides = op.operands
    t, at, size = memory_type(pointer.element), llvm_type(pointer), pointer.element.bytes
    layout, extents = f.layout(op.result), shape(op.result.type)
    known = {0: f.op(f"getelementptr {t}, {at} {f.values[p][0]}, {f.type(offset)} "
                     f"{f.scalar(offset)}")}
    steps: dict[int, tuple[int, str]] = {}  # bit -> constant bytes, elements

    def distance(bit: int) -> tuple[int, str]:
        """How far a register bit moves: bytes, and elements as an operand ("" for none)."""
        if bit not in steps:
            fixed, moving = 0, ""
            for n, stride in zip(coordinates(extents, layout.register[bit]), strides, strict=True):
                by = f.scalar(stride)
                if n and by.lstrip("-").isdigit():
                    fixed += n * int(by) * size
                elif n:
                    part = f.op(f"mul i64 {by}, {n}") if n > 1 else by
                    moving = f.op(f"add i64 {moving}, {part}") if moving else part
            steps[bit] = fixed, moving
        return steps[bit]

    def address(register: int) -> str:
        """The address without its constant part."""
        if register not in known:
            bit = register.bit_length() - 1
            before, (_, moving) = address(register ^ 1 << bit), distance(bit)
            known[register] = before if not moving else f.op(
                f"getelementptr {t}, {at} {before}, i64 {moving}")
        return known[register]

    found = f.blank(op.result.type)
    for r in members(f.demanded(op.result)):
        base, fixed = address(r), sum(distance(bit)[0] for bit in members(r))
        found[r] = base
        if fixed:
            found[r] = f.op(f"getelementptr i8, {at} {base}, i64 {fixed}")
            f.constant_parts[found[r]] = base, fixed
    f.values[op.result] = found


def ptrdiff(f: FunctionEmitter, op: Op) -> None:
    pointer = element(op.operands[0].type)
    assert isinstance(pointer, Pointer)
    t, size = llvm_type(pointer), pointer.element.bytes

    def subtract(p: str, q: str) -> str:
        a, b = f.op(f"ptrtoint {t} {p} to i64"), f.op(f"ptrtoint {t} {q} to i64")
        distance = f.op(f"sub i64 {a}, {b}")
        return distance if size == 1 else f.op(f"sdiv i64 {distance}, {size}")

    each_register(f, op, subtract)


def same(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = f.values[op.operands[0]]


EMITTERS: dict[str, Emitter] = {
    "addptr": addptr, "step_pointers": step_pointers, "ptrdiff": ptrdiff, "assume_multiple": same,
    "assume_positive": same}
