"""What kind of loops over memory a kernel has, for those who choose its tiles and its warps.

Each function says which kernels it means, and what follows for programs and threads.
"""

from __future__ import annotations

from math import prod

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import counter_of, iterations
from tritonc.analysis.values import defined_by, int_of, is_uniform, origin, slice_of
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import I1, Tile, element, is_float, shape

_FEW_LOADS = 3
_WARP = 32  # elements
_MANY_TAPS, _MOST_TAPS = 16, 100
_NUMBERED = ("get_program_id", "get_global_range")


def several_passes(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether loops that follow each other load tiles from one parameter: what the first brings
    should still be in a cache, so few programs at a time.  Not where the loops reduce tiles: then
    warps would wait for each other; nor where rows are loaded without a loop, too: short ones."""
    if any(op.name in ("reduce", "scan", "reduce_with", "scan_with")
           for block in cfg.innermost for op in block.ops):
        return False
    return bool(loaded_again(kernel, cfg))


def loaded_again(kernel: Kernel, cfg: Cfg) -> dict[Value, Op]:
    """The parameters from which a loop loads tiles that one before it loads, with the load."""
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
            if place in in_loops and not kernel.attributes.get("single_trips"):
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
        same_for_all(loop) for block, loop in cfg.innermost.items()
        if any(op.name == "load" and isinstance(op.result.type, Tile) for op in block.ops))


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


def sums_columns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether what is reduced is carried by a loop that loads, of the same rows in all programs, or
    loaded there, and the axis along which it lies in memory is left; programs are numbered along
    one axis.  There are as many programs as pieces of columns, and each has all rows."""
    if len({op.attributes["axis"] for op in kernel.ops() if op.name in _NUMBERED}) > 1:
        return False
    loading = [loop for loop in cfg.loops if same_for_all(loop) and any(
        op.name == "load" and isinstance(op.result.type, Tile)
        for op in loop.ops())]
    carried = {phi.result for loop in loading for phi in loop.header.phis()}
    reductions = [op for op in kernel.ops() if op.name in ("reduce", "reduce_with")]

    def leaves_columns(op: Op) -> bool:
        return memory_axis(kernel, op.operands[0]) not in (
            op.attributes.get("axes") or [op.attributes["axis"]])

    if any(origin(op.operands[0], ("reshape", "trans")) in carried and leaves_columns(op)
           for op in reductions):
        return True
    insides = [set(loop.ops()) for loop in loading
               if not any(op.name == "store" for op in loop.ops())]
    return any(each.name == "load" and shape(each.result.type) == shape(op.operands[0].type)
               for op in reductions
               if not op.attributes.get("kind", "add").endswith("add")  # see `late_sums`
               for inside in insides if op in inside and leaves_columns(op)
               for each in slice_of(op.operands[:1], inside, ("load",)))


def memory_axis(kernel: Kernel, value: Value) -> int:
    """The axis along which a tile lies in memory, by what is loaded of its shape; the last one, if
    that is not known."""
    extents = shape(value.type)
    infos = axis_info.analyze(kernel) if min(extents, default=1) > 1 and len(extents) > 1 else {}
    made = slice_of([value], ends=("load",)) if infos else ()
    found = (infos.get(op.operands[0]) for op in kernel.ops() if op in made
             and op.name == "load" and shape(op.result.type) == extents)
    runs = [info.contiguity for info in found if info is not None and max(info.contiguity) > 1]
    return runs[0].index(max(runs[0])) if runs else len(extents) - 1


def crosses(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether each loop that loads tiles carries one of more axes than any that it loads: each
    element of one line meets each of another, as in a product."""
    loading = [loop for loop in cfg.loops
               if any(op.name == "load" and shape(op.result.type) for op in loop.ops())]
    return bool(loading) and not any(
        op.name == "dot" or op.name.startswith("reduce") for loop in loading
        for op in loop.ops()) and all(
        max((_axes(phi.result) for phi in loop.header.phis()), default=0) > max(
            1, *(_axes(op.result) for op in loop.ops() if op.name == "load")) for loop in loading)


def _axes(value: Value) -> int:
    """The axes of a value along which it has several elements."""
    return sum(extent > 1 for extent in shape(value.type))


def segments(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop that loads tiles goes from one number that is loaded, or that a search finds,
    to another: most runs are short."""
    return any(is_segment(cfg, loop) and any(
        op.name == "load" and isinstance(op.result.type, Tile) for op in loop.ops())
        for loop in cfg.loops)


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


def scans_columns(cfg: Cfg) -> bool:
    """Whether a loop loads tiles and scans some along another axis than they lie in memory."""
    for loop in cfg.loops:
        ops = list(loop.ops())
        if any(op.name == "load" and isinstance(op.result.type, Tile) for op in ops) and any(
                op.name in ("scan", "scan_with")
                and op.attributes["axis"] != memory_axis(cfg.kernel, op.operands[0]) for op in ops):
            return True
    return False


def adds_taps(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether loops of known numbers of iterations only add tiles of several axes, as of a filter:
    threads read rows of them again."""
    adding = [loop for block, loop in cfg.innermost.items() for op in block.ops
              if op.name == "load" and len(shape(op.result.type)) > 1]
    return bool(adding) and all(only_adds(loop) and all(
        (counter := counter_of(one)) is not None and int_of(counter.limit) is not None
        for one in cfg.loops if loop.header in one.blocks) for loop in adding)


def adds_far_taps(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether these are of elements that are no neighbours in memory, as of every other pixel."""
    infos = axis_info.analyze(kernel)
    return adds_taps(kernel, cfg) and all(
        info.contiguity[-1] == 1 for loop in cfg.loops for op in loop.ops() if op.name == "load"
        and len(shape(op.result.type)) > 1 and (info := infos.get(op.operands[0])) is not None)


def adds_many_rows(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether these are of so many whole rows of memory that their loops remain, as of channels of
    pixels: threads read none of them again."""
    affinity, taps = Affinity(), 1
    for loop in cfg.loops:
        counter, times = counter_of(loop), iterations(loop, _MOST_TAPS)
        if counter is None or times is None:
            return False
        taps *= times
        for op in loop.ops():
            form = affinity.of(op.operands[0]) if op.name == "load" else None
            if form is not None and len(form.strides) > 1 and any(
                    values == (counter.phi.result,) for values, _ in form.offset.terms):
                return False  # along a row
    return taps > _MANY_TAPS and adds_taps(kernel, cfg)


def adds_gathered(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop only adds rows whose numbers it loads, of several at once."""
    return any(only_adds(loop) and any(
        op.name == "load" and _axes(op.result) > 1 and any(
            each.name == "load" for each in slice_of(op.operands[:1], {*loop.ops()} - {op}))
        for op in loop.ops()) for loop in cfg.loops) and not any(
        op.name in ("reduce", "reduce_with") for op in kernel.ops())


def adds_tiles(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether an inner loop loads tiles of the shape of one of floats that it carries, and nothing
    is reduced: a stencil of many points, read that often."""
    if any(op.name in ("reduce", "reduce_with", "dot") for op in kernel.ops()):
        return False
    for loop in cfg.loops:
        carried = {shape(phi.result.type) for phi in loop.header.phis()
                   if is_float(phi.result.type)}
        loaded = {shape(op.result.type) for op in loop.ops() if op.name == "load"}
        if loop.depth > 1 and any(len(extents) > 1 for extents in carried & loaded):
            return True
    return False


def same_for_all(loop: Loop) -> bool:
    """Whether how often the loop runs depends neither on which program it is nor on data."""
    return not any(op.name in (*_NUMBERED, "load")
                   for op in slice_of(loop.header.terminator.operands, masks=False))


def recurrence(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether each iteration of a loop reduces a tile of the shape of one that it carries, and
    loads none of that shape: it waits for lanes and memory each time, so many programs."""
    for loop in cfg.loops:
        ops = list(loop.ops())
        carried = {shape(phi.result.type) for phi in loop.header.phis()}
        loaded = {shape(op.result.type) for op in ops if op.name == "load"}
        if any(op.name == "reduce" and len(extents := shape(op.operands[0].type)) > 1
               and extents in carried - loaded for op in ops):
            return True
    return False


def reduces_held(cfg: Cfg, largest: int) -> bool:
    """Whether a loop that loads no tiles reduces some of more than half of `largest` elements: in
    each iteration warps that share a row would wait for each other."""
    return any(
        any(op.name == "reduce" and 2 * prod(shape(op.operands[0].type)) > largest
            and op.result.type != I1 for op in loop.ops())
        and not any(op.name == "load" and shape(op.result.type) for op in loop.ops())
        for loop in cfg.loops)


def asks_programs(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop without tiles of more than a warp has atomics, or loads that are volatile: how
    long it takes is up to other programs, so there had better be many."""
    return any(op.name in ("atomic_rmw", "atomic_cas") or op.attributes.get("volatile")
               for loop in cfg.loops if _of_scalars(loop, _WARP) for op in loop.ops())


def searches(cfg: Cfg) -> bool:
    """Whether a loop without tiles loads: each iteration waits for memory, so there had better be
    many programs."""
    return any(op.name == "load" for loop in cfg.loops if _of_scalars(loop) for op in loop.ops())


def _of_scalars(loop: Loop, most: int = 1) -> bool:
    """Whether no tile of the loop has more than so many elements."""
    return all(prod(shape(v.type)) <= most and (most > 1 or not isinstance(v.type, Tile))
               for op in loop.ops() for v in (*op.results, *op.inputs()))


def chains_programs(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a program waits for what another one tells, by a load that is atomic, and tells
    nothing itself before that: a launch takes as many turns as it has programs."""
    def tells(op: Op) -> bool:
        return op.name == "store" or (op.name == "atomic_rmw" and op.attributes["kind"] in (
            "store", "xchg"))

    return asks_programs(kernel, cfg) and any(
        any(op.name == "atomic_rmw" and op.attributes["kind"] == "load" for op in loop.ops())
        and not any(tells(op) for block in kernel.blocks
                    if block not in loop and cfg.dominates(block, loop.header) for op in block.ops)
        for loop in cfg.loops)


def columns_alone(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether all loops that load tiles, of one axis, go from row to row: there are as many
    programs as pieces of columns."""
    loading = [(loop, t) for block, loop in cfg.innermost.items() for op in block.ops
               if op.name == "load" and isinstance(t := op.result.type, Tile)]
    return bool(loading) and all(len(t.shape) == 1 and walks_rows(loop, False)
                                 for loop, t in loading)


def few_columns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether there may be few programs with columns alone: numbered along that axis alone, or
    where each row waits for the one before it."""
    axes = {op.attributes["axis"] for op in kernel.ops() if op.name in _NUMBERED}
    return columns_alone(kernel, cfg) and (len(axes) < 2 or waits_for_itself(kernel, cfg))


def walks_rows(loop: Loop, shared: bool = True) -> bool:
    """Whether tiles that a loop loads move by a stride that only parameters know; if `shared`, also
    by the number of programs, which take turns."""
    iteration = Iteration(loop)
    affinity = Affinity(iteration)
    for op in (op for op in loop.ops() if op.name == "load"):
        form = affinity.of(op.operands[0]) if isinstance(op.result.type, Tile) else None
        parts = form.offset.split(iteration.counter) if form is not None else None
        if parts is not None and parts[1].constant is None and (shared or not any(
                v.op is not None and v.op.name == "get_num_programs" for v in parts[1].values())):
            return True
    return False


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


def shares_addresses(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether there are atomics that no loop makes, none of them read, on addresses of which
    programs have many in common, or histograms in a loop: fewer programs, fewer additions."""
    readers = uses(kernel)
    found = [op for op in kernel.ops() if op.name == "atomic_rmw"]
    return counts_in_loops(kernel, cfg) or (not any(
        readers.get(op.result) or cfg.block_of[op] in cfg.innermost for op in found) and any(
        not isinstance(op.operands[0].type, Tile) or _loaded(op.operands[0])
        or not _of_program(op.operands[0]) for op in found))


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


def counts_in_loops(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether loops have histograms."""
    return any(op.name == "histogram" for loop in cfg.loops for op in loop.ops())


def takes_turns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether an atomic that no loop makes has a parameter for its address, and is read: programs
    take turns, some nanoseconds each, and wait for the answer."""
    readers = uses(kernel)
    return any(op.name == "atomic_rmw" and op.operands[0] in kernel.parameters
               and readers.get(op.result) and cfg.block_of[op] not in cfg.innermost
               for op in kernel.ops())


def windows_of_bytes(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether tiles of bytes are loaded several times, as of a window of pixels: what is computed
    of them takes a register for each.  What is scanned is no window."""
    loads = [op for op in kernel.ops() if op.name == "load" and shape(op.result.type)]
    if not loads or any(element(op.result.type).bytes > 1 for op in loads) or any(
            op.name in ("scan", "scan_with") for op in kernel.ops()):
        return False
    if all(len(shape(op.result.type)) == 1 for op in loads):  # not the channels of a pixel
        roots = pointer_roots(kernel)
        return len(loads) > 1 + _FEW_LOADS and len({roots[op.operands[0]] for op in loads}) == 1
    return len(loads) > _FEW_LOADS or any(cfg.block_of[op] in cfg.innermost for op in loads)


def _of_program(value: Value) -> bool:
    """Whether a value depends on the program's number."""
    return any(op.name in _NUMBERED for op in slice_of([value], masks=False))


def _loaded(value: Value) -> bool:
    """Whether a value follows from one that is loaded."""
    return any(op.name == "load" for op in slice_of([value], masks=False))


def ends_by_tile(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop's test asks for any or all elements of a tile that it carries: small tiles
    wait for fewer."""
    for loop in cfg.loops:
        stack = [block.terminator.operands[0].op for block in loop.blocks
                 if block.terminator.name == "cond_br"
                 and any(each not in loop for each in block.successors)]
        while stack:
            op = stack.pop()
            if op is not None and op.name == "reduce" and op.attributes["kind"] in ("and", "or") \
                    and not _counted(loop, op.operands[0]):
                return True
            if op is not None and op.name in ("and", "or", "xor") and not shape(op.result.type):
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
