"""What a combination of tunables costs whose kernels have no product: how far its tiles are from
those that stream well."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log2, prod

from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.row_loops import carried, loaded_again, reducing_passes, several_passes
from tritonc.analysis.values import slice_of
from tritonc.analysis.windows import ACCESS_BYTES
from tritonc.backend.launch.choose_warps import streaming_threads
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import is_float, scalar, shape
from tritonc.tune.model.feature import Profile
from tritonc.tune.model.loops import rows_around
from tritonc.variants.variant import Fact, Variant, between

_STREAM_ELEMENTS = 1024  # per program of a kernel without dots: 128 threads, 8 elements each
_STREAM_EACH, _STREAM_MOST = 8, 8192  # elements of a thread, of a program of few rows
_PASSES = 2048  # of several passes over rows, and of sums over columns: 256 threads
# Of rows that are not equally long, of which a program has no tile to spare.  Gradients of causal
# scores, 2048 columns, on an H200: 161 us by 2048, 122 by 1024, 111 by 512.
_UNEVEN = 512
_NESTED = 4096  # where rows lie in rows: batch norm backward 0.145 ms, by 2048 0.195 (H200)
# Of columns that are kept, where programs are numbered along several axes; and how many, unless a
# program has several passes.  Least and greatest of 500 rows of 333 halves on an H200: 85.6 us by
# 16 x 128, 26.8 by 32 x 64, of 1000 rows of 1024 16.2 and 12.7; sums of 192 channels 17.7 and 19.2,
# of 64 36.5 and 23.4, of rows and columns, 8192 x 11008, 86.8 and 69.4; but norms of 96 channels of
# 3136 pixels 16.8 and 21.3.
_LINE_BYTES, _LINE = 256, 64
# The same along one, where each has all rows: of less, memory brings what another program reads.
# Halves of 8192 columns on an H200: 0.049 ms by 16, 0.040 by 32.
_PIECE_BYTES = 64
# Scans down columns wait for the rows before.  Running sums of 20 sizes drawn at random on an H200:
# 32 x 32 floats by four warps 1.06 times as fast as 64 x 32 by eight, of few columns 1.08.
_SCANNED, _SCANNED_BYTES = 1024, 128
_WAITING = 128  # of a loop that all elements of a tile end: one warp
_RECURRENCE = 512  # of one whose iterations wait for each other: one warp, too
_COLUMNS = 32  # of columns alone, of which there may be few: pieces of 64 bytes and more
# Of pairs that are computed to be reduced, and how many more slices than elements of one: a warp
# whose threads have 64.  The nearest of 4096 points on an H200: 0.579 ms, 0.690 by 16 x 64.  Half
# of more than three sums: forces and energies of 16384 points 457 us by 64 x 16, 524 by 128 x 16.
_PAIRS, _SLICES = 2048, 2
_ADDING = 4096  # of atomics on addresses that other programs have, too: they take turns
_CONTENDED = 2048  # of one on one address that is read: programs wait for it, and should be many
# Where each program waits for the one before it.  Running sums of 30 million integers on an H200:
# 43 ms by 1024, 20.8 by 2048, 9.4 by 4096, 4.2 by 8192.
_CHAINED = 1 << 14
# Of runs between loaded numbers, and what a run of twice as many rows costs beside: means of 15
# rows of 200 on an H200: 74 us by 4 x 128, 92 by 8 x 128, 100 by 8 x 64, 347 by 32 x 64.
_SEGMENT, _LONG_SEGMENT = 512, 0.4
# Most have fewer rows than that.  Softmax of 16 edges of 8 heads: 94 us by 16 or 32, 142 by 64.
_RUN = 16
_WANTED = {"chains_programs": _CHAINED, "several_passes": _PASSES, "uneven_passes": _UNEVEN,
           # Softmax of 8192 x 5120 floats: 93 us by 2048, 113 by 1024; half of rows of halves, of
           # which more are in the caches: norms of 6144 54.5 to 58.4, 54.3 to 55.7 (ten ways).
           "reducing_passes": _PASSES, "sums_columns": _PASSES, "nested_passes": _NESTED,
           "scans_columns": _SCANNED,
           "ends_by_tile": _WAITING, "recurrence": _RECURRENCE, "shares_addresses": _ADDING,
           "few_columns": _COLUMNS, "contended": _CONTENDED, "segments": _SEGMENT}
# Threads of a block whose row is loaded again, by the bytes of that, and how many blocks shall be
# resident where the limit of registers does not say so: H200, four kernels of rows.  Five hide more
# of 16 KB (softmax 0.154 ms, by four 0.167); of 32 KB layer norm took 1.03 times as long.
_ROW_THREADS = ((64, 6 << 10, 0), (128, 12 << 10, 0), (256, 24 << 10, 5), (256, 56 << 10, 0),
                (512, None, 0))
# Of functions and several tiles that a loop carries, or a reduction in each iteration, no more
# warps than these.  H200, rows of 9999 to 151936: KL divergences 1.23 to 1.39 times as fast by 8 as
# by 16, masked softmax 1.2 to 2.3; one sum or none of such functions 0.5 to 1.
_CROWDED = 8
# The same of one or two arrays of halves or floats: tiles, warps, blocks, and the most elements.
# What lies behind those is not there, and what lies before the least takes no mask: a tile has as
# many entries as lengths for which threads hold fewer elements.  H200, softmax, layer norm, RMS
# norm and a gradient, 190 lengths drawn at random: 1024 threads with 16 to 24 elements each, of
# longer rows 768 with 32.  Old times by new: floats 1.05 to 1.3, of rows that are not aligned 1.2
# to 1.9, halves 1.02 to 1.25.
_WHOLE_ROWS, _FLOAT = ((256, 1, 0, 256), (512, 1, 0, 512), (1024, 2, 16, 1024),
                       (2048, 2, 16, 1536), (2048, 4, 8, 2048), (4096, 4, 8, 3072),
                       (4096, 4, 6, 4096), (8192, 8, 4, 5120), (8192, 8, 4, 6144),
                       (8192, 8, 3, 8192)), 4
_WHOLE_FLOATS = tuple((4096, 8, 4, 4096) if row[3] == 4096 else row for row in _WHOLE_ROWS)
# What no tile holds, by several of so many elements, of which the loops are straight code: the same
# rows of floats 1.02 to 1.25 times as fast; of halves slower where they are aligned.
_SEVERAL = 2048
# Of halves of which loops compute no functions, loops: RMS norms of 4608 and 5120 columns 1.24 and
# 1.15 times as fast as by 8192, layer norms 1.27, 1.26; softmax by 2048 0.92 to 0.95.
_PASSED = 1024, 4, 0
_FUNCTIONS = frozenset("exp exp2 log log2 tanh erf sin cos".split())
_MORE_FLOATS = ((2048, 16, 2, 10240), (4096, 16, 2, 12288))
_MORE_HALVES = ((16384, 8, 3, 10240), (16384, 16, 2, 12288))
# Two arrays of more than halves, by 128 registers.  H200, gradients of layer norm and softmax: 1.0
# to 1.5 times as fast.
_WHOLE_PAIRS = ((512, 1, 0, 512), (1024, 2, 0, 1024), (2048, 2, 8, 2048), (4096, 4, 4, 4096),
                (8192, 8, 2, 8192))
# Of longer ones, by bytes: as many blocks as have their rows in the L2 cache, if that is one at
# least.  Layer norm of 65536 floats 82 us by one block, 103 by two; softmax of 262144 in two
# passes 442 and 406, of 42000, 46000, 56000 164 and 157, 161 and 146, 165 and 148; layer norm 182
# and 203, 191 and 189, 207 and 198.  Not of rows that threads load by less than they can at once:
# 38410 and 50001 177 and 208, 183 and 219; layer norm 216 and 259, 245 and 274; nor of halves,
# softmax of 76000 to 131072 196 to 204 us by two, 202 to 210 by one; RMS norm 1.01 to 1.09.
_ALONE = 170 << 10
_LONG_HALVES = (8192, 8, 3, 56 << 10), (8192, 16, 2, None)
_LONG_FLOATS = (4096, 8, 3, 56 << 10), (8192, 16, 1, 320 << 10), (8192, 16, 2, None)
# Where the list of tiles ends before, rows of floats have twice the warps, so that fewer of them
# are in the caches.  Rows divided by their lengths, by 2048, on an H200: 12345 columns 132 us by
# eight, 116 by 16, 9000 96 and 95, 16380 126 and 108.
_MOST_WARPS = 16
# Of rows that two tiles have less than 7/8 full, nothing: RMS norm of halves by two of 4096, 256
# threads, and by 1024, 128 threads, on an H200: 5120 columns 60.9 us, 45.8, 6144 65.6, 55.9, 8192
# 73.4, 80.2; softmax of floats, by 2048, 256 threads: 97.5, 95.0 and, of 8192, 149, 162.
# Of rows in rows, such as the pixels of each image of a channel: the longer ones as chosen.  Batch
# norm and its backward pass on an H200: 49 pixels 6.7 to 11 times as fast, 196 3.3 to 6.5, 400 1.1
# to 1.7, 784 1.1 to 2.3.
_NESTED_ROWS = ((64, 1, 0, 64), (256, 2, 0, 256), (512, 4, 0, 512), (1024, 8, 0, 1024))
# Of long rows that are read once, of which there may be few: a tile, the elements of a thread,
# which has fewer of several arrays, and the least length.  H200, argmax, norm, cross-entropy,
# log-sum-exp and KL: 8192 elements 1.02 to 1.2 times as fast, 32000 1.0 to 1.5, 131072 1.8 to 5.3.
_ONCE, _ONCE_EACH, _ONCE_LEAST = 4096, 32, 8192
# The same where longer tiles carry more, as a softmax's maxima and sums for each element: short
# rows, and long ones as chosen.  Losses with smoothed labels on an H200: 8192 x 32000 350 us by
# 4096, 262 as chosen, 1000 x 50257 176, 73; 88666 x 160 166 as chosen, 81 so, 30000 x 1000 66, 45.
_ONCE_HELD = (512, 1, 0, 4096)
# Half a tile of more sums and maxima of floats than these.  H200, cross-entropy with smoothed
# labels: 50257 halves 163 us by 4096, 127 by 2048, 32000 40.2 and 36.9; without, 65.8 and 69.0.
_ONCE_SUMS = 2
# Of a tile of two axes, both contiguous along the last; half of two that are stored.  RoPE of 128
# halves, two tiles of 64, on an H200: 70.3 us by 32 x 64, 68.5 by 16 x 64.
_FLAT_BYTES, _FLAT_ASPECT = 4096, 8
# Of a tile that the source fixes: rows of at most that part of it have a quarter of the warps.
# H200, 131072 rows by 1024 elements, 100, 256 and 400 of them: gradients of instance norm 1.71,
# 1.50 and 1.33 times as fast, softmax 1.38, 1.36 and 1.37, RMS norm by 2048 1.42, 1.90 and 1.88.
_PART, _SHORT = 0.4, 4
# For twice as many elements as are stored.  H200, four steps of the heat equation, 8192 x 8192: the
# time follows that number, 354 us for each: 793 by 16 x 64, 629 by 32 x 32, 539 by 32 x 64, 503 by
# 32 x 128.
_WASTED = 8.0
_COMPUTED = 4  # bytes of an element of a window of pixels, whatever it has in memory
# Of one that loops add others to: what lies beyond an edge costs as much; and where they add a
# known number of taps, of which threads read many again.
_ADDED_BYTES, _TAPS_BYTES = 1024, 2048
# Taps that are no neighbours: average pooling of 112 x 112 halves by every other pixel on an H200:
# 65 us by 8 x 128, 26 by 8 x 64, 22 by 4 x 64.
_FAR_TAPS_BYTES = 512
# Of many rows of channels, which no thread reads again, as many of a thread as an access has, and
# few columns, as channels may be no multiple of many.  7 x 7 taps of halves on an H200: 96 channels
# 141 us by 8 x 128, 139 by 16 x 64, 103 by 8 x 32; 384 channels 27.9, 31.0, 29.5.
_MANY_ROWS_BYTES, _MANY_ROWS_ASPECT = 512, 4
# Of rows of a table, whose numbers a loop loads.  16 rows of floats for each of 262144 on an H200:
# 64 columns 365 us by 8 x 128, 207 by 32 x 64, 128 columns 459 and 412, 256 columns 919 and 812.
_GATHERED_BYTES, _GATHERED_ASPECT = 8192, 2
# Of what loops sum up and add to memory: a tile, and how many rows of it are one sum.  Sums of rows
# and of columns, 8192 x 8192 on an H200: 107 us by 8 x 256, 91 by 16 x 256 or 64 x 128, 79 by 32 x
# 256 with 32 elements of a thread, 143 by 64 x 256.
_SUMMED, _SUMMED_ROWS = 8192, 32
# Of lines that meet, elements of a square.  Codes of 16 words on an H200: 82 us by 64 x 64, 272 by
# 16 x 128; sums of least ones 235 us and 240 by 16 x 64.
_CROSSED = 4096
# Of a tile of two axes that is only moved: long pieces of rows both ways, longer ones where it is
# written, whose ends share lines with other programs.
_TRANSPOSED_BYTES, _TRANSPOSED_ASPECT = 32 * 1024, 0.5


def row_entries(space: Mapping[str, Sequence[int]], lower: Callable[[Mapping[str, int]], Kernel],
                chosen: Mapping[str, int]) -> list[Variant]:
    """Entries for the lengths of a row of which a program makes several passes, or a long one,
    beside the chosen one.

    Short rows want few threads, so that many are on their way at once (layer norm of 768 halves on
    an H200: 0.053 ms by 64, 0.136 by 256); of long ones all that are begun should be in the L2
    cache (16384 floats: 0.082 ms by 512, 0.097 by 256, 0.139 by 128).
    """
    others = [name for name in space if chosen[name] > 1]
    rows = [name for name in others if 1 in space[name]]
    if together := len(others) == 2 and len(rows) == 1:  # several rows, of which one is enough
        chosen = {**chosen, rows[0]: 1}
        others.remove(rows[0])
    kernel = lower(chosen)
    name, cfg = others[0] if others else "", Cfg(kernel)
    loops, again = rows_around(kernel), loaded_again(kernel, cfg, True)
    names = {op.name for block in cfg.innermost for op in block.ops}
    passes = again and not names & {"scan", "reduce_with", "scan_with"}
    loads = [load for load in (_with_others(kernel, cfg, again) if passes else _read_once(cfg))
             if any(op.name == "get_program_id" or (
                 op.name == "get_global_range" and shape(op.result.type) == (1,))
                 for op in slice_of(load.operands[:1]))]
    sizes = [scalar(pointee(load.operands[0].type)).bytes for load in loads]
    if len(others) != 1 or loops is None or loops.factor != 1 or len(loops.arguments) != 1 \
            or loops.depth != chosen[name] or not sizes:
        return []
    # Of pixels that have several channels each, the row has so many times as many elements.
    wide = max(1, min(prod(shape(load.result.type)) for load in loads) // chosen[name])
    found: list[Variant] = []
    length = kernel.parameters[loops.arguments[0]].name
    least: int | None = 1
    plain = not any(op.name in _FUNCTIONS for block in cfg.innermost for op in block.ops)
    crowded = len(sizes) > 1 and not plain and (
        (again and "reduce" in names) or any(len(tiles) > 1 for tiles in carried(cfg)))
    table: Iterable[tuple[int, int, int, int | None]] = _by_length(sizes, wide * max(space[name]))
    if any(loop.depth > 1 for loop in cfg.loops):
        table = _NESTED_ROWS if passes else ()
    elif not passes:
        warps = min(16, len(sizes) * _ONCE // (32 * _ONCE_EACH))
        tile = _ONCE // (2 if _sums(cfg) > _ONCE_SUMS else 1)
        other = {**chosen, name: min(space[name], key=lambda n: (n == chosen[name], n))}
        table, least = [(tile, warps, 0, None)], _ONCE_LEAST // wide
        if carried(cfg) != carried(Cfg(lower(other))):
            table, least = [_ONCE_HELD], 1
    for wanted, warps, blocks, most in table:
        wanted, most = max(1, wanted // wide), most and most // wide
        if least is not None and most is not None and most < least:
            continue
        tile = min((n for n in space[name] if n >= wanted), default=max(space[name]))
        several = most is not None and tile < wanted > most and sizes == [_FLOAT]
        if several:
            tile = max((n for n in space[name] if n * wide <= _SEVERAL), default=tile)
        elif most is not None and tile < wanted > most and len(sizes) == 1 and plain:
            tile = max((n for n in space[name] if n * wide <= _PASSED[0]), default=tile)
            _, warps, blocks = _PASSED
        elif tile < wanted and wide > 1 and 32 * warps == streaming_threads(kernel):
            least = None if most is None else most + 1
            continue  # as chosen: 1024 pixels of 16 channels 33 us by 128 x 16, 34.7 by 256 x 16
        # Where no tile holds the row, as chosen, unless two are nearly full.
        elif most is not None and tile < wanted >= most:
            least = max(least or 0, wanted - (wanted // 8 if 2 * tile == wanted else 0) + 1)
            if least > most:
                continue
        same = not together and several_passes(kernel, cfg) and not blocks and (
            tile == chosen[name] and wide * tile == 32 * warps * _STREAM_EACH
            and streaming_threads(kernel) == 32 * warps)
        if not same and rows_around(lower({**chosen, name: tile})) == loops._replace(depth=tile):
            if tile < wanted and sizes == [_FLOAT] and (most is None or wanted < most):
                warps = min(_MOST_WARPS, 2 * warps)
            if crowded:
                warps = min(warps, _CROWDED)
            binding = {**chosen, name: tile, "num_warps": warps}
            binding |= {"min_blocks": blocks} if blocks == 1 or (
                blocks and (tile >= wanted or several)) else {}
            facts = between(length, least, most) if blocks != 1 else (
                *between(length, _ALONE // (wide * sizes[0]) + 1, most),
                Fact(length, "%", max(1, ACCESS_BYTES // (wide * sizes[0]))))
            found.append(Variant(binding, facts))
        if blocks != 1:
            least = None if most is None else most + 1
    return found


def short_rows(kernel: Kernel) -> list[Variant]:
    """An entry of fewer warps for rows that are a small part of a tile which the source fixes."""
    cfg, loops = Cfg(kernel), rows_around(kernel)
    warps = streaming_threads(kernel) // 32
    if loops is None or loops.factor != 1 or len(loops.arguments) != 1 or warps < _SHORT \
            or not (reducing_passes(kernel, cfg) or several_passes(kernel, cfg) or _read_once(cfg)):
        return []
    most = int(loops.depth * _PART)
    return [Variant({"num_warps": warps // _SHORT}, between(
        kernel.parameters[loops.arguments[0]].name, None, most))]


def _with_others(kernel: Kernel, cfg: Cfg, again: Mapping[Value, Op]) -> list[Op]:
    """What is loaded again, with what else the same loop loads from there, as of two halves."""
    roots, found = pointer_roots(kernel), dict[Value, Op]()
    for load in again.values():
        root = roots[load.operands[0]]
        found |= {op.operands[0]: op for op in cfg.block_of[load].ops
                  if op.name == "load" and roots.get(op.operands[0]) is root
                  and shape(op.result.type) == shape(load.result.type)}
    return [*found.values()]


def _sums(cfg: Cfg) -> int:
    """The most reductions of floats in one block of a loop."""
    return max((sum(op.name == "reduce" and is_float(op.operands[0].type) for op in block.ops)
                for block in cfg.innermost), default=0)


def _read_once(cfg: Cfg) -> list[Op]:
    """The loads of a kernel whose loops load rows and reduce them, and store nothing; none where
    they load more than a row."""
    ops = [op for block in cfg.innermost for op in block.ops]
    if not any(op.name == "reduce" for op in ops) or any(WRITE in op.effects for op in ops):
        return []
    tiles = {op: shape(op.result.type) for op in ops if op.name == "load" and prod(
        shape(op.result.type)) > 1}
    return [*tiles] if all(prod(tile) == max(tile) for tile in tiles.values()) else []


def _by_length(sizes: Sequence[int], largest: int) -> Iterator[tuple[int, int, int, int | None]]:
    """Tiles, warps, blocks and the most elements of rows of arrays of elements of these sizes;
    `largest`: of the tiles that there are."""
    if len(sizes) == 1 and sizes[0] <= _FLOAT:
        floats = sizes[0] == _FLOAT
        yield from _WHOLE_FLOATS if floats else _WHOLE_ROWS
        yield from (row for row in (_MORE_FLOATS if floats else _MORE_HALVES)
                    if floats or row[0] <= largest)
        for tile, warps, blocks, held in _LONG_FLOATS if floats else _LONG_HALVES:
            yield tile, warps, blocks, held and held // sizes[0]
        return
    if len(sizes) == 2 and max(sizes) <= _FLOAT:
        yield from _WHOLE_ROWS if sum(sizes) <= _FLOAT else _WHOLE_PAIRS
    for threads, held, blocks in _ROW_THREADS:
        yield (max(threads * _STREAM_EACH, _STREAM_ELEMENTS), threads // 32, blocks,
               held and held // sum(sizes))


def stream_cost(profile: Profile) -> float:
    """The sum over kernels of `_row_cost`."""
    starts = [i for i, feature in enumerate(profile) if feature.kind == "kernel"]
    parts = [profile[i:j] for i, j in zip(starts, [*starts[1:], len(profile)], strict=True)]
    return sum(_row_cost(part[1:], part[0].form) + _wasted_work(part) for part in parts)


def _wasted_work(profile: Profile) -> float:
    """What programs compute that others store."""
    apart = [prod(f.extents) for f in profile if f.kind == "apart"]
    return _WASTED * log2(max(prod(f.extents) for f in profile) / min(apart)) if apart else 0.0


def _row_cost(profile: Profile, form: str) -> float:
    """How far a program's tiles are from what one block of threads streams well.

    Rows of which a program makes several passes want many threads each, so that few of them are in
    the caches.

    Elements reduced along an axis are better in that axis: fewer partial results.  Tiles of two
    axes are better square where either side is the contiguous one in memory.
    """
    largest = max((prod(f.extents) for f in profile), default=1)
    reductions = [f for f in profile if f.kind == "reduce"]
    flat = [f for f in profile if prod(f.extents) == largest and len(f.extents) > 1]
    if flat and (not reductions or form == "ends_by_tile"):
        height, width = flat[0].extents[-2:]
        if form == "transposed":
            size, aspect = _TRANSPOSED_BYTES / flat[0].bytes, _TRANSPOSED_ASPECT
        elif form == "ends_by_tile":
            size, aspect = _WAITING, _FLAT_ASPECT
        elif form == "crosses":
            size, aspect = _CROSSED, 1
        else:
            computed = _COMPUTED if form == "windows_of_bytes" else flat[0].bytes
            stores = sum(f.added for f in profile if f.kind == "access" and f.bytes > 1
                         and prod(f.extents) == largest)
            size = {"adds_tiles": _ADDED_BYTES, "adds_taps": _TAPS_BYTES,
                    "adds_many_rows": _MANY_ROWS_BYTES, "adds_gathered": _GATHERED_BYTES,
                    "adds_far_taps": _FAR_TAPS_BYTES}.get(
                        form, _FLAT_BYTES / (2 if stores == 2 else 1)) / computed
            aspect = {"adds_many_rows": _MANY_ROWS_ASPECT,
                      "adds_gathered": _GATHERED_ASPECT}.get(form, _FLAT_ASPECT)
        # What is only written, in pieces of which memory has longer ones: one-hot rows of 1000
        # halves on an H200: 22 us by 16 x 64, 17 by 16 x 256.
        longer = form == "adds_far_taps" or (not form and len(flat) == 1)
        wider = 0.001 * log2(width) if longer else 0.0
        return (abs(log2(max(largest, 1) / size)) + 0.1 * abs(log2(width / height / aspect))
                - wider)
    if flat and _only_computed(profile, largest):
        reduced = min(prod(f.extents[axis] for axis in f.axes) for f in flat)
        pairs = _PAIRS / (2 if len(flat) > 3 else 1)
        return abs(log2(largest / pairs)) + 0.1 * abs(log2(largest / reduced**2 / _SLICES))
    rows = [prod(e for axis, e in enumerate(feature.extents) if axis not in feature.axes)
            for feature in reductions]
    wanted = float(_WANTED.get(form, _STREAM_ELEMENTS))
    if form == "reducing_passes" and all(f.bytes < _FLOAT for f in profile if f.kind == "access"
                                         and prod(f.extents) == largest):
        wanted /= 2
    columns = [len(f.extents) - 1 not in f.axes for f in reductions]
    if form not in ("segments", "scans_columns") and any(
            0 in f.axes for f, left in zip(reductions, columns, strict=True) if left):
        wanted = max(wanted, _PASSES)
    if form == "adds_sums":
        return abs(log2(max(largest, 1) / _SUMMED)) + 0.3 * min(
            abs(log2(largest / kept / _SUMMED_ROWS)) for kept in rows)
    cost = abs(log2(max(largest, 1) / wanted))
    for kept, feature, left in zip(rows, reductions, columns, strict=True):
        most, bytes_ = {"sums_columns": (_STREAM_MOST, _PIECE_BYTES),
                        "scans_columns": (_STREAM_MOST, _SCANNED_BYTES)}.get(form, (
            _STREAM_MOST if form.endswith("passes") else _LINE, _LINE_BYTES))
        line = min(most, bytes_ // min(
            (f.bytes for f in profile if f.kind == "access"
             and sorted(f.extents) == sorted(feature.extents)),
            default=_LINE_BYTES)) or 1
        cost += 0.3 * abs(log2(kept / (line if left else 1))) / len(reductions)
    if form == "segments":
        run = max((log2(prod(f.extents) / n) for f, n in zip(reductions, rows, strict=True)),
                  default=0.0)
        cost += _LONG_SEGMENT * run + max(0.0, run - log2(_RUN))
    return cost


def _only_computed(profile: Profile, largest: int) -> bool:
    """Whether tiles of so many elements are reduced where they are made, and not in memory."""
    return all(f.kind == "reduce" and f.computed for f in profile if prod(f.extents) == largest)
