"""Grammars in .lark files as lark reads them: tables, kept from run to run, and a parse by them.

lark makes the tables of grammar.lark in 80 ms.  A file in the user's cache directory keeps them; it
is read in 1 ms (lark's own cache makes each rule and state anew, in 12).  A file that is missing,
damaged or of other versions is written anew; where none can be written, each run makes the tables.
"""

import copyreg
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from pkgutil import get_data  # importlib.resources would cost 10 ms
from types import ModuleType
from typing import Any, ClassVar
from zlib import crc32

import lark
from lark.exceptions import UnexpectedToken
from lark.grammar import Rule
from lark.lexer import Lexer, LexerState, LexerThread, Token
from lark.parse_tree_builder import ExpandSingleChild, ParseTreeBuilder
from lark.parsers import lalr_analysis
from lark.parsers.lalr_analysis import Action
from lark.parsers.lalr_parser import LALR_Parser

from tritonc import __version__
from tritonc.records import NamedTuple

_FORMAT = 3  # of what is kept: one more where `read` makes something else


class OurLexer(Lexer):
    """lark asks it for tokens; what a parse is of makes them, as it knows macros or lines."""

    __future_interface__ = 2  # `lex` gets both states

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Any]:
        tokens: Iterator[Any] = lexer_state.text()
        return tokens


class OneRule(Rule):
    """A rule is itself alone, as lark's tables have one object for each.  lark looks one up and
    compares it in each reduction: by content, in Python, that took a seventh of a parse."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Grammar(NamedTuple):
    """`parser`: lark's; `spellings`: of each terminal that the grammar spells, by lark's name;
    `names`: back; `patterns`: the regular expressions of others.

    `builds`: what makes a `_Call` of the values of a production's parts, without those that the
    grammar drops; None where it passes on the value of its one part."""

    parser: LALR_Parser
    spellings: dict[str, str]
    names: dict[str, str]
    patterns: dict[str, str]
    builds: dict[Rule, Callable[[list[Any]], Any] | None]


class Parse:
    """A parse by lark's parser; so far of nothing.

    `lex` makes the tokens that are left: it sets `last` to the number of the token before each,
    yields it, its terminal as its `type`, and goes on when it is taken, with `taken`.  Where it
    cannot stand, lark's `parser` raises UnexpectedToken, and is run again after that.  Without
    `lex`, each token is fed.

    `actions` has a method for each rule or alias, from the values of its parts to its own.

    `values` and `firsts`: of the symbols on the stack, what they stand for, and the number of their
    first token.  While an action runs, `places` are such numbers of what it is made from, and
    `last` is the number of its last token; an empty one's place is that of the token behind it."""

    def __init__(self, grammar: Grammar, actions: object,
                 lex: Callable[[], Iterator[Any]] = lambda: iter(())) -> None:
        text: Any = lex  # lark's types are partial
        self.parser: Any = grammar.parser.parse_interactive(
            LexerThread(OurLexer(None), LexerState(text)), "program")
        self.state: Any = self.parser.parser_state
        self.values: list[Any] = self.state.value_stack
        self.actions = actions
        self.firsts: list[int] = []
        self.places: list[int] = []
        self.last = -1
        self.taken = self.firsts.append
        self.choices: Callable[[], dict[str, Any]] = self.parser.choices
        self.accepts: Callable[[], set[str]] = self.parser.accepts
        self.quiet_conf: Any = copy(self.state.parse_conf)
        self.quiet_conf.callbacks = {}
        self.callbacks: dict[Any, Callable[[Any], Any]] = {
            rule: partial(self._reduce, build) if build else itemgetter(0)
            for rule, build in grammar.builds.items()}
        self.state.parse_conf.callbacks = self.callbacks

    def _reduce(self, build: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
        """The value of a production, which takes the place of its parts on the stack."""
        size, firsts = len(parts), self.firsts
        self.places = firsts[-size:] if size else [self.last + 1]
        firsts[len(firsts) - size :] = self.places[:1]
        made = build(parts)
        if type(made) is not _Call:
            return made
        action = getattr(self.actions, made.name, None)
        return action and action(*made.arguments)  # nobody looks at what has no action

    def feed(self, token: Any, number: int) -> None:
        """Take one token, with its terminal as its `type`, as token `number`.

        Raises UnexpectedToken if it cannot stand here; an LALR state may reduce before that."""
        self.last = number - 1
        self.parser.feed_token(token)
        self.taken(number)

    def takes(self, *terminals: str) -> bool:
        """Whether all of `terminals` could stand here, one after the other."""
        state = self.state.copy(deepcopy_values=False)
        state.parse_conf = self.quiet_conf
        try:
            for terminal in terminals:
                state.feed_token(Token(terminal, ""), terminal == "$END")
        except UnexpectedToken:
            return False
        return True

    def pop(self) -> int:
        """Drop the last symbol of the stack; returns the number of its first token."""
        self.state.state_stack.pop()
        self.values.pop()
        return self.firsts.pop()


def _passes(rule: Rule, build: object) -> bool:
    """Whether the value of a production is that of its one symbol."""
    return isinstance(build, ExpandSingleChild) and len(rule.expansion) == 1


class _Call(NamedTuple):
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
    # Versions of tritonc, lark and Python on one machine keep a file each.
    installed = Path(lark.__file__).stat().st_mtime_ns
    of = crc32(f"{_FORMAT} {__version__} {installed}".encode(), crc32(text))
    path = _cache_file(f"{Path(name).stem}-{of:08x}")
    if path is None:
        return read(text.decode())
    found = _kept(path)
    if found is None:
        found = read(text.decode())
        _keep(path, found)
    return found


def read(text: str) -> Grammar:
    """A grammar.  Raises lark's GrammarError if it has a conflict."""
    made = lark.Lark(text, parser="lalr", lexer=OurLexer, start="program", strict=True)
    spellings, patterns = ({terminal.name: str(terminal.pattern.value) for terminal in
                            made.terminals if terminal.pattern.type == kind}
                           for kind in ("str", "re"))
    for rule in made.rules:
        rule.__class__ = OneRule
        rule.origin.name = sys.intern(str(rule.origin.name))  # a Token compares in Python
    frontend: Any = made.parser
    parser = frontend.parser
    alike: dict[Any, Any] = {}
    states = parser._parse_table.states
    for state, steps in states.items():  # one object for equal steps: the file is read faster
        states[state] = {sys.intern(str(symbol)): alike.setdefault(step, step)
                         for symbol, step in steps.items()}
    make_builder: Any = ParseTreeBuilder
    builds: dict[Rule, Callable[[list[Any]], Any]] = make_builder(
        made.rules, lark.Tree, maybe_placeholders=True).create_callback(_Calls())
    return Grammar(parser, spellings, {text: name for name, text in spellings.items()}, patterns,
                   {rule: None if _passes(rule, build) else build
                    for rule, build in builds.items()})


class _Pickler(pickle.Pickler):
    """Writes modules, and the two actions that lark tells by their identity, by name."""

    dispatch_table: ClassVar[Any] = copyreg.dispatch_table | {  # type: ignore[misc]
        ModuleType: lambda module: (import_module, (module.__name__,)),
        Action: lambda action: (getattr, (lalr_analysis, action.name))}


def _kept(path: Path) -> Grammar | None:
    """What a file keeps; None if there is no such file, or it is damaged."""
    try:
        content = path.read_bytes()
        if int.from_bytes(content[:4]) != crc32(content[4:]):
            return None
        found = pickle.loads(content[4:])
    except Exception:  # whatever content may raise
        return None
    return found if isinstance(found, Grammar) else None


def _keep(path: Path, grammar: Grammar) -> None:
    """Write a file for later runs, whole at once, as others may read it meanwhile."""
    import pickletools  # only here

    file, own = BytesIO(), path.with_suffix(f".{os.getpid()}")
    with suppress(Exception):  # of the system, or of what another lark may have: it is not needed
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(grammar)
        content = pickletools.optimize(file.getvalue())
        own.write_bytes(crc32(content).to_bytes(4) + content)
        own.replace(path)


def _cache_file(stem: str) -> Path | None:
    """The file for tables; None if there is no directory for it.

    Raises nothing: without the file, the tables are made anew."""
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "tritonc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # there is no home, or nothing can be written there
        return None
    return folder / f"{stem}.{sys.implementation.cache_tag}"
