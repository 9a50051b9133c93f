"""How many stages the buffers of a pipeline have, and how many blocks stand beside each other."""

from tritonc.analysis.values import slice_of
from tritonc.backend.dots.together import waits
from tritonc.backend.launch.register_budget import resident_blocks
from tritonc.backend.pipeline.staged_loop import StagedLoop, stages_that_fit, words
from tritonc.backend.shared.shared_memory import LEFT
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, uses
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import Tile, is_int

CORE_STAGES = 2  # a product on CUDA cores takes longer than memory needs for the next operands
MOST_STAGES = 4  # with threads that wait for cp.async
MOST_ASYNCHRONOUS = 8  # with wgmma, which empties small stages faster than memory fills them
IN_FLIGHT = 3 << 15  # bytes that a multiprocessor gets in the time of an access, 64 a cycle
WARPGROUP = 4  # warps: with one, several products have other blocks beside them, and no producer
RELEASED_STAGES = 2  # where warps release them one by one: more were not faster,
OWN_STAGES = 3  # unless they wait for memory
LARGE_STAGE = 64 << 10  # bytes: of such, a producer needs no third one
# Of a launch of clusters, whose blocks are few and mostly alone on their multiprocessors: each step
# waits for memory.  2560 x 64 x 2560 by two blocks of 64 x 64 x 64: 8.2 us with 6 stages, 7.7 with
# 8, 7.5 with 10, 7.7 with 12.
ALONE_STAGES, ALONE_IN_FLIGHT = 10, 1 << 17

# Where threads compute anew in each step what they copy, other blocks' products run meanwhile: as
# many blocks of a warpgroup shall be resident as have registers for so many beside their sums, if
# each has so many stages; more than BESIDE if each has the most.  Grouped 3 x 3 convolution by 128
# x 32 x 32, H200: 81 us in three blocks, 76 in four, 72 in five.  Half NCHW, 44 x 44, by 128 x 64 x
# 32: 47 us in three, 38 in four.
BESIDE, BESIDE_STAGES, BESIDE_WARPS, BESIDE_REGISTERS, MOST_BESIDE = 3, 3, 4, 64, 5

# Where threads compute an operand of wgmma in registers, another block's products run meanwhile: as
# many blocks as have registers, beside their sums and two sets of operands, and so many stages.
# H200, in clusters of two: 64 x 11008 x 4096 of MXFP8 by 64 x 64 x 64 41.9 us alone, 34.8 beside
# another; of 4 bits, 128 x 4096 x 4096 by 64 x 64 x 128 21.0, 16.9, 64 x 4096 x 4096 11.5, 11.3.
COMPUTING_WARPS, COMPUTING_REGISTERS = 16, 64


def blocks_computing(stage_bytes: int, warps: int, held: float, target: Target) -> int:
    """How many blocks shall be resident whose threads compute an operand of wgmma; `held`: the
    registers of a thread for sums and two sets of operands.

    >>> from tritonc.backend.target.target import TARGETS
    >>> target = TARGETS["sm_90a"]
    >>> [blocks_computing(20480, 8, held, target) for held in (64, 80)]
    [2, 1]
    """
    most = min(COMPUTING_WARPS // warps, int(target.registers_per_multiprocessor // (
        warps * target.warp_size * (held + COMPUTING_REGISTERS))))
    return next((blocks for blocks in range(most, 1, -1)
                 if stages_beside(stage_bytes, blocks, target) >= MOST_STAGES), 1)


def blocks_beside(stage_bytes: int, warps: int, sums: int, target: Target) -> int:
    """How many blocks of a product on wgmma shall be resident whose copies are computed; `sums`:
    what each thread holds of its result.

    >>> from tritonc.backend.target.target import TARGETS
    >>> target = TARGETS["sm_90a"]
    >>> [blocks_beside(1 << 14, 4, 64, target), blocks_beside(49152, 8, 64, target)]
    [3, 1]
    >>> [blocks_beside(10240, 4, 32, target), blocks_beside(6144, 4, 64, target)]
    [5, 4]
    """
    threads = warps * target.warp_size
    most = max(BESIDE, min(MOST_BESIDE, target.registers_per_multiprocessor // (
        threads * (sums + BESIDE_REGISTERS))))
    fits = (blocks for blocks in range(most, BESIDE - 1, -1) if stages_beside(
        stage_bytes, blocks, target) >= (MOST_STAGES if blocks > BESIDE else BESIDE_STAGES))
    return next(fits, 1) if warps <= BESIDE_WARPS else 1


def stages_beside(stage_bytes: int, blocks: int, target: Target) -> int:
    """The stages of each of so many blocks on a multiprocessor."""
    return min(MOST_STAGES, share_of(blocks, target) // stage_bytes)


def share_of(blocks: int, target: Target) -> int:
    """The shared memory of each of so many blocks."""
    return target.shared_per_multiprocessor // blocks - target.shared_reserved - LEFT


def computing_beside(kernel: Kernel, staged: StagedLoop, target: Target) -> int:
    """How many blocks shall be resident whose threads compute operands in this loop."""
    products = [op for op in staged.loop.ops() if op.name == "wgmma"]
    made = [op.operands[0] for op in products if isinstance(op.operands[0].type, Tile)]
    if not made or not staged.asynchronous or waits(staged.body):
        return 1
    held = sum(words(op.result) for op in products) + 2 * sum(map(words, made))
    return blocks_computing(staged.stage_bytes, kernel.attributes["num_warps"], held, target)


def copied_stages(kernel: Kernel, staged: StagedLoop, target: Target, programs: int) -> int:
    """Of buffers that threads fill.  With wgmma, which has one stage more in flight, as many as
    keep memory busy: further copies only wait for their turn, and threads for them."""
    most = most_stages(kernel, staged, target, programs)
    if not staged.asynchronous:
        return most
    if others_beside(kernel, staged, target):
        most = min(most, shared_stages(kernel, staged, target))
    if (blocks := computing_beside(kernel, staged, target)) > 1:
        most = min(most, stages_that_fit(staged, share_of(blocks, target)))
    in_flight = ALONE_IN_FLIGHT if "cluster" in kernel.attributes else IN_FLIGHT
    return min(most, 2 - -in_flight // staged.stage_bytes)


def most_stages(kernel: Kernel, staged: StagedLoop, target: Target, programs: int) -> int:
    """As many stages as fit, of so many programs that a block computes at once; with mma.sync, two
    blocks to a multiprocessor if three fit each."""
    whole = stages_that_fit(staged, target.shared_per_block // programs - LEFT)
    if staged.asynchronous:
        return min(ALONE_STAGES if "cluster" in kernel.attributes else MOST_ASYNCHRONOUS, whole)
    if any(op.name == "fma_dot" for op in staged.loop.ops()):
        return min(CORE_STAGES, whole)
    half = stages_that_fit(staged, target.shared_per_multiprocessor // 2 - target.shared_reserved)
    return min(MOST_STAGES, half if half >= 3 else whole)


def reads_alone(kernel: Kernel, staged: StagedLoop) -> bool:
    """Whether each program has operands of its own, as when it decodes: where they lie follows from
    all numbers of the program, and from all quotients and remainders of these.  Then no cache has
    what the loop reads."""
    counters = {op for op in kernel.ops() if op.name == "phi" and is_int(op.result.type)}
    made = slice_of((v for store in staged.stores for v in store.operands),
                    {*kernel.ops()} - counters, masks=False)
    readers = uses(kernel)
    ids = [op for op in kernel.ops() if op.name == "get_program_id"]
    numbers = [op for op in ids if op in made]  # of this body
    if {op.attributes["axis"] for op in numbers} != {op.attributes["axis"] for op in ids} or any(
            op.name == "get_num_programs" for op in made):  # mixed, so that neighbours share
        return False
    for op in numbers:
        numbers += (parts := [one for one in readers.get(op.result, ()) if one.name in DIVISIONS
                              and one.operands[0] is op.result])
        if not parts and op not in made:
            return False
    return bool(numbers)


def others_beside(kernel: Kernel, staged: StagedLoop, target: Target) -> bool:
    """Whether other blocks have room beside one of a warpgroup, whose products wait for each other:
    they fill its time, and need its shared memory and the registers of a producer warp.  Those of
    clusters are few: 32 x 4096 x 4096 of 8-bit floats in pairs 16.1 us beside them, 9.0 alone."""
    return (kernel.attributes["num_warps"] == WARPGROUP and waits(staged.body)
            and "cluster" not in kernel.attributes
            and stages_that_fit(staged, share_of(2, target)) >= 2
            and resident_blocks(kernel, target) > 1)


def shared_stages(kernel: Kernel, staged: StagedLoop, target: Target) -> int:
    """The stages that leave shared memory for the other blocks that have registers, and two."""
    blocks = max(2, resident_blocks(kernel, target))
    return max(RELEASED_STAGES, stages_that_fit(staged, share_of(blocks, target)))


def released_stages(kernel: Kernel, staged: StagedLoop, target: Target) -> int:
    """The stages of a chain of products, which warps release one by one.  One warpgroup of rows
    takes less time than memory needs for what it reads alone: a third, if two blocks have room.  64
    rows of 128, 64 keys a step, H200: 128 programs of 4096 keys 81.8 us with two stages, 65.5 with
    three, 65.7 with four; 512 of 1024 67.0, 68.7 and 74.3, as one block is resident then."""
    if kernel.attributes["num_warps"] > WARPGROUP or not reads_alone(kernel, staged):
        return RELEASED_STAGES
    room = target.shared_per_multiprocessor // 2 - target.shared_reserved - LEFT // 2
    return max(RELEASED_STAGES, min(OWN_STAGES, stages_that_fit(staged, room)))
