"""Many numbers divided by one, as a softmax divides its row by a sum: the reciprocal is shared.

A thread that holds parts of several rows has a divisor for each.

The assembler makes of each `div.rn.f32` the same few operations, for all targets:

    r0 = rcp.approx d;  r = r0 + r0 * (1 - d * r0);  q0 = x * r;  q = q0 + r * (x - d * q0)

with a test of x and d behind which a slower way lies.  These give the rounded quotient wherever
nothing overflows or gets subnormal on the way: powers of two as factors change nothing then.  Here
r is computed once, and one test of all that a thread divides is for all of them: the divisor from
2^-24 to 2^24, and each dividend 0, a NaN, or from 2^-100 to 2^100 in magnitude.  If it fails,
the thread divides number by number.  What the form of a dividend says is not tested: integers are
0 or at least 1, `clamp` has a bound.  The assembler's slower way is a call for each, which makes
long code and spilled registers where a thread holds the result of a product: there it divides in
double precision.  That takes more registers at a time (8 of 72 in a SwiGLU without a product).

Where each number has a divisor of its own, as in x / (1 + exp(-x)), a thread tests groups of them
at once, too: magnitudes from 2^-62 to 2^62, and the quotients do not wait for each
other, as they would with a branch for each.  Of 1, r is the rounded quotient (`rcp.rn.f32` is the
same two steps).  A divisor that is 1 and more by its form is not tested
for less.

A quotient that is but rounded to 16 bits or fewer takes none of this: it is x * r, with an error of
1.5 ulp, where the divisor is from 2^-100 to 2^100; elsewhere the divisor, and the product too, are
scaled (-ffp-contract=off forbids it).

The last two steps are taken with opposite signs, q0 + (-r) * (d * q0 - x): they give the same, and
the quotient of -0 and a positive number is -0.

Integers, as in `i / N` and `i % N` of a flat range, share a reciprocal too:

for 0 <= a < 2^32 and a divisor d of 32 bits, with m = (2^32 - 1) / d rounded down,

    q0 = (a * m) >> 32;  r0 = a - q0 * d

gives the quotient or one less: a * m / 2^32 is above a / d - a / 2^32 > a / d - 1.  So r0 < 2 d,
and q = q0 + (r0 >= d), r = min(r0, r0 - d) as unsigned numbers.  Nothing overflows: where 2 d does
not fit into 32 bits, m = 1 and r0 = a.  Signed numbers are divided by magnitude.

The assembler divides by a number that it does not know in some twenty instructions; this takes them
once for a thread, and then four or eight for each number."""

from collections.abc import Callable
from functools import partial
from math import inf

from tritonc.analysis.values import SPREADS, constant_of, origin
from tritonc.backend.dots.exponentials import only_rounded
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import float_literal
from tritonc.backend.emit.registers import members, tree
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import F32, I32, is_float, scalar

ENOUGH = 8  # quotients of a thread that are worth the test
DIVISOR, DIVIDEND, SCALE = 24, 100, 64  # powers of two
FEW, MOST = 4, 16  # quotients with divisors of their own in a group: more would hold too many
# registers
EACH = 62  # a power of two
_NOT_NEGATIVE = ("exp", "exp2", "fabs", "sqrt")
BIAS, MANTISSA_BITS = 127, 23
ENOUGH_INTEGERS = 3  # numbers of a thread that are worth a reciprocal


def divide(f: FunctionEmitter, op: Op) -> bool:
    """Emit a division of floats, if a thread has one divisor for enough of them, or a few such; or
    a few numbers to divide at all."""
    if scalar(op.result.type) != F32 or f.options.fast_math:
        return False
    demanded = members(f.demanded(op.result))
    dividends, divisors = (f.values[v] for v in op.operands)
    groups: dict[str, dict[str, None]] = {}
    for r in demanded:
        groups.setdefault(divisors[r], {})[dividends[r]] = None
    if groups and min(map(len, groups.values())) >= ENOUGH:
        if f.options.fp_contract and only_rounded(op.result, f.readers, summed=False):
            by_one = _nearly
        else:
            by_one = partial(_by_one, bounds=_bounds(op))
        quotients = {pair: name for d, group in groups.items()
                     for pair, name in by_one(f, list(group), d).items()}
    else:
        pairs = list(dict.fromkeys((dividends[r], divisors[r]) for r in demanded))
        groups_of = -(-len(pairs) // MOST)
        quotients = {pair: name for i in range(groups_of)
                     for pair, name in _each(f, op, pairs[i::groups_of]).items()}
    if not quotients:
        return False
    found = f.blank(op.result.type)
    for r in demanded:
        found[r] = quotients[dividends[r], divisors[r]]
    f.values[op.result] = found
    return True


def _bounds(op: Op) -> tuple[bool, bool]:
    """Whether each dividend is known to be at most 2^DIVIDEND in magnitude, and at least the
    inverse, or 0."""
    most, least = _magnitude(op.operands[0])
    return most <= 2.0 ** DIVIDEND, least >= 2.0 ** -DIVIDEND


def _magnitude(value: Value) -> tuple[float, float]:
    """The greatest magnitude of a value, an infinity if that is not known, and the least but 0."""
    value = origin(value, (*SPREADS, "convert_layout"))
    op = value.op
    if op is None:
        return inf, 0.0
    if (number := constant_of(value)) is not None:
        return abs(number), abs(number) or inf
    if op.name in ("sitofp", "uitofp"):
        return 2.0 ** scalar(op.operands[0].type).bits, 1.0
    if op.name in ("select", "psi"):
        sides = [_magnitude(v) for v in op.operands if is_float(v.type)]
        return max(most for most, _ in sides), min(least for _, least in sides)
    if op.name in ("fmin", "fmax"):
        for a, b in (op.operands, op.operands[::-1]):
            inner = origin(a, SPREADS).op
            ends = [constant_of(origin(v, SPREADS)) for v in (b, *(
                inner.operands if inner is not None and {inner.name, op.name} == {"fmin", "fmax"}
                else ()))]
            numbers = [abs(end) for end in ends if end is not None]
            if len(numbers) > 1 and ends[0] is not None:
                return max(numbers), 0.0
    return inf, 0.0


def _by_one(f: FunctionEmitter, dividends: list[str], d: str, bounds: tuple[bool, bool]
            ) -> dict[tuple[str, str], str]:
    """The quotients of numbers and one divisor: of all, as the two are in their ranges; `bounds`:
    whether the dividends are known to be below the upper end of theirs, and above the lower one."""
    def quotients() -> list[str]:
        parts = _reciprocal(f, d)
        return [_quotient(f, x, d, *parts) for x in dividends]

    below, above = bounds
    tests = [f"fcmp oge float {d}, {float_literal(2.0 ** -DIVISOR)}",
             f"fcmp ole float {d}, {float_literal(2.0 ** DIVISOR)}",
             *_magnitudes(f, dividends, DIVIDEND)[below:2 - above]]
    return _or_exactly(f, _all(f, tests), [(x, d) for x in dividends], quotients)


def _nearly(f: FunctionEmitter, dividends: list[str], d: str) -> dict[tuple[str, str], str]:
    """The quotients of numbers and one divisor, with an error of 1.5 ulp.  A divisor that is 0 or
    infinite is its approximate reciprocal's inverse; Newton's step makes NaN of it."""
    def scaled() -> list[str]:
        power = f.op("select i1 " + f.op(f"fcmp olt float {size}, 1.0") + ", float " + (
            f"{float_literal(2.0 ** SCALE)}, float {float_literal(2.0 ** -SCALE)}"))
        near, error, found = _newton(f, f.op(f"fmul float {d}, {power}"))
        r = f.op(f"select i1 {f.op(f'fcmp uno float {error}, 0.0')}, float {near}, float {found}")
        return [f.op(f"fmul float {f.op(f'fmul float {x}, {r}')}, {power}") for x in dividends]

    size = f.call("llvm.fabs.f32", "float", f"float {d}")
    tests = [f"fcmp oge float {size}, {float_literal(2.0 ** -DIVIDEND)}",
             f"fcmp ole float {size}, {float_literal(2.0 ** DIVIDEND)}"]
    return _or_exactly(f, _all(f, tests), [(x, d) for x in dividends], lambda: [
        f.op(f"fmul float {x}, {r}") for r in [_newton(f, d)[-1]] for x in dividends], scaled)


def _each(f: FunctionEmitter, op: Op, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The quotients of a few pairs of numbers; nothing if they are too few, or out of range."""
    tests: list[str] = []
    number = constant_of(op.operands[0])
    if len(pairs) < FEW or not (number is None or 2.0**-EACH <= abs(number) <= 2.0**EACH):
        return {}
    if number is None:
        tests += _magnitudes(f, [x for x, _ in pairs], EACH)
    sizes = [f.call("llvm.fabs.f32", "float", f"float {d}")
             for d in dict.fromkeys(d for _, d in pairs)]
    tests.append(f"fcmp ole float {_extreme(f, 'max', sizes)}, {float_literal(2.0 ** EACH)}")
    positive = at_least_one(op.operands[1])
    if not positive:
        tests.append(f"fcmp oge float {_extreme(f, 'min', sizes)}, {float_literal(2.0 ** -EACH)}")
    return _or_exactly(f, _all(f, tests), pairs, lambda: [
        r if number == 1 else _quotient(f, x, d, r, minus, positive or number is not None)
        for x, d in pairs for r, minus in [_reciprocal(f, d)]])


def at_least_one(value: Value) -> bool:
    """Whether it is a sum of 1 and of what is not negative, or no number."""
    op = value.op
    if op is None or op.name != "fadd":
        return False
    for one, other in (op.operands, op.operands[::-1]):
        number, by = constant_of(one), other.op
        if number is not None and number >= 1 and by is not None and by.name in _NOT_NEGATIVE:
            return True
    return False


def _reciprocal(f: FunctionEmitter, d: str) -> tuple[str, str]:
    """That of a divisor, and its negative."""
    reciprocal = _newton(f, d)[-1]
    return reciprocal, f.op(f"fneg float {reciprocal}")


def _newton(f: FunctionEmitter, d: str) -> tuple[str, str, str]:
    """A divisor's approximate reciprocal, the error of its product with that, and a better one."""
    near = f.call("llvm.nvvm.rcp.approx.ftz.f", "float", f"float {d}")
    error = _fma(f, f.op(f"fneg float {d}"), near, float_literal(1.0))
    return near, error, _fma(f, near, error, near)


def _quotient(f: FunctionEmitter, x: str, d: str, reciprocal: str, minus: str,
              signed: bool = True) -> str:
    """`signed`: the sign of a quotient 0 is right as it comes, as with positive divisors."""
    q = f.op(f"fmul float {x}, {reciprocal}")
    rest = _fma(f, d, q, f.op(f"fneg float {x}"))
    found = _fma(f, minus, rest, q)
    return found if signed else f.op(
        f"select i1 {f.op(f'fcmp oeq float {x}, 0.0')}, float {q}, float {found}")


def _or_exactly(f: FunctionEmitter, test: str, pairs: list[tuple[str, str]],
                quotients: Callable[[], list[str]], others: Callable[[], list[str]] | None = None
                ) -> dict[tuple[str, str], str]:
    """Each pair -> its quotient: `quotients` where the test holds, elsewhere `others`, divisions.
    """
    fast, exact, end = (f.new_label(f"divide{suffix}") for suffix in ("", ".exact", ".end"))
    f.line(f"br i1 {test}, label %{fast}, label %{exact}")
    f.start_block(fast)
    found = quotients()
    f.line(f"br label %{end}")
    f.start_block(exact)
    slow = others() if others is not None else [
        _by_doubles(f, x, d) if f.has_pieces else f.op(f"fdiv float {x}, {d}") for x, d in pairs]
    f.line(f"br label %{end}")
    f.start_block(end)
    return {pair: f.op(f"phi float [ {a}, %{fast} ], [ {b}, %{exact} ]")
            for pair, a, b in zip(pairs, found, slow, strict=True)}


def _by_doubles(f: FunctionEmitter, x: str, d: str) -> str:
    """The rounded quotient of any two floats, without a branch.

    No quotient of two floats is within 2^-49 of its size of the middle between two floats, unless
    it is that middle, and then a double holds it; so an error of 2^-52 does not change the rounded
    float, which may be subnormal.  Newton's steps make NaN of a divisor 0, of infinities and of
    what is no number, and lose the sign of a quotient 0: x times the approximate reciprocal is
    right there."""
    x, d = (f.op(f"fpext float {name} to double") for name in (x, d))
    minus = f.op(f"fneg double {d}")

    def fma(a: str, b: str, c: str) -> str:
        return f.call("llvm.fma.f64", "double", f"double {a}", f"double {b}", f"double {c}")

    near = reciprocal = f.call("llvm.nvvm.rcp.approx.ftz.d", "double", f"double {d}")
    for _ in range(2):  # 20 bits, 40, all
        reciprocal = fma(reciprocal, fma(minus, reciprocal, "1.0"), reciprocal)
    q = f.op(f"fmul double {x}, {reciprocal}")
    q = fma(fma(minus, q, x), reciprocal, q)
    edge = f.op(f"fmul double {x}, {near}")
    q = f.op(f"select i1 {f.op(f'fcmp ueq double {q}, 0.0')}, double {edge}, double {q}")
    return f.op(f"fptrunc double {q} to float")


def _fma(f: FunctionEmitter, a: str, b: str, c: str) -> str:
    return f.call("llvm.fma.f32", "float", f"float {a}", f"float {b}", f"float {c}")


def _magnitudes(f: FunctionEmitter, numbers: list[str], power: int) -> list[str]:
    """Tests of whether all are 0, or no number, or of a magnitude within 2^power both ways.

    The least magnitude but 0 is found among bits that are shifted by the sign and lessened by one.
    """
    numbers = list(dict.fromkeys(numbers))
    sizes = [f.call("llvm.fabs.f32", "float", f"float {x}") for x in numbers]
    shifted = [f.op(f"add i32 {f.op(f'shl i32 {bits}, 1')}, -1")
               for bits in [f.op(f"bitcast float {x} to i32") for x in numbers]]
    least = tree(shifted, lambda a, b: f.call("llvm.umin.i32", "i32", f"i32 {a}", f"i32 {b}"))
    limit = (BIAS - power << MANTISSA_BITS + 1) - 1
    return [f"fcmp ule float {_extreme(f, 'max', sizes)}, {float_literal(2.0 ** power)}",
            f"icmp uge i32 {least}, {limit}"]


def _extreme(f: FunctionEmitter, which: str, names: list[str]) -> str:
    return tree(names, lambda a, b: f.call(f"llvm.{which}num.f32", "float", f"float {a}",
                                            f"float {b}"))


def _all(f: FunctionEmitter, tests: list[str]) -> str:
    return tree([f.op(test) for test in tests], lambda a, b: f.op(f"and i1 {a}, {b}"))


# ---- integers ----------------------------------------------------------------------------------


def divide_integers_by_one(f: FunctionEmitter, op: Op, demanded: tuple[int, ...]) -> list[str]:
    """The demanded registers of a division or remainder, if a thread has one divisor, not a
    constant, for enough, or for those of all iterations of a loop; else none."""
    dividends, divisors = (f.values[v] for v in op.operands)
    different = list(dict.fromkeys(dividends[r] for r in demanded))
    d = divisors[demanded[0]]
    ahead = _before_loop(f, op, d)
    if scalar(op.result.type) != I32 or (len(different) < ENOUGH_INTEGERS and ahead is None) or (
            len({divisors[r] for r in demanded}) > 1) or not d.startswith("%"):
        return []
    signed, quotient = op.name[0] == "s", op.name.endswith("div")
    size, reciprocal = f.before(ahead, lambda: _whole_reciprocal(f, d, signed), (d, signed)) \
        if ahead is not None else _whole_reciprocal(f, d, signed)
    reciprocal = f.op(f"zext i32 {reciprocal} to i64")
    results = {}
    for a in different:
        result = _divide_natural(f, _absolute(f, a) if signed else a, size, reciprocal, quotient)
        if signed:
            sign = f.op(f"ashr i32 {f.op(f'xor i32 {a}, {d}') if quotient else a}, 31")
            result = f.op(f"sub i32 {f.op(f'xor i32 {result}, {sign}')}, {sign}")
        results[a] = result
    found = f.blank(op.result.type)
    for r in demanded:
        found[r] = results[dividends[r]]
    return found


def _before_loop(f: FunctionEmitter, op: Op, d: str) -> Block | None:
    """Where the loop around begins, if it has none inside, whose registers a reciprocal would take,
    and the divisor is the same in all of its iterations."""
    loop, divisor = f.cfg.innermost.get(f.cfg.block_of[op]), origin(op.operands[1])
    if loop is None or not f.emitted(loop.preheader) or f.values[divisor][:1] != [d] \
            or any(one.parent is loop for one in f.cfg.loops):
        return None
    home = divisor.op and f.cfg.block_of[divisor.op]
    return None if home in loop.blocks else loop.preheader


def _whole_reciprocal(f: FunctionEmitter, d: str, signed: bool) -> tuple[str, str]:
    """The magnitude of a divisor, and its reciprocal.  Where no guard holds it may be 0, which LLVM
    must not see."""
    size = f.call("llvm.umax.i32", "i32", f"i32 {_absolute(f, d) if signed else d}", "i32 1")
    return size, f.op(f"udiv i32 -1, {size}")


def _absolute(f: FunctionEmitter, name: str) -> str:
    return f.call("llvm.abs.i32", "i32", f"i32 {name}", "i1 false")


def _divide_natural(f: FunctionEmitter, a: str, d: str, reciprocal: str, quotient: bool) -> str:
    """The quotient or the remainder of unsigned numbers."""
    wide = f.op(f"mul i64 {f.op(f'zext i32 {a} to i64')}, {reciprocal}")
    q = f.op(f"trunc i64 {f.op(f'lshr i64 {wide}, 32')} to i32")
    r = f.op(f"sub i32 {a}, {f.op(f'mul i32 {q}, {d}')}")
    if quotient:
        over = f.op(f"zext i1 {f.op(f'icmp uge i32 {r}, {d}')} to i32")
        return f.op(f"add i32 {q}, {over}")
    return f.call("llvm.umin.i32", "i32", f"i32 {r}", f"i32 {f.op(f'sub i32 {r}, {d}')}")
