"""Functions of floats: which algorithm computes each, and how far from the exact result it may be.

Each is computed in f32 or f64; narrower floats in f32, then rounded.  `BOUNDS` is a promise that
docs/language.md states and the tests hold: the greatest error in units in the last place (ulp) of
the result's type, 0.5 being a correctly rounded result; f32's `exp2` may be 0 where that is
subnormal.  With `-fprecise-math` f32 is computed in f64; with `-ffast-math` by the hardware's
approximations, whose errors near zeros of the function are large in ulp, so that no bound is
stated."""

from tritonc.backend.emit.body import helper_function
from tritonc.backend.emit.elements.arithmetic import FAST
from tritonc.backend.emit.elements.casts import convert_float, nearly_half_more
from tritonc.backend.emit.elements.packed import each_register
from tritonc.backend.emit.floats import math_f32, math_f64
from tritonc.backend.emit.floats.math_reduction import LARGE_ANGLE, any_angle
from tritonc.backend.emit.floats.shared_divisor import at_least_one
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SUFFIX, float_literal, llvm_type
from tritonc.backend.emit.registers import members, tree
from tritonc.ir.core import Op
from tritonc.ir.types import F32, F64, Scalar, scalar

# The greatest error in ulp: f32 by default, f64.  f32 with -fprecise-math: 0.51.
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (3.0, 1.5), "exp2": (2.5, 1.5), "log": (1.5, 1.0), "log2": (2.0, 1.0),
    "sqrt": (0.5, 0.5), "rsqrt": (2.5, 1.5), "sin": (2.0, 2.5), "cos": (2.0, 2.5),
    "tanh": (2.5, 3.0), "erf": (2.0, 2.0),
    "floor": (0.0, 0.0), "ceil": (0.0, 0.0), "round": (0.0, 0.0), "trunc": (0.0, 0.0),
    "rint": (0.0, 0.0)}

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "trunc",
               "trunc": "trunc", "rint": "rint"}

_WAVES = ("sin", "cos")
_TOGETHER = 8  # angles with one test


def math_function(f: FunctionEmitter, op: Op) -> None:
    e = scalar(op.result.type)
    if op.name in _WAVES and e in (F32, F64) and not _loose(f, e):
        names = f.values[op.operands[0]]
        _reduce(f, e, [names[r] for r in members(f.demanded(op.result))])
    name = f"{op.name}_from_one"  # no limits but infinity and NaN, as of log(1 + exp(x))
    if e != F32 or name not in math_f32.FUNCTIONS or _loose(f, e) or f.options.precise_math \
            or not at_least_one(op.operands[0]):
        name = op.name
    each_register(f, op, lambda a: evaluate(f, name, e, a))


def evaluate(f: FunctionEmitter, name: str, e: Scalar, a: str) -> str:
    precise = f.options.precise_math and name not in _INTRINSICS
    wide = F64 if e == F64 or precise else F32
    return convert_float(f, wide, e, _compute(f, name, wide, convert_float(f, e, wide, a)))


def _compute(f: FunctionEmitter, name: str, e: Scalar, a: str) -> str:
    t, fast = llvm_type(e), _loose(f, e)
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
    elif name in _WAVES:
        _reduce(f, e, [a])
        helper = helper_function(f.module, f"{name}.{e}", t, (t, "i32"), build)
        angle, quadrant = f.angles[a]
        return f.op(f"call {t} @{helper}({t} {angle}, i32 {quadrant})")
    helper = helper_function(f.module, f"{name}.{e}", t, (t,), build)
    return f.op(f"call {t} @{helper}({t} {a})")


def _loose(f: FunctionEmitter, e: Scalar) -> bool:
    return f.options.fast_math and e == F32


def _reduce(f: FunctionEmitter, e: Scalar, names: list[str]) -> None:
    """Angles modulo pi/2, for sines and cosines of this block.  Large ones take long: one test says
    whether there are any among a few."""
    new, t = [a for a in dict.fromkeys(names) if a not in f.angles], llvm_type(e)
    table = math_f64.FUNCTIONS if e == F64 else math_f32.FUNCTIONS
    pair = f"{{ {t}, i32 }}"
    near = helper_function(f.module, f"angle.{e}", pair, (t,), table["angle"])
    far = helper_function(f.module, f"any.angle.{e}", pair, (t, t, "i32"), any_angle)

    def parts(found: str) -> list[str]:
        return [f.op(f"extractvalue {pair} {found}, {i}") for i in (0, 1)]

    for few in (new[i:i + _TOGETHER] for i in range(0, len(new), _TOGETHER)):
        found = [parts(f.op(f"call {pair} @{near}({t} {a})")) for a in few]
        sizes = [f.call(f"llvm.fabs.{SUFFIX[t]}", t, f"{t} {a}") for a in few]
        most = tree(sizes, lambda a, b: f.call(f"llvm.maxnum.{SUFFIX[t]}", t, f"{t} {a}",
                                                f"{t} {b}"))
        start, large, end = f.label, f.new_label("large.angles"), f.new_label("angles")
        test = f.op(f"fcmp ogt {t} {most}, {float_literal(LARGE_ANGLE)}")
        f.line(f"br i1 {test}, label %{large}, label %{end}")
        f.start_block(large)
        others = [parts(f.op(f"call {pair} @{far}({t} {a}, {t} {x}, i32 {q})"))
                  for a, (x, q) in zip(few, found, strict=True)]
        f.line(f"br label %{end}")
        f.start_block(end)
        for a, one, other in zip(few, found, others, strict=True):
            angle, quadrant = (
                f.op(f"phi {u} [ {x}, %{start} ], [ {y}, %{large} ]")
                for u, x, y in zip((t, "i32"), one, other, strict=True))
            f.angles[a] = angle, quadrant


EMITTERS: dict[str, Emitter] = dict.fromkeys(BOUNDS, math_function)
