"""Structs as values: members side by side, each a value of its own.

Nothing of a struct reaches Triton-IR.  A variable of a struct is one variable for each member, and
what is said of the struct (assignment, a choice, passing and returning) is said of each member."""

from tritonc.frontend import foreign, syntax
from tritonc.sema.context import Context
from tritonc.sema.operations import implicit
from tritonc.sema.scope import Variable
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import CType, Struct, member_type
from tritonc.sema.types.term import POISON, Term, good
from tritonc.source import Note
from tritonc.spelling import closest


def value(context: Context, node: syntax.Expression, type: CType, what: str) -> Term:
    """An expression that may be a struct, or a list of its members in braces, of `type`.

    Nothing is converted, but in such a list."""
    if isinstance(node, syntax.StructValue) and node.type is None:
        return _made(context, node, type, what)
    return context.operand(node, structs=True)


def literal(context: Context, node: syntax.StructValue) -> Term:
    """`(pair){a, b}`."""
    if node.type is None:
        return context.error("struct-value", node.span, "a list in braces is the value of a struct "
                             "only where its type is known; write (name){...}")
    type = constants.value_type(context, node.type, "the value")
    return _made(context, node, type, "the value")


def _made(context: Context, node: syntax.StructValue, type: CType, what: str) -> Term:
    struct = type.element
    if not isinstance(struct, Struct):
        return context.error("struct-value", node.span, f"{what} is {type}, which a list in "
                             "braces cannot make; a scalar fills a tile")
    count = len(struct.members)
    if struct.array and len(node.values) != count:
        return context.error("struct-value", node.span, f"{what} has {count} tiles, but this list "
                             f"has {len(node.values)}")
    if len(node.values) != count:
        names = ", ".join(name for name, _ in struct.members)
        return context.error("struct-value", node.span, f"{struct} has {count} "
                             f"member{'s' * (count > 1)} ({names}), but this list has "
                             f"{len(node.values)}")
    members: list[Term] = []
    for at, (name, each) in enumerate(zip((m for m, _ in struct.members), node.values,
                                          strict=True)):
        to = member_type(type, at)
        wanted = f"member '{name}' of {struct}"
        found = value(context, each, to, wanted)
        context.at(each.span)
        members.append(implicit.assign(context, found, to, each.span, wanted))
    return POISON if any(m.poisoned for m in members) else Term(type, members=tuple(members))


# --- members ---


def member(context: Context, node: syntax.Member) -> Term:
    """`base.name`."""
    part = part_of(context, node)
    if part is not None:
        return context.read(part, node.span)
    context.member = node
    base = good(context.operand(node.base, structs=True))
    return base.members[_place(context, node, base.type)]


def part_of(context: Context, node: syntax.Expression) -> Variable | None:
    """The variable that `x` or `x.name` is; None, without a message, for anything else."""
    if isinstance(node, syntax.Name):
        entity = context.scope.lookup(node.name)
        return entity if isinstance(entity, Variable) else None
    if isinstance(node, syntax.Subscript):
        base = part_of(context, node.base)
        if base is None or not isinstance(base.type.element, Struct) or not base.type.element.array:
            return None
        return base.parts[place_in(context, node, base.type.element)]
    if not isinstance(node, syntax.Member):
        return None
    base = part_of(context, node.base)
    if base is None or not isinstance(base.type.element, Struct):
        return None
    names = [name for name, _ in base.type.element.members]
    return base.parts[names.index(node.name)] if node.name in names else None


def place_in(context: Context, node: syntax.Subscript, array: Struct) -> int:
    """The number of the element that a subscript names."""
    (entry, *more) = node.entries
    if more or not isinstance(entry, syntax.Index):
        context.refuse("subscript", node.span, "an array of tiles has one index, a constant; "
                       "a subscript of its tile follows, as in x[0][:, newaxis]")
    at = constants.integer(context, entry.index, "the index of an array of tiles")
    if not 0 <= at < len(array.members):
        context.refuse("subscript-index", entry.span, f"the array has {len(array.members)} tiles, "
                       f"0 to {len(array.members) - 1}, found {at}")
    return at


def element(context: Context, node: syntax.Subscript, base: Term) -> Term:
    """`base[i]` of an array of tiles."""
    assert isinstance(base.type.element, Struct)
    return base.members[place_in(context, node, base.type.element)]


def is_array(type: CType) -> bool:
    return isinstance(type.element, Struct) and type.element.array


def _place(context: Context, node: syntax.Member, type: CType) -> int:
    """The number of a member."""
    struct = type.element
    if not isinstance(struct, Struct):
        notes = foreign.notes(node.name)
        if node.name == "T":
            notes = (Note("trans(x) is the transpose"),)
        context.refuse("struct-value", node.span, f"{type} is not a struct and has no members",
                       *notes)
    names = [name for name, _ in struct.members]
    if node.name not in names:
        near = closest(node.name, names)
        context.refuse("struct-value", node.name_span, f"{struct} has no member '{node.name}'" + (
            f"; did you mean '{near}'?" if near else f"; it has {', '.join(names)}"),
            suggestion=near)
    return names.index(node.name)
