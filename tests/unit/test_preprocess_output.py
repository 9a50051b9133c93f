"""The output of -E: the same tokens, lines and columns; any input at all."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preprocessed_text import STANDARD, pairs, run

import tritonc.frontend.lexer
import tritonc.frontend.preprocess.expand
from tritonc.diagnostics import DIAGNOSTICS
from tritonc.frontend.lexer import tokenize
from tritonc.frontend.preprocess import (
    Preprocessed,
    PreprocessOptions,
    load_source,
    preprocess,
    render,
)
from tritonc.source import CompileError, Diagnostics, SourceFile

# The output of -E


def again(done: Preprocessed) -> Preprocessed:
    return run(render(done))


@pytest.mark.parametrize("text", [
    *(text for text, _ in STANDARD),
    "F32_INFINITY NAN true",
    "#define E\n#define P +\n+E+ -P+ PP+P P= 1 E.5 x E(y) a E b . E. E.",
    "#define c(x, y) y x\nc(+,+) c(.,.) c(a,b) c(1,a) c(>,=)",
    "- __LINE__.5 __LINE__ 7",
    '#line 7 "q\\"\\\\"\na\n\n\n#line 2147483647\nb\nc',
    "a\n\n\n\n\n\n\n\n\n\n\n\n\n\nb\n\nc",
    "#define f(x, y) y x\nf(\na,\n\nb\n)",
])
def test_output_gives_the_same_tokens(text: str) -> None:
    done = run(text)
    assert pairs(again(done).tokens) == pairs(done.tokens)


def test_output_keeps_what_line_directives_said() -> None:
    done = run('a\n#line 5 "x"\nb\n#line 7 "y"\nc\n#line 8\nd\ne')
    second = again(done)
    assert [t.span.presumed for t in second.tokens[:-1]] == [
        ("main.tc", 1), ("x", 5), ("y", 7), ("y", 8), ("y", 9)]


def test_output_keeps_lines_columns_and_files() -> None:
    files = {"a.h": "x\n"}
    text = '#define N 3\nint a = N;\n\n  b(c) ;\n#include "a.h"\nd'
    done = run(text, files=files)
    assert render(done) == (
        '# 2 "main.tc"\nint a = 3;\n\n  b(c) ;\n# 1 "a.h"\nx\n# 6 "main.tc"\nd\n')
    second = again(done)
    assert [t.span.presumed for t in second.tokens[:-1]] == [
        t.span.presumed for t in done.tokens[:-1]]


PIECES = st.sampled_from([
    "#define f(x) ", "#define g(x, ...) ", "#define A ", "#define B ", "#undef A", "x", "x ## x",
    "#x", "__VA_ARGS__", ", ## __VA_ARGS__", "f(", ")", ",", "f", "g(", "A", "B", "\n", "\n", " ",
    "#if ", "#elif ", "#else", "#endif", "#ifdef A", "1", "0", "0...16", "+", "-", "&&", "?", ":",
    "defined", "(", "...", ".", "e", "1e", '"s"', "'c'", '"', "'", "\\\n", "\\", "/*", "*/", "//",
    "#include ", "<a.h>", '"a.h"', "#line 5", "#error e", "#pragma once", "__LINE__", "INFINITY",
    "\x00", "é", "\r\n", "\r", "#", "##", "@", "^", "=", "<", "true", "_Pragma(", "__COUNTER__",
])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_preprocessed_or_diagnosed(text: str) -> None:
    """No exception but CompileError; what has no error prints, and reads back, as the same."""
    diagnostics = Diagnostics(limit=0)
    try:
        done = run(text, diagnostics, files={"a.h": "#define f(x) A x\nA\n"}, include_dirs=("",))
    except CompileError:
        assert diagnostics.errors
        return
    for item in diagnostics.items:
        assert DIAGNOSTICS[item.name].section == "preprocessor" and item.span is not None
        assert 0 <= item.span.start <= item.span.end <= len(item.span.file.text)
    assert done.tokens[-1].kind == "end"
    if not diagnostics.errors:
        assert pairs(again(done).tokens) == pairs(done.tokens)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_diagnosed(data: bytes) -> None:
    diagnostics = Diagnostics(limit=0)
    source = load_source("x.tc", diagnostics, read_file=lambda path: data)
    if source is None:
        (item,) = diagnostics.items
        assert item.name == "invalid-encoding" and str(item.span).startswith("x.tc:")
    else:
        preprocess(source, PreprocessOptions(), diagnostics)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_spans_spell_their_tokens(text: str) -> None:
    for token in tokenize(SourceFile("t", text)).tokens:
        source = text[token.span.start : token.span.end]
        assert source.replace("\\\r\n", "").replace("\\\n", "") == token.text


def test_examples_in_the_essays() -> None:
    for module in (tritonc.frontend.lexer, tritonc.frontend.preprocess.expand):
        result = doctest.testmod(module)
        assert result.attempted and not result.failed
