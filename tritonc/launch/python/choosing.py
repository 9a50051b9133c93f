"""Launches of a kernel with variants: which one the arguments ask for (`tritonc.variants.choice`).

The first launch computes the choice in Python, and has it compiled for those that follow."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any

from tritonc.launch.python import arrays
from tritonc.launch.python.native import function
from tritonc.launch.python.parameters import Parameter
from tritonc.variants import choice


class Chooser:
    def __init__(self, row: Mapping[str, Any], parameters: Sequence[Parameter]) -> None:
        self.row, self.parameters = row, parameters
        self.axes = len(row["tile"])
        self.tiles = [row["tile"], *(variant["tile"] for variant in row["variants"])]
        self.requires = [variant["requires"] for variant in row["variants"]]
        self.in_memory = [choice.is_in_memory(variant) for variant in row["variants"]]
        rule = row["choice"]
        self.facts = facts = {fact["argument"] for facts in self.requires for fact in facts
                              if "argument" in fact}
        self.pointers = sorted(i for i in facts if parameters[i].pointer)
        named = {of["argument"] for of in rule.get("sizes", ()) if "argument" in of}
        aligned = rule.get("aligned", ())
        named |= {fact["argument"] for fact in aligned if "argument" in fact}
        around = {i for of in (*rule.get("loops", ()), *aligned) for i in of.get("arguments", ())}
        self.integers = sorted(named | around | {i for i in facts if not parameters[i].pointer})

    def extents(self, global_range: Any) -> tuple[int, ...]:
        """Raises TypeError for what is no range."""
        given = global_range if isinstance(global_range, Sequence) else (global_range,)
        return tuple(map(index, given))[: self.axes]

    def allowed(self, extents: Sequence[int], arguments: Sequence[Any]) -> list[bool]:
        """Which variants may run, the general one always."""
        return self._allowed(extents, *self._known(arguments)) if self.facts else (
            self._allowed(extents, {}, ()))

    def number(self, global_range: Any, arguments: Sequence[Any], memory: bool = False) -> int:
        """The variant that a launch takes, with `memory` for sums or without.  Raises TypeError or
        ValueError where the arguments are none that it can have."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"the kernel takes {len(self.parameters)} arguments, found "
                            f"{len(arguments)}")
        return int(self._choose(self.extents(global_range), *self._known(arguments), memory))

    def native(self, memory: bool = False) -> Callable[..., int]:
        """The same in machine code; it raises anything for objects that it does not know."""
        found = function(self.axes, self.integers, len(self.pointers),
                         partial(self._choose, memory=memory))
        if not self.pointers:
            return found
        return lambda range, arguments: found(range, arguments, *self._addresses(arguments))

    def _addresses(self, arguments: Sequence[Any]) -> list[int]:
        return [address(arguments[i]) for i in self.pointers]

    def _known(self, arguments: Sequence[Any]) -> tuple[dict[int, int], list[int]]:
        return {i: index(arguments[i]) for i in self.integers}, self._addresses(arguments)

    def _choose(self, extents: Sequence[Any], integers: Mapping[int, Any],
                addresses: Sequence[Any], memory: bool = False) -> Any:
        allowed = self._allowed(extents, integers, addresses, memory)
        return choice.choose(self.row["choice"], self.tiles, allowed, extents, integers)

    def _allowed(self, extents: Sequence[Any], integers: Mapping[int, Any],
                 addresses: Sequence[Any], memory: bool = False) -> list[Any]:
        known = {**{i: self._signed(i, value) for i, value in integers.items()},
                 **dict(zip(self.pointers, addresses))}
        return [True, *[choice.allowed(requires, tile, extents, known, takes)
                        if memory or not takes else False for requires, tile, takes in zip(
                            self.requires, self.tiles[1:], self.in_memory, strict=True)]]

    def _signed(self, place: int, value: Any) -> Any:
        """The bits of an integer as a signed number."""
        dtype = self.parameters[place].dtype
        bits = int(dtype[4:]) if dtype.startswith("uint") else 64
        return choice.select(value >= 1 << bits - 1, value - (1 << bits), value) if (
            bits < 64 or isinstance(value, int)) else value


def address(value: Any) -> int:
    """Where an array is in the memory of a GPU."""
    if hasattr(value, "data_ptr"):  # torch's
        return int(value.data_ptr())
    return arrays.read(value, 0).address


def launch_function(chooser: Chooser, launches: Sequence[Callable[..., None]]
                    ) -> Callable[..., None]:
    """`Kernel.launch` of a kernel with variants; `launches` starts with the general entry's."""
    choose: Callable[..., int] | None = None

    def find(global_range: Any, arguments: tuple[Any, ...]) -> int:
        """The variant of the first launch, or of objects that the machine code does not know."""
        nonlocal choose
        choose = choose or chooser.native(memory=True)
        try:
            return chooser.number(global_range, arguments, memory=True)
        except Exception:
            return 0  # whose launch says what is wrong

    def launch(stream: Any, global_range: Any, *arguments: Any) -> None:
        try:
            number = choose(global_range, arguments)  # type: ignore[misc]
        except Exception:
            number = find(global_range, arguments)
        launches[number](stream, global_range, *arguments)

    launch.__doc__ = launches[0].__doc__
    return launch
