"""The parser of Triton-IR's text form: lark's LALR(1) parser of ir.lark, fed here.

`_Reader` makes tokens of the text and goes on after mistakes; its actions, one for each rule of the
grammar, build a module.  They check what the text says of itself: names, counts, types that can be
written.  Whether the operations fit is the verifier's question (`ir.verify.check`)."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from lark.exceptions import UnexpectedToken

from tritonc.ir.attributes import are_integers
from tritonc.ir.core import FLAGS, Block, ConstantTable, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.syntax.parse_types import Token, TypeActions
from tritonc.ir.types import Scalar, Type
from tritonc.lalr import Grammar, Parse, load
from tritonc.records import NamedTuple
from tritonc.source import Diagnostics, Note, SourceFile, Span

CONSTANT_BYTES = 1 << 16  # of constant memory that a kernel can address
MAX_STACK = 80  # symbols on the parser's stack; what is nested deeper is no use to anyone

# What is wanted where all of these terminals can stand; the first that fits.
_WANTED = {
    ("KERNEL",): "a kernel, a constant or a layout", ("LABEL",): "an operation",
    ("_NL", "VALUE"): "the end of the line",
    ("_NL", "COLON", "COMMA"): "',', ':' or the end of the line",
    ("_NL", "COLON"): "':' or the end of the line", ("_NL",): "the end of the line",
    ("STRING",): "an attribute's value", ("BUFFER",): "a type", ("X",): "'x' in buffer<2 x f32<8>>",
    ("VALUE", "LESSTHAN"): "the parameter's %name", ("VALUE", "LSQB"): "an operand"}  # fmt: skip
_NAMES = {"VALUE": "a %name", "ALIAS": "a layout's #name", "NUMBER": "an integer",
          "LAYOUT": "a layout", "_BODY": "'{'"}
_WORDS = {"=": "an operation", ":": "a type", "x": "a type"}  # what one is, by what is before it
# A brace opens a kernel's blocks if a line ends or a block's label stands behind it.
_NUMBERS = {  # of a kernel
    "num_warps": (1, 2, 4, 8, 16, 32), "programs": (1, 2, 4, 8), "cluster": range(1, 17),
    "producer_warps": range(9), "pingpong": (1, 2), "min_blocks": range(33),
    "tiles": range(1 << 16), "few": range(1 << 24),
    **{f"within{axis}": range(1 << 31) for axis in range(3)},
    "shared_bytes": range(1 << 18), "max_registers": range(256)}
_BODY = re.compile(r"\{\s*(//.*)?(\n|\}|\Z|[\w.$]+\s*:)")
_KERNEL = re.compile(r"kernel\s+@")


def parse_module(source: SourceFile, diagnostics: Diagnostics,
                 tables: Mapping[str, OpInfo] = OPS) -> Module:
    """The module that a `.tir` text describes; `tables` holds a row for each operation's name.

    Records located errors, several in one run; raises CompileError in the end if there are any."""
    module = _Reader(source, diagnostics, tables).run()
    diagnostics.raise_if_errors()
    return module


class _Language(NamedTuple):
    grammar: Grammar
    tokens: re.Pattern[str]  # spaces and comments, and a token in a group of its kind's name
    fixed: dict[str, str]  # the terminal of each mark that is always the same one, and of the end


@cache
def language() -> _Language:
    """What there is to know of ir.lark."""
    grammar = load("ir/syntax/ir.lark")
    kinds = "|".join(f"(?P<{name}>{pattern})" for name, pattern in grammar.patterns.items())
    tokens = rf"(?:[ \t\r\f]+|//.*)*(?:{kinds}|(?P<_NL>\n)|(?P<END>\Z)|(?P<MARK>.))"
    marks = {text: name for text, name in grammar.names.items() if not text.isalpha()}
    del marks["{"]
    return _Language(grammar, re.compile(tokens, re.ASCII), marks | {"": "$END"})


class _Pending(NamedTuple):
    """An operation whose operands are still names."""

    op: Op
    guard: Token | None
    operands: list[Token]


class _Actions(TypeActions):
    """The methods for modules, kernels and operations."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics,
                 tables: Mapping[str, OpInfo]) -> None:
        super().__init__(source, diagnostics)
        self.tables = tables
        self.result = Module()
        self.last = Token("", "", 0)  # of those taken
        self.errors = 0  # before the current kernel

    def since(self, token: Token) -> Span:
        """From `token` to the last one taken."""
        return Span(self.source, token.start, self.last.start + len(self.last.value))

    def once(self, token: Token, name: str, known: Mapping[str, Span | None]) -> bool:
        """Whether `name` is not in `known`; an error if it is."""
        if name in known:
            self.error(token, f"{name} is defined twice",
                       Note("first defined here", known[name]), name="ir-redefinition")
        return name not in known

    # the module

    def constant(self, _: Token, name: Token, element: Scalar, extent: Token,
                 data: tuple[Any, ...] | None) -> None:
        count = self.integer(extent, 1)
        if count * element.bytes > CONSTANT_BYTES:
            self.error(name, f"a table of more than {CONSTANT_BYTES} bytes")
        kinds = (int, float) if element.is_float else (int,)
        if data and (len(data) > count or not all(type(v) in kinds for v in data)):
            self.diagnostics.error("ir-syntax", self.since(name),
                                   f"expected a list of at most {count} numbers of {element}")
        table = ConstantTable(name.value[1:], element, count, None if data is None else list(data),
                              self.span(name))
        self.once(name, f"'{table.name}'", {f"'{c.name}'": c.span for c in self.result.constants})
        self.result.constants.append(table)

    # kernels

    def header(self, name: Token, *parts: Any) -> None:
        self.name = name
        self.errors = self.diagnostics.errors
        self.values: dict[str, Value] = {}
        self.places: dict[str, Span | None] = {}  # of their definitions, and those of blocks
        self.blocks: dict[str, Block] = {}
        self.pending: list[_Pending] = []
        kernel = self.current = Kernel(name.value[1:], [], [], span=self.span(name))
        for part in parts:
            if isinstance(part, dict):
                self.kernel_attributes(kernel, part)
                break
            type, token, table = part
            kernel.parameters.append(Value(type))
            self.define(kernel.parameters[-1], token)
            kernel.info.append(self.parameter_info(token, table or {}))

    def parameter_info(self, name: Token, table: dict[str, Any]) -> ParameterInfo:
        info = ParameterInfo(span=self.span(name))
        for key, value in table.items():
            if key == "ctype":
                good = isinstance(value, str)
            elif key == "multiple_of":
                good = type(value) is int and value >= 1
            elif key in ("least", "greatest"):
                good = type(value) is int
            elif key == "not_null" and are_integers(value) and len(value) % 2 == 0:
                good, value = True, (*zip(value[::2], value[1::2], strict=True),)
            else:
                good = key in FLAGS and isinstance(value, bool)
            if good:
                setattr(info, key, value)
            else:
                self.error(name, f"a parameter has no attribute '{key}' of {value!r}")
        return info

    def kernel_attributes(self, kernel: Kernel, table: dict[str, Any]) -> None:
        tile, tunables = table.pop("tile", {}), table.pop("tunables", {})
        if isinstance(tile, tuple):
            tile = dict(enumerate(tile))
        for what, entries, kind in (("tile", tile, int), ("tunables", tunables, str)):
            if not isinstance(entries, dict) or not all(
                    type(k) is kind and type(v) is int for k, v in entries.items()):
                self.error(self.name, f"'{what}' needs integers")
        for what, values in _NUMBERS.items():
            if what in table and (type(table[what]) is not int or table[what] not in values):
                self.error(self.name, f"the attribute '{what}' of a kernel cannot be "
                           f"{table[what]!r}")
        kernel.tile, kernel.tunables, kernel.attributes = tile, tunables, table

    def define(self, value: Value, token: Token) -> None:
        value.name = token.value[1:]
        if self.once(token, token.value, self.places):
            self.places[token.value] = self.span(token)
            self.values[token.value] = value

    def label(self, token: Token) -> None:
        if self.once(token, f"block '{token.value}'", self.places):
            self.places[f"block '{token.value}'"] = self.span(token)
            self.blocks[token.value] = Block(token.value)
            self.current.blocks.append(self.blocks[token.value])

    def kernel(self, *_: Any) -> None:
        kernel, errors = self.current, self.errors
        if not kernel.blocks and self.diagnostics.errors == errors:
            self.error(self.name, f"kernel '{kernel.name}' has no block")
        if self.diagnostics.errors == errors:  # else names may be missing for the errors' sake
            for item in self.pending:
                self.resolve(item)
        known = {f"'{k.name}'": k.span for k in self.result.kernels}
        self.once(self.name, f"'{kernel.name}'", known)
        self.result.kernels.append(kernel)

    def resolve(self, item: _Pending) -> None:
        """Replace the names of an operation's operands and blocks by what they name."""
        def find(token: Token, name: str, known: Mapping[str, Any], what: str) -> Iterable[Any]:
            if name in known:
                return (known[name],)
            self.error(token, f"no {what} is called {name}", name="ir-unknown-name")
            return ()

        for token in item.operands:
            if token.type == "WORD":
                item.op.blocks += find(token, token.value, self.blocks, "block")
            else:
                item.op.operands += find(token, token.value, self.values, "value")
        if item.guard is not None:
            name = item.guard.value.lstrip("@ \t")
            item.op.guard = next(iter(find(item.guard, name, self.values, "value")), None)

    # operations

    def op(self, guard: Token | None, results: tuple[Token, ...] | None, name: Token,
           operands: tuple[Any, ...] | None, attributes: dict[str, Any] | None,
           types: tuple[Type, ...] | None) -> None:
        start = guard or (results or (name,))[0]
        if not self.current.blocks and self.diagnostics.errors == self.errors:
            self.error(start, f"expected a block's label, found {start.value!r}")
        row = self.tables.get(name.value)
        if row is None:
            self.error(name, f"no operation is called '{name.value}'", name="ir-unknown-name")
            return
        tokens: list[Token] = []
        for operand in operands or ():
            tokens += (operand,) if isinstance(operand, Token) else operand
        results, types, attributes = results or (), types or (), attributes or {}
        if len(types) == 1:
            types *= max(len(results), 1)
        problem = row.misfit(sum(token.type == "VALUE" for token in tokens), attributes)
        if problem is None and len(types) != len(results):
            problem = f"{len(results)} results and {len(types)} result types"
        if problem is not None:
            self.error(name, problem)
            return
        op = Op(name.value, [], attributes, types, span=self.since(start))
        for value, token in zip(op.results, results, strict=True):
            self.define(value, token)
        self.pending.append(_Pending(op, guard, tokens))
        if self.current.blocks:
            self.current.blocks[-1].ops.append(op)


class _Reader(_Actions):
    """One run of lark's parser over a file."""

    def run(self) -> Module:
        grammar, tokens, fixed = language()
        self.parse = Parse(grammar, self)
        self.skipping = ""  # after a mistake, to the next "line" or "definition"
        fresh = True
        for match in tokens.finditer(self.source.text):
            kind: Any = match.lastgroup
            token = Token(fixed.get(match[kind], kind), match[kind], match.start(kind))
            first, fresh = fresh, kind == "_NL"  # on its line
            if not self.skipping or self.resumes(token, first):
                self.take(token, first)
            if kind == "END":
                break
        return self.result

    def take(self, token: Token, first: bool) -> None:
        kind = token.type
        if kind == "LABEL" or kind == "WORD" or kind == "MARK":
            token = Token(self.terminal(token, first), token.value, token.start)
        try:
            self.parse.feed(token, token.start)
        except UnexpectedToken:
            if kind == "_NL":  # which means nothing where it cannot stand
                return
            self.fail(token, self.problem(token))
            if first and self.skipping == "line":  # the line before is incomplete, not this one
                self.skipping = ""
                self.take(token, False)
        if kind != "_NL":
            self.last = token
        if len(self.parse.values) > MAX_STACK:
            self.fail(token, "this is nested too deeply")

    def terminal(self, token: Token, first: bool) -> str:
        """The terminal of a word, of a brace that opens, or of a mark that is none."""
        choices = self.parse.choices()
        if token.type == "MARK":
            if token.value != "{":
                return "BAD"
            body = "LBRACE" not in choices or _BODY.match(self.source.text, token.start)
            return "_BODY" if body and "_BODY" in choices else "LBRACE"
        if first and "LABEL" in choices and _KERNEL.match(self.source.text, token.start):
            self.fail(token, self.problem(token))
            self.drop("KERNEL")  # the one that has no end
            self.skipping = ""
            return "KERNEL"
        kinds = language().grammar.names.get(token.value, ""), token.type
        return next((kind for kind in kinds if kind in choices), "WORD")

    def problem(self, token: Token) -> str:
        """What to say of a token that cannot stand here; nothing if that was said already."""
        found = repr(token.value) if token.value else "the end of the file"
        if token.type == "BAD":
            return f"{found} begins nothing that Triton-IR knows"
        accepted = self.parse.accepts()
        if "RBRACE" in accepted and "_NL" in accepted and token.value in ("", "kernel"):
            if self.diagnostics.errors != self.errors:
                return ""
            return f"expected '}}' at the end of kernel '{self.current.name}', found {found}"
        wanted = next((text for kinds, text in _WANTED.items() if accepted.issuperset(kinds)), "")
        if not wanted:
            spellings = language().grammar.spellings
            before = getattr(self.parse.values[-1], "value", "") if self.parse.values else ""
            names = _NAMES | {"SYMBOL": f"the {before}'s @name",
                              "WORD": _WORDS.get(before, "a name")}
            *most, last = sorted({names.get(kind) or repr(spellings[kind]) for kind in accepted})
            wanted = f"{', '.join(most)} or {last}" if most else last
        return f"expected {wanted}, found {found}"

    def fail(self, token: Token, message: str) -> None:
        """Report a mistake at `token`, and go on at the kernel's next line, or next definition."""
        if message:
            self.error(token, message)
        self.drop("LABEL", "KERNEL")
        self.skipping = "line" if "LABEL" in self.parse.accepts() else "definition"

    def drop(self, *wanted: str) -> None:
        """Forget what was read, back to where one of these terminals can stand."""
        while self.parse.accepts().isdisjoint(wanted):
            self.parse.pop()

    def resumes(self, token: Token, first: bool) -> bool:
        """Whether parsing goes on with `token`."""
        if self.skipping == "line":
            found = token.type == "_NL"
        else:
            found = first and (token.type == "ALIAS" or token.value in ("kernel", "constant"))
        if found:
            self.skipping = ""
        return found or token.type == "$END"
