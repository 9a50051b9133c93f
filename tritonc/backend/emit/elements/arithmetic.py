"""Integer and float arithmetic, comparisons, selection.

Operations work register by register.  Registers whose operands are the same registers (as after a
broadcast) are computed once.  A f8 is computed with in f32, whose results round to f8 as the exact
ones would; for `fma` in f64.  LLVM lowers f16 and bf16 for targets that lack an instruction,
rounding after each operation."""

from collections.abc import Callable
from functools import partial

from tritonc.backend.emit.body import Body, helper_function
from tritonc.backend.emit.elements.casts import convert_float
from tritonc.backend.emit.elements.packed import (
    choose,
    each_register,
    in_pairs,
    map_registers,
    select_words,
)
from tritonc.backend.emit.floats.shared_divisor import divide, divide_integers_by_one
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SUFFIX, is_eight_bit_float, literal, llvm_type
from tritonc.backend.emit.registers import members, run_bits
from tritonc.backend.emit.warps import FULL_WARP
from tritonc.ir.core import Op
from tritonc.ir.ops import DIVISIONS, SWAPPED
from tritonc.ir.types import BF16, F32, F64, Scalar, element, scalar

FAST = "reassoc nsz arcp contract afn "  # the flags of -ffast-math

_INTEGER = ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr")
LARGEST = 1 << 30  # an index that is a range's and a number, which does not wrap
SHARED_LIMIT = 8  # registers of a range that are compared by way of their distance to the limit
_CALLS = {"smin": "llvm.smin", "smax": "llvm.smax", "umin": "llvm.umin", "umax": "llvm.umax",
          "fmin": "llvm.minnum", "fmax": "llvm.maxnum"}
_BITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "popc": ("ctpop", ()), "clz": ("ctlz", ("i1 false",)), "brev": ("bitreverse", ())}


# ---- arithmetic ----------------------------------------------------------------------------------


def float_flags(f: FunctionEmitter, op: Op) -> str:
    if f.options.fast_math and not op.attributes.get("exact"):
        return FAST
    return "contract " if op.attributes.get("contract") else ""


def negation(f: FunctionEmitter, op: Op) -> None:
    """a - b as a + ~b + 1 where minima or maxima take it, and other forms of a negation so.

    ptxas 12.9 and 13.0, and the driver's, for sm_90 and later: of a signed minimum of three, some
    of which are negated, VIMNMX3 loses a sign.  A difference counts too that they find to be a
    negation.  Neither they nor LLVM see one through the assembly."""
    if op not in f.compared:
        integer_binary(f, op)
        return
    t = f.type(op.result)
    bits, constraint = (16, "h") if t == "i16" else (32, "r")

    def inverse(a: str) -> str:
        return f.op(f'call {t} asm "not.b{bits} $0, $1;", "={constraint},{constraint}"({t} {a})')

    def compute(a: str, b: str) -> str:
        if op.name == "sub":
            return f.op(f"add {t} {f.op(f'add {t} {a}, {inverse(b)}')}, 1")
        if op.name == "xor" and b == "-1":
            return inverse(a)
        if op.name == "mul" and b[0] == "-" and b != str(-1 << bits - 1):
            return f.op(f"add {t} {inverse(f.op(f'mul {t} {a}, {b[1:]}'))}, 1")
        return f.op(f"{op.name} {t} {a}, {b}")

    each_register(f, op, lambda a, b: compute(b, a) if a[0] == "-" and op.name != "sub" else (
        compute(a, b)))


def integer_binary(f: FunctionEmitter, op: Op) -> None:
    name = op.name
    flags = "".join(f"{flag} " for flag in ("nuw", "nsw") if op.attributes.get(flag))
    t = f.type(op.result)
    emit, parts = f.op, f.constant_parts
    sums: dict[tuple[str, str], str] = {}

    def compute(a: str, b: str) -> str:
        first, m = parts.get(a, (a, 0))
        second, n = parts.get(b, (b, 0))
        if t == "i1" and name == "and" and {a, b} & {"true", "false"}:
            return "false" if "false" in (a, b) else b if a == "true" else a
        constant = m + n if name == "add" else m - n if name == "sub" else 0
        if not constant:
            return emit(f"{name} {flags}{t} {a}, {b}")
        base = sums.get((first, second))
        if base is None:
            base = sums[first, second] = emit(f"{name} {t} {first}, {second}")
        total = emit(f"add {t} {base}, {constant}")
        parts[total] = base, constant
        return total

    def ranged(a: str, b: str) -> str:
        total = compute(a, b)
        if name == "add" and a in f.ranges and b.isdigit() and t == "i32":
            base, step = f.ranges[a]
            if step + int(b) < LARGEST:
                f.moved_ranges[total] = base, step + int(b)
        return total

    each_register(f, op, ranged)


def bit_function(f: FunctionEmitter, op: Op) -> None:
    t, (name, flag) = f.type(op.result), _BITS[op.name]
    each_register(f, op, lambda a: f.call(f"llvm.{name}.{t}", t, f"{t} {a}", *flag))


def high_product(f: FunctionEmitter, op: Op) -> None:
    """The upper half of a product of twice the width, which the machine has an instruction for."""
    t = f.type(op.result)
    bits, extend = int(t[1:]), "zext" if op.name == "umulhi" else "sext"

    def multiply(a: str, b: str) -> str:
        wide = [f.op(f"{extend} {t} {x} to i{2 * bits}") for x in (a, b)]
        product = f.op(f"mul i{2 * bits} {wide[0]}, {wide[1]}")
        return f.op(f"trunc i{2 * bits} {f.op(f'lshr i{2 * bits} {product}, {bits}')} to {t}")

    each_register(f, op, multiply)


def division(f: FunctionEmitter, op: Op) -> None:
    """Where the guard does not hold the divisor may be 0, which LLVM must not see; nor the least
    number by -1, which it takes for impossible."""
    t, name, first = f.type(op.result), op.name, first_of_runs(f, op)

    def divide(a: str, b: str, guard: str = "true") -> str:
        if b == "-1" and name[0] == "s":
            return f.op(f"sub {t} 0, {a}") if name == "sdiv" else "0"
        if guard != "true":
            b = f.op(f"select i1 {guard}, {t} {b}, {t} 1")
        return f.op(f"{name} {t} {a}, {b}")

    fill_runs(f, op, divide_integers_by_one(f, op, members(first)) or map_registers(
        f, first, op.result, op.inputs(), divide))


def first_of_runs(f: FunctionEmitter, op: Op) -> int:
    """The registers of which results are computed: of each run of `vector` the first."""
    inside = sum(run_bits(op, f.warps))
    return sum({1 << (r & ~inside) for r in members(f.demanded(op.result))})


def fill_runs(f: FunctionEmitter, op: Op, found: list[str]) -> None:
    """The results of whole runs: the first one, or what follows it."""
    steps, t = run_bits(op, f.warps), f.type(op.result)
    for r in members(f.demanded(op.result)):
        first = found[r & ~sum(steps)]
        further = sum(step for bit, step in steps.items() if r & bit)
        found[r] = f.op(f"add {t} {first}, {further}") if (
            further and op.attributes.get("rises")) else first
    f.values[op.result] = found


def extreme(f: FunctionEmitter, op: Op) -> None:
    e, name = scalar(op.result.type), _CALLS[op.name]
    in_pairs(f, op, lambda t, a, b: combine(f, op.name, e, a, b) if t[0] != "<" else f.call(
        f"{name}.{SUFFIX[t]}", t, f"{t} {a}", f"{t} {b}"), "bf16_arithmetic")


def float_binary(f: FunctionEmitter, op: Op) -> None:
    e, flags, name, emit = scalar(op.result.type), float_flags(f, op), op.name, f.op
    if is_eight_bit_float(e):
        each_register(f, op, lambda *ab: _widened(
            f, e, lambda a, b: emit(f"{name} {flags}float {a}, {b}"), *ab))
    elif op.attributes.get("approximate"):
        each_register(f, op, lambda a, b: emit("fmul float " + a + ", " + f.call(
            "llvm.nvvm.rcp.approx.ftz.f", "float", f"float {b}")))
    elif name != "fdiv" or not divide(f, op):
        products: dict[tuple[str, str], str] = {}

        def compute(t: str, a: str, b: str) -> str:
            if name == "fmul" and e == F32 and not {a, b}.isdisjoint(f.float_parts):
                return _distributed(f, a, b, products)
            return emit(f"{name} {flags}{t} {a}, {b}")

        in_pairs(f, op, compute)


def _distributed(f: FunctionEmitter, a: str, b: str, products: dict[tuple[str, str], str]) -> str:
    """(base + constant) * b, where the base is the same for several registers."""
    if a not in f.float_parts:
        a, b = b, a
    base, constant = f.float_parts[a]
    if (base, b) not in products:
        products[base, b] = f.op(f"fmul float {base}, {b}")
    return fused(f, F32, literal(F32, constant), b, products[base, b])


def any_other(f: FunctionEmitter, op: Op) -> None:
    """The threads of a warp ask each other."""
    e, t, number = scalar(op.operands[0].type), f.type(op.operands[0]), op.attributes["number"]
    found, compare = "false", "fcmp une" if e.is_float else "icmp ne"
    for name in dict.fromkeys(f.values[op.operands[0]]):
        differs = f.op(f"{compare} {t} {name}, {literal(e, number)}")
        found = differs if found == "false" else f.op(f"or i1 {found}, {differs}")
    f.values[op.result] = [f.convergent("llvm.nvvm.vote.any.sync", "i1", FULL_WARP, f"i1 {found}")]


def scale(f: FunctionEmitter, op: Op) -> None:
    t, kept = f.type(op.result), f.values[op.operands[0]]
    mask, before = f.demanded(op.result), f.label
    products: list[str] = []
    product = f.under(f.scalar(op.operands[2]), "scale", lambda: products.extend(map_registers(
        f, mask, op.result, op.operands[:2],
        lambda a, b: f.op(f"fmul {float_flags(f, op)}{t} {a}, {b}"))))
    found = f.values[op.result] = f.blank(op.result.type)
    for r in members(mask):
        found[r] = f.op(f"phi {t} [{kept[r]}, %{before}], [{products[r]}, %{product}]")


def _widened(f: FunctionEmitter, e: Scalar, compute: Callable[..., str], *names: str,
             wide: Scalar = F32) -> str:
    return convert_float(f, wide, e, compute(*(convert_float(f, e, wide, x) for x in names)))


def combine(f: FunctionEmitter, kind: str, e: Scalar, a: str, b: str) -> str:
    """Two elements combined by `kind`: a kind of reduction, or the name of a binary operation."""
    if is_eight_bit_float(e):
        return _widened(f, e, partial(combine, f, kind, F32), a, b)
    t = llvm_type(e)
    if kind in _CALLS:
        return f.call(f"{_CALLS[kind]}.{SUFFIX.get(t, t)}", t, f"{t} {a}", f"{t} {b}")
    flags = FAST if kind[0] == "f" and f.options.fast_math else ""
    return f.op(f"{kind} {flags}{t} {a}, {b}")


def fneg(f: FunctionEmitter, op: Op) -> None:
    if is_eight_bit_float(element(op.result.type)):
        each_register(f, op, lambda a: f.op(f"xor i8 {a}, -128"))
    else:
        in_pairs(f, op, lambda t, a: f.op(f"fneg {t} {a}"))


def fabs(f: FunctionEmitter, op: Op) -> None:
    if is_eight_bit_float(element(op.result.type)):
        each_register(f, op, lambda a: f.op(f"and i8 {a}, 127"))
    else:
        in_pairs(f, op, lambda t, a: f.call(f"llvm.fabs.{SUFFIX[t]}", t, f"{t} {a}"))


def fma(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    each_register(f, op, lambda a, b, c: fused(f, e, a, b, c))


def fused(f: FunctionEmitter, e: Scalar, a: str, b: str, c: str) -> str:
    t = llvm_type(e)
    if is_eight_bit_float(e):
        return _widened(f, e, partial(fused, f, F64), a, b, c, wide=F64)
    if e == BF16 and "bf16_fma" not in f.target.features:
        name = helper_function(f.module, "fma.bf16", t, (t, t, t), _fma_bf16)
        return f.op(f"call {t} @{name}({t} {a}, {t} {b}, {t} {c})")
    return f.call(f"llvm.fma.{SUFFIX[t]}", t, f"{t} {a}", f"{t} {b}", f"{t} {c}")


def _fma_bf16(body: Body) -> None:
    """By a sum in f64 that is rounded to odd, so that rounding it once more is harmless.

    Where rounding down and rounding up differ the sum is inexact: of the two neighbours, the one
    with an odd last bit is taken."""
    a, b, c = (x.cast("fpext", "float").cast("fpext", "double") for x in body.parameters)
    down = body.call("llvm.nvvm.fma.rm.d", "double", a, b, c)
    up = body.call("llvm.nvvm.fma.rp.d", "double", a, b, c)
    low = down.bits()
    odd = body.select((low & 1).differs(0), down, up)
    same = body.select(down.equals(up), down, odd)
    result = body.select(down.is_nan(), down, same)
    body.give(result.cast("fptrunc", "bfloat"))


def detach(f: FunctionEmitter, op: Op) -> None:
    """Times one, which neither LLVM nor the assembler takes away: a NaN may change its bits."""
    each_register(f, op, lambda a: f.call("llvm.canonicalize.f32", "float", f"float {a}"))


# ---- comparisons and selection -------------------------------------------------------------------


def icmp(f: FunctionEmitter, op: Op) -> None:
    """The indices of a range, base + constant, are each compared with one number, the limit less
    the base: their sums need not be computed, nor be held for the next comparison.

    No index is negative, so a limit below -1 does as -1 does, and the difference does not wrap.
    Where the limit is known not to exceed the constant, none is below it; where it is known to
    exceed the greatest index that a register has in any thread, all are.  A limit that is an index
    of a range itself has the bounds of its register."""
    t, predicate, emit = f.type(op.operands[0]), op.attributes["predicate"], f.op
    first = first_of_runs(f, op)
    mirrored = SWAPPED[predicate] if predicate[0] == "s" and (
        first.bit_count() >= SHARED_LIMIT) else ""
    low, high = (limit + (predicate == "sle") for limit in f.facts.interval(op.operands[1]))
    left: dict[tuple[str, str], str] = {}  # base of indices, limit -> from the one to the other

    def compare(a: str, b: str) -> str:
        if predicate in ("slt", "sle") and (known := f.ranges.get(a) or f.moved_ranges.get(a)):
            base, step = known
            other, least = f.ranges.get(b) or ("", 0)
            start = least + (predicate == "sle") if other else low
            end = start + f.greatest[other] if other else high
            if step >= end or step + f.greatest[base] < start:
                return "false" if step >= end else "true"
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

    fill_runs(f, op, map_registers(f, first, op.result, op.inputs(), compare))


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
    f.values[fails] = map_registers(f, f.demanded(fails), fails, op.operands,
                                    lambda c: negate(f, c))


def negate(f: FunctionEmitter, condition: str) -> str:
    known = {"true": "false", "false": "true"}
    return known.get(condition) or f.op(f"xor i1 {condition}, true")


def select(f: FunctionEmitter, op: Op) -> None:
    t, e = f.type(op.result), element(op.result.type)
    if isinstance(e, Scalar) and e.bits in (8, 16) and any(
            name in f.words for name in f.values[op.operands[1]]):
        return select_words(f, op)
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


EMITTERS: dict[str, Emitter] = {
    **dict.fromkeys(_INTEGER, integer_binary),
    **dict.fromkeys(("sub", "mul", "xor"), negation),
    **dict.fromkeys(DIVISIONS, division),
    **dict.fromkeys(_CALLS, extreme),
    **dict.fromkeys(_BITS, bit_function),
    **dict.fromkeys(("umulhi", "smulhi"), high_product),
    "any_other": any_other, "scale": scale,
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv"), float_binary),
    "fneg": fneg, "fabs": fabs, "fma": fma,
    "detach": detach, "icmp": icmp, "fcmp": fcmp, "cmpp": cmpp, "select": select, "psi": psi}
