"""Constants, indices, integer and float arithmetic, comparisons, selection, pointers.

Operations work register by register.  Registers whose operands are the same registers (as after a
broadcast) are computed once.  A f8 is computed with in f32, whose results round to f8 as the exact
ones would; for `fma` in f64.  LLVM lowers f16 and bf16 for targets that lack an instruction,
rounding after each operation.
"""

from __future__ import annotations

from collections.abc import Callable

from tritonc.backend.emit.body import Body
from tritonc.backend.emit.casts import convert_float
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import is_eight_bit_float, literal, llvm_type, memory_type
from tritonc.backend.emit.module import WRITES
from tritonc.backend.emit.registers import members, registers, run_bits
from tritonc.ir.core import Op, Value
from tritonc.ir.layout import coordinates, log2
from tritonc.ir.types import (
    BF16,
    F32,
    F64,
    Pointer,
    Scalar,
    element,
    scalar,
    shape,
)

Emitter = Callable[[FunctionEmitter, Op], None]
FAST = "reassoc nsz arcp contract afn "  # the flags of -ffast-math

_AXES = "xyz"
_INTEGER = ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr")
_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}  # with operands exchanged
SHARED_LIMIT = 8  # registers of a range that are compared by way of their distance to the limit
_CALLS = {"smin": "llvm.smin", "smax": "llvm.smax", "umin": "llvm.umin", "umax": "llvm.umax",
          "fmin": "llvm.minnum", "fmax": "llvm.maxnum"}
SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def each_register(f: FunctionEmitter, op: Op, compute: Callable[..., str]) -> None:
    """Set the wanted registers of the result to `compute` of the operands' registers."""
    f.values[op.result] = map_registers(f, f.wanted(op.result), op.result, op.inputs(), compute)


def map_registers(f: FunctionEmitter, mask: int, like: Value, operands: list[Value],
                  compute: Callable[..., str]) -> list[str]:
    """`compute` for each register of the mask, once for equal operands."""
    found = f.blank(like.type)
    known: dict[tuple[str, ...], str] = {}
    lists = [f.values[v] for v in operands]
    for r in members(mask):
        key = tuple([names[r] for names in lists])
        name = known.get(key)
        if name is None:
            name = known[key] = compute(*key)
        found[r] = name
    return found


# ---- constants and indices -----------------------------------------------------------------------


def constant(f: FunctionEmitter, op: Op) -> None:
    text = literal(element(op.result.type), op.attributes["value"])
    f.values[op.result] = [text] * registers(op.result.type)


def undef(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = ["poison"] * registers(op.result.type)


def make_range(f: FunctionEmitter, op: Op) -> None:
    layout, start = f.layout(op.result), op.attributes["start"]
    base, disjoint = f.linear(layout.thread), "or disjoint"
    if start:
        base = f.prelude(f"add nsw i32 {base}, {start}")
        disjoint = "add nsw"
    f.values[op.result] = _from_base(f, op, base, disjoint)
    if start >= 0:
        for name in f.values[op.result]:
            f.ranges[name] = f.constant_parts.get(name, (name, 0))


def _from_base(f: FunctionEmitter, op: Op, base: str, combine: str) -> list[str]:
    """The index of each register: the thread's part and a constant."""
    layout = f.layout(op.result)
    found = f.blank(op.result.type)
    for r in members(f.wanted(op.result)):
        step = layout.at(register=r)
        found[r] = base if not step else f.prelude(f"{combine} i32 {base}, {step}")
        if step:
            f.constant_parts[found[r]] = base, step
    return found


def special_register(f: FunctionEmitter, name: str, axis: int) -> str:
    return f.prelude_call(f"llvm.nvvm.read.ptx.sreg.{name}.{_AXES[axis]}", "i32")


def get_program_id(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = [special_register(f, "ctaid", op.attributes["axis"])]


def get_num_programs(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = [special_register(f, "nctaid", op.attributes["axis"])]


def get_num_multiprocessors(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = [f.prelude_call("llvm.nvvm.read.ptx.sreg.nsmid", "i32")]


def get_global_range(f: FunctionEmitter, op: Op) -> None:
    instance = special_register(f, "ctaid", op.attributes["axis"])
    bits = log2(op.attributes["extent"])
    base = f.prelude(f"shl i32 {instance}, {bits}") if bits else instance
    thread = f.linear(f.layout(op.result).thread)
    if thread != "0":
        base = f.prelude(f"or disjoint i32 {base}, {thread}")
    f.values[op.result] = _from_base(f, op, base, "or disjoint")


def again(f: FunctionEmitter, op: Op) -> None:
    """Marked as writing memory, lest LLVM merge it with another one of the same number."""
    t = f.type(op.result)
    bits, constraint = (64, "l") if t == "i64" else (32, "r")
    f.values[op.result] = [f.asm(t, f"mov.b{bits} $0, $1;", f"={constraint},{constraint}",
                                 f"{t} {f.values[op.operands[0]][0]}", WRITES)]


def constant_table(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = [f"@{op.attributes['symbol']}"]


# ---- arithmetic ----------------------------------------------------------------------------------


def float_flags(f: FunctionEmitter, op: Op) -> str:
    if f.options.fast_math:
        return FAST
    return "contract " if op.attributes.get("contract") else ""


def integer_binary(f: FunctionEmitter, op: Op) -> None:
    name = op.name
    flags = "".join(f"{flag} " for flag in ("nuw", "nsw") if op.attributes.get(flag))
    t = f.type(op.result)
    emit, parts = f.op, f.constant_parts
    sums: dict[tuple[str, str], str] = {}

    def compute(a: str, b: str) -> str:
        first, m = parts.get(a, (a, 0))
        second, n = parts.get(b, (b, 0))
        constant = m + n if name == "add" else m - n if name == "sub" else 0
        if not constant:
            return emit(f"{name} {flags}{t} {a}, {b}")
        base = sums.get((first, second))
        if base is None:
            base = sums[first, second] = emit(f"{name} {t} {first}, {second}")
        total = emit(f"add {t} {base}, {constant}")
        parts[total] = base, constant
        return total

    each_register(f, op, compute)


def division(f: FunctionEmitter, op: Op) -> None:
    """Where the guard does not hold the divisor may be 0, which LLVM must not see."""
    t, name = f.type(op.result), op.name

    def divide(a: str, b: str, guard: str = "true") -> str:
        if guard != "true":
            b = f.op(f"select i1 {guard}, {t} {b}, {t} 1")
        return f.op(f"{name} {t} {a}, {b}")

    each_register(f, op, divide)


def extreme(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    each_register(f, op, lambda a, b: combine(f, op.name, e, a, b))


def float_binary(f: FunctionEmitter, op: Op) -> None:
    e, flags = scalar(op.result.type), float_flags(f, op)
    t, name, emit = llvm_type(e), op.name, f.op
    if is_eight_bit_float(e):
        each_register(f, op, lambda a, b: _eight_bit(f, e, f"{name} {flags}", a, b))
    else:
        each_register(f, op, lambda a, b: emit(f"{name} {flags}{t} {a}, {b}"))


def _eight_bit(f: FunctionEmitter, e: Scalar, text: str, a: str, b: str) -> str:
    a, b = convert_float(f, e, F32, a), convert_float(f, e, F32, b)
    return convert_float(f, F32, e, f.op(f"{text}float {a}, {b}"))


def combine(f: FunctionEmitter, kind: str, e: Scalar, a: str, b: str) -> str:
    """Two elements combined by `kind`: a kind of reduction, or the name of a binary operation."""
    if is_eight_bit_float(e):
        a, b = convert_float(f, e, F32, a), convert_float(f, e, F32, b)
        return convert_float(f, F32, e, combine(f, kind, F32, a, b))
    t = llvm_type(e)
    if kind in _CALLS:
        return f.call(f"{_CALLS[kind]}.{SUFFIX.get(t, t)}", t, f"{t} {a}", f"{t} {b}")
    flags = FAST if kind[0] == "f" and f.options.fast_math else ""
    return f.op(f"{kind} {flags}{t} {a}, {b}")


def fneg(f: FunctionEmitter, op: Op) -> None:
    e, t = scalar(op.result.type), f.type(op.result)
    if is_eight_bit_float(e):
        each_register(f, op, lambda a: f.op(f"xor i8 {a}, -128"))
    else:
        each_register(f, op, lambda a: f.op(f"fneg {t} {a}"))


def fabs(f: FunctionEmitter, op: Op) -> None:
    e, t = scalar(op.result.type), f.type(op.result)
    if is_eight_bit_float(e):
        each_register(f, op, lambda a: f.op(f"and i8 {a}, 127"))
    else:
        each_register(f, op, lambda a: f.call(f"llvm.fabs.{SUFFIX[t]}", t, f"{t} {a}"))


def fma(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    each_register(f, op, lambda a, b, c: fused(f, e, a, b, c))


def fused(f: FunctionEmitter, e: Scalar, a: str, b: str, c: str) -> str:
    """a * b + c, rounded once."""
    t = llvm_type(e)
    if is_eight_bit_float(e):
        wide = [convert_float(f, e, F64, x) for x in (a, b, c)]
        return convert_float(f, F64, e, fused(f, F64, *wide))
    if e == BF16 and "bf16_fma" not in f.target.features:
        name = f.module.helper("fma.bf16", t, (t, t, t), _fma_bf16)
        return f.op(f"call {t} @{name}({t} {a}, {t} {b}, {t} {c})")
    return f.call(f"llvm.fma.{SUFFIX[t]}", t, f"{t} {a}", f"{t} {b}", f"{t} {c}")


def _fma_bf16(body: Body) -> None:
    """By a sum in f64 that is rounded to odd, so that rounding it once more is harmless.

    Where rounding down and rounding up differ the sum is inexact: of the two neighbours, the one
    with an odd last bit is taken.
    """
    a, b, c = (x.cast("fpext", "float").cast("fpext", "double") for x in body.parameters)
    down = body.call("llvm.nvvm.fma.rm.d", "double", a, b, c)
    up = body.call("llvm.nvvm.fma.rp.d", "double", a, b, c)
    low = down.bits()
    odd = body.select((low & 1).differs(0), down, up)
    same = body.select(down.equals(up), down, odd)
    result = body.select(down.is_nan(), down, same)
    body.give(result.cast("fptrunc", "bfloat"))


# ---- comparisons and selection -------------------------------------------------------------------


def icmp(f: FunctionEmitter, op: Op) -> None:
    """The indices of a range, base + constant, are each compared with one number, the limit less
    the base: their sums need not be computed, nor be held for the next comparison.

    No index is negative, so a limit below -1 does as -1 does, and the difference does not wrap.
    """
    t, predicate, emit = f.type(op.operands[0]), op.attributes["predicate"], f.op
    mask, inside = f.wanted(op.result), run_bits(op, f.warps)
    first = sum({1 << (r & ~inside) for r in members(mask)})
    mirrored = _MIRRORED.get(predicate, "") if first.bit_count() >= SHARED_LIMIT else ""
    left: dict[tuple[str, str], str] = {}  # base of indices, limit -> from the one to the other

    def compare(a: str, b: str) -> str:
        if op.attributes.get("based") and f.constant_parts.get(a, ("", -1))[1] >= 0:
            base, step = f.constant_parts[a]  # not negative together, so the base has not wrapped
            if (base, b) not in left:
                left[base, b] = f.call(f"llvm.ssub.sat.{t}", t, f"{t} {b}", f"{t} {base}")
            return emit(f"icmp sgt {t} {left[base, b]}, {step}")
        if not mirrored or a not in f.ranges:
            return emit(f"icmp {predicate} {t} {a}, {b}")
        base, step = f.ranges[a]
        if (base, b) not in left:
            limit = f.call(f"llvm.smax.{t}", t, f"{t} {b}", f"{t} -1")
            left[base, b] = emit(f"sub nsw {t} {limit}, {base}")
        return emit(f"icmp {mirrored} {t} {left[base, b]}, {step}")

    found = map_registers(f, first, op.result, op.inputs(), compare)
    for r in members(mask):
        found[r] = found[r & ~inside]
    f.values[op.result] = found


def fcmp(f: FunctionEmitter, op: Op) -> None:
    e, predicate = scalar(op.operands[0].type), op.attributes["predicate"]
    wide = F32 if is_eight_bit_float(e) else e
    t = llvm_type(wide)

    def compare(a: str, b: str) -> str:
        if wide is not e:
            a, b = convert_float(f, e, wide, a), convert_float(f, e, wide, b)
        return f.op(f"fcmp {predicate} {t} {a}, {b}")

    each_register(f, op, compare)


def cmpp(f: FunctionEmitter, op: Op) -> None:
    holds, fails = op.results
    f.values[holds] = f.values[op.operands[0]]
    f.values[fails] = map_registers(f, f.wanted(fails), fails, op.operands, lambda c: negate(f, c))


def negate(f: FunctionEmitter, condition: str) -> str:
    known = {"true": "false", "false": "true"}
    return known.get(condition) or f.op(f"xor i1 {condition}, true")


def choose(f: FunctionEmitter, t: str, condition: str, a: str, b: str) -> str:
    if condition == "true" or a == b:
        return a
    return b if condition == "false" else f.op(f"select i1 {condition}, {t} {a}, {t} {b}")


def select(f: FunctionEmitter, op: Op) -> None:
    t = f.type(op.result)
    each_register(f, op, lambda c, a, b: choose(f, t, c, a, b))


def psi(f: FunctionEmitter, op: Op) -> None:
    """The last pair whose predicate holds; if none does, nothing is promised: the first value."""
    t = f.type(op.result)

    def merge(*pairs: str) -> str:
        found = pairs[1]
        for i in range(2, len(pairs), 2):
            found = choose(f, t, pairs[i], pairs[i + 1], found)
        return found

    each_register(f, op, merge)


# ---- pointers ------------------------------------------------------------------------------------


def addptr(f: FunctionEmitter, op: Op) -> None:
    """The index of getelementptr is signed, of any width.

    Registers often differ by a constant.  It is kept apart, so that they share one address and the
    constants go into the accesses; the index is taken not to wrap.
    """
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
            base = emit(f"getelementptr {t}, {at} {first}, {index} {second}")
            addresses[first, second] = base
        if not distance:
            return base
        total = emit(f"getelementptr i8, {at} {base}, i64 {distance}")
        parts[total] = base, distance
        return total

    each_register(f, op, compute)


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
    for r in members(f.wanted(op.result)):
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


def detach(f: FunctionEmitter, op: Op) -> None:
    """Times one, which neither LLVM nor the assembler takes away: a NaN may change its bits."""
    each_register(f, op, lambda a: f.call("llvm.canonicalize.f32", "float", f"float {a}"))


def same(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = f.values[op.operands[0]]


EMITTERS: dict[str, Emitter] = {
    "again": again, "constant": constant, "undef": undef, "range": make_range,
    "get_program_id": get_program_id, "get_num_programs": get_num_programs,
    "get_num_multiprocessors": get_num_multiprocessors, "get_global_range": get_global_range,
    "constant_table": constant_table,
    **dict.fromkeys(_INTEGER, integer_binary),
    **dict.fromkeys(("sdiv", "udiv", "srem", "urem"), division),
    **dict.fromkeys(_CALLS, extreme),
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv"), float_binary),
    "fneg": fneg, "fabs": fabs, "fma": fma,
    "icmp": icmp, "fcmp": fcmp, "cmpp": cmpp, "select": select, "psi": psi,
    "addptr": addptr, "step_pointers": step_pointers, "ptrdiff": ptrdiff, "assume_multiple": same,
    "detach": detach,
}
