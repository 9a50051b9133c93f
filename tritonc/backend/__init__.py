"""From Triton-IR to PTX: layouts, dots, shared memory, barriers, and LLVM IR.

Any module of the backend may make operations that only the backend has, so their rows join the
table of operations here."""

from tritonc.backend.target import machine_ops as machine_ops
