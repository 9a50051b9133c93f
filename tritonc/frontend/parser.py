"""Tokens to syntax tree: lark's LALR(1) parser of grammar.lark, which asks for tokens here.

It gets one token after the other, as three things need its state:

* One spelling can be several terminals (`_Driver.identifier_terminal`).  C cannot be parsed without
  knowing which names are types; here `kernel` and its like are names, too, unless a declaration
  can stand.  The driver asks which terminals the parser has an action for.
* A mistake gives one message (`_Driver.recover`).  If one missing `;`, `)` or `]` explains the
  error, parsing goes on as if it stood there.  Else, as in yacc, states are popped until one takes
  _ERROR in place of the broken statement, and tokens are skipped to the statement's likely end.
  Messages are worded in frontend/parser_errors.py.
* Input nested too deeply is an error with a place.  Nothing here recurses, and later stages, which
  do, get no tree deeper than MAX_DEPTH.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lark.exceptions import UnexpectedToken

from tritonc.frontend import syntax
from tritonc.frontend.grammar import (
    ASSIGNMENTS,
    KINDS,
    fixed_terminals,
    grammar,
    qualifier_terminal,
)
from tritonc.frontend.lexer import Token
from tritonc.frontend.parser_actions import Actions
from tritonc.frontend.parser_brackets import OPENERS, match_brackets
from tritonc.frontend.parser_types import CONTEXTUAL, QUALIFIER_NAMES, TYPE_WORDS, TypeNames
from tritonc.frontend.tree import children
from tritonc.lalr import Parse
from tritonc.later import LaterModule
from tritonc.source import Diagnostics, Span

if TYPE_CHECKING:
    from tritonc.frontend.parser_errors import Place

parser_errors = LaterModule("tritonc.frontend.parser_errors")
MAX_STACK = 800  # symbols on the parser's stack: nested statements, chains of prefix operators
MAX_DEPTH = 1000  # levels of the syntax tree
# A statement of fewer tokens cannot reach MAX_DEPTH, as MAX_STACK bounds what is around it.
_LONG_STATEMENT = MAX_DEPTH - MAX_STACK

# After an error, a line that begins with one of these begins a statement.
_STATEMENT_STARTS = frozenset([
    "if", "for", "while", "do", "return", "break", "continue", "typedef", "static_assert", "@",
    *TYPE_WORDS, *(set(QUALIFIER_NAMES) - CONTEXTUAL)])  # fmt: skip


def parse(tokens: list[Token], diagnostics: Diagnostics) -> syntax.Program:
    """The tree of a preprocessed source, whose last token is of kind "end".

    Raises CompileError, with everything that `diagnostics` holds, if the source has errors."""
    program = _Driver(tokens, diagnostics).run()
    diagnostics.raise_if_errors()
    assert program is not None, "no tree and no error"
    return program


class _Driver:
    """One run of lark's parser over `tokens`."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.types = TypeNames()
        self.actions = Actions(tokens, diagnostics, self.types)
        self.grammar = grammar()
        self.fixed = fixed_terminals()
        self.parse = self.actions.parse = Parse(self.grammar, self.actions, self.lex)
        self.parse.callbacks.update((self.fixed[text], self.scope_taken) for text in "{};")
        self.stack = self.parse.values
        self.brackets = match_brackets(tokens)
        self.partner = self.brackets.partner
        self.index = 0  # of the token to take next
        self.quiet = False  # an error before the statement's end is most likely the last one's
        self.last_panic = -1  # the token at which _panic was last called
        self.resumed = -1  # the token at which it made parsing go on
        self.abandoned = 0  # braces of functions left by _leave_function

    def run(self) -> syntax.Program | None:
        """The tree; None after an error that ends the parse."""
        if self.brackets.too_deep is not None:
            self._too_deep(self.tokens[self.brackets.too_deep].span)
            return None
        parser = self.parse.parser
        while True:
            try:
                parser.exhaust_lexer()
                break
            except UnexpectedToken:
                if not self.recover(self.tokens[self.index].type):
                    return None
        program: syntax.Program | None = parser.result
        if program is not None and self.brackets.longest_statement > _LONG_STATEMENT:
            deep = _below(program, MAX_DEPTH)
            if deep is not None:
                self._too_deep(deep.span)
                return None
        return program

    def lex(self) -> Iterator[Token]:
        """What lark's parser gets: the tokens from `index` on, their types set."""
        tokens, fixed, strays = self.tokens, self.fixed, self.brackets.strays
        parse, stack, taken = self.parse, self.stack, self.parse.taken
        while True:
            if self.index in strays:
                self._drop_stray()
            index = self.index
            token = tokens[index]
            kind = token.kind
            if kind == "identifier" or kind == "punctuator":
                token.type = fixed.get(token.text) or self.identifier_terminal(token)
                if token.text == "static" and tokens[index + 1].text == "for":
                    token.type = "STATIC"
            else:
                token.type = KINDS.get(kind, "UNSUPPORTED")
            parse.last = index - 1
            yield token
            if kind == "end":
                return
            taken(index)
            self.index = index + 1
            if len(stack) > MAX_STACK:
                self._too_deep(token.span)
                return

    def scope_taken(self, token: Token) -> Token:
        """lark's parser takes what begins or ends a scope or a statement."""
        self.types.shifted(token.text)
        self.quiet = False
        return token

    # --- which terminal an identifier is ---

    def identifier_terminal(self, token: Token) -> str:
        """The terminal of an identifier that is no reserved word; "UNSUPPORTED" for punctuation
        that the language does not have."""
        if token.kind != "identifier":
            return "UNSUPPORTED"
        text, following = token.text, self.tokens[self.index + 1]
        row = self.parse.choices()
        if text == "tunable" and following.text == "(" and self.index and (
                self.tokens[self.index - 1].text == "const"):
            return "QUALIFIER"
        if text in CONTEXTUAL:
            terminal = qualifier_terminal(text)
            if terminal in row and ("NAME" not in row or self._declaration_follows(terminal)):
                return terminal
        elif text == "bitcast":
            if following.text == "<" and self._begins_type(self.index + 2):
                return "_BITCAST"
        elif text == "alloc_const":
            if self._begins_type(self.index + 1):
                return "_ALLOC_CONST"
        elif self.types.lookup(text) is not None and ("TYPE_NAME" in row or "NUMBER" in row):
            return "TYPE_NAME"
        if following.text == "(":
            return "NAME" if self._is_mask(self.index + 1) else "CALLEE"
        if following.text == "[":
            # `f[T](x)`; a tile's name is not followed by brackets and parentheses, but for a mask.
            closing = self.partner.get(self.index + 1)
            if closing is not None and self.tokens[closing + 1].text == "(":
                return "NAME" if self._is_mask(closing + 1) else "CALLEE"
        return "NAME"

    def _declaration_follows(self, terminal: str) -> bool:
        """Whether the contextual keyword at `index`, which could be a name too, is a keyword."""
        after = self.index + 1
        if terminal == "QUALIFIER_CALL":
            closing = self.partner.get(after)
            if self.tokens[after].text != "(" or closing is None:
                return False
            after = closing + 1
        return self.tokens[after].kind == "identifier"

    def _begins_type(self, index: int) -> bool:
        text = self.tokens[min(index, len(self.tokens) - 1)].text
        return text in TYPE_WORDS or text in QUALIFIER_NAMES or self.types.lookup(text) is not None

    def _is_mask(self, opening: int) -> bool:
        """Whether the parentheses at `opening` begin the target of `@m (*p) = v`, and are not the
        arguments of a call: an assignment operator follows them."""
        at = self.tokens[self.index - 1].text if self.index else ""
        # After a binary `@`, `-x` can stand.
        if at != "@" or self.grammar.names["-"] in self.parse.choices():
            return False
        closing = self.partner.get(opening)
        if closing is None:
            return False
        after = self.tokens[closing + 1].text
        return after == "=" or after in ASSIGNMENTS

    # --- before and after the run ---

    def _too_deep(self, span: Span) -> None:
        self.diagnostics.error("nested-too-deeply", span, "the program is nested too deeply here")

    # --- errors ---

    def recover(self, terminal: str) -> bool:
        """Report that `terminal` cannot stand at `index`, and make parsing go on; False if that
        makes no sense."""
        index, token = self.index, self.tokens[self.index]
        spellings = self.grammar.spellings
        accepted = {spellings.get(name, name) for name in self.parse.accepts()}
        in_do = "while" in accepted <= {"while", "else"}  # `do s` lacks its condition
        quiet = self.quiet or (index == self.resumed and (token.text == "else" or in_do))
        # Reductions may already have turned `a + b` into an expression that no operator follows.
        after_expression = "||" in accepted or bool(
            self.stack and isinstance(self.stack[-1], syntax.Expression))
        place = parser_errors.Place(self.tokens, index, spellings.get(terminal, terminal),
                                    accepted, self.partner,
                                    after_expression)
        problem = parser_errors.special_problem(place)
        if problem is not None and problem.recovery == "close" and not self._open_braces():
            problem = None  # there is no function to leave
        if problem is None and token.kind != "end":
            for missing in ("{", ";", ")", "]"):
                if self._insert(missing, terminal, place, quiet):
                    return True
            if token.text == "}" and "$END" in accepted:
                if self.abandoned:
                    self.abandoned -= 1
                    quiet = True
                problem = parser_errors.stray_closer(token)
        problem = problem or parser_errors.unexpected(place)
        if not quiet:
            self.diagnostics.error(problem.name, problem.span, problem.message, *problem.notes,
                                   suggestion=problem.suggestion)
        if token.kind == "end":
            return False
        if problem.recovery == "drop":
            self.index += 1
        elif problem.recovery == "close":
            self._leave_function()
        elif in_do:
            for missing in ("while", "_ERROR"):
                self._feed(missing, place.after_previous(), index - 1)
        else:
            self._panic(terminal, problem.recovery == "braces")
        return True

    def _feed(self, text: str, span: Span, number: int) -> None:
        """Go on as if `text` stood there, or the broken part that _ERROR stands for."""
        terminal = self.fixed.get(text, text)
        token = Token("error", text, span, False, False, type=terminal)
        self.parse.feed(token, max(number, 0))

    def _drop_stray(self) -> None:
        """Report a `)` or `]` that nothing opened, and go on as if it were not there.

        This is done before the automaton sees it, which would complete the expression before it."""
        while self.index in self.brackets.strays:
            if not self.quiet:
                problem = parser_errors.stray_closer(self.tokens[self.index])
                self.diagnostics.error(problem.name, problem.span, problem.message)
            self.quiet = True
            self.index += 1

    def _insert(self, missing: str, terminal: str, place: "Place",
                quiet: bool) -> bool:
        """Go on as if `missing` stood before the current token, if both then fit."""
        if not parser_errors.may_be_missing(place, missing):
            return False
        if not self.parse.takes(self.fixed[missing], terminal):
            return False
        if not quiet:
            problem = parser_errors.unexpected(place, missing)
            self.diagnostics.error(problem.name, problem.span, problem.message, *problem.notes)
        self._feed(missing, place.after_previous(), self.index - 1)
        return True

    def _leave_function(self) -> None:
        """Go on outside all functions, with the declaration whose name is the current token."""
        self.abandoned += self._open_braces()
        self.index = self.parse.firsts[-1]  # the declaration's type is on top of the stack
        while not self.parse.takes("$END"):  # leaves the list of items
            self.parse.pop()
        self.types.reset(0)

    def _open_braces(self) -> int:
        return sum(isinstance(value, Token) and value.text == "{" for value in self.stack)

    def _panic(self, terminal: str, skip_braces: bool) -> None:
        """Replace the statement around the current token by _ERROR, and skip to its end."""
        start = first = self.index
        again = self.last_panic == start  # _ERROR did not help here: look for an outer statement
        self.last_panic = start
        while self.stack:
            if self.parse.takes("_ERROR") and (not again or self.parse.takes("_ERROR", terminal)):
                break
            first = self.parse.pop()
        before = self.stack[-1] if self.stack else None
        in_head = isinstance(before, Token) and before.text in ("if", "for", "while")
        if in_head and len(self.stack) > 2 and isinstance(self.stack[-3], Token):
            in_head = self.stack[-3].text != "do"  # `do s while (c);` ends as statements do
        self.types.reset(self._open_braces())
        self._feed("_ERROR", self.tokens[first].span, first)
        if in_head:
            self.index = self._end_of_head(first, start)
            self.quiet = True
            return
        self.index = self._end_of_statement(first, start, skip_braces)
        self.resumed = self.index

    def _end_of_head(self, first: int, index: int) -> int:
        """Where the body of an `if`, `for` or `while` begins whose head went wrong."""
        if self.tokens[first].text == "(" and (closing := self.partner.get(first, -1)) >= index:
            return closing + 1
        while self.tokens[index].text not in ("{", "}") and self.tokens[index].kind != "end":
            if self.tokens[index].line_start and index > first:
                break
            index += 1
        return index

    def _end_of_statement(self, first: int, start: int, skip_braces: bool) -> int:
        """The index after the statement from `first` on that went wrong at `start`."""
        tokens, partner, index = self.tokens, self.partner, start
        for opening in range(first, start):
            if tokens[opening].text in OPENERS and partner.get(opening, -1) >= start:
                index = partner[opening] + 1
                break
        while tokens[index].kind != "end":
            token = tokens[index]
            if token.text == ";":
                return index + 1
            if token.text == "}" and (index in partner or self._open_braces()):
                break
            if token.text == "{" and not skip_braces and self._is_block(index):
                break
            if index > start and self._begins_statement(index):
                break
            if token.text in OPENERS and index in partner:
                index = partner[index]
                if token.text == "{" and tokens[index + 1].line_start:
                    return index + 1
            index += 1
        return index

    def _is_block(self, opening: int) -> bool:
        """Whether the braces at `opening` hold statements, and not the values of a tunable."""
        closing = self.partner.get(opening, len(self.tokens))
        return closing == opening + 1 or any(
            token.text == ";" for token in self.tokens[opening:closing])

    def _begins_statement(self, index: int) -> bool:
        """Whether a statement most likely begins at token `index`, judged by the lines."""
        token, before = self.tokens[index], self.tokens[index - 1]
        complete = before.kind != "punctuator" or before.text in (")", "]", "}")
        return token.line_start and complete and token.text in _STATEMENT_STARTS


def _below(program: syntax.Program, limit: int) -> syntax.Node | None:
    """A node more than `limit` levels below `program`; None if there is none."""
    level: list[syntax.Node] = [program]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return None
    return level[0]
