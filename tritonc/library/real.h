// A type of the library: REAL, the integers of its width, and its limits.
#if KIND == 64
#define REAL double
#define INT long
#define DOUBLE 1
#define MANTISSA 52
#define BIAS 1023
#define LEAST_NORMAL 0x1p-1022
#define TINY_SCALE 0x1p54
#define TINY_EXPONENT 54
#define ROOT_HALF_BITS 0x3fe6a09e667f3bcdl
#define LARGEST_LOG 1416.0
#define TOO_LARGE_LOG 709.79
#define EPSILON 0x1p-54
#define HUGE_ROOT 0x1p28
#define INTEGRAL 0x1p52
#define MAGNITUDE 0x7fffffffffffffffl
#elif KIND == 32
#define REAL float
#define INT int
#define DOUBLE 0
#define MANTISSA 23
#define BIAS 127
#define LEAST_NORMAL 0x1p-126
#define TINY_SCALE 0x1p25
#define TINY_EXPONENT 25
#define ROOT_HALF_BITS 0x3f3504f3
#define THREE_QUARTERS_BITS 0x3f400000
#define LOG_2 0.69314718056
#define LARGEST_LOG 174.0
#define TOO_LARGE_LOG 88.73
#define EPSILON 0x1p-25
#define HUGE_ROOT 0x1p14
#define INTEGRAL 0x1p23
#define MAGNITUDE 0x7fffffff
#else
#if KIND == 17
#define REAL bfloat16
#else
#define REAL half
#endif
#define INT short
#define MAGNITUDE 0x7fff
#endif
#define BITS(x) bitcast<INT>(x)
#define POWER_OF_2(n) bitcast<REAL>((INT)((n) + BIAS) << MANTISSA)
#define SIGN_OF(x, y) bitcast<REAL>((INT)((BITS(y) & MAGNITUDE) | (BITS(x) & ~MAGNITUDE)))
// The nearest integer, ties to even, of what is less than 2^51 (2^22).
#define NEAREST(x) (((x) + 1.5 * INTEGRAL) - 1.5 * INTEGRAL)
