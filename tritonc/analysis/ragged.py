"""Masks that hold up to some element of a run of neighbours and not beyond: ragged edges.

Of `r + i < n`, where nothing divides n, elements of a group of four may differ, but the true ones
come first: the last one says whether all are true, the first one whether any is.  An access of
such a group is one instruction where all are true, and one for each element where only some are,
which is so in one group of a row.

Other masks, such as `u >= p` of a dropout, differ from element to element.  A load under such a
mask is one instruction where any element is wanted: bytes beside it, within an aligned access, are
of the same page.  Indices that such a mask compares, too, are as good as in others: what lies
behind the end of a buffer is not loaded."""

from math import gcd

from tritonc.analysis.axis.axis_info import Infos
from tritonc.analysis.axis.axis_lattice import AxisInfo, extents_of
from tritonc.analysis.values import axes_before
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, element, scalar

LEAST_COPY = 4  # bytes that cp.async moves
_PIPELINED = ("dot", "fma_dot", "mma_dot", "wgmma", "channel", "async_copy")


def may_be_ragged(kernel: Kernel) -> bool:
    """Whether loads are threads' own, and not those of a product's pipeline."""
    return not any(op.name in _PIPELINED for op in kernel.ops())


def too_fine(op: Op, infos: Infos) -> bool:
    """Whether the mask of a load is too fine for the copies of a pipeline, as that of a triangular
    operand: such a load stays the threads' own."""
    info = infos.get(op.operands[0])
    guard = infos.get(op.guard) if op.guard is not None else None
    if op.name != "load" or info is None or guard is None:
        return False
    axis = max(range(len(info.contiguity)), key=lambda d: info.contiguity[d])
    return guard.constancy[axis] * scalar(pointee(op.operands[0].type)).bytes < LEAST_COPY


def edge(op: Op, infos: Infos, ragged: bool) -> AxisInfo | None:
    """What is known of an access's guard; with `ragged`, its constancy is that of its runs, and for
    a load that of the indices that it compares."""
    if op.guard is None or op.guard not in infos:
        return None
    info = infos[op.guard]
    if not ragged or op.attributes.get("volatile") or op.name == "atomic_rmw" \
            or scalar(pointee(op.operands[0].type)).bits < 8:
        return info
    runs = tuple(max(k, falling(op.guard, d, infos)) for d, k in enumerate(info.constancy))
    if op.name == "load":
        runs = tuple(max(k, rising(op.guard, d, infos), _run(op.guard, d, infos, {}, data=True))
                     for d, k in enumerate(runs))
    return AxisInfo(info.contiguity, info.divisibility, runs, info.value)


def falling(mask: Value, axis: int, infos: Infos) -> int:
    """The length of runs along `axis`, at multiples of it, in which no false element comes before
    a true one."""
    return _run(mask, axis, infos, {})


def rising(mask: Value, axis: int, infos: Infos) -> int:
    """The same of true ones and false ones, as of `j >= i`."""
    return _run(mask, axis, infos, {}, rises=True)


def _run(mask: Value, axis: int, infos: Infos, met: dict[tuple[Value, int], int], *,
         rises: bool = False, data: bool = False) -> int:
    """The same; or with `data` of runs in which each comparison of indices that makes the mask has
    one answer, as data may differ there.  `met`: masks that count already, of which a loop may make
    this one."""
    info, op, extent = infos.get(mask), mask.op, extents_of(mask.type)[axis]
    if op is None or info is None:
        return extent if data else 1
    if (mask, axis) in met:
        return met[mask, axis]
    met[mask, axis] = extent
    found, same = 1, info.constancy[axis]
    if op.name in ("broadcast", "trans", "reshape"):
        places = axes_before(op)
        source = None if places is None else places[axis]
        found = same if places is None else extent if source is None else (
            _run(op.operands[0], source, infos, met, rises=rises, data=data))
    elif op.name == "icmp" and data:
        sides = [infos.get(v) for v in op.operands]
        counted = any(side is not None and max(side.contiguity) > 1 for side in sides)
        found = same if counted else extent
    elif op.name == "icmp":
        found = _compared(op, axis, infos, rises=rises)
    elif data or op.name in ("and", "or", "convert_layout") or (
            op.name == "cmpp" and mask is op.results[0]):
        found = gcd(extent, *(_run(v, axis, infos, met, rises=rises, data=data)
                              for v in op.operands if extents_of(v.type) == extents_of(mask.type)
                              and element(v.type) == I1))
    if not data:
        found = met[mask, axis] = max(found, same)
    return found


def _compared(op: Op, axis: int, infos: Infos, *, rises: bool) -> int:
    """`x < n` of an x that rises and an n that stays; or `n < x`."""
    a, b = (infos.get(v) for v in op.operands)
    predicate = op.attributes["predicate"]
    if (predicate[1:] in ("gt", "ge")) != rises:
        a, b = b, a
    if a is None or b is None or predicate in ("eq", "ne"):
        return 1
    run = gcd(a.contiguity[axis], b.constancy[axis], extents_of(op.result.type)[axis])
    if predicate[0] == "u" or element(op.operands[0].type).bits < 32:  # may wrap, at a multiple
        run = gcd(run, a.divisibility[axis])
    return run
