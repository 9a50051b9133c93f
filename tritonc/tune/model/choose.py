"""Values for tunables that nobody bound: the static cost model.

The choice is a function of program and target, so that every machine builds the same bytes.
Measuring knows better; this has to be right within reason, at once.

What a candidate costs follows from the extents of its tiles.  Lowering each of the, say, 48
combinations of a matrix product would take longer than the rest of the compilation, so the model
lowers n + 1 of them: a base, and for each of the n tunables one that differs from the base in it
alone.  An extent that doubles with TM is a multiple of TM; from the factors, the extents of every
combination follow:

    base      TM=32 TN=32 TK=8    dot 32x32x8
    TM = 64                       dot 64x32x8      M = TM
    TN = 64                       dot 32x64x8      N = TN
    TK = 16                       dot 32x32x16     K = TK

Where that is not so (an extent `T + 2`, an `#if`-like branch on a tunable, a combination that a
static_assert forbids), candidates are lowered one by one, up to a limit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from math import inf, prod
from typing import TypeVar

from tritonc.backend.target.target import Target
from tritonc.ir.core import Module
from tritonc.records import NamedTuple
from tritonc.source import CompileError
from tritonc.tune.model.cost import cost
from tritonc.tune.model.feature import Profile, as_boxes
from tritonc.tune.model.features import features
from tritonc.tune.model.residency import SPILLS

Binding = dict[str, int]
Lower = Callable[[Mapping[str, int]], Module]  # raises CompileError where a binding is not legal

MAX_COMBINATIONS = 10_000  # compared by their extents
MAX_VARIED = 1000  # compared one tunable after the other, where there are more
MAX_LOWERED = 96  # lowered one by one, where extents cannot be predicted


def choose(space: Mapping[str, Sequence[int]], lower: Lower, target: Target) -> Binding:
    """The cheapest combination of `space`, which gives the legal values of each unbound tunable.

    `lower` makes Triton-IR for a combination.  The first in the order of the lists wins a tie.
    Where no combination is legal, the first: compiling it says why.
    """
    names = [name for name in space if space[name]]
    first = {name: space[name][0] for name in names}
    if all(len(space[name]) == 1 for name in names):
        return first
    return next((candidate.binding for candidate in ranked(space, lower, target)[:MAX_LOWERED]
                 if candidate.cost < inf and lowered(lower, candidate.binding) is not None), first)


def lowered(lower: Lower, binding: Binding) -> Module | None:
    """The Triton-IR of a combination; None if it is not legal."""
    try:
        return lower(binding)
    except CompileError:
        return None


def middle(space: Mapping[str, Sequence[int]]) -> Binding:
    """The combination from which extents are predicted."""
    return {name: values[(len(values) - 1) // 2] for name, values in space.items() if values}


def neighbours(space: Mapping[str, Sequence[int]]) -> dict[str, Binding]:
    """For each tunable that has several values, the middle combination with another one of it."""
    start = middle(space)
    return {name: {**start, name: other} for name, values in space.items()
            if (other := next((v for v in values if v != start.get(name)), None)) is not None}


class Ranked(NamedTuple):
    """A combination, its relative time, and what the model read of it; () for nothing."""

    cost: float
    binding: Binding
    profile: Profile

    @property
    def runs(self) -> bool:
        """Whether the model knows of nothing that makes it slower than any other candidate."""
        return self.cost < SPILLS and bool(self.profile)


def ranked(space: Mapping[str, Sequence[int]], lower: Lower, target: Target) -> list[Ranked]:
    """The combinations of `space`, the cheapest first; the order of the lists decides ties.

    Those that are known to be illegal are left out.  Where extents cannot be predicted, only the
    first MAX_LOWERED are looked at; the others come last, in their order, MAX_COMBINATIONS in all.
    Of more combinations than that only those are predicted that differ from the best so far in one
    tunable, tunable by tunable, twice around.  Of more than MAX_LOWERED tunables the rest keep
    their first values.
    """
    names = [name for name in space if space[name]]
    space = {**space, **{name: space[name][:1] for name in names[MAX_LOWERED:]}}
    candidates = _combinations(space, names)
    predict = _predictor(space, names, lower)
    if predict is not None and prod(len(space[n]) for n in names) > MAX_COMBINATIONS:
        candidates = _one_at_a_time(space, names, lambda b: cost(predict(b), target))
    read: Callable[[Binding], Profile | None] = predict or partial(_profile, lower)
    found = [Ranked(cost(profile, target), binding, as_boxes(profile, target))
             for binding in islice(candidates, None if predict else MAX_LOWERED)
             if (profile := read(binding)) is not None]
    if predict is None:
        found += [Ranked(inf, binding, ())
                  for binding in islice(candidates, MAX_COMBINATIONS - MAX_LOWERED)]
    return sorted(found, key=lambda candidate: candidate.cost)


def _one_at_a_time(space: Mapping[str, Sequence[int]], names: list[str],
                   price: Callable[[Binding], float]) -> Iterator[Binding]:
    """Combinations on the way to a good one, each once."""
    now = middle(space)
    seen: dict[tuple[int, ...], Binding] = {}
    free = [name for name in names if len(space[name]) > 1]
    share = max(2, MAX_VARIED // (2 * len(free)))  # of the values of each tunable
    for name in [*free, *free]:
        values = space[name][:: -(-len(space[name]) // share)]
        for value in values:
            seen.setdefault(tuple({**now, name: value}.values()), {**now, name: value})
        now = min(({**now, name: value} for value in values), key=price)
    yield from seen.values()


def _combinations(space: Mapping[str, Sequence[int]], names: list[str]) -> Iterator[Binding]:
    for values in product(*(space[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def _profile(lower: Lower, binding: Binding) -> Profile | None:
    """What the model reads of a combination; None if it is not legal."""
    if (module := lowered(lower, binding)) is None:
        return None
    return tuple(feature._replace(place=(number, feature.place[1]))
                 for number, kernel in enumerate(module.kernels) for feature in features(kernel))


def _predictor(space: Mapping[str, Sequence[int]], names: list[str], lower: Lower
               ) -> Callable[[Binding], Profile] | None:
    """A function from a combination to its profile; None if there is no such rule.  An axis of one
    element is none: if that is in the way, profiles of 1 are predicted from those of others.  Where
    one tunable is, as of numbers that are loaded once a step, each of its values has a rule."""
    def read(binding: Binding) -> tuple[Profile, list[int]] | None:
        """All but the extents, and those."""
        profile = _profile(lower, binding)
        return None if profile is None else (
            tuple(f._replace(extents=(0,) * len(f.extents)) for f in profile),
            [extent for f in profile for extent in f.extents])

    def predictor(space: Mapping[str, Sequence[int]]) -> Callable[[Binding], Profile] | None:
        axes = {name: (*(v for v in space[name] if v != 1),) or space[name] for name in space}
        found = multiples(space, read) or (multiples(axes, read) if axes != space else None)
        if found is None:
            return None
        rest, numbers = found

        def predict(binding: Binding) -> Profile:
            extents = iter(numbers(binding))
            return tuple(f._replace(extents=tuple(islice(extents, len(f.extents)))) for f in rest)

        return predict

    space = {name: (*space[name],) for name in names}
    if (one := predictor(space)) is not None:
        return one
    several = [name for name in names if len(space[name]) > 1]
    for name in several:  # more than extents may depend on one tunable
        own: dict[int, Callable[[Binding], Profile]] = {}
        few = len(several) * max(len(several), len(space[name])) <= MAX_LOWERED
        while few and len(own) < len(space[name]) and (part := predictor(
                {**space, name: ((value := space[name][len(own)]),)})) is not None:
            own[value] = part
        if len(own) == len(space[name]):
            return lambda binding: own[binding[name]](binding)
    return None


Rest = TypeVar("Rest")


def multiples(space: Mapping[str, Sequence[int]],
              read: Callable[[Binding], tuple[Rest, list[int]] | None]
              ) -> tuple[Rest, Callable[[Binding], list[int]]] | None:
    """What is alike in all combinations, and a function from one to its numbers, each of which is a
    multiple of some tunables or of none; from n + 1 that are read.  None if there is no such rule.
    """
    start = middle(space)
    base = read(start)
    if base is None:
        return None
    rest, numbers = base
    factors: list[set[str]] = [set() for _ in numbers]  # the tunables of each number
    for name, other in neighbours(space).items():
        varied = read(other)
        if varied is None or varied[0] != rest:
            return None
        for old, new, multiple in zip(numbers, varied[1], factors, strict=True):
            if new * start[name] == old * other[name]:
                multiple.add(name)
            elif new != old:
                return None

    ordered = [sorted(multiple) for multiple in factors]

    def predict(binding: Binding) -> list[int]:
        found = []
        for number, multiple in zip(numbers, ordered, strict=True):
            for name in multiple:
                number = number * binding[name] // start[name]
            found.append(number)
        return found

    return rest, predict
