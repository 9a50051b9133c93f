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
from tritonc.ir.cfg import Cfg, Loop, add_incoming, follow, make_phi, redirect, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I32, Buffer, Tile


def alternate_programs(kernel: Kernel, context: Context) -> bool:
    """Let two warpgroups compute a program each, where `turns` says so."""
    if kernel.attributes.get("turns", 1) == 1:
        return False
    zero, one = (make_op("constant", [], I32, value=i) for i in (0, 1))
    kernel.entry.ops[:0] = [zero, one]
    _one_of_the_others(kernel, Cfg(kernel))
    rare = set(rare_programs(kernel))
    for programs in [loop for loop in Cfg(kernel).loops if counts_programs(loop)]:
        _alternate(kernel, programs, rare, zero.result, one.result)
    context.remark("alternate_programs", "the warpgroups take programs in turn (ping-pong)",
                   kernel.span)
    return True


def _alternate(kernel: Kernel, programs: Loop, rare: set[Block], zero: Value, one: Value) -> None:
    cfg = Cfg(kernel)
    head, latch = programs.header, programs.latch
    assert latch is not None
    (outside,) = [block for block in cfg.predecessors[head] if block not in programs]
    (fed,) = [loop for loop in cfg.loops if loop.header is not head and loop.header in programs
              and not rare.intersection(loop.blocks)
              and any(op.name == "wait_full" for op in loop.ops())]
    skipped = [block for block in producer_blocks(cfg.order)
               if block in programs and block is not head]
    start = next(block for block in head.successors if block in programs)
    turn = make_phi([zero], [outside], "turn")
    following = make_op("xor", [turn.result, one])
    # the others' programs
    copies, mapping = {block: Block(f"{block.name}.other") for block in skipped}, dict[Value, Value]()
    for block in skipped:
        for op in block.ops:
            new = _skipped(op, mapping)
            if new is not None:
                copies[block].ops.append(new)
    for block in copies.values():
        for op in block.ops:
            op.replace_inputs(mapping)
            op.blocks = [copies.get(b, b) for b in op.blocks]
    for phi in head.phis():
        value = phi.operands[phi.blocks.index(latch)]
        add_incoming(phi, mapping.get(value, value), copies[latch])
    # whose program it is
    whose = Block("whose")
    b = Builder(whose)
    b.emit("cond_br", b.value("is_turn", turn.result), blocks=[start, copies[start]], passes=0)
    redirect(head, start, whose)
    for block in (start, copies[start]):
        follow(block, head, whose)
    head.ops.insert(0, turn)
    head.ops.insert(len(head.phis()), following)
    for block in (latch, copies[latch]):
        add_incoming(turn, following.result, block)
    # one loop after the other
    preheader, leave = fed.preheader, next(to for _, to in fed.exits)
    assert preheader is not None
    outside.ops.insert(-1, make_op("take_turn", [], step="open"))
    preheader.ops.insert(-1, make_op("take_turn", [], step="wait"))
    step, more = _another(head, programs)
    at = len(leave.phis())
    leave.ops[at:at] = [step, more, make_op("take_turn", [more.result], step="give")]
    place = kernel.blocks.index(start)
    kernel.blocks.insert(place, whose)
    place = kernel.blocks.index(latch) + 1
    kernel.blocks[place:place] = copies.values()


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
    homes = [cfg.block_of[op] for op in kernel.ops() if op.name == START]
    choices = first_choices(kernel)
    for block in {to for choice in choices for to in choice.successors} - choices:
        if any(cfg.dominates(block, home) for home in homes) or [op.name for op in block.ops] == ["ret"]:
            continue
        rest = Block(f"{block.name}.first")
        split(block, len(block.phis()), rest)
        over = Block("second")
        over.ops.append(Op("ret", []))
        b = Builder(block)
        b.emit("cond_br", b.value("is_turn", b.constant(0, I32)), blocks=[rest, over])
        kernel.blocks[kernel.blocks.index(block) + 1 : kernel.blocks.index(block) + 1] = [rest]
        kernel.blocks.append(over)
