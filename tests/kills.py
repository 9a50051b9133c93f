"""Kills: the compiler and the tuner end at any moment, and nobody finds half a file.

A process that compiles to several outputs over those of an earlier version, or one that tunes on a
device that is not there, gets a signal: at the n-th line of the code that writes files, or after a
part of the time that it takes.  Then each output must be the earlier one or the new one, the
journal must have what was written to it, no worker may be left, and the same again must succeed.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from command import tritonc
from damage import Input

from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.search import task as tasks
from tritonc.tune.search import tuner
from tritonc.tune.tuning_file import read

sys.path.insert(0, str(Path(__file__).parent / "unit"))
from fake_gpu import FakeGpu, find_fake_gpus

KINDS = ("ptx", "ll", "tir", "manifest", "header")
WRITERS = ("outputs.py", "journal.py")  # where the n-th line counts
LEFT = re.compile(r"\..+\.\d+\.tmp")  # what a process that gets no chance to clean up leaves
SOURCE = """\
//! size: N = 1000
//! range: N
//! arg: x = randn(N)
//! arg: y = randn(N)
//! arg: n = N
//! expect: y = x + 1
//! bench: N = 4096
const tunable int T = {64, 128, 256};
kernel void add(float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""
COMPILE = ("add.tc", f"--emit={','.join(KINDS)}", "-o", "add", "-MD")


def make(seed: int, number: int) -> Input:
    """Who is killed, how, and when."""
    rng = random.Random(f"kill {seed}:{number}")
    row = {"what": rng.choice(("compile", "compile", "tune")),
           "signal": rng.choice(("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT")),
           "line": rng.randrange(1, 300), "moment": rng.random() if rng.random() < 0.4 else None}
    return Input(json.dumps(row).encode(), "tc")


def check(given: Input) -> str:
    """Raises AssertionError where a file is broken."""
    row = json.loads(given.data)
    with _folder():
        return _compile(row) if row["what"] == "compile" else _tune(row)


@contextmanager
def _folder() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("add.tc").write_text(SOURCE)
            yield
        finally:
            os.chdir(before)


def _killed(action: Callable[[], object], row: dict[str, Any], usual: float) -> str:
    """Run the action in a process, which is killed as the row says; how that ended."""
    number = getattr(signal, row["signal"])
    child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if row["moment"] is None:
                sys.settrace(_at_line(row["line"], number))
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if row["moment"] is not None:
        time.sleep(row["moment"] * usual)
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    _all_gone(child)
    assert os.WIFSIGNALED(status) or row["signal"] == "SIGINT" or not os.WEXITSTATUS(status)
    return "killed" if status else "done before"


def _all_gone(group: int) -> None:
    """Raise AssertionError unless the workers of a process that was killed end soon."""
    end = time.monotonic() + 20
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)
        os.killpg(group, signal.SIGKILL)
        raise AssertionError("workers outlive the tuner")


def _at_line(count: int, number: int) -> Any:
    left = count

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        left -= event == "line"
        if not left:
            os.kill(os.getpid(), number)
        return line

    return lambda frame, event, argument: line if os.path.basename(
        frame.f_code.co_filename) in WRITERS else None


def _outputs() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()
            if path.name != "add.tc" and not LEFT.fullmatch(path.name)}


def _newer() -> None:
    Path("add.tc").write_text(SOURCE.replace("+ 1", "+ 2"))


@cache
def _expected() -> tuple[dict[str, bytes], dict[str, bytes], float]:
    """All outputs of the earlier and of the new source, and the seconds of a compilation."""
    with _folder():
        assert tritonc(*COMPILE).code == 0
        old = _outputs()
        _newer()
        started = time.monotonic()
        assert tritonc(*COMPILE).code == 0
        return old, _outputs(), time.monotonic() - started


def _compile(row: dict[str, Any]) -> str:
    old, new, usual = _expected()
    for name, data in old.items():
        Path(name).write_bytes(data)
    _newer()
    how = _killed(lambda: tritonc(*COMPILE), row, 1.2 * usual)
    for name, data in _outputs().items():
        assert data in (old[name], new[name]), f"{name} is broken"
    assert [*_outputs()], "all outputs are gone"
    left = [path.name for path in Path().iterdir() if LEFT.fullmatch(path.name)]
    assert not left or row["signal"] != "SIGINT", f"left behind: {left}"
    done = tritonc(*COMPILE)
    assert done.code == 0 and _outputs() == new, "the next compilation: " + done.err
    return f"compile {how}"


class _Gpu(FakeGpu):
    """Without faults."""

    def check(self, code: Any, size: Any) -> tuple[list[str], float]:
        return [], self.milliseconds(code, size, 1)


def _tuned() -> list[tuner.Choice]:
    site = replace(find_fake_gpus(None, 1, 60.0), open_device=_Gpu)
    asked = tasks.Request(SourceFile("add.tc", SOURCE), Options(), "add.tune.json")
    return tuner.tune(asked, tasks.prepare(asked, site.target, Diagnostics()), site, io.StringIO())


def _tune(row: dict[str, Any]) -> str:
    how = _killed(_tuned, row, 2.5)
    if Path("add.tune.json").exists():
        read("add.tune.json")  # which raises where it is broken
    journal = Path("add.tune.journal")
    rows = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    known = [json.loads(line)["candidate"] for line in rows]
    (choice,) = _tuned()
    assert choice.best == {"T": 128}, choice
    assert [entry.tunables for entry in read("add.tune.json")] == [{"T": 128}]
    again = [json.loads(line)["candidate"] for line in journal.read_bytes().splitlines()]
    assert again[:len(known)] == known, "the journal lost a line"
    return f"tune {how}"
