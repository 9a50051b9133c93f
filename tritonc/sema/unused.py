"""What a program states and does not use: values, variables, parameters; conditions that assign
or have no statement.

Read off the syntax tree.

A variable is used where its value is read.  Assigning it is no use, nor is `x += 1` or `x++` as a
statement, which read it only to assign it again."""

from collections.abc import Collection
from dataclasses import field

from tritonc.frontend import syntax
from tritonc.frontend.tree import children, walk
from tritonc.records import dataclass
from tritonc.source import Diagnostics, Note, Span

_CHANGES = (syntax.Assign, syntax.IncDec)
_STATES = "get_global_range"  # says by its length how the launch divides an axis
_CONDITIONS = (syntax.If, syntax.For, syntax.While, syntax.DoWhile)
_SCOPES = (syntax.Block, syntax.If, syntax.For, syntax.While, syntax.DoWhile, syntax.Predicated)


def check(program: syntax.Program, pure_calls: Collection[str], diagnostics: Diagnostics) -> None:
    """Warn about each function of the program; `pure_calls` are builtins that change nothing."""
    functions = [node for node in program.items if isinstance(node, syntax.Function)]
    pure = frozenset(pure_calls) - {_STATES} - {node.name for node in functions}
    for node in functions:
        if node.body is not None:
            _Function(pure, diagnostics).check(node)


@dataclass(eq=False)
class _Local:
    name: str
    span: Span
    parameter: bool
    used: bool = False
    assigned: Span | None = None


@dataclass(eq=False)
class _Function:
    """One function; `scopes` are the names of the blocks around, the innermost last."""

    pure: frozenset[str]
    diagnostics: Diagnostics
    scopes: list[dict[str, _Local]] = field(default_factory=list)
    locals: list[_Local] = field(default_factory=list)

    def check(self, node: syntax.Function) -> None:
        assert node.body is not None
        self.scopes.append({})
        for parameter in node.parameters:
            self.visit(parameter.type)
            self.declare(parameter.name, parameter.name_span, True)
        self.visit(node.body)
        for local in self.locals:
            if not local.used:
                self.report(local, node)

    def report(self, local: _Local, function: syntax.Function) -> None:
        if local.parameter:
            self.diagnostics.warning("unused-parameter", local.span, f"'{function.name}' does not "
                                     f"use its parameter '{local.name}'")
        elif local.assigned is not None:
            self.diagnostics.warning("unused-variable", local.span, f"'{local.name}' is assigned, "
                                     "but never read", Note("it is assigned here", local.assigned))
        else:
            self.diagnostics.warning("unused-variable", local.span,
                                     f"'{local.name}' is declared, but never read")

    def declare(self, name: str, span: Span, parameter: bool = False) -> None:
        local = _Local(name, span, parameter)
        self.scopes[-1][name] = local
        self.locals.append(local)

    def visit(self, node: syntax.Node) -> None:
        if isinstance(node, syntax.Name):
            local = self.find(node.name)
            if local is not None:
                local.used = True
            return
        if isinstance(node, _CONDITIONS):
            self.condition(node.condition)
        if isinstance(node, syntax.If | syntax.Predicated):
            self.body(node.then if isinstance(node, syntax.If) else node.body)
        if isinstance(node, syntax.Variable):
            for child in children(node):
                self.visit(child)
            self.declare(node.name, node.name_span)
        elif isinstance(node, syntax.ExpressionStatement):
            self.value(node.expression)
            self.statement(node.expression)
        else:
            inner = isinstance(node, _SCOPES)
            if inner:
                self.scopes.append({})
            step = node.step if isinstance(node, syntax.For) else None
            for child in children(node):
                if step is not None and child is step:
                    self.statement(step)
                else:
                    self.visit(child)
            if inner:
                self.scopes.pop()

    def find(self, name: str) -> _Local | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def statement(self, node: syntax.Expression) -> None:
        """An expression whose value nobody takes."""
        if isinstance(node, _CHANGES) and isinstance(node.target, syntax.Name):
            local = self.find(node.target.name)
            if local is not None and local.assigned is None:
                local.assigned = node.span
            if isinstance(node, syntax.Assign):
                self.visit(node.value)
        else:
            self.visit(node)

    def condition(self, node: syntax.Expression | None) -> None:
        if isinstance(node, syntax.Assign) and node.operator is None:
            start = node.span.start
            before = "".join(node.span.file.text[max(start - 99, 0) : start].split())
            if before.endswith("(("):
                return
            self.diagnostics.warning("assigned-condition", node.span, "this condition assigns; "
                                     "'==' compares")

    def body(self, node: syntax.Statement) -> None:
        """Warn of a semicolon that is a whole branch; what a macro made may be empty."""
        if isinstance(node, syntax.Empty) and node.span.expansion is None:
            self.diagnostics.warning("empty-body", node.span, "this semicolon is the whole "
                                     "statement under the condition; '{}' says so on purpose")

    def value(self, node: syntax.Expression) -> None:
        """Warn of a statement without effect; what a macro made may be meant for other uses."""
        if node.span.expansion is not None or any(map(self.acts, walk(node))):
            return
        hint = {"==": "; '=' assigns", "@": "; 'C += A @ B' accumulates"}.get(
            node.operator if isinstance(node, syntax.Binary) else "", "")
        self.diagnostics.warning("unused-value", node.span, "this value is not used, and computing "
                                 f"it changes nothing{hint}")

    def acts(self, node: syntax.Node) -> bool:
        if isinstance(node, syntax.Cast) and node.type.scalar == "void":
            return True  # (void)x: says that it is not used
        return isinstance(node, _CHANGES) or (
            isinstance(node, syntax.Call) and node.callee not in self.pure)
