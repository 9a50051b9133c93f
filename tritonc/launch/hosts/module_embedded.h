static inline CUresult ${module}_load(char *log, size_t log_size) {
  return tritonc_load_parts(&${module}_module, log, log_size);
}
