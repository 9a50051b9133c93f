// On a GPU: threads, streams and contexts at once, what is refused, tables, machine code.
// Run as `gpu broken.ptx`, a file that the driver rejects.
#include "add.h"
#include "cubin.h"
#include "fatbin.h"
#include "other.h"
#include "table.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static void need(CUresult code, const char *what) {
  if (code != CUDA_SUCCESS) {
    const char *text = nullptr;
    cuGetErrorName(code, &text);
    std::printf("%s: %s\n", what, text ? text : "?");
    std::exit(1);
  }
}
#define NEED(call) need(call, #call)
static void expect(bool condition, const char *what) {
  if (!condition) {
    std::printf("not so: %s\n", what);
    std::exit(1);
  }
}
#define EXPECT(condition) expect(condition, #condition)

template <class T> static T *allocate(size_t count) {
  CUdeviceptr address = 0;
  NEED(cuMemAlloc(&address, count * sizeof(T)));
  return reinterpret_cast<T *>(address);
}
template <class T> static void put(T *to, const std::vector<T> &from) {
  NEED(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(to), from.data(), from.size() * sizeof(T)));
}
template <class T> static std::vector<T> get(const T *from, size_t count) {
  std::vector<T> to(count);
  NEED(cuMemcpyDtoH(to.data(), reinterpret_cast<CUdeviceptr>(from), count * sizeof(T)));
  return to;
}

// z = x + y again and again on a stream of its own, with sizes that differ; the number of errors.
static int work(CUcontext context, int seed) {
  const int most = 100000;
  NEED(cuCtxSetCurrent(context));
  CUstream stream;
  NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::vector<float> x(most), y(most);
  for (int i = 0; i < most; i++)
    x[i] = static_cast<float>(i % (seed + 5)), y[i] = static_cast<float>(seed);
  float *dx = allocate<float>(most), *dy = allocate<float>(most), *dz = allocate<float>(most);
  put(dx, x);
  put(dy, y);
  NEED(cuCtxSynchronize());
  int wrong = 0;
  for (int n = 0; n < 40; n++) {
    const int size = 1 + (n * 7919 + seed * 104729) % most;
    NEED(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(dz), 0, most, stream));
    NEED(vector_add_launch(size, stream, dx, dy, dz, size));
    NEED(cuStreamSynchronize(stream));
    const std::vector<float> z = get(dz, most);
    for (int i = 0; i < most; i++)
      wrong += z[i] != (i < size ? x[i] + y[i] : 0);
  }
  for (float *p : {dx, dy, dz})
    NEED(cuMemFree(reinterpret_cast<CUdeviceptr>(p)));
  NEED(cuStreamDestroy(stream));
  return wrong;
}

int main(int argc, char **argv) {
  CUdevice device;
  CUcontext primary, second;
  EXPECT(argc == 2);
  NEED(cuInit(0));
  NEED(cuDeviceGet(&device, 0));
  NEED(cuDevicePrimaryCtxRetain(&primary, device));
#if CUDA_VERSION >= 13000
  NEED(cuCtxCreate(&second, nullptr, 0, device));
#else
  NEED(cuCtxCreate(&second, 0, device));
#endif

  // two threads in each of two contexts; the first launches load
  std::atomic<int> wrong(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&, i] { wrong += work(i % 2 ? primary : second, i); });
  for (std::thread &thread : threads)
    thread.join();
  std::printf("4 threads, 4 streams, 2 contexts: %d wrong\n", wrong.load());
  EXPECT(wrong == 0);

  // wrong alignment: an error code, and the context goes on
  NEED(cuCtxSetCurrent(primary));
  float *x = allocate<float>(1024);
  put(x, std::vector<float>(1024, 2));
  const float *odd = reinterpret_cast<const float *>(reinterpret_cast<char *>(x) + 2);
  EXPECT(vector_add_launch(8, nullptr, odd, x, x, 8) == CUDA_ERROR_MISALIGNED_ADDRESS);
  NEED(vector_add_launch(8, nullptr, x, x, x, 8));
  NEED(cuCtxSynchronize());
  EXPECT(get(x, 9)[7] == 4 && get(x, 9)[8] == 2);
  NEED(vector_add_launch(0, nullptr, odd, nullptr, nullptr, 0));

  // PTX that the driver rejects, with its reason
  char log[2048];
  EXPECT(table_load_file(argv[1], log, sizeof log) == CUDA_ERROR_INVALID_PTX);
  std::printf("the driver says: %.60s\n", log);
  EXPECT(log[0] != 0);
  EXPECT(gather_launch(8, nullptr, x, x, x, 8) == CUDA_ERROR_NOT_FOUND);

  // a table in each context
  for (CUcontext context : {primary, second}) {
    NEED(cuCtxSetCurrent(context));
    NEED(table_load_file("table.ptx", log, sizeof log));
    const int offsets[4] = {0, context == primary ? 1 : 2, 3, 4};
    NEED(table_fill_delta(offsets, nullptr));
    float *in = allocate<float>(108), *out = allocate<float>(100), *scratch = allocate<float>(100);
    std::vector<float> values(108);
    for (int i = 0; i < 108; i++)
      values[i] = static_cast<float>(i * i);
    put(in, values);
    NEED(gather_launch(100, nullptr, in, out, scratch, 100));
    const std::vector<float> got = get(out, 100);
    for (int i = 0; i < 100; i++) {
      float want = 0;
      for (int offset : offsets)
        want += values[i + offset];
      EXPECT(got[i] == want);
    }
  }

  // more shared memory than a launch has without asking; machine code
  NEED(cuCtxSetCurrent(second));
  uint16_t *a = allocate<uint16_t>(128 * 64), *b = allocate<uint16_t>(64 * 4096);
  uint16_t *c = allocate<uint16_t>(128 * 4096);
  put(a, std::vector<uint16_t>(128 * 64, 0x3c00)); // 1.0
  put(b, std::vector<uint16_t>(64 * 4096, 0x3c00));
  EXPECT(other_dynamic_shared_bytes > 48 * 1024);
  NEED(other_launch(128, 256, nullptr, a, b, c, 64));
  NEED(cuCtxSynchronize());
  EXPECT(get(c, 256)[255] == 0x5400); // 64.0
  x = allocate<float>(64);
  put(x, std::vector<float>(64, 1));
  NEED(cubin_vector_add_launch(64, nullptr, x, x, x, 64));
  NEED(fatbin_vector_add_launch(64, nullptr, x, x, x, 64));
  EXPECT(get(x, 64)[63] == 4);

  // after a reset, the primary context is another one
  unsigned long long before = 0, after = 0;
  NEED(cuCtxGetId(primary, &before));
  NEED(cuDevicePrimaryCtxReset(device));
  NEED(cuDevicePrimaryCtxRetain(&primary, device));
  NEED(cuCtxSetCurrent(primary));
  NEED(cuCtxGetId(primary, &after));
  std::printf("the primary context's number: %llu, after a reset %llu\n", before, after);
  EXPECT(before != after);
  x = allocate<float>(64);
  put(x, std::vector<float>(64, 1));
  NEED(vector_add_launch(64, nullptr, x, x, x, 64));
  EXPECT(get(x, 64)[63] == 2);
  std::puts("ok");
  return 0;
}
