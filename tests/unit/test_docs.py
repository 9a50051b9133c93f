"""The blocks of docs/language.md and docs/ir.md are run: programs, messages, Triton-IR."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from command import tritonc

from tritonc import driver
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.sema.builtins.table import BUILTINS
from tritonc.source import CompileError, Diagnostics, SourceFile

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXPECTED = re.compile(r"//\s*(error|warning):\s*(.*?)\s*$")
KINDS = {"language.md": {"tritonc", "tritonc-error"}, "ir.md": {"tir", "tir-error"}}


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    text: str

    @property
    def source(self) -> SourceFile:
        return SourceFile(f"{self.page}:{self.line}", self.text)


def blocks() -> list[Block]:
    found = []
    for page in KINDS:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match[1], match[2]))
    return found


BLOCKS = blocks()


def of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


def name(block: Block) -> str:
    return f"{block.page}:{block.line}"


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    for block in BLOCKS:
        assert block.kind in KINDS[block.page], name(block)
    assert len(of_kind("tritonc")) >= 20 and len(of_kind("tir")) >= 4


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("block", of_kind("tritonc"), ids=name)
def test_program(block: Block, level: int) -> None:
    outcomes = list(run_problems(block.source, Options(opt_level=level), "tc", Diagnostics()))
    assert outcomes
    for outcome in outcomes:
        assert outcome.ok, outcome.line()
        assert outcome.diagnostics == ()


@pytest.mark.parametrize("block", [*of_kind("tritonc-error"), *of_kind("tir-error")], ids=name)
def test_messages(block: Block, tmp_path: Path) -> None:
    """Each at its line, and no others."""
    path = tmp_path / ("x.tir" if block.kind == "tir-error" else "x.tc")
    path.write_text(block.text, encoding="utf-8")
    done = tritonc("-fsyntax-only", str(path))
    seen = [(int(line), kind, text) for line, kind, text in re.findall(
        rf"^{re.escape(str(path))}:(\d+):\d+: (error|warning): (.*)$", done.err, re.MULTILINE)]
    for number, line in enumerate(block.text.split("\n"), 1):
        found = _EXPECTED.search(line)
        for text in found[2].split(";;") if found else ():
            text = text.strip()
            match = next((m for m in seen if m[0] == number and text in m[2]), None)
            assert match is not None, f"{number}: {text}\n{done.err}"
            seen.remove(match)
    assert seen == []


@pytest.mark.parametrize("block", of_kind("tir"), ids=name)
def test_ir(block: Block) -> None:
    """It reads, prints as it is but for comments, and computes what it says, if it does."""
    options = Options(stop_after=driver.LOWER)
    result = driver.compile(block.source, options, ("tir",), language="tir")
    plain = re.sub(r"[ \t]*//.*", "", block.text)
    assert result.outputs["tir"].split() == plain.split()
    if "//!" in block.text:
        for outcome in run_problems(block.source, Options(), "tir", Diagnostics()):
            assert outcome.ok, outcome.line()


def test_every_builtin_is_used_by_a_program() -> None:
    programs = [block.text for block in of_kind("tritonc")]
    programs += [path.read_text(encoding="utf-8") for folder in ("samples", "tests/run")
                 for path in sorted((ROOT / folder).rglob("*.tc"))]
    called = set(re.findall(r"\b(\w+)(?:\[[^\]]*\]|\([^()]*\))?\(", "\n".join(programs)))
    assert [row.name for row in BUILTINS if not called & {row.name, *row.spellings}] == []


def test_a_wrong_block_would_be_found() -> None:
    wrong = of_kind("tritonc")[0].text.replace("a + b", "a - b")
    outcomes = list(run_problems(SourceFile("x", wrong), Options(), "tc", Diagnostics()))
    assert not any(outcome.ok for outcome in outcomes)
    with pytest.raises(CompileError):
        list(run_problems(SourceFile("x", wrong.replace("z + r", "q")), Options(), "tc",
                          Diagnostics()))


def test_the_tests_that_a_page_names_exist() -> None:
    text = (ROOT / "docs" / "notes" / "trust.md").read_text(encoding="utf-8")
    path = ROOT
    found = 0
    for place, name in re.findall(r"`(tests/[\w/.*]+)?(?:::)?(test_\w+)?`", text):
        path = ROOT / place if place else path
        assert place == "" or place.endswith("*.py") or path.exists(), place
        assert not name or f"def {name}(" in path.read_text(encoding="utf-8"), name
        found += bool(name)
    assert found > 12
