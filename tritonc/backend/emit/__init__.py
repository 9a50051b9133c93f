"""From Triton-IR with layouts to LLVM IR: one emitter per operation, merged here by name."""

from __future__ import annotations

from tritonc.backend.emit import clusters, control, debug, reductions, shapes
from tritonc.backend.emit.accesses import (
    indices,
    memory,
    pieces,
    pointers,
    shared,
    tensor,
    tensor_maps,
)
from tritonc.backend.emit.demand import Machine
from tritonc.backend.emit.elements import arithmetic, casts, halves
from tritonc.backend.emit.floats import math
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.products import dots, matrix_loads, wgmma
from tritonc.ir.core import Op

EMITTERS: dict[str, Emitter] = {
    name: emitter
    for part in (indices, arithmetic, casts, math, pointers, memory, shapes, reductions, shared,
                 halves, matrix_loads, dots, wgmma, tensor_maps, tensor, clusters, control,
                 debug)
    for name, emitter in part.EMITTERS.items()
}

# Features of the target that operations need; matrix instructions say so in their own table.
NEEDS: dict[str, str] = {
    **dict.fromkeys(("async_copy", "async_commit", "async_wait"), "async_copy"),
    **dict.fromkeys(("ring_init", "ring_expect", "ring_fill", "ring_wait", "ring_acquire",
                     "ring_release", "turn_wait", "turn_pass"), "mbarrier_transactions"),
    **dict.fromkeys(("tensor_copy", "tensor_store", "store_wait", "proxy_fence"), "tensor_copy"),
    **dict.fromkeys(("claim_slot", "tensor_map", "publish_maps"), "tensor_map"),
    "cluster_arrive": "cluster", "wgmma_wait": "wgmma",
}


def emit_op(f: FunctionEmitter, op: Op, machine: Machine) -> None:
    """Emit an operation.  Raises CompileError where the target lacks what it needs."""
    if op.name in NEEDS:
        f.target.require(NEEDS[op.name], op.span)
    pieces.emit_op(f, EMITTERS[op.name], op, machine)
