"""Asking a user's command about candidates, several at a time."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NoReturn

from tritonc.records import dataclass

PLACE = "{}"  # in the command: the path of the candidate
_MOST_FILES = 1000  # beside the source, which the candidate sees beside it too


@dataclass
class Answer:
    """How a command ended, and what it printed; `code` is None where it took too long."""

    code: int | None
    output: str


@dataclass
class Command:
    """Runs `words` on candidates for the file `path`, each in a folder of its own.

    The folder has links to what stands beside the file, so that relative includes and tuning files
    are found.  A candidate shows the bug if the command ends like `wanted`, and prints something
    that `pattern` matches.  `call` does what the words say in a process that is forked, which takes
    a tenth of the time where the words are tritonc's own."""

    words: Sequence[str]
    path: str
    timeout: float
    pattern: re.Pattern[str] | None = None
    call: Callable[[Sequence[str]], int] | None = None
    wanted: int = 0
    _folders: list[Path] = field(default_factory=list)

    def answer(self, text: str) -> Answer:
        """How the command ends for one text."""
        with self._started([text]) as (running,):
            return running.wait()

    def shows(self, answer: Answer) -> bool:
        return answer.code == self.wanted and (
            self.pattern is None or self.pattern.search(answer.output) is not None)

    def first(self, texts: Sequence[str]) -> int | None:
        """The number of the first text that shows the bug; all are tried at the same time."""
        with self._started(texts) as tries:
            return next((i for i, one in enumerate(tries) if self.shows(one.wait())), None)

    @contextlib.contextmanager
    def _started(self, texts: Sequence[str]) -> "Iterator[list[_Try]]":
        tries: list[_Try] = []
        try:
            for number, text in enumerate(texts):
                candidate = self._folder(number) / os.path.basename(self.path)
                candidate.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
                given = [word.replace(PLACE, str(candidate)) for word in self.words]
                if given == [*self.words]:
                    given.append(str(candidate))
                tries.append(_Try(given, self.timeout, self.call))
            yield tries
        finally:
            for one in tries:
                one.stop()

    def _folder(self, number: int) -> Path:
        while len(self._folders) <= number:
            folder = Path(tempfile.mkdtemp(prefix="tritonc-reduce-"))
            self._folders.append(folder)
            beside = os.path.dirname(os.path.abspath(self.path))
            for name in sorted(os.listdir(beside))[:_MOST_FILES]:
                if name != os.path.basename(self.path):
                    with contextlib.suppress(OSError):  # a file system without links
                        (folder / name).symlink_to(os.path.join(beside, name))
        return self._folders[number]

    def close(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders.clear()


def _call(call: Callable[[Sequence[str]], int], words: Sequence[str], output: int) -> NoReturn:
    """What a forked process does."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.exit(call(words))


class _Try:
    """One run of the command."""

    def __init__(self, words: Sequence[str], timeout: float,
                 call: Callable[[Sequence[str]], int] | None) -> None:
        self.end = time.monotonic() + timeout
        self.output: Any = tempfile.TemporaryFile()  # noqa: SIM115 (stop closes it)
        self.fork: Any = None
        try:
            if call is not None and hasattr(os, "fork"):
                self.fork = multiprocessing.get_context("fork").Process(
                    target=_call, args=(call, words, self.output.fileno()))
                self.fork.start()
            else:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=self.output,
                    stderr=subprocess.STDOUT, start_new_session=True)
        except BaseException:
            self.output.close()
            raise

    def _code(self, seconds: float | None) -> int | None:
        """The exit code; None if the command still runs after so many seconds."""
        if self.fork is not None:
            self.fork.join(seconds)
            return None if self.fork.exitcode is None else int(self.fork.exitcode)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def wait(self) -> Answer:
        code = self._code(max(0.0, self.end - time.monotonic()))
        if code is None:
            return Answer(None, "")
        self.output.seek(0)
        return Answer(code, self.output.read(1 << 24).decode("utf-8", "replace"))

    def stop(self) -> None:
        """End the command, if it still runs, and what it started."""
        if self._code(0) is None:
            running = self.fork or self.process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(running.pid, signal.SIGKILL)
                else:
                    running.kill()
            self._code(None)
        self.output.close()
