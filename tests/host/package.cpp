// An AOTInductor package whose graph calls an operator of tritonc, run without Python.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>

int main() {
  if (dlopen("./libmatmul.so", RTLD_NOW) == nullptr)
    return std::puts(dlerror()), 1;
  torch::inductor::AOTIModelPackageLoader model("model.pt2");
  for (int n : {5, 100, 1000}) {
    const auto options = at::TensorOptions().device(at::kCUDA);
    const at::Tensor a = at::randn({n, 70}, options), b = at::randn({70, n + 3}, options);
    const at::Tensor got = model.run({a, b})[0], want = 2 * at::matmul(a, b);
    if (!at::allclose(got, want, 1e-3, 1e-2))
      return std::printf("wrong at %d\n", n), 1;
  }
  return std::puts("ok"), 0;
}
