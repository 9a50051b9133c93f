"""Values for tunables that nobody bound: the static cost model.

The choice is a function of program and target, so that every machine builds the same bytes.
Measuring knows better; this has to be right within reason, at once.

What a candidate costs follows from the extents of its tiles.  Lowering each of the, say, 48
combinations of a matrix product would take longer than the rest of the compilation, so the model
lowers n + 1 of them: a base, and for each of the n tunables one that differs from the base in it
alone.  An extent that doubles with TM is a multiple of TM; from the factors, the extents of every
combination follow:

    base      TM=32 TN=32 TK=8    dot 32x32x8
    TM = 64                       dot 64x32x8      M = TM
    TN = 64                       dot 32x64x8      N = TN
    TK = 16                       dot 32x32x16     K = TK

Where that is not so (an extent `T + 2`, an `#if`-like branch on a tunable, a combination that a
static_assert forbids), candidates are lowered one by one, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import inf, log2, prod, sqrt
from typing import NamedTuple

from tritonc.analysis import axis_info
from tritonc.analysis.row_loops import (
    adds_tiles,
    ends_by_tile,
    recurrence,
    reducing_passes,
    several_passes,
    sums_columns,
)
from tritonc.analysis.signs import known_signs
from tritonc.backend.dots.inner_axis import inner_first
from tritonc.backend.dots.raw_operands import computed_operand, is_plain
from tritonc.backend.dots.select_dots import wants_halves
from tritonc.backend.dots.share_repeats import Runs
from tritonc.backend.dots.together import chained
from tritonc.backend.launch.choose_warps import ACCUMULATORS, LEGAL
from tritonc.backend.pipeline.ring import IN_FLIGHT_REGISTERS
from tritonc.backend.target.matrix import ACCUMULATORS as MATRIX_ACCUMULATORS
from tritonc.backend.target.matrix import INSTRUCTIONS, WGMMA, MatrixInstruction
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Module, Op, Value, uses
from tritonc.ir.ops import OPS, READ, WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import F16, Scalar, element, scalar, shape
from tritonc.source import CompileError
from tritonc.tune.model_residency import Chained, busy, crowded, held

Binding = dict[str, int]
Lower = Callable[[Mapping[str, int]], Module]  # raises CompileError where a binding is not legal

MAX_COMBINATIONS = 10_000  # compared by their extents
MAX_VARIED = 1000  # compared one tunable after the other, where there are more
_WORK = frozenset("""
    add sub mul sdiv udiv srem urem and or xor shl ashr lshr icmp smin smax umin umax addptr
    fadd fsub fmul fdiv fma fmin fmax fcmp exp2 log2 sqrt sitofp uitofp fptosi fptoui fpcast
""".split())  # operations that a thread does for each element of a tile
MAX_LOWERED = 64  # lowered one by one, where extents cannot be predicted


@dataclass(frozen=True, slots=True)
class Feature:
    """What the model reads of one operation: `extents` is (..., M, N, K) of a dot, else the shape
    of its pointers, of what it reduces, of what loops around a dot carry beside its sums, or of
    what is computed there element by element."""

    kind: str  # "kernel", which begins one's, "dot", "held", "reduce", "access" or "work"
    extents: tuple[int, ...]
    bytes: int  # of an element
    axes: tuple[int, ...] = ()  # of a reduction
    element: str = ""  # of a dot's operands
    # Of a dot: whether each operand is loaded with the axis of K contiguous; asked if it matters.
    inner: tuple[bool, bool] = (True, True)
    beside: bool = False  # a dot with others in its block, of which none takes another's result
    place: tuple[int, int] = (0, 0)  # of a dot: numbers of its kernel and block
    form: str = ""  # of a kernel: a word of `_form_of`
    scaled: bool = False  # a dot from zero, of which something is computed before it is added
    # Of a dot: the bytes of an element of each operand as memory has it, which copies bring; 0 for
    # those of its type.
    raw: tuple[float, float] = (0.0, 0.0)
    left: str = "fixed"  # of a dot in a chain: as `Chained` has it
    again: bool = False


Profile = tuple[Feature, ...]


def choose(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
           extents: Sequence[int] = ()) -> Binding:
    """The cheapest combination of `space`, which gives the legal values of each unbound tunable.

    `lower` makes Triton-IR for a combination; `extents` are those of the launch, if known.  The
    first in the order of the lists wins a tie.
    Where no combination is legal, the first: compiling it says why.
    """
    names = [name for name in space if space[name]]
    first = {name: space[name][0] for name in names}
    if all(len(space[name]) == 1 for name in names):
        return first
    for candidate in ranked(space, lower, target, extents)[:MAX_LOWERED]:
        if candidate.cost < inf and _profile(lower, candidate.binding) is not None:
            return candidate.binding
    return first


class Ranked(NamedTuple):
    """A combination, its relative time, and what the model read of it (None: nothing)."""

    cost: float
    binding: Binding
    profile: Profile | None


def ranked(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
           extents: Sequence[int] = ()) -> list[Ranked]:
    """The combinations of `space`, the cheapest first; the order of the lists decides ties.

    Those that are known to be illegal are left out.  Where extents cannot be predicted, only the
    first MAX_LOWERED are looked at; the others come last, in their order, MAX_COMBINATIONS in all.
    Of more combinations than that only those are predicted that differ from the best so far in one
    tunable, tunable by tunable, twice around.  Of more than MAX_LOWERED tunables the rest keep
    their first values.
    """
    names = [name for name in space if space[name]]
    space = {**space, **{name: space[name][:1] for name in names[MAX_LOWERED:]}}
    candidates = _combinations(space, names)
    found = []
    if (predict := _predictor(space, names, lower)) is not None:
        if prod(len(space[n]) for n in names) > MAX_COMBINATIONS:
            candidates = _one_at_a_time(space, names, lambda b: cost(predict(b), target, extents))
        for binding in candidates:
            profile = predict(binding)
            found.append(Ranked(cost(profile, target, extents), binding, profile))
    else:
        for binding in islice(candidates, MAX_LOWERED):
            lowered = _profile(lower, binding)
            if lowered is not None:
                found.append(Ranked(cost(lowered, target, extents), binding, lowered))
        found += [Ranked(inf, binding, None)
                  for binding in islice(candidates, MAX_COMBINATIONS - MAX_LOWERED)]
    return sorted(found, key=lambda candidate: candidate.cost)


def _one_at_a_time(space: Mapping[str, Sequence[int]], names: list[str],
                   price: Callable[[Binding], float]) -> Iterator[Binding]:
    """Combinations on the way to a good one, each once."""
    now = {name: space[name][(len(space[name]) - 1) // 2] for name in names}
    seen: dict[tuple[int, ...], Binding] = {}
    free = [name for name in names if len(space[name]) > 1]
    share = max(2, MAX_VARIED // (2 * len(free)))  # of the values of each tunable
    for name in [*free, *free]:
        values = space[name][:: -(-len(space[name]) // share)]
        for value in values:
            seen.setdefault(tuple({**now, name: value}.values()), {**now, name: value})
        now = min(({**now, name: value} for value in values), key=price)
    yield from seen.values()


def _combinations(space: Mapping[str, Sequence[int]], names: list[str]) -> Iterator[Binding]:
    for values in product(*(space[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def _profile(lower: Lower, binding: Binding) -> Profile | None:
    """What the model reads of a combination; None if it is not legal."""
    try:
        module = lower(binding)
    except CompileError:
        return None
    return tuple(replace(feature, place=(number, feature.place[1]))
                 for number, kernel in enumerate(module.kernels) for feature in features(kernel))


def features(kernel: Kernel) -> Iterator[Feature]:
    """What the model reads of a kernel: its dots, reductions, and accesses of memory by tiles.

    Dots, and what goes with them, count only in loops, where there are loops.  Other operations do
    not count: whether two of them are one depends on whether their shapes happen to agree.
    """
    cfg = Cfg(kernel)
    if any(op.name == "dot" for op in kernel.ops()):
        in_loops = cfg.innermost
        blocks = [b for b in kernel.blocks if b in in_loops] or kernel.blocks
    else:
        blocks = kernel.blocks
    readers = uses(kernel)
    yield Feature("kernel", (), 0, form=_form_of(kernel, cfg))
    for block in blocks:
        dots = [op for op in block.ops if op.name == "dot"]
        sums = {_sum(op, readers): op for op in reversed(dots)}.values()
        beside = len(sums) > 1 and not chained(block)
        for op in block.ops:
            if op.name == "dot":
                if op not in sums:
                    continue  # more steps of another one's sum
                a, b = shape(op.operands[0].type), shape(op.operands[1].type)
                e = element(op.operands[0].type)
                if e.bytes == 1 and wants_halves(op, axis_info.analyze(kernel)):
                    e = F16
                yield Feature("dot", (*a[:-1], b[-1], a[-1]), e.bytes, (), str(e),
                              (True, True) if e.bytes == 2 else inner_first(
                                  op, axis_info.analyze(kernel)), beside,
                              (0, cfg.order.index(block)), scaled=_scaled(op, readers),
                              raw=_raw_bytes(kernel, cfg, op), left=_left(op, block),
                              again=_again(op, dots))
                yield from _carried(kernel, op, [loop for loop in cfg.loops if block in loop])
            elif op.name in ("reduce", "argreduce", "scan", "reduce_with", "scan_with"):
                t = op.operands[0].type
                axes = op.attributes.get("axes", (op.attributes.get("axis", 0),))
                yield Feature("reduce", shape(t), element(t).bytes, tuple(axes))
            elif OPS[op.name].effects & {READ, WRITE} and op.operands:
                t = op.operands[0].type
                yield Feature("access", shape(t), scalar(pointee(t)).bytes)
            elif dots and op.name in _WORK and not (
                    op.name in ("add", "fadd") and any(v.op in dots for v in op.operands)):
                extents = shape(op.result.type)
                if len(extents) > 1 and min(extents) > 1:
                    yield Feature("work", extents, element(op.result.type).bytes)


def _form_of(kernel: Kernel, cfg: Cfg) -> str:
    """A word for what decides on tiles beside their extents; "" for nothing."""
    if any(op.name == "dot" for op in kernel.ops()):
        return ""
    for asks in (ends_by_tile, recurrence, several_passes, reducing_passes, sums_columns,
                 adds_tiles):
        if asks(kernel, cfg):
            return asks.__name__
    return "turned" if _turns(kernel) else ""


def _turns(kernel: Kernel) -> bool:
    """Whether tiles are read along one axis of memory and written along another."""
    accesses = [op.operands[0] for op in kernel.ops() if op.name in ("load", "store")
                and len(shape(op.operands[0].type)) > 1]
    if any(op.name == "trans" for op in kernel.ops()):
        return True
    infos = axis_info.analyze(kernel) if accesses else {}
    runs = [info.contiguity for pointer in accesses if (info := infos.get(pointer)) is not None]
    return len({run.index(max(run)) - len(run) for run in runs if max(run) > 1}) > 1


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
    inside, seen = set(block.ops), set[Op]()
    stack = [dot.operands[0]]
    while stack:
        op = stack.pop().op
        if op is not None and op in inside and op not in seen:
            if op.name == "dot":
                return "registers"
            seen.add(op)
            stack += () if op.name == "phi" else op.inputs()
    return "brought" if _source(dot.operands[0]) in inside else "fixed"


def _again(dot: Op, dots: Sequence[Op]) -> bool:
    """Whether a dot's right operand is one of a dot before it."""
    source = _source(dot.operands[1])
    before = dots[: dots.index(dot)]
    return source is not None and any(
        _source(v) is source for one in before for v in one.operands[:2])


def _source(value: Value) -> Op | None:
    """What the value is, but for its order and its type."""
    while value.op is not None and value.op.name in ("trans", "fpcast", "reshape"):
        value = value.op.operands[0]
    return value.op


def _scaled(dot: Op, readers: Mapping[Value, list[Op]]) -> bool:
    """Whether a dot from zero is multiplied before it is added."""
    start = dot.operands[2].op
    return start is not None and start.name == "constant" and any(
        op.name == "fmul" for op in readers.get(dot.result, ()))


def _raw_bytes(kernel: Kernel, cfg: Cfg, dot: Op) -> tuple[float, float]:
    """For operands that a loop computes from loads of its own: their bytes in memory by elements
    of the operand.  What a load repeats counts once."""
    loop = cfg.innermost.get(cfg.block_of[dot])
    inside = {op for block in loop.blocks for op in block.ops} if loop is not None else set()
    made = [None if is_plain(v, True) else computed_operand(v, inside)
            for v in dot.operands[:2]]
    if not any(made):
        return 0.0, 0.0
    runs = Runs(axis_info.analyze(kernel), known_signs(kernel, cfg, kernel.entry),
                lambda v: v in kernel.parameters)
    found = []
    for operand, one in zip(dot.operands, made):
        sizes = [prod(shape(load.result.type)) * scalar(pointee(load.operands[0].type)).bytes
                 / (runs.of_load(load) or (0, 1))[1] for load in one.raw] if one else []
        found.append(sum(sizes) / prod(shape(operand.type)))
    return found[0], found[1]


def _carried(kernel: Kernel, dot: Op, loops: Sequence[Loop]) -> Iterator[Feature]:
    """The tiles of numbers, of the shape of a dot's result, that loops around it carry beside one
    of its type: its own sum.  Of outer loops those count that something in the loop computes with;
    others only go into an inner loop, or out."""
    readers = uses(kernel)
    types = []
    for depth, loop in enumerate(sorted(loops, key=lambda loop: -loop.depth)):
        inside = {op for block in loop.blocks for op in block.ops}
        types += [phi.result.type for phi in loop.header.phis()
                  if shape(phi.result.type) == shape(dot.result.type) and (
                      not depth or any(op.name != "phi" and op in inside
                                       for op in readers.get(phi.result, ())))]
    if dot.result.type in types:
        types.remove(dot.result.type)
    for t in types:
        e = element(t)
        if isinstance(e, Scalar) and e.bits > 1:
            yield Feature("held", shape(t), e.bytes)


def _predictor(space: Mapping[str, Sequence[int]], names: list[str], lower: Lower
               ) -> Callable[[Binding], Profile] | None:
    """A function from a combination to its profile, from n + 1 lowered ones; None if there is no
    such rule."""
    middle = {name: space[name][(len(space[name]) - 1) // 2] for name in names}
    base = _profile(lower, middle)
    if base is None:
        return None
    # For each feature and axis, the tunables that it is a multiple of.
    factors: list[list[set[str]]] = [[set() for _ in f.extents] for f in base]
    for name in names:
        other = next((v for v in space[name] if v != middle[name]), None)
        if other is None:
            continue
        varied = _profile(lower, {**middle, name: other})
        if varied is None or [_same(f) for f in varied] != [_same(f) for f in base]:
            return None
        for i, (feature, change) in enumerate(zip(base, varied, strict=True)):
            for axis, (old, new) in enumerate(zip(feature.extents, change.extents, strict=True)):
                if new * middle[name] == old * other:
                    factors[i][axis].add(name)
                elif new != old:
                    return None

    def predict(binding: Binding) -> Profile:
        found = []
        for feature, axes in zip(base, factors, strict=True):
            extents = []
            for extent, multiple in zip(feature.extents, axes, strict=True):
                for name in sorted(multiple):
                    extent = extent * binding[name] // middle[name]
                extents.append(extent)
            found.append(replace(feature, extents=tuple(extents)))
        return tuple(found)

    return predict


def _same(feature: Feature) -> Feature:
    """All but the extents."""
    return replace(feature, extents=(0,) * len(feature.extents))


# --- cost -----------------------------------------------------------------------------------------
# Numbers that GPUs from sm_60 on share, or nearly so.
_WARPS_THAT_HIDE_LATENCY = 12  # of independent multiply-adds, eight accumulators and more each
_L2_BYTES_PER_MAC = 0.16  # that the second-level cache delivers while one multiply-add runs
_STEP = 60.0  # multiply-adds that a barrier and the addresses of one k step cost a thread
_TURN = 4.0  # multiply-adds that an element costs that a thread turns on its way to shared memory
_OTHERS = 50  # registers of a thread for addresses, masks and fragments
_BESIDE_OPERANDS = 24  # where a thread computes operands of wgmma: all but sums, words and operands
_TENSOR_GAIN = 16  # how much faster tensor cores are than CUDA cores
_TENSOR_STEP = {True: 8e5, False: 1e5}  # multiply-adds that a k step of wgmma, of mma costs
# Registers of sums and two results, with which scaled sums overlap (`overlap_sums`), and what 8-bit
# products lose that do not: 4096 in cube, 1020 and 1070 TFLOP/s on an H200 (bench/ways).
_OVERLAPPED, _ALONE = 200, 0.5
_STREAM_ELEMENTS = 1024  # per instance of a kernel without dots: 128 threads, 8 elements each
_STREAM_EACH, _STREAM_MOST = 8, 8192  # elements of a thread, of an instance of few rows
_PASSES = 2048  # of several passes over rows, and of sums over columns: 256 threads
_WAITING = 128  # of a loop that all elements of a tile end: one warp
_RECURRENCE = 512  # of one whose iterations wait for each other: one warp, too
_WANTED = {"several_passes": _PASSES, "reducing_passes": _PASSES, "sums_columns": _PASSES,
           "ends_by_tile": _WAITING, "recurrence": _RECURRENCE}
_FLAT_BYTES, _FLAT_ASPECT = 4096, 8  # of a tile of two axes, both contiguous along the last
_ADDED_BYTES = 1024  # of one that a loop adds others to: what lies beyond an edge costs as much
_SQUARE_BYTES = 16 * 1024  # of a tile of two axes that is only moved: long pieces of rows both ways


def cost(profile: Profile, target: Target, extents: Sequence[int] = ()) -> float:
    """Relative time of the kernels with these features, in a launch of a range of `extents` if
    that is known; infinite for tiles without elements, which a value of 0 predicts."""
    if any(extent < 1 for feature in profile for extent in feature.extents):
        return inf
    dots = joined([f for f in profile if f.kind == "dot"])
    if not dots:
        return _stream_cost(profile, target, extents)
    found = [_instructions(dot, target) for dot in dots]
    if len(dots) == 1:
        held = 0 if dots[0].beside else sum(prod(f.extents) * max(f.bytes, 4) // 4
                                            for f in profile if f.kind == "held")
        return _product_cost(dots[0], target, held)
    if all(rows and rows[0].kind == WGMMA for rows in found):
        return _mean([[dot for dot in dots if dot.place == place]
                      for place in dict.fromkeys(dot.place for dot in dots)], target)
    return max(_product_cost(dot, target) for dot in dots)


def _mean(chains: list[list[Feature]], target: Target) -> float:
    """Of the chains of products of several loops, which are taken to be as long: each takes time
    for each of its products.  If one does not fit into registers, what that one costs."""
    costs = [_chain_cost(chain, target) for chain in chains]
    if max(costs) >= 1e6:
        return max(costs)
    return sum(cost * len(chain) for cost, chain in zip(costs, chains, strict=True)) / sum(
        map(len, chains))


def _chain_cost(dots: list[Feature], target: Target) -> float:
    """Of the products on wgmma of one block."""
    found = max(_product_cost(dot, target) for dot in dots)
    if len(dots) == 1:
        return found
    products = [Chained(dot.extents[-3], dot.extents[-2], dot.extents[-1], dot.left, dot.again)
                for dot in dots]
    if crowded(products, dots[0].bytes):
        return 1e6 + held(products, dots[0].bytes)  # spills: any other candidate is better
    return found / busy(products, dots[0].bytes, target)


def joined(dots: list[Feature]) -> list[Feature]:
    """Dots of one depth that run beside each other as one: they fill the registers together, and
    those of one operand are as much work for its bytes as one of all their columns."""
    if not dots or not all(dot.beside for dot in dots) or len(
            {(dot.extents[:-2], dot.extents[-1], dot.bytes, dot.element) for dot in dots}) != 1:
        return dots
    *rows, _, depth = dots[0].extents
    return [replace(dots[0], extents=(*rows, sum(dot.extents[-2] for dot in dots), depth))]


def stage_bytes(dot: Feature) -> int:
    """What one step brings of both operands, as memory has them."""
    *batch, m, n, k = dot.extents
    left, right = (raw or dot.bytes for raw in dot.raw)
    return round(prod(batch) * k * (m * left + n * right))


def _instructions(dot: Feature, target: Target) -> list[MatrixInstruction]:
    """Those of the target that can be the dot's, the best first."""
    return [row for row in INSTRUCTIONS if len(dot.extents) == 3 and row.feature in target.features
            and str(row.operand) == dot.element and (
                all(dot.inner) or row.kind != WGMMA or row.transposes)]


def _product_cost(dot: Feature, target: Target, carried: int = 0) -> float:
    """Of a dot on tensor cores, where it can be, or on CUDA cores; 1 is the peak of the best.

    `carried` is the registers, of all threads, that hold other tiles meanwhile.
    """
    rows = _instructions(dot, target)
    if not rows:
        return _dot_cost(dot, target, carried)
    m, n, k = dot.extents
    for row in rows:
        if m >= row.rows and n >= row.columns and k >= row.depth:
            slower = 2 if row.kind != WGMMA and rows[0].kind == WGMMA else 1
            return slower * _tensor_cost(dot, row, target, carried)
    return _TENSOR_GAIN * _dot_cost(dot, target, carried)


def _tensor_cost(dot: Feature, row: MatrixInstruction, target: Target, carried: int) -> float:
    """Time per multiply-add of a dot on tensor cores: 1 is the peak.

    What a large tile saves is bytes of its operands, from the second-level cache and from shared
    memory; what limits it is the registers of its accumulators, and stages of operands enough to
    hide the latency of memory.
    """
    m, n, k = dot.extents
    wide = row.kind == WGMMA
    threads = 128 * min(4, max(m // 64, m * n // (128 * MATRIX_ACCUMULATORS))) if wide else max(
        128, m * n // MATRIX_ACCUMULATORS)
    held = m * n / threads
    stage = stage_bytes(dot)
    results = min(m * n * 2, 2 * 16 * 1024) if wide else 0
    blocks = 1 if wide else 2
    room = (target.shared_per_multiprocessor // blocks - target.shared_reserved - results)
    stages = min(room, target.shared_per_block - 1024 - results) // stage
    needed = (4 if wide else 3) if "async_copy" in target.features else 2
    registers = target.registers_per_thread - _OTHERS if carried else MATRIX_ACCUMULATORS
    if (held > MATRIX_ACCUMULATORS or held + carried / threads > registers or stages < 2
            or threads > target.threads_per_block):
        return 1e6 + held + stage  # spills, or does not run: any other candidate is better
    # What threads compute for wgmma: words that they read, and two sets of operands, of which one
    # is in flight.
    words = sum(size * k * dot.bytes / 4 / threads for size, raw in zip((m, n), dot.raw) if raw)
    if wide and held + 2 * words > target.registers_per_thread - _BESIDE_OPERANDS:
        return 1e6 + held + stage
    late = 1.2 if wide and words and held + 3 * words > IN_FLIGHT_REGISTERS else 1.0
    # Rows of a stage are whole lines of 128 bytes of shared memory where wgmma reads them.
    # With mma.sync longer rows only need more registers on their way there.
    odd = (k * dot.bytes < 128) * 2.0 if wide else (k * dot.bytes > 64) * 1.3
    resident = 1.3 if not wide and threads > 128 else 1.0
    step = _TENSOR_STEP[wide] * 2 / dot.bytes / (m * n * k)
    traffic = 20 * (1 / m + 1 / n) + (0.02 if m > n else 0.0)
    if wide and dot.scaled and dot.bytes == 1 and 3 * held > _OVERLAPPED:
        traffic += _ALONE
    few = 1 + 0.3 * max(0, needed - stages)
    return (1 + step + traffic) * max(odd, 1.0) * resident * few * late


def _dot_cost(dot: Feature, target: Target, carried: int) -> float:
    """Time per multiply-add of a dot in a loop over k, staged in shared memory: 1 is the peak.

    Accumulators live in registers, `ACCUMULATORS` in a thread if the tile is large enough, as a
    square micro-tile: a thread reads m + n words of shared memory for m x n multiply-adds.  An
    operand that comes with K contiguous is turned, and had better be the one with less to turn.
    """
    *batch, m, n, k = dot.extents
    results = prod(batch) * m * n
    warps = max(1, min(LEGAL[-1], results // ACCUMULATORS // 32))
    threads = 32 * (1 << (warps.bit_length() - 1))
    held = max(results / threads, 1.0)
    side = sqrt(held)
    words = max(dot.bytes / 4, 1.0)
    staged = (m * k + k * n) * prod(batch)
    # Accumulators, two steps of operands, the next tile on its way, addresses and counters.
    registers = words * (held + 4 * side + staged / threads) + int(carried / threads) + 40
    registers = -(-registers // 8) * 8
    shared = 2 * staged * dot.bytes
    blocks = min(target.registers_per_multiprocessor // (threads * registers),
                 target.shared_per_multiprocessor // (shared + target.shared_reserved),
                 target.threads_per_multiprocessor // threads, target.blocks_per_multiprocessor)
    if registers > target.registers_per_thread or shared > target.static_shared or blocks < 1:
        return 1e6 + registers + shared  # spills, or does not run: any other candidate is better
    resident = blocks * threads / 32
    hidden = min(1.0, resident / _WARPS_THAT_HIDE_LATENCY)
    idle = min(1.0, results / threads / 4)  # threads that hold copies do nothing new
    turn = _TURN * words * (dot.inner[0] / n + dot.inner[1] / m)
    compute = (1 + 0.5 * 2 / side + _STEP / (held * k) + turn) / idle
    traffic = (1 / m + 1 / n) * dot.bytes / _L2_BYTES_PER_MAC * words
    # Loads overlap with arithmetic until they take longer; until then they still disturb it.
    return max(compute / (0.5 + 0.5 * hidden) + 0.1 * traffic, traffic)


def _stream_cost(profile: Profile, target: Target, range_: Sequence[int]) -> float:
    """The sum over kernels of `_row_cost`."""
    starts = [i for i, feature in enumerate(profile) if feature.kind == "kernel"]
    parts = [profile[i:j] for i, j in zip(starts, [*starts[1:], len(profile)], strict=True)]
    return sum(_row_cost(part[1:], part[0].form, target, range_) for part in parts)


def _row_cost(profile: Profile, form: str, target: Target, range_: Sequence[int]) -> float:
    """How far an instance's tiles are from what one block of threads streams well.

    A range that is known says how many instances there are: few large ones leave multiprocessors
    without work.  Rows of which there are few want many threads each, and so do rows of which a
    program makes several passes, so that few of them are in the caches.

    Elements reduced along an axis are better in that axis: fewer partial results.  Tiles of two
    axes are better square where either side is the contiguous one in memory.
    """
    largest = max((prod(f.extents) for f in profile), default=1)
    reductions = [f for f in profile if f.kind == "reduce"]
    flat = [f for f in profile if prod(f.extents) == largest and len(f.extents) > 1]
    if flat and (not reductions or form == "ends_by_tile"):
        height, width = flat[0].extents[-2:]
        if form == "turned":
            size, aspect = _SQUARE_BYTES / flat[0].bytes, 1
        elif form == "ends_by_tile":
            size, aspect = _WAITING, _FLAT_ASPECT
        else:
            size = (_ADDED_BYTES if form == "adds_tiles" else _FLAT_BYTES) / flat[0].bytes
            aspect = _FLAT_ASPECT
        return abs(log2(max(largest, 1) / size)) + 0.1 * abs(log2(width / height / aspect))
    rows = [prod(e for axis, e in enumerate(feature.extents) if axis not in feature.axes)
            for feature in reductions]
    wanted = float(_WANTED.get(form, _STREAM_ELEMENTS))
    if range_ and reductions:
        each = target.multiprocessors * target.threads_per_multiprocessor * _STREAM_EACH
        wanted = min(max(each / (prod(range_) / max(rows)), wanted), _STREAM_MOST)
    cost = abs(log2(max(largest, 1) / wanted))
    for kept in rows:
        cost += 0.3 * log2(kept) / len(reductions)
    return cost
