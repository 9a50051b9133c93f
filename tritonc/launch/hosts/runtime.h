/* What the headers that tritonc writes have in common: loading a module once in each context,
 * and launching.  Nothing here prints, exits, or keeps memory of the heap. */
#ifndef TRITONC_RUNTIME
#define TRITONC_RUNTIME 1

/* Types that C lacks.  Define them before the first of these headers to have others: __half... */
#ifndef TRITONC_HALF
#define TRITONC_HALF uint16_t
#endif
#ifndef TRITONC_BFLOAT16
#define TRITONC_BFLOAT16 uint16_t
#endif
#ifndef TRITONC_FLOAT8_E4M3
#define TRITONC_FLOAT8_E4M3 uint8_t
#endif
#ifndef TRITONC_FLOAT8_E5M2
#define TRITONC_FLOAT8_E5M2 uint8_t
#endif

#define TRITONC_CONTEXTS 32 /* that a module remembers at a time */

typedef struct {
  const char *entry;
  unsigned threads, dynamic_shared_bytes; /* no threads: a target lacks this variant */
  int64_t tile[3];
  unsigned cluster; /* blocks that compute one instance, along the third axis of the grid */
  unsigned programs; /* instances of a block, along the first axis */
} tritonc_kernel;

typedef struct {
  const char *text;
  size_t size;
} tritonc_part; /* of an image: compilers limit the length of a string */

typedef struct {
  volatile long lock;
  unsigned next; /* the slot to give up when all are taken */
  volatile uint64_t contexts[TRITONC_CONTEXTS]; /* their keys; 0 where a slot is free */
  CUmodule modules[TRITONC_CONTEXTS];
  volatile unsigned targets[TRITONC_CONTEXTS]; /* whose code the driver has taken */
} tritonc_state;

typedef struct {
  const char *manifest;      /* the first line of its PTX */
  const tritonc_part *image; /* one after the other, up to one without text; NULL: none */
  unsigned count;            /* of kernels */
  const tritonc_kernel *kernels; /* count for each target */
  tritonc_state *state;
  CUfunction volatile *functions; /* count for each slot */
  unsigned targets;
  const unsigned *versions; /* of the targets, as the driver numbers them, if they differ */
} tritonc_module;

/* The key of the current context: its number in this process, so that a context is not taken for
 * one that was destroyed before; its address where the driver has no numbers. */
static inline CUresult tritonc_current(uint64_t *key) {
  CUcontext context = NULL;
  CUresult code = tritonc_open();
  if (code == CUDA_SUCCESS)
    code = TRITONC_DRIVER(cuCtxGetCurrent)(&context);
  if (code != CUDA_SUCCESS)
    return code;
  if (context == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  *key = (uint64_t)(uintptr_t)context;
#if CUDA_VERSION >= 12000
  if (TRITONC_HAS(cuCtxGetId)) {
    unsigned long long number = 0;
    code = TRITONC_DRIVER(cuCtxGetId)(context, &number);
    *key = (uint64_t)number + 1;
  }
#endif
  return code;
}

/* ---- Loading ---- */

/* The slot of a context, or TRITONC_CONTEXTS. */
static inline unsigned tritonc_slot(const tritonc_module *module, uint64_t key) {
  unsigned slot = 0;
  while (slot < TRITONC_CONTEXTS && TRITONC_READ(&module->state->contexts[slot]) != key)
    slot++;
  return slot;
}

/* A kernel in a context, and how it is launched there; NULL if the module is not loaded.  A slot
 * changes hands with its key cleared first: what was read is this context's if the key is there
 * before and after. */
static inline const tritonc_kernel *tritonc_find(const tritonc_module *module, uint64_t key,
                                                 unsigned kernel, CUfunction *function) {
  unsigned slot = tritonc_slot(module, key), target;
  if (slot == TRITONC_CONTEXTS)
    return NULL;
  *function = TRITONC_READ(&module->functions[slot * module->count + kernel]);
  target = TRITONC_READ(&module->state->targets[slot]);
  return TRITONC_READ(&module->state->contexts[slot]) == key
             ? &module->kernels[target * module->count + kernel] : NULL;
}

/* Which of the targets the code is of that the driver took from an image. */
static inline CUresult tritonc_target(const tritonc_module *module, CUmodule loaded,
                                      unsigned *target) {
  CUfunction function = NULL;
  int version = 0;
  CUresult code = CUDA_SUCCESS;
  *target = 0;
  if (module->targets < 2)
    return code;
  code = TRITONC_DRIVER(cuModuleGetFunction)(&function, loaded, module->kernels->entry);
  if (code == CUDA_SUCCESS)
    code = TRITONC_DRIVER(cuFuncGetAttribute)(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
  while (*target < module->targets && module->versions[*target] != (unsigned)version)
    ++*target;
  return code == CUDA_SUCCESS && *target == module->targets ? CUDA_ERROR_INVALID_IMAGE : code;
}

static inline CUresult tritonc_load_locked(const tritonc_module *module, uint64_t key,
                                           const char *image, char *log, size_t log_size) {
  CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[2];
  unsigned with_log = log != NULL && log_size != 0 ? 2 : 0, slot, i, target;
  CUmodule loaded = NULL;
  CUresult code;
  values[0] = log;
  values[1] = (void *)(uintptr_t)(log_size > 0xffffffffu ? 0xffffffffu : log_size);
  code = TRITONC_DRIVER(cuModuleLoadDataEx)(&loaded, image, with_log, options, values);
  if (code != CUDA_SUCCESS)
    return code;
  slot = tritonc_slot(module, 0);
  if (slot == TRITONC_CONTEXTS)
    slot = module->state->next++ % TRITONC_CONTEXTS;
  TRITONC_WRITE(&module->state->contexts[slot], 0);
  code = tritonc_target(module, loaded, &target);
  for (i = 0; i < module->count && code == CUDA_SUCCESS; i++) {
    const tritonc_kernel *kernel = &module->kernels[target * module->count + i];
    CUfunction function = NULL;
    if (kernel->threads != 0)
      code = TRITONC_DRIVER(cuModuleGetFunction)(&function, loaded, kernel->entry);
    if (code == CUDA_SUCCESS && kernel->dynamic_shared_bytes > 48 * 1024)
      code = TRITONC_DRIVER(cuFuncSetAttribute)(function,
                                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                (int)kernel->dynamic_shared_bytes);
    TRITONC_WRITE(&module->functions[slot * module->count + i], function);
  }
  if (code != CUDA_SUCCESS) {
    TRITONC_DRIVER(cuModuleUnload)(loaded);
    return code;
  }
  module->state->modules[slot] = loaded;
  TRITONC_WRITE(&module->state->targets[slot], target);
  TRITONC_WRITE(&module->state->contexts[slot], key);
  return CUDA_SUCCESS;
}

/* Load an image (PTX that ends with a zero byte, a cubin or a fatbin) into the current context,
 * unless the module is there already.  PTX of another compilation is refused. */
static inline CUresult tritonc_load(const tritonc_module *module, const void *image, char *log,
                                    size_t log_size) {
  static const char mark[] = "// tritonc: ";
  const char *text = (const char *)image;
  uint64_t key = 0;
  CUresult code = tritonc_current(&key);
  if (log != NULL && log_size != 0)
    log[0] = 0;
  if (code != CUDA_SUCCESS)
    return code;
  if (text == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (strncmp(text, mark, sizeof mark - 1) == 0) {
    size_t length = strlen(module->manifest);
    if (strncmp(text, module->manifest, length) != 0 || text[length] != '\n')
      return CUDA_ERROR_INVALID_IMAGE;
  }
  tritonc_lock(&module->state->lock);
  if (tritonc_slot(module, key) == TRITONC_CONTEXTS)
    code = tritonc_load_locked(module, key, text, log, log_size);
  tritonc_unlock(&module->state->lock);
  return code;
}

#ifdef _MSC_VER
#pragma warning(push)
#pragma warning(disable : 4996) /* fopen */
#endif
static inline CUresult tritonc_load_file(const tritonc_module *module, const char *path, char *log,
                                         size_t log_size) {
  FILE *file = path == NULL ? NULL : fopen(path, "rb");
  const long most = (long)(~0ul >> 1); /* of a folder */
  CUresult code = CUDA_ERROR_FILE_NOT_FOUND;
  char *image = NULL;
  long size = -1;
  if (log != NULL && log_size != 0)
    log[0] = 0;
  if (file == NULL)
    return code;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && size < most
      && fseek(file, 0, SEEK_SET) == 0)
    image = (char *)malloc((size_t)size + 1);
  if (image == NULL) {
    code = size < 0 || size == most ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_OUT_OF_MEMORY;
  } else if (fread(image, 1, (size_t)size, file) == (size_t)size) {
    image[size] = 0;
    code = tritonc_load(module, image, log, log_size);
  }
  free(image);
  fclose(file);
  return code;
}
#ifdef _MSC_VER
#pragma warning(pop)
#endif

/* The image in the header. */
static inline CUresult tritonc_load_parts(const tritonc_module *module, char *log,
                                          size_t log_size) {
  const tritonc_part *part;
  CUresult code;
  size_t size = 1, used = 0;
  char *image;
  for (part = module->image; part != NULL && part->text != NULL; part++)
    size += part->size;
  image = (char *)malloc(size);
  if (image == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (part = module->image; part != NULL && part->text != NULL; used += part++->size)
    memcpy(image + used, part->text, part->size);
  image[used] = 0;
  code = tritonc_load(module, image, log, log_size);
  free(image);
  return code;
}

static inline CUresult tritonc_unload(const tritonc_module *module) {
  uint64_t key = 0;
  unsigned slot;
  CUresult code = tritonc_current(&key);
  if (code != CUDA_SUCCESS)
    return code;
  tritonc_lock(&module->state->lock);
  slot = tritonc_slot(module, key);
  if (slot < TRITONC_CONTEXTS) {
    TRITONC_WRITE(&module->state->contexts[slot], 0);
    code = TRITONC_DRIVER(cuModuleUnload)(module->state->modules[slot]);
  }
  tritonc_unlock(&module->state->lock);
  return code;
}

/* The key of the current context, into which the module is loaded if the header has its PTX. */
static inline CUresult tritonc_ready(const tritonc_module *module, uint64_t *key) {
  CUresult code = tritonc_current(key);
  if (code != CUDA_SUCCESS || tritonc_slot(module, *key) != TRITONC_CONTEXTS)
    return code;
  return module->image == NULL ? CUDA_ERROR_NOT_FOUND
                               : tritonc_load_parts(module, NULL, 0);
}

/* ---- Launching ---- */

static inline CUresult tritonc_refuse(CUresult code, const char *sentence, const char **reason) {
  if (reason != NULL)
    *reason = sentence;
  return code;
}

/* With TRITONC_CHECK_POINTERS the driver is asked for each array: CUDA_ERROR_INVALID_VALUE for one
 * that no kernel can reach, as that of malloc(). */
static inline CUresult tritonc_reachable(const void *array, const char *sentence,
                                         const char **reason) {
#ifdef TRITONC_CHECK_POINTERS
  CUdeviceptr on_device = 0;
  CUresult code = array == NULL ? CUDA_SUCCESS : tritonc_open();
  if (code == CUDA_SUCCESS && array != NULL)
    code = TRITONC_DRIVER(cuPointerGetAttribute)(&on_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                                 (CUdeviceptr)(uintptr_t)array);
  return code == CUDA_ERROR_INVALID_VALUE ? tritonc_refuse(code, sentence, reason) : code;
#else
  (void)array;
  (void)sentence;
  (void)reason;
  return CUDA_SUCCESS;
#endif
}

/* The grid for a global range; it has a zero where there is nothing to do. */
static inline CUresult tritonc_grid(const tritonc_kernel *kernel, const int64_t *range,
                                    unsigned *grid, const char **reason) {
  const int64_t limit = INT64_C(1) << 31; /* indices are of 32 bits */
  int axis;
  for (axis = 0; axis < 3; axis++) {
    int64_t tile = kernel->tile[axis], extent = range[axis], count;
    if (extent < 0)
      return tritonc_refuse(CUDA_ERROR_INVALID_VALUE, "an extent of the range is negative",
                            reason);
    count = extent / tile + (extent % tile != 0);
    if (extent >= limit || count > limit / tile)
      return tritonc_refuse(CUDA_ERROR_INVALID_VALUE,
                            "an extent of the range is too large for indices of 32 bits", reason);
    if (axis != 0 && count > 65535 / (axis == 2 ? kernel->cluster : 1))
      return tritonc_refuse(CUDA_ERROR_INVALID_VALUE,
                            "the range has more than 65535 tiles along axis 1 or 2", reason);
    grid[axis] = (unsigned)count * (axis == 2 ? kernel->cluster : 1);
  }
  return CUDA_SUCCESS;
}

/* A kernel in the current context; again only if other threads have used more contexts meanwhile
 * than are remembered. */
static inline CUresult tritonc_take(const tritonc_module *module, unsigned index,
                                    const tritonc_kernel **kernel, CUfunction *function) {
  uint64_t key = 0;
  CUresult code;
  do {
    code = tritonc_ready(module, &key);
    *kernel = code == CUDA_SUCCESS ? tritonc_find(module, key, index, function) : NULL;
  } while (code == CUDA_SUCCESS && *kernel == NULL);
  return code;
}

static inline CUresult tritonc_launch(const tritonc_module *module, unsigned index,
                                      const int64_t *range, CUstream stream, void **arguments) {
  const tritonc_kernel *kernel = &module->kernels[index], *own;
  unsigned grid[3], lacking, y, z;
  CUfunction function = NULL;
  CUresult code = tritonc_grid(kernel, range, grid, NULL);
  if (code != CUDA_SUCCESS || grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
    return code;
  code = tritonc_take(module, index, &own, &function);
  if (code == CUDA_SUCCESS && own != kernel)
    code = own->threads == 0 ? CUDA_ERROR_NOT_FOUND : tritonc_grid(own, range, grid, NULL);
  if (code != CUDA_SUCCESS)
    return code;
  /* The shape of blocks says how many instances the last one lacks. */
  lacking = (unsigned)((grid[0] * own->tile[0] - range[0]) / (own->tile[0] / own->programs));
  y = lacking / 2 + 1;
  z = lacking % 2 + 1;
  return TRITONC_DRIVER(cuLaunchKernel)(function, grid[0], grid[1], grid[2],
                                        own->threads / (y * z), y, z, own->dynamic_shared_bytes,
                                        stream, arguments, NULL);
}

/* A bit for each of `count` variants behind a kernel that the GPU's target has, and one for the
 * kernel; of an empty range, all.  And the number of that target. */
static inline CUresult tritonc_present(const tritonc_module *module, unsigned index,
                                       unsigned count, const int64_t *range, uint64_t *present,
                                       unsigned *target) {
  const tritonc_kernel *kernel;
  CUfunction function = NULL;
  CUresult code;
  unsigned i;
  *present = UINT64_MAX;
  if (range[0] == 0 || range[1] == 0 || range[2] == 0)
    return CUDA_SUCCESS;
  code = tritonc_take(module, index, &kernel, &function);
  if (code == CUDA_SUCCESS)
    *target = (unsigned)((kernel - module->kernels) / (ptrdiff_t)module->count);
  for (i = 1; code == CUDA_SUCCESS && i <= count; i++)
    if (kernel[i].threads == 0)
      *present &= ~(UINT64_C(1) << i);
  return code;
}

/* Fill a table in constant memory, in the order of the stream. */
static inline CUresult tritonc_fill(const tritonc_module *module, const char *symbol,
                                    const void *values, size_t bytes, CUstream stream) {
  uint64_t key = 0;
  CUdeviceptr address = 0;
  size_t size = 0;
  CUresult code = tritonc_ready(module, &key);
  if (code == CUDA_SUCCESS && values == NULL)
    code = CUDA_ERROR_INVALID_VALUE;
  if (code != CUDA_SUCCESS)
    return code;
  tritonc_lock(&module->state->lock);
  {
    unsigned slot = tritonc_slot(module, key);
    code = slot == TRITONC_CONTEXTS
               ? CUDA_ERROR_NOT_FOUND
               : TRITONC_DRIVER(cuModuleGetGlobal)(&address, &size, module->state->modules[slot],
                                                   symbol);
  }
  tritonc_unlock(&module->state->lock);
  if (code != CUDA_SUCCESS)
    return code;
  if (size < bytes)
    return CUDA_ERROR_INVALID_IMAGE;
  return TRITONC_DRIVER(cuMemcpyHtoDAsync)(address, values, bytes, stream);
}

#endif
