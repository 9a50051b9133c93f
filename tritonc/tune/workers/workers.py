"""Processes that run jobs, of which a crash, a fault or a hang costs only the job that did it.

The interface is that of `concurrent.futures`, so that a cluster's executor can stand in its place.
A process pool of the standard library will not do: when one of its processes dies, all jobs of the
pool are lost, and it cannot stop a job that hangs."""

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from tritonc.records import NamedTuple
from tritonc.tune.workers.worker import read_frame, write_frame

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
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, args=(setup,), daemon=True)
                         for setup in setups]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[Any, Any], Any], argument: Any) -> Future[Any]:
        """Run `function(state, argument)` in some process.

        The future raises JobLost if there is no result, CannotStart if no process can be had."""
        future: Future[Any] = Future()
        self._jobs.put(_Job(future, function, argument))
        return future

    def close(self) -> None:
        """End all processes, whatever they do, and drop what waits."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # one thread for each process

    def _serve(self, setup: SetUp) -> None:
        process: subprocess.Popen[bytes] | None = None
        if self.eager:
            with suppress(CannotStart):  # the first job tries again, and says why
                process = self._start(setup, 1)
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                if process is None or process.poll() is not None:
                    process = self._start(setup, _STARTS)
                job.future.set_result(self._ask(process, (job.function, job.argument),
                                                self.timeout))
            except Exception as error:  # JobLost, CannotStart, or a job that cannot be pickled
                process = None if isinstance(error, JobLost) else process
                job.future.set_exception(error)
        if process is not None:
            self._end(process)

    def _start(self, setup: SetUp, tries: int) -> subprocess.Popen[bytes]:
        """A process that is ready.  Raises CannotStart."""
        why = ""
        for _ in range(tries):
            with self._lock:
                if self._closed:
                    raise CannotStart("closed")
                process = subprocess.Popen([sys.executable, "-m", "tritonc.tune.workers.worker"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL)
                self._processes.add(process)
            try:
                assert process.stdin is not None
                write_frame(process.stdin, [*sys.path])
                self._ask(process, (setup.function, setup.arguments), START_SECONDS)
                return process
            except (JobLost, OSError) as error:
                self._end(process)
                why = str(error)
        raise CannotStart(why)

    def _ask(self, process: subprocess.Popen[bytes], request: Any, timeout: float) -> Any:
        """The value that the process answers.  Raises JobLost, after which the process is gone."""
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            write_frame(process.stdin, request)
            frame = read_frame(process.stdout)
        except OSError:
            frame = b""
        finally:
            timer.cancel()
        done, value = pickle.loads(frame) if frame else (False, "")
        if done:
            if late.is_set():  # at the last moment, but it is gone for the next job
                self._end(process)
            return value
        code = self._end(process)
        if late.is_set():
            raise JobLost(f"took longer than {timeout:g} s")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise JobLost(value or f"its process ended ({how})")

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """End a process and wait for it; its exit code."""
        with self._lock:
            self._processes.discard(process)
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not yet sent has nobody to read it
                    stream.close()
        return code
