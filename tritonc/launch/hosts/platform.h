/* What depends on the compiler and on the system, and the driver's functions. */
#ifndef TRITONC_PLATFORM
#define TRITONC_PLATFORM 1

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#elif defined(__GNUC__)
#include <sched.h>
#else
#error "headers written by tritonc need GCC, Clang, a compiler that has their builtins, or MSVC"
#endif

/* One definition for all files of a program, or of a shared library: SHARED before a declaration,
 * DEFINE before the definition.  C++17 has inline variables for that; they are the same symbols. */
#ifdef _MSC_VER
#define TRITONC_SHARED
#define TRITONC_DEFINE __declspec(selectany)
#elif defined(__cplusplus) && __cplusplus >= 201703L
#define TRITONC_SHARED __attribute__((visibility("hidden")))
#define TRITONC_DEFINE inline
#else
#define TRITONC_SHARED __attribute__((weak, visibility("hidden")))
#define TRITONC_DEFINE
#endif

#ifdef __cplusplus
#define TRITONC_TYPE(value) decltype(value)
#define TRITONC_ZERO {}
#else
#define TRITONC_TYPE(value) __typeof__(value)
#define TRITONC_ZERO {0}
#endif

/* What threads share is volatile: with MSVC on x64, that acquires and releases. */
#if defined(_MSC_VER) && !defined(__clang__)
#define TRITONC_READ(place) (*(place))
#define TRITONC_WRITE(place, value) ((void)(*(place) = (value)))
#define TRITONC_LOCK(lock) _InterlockedExchange(lock, 1)
#else
#define TRITONC_READ(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define TRITONC_WRITE(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define TRITONC_LOCK(lock) __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)
#endif

#ifdef _MSC_VER /* windows.h would define many other names */
#ifdef __cplusplus
extern "C"
#endif
__declspec(dllimport) int __stdcall SwitchToThread(void);
#define TRITONC_YIELD() SwitchToThread()
#else
#define TRITONC_YIELD() sched_yield()
#endif

static inline void tritonc_lock(volatile long *lock) {
  while (TRITONC_LOCK(lock))
    TRITONC_YIELD();
}

static inline void tritonc_unlock(volatile long *lock) { TRITONC_WRITE(lock, 0); }

/* ---- The driver: linked (-lcuda), or with TRITONC_DLOPEN opened when it is first needed. ---- */
#ifdef TRITONC_DLOPEN
#ifdef _MSC_VER
#ifdef __cplusplus
extern "C" {
#endif
__declspec(dllimport) struct HINSTANCE__ *__stdcall LoadLibraryA(const char *);
__declspec(dllimport) long long(__stdcall *__stdcall GetProcAddress(struct HINSTANCE__ *,
                                                                    const char *))();
#ifdef __cplusplus
}
#endif
#define TRITONC_OPEN() ((void *)LoadLibraryA("nvcuda.dll"))
#define TRITONC_SYMBOL(name) ((void *)GetProcAddress((struct HINSTANCE__ *)library, name))
#else
#include <dlfcn.h>
#define TRITONC_OPEN() dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)
#define TRITONC_SYMBOL(name) dlsym(library, name)
#endif

#if CUDA_VERSION >= 12000
#define TRITONC_SINCE_12(X) X(cuCtxGetId)
#else
#define TRITONC_SINCE_12(X)
#endif
#define TRITONC_FUNCTIONS(X)                                                                      \
  X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain)                \
  X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuMemcpyHtoDAsync)              \
  X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuModuleLoadDataEx) X(cuModuleUnload)             \
  X(cuPointerGetAttribute)
/* cuda.h renames some functions (cuModuleGetGlobal_v2): these take the names that it gives. */
#define TRITONC_MEMBER(name) TRITONC_MEMBER_(name)
#define TRITONC_MEMBER_(name) TRITONC_TYPE(&name) name##_;
#define TRITONC_ASSIGN(name) TRITONC_ASSIGN_(name)
#define TRITONC_ASSIGN_(name)                                                                     \
  symbol = TRITONC_SYMBOL(#name);                                                                 \
  memcpy(&driver->name##_, &symbol, sizeof symbol);
#define TRITONC_MISSES(name) TRITONC_MISSES_(name)
#define TRITONC_MISSES_(name) || !driver->name##_
#define TRITONC_DRIVER(name) TRITONC_DRIVER_(name)
#define TRITONC_DRIVER_(name) tritonc_driver_3.functions.name##_

typedef struct {
  TRITONC_FUNCTIONS(TRITONC_MEMBER)
  TRITONC_SINCE_12(TRITONC_MEMBER)
} tritonc_functions;
typedef struct {
  volatile long lock, open;
  tritonc_functions functions;
} tritonc_driver;
#ifdef __cplusplus
extern "C" {
#endif
TRITONC_SHARED extern tritonc_driver tritonc_driver_3;
TRITONC_DEFINE tritonc_driver tritonc_driver_3 = TRITONC_ZERO;
#ifdef __cplusplus
}
#endif

static inline CUresult tritonc_open(void) {
  tritonc_functions *driver = &tritonc_driver_3.functions;
  CUresult code = CUDA_SUCCESS;
  void *library, *symbol;
  if (TRITONC_READ(&tritonc_driver_3.open))
    return CUDA_SUCCESS;
  tritonc_lock(&tritonc_driver_3.lock);
  if (!tritonc_driver_3.open) {
    library = TRITONC_OPEN();
    if (library == NULL) {
      code = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    } else {
      TRITONC_FUNCTIONS(TRITONC_ASSIGN)
      TRITONC_SINCE_12(TRITONC_ASSIGN)
      if (0 TRITONC_FUNCTIONS(TRITONC_MISSES))
        code = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
      else
        TRITONC_WRITE(&tritonc_driver_3.open, 1);
    }
  }
  tritonc_unlock(&tritonc_driver_3.lock);
  return code;
}
#define TRITONC_HAS(name) (TRITONC_DRIVER(name) != NULL)
#else
#define TRITONC_DRIVER(name) name
#define TRITONC_HAS(name) 1
static inline CUresult tritonc_open(void) { return CUDA_SUCCESS; }
#endif

#endif
