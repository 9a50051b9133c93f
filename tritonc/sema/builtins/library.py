"""Builtin functions written in Triton-C: `tritonc/library/*.tc`.

A function of the library is written for one element, in the type REAL (float or double) and the
integers of its width; a call *lifts* it to the shape of its arguments: what it declares without
extents has that shape.  So there is one text for scalars and tiles, for the interpreter and every
target, and its arithmetic is the program's own: nothing in it is contracted or, by `-ffast-math`,
put in another order (`exact`).  Operations stand at the call in the source.

A file of the library is read when a function of it is first called, once for each type: KIND is 64
for double, 32 for float, 16 for half, 17 for bfloat16, and the same for integers, of which
`integer.h` speaks."""

from functools import cache
from pathlib import Path

from tritonc.frontend import syntax
from tritonc.frontend.parser import parse
from tritonc.frontend.preprocess import PreprocessOptions, preprocess
from tritonc.sema.context import Context, Frame
from tritonc.sema.operations import convert
from tritonc.sema.scope import FunctionEntity, Scope, Variable
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import BFLOAT16, DOUBLE, FLOAT, HALF, CType, Number, ctype
from tritonc.sema.types.term import Term
from tritonc.source import Diagnostics, SourceFile, Span

DIRECTORY = Path(__file__).parents[2] / "library"
_KINDS = {FLOAT: 32, DOUBLE: 64, HALF: 16, BFLOAT16: 17}


@cache
def _read(file: str, kind: int) -> dict[str, syntax.Function]:
    """The functions of a file, for one type."""
    diagnostics = Diagnostics()
    text = '#include "real.h"\n' + (DIRECTORY / file).read_text(encoding="utf-8")
    options = PreprocessOptions((str(DIRECTORY),), (f"KIND={kind}",))
    tokens = preprocess(SourceFile(f"library/{file}", text), options, diagnostics).tokens
    diagnostics.raise_if_errors()
    program = parse(tokens, diagnostics)
    diagnostics.raise_if_errors()
    return {f.name: f for f in program.items if isinstance(f, syntax.Function)}


def _scope(context: Context, file: str, kind: int) -> Scope:
    """The names of a file in this compilation."""
    known = context.unit.library
    key = file, kind
    if key not in known:
        scope = known[key] = Scope(None)
        for name, node in _read(file, kind).items():
            scope.names[name] = FunctionEntity(name, node.name_span, node, home=scope)
    return known[key]


def call(context: Context, file: str, name: str, arguments: list[Term], kind: int,
         span: Span) -> Term:
    """A call of a function of the library; arguments convert to its parameters."""
    found = _scope(context, file, kind).lookup(name)
    assert isinstance(found, FunctionEntity), f"{file} has no {name}"
    shape = shapes.common_shape(*(t.shape for t in arguments)) if arguments else ()
    assert shape is not None
    outer = context.site, context.contract
    context.site, context.contract = context.site or span, False
    result = inline(context, found, arguments, shape)
    context.site, context.contract = outer
    context.at(span)
    return result


def inline(context: Context, entity: FunctionEntity, arguments: list[Term],
           shape: shapes.Shape) -> Term:
    """The body of a function of the library in the place of a call."""
    node = entity.node
    assert node.body is not None and entity.home is not None
    saved = context.scope, context.frame, context.loop
    context.scope = Scope(entity.home)
    returns = _lifted(context, node.returns, shape)
    frame = context.frame = Frame(entity, returns, context.mask, context.frame, node.span)
    frame.lift = shape
    context.loop = None
    for parameter, argument in zip(node.parameters, arguments, strict=True):
        type = _lifted(context, parameter.type, shape)
        variable = Variable(parameter.name, parameter.name_span, type, False, True, context.mask)
        context.scope.declare(variable)
        assert isinstance(type.element, Number)
        value = shapes.broadcast(context, convert.number(context, argument, type.element), shape)
        context.write(variable, value)
    *statements, last = node.body.statements
    for statement in statements:
        context.lower(statement)
    assert isinstance(last, syntax.Return) and last.value is not None
    term = context.operand(last.value)
    assert isinstance(returns.element, Number)
    result = shapes.broadcast(context, convert.number(context, term, returns.element), shape)
    context.scope, context.frame, context.loop = saved
    return result


def _lifted(context: Context, spec: syntax.TypeSpec, shape: shapes.Shape) -> CType:
    type = constants.resolve_type(context, spec)
    return type if type.shape else ctype(type.element, shape)


def real(context: Context, file: str, name: str, arguments: list[Term], span: Span,
         whole: tuple[int, ...] = ()) -> Term:
    """A function of floats of one type, but for integers at the places `whole`.

    What has no text for half and bfloat16 is computed in float and rounded."""
    x = next(t for at, t in enumerate(arguments) if at not in whole)
    element = x.type.arithmetic
    wide = element if name in _read(file, _KINDS[element]) else FLOAT
    passed = [t if at in whole else convert.number(context, t, wide)
              for at, t in enumerate(arguments)]
    result = call(context, file, name, passed, _KINDS[wide], span)
    if isinstance(result.type.element, Number) and result.type.element.is_float:
        result = convert.number(context, result, element)
    return result
