/* What the functions of a header do, told by the stub: run as `logic kernels.ptx`. */
#include "kernels.h"
#include "other.h"
#include "stub.h"

#include <stdio.h>

static int failures;
#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      printf("line %d: %s\n", __LINE__, #condition);                                              \
      failures++;                                                                                 \
    }                                                                                             \
  } while (0)

static float *const X = (float *)64;
static int *const Y = (int *)64;
static uint16_t *const H = (uint16_t *)48;
static uint8_t *const B = (uint8_t *)7;

static CUresult launch_f(int64_t range) {
  return f_launch(range, (CUstream)32, X, H, H, true, 'c', 1LL << 40, 1000);
}

int main(int argc, char **argv) {
  CUcontext first, second;
  const char *reason = NULL;
  char log[32] = "old";
  int values[4] = {3, 1, 4, 1};

  /* before there is a driver, a context, a module */
  CHECK(argc == 2);
  CHECK(launch_f(0) == CUDA_SUCCESS);
  CHECK(launch_f(1) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(launch_f(1) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(kernels_load_file(argv[1], NULL, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(kernels_unload() == CUDA_ERROR_INVALID_CONTEXT);
  stub_context(&first);
  stub_context(&second);
  cuCtxSetCurrent(first);
  CHECK(launch_f(1) == CUDA_ERROR_NOT_FOUND);
  CHECK(kernels_fill_delta(values, NULL) == CUDA_ERROR_NOT_FOUND);

  /* loading: what cannot be, then once */
  CHECK(kernels_load_file("no such file", log, sizeof log) == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(log[0] == 0);
  CHECK(kernels_load_file(NULL, NULL, 0) == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(kernels_load_file(".", NULL, 0) == CUDA_ERROR_FILE_NOT_FOUND); /* a folder */
  CHECK(kernels_load_data(NULL, NULL, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(kernels_load_data("// tritonc: {of another}\n", NULL, 0) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(stub.loads == 0);
  CHECK(kernels_load_data("syntax error", NULL, 0) == CUDA_ERROR_INVALID_PTX);
  CHECK(kernels_load_data("syntax error", log, sizeof log) == CUDA_ERROR_INVALID_PTX);
  CHECK(strcmp(log, "ptxas says no") == 0);
  CHECK(launch_f(1) == CUDA_ERROR_NOT_FOUND);
  stub.loads = 0;
  CHECK(kernels_load_file(argv[1], log, sizeof log) == CUDA_SUCCESS && log[0] == 0);
  CHECK(kernels_load_file(argv[1], NULL, 0) == CUDA_SUCCESS);
  CHECK(kernels_load_data("\177ELF", NULL, 0) == CUDA_SUCCESS);
  CHECK(stub.loads == 1);

  /* grids */
  stub.count = 7;
  CHECK(launch_f(1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "f") == 0 && stub.threads == f_threads && stub.shared == 0);
  CHECK(stub.grid[0] == 1 && stub.grid[1] == 1 && stub.grid[2] == 1);
  CHECK(stub.stream == (CUstream)32 && stub.last == 1000);
  CHECK(launch_f(48) == CUDA_SUCCESS && stub.grid[0] == 1);
  CHECK(launch_f(49) == CUDA_SUCCESS && stub.grid[0] == 2);
  CHECK(stub.launches == 3);
  CHECK(launch_f(0) == CUDA_SUCCESS && stub.launches == 3);
  CHECK(launch_f(-1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_f(INT64_MIN) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_f(INT64_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_f(INT64_C(1) << 31) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_f((INT64_C(1) << 31) - 1) == CUDA_ERROR_INVALID_VALUE); /* indices would wrap */
  CHECK(launch_f((INT64_C(1) << 31) / 48 * 48) == CUDA_SUCCESS && stub.grid[0] == 44739242);
  CHECK(stub.launches == 4);
  /* four instances in a block, and two in the last one, as its shape says */
  CHECK(launch_f(4226 * 48) == CUDA_SUCCESS && stub.grid[0] == 1057);
  CHECK(stub.threads == 64 && stub.lines == 2 && stub.planes == 1);
  CHECK(launch_f(4227 * 48) == CUDA_SUCCESS && stub.grid[0] == 1057);
  CHECK(stub.threads == 64 && stub.lines == 1 && stub.planes == 2);
  CHECK(launch_f(4228 * 48) == CUDA_SUCCESS && stub.grid[0] == 1057);
  CHECK(stub.threads == 128 && stub.lines == 1 && stub.planes == 1);
  stub.launches = 4;
  stub.count = 5;
  CHECK(rows_launch(7, 33, NULL, Y, B, B, 1, 9) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "rows") == 0);
  CHECK(stub.grid[0] == 7 && stub.grid[1] == 3 && stub.grid[2] == 1);
  CHECK(rows_launch(7, 65535 * 16, NULL, Y, B, B, 1, 9) == CUDA_SUCCESS);
  CHECK(rows_launch(7, 65535 * 16 + 1, NULL, Y, B, B, 1, 9) == CUDA_ERROR_INVALID_VALUE);
  CHECK(rows_check(7, 65535 * 16 + 1, Y, B, B, 1, 9, &reason) == CUDA_ERROR_INVALID_VALUE);
  CHECK(strstr(reason, "65535 tiles") != NULL);
  CHECK(rows_launch(0, 5, NULL, NULL, NULL, NULL, 1, 9) == CUDA_SUCCESS);
  CHECK(rows_launch(-1, 0, NULL, Y, B, B, 1, 9) == CUDA_ERROR_INVALID_VALUE);
  stub.count = 1;
  CHECK(once_launch(NULL, Y) == CUDA_SUCCESS && stub.grid[0] == 1);
  CHECK(stub.launches == 7);

  /* assumptions */
  CHECK(f_check(1, X + 1, H, H, 1, 1, 1, 8, &reason) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(strcmp(reason, "x is not aligned to 16 bytes") == 0);
  CHECK(f_check(1, X, (uint16_t *)1, H, 1, 1, 1, 8, NULL) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(f_check(1, X, H, H + 4, 1, 1, 1, 8, NULL) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(f_check(1, X, H, H + 6, 1, 1, 1, 8, NULL) == CUDA_SUCCESS);
  CHECK(f_check(1, X, H, H, 1, 1, 1, -12, &reason) == CUDA_ERROR_INVALID_VALUE);
  CHECK(strcmp(reason, "n is not a multiple of 8") == 0);
  CHECK(f_check(0, X + 1, H, H, 1, 1, 1, 7, NULL) == CUDA_SUCCESS); /* nothing to do */
  CHECK(f_check(1, X, H, H, 1, 1, 1, 0, NULL) == CUDA_SUCCESS);
  CHECK(bounds_check(Y, 3, 250, 9, &reason) == CUDA_SUCCESS);
  CHECK(bounds_check(Y, 2, 250, 9, &reason) == CUDA_ERROR_INVALID_VALUE);
  CHECK(strcmp(reason, "n is less than 3") == 0);
  CHECK(bounds_check(Y, INT32_MIN, 250, 9, NULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(bounds_check(Y, 3, 5, 9, &reason) == CUDA_ERROR_INVALID_VALUE); /* -1 is at most */
  CHECK(strcmp(reason, "k is more than -1") == 0);
  CHECK(bounds_check(Y, 3, 250, INT64_MAX, &reason) == CUDA_ERROR_INVALID_VALUE);
  CHECK(bounds_launch(NULL, Y, 2, 250, 9) == CUDA_ERROR_INVALID_VALUE);

  /* null: only where the kernel looks at nothing */
  CHECK(f_check(1, NULL, H, H, 1, 1, 1, 8, &reason) == CUDA_ERROR_INVALID_VALUE);
  CHECK(strcmp(reason, "x is null") == 0);
  CHECK(f_check(1, NULL, H, H, 1, 1, 1, 0, NULL) == CUDA_SUCCESS);
  CHECK(f_check(1, NULL, H, H, 1, 1, 1, -8, NULL) == CUDA_SUCCESS);
  CHECK(f_check(0, NULL, NULL, NULL, 1, 1, 1, 8, NULL) == CUDA_SUCCESS);
  CHECK(once_launch(NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(optional_check(1, Y, NULL, 1, NULL) == CUDA_SUCCESS);
  CHECK(optional_check(1, NULL, NULL, 1, NULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f_launch(1, NULL, X + 1, H, H, 1, 1, 1, 8) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(stub.launches == 7);

  /* tables */
  CHECK(kernels_fill_delta(NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(kernels_fill_delta(values, (CUstream)48) == CUDA_SUCCESS);
  CHECK(memcmp(stub.table, values, sizeof values) == 0 && stub.stream == (CUstream)48);

  /* another context; embedded PTX needs no call, and shared memory permission */
  cuCtxSetCurrent(second);
  stub.loads = stub.launches = 0;
  CHECK(once_launch(NULL, Y) == CUDA_ERROR_NOT_FOUND);
  stub.count = 4;
  CHECK(other_launch(128, 257, NULL, H, H, H, 64) == CUDA_SUCCESS);
  CHECK(stub.loads == 1 && stub.shared == other_dynamic_shared_bytes && stub.grid[1] == 2);
  CHECK(other_dynamic_shared_bytes > 48 * 1024 && other_tile1 == 256);
  CHECK(other_launch(128, 256, NULL, H, H, H, 64) == CUDA_SUCCESS && stub.loads == 1);
  cuCtxSetCurrent(first);
  CHECK(other_load(log, sizeof log) == CUDA_SUCCESS && stub.loads == 2);
  CHECK(other_launch(128, 256, NULL, H, H, H, 64) == CUDA_SUCCESS && stub.loads == 2);
  CHECK(stub.launches == 3);

  /* unloading */
  CHECK(other_unload() == CUDA_SUCCESS && stub.unloads == 1);
  CHECK(other_unload() == CUDA_SUCCESS && stub.unloads == 1);
  CHECK(other_launch(128, 256, NULL, H, H, H, 64) == CUDA_SUCCESS && stub.loads == 3);

  /* more contexts than are remembered */
  {
    int i;
    stub.loads = 0;
    for (i = 0; i < 3 * TRITONC_CONTEXTS; i++) {
      CUcontext context;
      stub_context(&context);
      cuCtxSetCurrent(context);
      CHECK(other_launch(1, 1, NULL, H, H, H, 64) == CUDA_SUCCESS);
      CHECK(other_launch(1, 1, NULL, H, H, H, 64) == CUDA_SUCCESS);
    }
    CHECK(stub.loads == 3 * TRITONC_CONTEXTS);
    cuCtxSetCurrent(first);
    CHECK(other_launch(1, 1, NULL, H, H, H, 64) == CUDA_SUCCESS);
    CHECK(stub.loads == 3 * TRITONC_CONTEXTS + 1);
  }
  if (failures == 0)
    puts("ok");
  return failures != 0;
}
