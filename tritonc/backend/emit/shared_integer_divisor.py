"""Many integers divided by one, as `i / N` and `i % N` of a flat range: the reciprocal is shared.

For 0 <= a < 2^32 and a divisor d of 32 bits, with m = (2^32 - 1) / d rounded down,

    q0 = (a * m) >> 32;  r0 = a - q0 * d

gives the quotient or one less: a * m / 2^32 is above a / d - a / 2^32 > a / d - 1.  So r0 < 2 d,
and q = q0 + (r0 >= d), r = min(r0, r0 - d) as unsigned numbers.  Nothing overflows: where 2 d does
not fit into 32 bits, m = 1 and r0 = a.  Signed numbers are divided by magnitude.

The assembler divides by a number that it does not know in some twenty instructions; this takes them
once for a thread, and then four or eight for each number.
"""

from __future__ import annotations

from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op
from tritonc.ir.types import I32, scalar

ENOUGH = 3  # numbers of a thread that are worth a reciprocal


def divide_integers_by_one(f: FunctionEmitter, op: Op) -> bool:
    """Emit a division or remainder, if a thread has one divisor, not a constant, for enough."""
    wanted = members(f.wanted(op.result))
    dividends, divisors = (f.values[v] for v in op.operands)
    different = list(dict.fromkeys(dividends[r] for r in wanted))
    if scalar(op.result.type) != I32 or len(different) < ENOUGH or (
            len({divisors[r] for r in wanted}) > 1) or not divisors[wanted[0]].startswith("%"):
        return False
    d = divisors[wanted[0]]
    signed, quotient = op.name[0] == "s", op.name.endswith("div")
    size = _absolute(f, d) if signed else d
    # Where no guard holds it may be 0, which LLVM must not see.
    size = f.call("llvm.umax.i32", "i32", f"i32 {size}", "i32 1")
    reciprocal = f.op(f"zext i32 {f.op(f'udiv i32 -1, {size}')} to i64")
    results = {}
    for a in different:
        result = _divide(f, _absolute(f, a) if signed else a, size, reciprocal, quotient)
        if signed:
            sign = f.op(f"ashr i32 {f.op(f'xor i32 {a}, {d}') if quotient else a}, 31")
            result = f.op(f"sub i32 {f.op(f'xor i32 {result}, {sign}')}, {sign}")
        results[a] = result
    found = f.blank(op.result.type)
    for r in wanted:
        found[r] = results[dividends[r]]
    f.values[op.result] = found
    return True


def _absolute(f: FunctionEmitter, name: str) -> str:
    return f.call("llvm.abs.i32", "i32", f"i32 {name}", "i1 false")


def _divide(f: FunctionEmitter, a: str, d: str, reciprocal: str, quotient: bool) -> str:
    """The quotient or the remainder of unsigned numbers."""
    wide = f.op(f"mul i64 {f.op(f'zext i32 {a} to i64')}, {reciprocal}")
    q = f.op(f"trunc i64 {f.op(f'lshr i64 {wide}, 32')} to i32")
    r = f.op(f"sub i32 {a}, {f.op(f'mul i32 {q}, {d}')}")
    if quotient:
        over = f.op(f"zext i1 {f.op(f'icmp uge i32 {r}, {d}')} to i32")
        return f.op(f"add i32 {q}, {over}")
    return f.call("llvm.umin.i32", "i32", f"i32 {r}", f"i32 {f.op(f'sub i32 {r}, {d}')}")
