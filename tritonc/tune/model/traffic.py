"""The bytes that a launch moves through each level of memory, from what a program does (`work`).

What an access touches is a box: elements along each axis of its tile, iterations of each loop
around it, programs along each axis of the grid, each so many bytes from the next.  Axes whose steps
are no longer than what lies within a step join into one piece of memory; others repeat pieces.  So
neighbours that overlap, as taps of a filter, count once, and rows that every program reads count
once for all.

A cache of a program's share holds what an iteration of a loop touches, or it does not: then the
next iteration brings it again.  In between, the part that fits is found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tritonc.analysis.work.work import SECTOR, Access, Region, Work
from tritonc.records import cached_property

_MISALIGNED = 0.5  # sectors more of a piece that begins anywhere
_SHORT = 10  # bytes of memory's time that each piece takes beside its own
_AGAIN = 0.7  # of what all programs read: found in the first cache
_FAR = 1 << 50
_KEPT = 0.6  # of the second cache: what all programs read stays there
_NEAR = 0.9  # of a piece: accesses that begin no farther apart read the same
_ROWS = 4  # rows of a tile; the same of rows beside it, as of taps

Axis = tuple[float | None, float]  # bytes from one to the next, how many


def pieces(axes: Iterable[Axis], size: int) -> tuple[float, float]:
    """How many pieces of memory a box is, and the bytes of each."""
    length = float(size)
    rows: list[tuple[float, float]] = []  # how far pieces are apart, how many there are
    for step, extent in sorted((_FAR if step is None else step, n) for step, n in axes):
        if not step or extent <= 1:
            continue
        if not rows and step <= max(length, SECTOR - 1) + 1:
            length += step * (extent - 1)
        elif rows and step < rows[-1][0] * rows[-1][1] and step < _FAR:
            apart, count = rows[-1]
            rows[-1] = apart, count + step / apart * (extent - 1)
        else:
            rows.append((step, extent))
    return prod(count for _, count in rows), length


class Touched:
    """An access in its loops: `levels` are the bytes that one iteration touches, all iterations of
    the innermost loop, of the next one, and so on; `all` those of the launch."""

    def __init__(self, access: Access, place: int, chain: Sequence[int], work: Work) -> None:
        self.access, self.place, self.chain = access, place, chain
        self.trips = [work.regions[i].trips for i in chain]
        tile: list[Axis] = list(zip(access.strides, access.lengths, strict=True))
        # What is not masked in the middle, but at the end.
        part = access.valid * access.elements / max(1.0, prod(access.lengths)) if (
            access.valid > 0) else 0.0
        loops: list[Axis] = list(zip(access.loops, self.trips, strict=False))
        self.known = access.base is not None
        count, self.piece = pieces(tile, access.size)
        self.apart = 1.0 if count == 1 else 1 + _SHORT / max(SECTOR, self.piece)
        far = [s for s, n in tile if n > 1 and s != access.size]
        misaligned = access.address % SECTOR or any(s is None or s % SECTOR for s in far) or any(
            m % SECTOR for m in access.moves if m)
        sectors = -(-self.piece // SECTOR) + (_MISALIGNED if misaligned else 0)
        self.levels = [count * sectors * SECTOR * part]
        for i, trips in enumerate(self.trips):
            count, length = pieces([*tile, *loops[:i + 1]], access.size)
            self.levels.append(self.levels[-1] * trips if not self.known else min(max(
                count * max(length, SECTOR) * part, self.levels[-1]),
                self.levels[-1] * max(1.0, trips)))
        programs = prod(work.grid)
        times = work.regions[place].iterations * programs
        count, length = pieces([*tile, *loops, *zip(access.moves, work.grid, strict=False)],
                               access.size)
        self.all = self.levels[0] * times
        if self.known:
            self.all = min(self.all, count * max(length, SECTOR if count > 1 else 0) * part)
        if not access.led:  # neighbours have what else is in a sector
            self.all = min(self.all, access.elements * access.size * access.valid * times)

    @property
    def shared(self) -> bool:
        """Whether all programs read the same."""
        return self.known and not any(self.access.moves)

    @property
    def program(self) -> float:
        """The bytes that a program touches."""
        return self.levels[-1]

    def beside(self, other: Touched) -> bool:
        """Whether both read the same, or nearly so."""
        if not (self.known and other.known):
            return not (self.known or other.known)
        apart = abs(self.access.address - other.access.address)
        return apart < _NEAR * max(self.piece, other.piece) + 1 or any(
            s is not None and s > self.access.size and abs(apart - s) <= _ROWS * s
            for s in self.access.strides)


class Traffic:
    """What a kernel's programs touch, in groups that read the same."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.chains = [_chain(work.regions, i) for i in range(len(work.regions))]
        self.loads: list[list[Touched]] = []
        self.stores: list[Touched] = []
        self.of: dict[int, Touched] = {}  # by the access's id
        for place, region in enumerate(work.regions):
            for access in region.accesses:
                one = self.of[id(access)] = Touched(access, place, self.chains[place], work)
                if access.name != "load":
                    if access.name == "store" or not access.led:  # few places, mostly
                        self.stores.append(one)
                    continue
                group = next((group for group in self.loads
                              if group[0].access.base == access.base and group[0].beside(one)),
                             None)
                if group is None:
                    self.loads.append([one])
                else:
                    group.append(one)

    @property
    def moved(self) -> float:
        """The most elements that a masked access of a launch moves, but for what all programs read.
        """
        return prod(self.work.grid) * max((
            one.access.elements * one.access.valid * self.work.regions[one.place].iterations
            for group in (*self.loads, self.stores) for one in group
            if one.access.masked and not one.shared),
            default=0.0)

    @cached_property
    def held(self) -> dict[int, tuple[float, float, float]]:
        """The bytes that an iteration of each loop touches, 0: that a program does: what it loads
        alone, what all programs load, and what it stores."""
        return {loop: (
            sum(_most(group, loop) for group in self.loads if not group[0].shared),
            sum(_most(group, loop) for group in self.loads if group[0].shared),
            sum(_most([one], loop) for one in self.stores))
            for loop in range(len(self.work.regions))}

    def missed(self, group: Sequence[Touched], cache: float, programs: float, stores: bool
               ) -> float:
        """The bytes that a program brings of a group, by a cache that so many programs share, and
        that keeps what they store, or not."""
        def mixed(loop: int, found: float, missed: float) -> float:
            own, shared, stored = self.held[loop]
            held = programs * (own + stored * stores) + shared
            fits = min(1.0, cache / max(1.0, held)) ** 2
            return fits * found + (1 - fits) * missed

        by_region: dict[int, float] = {}
        for one in group:
            found = one.levels[0]
            for level, (loop, trips) in enumerate(zip(one.chain, one.trips, strict=True), 1):
                found = mixed(loop, min(one.levels[level], found * trips), found * trips)
            by_region[one.place] = max(by_region.get(one.place, 0.0), found)
        return mixed(0, max(by_region.values()), sum(by_region.values()))

    def bytes(self, near: float, far: float, beside: float, resident: float
              ) -> tuple[float, float]:
        """Those of a launch between both caches, which have `near` and `far` bytes, and between the
        second one and memory; `beside`: the programs that share the first one, of `resident`."""
        programs = prod(self.work.grid)
        second = memory = sum(
            programs * one.levels[0] * one.apart * self.work.regions[one.place].iterations
            for one in self.stores)
        for group in self.loads:
            every = max(one.all for one in group)
            brought = programs * self.missed(group, near, beside, False)
            if group[0].shared:  # what the program before has brought
                brought *= 1 - _AGAIN * min(1.0, near / max(1.0, beside * self.held[0][0])) ** 2
            second += brought
            again = min(brought, programs * self.missed(group, far, resident, True))
            each = max(one.program for one in group)  # which several programs may share
            memory += group[0].apart * (min(every, brought) if every < _KEPT * far else (
                again * min(1.0, every / max(1.0, programs * each))))
        return second, memory


def _most(group: Sequence[Touched], loop: int) -> float:
    """The bytes that an iteration of a loop touches of a group, 0: that a program does."""
    return max((one.levels[one.chain.index(loop) if loop else -1] for one in group
                if not loop or loop in one.chain), default=0.0)


def _chain(regions: Sequence[Region], place: int) -> list[int]:
    """The loops around a region, and itself if it is one, the innermost first."""
    found = []
    while place:
        found.append(place)
        place = regions[place].parent
    return found
