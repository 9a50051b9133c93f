"""The terminals of grammar.lark, by the spelling of tokens."""

from functools import cache

from tritonc.frontend import parser_types
from tritonc.frontend.foreign import UNSUPPORTED_WORDS
from tritonc.lalr import Grammar, load

OPERATORS = {"==": "EQUALITY", "!=": "EQUALITY", "<=": "RELATION", ">=": "RELATION",
             "<<": "SHIFT", ">>": "SHIFT", "/": "DIVIDE", "%": "DIVIDE"}
ASSIGNMENTS = frozenset(["+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="])
# The terminal of each kind of token whose spelling does not matter.
KINDS = {"number": "NUMBER", "character": "CHARACTER", "string": "STRING", "end": "$END"}


@cache
def grammar() -> Grammar:
    return load("grammar.lark")


@cache
def fixed_terminals() -> dict[str, str]:
    """The terminal of each spelling that is always the same one."""
    names = grammar().names
    fixed = dict(names)
    fixed.update(OPERATORS)
    fixed.update((operator, "ASSIGN") for operator in ASSIGNMENTS)
    fixed.update((word, "TYPE_WORD") for word in parser_types.TYPE_WORDS)
    for word in parser_types.QUALIFIER_NAMES:
        if word not in parser_types.CONTEXTUAL:
            fixed[word] = qualifier_terminal(word)
    fixed.update((word, "UNSUPPORTED") for word in UNSUPPORTED_WORDS)
    fixed["_Static_assert"] = names["static_assert"]
    return fixed


def qualifier_terminal(word: str) -> str:
    with_argument = parser_types.QUALIFIER_NAMES[word] in parser_types.QUALIFIERS_WITH_ARGUMENT
    return "QUALIFIER_CALL" if with_argument else "QUALIFIER"
