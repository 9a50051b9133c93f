"""From Triton-IR with layouts to LLVM IR: one emitter per operation, merged here by name."""

from __future__ import annotations

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
    pieces,
    pointers,
    reductions,
    shapes,
    shared,
    tensor,
    tensor_maps,
    wgmma,
)
from tritonc.backend.emit.demand import Machine
from tritonc.backend.emit.function import Emitter, FunctionEmitter
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
                     "ring_release"), "mbarrier_transactions"),
    **dict.fromkeys(("tensor_copy", "tensor_store", "store_wait", "proxy_fence"), "tensor_copy"),
    **dict.fromkeys(("claim_slot", "tensor_map", "publish_maps"), "tensor_map"),
    "cluster_arrive": "cluster", "wgmma_wait": "wgmma",
}


def emit_op(f: FunctionEmitter, op: Op, machine: Machine) -> None:
    """Emit an operation.  Raises CompileError where the target lacks what it needs."""
    if op.name in NEEDS:
        f.target.require(NEEDS[op.name], op.span)
    pieces.emit_op(f, EMITTERS[op.name], op, machine)
