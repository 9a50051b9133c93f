"""A few combinations of tunables that are good at every size, by the cost model alone.

Every combination that the model ranks gets a `Cost` (`tritonc.variants.choice`): a closed form of
the launch's range and of one argument, the length of the loop around the kernel's product.  All are
priced at a grid of sizes, and the fewest that are nearly the best everywhere are taken, one after
the other, each the one that serves most of the sizes left (greedy cover).

The model proper (`model.cost`) says what a multiply-add costs in a full machine.  What it does not
say, a launch that fills only some multiprocessors, is added here: how long a step takes that waits
for memory, and how many blocks run at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tritonc.backend.target.matrix import INSTRUCTIONS, WGMMA
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Scalar
from tritonc.source import CompileError
from tritonc.tune.model import Binding, Lower, Profile, Ranked, cost, features, ranked
from tritonc.variants import choice
from tritonc.variants.choice import Cost

WITHIN = 0.05  # a size is served by what is at most so much slower than the best
_MOST_PRICED = 512  # combinations,
_MOST_LISTED = 10_000  # of so many
# The sizes that a portfolio is made for: along the first two axes of the range, along further ones
# (batches), and of the loop.
_EXTENTS = tuple(1 << e for e in range(4, 15))
_BATCHES = (1, 8, 64)
_LENGTHS = tuple(1 << e for e in range(5, 15))

# Clock cycles, and bytes and multiply-adds in one of a multiprocessor.
_LATENCY = 800  # of a load from memory that nothing hides, with the barrier after it
_START = 1500  # before the first step and after the last
_BYTES = 32  # that a multiprocessor brings from the second-level cache, in practice
_CORES = 128  # multiply-adds of f32
_TENSOR = {True: 2048, False: 1024}  # of 16-bit numbers, with wgmma or without
_STAGES = 4
_UNIT = 4  # of a cycle


@dataclass(frozen=True)
class Form:
    """What of a launch the work depends on.  `tiles` and `depth`: for a combination, how it cuts
    the range and the loop; `length` is the parameter that says how long the loop is."""

    axes: int
    length: int | None
    tiles: Mapping[tuple[int, ...], tuple[int, ...]]
    depths: Mapping[tuple[int, ...], int]


@dataclass(frozen=True)
class Member:
    """A combination of a portfolio."""

    binding: Binding
    cost: Cost


@dataclass(frozen=True)
class Portfolio:
    """`general` is the cost of the combination that was given, `length` the parameter's number;
    `worst` how many times as long as the best a size of the grid may take; `served` the share of
    sizes that take at most `WITHIN` longer."""

    general: Cost
    members: tuple[Member, ...]
    length: int | None
    served: float
    worst: float


def portfolio(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
              general: Mapping[str, int], most: int) -> Portfolio | None:
    """The combinations of `space` to have beside `general`; None where the model knows no cost:
    the kernel has no product in a loop, or its extents do not follow from its tunables.

    `lower` makes a module with one kernel for a combination, and takes values outside of `space`
    from elsewhere.
    """
    names = [name for name in space if space[name]]
    base = {name: general[name] for name in names}
    form = _form({name: space[name] for name in names}, lower, base)
    if form is None:
        return None
    rows = [row for row in ranked(space, lower, target) if row.cost < 1e6 and row.profile]
    rows = rows[:_MOST_PRICED]
    if all(row.binding != base for row in rows):
        rows += [row for row in ranked({n: [v] for n, v in base.items()}, lower, target)
                 if row.profile]
    known: list[tuple[Binding, Cost, tuple[int, ...]]] = []
    for row in rows:
        key = tuple(row.binding[name] for name in names)
        assert row.profile is not None
        known.append((row.binding, formula(row.profile, form.depths[key], target),
                      form.tiles[key]))
    first = next((i for i, (binding, *_) in enumerate(known) if binding == base), None)
    if first is None:
        return None
    times = _times(known, form)
    best = times.min(axis=0)
    chosen, served, worst = cover(times / best, first, most)
    return Portfolio(known[first][1], tuple(Member(dict(known[i][0]), known[i][1])
                                            for i in chosen), form.length, served, worst)


def best_at(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
            extents: Sequence[int], arguments: Mapping[str, int]) -> Binding | None:
    """The combination that takes the least time at one range, `arguments` being the scalars that
    are known of a launch; None where the model knows no cost."""
    rows = [row for row in ranked(space, lower, target) if row.cost < 1e6 and row.profile]
    times = times_at(space, lower, target, rows[:_MOST_PRICED], extents, arguments)
    if times is None:
        return None
    return dict(rows[min(range(len(times)), key=lambda i: (times[i], rows[i].cost))].binding)


def times_at(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
             rows: Sequence[Ranked], extents: Sequence[int], arguments: Mapping[str, int]
             ) -> list[int] | None:
    """The times of combinations at one range, to compare with each other; None where the model
    knows no cost."""
    names = [name for name in space if space[name]]
    if not rows:
        return None
    form = _form({name: space[name] for name in names}, lower, rows[0].binding)
    if form is None:
        return None
    length = 1
    if form.length is not None:
        (kernel,) = lower(rows[0].binding).kernels
        length = arguments.get(kernel.parameters[form.length].name, 0)
        if length < 1:
            return None

    def taken(row: Ranked) -> int:
        key = tuple(row.binding[name] for name in names)
        assert row.profile is not None
        found = formula(row.profile, form.depths[key], target)
        return choice.time(found, form.tiles[key], extents, length)

    return [taken(row) for row in rows]


def priced(bindings: Sequence[Mapping[str, int]], lower: Lower, target: Target
           ) -> tuple[int | None, list[Cost]] | None:
    """The number of the parameter that says how long the loop of a product is, and the cost of
    each combination; None where the model knows no cost."""
    costs = []
    lengths = set()
    for binding in bindings:
        try:
            (kernel,) = lower(binding).kernels
        except CompileError:
            return None
        if not any(op.name == "dot" for op in kernel.ops()):
            return None
        length, depth = loop_length(kernel)
        lengths.add(length)
        costs.append(formula(tuple(features(kernel)), depth, target))
    return (lengths.pop(), costs) if len(lengths) == 1 else None


def cover(ratios: np.ndarray, first: int, most: int, within: float = WITHIN
          ) -> tuple[list[int], float, float]:
    """Rows to add to row `first`, so that each column has a ratio of at most 1 + `within` in some
    row, at most `most` rows; the share of columns that have, and the worst of the ratios.

    Each time the row that serves most of the columns left, of equal ones the one of the least sum.

    >>> cover(np.array([[1, 1.2, 2], [1.04, 1, 2], [3, 3, 1]]), 0, 2)
    ([2, 1], 1.0, 1.0)
    """
    now = ratios[first].copy()
    chosen: list[int] = []
    while len(chosen) < most and (now > 1 + within).any():
        left = np.minimum(ratios, now)
        unserved = (left > 1 + within).sum(axis=1)
        take = int(np.lexsort((left.sum(axis=1).round(6), unserved))[0])
        if (left[take] == now).all():
            break
        chosen.append(take)
        now = left[take]
    # What a later one made superfluous goes.
    for place in [*chosen]:
        rest = [i for i in chosen if i != place]
        without = ratios[[first, *rest]].min(axis=0)
        if (without <= np.maximum(now, 1 + within)).all():
            chosen = rest
    final = ratios[[first, *chosen]].min(axis=0)
    return chosen, float((final <= 1 + within).mean()), round(float(final.max()), 6)


def _times(known: Sequence[tuple[Binding, Cost, tuple[int, ...]]], form: Form) -> np.ndarray:
    """The time of each combination at each size of the grid, as `choice.time` has it."""
    axes = [_EXTENTS if axis < 2 else _BATCHES for axis in range(form.axes)]
    lengths = _LENGTHS if form.length is not None else (1,)
    sizes = np.array([*product(*axes, lengths)], np.int64)
    found = []
    for _, c, tile in known:
        tiles = np.ones(len(sizes), np.int64)
        for axis, part in enumerate(tile):
            tiles = np.minimum(tiles * -(-sizes[:, axis] // part), choice.MOST_TILES)
        steps = np.minimum(-(-sizes[:, -1] // c.depth), choice.MOST_STEPS)
        found.append(np.maximum(-(-tiles // c.processors) * (c.start + steps * c.busy),
                                -(-tiles // c.resident) * (c.start + steps * c.wait)))
    return np.array(found, np.float64)


def formula(profile: Profile, depth: int, target: Target) -> Cost:
    """The cost of a combination whose kernel has these features, and whose loop takes `depth` of
    its length in a step."""
    dots = [f for f in profile if f.kind == "dot"]
    busy = wait = 0.0
    stage = accumulators = results = 0
    wide = False
    relative = cost(profile, target)
    for dot in dots:
        *batch, m, n, k = dot.extents
        rows = [row for row in INSTRUCTIONS if row.feature in target.features
                and str(row.operand) == dot.element]
        hopper = any(row.kind == WGMMA for row in rows)
        wide |= hopper and m >= 64
        rate = _TENSOR[hopper] * 2 / dot.bytes if rows else _CORES * 4 / max(dot.bytes, 4)
        loaded = prod(batch) * (m + n) * k * dot.bytes
        busy += max(prod(dot.extents) * relative / rate, loaded / _BYTES)
        stage += loaded
        accumulators = max(accumulators, prod(batch) * m * n)
        results += prod(batch) * m * n
    threads = max(32, min(512 if wide else 256, accumulators // (64 if dots else 8)))
    blocks = max(1, min(
        target.registers_per_multiprocessor // max(1, results + 50 * threads),
        target.shared_per_multiprocessor // (2 * stage + target.shared_reserved + 1),
        target.threads_per_multiprocessor // threads, target.blocks_per_multiprocessor))
    ahead = 1
    if "async_copy" in target.features:
        room = target.shared_per_multiprocessor // blocks
        ahead = max(1, min(_STAGES, room // max(1, stage)) - 1)
    # A block alone uses its share of the instructions' rate: what several hide, it waits for.
    wait = max(_LATENCY / ahead, stage / _BYTES, busy)
    start = _START + accumulators * 4 / _BYTES
    return Cost(target.multiprocessors, target.multiprocessors * blocks, max(depth, 1),
                min(round(_UNIT * start), 1 << 20), _cycles(busy), _cycles(wait))


def _cycles(number: float) -> int:
    return max(1, min(round(min(number, 1e9) * _UNIT), choice.MOST_CYCLES))


# --- what of a launch the work depends on ---------------------------------------------------------


def _form(space: Mapping[str, Sequence[int]], lower: Lower, base: Binding) -> Form | None:
    """How each combination cuts the range and the loop, from n + 1 lowered ones, as the model
    predicts extents; None if the kernel has no product, or there is no such rule."""
    here = _cuts(lower, base)
    if here is None or prod(map(len, space.values())) > _MOST_LISTED:
        return None
    tile, (length, depth) = here
    cuts = [*tile, depth]
    factors: list[set[str]] = [set() for _ in cuts]
    for name, values in space.items():
        other = next((v for v in values if v != base[name]), None)
        if other is None:
            continue
        there = _cuts(lower, {**base, name: other})
        if there is None or there[1][0] != length or len(there[0]) != len(tile):
            return None
        for place, (old, new) in enumerate(zip(cuts, [*there[0], there[1][1]], strict=True)):
            if new * base[name] == old * other:
                factors[place].add(name)
            elif new != old:
                return None
    tiles, depths = {}, {}
    for values in product(*space.values()):
        binding = dict(zip(space, values, strict=True))
        found = []
        for cut, names in zip(cuts, factors, strict=True):
            for name in sorted(names):
                cut = cut * binding[name] // base[name]
            found.append(max(cut, 1))
        tiles[values], depths[values] = tuple(found[:-1]), found[-1]
    return Form(len(tile), length, tiles, depths)


def _cuts(lower: Lower, binding: Mapping[str, int]
          ) -> tuple[tuple[int, ...], tuple[int | None, int]] | None:
    try:
        (kernel,) = lower(binding).kernels
    except CompileError:
        return None
    if not any(op.name == "dot" for op in kernel.ops()):
        return None
    tile = tuple(kernel.tile.get(axis, 1) for axis in range(max(kernel.tile, default=-1) + 1))
    return tile, loop_length(kernel)


def loop_length(kernel: Kernel) -> tuple[int | None, int]:
    """The parameter by which the innermost loop around a product is as long as it is, and how
    much of that a step takes; (None, 1) where there is none.

    A counter runs in steps of a constant, and a parameter is where it begins, or what it is
    compared with, perhaps divided: `k = K; k > 0; k -= TK`, `k < (K + TK - 1) / TK; k++`.
    """
    cfg = Cfg(kernel)
    places = {value: i for i, value in enumerate(kernel.parameters)}
    for loop in sorted(cfg.loops, key=lambda loop: -loop.depth):
        if not any(op.name == "dot" for block in loop.blocks for op in block.ops):
            continue
        for phi in loop.header.phis():
            if not isinstance(phi.result.type, Scalar) or not phi.result.type.is_int:
                continue
            step = _step(phi, loop)
            if not step:
                continue
            starts = [v for v, block in zip(phi.operands, phi.blocks, strict=True)
                      if block not in loop]
            counters = {phi.result, *(v for v in phi.operands if v not in starts)}
            bounds = [v for block in loop.blocks for op in block.ops if op.name == "icmp"
                      and isinstance(op.operands[0].type, Scalar)
                      and counters & {*op.operands} for v in op.operands if v not in counters]
            for value in (*starts, *bounds):
                place, divisor = _parameter(value, places)
                if place is not None:
                    return place, abs(step) * divisor
    return None, 1


def _step(phi: Op, loop: Loop) -> int:
    """The constant that a counter grows by in an iteration; 0 if there is none."""
    for value, block in zip(phi.operands, phi.blocks, strict=True):
        op = value.op
        if block in loop and op is not None and op.name in ("add", "sub") and (
                phi.result in op.operands):
            other = op.operands[1] if op.operands[0] is phi.result else op.operands[0]
            return constant(other) or 0
    return 0


_THROUGH = ("sext", "zext", "truncate")
_BOUNDS = ("smin", "umin", "smax", "umax")  # `min(S, last)` is nearly S


def _parameter(value: Value, places: Mapping[Value, int], depth: int = 16
               ) -> tuple[int | None, int]:
    """The parameter that a number is, or nearly so, and by how much it is divided."""
    if value in places:
        return (places[value] if isinstance(value.type, Scalar) else None), 1
    op = value.op
    if op is None or depth == 0:
        return None, 1
    if op.name in _BOUNDS:
        found = [_parameter(operand, places, depth - 1) for operand in op.operands]
        return next((row for row in found if row[0] is not None), (None, 1))
    other = constant(op.operands[1]) if len(op.operands) == 2 else None
    divisor = 1
    if op.name in ("sdiv", "udiv") and other and other > 0:
        divisor = other
    elif op.name in ("ashr", "lshr") and other is not None and 0 <= other < 32:
        divisor = 1 << other
    elif op.name not in _THROUGH and not (op.name in ("add", "sub") and other is not None):
        return None, 1
    place, inner = _parameter(op.operands[0], places, depth - 1)
    return place, divisor * inner


def constant(value: Value) -> int | None:
    """The number that a constant is."""
    op = value.op
    if op is not None and op.name == "constant" and isinstance(op.attributes["value"], int):
        return int(op.attributes["value"])
    return None
