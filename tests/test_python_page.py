"""docs/python.md: its blocks are run, in their order; and examples/python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(python(?: gpu)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AXPY = re.compile(r'"""\n(const tunable.*?)"""', re.DOTALL)


def run(directory: Path, kinds: set[str]) -> int:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    axpy = AXPY.search(page)
    assert axpy is not None
    (directory / "axpy.tc").write_text(axpy[1])
    names: dict[str, Any] = {}
    count = 0
    for kind, text in _BLOCK.findall(page):
        if kind in kinds:
            exec(compile(text, f"docs/python.md:{text.splitlines()[0]}", "exec"), names)
            count += 1
    return count


def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, {"python"}) == 4


@pytest.mark.gpu
def test_blocks_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, {"python", "python gpu"}) == 7


@pytest.mark.gpu
@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "python").glob("*.py")),
                         ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith(": ok\n"), done.stdout + done.stderr
