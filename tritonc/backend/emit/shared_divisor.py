"""Many numbers divided by one, as a softmax divides its row by a sum: the reciprocal is shared.

A thread that holds parts of several rows has a divisor for each.

The assembler makes of each `div.rn.f32` the same few operations, for all targets:

    r0 = rcp.approx d;  r = r0 + r0 * (1 - d * r0);  q0 = x * r;  q = q0 + r * (x - d * q0)

with a test of x and d behind which a slower way lies.  These give the rounded quotient wherever
nothing overflows or gets subnormal on the way: powers of two as factors change nothing then.  Here
r is computed once, and one test of all that a thread divides is for all of them: the divisor from
2^-24 to 2^24, and each dividend 0, a NaN, or from 2^-100 to 2^100 in magnitude.  If it fails,
the thread divides number by number.

The last two steps are taken with opposite signs, q0 + (-r) * (d * q0 - x): they give the same, and
the quotient of -0 is -0.
"""

from __future__ import annotations

from collections.abc import Callable

from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import float_literal
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op
from tritonc.ir.types import F32, scalar

ENOUGH = 8  # quotients of a thread that are worth the test
DIVISOR, DIVIDEND = 24, 100  # powers of two
BIAS, MANTISSA_BITS = 127, 23


def divide_by_few(f: FunctionEmitter, op: Op) -> bool:
    """Emit a division of floats, if a thread has one divisor for enough of them, or a few."""
    if scalar(op.result.type) != F32 or f.options.fast_math:
        return False
    wanted = members(f.wanted(op.result))
    dividends, divisors = (f.values[v] for v in op.operands)
    groups: dict[str, dict[str, None]] = {}
    for r in wanted:
        groups.setdefault(divisors[r], {})[dividends[r]] = None
    if not groups or min(map(len, groups.values())) < ENOUGH:
        return False
    quotients = {d: _divide(f, list(group), d) for d, group in groups.items()}
    found = f.blank(op.result.type)
    for r in wanted:
        found[r] = quotients[divisors[r]][dividends[r]]
    f.values[op.result] = found
    return True


def _divide(f: FunctionEmitter, dividends: list[str], d: str) -> dict[str, str]:
    """Each dividend -> its quotient."""
    fast, exact, end = (f.new_label(f"divide{suffix}") for suffix in ("", ".exact", ".end"))
    f.line(f"br i1 {_ordinary(f, dividends, d)}, label %{fast}, label %{exact}")
    f.start_block(fast)
    near = f.call("llvm.nvvm.rcp.approx.ftz.f", "float", f"float {d}")
    error = _fma(f, f.op(f"fneg float {d}"), near, float_literal(1.0))
    reciprocal = _fma(f, near, error, near)
    minus = f.op(f"fneg float {reciprocal}")
    found = []
    for x in dividends:
        q = f.op(f"fmul float {x}, {reciprocal}")
        rest = _fma(f, d, q, f.op(f"fneg float {x}"))
        found.append(_fma(f, minus, rest, q))
    f.line(f"br label %{end}")
    f.start_block(exact)
    slow = [f.op(f"fdiv float {x}, {d}") for x in dividends]
    f.line(f"br label %{end}")
    f.start_block(end)
    return {x: f.op(f"phi float [ {a}, %{fast} ], [ {b}, %{exact} ]")
            for x, a, b in zip(dividends, found, slow, strict=True)}


def _fma(f: FunctionEmitter, a: str, b: str, c: str) -> str:
    return f.call("llvm.fma.f32", "float", f"float {a}", f"float {b}", f"float {c}")


def _ordinary(f: FunctionEmitter, dividends: list[str], d: str) -> str:
    """Whether the divisor and all dividends are in their ranges.

    The least magnitude but 0 is found among bits that are shifted by the sign and lessened by one.
    """
    sizes = [f.call("llvm.fabs.f32", "float", f"float {x}") for x in dividends]
    largest = _tree(sizes, lambda a, b: f.call("llvm.maxnum.f32", "float", f"float {a}",
                                               f"float {b}"))
    shifted = [f.op(f"add i32 {f.op(f'shl i32 {bits}, 1')}, -1")
               for bits in [f.op(f"bitcast float {x} to i32") for x in dividends]]
    least = _tree(shifted, lambda a, b: f.call("llvm.umin.i32", "i32", f"i32 {a}", f"i32 {b}"))
    limit = (BIAS - DIVIDEND << MANTISSA_BITS + 1) - 1
    tests = [f"fcmp oge float {d}, {float_literal(2.0 ** -DIVISOR)}",
             f"fcmp ole float {d}, {float_literal(2.0 ** DIVISOR)}",
             f"fcmp ule float {largest}, {float_literal(2.0 ** DIVIDEND)}",
             f"icmp uge i32 {least}, {limit}"]
    return _tree([f.op(test) for test in tests], lambda a, b: f.op(f"and i1 {a}, {b}"))


def _tree(names: list[str], join: Callable[[str, str], str]) -> str:
    """All of them joined, in pairs."""
    while len(names) > 1:
        pairs = [join(a, b) for a, b in zip(names[::2], names[1::2], strict=False)]
        names = pairs + names[len(names) - len(names) % 2:]
    return names[0]
