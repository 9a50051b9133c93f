"""Conditions as terms, and what it takes to bring one back through an operation.

A `Need` says which elements of a tile are needed.  Its leaves are predicates that the program has
entered; around them stand the changes of shape between the tile and the place where the predicate
was.  Terms are brought to one form as they are made, so that equal conditions are equal terms:

    the predicate [TM, TN] of a store     full p
    back through a broadcast              any p along axis 1            [TM, 1]
    back through `[:, newaxis]`           the same, as a                [TM]

`conditions.py` makes operations of a term."""

from collections.abc import Iterator
from functools import partial, reduce

from tritonc.records import NamedTuple
from tritonc.sema.predicates.in_force import Mask
from tritonc.sema.types import shapes
from tritonc.sema.types.shapes import Shape


class Need(NamedTuple):
    """A condition of that shape.

    `kind`: all, none (of the elements); own, full (leaves: the predicate of `mask`, alone or with
    those around it); both (of `parts`); any (along `axes`, which stay with extent 1); expand,
    reshape (to `shape`); trans (by `axes`); after (whether any holds there or further along
    axes[0])."""

    kind: str
    shape: Shape
    mask: Mask | None = None
    parts: "tuple[Need, ...]" = ()
    axes: tuple[int, ...] = ()


def everything(shape: Shape) -> Need:
    return Need("all", shape)


def nothing(shape: Shape) -> Need:
    return Need("none", shape)


def own(mask: Mask) -> Need:
    """The predicate of `mask` without those around it."""
    return Need("own", mask.own[0].shape, mask)


def full(mask: Mask) -> Need:
    """The predicate of `mask` and all around it."""
    return own(mask) if mask.full is None else Need("full", mask.full[0].shape, mask)


def ones(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(1 if d in axes else n for d, n in enumerate(shape))


def moved(axes: tuple[int, ...], before: Shape, after: Shape) -> tuple[int, ...] | None:
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
    left = ones(need.shape, axes)
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
        back = moved(axes, need.shape, inner.shape)
        if back is not None:
            return reshape(some(inner, back), left)
    if need.kind == "trans":
        return transpose(some(inner, tuple(need.axes[d] for d in axes)), need.axes)
    return Need("any", left, parts=(need,), axes=axes)


def _to(kind: str, need: Need, shape: Shape) -> Need:
    while need.kind == kind and need.shape != shape:
        need = need.parts[0]
    if need.shape == shape:
        return need
    return everything(shape) if need.kind == "all" else Need(kind, shape, parts=(need,))


expand = partial(_to, "expand")  # broadcast as NumPy's rule does it
reshape = partial(_to, "reshape")


def transpose(need: Need, order: tuple[int, ...]) -> Need:
    """Axis d of the result is axis order[d]."""
    if order == tuple(range(len(order))):
        return need
    shape = tuple(need.shape[d] for d in order)
    if need.kind == "all":
        return everything(shape)
    if need.kind == "trans":
        return transpose(need.parts[0], tuple(need.axes[d] for d in order))
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


def covers(wide: Need, narrow: Need) -> bool:
    """Whether `wide` plainly holds wherever `narrow` does, of one shape."""
    if wide.kind == "all" or wide == narrow:
        return True
    parts = narrow.parts if narrow.kind == "both" else (narrow,)
    return all(part in parts for part in (wide.parts if wide.kind == "both" else (wide,)))


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

    Along axes that the shape lacks it is whether any element is needed."""
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

    What is computed there cannot wait for predicates that are entered later."""
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
        return reduce(both, parts)
    (part,) = parts
    if need.kind in ("expand", "reshape"):
        return _to(need.kind, part, need.shape)
    return some(part, need.axes) if need.kind == "any" else (
        transpose(part, need.axes) if need.kind == "trans" else onward(part, need.axes[0]))


def leaves(need: Need) -> Iterator[Need]:
    """The predicates that a condition is made of."""
    if need.mask is not None:
        yield need
    for part in need.parts:
        yield from leaves(part)


def _encloses(outer: Mask, mask: Mask | None) -> bool:
    while mask is not None and mask is not outer:
        mask = mask.outer
    return mask is outer
