/* Memory that some variants take for sums. */
#ifndef TRITONC_WORKSPACE
#define TRITONC_WORKSPACE 1

/* Its bytes: tickets of programs, and `each` for a program; none for a variant without. */
static inline size_t tritonc_workspace(const tritonc_kernel *kernel, const int64_t *range,
                                       size_t each) {
  const uint64_t most = UINT64_C(1) << 24;
  uint64_t tiles = 1, count;
  int axis;
  for (axis = 0; axis < 3; axis++) {
    count = range[axis] > 0 ? (uint64_t)((range[axis] - 1) / kernel->tile[axis]) + 1 : 0;
    tiles *= count < most ? count : most;
    tiles = tiles < most ? tiles : most;
  }
  return each == 0 || tiles == 0 ? 0 : 4096 + (size_t)tiles * each;
}

#endif
