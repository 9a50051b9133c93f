// A kernel of CUDA C++ and one of Triton-C on the same stream: the first fills a matrix, the second
// makes a softmax of each row.  The runtime's context, memory and streams serve both.
#include <cmath>
#include <cstdio>
#include <vector>

#include "softmax.h"

__global__ void fill(float *x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] = static_cast<float>(i % 13) * 0.25f;
}

static bool good(cudaError_t code, const char *what) {
  if (code != cudaSuccess)
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  return code == cudaSuccess;
}

int main() {
  const int M = 1000, N = 777;
  float *x = nullptr, *y = nullptr;
  cudaStream_t stream = nullptr;
  if (!good(cudaMalloc(&x, sizeof(float) * M * N), "cudaMalloc") ||
      !good(cudaMalloc(&y, sizeof(float) * M * N), "cudaMalloc") ||
      !good(cudaStreamCreate(&stream), "cudaStreamCreate"))
    return 1;

  fill<<<(M * N + 255) / 256, 256, 0, stream>>>(x, M * N);
  // Rows, then the stream, then the kernel's own arguments.  A cudaStream_t is a CUstream.
  const CUresult code = softmax_launch(M, stream, x, y, M, N);
  if (code != CUDA_SUCCESS) {
    const char *text = nullptr;
    cuGetErrorString(code, &text);
    std::fprintf(stderr, "softmax: %s\n", text ? text : "unknown error");
    return 1;
  }

  std::vector<float> got(static_cast<size_t>(M) * N);
  if (!good(cudaMemcpyAsync(got.data(), y, sizeof(float) * M * N, cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync") ||
      !good(cudaStreamSynchronize(stream), "cudaStreamSynchronize"))
    return 1;
  int wrong = 0;
  for (int m = 0; m < M; m++) {
    double sum = 0;
    for (int n = 0; n < N; n++)
      sum += std::exp((m * N + n) % 13 * 0.25);
    for (int n = 0; n < N; n++) {
      const double want = std::exp((m * N + n) % 13 * 0.25) / sum;
      wrong += std::fabs(got[static_cast<size_t>(m) * N + n] - want) > 1e-5 * want;
    }
  }
  std::printf("softmax: %d rows of %d, %d wrong\n", M, N, wrong);
  cudaFree(x);
  cudaFree(y);
  return wrong != 0;
}
