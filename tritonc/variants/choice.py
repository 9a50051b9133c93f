"""Which variant of a kernel a launch takes: the definition, in integers.

The manifest of a kernel with variants has `choice`, one of three rules.  `of` below is the argument
or the axis of the global range that gives a number; variant 0 is the general entry.

    {"rule": "first"}
    {"rule": "nearest", "sizes": [{"name": "M", "range": 0}, {"name": "K", "argument": 5}],
     "points": [{"size": [4096, 4096], "variant": 1}, ...]}
    {"rule": "cost", "loops": [{"factor": 1, "arguments": [5]}],
     "costs": [[processors, blocks, once, start, busy, wait, edge, [depth, ...]], ...],
     "aligned": [{"argument": 5, "multiple_of": 8}, {"arguments": [3, 4], "multiple_of": 8}],
     "large": [[128, 256], [processors, ...]]}  # the general entry's large body, if it has two

Behind the depths a row may have `parts`, `part` and `slow` (`Cost`); `slow` counts where a fact of
`aligned` does not hold.  Where variants are only planned, `large` may have a third element: the
variant that has two bodies.
Headers in C and launches from Python run these functions once, on words in place of integers
(`tritonc.variants.words`), so nothing here may depend on floats.
Numbers are cut off before they are multiplied, so that 64 bits hold every sum: whatever a launch is
given, the choice is some variant."""

from collections.abc import Mapping, Sequence
from typing import Any

from tritonc.records import NamedTuple

MOST_TILES = 1 << 24
MOST_STEPS = 1 << 18
MOST_BLOCKS = 1 << 5  # of a multiprocessor
MOST_CYCLES = 1 << 16  # of a step, in quarters
MOST_LENGTH = 1 << 31
# 128 x 64 takes 0.90 to 0.95 of the time of 64 x 128, where 128 rows are all (fp8_rowwise,
# fp8_block, int8_linear, in clusters of two, too), and for square ranges as long.
COVERED = 5  # bits
MOST_IN_MEMORY = 1024  # tiles of a variant whose blocks add up sums in memory
LEAST_PACKED = 132 * 32  # programs of a launch whose blocks have several: an H200 is full
MOST_PROGRAMS = (2**31 - 1, 65535, 65535)  # along each axis of a launch (CUDA, compute capability)
MOST_INDEX = (1 << 31) - 1  # an extent that indices of 32 bits number
Values = Sequence[Any] | Mapping[int, Any]  # of arguments, by their places
LARGEST = (1 << 63) - 1  # of what a logarithm is taken


class Cost(NamedTuple):
    """What a variant's time is made of; times are quarters of a clock cycle.

    A multiprocessor takes `busy` for a step of each of its blocks, and a block no less than `wait`,
    whatever runs beside it; all together take `edge` for a step of each row or column of a tile
    that lies beyond the range.  `start` is what a block does before and after its steps, `once`
    what a launch takes beside its blocks.
    `blocks` of 0 are one, and no launch takes the variant that has more tiles than `processors`.
    `depths`: how much of each loop around the product a step takes.
    The tiles of a last round are cut into `parts`, where each then has a processor (`last_round`):
    that round takes `part` for a step.
    `slow`: a step of a block whose operands come element by element, as their rows are not aligned.
    """

    processors: int
    blocks: int  # that a multiprocessor holds at a time
    once: int
    start: int
    busy: int
    wait: int
    edge: int = 0
    depths: tuple[int, ...] = ()
    parts: int = 0
    part: int = 0
    slow: int = 0


def select(test: Any, yes: Any, no: Any) -> Any:
    """`yes` where `test` holds, else `no`.  Numbers of this file may be integers, or what computes
    with them later: words of machine code (`launch.python.native`), arrays of many launches."""
    return (yes if test else no) if isinstance(test, bool) else test.select(yes, no)


def least(a: Any, b: Any) -> Any:
    return select(a < b, a, b)


def greatest(a: Any, b: Any) -> Any:
    return select(a > b, a, b)


def log2(number: Any) -> Any:
    """The logarithm in units of 2^-16, within 0.008; of numbers below 1, that of 1.

    A quadratic between powers of two.  It grows with the number.

    >>> log2(1024) / 65536, round(log2(1500) / 65536, 2), log2(-5)
    (10.0, 10.55, 0)
    """
    number = least(greatest(number, 1), LARGEST)
    exponent = number.bit_length() - 1
    part = number << 62 - exponent >> 46 & 0xFFFF
    return (exponent << 16) + part + ((part * (65536 - part) >> 16) * 22525 >> 16)


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    """How far two sizes are from each other: the sum of |log2(x / y)|.

    >>> distance((1024, 16), (512, 64)) / 65536
    3.0
    """
    return sum(abs(log2(x) - log2(y)) for x, y in zip(a, b, strict=True))


def _parts(extent: Any, part: int, most: int) -> Any:
    """How many parts of an extent there are; at most `most`."""
    return select(extent > 0, least((extent - 1) // part + 1, most), 0)


def count(tile: Sequence[int], extents: Sequence[Any]) -> Any:
    """How many tiles there are."""
    tiles: Any = 1
    for extent, part in zip(extents, tile):
        tiles = least(tiles * _parts(extent, part, MOST_TILES), MOST_TILES)
    return tiles


def time(cost: Sequence[Any], tile: Sequence[int], extents: Sequence[Any],
         lengths: Sequence[Any]) -> Any:
    """A variant's time for a global range and the lengths of its loops.

    1024 tiles are 8 for each of 132 multiprocessors, twice 3 at a time and once 2:

    >>> time(Cost(132, 3, 50, 0, 100, 250, 0, (64,)), (128, 128), (4096, 4096), (640,))
    8550
    """
    return time_of(cost, count(tile, extents), *fit(tile, extents), steps_of(cost[7], lengths))


def fit(tile: Sequence[int], extents: Sequence[Any]) -> tuple[Any, Any]:
    """How many rows and columns of all tiles lie beyond the range, and whether one tile covers it
    along one of two axes, so that nobody else reads the other operand.

    >>> fit((128, 64), (200, 128)), fit((128, 64), (256, 60))
    ((112, False), (8, True))
    """
    beyond: Any = 0
    covered: Any = False
    for axis, (extent, part) in enumerate(zip(extents, tile)):
        last = extent % part
        others = count([*tile[:axis], *tile[axis + 1:]], [*extents[:axis], *extents[axis + 1:]])
        beyond += select((extent > 0) & (last > 0), (part - last) * others, 0)
        covered |= axis < 2 <= len(tile) and extent <= part
    return beyond, covered


def steps_of(depths: Sequence[int], lengths: Sequence[Any]) -> Any:
    """How many steps loops of such lengths take; one depth more than loops is how many blocks share
    the steps of all.

    >>> steps_of((32, 1), (49, 30)), steps_of((32, 1, 8), (49, 30))
    (60, 8)
    """
    steps: Any = 1
    for length, depth in zip(lengths, depths):
        steps = least(steps * _parts(length, depth, MOST_STEPS), MOST_STEPS)
    for blocks in depths[len(lengths):]:
        steps = (steps + blocks - 1) // blocks
    return steps


def time_of(cost: Sequence[Any], tiles: Any, beyond: Any, covered: Any, steps: Any) -> Any:
    """A variant's time for so many tiles of so many steps; `beyond`, `covered` as `fit` says."""
    processors, blocks, once, start, busy, wait, edge, _, *cut = cost
    most, beside = (tiles + processors - 1) // processors, max(blocks, 1)
    waves, rest = most // beside, most % beside
    full = start + steps * greatest(wait, beside * busy)
    last = start + steps * greatest(wait, rest * busy)
    taken = once + waves * full + select(rest > 0, last, 0) + steps * (beyond * edge // processors)
    if cut and cut[0]:
        left = tiles % processors
        fits = (tiles > processors) & (left > 0) & (left * cut[0] <= processors)
        taken = select(fits, taken - full + start + steps * cut[1], taken)
    taken -= select(covered, taken >> COVERED, 0)
    return taken if blocks else select(most > 1, LARGEST, taken)


def stepping(cost: Sequence[Any], aligned: Any) -> Sequence[Any]:
    """The cost of a launch whose operands have aligned rows, or have not.

    >>> stepping(Cost(132, 3, 50, 0, 100, 250, 0, (64,), 0, 0, 200), False)[:6]
    [132, 3, 50, 0, 200, 250]
    """
    if not any(cost[10:]):
        return cost
    return [*cost[:4], *(select(aligned, each, max(each, cost[10])) for each in cost[4:6]),
            *cost[6:]]


def length(of: Mapping[str, Any], arguments: Values) -> Any:
    """How long a loop is: a product, cut off at every factor.

    >>> length({"factor": 9, "arguments": [1]}, [None, 64]), length({"arguments": [0]}, [-5])
    (576, 0)
    """
    found = of.get("factor", 1)
    for place in of["arguments"]:
        found = least(found * least(greatest(arguments[place], 0), MOST_LENGTH), MOST_LENGTH)
    return found


def choose(choice: Mapping[str, Any], tiles: Sequence[Sequence[int]], allowed: Sequence[Any],
           extents: Sequence[Any], arguments: Values) -> Any:
    """The number of the variant to launch.

    `tiles` has the tile of each variant, the general one first; `allowed` says which variants may
    run, the general one always; `arguments` are the launch's, of which only integers that the rule
    names are looked at."""
    rule = choice["rule"]
    ranked: list[tuple[int, Any]]  # variants, and how bad each is
    if rule == "cost":
        lengths = [length(of, arguments) for of in choice["loops"]]
        aligned = all_hold(choice.get("aligned", ()), extents, arguments)
        ranked = [(v, time(stepping(cost, aligned), tile, extents, lengths))
                  for v, tile, cost in timed(choice, tiles)]
    elif rule == "nearest":
        given = [log2(number(of, extents, arguments)) for of in choice["sizes"]]
        ranked = [(point["variant"],
                   sum([abs(log2(a) - b) for a, b in zip(point["size"], given, strict=True)]))
                  for point in choice["points"]]
    else:
        ranked = [(v, v) for v in range(1, len(tiles))]
    best, fewest = 0, LARGEST
    for v, found in ranked:
        better = allowed[v] & (found < fewest)
        best, fewest = select(better, v, best), select(better, found, fewest)
    return best


def timed(choice: Mapping[str, Any], tiles: Sequence[Sequence[int]]
          ) -> list[tuple[int, Sequence[int], Sequence[Any]]]:
    """The variants in the order in which equal ones are taken, with their tiles and costs; the
    general one comes last, but for the large body of an entry with two."""
    rows = [*zip(range(len(tiles)), tiles, choice["costs"], strict=True)]
    tile, cost, *number = choice.get("large", ((), ()))
    return [*rows[1:], rows[0], *([(number[0] if number else 0, tile, cost)] if cost else [])]


def number(of: Mapping[str, Any], extents: Sequence[Any], arguments: Values) -> Any:
    """What `{"argument": 5}`, a product of `{"arguments": [5, 6]}`, `{"range": 0}` or, by tiles,
    `{"programs": [64, 1]}` is in a launch."""
    if "arguments" in of:
        return length(of, arguments)
    if "programs" in of:
        return count(of["programs"], extents)
    return arguments[of["argument"]] if "argument" in of else extents[of["range"]]


def reach(tile: int, axis: int) -> int:
    """The greatest extent that tiles of this extent can cover: indices have 32 bits, and a grid
    has 65535 tiles along axes 1 and 2.

    >>> reach(64, 0) == 2**31, reach(16, 1), reach(48, 0)
    (True, 1048560, 2147483616)
    """
    count = (1 << 31) // tile
    return tile * (min(count, MOST_PROGRAMS[axis]) if axis else count)


def block_shape(threads: int, programs: int, tile: int, extent: int) -> tuple[int, int, int]:
    """The block of a launch over an extent along axis 0, by tiles of which each has up to four
    programs: y and z say how many the last one lacks, which the kernel is told by nothing else.

    >>> block_shape(32, 1, 8, 9), [block_shape(128, 4, 4, extent) for extent in (8, 7, 6, 5)]
    ((32, 1, 1), [(128, 1, 1), (64, 1, 2), (64, 2, 1), (32, 2, 2)])
    """
    lacking = -extent // (tile // programs) % programs
    y, z = (lacking >> 1) + 1, (lacking & 1) + 1
    return threads // (y * z), y, z


def holds(fact: Mapping[str, int], value: Any) -> Any:
    """Whether a number, or an address, is what a variant requires.

    >>> holds({"multiple_of": 8}, 64), holds({"at_least": 1, "at_most": 1}, 2)
    (True, False)
    """
    found = value % fact.get("multiple_of", 1) == 0
    if "at_least" in fact:
        found &= value >= fact["at_least"]
    return found & (value <= fact["at_most"]) if "at_most" in fact else found


def all_hold(facts: Sequence[Mapping[str, Any]], extents: Sequence[Any], values: Values) -> Any:
    """Whether a launch has all of these facts."""
    found: Any = True
    for fact in facts:
        found &= holds(fact, number(fact, extents, values))
    return found


def is_in_memory(variant: Mapping[str, Any]) -> bool:
    """Whether a variant of the manifest takes memory of the launch for sums."""
    return int(variant["tunables"].get("memory_k", 1)) > 1


def allowed(requires: Sequence[Mapping[str, Any]], tile: Sequence[int], extents: Sequence[Any],
            values: Values, in_memory: bool = False) -> Any:
    """Whether a variant may run.  `values`: arguments as signed numbers, addresses of pointers."""
    found = True
    for axis, part in enumerate(tile):
        found &= extents[axis] <= reach(part, axis)
    if in_memory:
        found &= count(tile, extents) <= MOST_IN_MEMORY
    return found & all_hold(requires, extents, values)


def restricted(choice: Mapping[str, Any], kept: Sequence[int]) -> dict[str, Any]:
    """The choice if of variants 1, 2, ... only those of the numbers `kept` were there, as 1, 2...

    >>> restricted({"rule": "cost", "costs": [[0], [1], [2]]}, [2])
    {'rule': 'cost', 'costs': [[0], [2]]}
    """
    found = dict(choice)
    numbers = {old: new for new, old in enumerate((0, *kept))}
    if "costs" in choice:
        found["costs"] = [choice["costs"][old] for old in numbers]
    if "points" in choice:
        found["points"] = [{**point, "variant": numbers[point["variant"]]}
                           for point in choice["points"] if point["variant"] in numbers]
    return found
