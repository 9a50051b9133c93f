"""Which layouts suit memory accesses, reductions and scans: the policy of `assign_layouts`.

All choices are functions from shapes and axis information to a `Layout`; none looks at the program.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tritonc.analysis.axis.axis_info import AxisInfo, vector_length
from tritonc.ir.layouts.layout import (
    LANE_BITS,
    WARP_SIZE,
    Layout,
    axis_bases,
    blocked,
    coordinates,
    from_steps,
    log2,
)
from tritonc.ir.layouts.layout_ops import renumbered, vector_width
from tritonc.ir.layouts.shared_layout import BANK_BYTES, BANKS
from tritonc.records import NamedTuple

PIECE_BYTES = 64  # that lanes side by side move, where others are elsewhere
LINE_BYTES = 128  # of a cache
SECTOR_BYTES = 32  # what global memory moves at the least
LEAST_COPY = 4  # bytes of cp.async
ACCESS_BYTES = 16  # what one instruction moves at the most
NEIGHBOURS = 4  # words of shared memory that one access reads


def fastest_axis(info: AxisInfo | None, rank: int) -> int:
    """The axis along which addresses are most contiguous; the last one in doubt."""
    return rank - 1 if info is None else max(range(rank), key=lambda d: (info.contiguity[d], d))


def axis_order(info: AxisInfo | None, rank: int) -> tuple[int, ...]:
    """The axes by falling contiguity, the later one first in doubt."""
    if info is None:
        return tuple(reversed(range(rank)))
    return tuple(sorted(range(rank), key=lambda d: (-info.contiguity[d], -d)))


def spread(shape: tuple[int, ...], order: tuple[int, ...], vector: int, warps: int) -> Layout:
    """A blocked layout: `vector` neighbours per thread along the fastest axis, then lanes and warps
    filled in `order`; threads beyond the tile hold copies.

    >>> print(spread((64, 16), (1, 0), 4, 4))
    #layout<shape=[64,16], register=[1,2,512], lane=[4,8,16,32,64], warp=[128,256]>
    """
    rank = len(shape)
    size = [1] * rank
    size[order[0]] = min(vector, shape[order[0]])
    lanes, left = [1] * rank, WARP_SIZE
    for axis in order:
        lanes[axis] = min(left, max(1, shape[axis] // size[axis]))
        left //= lanes[axis]
    lanes[order[-1]] *= left
    across, left = [1] * rank, warps
    for axis in reversed(order):  # warps apart along the slowest axis: each reads whole rows
        across[axis] = min(left, max(1, shape[axis] // (size[axis] * lanes[axis])))
        left //= across[axis]
    across[order[-1]] *= left
    return blocked(shape, size, lanes, across, order)


def transposing(shape: tuple[int, ...], axis: int, element_bytes: int, warps: int) -> Layout:
    """The layout in which threads read a tile from panels with `axis` contiguous and store it to
    panels with the other one so: words of 16 bytes, in lanes along the other axis.  Eight lanes
    read from eight rows, swizzled differently, and all lanes store to one row.

    >>> print(transposing((32, 128), 1, 4, 8))
    #layout<shape=[32,128], register=[1,2,32,64], lane=[128,256,512,1024,2048], warp=[4,8,16]>
    """
    size, lanes, across, other = [1, 1], [1, 1], [1, 1], 1 - axis
    size[axis] = min(ACCESS_BYTES // element_bytes, shape[axis])
    lanes[other] = min(WARP_SIZE, shape[other])
    lanes[axis] = WARP_SIZE // lanes[other]
    across[axis] = max(1, min(warps, shape[axis] // (size[axis] * lanes[axis])))
    across[other] = warps // across[axis]
    return blocked(shape, size, lanes, across, (other, axis))


def columns_fill_lanes(shape: tuple[int, ...], axis: int) -> bool:
    """Whether the axes behind one have an element for each lane, so that it needs none.

    >>> columns_fill_lanes((16, 32), 0), columns_fill_lanes((32, 16), 0)
    (True, False)
    """
    return prod(shape[axis + 1:]) >= WARP_SIZE


def in_each_warp(shape: tuple[int, ...], warps: int) -> Layout:
    """The elements spread over the lanes of each warp, which hand them around by shuffles.

    >>> print(in_each_warp((64,), 4))
    #layout<shape=[64], register=[32], lane=[1,2,4,8,16], warp=[0,0]>
    """
    one = spread(shape, tuple(reversed(range(len(shape)))), 1, 1)
    return replace(one, warp=(0,) * log2(warps))


def plain(shape: tuple[int, ...], warps: int, neighbours: int = NEIGHBOURS) -> Layout:
    """A layout for a tile about which nothing is known."""
    per_thread = max(1, prod(shape) // (warps * WARP_SIZE))
    return spread(shape, tuple(reversed(range(len(shape)))), min(neighbours, per_thread), warps)


def computed(shape: tuple[int, ...], axes: tuple[int, ...], warps: int) -> Layout:
    """The layout of a tile that is computed, element by element, to be reduced along `axes`.

    Threads stand along the other axes as far as these reach, so that they add up most of a slice by
    themselves.  A slice that lies in 2^n lanes takes n exchanges; in few lanes a thread needs more
    elements along `axes` of what is spread over the tile, and those are loaded.

    >>> print(computed((64, 64), (1,), 1))
    #layout<shape=[64,64], register=[1,2,16,32,512,1024,2048], lane=[4,8,64,128,256], warp=[]>
    """
    inner, kept = max(axes), prod(n for d, n in enumerate(shape) if d not in axes)
    threads, size = warps * WARP_SIZE, min(NEIGHBOURS, shape[inner])
    least = log2(max(1, threads // kept))
    most = min(LANE_BITS, log2(shape[inner] // size))
    if least > most:
        return plain(shape, warps)

    def steps(bit: int) -> float:
        return (kept << bit) // threads * bit + prod(shape) / kept / (1 << bit)

    bit = min(range(least, most + 1), key=steps)
    others = [d for d in reversed(range(len(shape))) if d not in axes]
    order = (*(d for d in reversed(range(len(shape))) if d in axes), *others)
    lanes, across = ([1] * len(shape) for _ in range(2))
    lanes[inner], left, more = 1 << bit, WARP_SIZE >> bit, warps
    for d in others:
        lanes[d] = min(left, shape[d])
        across[d] = min(more, shape[d] // lanes[d])
        left, more = left // lanes[d], more // across[d]
    return blocked(shape, [size if d == inner else 1 for d in range(len(shape))], lanes, across,
                   order)


def unsliced(shape: tuple[int, ...], axes: tuple[int, ...], kept: Layout) -> Layout:
    """The layout of a tile of which a reduction along `axes` leaves `kept`: a slice lies in lanes
    that would hold copies, and in registers.

    >>> print(unsliced((4, 8), (1,), Layout((4,), (), (0, 0, 0, 0, 0), (1, 2))))
    #layout<shape=[4,8], register=[], lane=[1,2,4,0,0], warp=[8,16]>
    """
    left = [d for d in range(len(shape)) if d not in axes]
    apart = [basis for d in reversed(axes) for basis in axis_bases(shape, d)]

    def place(basis: int) -> int:
        return sum(c * prod(shape[d + 1:]) for d, c in zip(
            left, coordinates(kept.shape, basis), strict=True))

    lane = tuple(place(b) if b else apart.pop(0) if apart else 0 for b in kept.lane)
    return Layout(shape, (*map(place, kept.register), *apart), lane, tuple(map(place, kept.warp)))


def scanned(shape: tuple[int, ...], axis: int, warps: int, element_bytes: int) -> Layout:
    """The scanned axis inside one warp: as many neighbours in a thread as memory moves at once,
    lanes, and registers; of columns that fill the lanes, in registers alone.

    >>> print(scanned((2, 512), 1, 2, 4))
    #layout<shape=[2,512], register=[1,2,128,256], lane=[4,8,16,32,64], warp=[512]>
    """
    order = (axis, *(d for d in reversed(range(len(shape))) if d != axis))
    size, lanes, across = ([1] * len(shape) for _ in range(3))
    lanes[axis] = 1 if columns_fill_lanes(shape, axis) else min(WARP_SIZE, shape[axis])
    size[axis] = min(shape[axis] // lanes[axis], ACCESS_BYTES // min(element_bytes, ACCESS_BYTES))
    left = WARP_SIZE // lanes[axis]
    for d in order[1:]:
        lanes[d] = min(left, shape[d])
        left //= lanes[d]
        across[d] = min(warps, max(1, shape[d] // lanes[d]))
        warps //= across[d]
    lanes[order[-1]] *= left
    own = blocked(shape, size, lanes, across, order)
    same = (0,) * (warps.bit_length() - 1)  # warps without a row of their own do what another does
    return replace(own, warp=own.warp + same)


class Access(NamedTuple):
    """What is known of an access of memory by a tile of pointers."""

    shape: tuple[int, ...]
    pointer: AxisInfo | None
    guard: AxisInfo | None
    element_bytes: int
    most: int = ACCESS_BYTES  # that one instruction moves

    @property
    def axis(self) -> int:
        """The axis along which addresses are most contiguous."""
        return fastest_axis(self.pointer, len(self.shape))

    def vector(self, axis: int) -> int:
        """How many neighbours along an axis one access may cover."""
        return 1 if self.pointer is None else vector_length(
            self.pointer, self.guard, axis, self.element_bytes, self.most)

    def width(self, layout: Layout) -> int:
        """How many neighbours one access moves in a layout."""
        return vector_width(layout, self.element_bytes * 8, self.vector(self.axis), self.axis)

    def share(self, layout: Layout) -> float:
        """The part of each memory sector that the access uses in a layout."""
        return sector_share(layout, self.axis, self.element_bytes, self.width(layout))


def coalesced(access: Access, warps: int, first: int | None = None, copied: bool = False,
              run: int = 1) -> Layout:
    """The layout of a load or store: wide accesses on the contiguous axis, lanes side by side.

    `first`: the axis for lanes, where another order is not known to be better; `copied`: copies
    make it, of which none moves less than a word, so that few threads have all of a small tile;
    `run`: so many neighbours are whole accesses together with others."""
    shape = access.shape
    order = axis_order(access.pointer, len(shape))
    if first is not None:
        order = (first, *(axis for axis in order if axis != first))
    vector = max(run, access.vector(order[0]))
    per_thread = max(1, prod(shape) // (warps * WARP_SIZE))
    if copied and per_thread * access.element_bytes < LEAST_COPY:
        per_thread = vector
    return spread(shape, order, min(vector, per_thread), warps)


def folded(layout: Layout, axis: int, element_bytes: int) -> Layout:
    """The layout of rows that are reduced: instead of other rows a thread holds more of its own,
    as long as lanes side by side move whole pieces of memory.  Of the other axes, lanes have the
    lowest bits, then warps: what the rows are reduced to is stored side by side.

    >>> print(folded(spread((16, 64), (1, 0), 4, 2), 1, 4))
    #layout<shape=[16,64], register=[1,2,16,32], lane=[4,8,64,128,256], warp=[512]>
    """
    own = axis_bases(layout.shape, axis)
    held = prod(2 for basis in layout.register if basis in own) * element_bytes
    lanes = [basis for basis in layout.lane if basis in own]
    lanes = lanes[log2(max(1, PIECE_BYTES // held)):] if held <= PIECE_BYTES else lanes
    found = _swapped(layout, lanes, own)
    rest = [b for b in (*found.lane, *found.warp, *found.register) if b not in own and b]
    return renumbered(found, dict(zip(rest, sorted(rest))))


def along_lines(layout: Layout, axis: int, element_bytes: int) -> Layout:
    """The layout of copies: instead of other rows a thread has more of its own, as long as lanes
    side by side have whole lines of the cache.  A row costs a thread an address and a mask.

    >>> print(along_lines(spread((16, 128), (1, 0), 4, 8), 1, 4))
    #layout<shape=[16,128], register=[1,2,32], lane=[4,8,16,1024,64], warp=[128,256,512]>
    """
    own = axis_bases(layout.shape, axis)
    held = next((n for n, basis in enumerate(own) if basis not in layout.register), len(own))
    lanes = [basis for basis in layout.lane if basis in own]
    return _swapped(layout, lanes[log2(max(1, LINE_BYTES // (element_bytes << held))):], own)


def _swapped(layout: Layout, lanes: list[int], own: Sequence[int]) -> Layout:
    """The layout with these bits of lanes in place of those of registers that are not of the axis
    `own`, and the other way round."""
    swap = dict(zip(lanes, (basis for basis in layout.register if basis not in own)))
    return renumbered(layout, swap | {other: basis for basis, other in swap.items()})


def stacked(layout: Layout, axis: int) -> Layout:
    """The layout of tiles that overlap along an axis: what a thread holds of it are neighbours, so
    that it loads for several tiles at once what they share.

    >>> print(stacked(spread((32, 64), (1, 0), 4, 4), 0))
    #layout<shape=[32,64], register=[1,2,64,128], lane=[4,8,16,32,256], warp=[512,1024]>
    """
    bits = axis_bases(layout.shape, axis)
    places = [b for part in (layout.register, layout.lane, layout.warp) for b in part if b in bits]
    return renumbered(layout, dict(zip(places, bits)))


def transposed(access: Access, warps: int, across: int) -> Layout | None:
    """The layout of a load whose tile goes to shared memory with another axis contiguous.

    Threads load words along the axis that is contiguous in global memory, first lanes side by side,
    and store single elements.  Further lanes stand along `across`, which will be contiguous in
    shared memory: side by side, and ACCESS_BYTES apart, so that each has a bank to itself.  Lanes
    along the other axis get the banks that are left (see `staging_layout`): other
    places inside words, and other words.  Where elements are registers, a place inside a word
    keeps its parity: the register file has a bank for odd and one for even numbers, and a product
    reads it without conflicts only if each of its operands is always of one parity.  None if
    nothing is transposed, or if a warp would use sectors of global memory in parts.

    >>> print(transposed(Access((128, 16), AxisInfo((1, 16), (4, 16), (1, 1)), None, 4), 4, 0))
    #layout<shape=[128,16], register=[1,2,512,1024], lane=[4,8,16,64,128], warp=[32,256]>
    """
    shape, along, element_bytes = access.shape, access.axis, access.element_bytes
    if access.pointer is None or along == across:
        return None
    vector = min(access.vector(along), max(1, prod(shape) // (warps * WARP_SIZE)))

    def steps(axis: int, first: int, last: int) -> list[tuple[int, int]]:
        return [(axis, 1 << bit) for bit in range(log2(first), log2(max(first, last)))]

    word = min(ACCESS_BYTES // element_bytes, shape[across])
    words = steps(across, word, min(shape[across], BANKS * BANK_BYTES // element_bytes))
    inside = steps(across, 1, word)
    first = 1 if element_bytes == BANK_BYTES else 0  # of these, lanes before the words
    lanes = steps(along, vector, shape[along])[: LANE_BITS - len(words)]
    lanes = (lanes + inside[:first] + words + inside[first:])[:LANE_BITS]
    lanes_along = 1 << sum(axis == along for axis, _ in lanes)
    if vector < 2 or lanes_along * vector * element_bytes < min(
            SECTOR_BYTES, shape[along] * element_bytes):
        return None
    held = steps(along, 1, vector)
    left = [step for axis in (across, along, *range(len(shape)))
            for step in steps(axis, 1, shape[axis])]
    left = [step for step in dict.fromkeys(left) if step not in lanes and step not in held]
    lanes += [(across, 0)] * (LANE_BITS - len(lanes))
    count = log2(warps)  # apart inside a word: else threads store several at once
    across_warps = left[:count] + [(across, 0)] * (count - len(left[:count]))
    return from_steps(shape, held + left[count:], lanes, across_warps)


def sector_share(layout: Layout, axis: int, element_bytes: int, vector: int) -> float:
    """The part of each 32-byte sector that one instruction of a warp uses, at most 1.

    `vector` neighbours along the contiguous `axis` are moved at once; lanes that hold the next ones
    complete the sector."""
    steps = axis_bases(layout.shape, axis)
    covered = vector
    for basis in steps[log2(vector):]:
        if basis not in layout.lane:
            break
        covered *= 2
    return min(1.0, covered * element_bytes / SECTOR_BYTES)


def lanes_apart(layout: Layout) -> Layout:
    """What the lanes that hold copies in `layout` share out: each has a part of the registers.

    One shuffle for each register that a thread wants makes `layout` of it.

    >>> print(lanes_apart(Layout((64,), (1, 8, 16, 32), (2, 4, 0, 0, 0), (0,))))
    #layout<shape=[64], register=[1], lane=[2,4,8,16,32], warp=[0]>
    """
    held = max(len(layout.register) - layout.lane.count(0), min(1, len(layout.register)))
    moved = iter(layout.register[held:])  # the lowest free lane gets the lowest register
    return replace(layout, register=layout.register[:held],
                   lane=tuple(basis or next(moved, 0) for basis in layout.lane))


def gathered(layout: Layout, axes: tuple[int, ...]) -> Layout | None:
    """The layout in which to add what the warps of `layout` hold of the reduced `axes`.

    Where each warp has all other elements of a slice, a thread that took all slices of its own
    would need their registers many times over.  Here it takes those of a part of the elements.
    None where registers or lanes hold elements of `axes` too."""
    reduced = {basis for axis in axes for basis in axis_bases(layout.shape, axis)}
    if not reduced or not reduced <= set(layout.warp):
        return None
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(layout.shape))
    part = plain(kept, 1 << len(layout.warp))
    steps = [coordinates(kept, basis) for basis in (*part.register, *part.lane, *part.warp)]
    bases = [sum(c * prod(layout.shape[d + 1:]) for d, c in enumerate(step)) for step in steps]
    registers = len(part.register)
    return Layout(layout.shape, (*bases[:registers], *sorted(reduced)),
                  tuple(bases[registers:registers + LANE_BITS]),
                  tuple(bases[registers + LANE_BITS:]))


def warps_last(layout: Layout, axis: int) -> Layout:
    """The layout with the same lanes and low registers, in which warps hold the highest bits of
    the axis: each warp has neighbours, which it combines in their order before others' come in.

    >>> line = Layout((512,), register=(1, 128, 256), lane=(2, 4, 8, 16, 32), warp=(64,))
    >>> print(warps_last(line, 0))
    #layout<shape=[512], register=[1,64,128], lane=[2,4,8,16,32], warp=[256]>
    """
    bits = set(axis_bases(layout.shape, axis))
    lowest = min((basis for basis in layout.warp if basis in bits), default=0)
    moved = [basis for basis in (*layout.register, *layout.warp) if basis in bits
             and basis >= lowest > 0]
    order = iter(sorted(moved))
    new = {basis: next(order) for bases in (layout.register, layout.warp)
           for basis in sorted(b for b in bases if b in moved)}
    return renumbered(layout, new)


