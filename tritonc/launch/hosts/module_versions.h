TRITONC_SHARED extern const unsigned ${tag}_versions[];
TRITONC_DEFINE const unsigned ${tag}_versions[] = {${numbers}};
