"""Operations for the conditions of `needs.py`.

`any` reads a predicate's own definition, so that `any` along axis 1 of
`(rm < M)[:, newaxis] && rn < N` is `rm < M`, and the scalar any(rn < N)."""

from tritonc.analysis.values import SPREADS
from tritonc.ir.core import Value
from tritonc.ir.types import shape as shape_of
from tritonc.sema.context import Context
from tritonc.sema.predicates.needs import Need, moved, ones
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import BOOL, INT, ctype
from tritonc.sema.types.term import Term


def emit(context: Context, need: Need) -> Term:
    """The condition as a value; True where every element is needed."""
    type = ctype(BOOL, need.shape)
    if need.kind in ("all", "none"):
        return Term(type, constant=need.kind == "all")
    if need.mask is not None:
        pair = need.mask.full if need.kind == "full" else need.mask.own
        assert pair is not None
        return pair[0]
    first, *rest = (emit(context, part) for part in need.parts)
    if need.kind == "any":
        return any_along(context, first, need.axes)
    if need.kind == "expand":
        return shapes.broadcast(context, first, need.shape)
    if need.kind == "reshape":
        if not need.shape:
            return _as_scalar(context, first)
        return shapes.reshape(context, first, need.shape)
    if need.kind == "trans":
        return context.op("trans", type, first, permutation=list(need.axes))
    if need.kind == "after":
        return _any_onward(context, first, need.axes[0])
    for other in rest:
        first = context.op("and", type, first, other)
    return first


def _as_scalar(context: Context, one: Term) -> Term:
    """The element of a tile of one."""
    if one.constant is not None:
        return Term(ctype(BOOL), constant=one.constant)
    op = one.value.op if one.value is not None else None
    while op is not None and op.name in SPREADS:
        inner = op.operands[0]
        if not shape_of(inner.type):
            return Term(ctype(BOOL), inner)
        op = inner.op if ctype(BOOL, shape_of(inner.type)).size == 1 else None
    return context.op("reduce", ctype(BOOL), one, kind="or", axes=list(range(len(one.shape))))


def any_along(context: Context, term: Term, axes: tuple[int, ...]) -> Term:
    """Whether any element along `axes` holds; their extent becomes 1.

    Goes to the definition, as far as it says more than the value does."""
    axes = tuple(d for d in axes if term.shape[d] != 1)
    if not axes:
        return term
    left = ones(term.shape, axes)
    type = ctype(BOOL, left)
    if term.constant is not None:
        return Term(type, constant=term.constant)
    op = term.value.op if term.value is not None else None
    inner = [Term(ctype(BOOL, shape_of(v.type)), v) for v in op.operands] if (
        op is not None and op.name in _SEEN_THROUGH) else []
    if op is not None and inner:
        if op.name == "cmpp" and term.value is op.results[0]:
            return any_along(context, inner[0], axes)
        if op.name == "splat":
            return shapes.broadcast(context, inner[0], left)
        if op.name == "broadcast":
            kept = tuple(d for d in axes if inner[0].shape[d] != 1)
            return shapes.broadcast(context, any_along(context, inner[0], kept), left)
        if op.name == "reshape":
            back = moved(axes, term.shape, inner[0].shape)
            if back is not None:
                return shapes.reshape(context, any_along(context, inner[0], back), left)
        if op.name == "or" or (op.name == "and" and not any(
                _varies(inner[0].value, d) and _varies(inner[1].value, d) for d in axes)):
            parts = [any_along(context, t, axes) for t in inner]
            return context.op(op.name, type, *parts)
    kept_shape = tuple(n for d, n in enumerate(term.shape) if d not in axes)
    found = context.op("reduce", ctype(BOOL, kept_shape), term, kind="or", axes=list(axes))
    return shapes.reshape(context, found, left)


_SEEN_THROUGH = frozenset({"cmpp", "splat", "broadcast", "reshape", "or", "and"})


def _varies(value: Value | None, axis: int) -> bool:
    """Whether elements may differ along the axis."""
    assert value is not None
    op = value.op
    if shape_of(value.type)[axis] == 1:
        return False
    if op is None or op.name in ("splat", "constant"):
        return op is None
    if op.name in ("and", "or", "cmpp"):
        return any(_varies(v, axis) for v in op.operands)
    if op.name == "broadcast":
        return _varies(op.operands[0], axis)
    if op.name == "reshape":
        inner = op.operands[0]
        back = moved((axis,), shape_of(value.type), shape_of(inner.type))
        return back is None or _varies(inner, back[0])
    return True


def _any_onward(context: Context, term: Term, axis: int) -> Term:
    """Whether an element or one behind it along the axis holds: up to the last that does."""
    extent = term.shape[axis]
    line = tuple(extent if d == axis else 1 for d in range(len(term.shape)))
    type = ctype(INT, term.shape)
    index = context.op("range", ctype(INT, (extent,)), start=0, stop=extent)
    at = shapes.broadcast(context, shapes.reshape(context, index, line), term.shape)
    place = context.op("select", type, term, at, Term(type, constant=-1))
    left = tuple(n for d, n in enumerate(term.shape) if d != axis)
    last = context.op("reduce", ctype(INT, left), place, kind="smax", axes=[axis])
    last = shapes.broadcast(context, shapes.reshape(
        context, last, ones(term.shape, (axis,))), term.shape)
    return context.op("icmp", ctype(BOOL, term.shape), at, last, predicate="sle")
