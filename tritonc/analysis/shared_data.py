"""Loops and atomics whose time follows from other programs or what is loaded (`row_loops`)."""

from math import prod

from tritonc.analysis.counters import counter_of
from tritonc.analysis.row_loops import NUMBERED
from tritonc.analysis.values import slice_of, tile_loads
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import Tile, shape

_WARP = 32  # elements


def segments(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop that loads tiles goes from one number that is loaded, or that a search finds,
    to another: most runs are short."""
    return any(is_segment(cfg, loop) and tile_loads(loop.ops()) for loop in cfg.loops)


def is_segment(cfg: Cfg, loop: Loop) -> bool:
    """Whether a loop begins and ends at numbers that the program loads, or finds by a search."""
    counter = counter_of(loop)
    return counter is not None and all(
        _loaded(value) or _searched(cfg, value)
        for value in (loop.first(counter.phi), counter.limit))


def _searched(cfg: Cfg, value: Value) -> bool:
    """Whether a loop of scalars that loads left with this number."""
    search = cfg.innermost.get(cfg.block_of[value.op]) if value.op is not None else None
    return search is not None and value.op in search.header.phis() and any(
        op.name == "load" and not shape(op.result.type) for op in search.ops())


def asks_programs(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop without tiles of more than a warp has atomics, or loads that are volatile: how
    long it takes is up to other programs, so there had better be many."""
    return any(op.name in ("atomic_rmw", "atomic_cas") or op.attributes.get("volatile")
               for loop in cfg.loops if _of_scalars(loop, _WARP) for op in loop.ops())


def searches(cfg: Cfg) -> bool:
    """Whether a loop without tiles loads: each iteration waits for memory, so there had better be
    many programs."""
    return any(op.name == "load" for loop in cfg.loops if _of_scalars(loop) for op in loop.ops())


def _of_scalars(loop: Loop, most: int = 0) -> bool:
    """Whether no tile of the loop has more than so many elements."""
    return all(not isinstance(v.type, Tile) or prod(v.type.shape) <= most
               for op in loop.ops() for v in (*op.results, *op.inputs()))


def chains_programs(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a program waits for what another one tells, by a load that is atomic, and tells
    nothing itself before that: a launch waits as often as it has programs."""
    def tells(op: Op) -> bool:
        return op.name == "store" or (op.name == "atomic_rmw" and op.attributes["kind"] in (
            "store", "xchg"))

    return asks_programs(kernel, cfg) and any(
        any(op.name == "atomic_rmw" and op.attributes["kind"] == "load" for op in loop.ops())
        and not any(tells(op) for block in kernel.blocks
                    if block not in loop and cfg.dominates(block, loop.header) for op in block.ops)
        for loop in cfg.loops)


def shares_addresses(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether there are atomics that no loop makes, none of them read, on addresses of which
    programs have many in common, as those beside each other along an axis of tiles that they do not
    follow, or histograms in a loop: fewer programs, fewer additions."""
    readers = uses(kernel)
    tiled = {op.attributes["axis"] for op in kernel.ops() if op.name == "get_global_range"}
    found = [op for op in kernel.ops() if op.name == "atomic_rmw"]
    return counts_in_loops(cfg) or (not any(
        readers.get(op.result) or cfg.block_of[op] in cfg.innermost for op in found) and any(
        not isinstance(op.operands[0].type, Tile) or _loaded(op.operands[0])
        or not (axes := _axes_of(op.operands[0])) or tiled - axes for op in found))


def adds_sums(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop adds to memory, by atomics, what it sums up of each of its tiles: the larger
    a tile, the fewer additions."""
    return any(op.name == "atomic_rmw" and shape(op.operands[1].type) and any(
        one.name == "reduce" and one in ops for one in slice_of(op.operands[1:2], ops))
        for block in cfg.innermost if (ops := set(block.ops)) for op in block.ops)


def adds_to_loaded(kernel: Kernel, largest: int) -> bool:
    """Whether atomics on tiles of more than half of `largest` elements add to addresses that follow
    from what is loaded, as of a histogram, where threads take turns."""
    return any(op.name == "atomic_rmw" and 2 * prod(shape(op.operands[0].type)) > largest
               and _loaded(op.operands[0]) for op in kernel.ops())


def counts_in_loops(cfg: Cfg) -> bool:
    """Whether loops have histograms."""
    return any(op.name == "histogram" for loop in cfg.loops for op in loop.ops())


def contended(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether an atomic that no loop makes has a parameter for its address, and is read: programs
    take turns, some nanoseconds each, and wait for the answer."""
    readers = uses(kernel)
    return any(op.name == "atomic_rmw" and op.operands[0] in kernel.parameters
               and readers.get(op.result) and cfg.block_of[op] not in cfg.innermost
               for op in kernel.ops())


def _axes_of(value: Value) -> set[int]:
    """The axes of the grid along which a value depends on the program's number."""
    return {op.attributes["axis"] for op in slice_of([value], masks=False) if op.name in NUMBERED}


def _loaded(value: Value) -> bool:
    return any(op.name == "load" for op in slice_of([value], masks=False))
