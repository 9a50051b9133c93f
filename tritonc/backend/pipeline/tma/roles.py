"""Roles of a block's threads: a producer warp that makes the TMA loads, consumer warpgroups.

The *consumers* hold the tiles and compute; the *producer*, one thread of warps beside theirs, runs
what brings them operands.  `specialize_warps` proves that the two may part; the emitter writes the
kernel twice, for each role without what the other one does."""

from collections.abc import Iterable

from tritonc.backend.target.register_limits import LEAST_CONSUMER, PRODUCER_LEAST
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import Tile

CONSUMERS, PRODUCER = "consumers", "producer"
COPIES = ("wait_empty", "expect_full", "tma_load")  # what the producer does
SETUP = ("init_barriers", "claim_slot", "tensor_map", "publish_maps")  # what its warps do before
START = "start_producer"  # where it begins, and the consumers meet it
PRODUCER_WARPS = 4  # registers are given to groups of four warps


def registers(warps: int, target: Target) -> tuple[int, int] | None:
    """Registers of a thread of the producer's warps and of so many consumers'; (0, 0) if those that
    all get at the start do, None if consumers would have too few."""
    total = target.registers_per_multiprocessor >> LANE_BITS
    first = total // (warps + PRODUCER_WARPS) // 8 * 8
    if first >= LEAST_CONSUMER:
        return 0, 0
    rest = first * (warps + PRODUCER_WARPS) - PRODUCER_LEAST * PRODUCER_WARPS
    consumers = rest // warps // 8 * 8
    return (PRODUCER_LEAST, consumers) if consumers >= LEAST_CONSUMER else None


def has_producer(kernel: Kernel) -> bool:
    """Whether a warp of its own makes the copies."""
    return any(op.name == START for op in kernel.ops())


def leading_to_copies(blocks: Iterable[Block]) -> list[Block]:
    """The blocks from which an operation of the producer can be reached, in the given order."""
    order = list(blocks)
    return leading_to(order, [block for block in order if any(
        op.name in (*COPIES, START) for op in block.ops)])


def producer_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Those of them that the producer runs; the first is where it begins."""
    order = leading_to_copies(blocks)
    run = reached(order[:1], producer_ways)
    return [block for block in order if block in run]


def producer_ways(block: Block) -> list[Block]:
    """The blocks to which the producer goes: to one alone where it passes by what others do."""
    passes = block.terminator.attributes.get("passes")
    return block.successors if passes is None else [block.successors[passes]]


def passed_by(cfg: Cfg, block: Block) -> int | None:
    """The number of the block to which the producer may go from a branch whatever the condition:
    the other way leads there too, and has nothing to do for it.  None if there is none."""
    for i, end in enumerate(block.successors):
        way = reached([block.successors[1 - i]], stop=[end])
        if end not in way and block not in way and all(
                set(cfg.predecessors[b]) <= {block, *way} and not any(
                    op.name in (*COPIES, START, "ret") for op in b.ops) for b in way) and all(
                isinstance(phi.result.type, Tile) for phi in end.phis()):
            return i
    return None


def leading_to(blocks: Iterable[Block], ends: Iterable[Block]) -> list[Block]:
    """The blocks from which one of `ends`, which are among them, can be reached, in their order."""
    order, found = list(blocks), set(ends)
    changed = True
    while changed:
        more = {block for block in order if found.intersection(block.successors)} - found
        found |= more
        changed = bool(more)
    return [block for block in order if block in found]


def first_choices(kernel: Kernel) -> set[Block]:
    """The blocks in which threads only choose a body by scalars, or end, before they take the
    registers of their role; none where others lead to what comes behind them."""
    cfg = Cfg(kernel)
    choices: set[Block] = set()
    pending = [kernel.entry]
    while pending:
        block = pending.pop()
        if block in choices or not chooses(block) or not choices.issuperset(
                cfg.predecessors[block]):
            continue
        choices.add(block)
        pending += block.successors
    behind = {to for block in choices for to in block.successors} - choices
    apart = all(choices.issuperset(cfg.predecessors[block]) for block in behind)
    return choices if apart else set()


def chooses(block: Block) -> bool:
    """Whether a block computes scalars only, and branches or returns."""
    return all(op.name in ("cond_br", "br", "ret") or (
        op.pure and op.name != "phi"
        and not any(isinstance(v.type, Tile) for v in (*op.results, *op.operands)))
        for op in block.ops)
