/* A second file that includes the header, in C. */
#include "other.h"

#ifdef __cplusplus
#error "this file is C"
#endif

CUresult launch_in_c(void);
CUresult launch_in_c(void) {
  uint16_t *h = (uint16_t *)64;
  return other_launch(1, 1, NULL, h, h, h, 64);
}
