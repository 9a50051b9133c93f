"""Functions: kernels become IR kernels, device functions are inlined where they are called.

A call lowers the callee's body in place, with variables of its own.  The callee's `return` goes to
a block after the body, unless it is the body's last statement: then there is nothing to go to."""

from collections.abc import Mapping
from contextlib import suppress
from math import lcm

from tritonc.frontend import syntax
from tritonc.ir.core import Op, ParameterInfo, Value, uses
from tritonc.ir.ops import OPS, READ, WRITE
from tritonc.sema import generics
from tritonc.sema.context import HINTS, Context, Frame
from tritonc.sema.operations import implicit, structs
from tritonc.sema.scope import FunctionEntity, Poisoned, Scope, Signature, Variable
from tritonc.sema.types import constants, ctypes
from tritonc.sema.types.term import NOTHING, POISON, Refused, Term
from tritonc.source import CompileError, Note, Span

MAX_DEPTH = 100  # inlined calls inside each other
MAX_CALLS = 20_000  # of one kernel
MAX_OPERATIONS = 200_000  # of one kernel; inlining can multiply them


# --- device functions ---


def call_function(context: Context, entity: FunctionEntity, node: syntax.Call) -> Term:
    """Lower a call of a function of the program."""
    if entity.home is not None:
        assert context.frame is not None and context.frame.lift is not None
        arguments = [context.operand(a) for a in node.arguments]
        from tritonc.sema.builtins import library

        return library.inline(context, entity, arguments, context.frame.lift)
    arguments = _arguments(context, entity, node)
    entity = generics.chosen(context, entity, arguments, node)
    declared = entity.note
    if len(arguments) != len(entity.node.parameters):
        count = len(entity.node.parameters)
        return context.error("call-arguments", node.span, f"'{entity.name}' takes {count} "
                             f"argument{'' if count == 1 else 's'}, found {len(arguments)}",
                             declared)
    if entity.kernel:
        return context.error("kernel-call", node.callee_span, f"'{entity.name}' is a kernel, which "
                             "only a launch can call", declared)
    if entity.node.body is None:
        return context.error("undeclared-name", node.callee_span, f"'{entity.name}' is declared "
                             "but has no body in this file", declared)
    check_depth(context, entity, node)
    entity.used = True
    instance = generics.instance(context, entity, arguments, [a.span for a in node.arguments])
    values: list[Term] = []
    for at, (argument, type) in enumerate(zip(arguments, instance.signature.parameters)):
        span = node.arguments[at].span
        context.at(span)
        name = entity.node.parameters[at].name
        values.append(POISON if type is None else implicit.assign(
            context, argument, type, span, f"parameter '{name}' of '{entity.name}'", declared))
    if instance.signature.returns is None:
        return POISON
    return inline(context, instance, values, node.span)


def _arguments(context: Context, entity: FunctionEntity, node: syntax.Call) -> list[Term]:
    """The arguments of a call; a list in braces takes the type of its parameter."""
    found: list[Term] = []
    for at, argument in enumerate(node.arguments):
        type = ctypes.VOID_TYPE
        if isinstance(argument, syntax.StructValue) and at < len(entity.node.parameters):
            if argument.type is None and (len(entity.overloads) > 1
                                          or generics.is_generic(context, entity)):
                context.error("struct-value", argument.span, f"the type of argument {at + 1} is "
                              f"not known, as there are several functions '{entity.name}' or it is "
                              "generic; write (name){...}")
                found.append(POISON)
                continue
            type = generics.signature_of(context, entity).parameters[at] or ctypes.VOID_TYPE \
                if argument.type is None else ctypes.VOID_TYPE
        found.append(structs.value(context, argument, type, f"argument {at + 1}"))
    return found


def check_depth(context: Context, entity: FunctionEntity, node: syntax.Call) -> None:
    """Refuse a call of a function inside itself, and one too many."""
    depth = 0
    frame = context.frame
    while frame is not None:
        if frame.function is entity:
            chain = Note(f"'{entity.name}' is called here first", frame.call or entity.span)
            context.refuse("recursion", node.span, f"'{entity.name}' calls itself, directly or "
                           "through others; functions are inlined, so there is no recursion",
                           chain)
        depth += 1
        frame = frame.outer
    context.calls += 1
    if depth > MAX_DEPTH or context.calls > MAX_CALLS or context.operations > MAX_OPERATIONS:
        context.diagnostics.error(
            "inline-limit", node.span, f"functions are inlined, and this call makes '"
            f"{context.kernel.name}' too large: more than {MAX_DEPTH} calls inside each other, "
            f"{MAX_CALLS} calls or {MAX_OPERATIONS} operations")
        raise CompileError(context.diagnostics.items)


def inline(context: Context, instance: generics.Instance, values: list[Term], call: Span) -> Term:
    """The body of a function in the place of a call; `values` have the parameters' types."""
    entity, signature = instance.entity, instance.signature
    node, returns = entity.node, signature.returns
    assert node.body is not None and returns is not None
    entity.used = True
    saved = context.scope, context.frame, context.loop
    frame = Frame(entity, returns, context.mask, context.frame, call, instance=instance.text)
    context.scope, context.frame, context.loop = Scope(instance.scope), frame, None
    for parameter, type, value in zip(node.parameters, signature.parameters, values):
        _declare_parameter(context, parameter, type, value)
    _lower_body(context, frame, node)
    result = NOTHING
    if frame.result is not None:
        result = context.current(frame.result)
    elif frame.returns is ctypes.ERROR_TYPE:
        result = POISON
    context.scope, context.frame, context.loop = saved
    return result


def _declare_parameter(context: Context, parameter: syntax.Parameter, type: ctypes.CType | None,
                       value: Term) -> None:
    if type is None:
        context.scope.declare(Poisoned(parameter.name, parameter.name_span))
        return
    spec = parameter.type
    const = spec.const_pointer if spec.pointer else spec.const
    variable = Variable(parameter.name, parameter.name_span, type, const, True, context.mask)
    context.enter(variable)
    if value.poisoned:
        context.spoil(variable)
        return
    context.write(variable, value)
    if const and value.constant is not None:
        variable.constant = value


def _lower_body(context: Context, frame: Frame, node: syntax.Function) -> None:
    """The statements of a function, and the join of its returns."""
    assert node.body is not None
    statements = node.body.statements
    frame.tail = statements[-1] if statements else None
    if frame.returns.element not in (ctypes.VOID, ctypes.AUTO):
        frame.result = Variable("result", node.span, frame.returns, mask=context.mask)
    context.lower(node.body)
    returned = isinstance(frame.tail, syntax.Return)
    if frame.result is not None and context.live and not returned:
        end = Span(node.span.file, max(node.body.span.end - 1, 0), node.body.span.end)
        context.error("missing-return", end, f"'{node.name}' must return a value of type "
                      f"{frame.returns} on every path, but control can get to its end here",
                      Note(f"'{node.name}' is declared here", node.name_span))
        context.spoil(frame.result)
    if frame.exit is not None:
        context.at(node.body.span)
        context.branch(frame.exit)
        context.start(frame.exit)


# --- entry points ---


def lower_entry(context: Context, entity: FunctionEntity) -> None:
    """Lower a function as a kernel: its parameters are the kernel's."""
    node = entity.node
    assert node.body is not None
    signature = generics.signature_of(context, entity)
    _check_entry(context, entity, signature)
    context.scope = Scope(context.unit.scope)
    context.frame = Frame(entity, signature.returns or ctypes.VOID_TYPE, None, None, None)
    for parameter, type in zip(node.parameters, signature.parameters):
        if type is None:
            _declare_parameter(context, parameter, None, POISON)
            continue
        if isinstance(type.element, ctypes.Struct):
            _declare_parameter(context, parameter, type, parameters_of(context, type))
            continue
        value = Value(type.ir, parameter.name)
        context.kernel.parameters.append(value)
        context.kernel.info.append(_information(context, parameter, type))
        _declare_parameter(context, parameter, type, Term(type, value))
    _lower_body(context, context.frame, node)
    if context.live:
        context.at(Span(node.span.file, max(node.span.end - 1, 0), node.span.end))
        context.emit("ret")
    context.ssa.finish(context.kernel)
    check_reads(context)
    _check_access_hints(context, node)


def parameters_of(context: Context, type: ctypes.CType) -> Term:
    """A value of that type, of parameters that are added to the kernel."""
    if isinstance(type.element, ctypes.Struct):
        return Term(type, members=tuple(parameters_of(context, ctypes.member_type(type, at))
                                        for at in range(len(type.element.members))))
    value = Value(type.ir)
    context.kernel.parameters.append(value)
    context.kernel.info.append(ParameterInfo())
    return Term(type, value)


def _check_entry(context: Context, entity: FunctionEntity, signature: Signature) -> None:
    if not entity.kernel:
        return  # a device function that nobody calls, lowered to find its errors
    node = entity.node
    if signature.returns is not None and signature.returns.element is not ctypes.VOID:
        context.error("kernel-signature", node.returns.span, f"kernel '{node.name}' must be void, "
                      f"found {signature.returns}; results go to memory")
    for parameter, type in zip(node.parameters, signature.parameters):
        if type is not None and isinstance(type.element, ctypes.Struct):
            context.error("kernel-signature", parameter.name_span, f"parameter '{parameter.name}' "
                          f"of kernel '{node.name}' is the struct {type}; a launch passes only "
                          "scalars and pointers")


def _information(context: Context, parameter: syntax.Parameter, type: ctypes.CType
                 ) -> ParameterInfo:
    """What the source promises about a parameter, as the host sees it."""
    info = ParameterInfo(ctype=host_type(type), span=parameter.name_span)
    element = type.element
    names = {q.name for q in parameter.qualifiers}
    info.read_only = "read_only" in names or (
        isinstance(element, ctypes.PointerTo) and element.const)
    info.write_only = "write_only" in names
    info.no_alias = "restrict" in names
    info.retune = "retune" in names
    for qualifier in parameter.qualifiers:
        if qualifier.name in HINTS and qualifier.argument is not None:
            with suppress(Refused):
                n = _divisor(context, parameter, type, qualifier, qualifier.argument)
                info.multiple_of = lcm(info.multiple_of, n)
    return info


def _divisor(context: Context, parameter: syntax.Parameter, type: ctypes.CType,
             qualifier: syntax.Qualifier, argument: syntax.Expression) -> int:
    """What a parameter that is declared `align(n)` or `multiple_of(n)` is a multiple of."""
    n = constants.integer(context, argument, f"the argument of '{qualifier.name}'")
    if n < 1:
        context.refuse("call-arguments", argument.span, f"a multiple of {n} makes no sense; the "
                       "number must be positive")
    if qualifier.name == "align" and n & (n - 1):
        context.refuse("call-arguments", argument.span, f"an alignment is a power of two, not {n}")
    if not isinstance(type.element, ctypes.PointerTo) and not type.element.ir.is_int:
        context.refuse("type-mismatch", qualifier.span, "only integers and pointers are multiples "
                       f"of a number; '{parameter.name}' is {type}")
    return n


def host_type(type: ctypes.CType) -> str:
    """A parameter's type as a C host writes it.

    >>> from tritonc.sema.types.ctypes import FLOAT, LONG, ctype, pointer_to
    >>> host_type(ctype(pointer_to(FLOAT, const=True))), host_type(ctype(LONG))
    ('const float *', 'long long')
    """
    element = type.element
    if isinstance(element, ctypes.PointerTo):
        return f"{'const ' if element.const else ''}{element.target.host} *"
    assert not isinstance(element, ctypes.Struct)
    return element.host


# --- checks of the whole kernel ---


def check_reads(context: Context) -> None:
    """Report variables that are read before anything can have been assigned to them."""
    reported: set[Variable] = set()
    for span, variable, value in context.reads:
        value = context.ssa.resolve(value)
        if context.ssa.undefined.get(value) is not None and variable not in reported:
            reported.add(variable)
            context.error("uninitialized", span, f"'{variable.name}' is read before it gets a "
                          "value", variable.note)


def _check_access_hints(context: Context, node: syntax.Function) -> None:
    """Drop the hint of a read_only parameter that is written through, with a warning."""
    kernel = context.kernel
    if len(kernel.parameters) != len(node.parameters):
        return  # of structs, in what is lowered only to find its errors
    hinted = {value: (info, parameter) for value, info, parameter in zip(
        kernel.parameters, kernel.info, node.parameters) if info.read_only or info.write_only}
    readers = uses(kernel) if hinted else {}
    reached = [(_computed_of(value, readers), *hint) for value, hint in hinted.items()]
    for op in kernel.ops():
        effects = OPS[op.name].effects
        for values, info, parameter in reached if op.operands else ():
            if op.operands[0] not in values:
                continue
            if WRITE in effects and info.read_only and op.attributes.get("kind") != "load":
                info.read_only = False
                if any(q.name == "read_only" for q in parameter.qualifiers):
                    _warn(context, "read-only", op, parameter, "a store through it")
            if READ in effects and info.write_only and op.attributes.get("kind") != "store":
                info.write_only = False
                _warn(context, "write-only", op, parameter, "a load through it")


def _warn(context: Context, name: str, op: Op, parameter: syntax.Parameter, what: str) -> None:
    assert op.span is not None
    context.warning(name, op.span, f"parameter '{parameter.name}' is declared "
                    f"{name.replace('-', '_')}, but this is {what}; the hint is dropped",
                    Note(f"'{parameter.name}' is declared here", parameter.name_span))


def _computed_of(pointer: Value, readers: Mapping[Value, list[Op]]) -> set[Value]:
    """The values that may be computed of a pointer, not by way of memory."""
    found, pending = {pointer}, [pointer]
    while pending:
        new = {result for op in readers.get(pending.pop(), ())
               if op.name not in ("load", "atomic_rmw", "atomic_cas") for result in op.results}
        pending += new - found
        found |= new
    return found
