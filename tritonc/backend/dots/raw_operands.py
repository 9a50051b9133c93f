"""raw_operands: an operand that is computed from a load crosses shared memory as it was loaded.

Before:  %x = load %p : i8<64, 256>           After:  %x = load %p : i8<64, 256>
         %b = sitofp %x : bf16<64, 256>               %y = channel %x : i8<64, 256>
         %d = dot %a, %b, %c                          %b = sitofp %y : bf16<64, 256>
                                                      %d = dot %a, %b, %c

Copies that run ahead of a product bring bytes as they are: where threads compute something of a
loaded tile before they store it to shared memory, no copy could do their work.  A `channel` parts
the two: its operand goes to shared memory by whatever means `pipeline` has for it, and its readers
compute (conversions, factors, maxima, other values where a mask does not hold) on this side, also
of whole rows or columns, as a norm does.

A left operand of wgmma is then computed where the instruction wants it, in registers (`registers`
names such operands of a dot), and so are those of mma.sync (`fragments`); a right one of wgmma is
stored to a second buffer.  Words (tf32) that memory
has with another axis than K contiguous cross in the same way, as wgmma cannot read them as they
lie, and a left operand of bytes; so do rows that are gathered, which threads round.
On an H200, A B of 4096 in cube takes 356 us so, X^T dY of 8192 x 1024 x 2048 151, and by mma.sync
902 and 250.

What is combined with the result of one of two chained products, such as a bias of attention,
crosses by a channel as well: in the accumulators' layout a warp would load 16 bytes of each of
eight rows.  So do rows of it, of which each thread reads many elements.

Done for operands in loops that are made of loads by operations on single elements and reductions,
where the loads come in pieces that copies can move."""

from itertools import product

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import MOVES, fills_zeros, is_zero, origin, slice_of
from tritonc.backend.dots.fragments import place
from tritonc.backend.dots.inner_axis import inner_first
from tritonc.backend.dots.share_repeats import share_repeats
from tritonc.backend.dots.together import chained, large
from tritonc.backend.target import matrix
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.rules import pointee
from tritonc.ir.types import F32, TF32, Tile, is_float, scalar, shape
from tritonc.records import dataclass

PIECE = 16  # bytes that copies move at once,
LEAST = 4  # and the fewest that they can
SMALL = 16  # a load of so many times fewer bytes than the operand stays one: a scale, a zero point
FEWER = 4  # at just so many, also one of so many times fewer than another load: fifth bits
THIN = 8  # of so many times fewer bytes the fewest are enough: words of three bits
_SHAPES = (*MOVES, "constant", "constant_table", "range")


@dataclass
class Computed:
    """An operand that a loop computes from loads; `raw` are the large ones, `ops` the slice."""

    raw: list[Op]
    ops: list[Op]


def computed_operand(operand: Value, inside: set[Op], infos: axis_info.Infos | None = None
                     ) -> Computed | None:
    """What makes the operand, if that is more than a load; None if loads, operations on single
    elements and reductions do not.  `infos` tells rows from elements, once repeated ones are loaded
    once."""
    found: dict[Op, None] = {}
    loads: list[Op] = []
    stack = [operand]
    while stack:
        op = stack.pop().op
        if op is None or op in found or op not in inside or op in loads:
            continue
        if op.name == "load" and _looks_up(op, inside, infos):
            found[op] = None
            stack += op.inputs()
            continue
        if op.name == "load":
            t = op.result.type
            if isinstance(t, Tile) and SMALL * _bytes(op.result) >= _bytes(operand):
                loads.append(op)
            else:
                found[op] = None
            continue
        info = op.info
        if op.name == "phi" and not (isinstance(op.result.type, Tile) and is_float(op.result.type)):
            continue  # a counter, or what is compared with it
        if op.name == "phi" or not info.pure or not (info.elementwise or op.name in (
                *_SHAPES, "cmpp", "psi", "select", "reduce")):
            return None
        found[op] = None
        stack += op.inputs()
    most = max((_bytes(load.result) for load in loads), default=0)
    few = {load: None for load in loads if SMALL * _bytes(load.result) <= _bytes(operand)
           and FEWER * _bytes(load.result) <= most}
    loads = [load for load in loads if load not in few]
    return Computed(loads, [*found, *few]) if loads else None


def _looks_up(load: Op, inside: set[Op] | None = None, infos: axis_info.Infos | None = None
              ) -> bool:
    """Whether its addresses follow from what is loaded (of what the loop loads, if that is given),
    each from an element or a part of one, as those of a table do.  Not of rows, whose pieces copies
    can move ahead."""
    if infos is not None and copyable(load, infos):
        return False
    return any(op.name == "load" and SMALL * _size(op.result) >= _size(load.result)
               and (inside is not None or len(shape(op.result.type)) > 1)
               for op in slice_of(load.inputs(), inside, ("phi",)))


def is_plain(operand: Value, masked: bool = False) -> bool:
    """Whether the operand is a load, maybe transposed, zero where masked, or rounded as by an
    instruction, and no look-up by loaded elements.  `masked`: before masks are folded into loads.
    """
    op = operand.op
    while op is not None and op.name != "load":
        if op.name in ("trans", "reshape"):
            op = op.operands[0].op
        elif masked and op.name in ("psi", "select"):
            data = op.operands[1:] if op.name == "select" else op.operands[1::2]
            left = [v.op for v in data if not is_zero(origin(v, MOVES))]
            op = left[0] if len(left) == 1 else None
        elif op.name == "fpcast" and (scalar(op.operands[0].type), scalar(op.result.type)) == (
                F32, TF32):
            op = op.operands[0].op
        else:
            return False
    return op is not None and fills_zeros(op) and not _looks_up(op)


def _size(value: Value) -> int:
    return value.type.size if isinstance(value.type, Tile) else 1


def _bytes(value: Value) -> int:
    return _size(value) * scalar(value.type).bytes


def raw_operands(kernel: Kernel, context: Context) -> bool:
    """Put channels between loads and what makes operands of them."""
    target: Target = context.target
    if "async_copy" not in target.features:
        return False
    rows = _instructions(kernel)
    fixed = [op for op, row in rows.items() if row.kind == matrix.WGMMA and not row.transposes]
    infos = axis_info.analyze(kernel) if fixed else {}  # of operands before repeats are shared
    inner = {op: inner_first(op, infos) for op in fixed}
    changed = share_repeats(kernel)
    rows = _instructions(kernel)
    if not rows:
        return changed
    cfg, infos, readers = Cfg(kernel), axis_info.analyze(kernel), uses(kernel)
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        if loop is None or loop.latch is None:
            continue
        inside, others = set(loop.ops()), _read_by_threads(block, infos)
        found: dict[tuple[Op, int], Computed] = {}
        for op, number in product([op for op in block.ops if op in rows], (0, 1)):
            operand, row = op.operands[number], rows[op]
            words = row.kind == matrix.WGMMA and row.operand == TF32
            if is_plain(operand) and (op not in inner or inner[op][number]) and not (
                    words and _gathered(operand, loop)):
                continue
            made = computed_operand(operand, inside, infos)
            if made is not None and all(copyable(load, infos) or (
                    THIN * _bytes(load.result) <= _bytes(operand)
                    and copyable(load, infos, piece=LEAST)) for load in made.raw):
                found[op, number] = made
        while apart := [one for one, made in found.items() if any(
                not any(reader in other.ops or reader is op for (op, _), other in found.items()
                        if load in other.raw)
                for load in made.raw for reader in readers[load.result])]:
            for one in apart:
                del found[one]  # another reader has it in registers
        channels: dict[Value, Value] = {}
        for (op, number), made in found.items():
            row, wide = rows[op], made.raw
            if not context.meta.get("tma_load", large(block)):
                made = _with_small(made, readers, infos)
            in_registers = place(kernel, block, op, number, wide, made.ops, infos, context)
            if number == 0 and row.kind == matrix.WGMMA:
                in_registers = True
                op.attributes["registers"] = (*op.attributes.get("registers", ()), number)
                if all(_bytes_by_rows(load, op.operands[0], made, infos) for load in made.raw
                       if len(shape(load.result.type)) == 2):
                    op.attributes["neighbours"] = (1, 0)
            transposed = op in inner and not inner[op][number]
            _insert(cfg, made, op, in_registers, channels, infos if transposed else None)
            changed = True
        for load in others:
            if load.result in readers:  # share_repeats leaves loads that nobody reads any more
                _insert(cfg, Computed([load], readers[load.result]), None, True, channels)
                changed = True
    return changed


def _instructions(kernel: Kernel) -> dict[Op, matrix.MatrixInstruction]:
    """Those of the kernel's products, where they have one."""
    return {op: matrix.BY_NAME[op.attributes["instruction"]] for op in kernel.ops()
            if op.name == "dot" and "instruction" in op.attributes}


def _with_small(made: Computed, readers: dict[Value, list[Op]], infos: axis_info.Infos) -> Computed:
    """Small loads too that threads' copies can move: memory takes as long for a scale as for an
    operand.  TMA would have to find the row of a tile of one, which its address does not say."""
    small = [op for op in made.ops if op.name == "load" and isinstance(op.result.type, Tile)
             and copyable(op, infos, (1, 2), LEAST) and not any(
                 one.name == "load" for one in slice_of(op.inputs(), {*made.raw, *made.ops}))
             and all(reader in made.ops for reader in readers[op.result])]
    return Computed([*made.raw, *small], [op for op in made.ops if op not in small])


def _gathered(operand: Value, loop: Loop) -> bool:
    """Whether the operand is loaded from rows at computed places, which no TMA brings: threads that
    round it on its way would load it to registers for that."""
    affinity = Affinity(Iteration(loop))
    return any(op.name == "load" and isinstance(op.result.type, Tile) and affinity.of(
        op.operands[0]) is None for op in slice_of([operand], set(loop.ops()), ("load",)))


def _read_by_threads(block: Block, infos: axis_info.Infos) -> list[Op]:
    """Loads beside products on tensor cores that make no operand as `computed_operand` knows it:
    copies bring them, while threads would wait for memory.  Lines too of what meets the result of
    one of two chained products, but of small ones, and of rows of one piece, which TMA does not
    bring, only those of its shape."""
    dots = [op for op in block.ops if op.name == "dot"]
    if not any("instruction" in op.attributes for op in dots):
        return []
    operands, inside = [v for op in dots for v in op.operands[:2]], set(block.ops)
    taken = {origin(v, (*MOVES, "fpcast")).op for v in operands}
    taken |= {op for v in operands if (made := computed_operand(v, inside, infos))
              for op in (*made.raw, *made.ops)}
    added = added_loads(block, lines=len(dots) == 2) if chained(block) else []
    return [op for op in block.ops if op.name == "load" and op not in taken and (
        copyable(op, infos, (1, 2)) and not (len(shape(op.result.type)) == 1 and _asks(op, block))
        if op in added else copyable(op, infos)
        and SMALL * _bytes(op.result) >= max(map(_bytes, operands))
        and scalar(op.result.type).bytes * max(infos[op.operands[0]].contiguity) > PIECE)]


def _asks(load: Op, block: Block) -> bool:
    """Whether its mask is more than bounds, or the loop loads a number that says where it begins:
    TMA cannot bring it, and a copy by threads would leave the loop without a producer."""
    mask = Affinity().mask(load.guard, 1)
    return mask is None or bool(mask.conditions) or any(
        op.name == "load" for op in slice_of([load.operands[0]], set(block.ops)))


def added_loads(block: Block, lines: bool = False) -> list[Op]:
    """Loads of the shapes of products' results, or of `lines` of them, that no product multiplies.
    """
    dots = [op for op in block.ops if op.name == "dot"]
    extents = {shape(op.result.type) for op in dots}
    if lines:
        extents |= {(n,) for whole in extents for n in whole}
    made = set[Op]()  # of a product
    for op in block.ops:
        if op.name == "dot" or any(v.op in made for v in op.inputs()):
            made.add(op)
    operands = slice_of((v for op in dots for v in op.operands[:2]), set(block.ops) - made,
                        masks=False)
    return [op for op in block.ops if op.name == "load" and op not in operands
            and shape(op.result.type) in extents]


def copyable(load: Op, infos: axis_info.Infos, ranks: tuple[int, ...] = (2,), piece: int = PIECE
             ) -> bool:
    """Whether so many bytes in a row are contiguous and aligned."""
    info, t = infos.get(load.operands[0]), load.operands[0].type
    if info is None or len(shape(t)) not in ranks or load.attributes.get("volatile"):
        return False
    size = scalar(pointee(t)).bytes
    axis = max(range(len(shape(t))), key=lambda d: info.contiguity[d])
    return axis_info.vector_length(info, None, axis, size) * size >= piece


def _bytes_by_rows(load: Op, operand: Value, made: Computed, infos: axis_info.Infos) -> bool:
    """Whether the left operand's rows are neighbours in the load, of bytes or words of several
    elements, or in one of its words: then two of them come together."""
    t, info = load.result.type, infos[load.operands[0]]
    flips, op = 0, operand.op
    while op is not None and op is not load:
        flips += op.name == "trans"
        op = next((v.op for v in op.operands if v.op in made.ops or v.op is load), None)
    axis = max(range(2), key=lambda d: info.contiguity[d])
    return op is load and (axis + flips) % 2 == 0 and scalar(t).bytes in (1, 4) \
        and shape(operand.type)[0] % shape(t)[axis] == 0


def _insert(cfg: Cfg, made: Computed, dot: Op | None, in_registers: bool,
            channels: dict[Value, Value], infos: axis_info.Infos | None = None) -> None:
    """A channel behind each load, one for all operands made of it, which the operations of the
    slice and the dot read.  `infos`: if they are stored with another axis contiguous than they are
    loaded."""
    for load in [load for load in made.raw if load.result not in channels]:
        home: Block = cfg.block_of[load]
        new = make_op("channel", [load.result], load.result.type, span=load.span,
                      named=load.result.name)
        if not in_registers:
            new.attributes["stored"] = True
            if infos is not None and len(shape(load.result.type)) == 2:
                contiguity = infos[load.operands[0]].contiguity
                new.attributes["transposed"] = max(range(2), key=lambda d: contiguity[d])
        made_here = [new]
        if not fills_zeros(load):  # copies fill with zeros
            assert load.guard is not None
            other = make_op("constant", [], load.result.type, value=load.attributes.pop("other"))
            load.attributes["other"] = 0.0 if is_float(load.result.type) else 0
            made_here += [other, make_op("select", [load.guard, new.result, other.result])]
        at = home.ops.index(load) + 1
        home.ops[at:at] = made_here
        channels[load.result] = made_here[-1].result
    for op in [*made.ops, *([dot] if dot is not None else [])]:
        op.replace_inputs({load.result: channels[load.result] for load in made.raw})
