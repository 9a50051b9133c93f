"""From Triton-IR to PTX: layouts, dots, shared memory, barriers, and LLVM IR."""
