#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
#ifdef __cplusplus
extern "C" {
#endif
TRITONC_SHARED extern const char ${tag}_manifest[];
TRITONC_DEFINE const char ${tag}_manifest[] =
${manifest};
${image}TRITONC_SHARED extern const tritonc_kernel ${tag}_kernels[];
TRITONC_DEFINE const tritonc_kernel ${tag}_kernels[] = {
${kernels}
};
${versions}TRITONC_SHARED extern tritonc_state ${tag}_state;
TRITONC_DEFINE tritonc_state ${tag}_state = TRITONC_ZERO;
TRITONC_SHARED extern CUfunction volatile ${tag}_functions[];
TRITONC_DEFINE CUfunction volatile ${tag}_functions[${count} * TRITONC_CONTEXTS]
    = TRITONC_ZERO;
#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

