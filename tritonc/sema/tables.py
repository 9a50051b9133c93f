"""Statements outside functions: they fill constant tables, at compile time.

    __constant__ int* delta = alloc_const int[512];
    for (int c = 0; c < 512; c++)
      delta[c] = (c / 3) * 64 + c % 3;

A small interpreter of statements; expressions are constant expressions, whose names may be the
variables declared here.
"""

from __future__ import annotations

from contextlib import suppress

from tritonc.frontend import syntax
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, implicit, operators
from tritonc.sema.operations.subscripts import constant_element
from tritonc.sema.quick import Quick, holds_ints
from tritonc.sema.scope import Counter, Poisoned, Table
from tritonc.sema.statements import static_assert
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import INT_TYPE, PointerTo, ctype
from tritonc.sema.types.term import POISON, Refused, Term, good
from tritonc.source import Note, Span

MAX_STEPS = 400_000  # statements and operands: 24 for each int that constant memory holds
_WHAT = "a value that fills a constant table"


def fill_tables(context: Context, statements: list[syntax.Statement]) -> None:
    """Execute the statements that stand outside functions, until one is wrong."""
    context.constant_for = _WHAT
    with suppress(Refused):
        filler = _Filler(context)
        for statement in statements:
            filler.run(statement)
    context.constant_for = None
    context.scope = context.unit.scope


class _Filler:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.steps = 0
        self.sizes: dict[syntax.Expression, int] = {}  # in nodes
        self.quick = Quick(context)

    def value(self, node: syntax.Expression) -> Term:
        """The value of a constant expression; assignments only as whole statements."""
        size = self.sizes.get(node)
        if size is None:
            size = self.sizes[node] = sum(1 for _ in syntax.walk(node))
        self.steps += size
        number = self.quick.integer(node)
        if number is not None:
            return Term(INT_TYPE, constant=number)
        return good(constants.constant(self.context, node, _WHAT))

    def condition(self, node: syntax.Expression | None) -> bool:
        if node is None:
            return True
        known = self.quick.condition(node)
        if known is not None:
            self.steps += 3  # it has as many nodes at least
            return known
        return bool(good(convert.truth(self.context, self.value(node), node.span)).constant)

    # --- statements; the result is "break", "continue" or "" ---

    def run(self, node: syntax.Statement) -> str:
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.context.refuse("constant-table", node.span, "filling constant tables takes more "
                                f"than {MAX_STEPS} steps: a loop that does not end?")
        if isinstance(node, syntax.ExpressionStatement):
            self.execute(node.expression)
        elif isinstance(node, syntax.For):
            return self.loop(node, node.init, node.condition, node.step, node.body)
        elif isinstance(node, syntax.While):
            return self.loop(node, None, node.condition, None, node.body)
        elif isinstance(node, syntax.DoWhile):
            if self.run(node.body) != "break":
                return self.loop(node, None, node.condition, None, node.body)
        elif isinstance(node, syntax.If):
            part = node.then if self.condition(node.condition) else node.orelse
            return self.inside([part]) if part is not None else ""
        elif isinstance(node, syntax.Block):
            return self.inside(list(node.statements))
        elif isinstance(node, syntax.Declaration):
            self.declare(node)
        elif isinstance(node, syntax.StaticAssert):
            static_assert(self.context, node)
        elif isinstance(node, syntax.Break):
            return "break"
        elif isinstance(node, syntax.Continue):
            return "continue"
        elif not isinstance(node, syntax.Empty | syntax.LocalTypedef):
            self.context.refuse("file-statement", node.span, "outside functions only statements "
                                "that fill constant tables can stand")
        return ""

    def inside(self, statements: list[syntax.Statement]) -> str:
        with self.context.inner_scope():
            for statement in statements:
                jump = self.run(statement)
                if jump:
                    return jump
        return ""

    def loop(self, node: syntax.Statement, init: syntax.Statement | None,
             condition: syntax.Expression | None, step: syntax.Expression | None,
             body: syntax.Statement) -> str:
        with self.context.inner_scope():
            if init is not None:
                self.run(init)
            while self.condition(condition):
                if self.inside([body]) == "break":
                    break
                if step is not None:
                    self.execute(step)
                self.steps += 1
                if self.steps > MAX_STEPS:
                    self.run(node)  # reports it
        return ""

    def declare(self, node: syntax.Declaration) -> None:
        for variable in node.variables:
            type = constants.value_type(self.context, variable.type, f"'{variable.name}'")
            if type.shape or isinstance(type.element, PointerTo):
                self.context.refuse("file-statement", variable.name_span, f"'{variable.name}' "
                                    f"is {type}; statements outside functions compute with scalars")
            counter = Counter(variable.name, variable.name_span, type)
            earlier = self.context.scope.declare(counter)
            if earlier is not None:
                self.context.refuse("redefinition", variable.name_span, f"'{variable.name}' is "
                                    "declared twice in one block",
                                    Note("the other declaration is here", earlier.span))
            if variable.initializer is not None:
                self.set(counter, self.value(variable.initializer), variable.initializer.span)

    # --- assignment ---

    def execute(self, node: syntax.Expression) -> None:
        if isinstance(node, syntax.Assign):
            value = self.value(node.value)
            self.assign(node.target, node.operator, value, node.span, node.operator_span)
        elif isinstance(node, syntax.IncDec):
            self.assign(node.target, node.operator, Term(INT_TYPE, constant=1), node.span,
                        node.span)
        else:
            self.value(node)

    def assign(self, target: syntax.Expression, operator: str | None, value: Term, span: Span,
               operator_span: Span) -> None:
        context = self.context
        place = self.place(target)
        if isinstance(place, Counter):
            old = place.value or POISON
        elif operator is not None:
            old = constant_element(context, place[0], place[1], target.span)
        number = self.quick.binary(operator, old, value) if operator is not None else None
        if number is not None:
            value = Term(INT_TYPE, constant=number)
        elif operator is not None:
            value = operators.binary(context, operator, old, value, span, operator_span)
            if value.poisoned or value.constant is None:
                if not value.poisoned:
                    constants.not_constant(context, span, _WHAT)
                elif isinstance(place, Counter) and place.value is None:
                    context.error("uninitialized", target.span, f"'{place.name}' is read before it "
                                  "gets a value")
                raise Refused
        if isinstance(place, Counter):
            self.set(place, value, span)
        else:
            self.store(*place, value, span)

    def set(self, counter: Counter, value: Term, span: Span) -> None:
        if value.type == counter.type == INT_TYPE:
            counter.value = value
            return
        counter.value = good(implicit.assign(self.context, value, counter.type, span,
                                             f"'{counter.name}'"))

    def place(self, node: syntax.Expression) -> Counter | tuple[Table, Term]:
        """A variable, or a table and an index."""
        base: syntax.Expression = node
        index = Term(INT_TYPE, constant=0)
        if isinstance(node, syntax.Subscript) and len(node.entries) == 1 \
                and isinstance(node.entries[0], syntax.Index):
            base, index = node.base, self.value(node.entries[0].index)
        elif isinstance(node, syntax.Deref):
            base = node.pointer
            if isinstance(base, syntax.Binary) and base.operator == "+":
                index = self.value(base.right)
                base = base.left
        if isinstance(base, syntax.Name):
            entity = self.context.scope.lookup(base.name)
            if isinstance(entity, Table) and base is not node:
                return entity, index
            if isinstance(entity, Counter) and base is node:
                return entity
            if entity is None:
                self.context.lower(base)  # reports that there is no such name
            if entity is None or isinstance(entity, Poisoned):
                raise Refused
        self.context.refuse("file-statement", node.span, "outside functions only elements of "
                            "constant tables, and variables of the same statement, can be assigned")

    def store(self, entity: Table, index: Term, value: Term, span: Span) -> None:
        table = entity.table
        if table.data is None:
            table.data = [0.0 if table.element.is_float else 0] * table.count
        good(constant_element(self.context, entity, index, span))
        assert isinstance(entity.type.element, PointerTo)
        converted = value
        if value.type != INT_TYPE or not holds_ints(entity):
            converted = good(implicit.assign(
                self.context, value, ctype(entity.type.element.target), span,
                f"an element of '{entity.name}'"))
        at = index.number
        assert at is not None and isinstance(converted.constant, int | float)
        table.data[at] = converted.constant
