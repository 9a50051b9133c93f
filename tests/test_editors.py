"""The editors' grammars agree with the compiler: its tables, and how it reads the samples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command import tritonc
from modules import load

from tritonc.frontend.lexer import tokenize
from tritonc.frontend.parser_types import PREDECLARED_TYPES, QUALIFIER_NAMES, TYPE_WORDS
from tritonc.sema.builtins import table
from tritonc.source import SourceFile

ROOT = Path(__file__).parent.parent
EDITORS = ROOT / "editors"


def generator() -> ModuleType:
    return load(EDITORS / "generate.py")


@pytest.mark.parametrize("name", ["triton-c.tmLanguage.json", "triton-ir.tmLanguage.json"])
def test_generated_grammar(name: str, bless: bool) -> None:
    path = EDITORS / "vscode" / "syntaxes" / name
    text = generator().text(name)
    if bless:
        path.write_text(text, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == text, "make bless rewrites it"


def test_the_extension_names_files_that_are_there() -> None:
    folder = EDITORS / "vscode"
    contributes = json.loads((folder / "package.json").read_text())["contributes"]
    named = [row["path"] for row in contributes["grammars"]]
    named += [row["configuration"] for row in contributes["languages"]]
    assert named and all((folder / path).is_file() for path in named)
    for path in named:
        json.loads((folder / path).read_text())
    matcher = contributes["problemMatchers"][0]["pattern"]["regexp"]
    assert re.match(matcher, "a b.tc:3:14: error: expected ';'").groups() == (
        "a b.tc", "3", "14", "error", "expected ';'")


def scopes(grammar: dict[str, Any], text: str) -> Iterator[tuple[int, int, str]]:
    """What an editor does: at each place the rule that matches first; begin and end by line."""
    rules = [(rule, re.compile(rule.get("match") or rule["begin"], re.MULTILINE))
             for rule in grammar["patterns"]]
    at = 0
    while at < len(text):
        found = [(match.start(), i, match, rule) for i, (rule, pattern) in enumerate(rules)
                 if (match := pattern.search(text, at))]
        if not found:
            return
        _, _, match, rule = min(found, key=lambda row: row[:2])
        end = match.end()
        if "begin" in rule:
            closing = re.compile(rule["end"], re.MULTILINE).search(text, end)
            end = closing.end() if closing else len(text)
        yield match.start(), end, rule["name"]
        at = max(end, at + 1)


def wanted(kind: str, text: str) -> str | None:
    """The scope that a token of the compiler's lexer should have, if it must have one."""
    if kind == "number":
        return "constant.numeric.tritonc"
    if kind == "string":
        return "string.quoted.double.tritonc"
    if text in TYPE_WORDS or text in PREDECLARED_TYPES:
        return "storage.type.tritonc"
    if text in QUALIFIER_NAMES:
        return "storage.modifier.tritonc"
    if text in ("if", "for", "while", "do", "else", "return", "break", "continue"):
        return "keyword.control.tritonc"
    return None


@pytest.mark.parametrize("path", sorted([*(ROOT / "samples").glob("*.tc"),
                                         *(ROOT / "tests" / "run").glob("*.tc")]),
                         ids=lambda path: path.stem)
def test_an_editor_sees_what_the_compiler_sees(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = {start: (end, scope) for start, end, scope in scopes(generator().triton_c(), text)}
    hidden = [(start, end) for start, (end, scope) in found.items()
              if scope.startswith(("comment", "meta.preprocessor"))]
    for token in tokenize(SourceFile(path.name, text)).tokens:
        start, end = token.span.start, token.span.end
        scope = wanted(token.kind, token.text)
        if scope is None or any(a <= start < b for a, b in hidden):
            continue
        assert found.get(start) == (end, scope), (token.text, text.count("\n", 0, start) + 1)


def test_builtins_are_seen() -> None:
    grammar = generator().triton_c()
    for name in set(table.names()) - set(QUALIFIER_NAMES):
        (_, end, scope), *_ = scopes(grammar, f"{name}(x)")
        assert (end, scope) == (len(name), "support.function.builtin.tritonc")


def test_compiler_explorer(tmp_path: Path) -> None:
    """What it runs for each compiler of the properties: options of its own, ours, the source."""
    text = (ROOT / "editors" / "compiler-explorer" / "c.local.properties").read_text()
    found = dict(line.split("=", 1) for line in text.splitlines() if line and line[0] != "#")
    names = found["group.tritonc.compilers"].split(":")
    assert found["defaultCompiler"] in names
    source, output = tmp_path / "example.c", tmp_path / "output.s"
    source.write_text((ROOT / "samples" / "vector_add.tc").read_text())
    for name in names:
        options = found[f"compiler.{name}.options"].split()
        done = tritonc("-g", "-o", str(output), "-S", *options, str(source))
        assert done.code == 0, done.err
        assert "ld.global" in output.read_text() and ".loc" in output.read_text()
    assert re.match(found["group.tritonc.versionRe"], tritonc("--version").out.strip())
