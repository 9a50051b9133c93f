"""Triton-IR of the backend that a user changed: the verifier says what does not fit, and where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import tritonc

from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.attributes import KINDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A transpose as insert_barriers leaves it."""
    path = tmp_path_factory.mktemp("late") / "late.tir"
    made = tritonc(str(ROOT / "samples/transpose.tc"), "--arch=sm_80", "--tune=TM=32,TN=32",
                   "--stop-after=insert_barriers", "-o", str(path))
    assert made.code == 0, made.err
    return path.read_text()


def layout_of(text: str, shape: str) -> str:
    """The name of a layout of some shape."""
    found = re.search(rf"^(#l\d+) = #layout<shape=\[{shape}\]", text, re.MULTILINE)
    assert found, text
    return found[1]


def compiled(text: str, tmp_path: Path) -> str:
    path = tmp_path / "x.tir"
    path.write_text(text)
    done = tritonc(str(path), "--arch=sm_80", "--start-after=insert_barriers", "-o",
                   str(tmp_path / "x.ptx"))
    assert done.code in (0, 1), done.err
    return done.err


def test_what_is_right_compiles(late: str, tmp_path: Path) -> None:
    assert compiled(late, tmp_path) == ""


@pytest.mark.parametrize("pattern, new, message", [
    (r"(shared_load .*: f32<32, 32; )#l\d+>", r"\g<1>LINE>", "a layout of the shape [32, 32]"),
    (r"( = load .*\{[^}]*vector = )\d+", r"\g<1>splat", "'vector' of 'load' cannot be 'splat'"),
    (r"( = load .*\{[^}]*vector = )\d+", r"\g<1>3", "'vector' of 'load' cannot be 3"),
    (r"( = load .*vector_axis = )\d+", r"\g<1>2", "'vector' of 'load' cannot be"),
    (r"( = load .*), vector_axis = \d+", r"\g<1>", "'vector' of 'load' cannot be"),
    (r"(alloc_shared \{[^}]*offset = )\d+", r"\g<1>splat", "'offset' of 'alloc_shared' cannot be"),
    (r"( = reshape .*: \w+\*?<[^;]*; )(#l\d+)>", r"\g<1>OTHER>", ", found #layout"),
])
def test_what_does_not_fit(pattern: str, new: str, message: str, late: str, tmp_path: Path) -> None:
    found = re.search(pattern, late)
    assert found, late
    line = late.count("\n", 0, found.start()) + 1
    text = found[0]
    changed = re.sub(pattern, new, text)
    if "LINE" in changed:
        changed = changed.replace("LINE", layout_of(late, "32"))
    if "OTHER" in changed:  # of the right shape, with the registers in the opposite order
        name = found[2]
        pattern = rf"^{name} = (#layout<.*, register=\[)([\d,]*)(\].*)$"
        whole = re.search(pattern, late, re.MULTILINE)
        assert whole
        registers = ",".join(whole[2].split(",")[::-1])
        changed = changed.replace("OTHER", "#other")
        late = f"#other = {whole[1]}{registers}{whole[3]}\n{late}"
        line += 1
    said = compiled(late.replace(text, changed, 1), tmp_path)
    assert message in said and re.search(rf"x\.tir:{line}:\d+: error: ", said), said


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sums of rows as insert_barriers leaves them: reductions, and what broadcasts them."""
    path = tmp_path_factory.mktemp("rows") / "rows.tir"
    made = tritonc(str(ROOT / "samples/softmax.tc"), "--arch=sm_80", "--tune=TM=8,TN=64",
                   "--stop-after=insert_barriers", "-o", str(path))
    assert made.code == 0, made.err
    return path.read_text()


@pytest.mark.parametrize("op, message", [("reduce", "does not lie in"),
                                         ("broadcast", "threads hold other elements")])
def test_threads_hold_what_moves_between_registers_alone(op: str, message: str, rows: str,
                                                         tmp_path: Path) -> None:
    """The operation's layout has a register and a lane change places."""
    found = next(m for m in re.finditer(rf" = {op} .*: \w+\*?<[^;]*; (#l\d+)>", rows))
    whole = re.search(rf"^{found[1]} = (#layout<.*register=\[)([\d,]*)(\], lane=\[)([\d,]*)(\].*)$",
                      rows, re.MULTILINE)
    assert whole
    register, lane = whole[2].split(","), whole[4].split(",")
    other = whole[1] + ",".join([*register[:-1], lane[0]]) + whole[3] + ",".join(
        [register[-1], *lane[1:]]) + whole[5]
    changed = rows.replace(found[0], found[0].replace(found[1], "#other"), 1)
    said = compiled(f"#other = {other}\n{changed}", tmp_path)
    assert message in said, said


def test_every_attribute_has_a_kind_or_a_rule() -> None:
    special = {"extent", "function", "n", "number", "order", "other", "predicate", "scope", "start",
               "stop", "value"}
    names = {name for row in ALL_OPS.values() for name in (*row.attributes, *row.optional)}
    assert names - special - set(KINDS) == set() and set(KINDS) <= names


def test_the_interpreter_runs_no_operations_of_the_backend(rows: str, tmp_path: Path) -> None:
    lines = [line for line in (ROOT / "samples/softmax.tc").read_text().split("\n")
             if line.startswith("//!")]
    path = tmp_path / "x.tir"
    path.write_text("\n".join(lines) + "\n" + re.sub("^//!.*\n", "", rows, flags=re.MULTILINE))
    done = tritonc("run", str(path))
    assert done.code == 1 and "is an operation of the backend" in done.err, done.err
