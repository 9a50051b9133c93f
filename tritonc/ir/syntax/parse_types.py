"""Rules of ir.lark about types, layouts and attributes to what they stand for."""

import json
from typing import Any

from tritonc.ir.layouts.layout import Layout, SharedLayout, parse_layout, parse_shared_layout
from tritonc.ir.types import CONSTANT, GLOBAL, I32, SCALARS, Buffer, Element, Pointer, Scalar, Tile
from tritonc.records import NamedTuple
from tritonc.source import Diagnostics, Note, SourceFile, Span

_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan"),
          **SCALARS}


class Token(NamedTuple):
    type: str  # its terminal
    value: str
    start: int


class TypeActions:
    """A method for each rule, from the values of its parts to its own.  What is wrong is recorded,
    and something right stands in for it."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.layouts: dict[str, Layout | SharedLayout] = {}

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.start + len(token.value))

    def error(self, token: Token, message: str, *notes: Note, name: str = "ir-syntax") -> None:
        self.diagnostics.error(name, self.span(token), message, *notes)

    def listed(self, *items: Any) -> tuple[Any, ...]:
        return items

    # types

    def element(self, name: Token) -> Scalar:
        if name.value not in SCALARS:
            self.error(name, f"no type is called '{name.value}'")
        return SCALARS.get(name.value, I32)

    def pointer(self, name: Token, constant: Token | None) -> Pointer:
        return Pointer(self.element(name), CONSTANT if constant else GLOBAL)

    def tile(self, element: Element | Token, shape: tuple[int, ...], layout: Token | None) -> Tile:
        if isinstance(element, Token):
            element = self.element(element)
        return Tile(element, shape, layout and self._layout(layout, Layout))

    def buffer(self, stages: Token, element: Scalar, shape: tuple[int, ...],
               layout: Token | None) -> Buffer:
        return Buffer(element, shape, self.integer(stages, 1),
                      layout and self._layout(layout, SharedLayout))

    def shape(self, *extents: Token) -> tuple[int, ...]:
        return tuple([self.integer(extent, 1) for extent in extents])

    def integer(self, token: Token, least: int) -> int:
        digits = token.value.removeprefix("-")
        if not digits.isdigit() or len(digits) > 40 or int(token.value) < least:
            self.error(token, f"expected an integer from {least} on, found {token.value}")
            return least
        return int(token.value)

    def layout(self, name: Token, text: Token) -> None:
        parse = parse_shared_layout if text.value.startswith("#shared") else parse_layout
        try:
            self.layouts[name.value] = parse(text.value)
        except ValueError as error:
            self.error(name, f"{name.value} is not a layout: {error}")

    def _layout(self, token: Token, kind: type[Any] | None = None) -> Any:
        found = self.layouts.get(token.value)
        if found is not None and isinstance(found, kind or object):
            return found
        self.error(token, f"no {kind.__name__ if kind else 'layout'} is called {token.value}",
                   name="ir-unknown-name")
        return None

    # attributes: `{key = value, flag, 0 = value}`

    def table(self, *entries: tuple[Token, Any]) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for token, value in entries:
            key = self.integer(token, 0) if token.type == "NUMBER" else token.value
            if key in table:
                self.error(token, f"'{key}' is given twice")
            table[key] = value
        return table

    def flag(self, key: Token) -> tuple[Token, bool]:
        return key, True

    def word(self, token: Token) -> Any:
        return _WORDS.get(token.value, token.value)

    def number(self, token: Token) -> int | float:
        if not token.value.removeprefix("-").isdigit():
            return float(token.value)
        if len(token.value) > 40:
            self.error(token, "an integer of more than 40 digits")
            return 0
        return int(token.value)

    def string(self, token: Token) -> str:
        try:
            return str(json.loads(token.value))
        except ValueError:
            self.error(token, "a string with an escape that JSON does not have")
            return ""

    def alias(self, token: Token) -> Any:
        return self._layout(token)
