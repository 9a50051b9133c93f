"""Generated pages agree with the tables that they come from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tritonc.frontend import parser_table
from tritonc.frontend.parser_grammar import construct

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = ["cli.md", "tritonc.1", "diagnostics.md", "passes.md", "ops.md", "language.md",
         "tuning.md", "coming_from.md"]


@pytest.mark.parametrize("name", NAMES)
def test_generated_page(name: str, bless: bool) -> None:
    module = generator()
    assert list(module.PAGES) == NAMES
    text = module.PAGES[name]()
    if bless:
        (DOCS / name).write_text(text, encoding="utf-8", newline="\n")
    assert (DOCS / name).read_text(encoding="utf-8") == text, "make bless rewrites it"


def test_generated_automaton(bless: bool) -> None:
    grammar = (ROOT / "tritonc" / "grammar.lark").read_bytes()
    automaton = construct(grammar.decode())
    stored = ROOT / "tritonc" / "grammar.table"
    if bless:
        stored.write_text(parser_table.write(automaton, grammar), encoding="utf-8", newline="\n")
    parser_table.table.cache_clear()
    text = stored.read_text(encoding="utf-8")
    assert text == parser_table.write(automaton, grammar), "make bless rewrites it"
    assert parser_table.read(text, parser_table.checksum(grammar)) == automaton


def test_an_automaton_of_another_grammar_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: (ROOT / "tritonc" / name).read_bytes()
             for name in ("grammar.lark", "grammar.table")}
    files["grammar.lark"] = files["grammar.lark"].replace(b'"while"', b'"until"')
    monkeypatch.setattr(parser_table, "get_data", lambda package, name: files[name])
    parser_table.table.cache_clear()
    try:
        assert "until" in parser_table.table().spellings
    finally:
        parser_table.table.cache_clear()
