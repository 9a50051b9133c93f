"""Shapes and reductions: subscripts, transposition, reductions along axes, scans.

A subscript has one entry for each axis of its base, and any number of `newaxis`.  Reductions in it
are done from left to right, neighbours of one kind at once.

`+ *` on narrow integers compute in int, and `+` counts the true elements of a bool, as the
operators do; `max min` keep the type, and mean `any` and `all` of bools."""

from typing import Any

from tritonc.frontend import syntax
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, structs
from tritonc.sema.operations.memory import kind_of, load
from tritonc.sema.operations.operators import binary, compare
from tritonc.sema.scope import Table
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import BOOL, INT, CType, Number, PointerTo, ctype, promote
from tritonc.sema.types.term import POISON, Term, good
from tritonc.source import Note, Span
from tritonc.spelling import closest

_REDUCTIONS = {"+": "add", "*": "mul", "&": "and", "|": "or", "^": "xor", "max": "max",
               "min": "min"}


def subscript(context: Context, node: syntax.Subscript) -> Term:
    """`base[entries]`."""
    element = _table_element(context, node)
    if element is not None:
        return element
    widen = context.widened is node
    array = structs.part_of(context, node.base)
    if array is not None and structs.is_array(array.type):
        part = structs.part_of(context, node)
        return POISON if part is None else context.read(part, node.span)
    base = good(context.operand(node.base, structs=True))
    if structs.is_array(base.type):
        return structs.element(context, node, base)
    if base.members:
        return context.operand(node.base)  # which says that it is a struct
    entries = node.entries
    if is_pointer(base) and len(entries) == 1 and isinstance(entries[0], syntax.Index):
        constants.check_constant(context, node.span, "p[i] loads from memory")
        pointer = indexed(context, base, entries[0], node.span)
        return load(context, pointer, None, node.span, node.span, widen)
    for entry in entries:
        if isinstance(entry, syntax.Index | syntax.Slice):
            return _no_index(context, entry, base)
    if any(isinstance(e, syntax.Rotate) for e in entries):
        return _permuted(context, node, base)
    axes: list[syntax.SubscriptEntry] = [e for e in entries if not isinstance(e, syntax.NewAxis)]
    if len(axes) != len(base.shape):
        count = len(base.shape)
        wants = "no axes" if not count else "1 axis" if count == 1 else f"{count} axes"
        return context.error("subscript", node.span, f"{base.type} has {wants}, but the subscript "
                             f"names {len(axes)}: it needs one ':' or reduction for each axis")
    return _reshaped(context, node, base, axes)


def address_of(context: Context, node: syntax.AddressOf) -> Term:
    """`&base[index]`."""
    base = good(context.operand(node.base, structs=True))
    if not is_pointer(base):
        context.refuse("unsupported-construct", node.span, "only memory has addresses, as in "
                       f"&p[i] of a pointer p, found {base.type}")
    return indexed(context, base, node.index, node.span)


def is_pointer(base: Term) -> bool:
    """A scalar pointer, which integers and tiles of integers index."""
    return isinstance(base.type.element, PointerTo) and not base.shape


def indexed(context: Context, base: Term, index: syntax.Index, span: Span) -> Term:
    """The pointer p + i of `p[i]`."""
    return binary(context, "+", base, _index(context, index), span, span)


def _index(context: Context, entry: syntax.Index) -> Term:
    index = good(context.operand(entry.index))
    element = index.type.element
    if not isinstance(element, Number) or not element.is_int:
        context.refuse("subscript-index", entry.span, "memory is indexed by integers, found "
                       f"{index.type}")
    return index


def _reshaped(context: Context, node: syntax.Subscript, base: Term,
              axes: list[syntax.SubscriptEntry]) -> Term:
    groups: list[tuple[str, list[int]]] = []
    for axis, entry in enumerate(axes):
        if isinstance(entry, syntax.Reduce):
            if groups and groups[-1][0] == entry.operator:
                groups[-1][1].append(axis)
            else:
                groups.append((entry.operator, [axis]))
    result, gone = base, 0
    for operator, group in groups:
        result = good(reduce(context, result, _REDUCTIONS[operator], [d - gone for d in group],
                             node.span))
        gone += len(group)
    kept = iter(result.shape)
    extents = tuple(1 if isinstance(e, syntax.NewAxis) else next(kept)
                    for e in node.entries if not isinstance(e, syntax.Reduce))
    context.at(node.span)
    return shapes.reshape(context, result, extents)


def _permuted(context: Context, node: syntax.Subscript, base: Term) -> Term:
    order: list[int] = []
    for entry in node.entries:
        if not isinstance(entry, syntax.Rotate):
            return context.error("subscript", entry.span, "beside '^k', which puts axis k here, "
                                 "every entry must be a '^k'")
        order.append(entry.axis)
    return permute(context, base, order, node.span)


# Entries of subscripts under their names elsewhere.
_MEANT = {"None": "newaxis", "sum": "+", "add": "+", "prod": "*", "mul": "*", "any": "|",
          "all": "&"}


def check_axes(context: Context, span: Span, type: CType) -> None:
    """Refuse to index what is no tile."""
    if isinstance(type.element, PointerTo) and not type.shape:
        context.refuse("subscript-index", span, "memory has one axis: a pointer is indexed by one "
                       "integer or tile of integers, as in p[i * N + j]")
    if not type.shape:
        context.refuse("subscript", span, f"{type} has no axes, and no elements",
                       Note("memory has one axis, so x[i][j] of rows of N is x[i * N + j]"))


def no_index_of_pointers(type: CType) -> str:
    """Why a tile of pointers takes no index; "" of others."""
    return "" if not isinstance(type.element, PointerTo) else (
        f"a tile of pointers, {type}, has no index; *(p + i) is the element i behind each of them")


def _no_index(context: Context, entry: syntax.Index | syntax.Slice, base: Term) -> Term:
    check_axes(context, entry.span, base.type)
    what = "a part" if isinstance(entry, syntax.Slice) else "an element"
    name = entry.index.name if isinstance(entry, syntax.Index) and isinstance(
        entry.index, syntax.Name) else None
    if name is not None and context.scope.lookup(name) is None:
        near = _MEANT.get(name) or closest(name, ("max", "min", "newaxis"))
        return context.error("undeclared-name", entry.span, f"there is nothing named '{name}'" + (
            f"; did you mean '{near}'?" if near else ""), suggestion=near)
    if why := no_index_of_pointers(base.type):
        return context.error("subscript-index", entry.span, why)
    return context.error("subscript-index", entry.span, f"{what} of the tile {base.type} cannot be "
                         "taken out: its elements lie in the registers of many threads",
                         Note("a subscript keeps axes (:), inserts them (newaxis), permutes them "
                              "(^k) or reduces them (+ * & | ^ max min); memory is indexed by "
                              "pointers, as in *(p + i)"))


def _table_element(context: Context, node: syntax.Subscript) -> Term | None:
    """`table[index]`, if the base is a constant table."""
    if not isinstance(node.base, syntax.Name):
        return None
    entity = context.scope.lookup(node.base.name)
    if not isinstance(entity, Table):
        return None
    if len(node.entries) != 1 or not isinstance(node.entries[0], syntax.Index):
        return context.error("subscript-index", node.span, f"constant table '{entity.name}' has "
                             "one axis and is indexed by one integer")
    index = _index(context, node.entries[0])
    if context.constant_for is not None:
        return constant_element(context, entity, index, node.span)
    pointer = context.operand(node.base)
    return load(context, binary(context, "+", pointer, index, node.span, node.span), None,
                node.span, node.span)


def constant_element(context: Context, entity: Table, index: Term, span: Span) -> Term:
    """An element of a table that statements outside functions fill, while they run."""
    at = index.number
    if at is None:
        return context.error("not-a-constant", span, "the index is not a constant")
    table = entity.table
    if not 0 <= at < table.count:
        return context.error("constant-table", span, f"index {at} is outside of table "
                             f"'{entity.name}', which has {table.count} elements")
    if table.data is None:
        return context.error("not-a-constant", span, f"the content of table '{entity.name}' is "
                             "not known yet; the host fills it, or a later statement")
    assert isinstance(entity.type.element, PointerTo)
    return Term(ctype(entity.type.element.target), constant=table.data[at])


# --- shapes ---


def permute(context: Context, term: Term, order: list[int], span: Span) -> Term:
    """Axis d of the result is axis order[d] of the term."""
    rank = len(good(term).shape)
    if sorted(order) != list(range(rank)):
        found = ", ".join(map(str, order))
        return context.error("subscript", span, f"({found}) is not a permutation of the axes of "
                             f"{term.type}: 0 to {rank - 1}" if rank else
                             f"{term.type} has no axes to permute")
    type = ctype(term.type.element, tuple(term.shape[d] for d in order))
    if term.constant is not None:
        return Term(type, constant=term.constant)
    if order == list(range(rank)):
        return term
    context.at(span)
    return context.op("trans", type, term, permutation=order)


def rotate(context: Context, term: Term, span: Span) -> Term:
    """`^a`: the axes rotated left by one."""
    if not good(term).shape:
        return context.error("subscript", span, f"'^' rotates the axes of a tile, found "
                             f"{term.type}")
    return permute(context, term, [*range(1, len(term.shape)), 0], span)


# --- reductions ---


def reduce(context: Context, term: Term, operation: str, axes: list[int], span: Span) -> Term:
    """The elements along `axes` combined by add, mul, max, min, and, or, xor."""
    element = term.type.element
    if not isinstance(element, Number):
        return context.error("reduction", span, f"a tile of pointers cannot be reduced, found "
                             f"{term.type}")
    if element.is_float and operation in ("and", "or", "xor"):
        return context.error("reduction", span, f"'{operation}' combines integers, found "
                             f"{term.type}")
    context.at(span)
    bitwise = operation in ("and", "or", "xor") and element is not BOOL
    if element.is_float or operation in ("add", "mul") or bitwise:
        element = promote(element)
        term = convert.number(context, term, element)
    left = tuple(n for d, n in enumerate(term.shape) if d not in axes)
    return context.op("reduce", ctype(element, left), term, kind=kind_of(operation, element),
                      axes=axes)


def argreduce(context: Context, term: Term, operation: str, axis: int, span: Span) -> Term:
    """The index of the first greatest or least element along an axis: the least of the places where
    it stands.  A NaN equals nothing, so that it never wins; where all are NaNs, the index is 0."""
    element, whole = term.type.element, term.shape
    if not isinstance(element, Number):
        return context.error("reduction", span, f"pointers have no order, found {term.type}")
    context.at(span)
    element = promote(element)
    term = convert.number(context, term, element)
    left = tuple(n for d, n in enumerate(whole) if d != axis)
    best = context.op("reduce", ctype(element, left), term, kind=kind_of(operation, element),
                      axes=(axis,))
    if left:
        best = shapes.reshape(context, best, (*whole[:axis], 1, *whole[axis + 1 :]))
    best = shapes.broadcast(context, best, whole)
    hit = compare(context, "==", term, best)
    places = shapes.along(context, whole, axis)
    chosen = context.op("select", places.type, hit, places, places.like(whole[axis]))
    found = context.op("reduce", ctype(INT, left), chosen, kind="smin", axes=(axis,))
    if not element.is_float:
        return found
    lost = compare(context, "==", found, found.like(whole[axis]))
    return context.op("select", found.type, lost, found.like(0), found)


def scan(context: Context, term: Term, operation: str, axis: int, span: Span,
         reverse: bool = False) -> Term:
    """The inclusive scan along an axis, from its end if `reverse`."""
    element = term.type.element
    if not isinstance(element, Number):
        return context.error("reduction", span, f"a tile of pointers has no scan, found "
                             f"{term.type}")
    context.at(span)
    if element.is_float or operation in ("add", "mul"):
        element = promote(element)
        term = convert.number(context, term, element)
    extra: dict[str, Any] = {"reverse": True} if reverse else {}
    return context.op("scan", term.type, term, kind=kind_of(operation, element), axis=axis, **extra)
