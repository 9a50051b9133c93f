"""The automaton that lark makes of grammar.lark; parser_table.py keeps the result in a file."""

from __future__ import annotations

from typing import Any

from lark import Lark
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

from tritonc.frontend.parser_table import Reduction, Table


class NoLexer(Lexer):
    """lark wants a lexer; the tokens come from elsewhere."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Any:
        return iter(())


def construct(grammar: str) -> Table:
    """The automaton of a grammar, its states in breadth-first order; takes some 60 ms.

    Raises lark's GrammarError if the grammar has a conflict.
    """
    lark = Lark(grammar, parser="lalr", lexer=NoLexer, start="program", strict=True)
    names = {t.name: t.pattern.value for t in lark.terminals if t.pattern is not None}
    terminals = frozenset(names.get(symbol.name, symbol.name) for rule in lark.rules
                          for symbol in rule.expansion if symbol.is_term) | {"$END"}
    reductions = {
        id(rule): Reduction(len(rule.expansion), rule.origin.name, rule.alias)
        for rule in lark.rules
    }
    automaton = lark.parse_interactive("").parser_state.parse_conf
    states = automaton.states
    order = [automaton.start_state]
    seen = set(order)
    for state in order:  # which grows
        for symbol in sorted(states[state]):
            action, to = states[state][symbol]
            if action is Shift and to not in seen:
                order.append(to)
                seen.add(to)
    numbers = {state: number for number, state in enumerate(order)}
    rows: list[dict[str, int | Reduction]] = [
        {
            names.get(symbol, symbol): numbers[to] if action is Shift else reductions[id(to)]
            for symbol, (action, to) in states[state].items()
        }
        for state in order
    ]
    return Table(rows, numbers[automaton.end_state], terminals, frozenset(names.values()))
