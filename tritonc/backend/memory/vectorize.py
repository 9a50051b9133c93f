"""vectorize: chooses how many elements each access of global memory moves at once.

Before:  %v = load %p : f32<1024; #l>
After:   %v = load %p {vector = 4, vector_axis = 0} : f32<1024; #l>

The width is what addresses, guard and layout all allow: the addresses of the run are contiguous and
aligned, the guard is the same over it or `ragged` (of a load, data that it compares may differ,
too: `any`), and one thread holds it.  Needs layouts; no attribute means one element at a time.  A
load of which neighbours have one address is made once for each thread that holds several of them
(`alike`).

Before:  %v = load %p; %w = load %q  where %p is aligned, and %q one element behind
After:   %v = load %p {vector = 4, window = [0, 0, 0, 5, 0, 0], ...}
         %w = load %q {vector = 4, window = [0, 1, 0, 5, 0, 0], ...}

Loads of one window, in which nothing is written between, take their elements of the same aligned
accesses: of window 0, places 0 to 5, `%w` begins at place 1.  The last two numbers say how many
elements at either end of a run have addresses of their own.  With `rows` each aligned access has
the guard of any element that it brings; `every` says how many elements apart those of a run lie."""

from collections.abc import Hashable, Mapping, Sequence
from math import gcd

from tritonc.analysis import ragged
from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import changes_memory, slice_of
from tritonc.analysis.windows import ACCESS_BYTES, Window
from tritonc.backend.layout import layout_choice
from tritonc.backend.layout.accesses import Accesses
from tritonc.backend.pipeline.channel import copy_width
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, uses
from tritonc.ir.layouts.layout import WARP_SIZE, axis_bases, log2
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import BF16, F16, F32, Tile, scalar
from tritonc.source import Span

_ALIKE = ("vector", "vector_axis", "cache", "other", "ragged", "any", "late", "piecewise")


def vectorize(kernel: Kernel, context: Context) -> bool:
    """Set `vector` and `vector_axis` on accesses of tiles, and on comparisons and divisions: those
    of masks give one result for each access, those of indices one for neighbours in a row."""
    accesses = [op for op in kernel.ops() if "wide" in op.attributes or (
        op.name in ("load", "store") and isinstance(op.operands[0].type, Tile))]
    copies = [op for op in kernel.ops() if op.name == "async_copy"]
    comparisons = [op for op in kernel.ops() if op.name in ("icmp", *DIVISIONS)]
    if not (accesses or copies or comparisons):
        return False
    infos, known = axis_info.analyze(kernel), Accesses(
        kernel, Cfg(kernel), kernel.attributes["num_warps"])
    seen = known.windows
    narrow: dict[Span, list[str]] = {}
    amid = _may_begin_amid(kernel, copies)
    for op in copies:
        buffer, pointer = op.operands[:2]
        width = copy_width(pointer, op.guard, buffer, infos)
        assert width >= 4, "cp.async moves 4 bytes at the least"
        op.attributes["vector"] = width // scalar(buffer.type).bytes
        if amid and width == layout_choice.ACCESS_BYTES:
            op.attributes["amid"] = True
        if op.span is not None and width == layout_choice.ACCESS_BYTES:
            narrow.setdefault(op.span, []).append("")
    for op in accesses:
        pointer = op.operands[0]
        assert isinstance(pointer.type, Tile) and pointer.type.layout is not None
        access = known.of(op)
        info, guard, size, axis = access.pointer, access.guard, access.element_bytes, access.axis
        if info is None:
            continue
        reach = access.vector(axis)
        width = access.width(pointer.type.layout)
        if op in seen and sum(seen[op].ends) >= width:
            width = 1
        if width > 1:
            op.attributes.update(vector=width, vector_axis=axis)
            ends = seen[op].ends if op in seen else (0, 0)
            rows = op in seen and seen[op].rows
            if op.guard is not None and infos[op.guard].constancy[axis] < width and not rows and (
                    op.name == "store" or not any(ends)):
                falls = op.name == "store" or ragged.falling(op.guard, axis, infos) >= width
                rises = not falls and ragged.rising(op.guard, axis, infos) >= width
                op.attributes["ragged" if falls or rises else "any"] = True
                if rises:
                    op.attributes["rises"] = True
                if ends[0]:
                    op.attributes["inner"] = [ends[0]]
        elif op in known.records:
            op.attributes["record"] = list(known.records[op])
        elif info.every > size and op.name != "atomic_rmw":  # others may access what lies between
            op.attributes["align"] = min(info.every, layout_choice.ACCESS_BYTES)
        if width == 1 and op.name == "load" and not op.attributes.get("volatile"):
            axis = max(range(len(info.constancy)), key=lambda d: info.constancy[d])
            run = min(info.constancy[axis], pointer.type.shape[axis])
            if any(basis in pointer.type.layout.register for basis in axis_bases(
                    pointer.type.shape, axis)[: log2(run)]):
                op.attributes.update(alike=run, vector_axis=axis)
                continue
        widest = min(layout_choice.ACCESS_BYTES // size, pointer.type.shape[axis])
        if op.span is not None and pointer.type.size > WARP_SIZE:
            why = _reason(op, info, guard, axis, width, reach, widest) if width < widest else ""
            narrow.setdefault(op.span, []).append(why)
    _share_windows(kernel, seen)
    _store_together(kernel)
    for op in comparisons:
        runs, t = infos.get(op.result), op.result.type
        if runs is not None and isinstance(t, Tile):
            rises = op.name != "icmp" and max(runs.constancy) == 1
            alike = runs.contiguity if rises else runs.constancy
            if op.guard is not None:
                alike = tuple(map(gcd, alike, infos[op.guard].constancy))
            axis = max(range(len(t.shape)), key=alike.__getitem__)
            if alike[axis] > 1:
                op.attributes.update(vector=min(alike[axis], t.shape[axis]), vector_axis=axis)
                if rises:
                    op.attributes["rises"] = True
    for span, reasons in narrow.items():
        if "" not in reasons:  # one body may have what another lacks
            context.remark("vectorize", reasons[-1], span, missed=True)
    return True


def _may_begin_amid(kernel: Kernel, copies: Sequence[Op]) -> bool:
    """Whether it is worth a test at run time whether the rows that are copied begin amid a sector
    (of 1024 in cube 1 per cent).  In kernels that compute rows it is not: convolutions, whose rows
    mostly are aligned, were 5 to 13 per cent slower; nor of 8 bits, or for mma: up to 6."""
    names = {op.name for op in kernel.ops()} if copies else set()
    pointers = [op.operands[1] for op in copies]
    return "wgmma" in names and "tma_load" not in names and (
        all(scalar(op.operands[0].type).bytes == 2 for op in copies)
        and not any(op.name in ("load", *DIVISIONS) and isinstance(op.result.type, Tile)
                    for op in slice_of(pointers, masks=False)))


def mark_wide(kernel: Kernel, target: Target) -> None:
    """Mark the additions of floats to memory that the target makes for neighbours at once: those
    whose old values nobody reads."""
    readers = uses(kernel)
    for op in kernel.ops():
        if op.name == "atomic_rmw" and op.attributes["kind"] == "fadd" and not readers.get(
                op.result) and isinstance(op.result.type, Tile) and scalar(
                op.result.type) in (F32, F16, BF16) and "atomic_vector" in target.features:
            op.attributes["wide"] = True


def _share_windows(kernel: Kernel, places: Mapping[Op, Window]) -> None:
    """Say of loads that begin beside aligned addresses which aligned accesses bring them."""
    groups: dict[tuple[Hashable, ...], list[Op]] = {}
    for block in kernel.blocks:
        written = 0
        for op in block.ops:
            written += changes_memory(op)
            if op.name == "load" and op in places and op.attributes.get("vector", 1) > 1:
                key = (block, written, places[op].place, op.operands[0].type,
                       *map(op.attributes.get, _ALIKE))
                groups.setdefault(key, []).append(op)
    count = 0
    for loads in groups.values():
        width = loads[0].attributes["vector"]
        step = places[loads[0]].step
        reach = {op: (begin + ends[0], begin + (width - 1) * step + 1 - ends[1])
                 for op in loads for begin, ends in [(places[op].begin, places[op].ends)]}
        loads.sort(key=reach.__getitem__)
        ends = [i for i, op in enumerate(loads) if i and reach[op][0] > max(
            reach[other][1] for other in loads[:i])]
        for i, j in zip([0, *ends], [*ends, len(loads)], strict=True):
            if step > 1 or any(
                    places[op].begin % width or any(places[op].ends) for op in loads[i:j]):
                low, high = reach[loads[i]][0], max(reach[op][1] for op in loads[i:j])
                for op in loads[i:j]:
                    op.attributes["window"] = [count, places[op].begin, low, high, *places[op].ends]
                    if places[op].rows:
                        op.attributes["rows"] = True
                    if step > 1:
                        op.attributes["every"] = step
                count += 1


def _store_together(kernel: Kernel) -> None:
    """Let stores of fields wait for the last one of their records where nothing between touches
    memory: LLVM takes one run for another's place, and would not join what lies around its stores.
    Fields of records that whole accesses hold have different places in them."""
    for block in kernel.blocks:
        last: dict[int, Op] = {}
        for op in block.ops:
            number, step = (op.attributes.get("record") or [0] * 5)[0::3][:2]
            if op.name == "store" and step and ACCESS_BYTES % step == 0:
                if number in last:
                    last[number].attributes["late"] = True
                last = {number: op}
            elif op.effects:
                last = {}


def _reason(op: Op, info: axis_info.AxisInfo, guard: axis_info.AxisInfo | None, axis: int,
            width: int, reach: int, widest: int) -> str:
    """Why the access moves less than it might."""
    text = f"{op.name} moves {width} of {widest} elements at a time: "
    if width < reach:
        return text + "the layout of this tile gives a thread no more neighbours"
    if info.contiguity[axis] == 1:
        return text + "neighbours in the tile may not be neighbours in memory"
    if info.contiguity[axis] < widest:
        return text + f"only {info.contiguity[axis]} neighbours are known to be contiguous"
    if guard is not None and guard.constancy[axis] < widest:
        known = guard.constancy[axis]
        return text + ("its mask may differ between neighbours" if known == 1 else
                       f"its mask is known to be equal for only {known} neighbours")
    return text + "its first address may not be aligned"
