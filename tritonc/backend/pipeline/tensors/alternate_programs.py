"""alternate_programs: the warpgroups of a persistent block take programs in turn (ping-pong).

Before:  head:  %i = phi ...              After:  head:  %i = phi ...; %turn = phi [0], [1 - %turn]
                cond_br .., program, done                cond_br .., whose, done
         program: loop; store; br head            whose: cond_br (is_turn %turn), program, other
                                                  program: take_turn wait; loop; take_turn give;
                                                           store; br head
                                                  other: stages and phases of the loop; br head

Each warpgroup holds whole tiles.  While one stores its result, and computes what comes before that,
the other one's products run.  The producer warp brings the operands of all programs in order.  A
warpgroup runs through the stages of the others' programs without waiting for them.

A barrier keeps the loops in order: a warpgroup that waits for a stage two turns of the ring ahead
would take an earlier phase for its own.

Needs specialize_warps.
"""

from __future__ import annotations

from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.backend.pipeline.tensors.roles import START, first_choices, producer_blocks
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi, redirect, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I32, Buffer, Tile


def alternate_programs(kernel: Kernel, context: Context) -> bool:
    """Let two warpgroups compute a program each, where `turns` says so."""
    if kernel.attributes.get("turns", 1) == 1:
        return False
    cfg = Cfg(kernel)
    (programs,) = [loop for loop in cfg.loops if counts_programs(loop)]
    rare = set(rare_programs(kernel))
    (fed,) = [loop for loop in cfg.loops if loop is not programs and not rare.intersection(
        loop.blocks) and any(op.name == "wait_full" for op in loop.ops())]
    head, before = programs.header, [b for b in cfg.predecessors[programs.header]
                                     if b not in programs]
    _one_of_the_others(kernel, cfg)
    skipped = [block for block in producer_blocks(cfg.order)
               if block in programs and block is not head]
    start = next(block for block in head.successors if block in programs)
    zero, one = (make_op("constant", [], I32, value=i) for i in (0, 1))
    kernel.entry.ops[:0] = [zero, one]
    turn = make_phi([zero.result], [*before], "turn")
    following = make_op("xor", [turn.result, one.result])
    # the others' programs
    copies, mapping = {block: Block(f"{block.name}.other") for block in skipped}, dict[Value, Value]()
    for block in skipped:
        for op in block.ops:
            new = _skipped(op, mapping)
            if new is not None:
                copies[block].ops.append(new)
    for block, new in copies.items():
        for op in new.ops:
            op.operands = [mapping.get(v, v) for v in op.operands]
            op.blocks = [copies.get(b, b) for b in op.blocks]
    latch = programs.latch
    assert latch is not None
    for phi in head.phis():
        value = phi.operands[phi.blocks.index(latch)]
        add_incoming(phi, mapping.get(value, value), copies[latch])
    # whose program it is
    whose = Block("whose")
    b = Builder(whose)
    b.emit("cond_br", b.value("is_turn", turn.result), blocks=[start, copies[start]], passes=0)
    redirect(head, start, whose)
    for phi in start.phis():
        phi.blocks = [whose if block is head else block for block in phi.blocks]
    for phi in copies[start].phis():
        phi.blocks = [whose if block is head else block for block in phi.blocks]
    head.ops.insert(0, turn)
    add_incoming(turn, following.result, latch)
    add_incoming(turn, following.result, copies[latch])
    at = len(head.phis())
    head.ops.insert(at, following)
    # one after the other
    preheader, leave = fed.preheader, next(to for _, to in fed.exits)
    assert preheader is not None
    preheader.ops.insert(-1, make_op("take_turn", [], step="wait"))
    leave.ops[len(leave.phis()):len(leave.phis())] = [
        *_another(head, programs), make_op("take_turn", [], step="give")]
    more = leave.ops[len(leave.phis())+1].result
    leave.ops[len(leave.phis())+2].operands = [more]
    (outside,) = before
    outside.ops.insert(-1, make_op("take_turn", [], step="open"))
    place = kernel.blocks.index(start)
    kernel.blocks[place:place] = [whose]
    kernel.blocks[kernel.blocks.index(latch) + 1 : kernel.blocks.index(latch) + 1] = copies.values()
    context.remark("alternate_programs", "the warpgroups take programs in turn (ping-pong)",
                   kernel.span)
    return True


def _skipped(op: Op, mapping: dict[Value, Value]) -> Op | None:
    """What is left of an operation of a program that others compute; operands are the caller's."""
    if any(isinstance(v.type, Tile | Buffer) for v in (*op.results, *op.operands)):
        return None
    if op.name in ("br", "cond_br") and op.attributes.get("passes") is not None:
        return Op("br", [], blocks=[op.blocks[op.attributes["passes"]]], span=op.span)
    if op.guard is not None or not (op.pure or op.info.terminator or op.name == "load"):
        return None
    new = Op(op.name, list(op.operands), dict(op.attributes), tuple(r.type for r in op.results),
             None, op.span, list(op.blocks))
    mapping.update(zip(op.results, new.results, strict=True))
    return new


def _another(head: Block, programs: Loop) -> list[Op]:
    """Whether the block has a program after this one."""
    test = head.terminator.operands[0].op
    assert test is not None and test.name == "icmp"
    (phi,) = [phi for phi in head.phis() if phi.result is test.operands[0]]
    after = programs.next(phi)
    assert after.op is not None
    step = make_op("add", list(after.op.operands))
    return [step, make_op("icmp", [step.result, test.operands[1]], predicate="slt")]


def _one_of_the_others(kernel: Kernel, cfg: Cfg) -> None:
    """Bodies of one program are for the first warpgroup alone."""
    home = next(cfg.block_of[op] for op in kernel.ops() if op.name == START)
    choices = first_choices(kernel)
    for block in {to for choice in choices for to in choice.successors} - choices:
        if cfg.dominates(block, home) or [op.name for op in block.ops] == ["ret"]:
            continue
        rest = Block(f"{block.name}.first")
        split(block, len(block.phis()), rest)
        over = Block("second")
        over.ops.append(Op("ret", []))
        b = Builder(block)
        b.emit("cond_br", b.value("is_turn", b.constant(0, I32)), blocks=[rest, over])
        kernel.blocks[kernel.blocks.index(block) + 1 : kernel.blocks.index(block) + 1] = [rest]
        kernel.blocks.append(over)
