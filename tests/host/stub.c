/* A CUDA driver that runs nothing: it keeps contexts and modules, and notes what is called.  A test
 * program asks it (stub.h) for what happened. */
#include "stub.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CUctx_st { unsigned long long id; };
struct CUmod_st { unsigned long long context; };
struct CUfunc_st { unsigned long long context; char name[64]; int shared; };

struct stub_notes stub;
static __thread CUcontext current;
static unsigned long long last_id;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static char table[1024];

#define ATOMIC_ADD(place) __atomic_add_fetch(place, 1, __ATOMIC_RELAXED)

CUresult cuInit(unsigned flags) {
  initialized = 1;
  return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
#undef cuCtxCreate
CUresult stub_context(CUcontext *context) {
  *context = calloc(1, sizeof **context);
  pthread_mutex_lock(&mutex);
  (*context)->id = last_id++;
  pthread_mutex_unlock(&mutex);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  (void)device;
  return stub_context(context);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return device ? CUDA_ERROR_INVALID_DEVICE : 0; }
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current;
  return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  *id = context->id;
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  const char *text = image;
  ATOMIC_ADD(&stub.loads);
  usleep(2000); /* so that other threads come meanwhile */
  if (current == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (strstr(text, "syntax error")) {
    if (count == 2 && options[0] == CU_JIT_ERROR_LOG_BUFFER)
      strncpy(values[0], "ptxas says no", (size_t)values[1]);
    return CUDA_ERROR_INVALID_PTX;
  }
  *module = calloc(1, sizeof **module);
  (*module)->context = current->id;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  ATOMIC_ADD(&stub.unloads);
  return module->context == current->id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  if (strcmp(name, "missing") == 0)
    return CUDA_ERROR_NOT_FOUND;
  *function = calloc(1, sizeof **function);
  (*function)->context = module->context;
  strncpy((*function)->name, name, sizeof (*function)->name - 1);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name) {
  if (module->context != current->id || strcmp(name, "delta") != 0)
    return CUDA_ERROR_NOT_FOUND;
  *address = (CUdeviceptr)(size_t)table;
  *bytes = 16;
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  memcpy((void *)(size_t)to, from, bytes);
  memcpy(stub.table, table, sizeof stub.table);
  stub.stream = stream;
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  stub.asked++;
  *(CUdeviceptr *)value = pointer;
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  return attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && pointer != 0xbad000
             ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  *value = stub.version;
  return attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION && function ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  function->shared = value;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned tx,
                        unsigned ty, unsigned tz, unsigned shared, CUstream stream,
                        void **arguments, void **extra) {
  if (x == 0 || y == 0 || z == 0 || tx * ty * tz > 1024 || extra != NULL ||
      (shared > 49152 && function->shared < (int)shared))
    return CUDA_ERROR_INVALID_VALUE;
  if (function->context != current->id)
    return CUDA_ERROR_INVALID_CONTEXT;
  ATOMIC_ADD(&stub.launches);
  pthread_mutex_lock(&mutex);
  strcpy(stub.name, function->name);
  stub.grid[0] = x, stub.grid[1] = y, stub.grid[2] = z;
  stub.threads = tx, stub.lines = ty, stub.planes = tz, stub.shared = shared, stub.stream = stream;
  memcpy(stub.arguments, arguments, sizeof stub.arguments[0] * stub.count);
  if (stub.count)
    stub.last = *(int *)arguments[stub.count - 1];
  pthread_mutex_unlock(&mutex);
  return CUDA_SUCCESS;
}

/* For the examples, which run but find everything wrong. */
CUresult cuGetErrorString(CUresult code, const char **text) {
  *text = code ? "an error" : "no error";
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  *address = (CUdeviceptr)(size_t)calloc(1, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  free((void *)(size_t)address);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  memcpy((void *)(size_t)to, from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  memcpy(to, (void *)(size_t)from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  *stream = (CUstream)(size_t)(flags + 16);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { return stream ? CUDA_SUCCESS : 1; }
CUresult cuStreamDestroy_v2(CUstream stream) { return stream ? CUDA_SUCCESS : 1; }
