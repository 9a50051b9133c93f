"""Worker processes: what goes wrong in a job costs that job only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tritonc.source import fail as fail_with
from tritonc.tune.workers.worker import write_frame
from tritonc.tune.workers.workers import CannotStart, JobLost, SetUp, Workers


def start(name: str) -> tuple[str, int]:
    if name == "broken":
        raise ValueError("no such device")
    return name, os.getpid()


def answer(state: tuple[str, int], number: int) -> tuple[str, int]:
    print("a job that prints does no harm")
    return state[0], number * 2


def process(state: tuple[str, int], _: int) -> int:
    return state[1]


def hang(state: object, _: int) -> None:
    time.sleep(1000)


def crash(state: object, _: int) -> None:
    os.abort()


def fail(state: object, _: int) -> None:
    raise RuntimeError("an illegal memory access")


def refuse(state: object, _: int) -> None:
    raise fail_with("cuda-error", None, "cannot launch the kernel")


def reason(future: Future[Any]) -> str:
    error = future.exception(30)
    assert isinstance(error, JobLost | CannotStart)
    return str(error)


def test_one_bad_job_costs_itself() -> None:
    with Workers([SetUp(start, ("a",))], timeout=1.0) as workers:
        jobs = [workers.submit(f, 21) for f in (process, answer, crash, answer, hang, fail, answer,
                                                    refuse)]
        jobs.append(workers.submit(process, 0))
        assert [jobs[i].result(30) for i in (1, 3, 6)] == [("a", 42)] * 3
        assert "signal 6" in reason(jobs[2])
        assert reason(jobs[4]) == "took longer than 1 s"
        assert reason(jobs[5]) == "RuntimeError: an illegal memory access"
        assert reason(jobs[7]) == "cannot launch the kernel"
        assert jobs[0].result(0) != jobs[8].result(30)  # a new process each time


def test_what_cannot_start_is_said() -> None:
    with Workers([SetUp(start, ("broken",))], timeout=1.0) as workers:
        assert reason(workers.submit(answer, 1)) == "ValueError: no such device"


def test_an_eager_process_is_ready_before_its_work_comes(tmp_path: Path) -> None:
    ready, limit = tmp_path / "ready", time.monotonic() + 60
    with Workers([SetUp(ready.touch)], timeout=1.0, eager=True):
        while not ready.exists():
            assert time.monotonic() < limit
            time.sleep(0.05)
    with Workers([SetUp(start, ("broken",))], timeout=1.0, eager=True) as workers:
        assert reason(workers.submit(answer, 1)) == "ValueError: no such device"


def test_closing_ends_what_runs() -> None:
    workers = Workers([SetUp(start, ("a",))] * 2, timeout=100.0)
    pid = workers.submit(process, 0).result(30)
    busy = [workers.submit(hang, 0) for _ in range(3)]
    time.sleep(0.1)
    started = time.monotonic()
    workers.close()
    assert time.monotonic() - started < 5
    assert all(future.cancelled() or future.exception(0) for future in busy if future.done())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_does_not_outlive_who_started_it() -> None:
    """Also in the middle of a job."""
    process = subprocess.Popen([sys.executable, "-m", "tritonc.tune.workers.worker"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    for frame in (sys.path, (start, ("a",)), (hang, 0)):
        write_frame(process.stdin, frame)
    assert process.stdout.read(8)  # it is ready
    process.stdin.close()
    assert process.wait(10) == 1
    process.stdout.close()
