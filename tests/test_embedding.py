"""docs/embedding.md: its files are written, its commands run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from host_tools import INCLUDE, ROOT, environment, need, write_program
from test_readme import matches

_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("cc", "c++", "make", "cmake")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    write_program(folder)
    variables = environment(CPATH=str(INCLUDE))
    variables["PATH"] = f"{folder}:{variables['PATH']}"
    commands = 0
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    for _, name, text in _BLOCK.findall(page):
        if name:
            Path(name).write_text(text)
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            done = subprocess.run(command, shell=True, env=variables, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            quiet = command.startswith("cmake")  # says what differs between machines
            assert quiet or matches(shown, done.stdout), f"$ {command}\n{done.stdout}"
            commands += 1
    assert commands == page.count("\n$ ") == 14
