"""Constants, and the indices from which addresses are made: of threads, programs and tiles."""

from collections.abc import Callable

from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import literal
from tritonc.backend.emit.registers import members, registers
from tritonc.backend.emit.warps import from_words, shuffle_index, to_words
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import element, scalar

_AXES = "xyz"


def make_range(f: FunctionEmitter, op: Op) -> None:
    """The index of each register: the thread's part and a constant."""
    layout, start = f.layout(op.result), op.attributes["start"]
    base, combine = f.linear(layout.thread), "or disjoint"
    if start:
        base, combine = f.prelude(f"add nsw i32 {base}, {start}"), "add nsw"
    f.values[op.result] = found = f.blank(op.result.type)
    for r in members(f.demanded(op.result)):
        step = layout.at(register=r)
        found[r] = f.prelude(f"{combine} i32 {base}, {step}") if step else base
        if step:
            f.constant_parts[found[r]] = base, step
    if start >= 0:
        f.greatest[base] = start + sum(layout.thread)
        for name in found:
            f.ranges[name] = f.constant_parts.get(name, (name, 0))


def special_register(f: FunctionEmitter, name: str, axis: int) -> str:
    return f.prelude_call(f"llvm.nvvm.read.ptx.sreg.{name}.{_AXES[axis]}")


def program_id(f: FunctionEmitter, axis: int) -> str:
    """The blocks of a cluster, which lie along z, are one program."""
    return _of_programs(f, "ctaid", axis)


def _of_programs(f: FunctionEmitter, name: str, axis: int) -> str:
    programs = f.kernel.attributes.get("programs", 1) if axis == 0 else 1
    if programs > 1:
        return _of_packed(f, name, programs)
    blocks = f.kernel.attributes.get("cluster", 1) if axis == 2 else 1
    if blocks > 1 and "workspace" in f.kernel.attributes:  # blocks that share a program, no cluster
        return f.prelude(f"udiv i32 {special_register(f, name, axis)}, {blocks}")
    return special_register(f, name.replace("cta", "cluster") if blocks > 1 else name, axis)


def _of_packed(f: FunctionEmitter, name: str, programs: int) -> str:
    """Of blocks of several programs; their shape says how many the last one lacks
    (`variants.choice.block_shape`)."""
    first = f.prelude(f"mul i32 {special_register(f, name, 0)}, {programs}")
    if name == "nctaid":
        y, z = (f.prelude(f"sub i32 {special_register(f, 'ntid', axis)}, 1") for axis in (1, 2))
        lacking = f.prelude(f"add i32 {z}, {f.prelude(f'shl i32 {y}, 1')}")
        return f.prelude(f"sub i32 {first}, {lacking}")
    place = special_register(f, "tid", 2)
    for axis in (1, 0):
        line = f.prelude(f"mul i32 {place}, {special_register(f, 'ntid', axis)}")
        place = f.prelude(f"add i32 {line}, {special_register(f, 'tid', axis)}")
    return f.prelude(f"add i32 {first}, {f.of_warp(place, LANE_BITS)}")


def from_first_lane(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    words = to_words(f, e, [f.values[op.operands[0]][0]])
    f.values[op.result] = from_words(f, e, [shuffle_index(f, word, "0") for word in words], 1)


def again(f: FunctionEmitter, op: Op) -> None:
    """Marked as writing memory, so that LLVM does not merge it with another of that number."""
    t, bits = f.type(op.result), element(op.result.type).bits
    constraint, name = "l" if bits == 64 else "r", f.scalar(op.operands[0])
    if t == "float":
        constraint = "f"
    f.values[op.result] = [f.asm(t, f"mov.b{bits} $0, $1;", [f"={constraint}"],
                                 [(constraint, f"{t} {name}")], memory=False)]


def _each(name: Callable[[FunctionEmitter, Op], str]) -> Emitter:
    """The emitter of a result whose registers all have one name."""
    def emit(f: FunctionEmitter, op: Op) -> None:
        f.values[op.result] = [name(f, op)] * registers(op.result.type)

    return emit


EMITTERS: dict[str, Emitter] = {
    "constant": _each(lambda f, op: literal(element(op.result.type), op.attributes["value"])),
    "undef": _each(lambda f, op: "poison"),
    "constant_table": _each(lambda f, op: f"@{op.attributes['symbol']}"),
    "get_program_id": _each(lambda f, op: program_id(f, op.attributes["axis"])),
    "get_num_programs": _each(lambda f, op: _of_programs(f, "nctaid", op.attributes["axis"])),
    "get_num_multiprocessors": _each(
        lambda f, op: f.prelude_call("llvm.nvvm.read.ptx.sreg.nsmid")),
    "first_warp": _each(lambda f, op: f.prelude(f"icmp ult i32 {f.thread}, 32")),
    "from_first_lane": from_first_lane, "again": again, "range": make_range}
