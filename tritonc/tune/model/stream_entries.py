"""The entries of a kernel without products beside the one for all sizes; and which of them serves a
launch of known sizes, which is then all that is compiled."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod

from tritonc.analysis.row_loops import loaded_again
from tritonc.analysis.windows import ACCESS_BYTES
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar
from tritonc.problem.known import KnownLaunch
from tritonc.tune.model.copying_entries import with_copies
from tritonc.tune.model.rows import row_entries, short_rows
from tritonc.tune.model.shape_entries import few_entries, shape_entries
from tritonc.variants.variant import Fact, Variant, between

# Few rows of at least so many bytes, which no block holds, that are loaded again: blocks of a
# cluster that hold a part of each tile, their warps, and a cluster for so many multiprocessors.
# H200, layer norm of 12 x 228960, 4 x 262144 and 20 x 131072 floats 55.2, 59.4 and 33.3 us by one
# block, 20.8, 20.0 and 21.0 so; softmax of 12 x 228960 61.6 and 28.3; RMS norm of 12 x 228960 and
# 16 x 262144 halves 31.5, 35.6 and 11.2, 12.7; of 33 rows of 65536 floats, which a block holds,
# layer norm 20.0 and 28.2.
_SPREAD_BYTES, _SPREAD, _SPREAD_WARPS, _SPREAD_OVER = 320 << 10, 8, 8, 4


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
        return [*_spread(lower(binding) if space else kernel, long, target), *few, *rows]
    kernel = lower(chosen) if space else kernel
    entries = [*few, *shape_entries(kernel, space, lower, chosen, target)]
    return with_copies(entries, kernel, lower, chosen, target)


def _spread(kernel: Kernel, long: Variant, target: Target) -> list[Variant]:
    """An entry of clusters whose blocks hold a part of each tile of a row: of loops that reduce
    nothing, which one block would compute alone (softmax: 3 to 5 times as long)."""
    cfg = Cfg(kernel)
    again = loaded_again(kernel, cfg, True)
    if not again or not long.facts or "cluster" not in target.features or any(
            op.name.startswith(("reduce", "scan")) for loop in cfg.loops for op in loop.ops()):
        return []
    size = min(scalar(pointee(load.operands[0].type)).bytes for load in again.values())
    length = long.facts[0].parameter
    binding = {**long.binding, "num_warps": _SPREAD_WARPS, "cluster_k": _SPREAD}
    return [Variant(binding, (*between(length, _SPREAD_BYTES // size + 1, None),
                              Fact(length, "%", ACCESS_BYTES // size)),
                    few=target.multiprocessors // _SPREAD_OVER)]


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
