"""From Triton-IR to PTX: layouts, dots, shared memory, barriers, and LLVM IR."""

import tritonc.backend.target.machine_ops  # noqa: F401  which passes make operations of
