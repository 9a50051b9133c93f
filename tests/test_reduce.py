"""Reduction: seeded faults shrink to a few lines, and the commands `reduce` and `bug`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

import faults
import pytest
from command import tritonc

from tritonc.options import Options
from tritonc.reduce.command import Command
from tritonc.reduce.reducer import reduce_file, reduce_text

ROOT = Path(__file__).parent.parent
FEW = ("drops_atomics", "fails_on_scans")  # what the short form reduces: one wrong, one failing
PROGRAM = """\
// A comment.
#define TWO 2
#include "helper.h"
//! size: N = 100
//! range: N
//! arg: x = zeros(N)
//! arg: n = N
//! expect: x = x + 2
const tunable int TM = {16, 32};
float unused(float a) { return a; }
kernel void f(float* x, int n) {
  int r[TM] = get_global_range[TM](0);
  if (n > 5) {
    for (int i = 0; i < 4; i++)
      n += helped(i, 3);
  }
  @(r < n) *(x + r) += TWO * exp(*(x + r));
}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("p.tc").write_text(PROGRAM)
    Path("helper.h").write_text("int helped(int a, int b) { return a * b; }\n")


def lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


@pytest.mark.parametrize("name", faults.FAULTS)
def test_faults_reduce_to_a_few_lines(name: str, request: pytest.FixtureRequest) -> None:
    if name not in FEW and not request.config.getoption("--thorough"):
        pytest.skip("needs --thorough")
    path = ROOT / faults.FAULTS[name].program
    text = path.read_text(encoding="utf-8")
    assert not faults.shows(text, 20)

    def judge(texts: Sequence[str]) -> int | None:
        return next((i for i, text in enumerate(texts) if faults.shows(text)), None)

    with faults.installed(name):
        started = time.process_time()
        assert faults.shows(text, 20)
        found = reduce_text(text, str(path), "tc", Options(), judge).text
        assert faults.shows(found)
    assert lines(found) < 15, found
    assert time.process_time() - started < 60


def test_there_are_twenty_faults() -> None:
    assert len(faults.FAULTS) >= 20


def test_a_command_judges() -> None:
    done = tritonc("reduce", "p.tc", "-j2", "--", "sh", "-c",
                   'grep -q exp {} && grep -q "^kernel" {} && exit 5 || exit 1')
    assert done.code == 0, done.err
    assert "exit status 5" in done.err
    reduced = Path("p.reduced.tc").read_text()
    assert "exp" in reduced and lines(reduced) <= 3


def test_what_is_printed_must_match() -> None:
    command = ["sh", "-c", "cat {}; exit 4"]
    done = tritonc("reduce", "p.tc", "-o", "out.tc", "--matching=n > [5]", "--", *command)
    assert done.code == 0, done.err
    assert Path("out.tc").read_text().split() == ["n", ">", "5"]
    done = tritonc("reduce", "p.tc", "--matching=no such text", "--", *command)
    assert done.code == 1 and "has no match of --matching" in done.err


def test_text_that_cannot_be_parsed() -> None:
    Path("b.tc").write_text(PROGRAM.replace("if (n > 5)", "if (n > 5))"))
    done = tritonc("reduce", "b.tc", "--", "grep", "-q", "n > 5))")
    assert done.code == 0, done.err
    assert Path("b.reduced.tc").read_text().split() == ["n", ">", "5))"]


def test_triton_ir(thorough: bool) -> None:
    source = str(ROOT / "samples/softmax.tc") if thorough else "p.tc"
    made = tritonc(source, "--stop-after=lower", "-o", "s.tir")
    assert made.code == 0, made.err

    def judge(texts: Sequence[str]) -> int | None:
        for i, text in enumerate(texts):
            Path("try.tir").write_text(text)
            if " exp " in text and tritonc("try.tir", "-fsyntax-only").code == 0:
                return i
        return None

    found = reduce_text(Path("s.tir").read_text(), "s.tir", "tir", Options(), judge).text
    assert lines(found) <= 6, found


@pytest.mark.parametrize("words, code, message", [
    (["reduce", "p.tc"], 2, "expected a file and a command"),
    (["reduce", "none.tc", "true"], 1, "cannot read 'none.tc'"),
    (["reduce", "p.tc", "no-such-program"], 1, "cannot run 'no-such-program'"),
    (["reduce", "p.tc", "--timeout=0.1", "--", "sh", "-c", "sleep 9"], 1, "takes longer than 0.1"),
    (["reduce", "p.tc", "--timeout=x", "--", "true"], 2, "--timeout takes a number of seconds"),
    (["reduce", "p.tc", "--matching=(", "--", "true"], 2, "not a regular expression"),
    (["reduce", "p.tc", "-o", "p.tc", "--", "true"], 2, "is the source itself"),
    (["reduce", "p.tc", "-o", "none/p.tc", "--", "true"], 1, "cannot write 'none/p.tc'"),
    (["bug"], 2, "no input file"),
    (["bug", "none.tc"], 1, "cannot read 'none.tc'"),
])
def test_mistakes(words: list[str], code: int, message: str) -> None:
    done = tritonc(*words)
    assert (done.code, message in done.err) == (code, True), done.err


def test_an_interruption_keeps_the_smallest() -> None:
    """The command waits as soon as something smaller is there, so that the interruption comes
    before the end however fast the machine is."""
    output, whole = Path("p.reduced.tc").absolute(), len(Path("p.tc").read_text())
    script = f"[ $(wc -c < {output} || echo {whole}) -lt {whole} ] && sleep 60; grep -q exp {{}}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tritonc", "reduce", "p.tc", "--", "sh", "-c", script],
        stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and not (output.exists() and len(output.read_text()) < whole):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "p.reduced.tc has the smallest so far" in err
    assert "exp" in output.read_text() and len(output.read_text()) < whole


def test_the_whole_process_group_ends() -> None:
    command = Command(["sh", "-c", "sleep 60 & echo $! > child; wait"], "p.tc", 1.0)
    assert command.answer("x").code is None
    command.close()
    child = int(Path("child").read_text())
    end = time.monotonic() + 10
    while time.monotonic() < end:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True,
                               text=True, check=False).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("a child of the command lives on")


def members(path: str) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for name in archive.getnames():
            file = archive.extractfile(name)
            assert file is not None
            found[name.partition("/")[2]] = file.read().decode()
    return found


def test_the_archive_of_a_bug() -> None:
    done = tritonc("bug", "p.tc", "--arch=sm_80", "-DMORE=1", "--tune=TM=16")
    assert done.code == 0, done.err
    found = members("p.bug.tar.gz")
    assert {*found} == {"p.tc", "p.i", "versions.txt", "options.json", "outcome.txt"}
    assert found["p.tc"] == PROGRAM and "int helped" in found["p.i"]
    assert "tritonc " in found["versions.txt"] and "Python" in found["versions.txt"]
    assert json.loads(found["options.json"])["arch"] == "sm_80"
    assert "--arch=sm_80" in found["outcome.txt"] and "--define=MORE=1" in found["outcome.txt"]
    assert "run without and with passes: exit status 1, 1" in done.out


@pytest.mark.parametrize("whole", [False, True])
def test_the_archive_of_a_failing_pass(whole: bool, monkeypatch: pytest.MonkeyPatch, thorough: bool
                                       ) -> None:
    """A pass that fails, in the processes that `bug` starts, too."""
    if whole and not thorough:
        pytest.skip("needs --thorough")
    Path("sitecustomize.py").write_text(
        "from tritonc import passes\n"
        "def dce(kernel, context):\n"
        "    if any(op.name == 'exp' for op in kernel.ops()): raise KeyError('exp')\n"
        "    return False\n"
        "passes.OPT = [row._replace(function=dce) if row.name == 'dce' else row"
        " for row in passes.OPT]\n")
    monkeypatch.setenv("PYTHONPATH", f"{os.getcwd()}{os.pathsep}{ROOT}")
    if not whole:
        Path("p.tc").write_text("float unused(float a) { return a; }\n"
                                "kernel void f(float* x, int n) {\n"
                                "  int r[16] = 0 ... 16;\n"
                                "  @(r < n) *(x + r) = exp(*(x + r));\n}\n")
    done = subprocess.run([sys.executable, "-m", "tritonc", "bug", "p.tc", "-o", "it.tar.gz",
                           "--reduce"], capture_output=True, text=True, check=True)
    found = members("it.tar.gz")
    assert "internal error in pass 'dce' of kernel 'f': KeyError" in done.stdout
    assert "*** before dce, kernel f ***" in found["before_pass.txt"]
    assert "Traceback" in found["outcome.txt"]
    reduced = found["p.reduced.tc"]
    assert "exp" in reduced and "unused" not in reduced and lines(reduced) < 8


def test_reduce_file_writes_each_improvement() -> None:
    command = Command(["grep", "-q", "exp"], "p.tc", 10)
    said: list[str] = []
    found = reduce_file("p.tc", "tc", Options(), command, "o.tc", 1, said.append)
    command.close()
    assert Path("o.tc").read_text() == found.text and said[0].startswith("exit status 0")
