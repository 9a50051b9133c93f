"""The time of blocks whose warpgroups take programs in turn (`choose_pingpong`).

Warpgroups that hold a tile together compute and store its result while no product runs: a program
takes its products' time and that of what is behind them.  In turn, the products of one warpgroup
run while the other is behind them, so a program takes its products' time alone, and what is behind
the last one shows once in a launch: longer than together, as one warpgroup computes it.
"""

from collections.abc import Callable, Iterable
from math import prod

from tritonc.backend.launch.choose_pingpong import SHAPE, THREADS
from tritonc.backend.target.target import Target
from tritonc.tune.model.blocks import use
from tritonc.tune.model.epilogues import LIGHT, WAITS, alike, cycles
from tritonc.tune.model.feature import Feature, Profile
from tritonc.tune.model.times import UNIT
from tritonc.variants.choice import Cost

# Cycles.  H200, 22 products with nothing to 32 multiply-adds behind them, of eight sizes or more: a
# program of 128 x 128 takes 1500 beside its steps (`times`), in turn 500 less; one of 128 x 256,
# whose result leaves in two halves, 1000 more.  Waits for what is loaded behind a product show.
# us, by 128 x 256, and 128 x 128 in turn: 8192 x 8192 x 1024 193, 201, with a bias 202, 199, with a
# GELU 230, 212; 4096 in cube 181, 188; 177, 182; 195, 197.
_HALVES, _HIDDEN, _WAITS = 1000, 500, 750
_ALIKE = 0.75  # of the cycles of an epilogue, the rest of which runs beside the other warpgroup's
ENDED = 850  # of a block that ends at once, since few have the tile that it was launched for
SHORT = 256  # the least length of a loop in turn
_SINGLE = 2  # rows that are not aligned: 4095 x 4097 x 1027 1.1 to 0.8 of the speed, small ones 0.5
_DEEP = 128  # bytes along K of an operand's tile; by twice as many 5120 x 2048 x 1024 36.7 us, 37.9
# By tiles at edges: floats of 5000 x 2000 x 1000 with GELU 61.5 us together, 66.0; of 1900 x 2304 x
# 768 23.3 and 19.9; halves of 1501 x 1376 x 2000 17.8 and 17.5.
_EDGE = 3


def with_results(profiles: Iterable[Profile], target: Target) -> Callable[[Profile, Cost], Cost]:
    """What makes costs of combinations comparable with those in turn, if one can have them."""
    return together if any(can_pingpong(profile, target) for profile in profiles) else (
        lambda profile, cost: cost)


def together(profile: Profile, cost: Cost) -> Cost:
    """The cost of a combination with what all take alike that hold a tile together."""
    more = 0.0
    for result in _results(profile):
        size = prod(result.extents)
        more += max(cost.blocks, 1) * _ALIKE * alike(size, result.bytes)
        more += _HALVES * (size > prod(SHAPE)) + _WAITS * (result.bytes > 1)
    return cost._replace(start=cost.start + round(UNIT * more))


def can_pingpong(profile: Profile, target: Target) -> bool:
    """Whether warpgroups can take a combination's programs in turn, and something is known of it.
    """
    dots, results = [feature for feature in profile if feature.kind == "dot"], _results(profile)
    if len(dots) != 1 or len(results) != 1:
        return False
    ((dot,), (result,)) = dots, results
    return dot.extents[:-1] == SHAPE == result.extents and dot.bytes == 2 and dot.alone and not (
        result.added or any(dot.raw) or dot.computed or dot.flat or dot.scaled) and (
        dot.extents[-1] * dot.bytes == _DEEP and use(dot, target).persistent)


def in_pingpong(profile: Profile, cost: Cost, target: Target) -> Cost | None:
    """The cost of a combination whose warpgroups take programs in turn, from that where they work
    together; None where they cannot."""
    if not can_pingpong(profile, target):
        return None
    (result,) = _results(profile)
    hidden = _HIDDEN + cycles(prod(SHAPE), result.bytes, 2 * THREADS)
    shown = WAITS * prod(SHAPE) // THREADS * min(result.bytes, LIGHT) + cycles(
        prod(SHAPE), result.bytes, THREADS)
    return cost._replace(start=max(0, cost.start - round(UNIT * hidden)), edge=_EDGE * cost.edge,
                         once=cost.once + round(UNIT * shown), slow=_SINGLE * cost.slow)


def _results(profile: Profile) -> list[Feature]:
    return [feature for feature in profile if feature.kind == "behind"]
