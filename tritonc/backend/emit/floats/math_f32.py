"""Functions of f32: by hardware approximations where those are good, else by polynomials.

The polynomials are minimax fits (Remez) of what their comments say, the highest power first."""

from collections.abc import Callable
from functools import partial
from math import log

from tritonc.backend.emit.body import Body, Term
from tritonc.backend.emit.floats.math_reduction import logarithm_limits, near_angle, wave
from tritonc.backend.emit.module import PURE
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32


def _parts(value: float) -> tuple[float, float]:
    """A constant as the sum of two f32."""
    high = float(round_to(F32, value))
    return high, float(round_to(F32, value - high))


LOG2_E, LOG2_E_LOW = _parts(1 / log(2))
LN_2 = float(round_to(F32, log(2)))
# ln 2 whose high part times any exponent is exact
LN_2_HIGH = 0.693145751953125
LN_2_LOW = float(round_to(F32, log(2) - LN_2_HIGH))

# (ln(1 + f) - f) / f^2 for |f| <= 1/3
LOG = (-0.13313262164592743, 0.1400783807039261, -0.12077801674604416, 0.14000514149665833,
       -0.1668952852487564, 0.2001079022884369, -0.24999506771564484, 0.3333320617675781, -0.5)
# (sin(x) / x - 1) / x^2 and (cos(x) - 1 + x^2 / 2) / x^4, in x^2, for |x| <= pi / 4
SIN = (-0.00019516654720064253, 0.008332173340022564, -0.16666655242443085)
COS = (2.443774246785324e-05, -0.001388736185617745, 0.04166664555668831)
# (tanh(x) / x - 1) / x^2, in x^2, for |x| <= 0.6
TANH = (-0.0059058777987957, 0.020805394276976585, -0.053786687552928925, 0.13331958651542664,
        -0.33333298563957214)
# erf(x) / x - 1, in x^2, for |x| <= 1
ERF = (7.889095286373049e-05, -0.0008020834065973759, 0.005189534742385149,
       -0.026854444295167923, 0.11283600330352783, -0.3761262595653534, 0.12837916612625122)
# log2(1 - erf(x)) for 1 <= x <= 4
ERFC = (0.0002677261072676629, -0.004240952432155609, 0.03145841509103775, -0.14865149557590485,
        -0.9207650423049927, -1.6259751319885254, -0.0005103067378513515)

ROUNDING = 1.5 * 2**23 + 127  # a float whose last bit counts ones
# pi / 2 as three f32
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)


def exp(body: Body) -> None:
    """2^n 2^f with x log2 e = n + f, n the nearest integer.

    Added to ROUNDING, n stands in the low bits, with the bias of an exponent.  It is kept to what
    an exponent can be, 126 either way, as a part of 252 that saturates at 0 and 1: beyond that f
    grows, and 2^f and the product are 0, subnormal or infinite as they should be.  2^f alone is
    never subnormal where that matters."""
    x = body.parameters[0]
    part = body.call("llvm.nvvm.fma.rn.sat.f", "float", x, body.term(LOG2_E / 252, "float"),
                     body.term(0.5, "float"))
    shifted = body.fma(part, 252.0, ROUNDING - 126)
    rest = body.fma(x, LOG2_E, -(shifted - ROUNDING))
    rest = body.fma(x, LOG2_E_LOW, rest)
    power = body.call("llvm.nvvm.ex2.approx.ftz.f", "float", rest)
    body.give(power * (shifted.bits() << 23).as_float())


def _approximation(name: str) -> Callable[[Body], None]:
    return lambda body: body.give(body.call(f"llvm.nvvm.{name}.f", "float", body.parameters[0]))


def _split(body: Body, x: Term, from_one: bool) -> tuple[Term, Term, Term]:
    """A positive x as 2^k (1 + f) with 2/3 <= 1 + f < 4/3: the f32 k, f, and the bits of x."""
    tiny = x < 2.0**-126
    bits = (x if from_one else body.select(tiny, x * 2.0**23, x)).bits()
    k = (bits - 0x3F2AAAAB).shift_right_signed(23)
    f = (bits - (k << 23)).as_float() - 1.0
    power = (k if from_one else body.select(tiny, k - 23, k)).cast("sitofp", "float")
    return power, f, bits


def log_e(body: Body, from_one: bool = False) -> None:
    x = body.parameters[0]
    k, f, bits = _split(body, x, from_one)
    logarithm = body.fma(f * f, body.polynomial(f, LOG), f)
    total = body.fma(k, LN_2_HIGH, body.fma(k, LN_2_LOW, logarithm))
    body.give(logarithm_limits(body, x, bits, total, from_one))


def log_2(body: Body, from_one: bool = False) -> None:
    x = body.parameters[0]
    k, f, bits = _split(body, x, from_one)
    tail = f * f * body.polynomial(f, LOG)
    low = body.fma(f, LOG2_E_LOW, tail * LOG2_E)
    total = body.fma(f, LOG2_E, low) + k
    body.give(logarithm_limits(body, x, bits, total, from_one))


angle = partial(near_angle, half_pi=_HALF_PI)
sin, cos = (partial(wave, shift=shift, sine=SIN, cosine=COS) for shift in (0, 1))


def tanh(body: Body) -> None:
    """A polynomial near 0, 1 - 2 / (e^2x + 1) elsewhere.

    The quotient is the hardware's approximation and a step of Newton's: a division would branch
    for operands that are out of its range, and none is.  A NaN takes the polynomial."""
    x = body.parameters[0]
    magnitude = body.abs(x)
    square = x * x
    near = body.fma(x * square, body.polynomial(square, TANH), x)
    within = body.intrinsic("minnum", magnitude, body.term(10.0, "float"))
    sum = body.call("llvm.nvvm.ex2.approx.ftz.f", "float", within * (2 * LOG2_E)) + 1.0
    about = body.call("llvm.nvvm.rcp.approx.ftz.f", "float", sum)
    quotient = body.fma(about, body.fma(-sum, about, 1.0), about)
    far = body.fma(-2.0, quotient, 1.0)
    is_far = magnitude.compare("", "oge", 0.6)
    body.give(body.select(is_far, body.copy_sign(far, x), near))


def erf(body: Body) -> None:
    """A polynomial near 0, 1 - 2^p(x) elsewhere."""
    x = body.parameters[0]
    magnitude = body.abs(x)
    near = body.fma(x, body.polynomial(x * x, ERF), x)
    within = body.intrinsic("minnum", magnitude, body.term(4.0, "float"))
    far = 1.0 - body.call("llvm.nvvm.ex2.approx.ftz.f", "float", body.polynomial(within, ERFC))
    found = body.select(magnitude > 1.0, body.copy_sign(far, x), near)
    body.give(found)


# ---- with -ffast-math ----------------------------------------------------------------------------


def fast_exp(body: Body) -> None:
    body.give(body.intrinsic("exp2", body.parameters[0] * LOG2_E))


def fast_log(body: Body) -> None:
    body.give(body.call("llvm.nvvm.lg2.approx.f", "float", body.parameters[0]) * LN_2)


def fast_tanh(body: Body) -> None:
    x = body.parameters[0]
    body.give(body.make(f'call float asm "tanh.approx.f32 $0, $1;", "=f,f"(float {x.name}) {PURE}',
                        "float"))


# exp2 gives 0 below 2^-126.  Subnormal results would take three instructions more, which share a
# predicate and so run in turn: attention then takes half as long again.
FUNCTIONS: dict[str, Callable[[Body], None]] = {
    "exp": exp, "exp2": _approximation("ex2.approx.ftz"), "log": log_e, "log2": log_2,
    "log_from_one": partial(log_e, from_one=True), "log2_from_one": partial(log_2, from_one=True),
    "rsqrt": _approximation("rsqrt.approx"), "sin": sin, "cos": cos, "angle": angle,
    "tanh": tanh, "erf": erf}
FAST_FUNCTIONS = {
    "exp": fast_exp, "log": fast_log, "log2": _approximation("lg2.approx"),
    "sin": _approximation("sin.approx"), "cos": _approximation("cos.approx"), "tanh": fast_tanh}
