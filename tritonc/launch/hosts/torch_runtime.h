/* What the operators that tritonc writes for torch have in common. */
#ifndef TRITONC_TORCH
#define TRITONC_TORCH 1

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#endif
#if !defined(TORCH_VERSION_MINOR) || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 11)
#define TRITONC_CUDA_STREAM 1 /* c10::Stream has no native_handle */
#include <c10/cuda/CUDAStream.h>
#endif

#include <initializer_list>
#include <type_traits>

namespace {

/* Operators compute sizes in Int: int64_t for a launch, c10::SymInt for the shapes of torch's fake
 * tensors, whose sizes may be unknown. */
template <class Int> constexpr bool tritonc_real = std::is_same_v<Int, int64_t>;

/* a // b and a % b as in Python. */
inline int64_t tritonc_floor(int64_t a, int64_t b) {
  TORCH_CHECK(b != 0, "division by zero in a size");
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t tritonc_modulo(int64_t a, int64_t b) { return a - b * tritonc_floor(a, b); }
inline c10::SymInt tritonc_floor(const c10::SymInt &a, const c10::SymInt &b) {
  const auto x = a.maybe_as_int(), y = b.maybe_as_int();
  return x && y ? c10::SymInt(tritonc_floor(*x, *y)) : a / b;
}
inline c10::SymInt tritonc_modulo(const c10::SymInt &a, const c10::SymInt &b) {
  const auto x = a.maybe_as_int(), y = b.maybe_as_int();
  return x && y ? c10::SymInt(tritonc_modulo(*x, *y)) : a % b;
}

template <class Int> Int tritonc_size(const at::Tensor &tensor, int64_t axis) {
  if constexpr (tritonc_real<Int>)
    return tensor.size(axis);
  else
    return tensor.sym_size(axis);
}

/* Refuses elements of a wrong type; torch has unsigned integers as signed ones too. */
inline void tritonc_type(const char *name, const at::Tensor &tensor, at::ScalarType type,
                         at::ScalarType other) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == type || tensor.scalar_type() == other, name,
                   " needs elements of type ", type, ", found ", tensor.scalar_type());
}

inline void tritonc_axes(const char *name, const at::Tensor &tensor, int64_t axes) {
  TORCH_CHECK(tensor.dim() == axes, name, " needs ", axes, " dimensions, found ", tensor.dim());
}

template <class Int>
void tritonc_extent(const char *name, const at::Tensor &tensor, int64_t axis, const Int &wanted) {
  const Int found = tritonc_size<Int>(tensor, axis);
  if constexpr (tritonc_real<Int>) {
    TORCH_CHECK(found == wanted, name, " has size ", found, " along dimension ", axis, ", where ",
                wanted, " is needed");
  } else {
    TORCH_SYM_CHECK(found.sym_eq(wanted), name, " has a wrong size along dimension ", axis);
  }
}

template <class Int>
at::Tensor tritonc_made(const at::Tensor &like, at::ScalarType type,
                        std::initializer_list<Int> shape, bool zeros) {
  const auto options = at::TensorOptions().dtype(type).device(like.device());
  if constexpr (tritonc_real<Int>)
    return zeros ? at::zeros(shape, options) : at::empty(shape, options);
  else
    return zeros ? at::zeros_symint(shape, options) : at::empty_symint(shape, options);
}

/* A tensor's memory as an argument of a launch. */
struct tritonc_pointer {
  void *address;
  template <class T> operator T *() const { return static_cast<T *>(address); }
};
inline tritonc_pointer tritonc_read(const at::Tensor &tensor) {
  return {const_cast<void *>(tensor.const_data_ptr())};
}
inline tritonc_pointer tritonc_written(const char *name, const at::Tensor &tensor) {
  TORCH_CHECK(tensor.is_contiguous(), name, " is changed in place, so it has to be contiguous");
  return {tensor.mutable_data_ptr()};
}
inline void tritonc_device(const char *name, const at::Tensor &tensor, at::Device device) {
  TORCH_CHECK(tensor.device() == device, name, " is on ", tensor.device(), ", not on ", device);
}

/* An integer as an argument of a launch. */
struct tritonc_integer {
  const char *name;
  int64_t value;
  template <class T> operator T() const {
    const T held = static_cast<T>(value);
    TORCH_CHECK(static_cast<int64_t>(held) == value && (std::is_signed_v<T> || value >= 0), name,
                " = ", value, " is out of range");
    return held;
  }
};

inline void tritonc_done(const char *name, CUresult code, const char *reason) {
  TORCH_CHECK(code == CUDA_SUCCESS, "kernel ", name, ": ",
              reason != nullptr ? reason : "the driver refused the launch", " (CUresult ",
              static_cast<int>(code), ")");
}

/* torch's current stream on a device, in a thread that has a context then. */
inline CUstream tritonc_stream(const char *name, at::Device device) {
  CUcontext context = nullptr;
  CUdevice number = 0;
  CUresult code = tritonc_open();
  if (code == CUDA_SUCCESS)
    code = TRITONC_DRIVER(cuCtxGetCurrent)(&context);
  if (code == CUDA_SUCCESS && context == nullptr) {
    code = TRITONC_DRIVER(cuDeviceGet)(&number, device.index());
    if (code == CUDA_SUCCESS)
      code = TRITONC_DRIVER(cuDevicePrimaryCtxRetain)(&context, number);
    if (code == CUDA_SUCCESS)
      code = TRITONC_DRIVER(cuCtxSetCurrent)(context);
  }
  tritonc_done(name, code, "there is no context");
#ifdef TRITONC_CUDA_STREAM
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
#else
  const c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<CUstream>(guard.getStream(device).native_handle());
#endif
}

}  // namespace

#endif
