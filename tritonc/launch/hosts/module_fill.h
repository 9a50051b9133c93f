/* Fill the table ${name} of the current context with ${count} values, in the order of the stream. */
static inline CUresult ${module}_fill_${own}(const ${type} *values,
    CUstream stream) {
  return tritonc_fill(&${module}_module, ${text},
                      values, ${count} * sizeof *values, stream);
}

