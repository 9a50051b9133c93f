"""Macros that no source defines: the predefined ones and those of `-D`."""

import itertools
import re
from collections.abc import Callable

from tritonc.frontend.lexer import Token, tokenize
from tritonc.frontend.preprocess.macros import Macro, parse_definition
from tritonc.frontend.preprocess.output import Preprocessed, quoted
from tritonc.options import mapped_path
from tritonc.source import Diagnostics, Expansion, SourceFile, Span

_PREDEFINED = {
    "INFINITY": "inf", "NAN": "nan", "true": "true", "false": "false",
    "F32_INFINITY": "((float)inf)", "F16_INFINITY": "((half)inf)",
    "__TRITONC__": "1",
    # No date: the same source gives the same output on every day.  C11 6.10.8.1 has a word for it.
    "__DATE__": '"??? ?? ????"', "__TIME__": '"??:??:??"'}
_NAME = re.compile(r"[A-Za-z_]\w*(\([^()]*\))?", re.ASCII)
_LITERAL_NAMES = {"inf", "nan", "true", "false"}  # see lexer.Token


def predefined_macros(result: Preprocessed, pragma: Callable[[str, Span], None],
                      diagnostics: Diagnostics, prefixes: tuple[str, ...] = ()
                      ) -> dict[str, Macro]:
    """The predefined macros of a run.

    `result` tells the lines that `#line` claims; `pragma` is called with the text of a `_Pragma`;
    `prefixes` are those of -ffile-prefix-map."""
    macros: dict[str, Macro] = {}
    counter = itertools.count()

    def computed(name: str, compute: Callable[[Token, list[list[Token]]], list[Token]],
                 parameters: tuple[str, ...] | None = None) -> None:
        span = Span(SourceFile("<built-in>", name), 0, len(name))
        macros[name] = Macro(name, span, parameters, origin="predefined", compute=compute)

    def pragma_operator(use: Token, arguments: list[list[Token]]) -> list[Token]:
        (argument,) = arguments
        if len(argument) != 1 or argument[0].kind != "string":
            diagnostics.error("invalid-directive", use.span, "_Pragma needs one string")
            return []
        text = argument[0].text
        text = text[text.index('"') + 1 : -1].replace('\\"', '"').replace("\\\\", "\\")
        pragma(text.strip(), argument[0].span)
        return []

    for name, body in _PREDEFINED.items():
        tokens = tokenize(SourceFile("<built-in>", f"{name} {body}")).tokens[:-1]
        for token in tokens[1:]:
            if token.text in _LITERAL_NAMES:
                token.kind = "number"
        macro = parse_definition(tokens, tokens[0].span, diagnostics, "predefined")
        if macro is not None:
            macros[name] = macro
    computed("__LINE__", lambda use, _: _made(use, "number", str(use.span.presumed[1])))
    computed("__FILE__", lambda use, _: _made(use, "string", quoted(
        mapped_path(use.span.presumed[0], prefixes))))
    computed("__COUNTER__", lambda use, _: _made(use, "number", str(next(counter))))
    computed("_Pragma", pragma_operator, ("string",))
    return macros


def _made(use: Token, kind: str, text: str) -> list[Token]:
    span = Span(use.span.file, use.span.start, use.span.end, Expansion(use.text, None, True))
    return [Token(kind, text, span, False, False)]


def command_line_macro(text: str, diagnostics: Diagnostics) -> Macro | None:
    """The macro of `-D text`; None after reporting "invalid-macro"."""
    name, equals, value = text.partition("=")
    file = SourceFile("<command line>", f"{name} {value if equals else '1'}")
    whole = Span(file, 0, len(file.text))
    lexed = tokenize(file)
    sound = not lexed.errors and all(token.kind != "stray" for token in lexed.tokens)
    if not sound or not _NAME.fullmatch(name) or "\n" in value:
        diagnostics.error("invalid-macro", whole, f"-D{text}: expected NAME, NAME=VALUE or "
                                                  "NAME(PARAMETERS)=VALUE on one line")
        return None
    return parse_definition(lexed.tokens[:-1], whole, diagnostics, "on the command line")
