"""Functions of f64, for which the hardware has only the square root, and 20 bits of its reciprocal.

The polynomials are minimax fits (Remez) of what their comments say, the highest power first.  These
functions rounded to f32 are those of f32 with `-fprecise-math`."""

from collections.abc import Callable
from functools import partial
from math import log

from tritonc.backend.emit.body import Body, Term
from tritonc.backend.emit.floats.math_reduction import logarithm_limits, near_angle, wave

# (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2
EXP = (2.092698731414356e-09, 2.5112346522727783e-08, 2.7557233251401343e-07,
       2.7557233935563467e-06, 2.4801587373805744e-05, 0.0001984126989735525,
       0.001388888888885846, 0.008333333333316621, 0.04166666666666673, 0.16666666666666685, 0.5)
# (2^r - 1) / r for |r| <= 1/2
EXP2 = (1.3722616632903729e-12, 2.5737176572560766e-11, 4.445525870856767e-10,
        7.054891732709487e-09, 1.0178086034455807e-07, 1.3215486823261428e-06,
        1.5252733804032363e-05, 0.0001540353039335373, 0.0013333558146428458,
        0.009618129107628487, 0.05550410866482158, 0.24022650695910072, 0.6931471805599453)
# (2 atanh(s) - 2 s) / s^3, in s^2, for |s| <= 0.1716
LOG = (0.14797530537285136, 0.1531390101227867, 0.18183569824243104, 0.2222219847446146,
       0.28571428743275484, 0.39999999999411057, 0.6666666666666735)
# (sin(x) / x - 1) / x^2 and (cos(x) - 1 + x^2 / 2) / x^4, in x^2, for |x| <= pi / 4
SIN = (1.5896503249955993e-10, -2.5050753238173572e-08, 2.7557313661921602e-06,
       -0.0001984126982972499, 0.008333333333322316, -0.16666666666666632)
COS = (-1.1359451261123377e-11, 2.087571959097891e-09, -2.755731432608041e-07,
       2.4801587289394276e-05, -0.0013888888888873988, 0.0416666666666666)
# erf(x) / x - 1, in x^2, for |x| <= 1
ERF = (5.960712014166667e-11, -1.1374970766332958e-09, 1.4660332383167163e-08,
       -1.6350396726974584e-07, 1.646100852091039e-06, -1.4925595774544614e-05,
       0.00012055331133038531, -0.0008548326981427313, 0.0052239776248284514,
       -0.026866170645077875, 0.11283791670954885, -0.3761263890318375, 0.1283791670955126)
# ln(1 - erf(x + 2)) for -1 <= x <= 4
ERFC = (-1.7716284032146339e-13, 2.1413209815708467e-12, -1.109281772492919e-11,
        3.189276677602426e-11, -3.4916457235243766e-11, -2.616156982289767e-10,
        2.5186829818407807e-09, -1.3969708218085629e-08, 5.782218994351488e-08,
        -1.7318523667961912e-07, 2.0362692266825225e-07, 1.952181251875565e-06,
        -2.0706428179110862e-05, 0.00013530933896618974, -0.0007323993860458171,
        0.003570756345539821, -0.0164651181369054, -0.923750841823778, -4.418160805994415,
        -5.364941264616638)

INFINITY = float("inf")
MAGIC = 1.5 * 2.0**52  # adding it leaves an integer in the low bits
LOG2_E = 1 / log(2)
LOG2_E_LOW = 2.0355273740931033e-17  # 1 / ln 2 beyond LOG2_E
LN_2_HIGH = 0.693147180369123816490  # its low 32 bits are 0, so that k * LN_2_HIGH is exact
LN_2_LOW = 1.90821492927058770002e-10
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)


def _power(exponent: Term) -> tuple[Term, Term]:
    """2^(k/2) twice for an i64 k of -1100 to 1100: their product overflows where it should."""
    half = exponent.shift_right_signed(1)
    return (((half + 1023) << 52).as_float(), ((exponent - half + 1023) << 52).as_float())


def _integer(shifted: Term) -> Term:
    """The integer in the low bits of a number to which MAGIC was added, as i64."""
    return shifted.bits().cast("trunc", "i32").cast("sext", "i64")


def _exp_parts(body: Body, x: Term) -> tuple[Term, Term]:
    """x = k ln 2 + r: the i64 k and e^r - 1."""
    shifted = body.fma(x, LOG2_E, MAGIC)
    k = shifted - MAGIC
    r = body.fma(k, -LN_2_LOW, body.fma(k, -LN_2_HIGH, x))
    return _integer(shifted), body.fma(r * r, body.polynomial(r, EXP), r)


def _exp(body: Body, x: Term) -> Term:
    k, minus_one = _exp_parts(body, x)
    first, second = _power(k)
    found = body.fma(minus_one, first, first) * second
    found = body.select(x > 709.8, INFINITY, found)
    return body.select(x < -746.0, 0.0, found)


def exp(body: Body) -> None:
    body.give(_exp(body, body.parameters[0]))


def exp2(body: Body) -> None:
    x = body.parameters[0]
    shifted = x + MAGIC
    r = x - (shifted - MAGIC)
    first, second = _power(_integer(shifted))
    found = body.fma(r * body.polynomial(r, EXP2), first, first) * second
    found = body.select(x >= 1024.0, INFINITY, found)
    body.give(body.select(x < -1080.0, 0.0, found))


def _logarithm(body: Body, finish: str) -> None:
    """x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); with s = f / (2 + f),

    ln(1 + f) = 2 atanh(s) = f - (f^2 / 2 - s (f^2 / 2 + s^2 P(s^2)))."""
    x = body.parameters[0]
    tiny = x < 2.0**-1022
    scaled = body.select(tiny, x * 2.0**54, x)
    bits = scaled.bits()
    k = (bits - 0x3FE6A09E667F3BCD).shift_right_signed(52)
    f = (bits - (k << 52)).as_float() - 1.0
    power = body.select(tiny, k - 54, k).cast("sitofp", "double")
    half_square = f * f * 0.5
    s = f / (f + 2.0)
    square = s * s
    rest = s * (half_square + square * body.polynomial(square, LOG))
    if finish == "e":
        low = body.fma(power, LN_2_LOW, rest)
        found = body.fma(power, LN_2_HIGH, f - (half_square - low))
    else:
        high = f - half_square
        low = ((f - high) - half_square) + rest
        product = high * LOG2_E
        lost = body.fma(high, LOG2_E, -product)
        lost = lost + body.fma(high, LOG2_E_LOW, low * LOG2_E)
        total = power + product
        found = total + (lost + ((power - total) + product))
    body.give(logarithm_limits(body, x, bits, found))


def rsqrt(body: Body) -> None:
    """A step of third order from the hardware's 20 bits, which are all there is of 0 and infinity:
    its x y is no number there.  Subnormal numbers are scaled.

    y (1 + e / 2 + 3 e^2 / 8) with e = 1 - x y^2"""
    x = body.parameters[0]
    tiny = x.bits() < 1 << 52
    x = x * body.select(tiny, 2.0**54, body.term(1.0, "double"))
    y = body.call("llvm.nvvm.rsqrt.approx.ftz.d", "double", x)
    e = body.fma(-(x * y), y, 1.0)
    found = body.fma(e * y, body.fma(e, 0.375, 0.5), y)
    found = body.select(found.is_nan(), y, found)
    body.give(found * body.select(tiny, 2.0**27, body.term(1.0, "double")))


angle = partial(near_angle, half_pi=_HALF_PI)
sin, cos = (partial(wave, shift=shift, sine=SIN, cosine=COS) for shift in (0, 1))


def tanh(body: Body) -> None:
    """t / (t + 2) with t = e^2x - 1, which is exact enough near 0 as well."""
    x = body.parameters[0]
    magnitude = body.abs(x)
    double = body.intrinsic("minnum", magnitude * 2.0, body.term(80.0, "double"))
    k, minus_one = _exp_parts(body, double)
    scale = ((k + 1023) << 52).as_float()
    t = body.fma(minus_one, scale, scale - 1.0)
    found = body.copy_sign(t / (t + 2.0), x)
    body.give(body.select(x.is_nan(), x, found))


def erf(body: Body) -> None:
    """A polynomial near 0, 1 - e^p(x) elsewhere."""
    x = body.parameters[0]
    magnitude = body.abs(x)
    near = body.fma(x, body.polynomial(x * x, ERF), x)
    within = body.intrinsic("minnum", magnitude, body.term(6.0, "double"))
    far = 1.0 - _exp(body, body.polynomial(within - 2.0, ERFC))
    body.give(body.select(magnitude > 1.0, body.copy_sign(far, x), near))


FUNCTIONS: dict[str, Callable[[Body], None]] = {
    "exp": exp, "exp2": exp2, "log": partial(_logarithm, finish="e"),
    "log2": partial(_logarithm, finish="2"), "rsqrt": rsqrt, "sin": sin, "cos": cos, "angle": angle,
    "tanh": tanh, "erf": erf}
