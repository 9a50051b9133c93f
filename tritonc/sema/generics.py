"""Functions generic in extents and types: `float[M] rowsum(float x[M, N])`, `auto twice(auto x)`.

A name that is an extent of a parameter and that the file does not declare is a constant of each
call: it is bound to the extent that the argument has.  `auto` is the type of the argument or, for a
result and a variable, of the value.  Such a function has no types of its own; a call makes an
`Instance` of it, and messages about its body say which."""

from contextlib import suppress
from dataclasses import replace

from tritonc.frontend import syntax
from tritonc.records import dataclass
from tritonc.sema.context import Context, decayed
from tritonc.sema.scope import FunctionEntity, Scope, Signature, Variable
from tritonc.sema.types import constants, ctypes, shapes
from tritonc.sema.types.term import Refused, Term, good
from tritonc.source import Note, Span


@dataclass(frozen=True, eq=False)
class Instance:
    """A function with its types.  `scope` has the constants of a generic one, and `text` is what
    it is in messages, "" for others."""

    entity: FunctionEntity
    signature: Signature
    scope: Scope
    text: str = ""


def names_of(context: Context, entity: FunctionEntity) -> tuple[str, ...]:
    """The constants that a call binds."""
    known = context.unit.scope.names
    return tuple(dict.fromkeys(
        extent.name for parameter in entity.node.parameters for extent in _extents(parameter.type)
        if isinstance(extent, syntax.Name) and extent.name not in known))


def _extents(spec: syntax.TypeSpec) -> list[syntax.Expression]:
    """What a type says of extents; of an array of tiles, their count first."""
    return [*([spec.count] if spec.count is not None else []), *(spec.extents or ())]


def _shape(spec: syntax.TypeSpec, term: Term) -> tuple[int, ...] | None:
    """The numbers that belong to `_extents`; None if only one of the two is an array."""
    element = term.type.element
    array = isinstance(element, ctypes.Struct) and element.array
    if array != (spec.count is not None):
        return None
    if not isinstance(element, ctypes.Struct) or not array:
        return term.shape
    return len(element.members), *element.members[0][1].shape


def is_generic(context: Context, entity: FunctionEntity) -> bool:
    node = entity.node
    return any(p.type.scalar == "auto" for p in node.parameters) or \
        node.returns.scalar == "auto" or bool(names_of(context, entity))


def signature_of(context: Context, entity: FunctionEntity) -> Signature:
    """Types of the result and the parameters of a function that is not generic, resolved once."""
    if entity.signature is None:
        entity.signature = _resolved(context, entity, context.unit.scope, None)
    return entity.signature


def _resolved(context: Context, entity: FunctionEntity, scope: Scope,
              types: list[ctypes.CType] | None) -> Signature:
    node = entity.node
    outer, context.scope = context.scope, scope
    parameters: list[ctypes.CType | None] = [None] * len(node.parameters)
    for at, parameter in enumerate(node.parameters):
        spec, name = parameter.type, f"parameter '{parameter.name}'"
        if entity.kernel and spec.extents is not None:
            with suppress(Refused):
                of = constants.value_type(context, replace(spec, extents=None, count=None), name)
                meant = "" if spec.pointer else f", as in '{of}* {parameter.name}'"
                context.error("kernel-signature", parameter.name_span, f"{name} of kernel "
                              f"'{node.name}' is a tile of {of}; a launch passes only scalars "
                              f"and pointers{meant}")
            continue
        with suppress(Refused):
            parameters[at] = deduced(context, spec, types[at], name) if (
                spec.scalar == "auto" and types is not None
            ) else constants.value_type(context, spec, name)
    returns = None
    with suppress(Refused):
        returns = ctypes.AUTO_TYPE if node.returns.scalar == "auto" and types is not None \
            else constants.resolve_type(context, node.returns)
    context.scope = outer
    return Signature(returns, parameters)


def deduced(context: Context, spec: syntax.TypeSpec, found: ctypes.CType, what: str
            ) -> ctypes.CType:
    """The type that an `auto` with its stars and extents becomes for a value of type `found`."""
    element = found.element
    if spec.pointer:
        if not isinstance(element, ctypes.PointerTo):
            context.refuse("type-mismatch", spec.span, f"{what} is a pointer, but the value is "
                           f"{found}")
        element = ctypes.pointer_to(element.target, spec.const or element.const, element.space,
                                    spec.volatile or element.volatile)
    if spec.extents is None:
        return ctypes.ctype(element, found.shape)
    return ctypes.ctype(element, constants.extents(context, spec.extents))


def instance(context: Context, entity: FunctionEntity, arguments: list[Term],
             spans: list[Span]) -> Instance:
    """The function for these arguments."""
    if not is_generic(context, entity):
        return Instance(entity, signature_of(context, entity), context.unit.scope)
    arguments = [good(t) for t in arguments]
    names = names_of(context, entity)
    bound: dict[str, tuple[int, str]] = {}
    declared = entity.note
    for parameter, term, span in zip(entity.node.parameters, arguments, spans, strict=True):
        extents, shape = _extents(parameter.type), _shape(parameter.type, term)
        generic = [at for at, e in enumerate(extents) if isinstance(e, syntax.Name)
                   and e.name in names]
        if generic and (shape is None or len(shape) != len(extents)):
            axes = f"{(n := len(parameter.type.extents or ()))} {'axis' if n == 1 else 'axes'}"
            wanted = f"is an array of tiles with {axes}" if parameter.type.count else f"has {axes}"
            context.refuse("shape-mismatch", span, f"parameter '{parameter.name}' of "
                           f"'{entity.name}' {wanted}, but the argument is {term.type}", declared)
        for at in generic:
            assert shape is not None
            name, extent = extents[at], shape[at]
            assert isinstance(name, syntax.Name)
            known = bound.setdefault(name.name, (extent, parameter.name))
            if known[0] != extent:
                found = term.type if parameter.type.count else shapes.spell(term.shape)
                context.refuse("shape-mismatch", span, f"parameter '{parameter.name}' of "
                               f"'{entity.name}' is {found} here, but parameter '{known[1]}' "
                               f"makes '{name.name}' {known[0]}", declared)
    scope = Scope(context.unit.scope)
    for constant, (extent, _) in bound.items():
        scope.declare(Variable(constant, entity.span, ctypes.INT_TYPE, const=True,
                               constant=Term(ctypes.INT_TYPE, constant=extent)))
    types = [decayed(t).type for t in arguments]
    errors = context.diagnostics.errors
    signature = _resolved(context, entity, scope, types)
    if context.diagnostics.errors != errors:
        raise Refused
    types_of = ", ".join(map(str, signature.parameters))
    values = ", ".join(f"{name} = {extent}" for name, (extent, _) in bound.items())
    return Instance(entity, signature, scope,
                    f"{entity.name}({types_of})" + (f" with {values}" if values else ""))


# --- overloading ---


def chosen(context: Context, entity: FunctionEntity, arguments: list[Term], node: syntax.Call
           ) -> FunctionEntity:
    """The overload that fits the arguments best."""
    if len(entity.overloads) < 2:
        return entity
    arguments = [good(t) for t in arguments]
    ranked = [(cost, each) for each in entity.overloads
              if (cost := _cost(context, each, arguments)) is not None]
    best = min((cost for cost, _ in ranked), default=None)
    fitting = [each for cost, each in ranked if cost == best]
    if len(fitting) == 1:
        return fitting[0]
    given = ", ".join(str(t.type) for t in arguments)
    notes = [Note(f"{'this fits equally' if fitting else 'this does not fit'}", each.span)
             for each in (fitting or entity.overloads)]
    context.refuse("call-arguments", node.span, f"several functions '{entity.name}' fit ({given}) "
                   "equally well" if fitting else
                   f"no function '{entity.name}' takes ({given})", *notes)


def _cost(context: Context, entity: FunctionEntity, arguments: list[Term]) -> int | None:
    """How much is to be converted; None where it cannot be."""
    if len(arguments) != len(entity.node.parameters):
        return None
    total = 0
    for parameter, term in zip(entity.node.parameters, arguments, strict=True):
        cost = _fit(context, parameter.type, term)
        if cost is None:
            return None
        total += cost
    return total


_BROADCAST, _GENERIC, _WIDER, _OTHER = 100, 1, 4, 20


def _fit(context: Context, spec: syntax.TypeSpec, term: Term) -> int | None:
    shape = _shape(spec, term)
    if shape is None and spec.scalar != "auto":
        return None
    rank, wanted = len(term.shape if shape is None else shape), len(_extents(spec))
    cost = 0
    if spec.count is not None and shape is not None:
        element = term.type.element
        assert isinstance(element, ctypes.Struct)
        same = element.members[0][1].element is constants.element_of(context, spec)
        return cost if rank == wanted and same else None
    if spec.extents is not None or spec.scalar != "auto":
        names = {e.name for e in spec.extents or () if isinstance(e, syntax.Name)}
        if rank > wanted and term.type.size != 1:
            return None
        if rank != wanted:
            if names - set(context.unit.scope.names):
                return None
            cost += _BROADCAST
    else:
        cost += _GENERIC
    element = term.type.element
    if spec.scalar == "auto":
        wrong = spec.pointer and not isinstance(element, ctypes.PointerTo)
        return None if wrong else cost + _GENERIC
    to = constants.element_of(context, spec)
    if isinstance(element, ctypes.PointerTo) and isinstance(to, ctypes.PointerTo):
        same = element.target is to.target and element.space == to.space
        return cost + (element.const != to.const) if same else None
    if element is to:
        return cost
    if not isinstance(element, ctypes.Number) or not isinstance(to, ctypes.Number):
        return None
    if element is ctypes.LITERAL and to.is_float:
        return cost + (to is not ctypes.FLOAT)
    wider = element.is_float == to.is_float and element.ir.bits < to.ir.bits
    return cost + (_WIDER if wider or (element.is_int and to.is_float) else _OTHER)
