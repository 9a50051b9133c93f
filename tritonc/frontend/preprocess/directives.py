"""The stream of tokens of all files, and the directives in it (C11 6.10)."""

import os
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from tritonc.frontend import lexer
from tritonc.frontend.lexer import Token, join_lines
from tritonc.frontend.preprocess import files
from tritonc.frontend.preprocess.expand import Expander
from tritonc.frontend.preprocess.macros import parse_definition
from tritonc.frontend.preprocess.options import PreprocessOptions
from tritonc.frontend.preprocess.output import Preprocessed
from tritonc.frontend.preprocess.predefined import command_line_macro, predefined_macros
from tritonc.later import Later
from tritonc.source import LAST_LINE, CompileError, Diagnostics, LineMark, Note, SourceFile, Span

evaluate = Later("tritonc.frontend.preprocess.conditions", "evaluate")


class Preprocessor(files.Files):
    """The state of one run.  It is the TokenSource of its macro expansion."""

    def __init__(self, options: PreprocessOptions, diagnostics: Diagnostics) -> None:
        super().__init__(options, diagnostics, Preprocessed([]))
        self.macros = self.result.macros = predefined_macros(
            self.result, self._pragma, diagnostics, options.file_prefix_map)
        self.expander = Expander(self.macros, diagnostics)
        self.skipped: list[tuple[int, int]] = []  # ranges of offsets of the main file
        self.directives: dict[str, Callable[[Token, list[Token]], None]] = {
            "define": self._define, "undef": self._undef, "include": self._include,
            "if": self._if, "ifdef": self._if, "ifndef": self._if,
            "elif": self._else, "else": self._else, "endif": self._endif,
            "error": self._message, "warning": self._message,
            "line": self._line, "pragma": self._pragma_directive}

    def run(self, source: SourceFile) -> Preprocessed:
        for text in self.options.defines:
            if text.startswith("-U"):
                self.macros.pop(text[2:], None)
            elif macro := command_line_macro(text.removeprefix("-D"), self.diagnostics):
                self.macros[macro.name] = macro
        lexed = self._push(source)
        for path in reversed(self.options.forced_includes):
            if not self._open(path, None):
                self.diagnostics.error("include-not-found", Span(source, 0, 0),
                                       f"'{path}', to be included first, does not exist")
        tokens, macros, expand = self.result.tokens, self.macros, self.expander.expand
        while (token := self.next_token()) is not None:
            if token.kind == "identifier" and token.text in macros:
                tokens += expand([token], self)
            else:
                tokens.append(token)
        if any(token.kind == "stray" or token.text in ("#", "##") for token in tokens):
            self.result.tokens = tokens = self._without_strays(tokens)
        tokens.append(lexed.tokens[-1])
        self.result.problem_lines = [
            line for line in lexed.problem_lines if not self._is_skipped(line[1].start)]
        return self.result

    # The stream of tokens

    def next_token(self) -> Token | None:
        """The next token outside directives and skipped branches; None at the main file's end."""
        while True:
            frame = self.frames[-1]
            token = frame.tokens[frame.at]
            if token.line_start:
                if token.kind == "end":
                    if not self._pop():
                        return None
                    continue
                if token.text == "#":
                    frame.at += 1
                    self._directive(token)
                    continue
            frame.at += 1
            if token.kind != "stray" or self._sound([token]):
                return token

    def _without_strays(self, tokens: list[Token]) -> list[Token]:
        """The finished `tokens` without what only macros can use, which is reported."""
        for token in tokens:
            if token.kind == "stray":
                self.diagnostics.error(*lexer.stray_message(token.text, token.span))
            elif token.text in ("#", "##"):
                self.diagnostics.error("stray-character", token.span,
                                       f"stray '{token.text}'; a directive begins its line")
        return [t for t in tokens if t.kind != "stray" and t.text not in ("#", "##")]

    def _include(self, directive: Token, line: list[Token]) -> None:
        known = len(self.diagnostics.items)
        if line and line[0].text != "<" and line[0].kind not in ("string", "stray"):
            line = self.expander.expand(self._sound(line))
        text = ""
        if line and line[0].span.expansion is None:  # not from the tokens: <a//b> has no comment
            text = lexer.rest_of_line(line[0].span)
        elif line:
            text = "".join(" " * token.space_before + token.text for token in line).lstrip()
        match = re.match(r'<([^>]+)>|"([^"]+)"', text)
        if match is None:
            if len(self.diagnostics.items) == known:
                self.diagnostics.error("invalid-directive", _whole(directive, line),
                                       '#include needs "FILE" or <FILE>')
            return
        first, last = line[0].span, line[-1].span
        rest = text[match.end() :].lstrip()
        if rest and not rest.startswith(("//", "/*")):
            self.diagnostics.warning("extra-tokens", first.to(last), "extra text after #include")
        name = match[1] or match[2]
        span = first.to(last)
        self.opened += 1
        if len(self.frames) > files.INCLUDE_DEPTH_LIMIT or self.opened > files.INCLUDE_COUNT_LIMIT:
            deep = self.opened <= files.INCLUDE_COUNT_LIMIT
            self.diagnostics.error("include-limit", span, "files include each other too deeply"
                                   if deep else "too many #includes")
            raise CompileError(self.diagnostics.items)
        current = self.frames[-1].file
        here = [] if match[1] else [(os.path.dirname(current.name), current.system)]
        directories = [*here, *((path, False) for path in self.options.include_dirs),
                       *((path, True) for path in self.options.system_dirs)]
        for directory, system in directories:
            if self._open(os.path.join(directory, name), span, system):
                return
        searched = ", ".join(f"'{directory or '.'}'" for directory, _ in directories)
        self.diagnostics.error(
            "include-not-found", span, f"'{name}' was not found",
            Note(f"searched in {searched}" if searched else
                 "builtin functions need no header; -I DIRECTORY adds a directory to search"))

    # Directives

    def _directive(self, hash_sign: Token) -> None:
        line = self._rest_of_line()
        if not line:
            return  # `#` alone means nothing
        name, rest = line[0], line[1:]
        if name.kind == "number":
            self._line(Token("identifier", "line", name.span, False, False), line)
            return
        action = self.directives.get(name.text)
        if action is None:
            self.diagnostics.error("invalid-directive", hash_sign.span.to(name.span),
                                   f"no directive is called '#{name.text}'")
            return
        if name.text not in ("if", "elif", "include", "error", "warning", "pragma"):
            rest = self._sound(rest)
        action(name, rest)

    def _define(self, directive: Token, line: list[Token]) -> None:
        macro = parse_definition(line, directive.span, self.diagnostics)
        if macro is None:
            return
        old = self.macros.get(macro.name)
        if old is not None and not old.same_as(macro):
            note = (Note("the other definition is here", old.span) if old.origin == "source" else
                    Note(f"the other definition is {old.origin}"))
            self.diagnostics.warning("macro-redefined", macro.span,
                                     f"macro '{macro.name}' is redefined with another body", note)
        self.macros[macro.name] = macro

    def _undef(self, directive: Token, line: list[Token]) -> None:
        if name := self._macro_name(directive, line):
            self.macros.pop(name, None)

    def _macro_name(self, directive: Token, line: list[Token]) -> str | None:
        if not line or line[0].kind != "identifier":
            self.diagnostics.error("invalid-directive", (line[0] if line else directive).span,
                                   f"#{directive.text} needs the name of a macro")
            return None
        self._end_of_directive(directive, line[1:])
        return line[0].text

    def _if(self, directive: Token, line: list[Token]) -> None:
        conditional = files.Conditional(directive, self._holds(directive, line))
        self.frames[-1].conditionals.append(conditional)
        if not conditional.taken:
            self._skip(conditional)

    def _holds(self, directive: Token, line: list[Token]) -> bool:
        """Whether the condition of an `#if`, `#ifdef`, `#ifndef` or `#elif` holds."""
        if directive.text in ("if", "elif"):
            known = len(self.diagnostics.items)
            line = self.expander.expand(self._sound(line), keep_defined=True)
            return (len(self.diagnostics.items) == known  # else what is left makes no sense
                    and evaluate(line, directive.span, self.macros, self.diagnostics))
        name = self._macro_name(directive, line)
        return name is not None and (name in self.macros) == (directive.text == "ifdef")

    def _skip(self, conditional: files.Conditional) -> None:
        """Pass over tokens until a branch of `conditional` is taken, or to its `#endif`."""
        frame = self.frames[-1]
        tokens, first = frame.tokens, frame.at
        nesting = 0
        while tokens[frame.at].kind != "end":
            token = tokens[frame.at]
            frame.at += 1
            if not token.line_start or token.text != "#" or tokens[frame.at].line_start:
                continue
            name = tokens[frame.at]
            if name.text in ("if", "ifdef", "ifndef"):
                nesting += 1
            elif name.text == "endif" and nesting:
                nesting -= 1
            elif nesting == 0 and name.text in ("endif", "else", "elif"):
                frame.at += 1
                line = self._rest_of_line()
                if name.text == "endif":
                    self._endif(name, line)
                    break
                if (self._branch(conditional, name, line) and not conditional.taken
                        and (name.text == "else" or self._holds(name, line))):
                    conditional.taken = True
                    break
        if len(self.frames) == 1:
            # Comments are no tokens, so the branch reaches from line end to line end.
            last = tokens[frame.at] if tokens[frame.at].kind == "end" else tokens[frame.at - 1]
            self.skipped.append((tokens[first - 1].span.end, last.span.end))

    def _branch(self, conditional: files.Conditional, directive: Token, line: list[Token]) -> bool:
        """Note an `#else` or `#elif`; False after reporting that it comes after the `#else`."""
        if conditional.otherwise is not None:
            self.diagnostics.error("unbalanced-conditional", directive.span,
                                   f"#{directive.text} after #else",
                                   Note("the #else is here", conditional.otherwise))
            return False
        if directive.text == "else":
            conditional.otherwise = directive.span
            self._end_of_directive(directive, line)
        return True

    def _else(self, directive: Token, line: list[Token]) -> None:
        """`#else` or `#elif` at the end of a branch that was taken."""
        if conditional := self._innermost(directive):
            self._branch(conditional, directive, line)
            self._skip(conditional)

    def _endif(self, directive: Token, line: list[Token]) -> None:
        if self._innermost(directive):
            self.frames[-1].conditionals.pop()
            self._end_of_directive(directive, line)

    def _innermost(self, directive: Token) -> files.Conditional | None:
        if self.frames[-1].conditionals:
            return self.frames[-1].conditionals[-1]
        self.diagnostics.error("unbalanced-conditional", directive.span,
                               f"#{directive.text} without #if")
        return None

    def _message(self, directive: Token, line: list[Token]) -> None:
        span = _whole(directive, line)
        text = join_lines(span.file.text[span.start : span.end]) if line else "no message"
        if directive.text == "error":
            self.diagnostics.error("error-directive", span, f"#error: {text}")
        else:
            self.diagnostics.warning("warning-directive", span, f"#warning: {text}")

    def _line(self, directive: Token, line: list[Token]) -> None:
        """`#line NUMBER ["FILE"]`, and the form `# NUMBER "FILE" FLAGS` that -E writes."""
        line = self.expander.expand(line)
        digits = line[0].text if line and line[0].kind == "number" else ""
        if not re.fullmatch("[0-9]{1,10}", digits) or not 0 < int(digits) <= LAST_LINE:
            self.diagnostics.error("invalid-directive", (line[0] if line else directive).span,
                                   "#line needs a line number from 1 to 2147483647")
            return
        name, _ = directive.span.presumed
        if len(line) > 1:
            try:
                if line[1].kind != "string":
                    raise ValueError("#line needs a file name in quotes after the number")
                name = lexer.literal_bytes(line[1].text).decode("utf-8", "replace")
            except ValueError as error:
                self.diagnostics.error("invalid-directive", line[1].span, str(error))
                return
        frame = self.frames[-1]
        after = frame.file.line_column(frame.tokens[frame.at - 1].span.end)[0] + 1
        frame.file.line_marks.append(LineMark(after, int(digits), name))

    def _pragma_directive(self, directive: Token, line: list[Token]) -> None:
        span = _whole(directive, line)
        if line and line[0].text == "unroll":
            self._unroll(line)
            return
        self._pragma(join_lines(span.file.text[span.start : span.end]) if line else "", span)

    def _unroll(self, line: list[Token]) -> None:
        """`#pragma unroll`, `#pragma unroll 4`, `#pragma unroll(4)` as tokens for the parser."""
        word, rest = line[0], self.expander.expand(self._sound(line[1:]))
        if not rest:
            rest = [replace(word, kind="number", text="0")]
        opening, closing = (replace(word, kind="punctuator", text=text, line_start=False)
                            for text in "()")
        self.result.tokens += [replace(word, text="__unroll__"), opening, *rest, closing]

    def _pragma(self, text: str, span: Span) -> None:
        self.result.pragmas.append((text, span))
        if text == "once":
            if len(self.frames) > 1:
                self.once.add(os.path.realpath(self.frames[-1].file.name))
        elif text:
            self.diagnostics.warning("unknown-pragma", span, f"unknown pragma '{text}' is ignored")

    def _is_skipped(self, offset: int) -> bool:
        index = bisect_right(self.skipped, (offset, offset))
        return index > 0 and offset < self.skipped[index - 1][1]


def _whole(directive: Token, line: list[Token]) -> Span:
    """The span of what stands after a directive's name, or else of the name."""
    return line[0].span.to(line[-1].span) if line else directive.span
