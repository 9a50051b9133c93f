"""Launches whose blocks share the loop of a program: those of a cluster, or in the launch's memory.

A cluster is to a launch what a block is: so many times as many of its steps run at once, and fewer
clusters than blocks do.  Behind the loop blocks meet twice and send each other their sums.
"""

from math import prod
from weakref import WeakKeyDictionary

from tritonc.analysis.axis.axis_info import analyze
from tritonc.analysis.quotients import is_of_program
from tritonc.analysis.values import int_of, slice_of
from tritonc.backend.dots.inner_axis import inner_first
from tritonc.backend.launch.coarsen import AXES
from tritonc.backend.memory.versions.assumed import Text
from tritonc.backend.memory.versions.assumed_facts import assumed_facts
from tritonc.backend.memory.versions.assumed_strides import multiples_of
from tritonc.backend.target.target import Target
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import scalar
from tritonc.later import Later
from tritonc.tune.model.blocks import LEAST, computing
from tritonc.tune.model.feature import Profile, joined
from tritonc.tune.model.loops import loops_around
from tritonc.tune.model.times import UNIT, WORD, formula
from tritonc.variants.choice import Cost

loops_to_share = Later("tritonc.backend.launch.split_loops", "loops_to_share")
# Blocks that share the loop of a program: those of a cluster, or in memory of the launch.
SIZES, LONG = (2, 4), 8  # of clusters; those of sums over many rows
# Clusters that run at once, one block to a multiprocessor, of 132 multiprocessors: cuOccupancy-
# MaxActiveClusters on an H200, whose groups of multiprocessors are no multiples of 4.
_AT_ONCE = {2: 66, 4: 30, 8: 15}
_MULTIPROCESSORS = 132
# Cycles.  64 x 64 by two blocks: 0.6 us more than a block alone; by hand 0.7, 128 x 128 1.4.
_MEETING = 1000
_LEAST_STAGES = 3  # 768 x 640 x 8192 by 128 x 128 x 128 in clusters of four 42 us, 22 by half of K
_PUSHED = 20  # bytes in a cycle that each block sends
# In memory of the launch: cycles until the last block knows that it is, and bytes in a cycle that
# it gathers.
_TICKET, _GATHERED = 3500, 60
IN_MEMORY = (4, 8, 16, 32)  # blocks that share a program


def priced(profile: Profile, depths: tuple[int, ...], target: Target, blocks: int,
           in_memory: bool = False) -> Cost | None:
    """The cost of a combination with `blocks` to a loop: those of a cluster, or `in_memory` of the
    launch, for launches whose blocks run all at once.  None where the model knows of no loop for
    more than one.  Of products on CUDA cores, at the 22 sizes of bench/paper, what it chooses takes
    1.14 times as long as the best tile and cluster, 1.67 times without clusters."""
    cost = formula(profile, depths, target, blocks > 1 and not in_memory)
    if blocks == 1:
        return cost
    dots = joined([feature for feature in profile if feature.kind == "dot"])
    if len(dots) != 1 or not depths:
        return None
    if dots[0].register_extents != dots[0].extents and not any(dots[0].raw):
        return None  # 700 x 2000 x 5000 by 128 x 192 in clusters of two 43.6 us, 128 x 256 33.8
    sums = max(4, dots[0].bytes) * prod(dots[0].extents[:-1])
    if in_memory:
        at_once, beside = cost.processors // blocks, 0
        more = _TICKET + sums * blocks / _GATHERED
    else:
        at_once = cost.processors * _AT_ONCE[blocks] // _MULTIPROCESSORS
        beside = cost.blocks if clusters_meet(profile, target) else 1
        room = target.shared_per_block - 2048 - sums * (blocks - 1) // blocks
        if cost.blocks == 1 and room < _LEAST_STAGES * dots[0].stage_bytes:
            return None  # beside what the others send
        more = _MEETING + sums * (blocks - 1) / blocks / _PUSHED
        if beside > 1 and _of_doubles(profile, target):  # they meet one after the other
            more *= beside
    return cost._replace(processors=max(1, at_once), blocks=beside,
                         start=cost.start + round(UNIT * more),
                         depths=(depths[0] * blocks,) if len(depths) == 1 else (*depths, blocks))


def clusters_meet(profile: Profile, target: Target) -> bool:
    """Whether clusters stand beside each other on multiprocessors, and more wait for a place: where
    that is measured, on CUDA cores and by tiles of the fewest rows of mma.  2560 x 64 x 2560 of
    floats by 32 x 32 in clusters of two takes 34 us, and 42 by blocks of which a multiprocessor
    holds two; 8 x 5120 x 5120 of weights of four bits by 16 x 32 14 us, and 19."""
    kind = computing(profile, target)[0]
    return kind == "cores" or _of_doubles(profile, target) or any(
        dot.extents[-3] == LEAST if kind == "mma" else any(dot.raw)
        for dot in profile if dot.kind == "dot")


def _of_doubles(profile: Profile, target: Target) -> bool:
    """Whether tensor cores compute products of doubles."""
    return computing(profile, target)[0] == "mma" and any(
        dot.bytes > WORD for dot in profile if dot.kind == "dot")


def cluster_sizes(kernel: Kernel, target: Target, axes: int = 0) -> tuple[int, ...]:
    """The clusters whose blocks can share the kernel's loops, 1 first; of a range of so many axes
    those to choose from where nothing is known of a launch: batches are many programs, but where
    sums are long."""
    if not {"cluster", "wgmma"} <= target.features or not isinstance(  # which the times are of
            loops_to_share(optimised(kernel, target)), list):
        return (1,)
    return (1, *SIZES, LONG) if _adds_many(kernel) else (1, *SIZES) if axes < AXES else (1,)


def _adds_many(kernel: Kernel) -> bool:
    """Whether a product of 16-bit numbers is likely a sum of many: of rows of both operands, as of
    all pixels of a batch, or over a product of sizes, where no sizes number a program's rows.
    Looked at as if sizes were multiples: rows of taps and channels lie along K."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    if len(dots) != 1 or scalar(dots[0].operands[0].type).bytes not in (WORD // 2, WORD):
        return False
    supposed = Text(kernel).supposing(multiples_of(
        assumed_facts(kernel, False, operands=True).multiples)).kernel
    infos = analyze(supposed)
    (dot,) = (op for op in supposed.ops() if op.name == "dot")
    if not any(inner_first(dot, infos)) and any(
            max(infos[op.operands[0]].contiguity, default=1) > 1 for op in _loads(dot)):
        return True
    return sum(len(loop.arguments) for loop in loops_around(kernel)) > 1 and not any(
        is_of_program(op) and int_of(op.operands[1]) is None
        for op in slice_of([v for op in _loads(dots[0]) for v in op.inputs()], None, ("load",),
                           False))


def _loads(dot: Op) -> list[Op]:
    return [op for op in slice_of(dot.operands[:2], None, ("dot", "load"), False)
            if op.name == "load"]


_known: WeakKeyDictionary[Kernel, Kernel] = WeakKeyDictionary()


def optimised(kernel: Kernel, target: Target) -> Kernel:
    """The kernel after the passes that no layout needs."""
    if kernel not in _known:
        from tritonc import pass_manager, passes  # not needed where nothing is known of a launch

        _known[kernel] = copy_kernel(kernel)
        pass_manager.run(_known[kernel], Context(target=target), passes.OPT)
    return _known[kernel]
