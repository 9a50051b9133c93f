"""Semantic analysis: from the syntax tree to Triton-IR in SSA form, in one walk.

`analyze` checks the whole program and lowers its kernels; `tunables` says beforehand which values
the program leaves open, `parts` which kernels share them.  Files, from the bottom: `types` (with
`scope` for names), `ssa` and `context` (making operations), `predicates` (what a tile predicate
guards), `operations` (what operators, conversions and accesses mean), `builtins` (the functions),
`assignments expressions loops statements generics functions` (the constructs), `unit tables` (the
file), `unused` (what is worth a warning), `stops` (where a debugger can stop).  Statements and
expressions reach each other through `Context.lower`, so that imports form no circle."""

from collections.abc import Mapping

from tritonc.frontend import syntax
from tritonc.ir.core import Kernel, Module
from tritonc.options import Options
from tritonc.records import NamedTuple
from tritonc.sema import expressions, functions, generics, statements, unit, unused
from tritonc.sema.builtins import table
from tritonc.sema.context import Context
from tritonc.sema.parts import Part, split
from tritonc.sema.predicates import masks
from tritonc.sema.scope import FunctionEntity, Unit
from tritonc.sema.stops import Stops
from tritonc.sema.tables import fill_tables
from tritonc.source import CompileError, Diagnostics, Span, deep_recursion

__all__ = ["Part", "TunableInfo", "analyze", "analyze_shapes", "check", "parts", "tunables"]

_HANDLERS = {**expressions.HANDLERS, **statements.HANDLERS}
# A level of the syntax tree takes up to five frames; context.MAX_NESTING bounds the levels.
_RECURSION_LIMIT = 60_000


class TunableInfo(NamedTuple):
    """A tunable: its legal values, None where the value must come from outside; `together`, the
    names that each of its `rows` gives a value, where it is one of several chosen together."""

    name: str
    values: tuple[int, ...] | None
    span: Span
    together: tuple[str, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()


def tunables(program: syntax.Program, diagnostics: Diagnostics) -> list[TunableInfo]:
    """The program's tunables in the order of their declarations.

    Raises CompileError if their values are no constants."""
    with deep_recursion(_RECURSION_LIMIT):
        context = _context(Unit(), Kernel("", [], []), diagnostics)
        unit.collect(context, program)
        diagnostics.raise_if_errors()
        return [TunableInfo(t.name, t.values, t.span) if t.joint is None else
                TunableInfo(t.name, t.values, t.span, tuple(n.name for n in t.joint.names),
                            unit.rows(context, t.joint)) for t in context.unit.tunables]


def parts(program: syntax.Program) -> list[Part]:
    """The parts of a program whose kernels share no tunables."""
    context = _context(Unit(), Kernel("", [], []), Diagnostics())
    with deep_recursion(_RECURSION_LIMIT):
        unit.collect(context, program)
        unit.find_kernels(context.unit, program)
        return split(program, [f.name for f in context.unit.functions
                               if f.kernel and f.node.body is not None])


def analyze(program: syntax.Program, bindings: Mapping[str, int], diagnostics: Diagnostics,
            options: Options | None = None, tables: bool = True) -> Module:
    """The program as Triton-IR.

    `bindings` gives tunables their values; one that has none takes the first of its list.
    Of the `options` only the contraction of products and sums matters: `assert` and `printf` are
    always in the result, for the interpreter, and a later stage drops what is not asked for.
    Without `tables` the statements that fill constant tables are left out, and warnings; what is
    asserted of tables is an error then.
    Raises CompileError with all that was found."""
    contract = options is None or options.fp_contract
    with deep_recursion(_RECURSION_LIMIT):
        file_context = _context(Unit(), Kernel("", [], []), diagnostics)
        file_unit = file_context.unit
        unit.collect(file_context, program)
        unit.bind(file_context, bindings)
        unit.complete(file_context)
        if looked_at := [node for node in file_unit.statements if tables
                         or not file_unit.table_nodes or isinstance(node, syntax.StaticAssert)]:
            fill_tables(file_context, looked_at)
        unit.find_kernels(file_unit, program)
        module = Module([], [t.table for t in file_unit.tables])
        entries = [f for f in file_unit.functions if f.kernel and f.node.body is not None]
        for function in entries:
            module.kernels.append(_lower(file_unit, function, diagnostics, contract,
                                         options is not None and options.stops))
        for function in file_unit.functions:
            if not function.kernel and not function.used and function.node.body is not None \
                    and not generics.is_generic(file_context, function):
                _lower(file_unit, function, diagnostics, contract)  # only for its errors
        if not diagnostics.errors and tables:
            check(program, module, diagnostics)
    if not entries:
        diagnostics.error("no-kernel", program.span, "there is no kernel here: a function marked "
                          "'kernel' or '__global__', or a void function that no other one calls")
    diagnostics.raise_if_errors()
    return module


def check(program: syntax.Program, module: Module, diagnostics: Diagnostics) -> None:
    """Warn of what a program without errors states in vain."""
    with deep_recursion(_RECURSION_LIMIT):
        unused.check(program, table.PURE, diagnostics)
        for kernel in module.kernels:
            masks.check(kernel, diagnostics)


def analyze_shapes(program: syntax.Program, bindings: Mapping[str, int], options: Options
                   ) -> tuple[Module, bool]:
    """The same for who only compares the tiles of many bindings: the contents of constant tables,
    which can take seconds to compute, are left out where the kernels can do without.  And whether
    that is all that `analyze` gives, but for what `check` finds."""
    said = Diagnostics(limit=1)
    try:
        found = analyze(program, bindings, said, options, tables=False)
        return found, not (said.items or found.constants or options.stops)
    except CompileError:
        return analyze(program, bindings, Diagnostics(limit=1), options), False


def _lower(file_unit: Unit, function: FunctionEntity, diagnostics: Diagnostics,
           contract: bool, stops: bool = False) -> Kernel:
    kernel = Kernel(function.name, [], [], span=function.span)
    context = _context(file_unit, kernel, diagnostics)
    context.contract = contract
    file_unit.used.clear()
    noted = Stops()
    if stops:
        context.handlers = noted.handlers(context.handlers)
    functions.lower_entry(context, function)
    kernel.stops = noted.finish(context)
    for tunable in file_unit.tunables:
        number = tunable.value.number if tunable.value is not None else None
        if tunable.name in file_unit.used and number is not None:
            kernel.tunables[tunable.name] = number
    if file_unit.meta:
        kernel.attributes["meta"] = dict(sorted(file_unit.meta.items()))
    kernel.tile = dict(sorted(kernel.tile.items()))
    return kernel


def _context(file_unit: Unit, kernel: Kernel, diagnostics: Diagnostics) -> Context:
    return Context(file_unit, diagnostics, kernel, file_unit.scope, _HANDLERS, table.PURE)
