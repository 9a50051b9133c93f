"""Kinds of loops over rows that a kernel has, for those who choose its tiles and its warps.

Each function says which kernels it means, and what follows for programs and threads.  Those over
columns are in `column_loops`, what waits for data or other programs in `shared_data`."""

from math import prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.values import defined_by, is_uniform, origin, slice_of, tile_loads
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I1, Tile, element, is_float, shape

_FEW_LOADS = 3
_TESTS = ("and", "or", "xor", "icmp", "fcmp")
NUMBERED = ("get_program_id", "get_global_range")


def several_passes(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether loops that follow each other load tiles from one parameter: what the first brings
    should still be in a cache, so few programs at a time.  Not where the loops reduce tiles: then
    warps would wait for each other; nor where rows are loaded without a loop, too: short ones."""
    if any(op.name in ("reduce", "scan", "reduce_with", "scan_with")
           for block in cfg.innermost for op in block.ops):
        return False
    return bool(loaded_again(kernel, cfg))


def loaded_again(kernel: Kernel, cfg: Cfg, long: bool = False) -> dict[Value, Op]:
    """The parameters from which a loop loads tiles that one before it loads, with the load; none
    where short rows are loaded without a loop, unless they are `long`."""
    found: dict[Value, Op] = {}
    roots = pointer_roots(kernel) if len(cfg.loops) > 1 else {}
    loads = [(origin(root, ("assume_multiple",)), op, cfg.innermost.get(block))
             for block in cfg.order for op in block.ops
             if op.name == "load" and isinstance(op.operands[0].type, Tile)
             and (root := roots.get(op.operands[0])) is not None]
    in_loops = {place for place, _, loop in loads if loop is not None}
    seen: dict[Value, list[Loop]] = {}  # loops that load
    for place, op, loop in loads:
        if loop is None:
            if place in in_loops and not (long or kernel.attributes.get("single_trips")):
                return found
            continue
        before = seen.setdefault(place, [])
        if any(loop.header not in one and one.header not in loop
               and cfg.dominates(_beside(one, loop).header, loop.header) for one in before):
            found[place] = op
        before.append(loop)
    return found


def uneven_passes(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether programs make several passes over rows that are not equally long."""
    return several_passes(kernel, cfg) and not all(
        same_for_all(loop) for block, loop in cfg.innermost.items() if tile_loads(block.ops))


def _beside(loop: Loop, other: Loop) -> Loop:
    """The outermost loop around `loop` that does not hold the other one."""
    while loop.parent is not None and other.header not in loop.parent:
        loop = loop.parent
    return loop


def reducing_passes(kernel: Kernel, cfg: Cfg) -> bool:
    """The same, where some of the loops have built-in reductions, and keep scalars."""
    ops = [op for block in cfg.innermost for op in block.ops]
    names = {op.name for op in ops}
    return "reduce" in names and not names & {"scan", "reduce_with", "scan_with"} \
        and bool(loaded_again(kernel, cfg))


def crosses(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether each loop that loads tiles carries one of more axes than any that it loads: each
    element of one line meets each of another, as in a product."""
    loading = [loop for loop in cfg.loops if tile_loads(loop.ops())]
    return bool(loading) and not any(
        op.name == "dot" or op.name.startswith("reduce") for loop in loading
        for op in loop.ops()) and all(
        max((_axes(phi.result) for phi in loop.header.phis()), default=0) > max(
            1, *(_axes(op.result) for op in loop.ops() if op.name == "load")) for loop in loading)


def _axes(value: Value) -> int:
    return sum(extent > 1 for extent in shape(value.type))


def adds_gathered(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop only adds rows whose numbers it loads, of several at once."""
    return any(only_adds(loop) and any(
        _axes(op.result) > 1 and any(
            each.name == "load" for each in slice_of(op.operands[:1], {*loop.ops()} - {op}))
        for op in tile_loads(loop.ops())) for loop in cfg.loops) and not any(
        op.name in ("reduce", "reduce_with") for op in kernel.ops())


def adds_tiles(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether an inner loop loads tiles of the shape of one of floats that it carries, and nothing
    is reduced: a stencil of many points, read that often."""
    if any(op.name in ("reduce", "reduce_with", "dot") for op in kernel.ops()):
        return False
    return any(loop.depth > 1 and any(
        is_float(phi.result.type) and len(extents := shape(phi.result.type)) > 1
        and any(shape(op.result.type) == extents for op in tile_loads(loop.ops()))
        for phi in loop.header.phis()) for loop in cfg.loops)


def same_for_all(loop: Loop) -> bool:
    """Whether how often the loop runs depends neither on which program it is nor on data."""
    return not any(op.name in (*NUMBERED, "load")
                   for op in slice_of(loop.header.terminator.operands, masks=False))


def recurrence(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether each iteration of a loop reduces a tile of the shape of one that it carries, and
    loads none of that shape: it waits for lanes and memory each time, so many programs."""
    for loop in cfg.loops:
        ops = list(loop.ops())
        carried = {shape(phi.result.type) for phi in loop.header.phis()}
        loaded = {shape(op.result.type) for op in tile_loads(ops)}
        if any(op.name == "reduce" and len(extents := shape(op.operands[0].type)) > 1
               and extents in carried - loaded for op in ops):
            return True
    return False


def reduces_registers(cfg: Cfg, largest: int) -> bool:
    """Whether a loop that loads no tiles reduces some of more than half of `largest` elements: in
    each iteration warps that share a row would wait for each other."""
    return any(
        any(op.name == "reduce" and 2 * prod(shape(op.operands[0].type)) > largest
            and op.result.type != I1 for op in loop.ops())
        and not tile_loads(loop.ops()) for loop in cfg.loops)


def only_adds(loop: Loop) -> bool:
    """Whether a loop stores nothing, and the tiles that it carries are sums, which it does not
    read."""
    if any(op.name == "store" for op in loop.ops()):
        return False
    for phi in loop.header.phis():
        if isinstance(phi.result.type, Tile) and is_float(phi.result.type):
            readers = [op for op in loop.ops() if phi.result in op.operands]
            if [op.name for op in readers] != ["fadd"]:
                return False
    return True


def windows_of_bytes(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether tiles of bytes are loaded several times, as of a window of pixels: what is computed
    of them takes a register for each.  What is scanned is no window."""
    loads = tile_loads(kernel.ops())
    if not loads or any(element(op.result.type).bytes > 1 for op in loads) or any(
            op.name in ("scan", "scan_with") for op in kernel.ops()):
        return False
    if all(len(shape(op.result.type)) == 1 for op in loads):  # not the channels of a pixel
        roots = pointer_roots(kernel)
        return len(loads) > 1 + _FEW_LOADS and len({roots[op.operands[0]] for op in loads}) == 1
    return len(loads) > _FEW_LOADS or any(cfg.block_of[op] in cfg.innermost for op in loads)


def ends_by_tile(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop's test asks for what elements of a tile that it carries are reduced to, as
    whether any is left: small tiles wait for fewer."""
    for loop in cfg.loops:
        stack = [block.terminator.operands[0].op for block in loop.blocks
                 if block.terminator.name == "cond_br"
                 and any(each not in loop for each in block.successors)]
        while stack:
            op = stack.pop()
            if op is not None and op.name == "reduce" and not _counted(loop, op.operands[0]) \
                    and any(one.name == "phi" for one in slice_of(op.operands, {*loop.ops()})):
                return True
            if op is not None and op.name in _TESTS and not shape(op.result.type):
                stack += [v.op for v in op.operands]
    return False


def _counted(loop: Loop, condition: Value) -> bool:
    """Whether a condition compares counters only, as `i < n` of a tile that takes turns."""
    def counts(value: Value) -> bool:
        phi = value.op
        after = defined_by(loop.next(phi), "add") if phi in loop.header.phis() else None
        return Affinity().of(value) is not None if after is None else value in after.operands \
            and any(map(is_uniform, after.operands))

    test = defined_by(condition, "icmp")
    return test is not None and loop.latch is not None and all(map(counts, test.operands))


def waits_for_itself(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop stores in each iteration what it makes of tiles of numbers that it carries, or
    is a recurrence."""
    if recurrence(kernel, cfg):
        return True
    for loop in cfg.loops:
        made = {phi.result for phi in loop.header.phis()
                if isinstance(phi.result.type, Tile) and is_float(phi.result.type)}
        for op in loop.ops():
            if op.name == "store" and isinstance(op.operands[0].type, Tile) \
                    and op.operands[1] in made:
                return True
            if op.name != "phi" and not made.isdisjoint(op.operands):
                made.update(op.results)
    return False


def carried(cfg: Cfg) -> list[list[Tile]]:
    return [[phi.result.type for phi in loop.header.phis() if isinstance(phi.result.type, Tile)]
            for loop in cfg.loops]
