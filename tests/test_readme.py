"""What README.md, the tutorial and the page on debugging show is what happens."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command import tritonc

from tritonc import __version__

ROOT = Path(__file__).parent.parent
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
DEBUGGING = ROOT / "docs" / "debugging.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def matches(shown: str, output: str) -> bool:
    """`...` in what is shown stands for any text."""
    parts = [re.escape(part) for part in shown.rstrip("\n").split("...")]
    return re.fullmatch(".*".join(parts) + r"\s*", output, re.DOTALL) is not None


@pytest.mark.parametrize("page", [README, TUTORIAL, DEBUGGING], ids=lambda page: page.stem)
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = 0
    for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in ("c", "text"):
            Path(text.split("\n")[0].lstrip("/# ")).write_text(text, encoding="utf-8")
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            words = shlex.split(command, comments=True)
            if words[0] == "make":
                makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
                assert f"\n{words[1]}: " in makefile
                continue
            assert words[0] == "tritonc"
            done = tritonc(*words[1:])
            assert matches(shown, done.out + done.err), f"$ {command}\n{done.out}{done.err}"
            commands += 1
    assert commands >= 2


def test_matching() -> None:
    assert matches("a\n...\nb ... c\n", "a\nx\ny\nb 1 c\n") and not matches("a\n", "a\nb\n")


def test_the_version_is_the_same_everywhere() -> None:
    version = __version__
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    package = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text())
    assert package["version"] == version
