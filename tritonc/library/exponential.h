// What exponentials and logarithms are made of.
//
// EXPONENTIAL(y, h, l, s): y = exp(h + l) 2^s.  h + l = n ln 2 + r with |r| <= ln 2 / 2; the power of
// two is multiplied in two steps, so that a subnormal result is rounded once.
#include "polynomials.h"
#define EXPONENTIAL(y, h, l, s) \
  REAL y##_c = h > LARGEST_LOG ? LARGEST_LOG : h < -LARGEST_LOG ? -LARGEST_LOG : h; \
  REAL y##_n = NEAREST(y##_c * LOG2_E); \
  REAL y##_h = fma(-y##_n, LN_2, y##_c), y##_l = fma(-y##_n, LN_2_LOW, l); \
  REAL y##_r = y##_h + y##_l; \
  REAL y##_p = fma(y##_r * y##_r, EXP(y##_r), (y##_h - y##_r) + y##_l); \
  INT y##_m = (INT)y##_n + s; \
  INT y##_a = y##_m >> 1; \
  REAL y##_s = y##_r + y##_p, y##_1 = 1 + y##_s; \
  REAL y = y##_1 * POWER_OF_2(y##_a) * POWER_OF_2(y##_m - y##_a)

// What EXPONENTIAL rounded off, of a y that is not subnormal.
#define REST_OF(y) (((1 - y##_1) + y##_s) * POWER_OF_2(y##_a) * POWER_OF_2(y##_m - y##_a))

// LOGARITHM(x, h, l): h + l = log(x) for a positive finite x, with some ten bits more than the type
// has.  x = m 2^k, log(m) = 2 atanh(s) with s = (m - 1) / (m + 1), in two parts.
#define LOGARITHM(x, h, l) \
  bool h##_tiny = x < LEAST_NORMAL; \
  INT h##_b = BITS(h##_tiny ? x * TINY_SCALE : x); \
  INT h##_e = (h##_b - ROOT_HALF_BITS) >> MANTISSA; \
  REAL h##_m = bitcast<REAL>(h##_b - (h##_e << MANTISSA)); \
  REAL h##_k = (REAL)(h##_tiny ? h##_e - TINY_EXPONENT : h##_e); \
  REAL h##_f = h##_m - 1, h##_t = h##_m + 1; \
  REAL h##_i = 1 / h##_t; \
  REAL h##_s = h##_f * h##_i; \
  REAL h##_sl = (fma(-h##_s, h##_t, h##_f) - h##_s * (h##_m - (h##_t - 1))) * h##_i; \
  REAL h##_p = h##_s * h##_s; \
  REAL h##_pl = fma(h##_s, h##_s, -h##_p) + 2 * h##_s * h##_sl; \
  REAL h##_q = h##_s * h##_p; \
  REAL h##_ql = fma(h##_s, h##_p, -h##_q) + (h##_s * h##_pl + h##_sl * h##_p); \
  REAL h##_r = h##_q * TWO_THIRDS; \
  REAL h##_rl = fma(h##_q, TWO_THIRDS, -h##_r) + fma(h##_q, TWO_THIRDS_LOW, h##_ql * TWO_THIRDS); \
  REAL h##_x = h##_k * LN_2; \
  REAL h##_y = h##_x + 2 * h##_s; \
  REAL h##_yl = 2 * h##_s - (h##_y - h##_x); \
  REAL h##_z = h##_y + h##_r; \
  REAL h##_zl = h##_r - (h##_z - h##_y); \
  REAL h##_w = fma(h##_q * h##_p, LOG(h##_p), h##_rl) + 2 * h##_sl; \
  REAL h##_u = h##_yl + h##_zl + fma(h##_k, LN_2_LOW, h##_w); \
  REAL h = h##_z + h##_u; \
  REAL l = h##_u - (h - h##_z)

// The logarithm's value where x is 0, infinite, negative or no number.
#define OR_LIMIT(x, result) \
  (x == 0 ? -INFINITY : x == INFINITY ? x : x >= 0 ? result : NAN)
