"""A body of an entry whose warpgroups take programs in turn (`choose_pingpong`), for
launches that it is faster for; others run the bodies that are there.

Before:  launch: cond_br %used, choose, over      After:  launch: cond_br %used || number < blocks,
                                                                  turn, over
                                                          turn:   cond_br !%few, t, again
                                                          t:      ... test facts .. programs in turn
                                                                  a fact does not hold: br again
                                                          again:  cond_br %used, choose, end

Only persistent blocks take programs in turn, so the body that is added has those alone: where a
fact does not hold, as that rows are aligned, blocks go on as if the body was not there.  Both have
as many threads, whose warpgroups hold tiles together or one each: the branch says so (`pingpong`).
"""

from tritonc.backend.pipeline.tma.roles import leading_to
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, reached, redirect
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.types import I32

_SAME = "registers", "producer_warps"  # attributes


def can_add(kernel: Kernel, other: Kernel) -> bool:
    """Whether an entry can have a body of the other kernel; both went through the passes."""
    return other.attributes.get("pingpong", 1) > 1 and kernel.threads == other.threads and all(
        kernel.attributes.get(name) == other.attributes.get(name) for name in _SAME) and (
        any(_choices(other).values()))


def _choices(pingpong: Kernel) -> dict[Block, list[Block]]:
    """The blocks in which only scalars choose the body in which warpgroups take turns, and those
    that other bodies begin with; none where a block of another kind leads there."""
    cfg = Cfg(pingpong)
    leading = set(leading_to(cfg.order, [block for block in cfg.order if any(
        op.name == "order_barrier" for op in block.ops)]))
    found: dict[Block, list[Block]] = {}
    pending = [pingpong.entry]
    while pending:
        block = pending.pop()
        if block in leading and set(found).issuperset(cfg.predecessors[block]) and all(
                op.pure or op.name == "alloc_shared" or op.info.terminator for op in block.ops):
            pending += block.successors
            found[block] = [to for to in block.successors
                            if to not in leading and to.ops[0].name != "ret"]
    return found


def add_pingpong(launch: Block, pingpong: Kernel, wanted: Value, used: Value, number: Value
              ) -> tuple[Block, list[Block]]:
    """Let `launch`, whose blocks end unless they are `used`, run the other kernel's body where that
    is `wanted`.  Returns the block before that body, which may give the programs other numbers, and
    all that come behind `launch`."""
    choose, over = launch.ops.pop().blocks
    turn, again, end = Block("turn"), Block("again"), Block("end")
    b = Builder(launch)
    blocks = b.emit("get_num_multiprocessors", type=I32).result
    first = b.value("or", used, b.value("icmp", number, blocks, predicate="ult"))
    b.emit("cond_br", first, blocks=[turn, over])
    for block, others in _choices(pingpong).items():
        for other in others:
            redirect(block, other, again)
        if others:  # it only chooses
            (to,) = [to for to in block.successors if to is not again]
            to.ops[:0] = [op for op in block.ops if op.name == "alloc_shared"]
            block.ops = [op for op in block.ops if op.name != "alloc_shared"]
    Builder(turn).emit("cond_br", wanted, blocks=[pingpong.entry, again],
                       pingpong=pingpong.attributes["pingpong"])
    Builder(again).emit("cond_br", used, blocks=[choose, end])
    Builder(end).emit("ret")
    kept = reached([pingpong.entry], stop=[again])
    return turn, [turn, *(block for block in pingpong.blocks if block in kept), again, end]
