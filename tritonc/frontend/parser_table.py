"""The automaton of grammar.lark, in the form that frontend/parser.py runs.

It is kept beside the grammar as a file of text, grammar.table, since loading that takes 2 ms and
constructing it with lark 100.  The file begins with a checksum of the grammar: after a change of
the grammar the automaton is constructed anew in each run, until `make bless` rewrites the file.

    grammar CHECKSUM               of grammar.lark
    end STATE                      the state after a whole program; a parse starts in state 0
    terminals SYMBOL ...           those that the grammar spells go by their spelling
    spellings SYMBOL ...           these
    reduction SIZE ORIGIN ACTION   a production; they are r0, r1 and so on; ACTION `-` is none
    row SYMBOL TARGET ...          of the next state: the state to go to, or the production
"""

from __future__ import annotations

import zlib
from functools import cache
from pkgutil import get_data  # importlib.resources would cost 10 ms
from typing import NamedTuple

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


class Reduction(NamedTuple):
    """What to do when a production is complete; `action` is None if its one value passes on."""

    size: int
    origin: str
    action: str | None


class Table(NamedTuple):
    """The automaton, which starts in state 0.  A row maps each terminal to the state to go to or
    the production to reduce, and each nonterminal to a state.  Terminals that the grammar spells go
    by their spelling."""

    rows: list[dict[str, int | Reduction]]
    end: int
    terminals: frozenset[str]
    spellings: frozenset[str]  # those terminals that the grammar spells


@cache
def table() -> Table:
    """The automaton of grammar.lark."""
    grammar, stored = get_data("tritonc", "grammar.lark"), get_data("tritonc", "grammar.table")
    assert grammar is not None and stored is not None, "both are part of the package"
    found = read(stored.decode(), checksum(grammar))
    if found is not None:
        return found
    from tritonc.frontend.parser_grammar import construct  # imports lark, which takes 40 ms

    return construct(grammar.decode())


def checksum(grammar: bytes) -> str:
    """Tells one grammar from another, however the lines of the file end."""
    return format(zlib.crc32(b"\n".join(grammar.splitlines())), "08x")


def write(automaton: Table, grammar: bytes) -> str:
    """The text of grammar.table."""
    reductions = sorted({entry for row in automaton.rows for entry in row.values()
                         if isinstance(entry, Reduction)}, key=str)
    names = {reduction: f"r{number}" for number, reduction in enumerate(reductions)}
    lines = [f"grammar {checksum(grammar)}", f"end {automaton.end}",
             " ".join(["terminals", *sorted(automaton.terminals)]),
             " ".join(["spellings", *sorted(automaton.spellings)])]
    lines += [f"reduction {r.size} {r.origin} {r.action or '-'}" for r in reductions]
    for row in automaton.rows:
        entries = (f"{symbol} {names[to] if isinstance(to, Reduction) else to}"
                   for symbol, to in sorted(row.items()))
        lines.append(" ".join(["row", *entries]))
    return "\n".join([*lines, ""])


def read(text: str, wanted: str) -> Table | None:
    """The automaton that `write` wrote, or None if it is of a grammar of another checksum."""
    lines = [line.split() for line in text.splitlines()]
    if lines[0] != ["grammar", wanted]:
        return None
    reductions = [Reduction(int(line[1]), line[2], None if line[3] == "-" else line[3])
                  for line in lines if line[0] == "reduction"]
    rows = [line for line in lines if line[0] == "row"]
    targets: dict[str, int | Reduction] = {f"r{i}": r for i, r in enumerate(reductions)}
    targets.update((str(state), state) for state in range(len(rows)))
    return Table([dict(zip(row[1::2], [targets[to] for to in row[2::2]], strict=True))
                  for row in rows], int(lines[1][1]), frozenset(lines[2][1:]),
                 frozenset(lines[3][1:]))


@cache
def fixed_terminals() -> dict[str, str]:
    """The terminal of each spelling that is always the same one."""
    spellings = table().spellings
    fixed = {spelling: spelling for spelling in spellings}
    fixed.update((operator, "OPERATOR") for operator in PRECEDENCE if operator not in spellings)
    fixed.update((operator, "ASSIGN") for operator in ASSIGNMENTS)
    fixed.update((word, "TYPE_WORD") for word in TYPE_WORDS)
    for word in QUALIFIER_NAMES:
        if word not in CONTEXTUAL:
            fixed[word] = qualifier_terminal(word)
    fixed.update((word, "UNSUPPORTED") for word in UNSUPPORTED_WORDS)
    fixed["_Static_assert"] = "static_assert"
    return fixed


def qualifier_terminal(word: str) -> str:
    with_argument = QUALIFIER_NAMES[word] in QUALIFIERS_WITH_ARGUMENT
    return "QUALIFIER_CALL" if with_argument else "QUALIFIER"
