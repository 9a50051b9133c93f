"""Writes the TextMate grammars of Triton-C and Triton-IR from the compiler's own tables.

    python editors/generate.py

A test compares the files with what this writes; `make bless` writes them too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tritonc.frontend.foreign import UNSUPPORTED_WORDS
from tritonc.frontend.grammar import grammar
from tritonc.frontend.parser_types import PREDECLARED_TYPES, QUALIFIER_NAMES, TYPE_WORDS
from tritonc.ir.ops import OPS
from tritonc.sema.builtins import table

FOLDER = Path(__file__).parent / "vscode" / "syntaxes"
_SCHEMA = "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json"


def _words(words: Iterable[str]) -> str:
    """A pattern for any of the words, and for nothing that is longer."""
    return rf"\b(?:{'|'.join(sorted(map(re.escape, words)))})\b"


def _rule(scope: str, pattern: str) -> dict[str, str]:
    return {"name": scope, "match": pattern}


def triton_c() -> dict[str, Any]:
    """The grammar of .tc files."""
    statements = {word for word in grammar().names if word.isidentifier()}
    types = TYPE_WORDS | set(PREDECLARED_TYPES)
    string = {"name": "string.quoted.double.tritonc", "begin": '"', "end": '"|$',
              "patterns": [_rule("constant.character.escape.tritonc", r"\\.")]}
    return {
        "$schema": _SCHEMA,
        "name": "Triton-C",
        "scopeName": "source.tritonc",
        "fileTypes": ["tc"],
        "patterns": [
            {"name": "comment.line.documentation.tritonc", "begin": "^//!", "end": "$",
             "patterns": [_rule("keyword.other.problem.tritonc", r"(?<=//!)\s*[a-z][a-z -]*:")]},
            {"name": "comment.line.double-slash.tritonc", "begin": "//", "end": "$"},
            {"name": "comment.block.tritonc", "begin": r"/\*", "end": r"\*/"},
            {"name": "meta.preprocessor.tritonc", "begin": r"^\s*#\s*(\w+)",
             "beginCaptures": {"1": {"name": "keyword.control.directive.tritonc"}},
             "end": r"(?<!\\)$|(?=//|/\*)", "patterns": [string]},
            string,
            _rule("string.quoted.single.tritonc", r"'(?:\\.|[^'\\])+'"),
            _rule("constant.numeric.tritonc",
                  r"\b(?:0[xX][0-9A-Fa-f.]+(?:[pP][+-]?\d+)?|0[bB][01]+|"
                  r"\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?)[A-Za-z]*|(?<!\.)\.\d+(?:[eE][+-]?\d+)?[A-Za-z]*"),
            _rule("keyword.operator.range.tritonc", r"\.\.\."),
            _rule("keyword.operator.predicate.tritonc", "@"),
            _rule("constant.language.tritonc", _words(["true", "false", "newaxis", "NULL"])),
            _rule("keyword.control.tritonc", _words(statements)),
            _rule("storage.modifier.tritonc", _words(QUALIFIER_NAMES)),
            _rule("storage.type.tritonc", _words(types)),
            _rule("support.function.builtin.tritonc", _words(table.names()) + r"(?=\s*\()"),
            _rule("invalid.illegal.unsupported.tritonc",
                  _words(set(UNSUPPORTED_WORDS) - statements)),
            _rule("entity.name.function.tritonc", r"\b[A-Za-z_]\w*(?=\s*\()"),
        ],
    }


def triton_ir() -> dict[str, Any]:
    """The grammar of .tir files."""
    return {
        "$schema": _SCHEMA,
        "name": "Triton-IR",
        "scopeName": "source.tritonir",
        "fileTypes": ["tir"],
        "patterns": [
            {"name": "comment.line.tritonir", "begin": "//", "end": "$"},
            {"name": "string.quoted.double.tritonir", "begin": '"', "end": '"|$'},
            _rule("variable.other.tritonir", r"%[\w.]+"),
            _rule("constant.numeric.tritonir", r"(?<![\w.%])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b"),
            _rule("keyword.control.tritonir", _words(["kernel", "phi", "br", "cond_br", "ret"])),
            _rule("support.function.operation.tritonir", _words(OPS)),
            _rule("storage.type.tritonir", r"\b(?:[iu]\d+|f(?:16|32|64)|bf16|f8e\w+)\b"),
        ],
    }


FILES = {"triton-c.tmLanguage.json": triton_c, "triton-ir.tmLanguage.json": triton_ir}


def text(name: str) -> str:
    """What the file `name` holds."""
    return json.dumps(FILES[name](), indent=2) + "\n"


def main() -> None:
    for name in FILES:
        (FOLDER / name).write_text(text(name), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
