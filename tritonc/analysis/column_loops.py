"""Kinds of loops that go from row to row, and what they do with columns (see `row_loops`)."""

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.axis import axis_info
from tritonc.analysis.row_loops import NUMBERED, same_for_all, waits_for_itself
from tritonc.analysis.values import origin, slice_of, tile_loads
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Tile, shape


def sums_columns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether what is reduced is carried by a loop that loads, of the same rows in all programs, or
    loaded there, and the axis along which it lies in memory is left; programs are numbered along
    one axis.  There are as many programs as pieces of columns, and each has all rows."""
    if len({op.attributes["axis"] for op in kernel.ops() if op.name in NUMBERED}) > 1:
        return False
    loading = [loop for loop in cfg.loops if same_for_all(loop) and tile_loads(loop.ops())]
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
    return any(op in inside and any(
                   each.name == "load" and shape(each.result.type) == shape(op.operands[0].type)
                   for each in slice_of(op.operands[:1], inside, ("load",))) and leaves_columns(op)
               for op in reductions
               for inside in insides)


def memory_axis(kernel: Kernel, value: Value) -> int:
    """The axis along which a tile lies in memory, by what is loaded of its shape; the last one, if
    that is not known."""
    extents = shape(value.type)
    if min(extents, default=1) < 2 or len(extents) < 2:
        return len(extents) - 1
    made = slice_of([value], ends=("load",))
    loads = [op for op in kernel.ops() if op.name == "load" and op in made
             and shape(op.result.type) == extents]
    infos = axis_info.analyze(kernel) if loads else {}
    found = (infos.get(op.operands[0]) for op in loads)
    runs = [info.contiguity for info in found if info is not None and max(info.contiguity) > 1]
    return runs[0].index(max(runs[0])) if runs else len(extents) - 1


def scans_columns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether a loop loads tiles and scans some along another axis than they lie in memory."""
    return any(tile_loads(loop.ops()) and any(
        op.name in ("scan", "scan_with")
        and op.attributes["axis"] != memory_axis(kernel, op.operands[0])
        for op in loop.ops()) for loop in cfg.loops)


def columns_alone(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether all loops that load tiles, of one axis, go from row to row: there are as many
    programs as pieces of columns."""
    loading = [(loop, op) for block, loop in cfg.innermost.items() for op in tile_loads(block.ops)]
    return bool(loading) and all(len(shape(op.result.type)) == 1 and walks_rows(loop, False)
                                 for loop, op in loading)


def few_columns(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether there may be few programs with columns alone: numbered along that axis alone, or
    where each row waits for the one before it; or with elements that meet a list of numbers, one
    after the other: the nearest four of 4000 points for each of 50000 on an H200 617 us by 2 of a
    thread of 128, 366 by one, the same of 10000 for 4096 1305 and 662."""
    axes = {op.attributes["axis"] for op in kernel.ops() if op.name in NUMBERED}
    return (meets_list(cfg) and len(axes) < 2) or (columns_alone(kernel, cfg) and (
        len(axes) < 2 or waits_for_itself(kernel, cfg)))


def meets_list(cfg: Cfg) -> bool:
    """Whether loops load numbers, the same ones in all programs, and no tiles, of which they carry
    some; and elements do not ask for each other: time warping along rows of 128, whose loops scan,
    took 358 us by 4 warps, 93 by one."""
    loading = [loop for block, loop in cfg.innermost.items()
               if any(op.name == "load" for op in block.ops)]
    return bool(loading) and all(
        same_for_all(loop) and all(
            op.info.elementwise or op.name in _ALONE for op in loop.ops()
            if any(isinstance(v.type, Tile) for v in (*op.operands, *op.results)))
        and any(isinstance(phi.result.type, Tile) for phi in loop.header.phis())
        for loop in loading)


_ALONE = frozenset("splat broadcast reshape constant range phi psi cmpp".split())


def walks_rows(loop: Loop, shared: bool = True) -> bool:
    """Whether tiles that a loop loads move by a stride that only parameters know; if `shared`, also
    by the number of programs, which take turns."""
    iteration = Iteration(loop)
    affinity = Affinity(iteration)
    for op in tile_loads(loop.ops()):
        form = affinity.of(op.operands[0])
        parts = form.offset.split(iteration.counter) if form is not None else None
        if parts is not None and parts[1].constant is None and (shared or not any(
                v.op is not None and v.op.name == "get_num_programs" for v in parts[1].values())):
            return True
    return False
