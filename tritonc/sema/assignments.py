"""Assignment: to variables, merged under predicates, and to memory."""

from contextlib import suppress
from typing import NoReturn

from tritonc.frontend import syntax
from tritonc.frontend.tree import children
from tritonc.records import dataclass
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, implicit, memory, operators, structs, subscripts
from tritonc.sema.predicates.if_conversion import merge
from tritonc.sema.scope import Poisoned, Table, Variable
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import INT_TYPE, CType, PointerTo
from tritonc.sema.types.term import POISON, Refused, Term
from tritonc.source import Note, Span


@dataclass(slots=True, eq=False)
class MemoryPlace:
    """`*pointer` or `*?(mask) pointer` as a target."""

    pointer: Term
    mask: Term | None
    node: syntax.Expression
    at: Span  # where an error about the pointer stands


Place = Variable | MemoryPlace


def _tighter(node: syntax.Expression) -> tuple[Note, ...]:
    """For `*p + i = v`, how it is written."""
    while isinstance(node, syntax.Binary):
        node = node.left
    if isinstance(node, syntax.Deref | syntax.MaskedDeref):
        return (Note("'*' binds tighter than other operators; *(p + i) is what p + i points to"),)
    return ()


def place(context: Context, node: syntax.Expression) -> Place | None:
    """What an assignment changes; None after a message."""
    if isinstance(node, syntax.Name):
        return _variable(context, node)
    if isinstance(node, syntax.Member):
        return _member(context, node)
    if isinstance(node, syntax.Deref):
        pointer = context.operand(node.pointer)
        return None if pointer.poisoned else MemoryPlace(pointer, None, node, node.pointer.span)
    if isinstance(node, syntax.MaskedDeref):
        mask = convert.truth(context, context.operand(node.mask), node.mask.span, "a mask")
        pointer = context.operand(node.pointer)
        if mask.poisoned or pointer.poisoned:
            return None
        return MemoryPlace(pointer, mask, node, node.pointer.span)
    if isinstance(node, syntax.Subscript):
        return _subscripted(context, node)
    term = context.lower(node)
    if not term.poisoned:
        context.error("not-assignable", node.span, "only a variable and what a pointer points to, "
                      "*p, can be assigned", *_tighter(node))
    return None


def _variable(context: Context, node: syntax.Name) -> Variable | None:
    entity = context.scope.lookup(node.name)
    if isinstance(entity, Variable):
        if entity.const:
            context.error("const-assignment", node.span, f"'{node.name}' is const", entity.note)
            return None
        return entity
    if entity is None or isinstance(entity, Poisoned):
        context.lower(node)  # reports that there is no such name
    else:
        context.error("not-assignable", node.span, f"'{node.name}' is a {entity.kind}; only a "
                      "variable and what a pointer points to, *p, can be assigned",
                      entity.note)
    return None


def _member(context: Context, node: syntax.Member) -> Variable | None:
    part = structs.part_of(context, node)
    if part is not None and part.const:
        context.error("const-assignment", node.span, f"'{part.name}' is part of a const struct",
                      part.note)
        return None
    if part is None and not structs.member(context, node).poisoned:
        context.error("not-assignable", node.span, "only members of a variable can be assigned")
    return part


def _subscripted(context: Context, node: syntax.Subscript) -> Place | None:
    """`p[i]` of a pointer or an array; None after a message for anything else."""
    array = structs.part_of(context, node.base)
    if array is not None and structs.is_array(array.type):
        if array.const:
            context.error("const-assignment", node.span, f"'{array.name}' is const", array.note)
            return None
        return structs.part_of(context, node)
    if array is not None and (array.type.shape or not isinstance(array.type.element, PointerTo)):
        context.spoil(array)  # it may have no value yet, which is no second mistake
        _refuse_part(context, node, array.type)
    if isinstance(node.base, syntax.Name):
        entity = context.scope.lookup(node.base.name)
        if isinstance(entity, Table) and context.frame is not None:
            context.error("constant-memory", node.span, f"'{entity.name}' is in constant memory, "
                          "which only the host and statements outside functions may fill")
            return None
    base = context.operand(node.base)
    if base.poisoned:
        return None
    (entry, *more) = node.entries
    if more or not isinstance(entry, syntax.Index) or not subscripts.is_pointer(base):
        _refuse_part(context, node, base.type)
    pointer = subscripts.indexed(context, base, entry, node.span)
    return None if pointer.poisoned else MemoryPlace(pointer, None, node, node.span)


def _refuse_part(context: Context, node: syntax.Subscript, type: CType) -> NoReturn:
    subscripts.check_axes(context, node.span, type)
    context.refuse("subscript-index", node.span, subscripts.no_index_of_pointers(type) or (
        f"a part of the tile {type} cannot be assigned; assign the tile, under a predicate as in "
        "'@mask x = value;'"))


def _read(context: Context, target: Place, span: Span) -> Term:
    if isinstance(target, Variable):
        return context.read(target, span)
    return memory.load(context, target.pointer, target.mask, target.node.span, target.at)


def _write(context: Context, target: Place, value: Term, span: Span, value_span: Span) -> Term:
    """Assign, and give the value as the target has it now."""
    context.assignments += 1
    if isinstance(target, MemoryPlace):
        return memory.store(context, target.pointer, target.mask, value, span, value_span,
                            target.at)
    context.at(value_span)
    converted = implicit.assign(context, value, target.type, value_span, f"'{target.name}'",
                               target.note)
    if converted.poisoned:
        # What was wrong is reported; later reads shall not call the variable uninitialised.
        context.spoil(target)
        return POISON
    context.at(span)
    return _merge(context, target, converted, span)


def _merge(context: Context, target: Variable, value: Term, span: Span) -> Term:
    """Assign a value of the variable's type under the predicate in force, member by member."""
    if target.parts:
        members = [_merge(context, part, member, span)
                   for part, member in zip(target.parts, value.members, strict=True)]
        return Term(target.type, members=tuple(members))
    merged = merge(context, target, value, span)
    context.write(target, merged)
    return merged


def assign(context: Context, node: syntax.Assign) -> Term:
    """`target = value` and `target op= value`."""
    constants.check_constant(context, node.span, "it assigns a variable")
    target = None
    with suppress(Refused):  # what is wrong with the value is said too
        target = place(context, node.target)
    if node.operator is not None and isinstance(target, Variable) and target.parts:
        return context.error("struct-value", node.span, f"'{node.operator}=' has no meaning for "
                             f"the struct {target.type}; name a member")
    if isinstance(target, Variable) and node.operator is None:
        value = structs.value(context, node.value, target.type, f"'{target.name}'")
    else:
        value = context.operand(node.value)
    if target is None:
        return POISON
    if node.operator is not None:
        old = _read(context, target, node.target.span)
        product = value
        with context.about(node.target, node.value):
            value = operators.binary(context, node.operator, old, value, node.span,
                                     node.operator_span)
        operators.may_contract(context, value, node.value, product)
    span = node.span if node.operator is not None else node.value.span
    parts = (n for n in children(node.target) if isinstance(n, syntax.Expression))
    with context.about(*parts, node.value):
        return _write(context, target, value, node.span, span)


def step(context: Context, node: syntax.IncDec) -> Term:
    """`++x`, `x--` and so on."""
    constants.check_constant(context, node.span, "it assigns a variable")
    target = place(context, node.target)
    if target is None:
        return POISON
    if isinstance(target, Variable) and target.parts:
        return context.error("struct-value", node.span, f"'{node.operator * 2}' has no meaning for "
                             f"the struct {target.type}; name a member")
    old = _read(context, target, node.target.span)
    new = operators.binary(context, node.operator, old, Term(INT_TYPE, constant=1), node.span,
                           node.span)
    new = _write(context, target, new, node.span, node.span)
    return new if node.prefix or new.poisoned else old
