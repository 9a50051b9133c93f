"""Functions of floats: which algorithm computes each, and how far from the exact result it may be.

Each is computed in f32 or f64; narrower floats in f32, then rounded.  `BOUNDS` is a promise that
docs/language.md states and the tests hold: the greatest error in units in the last place (ulp) of
the result's type, 0.5 being a correctly rounded result; f32's `exp2` may be 0 where that is
subnormal.  With `-fprecise-math` f32 is computed in f64; with `-ffast-math` by the hardware's
approximations, whose errors near zeros of the function are large in ulp, so that no bound is
stated.
"""

from __future__ import annotations

from tritonc.backend.emit.elements.arithmetic import FAST
from tritonc.backend.emit.elements.casts import convert_float, nearly_half_more
from tritonc.backend.emit.elements.packed import each_register
from tritonc.backend.emit.floats import math_f32, math_f64
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SUFFIX, llvm_type
from tritonc.ir.core import Op
from tritonc.ir.types import F32, F64, Scalar, scalar

# The greatest error in ulp: f32 by default, f64.  f32 with -fprecise-math: 0.51.
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (3.0, 1.5), "exp2": (2.5, 1.5), "log": (1.5, 1.0), "log2": (2.0, 1.0),
    "sqrt": (0.5, 0.5), "rsqrt": (2.5, 1.5), "sin": (2.0, 2.5), "cos": (2.0, 2.5),
    "tanh": (2.5, 3.0), "erf": (2.0, 2.0),
    "floor": (0.0, 0.0), "ceil": (0.0, 0.0), "round": (0.0, 0.0), "trunc": (0.0, 0.0),
    "rint": (0.0, 0.0),
}

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "trunc",
               "trunc": "trunc", "rint": "rint"}


def math_function(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    each_register(f, op, lambda a: evaluate(f, op.name, e, a))


def evaluate(f: FunctionEmitter, name: str, e: Scalar, a: str) -> str:
    """The function of one element."""
    precise = f.options.precise_math and name not in _INTRINSICS
    wide = F64 if e == F64 or precise else F32
    return convert_float(f, wide, e, _compute(f, name, wide, convert_float(f, e, wide, a)))


def _compute(f: FunctionEmitter, name: str, e: Scalar, a: str) -> str:
    t = llvm_type(e)
    fast = f.options.fast_math and e == F32
    if name in _INTRINSICS:
        if name == "round":
            a = nearly_half_more(f, e, a)
        intrinsic = f"llvm.{_INTRINSICS[name]}.{SUFFIX[t]}"
        f.module.declare(intrinsic, f"{t} ({t})")
        flags = FAST if fast and name == "sqrt" else ""
        return f.op(f"call {flags}{t} @{intrinsic}({t} {a})")
    table = math_f64.FUNCTIONS if e == F64 else math_f32.FUNCTIONS
    build = table[name]
    if fast and (name != "tanh" or "tanh" in f.target.features):
        build = math_f32.FAST_FUNCTIONS.get(name, build)
    helper = f.module.helper(f"{name}.{e}", t, (t,), build)
    return f.op(f"call {t} @{helper}({t} {a})")


EMITTERS: dict[str, Emitter] = dict.fromkeys(BOUNDS, math_function)
