"""pingpong_programs: the warpgroups of a persistent block take programs in turn (ping-pong).

Before:  head:  %i = phi ...              After:  head:  %i = phi ...; %turn = phi [0], [1 - %turn]
                cond_br .., program, done                cond_br .., whose, done
         program: loop; store; br head            whose: cond_br (own_program %turn), program, other
                                                  program: wait; loop; arrive (order_barrier);
                                                           store; br head
                                                  other: stages and phases of the loop; br head

Each warpgroup holds whole tiles.  While one stores its result, and computes what comes before that,
the other one's products run.  The producer warp brings the operands of all programs in order.  A
warpgroup runs through the stages of the others' programs without waiting for them.

A barrier keeps the loops in order: a warpgroup that waits for a stage two rounds of the stages
ahead would take an earlier phase for its own.

Needs specialize_warps."""

from tritonc.analysis.values import computed_from, slice_of
from tritonc.backend.launch.persist import axes, counts_programs, own_number, rare_programs
from tritonc.backend.pipeline.tma.roles import START, leading_to, producer_blocks
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, follow, make_phi, redirect, split
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import WRITE
from tritonc.ir.types import I32, Buffer, Tile


def pingpong_programs(kernel: Kernel, context: Context) -> bool:
    """Let two warpgroups compute a program each, where `pingpong` says so."""
    if kernel.attributes.get("pingpong", 1) == 1:
        return False
    zero, one = (make_op("constant", [], I32, value=i) for i in (0, 1))
    kernel.entry.ops[:0] = [zero, one]
    cfg = Cfg(kernel)
    _one_each(kernel, cfg)
    _first_alone(kernel, cfg)
    for programs in [loop for loop in Cfg(kernel).loops if counts_programs(loop)]:
        _alternate(kernel, programs, zero.result, one.result)
    context.remark("pingpong_programs", "the warpgroups take programs in turn (ping-pong)",
                   kernel.span)
    return True


def _alternate(kernel: Kernel, programs: Loop, zero: Value, one: Value) -> None:
    cfg = Cfg(kernel)
    head, latch = programs.header, programs.latch
    assert latch is not None
    (outside,) = [block for block in cfg.predecessors[head] if block not in programs]
    (fed,) = fed_loops(kernel, programs, cfg)
    skipped = [block for block in producer_blocks(cfg.order)
               if block in programs and block is not head]
    start = next(block for block in head.successors if block in programs)
    turn = make_phi([zero], [outside], "turn")
    following = make_op("xor", [turn.result, one])
    # the others' programs
    copies = {block: Block(f"{block.name}.other") for block in skipped}
    mapping: dict[Value, Value] = {}
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
    b.emit("cond_br", b.value("own_program", turn.result), blocks=[start, copies[start]], passes=0)
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
    outside.ops.insert(-1, make_op("order_barrier", [], step="open"))
    preheader.ops.insert(-1, make_op("order_barrier", [], step="wait"))
    step, more = _another(head, programs)
    at = len(leave.phis())
    leave.ops[at:at] = [step, more, make_op("order_barrier", [more.result], step="arrive")]
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


def fed_loops(kernel: Kernel, programs: Loop, cfg: Cfg) -> list[Loop]:
    """The loops of a program that wait for what the producer brings."""
    rare = set(rare_programs(kernel))
    return [loop for loop in cfg.loops if loop.header is not programs.header
            and loop.header in programs and not rare.intersection(loop.blocks)
            and any(op.name == "wait_full" for op in loop.ops())]


def prevents(kernel: Kernel) -> str | None:
    """Why a block may not compute two programs at once.

    Of bodies for which a producer works, one has a loop over programs, and in each of these one
    loop that waits for it, past which no program goes: its turn would not be given on.  Others
    compute a program."""
    cfg = Cfg(kernel)
    loops = [loop for loop in cfg.loops if counts_programs(loop)]
    homes = [cfg.block_of[op] for op in kernel.ops() if op.name == START]
    others = _others(kernel, cfg)
    apart = all(set(cfg.predecessors[block]) <= {*body} for body in others for block in body[1:])
    both = [op for block in leading_to(cfg.order, homes) for op in block.ops]
    if any(WRITE in op.effects for op in both) or not apart or not all(
            op.pure for body in others for op in _numbered_before(cfg, body)):
        return "the code before its bodies would run twice"
    if not loops:
        return "the producer warp loads the operands of one program only"
    for loop in loops:
        fed = fed_loops(kernel, loop, cfg)
        if loop.latch is None or loop.preheader is None or len(fed) != 1 \
                or not fed[0].one_exit or fed[0].preheader is None \
                or not cfg.dominates(fed[0].preheader, loop.latch):
            return "a program may skip the loop of its product"
    return None


def _first_alone(kernel: Kernel, cfg: Cfg) -> None:
    """Where a producer works for one program, the first warpgroup computes it; the other one only
    meets the producer."""
    loops = [loop for loop in cfg.loops if counts_programs(loop)]
    for home in [block for block in cfg.order if any(op.name == START for op in block.ops)]:
        if any(cfg.dominates(home, loop.header) for loop in loops):
            continue
        at = next(i for i, op in enumerate(home.ops) if op.name == START)
        slot = home.ops[at].operands[0]
        rest, leave = Block(f"{home.name}.first"), Block(f"{home.name}.second")
        split(home, at + 1, rest)
        b = Builder(home)
        own = b.value("own_program", b.constant(0, I32))
        b.emit("cond_br", own, blocks=[rest, leave], passes=0)
        leave.ops += [make_op("release_slot", [slot]), Op("ret", [])]
        kernel.blocks.insert(kernel.blocks.index(home) + 1, rest)
        kernel.blocks.append(leave)


def _others(kernel: Kernel, cfg: Cfg) -> list[list[Block]]:
    """The blocks of each body without a producer, whose blocks compute one program."""
    homes = [cfg.block_of[op] for op in kernel.ops() if op.name == START]
    leading = leading_to(cfg.order, homes)
    first = [block for block in cfg.order if block not in leading and block.ops[0].name != "ret"
             and not any(cfg.dominates(home, block) for home in homes)
             and any(before in leading for before in cfg.predecessors[block])]
    return [[other for other in cfg.order if cfg.dominates(block, other)] for block in first]


def _numbered_before(cfg: Cfg, body: list[Block]) -> list[Op]:
    """What the blocks read that is computed before them from the program's number."""
    read = {v for block in body for op in block.ops for v in op.inputs()
            if v.op is not None and cfg.block_of[v.op] not in body}
    found = slice_of(v for v in read if computed_from(v, "get_program_id"))
    return [op for block in cfg.order if block not in body for op in block.ops
            if op in found and computed_from(op.result, "get_program_id")]


def _one_each(kernel: Kernel, cfg: Cfg) -> None:
    """There, block i computes the programs 2 i and 2 i + 1, if there are so many, each by one of
    the warpgroups: a loop of two turns."""
    for inside in _others(kernel, cfg):
        first = inside[0]
        before = _numbered_before(cfg, inside)
        ids = [op for op in (*before, *(op for block in inside for op in block.ops))
               if op.name == "get_program_id"]
        count, at = axes(cfg.order), kernel.blocks.index(first)
        head, whose, body, after, over = (Block(f"{first.name}.{name}") for name in (
            "pingpong", "whose", "own", "turned", "over"))
        split(first, len(first.phis()), body)
        b = Builder(first)
        number, total = own_number(b, count)
        begin, one, two = (b.constant(i, I32) for i in range(3))
        start = b.value("mul", number, two)
        b.emit("br", blocks=[head])
        turn = make_phi([begin], [first], "turn")
        head.ops.append(turn)
        b = Builder(head)
        left = program = b.value("add", start, turn.result)
        more = b.value("and", b.value("icmp", turn.result, two, predicate="ult"),
                       b.value("icmp", program, total, predicate="ult"))
        b.emit("cond_br", more, blocks=[whose, over])
        b = Builder(whose)
        numbers = []
        for axis in range(count - 1):
            extent = b.value("get_num_programs", axis=axis)
            numbers.append(b.value("urem", left, extent))
            left = b.value("udiv", left, extent)
        numbers.append(left)
        b.emit("cond_br", b.value("own_program", turn.result), blocks=[body, after])
        for block in (body, *inside[1:]):
            if block.terminator.name == "ret":
                block.ops[-1] = Op("br", [], blocks=[after], span=block.terminator.span)
        b = Builder(after)
        add_incoming(turn, b.value("add", turn.result, one), after)
        b.emit("br", blocks=[head])
        over.ops.append(Op("ret", []))
        kernel.blocks[at + 1 : at + 1] = [head, whose, body]
        kernel.blocks += [after, over]
        found = {op.result: numbers[op.attributes["axis"]] for op in ids}
        copies = copy_ops([op for op in before if op not in ids], found)
        body.ops[:0] = copies
        for block in (body, *inside[1:]):
            block.ops = [op for op in block.ops if op not in ids]
            for op in block.ops:
                op.replace_inputs(found)
