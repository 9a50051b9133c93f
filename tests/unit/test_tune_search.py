"""The search: order, twins, anchors, budgets, failures, ties, and being killed at any moment."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tritonc.tune.search.choices import Choice
from tritonc.tune.search.journal import Journal, Record
from tritonc.tune.search.schedule import FINAL_ROUNDS, TOO_SLOW, Search
from tritonc.tune.search.variants import Variant
from tritonc.tune.workers.jobs import Code, Illegal, Job, Measured, Wrong
from tritonc.tune.workers.workers import CannotStart, JobLost

CANDIDATES = [{"T": t, "w": w} for t, w in itertools.product((4, 1, 2, 3), (1, 2))]
SIZE = {"N": 8}


def cost(binding: Mapping[str, int]) -> float:
    return binding["T"] + binding["w"] / 10


@dataclass
class Machine:
    """Both executors, in this process: compiling gives code whose digest is the cost, unless
    `refuse` has the candidate; measuring gives the cost, or what `special` says."""

    special: dict[float, Any] = field(default_factory=dict)
    refuse: set[float] = field(default_factory=set)
    digest: Callable[[Mapping[str, int]], object] = cost
    same: Callable[[Mapping[str, int]], object] = cost
    lost: bool = False
    classified: list[int] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def submit(self, function: Callable[..., Any], argument: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self.measure(argument) if isinstance(argument, Job) else
                              self.classify(argument) if isinstance(argument, list) else
                              self.compile(argument))
        except (JobLost, CannotStart) as error:
            future.set_exception(error)
        return future

    def classify(self, portion: list[Mapping[str, int]]) -> list[Variant]:
        """Those of equal `same` give one kernel; an odd one is refused."""
        self.classified.append(len(portion))
        if self.lost:
            raise JobLost("its process ended (signal 11)")
        alike: dict[object, list[int]] = {}
        for i, binding in enumerate(portion):
            alike.setdefault(self.same(binding), []).append(i)
        return [Variant(tuple(members), str(key), "" if key != "odd" else "it is odd")
                for key, members in alike.items()]

    def compile(self, binding: Mapping[str, int]) -> Code | Illegal:
        self.compiled.append(cost(binding))
        if cost(binding) in self.refuse:
            return Illegal("too much shared memory")
        return Code(binding, str(self.digest(binding)), b"", 32, 0, (1,))

    def measure(self, job: Job) -> Any:
        self.jobs.append(job)
        found = self.special.get(cost(job.codes[-1].binding))
        if isinstance(found, Exception):
            raise found
        if found is not None and job.check:
            return found
        return Measured(tuple((cost(code.binding),) * 3 for code in job.codes))


class Silent:
    """Hears of everything, and does what the test wants then."""

    def __init__(self, then: Callable[[Record], None] = lambda record: None) -> None:
        self.then = then

    def finished(self, search: Search, record: Record) -> None:
        self.then(record)

    def begins(self, search: Search, seconds: float) -> None:
        assert seconds >= 0

    def tick(self, search: Search) -> None:
        return


def new(path: Path, machine: Machine, progress: Silent | None = None, **more: Any) -> Search:
    settings: dict[str, Any] = {"jobs": 2, "measurers": 1, "candidates": CANDIDATES, **more}
    settings.setdefault("portions", [[candidate] for candidate in settings["candidates"]])
    return Search(sizes=settings.pop("sizes", [SIZE]), compiling=machine, measuring=machine,
                  journal=Journal(str(path), "key"), progress=progress or Silent(), **settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.journal"


def test_everything_is_measured_and_the_best_chosen(path: Path) -> None:
    machine = Machine()
    search = new(path, machine)
    search.run()
    assert search.done == search.total == 8
    assert search.choose() == [Choice(SIZE, {"T": 1, "w": 1}, 1.1, 4.1)]
    first, second, *_, last = machine.jobs
    assert [c.binding for c in first.codes] == [CANDIDATES[0]] and first.anchor is None
    assert [c.binding for c in second.codes] == CANDIDATES[:2] and second.anchor == 4.1
    assert second.check and second.cutoff == pytest.approx(1.5 * 4.1)
    assert last.rounds == FINAL_ROUNDS and len(last.codes) == 8 and not last.check


def test_equal_machine_code_is_measured_once(path: Path) -> None:
    machine = Machine(digest=lambda binding: binding["T"])
    search = new(path, machine)
    search.run()
    assert search.done == 8 and len(machine.jobs) == 4
    assert len({r.digest: r.milliseconds for r in search.journal.records.values()}) == 4


def by_tile(portion: int) -> list[list[dict[str, int]]]:
    return [CANDIDATES[i:i + portion] for i in range(0, len(CANDIDATES), portion)]


def test_candidates_that_give_one_kernel_are_compiled_once(path: Path) -> None:
    """Also where it turns out in different portions."""
    machine = Machine(same=lambda binding: binding["T"])
    search = new(path, machine, portions=[*by_tile(4), []])
    search.run()
    assert search.done == 8 and machine.classified == [3, 4]
    assert machine.compiled == [4.1, 4.2, 1.1, 2.1, 3.1]
    search = new(path.with_suffix(".2"), machine := Machine(same=lambda binding: binding["w"]),
                 portions=by_tile(4))
    search.run()
    assert search.done == 8 and machine.compiled == [4.1, 4.2, 1.1]
    assert len(search.journal.records) == 8


def test_what_the_passes_refuse_is_not_compiled(path: Path) -> None:
    machine = Machine(same=lambda binding: "odd" if binding["T"] % 2 else cost(binding))
    search = new(path, machine, portions=by_tile(8))
    search.run()
    assert search.done == 8 and machine.compiled == [4.1, 4.2, 2.1, 2.2]
    assert {r.error for r in search.journal.records.values()} == {"", "it is odd"}


def test_a_lost_portion_costs_no_candidate(path: Path) -> None:
    search = new(path, machine := Machine(lost=True), portions=by_tile(4))
    search.run()
    assert search.done == 8 and len(machine.compiled) == 8


def test_what_cannot_be_the_fastest_is_not_compiled(path: Path) -> None:
    """What is compiled while the default is measured is not known to be slow yet."""
    search = new(path, machine := Machine(), least=lambda candidate, size: 2.0 * candidate["T"],
                 jobs=1)
    search.run()
    assert search.done == 8 and machine.compiled == [4.1, 4.2, 1.1, 1.2, 2.1, 2.2]
    assert search.journal.get(SIZE, {"T": 3, "w": 1}) == Record(
        SIZE, {"T": 3, "w": 1}, None, "", TOO_SLOW)


def test_failures_cost_their_candidate(path: Path) -> None:
    machine = Machine({1.1: JobLost("its process ended (signal 11)"), 1.2: Wrong("'y' is wrong")},
                      {2.1})
    search = new(path, machine)
    search.run()
    assert search.choose()[0].best == {"T": 2, "w": 2}
    errors = {cost(r.candidate): r.error for r in search.journal.records.values() if r.error}
    assert errors == {1.1: "its process ended (signal 11)", 1.2: "'y' is wrong",
                      2.1: "too much shared memory"}
    assert 1.1 not in {cost(c.binding) for c in machine.jobs[-1].codes}


def test_a_default_that_cannot_run_is_no_anchor(path: Path) -> None:
    machine = Machine(refuse={4.1})
    search = new(path, machine)
    search.run()
    assert search.choose() == [Choice(SIZE, {"T": 1, "w": 1}, 1.1, None)]
    assert all(job.anchor is None for job in machine.jobs)


def test_a_default_that_faults_is_no_finalist(path: Path) -> None:
    machine = Machine({4.1: JobLost("its process ended (signal 11)")})
    search = new(path, machine)
    search.run()
    assert search.choose() == [Choice(SIZE, {"T": 1, "w": 1}, 1.1, None)]
    assert machine.jobs[-1].rounds == FINAL_ROUNDS
    assert 4.1 not in {cost(c.binding) for c in machine.jobs[-1].codes}


def test_nothing_can_run(path: Path) -> None:
    search = new(path, Machine(refuse={cost(c) for c in CANDIDATES}))
    search.run()
    assert search.choose() == []
    with pytest.raises(CannotStart):
        new(path.with_suffix(".2"), Machine({4.1: CannotStart("no GPU")})).run()


def test_a_second_run_measures_what_is_left(path: Path) -> None:
    def stop(record: Record) -> None:
        if record.candidate == CANDIDATES[3]:
            raise KeyboardInterrupt

    search = new(path, Machine(), Silent(stop))
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.choose(final=False) == [Choice(SIZE, {"T": 1, "w": 1}, 1.1, 4.1)]
    machine = Machine()
    again = new(path, machine)
    assert again.done == 4
    again.run()
    assert again.done == 8
    assert [cost(c.binding) for job in machine.jobs for c in job.codes[1:]] == [
        cost(c) for c in CANDIDATES[4:]]


def test_the_budget_ends_it(path: Path) -> None:
    search = new(path, Machine(), budget=0.0)
    search.run()
    assert search.done == 1 and search.choose()[0].best == CANDIDATES[0]


def test_a_tie_goes_to_the_earlier(path: Path) -> None:
    candidates = [{"T": 2, "w": 0}, {"T": 1, "w": 1}, {"T": 1, "w": 0}]
    machine = Machine()
    search = new(path, machine, candidates=[{"T": 300, "w": w} for w in (9, 1, 0, 8)])
    search.run()
    assert search.choose()[0].best == {"T": 300, "w": 9}
    search = new(path.with_suffix(".2"), machine, candidates=candidates)
    search.run()
    assert search.choose()[0].best == {"T": 1, "w": 0}


def test_a_slowed_gpu_is_accounted_for(path: Path) -> None:
    machine = Machine({3.1: Measured(((6.0,), (2.0,)), 2.0)})
    search = new(path, machine)
    search.run()
    record = search.journal.get(SIZE, {"T": 3, "w": 1})
    assert record is not None and record.milliseconds == 1.0 and record.slowed == 2.0
    assert search.slowed == 1


def test_sizes_share_compilations(path: Path) -> None:
    machine = Machine()
    search = new(path, machine, sizes=[{"N": 1}, {"N": 2}])
    search.run()
    assert search.done == search.total == 16
    assert len(machine.compiled) == 8 and len(search.choose()) == 2


class Told(Silent):
    """Writes down what it is told, as a terminal shows it, and takes a moment for each."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "a", buffering=1)  # noqa: SIM115 - killed with the process

    def finished(self, search: Search, record: Record) -> None:
        self.file.write(f"{cost(record.candidate)}\n")
        time.sleep(0.002)


def test_killing_it_ten_times_loses_nothing(path: Path, tmp_path: Path) -> None:
    """What was once told is in the journal, and no file is ever broken."""
    candidates = [{"T": t, "w": w} for t, w in itertools.product(range(1, 101), range(4))]
    told = tmp_path / "told"

    def run() -> None:
        new(path, Machine(), Told(told), candidates=candidates).run()

    chance = random.Random(5)
    counts = [0]
    for _ in range(10):
        process = multiprocessing.get_context("fork").Process(target=run)
        before = told.stat().st_size if told.exists() else 0
        process.start()
        while process.is_alive() and not (told.exists() and told.stat().st_size > before):
            time.sleep(0.001)
        time.sleep(0.04 * chance.random())
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        known = {cost(r.candidate) for r in Journal(str(path), "key").records.values()}
        lines = told.read_text().splitlines() if told.exists() else []
        assert set(map(float, lines)) <= known
        counts.append(len(known))
    assert counts == sorted(counts) and 0 < counts[-1] < 400 and len(set(counts)) > 5
    machine = Machine()
    search = new(path, machine, candidates=candidates)
    search.run()
    assert search.done == 400 and search.choose()[0].best == {"T": 1, "w": 0}
    assert len(machine.compiled) == 400 - counts[-1] + 1 + 8  # the anchor and finalists again
