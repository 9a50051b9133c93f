/* y = a * x + y on the GPU, and compared with the same on the host.  The PTX is a file that is loaded
 * when the program runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "range.h"
#include "saxpy.h"

/* Whether a call failed; then says which, and why. */
static int failed(CUresult code, const char *what) {
  const char *text = NULL;
  if (code == CUDA_SUCCESS)
    return 0;
  cuGetErrorString(code, &text);
  fprintf(stderr, "%s: %s\n", what, text ? text : "unknown error");
  return 1;
}

int main(int argc, char **argv) {
  const char *ptx = argc > 1 ? argv[1] : "saxpy.ptx";
  enum { N = 1000003 };
  const size_t bytes = N * sizeof(float);
  float *x = malloc(bytes), *y = malloc(bytes), *got = malloc(bytes);
  char log[4096] = "";
  CUdevice device;
  CUcontext context;
  CUdeviceptr dx, dy;
  int i, wrong = 0;

  if (x == NULL || y == NULL || got == NULL)
    return 1;
  for (i = 0; i < N; i++) {
    x[i] = (float)(i % 17) - 8;
    y[i] = (float)(i % 5);
  }
  if (failed(cuInit(0), "cuInit") || failed(cuDeviceGet(&device, 0), "cuDeviceGet") ||
      failed(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain") ||
      failed(cuCtxSetCurrent(context), "cuCtxSetCurrent") ||
      failed(cuMemAlloc(&dx, bytes), "cuMemAlloc") ||
      failed(cuMemAlloc(&dy, bytes), "cuMemAlloc") ||
      failed(cuMemcpyHtoD(dx, x, bytes), "cuMemcpyHtoD") ||
      failed(cuMemcpyHtoD(dy, y, bytes), "cuMemcpyHtoD"))
    return 1;
  if (failed(saxpy_load_file(ptx, log, sizeof log), ptx)) {
    fputs(log, stderr);
    return 1;
  }

  if (failed(saxpy_launch(N, NULL, 2.5f, (const float *)dx, (float *)dy, N), "saxpy") ||
      failed(cuMemcpyDtoH(got, dy, bytes), "cuMemcpyDtoH"))
    return 1;
  for (i = 0; i < N; i++) {
    float want = fminf(fmaxf(2.5f * x[i] + y[i], LOWEST), HIGHEST);
    wrong += fabsf(got[i] - want) > 1e-5f;
  }

  cuMemFree(dx);
  cuMemFree(dy);
  cuDevicePrimaryCtxRelease(device);
  free(x);
  free(y);
  free(got);
  printf("saxpy: %d elements in tiles of %d, %d wrong\n", (int)N, (int)saxpy_tile0, wrong);
  return wrong != 0;
}
