"""Conditions as terms, and what it takes to bring one back through an operation.

A `Need` says which elements of a tile are needed.  Its leaves are predicates that the program has
entered; around them stand the changes of shape between the tile and the place where the predicate
was.  Terms are brought to one form as they are made, so that equal conditions are equal terms:

    the predicate [TM, TN] of a store     full p
    back through a broadcast              any p along axis 1            [TM, 1]
    back through `[:, newaxis]`           the same, as a                [TM]

`emit` makes operations of a term.  `any` reads the predicate's own definition, so that `any` along
axis 1 of `(rm < M)[:, newaxis] && rn < N` is `rm < M`, and the scalar any(rn < N).
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonc.ir.core import Value
from tritonc.ir.types import shape as shape_of
from tritonc.sema import shapes
from tritonc.sema.context import Context
from tritonc.sema.ctypes import BOOL, INT, ctype
from tritonc.sema.in_force import Mask
from tritonc.sema.shapes import Shape
from tritonc.sema.term import Term


@dataclass(frozen=True, slots=True)
class Need:
    """A condition of that shape.

    `kind`: all (every element); own, full (leaves: the predicate of `mask`, alone or with those
    around it); both (of `parts`); any (along `axes`, which stay with extent 1); expand, reshape
    (to `shape`); trans (by `axes`); after (whether any holds there or further along axes[0]).
    """

    kind: str
    shape: Shape
    mask: Mask | None = None
    parts: tuple[Need, ...] = ()
    axes: tuple[int, ...] = ()


def everything(shape: Shape) -> Need:
    return Need("all", shape)


def own(mask: Mask) -> Need:
    """The predicate of `mask` without those around it."""
    return Need("own", mask.own[0].shape, mask)


def full(mask: Mask) -> Need:
    """The predicate of `mask` and all around it."""
    if mask.full is None:
        return own(mask)
    return Need("full", mask.full[0].shape, mask)


def _ones(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(1 if d in axes else n for d, n in enumerate(shape))


def _moved(axes: tuple[int, ...], before: Shape, after: Shape) -> tuple[int, ...] | None:
    """Where axes lie after a reshape that only adds and drops axes of extent 1."""
    wide = [d for d, n in enumerate(before) if n != 1]
    to = [d for d, n in enumerate(after) if n != 1]
    if [before[d] for d in wide] != [after[d] for d in to]:
        return None
    return tuple(to[wide.index(d)] for d in axes)


def some(need: Need, axes: tuple[int, ...]) -> Need:
    """Whether any element along `axes` is needed; their extent becomes 1."""
    axes = tuple(d for d in sorted(axes) if need.shape[d] != 1)
    if not axes:
        return need
    left = _ones(need.shape, axes)
    if need.kind == "all":
        return everything(left)
    inner = need.parts[0] if need.parts else need
    if need.kind == "any":
        return some(inner, tuple(sorted({*need.axes, *axes})))
    if need.kind == "expand":
        missing = len(need.shape) - len(inner.shape)
        kept = tuple(d - missing for d in axes if d >= missing)
        return expand(some(inner, kept), left)
    if need.kind == "reshape":
        back = _moved(axes, need.shape, inner.shape)
        if back is not None:
            return reshape(some(inner, back), left)
    if need.kind == "trans":
        return turn(some(inner, tuple(need.axes[d] for d in axes)), need.axes)
    return Need("any", left, parts=(need,), axes=axes)


def expand(need: Need, shape: Shape) -> Need:
    """Broadcast as NumPy's rule does it."""
    if need.shape == shape:
        return need
    if need.kind == "all":
        return everything(shape)
    if need.kind == "expand":
        return expand(need.parts[0], shape)
    return Need("expand", shape, parts=(need,))


def reshape(need: Need, shape: Shape) -> Need:
    if need.shape == shape:
        return need
    if need.kind == "all":
        return everything(shape)
    if need.kind == "reshape":
        return reshape(need.parts[0], shape)
    return Need("reshape", shape, parts=(need,))


def turn(need: Need, order: tuple[int, ...]) -> Need:
    """Axis d of the result is axis order[d]."""
    if order == tuple(range(len(order))):
        return need
    shape = tuple(need.shape[d] for d in order)
    if need.kind == "all":
        return everything(shape)
    if need.kind == "trans":
        return turn(need.parts[0], tuple(need.axes[d] for d in order))
    return Need("trans", shape, parts=(need,), axes=order)


def onward(need: Need, axis: int) -> Need:
    """Whether an element or any behind it along the axis is needed."""
    if need.kind == "all" or need.shape[axis] == 1 or (
            need.kind == "after" and need.axes == (axis,)):
        return need
    return Need("after", need.shape, parts=(need,), axes=(axis,))


def both(a: Need, b: Need) -> Need:
    """Where a and b hold, of one shape."""
    parts: dict[Need, None] = {}
    for need in (a, b):
        if need.kind != "all":
            parts.update(dict.fromkeys(need.parts if need.kind == "both" else (need,)))
    found = _joined(list(parts), a.shape)
    if not found:
        return everything(a.shape)
    return found[0] if len(found) == 1 else Need("both", a.shape, parts=tuple(found))


def _joined(parts: list[Need], shape: Shape) -> list[Need]:
    """A predicate and what is around it: the conjunction that the program already has."""
    for part in parts:
        leaf = part.parts[0] if part.kind == "expand" else part
        mask = leaf.mask
        if leaf.kind != "own" or mask is None or mask.outer is None or mask.full is None:
            continue
        outer = expand(full(mask.outer), shape)
        if outer in parts and shapes.broadcastable(mask.full[0].shape, shape):
            rest = [p for p in parts if p not in (part, outer)]
            return _joined([*rest, expand(full(mask), shape)], shape)
    return parts


def fit(need: Need, shape: Shape) -> Need:
    """A condition in the shape of an operand of what it guards: NumPy's rule backwards.

    Along axes that the shape lacks it is whether any element is needed.
    """
    if shapes.broadcastable(need.shape, shape):
        return expand(need, shape)
    if shapes.common_shape(need.shape, shape) is None:
        return expand(reshape(some(need, tuple(range(len(need.shape)))), ()), shape)
    missing = max(len(need.shape) - len(shape), 0)
    aligned = (1,) * missing + shape
    offset = len(aligned) - len(need.shape)
    axes = tuple(d for d, n in enumerate(need.shape) if n != aligned[d + offset])
    return expand(reshape(some(need, axes), some(need, axes).shape[missing:]), shape)


def within(need: Need, mask: Mask | None, arms: tuple[Mask, ...] = ()) -> Need:
    """The condition as far as the predicates in force under `mask`, and those of `arms`, say it.

    What is computed there cannot wait for predicates that are entered later.
    """
    if need.kind in ("own", "full"):
        at: Mask | None = need.mask
        assert at is not None
        if _encloses(at, mask) or at in arms:
            return need
        if need.kind == "own":
            return everything(need.shape)
        while at is not None and not _encloses(at, mask):
            at = at.outer
        return everything(need.shape) if at is None else fit(full(at), need.shape)
    if not need.parts:
        return need
    parts = [within(part, mask, arms) for part in need.parts]
    if all(p is q for p, q in zip(parts, need.parts)):
        return need
    if need.kind == "both":
        found = parts[0]
        for part in parts[1:]:
            found = both(found, part)
        return found
    (part,) = parts
    if need.kind == "any":
        return some(part, need.axes)
    if need.kind == "expand":
        return expand(part, need.shape)
    if need.kind == "reshape":
        return reshape(part, need.shape)
    return turn(part, need.axes) if need.kind == "trans" else onward(part, need.axes[0])


def _encloses(outer: Mask, mask: Mask | None) -> bool:
    while mask is not None and mask is not outer:
        mask = mask.outer
    return mask is outer


# --- operations ---


def emit(context: Context, need: Need) -> Term:
    """The condition as a value; True where every element is needed."""
    type = ctype(BOOL, need.shape)
    if need.kind == "all":
        return Term(type, constant=True)
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
    while op is not None and op.name in ("splat", "reshape", "broadcast"):
        inner = op.operands[0]
        if not shape_of(inner.type):
            return Term(ctype(BOOL), inner)
        op = inner.op if ctype(BOOL, shape_of(inner.type)).size == 1 else None
    return context.op("reduce", ctype(BOOL), one, kind="or", axes=list(range(len(one.shape))))


def any_along(context: Context, term: Term, axes: tuple[int, ...]) -> Term:
    """Whether any element along `axes` holds; their extent becomes 1.

    Goes to the definition, as far as it says more than the value does.
    """
    axes = tuple(d for d in axes if term.shape[d] != 1)
    if not axes:
        return term
    left = _ones(term.shape, axes)
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
            back = _moved(axes, term.shape, inner[0].shape)
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
        back = _moved((axis,), shape_of(value.type), shape_of(inner.type))
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
        context, last, _ones(term.shape, (axis,))), term.shape)
    return context.op("icmp", ctype(BOOL, term.shape), at, last, predicate="sle")
