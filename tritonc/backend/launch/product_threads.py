"""How many threads products want, for their results and operands."""

from collections.abc import Set
from itertools import accumulate
from math import prod

from tritonc.analysis.values import constant_of, slice_of
from tritonc.backend.dots.together import chained, sums
from tritonc.backend.target import matrix
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import bytes_of, element, shape

ACCUMULATORS = 64  # per thread, of a dot on CUDA cores
FRAGMENT = 32  # registers of accumulators that are enough for a thread of mma.sync,
FEW = 128  # while it has no more threads than this: they share the copies and hide latencies
RESIDENT = 168  # registers of a thread, of blocks of a warpgroup of which three are resident;
OTHERS = 40  # beside sums and
PLACE = 3  # what a thread holds of each access by which it copies rows that it computes
MADE = 64  # registers of operands that a thread of mma.sync computes,
MAKING = 256  # while it has no more threads than this
# Bytes of operands that a thread of mma.sync copies in an iteration, of at most FEW.  H200, pages
# of 32 rows, 4 queries a key, 64 rows an iteration: 215 us by 64 threads, 202 by 128, 176 a copy.
COPIED = 256
WORD = 4  # bytes: what is narrower is an operand of a further product, rather than a result
THREADS = 128  # of a warpgroup
_CONVERSIONS = ("fpcast", "sitofp", "uitofp")
_MOVES = ("reshape", "trans", "convert_layout")


def block_threads(block: Block, places: int, phis: list[Op], kept: Set[Value]) -> int:
    """The threads that the dots of a block want, for what is held at once.

    wgmma alone has a say of its own, as many warpgroups as it has rows for.  For mma.sync threads
    compute operands in registers before they store them.  What a loop adds to a sum of its own is
    held beside that, twice as much.  A product on CUDA cores that is not added up, but computed
    with at once, wants as many warps again: 16384 of 48 x 48 by 64, 128 and 256 threads 267, 199
    and 222 us, 64 x 128 x 32 with exponentials by 128 and 256 306 and 283 (H200)."""
    dots = [op for op in block.ops if op.name == "dot"]
    if len(dots) == 1 and "instruction" not in dots[0].attributes and constant_of(
            dots[0].operands[2]) is not None:  # warps compute with it in turn
        return prod(shape(dots[0].result.type)) // FRAGMENT
    if any(map(matrix.on_wgmma, dots)):
        found = max(dot_threads(op, places) for op in dots)
        return found * (1 + (found == THREADS and _fill_registers(block, dots)))
    wanted = _most_at_once(block, dots, places, phis, kept)
    inside = set(block.ops)
    made = [v.type for op in dots if "instruction" in op.attributes
            for number, v in enumerate(op.operands[:2])
            if number not in op.attributes.get("registers", ())
            and any(each.name == "channel" for each in slice_of([v], inside, ("dot",)))]
    words = sum(map(bytes_of, made)) // 4
    copied = [v.type for op in dots if "instruction" in op.attributes for v in op.operands[:2]
              if any(each.name == "load" for each in slice_of([v], inside, ("dot",)))]
    size = sum(map(bytes_of, copied))
    return max(wanted, min(MAKING, words // MADE), min(FEW, size // COPIED))


def _fill_registers(block: Block, dots: list[Op]) -> bool:
    """Whether several products side by side fill a warpgroup's registers, and threads compute an
    operand beside them.  Spectra by two of 64 x 128 x 80 of samples times a window, with cosines
    and sines in rows of 201 halves: 1462 us by one warpgroup, which spills, 735 by two (H200)."""
    return (sum(prod(shape(op.result.type)) for op in sums(block)) >= THREADS * matrix.ACCUMULATORS
            and len(dots) > 1 and not chained(block) and any(
                each.name in _CONVERSIONS for op in dots
                for each in slice_of(op.operands[:2], {*block.ops}, ("dot",))))


def kept_values(kernel: Kernel) -> set[Value]:
    """What loops carry, and what is read in another block than it is made in."""
    home = {v: block for block in kernel.blocks for op in block.ops for v in op.results}
    return {v for block in kernel.blocks for op in block.ops
            for v in (*op.inputs(), *(op.results if op.name == "phi" else ()))
            if constant_of(v) is None and (op.name == "phi" or home.get(v) is not block)}


def _most_at_once(block: Block, dots: list[Op], places: int, phis: list[Op],
                  kept: Set[Value]) -> int:
    """The threads that the dots want together whose results a block holds at once, at most.

    A result is held until the last operation that computes with it element by element, or until
    another product is added to it; all the time, if it is kept, or made on CUDA cores, whose
    operands take registers too.  A delta rule in chunks of 32 x 64, with thirteen products in its
    loop, of which one is carried: 333 us by 512 threads, which all want together, 176 by 256, 152
    by 128 (H200)."""
    at = {op: number for number, op in enumerate(block.ops)}
    change = [0] * (len(at) + 1)  # of the threads, before each operation

    def hold(first: int, behind: int, threads: int) -> None:
        change[first] += threads
        change[behind] -= threads

    for dot in dots:
        threads = dot_threads(dot, places) * (1 + _summed_apart(dot, phis))
        if "instruction" not in dot.attributes:
            hold(0, len(at), threads)
            continue
        held, last, size = {dot.result}, at[dot], prod(shape(dot.result.type))
        for op in block.ops[last + 1:]:
            if not held.isdisjoint(op.operands):
                last = at[op]
                if op.info.elementwise or op.name in _MOVES:
                    held.update(v for v in op.results if prod(shape(v.type)) == size
                                and element(v.type).bytes >= WORD)
        stays = not kept.isdisjoint(held)
        before = _carried(dot.operands[2], kept) or (
            stays and constant_of(dot.operands[2]) is not None)
        hold(0 if before else at[dot], len(at) if stays else last, threads)
    return max(accumulate(change))


def _carried(value: Value, kept: Set[Value]) -> bool:
    """Whether a tile is a kept one, or what is computed of such element by element."""
    op = value.op
    return value in kept or (op is not None and op.info.elementwise and any(
        shape(v.type) == shape(value.type) and _carried(v, kept) for v in op.operands))


def _summed_apart(dot: Op, phis: list[Op]) -> bool:
    """Whether a loop carries a sum to which a product is added after it is scaled, or the like."""
    return constant_of(dot.operands[2]) is not None and any(
        phi.result.type == dot.result.type and dot in slice_of(phi.operands, ends=("dot", "phi"))
        for phi in phis)


def warpgroups(rows: int, columns: int, places: int, most: int = 4) -> int:
    """The warpgroups of a product on wgmma: one for 64 rows, unless it has too much to hold.

    Where threads compute which rows they copy, by so many accesses from `places`, one has 128 rows
    if it then has registers as where three blocks are resident: what it computes of a step's
    columns serves more rows, and other blocks' products run meanwhile.  32 columns of 79 x 341
    images: 104 us by 128 x 32, 131 by 64 x 32, 138 by 128 x 32 of two warpgroups (H200).  Of 64
    columns: grouped filters 61 to 47 us, 5 x 10 150 to 114, 3 x 3 x 3 123 to 99; of single elements
    161 x 700 by 5 x 5 201 to 273, 7 x 1 36.5 to 40.8; of 32 columns 195 to
    169, 79 x 341 by 7 x 7 57 to 51, 64 x 64 of 64 channels by 3 x 3 65 to 37, though they spill.

    >>> warpgroups(128, 64, 0), warpgroups(128, 64, 1024), warpgroups(128, 256, 1024)
    (2, 1, 2)
    >>> warpgroups(128, 32, 4096), warpgroups(128, 64, 4096)  # single elements
    (1, 2)
    """
    groups, half = rows // 64, max(1, rows // 128)
    if places and (rows * columns + PLACE * places) // (128 * half) + OTHERS <= RESIDENT:
        groups = min(groups, half)
    return min(4, max(1, min(most, groups), rows * columns // (128 * matrix.ACCUMULATORS)))


def dot_threads(op: Op, places: int = 0) -> int:
    """The threads that a dot wants; `places`: of accesses of operands that threads compute."""
    extents = shape(op.result.type)
    name = op.attributes.get("instruction")
    if name is None:
        return prod(extents) // ACCUMULATORS
    row = matrix.BY_NAME[name]
    if row.kind == matrix.WGMMA:
        most = 2 if {"registers", "swapped"} & set(op.attributes) else 4  # operands want room too
        return 128 * warpgroups(extents[0], prod(extents[1:]), places, most)
    words = prod(extents) * max(1, row.accumulator.bits // 32)
    batch = 1 if op.attributes.get("inside") else prod(extents[:-2])
    return max(words // matrix.ACCUMULATORS, min(FEW, words // FRAGMENT), 32 * batch)
