"""Macros and their definitions (C11 6.10.3)."""

from collections.abc import Callable

from tritonc.frontend.lexer import Token
from tritonc.records import NamedTuple
from tritonc.source import CompileError, Diagnostics, Expansion, Span, fail


class Piece(NamedTuple):
    """One token of a body and what happens to it.

    `parameter` is the index of the parameter it names, or -1.  `stringize`: `#` stands before it.
    `join_left`, `join_right`: `##` stands on that side.  `comma`: it is the variable argument of
    `, ## __VA_ARGS__`, which takes the comma away where it is left out (GNU)."""

    token: Token
    expansion: Expansion
    parameter: int = -1
    stringize: bool = False
    join_left: bool = False
    join_right: bool = False
    comma: bool = False


class Macro(NamedTuple):
    """A macro.  `parameters` is None for an object-like one; `variadic`: the last takes the rest.

    `origin` is "source", "on the command line" or "predefined".  `span` is the name's, where it is
    defined.  `compute`, if present, makes the replacement from the use and its arguments."""

    name: str
    span: Span
    parameters: tuple[str, ...] | None
    variadic: bool = False
    body: tuple[Token, ...] = ()
    pieces: tuple[Piece, ...] = ()
    origin: str = "source"
    compute: Callable[[Token, list[list[Token]]], list[Token]] | None = None

    def same_as(self, other: "Macro") -> bool:
        """Whether C11 6.10.3p2 lets one be defined over the other without a word."""
        return (self.parameters == other.parameters and self.variadic == other.variadic
                and _spelling(self.body) == _spelling(other.body))


def _spelling(body: tuple[Token, ...]) -> list[tuple[str, bool]]:
    return [(token.text, token.space_before and index > 0) for index, token in enumerate(body)]


def _wrong(span: Span, message: str) -> CompileError:
    """A definition is malformed at `span`."""
    return fail("invalid-macro", span, message)


def parse_definition(line: list[Token], directive: Span, diagnostics: Diagnostics,
                     origin: str = "source") -> Macro | None:
    """The macro that the tokens after `#define` define; None after reporting "invalid-macro"."""
    try:
        if not line:
            raise _wrong(directive, "#define needs a name")
        name = line[0]
        if name.kind != "identifier" or name.text in ("defined", "__VA_ARGS__"):
            raise _wrong(name.span, f"'{name.text}' cannot be the name of a macro")
        parameters: tuple[str, ...] | None = None
        variadic, at = False, 1
        if len(line) > 1 and line[1].text == "(" and not line[1].space_before:
            parameters, variadic, at = _parameters(line)
        elif len(line) > 1 and not line[1].space_before:
            diagnostics.warning("macro-space", line[1].span,
                                f"there should be white space between '{name.text}' and its body")
        body = tuple(line[at:])
        pieces = _pieces(name.text, body, parameters, variadic, origin)
    except CompileError as error:
        diagnostics.report(error)
        return None
    return Macro(name.text, name.span, parameters, variadic, body, pieces, origin)


def _parameters(line: list[Token]) -> tuple[tuple[str, ...], bool, int]:
    """Of `NAME(` and so on: the parameters, whether the last takes the rest, the body's index.

    `...` is a parameter `__VA_ARGS__`; `name...` (GNU) gives it another name."""
    name, names, variadic, at = line[0].text, list[str](), False, 2
    if len(line) > 2 and line[2].text == ")":
        return (), False, 3
    while True:
        if at == len(line):
            raise _wrong(line[-1].span, f"the parameters of macro '{name}' have no ')'")
        token, at = line[at], at + 1
        if token.text == "...":
            names.append("__VA_ARGS__")
            variadic = True
        elif token.kind != "identifier" or token.text == "__VA_ARGS__":
            raise _wrong(token.span, f"expected a parameter's name, found '{token.text}'")
        elif token.text in names:
            raise _wrong(token.span, f"macro '{name}' has two parameters '{token.text}'")
        else:
            names.append(token.text)
            if at < len(line) and line[at].text == "...":
                variadic, at = True, at + 1
        if at == len(line):
            continue
        token, at = line[at], at + 1
        if token.text == ")":
            return tuple(names), variadic, at
        if variadic:
            raise _wrong(token.span, "the parameter that takes the rest must be the last")
        if token.text != ",":
            raise _wrong(token.span, f"expected ',' or ')' among the parameters of macro "
                                            f"'{name}', found '{token.text}'")


def _pieces(name: str, body: tuple[Token, ...], parameters: tuple[str, ...] | None,
            variadic: bool, origin: str) -> tuple[Piece, ...]:
    """The body of macro `name` with its operators `#` and `##` resolved."""
    index = {parameter: i for i, parameter in enumerate(parameters or ())}
    pieces: list[Piece] = []
    at, join = 0, False
    while at < len(body):
        token = body[at]
        at += 1
        if token.text == "##":
            if not pieces or at == len(body):
                raise _wrong(token.span, "'##' joins two tokens; it can neither begin nor "
                                                "end the body of a macro")
            if join:
                raise _wrong(token.span, "'##' occurs twice between two tokens")
            join = True
            continue
        space, spelling, stringize = token.space_before, token.span, False
        if token.text == "#" and parameters is not None:
            if at == len(body) or body[at].text not in index:
                raise _wrong(token.span, f"'#' in macro '{name}' needs a parameter after it")
            token, stringize, at = body[at], True, at + 1
        parameter = index.get(token.text, -1)
        if parameter < 0 and token.text == "__VA_ARGS__":
            raise _wrong(token.span, "__VA_ARGS__ is allowed only in the body of a macro "
                                            "whose last parameter is '...'")
        if token.space_before != space:
            token = Token(token.kind, token.text, token.span, space, False)
        expansion = Expansion(name, spelling if origin == "source" else None,
                              origin == "predefined")
        pieces.append(Piece(
            token, expansion, parameter, stringize,
            join_left=join, join_right=at < len(body) and body[at].text == "##",
            comma=join and variadic and parameter == len(index) - 1 and not stringize
            and pieces[-1].token.text == ","))
        join = False
    return tuple(pieces)
