"""Processes that run jobs, of which a crash, a fault or a hang costs only the job that did it.

The interface is that of `concurrent.futures`, whose process pools will not do: when one of their
processes dies, all jobs of the pool are lost, and they cannot stop a job that hangs.

A process makes its state first, then runs each job `function(state, argument)`.  After one that
fails it ends, since what went wrong may have broken the state (a CUDA context stays broken).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, NamedTuple

START_SECONDS = 120.0  # that a process may take until it is ready
_STARTS = 3  # in a row that may fail


class JobLost(Exception):
    """A job has no result: the text says why."""


class CannotStart(Exception):
    """No process of the kind can be started: the text says why."""


class SetUp(NamedTuple):
    """How a process makes its state.  The function must be found by name in its module."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class _Job(NamedTuple):
    future: Future[Any]
    function: Callable[[Any, Any], Any]
    argument: Any


class Workers:
    """One process for each of `setups`, started when there is work, again when it is lost."""

    def __init__(self, setups: Sequence[SetUp], timeout: float, eager: bool = False) -> None:
        """`timeout`: the seconds that a job may take.  `eager`: work will come, start at once."""
        self.timeout = timeout
        self.eager = eager
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._processes: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, args=(setup,), daemon=True)
                         for setup in setups]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[Any, Any], Any], argument: Any) -> Future[Any]:
        """Run `function(state, argument)` in some process.

        The future raises JobLost if there is no result, CannotStart if no process can be had.
        """
        future: Future[Any] = Future()
        self._jobs.put(_Job(future, function, argument))
        return future

    def close(self) -> None:
        """End all processes, whatever they do, and drop what waits."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.own.kill()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # one thread for each process

    def _serve(self, setup: SetUp) -> None:
        if hasattr(signal, "pthread_sigmask"):  # the terminal's ^C is not for the processes
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process: _Process | None = None
        if self.eager:
            with suppress(CannotStart):  # the first job says why
                process = self._start(setup)
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                if process is None or not process.own.is_alive():
                    process = self._start(setup)
                job.future.set_result(self._ask(process, (job.function, job.argument),
                                                self.timeout))
            except Exception as error:  # JobLost, CannotStart, or a job that cannot be pickled
                process = None if isinstance(error, JobLost) else process
                job.future.set_exception(error)
        if process is not None:
            process.end()

    def _start(self, setup: SetUp) -> _Process:
        """A process that is ready.  Raises CannotStart."""
        why = ""
        for _ in range(_STARTS):
            with self._lock:
                if self._closed:
                    raise CannotStart("closed")
                process = _Process()
                self._processes.add(process)
            try:
                self._ask(process, (setup.function, setup.arguments), START_SECONDS)
                return process
            except JobLost as lost:
                why = str(lost)
        raise CannotStart(why)

    def _ask(self, process: _Process, request: Any, timeout: float) -> Any:
        """The value that the process answers.  Raises JobLost, after which the process is gone."""
        try:
            return process.ask(request, timeout)
        except JobLost:
            with self._lock:
                self._processes.discard(process)
            raise


class _Process:
    """One process, and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.own = context.Process(target=_main, args=(theirs,), daemon=True)
        self.own.start()
        theirs.close()

    def ask(self, request: Any, timeout: float) -> Any:
        """The value that it answers.  Raises JobLost."""
        why = f"took longer than {timeout:g} s"
        try:
            self.pipe.send(request)
            if self.pipe.poll(timeout):
                done, why = self.pipe.recv()
                if done:
                    return why
        except (EOFError, OSError):
            why = ""
        code = self.end()
        raise JobLost(why or f"its process ended ({_how(code)})")

    def end(self) -> int:
        """End it and wait for it; its exit code."""
        self.own.join(0.5)
        self.own.kill()
        self.own.join()
        self.pipe.close()
        return self.own.exitcode or 0


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


# --- in a process ---------------------------------------------------------------------------------


def _main(pipe: Connection) -> None:
    """Answer requests, first one for a state: with (True, value), or (False, text) at the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function, arguments = pipe.recv()
        state = function(*arguments)
        pipe.send((True, None))
        while True:
            function, argument = pipe.recv()
            pipe.send((True, function(state, argument)))
    except Exception as error:
        diagnostics = getattr(error, "diagnostics", None)  # of a CompileError
        with suppress(OSError):
            pipe.send((False, str(diagnostics[0].message) if diagnostics else
                       f"{type(error).__name__}: {error}"))
        os._exit(1)  # without clean-up, which may hang on a broken context


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, in the middle of a job too."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
