/* What the stub of the CUDA driver notes. */
#include <cuda.h>

struct stub_notes {
  int loads, unloads, launches;
  char name[64];       /* of the last launch: its kernel, ... */
  unsigned grid[3], threads, lines, planes, shared;
  CUstream stream;
  unsigned count;      /* of arguments, which the test says */
  void *arguments[16];
  int last;            /* the last argument's first 4 bytes */
  int table[4];        /* as it was filled last */
  int asked;           /* about pointers; 0xbad000 is none of the GPU */
  int version;         /* that functions have of PTX */
};
#ifdef __cplusplus
extern "C" {
#endif
extern struct stub_notes stub;
CUresult stub_context(CUcontext *context);
#ifdef __cplusplus
}
#endif
