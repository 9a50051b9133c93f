"""The lexer: tokens, literals, offsets."""

from __future__ import annotations

import pytest

from tritonc.frontend.lexer import character_value, literal_bytes, tokenize
from tritonc.source import SourceFile

# The lexer


@pytest.mark.parametrize(("text", "tokens"), [
    ("0...16", "number 0, punctuator ..., number 16"),
    ("0 ... 16", "number 0, punctuator ..., number 16"),
    ("TK...TM", "identifier TK, punctuator ..., identifier TM"),
    ("1.5e+3f-.5", "number 1.5e+3f, punctuator -, number .5"),
    ("1. 1.e5 0x1p-3", "number 1., number 1.e5, number 0x1p-3"),
    ("a<<=b>>c->d", "identifier a, punctuator <<=, identifier b, punctuator >>, identifier c, "
                    "punctuator ->, identifier d"),
    ("x[:, +]", "identifier x, punctuator [, punctuator :, punctuator ,, punctuator +, "
                "punctuator ]"),
    ("@c*pc=^a@b", "punctuator @, identifier c, punctuator *, identifier pc, punctuator =, "
                   "punctuator ^, identifier a, punctuator @, identifier b"),
    ("a+++b", "identifier a, punctuator ++, punctuator +, identifier b"),
    (r'"a\"b" "" ' r"'\'' L'x'", r'string "a\"b", string "", ' r"character '\'', character L'x'"),
    ("a/**/b/* * / */c//d", "identifier a, identifier b, identifier c"),
    ("a\\\nb 1\\\r\n2", "identifier ab, number 12"),
    ("\ufeffx", "identifier x"),
    ("x", "identifier x"),
    ("", ""),
])
def test_tokens(text: str, tokens: str) -> None:
    lexed = tokenize(SourceFile("t", text))
    assert not lexed.errors
    assert ", ".join(f"{t.kind} {t.text}" for t in lexed.tokens[:-1]) == tokens
    assert lexed.tokens[-1].kind == "end"


def test_every_c_punctuator_is_one_token() -> None:
    every = ("[ ] ( ) { } . -> ++ -- & * + - ~ ! / % << >> < > <= >= == != ^ | && || ? : ; ... = "
             "*= /= %= += -= <<= >>= &= ^= |= , # ## @")
    tokens = tokenize(SourceFile("t", every)).tokens[:-1]
    assert [t.text for t in tokens] == every.split()
    assert {t.kind for t in tokens} == {"punctuator"}


def test_offsets_survive_joined_lines() -> None:
    text = "a\\\n\\\nb + \\\r\nc /* \\\n */ d\n"
    tokens = tokenize(SourceFile("t", text)).tokens[:-1]
    assert [text[t.span.start : t.span.end] for t in tokens] == ["a\\\n\\\nb", "+", "c", "d"]
    assert [t.span.line for t in tokens] == [1, 3, 4, 5]


def test_space_and_line_start() -> None:
    tokens = tokenize(SourceFile("t", "a(b) /**/c\n/* \n */ d +\te\r\nf")).tokens[:-1]
    assert "".join(t.text for t in tokens if t.space_before) == "acd+ef"
    assert "".join(t.text for t in tokens if t.line_start) == "adf"


@pytest.mark.parametrize(("text", "value"), [
    ("'a'", 97), (r"'\n'", 10), (r"'\0'", 0), (r"'\x7f'", 127), (r"'\377'", -1), ("'ab'", 24930),
    (r"'\''", 39), (r"'\\'", 92), (r"'\u00e9'", 0xC3A9), (r"'\xff\xff\xff\xff'", -1),
])
def test_character_values(text: str, value: int) -> None:
    assert character_value(text) == value


@pytest.mark.parametrize("text", [r"'\q'", "'abcde'", r"'\x100'", "L'a'", r"'\ud800'", r"'\400'",
                                  r"'\x" + "f" * 9999 + "'"])
def test_character_values_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        character_value(text)


def test_string_bytes() -> None:
    assert literal_bytes(r'"a\t\"é\101"') == 'a\t"éA'.encode()
