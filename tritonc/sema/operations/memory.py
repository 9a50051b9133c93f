"""Loads, stores and atomics, with the masks and predicates that guard them.

A guard, a pointer and a value broadcast together.  The guard is what holds of an explicit mask,
`*?(m) p`, and of the tile predicates around the access.

A load under a predicate keeps the shape of its pointer, so that a scalar loaded there is a scalar,
and a function means the same whether it is called under a predicate or not.  Those elements are
loaded that are needed (`guards.py`).  Only directly as a side of `m ? *p : 0`, whose result has the
shape of m anyway, it takes the predicate's shape."""

from collections.abc import Iterator
from typing import Any

from tritonc.ir.core import Value
from tritonc.ir.types import CONSTANT, same_axes
from tritonc.ir.types import shape as shape_of
from tritonc.records import dataclass
from tritonc.sema.context import Context, Words
from tritonc.sema.operations import convert, implicit
from tritonc.sema.predicates.if_conversion import holds, later
from tritonc.sema.types import ctypes, shapes
from tritonc.sema.types.term import Term, good
from tritonc.source import Note, Span

Shape = tuple[int, ...]


PLAIN = Words()
_UNKNOWN = ("phi", "reshape", "undef")  # elements may be equal all the same
VOLATILE: dict[str, Any] = {"order": "relaxed", "volatile": True}


@dataclass(slots=True, eq=False)
class Access:
    """Terms of one shape, pointer first, and the guard of that shape."""

    terms: list[Term]
    guard: Value | None


def pointee(context: Context, pointer: Term, span: Span, user: str = "'*'") -> ctypes.Number:
    """What a pointer, or tile of pointers, points to; the message for anything else says that
    `user` wants one."""
    element = good(pointer).type.element
    if isinstance(element, ctypes.PointerTo):
        return element.target
    context.refuse("not-a-pointer", span, f"{user} needs a pointer or a tile of pointers, found "
                   f"{pointer.type}", *context.declarations())


def _access(context: Context, span: Span, mask: Term | None, *terms: Term) -> Access:
    """The terms broadcast together with mask and predicate."""
    guards = [mask] if mask is not None else []
    shape = shapes.meet_shapes(context, span, *terms, *guards)
    if context.mask is not None:
        predicate = holds(context, context.mask, span)
        found = shapes.common_shape(shape, predicate.shape)
        if found is None:
            context.refuse("shape-mismatch", span, f"an access of shape {shapes.spell(shape)} is "
                           f"under a predicate of shape {shapes.spell(predicate.shape)}, and the "
                           "two do not broadcast together", Note("the predicate is here",
                                                                 context.mask.span))
        shape = found
        guards.append(predicate)
    spread = [shapes.broadcast(context, t, shape) for t in terms]
    guard: Term | None = None
    for term in guards:
        if term.constant is True:
            continue
        wide = shapes.broadcast(context, term, shape)
        guard = wide if guard is None else context.op("and", wide.type, guard, wide)
    return Access(spread, None if guard is None else context.value(guard))


def _value_of(context: Context, span: Span, name: str, target: ctypes.Number, mask: Term | None,
              terms: list[Term], shape: Shape, **attributes: Any) -> Term:
    """An access for its value: its elements are those of the terms, and of `shape`.

    Where a predicate is in force, what is needed of the value will say which take place."""
    guards = [mask] if mask is not None else []
    found = shapes.meet_shapes(context, span, *terms, *guards)
    shape = shapes.common_shape(found, shape) or found
    spread = [shapes.broadcast(context, t, shape) for t in terms]
    explicit = None
    if mask is not None and mask.constant is not True:
        explicit = shapes.broadcast(context, mask, shape)
    guard = context.value(explicit) if explicit is not None and context.mask is None else None
    result = context.op(name, ctypes.ctype(target, shape), *spread, guard=guard, **attributes)
    assert result.value is not None and result.value.op is not None
    later(context, result.value.op, explicit)
    return result


def load(context: Context, pointer: Term, mask: Term | None, span: Span, at: Span,
         widen: bool = False, words: Words = PLAIN) -> Term:
    """`*pointer`; `at` is where an error about the pointer stands.

    `widen`: the result may take the shape of the predicate in force."""
    target = pointee(context, pointer, at)
    context.at(span)
    shape = context.mask.own[0].shape if widen and context.mask is not None else ()
    element = pointer.type.element
    if isinstance(element, ctypes.PointerTo) and element.volatile:
        return _value_of(context, span, "atomic_rmw", target, mask, [pointer, _nothing(target)],
                         shape, kind="load", **VOLATILE)
    return _value_of(context, span, "load", target, mask, [pointer], shape, **words.attributes)


def store(context: Context, pointer: Term, mask: Term | None, value: Term, span: Span,
          value_span: Span, at: Span, words: Words = PLAIN) -> Term:
    """`*pointer = value`; gives the value as it was stored."""
    target = writable(context, pointer, at)
    context.at(value_span)
    converted = good(implicit.implicit(context, good(value), target, value_span,
                                       f"the element behind '{pointer.type}'"))
    context.at(span)
    access = _access(context, span, mask, pointer, converted)
    element, (pointers, stored) = pointer.type.element, map(context.value, access.terms)
    _warn_of_one_address(context, span, pointers, stored, access.guard)
    if isinstance(element, ctypes.PointerTo) and element.volatile:
        context.emit("atomic_rmw", pointers, stored, guard=access.guard, kind="store", **VOLATILE)
    else:
        context.emit("store", pointers, stored, guard=access.guard, **words.attributes)
    return converted


def _warn_of_one_address(context: Context, span: Span, pointers: Value, stored: Value,
                         guard: Value | None) -> None:
    """Of different elements that are all stored, and to one address."""
    extents = shape_of(pointers.type)
    for axis in range(-len(extents), 0):
        if (extents[axis] > 1 and not any(_differing(pointers, axis))
                and not (guard and any(_differing(guard, axis)))
                and any(name not in _UNKNOWN for name in _differing(stored, axis))):
            context.warning("overlapping-store", span, "the pointers are the same along axis "
                            f"{len(extents) + axis}, so {extents[axis]} different elements are "
                            "stored to each address, and which one stays is undefined",
                            Note("to add them up, reduce them first, as in x[:, +], or use "
                                 "atomic_add"))


def _differing(value: Value, axis: int) -> Iterator[str]:
    """The names of operations, other than elementwise ones, by which the elements of a tile may
    differ along an axis, which counts from the last, -1."""
    pending, seen = [(value, axis)], set()
    while pending:
        value, axis = pending.pop()
        extents, op = shape_of(value.type), value.op
        if (value, axis) in seen or op is None or -axis > len(extents) or extents[axis] == 1:
            continue
        seen.add((value, axis))
        if op.name == "phi":
            yield op.name
        if op.name in ("broadcast", "load", "phi") or op.info.elementwise:
            pending += [(operand, axis) for operand in op.operands]
        elif op.name == "reshape" and (kept := _axis_before(extents, axis, op.operands[0])):
            pending.append((op.operands[0], kept))
        elif op.name not in ("splat", "constant"):
            yield op.name


def _axis_before(extents: Shape, axis: int, value: Value) -> int | None:
    """Which axis of `value` is `axis` of its reshape to `extents`; only extents of 1 differ."""
    before = shape_of(value.type)
    places = same_axes(before, extents)
    found = places[axis] if places is not None else None
    return None if found is None else found - len(before)


def writable(context: Context, pointer: Term, span: Span, user: str = "'*'") -> ctypes.Number:
    """What a pointer points to, if the program may write there."""
    target = pointee(context, pointer, span, user)
    element = pointer.type.element
    assert isinstance(element, ctypes.PointerTo)
    if element.space == CONSTANT and context.frame is not None:
        context.refuse("constant-memory", span, f"{pointer.type} points to constant memory, which "
                       "only the host and statements outside functions may fill")
    if element.const:
        context.refuse("const-store", span, f"{pointer.type} points to const; nothing can be "
                       "written through it")
    return target


# --- atomics ---

_INTEGERS = (ctypes.INT, ctypes.LONG, ctypes.UINT, ctypes.ULONG)
_TARGETS: dict[str, tuple[ctypes.Number, ...]] = {
    "add": (*_INTEGERS, ctypes.HALF, ctypes.BFLOAT16, ctypes.FLOAT, ctypes.DOUBLE),
    "max": (*_INTEGERS, ctypes.FLOAT, ctypes.DOUBLE),
    "min": (*_INTEGERS, ctypes.FLOAT, ctypes.DOUBLE),
    "and": _INTEGERS, "or": _INTEGERS, "xor": _INTEGERS,
    "xchg": (*_INTEGERS, ctypes.FLOAT, ctypes.DOUBLE),
    "cas": (*_INTEGERS, ctypes.FLOAT, ctypes.DOUBLE)}


def atomic(context: Context, operation: str, pointer: Term, values: list[Term], mask: Term | None,
           shape: Shape | None, span: Span, spans: list[Span], used: bool = False,
           words: Words = PLAIN) -> Term:
    """The old value of `*pointer`, which `operation` combines with values atomically.

    `shape` is one that the spelling states; `spans` are those of pointer, values and mask.  Under a
    predicate a statement, and an operation on scalars, takes place once for each element that the
    predicate selects; one on tiles whose value is `used`, for those elements that are needed."""
    loads = operation == "load"
    target = (pointee if loads else writable)(context, pointer, spans[0], "an atomic operation")
    values = [good(value) for value in values]
    if operation not in ("load", "store") and target not in _TARGETS[operation]:
        names = ", ".join(str(t) for t in _TARGETS[operation])
        return context.error("atomic-type", spans[0], f"no atomic {operation} on {target}; it is "
                             f"possible on {names}")
    if mask is not None:
        mask = good(convert.truth(context, mask, spans[-1], "a mask"))
    converted = [good(implicit.implicit(context, v, target, s,
                                        f"the element behind '{pointer.type}'"))
                 for v, s in zip(values, spans[1:])]
    context.at(span)
    if shape is not None:
        if not shapes.broadcastable(pointer.shape, shape) and pointer.type.size != 1:
            return context.error("shape-mismatch", spans[0], f"this spelling is for tiles of shape "
                                 f"{shapes.spell(shape)}, the pointer is {pointer.type}")
        if shapes.broadcastable(pointer.shape, shape) and ctypes.ctype(ctypes.BOOL, shape).size > 1:
            pointer = shapes.broadcast(context, pointer, shape)
    terms = [pointer, *converted]
    name = "atomic_cas" if operation == "cas" else "atomic_rmw"
    kind: dict[str, Any] = words.attributes
    if operation != "cas":
        kind["kind"] = kind_of(operation, target)
    if loads:
        terms.append(_nothing(target))
    if used and any(t.shape for t in terms):
        return _value_of(context, span, name, target, mask, terms, (), **kind)
    access = _access(context, span, mask, *terms)
    return context.op(name, ctypes.ctype(target, access.terms[0].shape), *access.terms,
                      guard=access.guard, **kind)


def _nothing(target: ctypes.Number) -> Term:
    """The operand of a load that is made as an atomic operation: it is not read."""
    return Term(ctypes.ctype(target), constant=0.0 if target.is_float else 0)


def kind_of(operation: str, target: ctypes.Number) -> str:
    """The kind of reduction or atomic that combines elements of that type: "max" of int: smax."""
    if operation in ("add", "mul"):
        return "f" + operation if target.is_float else operation
    if operation in ("max", "min"):
        if target is ctypes.BOOL:
            return "or" if operation == "max" else "and"
        return ("f" if target.is_float else "s" if target.signed else "u") + operation
    return operation
