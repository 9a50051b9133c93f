/* The bytes of memory that the launch below takes at best; 0 if it needs none. */
${bytes_head}
  static const size_t each[] = {${each}};
${range}
  const unsigned variant = ${name}_in_memory(${call});
  return tritonc_workspace(&${module}_module.kernels[${index} + variant], range,
                           each[variant]);
}

/* A launch that may take memory of the device, aligned to 16 bytes, for sums; with less
 * than it takes at best, it does without.  The memory holds zeros before its first
 * launch, and no two launches use it at the same time. */
${launch_head}
${range}
  void *arguments[] = {${addresses}};
  const size_t needed = ${name}_workspace_bytes(${call});
  const int with = needed != 0 && workspace != NULL && bytes >= needed;
  CUresult code = ${name}_check(${call}, NULL);
  if (code == CUDA_SUCCESS && (uintptr_t)workspace % 16 != 0)
    code = CUDA_ERROR_MISALIGNED_ADDRESS;
  if (code == CUDA_SUCCESS && !with)
    return ${name}_launch(${launched});
  return code != CUDA_SUCCESS ? code : tritonc_launch(
      &${module}_module, ${index} + ${name}_in_memory(${call}), range, stream, arguments);
}
