"""Damaged programs: nothing but located diagnostics comes of them.

    python tests/campaign.py sources --hours 1

Every source of the tree (samples, tests, the blocks of docs, Triton-IR of the samples) is damaged
by deleting, swapping, doubling and replacing tokens, cutting, random bytes, and splicing with
another.  Each input goes through the front end; of those that still compile, a part goes on through
all passes and LLVM, a part is printed and read again, and a part goes through the command line.
What must hold:

  - no exception but CompileError, the process does not end, nothing takes longer than the limit or
    more memory
  - every error names a diagnostic of the table, has a place inside of its file, and can be shown
  - where there is an error no output file is left, nor one of an earlier run

Inputs depend on the seed and their number alone.  They run in a child process, so that an end of
the process (LLVM aborts where it finds a bug) is found, too.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

from damage import Input, damaged  # noqa: E402
from llvmlite import binding as llvm  # noqa: E402

from tritonc import driver, stages  # noqa: E402
from tritonc.diagnostics import DIAGNOSTICS  # noqa: E402
from tritonc.frontend.preprocess.options import load_source  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.render import render, render_json  # noqa: E402
from tritonc.source import CompileError, Diagnostic, SourceFile  # noqa: E402

LIMIT = 10  # seconds of computing that an input may take, and one more for each 8 kB of it
MEMORY = 4 << 30  # bytes of addresses that the process may have
_BLOCK = re.compile(r"^```tritonc\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Diagnostics about the command line or the whole input may have no place.
_PLACELESS = {"unknown-tunable", "problem-name"}


class Hang(BaseException):
    """An input took longer than the limit.  No Exception, so that nothing takes it for a bug."""


class Wrong(Exception):
    """Something does not hold that must."""


def corpus() -> list[Input]:
    """Every source of the tree, in a fixed order, and the Triton-IR of some."""
    folders = ("samples", "tests/run", "tests/lit")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.t*"))
             if path.suffix in (".tc", ".tir")]
    found = [Input(path.read_bytes(), path.suffix[1:]) for path in paths]
    for page in sorted((ROOT / "docs").glob("*.md")):
        blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
        found += [Input(block.encode(), "tc") for block in blocks]
    for name in ("vector_add", "softmax", "matmul"):
        text = (ROOT / "samples" / f"{name}.tc").read_text(encoding="utf-8")
        for stop in (driver.LOWER, "hoist_addresses", "assign_layouts", "insert_barriers"):
            options = Options(stop_after=stop, arch="sm_80")
            result = driver.compile(SourceFile(name, text), options, ("tir",))
            found.append(Input(result.outputs["tir"].encode(), "tir"))
    return found


# --- one input ------------------------------------------------------------------------------------


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Hang in what computes for longer; a machine that is busy does not count.  The parent
    sees what waits."""
    def expired(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename == weakref.__file__:
            signal.setitimer(signal.ITIMER_PROF, 0.001)  # what a callback raises is lost
        else:
            raise Hang

    before = signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check(given: Input, rng: random.Random, backend: float = 0.15) -> str:
    """Compile an input.  Gives how far it came: "error", "front", "tir", "ptx", or "cli".

    `backend` is the part that goes beyond the front end.  Raises Wrong, Hang, or what the compiler
    raises by mistake.
    """
    options = Options(stop_after=driver.LOWER, arch=rng.choice(("sm_75", "sm_80", "sm_90a")),
                      tune=_bindings(given, rng))
    chance = rng.random()
    if chance < 0.01:
        _command_line(given, options)
        return "cli"
    try:
        diagnostics = stages.new_diagnostics(options)
        source = load_source("input", diagnostics, read_file=lambda path: given.data)
        diagnostics.raise_if_errors()
        assert source is not None
        result = driver.compile(source, options, ("tir",), language=given.language,
                                diagnostics=diagnostics)
        if chance > 1 - backend and b"#layout" not in given.data:  # the backend makes those
            rest = Options(arch=options.arch, tune=options.tune, verify_each=chance > 0.99,
                           opt_level=rng.choice((0, 1, 2, 2, 2, 3)))
            result = driver.compile(source, rest, ("ll", "ptx"), language=given.language)
            llvm.parse_assembly(result.outputs["ll"]).verify()  # which a compilation does without
            _written(result)
            return "ptx"
        if chance > 1 - 2 * backend:
            _check_round_trip(result.outputs["tir"])
            return "tir"
        _located(result.diagnostics, errors=False)
    except CompileError as error:
        _located(error.diagnostics, errors=True)
        return "error"
    return "front"


def _bindings(given: Input, rng: random.Random) -> dict[str, int]:
    """Values of the tunables, so that the cost model need not be asked for each input."""
    if rng.random() < 0.1:
        return {}
    found = re.findall(rb"\btunable\s+int\s+([A-Za-z_]\w*)\s*=\s*\{\s*(\d{1,4})\b", given.data)
    return {name.decode(): int(value) for name, value in found}


def _located(diagnostics: tuple[Diagnostic, ...], errors: bool) -> None:
    """Raise Wrong unless all diagnostics are as they should be."""
    if errors != any(item.severity == "error" for item in diagnostics):
        raise Wrong("an error without a message" if errors else "success with an error")
    for item in diagnostics:
        if item.name not in DIAGNOSTICS or not item.message:
            raise Wrong(f"no such diagnostic: {item}")
        if item.span is None:
            if item.name not in _PLACELESS:
                raise Wrong(f"without a place: {item.name}")
            continue
        for span in (item.span, *(note.span for note in item.notes if note.span)):
            if not 0 <= span.start <= span.end <= len(span.file.text):
                raise Wrong(f"a place outside of the file: {item.name}")
    for text in (render(diagnostics, color=True), render_json(diagnostics)):
        if not text.endswith("\n") and diagnostics:
            raise Wrong("a message without an end of line")


def _written(result: driver.Result) -> None:
    if ".entry" not in result.outputs["ptx"]:
        raise Wrong("PTX without an entry")
    _located(result.diagnostics, errors=False)


def _check_round_trip(text: str) -> None:
    """Triton-IR that was printed reads back as the same."""
    again = driver.compile(SourceFile("again", text), Options(stop_after=driver.LOWER), ("tir",),
                           language="tir")
    if again.outputs["tir"] != text:
        raise Wrong("Triton-IR reads back as another")


def _command_line(given: Input, options: Options) -> None:
    """The same from a file to a file: exit code 0 and an output, or 1 and none."""
    from command import tritonc  # beside this file

    with tempfile.TemporaryDirectory() as folder:
        source, output = f"{folder}/a.{given.language}", f"{folder}/out.tir"
        Path(source).write_bytes(given.data)
        if given.data.count(b"(") % 2:
            Path(output).write_text("of an earlier run")
        done = tritonc(source, "-o", output, f"--arch={options.arch}")
        if done.code not in (0, 1) or "Traceback" in done.err:
            raise Wrong(f"exit code {done.code}: {done.err}")
        made = os.path.exists(output)
        if made != (done.code == 0):
            raise Wrong(f"exit code {done.code}, {'an' if made else 'no'} output")
        if done.code == 1 and ": error: " not in done.err:
            raise Wrong(f"no message: {done.err}")
        if len(os.listdir(folder)) != 1 + made:
            raise Wrong(f"files left over: {os.listdir(folder)}")


def try_input(given: Input, rng: random.Random, backend: float = 0.15,
              limit: float = LIMIT) -> tuple[str, str | None]:
    """How far an input came, and what went wrong: one line that says what, then details."""
    try:
        with time_limit(limit + len(given.data) / 8_000):
            return check(given, rng, backend), None
    except Hang:
        return "failed", "takes longer than the limit" + _place(sys.exc_info()[2])
    except Wrong as error:
        return "failed", str(error)
    except Exception as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        text = "".join(traceback.format_exception(root))
        return "failed", f"{type(root).__name__}{_place(root.__traceback__)}\n{text}"


def _place(trace: Any) -> str:
    frames = traceback.extract_tb(trace)
    inside = [f for f in frames if "tritonc" in f.filename]
    at = (inside or list(frames))[-1:]
    return "".join(f" at {Path(f.filename).name}:{f.lineno}" for f in at)


# --- many inputs ----------------------------------------------------------------------------------


@dataclass
class Report:
    """What became of many inputs."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, list[int]] = field(default_factory=dict)  # what, the numbers of inputs

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, number: int, outcome: str, failure: str | None) -> bool:
        """Whether this failure is new."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if failure is None:
            return False
        what = failure.split("\n")[0][:200]
        self.failures.setdefault(what, []).append(number)
        return len(self.failures[what]) == 1

    def text(self) -> str:
        parts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        lines = [f"{self.total} inputs: {parts}"]
        lines += [f"  {len(numbers)} times: {what} (inputs {', '.join(map(str, numbers[:5]))})"
                  for what, numbers in self.failures.items()]
        return "\n".join(lines)


def _generator(seed: int, number: int) -> random.Random:
    return random.Random(f"check {seed}:{number}")


Attempt = Callable[[int], tuple[str, "str | None"]]  # of a number: how far it came, what is wrong


def _work(attempt: Attempt, numbers: range, memory: int, channel: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    gc.freeze()  # modules and sources; looking through them takes a fifth of the time
    gc.set_threshold(1_000_000)
    collected = time.monotonic()
    for number in numbers:
        channel.send(attempt(number))
        if time.monotonic() > collected + 1:
            gc.collect()
            collected = time.monotonic()
    channel.close()


def _child(attempt: Attempt, numbers: range, memory: int, end: float
           ) -> Iterator[tuple[int, str, str | None]]:
    """Try inputs in a process of its own.  Stops where it ends, hangs, or the time is over."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(attempt, numbers, memory, theirs))
    child.start()
    theirs.close()
    try:
        for number in numbers:
            left = end - time.monotonic()
            if left <= 0:
                return
            if not ours.poll(min(9 * LIMIT, left)):
                if left > 9 * LIMIT:
                    yield number, "failed", "takes longer than the limit, inside of a library"
                return
            try:
                outcome, failure = ours.recv()
            except EOFError:
                child.join()
                yield number, "failed", f"the process ended with code {child.exitcode}"
                return
            yield number, outcome, failure
    finally:
        child.kill()
        child.join()
        ours.close()


def tried(attempt: Attempt, numbers: range, *, seconds: float = 1e9, memory: int = MEMORY,
          tell: Callable[[str], None] | None = None,
          found: Callable[[int, str], None] | None = None) -> Report:
    """What becomes of the numbers, for so many seconds at most; `found` is told of each cause of
    failures once."""
    report, told = Report(), time.monotonic()
    end = told + seconds
    while numbers and time.monotonic() < end:
        for number, outcome, failure in _child(attempt, numbers, memory, end):
            numbers = numbers[1:]
            if report.add(number, outcome, failure):
                if tell:
                    tell(f"input {number}: {failure}")
                if found:
                    found(number, failure or "")
            if tell and time.monotonic() > told + 15:
                told = time.monotonic()
                tell(report.text().split("\n")[0])
    return report


def fuzz(seed: int, first: int, count: int, *, backend: float = 0.15) -> Report:
    """Try `count` damaged inputs from number `first` on."""
    sources = corpus()

    def attempt(number: int) -> tuple[str, str | None]:
        return try_input(damaged(seed, number, sources), _generator(seed, number), backend)

    return tried(attempt, range(first, first + count))
