"""From Triton-IR with layouts to LLVM IR: one emitter per operation, found here by name."""

from functools import cache
from importlib import import_module

from tritonc.backend.emit.accesses import pieces
from tritonc.backend.emit.demand import Machine
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.ir.core import Op

# Each has a table EMITTERS of some operations.  Those of which few kernels have operations come
# last: the search for an operation imports no more of them than it needs.
PARTS = ("control", "accesses.indices", "elements.arithmetic", "accesses.pointers",
         "accesses.memory", "shapes", "elements.casts", "accesses.shared", "reductions",
         "elements.halves", "products.dots", "products.matrix_loads", "floats.math",
         "accesses.atomics", "products.wgmma", "accesses.tma", "accesses.tensor_maps",
         "clusters", "debug")

# Features of the target that operations need; matrix instructions say so in their own table.
NEEDS: dict[str, str] = {
    **dict.fromkeys(("async_copy", "async_commit", "async_wait"), "async_copy"),
    **dict.fromkeys(("init_barriers", "expect_full", "arrive_full", "wait_full", "wait_empty",
                     "arrive_empty", "order_wait", "order_arrive"), "mbarrier_transactions"),
    **dict.fromkeys(("tma_load", "tma_store", "store_wait", "proxy_fence"), "tma_load"),
    **dict.fromkeys(("claim_slot", "tensor_map", "publish_maps"), "tensor_map"),
    "cluster_arrive": "cluster", "wgmma_wait": "wgmma"}


@cache
def emitter_of(name: str) -> Emitter:
    for part in PARTS:
        table: dict[str, Emitter] = import_module(f"tritonc.backend.emit.{part}").EMITTERS
        if name in table:
            return table[name]
    raise KeyError(name)


def emit_op(f: FunctionEmitter, op: Op, machine: Machine) -> None:
    """Emit an operation.  Raises CompileError where the target lacks what it needs."""
    if op.name in NEEDS:
        f.target.require(NEEDS[op.name], op.span)
    pieces.emit_op(f, emitter_of(op.name), op, machine)
