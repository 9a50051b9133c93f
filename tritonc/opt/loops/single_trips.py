"""single_trips: rows that fit one tile are loaded once.

Before:  loop over n < N in steps of 1024:      After:  cond_br (0 < N and N <= 1024), once, loops
             add up x[n + r]                            once:  load x[r], add it up, store what is
         loop over n < N in steps of 1024:                     made of it
             store what is made of x[n + r]             loops: both loops

A program that makes several passes over a row loads it in each, and waits for it in each.  Where
every loop runs just once, the passes are one block, in which the second load is the first one's.

Rows are short as often as not, and a tile for long ones is loaded by few programs at a time.

Where the bounds of a length tell how many tiles all rows take, as in an entry for rows of 8193 to
10240 elements, and threads can hold them, all loops are straight code instead, of so many tiles.

Needs loops with one exit, at their headers, whose pointers still move as the source moved them."""

from math import prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.counters import counter_of
from tritonc.analysis.facts import Facts
from tritonc.analysis.linear import Linear, emit, number
from tritonc.analysis.row_loops import reducing_passes, several_passes
from tritonc.analysis.values import int_of
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Block, Kernel
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.types import I64, Tile, element, shape
from tritonc.opt.cse import cse
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.loops.unroll_loops import unroll
from tritonc.opt.peephole import peephole
from tritonc.opt.simplify_cfg import simplify_cfg

MOST_ELEMENTS = 32  # of a row in a thread


def single_trips(kernel: Kernel, context: Context) -> bool:
    """Add a body for rows of one tile, where a row is loaded several times."""
    cfg = Cfg(kernel)
    if "single_trips" in kernel.attributes or any(op.name == "dot" for op in kernel.ops()) \
            or not (several_passes(kernel, cfg) or reducing_passes(kernel, cfg)):
        return False  # a product's loop hardly ever runs once
    times = _known(kernel, cfg, context)
    if times > 1:
        for header in [loop.header for loop in cfg.loops]:
            unroll(kernel, next(one for one in Cfg(kernel).loops if one.header is header),
                   times, times)
        return _finish(kernel, context, times)
    if context.meta.get("cluster_k", 1) > 1:
        return False
    tests = [_once(loop) for loop in cfg.loops]
    if not all(tests) or any(loop.depth > 1 for loop in cfg.loops) or any(
            v.op is not None for pairs in tests for pair in pairs for p in pair
            for v in p.values()):
        return False
    context.remark("single_trips", "a separate path for rows that fit one tile", kernel.span)
    dispatch, entry = Block("rows"), kernel.entry
    for op in [op for op in entry.ops if op.info.pure and op.name != "phi"]:
        if not any(isinstance(v.type, Tile) for v in (*op.results, *op.inputs())) and all(
                v.op is None or v.op in dispatch.ops for v in op.inputs()):
            dispatch.ops.append(op)  # such as which row it is: the same in both bodies
    entry.ops = [op for op in entry.ops if op not in dispatch.ops]
    headers, (blocks, _) = [loop.header for loop in cfg.loops], copy_blocks(kernel.blocks, ".once")
    copies = dict(zip(kernel.blocks, blocks, strict=True))
    b = Builder(dispatch)
    ok = b.joined("and", (
        b.value("icmp", emit(b, least, I64), emit(b, most, I64), predicate="sle")
        for least, most in dict.fromkeys(pair for pairs in tests for pair in pairs)))
    b.emit("cond_br", ok, blocks=[copies[entry], entry])
    kernel.blocks = [dispatch, *kernel.blocks, *blocks]
    for header in headers:
        unroll(kernel, next(loop for loop in Cfg(kernel).loops
                            if loop.header is copies[header]), 1, 1)
    return _finish(kernel, context)


def _finish(kernel: Kernel, context: Context, times: int = 1) -> bool:
    kernel.attributes["single_trips"] = times
    for clean in (fold_constants, peephole, simplify_cfg, cse):
        clean(kernel, context)
    return True


def _known(kernel: Kernel, cfg: Cfg, context: Context) -> int:
    """How often all loops run, where the bounds of a length tell it and threads can hold the row;
    0 otherwise."""
    facts, times = Facts(kernel), set[int]()
    for loop in cfg.loops:
        counter = counter_of(loop) if loop.one_exit and loop.latch is not loop.header else None
        first = counter and int_of(loop.first(counter.phi))
        if counter is None or first is None or counter.predicate != "slt" or loop.depth > 1:
            return 0
        times |= {-(-(limit - first) // counter.step) for limit in facts.interval(counter.limit)}
    largest = max(prod(shape(op.result.type)) for op in kernel.ops() if op.name == "load")
    threads = WARP_SIZE * context.meta.get("num_warps", 0) * context.meta.get("cluster_k", 1)
    return times.pop() if len(times) == 1 and (
        largest * max(times) <= MOST_ELEMENTS * threads) else 0


def _once(loop: Loop) -> list[tuple[Linear, Linear]]:
    """What must not exceed what, so that a loop runs just once; nothing where that is not known."""
    counter = counter_of(loop) if loop.one_exit and loop.latch is not loop.header else None
    if counter is None or counter.predicate in ("eq", "ne"):
        return []
    affinity, sign, order = Affinity(), counter.predicate[0], counter.predicate[1:]
    first, limit = affinity.of(loop.first(counter.phi)), affinity.of(counter.limit)
    if first is None or limit is None:
        return []
    # One of both ends is a number, so that the counter cannot wrap.
    known = first.offset.constant if limit.offset.constant is None else limit.offset.constant
    if known is None or (first.offset - limit.offset).constant is not None or (
            sign == "u" and known < 0) or (
            abs(known) + abs(counter.step)) >> element(counter.limit.type).bits - 1:
        return []
    after = first.offset + number(counter.step)
    less, rest = (number(int(n)) for n in (order[1] == "t", order[1] == "e"))
    if order[0] == "l":
        return [(first.offset + less, limit.offset), (limit.offset + rest, after)]
    return [(limit.offset + less, first.offset), (after + rest, limit.offset)]
