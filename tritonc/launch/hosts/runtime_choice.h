/* What the choice among the variants of a kernel calls.  tritonc/variants/choice.py is the
 * definition, in integers that never overflow. */
#ifndef TRITONC_CHOICE
#define TRITONC_CHOICE 1

/* How many bits a number of at least 1 has. */
static inline int64_t tritonc_bits(int64_t number) {
#ifdef _MSC_VER
  unsigned long highest;
  _BitScanReverse64(&highest, (uint64_t)number);
  return (int64_t)highest + 1;
#else
  return 64 - __builtin_clzll((uint64_t)number);
#endif
}

/* An unsigned number as a signed one, the greatest if it is greater. */
static inline int64_t tritonc_signed(uint64_t number) {
  return number <= (uint64_t)INT64_MAX ? (int64_t)number : INT64_MAX;
}

#endif
