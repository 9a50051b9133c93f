"""Which brackets belong together, found before parsing.

The parser looks ahead with it (what follows the arguments of a call?) and recovers from errors with
it (where do the parentheses end that the error is in?).  It is one pass over the tokens."""

from dataclasses import field

from tritonc.frontend.lexer import Token
from tritonc.records import dataclass

MAX_BRACKETS = 256  # open ( [ { at one place
OPENER = {")": "(", "]": "[", "}": "{"}
OPENERS = frozenset(OPENER.values())


@dataclass(slots=True)
class Brackets:
    """`partner` maps the index of a bracket to that of the one that closes or opens it.

    `strays` are the `)` and `]` without a partner.  `too_deep` is the index of a bracket inside
    MAX_BRACKETS others.  `longest_statement` counts tokens between two of `; { }`."""

    partner: dict[int, int] = field(default_factory=dict)
    strays: set[int] = field(default_factory=set)
    too_deep: int | None = None
    longest_statement: int = 0


def match_brackets(tokens: list[Token]) -> Brackets:
    """Pair the brackets of `tokens`; stops at one that is too deep.

    A `}` closes what is open inside its braces, so that one forgotten `)` does no harm beyond."""
    brackets = Brackets()
    partner = brackets.partner
    openings: list[int] = []
    longest = begin = 0
    for index, token in enumerate(tokens):
        text = token.text
        if token.kind != "punctuator" or text not in "()[]{};":
            continue
        if text in OPENERS:
            openings.append(index)
            if len(openings) > MAX_BRACKETS:
                brackets.too_deep = index
                break
        elif text != ";":
            depth = _opening(tokens, openings, OPENER[text])
            if depth is not None:
                partner[openings[depth]] = index
                partner[index] = openings[depth]
                del openings[depth:]
            elif text != "}":
                brackets.strays.add(index)
        if text in ";{}":
            longest = max(longest, index - begin)
            begin = index
    brackets.longest_statement = max(longest, len(tokens) - begin)
    return brackets


def _opening(tokens: list[Token], openings: list[int], opener: str) -> int | None:
    """The place in `openings` of the last `opener` that is not outside the innermost braces."""
    for depth in range(len(openings) - 1, -1, -1):
        text = tokens[openings[depth]].text
        if text == opener:
            return depth
        if text == "{":
            return None
    return None
