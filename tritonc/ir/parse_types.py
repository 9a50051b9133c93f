"""Types, layouts and attributes in Triton-IR's text form, for the parser of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from tritonc.ir.layout import Layout, SharedLayout
from tritonc.ir.tokens import Cursor, Token
from tritonc.ir.types import CONSTANT, GLOBAL, SCALARS, Buffer, Pointer, Scalar, Tile, Type
from tritonc.source import Diagnostics, SourceFile

AnyLayout = Layout | SharedLayout
_T = TypeVar("_T")
_L = TypeVar("_L", Layout, SharedLayout)


class TypeParser(Cursor):
    """Recursive descent over types and attributes; `aliases` are the layouts that have a #name."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics) -> None:
        super().__init__(source, diagnostics)
        self.aliases: dict[str, AnyLayout] = {}

    def separated(self, item: Callable[[], _T]) -> list[_T]:
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def integer(self, least: int) -> int:
        token = self.expect("number", "an integer")
        if not re.fullmatch(r"-?\d{1,40}", token.text) or int(token.text) < least:
            self.fail(token, f"an integer from {least} on wanted, found {token.text}")
        return int(token.text)

    def scalar(self) -> Scalar:
        token = self.expect("word", "a type")
        if token.text not in SCALARS:
            self.fail(token, f"no type is called '{token.text}'")
        return SCALARS[token.text]

    def any_type(self) -> Type:
        start = self.next
        if start.text == "buffer":
            self.take()
            self.expect("<")
            stages = self.integer(1)
            if self.take().text != "x":
                self.fail(start, "a buffer is written buffer<2 x f32<64, 16>>")
            element, shape = self.scalar(), self.extents()
            self.expect(">")
            layout = self.layout(SharedLayout)
            self.expect(">")
            return Buffer(element, shape, stages, layout)
        element = self.scalar()
        space = GLOBAL
        if self.next.text == CONSTANT and self.tokens[self.at + 1].kind == "*":
            self.take()
            space = CONSTANT
        pointed = Pointer(element, space) if self.accept("*") else element
        if self.next.kind != "<":
            return pointed
        shape = self.extents()
        tile_layout = self.layout(Layout)
        self.expect(">")
        return Tile(pointed, shape, tile_layout)

    def extents(self) -> tuple[int, ...]:
        self.expect("<")
        return tuple(self.separated(lambda: self.integer(1)))

    def layout(self, kind: type[_L]) -> _L | None:
        if not self.accept(";"):
            return None
        token = self.expect("alias", "a layout's #name")
        found = self.aliases.get(token.text)
        if not isinstance(found, kind):
            self.fail(token, f"no {kind.__name__} is called {token.text}", name="ir-unknown-name")
        return found

    def attributes(self, depth: int = 0) -> dict[Any, Any]:
        """`{key = value, flag, 0 = value}`"""
        self.expect("{")
        table: dict[Any, Any] = {}
        while not self.accept("}"):
            if table:
                self.expect(",")
            token = self.next
            key = self.integer(0) if token.kind == "number" else self.expect("word", "a name").text
            if key in table:
                self.fail(token, f"'{key}' is given twice")
            table[key] = self.attribute(depth) if self.accept("=") else True
        return table

    def attribute(self, depth: int = 0) -> Any:
        token = self.next
        if depth > 20:
            self.fail(token, "an attribute is nested too deeply")
        if token.kind == "[":
            self.take()
            if self.accept("]"):
                return ()
            items = tuple(self.separated(lambda: self.attribute(depth + 1)))
            self.expect("]")
            return items
        if token.kind == "{":
            return self.attributes(depth + 1)
        if token.kind == "word" and (token.text in SCALARS or token.text == "buffer"):
            return self.any_type()
        self.take()
        if token.kind == "alias" and token.text in self.aliases:
            return self.aliases[token.text]
        if token.kind == "number" or token.text in ("inf", "nan"):
            return self.number(token)
        if token.kind == "string":
            try:
                return json.loads(token.text)
            except ValueError:
                self.fail(token, "a string with an escape that JSON does not have")
        if token.kind == "word":
            return {"true": True, "false": False, "none": None}.get(token.text, token.text)
        self.fail(token, f"an attribute's value wanted, found {token.text!r}")

    def number(self, token: Token) -> int | float:
        if re.fullmatch(r"-?\d+", token.text):
            if len(token.text) > 40:
                self.fail(token, "an integer of more than 40 digits")
            return int(token.text)
        return float(token.text)
