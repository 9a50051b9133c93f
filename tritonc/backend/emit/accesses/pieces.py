"""Tiles that come piece by piece: what `delay_loads` marks `piecewise`, and what is made of it.

The load and what is made of its tile alone are emitted where another operation reads them: for
each few registers of that, the accesses that bring them, then what is computed.  So a thread holds
one piece of the tile and not the whole.

LLVM sinks an operation to the block that reads it, over the ends of branches between, and a thread
would again hold what all pieces are made of: where a piece has branches, as quotients have, empty
inline assembly keeps its results in their place."""

from functools import partial

from tritonc.analysis.registers.weights import PIECE, made_alone
from tritonc.backend.emit.demand import Machine, reads
from tritonc.backend.emit.function import Emitter, FunctionEmitter, Names
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op


def emit_op(f: FunctionEmitter, emitter: Emitter, op: Op, machine: Machine) -> None:
    """Emit an operation, now or, for a part of a tile that comes piece by piece, on use."""
    later = op.attributes.get("piecewise") or op.attributes.get("late")
    mine, fenced = later and op.pure, not later and op.attributes.get("fenced")
    if op.name in ("store", "shared_store", "mma_dot", "wgmma") or not (
            mine or fenced or not f.fetch.keys().isdisjoint(op.operands)):
        emitter(f, op)
        return
    f.values[op.result] = found = f.blank(op.result.type)
    compute = partial(_compute, f, emitter, op, machine, found)
    if mine or made_alone(op):
        f.fetch[op.result] = compute
        return
    demanded = members(f.demanded(op.result))
    for i in range(0, len(demanded), PIECE):
        label = f.label
        if fenced:
            fence_accesses(f)
        compute(sum(1 << r for r in demanded[i : i + PIECE]))
        for r in demanded[i : i + PIECE] if f.label != label else ():
            found[r] = keep(f, f.type(op.result), found[r])


def fence_accesses(f: FunctionEmitter) -> None:
    """Keep the assembler from moving accesses over this: the threads of the warp meet."""
    f.convergent("llvm.nvvm.bar.warp.sync", "void", "i32 -1")


_CONSTRAINTS = {"float": "f", "i32": "r"}


def keep(f: FunctionEmitter, t: str, name: str) -> str:
    """The operand as LLVM has to compute it here."""
    if t not in _CONSTRAINTS or not name:
        return name
    return f.asm(t, "", [f"={_CONSTRAINTS[t]}"], [("0", f"{t} {name}")], memory=False)


def _compute(f: FunctionEmitter, emitter: Emitter, op: Op, machine: Machine, found: Names,
             now: int) -> None:
    """Those of the registers `now` that are not in `found` yet, as if no others were demanded."""
    missing = sum(1 << r for r in members(now) if not found[r])
    if not missing:
        return
    for value, needed in reads(op, missing, machine):
        if value in f.fetch:
            f.fetch[value](needed)
    demanded = f.demanded(op.result)
    f.demand[op.result] = missing
    emitter(f, op)
    f.demand[op.result] = demanded
    made = f.values[op.result]
    for r in members(missing):
        found[r] = made[r]
    f.values[op.result] = found
