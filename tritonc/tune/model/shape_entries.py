"""Entries for launches whose sizes a tile does not suit: images and rows that leave most of it
empty, few columns that are summed, long rows of which there may be few.

Each is a variant with facts of parameters; the launch takes the first whose facts hold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod

from tritonc.analysis import row_loops
from tritonc.analysis.column_loops import sums_columns
from tritonc.analysis.counters import counter_of, iterations
from tritonc.analysis.shared_data import asks_programs
from tritonc.analysis.transposes import transposes
from tritonc.analysis.values import origin
from tritonc.backend.dots.together import chained
from tritonc.backend.launch.choose_warps import LEGAL, streaming_threads, weight
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Module
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, scalar, shape
from tritonc.tune.model.choose import ranked
from tritonc.tune.model.cluster_times import LONG, cluster_sizes
from tritonc.tune.model.copying_entries import STAGES
from tritonc.tune.model.loops import factors, rows_around
from tritonc.variants.variant import Binding, Fact, Variant, between

# Sums of columns: blocks of a cluster that share the rows, bytes of a piece of columns, the most
# pieces for each multiprocessor.  Gradients of weights on an H200, 8 warps: 16384 x 768 halves 65
# us by 64 x 32 alone, 20 by 32 x 32 in clusters of eight; 21389 x 256 217 and 19; 26200 x 1697 276,
# 68 by 16 x 64; 10218 x 4928 128, 69 in clusters of two; 2578 x 14528 71, 43 without.
_PIECES = ((8, 64, 0.25), (8, 128, 0.25), (4, 128, 0.5), (2, 128, 1.0), (1, 128, None))
# Of products that have few programs: (x u) v of 8192 x 4096, 64 columns between, by 128 rows 70.7
# us, by 64 50.6; of 2048 x 2048 36, by 32 rows, which are none of wgmma, 55 (H200).
_LEAST_ROWS = 64
_SUMMED, _SUMMING_WARPS = 1024, 8  # elements of a tile
# Rows that a tile of a constant length holds: elements of a program, and warps.  Softmax of 512 of
# 1024 halves under a mask 66 us by one row and warp, 51 so; of 256 85 and 37.
_SHORT, _SHORT_WARPS = 1024, 2
# Of longer ones, which a block cannot hold, that a block of a cluster holds, and its warps.  Rows
# of halves to bytes by a tile of 65536 on an H200: 259 x 44053 68.7 us by one block, 35.1 by four
# of 16 warps, 25.1 by eight of 8; 2048 x 65536 209, 181 and 157.
_PART, _PART_WARPS = 8192, 8
# Sides of tiles that are halved, twice, where images and heads are no longer: a depthwise
# convolution of 58560 images of 14 x 14 717 us by 8 x 64, 188 by 8 x 16.
_LEAST_SIDE = 16
# Passes over rows, or scans, that are longer than a tile: its elements, and warps.  Group norm of
# 80 groups of 401408 halves 439 us by 1024 and two warps, 156 so; running sums of 30 rows of 180544
# floats 137 and 55, of 3736 13.7 and 12.9.
# Where two warps are what one would choose: by eight for four others were slower by 5 to 15 %.
_LONG, _LONG_WARPS, _LONG_LEAST, _LONG_FEWER = 4096, 8, 3072, 64
# Launches that begin no more warps than so many for each multiprocessor: a part of a tile, or so
# many times its warps.  More warps where a tile ends its loop, since programs take unequally long.
# H200: n_body of 2000, 5244 and 12000 28.2 us to 16.5, 93.8 to 41.1, 143 to 112; selective scans,
# 132 and 621 programs, 238 to 153, 1013 to 654; Mandelbrot, 2227 x 749 120 to 58; 1080 x 1920 277
# to 234; by eight times the warps, which no price tells from four, n_body of 5244 took 54 and 30000
# paths of 252 random steps 69 for 292.  Of rows that a loop stores, or reads again, and longer
# tiles: 151 x 30522 floats (quantisation's gradient) 44.9 us to 23.9, 40 x 151936 138 to 44, losses
# of 150 x 50257 48.8 to 22.3 and 60.5 to 37.8, a layer norm of 200 x 12288 21.1 to 11.8.
_FEWER, _FEW_WARPS, _UNEVEN_WARPS, _SHORT_LOOP = 4, 6, 128, 64
# Cycles of a multiprocessor that has such a warp for each of its schedulers: an iteration waits for
# that many operations one after the other, and for what warps of a block exchange in it.
_WAITING, _EXCHANGED, _GAIN = 1.5, 100, 1.3
# Sums of rows: blocks of a cluster, and of all clusters on each multiprocessor, and how often each
# takes a turn; elements of a thread, of which the assembler unrolls what adds up.  Four moments of
# 33 rows of 10^6 and 10^5 floats 487 us to 75 in clusters, 49 to 15, and 159 and 18 by twice the
# warps; of 100 rows of 20000 and 130 of 65536 12.3 to 5.8 and 32.6 to 13.6 by these (H200).
_SHARING, _SHARED, _TURNS, _ADDED = 8, 2, 4, 4

Space = Mapping[str, Sequence[int]]
Lower = Callable[[Mapping[str, int]], Kernel]


def shape_entries(kernel: Kernel, space: Space, lower: Lower, chosen: Binding, target: Target
                  ) -> Iterator[Variant]:
    """The entries beside the chosen one."""
    cfg = Cfg(kernel)
    if any(op.name == "dot" for op in kernel.ops()):
        yield from _few_products(kernel, space, lower, chosen, target)
        return
    if sums_columns(kernel, cfg):
        yield from _columns(kernel, space, lower, chosen, target)
        return
    reduces = any(op.name == "reduce" for block in cfg.order if block not in cfg.innermost
                  for op in block.ops)
    short = [*_short_rows(kernel, space, lower, chosen, target)] if reduces else []
    yield from short
    if not short and ((reduces and not cfg.loops) or not (
            row_loops.windows_of_bytes(kernel, cfg) or transposes(kernel))):
        yield from _sides(kernel, space, lower, chosen)
        yield from _long_rows(kernel, cfg, space, chosen)


def few_entries(kernel: Kernel, space: Space, lower: Lower, chosen: Binding, target: Target
                ) -> Iterator[Variant]:
    """Entries for launches whose programs leave most of the GPU idle, of loops that compute more
    than they load, or keep what they reduce for behind them: these have more threads and longer
    tiles, and share clusters if they only add up."""
    cfg, warps = Cfg(kernel), chosen.get("num_warps") or streaming_threads(kernel) // 32
    largest = max((r.type.size for op in kernel.ops() for r in op.results
                   if isinstance(r.type, Tile)), default=1)
    uneven = row_loops.ends_by_tile(kernel, cfg)
    if asks_programs(kernel, cfg) or any(op.name == "dot" for op in kernel.ops()) or all(
            iterations(loop, _SHORT_LOOP) is not None for loop in cfg.loops):
        return
    binding, rest = dict(chosen), _FEWER
    sides = {name for name in space for axis in kernel.tile
             if _tile(lower, chosen, space, name, axis)}
    # Longer iterations, in which warps of a block exchange something no more often.
    lines = next((name for name in space if name not in sides and len(space[name]) > 1), "")
    longer = {n // chosen[lines]: {lines: n} for n in space[lines]
              if n % chosen[lines] == 0 and n <= _FEWER * chosen[lines]} if lines else {1: {}}
    if any(op.name == "load" and 2 * prod(shape(op.result.type)) > largest
           for block in cfg.innermost for op in block.ops):
        if not sums_columns(kernel, cfg) and not any(
                op.name.startswith(("reduce", "scan")) for loop in cfg.loops for op in loop.ops()):
            adds, rows = all(map(row_loops.only_adds, cfg.loops)), rows_around(kernel)
            if adds:
                yield from _sharing(kernel, cfg, chosen, target)
            row = rows is not None and rows.depth == largest
            by = max(longer) if row else 1
            more = min(LEGAL[-1], by * largest // (32 * _ADDED))
            if more > warps and (adds or row):
                yield Variant({**chosen, **longer[by], "num_warps": more},
                              few=target.multiprocessors * _FEW_WARPS // warps)
        return
    while rest > 1 and (halved := [(binding[name], name) for name in sides
                                   if binding[name] // 2 in space[name]]):
        _, name = max(halved)
        binding[name], rest = binding[name] // 2, rest // 2
    least = max(1, warps * rest // _FEWER)
    times = {(by, n): _iteration(cfg, largest, largest * by * rest // _FEWER, n) / by
             for by in sorted(longer) for n in LEGAL if least <= n <= least * _FEWER}
    by, best = min(times, key=times.__getitem__)
    if times[by, best] * _GAIN < times[1, least]:
        binding |= {**longer[by], "num_warps": best}
    if binding != chosen:
        finer = uneven and "num_warps" not in binding
        yield Variant(binding, few=target.multiprocessors * (
            _UNEVEN_WARPS if finer else _FEW_WARPS) // warps)


def _sharing(kernel: Kernel, cfg: Cfg, chosen: Binding, target: Target) -> Iterator[Variant]:
    """Entries of clusters that share the loop of a sum of rows, for launches of few programs."""
    loops = [loop for loop in cfg.loops if loop.parent is None]
    counter = counter_of(loops[0]) if len(loops) == 1 else None
    limits = factors(counter.limit, kernel) if counter is not None else []
    if counter is None or len(limits) != 1 or len(cluster_sizes(kernel, target)) < 2:
        return
    yield Variant({**chosen, "cluster_k": _SHARING},
                  between(limits[0].name, _SHARING * _TURNS * abs(counter.step), None),
                  few=target.multiprocessors * _SHARED // _SHARING)


def _iteration(cfg: Cfg, largest: int, elements: int, warps: int) -> float:
    """The cycles of the longest iteration of a block that has a multiprocessor to itself: of loops
    over tiles of `largest` elements, if those have `elements`."""
    most = 0.0
    for block in cfg.innermost:
        ops = [op for op in block.ops if any(
            2 * prod(shape(v.type)) > largest for v in (*op.operands[:1], *op.results))]
        steps = sum(weight(op) for op in ops if op.info.elementwise)
        exchanges = sum(op.name.startswith(("reduce", "scan")) for op in ops) if warps > 1 else 0
        most = max(most, steps * max(elements / (32 * warps), _WAITING) + _EXCHANGED * exchanges)
    return most


def _few_products(kernel: Kernel, space: Space, lower: Lower, chosen: Binding, target: Target
                  ) -> Iterator[Variant]:
    """An entry for launches whose programs leave half of the multiprocessors idle, or more, of
    products for which no price says more, such as those of several loops: of half the rows."""
    if any(map(chained, kernel.blocks)) or asks_programs(kernel, Cfg(kernel)):
        return
    sides = [name for name in space for axis in kernel.tile
             if _tile(lower, chosen, space, name, axis)]
    halved = [(chosen[name], name) for name in sides if chosen[name] // 2 in space[name]
              and chosen[name] > _LEAST_ROWS]
    if halved:
        side, name = max(halved)
        binding = {**chosen, name: side // 2}
        if any(row.runs and row.binding == binding for row in ranked(
                space, lambda other: Module([lower(other)]), target)):
            yield Variant(binding, few=target.multiprocessors // 2)


def _columns(kernel: Kernel, space: Space, lower: Lower, chosen: Binding, target: Target
             ) -> Iterator[Variant]:
    limits = _limits(kernel, "get_global_range")
    names = [name for name in space if len(space[name]) > 1]
    if len(limits) != 1 or len(names) != 2 or len(cluster_sizes(kernel, target)) < 2:
        return
    (limit, (axis, _)), = limits.items()
    columns = next((name for name in names if _tile(lower, chosen, space, name, axis)), "")
    size = min(scalar(pointee(op.operands[0].type)).bytes for op in kernel.ops()
               if op.name == "load" and len(shape(op.result.type)) > 1)
    least, wave = 1, target.multiprocessors * chosen.get(columns, 0)
    if columns:  # a piece for each multiprocessor, and none that ends inside
        yield Variant({**chosen, "num_stages": STAGES}, (
            *between(limit, wave * 3 // 4, wave), Fact(limit, "%", chosen[columns])))
    for blocks, bytes_, pieces in _PIECES if columns else ():
        (rows,) = (name for name in names if name != columns)
        wide = _nearest(space[columns], bytes_ // size)
        most = None if pieces is None else round(pieces * target.multiprocessors) * wide
        if most is None or most >= least:
            copies = {} if most is None else {"num_stages": STAGES}
            yield Variant({columns: wide, rows: _nearest(space[rows], _SUMMED // wide), **copies,
                           "num_warps": _SUMMING_WARPS, "cluster_k": blocks},
                          between(limit, least, most))
            least = (most or 0) + 1


def _short_rows(kernel: Kernel, space: Space, lower: Lower, chosen: Binding, target: Target
                ) -> Iterator[Variant]:
    """Rows that a tile holds: by the length of it that does, also where loops add up taps; or if
    no tunable says that, and there are no loops, by how much of it they fill."""
    names = [name for name in space if len(space[name]) > 1]
    for limit, (_, extent) in _limits(kernel, "range").items():
        reduced = any(shape(op.operands[0].type)[axis] == extent
                      for op in kernel.ops() if op.name == "reduce" for axis in (
                          op.attributes.get("axes") or [op.attributes["axis"]]))
        if not reduced or len(names) > 2:
            continue
        warps, least = streaming_threads(kernel) // 32, 1
        long = [n for n in names if _says(lower, chosen, space, n, partial(_extent, limit))]
        for most in sorted(space[long[0]]) if long else ():  # of as many elements
            others = {name: _nearest(space[name], chosen[name] * chosen[long[0]] // most)
                      for name in names}
            yield Variant({**chosen, **others, long[0]: most}, between(limit, least, most))
            least = most + 1
        if long or len(names) > 1 or Cfg(kernel).loops:
            continue
        for most in [extent * part // 8 for part in ((1, 2, 4, 8) if names else (2, 4, 5))]:
            if most < least:
                continue  # of a tile of a few elements
            binding = {**chosen, "num_warps": max(1, warps // (extent // most))}
            if names:
                rows = _nearest(space[names[0]], _SHORT // most)
                binding |= {names[0]: rows, "num_warps": max(
                    1, min(_SHORT_WARPS, rows * most * _SHORT_WARPS // _SHORT))}
            yield Variant(binding, between(limit, least, most))
            least = most + 1
        blocks = min(LONG, (1 << (extent - 1).bit_length()) // _PART)
        if not names and blocks > 2 and "cluster" in target.features:
            yield Variant({**chosen, "cluster_k": blocks, "num_warps": _PART_WARPS},
                          between(limit, least, extent))


def _sides(kernel: Kernel, space: Space, lower: Lower, chosen: Binding) -> Iterator[Variant]:
    """Images and heads that are smaller than a half of a tile's side: the passes know of a
    parameter that says so, if there is one; the range says it of any."""
    limits = {axis: name for name, (axis, _) in _limits(kernel, "get_global_range").items()}
    for axis, extent in kernel.tile.items():
        name = next((name for name in space if _tile(lower, chosen, space, name, axis)), "")
        least = 1
        for side in (extent // 4, extent // 2) if name and len(kernel.tile) > 1 else ():
            if extent >= _LEAST_SIDE and side in space[name]:
                facts = between(limits[axis], least, side) if axis in limits else ()
                yield Variant({**chosen, name: side}, facts, within=None if facts else (axis, side))
                least = side + 1


def _long_rows(kernel: Kernel, cfg: Cfg, space: Space, chosen: Binding) -> Iterator[Variant]:
    names = [name for name in space if len(space[name]) > 1]
    if streaming_threads(kernel) > _LONG_FEWER:
        return
    scans = any(op.name in ("scan", "scan_with") for block in cfg.innermost for op in block.ops)
    if len(names) != 1 or not (scans or row_loops.several_passes(kernel, cfg)
                               or row_loops.reducing_passes(kernel, cfg)):
        return
    tile = _nearest(space[names[0]], _LONG)
    limits = dict.fromkeys(v for loop in cfg.loops for op in loop.header.ops if op.name == "icmp"
                           for v in factors(op.operands[1], kernel))
    for limit in [*limits][:1] if tile > chosen[names[0]] else ():
        yield Variant({names[0]: tile, "num_warps": _LONG_WARPS},
                      between(limit.name, max(_LONG_LEAST, tile * 3 // 4), None))


def _extent(limit: str, kernel: Kernel) -> int:
    """That of the axis which a parameter limits, 0 for none."""
    return _limits(kernel, "range").get(limit, (0, 0))[1]


def _limits(kernel: Kernel, name: str) -> dict[str, tuple[int, int]]:
    """The parameters below which indices of this kind must lie, with the axis and the extent."""
    found = {}
    for op in kernel.ops():
        index = origin(op.operands[0]).op if op.name == "icmp" else None
        limit = origin(op.operands[1]) if op.name == "icmp" else None
        if index is not None and index.name == name and limit in kernel.parameters \
                and op.attributes["predicate"] == "slt" and shape(index.result.type):
            found[limit.name] = index.attributes.get("axis", 0), prod(shape(index.result.type))
    return found


def _tile(lower: Lower, chosen: Binding, space: Space, name: str, axis: int) -> bool:
    """Whether a tunable says how long the tile is along an axis of the grid."""
    return _says(lower, chosen, space, name, lambda kernel: kernel.tile.get(axis))


def _says(lower: Lower, chosen: Binding, space: Space, name: str,
          extent: Callable[[Kernel], int | None]) -> bool:
    """Whether an extent is what a tunable says."""
    other = next((n for n in space[name] if n != chosen[name]), None)
    return other is not None and all(
        extent(lower({**chosen, name: n})) == n for n in (other, chosen[name]))


def _nearest(values: Sequence[int], wanted: int) -> int:
    return min((n for n in values if n >= wanted), default=max(values))
