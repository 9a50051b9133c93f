"""choose_warps: chooses the number of warps of a block.

A meta-parameter, `num_warps`, a power of two from 1 to 16.  The default follows the work: wgmma
wants a warpgroup for each 64 rows, or 128 narrow ones whose places are computed, mma.sync 32 to 128
registers of accumulators in a thread and few bytes of operands to copy, a dot on CUDA cores wants
64 accumulators in a thread, streaming code two accesses of 16 bytes of its largest tile in flight
in each thread, or four where that tile is reduced, more if by a function of the program: what is
in registers takes no exchange between warps.  Where a program makes several passes over a row, or
sums or scans columns, there are many threads for few elements each: few programs at a time keep
their rows in the caches.  So it is where much is computed of each element, and where threads take
turns at addresses that are loaded, and where loops load and store.  Where programs ask each other
for what they have found, few threads have many elements each: more programs are resident with so
many registers, and their warps wait for fewer.  So it is where axes are split and joined again and
again, as by butterflies.  Where loops reduce what they hold, and load nothing, a warp has a whole
row if its threads can.
A scan by a function has few warps.
Few threads per program leave the number of programs on a processor to the hardware."""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from math import log2, prod

from tritonc.analysis import row_loops
from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.column_loops import few_columns, scans_columns, sums_columns
from tritonc.analysis.quotients import gathered
from tritonc.analysis.records import fields
from tritonc.analysis.registers.liveness import Liveness
from tritonc.analysis.shared_data import adds_sums, adds_to_loaded, asks_programs, searches
from tritonc.analysis.taps import adds_taps
from tritonc.analysis.transposes import transposes
from tritonc.analysis.values import QUOTIENTS, constant_of, is_uniform, origin, slice_of
from tritonc.backend.launch.live_tiles import live_tiles
from tritonc.backend.launch.product_threads import block_threads, kept_values
from tritonc.backend.layout.accesses import overlapping_loads
from tritonc.backend.layout.layout_choice import ACCESS_BYTES
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.target import matrix
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, Tile, element, scalar, shape

BYTES = 32  # of memory per thread, of the largest tile otherwise,
# or if it is reduced or transposed.  Bytes, 128 x 128 by 16 and 8 warps on an H200: 16384 x 16384
# 175 and 143 us, 20000 x 9999 170 and 150; other tiles have 64 bytes as 16 warps are the most.
ROW_BYTES = 64
# or reduced by a function, and that is all: threads had better call it alone, and have more, if of
# pairs of 32 bits.  Log-sum-exp by a merge of 4096 floats on an H200: 66.7 us by 32 elements, 64.2
# by 64; moments, of three numbers, 62.6 and 63.9.  Less where axes are split and joined.
FUNCTION_BYTES, HALVES_BYTES = 256, 128
# Of a thread, where rows are loaded several times, many rows added up, or loops load and store, of
# which each iteration waits for memory.  SwiGLU of halves on an H200: programs that go from row to
# row 103 us by 16, 92 by 8, a row each 87.4 and 85.6.
PASS_ELEMENTS = 8
MOST_ELEMENTS = 32  # of which each takes a register,
# and more of them where loops hold several tiles, or doubles.  H200: gradients of an RMS norm hold
# sums and weights of rows of 4096: by 32 elements 68.5 us, by 16 55.5.
HELD_WORDS = 32
# Where loops hold nothing, of words that are loaded of its elements and live, with a share of all
# that do not lie beside others.  H200: a wave by 25 points of 128 x 8 floats 658 us by 16 elements
# of a thread, 313 by 4; inverses of 4 x 4 floats 73 by 4, 58 by 2.
LOADED_WORDS, EARLY = 48, 0.3
MANY_STEPS = 96  # operations of an element, such as a random number's: fewer elements live at once,
STEPS_ELEMENTS = 8  # and more warps have something to do
# Steps that one like an exponential counts for.  H200: focal loss of floats 121 us by 4 elements,
# 113 by 8; the gradient of GELU of halves 117 by 16, 112 by 8.
FUNCTION = 48
QUOTIENT = 10  # steps of one by a number that only the launch knows
HALVES = 8  # that a program splits and joins: threads with many elements have both
# Elements of a thread, of a tile that is computed to be reduced: few live at once.  Ranks of rows
# of 128 on an H200: 224 us by 128, 200 by 256, 197 by 512.
COMPUTED = 256
ASKING = 64  # elements of a thread, and threads at least, of programs that wait for others
# Elements of a thread, of a tile of lines that meet: those are read for many.  Of more sums than
# three fewer.  Forces and energies of 16384 points on an H200: 128 x 16 by 32 elements, which
# spill, 2298 us, by 16 524; 64 x 16 by 16 541, by 8 457.
CROSSED, CROSSED_SUMS = 32, 3
# Threads that scan a tile by a function, and have more elements instead: warps wait for each other.
# H200: segments of rows of 2048 86 us by 256 threads, 76 by 128 or 64; running maxima and places by
# 1024 121 by 128, 145 by 64.
SCANNING = 128
FEW_COLUMNS = 256  # elements of a tile, of columns alone: each has a thread
_CHOOSE = frozenset("select icmp fcmp fmin fmax smin smax umin umax and or".split())
_FUNCTIONS = frozenset("exp log tanh erf sin cos".split())
LEGAL = (1, 2, 4, 8, 16)


def choose_warps(kernel: Kernel, context: Context) -> bool:
    """Set `num_warps`, unless it is set."""
    if "num_warps" in context.meta:
        kernel.attributes["num_warps"] = context.meta["num_warps"]
    if "num_warps" in kernel.attributes:
        return False
    places = {} if "cluster" in kernel.attributes else _places(kernel)  # blocks of those are few
    phis, kept = _phis(kernel), kept_values(kernel)
    dots = [threads for block in places or kernel.blocks if (
        threads := block_threads(block, max(places.values(), default=0), phis, kept))]
    threads = max(dots) if dots else _wanted_threads(kernel)
    kernel.attributes["num_warps"] = _warps(threads)
    return True


def product_warps(kernel: Kernel, block: Block, context: Context) -> int:
    """The warps that a block's products on mma.sync will get."""
    given: int | None = context.meta.get("num_warps", kernel.attributes.get("num_warps"))
    return given or _warps(block_threads(block, 0, _phis(kernel), kept_values(kernel)))


def _phis(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.ops() if op.name == "phi" and shape(op.result.type)]


def _warps(threads: int) -> int:
    """The warps of so many threads, a legal number."""
    return 1 << min(LEGAL[-1], max(1, threads // 32)).bit_length() - 1


def streaming_threads(kernel: Kernel) -> int:
    """The threads that a kernel without products gets."""
    return 32 * _warps(_wanted_threads(kernel))


def _wanted_threads(kernel: Kernel) -> int:
    """The threads among which the largest tile is to be spread.  Its elements count with the bytes
    that they have in memory, where tiles of that size are loaded or stored."""
    cfg = Cfg(kernel)
    largest = max((r.type.size for op in kernel.ops() for r in op.results
                   if isinstance(r.type, Tile)), default=1)
    moved = [pointee(op.operands[0].type) for op in kernel.ops() if op.name in ("load", "store")
             and 2 * prod(shape(op.operands[0].type)) > largest and not _quotient(op.operands[0])]
    windows = row_loops.windows_of_bytes(kernel, cfg)
    size = 4 if windows else max((scalar(t).bytes for t in moved), default=4)
    if not (cfg.loops or windows or _combines(kernel)):
        size = max(size, *_records(kernel, largest))
    held = max(sum(max(1, element(t).bytes // 4) for t in types if shape(t)
                   and 2 * prod(shape(t)) > largest) for types in live_tiles(kernel, cfg))
    reductions = [op for op in kernel.ops() if op.name in ("reduce", "reduce_with") and 2 * prod(
        shape(op.operands[0].type)) > largest and op.results[0].type != I1  # votes take no exchange
        and not _adds_rows(op)]
    reduced, short = bool(reductions), not cfg.loops and all(
        _short(op, size) for op in reductions)
    if asks_programs(kernel, cfg):
        return max(ASKING, largest // ASKING)
    if searches(cfg):
        return largest // MOST_ELEMENTS
    if row_loops.several_passes(kernel, cfg):
        return largest // max(PASS_ELEMENTS, ACCESS_BYTES // min(
            (scalar(pointee(op.operands[0].type)).bytes for op in kernel.ops() if op.name == "load"
             and 2 * prod(shape(op.operands[0].type)) > largest), default=4))
    if adds_sums(kernel, cfg):
        return largest // MOST_ELEMENTS
    if sums_columns(kernel, cfg) or scans_columns(kernel, cfg) or adds_to_loaded(kernel, largest):
        return largest // PASS_ELEMENTS
    if row_loops.crosses(kernel, cfg):
        return largest // (CROSSED if held <= CROSSED_SUMS else HELD_WORDS // held)
    # Few programs of long loops: the least element of each of 6000 columns of 4000 halves 460 us by
    # 4 elements of a thread, 314 by one; 16384 gated recurrences of 2048 steps 430 and 364 (H200).
    if largest <= FEW_COLUMNS and few_columns(kernel, cfg) and all(
            len(shape(r.type)) < 2 for op in kernel.ops() for r in op.results):
        return largest
    loaded = 0.0 if held else _loaded_words(
        cfg, largest, ("fpcast",) if reduced and short else ())
    room = 1 << int(log2(max(1.0, LOADED_WORDS / max(0.25, loaded))))  # of bytes
    if not held and _steps(kernel, largest) > MANY_STEPS:
        return largest // min(STEPS_ELEMENTS, room)
    scanned = any(op.name in ("scan", "scan_with") and 2 * prod(
        shape(op.operands[0].type)) > largest for op in kernel.ops())  # all of it lives
    if reduced and not (moved or held or scanned):
        return largest // COMPUTED
    halves = [op.operands[0].type for op in kernel.ops() if op.name == "reduce"
              and op.attributes["kind"] == "or" and 2 * prod(shape(op.operands[0].type)) > largest]
    if len(halves) >= HALVES:
        return largest // (HALVES_BYTES // max(scalar(t).bytes for t in halves))
    # Scans exchange what groups combine to, and hold it; loops wait for what a function combines:
    # moments by Welford's merge of 256 channels on an H200 166 us by 16 of a thread, 112 by 8.
    if row_loops.reducing_passes(kernel, cfg) or any(
            op.name == "scan_with" or (op.name == "reduce_with" and block in cfg.innermost)
            for block in kernel.blocks for op in block.ops):
        reduced = False
    by_function = [] if cfg.loops else [
        len(op.operands) for op in kernel.ops()
        if op.name == "reduce_with" and 2 * prod(shape(op.operands[0].type)) > largest]
    # Of what taps read again in other rows, a thread has twice as many: depthwise_time by 16 x 128
    # halves 0.246 ms, 0.220 so (H200).
    taps = not windows and adds_taps(kernel, cfg)
    if taps and _whole_taps(kernel, cfg):
        return largest // PASS_ELEMENTS
    again = taps or overlapping_loads(kernel)
    pairs, transposed = max(by_function, default=0) == 2, transposes(kernel)
    bytes_ = (FUNCTION_BYTES if pairs else HALVES_BYTES) if by_function else (
        ROW_BYTES if (reduced and not short) or again or transposed else BYTES)
    each = MOST_ELEMENTS if row_loops.reduces_registers(cfg, largest) else bytes_ // size
    if not (held or again or _combines(kernel)) and any(map(_streams, cfg.innermost)):
        each = min(each, PASS_ELEMENTS)
    more = 2 if pairs and size == 4 else 1
    most = max(1, HELD_WORDS // held) if held else ROW_BYTES if transposed else MOST_ELEMENTS
    each = min(each, more * min(most, room))
    # As warps are powers of two, of ten a thread would get sixteen, of three four.  Rays that meet
    # spheres, 32 x 4 pixels, ten numbers of each held: 1119 us by four of a thread, 919 by two.
    wanted = largest // (each if 4 <= each < STEPS_ELEMENTS else 1 << each.bit_length() - 1)
    scans = any(op.name == "scan_with" for op in kernel.ops())
    return min(wanted, max(SCANNING, largest // MOST_ELEMENTS)) if scans else wanted


def _records(kernel: Kernel, largest: int) -> Iterator[int]:
    """The bytes of the fields of records that tiles of most elements access, as far as one access
    has them.  Points of three floats turned by quaternions, 20 million on an H200: 245 us by 4 of a
    thread, 204 by 2, 183 by one.  A row of such weights beside rows does not count: a depthwise
    convolution along time took 1.3 times as long by 256 threads."""
    yield 1
    for block in kernel.blocks:
        found: dict[int, set[int]] = {}
        for op, (record, _) in fields(block.ops, Affinity()).items():
            if 2 * prod(shape(op.operands[0].type)) <= largest:
                continue
            size = scalar(pointee(op.operands[0].type)).bytes
            found.setdefault(record.number, set()).update(range(record.begin, record.begin + size))
        yield from (min(len(places), ACCESS_BYTES) for places in found.values())


def _combines(kernel: Kernel) -> bool:
    return any(op.name in ("reduce", "reduce_with", "scan", "scan_with") for op in kernel.ops())


def _streams(block: Block) -> bool:
    """Whether a loop loads tiles and stores what it makes of them."""
    names = {op.name for op in block.ops if op.operands and shape(op.operands[0].type)}
    return {"load", "store"} <= names


def _quotient(pointer: Value) -> bool:
    """Whether addresses are quotients, of which many are the same, as a flat index has rows."""
    value = pointer
    while (op := value.op) is not None and op.name not in QUOTIENTS:
        moving = [v for v in op.operands if not is_uniform(v)]
        if len(moving) != 1 or op.name not in (
                "addptr", "add", "sub", "mul", "sext", "zext", "srem", "urem"):
            return False
        value = moving[0]
    return op is not None


def _loaded_words(cfg: Cfg, largest: int, casts: Container[str]) -> float:
    """The words loaded of each element of tiles of the largest size that live in a fast body, where
    the most do, and a part of all rows that its block loads: the assembler loads early."""
    live, left, affinity = Liveness(cfg), set(rare(cfg, cfg.order)), Affinity()

    def row(value: Value) -> Hashable:
        form = affinity.of(value.op.operands[0]) if value.op is not None else None
        return value if form is None else (
            form.base, form.strides, *(term for term in form.offset.terms if term[0]))

    def words(values: Iterable[Value]) -> float:
        return sum(element(v.type).bytes / 4 for v in values if isinstance(v.type, Tile)
                   and 2 * v.type.size > largest and (op := origin(v, casts).op) is not None
                   and op.name == "load")

    most = 0.0
    for block in (each for each in cfg.order if each not in left):
        now = live.at_end(block)
        total = found = words(now)
        for op in reversed(block.ops):
            before = {*op.operands} - now
            total += words(before) - words(v for v in op.results if v in now)
            now = (now | before) - {*op.results}
            found = max(found, total)
        rows = {row(op.result): op.result for op in block.ops if op.name == "load"}
        most = max(most, found + EARLY * words(rows.values()))
    return most


def _whole_taps(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether taps are whole accesses of rows at places that the program computes: threads read
    none of it again, as of channels that follow each other.  7 x 7 taps of 384 channels of halves
    by 8 x 128: 39.8 us by 32 elements of a thread, 28.4 by 8 (H200)."""
    infos, found = axis_info.analyze(kernel), []
    for op in {op for block in cfg.innermost for op in block.ops if op.name == "load"
               and len(shape(op.result.type)) > 1}:
        info, t = infos.get(op.operands[0]), op.operands[0].type
        size = scalar(pointee(t)).bytes
        whole = info is not None and size * axis_info.vector_length(
            info, None, len(shape(t)) - 1, size) >= ACCESS_BYTES
        found.append((whole, any(one.name == "load" for one in slice_of(op.operands[:1]))))
    # Of a fast body and a general one.
    return 2 * sum(whole for whole, _ in found) >= len(found) and not any(led for _, led in found)


def _adds_rows(op: Op) -> bool:
    """Whether a reduction adds up, once behind a loop, the rows of what the loop carries."""
    value = op.operands[0]
    return value.op is not None and value.op.name == "phi" and op.attributes.get("axes") == [0] \
        and len(shape(value.type)) > 1


def _short(op: Op, size: int) -> bool:
    """Whether a reduction combines no more than a warp accesses at once of elements of `size`
    bytes: threads that hold more have more such rows, and exchange as much of each.  Of 256 halves
    that become floats, too: Lion with bytes for its momentum 162 us, 136 so (H200)."""
    t, axes = op.operands[0].type, op.attributes.get("axes") or [op.attributes["axis"]]
    return axes == [len(shape(t)) - 1] and (
        shape(t)[-1] * size <= ACCESS_BYTES << LANE_BITS)


def _steps(kernel: Kernel, largest: int) -> int:
    """The elementwise operations on tiles of the largest size in one block, at most; those that
    choose, as networks that sort do, ask other threads for elements.  Halves by a flat index of
    five axes 72.7 us by 16 elements, 64.8 by 8 (H200)."""
    return _most(kernel, largest, lambda op: 0 if op.name in _CHOOSE else weight(op))


def weight(op: Op) -> int:
    """The operations that an elementwise one counts for."""
    return FUNCTION if op.name in _FUNCTIONS else QUOTIENT if op.name in (
        "sdiv", "udiv", "srem", "urem") and constant_of(op.operands[1]) is None else 1


def _most(kernel: Kernel, largest: int, weight: Callable[[Op], int]) -> int:
    """The most that elementwise operations on tiles of the largest size weigh in one block."""
    return max(sum(weight(op) for op in block.ops if len(op.results) == 1
                   and isinstance(op.result.type, Tile) and op.info.elementwise
                   and 2 * op.result.type.size > largest) for block in kernel.blocks)


def _places(kernel: Kernel) -> dict[Block, int]:
    """The blocks with products on wgmma whose operands threads copy from places that follow from
    quotients, with the accesses that take."""
    loads = {load: block for block in kernel.blocks for dot in block.ops if matrix.on_wgmma(dot)
             for load in gathered(dot)}
    infos = axis_info.analyze(kernel) if loads else {}
    found: dict[Block, int] = {}
    for load, block in loads.items():
        info, t = infos.get(load.operands[0]), load.operands[0].type
        reach = min(max(info.contiguity), ACCESS_BYTES // scalar(pointee(t)).bytes) if info else 1
        found[block] = found.get(block, 0) + prod(shape(t)) // reach
    return found
