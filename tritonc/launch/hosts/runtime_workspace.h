/* Memory that some variants take for sums. */
#ifndef TRITONC_WORKSPACE
#define TRITONC_WORKSPACE 1

/* Its bytes: tickets of programs, and `each` for a program; none for a variant without. */
static inline size_t tritonc_workspace(const tritonc_kernel *kernel, const int64_t *range,
                                       size_t each) {
  uint64_t tiles = 1;
  int axis;
  for (axis = 0; axis < 3; axis++)
    tiles = tritonc_tiles(tiles, range[axis], kernel->tile[axis]);
  return each == 0 || tiles == 0 ? 0 : 4096 + (size_t)tiles * each;
}

#endif
