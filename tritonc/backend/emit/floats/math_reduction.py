"""What functions of f32 and f64 share: logarithms at their limits, sines; and

angles of any size modulo pi/2 (Payne and Hanek, "Radian Reduction for Trigonometric Functions").

For a large x = m 2^e, with an integer m of 53 bits, x * 2/pi = m * (2^e * 2/pi).  Of the binary
digits of 2/pi, those that e shifts far to the left of the point only add multiples of 4 quadrants,
and those far to its right add too little to matter: 192 digits in between are enough, and the
product is integer arithmetic.  Its two bits before the point are the quadrant; the rest, rounded to
the nearest quadrant, is the angle over pi/2, exact to 2^-126."""

from collections.abc import Sequence
from functools import cache
from math import pi

from tritonc.backend.emit.body import Body, Term, helper_function

WORD = 64
LARGE_ANGLE = 100000.0  # from which on an angle is reduced so
WORDS = 21  # one of zeros, for small exponents, then 1280 digits: enough for the greatest double


@cache
def two_over_pi() -> tuple[int, ...]:
    """A zero, then the binary digits of 2/pi after the point, in words of 64.

    pi = 16 atan(1/5) - 4 atan(1/239) (Machin).

    >>> hex(two_over_pi()[1])
    '0xa2f9836e4e441529'
    """
    digits = WORD * (WORDS - 1)
    unit = 1 << (digits + WORD)

    def arctangent(n: int) -> int:
        power, total, k = unit // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    machin = 16 * arctangent(5) - 4 * arctangent(239)
    fraction = (unit << (digits + 1)) // machin
    mask = (1 << WORD) - 1
    return (0, *(fraction >> (digits - WORD * i) & mask for i in range(1, WORDS)))


def reduced_angle(body: Body, x: Term) -> tuple[Term, Term]:
    """For an f64 of at least 2^16 in magnitude: x - q pi/2 as f64 and q (mod 4) as i32.

    One function that is called, as it is long and seldom needed."""
    assert body.module is not None
    pair = "{ double, i32 }"
    name = helper_function(body.module, "large.angle", pair, ("double",), _large_angle,
                           inline=False)
    found = body.call_helper(name, pair, x)
    return (body.make(f"extractvalue {pair} {found.name}, 0", "double"),
            body.make(f"extractvalue {pair} {found.name}, 1", "i32"))


def _large_angle(body: Body) -> None:
    x = body.parameters[0]
    bits = x.bits()
    exponent = ((bits >> 52) & 0x7FF) - 1075
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # The digits from index exponent - 1 on (the first after the point has index 1) matter.
    position = exponent + 62
    word, offset = position >> 6, position & 63
    digits = [_word(body, word + i) for i in range(4)]
    window = [body.call("llvm.fshl.i64", "i64", digits[i], digits[i + 1], offset) for i in range(3)]
    wide = mantissa.cast("zext", "i128")
    low = (window[2].cast("zext", "i128") * wide) >> 64
    middle = window[1].cast("zext", "i128") * wide
    high = (window[0] * mantissa).cast("zext", "i128") << 64
    product = low + middle + high  # in units of 2^-126 quadrants, modulo 4
    fraction = product << 2
    negative = fraction < 0
    quadrant = (product >> 126).cast("trunc", "i32") + negative.cast("zext", "i32")
    magnitude = body.select(negative, 0 - fraction, fraction)
    top, rest = (magnitude >> 64).cast("trunc", "i64"), magnitude.cast("trunc", "i64")
    zeros = body.make(f"call i64 @llvm.ctlz.i64(i64 {top.name}, i1 false)", "i64")
    assert body.module is not None
    body.module.declare("llvm.ctlz.i64", "i64 (i64, i1)")
    leading = body.call("llvm.fshl.i64", "i64", top, rest, zeros).cast("uitofp", "double")
    scale = ((1023 - zeros) << 52).as_float()
    angle = leading * (pi / 2 * 2.0**-64) * scale
    below = bits < 0
    angle = body.select(negative.differs(below), -angle, angle)
    finite = exponent.differs(0x7FF - 1075)
    angle = body.select(finite, angle, float("nan"))
    quadrant = body.select(below, 0 - quadrant, quadrant)
    body.give_pair(angle, quadrant)


def _word(body: Body, index: Term) -> Term:
    """A word of the table; past its end, where an infinity would look, its last one."""
    assert body.module is not None
    words = ", ".join(f"i64 {word}" for word in two_over_pi())
    table = body.module.define_global(
        "tritonc_two_over_pi",
        f"private unnamed_addr addrspace(1) constant [{WORDS} x i64] [{words}], align 8")
    inside = body.call("llvm.umin.i64", "i64", index, body.term(WORDS - 1, "i64"))
    at = body.make(f"getelementptr [{WORDS} x i64], ptr addrspace(1) {table}, i64 0, "
                   f"i64 {inside.name}", "ptr addrspace(1)")
    return body.make(f"load i64, ptr addrspace(1) {at.name}, align 8, !invariant.load !0", "i64")


def near_angle(body: Body, half_pi: Sequence[float]) -> None:
    """x less its nearest multiple of pi/2, and which multiple, modulo 4, up to LARGE_ANGLE.

    `half_pi`: pi/2 in three parts of the type."""
    x = body.parameters[0]
    wide = x.type == "double"
    magic = 1.5 * 2.0 ** (52 if wide else 23)  # adding it leaves an integer in the low bits
    shifted = body.fma(x, 2 / pi, magic)
    turns = shifted - magic
    angle = x
    for part in half_pi:
        angle = body.fma(turns, -part, angle)
    body.give_pair(angle, shifted.bits().cast("trunc", "i32") if wide else shifted.bits())


def any_angle(body: Body) -> None:
    """The same of any x, of which the other parameters are the near angle and its quadrant."""
    x, angle, quadrant = body.parameters
    wide = x.type == "double"
    body.branch(body.abs(x) > LARGE_ANGLE, "large", "reduced")
    body.block("large")
    far, far_quadrant = reduced_angle(body, x if wide else x.cast("fpext", "double"))
    far = far if wide else far.cast("fptrunc", "float")
    body.jump("reduced")
    body.block("reduced")
    body.give_pair(body.phi((angle, "start"), (far, "large")),
                   body.phi((quadrant, "start"), (far_quadrant, "large")))


def wave(body: Body, shift: int, sine: Sequence[float], cosine: Sequence[float]) -> None:
    """sin(x + shift pi/2), from x less its nearest multiple of pi/2, and that multiple.

    The polynomials, in the square of the angle x: (sin(x) / x - 1) / x^2 and
    (cos(x) - 1 + x^2 / 2) / x^4."""
    angle, quadrant = body.parameters
    quadrant = quadrant + shift if shift else quadrant
    square = angle * angle
    odd = body.fma(angle * square, body.polynomial(square, sine), angle)
    even = body.fma(square * square, body.polynomial(square, cosine), body.fma(square, -0.5, 1.0))
    found = body.select((quadrant & 1).differs(0), even, odd)
    body.give(body.select((quadrant & 2).differs(0), -found, found))


def logarithm_limits(body: Body, x: Term, bits: Term, result: Term, from_one: bool = False) -> Term:
    """A logarithm's values at 0, infinity, NaN and below 0 (bits from those of infinity on)."""
    infinity = float("inf")
    special = body.fma(x, infinity, infinity)  # infinity, or NaN for a negative number and NaN
    from_infinity = 0x7FF0000000000000 if x.type == "double" else 0x7F800000
    found = body.select(bits.compare("uge", "", from_infinity), special, result)
    return found if from_one else body.select(x.equals(0.0), -infinity, found)
