"""Edits of Triton-C by its syntax tree: statements, names, parameters, expressions.

Only what stands in the text itself is edited, so a source with macros or included files is
preprocessed first, where the bug survives that (`preprocessed`)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tritonc import stages
from tritonc.frontend import syntax
from tritonc.frontend.parser import parse
from tritonc.frontend.preprocess import Preprocessed, render
from tritonc.frontend.tree import children, walk
from tritonc.options import Options
from tritonc.records import dataclass
from tritonc.reduce import lines
from tritonc.reduce.edits import Edit, Kind, Replacement, deletion, over
from tritonc.source import Diagnostics, SourceFile, Span

_LITERALS = (syntax.IntLiteral, syntax.FloatLiteral, syntax.BoolLiteral, syntax.CharLiteral,
             syntax.StringLiteral)
_ATOMS = (*_LITERALS, syntax.Name, syntax.Call, syntax.Subscript, syntax.Member)
_DEEPEST = 12  # of statements that are tried level by level
_MARKER = re.compile(r'^# \d+ ".*"\n', re.MULTILINE)


def preprocessed(text: str, path: str, options: Options) -> str | None:
    """The text without directives, its `//!` lines first; None if it cannot be preprocessed."""
    try:
        done = _preprocess(text, path, options)
    except Exception:  # also a bug: it may be what is looked for
        return None
    said = [f"//! {line}\n" for line, _ in done.problem_lines]
    return "".join(said) + _MARKER.sub("", render(done))


def _preprocess(text: str, path: str, options: Options) -> Preprocessed:
    quiet = replace(options, warnings=("no-all",))
    return stages.preprocess(SourceFile(path, text), quiet, Diagnostics(limit=1))


@dataclass
class Tree:
    """The kinds of edits; each parses the text that it is given, and offers nothing where that has
    errors.  `path` is where the source stands, for what it includes."""

    path: str
    options: Options
    text: str = ""
    program: syntax.Program | None = None

    def kinds(self) -> list[Kind]:
        """All kinds, in the order that removes most first."""
        levels = [self._kind(lambda tree, level=level: tree.statements(level))  # type: ignore[misc]
                  for level in range(_DEEPEST)]
        own = [View.names, View.unwrapped, View.parameters, View.inlined, View.lists,
               View.literals, View.operands]
        return [lines.sizes, *levels, lines.problem_lines, lines.stated, *map(self._kind, own),
                lines.numbers(True), lines.numbers(), lines.comments]

    def _kind(self, method: "Callable[[View], Iterable[Edit]]") -> Kind:
        def kind(text: str) -> Iterator[Edit]:
            if self.parses(text):
                assert self.program is not None
                yield from filter(None, method(View(text, self.program)))
        return kind

    def parses(self, text: str) -> bool:
        if text != self.text:
            self.text, self.program = text, self._parsed(text)
        return self.program is not None

    def _parsed(self, text: str) -> syntax.Program | None:
        try:
            done = _preprocess(text, self.path, self.options)
            return parse(done.tokens, Diagnostics(limit=1))
        except Exception:  # also a bug: it may be what is looked for
            return None


class View:
    """A text, its tree, and the edits that they offer."""

    def __init__(self, text: str, program: syntax.Program) -> None:
        self.text, self.program = text, program
        self.nodes = [node for node in (*walk(program), *program.structs) if self.stands(node.span)]
        self.parents = {child: node for node in self.nodes for child in children(node)}

    def stands(self, span: Span) -> bool:
        """Whether the text spells this, and no macro or other file."""
        return span.expansion is None and span.file.text == self.text

    def of(self, node: syntax.Node) -> str:
        return self.text[node.span.start : node.span.end]

    def whole(self, node: syntax.Node) -> tuple[int, int]:
        """The range of a statement with its semicolon."""
        end = node.span.end
        if self.text[end - 1 : end] != ";" and (m := re.compile(r"\s*;").match(self.text, end)):
            end = m.end()
        return node.span.start, end

    def entries(self, level: int | None = None) -> Iterator[syntax.Node]:
        """What stands in lists of statements: of the file (level 0), of blocks."""
        pending: list[tuple[int, syntax.Node]] = [(-1, self.program)]
        while pending:
            depth, node = pending.pop()
            listed: Sequence[syntax.Node] = ()
            if isinstance(node, syntax.Program):
                listed = (*node.items, *(s for s in node.structs if s.name))
            elif isinstance(node, syntax.Block):
                listed = node.statements
            for child in dict.fromkeys((*children(node), *listed)):
                inside = child in listed and self.stands(child.span)
                if inside and level in (None, depth + 1):
                    yield child
                if level is None or depth < level:
                    pending.append((depth + inside, child))

    # --- kinds of edits ---

    def statements(self, level: int) -> Iterable[Edit]:
        """Statements of one level go, the last ones first."""
        places = sorted({self.whole(node) for node in self.entries(level)}, reverse=True)
        return [deletion(*place) for place in places]

    def names(self) -> Iterator[Edit]:
        """A name goes: what declares it, and every statement that uses it."""
        entries = set(self.entries())
        users: dict[str, dict[syntax.Node, None]] = {}
        for node in self.nodes:
            name = (node.callee if isinstance(node, syntax.Call)
                    else getattr(node, "name", None) or getattr(node, "key", None)
                    or getattr(node, "scalar", None))
            if not isinstance(name, str):
                continue
            at: syntax.Node | None = node
            while at is not None and at not in entries:
                at = self.parents.get(at)
            if at is not None and not (isinstance(at, syntax.Function) and at is not node):
                users.setdefault(name, {})[at] = None
        for found in users.values():
            if len(found) > 1:
                yield tuple(Replacement(*self.whole(node)) for node in found)

    def unwrapped(self) -> Iterator[Edit]:
        """A statement around others goes, they stay."""
        for node in self.nodes:
            inner: list[syntax.Statement | None] = []
            if isinstance(node, syntax.If):
                inner = [node.then, node.orelse]
            elif isinstance(node, syntax.For | syntax.While | syntax.DoWhile | syntax.Predicated):
                inner = [node.body]
            elif isinstance(node, syntax.Block) and isinstance(self.parents.get(node),
                                                               syntax.Block):
                inner = [node]
            for body in inner:
                if body is not None and self.stands(body.span):
                    start, end = self.whole(body)
                    text = self.text[start:end]
                    bare = text[1:-1].strip() if isinstance(body, syntax.Block) else text
                    for kept in dict.fromkeys((bare, text)):
                        yield (Replacement(*self.whole(node), kept),)
            if isinstance(node, syntax.For) and node.init is not None and node.body is not None:
                yield (Replacement(*self.whole(node), f"{self.of(node.init).rstrip(';')}; "
                                   f"{self.of(node.body).strip('{} ')}"),)

    def dropped(self, listed: Sequence[syntax.Node], i: int) -> Replacement:
        """An entry of a list goes with its comma."""
        start, end = listed[i].span.start, listed[i].span.end
        if i + 1 < len(listed):
            end = listed[i + 1].span.start
        elif i:
            start = listed[i - 1].span.end
        return Replacement(start, end)

    def parameters(self) -> Iterator[Edit]:
        """A parameter goes, with its arguments; 1 stands where it is used, or nothing."""
        calls = [node for node in self.nodes if isinstance(node, syntax.Call)]
        for function in (n for n in self.nodes if isinstance(n, syntax.Function)):
            for i, parameter in enumerate(function.parameters):
                edit = [self.dropped(function.parameters, i)]
                edit += [self.dropped(call.arguments, i) for call in calls
                         if call.callee == function.name and i < len(call.arguments)]
                line = re.compile(rf"^[ \t]*//!\s*(arg|bench):\s*{parameter.name}\b.*\n?", re.M)
                edit += map(over, line.finditer(self.text))
                yield tuple(edit)
                used = [_over(n, "1") for n in walk(function)
                        if isinstance(n, syntax.Name) and n.name == parameter.name
                        and self.stands(n.span)]
                if used:
                    yield (*edit, *used)

    def inlined(self) -> Iterator[Edit]:
        """The value of a variable, constant or tunable stands where its name is used."""
        for node in self.nodes:
            parent, said = self.parents.get(node), list[Replacement]()
            if (isinstance(node, syntax.Variable) and node.initializer is not None
                    and isinstance(parent, syntax.Declaration)):
                value = self.grouped(node.initializer)
                several = len(parent.variables) > 1
                gone = (self.dropped(parent.variables, parent.variables.index(node)) if several
                        else Replacement(*self.whole(parent)))
                if isinstance(self.parents.get(parent), syntax.For) and not several:
                    gone = Replacement(gone.start, gone.end, ";")
            elif isinstance(node, syntax.Constant | syntax.Tunable):
                values = node.values if isinstance(node, syntax.Tunable) else (node.value,)
                if not values:
                    continue
                value, gone = self.grouped(values[0]), Replacement(*self.whole(node))
                said = [over(m, value) for m in re.finditer(
                    rf"(?<=\W){node.name}(?=\W)", self.text) if lines.is_stated(self.text, m)]
            else:
                continue
            yield (*self.uses(node, value), *said, gone)

    def uses(self, declared: syntax.Variable | syntax.Constant | syntax.Tunable, value: str
             ) -> list[Replacement]:
        return [_over(n, value) for n in self.nodes
                if isinstance(n, syntax.Name) and n.name == declared.name
                and not declared.span.start <= n.span.start < declared.span.end]

    def grouped(self, node: syntax.Node) -> str:
        """The text of an expression, as it can stand anywhere."""
        return self.of(node) if isinstance(node, _ATOMS) else f"({self.of(node)})"

    def lists(self) -> Iterator[Edit]:
        """Entries of lists go, `else`, initial values, extents, qualifiers, operators of `+=`."""
        for node in self.nodes:
            for name in ("arguments", "values", "rows", "extents", "qualifiers", "entries",
                         "template", "variables", "members"):
                found = getattr(node, name, None)
                if not isinstance(found, tuple) or not all(self.stands(e.span) for e in found):
                    continue
                if name == "values" and len(found) > 2:  # one of them stays
                    first, last = found[0].span, found[-1].span
                    yield from (deletion(first.start, entry.span.start) + deletion(
                        entry.span.end, last.end) for entry in found)
                spaces = name in ("qualifiers", "members")
                yield from (deletion(e.span.start, e.span.end) if spaces
                            else (self.dropped(found, i),) for i, e in enumerate(found))
            if isinstance(node, syntax.If) and node.orelse is not None:
                yield deletion(self.whole(node.then)[1], self.whole(node.orelse)[1])
            if isinstance(node, syntax.Variable) and node.initializer is not None:
                equals = self.text.rfind("=", node.span.start, node.initializer.span.start)
                yield deletion(equals, node.span.end)
            if isinstance(node, syntax.TypeSpec | syntax.Variable):
                for m in re.finditer(r"\s*\[[^][]*\]", self.of(node)):
                    yield deletion(node.span.start + m.start(), node.span.start + m.end())
            if isinstance(node, syntax.Assign) and node.operator is not None:
                yield (Replacement(node.operator_span.start, node.operator_span.end, "="),)
            if isinstance(node, syntax.For):
                for part in (node.init, node.condition, node.step):
                    if part is not None and self.stands(part.span):
                        yield deletion(part.span.start, part.span.end - self.of(part).count(";"))

    def expressions(self) -> Iterator[syntax.Expression]:
        """Expressions that are more than a literal, outer ones first."""
        return (node for node in self.nodes
                if isinstance(node, syntax.Expression) and not isinstance(node, _LITERALS))

    def literals(self) -> Iterator[Edit]:
        """An expression becomes 1 or 0."""
        for value in "10":
            for node in self.expressions():
                yield (_over(node, value),)

    def operands(self) -> Iterator[Edit]:
        """An expression becomes one of its operands."""
        for node in self.expressions():
            for child in children(node):
                if isinstance(child, syntax.Index):
                    child = child.index
                if isinstance(child, syntax.Expression) and self.stands(child.span):
                    yield (_over(node, self.grouped(child)),)


def _over(node: syntax.Node, text: str) -> Replacement:
    """A node becomes `text`."""
    return Replacement(node.span.start, node.span.end, text)
