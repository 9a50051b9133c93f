"""What the static cost model reads of a kernel: its products, reductions and accesses by tiles.

Features say nothing of the combination of tunables that a kernel was lowered with, but by their
extents: those of other combinations can be predicted (`choose`).  `feature` says what one is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from weakref import WeakKeyDictionary

from tritonc.analysis import column_loops, row_loops, shared_data
from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import iterations
from tritonc.analysis.quotients import gathered
from tritonc.analysis.repeats import Runs, share_of
from tritonc.analysis.taps import MOST_TAPS, adds_far_taps, adds_many_rows, adds_taps, near
from tritonc.analysis.transposes import transposes
from tritonc.analysis.values import constant_of, origin, slice_of
from tritonc.backend.dots.inner_axis import inner_first
from tritonc.backend.dots.raw_operands import added_loads, computed_operand, is_plain
from tritonc.backend.dots.select_dots import wants_halves
from tritonc.backend.dots.swap_operands import factors_of_columns
from tritonc.backend.dots.together import chained
from tritonc.backend.launch.persist import uneven
from tritonc.backend.memory.masks.flatten_rows import flat_loads
from tritonc.backend.memory.versions.assumed_facts import assumed_of
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import F16, I1, TF32, Scalar, element, scalar, shape
from tritonc.tune.model.epilogues import behind
from tritonc.tune.model.feature import Feature, Profile

_WORK = frozenset("""
    add sub mul sdiv udiv srem urem and or xor shl ashr lshr icmp smin smax umin umax addptr
    fadd fsub fmul fdiv fma fmin fmax fcmp exp2 log2 sqrt sitofp uitofp fptosi fptoui fpcast
""".split())  # operations that a thread does for each element of a tile

_OF_MASKS = frozenset("cmpp and or xor reshape broadcast splat reduce".split())
_FORMS = (  # of loops, the most telling first
    shared_data.chains_programs, row_loops.ends_by_tile, row_loops.recurrence, row_loops.crosses,
    column_loops.few_columns, shared_data.segments, shared_data.adds_sums,
    column_loops.scans_columns, column_loops.sums_columns, row_loops.uneven_passes,
    row_loops.several_passes, row_loops.reducing_passes,
    row_loops.adds_gathered, row_loops.adds_tiles, shared_data.shares_addresses,
    shared_data.contended, row_loops.windows_of_bytes,
)  # fmt: skip

_known: WeakKeyDictionary[Kernel, Profile] = WeakKeyDictionary()


def features(kernel: Kernel) -> Profile:
    """What the model reads of a kernel, which it asks for several times; passes change copies."""
    if kernel not in _known:
        _known[kernel] = (*_read(kernel),)
    return _known[kernel]


def _read(kernel: Kernel) -> Iterator[Feature]:
    """A kernel's dots, reductions, and accesses of memory by tiles.

    Dots, and what goes with them, count only in loops, where there are loops, and so do accesses
    where loops add up histograms, whose counts stay in shared memory.  Other operations do not
    count: whether two of them are one depends on whether their shapes happen to agree.
    """
    cfg = Cfg(kernel)
    if any(op.name == "dot" for op in kernel.ops()):
        in_loops = cfg.innermost
        blocks = [b for b in kernel.blocks if b in in_loops] or kernel.blocks
    else:
        blocks = kernel.blocks
    readers = uses(kernel)
    counts = shared_data.counts_in_loops(cfg)
    infos, flat = cache(lambda: axis_info.analyze(kernel)), cache(lambda: flat_loads(kernel))
    yield Feature("kernel", (), 0, form=_form_of(kernel, cfg))
    for block in blocks:
        dots = [op for op in block.ops if op.name == "dot"]
        sums = {_sum(op, readers): op for op in reversed(dots)}
        chain = chained(block)
        beside = len(sums) > 1 and not chain
        loaded: set[Value] = set()  # what follows from tiles that are loaded here
        for op in block.ops:
            if op.name == "load" or not loaded.isdisjoint(op.operands):
                loaded.update(value for value in op.results if shape(value.type))
            if op.name == "dot":
                if op not in sums.values():
                    continue  # more steps of another one's sum
                a, b = shape(op.operands[0].type), shape(op.operands[1].type)
                e = element(op.operands[0].type)
                if e.bytes == 1 and wants_halves(op, infos()):
                    e = F16
                inner = (True, True) if e.bytes == 2 else inner_first(op, infos())
                added = [one for one in dots if _sum(one, readers) is _sum(op, readers)]
                parts = (*(shape(one.operands[0].type)[-1] for one in added),)
                raw = _raw_bytes(kernel, cfg, added)
                across = [not first for first in inner_first(op, infos())] if any(raw) or (
                    e.bytes == 2) else (False, False)
                yield Feature("dot", (*a[:-1], b[-1], sum(parts)), e.bytes, (), str(e),
                              inner, beside,
                              (0, cfg.order.index(block)), scaled=_scaled(cfg, op, readers),
                              fresh=_fresh(op, readers),
                              swapped=factors_of_columns(op, readers) or (
                                  e == TF32 and inner == (True, False)),
                              raw=raw, across=(across[0], across[1]),
                              left=(left := _left(op, block)),
                              again=_again(op, dots), added=max((
                                  element(one.result.type).bytes for one in added_loads(block)
                                  if shape(one.result.type) == shape(op.result.type)), default=0),
                              short=_short(cfg.innermost.get(block)) and not uneven(kernel),
                              computed=any(sides := _computed(kernel, cfg, op)), sides=sides,
                              single=(single := any(sides) and _single(op, infos())),
                              lone=single and not any(
                                  assumed_of(kernel, load, True) for load in gathered(op)),
                              flat=e.bytes <= 2 and sides == (True, False)
                              and flat().issuperset(gathered(op)),
                              bare=(bare := any(sides) and _bare(op, infos())),
                              taps=_taps(cfg.innermost.get(block), 2 if bare else 1),
                              alone=_alone(kernel, cfg, op), parts=parts[1:] and parts,
                              fixed=left == "fixed" and not chain and block in cfg.innermost)
                if len(a) > 2:
                    yield from _neighbours(op, infos())
                if not chain:
                    around = [loop for loop in cfg.loops if block in loop]
                    yield from (_carried(kernel, op, around) if not beside else () if op
                                is not dots[0] else _held(op, cfg.innermost.get(block), sums))
            elif op.name in ("reduce", "scan", "reduce_with", "scan_with"):
                t = op.operands[0].type
                if element(t) == I1 and all(_only_guards(v, readers) for v in op.results):
                    continue
                axes = op.attributes.get("axes", (op.attributes.get("axis", 0),))
                order = _memory_order(kernel, op.operands[0])
                yield Feature("reduce", tuple(shape(t)[axis] for axis in order), element(t).bytes,
                              tuple(i for i, axis in enumerate(order) if axis in axes),
                              computed=op.operands[0].op in block.ops)
            elif op.effects & {READ, WRITE} and op.operands and (
                    block in cfg.innermost or not counts):
                t = op.operands[0].type
                if op.name == "store" and (apart := _apart(op)) is not None:
                    yield Feature("apart", apart, 0)
                yield Feature("access", shape(t), scalar(pointee(t)).bytes,
                              added=int(op.name == "store" and block not in cfg.innermost
                                        and not _by_data(op.guard)))
            elif dots and not chain and op.name in _WORK and not (
                    op.name in ("add", "fadd") and any(v.op in dots for v in op.operands)) and (
                    op.name != "fpcast" or element(op.result.type) != TF32):  # as it is read
                extents = shape(op.result.type)
                if len(extents) > 1 and min(extents) > 1:
                    yield Feature("index" if op.result not in loaded else "work", extents,
                                  element(op.result.type).bytes)
    for extents, instructions, loads in behind(kernel, cfg):
        yield Feature("behind", extents, instructions, added=loads)


def _form_of(kernel: Kernel, cfg: Cfg) -> str:
    """A word for what decides on tiles beside their extents; "" for nothing.  The first that holds:
    how many programs there are, as where columns are summed, goes before how often each loads."""
    if any(op.name == "dot" for op in kernel.ops()):
        before = any(op.name == "dot" for block in kernel.blocks for op in block.ops
                     if not any(block in loop for loop in cfg.loops))
        return "" if not before else "before" if cfg.loops else "once"
    for form in _FORMS:
        if form(kernel, cfg):
            name = form.__name__
            if form is row_loops.adds_tiles:
                name = next((taps.__name__ for taps in (adds_many_rows, adds_far_taps, adds_taps)
                             if taps(kernel, cfg)), name)
            nested = name.endswith("passes") and any(loop.depth > 1 for loop in cfg.loops)
            return "nested_passes" if nested else name
    return "transposed" if transposes(kernel) else ""


def _only_guards(value: Value, readers: Mapping[Value, list[Op]]) -> bool:
    """Whether a mask says only where something happens, as whether any of a row is wanted."""
    return all((op.guard is value and value not in op.operands) or (op.name in _OF_MASKS and all(
        _only_guards(v, readers) for v in op.results)) for op in readers.get(value, ()))


def _memory_order(kernel: Kernel, value: Value) -> list[int]:
    """The axes of a tile that is reduced, the one along which it lies in memory last."""
    last = column_loops.memory_axis(kernel, value)
    return [*(axis for axis in range(len(shape(value.type))) if axis != last), last]


def _sum(dot: Op, readers: Mapping[Value, list[Op]]) -> Value:
    """What the dot's result is added to with others, as far as nothing else reads them."""
    value = dot.result
    while len(found := readers.get(value, [])) == 1 and found[0].name in ("add", "fadd", "dot"):
        if found[0].name == "dot" and value is not found[0].operands[2]:
            break
        value = found[0].result
    return value


def _left(dot: Op, block: Block) -> str:
    """Where a dot's left operand is: computed of what another dot of the block made, or loaded."""
    inside = set(block.ops)
    if any(op.name == "dot" for op in slice_of(dot.operands[:1], inside, ("phi", "dot"))):
        return "registers"
    return "brought" if _source(dot.operands[0]) in inside else "fixed"


def _computed(kernel: Kernel, cfg: Cfg, dot: Op) -> tuple[bool, bool]:
    """Whether where each operand is follows from quotients, beyond what its tile repeats: threads
    copy it."""
    inner = {phi for loop in cfg.loops if loop.parent is not None
             and loop.parent is cfg.innermost.get(cfg.block_of[dot]) for phi in loop.header.phis()}
    left, right = (not inner.isdisjoint(slice_of([operand], None, ("dot", "phi", "load"), False))
                   for operand in dot.operands[:2])
    if left or right:  # threads make it in a loop of each step
        return left, right
    loads = gathered(dot)
    runs = Runs(kernel, cfg, lambda v: v in kernel.parameters) if loads else None
    if runs is None:
        return False, False
    far = {op for op in loads if runs.of_load(op, False) is None}
    left, right = (not far.isdisjoint(slice_of([operand], None, ("dot", "phi", "load"), False))
                   for operand in dot.operands[:2])
    return left, right


def _alone(kernel: Kernel, cfg: Cfg, dot: Op) -> bool:
    """Whether programs multiply nothing but where a dot is, or once behind it, each in one loop or
    none, that none goes past, and where its operands are follows from numbers that are not loaded.
    """
    loops = [loop for loop in cfg.loops if cfg.block_of[dot] in loop]
    ends = [block for block in cfg.order if block.terminator.name == "ret"]
    loads = [op for op in slice_of(dot.operands[:2], None, ("dot", "load"), False)
             if op.name == "load"]
    home = loops[0].header if loops else cfg.block_of[dot]
    return len(loops) <= 1 and all(
        block is cfg.block_of[dot] or (block not in cfg.innermost and cfg.dominates(home, block))
        for block in (cfg.block_of[op] for op in kernel.ops() if op.name == "dot")) and all(
        cfg.dominates(home, block) for block in ends) and not any(
        op.name == "load" for op in slice_of([op.operands[0] for op in loads], None, ("dot",),
                                             False))


def _single(dot: Op, infos: axis_info.Infos) -> bool:
    """Whether no two elements of a gathered operand are known to be neighbours in memory."""
    return any(max(axis_info.known(infos, load.operands[0]).contiguity) == 1
               for load in gathered(dot))


def _apart(store: Op) -> tuple[int, ...] | None:
    """How far the tiles that programs beside each other store are apart along each axis, if that is
    less than they are long, as of several steps of a stencil."""
    extents, form = shape(store.operands[0].type), Affinity().of(store.operands[0])
    steps = list(extents)
    for axis, stride in enumerate(form.strides if form is not None else ()):
        for values, n in form.offset.terms if form is not None and len(stride.terms) == 1 else ():
            ids = [v for v in values if v.op is not None and v.op.name == "get_program_id"]
            (rest, each), others = stride.terms[0], [v for v in values if v not in ids]
            if len(ids) == 1 and Counter(others) == Counter(rest) and n % each == 0 \
                    and 0 < n // each < steps[axis]:
                steps[axis] = n // each
    return tuple(steps) if steps != [*extents] else None


def _by_data(mask: Value | None) -> bool:
    """Whether a mask follows from what is loaded."""
    return mask is not None and any(op.name == "load" for op in slice_of([mask]))


def _bare(dot: Op, infos: axis_info.Infos) -> bool:
    """Whether no two elements of either operand are known to be neighbours in memory."""
    return all(max(axis_info.known(infos, load.operands[0]).contiguity) == 1
               for load in slice_of(dot.operands[:2], None, ("dot", "phi", "load"), False)
               if load.name == "load" and shape(load.result.type))


def _neighbours(dot: Op, infos: axis_info.Infos) -> Iterator[Feature]:
    """How many elements of the dot's operands are neighbours in memory, of each that is loaded."""
    for op in slice_of(dot.operands[:2], None, ("dot", "phi", "load"), False):
        if op.name == "load" and shape(op.operands[0].type):
            run = max(axis_info.known(infos, op.operands[0]).contiguity)
            yield Feature("run", (run,), scalar(pointee(op.operands[0].type)).bytes)


def _again(dot: Op, dots: Sequence[Op]) -> bool:
    """Whether a dot's right operand is one of a dot before it."""
    source = _source(dot.operands[1])
    before = dots[: dots.index(dot)]
    return source is not None and any(
        _source(v) is source for one in before for v in one.operands[:2])


def _short(loop: Loop | None) -> bool:
    """Whether a loop begins and ends where its program's number says, as that of a window does."""
    if loop is None or loop.preheader is None:
        return False
    phis = [*loop.header.phis()]
    compared = [v for value in loop.header.terminator.operands[:1] if value.op is not None
                for v in value.op.operands]
    starts = [loop.first(v.op) for v in compared if v.op in phis]
    ends = [v for v in compared if v.op not in phis]
    return any(map(_of_program, starts)) and any(map(_of_program, ends))


def _taps(loop: Loop | None, most: int) -> tuple[int, ...]:
    """How many taps of a filter a loop around a product, or those around it, go through that lie
    side by side in memory; `most`: of so many loops.  Where an operand comes in whole accesses,
    all taps of few channels are no better than those of a row of more: 3 x 3 of 64 channels in
    NHWC order, weights in KCRS order, by 128 x 64 x 16 56 us, by 128 x 64 x 32 37."""
    inner, found = loop, list[int]()
    while loop is not None and inner is not None:
        times = iterations(loop, MOST_TAPS)
        if times is not None and near(loop, inner.ops()) and prod(found) * times <= MOST_TAPS:
            found.append(times)
        elif loop is not inner:
            break
        loop = loop.parent
    return tuple(found[:most])


def _of_program(start: Value) -> bool:
    """Whether a value depends on the program's number."""
    return any(op.name == "get_program_id" for op in slice_of([start], masks=False))


def _source(value: Value) -> Op | None:
    """What the value is, but for its order and its type."""
    return origin(value, ("trans", "fpcast", "reshape")).op


def _scaled(cfg: Cfg, dot: Op, readers: Mapping[Value, list[Op]]) -> bool:
    """Whether a loop multiplies a dot from zero before it is added."""
    start = dot.operands[2].op
    return cfg.block_of[dot] in cfg.innermost and start is not None \
        and start.name == "constant" and any(
            op.name == "fmul" for op in readers.get(dot.result, ()))


def _fresh(dot: Op, readers: Mapping[Value, list[Op]]) -> bool:
    """Whether a dot from zero is no part of a sum that a loop carries: threads compute with it."""
    return constant_of(dot.operands[2]) is not None and not any(
        op.name == "phi" for op in readers.get(_sum(dot, readers), ()))


def _raw_bytes(kernel: Kernel, cfg: Cfg, dots: Sequence[Op]) -> tuple[float, float]:
    """For operands that a loop, or a program without, computes from loads of its own for a sum of
    products: their bytes in memory by elements of the operand.  What a load repeats, and one that
    serves several of the products, counts once."""
    loop = cfg.innermost.get(cfg.block_of[dots[0]])
    inside = set((loop or kernel).ops())
    made = [[None if is_plain(v, True) else computed_operand(v, inside) for v in operands]
            for operands in zip(*(dot.operands[:2] for dot in dots), strict=True)]
    if not any(map(any, made)):
        return 0.0, 0.0
    runs, found = Runs(kernel, cfg, lambda v: v in kernel.parameters), []
    for i, side in enumerate(made):
        loads = dict.fromkeys(load for one in side if one for load in one.raw)
        sizes = [prod(shape(load.result.type)) * scalar(pointee(load.operands[0].type)).bytes
                 * share_of(runs.of_load(load, True)) for load in loads]
        found.append(sum(sizes) / sum(prod(shape(dot.operands[i].type)) for dot in dots))
    return found[0], found[1]


def _carried(kernel: Kernel, dot: Op, loops: Sequence[Loop]) -> Iterator[Feature]:
    """The tiles of numbers, of the shape of a dot's result, that loops around it carry beside one
    of its type: its own sum.  Of outer loops those count that something in the loop computes with;
    others only go into an inner loop, or out."""
    readers = uses(kernel)
    types = []
    for depth, loop in enumerate(sorted(loops, key=lambda loop: -loop.depth)):
        inside = set(loop.ops())
        types += [phi.result.type for phi in loop.header.phis()
                  if shape(phi.result.type) == shape(dot.result.type) and (
                      not depth or any(op.name != "phi" and op in inside
                                       for op in readers.get(phi.result, ())))]
    if dot.result.type in types:
        types.remove(dot.result.type)
    for t in types:
        e = element(t)
        if isinstance(e, Scalar) and e.bits > 1:
            yield Feature("live", shape(t), e.bytes)


def _held(dot: Op, loop: Loop | None, sums: Mapping[Value, Op]) -> Iterator[Feature]:
    """The tiles of numbers, of the shape of a dot's result, that a loop of several products holds
    beside these and their sums: it carries them, or they are made before it."""
    phis = loop.header.phis() if loop is not None else []
    inside = set(loop.ops()) if loop is not None else set()
    held = {phi.result for phi in phis if sums.keys().isdisjoint(phi.operands)}
    held |= {v for op in inside if op not in phis for v in op.operands
             if v.op not in inside and constant_of(v) is None}
    for value in held:
        e = element(value.type)
        if shape(value.type) == shape(dot.result.type) and isinstance(e, Scalar) and e.bits > 1:
            yield Feature("live", shape(value.type), e.bytes)
