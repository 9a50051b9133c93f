"""What a search found: the best candidate of each size, or few candidates for all sizes."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tritonc.records import NamedTuple
from tritonc.tune.model.portfolio import cover
from tritonc.tune.search.journal import Name, name_of
from tritonc.tune.workers.jobs import Binding

Size = Mapping[str, int]


class Choice(NamedTuple):
    """What a search found for a size; `default` is the time of the default, if it runs.

    Of a portfolio `best` is the best of its members, and `fastest` the time of the best of all."""

    size: Size
    best: Binding
    milliseconds: float
    default: float | None
    fastest: float | None = None


def fewest(choices: Sequence[Choice], measured: Sequence[Mapping[Name, float]],
           candidates: Sequence[Binding], within: float) -> list[Choice]:
    """The same sizes with the fewest candidates of which one at each size takes at most so much
    longer than the best (`portfolio.cover`).  The best of the largest size, which a compilation
    takes that is told no size, is one of them."""
    names = [name for c in candidates if any((name := name_of(c)) in times for times in measured)]
    ratios = np.array([[times.get(name, np.inf) / choice.milliseconds
                        for choice, times in zip(choices, measured, strict=True)]
                       for name in names])
    largest = max(range(len(choices)), key=lambda i: prod(choices[i].size.values()))
    first = names.index(name_of(choices[largest].best))
    chosen, _, _ = cover(ratios, first, len(choices), within)
    members = sorted([first, *chosen])
    bindings = {name_of(c): c for c in candidates}
    found = []
    for choice, times in zip(choices, measured, strict=True):
        name = min((names[i] for i in members), key=lambda n: times.get(n, np.inf))
        found.append(choice._replace(best=bindings[name], milliseconds=times[name],
                                     fastest=choice.milliseconds))
    return found
