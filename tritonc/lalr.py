"""Grammars in .lark files as lark reads them: tables, kept from run to run, and a parse to feed.

lark makes the tables of grammar.lark in 80 ms.  It keeps them in a file of the user's cache
directory, from where they take 6 ms.  Without such a file they are made anew in each run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from pathlib import Path
from pkgutil import get_data  # importlib.resources would cost 10 ms
from typing import Any, NamedTuple
from zlib import crc32

from lark import Lark
from lark.grammar import Rule
from lark.lexer import Lexer
from lark.parsers.lalr_interactive_parser import InteractiveParser

Callback = Callable[[list[Any]], Any]  # from the values of a production's symbols to its own


class NoLexer(Lexer):
    """lark wants a lexer; but the parse is fed tokens, which know macros, or what a line is."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
        return iter(())


class Grammar(NamedTuple):
    """`spellings`: of each terminal that the grammar spells, by lark's name; `names`: back."""

    lark: Lark
    spellings: dict[str, str]
    names: dict[str, str]

    def start(self, callbacks: Mapping[Rule, Callback]) -> InteractiveParser:
        """A parse of nothing as yet; `callbacks` build the value of each production."""
        parser = self.lark.parse_interactive("")
        conf: Any = copy(parser.parser_state.parse_conf)
        conf.callbacks = callbacks
        parser.parser_state.parse_conf = conf
        return parser


def load(name: str) -> Grammar:
    """The grammar of file `name` of this package, which begins with `program`."""
    text = get_data("tritonc", name)
    assert text is not None, "it is part of the package"
    # Two versions of tritonc on one machine keep a file each.
    return read(text.decode(), _cache_file(f"{Path(name).stem}-{crc32(text):08x}"))


def read(text: str, cache_file: str | None = None) -> Grammar:
    """A grammar.  Raises lark's GrammarError if it has a conflict."""
    lark = Lark(text, parser="lalr", lexer=NoLexer, start="program", strict=True,
                cache=cache_file or False)
    spellings = {terminal.name: str(terminal.pattern.value) for terminal in lark.terminals
                 if terminal.pattern is not None and terminal.pattern.type == "str"}
    return Grammar(lark, spellings, {text: name for name, text in spellings.items()})


def _cache_file(stem: str) -> str | None:
    """The file for lark's tables; None if there is no directory for it.

    Raises nothing: without the file, the tables are made anew.
    """
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "tritonc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # there is no home, or nothing can be written there
        return None
    return str(folder / f"{stem}.{sys.implementation.cache_tag}")
