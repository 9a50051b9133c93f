"""How long the steps of a kernel's product take on one multiprocessor: the `Cost` of a launch.

`cost.cost` compares combinations in a machine that is full.  A launch that fills only some
of it depends on more: how long a block alone waits for a step, how many blocks a multiprocessor
holds, how many bytes it brings.  What a combination makes of a multiprocessor (`Use`) follows
from its tile by the rules of the passes that decide it; the constants below are measured.

    a step of a block alone   the latency of memory by the stages in flight, or the bytes of a stage
                              at the rate at which one block brings them; then what no other warp
                              computes beside it
    a step of each of many    the products at the rate of their instruction, or the bytes of a stage
                              at the rate of the multiprocessor's port

`cluster_times` has what is shared among the blocks of a cluster, `blocks` what a block takes.
"""

from math import prod, sqrt

from tritonc.backend.pipeline.stages import LARGE_STAGE
from tritonc.backend.target.target import Target
from tritonc.ir.types import TF32
from tritonc.tune.model.blocks import Use, consumers, in_registers, use
from tritonc.tune.model.cost import cost
from tritonc.tune.model.epilogues import cycles
from tritonc.tune.model.feature import APART, Feature, Profile, is_padded, joined, spread
from tritonc.variants.choice import MOST_CYCLES, Cost

# Clock cycles.  Measured on an H200 with every tile of the products and convolutions of
# bench/suite, at all of their sizes.
_LATENCY = 950  # of a load from memory, with the barrier after it
_ONCE = 3600  # of a launch
_START = {"wgmma": 1500, "mma": 1500, "cores": 2500}  # of a block, before and after its steps
# Of a row of 128 bytes of a box that lies beyond the tensor, of which the whole machine fetches 33
# in a cycle.  Halves and weights of 8 and 4 bits, 290 sizes by 3 to 20 tiles: what tiles take
# differs from the model by 0.06 and 0.11, by 0.07 and 0.15 before; 3 to 5 are as good.
_BEYOND, _BOX = 4, 128
_MAPS = 1000  # of a launch whose blocks make tensor maps
_BARRIER = 40  # of a step, around what is in flight, or between indices and copies
# Of an instruction that waits for the one before it; not beside conversions: weights of 8 bits, few
# rows, 36 sizes, by 16 x 32 x 128 alone and in clusters are within 0.09 of what this says.
_CHAIN = {"wgmma": 14, "mma": 90}
# Bytes in a cycle.
_PORT = 47.0  # that a multiprocessor brings from the second-level cache by asynchronous copies,
_BOXES = 46.0  # by TMA for large tiles, which leave the cache with little to repeat;
_ALONE = 53.0  # and one block; or blocks of one warpgroup that computes which rows it copies,
_TOGETHER = 37.0  # and warpgroups that do so together, and wait for each other;
# The same of rows that taps read again, which are near; of multiply-adds in a cycle then, too.  8 x
# 64 x 64 x 256 to 256 channels, 3 x 3: 128 x 256 56 us (as one product 63), 128 x 128 57 to 70,
# 64 x 256 64.
_NEAR, _NEAR_RATE = 60.0, 1.1
_SHORT_BOXES = 1 / 8  # a power: 64 x 512 x 512 x 512 by 128 x 128 x 32 37.3 us, by x 64 34.3;
_LOADED = 80.0  # by loads into registers, beside their latency
# Multiply-adds in a cycle of a multiprocessor.
_RATES = {"wgmma": 1540.0, "mma": 900.0, "cores": 128.0}  # the first two of 16-bit numbers
_DOUBLES = 95.0  # whose peak is 128: 2048 in cube by 64 x 64 to 128 x 128 85 to 95
_NARROW = 1.1  # of wgmma of 64 columns
# Of tiles between powers of two: 8192 in cube by 128 x 256 1374 us, by 224 x 128 1397, 8192 x 8192
# x 2048 353 and 363, 6144 in cube 577 and 627.
_BETWEEN = 1.04
# Of large tiles of short rows, or of three stages: 2304 x 2304 x 4608 by 128 x 128 x 64 76 us, by
# 128 x 128 x 128 79.
_FEW = 1.03
_CORES = 1.18  # cycles of CUDA cores for what could be one, of a product that fills its warps
# Of a step of a block alone whose warps compute with each product before the next one: 64 x 64, 64
# x 128, 128 x 64 and 128 x 32 of 64 results a thread by 32, each with an exponential, take 8400 to
# 8700 cycles.
_ONE_BY_ONE = 1.8
_SLICED = 0.2  # more where warps share the inner axis, or loads go out late
_STEP = 60.0  # multiply-adds of a thread that a step costs it
_BESIDE = 0.34  # of the products that are computed while nothing is loaded, by CUDA cores
# Of a step of a block alone, for each result of a thread that adds up products itself, scaled ones
# or those of 8-bit floats: two warpgroups have half of them each (128 x 7168 x 2048 by 64 x 128
# 10.0 and 11.4 us, by 128 x 64 9.5 and 10.8).
_ADDED = 1.0
# Of a step of 8-bit floats whose sums are scaled, of a block beside others, twice that alone, four
# times swapped; none where they overlap the next product (`overlap_sums`), not in clusters, of so
# many results of a thread at most.  By 64 x 64 629 cycles, 64 x 128 825, 128 x 64 756, 32 x 64 646
# and 771 of two, 32 x 128 956; 128 x 128 723.
_SCALED, _OVERLAPS, _FIRST = 100, 64, 800  # cycles of a block until they do
# Of a step, for each word of a left operand by registers, and of a right one that threads
# turn. 64 x 64 x 32 of 512 x 512 x 4096 takes 335 cycles by neither, 563 by the first, 642 by both,
# 128 x 256 x 32 1290 and 1911, and 1026 by 256 x 128, which is swapped.
_LEFT, _TRANSPOSED = 0.04, 0.1
_FEW_STAGES = 0.15  # with two or three stages: 128 x 128 x 64 by two blocks, 1024 in cube 20 us, 13
_SERIAL = 1.3  # how much longer it takes without a producer warp: one warpgroup does all by itself
_DISTURBED = 0.08  # of the lesser of both that shows
# Of what a step of doubles brings, if a block is alone.  3000 x 2000 x 1000 of doubles: by
# 128 x 128 316 us, by 64 x 128 in two blocks 301, by 64 x 64 in four 292.
_SHOWS = 0.3
# Of a step of doubles by a block alone, whose warps read fragments while none multiplies: 64 x 64 x
# 16 1107 cycles, 690 of them busy, 128 x 64 x 16 1856, 1380, 128 x 128 x 16 3039, 2760.
_EXPOSED, _FULL = 400, 128 * 64
_WORK = 28.0  # operations of single elements in a cycle, beside a product
# Cycles of an element that is brought by itself, where rows are not aligned: 4095 x 4097 x 4093 of
# halves by 128 x 256 796 us, by 128 x 128 866, by 64 x 64 1935; a convolution in NCHW order with
# taps around its channels by 128 x 128 0.22, by 64 x 128 0.21, by 64 x 64 0.18.
_SINGLE = 0.19
# Of that, where all taps take their elements of the same accesses: the same convolution, nine taps
# by 128 x 128 x 16 72.6 us, by 128 x 64 x 16 112, one tap by 128 x 256 x 32 136.
_OF_SHARED = 0.7
# Elements in a cycle of an operand that is computed where it is read, and operations of single
# elements more, of which two are in a register; `_OF_MMA` by mma.sync.
_CONVERTED, _UNPACKED, _OF_MMA = 29.0, 500.0, (90.0, 360.0)
# Of wgmma: multiply-adds in a cycle of a product whose operand is in registers; cycles of a step
# until it is read, of a block beside others and alone; the part of the lesser of both that shows
# where a warpgroup converts while another multiplies.  H200, weights of 8 bits, a step by 16 x 64 x
# 128 566 cycles, 32 x 64 614, 64 x 64 769, 128 x 64 999, 64 x 64 x 64 444, 16 x 128 x 128 851, 64 x
# 128 1261, 128 x 128 1306, 256 x 128 x 64 1131; of 4 bits 576, 669, 821, 1074, 539, 1004, 1355,
# 1415, 1134.  From memory, not the cache, by 128 x 128 x 64 and 256 x 128 x 64: e4m3 740, 1200,
# words of 4 bits 850, 1270, MXFP8 1090, 1520.
_OF_REGISTERS, _READ, _READ_ALONE, _APART_SHOWN = 2050.0, 90, 190, 0.5
_TOGETHER_SHOWN = 0.7  # in clusters: 128 x 128 x 128 1524 and 1551
_PLAIN = 2  # but for so many of a load, which vectorised accesses do not need
# Of what an element's index and mask take, the part where it comes by itself: masks are bits, and
# what rows and columns add to an offset is known.  Gradients of filters in NCHW order, 64 x 64 x 64
# 1100 cycles, 64 x 128 1700, 128 x 64 1400.
_OF_LONE = 3
PIECE, WORD = 16, 4  # bytes that are copied at once; of elements that CUDA cores multiply
# Of a step of a block alone, for each computed row beyond those of one warpgroup: 14 x 14 pixels by
# 128 x 64 in clusters of two take 16.7 us, by 64 x 128 15.6.
_ROW, _ROWS = 0.84, 64
# The part of them that takes time where warpgroups compute which rows they copy while products run.
# By 128 x 128 x 64 a step of one loop over taps and channels takes 860 cycles, of a loop over each,
# where they are 400 less, 760.
_HIDDEN = 0.5
# Of a column of a result to which a tile is added that comes in parts of less than a line of 64
# halves.  SiLU and a residual, 3072 x 3072 x 1024 by 128 x 144 51.6 us, by 144 x 128 44.1, by 128 x
# 160 and 160 x 128 50.5, 45.2; 1536 in cube 18.6, 16.7, 18.2, 17.2.
_NARROW_PARTS, _LINE = 18, 64
UNIT = 4  # of a cycle, in a `Cost`


def formula(profile: Profile, depths: tuple[int, ...], target: Target, alone: bool = False) -> Cost:
    """The cost of a combination whose kernel has these features, and whose loops take `depths` of
    their lengths in a step; `alone`: no other block shares its multiprocessor."""
    found = joined([feature for feature in profile if feature.kind == "dot"])
    work = 0 if len(found) > 1 else computed_beside(profile)
    uses = [use(dot._replace(computed=dot.computed and not alone), target, work, alone)
            for dot in found]
    # Of products that follow from each other one waits for the other, in one block.
    widest = max(uses, key=lambda one: one.threads)
    blocks = min(one.blocks(target) for one in uses)
    packed = len(found) == 1 and in_registers(found[0], widest)
    meanwhile = widest.gathers or (widest.persistent and found[0].computed)
    beside = work / _WORK * (_HIDDEN if meanwhile else 1)
    if packed:
        beside = _converted(found[0], work, widest)
    if work and widest.kind == "cores":
        beside += _BARRIER
    inside = beside if meanwhile else 0
    busy = sum(_busy(dot, one, inside) for dot, one in zip(found, uses, strict=True))
    wait = sum(_wait(dot, one) for dot, one in zip(found, uses, strict=True))
    overlap = False
    if packed and widest.kind == "wgmma":
        busy, wait = _in_registers(found[0], widest, beside, alone)
    elif widest.kind == "wgmma" and found[0].scaled and found[0].bytes == 1:
        results = prod(found[0].extents[:-1])
        overlap = widest.persistent and not alone and results <= _OVERLAPS * consumers(widest)
        if not overlap:
            busy, wait = busy + _SCALED, wait + _SCALED * (4 if found[0].is_swapped else 2)
    elif found[0].fixed and widest.persistent and widest.threads > 256:
        # Cosines of 12000 rows of 192 halves above a threshold, by 128 x 128 146 us, x 64 187.
        busy = wait = max(busy, beside, wait) + _DISTURBED * min(busy, beside)
    else:
        shown = 1 / _HIDDEN if widest.gathers and found[0].lone else 1  # alone it hides nothing
        busy, wait = busy + beside - inside, wait + beside * shown
    if packed and widest.kind == "mma":  # instructions run while others convert
        wait -= _chain(found[0], widest)
    if widest.kind == "cores" and found[0].scaled:
        wait = max(wait, _ONE_BY_ONE * busy * _RATES["cores"] / widest.threads)
    if widest.kind == "mma" and found[0].bytes > WORD:
        busy += _SHOWS / blocks * found[0].stage_bytes / _PORT
    if len(found) > 1:
        busy *= max(1.0, cost(profile, target))
    apart = APART if any(dot.side_by_side < prod(dot.taps) for dot in found) else 1
    busy, wait = apart * busy, apart * wait
    if (more := spread(profile)) > 1:
        brought = more * sum(dot.stage_bytes for dot in found)
        busy, wait = max(busy, brought / _PORT), max(wait, brought / _ALONE)
    once = _ONCE + (_MAPS if widest.persistent else 0)
    deep = found[0].extents[-1] * found[0].bytes
    edge = UNIT * _BEYOND * max(1, deep // _BOX) if widest.persistent else 0
    single = 0.0 if widest.kind == "cores" else _SINGLE * sum(
        prod(dot.extents) // m + prod(dot.extents) // n for dot in found
        for m, n in (dot.extents[-3:-1],))
    if found[0].bare and found[0].side_by_side > 1:
        busy = wait = apart * _OF_SHARED * single
    elif found[0].bare:
        busy, wait = max(busy, single), max(wait, single)
    start = _START[widest.kind] + _FIRST * overlap
    if widest.kind == "wgmma" and len(found) == 1:
        start += round(sum(cycles(prod(f.extents), f.bytes, consumers(widest), blocks)
                           + _NARROW_PARTS * f.extents[-1] * (f.added > 0 and is_padded(profile)
                                                              and f.extents[-1] % _LINE > 0)
                           for f in profile if f.kind == "behind"))
    if any(f.form == "once" for f in profile):  # without a loop others compute while a block begins
        start, wait = 0, start + wait
    return Cost(target.multiprocessors, blocks, UNIT * once, UNIT * start, _cycles(busy),
                _cycles(wait), edge, depths, slow=_cycles(single))


def _converted(dot: Feature, work: float, one: Use) -> float:
    """Cycles of a step for operands that are computed where they are read."""
    elements = dot.extents[-1] * sum(
        size for size, raw in zip(dot.extents[-3:-1], dot.raw, strict=True) if raw)
    if one.kind == "mma":
        each, operations = _OF_MMA
        return (elements / each + work / operations) * _short(dot)
    return elements / _CONVERTED + max(0.0, work - elements) / _UNPACKED


def _in_registers(dot: Feature, one: Use, beside: float, cluster: bool) -> tuple[float, float]:
    """Of a step of wgmma whose operand threads compute in `beside` cycles: of one of many blocks,
    and of one alone.  In a cluster no warp of its own brings operands."""
    computed, brought = prod(dot.extents) / _OF_REGISTERS, _brought(dot, one)
    busy = _READ + computed + beside
    alone = busy + _READ_ALONE - _READ
    if one.persistent and one.threads > 128 * one.slices:
        shown = _TOGETHER_SHOWN if cluster else _APART_SHOWN
        alone = busy = (_FEW if one.ahead < 2 else 1.0) * (
            busy - (1 - shown) * min(computed, beside))
    arriving = (_LATENCY + brought / _ALONE) / max(1, one.ahead + one.persistent)
    return max(busy, brought / _PORT), max(arriving, alone)


def computed_beside(profile: Profile) -> float:
    """Operations of single elements that a step takes beside its product.  Indices cost something
    where rows follow from quotients; of a product on tensor cores they count once for a piece that
    is copied at once.  Of other rows only the first element of a piece has an address.
    """
    work, index, plain = (sum(prod(feature.extents) for feature in profile if feature.kind == kind)
                          for kind in ("work", "index", "access"))
    pieces = max((_OF_LONE if dot.lone else PIECE // dot.bytes
                  for dot in profile if dot.computed), default=1)
    more = index - _PLAIN * plain
    computed = any(feature.computed for feature in profile if feature.kind == "dot")
    return max(0, work + min(0, more)) + (max(0, more) / pieces if computed else 0)


def doubtful(profile: Profile, cost: Cost) -> float:
    """The part of a step's time that is doubtful: indices of rows that follow from quotients, which
    take several times as long where single elements are copied, not pieces."""
    if not any(feature.computed for feature in profile if feature.kind == "dot"):
        return 0.0
    return _HIDDEN * UNIT * computed_beside(profile) / _WORK / max(cost.busy, 1)


def _busy(dot: Feature, one: Use, beside: float = 0) -> float:
    """Of a step of one of many blocks; `beside`: cycles of what is computed while others copy."""
    if one.kind == "cores":
        return _computed(dot, one)
    each = _DOUBLES if dot.bytes > WORD else _RATES[one.kind] * 2 / dot.bytes / (1 + one.slow)
    each *= _NEAR_RATE if _is_near(dot) else 1.0
    computed = prod(dot.extents) / each * _narrow(dot, one) + beside
    rate = _ALONE if one.gathers else _PORT if not one.persistent else (
        _TOGETHER if dot.computed else _NEAR if dot.flat else _BOXES)
    brought = _brought(dot, one) / rate * (1 if one.persistent else _short(dot))
    few = _FEW if one.persistent and (one.ahead < 2 or _short(dot) > 1) else 1.0
    found = few * (max(computed, brought) + _DISTURBED * min(computed, brought))
    transposing = _transposing(dot, one)
    return (found + transposing) * (_SERIAL if transposing and not one.persistent else 1)


def _transposing(dot: Feature, one: Use) -> float:
    """Cycles of a step in which threads bring operands of tf32 to wgmma, which memory has with
    another axis than K contiguous."""
    if one.kind != "wgmma" or dot.element != str(TF32) or all(dot.inner):
        return 0.0
    m, n, k = dot.extents
    left, right = (n, 0) if dot.inner[0] else (m, 0 if dot.inner[1] else n)
    few = _FEW_STAGES if dot.stage_bytes >= LARGE_STAGE else 0.0
    return k * (_LEFT * left + _TRANSPOSED * right + few * max(m, n))


def _narrow(dot: Feature, one: Use) -> float:
    """How much longer an instruction of few columns takes, for which rows are read as often; tiles
    of doubles of few rows or columns, whose fragments serve less."""
    if dot.bytes > WORD:
        return max(1.0, 0.75 + 16 / min(dot.extents[-3:-1]))
    if one.kind != "wgmma":
        return 1.0
    columns = dot.extents[-3 if dot.is_swapped else -2]
    between = any(n & (n - 1) for n in dot.extents[-3:-1])
    return max(1.0, _NARROW * (0.5 + 32 / columns)) * (_BETWEEN if between else 1.0)


def _is_near(dot: Feature) -> bool:
    """Whether TMA brings rows that taps read again."""
    return dot.flat and not dot.computed


def _brought(dot: Feature, one: Use) -> float:
    """Bytes of a stage as they count for a block that is alone: rows that threads compute and copy
    as whole lines, those of boxes little more than they have."""
    return dot.delivered * (1 if not one.persistent else _short(dot) ** (
        2 if dot.computed else 1 if dot.flat else _SHORT_BOXES))


def _short(dot: Feature) -> float:
    """How much longer bytes take that come in rows of less than a line of 128 bytes."""
    return sqrt(max(1.0, 128 * max(1, len(dot.parts)) / (dot.extents[-1] * dot.bytes)))


def _computed(dot: Feature, one: Use) -> float:
    """Cycles of CUDA cores for a step."""
    *batch, m, n, k = dot.extents
    held = max(1.0, prod(batch) * m * n * one.slices / one.threads)
    each = _CORES + (_SLICED if one.slices > 1 or one.late else 0.0)
    transposing = 4 * (dot.inner[0] / n + dot.inner[1] / m)
    overhead = _STEP * one.slices / (held * k)
    return prod(dot.extents) * max(dot.bytes // 4, 1) / _RATES["cores"] * (
        each * (1 + overhead) + transposing)


def _wait(dot: Feature, one: Use) -> float:
    """Of a step of a block that is alone."""
    stage: float = dot.stage_bytes - dot.fixed_bytes
    if one.kind == "cores":
        computed = _computed(dot, one)
        return _LATENCY + stage / _LOADED + computed * (1.4 if one.late else _BESIDE)
    if one.ahead < 1:  # nothing is brought while something is computed
        return _LATENCY + stage / _ALONE + _busy(dot, one)
    stage = _brought(dot, one)
    alone = _NEAR if _is_near(dot) else _ALONE
    arriving = (_LATENCY + stage / alone) / (one.ahead + one.persistent)
    far = sum(rows for rows, far in zip(dot.extents[-3:-1], dot.sides) if far)
    found = 0.0 if one.persistent else _ROW * max(0, far - _ROWS)
    if dot.bytes > WORD:
        return max(arriving, _busy(dot, one)) + _EXPOSED * min(1.0, _FULL / prod(dot.extents[:-1]))
    chain = _chain(dot, one)
    if one.kind == "mma":
        return arriving + chain + found
    added = 0.0
    if dot.scaled or dot.element.startswith("f8"):
        added = _ADDED * prod(dot.extents[:-1]) / one.threads
    return max(_BARRIER + stage / alone + chain, arriving) + found + added + _transposing(dot, one)


def _chain(dot: Feature, one: Use) -> float:
    """Of instructions of a step that wait for each other."""
    return _CHAIN[one.kind] * max(1, dot.extents[-1] * dot.bytes // (32 * one.slices))


def _cycles(number: float) -> int:
    return min(round(min(number, 1e9) * UNIT), MOST_CYCLES)
