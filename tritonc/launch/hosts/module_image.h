TRITONC_SHARED extern const tritonc_part ${tag}_image[];
TRITONC_DEFINE const tritonc_part ${tag}_image[] = {
${parts}
    {NULL, 0}};
