"""What of a launch the work of a kernel with a product depends on: how each combination of tunables
cuts the range and the loops.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod

from tritonc.records import NamedTuple
from tritonc.source import CompileError
from tritonc.tune.model.choose import MAX_LOWERED, Binding, Lower, middle, multiples, neighbours
from tritonc.tune.model.loops import Around, forms, loops_around
from tritonc.variants.variant import tile_of

_MOST_LISTED = 10_000  # combinations


class Form(NamedTuple):
    """What of a launch the work depends on.  `cuts`: for a combination its tile, and how much of
    each loop a step takes."""

    axes: int
    loops: tuple[Around, ...]
    cuts: Callable[[Binding], tuple[tuple[int, ...], tuple[int, ...]]]


def form_of(space: Mapping[str, Sequence[int]], lower: Lower) -> Form | None:
    """How each combination cuts the range and the loop, from n + 1 lowered ones, as the model
    predicts extents, or from all, where there is no such rule, as for tunables that are chosen
    together; None if the kernel has no product, or they cut others."""
    space = {name: values for name, values in space.items() if values}
    if prod(map(len, space.values())) > _MOST_LISTED:
        return None
    with suppress(CompileError):
        if all(op.name != "dot" for kernel in lower(middle(space)).kernels for op in kernel.ops()):
            return None
    return _predicted(space, lower) or _read(space, lower)


def _predicted(space: Mapping[str, Sequence[int]], lower: Lower) -> Form | None:
    base, others = middle(space), neighbours(space)
    known = {tuple(binding.values()): _cuts(lower, binding)
             for binding in (base, *others.values())}
    tile, loops = known[tuple(base.values())] or ((), ())
    if any(found is None or (len(found[0]), len(found[1])) != (len(tile), len(loops))
           for found in known.values()):
        return None
    counted: list[str | None] = [None] * len(loops)  # the tunable whose tiles each loop counts
    for name, other in others.items():
        _, around = known[tuple(other.values())] or ((), ())
        counted = [now or (name if _counts_steps(one, two, base[name], other[name]) else None)
                   for now, one, two in zip(counted, loops, around, strict=True)]

    def read(binding: Binding) -> tuple[object, list[int]]:
        """The loops but for their depths; the tile and those."""
        own, around = known[tuple(binding.values())] or ((), ())
        around = _in_elements(around, counted, binding)
        return forms(around), [*own, *(loop.depth for loop in around)]

    found = multiples(space, read)
    if found is None:
        return None

    def cuts(binding: Binding) -> tuple[tuple[int, ...], tuple[int, ...]]:
        numbers = tuple(max(number, 1) for number in found[1](binding))
        return numbers[:len(tile)], numbers[len(tile):]

    return Form(len(tile), _in_elements(loops, counted, base), cuts)


def _read(space: Mapping[str, Sequence[int]], lower: Lower) -> Form | None:
    """The form of combinations that are all lowered; those that are not legal cut nothing."""
    if prod(map(len, space.values())) > MAX_LOWERED:
        return None
    known = {values: found for values in product(*space.values()) if (
        found := _cuts(lower, dict(zip(space, values, strict=True)))) is not None}
    kinds = {(len(tile), tuple(forms(loops))) for tile, loops in known.values()}
    if len(kinds) != 1:
        return None
    tile, loops = next(iter(known.values()))

    def cuts(binding: Binding) -> tuple[tuple[int, ...], tuple[int, ...]]:
        own, around = known[tuple(binding[name] for name in space)]
        return own, tuple(loop.depth for loop in around)

    return Form(len(tile), loops, cuts)


def _counts_steps(here: Around, there: Around, base: int, other: int) -> bool:
    """Whether a loop of constant length counts tiles of a tunable: `i < 288 / TK; i++`."""
    return (not here.arguments and not there.arguments and here.depth == there.depth
            and here.factor != there.factor and here.factor * base == there.factor * other)


def _in_elements(loops: Sequence[Around], counted: Sequence[str | None], binding: Binding
                 ) -> tuple[Around, ...]:
    """The loops, of which those that count tiles of a tunable count what the tiles have."""
    return tuple(loop if name is None else Around(
        loop.factor * binding[name], (), loop.depth * binding[name])
        for loop, name in zip(loops, counted, strict=True))


def _cuts(lower: Lower, binding: Mapping[str, int]
          ) -> tuple[tuple[int, ...], tuple[Around, ...]] | None:
    try:
        (kernel,) = lower(binding).kernels
    except CompileError:
        return None
    if not any(op.name == "dot" for op in kernel.ops()):
        return None
    return tuple(tile_of(kernel)), loops_around(kernel)
