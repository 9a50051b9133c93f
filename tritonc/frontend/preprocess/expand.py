"""The expansion of macros in a stream of tokens (C11 6.10.3).

How a macro ends
----------------
A macro may mention itself, or two macros each other; expansion ends because a name is not replaced
in what its own replacement produced.  Dave Prosser's algorithm of 1984, from which the standard's
words were written, makes that exact: every token carries a *hide set*, the names that may no longer
be replaced there.

    expand(T, rest):
      T in its own hide set HS:              T stays as it is, for good
      object-like macro T:                   expand(body with hide set HS + {T}, rest)
      T is function-like, rest is `( args )`,
      the parenthesis with hide set HS':     expand(body with (HS & HS') + {T}, rest)

The result of a replacement is put back in front of the rest and read again, so it may take its
arguments from the text behind it.  `f` below comes out of `f`'s own replacement and stays:

>>> from tritonc.frontend.preprocess import expand_text
>>> expand_text("#define f(a) a*g\\n#define g(a) f(a)\\nf(2)(9)")
'2*9*g'

An argument is expanded on its own before it replaces its parameter, except beside `#`, which makes
a string of its spelling, and beside `##`, which joins two tokens into one; an empty argument beside
`##` leaves a *placemarker*, which vanishes after joining:

>>> expand_text("#define x 3\\n#define str(a) #a\\nstr(x)\\n#define cat(a, b) a ## b\\ncat(x, )")
'"x" 3'

Every expansion ends, but its length may be exponential in that of the source, so it is bounded.

Where a token came from
-----------------------
A token of a body gets the span of the outermost use, in the file that the reader sees, and an
`Expansion` that names the macro and the place in its body.  An argument keeps its own span."""

from typing import Protocol

from tritonc.frontend.lexer import NOTHING_HIDDEN, Token, kind_of
from tritonc.frontend.preprocess.macros import Macro
from tritonc.source import CompileError, Diagnostics, Note, Span

EXPANSION_LIMIT = 1_000_000  # tokens that all expansions of one file may make together
CALL_DEPTH_LIMIT = 150  # uses inside arguments of uses; each takes two frames of Python's stack
CHAIN_LIMIT = 1000  # names in one hide set: macros that lead to macros that lead to ...
CHARACTERS_PER_TOKEN = 16  # text made by # and ## counts towards EXPANSION_LIMIT at this rate,
NAMES_PER_TOKEN = 4  # large hide sets at this,
ARGUMENTS_PER_TOKEN = 4  # and reading arguments at this


class TokenSource(Protocol):
    """Where an expansion finds the text behind a use."""

    def next_token(self) -> Token | None:
        """The next token; None at the end."""

    def unread(self) -> None:
        """Make `next_token` return its last token again."""


class Expander:
    """Expands macros of `macros`, a table that directives may change between and within calls."""

    def __init__(self, macros: dict[str, Macro], diagnostics: Diagnostics) -> None:
        self.macros = macros
        self.diagnostics = diagnostics
        self.made = 0

    def expand(self, tokens: list[Token], source: TokenSource | None = None, depth: int = 0,
               keep_defined: bool = False) -> list[Token]:
        """`tokens` after expansion; a use at their end may take its arguments from `source`.

        `keep_defined` leaves the operand of the `defined` of `#if` alone."""
        macros, pending, result = self.macros, tokens[::-1], []
        while pending:
            token = pending.pop()
            if token.kind != "identifier":
                result.append(token)
                continue
            macro = macros.get(token.text)
            if macro is None or token.text in token.hide:
                result.append(token)
                if keep_defined and token.text == "defined":
                    _keep_operand(pending, result)
                continue
            arguments: list[list[Token]] = []
            hide = token.hide
            if macro.parameters is not None:
                if not _call_follows(pending, source):
                    result.append(token)
                    continue
                collected = self._arguments(macro, token, pending, source)
                if collected is None:
                    continue
                arguments, closing = collected
                hide = hide & closing.hide
                if not self._fits(macro, token, arguments):
                    result.append(token)
                    continue
            hide = hide | {macro.name}
            if len(hide) > CHAIN_LIMIT or depth > CALL_DEPTH_LIMIT:
                self._stop(token.span, f"macro '{token.text}' is nested too deeply in others")
            if macro.compute is not None:
                made = macro.compute(token, arguments)
            else:
                made = self._substitute(macro, token, arguments, hide, depth)
            self._charge(1 + len(made) + len(hide) // NAMES_PER_TOKEN, token.span)
            if made:
                first = made[0]
                first.space_before, first.line_start = token.space_before, token.line_start
                pending.extend(reversed(made))
            elif token.space_before and pending and not pending[-1].space_before:
                after = pending[-1]
                pending[-1] = Token(after.kind, after.text, after.span, True, after.line_start,
                                    after.hide)
        return result

    def _arguments(self, macro: Macro, use: Token, pending: list[Token], source: TokenSource | None
                   ) -> tuple[list[list[Token]], Token] | None:
        """The arguments of a use behind whose `(` we stand, and its `)`.

        One less than there are parameters if the variable argument is left out.

        At the end of the text: reports the error at `use` and gives None; the text is used up, so
        that a file of many such uses is not read over and over."""
        parameters = macro.parameters or ()
        most = len(parameters) if macro.variadic else -1
        arguments: list[list[Token]] = [[]]
        nesting = 0
        while True:
            token = pending.pop() if pending else source.next_token() if source else None
            if token is None:
                self.diagnostics.error("unterminated-macro-use", use.span,
                                       f"the arguments of macro '{macro.name}' have no ')'",
                                       Note(f"macro '{macro.name}' is defined here", macro.span))
                return None
            if token.kind == "punctuator":
                text = token.text
                if text == "(":
                    nesting += 1
                elif text == ")":
                    if nesting == 0:
                        break
                    nesting -= 1
                elif text == "," and nesting == 0 and len(arguments) != most:
                    arguments.append([])
                    continue
            arguments[-1].append(token)
        self._charge(sum(map(len, arguments)) // ARGUMENTS_PER_TOKEN, use.span)
        if arguments == [[]] and (not parameters or most == 1):
            arguments = []
        return arguments, token

    def _fits(self, macro: Macro, use: Token, arguments: list[list[Token]]) -> bool:
        """Whether the count of arguments is right; reports it if not."""
        wanted = len(macro.parameters or ())
        least = wanted - 1 if macro.variadic else wanted
        if least <= len(arguments) <= wanted:
            return True
        plural = "" if least == 1 else "s"
        self.diagnostics.error(
            "macro-arguments", use.span,
            f"macro '{macro.name}' takes {'at least ' if macro.variadic else ''}{least} "
            f"argument{plural}, found {len(arguments)}",
            Note(f"macro '{macro.name}' is defined here", macro.span))
        return False

    def _substitute(self, macro: Macro, use: Token, arguments: list[list[Token]],
                    hide: frozenset[str], depth: int) -> list[Token]:
        """The body of `macro` for one use: new tokens, all with `hide` in their hide sets."""
        file, start, end = use.span.file, use.span.start, use.span.end
        if not macro.parameters and len(macro.pieces) == len(macro.body):  # there is no operator
            return [Token(piece.token.kind, piece.token.text,
                          Span(file, start, end, piece.expansion),
                          piece.token.space_before, False, hide) for piece in macro.pieces]
        left_out = len(arguments) < len(macro.parameters or ())
        if left_out:
            arguments.append([])
        expanded: dict[int, list[Token]] = {}
        result: list[Token] = []
        for piece in macro.pieces:
            token, parameter = piece.token, piece.parameter
            span = Span(file, start, end, piece.expansion)
            if parameter < 0:
                made = [Token(token.kind, token.text, span, token.space_before, False, hide)]
            elif piece.stringize:
                text = self._string_of(arguments[parameter], span)
                made = [Token("string", text, span, token.space_before, False, hide)]
            else:
                if piece.join_left or piece.join_right:
                    argument = arguments[parameter]
                else:
                    if parameter not in expanded:
                        expanded[parameter] = self.expand(arguments[parameter], None, depth + 1)
                    argument = expanded[parameter]
                made = self._hidden_copy(argument, hide, token.space_before, span)
                if not made and (piece.join_left or piece.join_right):
                    made = [Token("placemarker", "", span, token.space_before, False, hide)]
            if piece.comma:
                if left_out:
                    result.pop()
                result += made
            elif piece.join_left:
                left, right = result.pop(), made[0]
                result += self._join(left, right, span)
                result += made[1:]
            else:
                result += made
        return [token for token in result if token.kind != "placemarker"]

    def _string_of(self, tokens: list[Token], span: Span) -> str:
        """What `#` makes of an argument: its spelling, as a string literal."""
        parts = ['"']
        for index, token in enumerate(tokens):
            if index and token.space_before:
                parts.append(" ")
            if token.kind in ("string", "character"):
                parts.append(token.text.replace("\\", "\\\\").replace('"', '\\"'))
            else:
                parts.append(token.text)
        parts.append('"')
        text = "".join(parts)
        self._charge(len(text) // CHARACTERS_PER_TOKEN, span)
        if kind_of(text) != "string":
            self.diagnostics.error("invalid-join", span,
                                   f"'#' makes {_short(text)}, which is not a string: its last "
                                   "'\\' escapes the closing quote")
            return '""'
        return text

    def _join(self, left: Token, right: Token, span: Span) -> list[Token]:
        """`left ## right`: one token, or both after reporting that they make none."""
        if left.kind == "placemarker":
            right.space_before = left.space_before
            return [right]
        if right.kind == "placemarker":
            return [left]
        text = left.text + right.text
        self._charge(len(text) // CHARACTERS_PER_TOKEN, span)
        kind = kind_of(text)
        if kind is None:
            self.diagnostics.error("invalid-join", span,
                                   f"'##' makes '{_short(text)}' of '{_short(left.text)}' and "
                                   f"'{_short(right.text)}', which is not one token")
            return [left, right]
        return [Token(kind, text, span, left.space_before, False, left.hide & right.hide)]

    def _hidden_copy(self, tokens: list[Token], hide: frozenset[str], space: bool, use: Span
                     ) -> list[Token]:
        """Copies with `hide` added to the hide sets; the first stands where a parameter stood."""
        self._charge(len(tokens), use)
        unions = {NOTHING_HIDDEN: hide}
        copies = []
        for token in tokens:
            union = unions.get(token.hide)
            if union is None:
                union = unions[token.hide] = token.hide | hide
                self._charge(len(union) // NAMES_PER_TOKEN, use)
            copies.append(Token(token.kind, token.text, token.span, token.space_before, False,
                                union))
        if copies:
            copies[0].space_before = space
        return copies

    def _charge(self, count: int, span: Span) -> None:
        self.made += count
        if self.made > EXPANSION_LIMIT:
            self._stop(span, f"macros expand to more than {EXPANSION_LIMIT} tokens")

    def _stop(self, span: Span, message: str) -> None:
        self.diagnostics.error("expansion-limit", span, message)
        raise CompileError(self.diagnostics.items)


def _call_follows(pending: list[Token], source: TokenSource | None) -> bool:
    """Whether `(` comes next, and if so takes it."""
    if pending:
        if pending[-1].text != "(":
            return False
        pending.pop()
        return True
    token = source.next_token() if source else None
    if source and token is not None and token.text != "(":
        source.unread()
    return token is not None and token.text == "("


def _keep_operand(pending: list[Token], result: list[Token]) -> None:
    """Move `NAME` or `( NAME )` after `defined` over without looking at it."""
    wanted = 3 if pending and pending[-1].text == "(" else 1
    for _ in range(min(wanted, len(pending))):
        result.append(pending.pop())


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
