"""What a combination costs whose loop is shared by the blocks of a cluster (`split_loops`).

A cluster is to a launch what a block is: so many times as many of its steps run at once, and fewer
clusters than blocks do.  Behind the loop blocks meet twice and send each other their sums.
"""

from __future__ import annotations

from math import prod

from tritonc.backend.launch.split_loops import loops_to_share
from tritonc.backend.target.target import Target
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel
from tritonc.tune.model.features import Profile
from tritonc.tune.model.times import computing, formula
from tritonc.variants.choice import Cost

SIZES = (2, 4)  # of clusters
# Clusters that run at once, one block to a multiprocessor, of 132 multiprocessors: cuOccupancy-
# MaxActiveClusters on an H200, whose groups of multiprocessors are no multiples of 4.
_AT_ONCE = {2: 66, 4: 30}
_MULTIPROCESSORS = 132
# Cycles.  64 x 64 by two blocks: 0.6 us more than a block alone; by hand 0.7, 128 x 128 1.4.
_MEETING = 700
_PUSHED = 20  # bytes in a cycle that each block sends
# In memory of the launch: cycles until the last block knows that it is, and bytes in a cycle that
# it gathers.
_TICKET, _GATHERED = 3500, 60
IN_MEMORY = (4, 8, 16, 32)  # blocks that share a program
_UNIT = 4  # of a cycle, in a `Cost`


def priced(profile: Profile, depths: tuple[int, ...], target: Target, blocks: int,
           in_memory: bool = False) -> Cost | None:
    """The cost of a combination with `blocks` to a loop: those of a cluster, or `in_memory` of the
    launch, for launches whose blocks run all at once.  None where the model knows of no loop for
    more than one.  Of products on CUDA cores, at the 22 sizes of bench/paper, what it chooses takes
    1.14 times as long as the best tile and cluster, 1.67 times without clusters."""
    cost = formula(profile, depths, target)
    if blocks == 1:
        return cost
    dots = [feature for feature in profile if feature.kind == "dot"]
    if len(dots) != 1 or not depths:
        return None
    sums = 4 * prod(dots[0].extents[:-1])
    if in_memory:
        at_once, beside = cost.processors // blocks, 0
        more = _TICKET + sums * blocks / _GATHERED
    else:
        # Beside each other on CUDA cores, where that is measured; 2560 x 64 x 2560 of floats by
        # 32 x 32 in clusters of two takes 34 us, and 42 by blocks of which a multiprocessor holds
        # two.
        at_once = cost.processors * _AT_ONCE[blocks] // _MULTIPROCESSORS
        beside = cost.blocks if computing(profile, target)[0] == "cores" else 1
        more = _MEETING + sums * (blocks - 1) / blocks / _PUSHED
    return cost._replace(processors=max(1, at_once), blocks=beside,
                         start=cost.start + round(_UNIT * more),
                         depths=(depths[0] * blocks, *depths[1:]))


def cluster_sizes(kernel: Kernel, target: Target) -> tuple[int, ...]:
    """The clusters whose blocks can share the kernel's loops, 1 first."""
    from tritonc import pass_manager, passes  # none are needed where nothing is known of a launch

    if not {"cluster", "wgmma"} <= target.features:  # the times above are of such a target
        return (1,)
    kernel = copy_kernel(kernel)
    pass_manager.run(kernel, Context(target=target), passes.OPT)
    return (1, *SIZES) if isinstance(loops_to_share(kernel), list) else (1,)
