"""Which variant of a kernel a launch takes: the definition, in integers.

The manifest of a kernel with variants has `choice`, one of three rules.  `of` below is the argument
or the axis of the global range that gives a number; variant 0 is the general entry.

    {"rule": "first"}
    {"rule": "nearest", "sizes": [{"name": "M", "range": 0}, {"name": "K", "argument": 5}],
     "points": [{"size": [4096, 4096], "variant": 1}, ...]}
    {"rule": "cost", "loops": [{"factor": 1, "arguments": [5]}],
     "costs": [[processors, blocks, once, start, busy, wait, edge, [depth, ...]], ...]}

Headers have the same in C (`launch/header_choice.py`), so nothing here may depend on floats.
Numbers are cut off before they are multiplied, so that 64 bits hold every sum: whatever a launch is
given, the choice is some variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MOST_TILES = 1 << 24
MOST_STEPS = 1 << 18
MOST_BLOCKS = 1 << 5  # of a multiprocessor
MOST_CYCLES = 1 << 16  # of a step, in quarters
MOST_LENGTH = 1 << 31
LARGEST = (1 << 63) - 1  # of what a logarithm is taken


class Cost(NamedTuple):
    """What a variant's time is made of; times are quarters of a clock cycle.

    A multiprocessor takes `busy` for a step of each of its blocks, and a block no less than `wait`,
    whatever runs beside it; where the tiles do not divide the range, `edge` more.  `start` is what
    a block does before and after its steps, `once` what a launch takes beside its blocks.
    `blocks` of 0 are one, and no launch takes the variant that has more tiles than `processors`.
    `depths`: how much of each loop around the product a step takes.
    """

    processors: int
    blocks: int  # that a multiprocessor holds at a time
    once: int
    start: int
    busy: int
    wait: int
    edge: int = 0
    depths: tuple[int, ...] = ()


def log2(number: int) -> int:
    """The logarithm in units of 2^-16, within 0.008; of numbers below 1, that of 1.

    A quadratic between powers of two.  It grows with the number.

    >>> log2(1024) / 65536, round(log2(1500) / 65536, 2), log2(-5)
    (10.0, 10.55, 0)
    """
    if number <= 1:
        return 0
    number = min(number, LARGEST)
    exponent = number.bit_length() - 1
    part = (number >> exponent - 16 if exponent >= 16 else number << 16 - exponent) & 0xFFFF
    return (exponent << 16) + part + ((part * (65536 - part) >> 16) * 22525 >> 16)


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    """How far two sizes are from each other: the sum of |log2(x / y)|.

    >>> distance((1024, 16), (512, 64)) / 65536
    3.0
    """
    return sum(abs(log2(x) - log2(y)) for x, y in zip(a, b, strict=True))


def time(cost: Sequence[Any], tile: Sequence[int], extents: Sequence[int],
         lengths: Sequence[int]) -> int:
    """A variant's time for a global range and the lengths of its loops.

    1024 tiles are 8 for each of 132 multiprocessors, twice 3 at a time and once 2:

    >>> time(Cost(132, 3, 50, 0, 100, 250, 0, (64,)), (128, 128), (4096, 4096), (640,))
    8550
    """
    processors, blocks, once, start, busy, wait, edge = (int(n) for n in cost[:7])
    depths: Sequence[int] = cost[7]
    tiles = 1
    for extent, part in zip(extents, tile):
        if extent <= 0:
            tiles = 0
            break
        if extent % part:
            wait += edge
            edge = 0
        tiles *= min((extent - 1) // part + 1, MOST_TILES)
        if tiles > MOST_TILES:
            tiles = MOST_TILES
    steps = 1
    for length, depth in zip(lengths, depths):
        steps *= min((length - 1) // depth + 1, MOST_STEPS) if length > 0 else 0
        if steps > MOST_STEPS:
            steps = MOST_STEPS
    if blocks == 0 and tiles > processors:
        return LARGEST
    alone = steps * wait
    waves, rest = divmod((tiles + processors - 1) // processors, max(blocks, 1))
    taken = once + waves * (start + max(alone, steps * blocks * busy))
    return taken + start + max(alone, steps * rest * busy) if rest else taken


def length(of: Mapping[str, Any], arguments: Sequence[Any]) -> int:
    """How long a loop is: a product, cut off at every factor.

    >>> length({"factor": 9, "arguments": [1]}, [None, 64]), length({"arguments": [0]}, [-5])
    (576, 0)
    """
    found = int(of.get("factor", 1))
    for place in of["arguments"]:
        found = min(found * min(max(int(arguments[place]), 0), MOST_LENGTH), MOST_LENGTH)
    return found


def choose(choice: Mapping[str, Any], tiles: Sequence[Sequence[int]], allowed: Sequence[bool],
           extents: Sequence[int], arguments: Sequence[Any]) -> int:
    """The number of the variant to launch.

    `tiles` has the tile of each variant, the general one first; `allowed` says which variants may
    run, the general one always; `arguments` are the launch's, of which only integers that the rule
    names are looked at.
    """
    rule = choice["rule"]
    best, least = 0, None
    if rule == "cost":
        lengths = [length(of, arguments) for of in choice["loops"]]
        costs = choice["costs"]
        for v in range(1, len(tiles)):
            if allowed[v]:
                taken = time(costs[v], tiles[v], extents, lengths)
                if least is None or taken < least:
                    best, least = v, taken
        if least is None or time(costs[0], tiles[0], extents, lengths) < least:
            return 0
        return best
    if rule == "nearest":
        given = [log2(number(of, extents, arguments)) for of in choice["sizes"]]
        for point in choice["points"]:
            if allowed[point["variant"]]:
                far = sum([abs(log2(a) - b) for a, b in zip(point["size"], given, strict=True)])
                if least is None or far < least:
                    best, least = point["variant"], far
        return best
    return next((v for v in range(1, len(tiles)) if allowed[v]), 0)


def number(of: Mapping[str, Any], extents: Sequence[int], arguments: Sequence[Any]) -> int:
    """What `{"argument": 5}` or `{"range": 0}` is in a launch."""
    return int(arguments[of["argument"]] if "argument" in of else extents[of["range"]])


def reach(tile: int, axis: int) -> int:
    """The greatest extent that tiles of this extent can cover: indices have 32 bits, and a grid
    has 65535 tiles along axes 1 and 2.

    >>> reach(64, 0) == 2**31, reach(16, 1), reach(48, 0)
    (True, 1048560, 2147483616)
    """
    count = (1 << 31) // tile
    return tile * (min(count, 65535) if axis else count)


def holds(fact: Mapping[str, int], value: int) -> bool:
    """Whether a number, or an address, is what a variant requires.

    >>> holds({"multiple_of": 8}, 64), holds({"at_least": 1, "at_most": 1}, 2)
    (True, False)
    """
    return (value % fact.get("multiple_of", 1) == 0
            and fact.get("at_least", value) <= value <= fact.get("at_most", value))


def allowed(requires: Sequence[Mapping[str, Any]], tile: Sequence[int], extents: Sequence[int],
            values: Sequence[int]) -> bool:
    """Whether a variant may run.  `values`: arguments as signed numbers, addresses of pointers."""
    for axis, part in enumerate(tile):
        if extents[axis] > reach(part, axis):
            return False
    return all(holds(fact, values[fact["argument"]]) for fact in requires)


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
