"""What layouts become under operations on shapes, and what emitters ask of them.

A transpose, a reshape or a new axis of extent 1 moves no data: the registers stay where they are
and only the bases are renamed.  A reduction drops the bits of its axis: the elements that differ in
those bits fold in the thread if the bits are register bits, by shuffles if they are lane bits and
through shared memory if they are warp bits; the result is replicated over the lanes and warps.

    >>> from tritonc.ir.layouts.layout import Layout
    >>> tile = Layout((8, 8), register=(1,), lane=(2, 4, 8, 16, 32), warp=())
    >>> transpose(tile, (1, 0)).lane
    (16, 32, 1, 2, 4)
    >>> reduction(tile, (1,))                 # rows: fold registers 0 and 1, then lanes xor 1 and 2
    Reduction(register=(0,), lane=(0, 1), warp=(), groups=((0, 1),))
    >>> print(slice_axes(tile, (1,)))            # the sum of each row, in four lanes
    #layout<shape=[8], register=[], lane=[0,0,1,2,4], warp=[]>
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from tritonc.ir.layouts.layout import Layout, axis_bases
from tritonc.records import NamedTuple


def axis_table(old_shape: Sequence[int], new_shape: Sequence[int],
               old_axes: Iterable[int]) -> dict[int, int]:
    """The renaming of bases when the i-th of `old_axes` becomes axis i."""
    return {
        old: new
        for axis, old_axis in enumerate(old_axes)
        for old, new in zip(axis_bases(old_shape, old_axis), axis_bases(new_shape, axis))}


def transpose(layout: Layout, permutation: Sequence[int]) -> Layout:
    """The layout of the tile whose axis i was axis `permutation[i]`.  No data moves."""
    if sorted(permutation) != list(range(len(layout.shape))):
        raise ValueError(f"{tuple(permutation)} does not permute the axes of {layout.shape}")
    shape = tuple(layout.shape[axis] for axis in permutation)
    table = axis_table(layout.shape, shape, permutation)
    return Layout(shape, *(tuple(table.get(basis, 0) for basis in bases)
                           for bases in (layout.register, layout.lane, layout.warp)))


def renumbered(layout: Layout, places: Mapping[int, int]) -> Layout:
    """The layout in which bits of an element's index stand where others did."""
    return Layout(layout.shape, *(tuple(places.get(basis, basis) for basis in bases)
                                  for bases in (layout.register, layout.lane, layout.warp)))


def reshape(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of the tile with the same row-major elements and another shape.  No data moves."""
    if prod(shape) != layout.size:
        raise ValueError(f"cannot reshape {layout.shape} to {shape}: the sizes differ")
    return Layout(shape, layout.register, layout.lane, layout.warp)


def repeat(layout: Layout, axis: int, extent: int) -> Layout:
    """The layout of a tile whose axis of extent 1 is repeated: a thread has all copies.

    >>> print(repeat(Layout((64, 1), (1,), (2, 4, 8, 16, 32), ()), 1, 2))
    #layout<shape=[64,2], register=[1,2], lane=[4,8,16,32,64], warp=[]>
    """
    shape = (*layout.shape[:axis], extent, *layout.shape[axis + 1:])
    inner = prod(layout.shape[axis + 1:])

    def wider(bases: Sequence[int]) -> tuple[int, ...]:
        return tuple(b % inner + b // inner * inner * extent for b in bases)

    return Layout(shape, (*axis_bases(shape, axis), *wider(layout.register)), wider(layout.lane),
                  wider(layout.warp))


def broadcasts(source: Layout, result: Layout) -> bool:
    """Whether each thread has the elements of `source` that a broadcast to `result` repeats."""
    table = {
        new: old
        for axis in range(len(result.shape))
        for new, old in zip(axis_bases(result.shape, axis), axis_bases(source.shape, axis))}
    threads = [table.get(basis, 0) for basis in result.thread]
    return _threads_alike(threads, source.thread) and all(
        table.get(basis, 0) in (0, *source.register) for basis in result.register)


def reduces(source: Layout, result: Layout, axes: Iterable[int]) -> bool:
    """Whether a reduction of `axes` leaves each thread the elements that `result` says."""
    natural = slice_axes(source, axes)
    return _threads_alike(natural.thread, result.thread) and all(
        basis in (0, *natural.register) for basis in result.register)


def _threads_alike(a: Sequence[int], b: Sequence[int]) -> bool:
    """Bases of equal threads; warps that are not named hold copies."""
    most = max(len(a), len(b))
    return [*a, *[0] * (most - len(a))] == [*b, *[0] * (most - len(b))]


def slice_axes(layout: Layout, axes: Iterable[int]) -> Layout:
    """The layout of a tile without `axes`, as after a reduction of them.

    Lane and warp bits that lay in the axes replicate; register bits that lay there, or that held
    copies, are dropped."""
    dropped = {_checked_axis(layout, axis) for axis in axes}
    kept = [axis for axis in range(len(layout.shape)) if axis not in dropped]
    shape = tuple(layout.shape[axis] for axis in kept)
    table = axis_table(layout.shape, shape, kept)
    register = tuple(table[basis] for basis in layout.register if basis in table)
    lane = tuple(table.get(basis, 0) for basis in layout.lane)
    warp = tuple(table.get(basis, 0) for basis in layout.warp)
    return Layout(shape, register, lane, warp)


def _checked_axis(layout: Layout, axis: int) -> int:
    rank = len(layout.shape)
    if not -rank <= axis < rank:
        raise ValueError(f"shape {layout.shape} has no axis {axis}")
    return axis % rank


class Reduction(NamedTuple):
    """Where the elements lie that a reduction combines.

    `register`, `lane`, `warp`: the numbers, ascending, of the bits inside the reduced axes.
    `groups[r]`: the source registers that fold, in a thread, into register r of the result (whose
    layout is `slice_axes`); each element once, in row-major order."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


def reduction(layout: Layout, axes: Iterable[int]) -> Reduction:
    """How to reduce a tile of `layout` along `axes`."""
    inside = 0
    for axis in axes:
        inside |= sum(axis_bases(layout.shape, _checked_axis(layout, axis)))
    register, lane, warp = (
        tuple(i for i, basis in enumerate(bases) if basis & inside)
        for bases in (layout.register, layout.lane, layout.warp))
    folded = sum(1 << i for i in register)
    groups: dict[int, list[int]] = {}
    for r in range(layout.registers):
        if not r & layout.replicated_registers:
            groups.setdefault(r & ~folded, []).append(r)
    ordered = tuple(tuple(sorted(group, key=layout.at)) for _, group in sorted(groups.items()))
    return Reduction(register, lane, warp, ordered)


def vector_width(layout: Layout, element_bits: int, alignment: int, axis: int = -1) -> int:
    """How many neighbours along `axis` a thread holds that one access of memory can move.

    `alignment`: a number of elements that divides the memory index of the first element of every
    aligned run (0 if any number does); where memory is contiguous only in runs, its greatest common
    divisor with the length of a run.  The width is a power of two of at most 128 bits."""
    width = 1
    for basis in axis_bases(layout.shape, axis) if layout.shape else ():
        wider = 2 * width
        if basis not in layout.register or alignment % wider or wider * element_bits > 128:
            break
        width = wider
    return width
