/* The choice among the variants of a kernel.  tritonc/variants/choice.py is the definition; this
 * computes the same, in integers that never overflow. */
#ifndef TRITONC_CHOICE
#define TRITONC_CHOICE 1

/* Where costs are constants there is no division: of each variant a part of its own. */
#ifdef _MSC_VER
#define TRITONC_PART static __forceinline
#else
#define TRITONC_PART static inline __attribute__((always_inline))
#endif

/* How many parts of an extent there are; at most `most`. */
TRITONC_PART uint64_t tritonc_parts(int64_t extent, int64_t part, uint64_t most) {
  uint64_t count = extent > 0 ? (uint64_t)((extent - 1) / part) + 1 : 0;
  return count < most ? count : most;
}

/* So many tiles along one more axis. */
TRITONC_PART uint64_t tritonc_tiles(uint64_t tiles, int64_t extent, int64_t tile) {
  const uint64_t most = UINT64_C(1) << 24;
  tiles *= tritonc_parts(extent, tile, most);
  return tiles < most ? tiles : most;
}

/* How much of the last tile of an extent lies beyond it. */
TRITONC_PART uint64_t tritonc_beyond(int64_t extent, int64_t tile) {
  const int64_t last = extent > 0 ? extent % tile : 0;
  return (uint64_t)(last > 0 ? tile - last : 0);
}

/* A loop's length, times one argument more. */
static inline int64_t tritonc_length(int64_t length, int64_t argument) {
  const int64_t most = INT64_C(1) << 31;
  length *= argument > most ? most : argument > 0 ? argument : 0;
  return length < most ? length : most;
}

/* So many steps in one more loop. */
TRITONC_PART uint64_t tritonc_steps(uint64_t steps, int64_t length, int64_t depth) {
  const uint64_t most = UINT64_C(1) << 18;
  steps *= tritonc_parts(length, depth, most);
  return steps < most ? steps : most;
}

static inline uint64_t tritonc_most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* The time of a variant, in quarters of a clock cycle.  The remainder is no branch: which sizes
 * have one nothing foretells. */
TRITONC_PART uint64_t tritonc_time(uint64_t tiles, uint64_t beyond, int covered, uint64_t steps,
                                   uint64_t processors, uint64_t blocks, uint64_t once,
                                   uint64_t start, uint64_t busy, uint64_t wait, uint64_t edge,
                                   uint64_t parts, uint64_t part) {
  const uint64_t most = (tiles + processors - 1) / processors, beside = blocks ? blocks : 1;
  const uint64_t waves = most / beside, rest = most % beside;
  const uint64_t full = tritonc_most(wait, beside * busy), last = tritonc_most(wait, rest * busy);
  const uint64_t left = parts ? tiles % processors : 0;
  const uint64_t cut = 0 - (uint64_t)(tiles > processors && left > 0 && left * parts <= processors);
  const uint64_t time = once + waves * (start + steps * full)
         + ((start + steps * last) & (0 - (uint64_t)(rest > 0)))
         + steps * (beyond * edge / processors) + ((steps * part - steps * full) & cut);
  return blocks == 0 && most > 1 ? UINT64_MAX : time - (covered ? time >> 5 : 0);
}

/* The logarithm, in units of 2^-16, of a number of at least 1. */
static inline int32_t tritonc_log2(int64_t value) {
  uint64_t number = value > 1 ? (uint64_t)value : 1;
#ifdef _MSC_VER
  unsigned long highest;
  int32_t exponent = (_BitScanReverse64(&highest, number), (int32_t)highest);
#else
  int32_t exponent = 63 - __builtin_clzll(number);
#endif
  uint32_t part = (uint32_t)(exponent >= 16 ? number >> (exponent - 16)
                                            : number << (16 - exponent)) & 0xffffu;
  return (exponent << 16) + (int32_t)(part + ((part * (65536u - part) >> 16) * 22525u >> 16));
}

/* An unsigned number as a signed one, the greatest if it is greater. */
static inline int64_t tritonc_signed(uint64_t number) {
  return number <= (uint64_t)INT64_MAX ? (int64_t)number : INT64_MAX;
}

/* The variant of the nearest of `count` sizes with `names` names each: `points` has their
 * logarithms.  A bit of `allowed` says whether a variant may run; the general one, 0, always may. */
static inline unsigned tritonc_nearest(const int32_t *points, const unsigned char *variants,
                                       unsigned count, unsigned names, const int32_t *size,
                                       uint64_t allowed) {
  unsigned best = 0, i, j;
  int64_t least = INT64_MAX;
  for (i = 0; i < count; i++) {
    int64_t sum = 0;
    for (j = 0; j < names; j++) {
      int32_t difference = points[i * names + j] - size[j];
      sum += difference < 0 ? -difference : difference;
    }
    if (sum < least && (allowed >> variants[i] & 1)) {
      least = sum;
      best = variants[i];
    }
  }
  return best;
}

#endif
