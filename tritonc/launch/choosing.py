"""Launches of a kernel with variants: which one the arguments ask for (`tritonc.variants.choice`).

A launch of sizes that were seen before looks the variant up; only others compute it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import index, itemgetter
from typing import Any

from tritonc.launch import arrays
from tritonc.launch.parameters import Parameter
from tritonc.variants import choice

_CACHED = 1024  # sizes that a kernel remembers
_MOST_TILES = choice.MOST_TILES


class Chooser:
    """The choice of one kernel, from its row of the manifest."""

    def __init__(self, row: Mapping[str, Any], parameters: Sequence[Parameter]) -> None:
        self.row, self.parameters = row, parameters
        self.axes = len(row["tile"])
        self.tiles = [row["tile"], *(variant["tile"] for variant in row["variants"])]
        self.requires = [variant["requires"] for variant in row["variants"]]
        rule = row["choice"]
        self.facts = facts = {fact["argument"] for facts in self.requires for fact in facts}
        self.pointers = sorted(i for i in facts if parameters[i].pointer)
        named = {of["argument"] for of in rule.get("sizes", ()) if "argument" in of}
        around = {i for loop in rule.get("loops", ()) for i in loop["arguments"]}
        self.integers = sorted(named | around | {i for i in facts if not parameters[i].pointer})
        # The extents that every variant reaches, and the choice among them.
        self.reached = [min(choice.reach(tile[axis], axis) for tile in self.tiles)
                        for axis in range(self.axes)]
        self.timed = None if facts or rule["rule"] != "cost" else _timed(rule, self.tiles)

    def extents(self, global_range: Any) -> tuple[int, ...]:
        """Raises TypeError for what is no range."""
        given = global_range if isinstance(global_range, Sequence) else (global_range,)
        return tuple(map(index, given))[: self.axes]

    def allowed(self, extents: Sequence[int], arguments: Sequence[Any]) -> list[bool]:
        """Which variants may run, the general one always."""
        known = [0] * len(self.parameters)
        if self.facts:
            for i in self.integers:
                known[i] = self._signed(i, index(arguments[i]))
            for i in self.pointers:
                known[i] = address(arguments[i])
        return [True, *[choice.allowed(requires, tile, extents, known)
                        for requires, tile in zip(self.requires, self.tiles[1:], strict=True)]]

    def number(self, global_range: Any, arguments: Sequence[Any]) -> int:
        """The variant that a launch takes.  Raises TypeError or ValueError where the arguments are
        none that it can have."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"the kernel takes {len(self.parameters)} arguments, found "
                            f"{len(arguments)}")
        extents = self.extents(global_range)
        known = [0] * len(arguments)
        for i in self.integers:
            known[i] = index(arguments[i])
        if self.timed is not None:
            for extent, most in zip(extents, self.reached):
                if not 0 < extent <= most:
                    break
            else:
                return self.timed(extents, known)
        return choice.choose(self.row["choice"], self.tiles, self.allowed(extents, arguments),
                             extents, known)

    def _signed(self, place: int, value: int) -> int:
        """The bits of an integer as a signed number."""
        dtype = self.parameters[place].dtype
        bits = int(dtype[4:]) if dtype.startswith("uint") else 0
        return value - (1 << bits) if bits and value >> (bits - 1) else value


def _timed(rule: Mapping[str, Any], tiles: Sequence[Sequence[int]]
           ) -> Callable[[Sequence[int], Sequence[int]], int]:
    """`choice.choose` by costs, of extents from 1, where every variant may run: the same numbers,
    with what does not change taken out of the loops."""
    loops = [(int(of.get("factor", 1)), tuple(of["arguments"])) for of in rule["loops"]]
    most_length, most_steps = choice.MOST_LENGTH, choice.MOST_STEPS
    rows = [(number, tuple(tiles[number]), *rule["costs"][number])
            for number in (*range(1, len(tiles)), 0)]

    def choose(extents: Sequence[int], arguments: Sequence[int]) -> int:
        lengths = []
        for found, places in loops:
            for place in places:
                found = min(found * min(max(arguments[place], 0), most_length), most_length)
            lengths.append(found)
        best = least = -1
        for number, tile, processors, blocks, once, start, busy, wait, edge, depths in rows:
            count = 1
            for extent, part in zip(extents, tile):
                if extent % part:
                    wait += edge
                    edge = 0
                count *= -(-extent // part)
            if count > _MOST_TILES:
                count = _MOST_TILES
            steps = 1
            for length, depth in zip(lengths, depths):
                steps *= -(-length // depth)
                if steps > most_steps:
                    steps = most_steps
            if not blocks:
                if count > processors:
                    continue
                blocks = 1
            alone = steps * wait
            busy *= steps
            waves = -(-count // processors)
            time = once
            if waves >= blocks:
                waves, rest = divmod(waves, blocks)
                full = blocks * busy
                time += waves * (start + (alone if alone > full else full))
            else:
                rest = waves
            if rest:
                busy *= rest
                time += start + (alone if alone > busy else busy)
            if least < 0 or time < least:
                best, least = number, time
        return best

    return choose


def address(value: Any) -> int:
    """Where an array is in the memory of a GPU."""
    if hasattr(value, "data_ptr"):  # torch's
        return int(value.data_ptr())
    return arrays.read(value, 0).address


def launch_function(chooser: Chooser, launches: Sequence[Callable[..., None]]
                    ) -> Callable[..., None]:
    """`Kernel.launch` of a kernel with variants; `launches` starts with the general entry's."""
    known: dict[Any, int] = {}
    places = chooser.integers
    pick: Callable[[Sequence[Any]], Any] = itemgetter(*places) if places else _nothing
    alignments = [(i, fact["multiple_of"]) for facts in chooser.requires for fact in facts
                  if (i := fact["argument"]) in chooser.pointers]

    def find(global_range: Any, arguments: tuple[Any, ...], key: Any) -> int:
        try:
            number = chooser.number(global_range, arguments)
        except Exception:
            return 0  # whose launch says what is wrong
        if len(known) >= _CACHED:
            known.clear()
        with suppress(TypeError):  # of an extent in a list
            known[key] = number
        return number

    def launch(stream: Any, global_range: Any, *arguments: Any) -> None:
        key = None
        try:
            key = global_range, pick(arguments)
            number = known[key]
        except Exception:  # new, or wrong
            number = find(global_range, arguments, key)
        launches[number](stream, global_range, *arguments)

    def launch_aligned(stream: Any, global_range: Any, *arguments: Any) -> None:
        key = None
        try:
            key = global_range, pick(arguments), tuple(
                [address(arguments[i]) % multiple == 0 for i, multiple in alignments])
            number = known[key]
        except Exception:
            number = find(global_range, arguments, key)
        launches[number](stream, global_range, *arguments)

    found = launch_aligned if alignments else launch
    found.__doc__ = launches[0].__doc__
    found.__name__ = found.__qualname__ = "launch"
    return found


def _nothing(arguments: Sequence[Any]) -> None:
    return None
