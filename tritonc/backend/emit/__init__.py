"""From Triton-IR with layouts to LLVM IR: one emitter per operation, merged here by name."""

from __future__ import annotations

from collections.abc import Callable

from tritonc.backend.emit import (
    arithmetic,
    casts,
    clusters,
    control,
    debug,
    dots,
    halves,
    indices,
    math,
    matrix_loads,
    memory,
    pointers,
    reductions,
    shapes,
    shared,
    tensor,
    tensor_maps,
    wgmma,
)
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.ir.core import Op

EMITTERS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    name: emitter
    for part in (indices, arithmetic, casts, math, pointers, memory, shapes, reductions, shared,
                 halves, matrix_loads, dots, wgmma, tensor_maps, tensor, clusters, control,
                 debug)
    for name, emitter in part.EMITTERS.items()
}
