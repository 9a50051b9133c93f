"""The parser of Triton-IR's text form, which `ir.text` describes: tokens, then recursive descent.

It checks what the text says of itself: names, counts, types that can be written.  Whether the
operations fit is the verifier's question (`ir.verify.check`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tritonc.ir.core import Block, ConstantTable, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.layout import parse_layout, parse_shared_layout
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.parse_types import TypeParser
from tritonc.ir.tokens import SyntaxFailure, Token
from tritonc.source import Diagnostics, Note, SourceFile, Span

FLAGS = ("read_only", "write_only", "no_alias", "retune")  # of ParameterInfo
CONSTANT_BYTES = 1 << 16  # of constant memory that a kernel can address


def parse_module(source: SourceFile, diagnostics: Diagnostics,
                 tables: Mapping[str, OpInfo] = OPS) -> Module:
    """The module that a `.tir` text describes; `tables` holds a row for each operation's name.

    Records located errors, several in one run; raises CompileError in the end if there are any.
    """
    module = _Parser(source, diagnostics, tables).module()
    diagnostics.raise_if_errors()
    return module


class _Pending(NamedTuple):
    """An operation whose operands are still names."""

    op: Op
    guard: Token | None
    operands: list[Token]
    targets: list[Token]


class _Parser(TypeParser):
    """Recursive descent over the tokens of one file."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics,
                 tables: Mapping[str, OpInfo]) -> None:
        super().__init__(source, diagnostics)
        self.tables = tables

    # the module

    def module(self) -> Module:
        module = Module()
        while self.next.kind != "end":
            try:
                self.definition(module)
            except SyntaxFailure:
                self.skip_to(lambda t: t.text in ("kernel", "constant") or t.kind == "alias")
        return module

    def definition(self, module: Module) -> None:
        token = self.take()
        if token.kind == "alias":
            self.alias(token)
        elif token.text == "constant":
            table = self.constant()
            self.once(table.name, {c.name: c.span for c in module.constants}, table.span)
            module.constants.append(table)
        elif token.text == "kernel":
            kernel = self.kernel()
            self.once(kernel.name, {k.name: k.span for k in module.kernels}, kernel.span)
            module.kernels.append(kernel)
        else:
            self.fail(token, f"a kernel, a constant or a layout wanted, found {token.text!r}")

    def once(self, name: str, known: Mapping[str, Span | None], span: Span | None) -> None:
        if name in known:
            self.diagnostics.error("ir-redefinition", span, f"'{name}' is defined twice",
                                   Note("first defined here", known[name]))

    def alias(self, token: Token) -> None:
        """The rest of the line is a layout's own text."""
        mark = self.expect("=")
        end = self.source.text.find("\n", mark.start)
        end = len(self.source.text) if end < 0 else end
        text = self.source.text[mark.start + 1 : end].partition("//")[0].strip()
        while self.next.kind != "end" and not self.next.first:
            self.take()
        try:
            shared = text.startswith("#shared")
            self.aliases[token.text] = parse_shared_layout(text) if shared else parse_layout(text)
        except ValueError as error:
            self.fail(token, f"{token.text} is no layout: {error}")

    def constant(self) -> ConstantTable:
        name = self.expect("symbol", "the constant's @name")
        self.expect(":")
        element = self.scalar()
        self.expect("[")
        count = self.integer(1)
        if count * element.bytes > CONSTANT_BYTES:
            self.fail(name, f"a table of more than {CONSTANT_BYTES} bytes")
        self.expect("]")
        data = None
        if self.accept("="):
            token = self.next
            values = self.attribute()
            kinds = (int, float) if element.is_float else (int,)
            numbers = isinstance(values, tuple) and all(type(v) in kinds for v in values)
            if not numbers or len(values) > count:
                self.fail(token, f"a list of at most {count} numbers of {element} wanted")
            data = list(values)
        return ConstantTable(name.text[1:], element, count, data, self.span(name))

    def kernel(self) -> Kernel:
        name = self.expect("symbol", "the kernel's @name")
        kernel = Kernel(name.text[1:], [], [], span=self.span(name))
        values: dict[str, tuple[Value, Token]] = {}
        self.expect("(")
        while not self.accept(")"):
            if kernel.parameters:
                self.expect(",")
            type = self.any_type()
            token = self.expect("value", "the parameter's %name")
            kernel.parameters.append(Value(type, token.text[1:]))
            self.define(values, kernel.parameters[-1], token)
            kernel.info.append(self.parameter_info(token))
        if self.next.kind == "{" and not self.begins_body():
            self.kernel_attributes(kernel)
        self.expect("{")
        self.body(kernel, values)
        return kernel

    def begins_body(self) -> bool:
        """Whether the brace here opens the blocks, not the attributes, of a kernel."""
        after = self.tokens[self.at + 1 : self.at + 3]
        return after[0].first or after[-1].kind == ":"

    def parameter_info(self, name: Token) -> ParameterInfo:
        table = self.attributes() if self.next.kind == "{" else {}
        info = ParameterInfo(span=self.span(name))
        for key, value in table.items():
            if key == "ctype":
                good = isinstance(value, str)
            elif key == "multiple_of":
                good = type(value) is int and value >= 1
            elif key in ("least", "greatest"):
                good = type(value) is int
            else:
                good = key in FLAGS and isinstance(value, bool)
            if not good:
                self.fail(name, f"a parameter has no attribute '{key}' of {value!r}")
            setattr(info, key, value)
        return info

    def kernel_attributes(self, kernel: Kernel) -> None:
        token = self.next
        table = self.attributes()
        tile, tunables = table.pop("tile", {}), table.pop("tunables", {})
        if isinstance(tile, tuple):
            tile = dict(enumerate(tile))
        for what, entries, kind in (("tile", tile, int), ("tunables", tunables, str)):
            if not isinstance(entries, dict) or not all(
                    type(k) is kind and type(v) is int for k, v in entries.items()):
                self.fail(token, f"'{what}' wants integers")
        kernel.tile, kernel.tunables, kernel.attributes = tile, tunables, table

    def body(self, kernel: Kernel, values: dict[str, tuple[Value, Token]]) -> None:
        blocks: dict[str, Block] = {}
        pending: list[_Pending] = []
        errors = self.diagnostics.errors
        while not self.accept("}"):
            try:
                if self.next.kind == "end":
                    self.fail(self.next, f"'}}' wanted at the end of kernel '{kernel.name}'")
                if self.next.kind == "word" and self.tokens[self.at + 1].kind == ":":
                    token = self.take()
                    self.take()
                    if token.text in blocks:
                        self.fail(token, f"block '{token.text}' is defined twice",
                                  name="ir-redefinition")
                    blocks[token.text] = Block(token.text)
                    kernel.blocks.append(blocks[token.text])
                elif not kernel.blocks:
                    self.fail(self.next, f"a block's label wanted, found {self.next.text!r}")
                else:
                    pending.append(self.op(values))
                    kernel.blocks[-1].ops.append(pending[-1].op)
            except SyntaxFailure:
                if self.next.kind == "end" or (self.next.first and self.next.text == "kernel"):
                    return
                self.skip_to(lambda t: True)
        if not kernel.blocks and self.diagnostics.errors == errors:
            self.report(self.tokens[self.at - 1], f"kernel '{kernel.name}' has no block")
        if self.diagnostics.errors == errors:  # else names may be missing for the errors' sake
            for item in pending:
                self.resolve(item, values, blocks)

    def resolve(self, item: _Pending, values: Mapping[str, tuple[Value, Token]],
                blocks: Mapping[str, Block]) -> None:
        """Replace the names of an operation's operands and blocks by what they name."""
        def find(token: Token, known: Mapping[str, Any], what: str) -> Any:
            if token.text not in known:
                self.report(token, f"no {what} is called {token.text}", name="ir-unknown-name")
            return known.get(token.text)

        guard = [item.guard] if item.guard else []
        found = [find(t, values, "value") for t in (*item.operands, *guard)]
        targets = [find(t, blocks, "block") for t in item.targets]
        if None in found or None in targets:
            return
        item.op.operands = [value for value, _ in found[: len(item.operands)]]
        item.op.guard = found[-1][0] if guard else None
        item.op.blocks = targets

    # operations

    def op(self, values: dict[str, tuple[Value, Token]]) -> _Pending:
        start = self.next
        guard = self.expect("value", "the guard's %name") if self.accept("@") else None
        results: list[Token] = []
        if self.next.kind == "value":
            results = self.separated(lambda: self.expect("value", "a result's %name"))
            self.expect("=")
        name = self.expect("word", "an operation")
        row = self.tables.get(name.text)
        if row is None:
            self.fail(name, f"no operation is called '{name.text}'", name="ir-unknown-name")
        operands, targets = self.operands(row)
        token = self.next
        attributes = self.attributes() if token.kind == "{" and not token.first else {}
        self.check_attributes(row, attributes, name)
        types = self.separated(self.any_type) if self.accept(":") else []
        if len(types) == 1:
            types *= max(len(results), 1)
        if len(types) != len(results):
            self.fail(name, f"{len(results)} results and {len(types)} result types")
        if self.next.kind not in ("}", "end") and not self.next.first:
            self.fail(self.next, f"the end of the line wanted, found {self.next.text!r}")
        op = Op(name.text, [], attributes, tuple(types), span=self.since(start))
        for value, token in zip(op.results, results, strict=True):
            value.name = token.text[1:]
            self.define(values, value, token)
        return _Pending(op, guard, operands, targets)

    def define(self, values: dict[str, tuple[Value, Token]], value: Value, token: Token) -> None:
        if token.text in values:
            first = Note("first defined here", self.span(values[token.text][1]))
            self.fail(token, f"{token.text} is defined twice", first, name="ir-redefinition")
        values[token.text] = (value, token)

    def operands(self, row: OpInfo) -> tuple[list[Token], list[Token]]:
        """Operands of this line: `%a, %b, block, ...` or pairs `[%a, %b], [%a, block], ...`."""
        values: list[Token] = []
        targets: list[Token] = []

        def one() -> None:
            if self.accept("["):
                values.append(self.expect("value", "a %value"))
                self.expect(",")
                one()
                self.expect("]")
            elif self.next.kind == "word":
                targets.append(self.take())
            else:
                values.append(self.expect("value", "an operand"))

        name = self.tokens[self.at - 1]
        if self.next.kind in ("value", "word", "[") and not self.next.first:
            one()
            while self.accept(","):
                one()
        least = len(row.operands)
        rest = bool(row.operands) and row.operands[-1].startswith("*")
        if len(values) < least - rest or (len(values) > least and not rest):
            self.fail(name, f"'{row.name}' takes {least - rest}{' or more' if rest else ''} "
                            f"operands, found {len(values)}")
        return values, targets

    def check_attributes(self, row: OpInfo, attributes: dict[str, Any], name: Token) -> None:
        for key in attributes:
            if key not in row.attributes and key not in row.optional:
                self.fail(name, f"'{row.name}' has no attribute '{key}'")
        for key in row.attributes:
            if key not in attributes:
                self.fail(name, f"'{row.name}' needs the attribute '{key}'")
