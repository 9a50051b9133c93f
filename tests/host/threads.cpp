// Threads that launch for the first time at once, in two files of one program: one load per context.
#include "other.h"
#include "stub.h"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

extern "C" CUresult launch_in_c(void);

int main(int argc, char **argv) {
  const int contexts = argc > 1 ? 50 : 3, per_context = 4, launches = 200; // 50: slots change hands
  std::vector<CUcontext> made(contexts);
  std::vector<std::thread> threads;
  std::atomic<int> wrong(0);
  (void)argv;
  cuInit(0);
  stub.count = 4;
  for (CUcontext &context : made)
    stub_context(&context);
  for (int i = 0; i < contexts * per_context; i++)
    threads.emplace_back([&, i] {
      cuCtxSetCurrent(made[i % contexts]);
      uint16_t *h = reinterpret_cast<uint16_t *>(64);
      for (int n = 0; n < launches / (argc > 1 ? 50 : 1); n++) {
        const CUresult code =
            n % 2 ? launch_in_c() : other_launch(1000, 1, nullptr, h, h, h, 64);
        wrong += code != CUDA_SUCCESS;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  std::printf("%d wrong, %d loads, %d launches\n", wrong.load(), argc > 1 ? 0 : stub.loads,
              stub.launches);
  return 0;
}
