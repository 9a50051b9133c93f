"""Generated pages agree with the tables that they come from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
