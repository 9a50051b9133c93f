"""Grammars in .lark files as lark reads them: tables, kept from run to run, and a parse by them.

lark makes the tables of grammar.lark in 80 ms.  It keeps them in a file of the user's cache
directory, from where they take 6 ms.  Without such a file they are made anew in each run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from pkgutil import get_data  # importlib.resources would cost 10 ms
from typing import Any, NamedTuple
from zlib import crc32

from lark import Lark, Tree
from lark.grammar import Rule
from lark.lexer import Lexer
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_analysis import Action, Shift

_NONE: tuple[Action | None, Any] = None, None


class NoLexer(Lexer):
    """lark wants a lexer; but the parse is fed tokens, which know macros, or what a line is."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
        return iter(())


class Grammar(NamedTuple):
    """`spellings`: of each terminal that the grammar spells, by lark's name; `names`: back.

    `rules`: how many symbols a production has, its own name, and what makes a `_Call` of their
    values, without those that the grammar drops; None where it passes on the value of one.  By
    identity, as lark computes the hash of a rule anew each time.
    """

    lark: Lark
    spellings: dict[str, str]
    names: dict[str, str]
    rules: dict[int, tuple[int, str, Callable[[list[Any]], Any] | None]]
    passed: dict[tuple[int, int, str], int]  # see Parse._pass


class Parse:
    """A parse by lark's tables, to which tokens are fed; so far of nothing.

    `actions` has a method for each rule or alias, from the values of its parts to its own.

    `values` and `firsts`: of the symbols on the stack, what they stand for, and the number of their
    first token.  While an action runs, `places` are such numbers of what it is made from, and
    `last` is the number of its last token; an empty one's place is that of the token behind it.
    """

    def __init__(self, grammar: Grammar, actions: object) -> None:
        conf: Any = grammar.lark.parse_interactive("").parser_state.parse_conf
        self.table: dict[int, dict[str, tuple[Action, Any]]] = conf.states
        self.end: int = conf.end_state
        self.actions, self.rules, self.passed = actions, grammar.rules, grammar.passed
        self.states: list[int] = [conf.start_state]
        self.values: list[Any] = []
        self.firsts: list[int] = []
        self.places: list[int] = []
        self.last = -1

    def choices(self) -> dict[str, tuple[Action, Any]]:
        """The symbols that lark's tables have an action for."""
        return self.table[self.states[-1]]

    def feed(self, terminal: str, value: Any, first: int) -> bool:
        """Reduce as far as `terminal` asks for and take it as token `first`; False if it cannot
        stand here.

        An LALR state may reduce before it notices that.
        """
        table, states, values, firsts = self.table, self.states, self.values, self.firsts
        self.last = first - 1
        while True:
            action, found = table[states[-1]].get(terminal, _NONE)
            if action is Shift:
                states.append(found)
                values.append(value)
                firsts.append(first)
                return True
            if action is None:
                return False
            size, name, build = self.rules[id(found)]
            if build is None:
                key = states[-2], states[-1], terminal
                states[-1] = self.passed.get(key) or self._pass(*key)
                continue
            parts = []
            self.places = [first]
            if size:
                parts = values[-size:]
                self.places = firsts[-size:]
                del states[-size:], values[-size:], firsts[-size:]
            firsts.append(self.places[0])
            made = build(parts)
            if type(made) is _Call:
                action = getattr(self.actions, made.name, None)
                made = action and action(*made.arguments)  # nobody looks at what has no action
            values.append(made)
            states.append(table[states[-1]][name][1])
            if states[-1] == self.end:
                return True

    def _pass(self, below: int, top: int, terminal: str) -> int:
        """The state after all productions that `terminal` asks for in turn and that pass on a
        value, as an operand does through the levels of precedence; kept for the next time."""
        state = top
        while True:
            action, found = self.table[state].get(terminal, _NONE)
            if action in (None, Shift) or self.rules[id(found)][2] is not None:
                self.passed[below, top, terminal] = state
                return state
            state = self.table[below][self.rules[id(found)][1]][1]

    def takes(self, *terminals: str) -> bool:
        """Whether all of `terminals` could stand here, one after the other."""
        table, states = self.table, self.states.copy()
        for terminal in terminals:
            while states[-1] != self.end:
                action, found = table[states[-1]].get(terminal, _NONE)
                if action is None:
                    return False
                if action is Shift:
                    states.append(found)
                    break
                size, name, _ = self.rules[id(found)]
                del states[len(states) - size :]
                states.append(table[states[-1]][name][1])
        return True

    def accepts(self) -> set[str]:
        """The terminals that could stand here."""
        return {name for name in self.choices() if name.isupper() and self.takes(name)}

    def pop(self) -> int:
        """Drop the last symbol of the stack; returns the number of its first token."""
        self.states.pop()
        self.values.pop()
        return self.firsts.pop()


def _passes(rule: Rule) -> bool:
    """Whether the value of a production is that of its one symbol."""
    return (rule.options.expand1 and not rule.alias and len(rule.expansion) == 1
            and (rule.options.keep_all_tokens or not getattr(rule.expansion[0], "filter_out", 0)))


class _Call(NamedTuple):
    """What a production asks for: the action of this name."""

    name: str
    arguments: list[Any]


class _Calls:
    """What lark takes for the actions: they are called later, so that all parses share them."""

    def __getattr__(self, name: str) -> Callable[[list[Any]], _Call]:
        if name.startswith("_"):  # its parts become those of the production around it
            raise AttributeError(name)
        return partial(_Call, name)


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
    builder: Any = ParseTreeBuilder
    made = builder(lark.rules, Tree, maybe_placeholders=True).create_callback(_Calls())
    rules = {id(rule): (len(rule.expansion), rule.origin.name,
                        None if _passes(rule) else made[rule]) for rule in lark.rules}
    return Grammar(lark, spellings, {text: name for name, text in spellings.items()}, rules, {})


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
