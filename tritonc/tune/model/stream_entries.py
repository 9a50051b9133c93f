"""The entries of a kernel without products beside the one for all sizes; and which of them serves a
launch of known sizes, which is then all that is compiled."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod

from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel
from tritonc.problem.known import KnownLaunch
from tritonc.tune.model.copying_entries import with_copies
from tritonc.tune.model.rows import row_entries, short_rows
from tritonc.tune.model.shape_entries import few_entries, shape_entries
from tritonc.variants.variant import Fact, Variant


def stream_entries(kernel: Kernel, space: Mapping[str, Sequence[int]],
                   lower: Callable[[Mapping[str, int]], Kernel], chosen: Mapping[str, int],
                   target: Target) -> list[Variant]:
    """Beside that of the `chosen` values of the tunables in `space`, () of a kernel without any."""
    rows = row_entries(space, lower, chosen) if space else short_rows(kernel)
    long = next((row for row in rows if row.facts[-1].relation == ">="), Variant({}))
    binding = {**chosen, **long.binding}
    few = [one._replace(facts=(*long.facts, *one.facts)) for one in few_entries(
        lower(binding) if space else kernel, space, lower, binding, target)]
    if rows:
        return [*few, *rows]
    kernel = lower(chosen) if space else kernel
    entries = [*few, *shape_entries(kernel, space, lower, chosen, target)]
    return with_copies(entries, kernel, lower, chosen, target)


def entry_at(entries: Sequence[Variant], kernel: Kernel, launch: KnownLaunch) -> Variant | None:
    """The entry that a launch takes: the first whose facts hold.  None for that of all sizes, to
    which `kernel` belongs."""
    programs = prod(max(1, -(-extent // kernel.tile.get(axis, 1)))
                    for axis, extent in enumerate(launch.extents))
    return next((one for one in entries if (
        not one.few or (launch.extents and programs <= one.few)) and (
            not one.within or _along(launch, one.within[0]) <= one.within[1]) and all(
            _holds(fact, launch.arguments.get(fact.parameter)) for fact in one.facts)), None)


def _along(launch: KnownLaunch, axis: int) -> float:
    """The range along an axis; without end if it is not known."""
    return (*launch.extents, 1, 1)[axis] if launch.extents else inf


def _holds(fact: Fact, number: int | None) -> bool:
    return number is not None and {
        ">=": number >= fact.value, "<=": number <= fact.value, "==": number == fact.value}.get(
            fact.relation, fact.relation == "%" and number % fact.value == 0)
