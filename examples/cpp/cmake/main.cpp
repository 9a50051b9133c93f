// A matrix product on the GPU, compared with the same on the host.  The PTX is part of the program,
// and is loaded when it is first launched.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "matmul.h"

namespace {

void check(CUresult code, const char *what) {
  if (code == CUDA_SUCCESS)
    return;
  const char *text = nullptr;
  cuGetErrorString(code, &text);
  throw std::runtime_error(std::string(what) + ": " + (text ? text : "unknown error"));
}

// Device memory with a copy of a vector.
template <class T> class Buffer {
public:
  explicit Buffer(const std::vector<T> &values) : bytes(values.size() * sizeof(T)) {
    check(cuMemAlloc(&address, bytes), "cuMemAlloc");
    check(cuMemcpyHtoD(address, values.data(), bytes), "cuMemcpyHtoD");
  }
  ~Buffer() { cuMemFree(address); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  T *get() const { return reinterpret_cast<T *>(address); }
  void copy_to(std::vector<T> &values) const {
    check(cuMemcpyDtoH(values.data(), address, bytes), "cuMemcpyDtoH");
  }

private:
  CUdeviceptr address = 0;
  size_t bytes;
};

// The bits of a small integer in half precision.
uint16_t half(int value) {
  if (value == 0)
    return 0;
  int exponent = 0;
  std::frexp(static_cast<float>(value), &exponent);
  const int magnitude = value < 0 ? -value : value;
  const int mantissa = (magnitude << (11 - exponent)) & 0x3ff;
  return static_cast<uint16_t>((value < 0) << 15 | (exponent + 14) << 10 | mantissa);
}

int run() {
  const int M = 200, N = 136, K = 72;
  std::vector<int> a(M * K), b(K * N);
  std::vector<uint16_t> half_a, half_b;
  for (size_t i = 0; i < a.size(); i++)
    half_a.push_back(half(a[i] = static_cast<int>(i * 7 % 9) - 4));
  for (size_t i = 0; i < b.size(); i++)
    half_b.push_back(half(b[i] = static_cast<int>(i * 5 % 11) - 5));
  std::vector<float> c(M * N, -1);
  Buffer<uint16_t> da(half_a), db(half_b);
  Buffer<float> dc(c);

  CUstream stream;
  check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(matmul_launch(M, N, stream, da.get(), db.get(), dc.get(), M, N, K), "matmul");
  check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  dc.copy_to(c);
  cuStreamDestroy(stream);

  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int sum = 0;
      for (int k = 0; k < K; k++)
        sum += a[i * K + k] * b[k * N + j];
      wrong += c[i * N + j] != static_cast<float>(sum);
    }

  // What the kernel assumes of its arguments is checked: an error code, no fault.
  const char *reason = "";
  if (matmul_check(M, N, da.get() + 1, db.get(), dc.get(), M, N, K, &reason) !=
      CUDA_ERROR_MISALIGNED_ADDRESS)
    wrong++;
  std::printf("matmul: %d x %d in tiles of %d x %d, %d wrong; elsewhere, %s\n", M, N,
              int(matmul_tile0), int(matmul_tile1), wrong, reason);
  return wrong != 0;
}

} // namespace

int main() {
  try {
    CUdevice device;
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    return run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
