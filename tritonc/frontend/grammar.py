"""grammar.lark as lark reads it: the automaton that frontend/parser.py runs, and its terminals.

lark makes the automaton in 80 ms.  It is kept in the user's cache directory, by lark itself, from
where it takes 6 ms; where no file can be written, it is made anew in each run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from pathlib import Path
from pkgutil import get_data  # importlib.resources would cost 10 ms
from typing import Any, NamedTuple

from lark import Lark
from lark.lexer import Lexer
from lark.parsers.lalr_interactive_parser import InteractiveParser

from tritonc.frontend.parser_actions import PRECEDENCE
from tritonc.frontend.parser_types import (
    CONTEXTUAL,
    QUALIFIER_NAMES,
    QUALIFIERS_WITH_ARGUMENT,
    TYPE_WORDS,
)
from tritonc.frontend.parser_words import UNSUPPORTED_WORDS

ASSIGNMENTS = frozenset(["+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="])
# The terminal of each kind of token whose spelling does not matter.
KINDS = {"number": "NUMBER", "character": "CHARACTER", "string": "STRING", "end": "$END"}

Callback = Callable[[list[Any]], Any]  # from the values of a production's symbols to its own


class NoLexer(Lexer):
    """lark wants a lexer; the tokens come from frontend/lexer.py, which knows macros."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
        return iter(())


class Grammar(NamedTuple):
    """`spellings`: of each terminal that the grammar spells, by lark's name; `names`: back."""

    lark: Lark
    spellings: dict[str, str]
    names: dict[str, str]

    def start(self, callback: Callable[[str], Callback]) -> InteractiveParser:
        """A parse of nothing as yet.  `callback` gives the function for an alias of productions;
        the value of a production without alias is its only symbol's."""
        parser = self.lark.parse_interactive("")
        conf: Any = copy(parser.parser_state.parse_conf)
        conf.callbacks = {rule: callback(rule.alias) if rule.alias else _only
                          for rule in self.lark.rules}
        parser.parser_state.parse_conf = conf
        return parser


def _only(symbols: list[Any]) -> Any:
    return symbols[0]


@cache
def grammar() -> Grammar:
    """The grammar of Triton-C."""
    text = get_data("tritonc", "grammar.lark")
    assert text is not None, "it is part of the package"
    return read(text.decode(), _cache_file())


def read(text: str, cache_file: str | None = None) -> Grammar:
    """A grammar.  Raises lark's GrammarError if it has a conflict."""
    lark = Lark(text, parser="lalr", lexer=NoLexer, start="program", strict=True,
                cache=cache_file or False)
    spellings = {terminal.name: str(terminal.pattern.value) for terminal in lark.terminals
                 if terminal.pattern is not None}
    return Grammar(lark, spellings, {text: name for name, text in spellings.items()})


def _cache_file() -> str | None:
    """The file for lark's tables; None if there is no directory for it.

    Raises nothing: without the file, the tables are made anew.
    """
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "tritonc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # there is no home, or nothing can be written there
        return None
    return str(folder / f"grammar.{sys.implementation.cache_tag}")


@cache
def fixed_terminals() -> dict[str, str]:
    """The terminal of each spelling that is always the same one."""
    names = grammar().names
    fixed = dict(names)
    fixed.update((operator, "OPERATOR") for operator in PRECEDENCE if operator not in names)
    fixed.update((operator, "ASSIGN") for operator in ASSIGNMENTS)
    fixed.update((word, "TYPE_WORD") for word in TYPE_WORDS)
    for word in QUALIFIER_NAMES:
        if word not in CONTEXTUAL:
            fixed[word] = qualifier_terminal(word)
    fixed.update((word, "UNSUPPORTED") for word in UNSUPPORTED_WORDS)
    fixed["_Static_assert"] = names["static_assert"]
    return fixed


def qualifier_terminal(word: str) -> str:
    with_argument = QUALIFIER_NAMES[word] in QUALIFIERS_WITH_ARGUMENT
    return "QUALIFIER_CALL" if with_argument else "QUALIFIER"
