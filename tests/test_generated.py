"""Generated pages agree with the tables that they come from."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from modules import load

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def generator() -> ModuleType:
    return load(DOCS / "generate.py")


NAMES = ["cli.md", "tritonc.1", "diagnostics.md", "passes.md", "ops.md", "language.md",
         "tuning.md", "coming_from.md", "targets.md"]


@pytest.mark.parametrize("name", NAMES)
def test_generated_page(name: str, bless: bool) -> None:
    module = generator()
    assert list(module.PAGES) == NAMES
    text = module.PAGES[name]()
    if bless:
        (DOCS / name).write_text(text, encoding="utf-8", newline="\n")
    assert (DOCS / name).read_text(encoding="utf-8") == text, "make bless rewrites it"
