"""What a syntax error says: what was found, what was expected, and where the mistake is.

parser.py finds that a token cannot stand where it does, and knows which terminals could.  The
functions here put that into words, and recognise the constructs of C that Triton-C does not have.
"""

from dataclasses import replace

from tritonc.frontend import foreign
from tritonc.frontend.lexer import Token
from tritonc.frontend.parser_brackets import OPENER, OPENERS
from tritonc.frontend.parser_types import CONTEXTUAL, PREDECLARED_TYPES, QUALIFIER_NAMES, TYPE_WORDS
from tritonc.records import NamedTuple, dataclass
from tritonc.source import Note, Span
from tritonc.spelling import closest

# Operators and openings that could go on after nearly everything; not worth listing if something
# else could stand as well.
_OPERATORS = frozenset([
    "EQUALITY", "RELATION", "SHIFT", "DIVIDE", "||", "&&", "...", "ASSIGN", "=", "<", ">", "|",
    "^", "&", "+", "-", "*", "@", "++", "--", "[", ".", "?", "(", "_ERROR", "QUALIFIER",
    "QUALIFIER_CALL", "TYPE_WORD", "STRING"])  # fmt: skip
_WORDING = {"$END": "end of file", "NAME": "a name", "CALLEE": "a name", "TYPE_WORD": "a type",
            "STRING": "a string", "QUALIFIER": "a qualifier"}


class Problem(NamedTuple):
    """An error and how parsing goes on after it.

    `recovery`: "statement" skips to the statement's end; "braces" does, and skips braces too;
    "drop" ignores the one token; "close" leaves the function that the parser is in."""

    message: str
    span: Span
    name: str = "syntax-error"
    notes: tuple[Note, ...] = ()
    suggestion: str | None = None
    recovery: str = "statement"


@dataclass(slots=True)
class Place:
    """Where the parser is: token `index`, a `terminal`, cannot stand here; `accepted` could.

    `partner` maps the index of a bracket to that of the one that belongs to it.
    `after_expression`: what stands before is an expression that could be complete."""

    tokens: list[Token]
    index: int
    terminal: str
    accepted: set[str]
    partner: dict[int, int]
    after_expression: bool

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    @property
    def previous(self) -> Token | None:
        return self.tokens[self.index - 1] if self.index else None

    @property
    def at_statement(self) -> bool:
        """Whether a statement could begin here."""
        return "if" in self.accepted

    @property
    def at_expression(self) -> bool:
        """Whether an expression could, or must, begin here."""
        return "NUMBER" in self.accepted

    def open_bracket(self) -> int | None:
        """The index of the innermost bracket around the place."""
        at = self.index - 1
        while at >= 0:
            if self.tokens[at].text in OPENERS:
                return at
            at = self.partner.get(at, at) - 1
        return None

    def after_previous(self) -> Span:
        """The place just after the previous token, where something is missing."""
        span = (self.previous or self.token).span
        return Span(span.file, span.end, span.end, span.expansion)


def _foreign(place: Place) -> tuple[Note, ...]:
    """What Triton-C has for a member of another language: `threadIdx.x`, `x.T`."""
    at, last = place.index, len(place.tokens) - 1
    if at > 1 and place.tokens[at - 2].text == "@":
        return (Note("a kernel is marked by a word: 'kernel void f(...)'"),)
    before = place.previous.text if place.previous else ""
    return foreign.member(before, place.tokens[min(at + 1, last)].text,
                          place.tokens[min(at + 2, last)].text == "(")


def special_problem(place: Place) -> Problem | None:
    """The problem if it is one that deserves words of its own."""
    token, text = place.token, place.token.text
    if token.kind in ("identifier", "punctuator"):
        if text in foreign.UNSUPPORTED_WORDS:
            return Problem(foreign.UNSUPPORTED_WORDS[text], token.span, "unsupported-construct",
                           recovery="braces")
        if text in foreign.UNSUPPORTED_PUNCTUATION:
            return Problem(foreign.UNSUPPORTED_PUNCTUATION[text], token.span,
                           "unsupported-construct", _foreign(place))
    if token.kind == "end":
        return _end_of_file(place)
    if place.previous is not None and place.previous.text == "." and place.index > 1:
        return _after_dot(place)
    if operator := _word_operator(place):
        return operator
    if place.at_statement:
        return _at_statement(place)
    if text == "," and place.after_expression:
        return Problem("the comma operator is not supported; write a statement for each part",
                       token.span, "unsupported-construct")
    if token.kind == "identifier" and (unknown := _unknown_type(place)):
        return unknown
    if place.at_expression:
        return _at_expression(place)
    if place.terminal == "CALLEE" and "NAME" in place.accepted:
        return _nested_function(place)
    if text == ":" and place.tokens[place.index + 1].text == ":":
        return Problem("there are no namespaces, so '::' has no meaning", token.span,
                       "unsupported-construct")
    if text in ("&", "&&") and "NAME" in place.accepted and not place.after_expression:
        return Problem("there are no references; a pointer leads to what is changed, and values "
                       "are passed as they are", token.span, "unsupported-construct")
    if text == ":" and place.after_expression and _begins_statement(place, place.index - 1):
        return Problem("labels are not supported, as there is no 'goto'", token.span,
                       "unsupported-construct")
    if place.terminal == "STRING" and place.previous and place.previous.text == "extern":
        return Problem(f"'extern' names no language here; leave {text} out", token.span,
                       "unsupported-construct", recovery="drop")
    if text == "[" and place.accepted == {"("}:
        return Problem("extents of a result follow its type, as in 'float[TM] f(...)'", token.span)
    if place.terminal == "NAME" and (untyped := _untyped_function(place)):
        return untyped
    if text == "(" and place.index > 1 and place.tokens[place.index - 2].text == "tunable":
        return Problem("tunables that are chosen together have no type before their names: "
                       "'const tunable (TM, TN) = {(16, 32), (32, 16)};'",
                       place.tokens[place.index - 1].span, recovery="braces")
    if (text == "(" and place.after_expression and place.previous
            and place.previous.text in (")", "]")):
        return Problem("only a function's name can be called, or the operator of an expression is "
                       "missing here", token.span)
    return None


def _after_dot(place: Place) -> Problem:
    """`tl.load(x)`, `x.sum()`, `0 .. 16`: what is no member of a struct."""
    before = replace(place, index=place.index - 1)
    return Problem("expected the name of a member after '.'" if place.terminal != "CALLEE" else
                   "there are no methods and no modules, so '.' has no meaning before a call",
                   before.token.span, "unsupported-construct", _foreign(before))


def _word_operator(place: Place) -> Problem | None:
    """`a and b`, `not a`, and `(a) and (b)`, which so far is a call."""
    start = max(place.partner.get(place.index - 1, place.index) - 1, 0)
    for token in (place.token, place.tokens[start]):
        if token.text in foreign.WORD_OPERATORS and token.kind == "identifier":
            return Problem(f"'{token.text}' is written '{foreign.WORD_OPERATORS[token.text]}'",
                           token.span, suggestion=foreign.WORD_OPERATORS[token.text])
    return None


def _end_of_file(place: Place) -> Problem | None:
    if not (place.at_statement and "}" in place.accepted):
        return None
    opening = place.open_bracket()
    notes = () if opening is None else (Note("to match this '{'", place.tokens[opening].span),)
    return Problem("expected '}' at the end of the file", place.after_previous(), notes=notes)


def _at_statement(place: Place) -> Problem | None:
    token, text = place.token, place.token.text
    if text == "else":
        return Problem("'else' has no 'if' before it", token.span, recovery="drop")
    if (place.terminal in ("TYPE_WORD", "TYPE_NAME", "QUALIFIER", "QUALIFIER_CALL", "typedef")
            and "}" not in place.accepted):
        return Problem("a declaration cannot be the whole body of a statement; put it into "
                       "braces, '{ ... }'", token.span)
    if place.terminal == "STRING":
        return _string(token)
    start = place.partner.get(place.index - 1, place.index - 1)
    if start > 0 and place.tokens[start - 1].text == "@" and place.terminal in _OPERATORS:
        return _bare_predicate(token)
    return None


def _bare_predicate(token: Token) -> Problem:
    return Problem("a predicate that is an expression needs parentheses, as in '@(r < n)'",
                   token.span)


def _at_expression(place: Place) -> Problem | None:
    token = place.token
    if place.terminal == "STRING":
        return _string(token)
    if token.text in ("!", "~", "-") and place.previous and place.previous.text == "@":
        return _bare_predicate(token)
    if token.text == "@":
        return Problem("'@' begins a statement; a load under a mask is '*?(mask) pointer', and a "
                       "choice is 'mask ? a : b'", token.span)
    if token.text == "{":
        return Problem("a list in braces initialises a struct or a tunable; assign a scalar, "
                       "which fills the tile", token.span, "unsupported-construct",
                       recovery="braces")
    if (place.terminal in ("TYPE_WORD", "TYPE_NAME") and place.index + 1 < len(place.tokens)
            and place.tokens[place.index + 1].text == "("):
        return Problem(f"a conversion to '{token.text}' is written '({token.text})x'", token.span)
    return None


def _string(token: Token) -> Problem:
    return Problem("a string can only be an argument of printf, assert or static_assert",
                   token.span, "unsupported-construct",
                   (Note("the text of assert is its second argument: assert(c, \"text\")"),))


def _nested_function(place: Place) -> Problem | None:
    """A function's head inside a function: most often a closing brace is missing before it."""
    token, inside = place.token, place.tokens[place.index + 2]
    closing = place.partner.get(place.index + 1)
    if closing is not None and place.tokens[closing + 1].text == "{":
        if place.index and place.tokens[place.index - 1].text == "struct":
            return Problem(f"the name of a struct is missing between 'struct' and '{token.text}'",
                           token.span, recovery="braces")
        return Problem(f"function '{token.text}' begins inside another function; is a '}}' "
                       "missing before it?", token.span, recovery="close")
    if inside.text == ")" or inside.text in TYPE_WORDS or inside.text in QUALIFIER_NAMES:
        return Problem(f"function '{token.text}' is declared inside another function; move the "
                       "declaration outside", token.span)
    return Problem(f"a variable is initialised with '=', as in '{token.text} = x'", token.span)


def _untyped_function(place: Place) -> Problem | None:
    """`f(int x)` where a statement begins."""
    opening = place.open_bracket()
    if (place.previous is None or place.previous.text not in (*TYPE_WORDS, *PREDECLARED_TYPES, "*")
            or not opening or ")" not in place.accepted or place.at_expression
            or not _begins_statement(place, opening - 1)):
        return None
    callee = place.tokens[opening - 1]
    return Problem(f"the type of function '{callee.text}' is missing; write "
                   f"'void {callee.text}(...)' if it returns nothing", callee.span)


def _begins_statement(place: Place, index: int) -> bool:
    """Whether token `index`, a name, is the first of its statement."""
    return (place.tokens[index].kind == "identifier"
            and (index == 0 or place.tokens[index - 1].text in (";", "{", "}", ":")))


def _unknown_type(place: Place) -> Problem | None:
    """`flaot x`: two names in a row, where the first would have to be a type."""
    index = place.index
    if place.terminal not in ("NAME", "CALLEE"):
        return None
    if place.after_expression and _begins_statement(place, index - 1):
        index -= 1
    elif not _expects_type(place) or ((after := place.tokens[index + 1]).kind != "identifier"
                                      and after.text not in ("*", ",", ")", ";", "[", "=")):
        return None
    token = place.tokens[index]
    if note := foreign.FOREIGN_TYPES.get(token.text):
        return Problem(f"unknown type name '{token.text}'", token.span, "unknown-type",
                       (Note(note),))
    known = sorted({*TYPE_WORDS, *PREDECLARED_TYPES, *CONTEXTUAL, *QUALIFIER_NAMES, "typedef",
                    "return"})
    close = foreign.UNSIGNED.get(token.text) or closest(token.text, known)
    if not close and [t.text for t in place.tokens[max(index - 2, 0) : index]] == ["sizeof", "("]:
        return Problem(f"'sizeof' takes a type, and '{token.text}' is not a type", token.span,
                       "unknown-type")
    hint = f"; did you mean '{close}'?" if close else ""
    return Problem(f"unknown type name '{token.text}'{hint}", token.span, "unknown-type",
                   suggestion=close)


def _expects_type(place: Place) -> bool:
    return "TYPE_WORD" in place.accepted and "NAME" not in place.accepted


def stray_closer(token: Token) -> Problem:
    """A closing bracket that nothing opened."""
    return Problem(f"'{token.text}' has no '{OPENER[token.text]}' before it", token.span,
                   recovery="drop")


def may_be_missing(place: Place, missing: str) -> bool:
    """Whether it is likely that the mistake is one forgotten token, `missing`, before the place."""
    if missing not in place.accepted:
        return False
    if missing == "{":  # of a function's body
        return not place.at_statement and not place.at_expression
    if missing == ";":
        return place.token.line_start or place.token.text == "}"
    opening = place.open_bracket()
    if place.previous is None or opening is None or (missing == "]" and place.previous.text == "["):
        return False
    return place.partner.get(opening, -1) < place.index  # else it is not missing but comes later


def unexpected(place: Place, missing: str | None = None) -> Problem:
    """Any other problem; `missing` is the one token that would make the source right."""
    wanted, punctuation = _expected(place, missing)
    previous = place.previous
    after = ""
    if previous is not None and not wanted.startswith(("a statement", "a declaration")):
        after = f" after {_quote(previous)}"
        if punctuation and place.after_expression and previous.text != "}":
            after = " after expression"
    span = place.token.span
    if punctuation and previous is not None:
        span = place.after_previous()
    return Problem(f"expected {wanted}{after}, found {found(place)}", span,
                   notes=_opening_note(place, wanted) or _joined_note(place))


def _joined_note(place: Place) -> tuple[Note, ...]:
    """What may be meant: Python's `a if c else b` or `for k in ...`, C++'s `for (int k : ...)`; or,
    where '=' cannot assign, a statement that '@' or '*' begins and that was taken for the rest of
    the one before."""
    opening = place.open_bracket() or 0
    if place.token.text in ("in", ":") and place.tokens[opening - 1].text == "for":
        return (Note("a loop counts, as in 'for (int i = 0; i < n; i++)'"),)
    if place.token.text == "if" and place.after_expression and not place.token.line_start:
        return (Note("a choice is written 'condition ? a : b'"),)
    at = place.index if place.token.text == "=" else 0
    while at > 0 and place.tokens[at].text not in (";", "{", "}"):
        token, before = place.tokens[at], place.tokens[at - 1]
        if token.line_start and token.text in ("@", "*") and before.text not in (";", "{", "}"):
            end = before.span.end
            return (Note("a ';' is missing here, if a new statement begins with the next line",
                         Span(before.span.file, end, end)),)
        at -= 1
    return ()


def found(place: Place) -> str:
    """The offending token in words."""
    token = place.token
    if token.kind == "end":
        return "end of file"
    if place.terminal in ("TYPE_WORD", "TYPE_NAME"):
        return f"type '{token.text}'"
    if token.kind == "string":
        return "a string"
    return _quote(token)


def _quote(token: Token) -> str:
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return f"'{text}'"


def _expected(place: Place, missing: str | None) -> tuple[str, bool]:
    """What could stand here in words, and whether that is punctuation, so that its place is just
    after the previous token."""
    accepted = place.accepted
    if place.at_statement:
        return ("a statement" if "$END" not in accepted else "a declaration or function"), False
    if missing is not None:
        return f"'{missing}'", True
    if place.at_expression:
        if "TYPE_WORD" in accepted and ")" not in accepted:
            return "an expression or a type", False
        return "an expression", False
    if _expects_type(place):
        return "a type", False
    if "NAME" in accepted:
        return "a name", False
    if "{" in accepted and ";" in accepted:
        return "'{' or ';'", True
    if ";" in accepted:
        return "';'", True
    rest = sorted(accepted - _OPERATORS) or sorted(accepted - {"_ERROR"})
    words = [_WORDING.get(entry, f"'{entry}'") for entry in rest]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return listed, all(not entry[0].isalpha() and entry != "$END" for entry in rest)


def _opening_note(place: Place, wanted: str) -> tuple[Note, ...]:
    """For a missing `)` or `]`, the bracket that it would close, if that is on another line."""
    opening = place.open_bracket()
    if wanted[-2:-1] not in (")", "]") or opening is None or place.previous is None:
        return ()
    opener = place.tokens[opening]
    return () if opener.span.line == place.previous.span.line else (
        Note(f"to match this '{opener.text}'", opener.span),)
