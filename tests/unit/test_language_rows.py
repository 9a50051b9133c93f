"""Every row of every table of docs/language.md, and every production, has a program in tests/run.

Tables that derive from the compiler's own name types, qualifiers, macros and functions: each name
must occur in a program.  In the tables written by hand a row is claimed by a comment line of a
program, with the row's first cell, which has to have the operators and words of that cell:

    // row: `p + i` `i + p` `p - i`
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from programs import PROGRAMS, Setting

from tritonc.frontend.grammar import grammar
from tritonc.frontend.parser import parse
from tritonc.frontend.parser_types import PREDECLARED_TYPES, QUALIFIER_NAMES
from tritonc.lalr import Parse
from tritonc.launch.run_problems import read_problems, with_defines
from tritonc.options import Options
from tritonc.sema.builtins import table
from tritonc.source import Diagnostics
from tritonc.stages import preprocess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "language.md"
_CLAIM = re.compile(r"^// row: (.*?)\s*$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|'[^']*'|\.\.\.|[<>]{2}=?|[-+*/%&|^=!<>]=|&&|\|\||"
                    r"\+\+|--|\S")
_WORDS = {"for", "while", "do", "if", "else", "break", "continue", "return", "typedef", "void", "x",
          "static_assert", "newaxis", "true", "false", "INFINITY", "NAN", "bitcast", "calloc",
          "define", "undef", "include", "ifdef", "ifndef", "elif", "endif", "line", "error",
          "warning", "pragma", "float", "int", "char", "double", "half", "tf32", "max", "min",
          *PREDECLARED_TYPES, *QUALIFIER_NAMES, *table.names()} - {"x"}  # fmt: skip
_LOOSE = {"..."}  # and so on


class Row(NamedTuple):
    table: str  # its header
    cell: str  # the first
    others: tuple[str, ...]
    generated: bool


def rows() -> list[Row]:
    found: list[Row] = []
    header, generated, before = "", False, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|")
                     for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not before.startswith("|"):
                header, generated = " | ".join(cells), before.startswith("<!-- table")
            elif set(line) - set("|- "):
                found.append(Row(header, cells[0], tuple(cells[1:]), generated))
        before = line
    return found


@cache
def programs() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8")
            for path in sorted((ROOT / "tests" / "run").rglob("*.tc"))}


@cache
def tokens(name: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(re.sub(r"//.*|/\*.*?\*/", "", programs()[name])))


WRITTEN = [row for row in rows() if not row.generated]
GENERATED = [row for row in rows() if row.generated]


def test_tables_are_read() -> None:
    assert len(WRITTEN) > 50 and len(GENERATED) > 90
    assert len({row.table for row in WRITTEN}) == 11


@pytest.mark.parametrize("row", GENERATED, ids=lambda row: row.cell[:30])
def test_names_occur(row: Row) -> None:
    for text in _CODE.findall(" ".join((row.cell, row.others[-1] if "other" in row.table else ""))):
        words = re.match(r"[\w ]+", text)
        assert words is not None
        wanted = words[0].strip()
        assert any(re.search(rf"(?<!\w){wanted}(?!\w)", re.sub(r"//.*", "", program))
                   for program in programs().values()), f"no program in tests/run has {wanted}"


@pytest.mark.parametrize("row", WRITTEN, ids=lambda row: row.cell[:30])
def test_rows_are_claimed(row: Row) -> None:
    claiming = [name for name, text in programs().items() if row.cell in _CLAIM.findall(text)]
    assert claiming, f"no program in tests/run has the line `// row: {row.cell}`"
    wanted = {token for code in _CODE.findall(row.cell) for token in _TOKEN.findall(code)
              if token in _WORDS or not re.match(r"[\w'\"]", token)} - _LOOSE
    have = frozenset().union(*map(tokens, claiming))
    assert wanted <= have, f"{claiming} lack {wanted - have}"


def test_claims_name_rows() -> None:
    known = {row.cell for row in WRITTEN}
    for name, text in programs().items():
        assert set(_CLAIM.findall(text)) <= known, name


# Productions that are there for their messages.
_FOR_MESSAGES = re.compile(r".*(_ERROR|error_|slice|listed_value|no_extents)")


def test_every_production_is_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(rule: Any) -> tuple[int, str, str]:
        parts = [part for part in rule.expansion if not part.name.startswith("__")]
        return len(parts), rule.origin.name, rule.alias or ""

    rules = [*grammar().builds]
    wanted = {kind(rule) for rule in rules if not rule.origin.name.startswith("__")
              and not _FOR_MESSAGES.match(f"{rule} {rule.alias}")}
    seen: set[Any] = set()
    start = Parse.__init__

    def watched(self: Parse, *arguments: Any) -> None:
        start(self, *arguments)

        def watch(rule: Any, build: Any) -> Any:
            def built(parts: list[Any]) -> Any:
                seen.add(kind(rule))
                return build(parts)

            return built

        for rule in rules:
            self.callbacks[rule] = watch(rule, self.callbacks[rule])

    monkeypatch.setattr(Parse, "__init__", watched)
    for path in PROGRAMS:
        source = Setting(path).source
        problems = read_problems(source, Options(), "tc", Diagnostics())
        options = [with_defines(problem, Options()) for problem in problems]
        for own in {one.defines: one for one in options}.values():
            if not wanted <= seen:
                parse(preprocess(source, own, Diagnostics()).tokens, Diagnostics())
    assert wanted <= seen, f"no program in tests/run has {wanted - seen}"
