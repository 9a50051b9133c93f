"""The time of blocks whose warpgroups take programs in turn (`choose_turns`)."""

from __future__ import annotations

from tritonc.backend.launch.choose_turns import SHAPE
from tritonc.backend.target.target import Target
from tritonc.tune.model.blocks import use
from tritonc.tune.model.feature import Profile
from tritonc.tune.model.times import UNIT
from tritonc.variants.choice import Cost

# Cycles of a program, and of each instruction for a result, that run beside other products.  us,
# together and in turn: 3072 x 3072 x 1024 33.7, 32.9; with bias 35.1, 32.1, with GELU 46.9, 40.1.
_HIDDEN, _BEHIND = 200, 180
_SINGLE = 2  # rows that are not aligned: 4095 x 4097 x 1027 1.1 to 0.8 of the speed, small ones 0.5
_DEEP = 128  # bytes along K of an operand's tile; by twice as many 5120 x 2048 x 1024 36.7 us, 37.9
# By tiles at edges: floats of 5000 x 2000 x 1000 with GELU 61.5 us together, 66.0; of 1900 x 2304 x
# 768 23.3 and 19.9; halves of 1501 x 1376 x 2000 17.8 and 17.5.
_EDGE = 3


def in_turns(profile: Profile, cost: Cost, target: Target) -> Cost | None:
    """The cost of a combination whose warpgroups take programs in turn, from that where they work
    together; None where they do not, or nothing is known of it."""
    dots = [feature for feature in profile if feature.kind == "dot"]
    results = [feature for feature in profile if feature.kind == "behind"]
    if len(dots) != 1 or len(results) != 1:
        return None
    ((dot,), (result,)) = dots, results
    if dot.extents[:-1] != SHAPE or result.extents != SHAPE or result.added or dot.bytes != 2 \
            or dot.computed or dot.scaled or dot.extents[-1] * dot.bytes != _DEEP \
            or not use(dot, target).persistent:
        return None
    hidden = min(cost.start, UNIT * (_HIDDEN + _BEHIND * result.bytes))  # but for the last one
    return cost._replace(start=cost.start - hidden, once=cost.once + hidden,
                         edge=_EDGE * cost.edge, slow=_SINGLE * cost.slow)
