/* Load the module into the current context, once: a second call does nothing.  `log`, if it is not
 * NULL, receives the driver's messages about PTX that it rejects. */
${embedded}static inline CUresult ${module}_load_file(const char *path, char *log,
    size_t log_size) {
  return tritonc_load_file(&${module}_module, path, log,
                           log_size);
}
static inline CUresult ${module}_load_data(const void *image, char *log,
    size_t log_size) {
  return tritonc_load(&${module}_module, image, log, log_size);
}
/* Take it from the current context again, when nothing of it runs. */
static inline CUresult ${module}_unload(void) {
  return tritonc_unload(&${module}_module);
}

