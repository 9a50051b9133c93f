"""What a program does in a launch: its loops, accesses of memory, operations and reductions.

Each loop is a `Region`; the first region is what lies in no loop.  An operation counts in the
outermost region in which it can run, once however often it is written (`licm` and `cse` come
later).  An access says how its addresses move along each axis of its tile, from one iteration of
each loop around it to the next, and from program to program, so that `traffic` finds what is
brought again; and how much of it takes part, by its mask in the middle and at the end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from math import prod

from tritonc.analysis.values import constant_of, origin
from tritonc.analysis.work.numbers import Numbers
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, element, is_float, is_int, is_pointer, scalar, shape
from tritonc.records import NamedTuple, dataclass

SECTOR = 32  # bytes that caches deliver at least
UNKNOWN_TRIPS = 24.0  # of a loop that ends by what it computes
_MOST = 2.0 ** 40  # iterations of a program
_FEW, _SAMPLE = 8, 64  # elements by which addresses are judged, and if those are not even
# Issue slots of an operation on 32 elements, by name: those of the special function unit have a
# quarter of the rate or less, and take others beside; of all others 1.
SLOTS = {"exp": 10, "exp2": 6, "log": 10, "log2": 6, "sqrt": 12, "rsqrt": 6, "sin": 24, "cos": 24,
         "tanh": 20, "erf": 24, "fdiv": 10, "pow": 30}
_BY_CONSTANT, _BY_NUMBER = 4, 20  # of quotients
_FREE = frozenset("""splat broadcast reshape trans constant range get_global_range get_program_id
    get_num_programs phi cmpp assume_multiple assume bitcast""".split())
_QUOTIENTS = ("sdiv", "udiv", "srem", "urem")
_COMBINES = ("reduce", "scan", "reduce_with", "scan_with")


@dataclass
class Access:
    """`strides`: bytes from one element to the next along each axis, None where that is anything;
    `moves` and `loops`: the same from program to program, and from iteration to iteration of the
    loops around it, the innermost first; `valid`: the part that takes part, of what is `masked`,
    `lengths`: how far it reaches along each axis in the middle of the launch; `run`: how many
    neighbours follow each other; `led`: where it is follows from what is loaded."""

    name: str
    extents: tuple[int, ...]
    size: int
    base: int | None  # the parameter's place; None where nothing is known
    address: int
    strides: list[float | None]
    run: int
    moves: list[int | None]
    loops: list[int | None]
    valid: float
    led: bool
    masked: bool
    lengths: tuple[float, ...]

    @property
    def elements(self) -> int:
        return prod(self.extents)


class Combined(NamedTuple):
    """A reduction or a scan; `inner`: the axis along which the tile lies in memory, None where it
    is computed; `run`: elements of an access along it."""

    name: str
    extents: tuple[int, ...]
    axes: tuple[int, ...]
    words: float  # of an element
    inner: int | None = None
    run: int = 1


@dataclass
class Region:
    """`parent` is a region's place; `known`: whether anybody can say how often it runs but by what
    it computes; `operations`: elements, slots, and whether an operation only
    computes where something is; `carried`: the elements of tiles, with their bytes."""

    depth: int
    parent: int
    trips: float
    iterations: float  # of a program, in all
    known: bool = True
    operations: list[tuple[int, float, bool]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    combined: list[Combined] = field(default_factory=list)
    carried: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Work:
    """`largest`: the elements of the largest tile; `grid`: the programs along each axis."""

    largest: int
    grid: tuple[int, ...]
    regions: list[Region]


def work_of(kernel: Kernel, parameters: Mapping[str, int], grid: Sequence[int]) -> Work:
    """Of a launch with these numbers by parameters' names, on so many programs."""
    return _Reader(kernel, parameters, grid).work()


class _Reader:
    def __init__(self, kernel: Kernel, parameters: Mapping[str, int], grid: Sequence[int]) -> None:
        self.kernel, self.grid = kernel, grid
        self.numbers = Numbers(kernel, parameters, dict(enumerate(grid)))
        self.cfg = self.numbers.cfg
        self.middle = {axis: (count - 1) // 2 for axis, count in enumerate(grid)}
        self.numbers.move(self.middle, {})
        self.places: dict[Loop | None, int] = {None: 0}
        self.regions = [Region(0, 0, 1.0, 1.0)]
        for loop in sorted(self.cfg.loops, key=lambda loop: loop.depth):
            parent = self.places[loop.parent]
            found, sure = self.numbers.trips(loop, self._iterations(loop.parent))
            trips = UNKNOWN_TRIPS if found is None else float(found)
            trips = min(trips, max(1.0, _MOST / max(1.0, self.regions[parent].iterations)))
            self.places[loop] = len(self.regions)
            self.regions.append(Region(
                loop.depth, parent, trips, trips * self.regions[parent].iterations, sure))

    def _iterations(self, loop: Loop | None, last: Loop | None = None) -> dict[Block, int]:
        """Those in the middle of the loops around, but for one in its last."""
        found = {}
        while loop is not None:
            trips = int(self.regions[self.places[loop]].trips)
            found[loop.header] = max(0, trips - 1 if loop is last else (trips - 1) // 2)
            loop = loop.parent
        return found

    def _taken(self) -> set[Block]:
        """The blocks to which branches lead, those that leave loops either way."""
        found, stack = set[Block](), [self.cfg.order[0]]
        while stack:
            block = stack.pop()
            if block in found:
                continue
            found.add(block)
            loop, end = self.cfg.innermost.get(block), block.terminator
            ways = list(end.blocks)
            if end.name == "cond_br" and (loop is None or all(way in loop for way in ways)):
                self.numbers.move(self.middle, self._iterations(loop))
                condition = self.numbers.at(end.operands[0])
                ways = ways if condition is None else [ways[condition == 0]]
            stack += ways
        return found

    def work(self) -> Work:
        homes: dict[Value, int] = {}  # the depths of loops in which values have to be
        same: dict[Value, Value] = {}
        seen: dict[Hashable, Op] = {}
        led: set[Value] = set()
        largest = 1
        taken = self._taken()
        for loop, place in self.places.items():
            if loop is not None and loop.header not in taken:
                self.regions[place].iterations = 0.0
        for block in self.cfg.order:
            loop = self.cfg.innermost.get(block)
            for op in block.ops if block in taken else ():
                inputs = [same.get(v, v) for v in op.inputs()]
                fixed, home = op.effects or op.name == "phi", loop
                depth = max((homes.get(v, 0) for v in inputs), default=0)
                while not fixed and home is not None and home.depth > depth:
                    home = home.parent
                homes.update((v, home.depth if home is not None else 0) for v in op.results)
                if op.name == "load" or not led.isdisjoint(op.operands) or (
                        op.name == "phi" and is_float(op.result.type)):
                    led.update(op.results)
                largest = max(largest, *(_size(v) for v in op.results), 1)
                if not fixed and op.results:
                    key = (op.name, *inputs, repr(op.attributes), *(v.type for v in op.results))
                    if (twin := seen.setdefault(key, op)) is not op:
                        same.update((v, same.get(w, w)) for v, w in zip(
                            op.results, twin.results, strict=True))
                        continue
                self._count(op, loop, self.regions[self.places[home]], led)
        for region in self.regions:
            region.combined = [self._laid_out(one) for one in region.combined]
        return Work(largest, (*self.grid,), self.regions)

    def _laid_out(self, one: Combined) -> Combined:
        """The same, as an access of such a tile says how it lies in memory."""
        for region in self.regions:
            for access in region.accesses:
                if access.extents == one.extents:
                    inner = next((axis for axis, (step, n) in enumerate(zip(
                        access.strides, access.extents, strict=True))
                        if n > 1 and step == access.size), len(one.extents) - 1)
                    return one._replace(inner=inner, run=max(1, min(
                        16 // access.size, access.run)))
        return one

    def _count(self, op: Op, loop: Loop | None, region: Region, led: set[Value]) -> None:
        if op.name in _COMBINES:
            t, axes = op.operands[0].type, op.attributes.get("axes") or [op.attributes["axis"]]
            region.combined.append(Combined(op.name, shape(t), (*axes,), max(1.0, sum(
                element(v.type).bytes / 4 for v in op.operands if isinstance(v.type, Tile)))))
        elif op.operands and is_pointer(op.operands[0].type) and op.effects:
            region.accesses.append(self._access(op, loop, op.operands[0] in led))
        elif op.name == "phi":
            if loop is not None and isinstance(op.result.type, Tile) and (
                    self.cfg.block_of[op] is loop.header):
                region.carried.append((_size(op.result), element(op.result.type).bytes))
        elif op.results and op.name not in _FREE:
            t = op.result.type
            index = (is_int(t) or is_pointer(t)) and op.result not in led
            region.operations.append((_size(op.result), _slots(op), index))

    def _access(self, op: Op, loop: Loop | None, led: bool) -> Access:
        pointer, numbers = op.operands[0], self.numbers
        extents, size = shape(pointer.type), scalar(pointee(pointer.type)).bytes
        around, zero = self._iterations(loop), (0,) * len(extents)
        numbers.move(self.middle, around)
        start = numbers.at(pointer, zero)
        if start is None:
            return Access(op.name, extents, size, None, 0, [None] * len(extents), 1, [], [],
                          self._part(op, loop), True, op.guard is not None, extents)
        strides, run = list[float | None](), 1
        for axis, extent in enumerate(extents):
            def places(sample: Iterable[int], axis: int = axis) -> list[int | None]:
                return [numbers.at(pointer, (*zero[:axis], i, *zero[axis + 1:])) for i in sample]

            few = sorted({0, 1, 2, 3, extent // 2, extent // 2 + 1, extent - 1})
            known = places(few if extent > _FEW else range(extent))
            step = 0 if extent == 1 or known[1] is None else known[1] - start
            if extent == 1:
                strides.append(0)
            elif None in known:
                strides.append(None)
            elif all(place == start + i * step for i, place in zip(
                    few if extent > _FEW else range(extent), known, strict=True)):
                strides.append(abs(step))
                run = max(run, extent if abs(step) == size else 1)
            else:
                sample = [place for place in places(range(min(extent, _SAMPLE)))
                          if place is not None]
                sectors = len({place // SECTOR for place in sample})
                strides.append(sectors * SECTOR / len(sample))
                run = max(run, _run([place - start for place in sample], size))

        def change(program: Mapping[int, int], iterations: Mapping[Block, int]) -> int | None:
            numbers.move(program, iterations)
            place = numbers.at(pointer, zero)
            return None if place is None else abs(place - start)

        moves = [change({**self.middle, axis: self.middle[axis] + (
            1 if self.middle[axis] + 1 < count else -1)}, around) if count > 1 else 0
            for axis, count in enumerate(self.grid)]
        loops, each = list[int | None](), loop
        while each is not None:
            trips = self.regions[self.places[each]].trips
            loops.append(change(self.middle, {**around, each.header: around[each.header] + 1})
                         if trips > 1 else 0)
            each = each.parent
        return Access(op.name, extents, size, start >> 40, start & ((1 << 40) - 1), strides, run,
                      moves, loops, self._part(op, loop), led, op.guard is not None, tuple(
                          n * part for n, part in zip(extents, self._valid(
                              op, self.middle, around), strict=False)))

    def _part(self, op: Op, loop: Loop | None) -> float:
        """The part of an access that takes part: in the middle, and in the last program along each
        axis and the last iteration of each loop."""
        around = self._iterations(loop)
        found = middle = prod(self._valid(op, self.middle, around))
        ends = [(float(count), prod(self._valid(op, {**self.middle, axis: count - 1}, around)))
                for axis, count in enumerate(self.grid)]
        each = loop
        while each is not None:
            ends.append((self.regions[self.places[each]].trips, prod(self._valid(
                op, self.middle, self._iterations(loop, each)))))
            each = each.parent
        for count, last in ends:
            if middle > 0 and count > 0:
                found *= max(0.0, count - 1 + min(1.0, last / middle)) / count
        return min(1.0, found)

    def _valid(self, op: Op, program: Mapping[int, int], iterations: Mapping[Block, int]
               ) -> list[float]:
        """The part of each axis of a tile that takes part: what lies before the first element that
        does not."""
        found = [1.0] * max(1, len(shape(op.operands[0].type)))
        if op.guard is None:
            return found
        self.numbers.move(program, iterations)
        extents, guard = shape(op.guard.type), op.guard
        if not extents:
            return [float(self.numbers.at(guard) != 0), *found[1:]]
        for axis, extent in enumerate(extents):
            inside = [min(1, n - 1) for n in extents]

            def holds(place: int, axis: int = axis, inside: list[int] = inside) -> bool:
                return self.numbers.at(guard, (*inside[:axis], place, *inside[axis + 1:])) != 0

            if extent > 1 and not holds(extent - 1):
                low, high = -1, extent - 1
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if holds(middle) else (low, middle)
                found[axis] = (low + 1) / extent
        return found


def _run(places: Sequence[int], size: int) -> int:
    """How many elements follow each other, at least as many as a power of two."""
    count = next((i for i, place in enumerate(places) if place != i * size), len(places))
    return 1 << max(1, count).bit_length() - 1


def _size(value: Value) -> int:
    return value.type.size if isinstance(value.type, Tile) else 1


def _slots(op: Op) -> float:
    if op.name in _QUOTIENTS:
        return _BY_NUMBER if constant_of(origin(op.operands[1])) is None else _BY_CONSTANT
    wide = element(op.result.type).bytes > 4 and not is_pointer(op.result.type)
    return SLOTS.get(op.name, 1) * (2 if wide else 1)
