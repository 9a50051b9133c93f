"""Branches, phis and the end of a kernel; barriers."""

from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import FENCE
from tritonc.backend.emit.registers import members
from tritonc.backend.emit.warps import WARPGROUP_BITS, warpgroup
from tritonc.backend.pipeline.tma.roles import CONSUMERS, PRODUCER
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import Scalar, Tile, element

_GROUPS = 8  # the barrier of the first warpgroup
_ORDER = 1  # the order barrier of the first warpgroup


def phi(f: FunctionEmitter, op: Op) -> None:
    """Narrow elements that a loop carries as they were loaded stay in their words: taken apart,
    each would have a register, and wait for its load."""
    found, mask = f.blank(op.result.type), f.demanded(op.result)
    each = _elements_of_word(op)
    for r in members(mask):
        if each > 1 and r % each == 0 and (mask >> r) & (1 << each) - 1 == (1 << each) - 1:
            found[r : r + each] = f.word_phi(op, r, each)
        elif not found[r]:
            found[r] = f.phi(op, r)
    f.values[op.result] = found


def _elements_of_word(op: Op) -> int:
    """How many elements of a phi share a word, if it carries what a load brings by words."""
    e = element(op.result.type)
    if not isinstance(op.result.type, Tile) or not isinstance(e, Scalar) or e.bits not in (8, 16):
        return 1
    seen, stack = {op}, [op]
    while stack:
        for value in stack.pop().operands:
            by = value.op
            if by is not None and by.name == "load":
                return 32 // e.bits if by.attributes.get("vector", 1) * e.bits >= 32 else 1
            if by is not None and by.name == "phi" and by not in seen:
                seen.add(by)
                stack.append(by)
    return 1


def cond_br(f: FunctionEmitter, op: Op) -> None:
    then, otherwise = (f.branch_target(block) for block in op.blocks)
    passes = op.attributes.get("passes") if f.role == PRODUCER else None
    if then == otherwise or passes is not None:  # one edge, as phis count it
        f.line(f"br label %{f.branch_target(op.blocks[passes or 0])}")
        return
    f.line(f"br i1 {f.scalar(op.operands[0])}, label %{then}, label %{otherwise}")


def group_barrier(f: FunctionEmitter, op: Op) -> None:
    if f.pingpong > 1:
        f.barrier()
        return
    own = f.prelude(f"add i32 {warpgroup(f)}, {_GROUPS}")
    f.meet_at(own, 1 << WARPGROUP_BITS)


def order_barrier(f: FunctionEmitter, op: Op) -> None:
    """A warpgroup waits at the barrier of its turn, where the one before it arrives."""
    if f.role != CONSUMERS:
        return
    step, both = op.attributes["step"], 2 << WARPGROUP_BITS
    own = f.group if f.pingpong > 1 else warpgroup(f)
    last = (f.consumer_warps << LANE_BITS >> WARPGROUP_BITS) - 1
    end = f.prelude(f"icmp eq i32 {own}, {last}")
    if step == "wait":
        f.meet_at(f.prelude(f"add i32 {own}, {_ORDER}"), both)
    elif step == "arrive":
        following = f.prelude(f"add i32 {own}, {_ORDER + 1}")
        to = f.prelude(f"select i1 {end}, i32 {_ORDER}, i32 {following}")
        f.under(f.scalar(op.operands[0]) if op.operands else "", "arrive",
                lambda: f.meet_at(to, both, "arrive"))
    else:
        f.under(end, "open", lambda: f.meet_at(_ORDER, both, "arrive"))


def own_program(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = [f.op(f"icmp eq i32 {f.group}, {f.scalar(op.operands[0])}")
                           if f.pingpong > 1 else "true"]


def ret(f: FunctionEmitter, op: Op) -> None:
    """Behind several loops in a block of its own: InstCombine sinks what one block that returns
    uses into it, past loops, and sums of the loops' results would be as many results."""
    cfg = Cfg(f.kernel)
    block = next(block for block in cfg.order if op in block.ops)
    if sum(cfg.dominates(loop.header, block) for loop in cfg.loops) > 1:
        end = f.new_label("return")
        f.line(f"br label %{end}")
        f.start_block(end)
    f.line("ret void")


EMITTERS: dict[str, Emitter] = {
    "own_program": own_program,
    "phi": phi, "cond_br": cond_br, "group_barrier": group_barrier, "order_barrier": order_barrier,
    "br": lambda f, op: f.line(f"br label %{f.branch_target(op.blocks[0])}"),
    "ret": ret,
    # A barrier also orders the block's accesses of global and shared memory.
    **dict.fromkeys(("barrier", "memory_barrier"), lambda f, op: f.barrier()),
    "device_fence": lambda f, op: f.line(FENCE)}
