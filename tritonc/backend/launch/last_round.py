"""The last round of persistent blocks, in small tiles where `coarsen` has a body of them.

160 tiles of 128 x 256 take 132 blocks two rounds, and in the second one 28 blocks work.  If the
tiles of that round, cut into small ones, are no more than there are blocks, each small tile gets a
block of its own.  These have the numbers behind those of the persistent blocks, and the hardware
starts each where one of those has ended."""

from collections.abc import Mapping, Sequence

from tritonc.analysis.values import needed
from tritonc.backend.launch.persist import counts_programs, supersede
from tritonc.backend.launch.rasterize import bands
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I32
from tritonc.records import NamedTuple


class LastRound(NamedTuple):
    """`facts`: blocks that choose the persistent body, and on what; `tests` compare the number of a
    program with how many there are.  Values: the persistent `blocks`; the programs that are left to
    them, `whole` rounds; the `small` tiles behind; the `bound` of all blocks with work."""

    facts: list[tuple[Block, Value]]
    tests: list[Op]
    blocks: Value
    whole: Value
    small: Value
    bound: Value


def plan(b: Builder, large: Kernel, parts: int, total: Value, launched: Value) -> LastRound | None:
    """What a launch finds out first; None where the large body is not persistent, or is chosen by
    more than scalars.  `parts`: small tiles of a large one; `total`, `launched`: how many there are
    of both."""
    cfg = Cfg(large)
    loops = [loop for loop in cfg.loops if counts_programs(loop)]
    if "bands" not in large.attributes or len(loops) != 1 or not (tests := _tests(*loops)):
        return None
    (loop,) = loops
    facts = [(block, block.terminator.operands[0]) for block in large.blocks
             if block not in loop and cfg.dominates(block, loop.header)
             and block.terminator.name == "cond_br" and not _counts_blocks(block)]
    if not all(cfg.dominates(block.successors[0], loop.header) and all(
            op.pure and op.name != "phi" for op in needed(block.ops, [test]))
            for block, test in facts):
        return None
    blocks, zero = b.emit("get_num_multiprocessors", type=I32).result, b.constant(0, I32)
    left = b.value("urem", total, blocks)
    small = b.value("mul", left, b.constant(parts, I32))
    used = b.value("add", blocks, small)
    fits = b.value("icmp", blocks, total, predicate="ult")
    for few, many in ((small, blocks), (used, launched)):
        fits = b.value("and", fits, b.value("icmp", few, many, predicate="ule"))
    return LastRound(facts, tests, blocks,
                     b.value("sub", total, b.value("select", fits, left, zero)),
                     b.value("select", fits, small, zero),
                     b.value("select", fits, b.value("umax", used, total), total))


def _counts_blocks(block: Block) -> bool:
    """Whether a block ends those beyond the persistent ones."""
    test = block.terminator.operands[0].op
    return test is not None and test.name == "icmp" and _is_count(test.operands[1])


def _is_count(value: Value) -> bool:
    return value.op is not None and value.op.name == "get_num_multiprocessors"


def _tests(loop: Loop) -> list[Op]:
    """The comparisons of a program's number, or the next one's, with how many there are."""
    first = loop.header.terminator.operands[0].op
    if first is None or first.name != "icmp":
        return []
    number, total = first.operands
    numbers = {number, *(op.result for op in loop.ops() if op.name == "add"
                         and number in op.operands and any(map(_is_count, op.operands)))}
    return [op for op in loop.ops() if op.name == "icmp" and op.operands[1] is total
            and op.operands[0] in numbers]


def add(large: Kernel, small: Kernel, found: LastRound, times: Mapping[int, int], number: Value,
        inside: Value, extents: Sequence[Value]) -> tuple[Block, Block, list[Block]]:
    """Let blocks behind the persistent ones run the small body.  `number`: a block's own, `inside`:
    whether a large tile has it; `extents`: those of large tiles.

    Returns the block that begins a small tile with the block's own numbers, the one that begins a
    large tile or the last round, and all new ones."""
    own, choose, cut, tile, plain, over = new = [*map(Block, (
        "own", "round", "cut", "tile", "plain", "end"))]
    b = Builder(choose)
    place = b.value("sub", number, found.blocks)
    taken = b.value("and", b.value("icmp", number, found.blocks, predicate="uge"),
                    b.value("icmp", place, found.small, predicate="ult"))
    for block, test in found.facts:
        mapping: dict[Value, Value] = {}
        for copy in copy_ops(needed(block.ops, [test]), mapping):
            b.insert(copy)
        taken = b.value("and", taken, mapping.get(test, test))
    b.emit("cond_br", taken, blocks=[cut, plain])
    Builder(plain).emit("cond_br", inside, blocks=[large.entry, over])
    numbers = _cut(Builder(cut), found.whole, place, [times.get(axis, 1) for axis in (0, 1)],
                   extents, large.attributes["bands"])
    b = Builder(cut)
    there = [b.value("icmp", n, b.value("get_num_programs", axis=axis), predicate="ult")
             for axis, n in enumerate(numbers)]
    b.emit("cond_br", b.value("and", *there), blocks=[tile, over])
    b = Builder(own)
    mine = [b.value("get_program_id", axis=axis) for axis in (0, 1)]
    b.emit("br", blocks=[tile])
    phis = [make_phi(list(pair), [cut, own]) for pair in zip(numbers, mine, strict=True)]
    tile.ops += phis
    Builder(tile).emit("br", blocks=[small.entry])
    Builder(over).emit("ret")
    supersede(small, small.blocks, {
        op.result: phis[op.attributes["axis"]].result for op in small.ops()
        if op.name == "get_program_id" and op.attributes["axis"] < 2})
    for compare in found.tests:
        compare.operands[1] = found.whole
    return own, choose, new


def _cut(b: Builder, first: Value, place: Value, times: Sequence[int], extents: Sequence[Value],
         group: int) -> list[Value]:
    """The numbers of small tile `place` of large ones from number `first` on: `times` along each
    axis of a large one."""
    rows, columns = (b.constant(ratio, I32) for ratio in times)
    parts = b.value("mul", rows, columns)
    part = b.value("urem", place, parts)
    at = bands(b, b.value("add", first, b.value("udiv", place, parts)), extents[0], extents[1],
               group)
    return [b.value("add", b.value("mul", n, ratio), b.value(name, part, rows))
            for n, ratio, name in zip(at, (rows, columns), ("urem", "udiv"), strict=True)]
