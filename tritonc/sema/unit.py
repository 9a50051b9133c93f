"""What a file declares: functions, tunables, constants, constant tables.

Names are entered first (`collect`), then tunables get their values (`bind`), then what may depend
on them is evaluated (`complete`).  So names can be used before their declaration in the file."""

from collections.abc import Mapping
from contextlib import suppress

from tritonc.frontend import syntax
from tritonc.frontend.tree import walk
from tritonc.ir import core
from tritonc.ir.types import CONSTANT
from tritonc.meta_parameters import BY_NAME, refusal
from tritonc.sema.builtins import table
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, implicit
from tritonc.sema.scope import (
    Entity,
    FunctionEntity,
    JointMember,
    NamedConstant,
    Poisoned,
    Table,
    Tunable,
    Unit,
)
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import INT, INT_TYPE, NUMBERS, Number, PointerTo
from tritonc.sema.types.term import POISON, Refused, Term
from tritonc.source import Note, Span

MAX_TABLE_BYTES = 1 << 16  # of constant memory on every GPU


def collect(context: Context, program: syntax.Program) -> None:
    """Enter what the program declares into `context.unit`; tunables are not bound yet."""
    unit = context.unit
    unit.structs = {struct.key: struct for struct in program.structs}
    unit.macros = program.macros
    for item in program.items:
        if isinstance(item, syntax.Function):
            _function(context, item)
        elif isinstance(item, syntax.Tunable):
            tunable = Tunable(item.name, item.name_span, item, None)
            if _enter(context, tunable):
                unit.tunables.append(tunable)
        elif isinstance(item, syntax.JointTunable):
            _joint(context, item)
        elif isinstance(item, syntax.Constant):
            constant = NamedConstant(item.name, item.name_span, item)
            if _enter(context, constant):
                unit.constants.append(constant)
        elif isinstance(item, syntax.ConstantTable):
            unit.table_nodes.append(item)
        elif isinstance(item, syntax.Statement):
            unit.statements.append(item)
    _drop_prototypes_of_builtins(unit)
    for tunable in unit.tunables:
        if tunable.joint is None:
            with suppress(Refused):
                tunable.values = _values(context, tunable.node)


def _joint(context: Context, node: syntax.JointTunable) -> None:
    """Tunables that are chosen together: one tunable whose values number the rows from 0.

    Names of meta-parameters among them are no names of the program."""
    name = "_".join(n.name for n in node.names)
    span = node.names[0].span.to(node.names[-1].span)
    integer = syntax.TypeSpec(span, "int32", const=True)
    tunable = Tunable(name, span, syntax.Tunable(node.span, name, span, integer, ()),
                      tuple(range(len(node.rows))), joint=node)
    if not _enter(context, tunable):
        return
    context.unit.tunables.append(tunable)
    for place, each in enumerate(node.names):
        if each.name not in BY_NAME:
            _enter(context, JointMember(each.name, each.span, tunable, place))


def rows(context: Context, node: syntax.JointTunable) -> tuple[tuple[int, ...], ...]:
    """The values of tunables that are chosen together; those that have none are told later."""
    with suppress(Refused):
        return tuple(tuple(constants.integer(context, value, f"a value of tunable '{name.name}'")
                           for name, value in zip(node.names, row.values, strict=True))
                     for row in node.rows)
    return ()


def _choose_row(context: Context, tunable: Tunable, bindings: Mapping[str, int]) -> None:
    """Give the members of tunables that are chosen together their values, and kernels the
    meta-parameters that a row states."""
    assert tunable.joint is not None
    number = tunable.value.number if tunable.value is not None else None
    if number is None or not 0 <= number < len(tunable.joint.rows):
        return
    row = tunable.joint.rows[number].values
    for name, node in zip(tunable.joint.names, row, strict=True):
        value = constants.integer(context, node, f"a value of tunable '{name.name}'")
        wanted = bindings.get(name.name)
        if wanted is not None and wanted != value:
            context.error("joint-tunable", name.span, f"{name.name} = {wanted} is given, but row "
                          f"{number} of these tunables, which are chosen together, has {value}")
        entity = context.unit.scope.names.get(name.name)
        if isinstance(entity, JointMember) and entity.tunable is tunable:
            entity.value = Term(INT_TYPE, constant=value)
        elif name.name in BY_NAME:
            why = refusal(name.name, value)
            if why is not None:
                context.error("meta-parameter", node.span, why)
            else:
                context.unit.meta[name.name] = value


def _drop_prototypes_of_builtins(unit: Unit) -> None:
    """`extern int get_program_id(int);` without a definition hides nothing."""
    for function in list(unit.functions):
        if function.node.body is None and table.find(function.name) is not None:
            unit.functions.remove(function)
            del unit.scope.names[function.name]


def _enter(context: Context, entity: Entity) -> bool:
    earlier = context.unit.scope.declare(entity)
    if earlier is None:
        return True
    context.error("redefinition", entity.span, f"'{entity.name}' is declared twice",
                  Note("the other declaration is here", earlier.span))
    return False


def _function(context: Context, node: syntax.Function) -> None:
    first = context.unit.scope.names.get(node.name)
    earlier = first
    if isinstance(first, FunctionEntity):
        same = [f for f in first.overloads if _signature(f.node)[1:] == _signature(node)[1:]]
        overloaded = not (node.kernel or any(f.kernel for f in first.overloads))
        bodies = node.body is not None and all(f.node.body for f in first.overloads)
        if not same and overloaded and bodies:
            entity = FunctionEntity(node.name, node.name_span, node)
            first.overloads.append(entity)
            context.unit.functions.append(entity)
            return
        earlier = same[0] if same else first
    if isinstance(earlier, FunctionEntity):
        # A prototype before or after the definition means nothing, unless it says otherwise.
        if earlier.node.body is not None and node.body is not None:
            context.error("redefinition", node.name_span, f"function '{node.name}' is defined "
                          "twice", Note("the other definition is here", earlier.span))
        elif _signature(earlier.node) != _signature(node):
            context.error("redefinition", node.name_span, f"function '{node.name}' is declared "
                          "with other types elsewhere",
                          Note("the other declaration is here", earlier.span))
        earlier.kernel = earlier.kernel or node.kernel
        if node.body is not None and earlier.node.body is None:
            earlier.node, earlier.span = node, node.name_span
        return
    entity = FunctionEntity(node.name, node.name_span, node, node.kernel)
    entity.overloads.append(entity)
    if _enter(context, entity):
        context.unit.functions.append(entity)


def _signature(node: syntax.Function) -> list[tuple[object, ...]]:
    """Result and parameters, as far as two declarations of a function must agree on them."""
    specs = [node.returns, *(p.type for p in node.parameters)]
    return [(s.scalar, s.pointer, s.pointer and s.const, s.space, len(s.extents or ()))
            for s in specs]


def _values(context: Context, node: syntax.Tunable) -> tuple[int, ...] | None:
    """The legal values of a tunable; None where they come from outside."""
    type = constants.value_type(context, node.type, f"tunable '{node.name}'")
    if not isinstance(type.element, Number) or not type.element.is_int:
        context.refuse("tunable-type", node.type.span, f"a tunable is an integer, '{node.name}' is "
                       f"{type}")
    if node.values is None:
        return None
    found: dict[int, None] = {}
    for value in node.values:
        with suppress(Refused):
            found[constants.integer(context, value, f"a value of tunable '{node.name}'")] = None
    return tuple(found)


def bind(context: Context, bindings: Mapping[str, int]) -> None:
    """Give each tunable its value; the first of its list where there is no binding."""
    unit = context.unit
    declared = {t.name for t in unit.tunables}
    declared |= {n.name for t in unit.tunables if t.joint for n in t.joint.names}
    for name in bindings:
        if name not in declared:
            known = ", ".join(t.name for t in unit.tunables) or "none"
            context.diagnostics.error("unknown-tunable", None, f"there is no tunable '{name}'; "
                                      f"the program has: {known}",
                                      Note(f"meta-parameters are {', '.join(BY_NAME)}"))
    for tunable in unit.tunables:
        value = bindings.get(tunable.name)
        node = tunable.node
        if value is None:
            if not tunable.values:
                if node.values is None:
                    context.error("unbound-tunable", node.name_span, f"tunable '{node.name}' has "
                                  f"no list of values, so one must be given: --tune {node.name}=")
                tunable.value = POISON
                continue
            value = tunable.values[0]
        if not -(1 << 31) <= value < 1 << 31:
            context.error("tunable-type", node.name_span, f"{node.name} = {value} does not fit "
                          "an int")
            tunable.value = POISON
            continue
        element = NUMBERS.get(node.type.scalar, INT)
        tunable.value = convert.number(context, Term(INT_TYPE, constant=value),
                                       element if element.is_int else INT)
        if tunable.joint is not None:
            with suppress(Refused):
                _choose_row(context, tunable, bindings)


def complete(context: Context) -> None:
    """Declare tables and evaluate constants, which may depend on tunables."""
    for struct in context.unit.structs.values():
        constants.struct_of(context, struct.key)
    for node in context.unit.table_nodes:
        try:
            _table(context, node)
        except Refused:
            context.unit.scope.declare(Poisoned(node.name, node.name_span))
    for constant in context.unit.constants:
        if constant.value is None:
            constant_value(context, constant, constant.span)
    context.unit.used.clear()


def _table(context: Context, node: syntax.ConstantTable) -> None:
    type = constants.value_type(context, node.type, f"table '{node.name}'")
    if not isinstance(type.element, PointerTo) or type.element.space != CONSTANT:
        raise Refused
    element = type.element.target
    count = 1
    for extent in node.extents:
        number = constants.integer(context, extent, f"the size of table '{node.name}'")
        if number < 1:
            context.refuse("constant-table", extent.span, f"the size of table '{node.name}' must "
                           f"be positive, found {number}")
        count *= number
    if node.element is None:
        if count % element.ir.bytes:
            context.error("constant-table", node.extents[0].span, f"{count} bytes are not a whole "
                          f"number of elements of {element.ir.bytes} bytes")
        count = max(count // element.ir.bytes, 1)
    size, before = count * element.ir.bytes, sum(
        -(-t.table.count * t.table.element.bytes // 8) * 8 for t in context.unit.tables)
    if size + before > MAX_TABLE_BYTES:
        context.refuse("constant-table", node.name_span, f"table '{node.name}' has {size} bytes"
                       f"{f', those before it {before}' * bool(before)}; constant memory has "
                       f"{MAX_TABLE_BYTES}")
    if node.element is not None:
        given = constants.value_type(context, node.element, f"table '{node.name}'")
        if given.element is not element:
            context.error("constant-table", node.element.span, f"'{node.name}' points to "
                          f"{element}, but its elements are {given.element}")
    table = Table(node.name, node.name_span, type,
                  core.ConstantTable(node.name, element.ir, count, None, node.name_span))
    if _enter(context, table):
        context.unit.tables.append(table)


def find_kernels(unit: Unit, program: syntax.Program) -> None:
    """Say which functions are entry points: the marked ones, else void ones that nobody calls."""
    if any(f.kernel for f in unit.functions):
        return
    called = set()
    for item in program.items:
        if isinstance(item, syntax.Function) and item.body is not None:
            called |= {node.callee for node in walk(item.body)
                       if isinstance(node, syntax.Call) and node.callee != item.name}
    for function in unit.functions:
        node = function.node
        returns = node.returns
        if (node.body is not None and node.name not in called and returns.scalar == "void"
                and not returns.pointer):
            function.kernel = True


def tunable_value(context: Context, entity: Tunable, span: Span) -> Term:
    """The value bound to a tunable."""
    if entity.value is None:
        return context.error("not-a-constant", span, f"'{entity.name}' is a tunable, and the "
                             "values of a tunable cannot depend on another",
                             entity.note)
    context.unit.used[entity.name] = None
    return entity.value


def constant_value(context: Context, entity: NamedConstant, span: Span) -> Term:
    """The value of a `const` at file scope."""
    unit = context.unit
    if entity.value is None:
        if entity.evaluating:
            return context.error("not-a-constant", span, f"constant '{entity.name}' depends on "
                                 "itself", entity.note)
        entity.evaluating = True
        outer, unit.used = unit.used, {}
        entity.value = _evaluate(context, entity)
        entity.tunables = tuple(unit.used)
        unit.used = outer
        entity.evaluating = False
    unit.used.update(dict.fromkeys(entity.tunables))
    return entity.value


def _evaluate(context: Context, entity: NamedConstant) -> Term:
    node = entity.node
    scope, context.scope = context.scope, context.unit.scope
    try:
        term = constants.constant(context, node.value, f"the value of constant '{node.name}'")
        type = constants.value_type(context, node.type, f"constant '{node.name}'")
    except Refused:
        return POISON
    finally:
        context.scope = scope
    return implicit.assign(context, term, type, node.value.span, f"constant '{node.name}'")
