"""The search: candidates compiled and measured, in the model's order, each journalled when done.

Compiling and measuring go on at the same time, by two executors with the interface of
`workers.Workers`.  The default candidate is measured first and becomes the anchor, beside which
those that are not far from the best are timed.  A candidate goes three ways:

    portions -> classified -> compiled -> measured
        |            |            |
    cannot be    the passes    equal machine
    the fastest  make it of    code: measured
    (`least`)    another: one  once
                 is compiled

At the end the best few are measured again, all beside each other, and that decides; times within
`TIE` are equal, and the earlier in the model's order wins."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import field, replace
from heapq import heappop, heappush
from statistics import median
from typing import Any, Protocol

from tritonc.records import NamedTuple, dataclass
from tritonc.tune.search.choices import Choice, Size, fewest
from tritonc.tune.search.journal import Journal, Name, Record, name_of
from tritonc.tune.timing.measure import SAMPLE_MILLISECONDS, SLOWED, measure
from tritonc.tune.workers.jobs import Binding, Code, Compiler, Illegal, Job, Measured, Wrong
from tritonc.tune.workers.workers import CannotStart, JobLost

ROUNDS = 3  # of samples of each candidate,
FINAL_ROUNDS = 11  # and of those that are compared at the end,
FINALISTS = 8  # which are so many, and the default
CUTOFF = 1.5  # a candidate so much slower than the best is given up after one sample
CLASSIFIED = 4  # times the number of jobs: kernels that wait for compilation, at least
_COMING = 16  # kernels that a portion is expected to give, at least
# Why a candidate was not compiled.
TOO_SLOW = "the machine cannot run it as fast as the best found"
TIE = 0.005  # relative; times that differ less are equal


class Executor(Protocol):
    """Where jobs run."""

    def submit(self, function: Callable[[Any, Any], Any], argument: Any) -> Future[Any]: ...


class Progress(Protocol):
    """Who is told how the search goes."""

    def finished(self, search: "Search", record: Record) -> None: ...

    def tick(self, search: "Search") -> None: ...

    def begins(self, search: "Search", seconds: float) -> None:
        """All that is left takes so many seconds at most."""
        ...


class _Compiling(NamedTuple):
    """Candidates that give one kernel, of which the first is being compiled."""

    members: list[Binding]


class _Classifying(NamedTuple):
    """Candidates of equal tunables, of which it is asked which give one kernel."""

    portion: list[Binding]


class _Measuring(NamedTuple):
    code: Code
    size: Size


@dataclass
class Search:
    """One run of the tuner."""

    candidates: Sequence[Binding]
    portions: Sequence[Sequence[Binding]]  # the same, in lists of equal tunables
    sizes: Sequence[Size]
    compiling: Executor
    measuring: Executor
    journal: Journal
    progress: Progress
    jobs: int  # compilations at a time
    measurers: int  # measurements at a time
    least: Callable[[Binding, Size], float] = lambda candidate, size: 0.0  # milliseconds
    budget: float = float("inf")  # seconds after which no new candidate is begun
    started: float = field(default_factory=time.monotonic)
    slowed: int = 0  # measurements while the GPU was slowed
    done: int = 0  # measurements, with those of earlier searches
    _bests: dict[Name, Record] = field(default_factory=dict)  # by size
    _known: dict[tuple[Name, str], Record] = field(default_factory=dict)  # by size and digest
    _anchors: dict[Name, tuple[Code, float]] = field(default_factory=dict)  # by size
    # Candidates that give one kernel: by the text of the kernel, by which of them is compiled.
    _kernels: dict[str, list[Binding]] = field(default_factory=dict)
    _members: dict[Name, list[Binding]] = field(default_factory=dict)
    _twins: dict[tuple[Name, str], list[Binding]] = field(default_factory=dict)
    _portions: deque[list[Binding]] = field(default_factory=deque)
    _waiting: list[tuple[int, list[Binding]]] = field(default_factory=list)  # a heap
    _ready: deque[_Measuring] = field(default_factory=deque)
    _running: dict[Future[Any], _Compiling | _Classifying | _Measuring] = field(
        default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.candidates) * len(self.sizes)

    def __post_init__(self) -> None:
        self._places = {name_of(c): place for place, c in enumerate(self.candidates)}
        for size in self.sizes:
            for candidate in self.candidates:
                record = self.journal.get(size, candidate)
                if record is not None:
                    self._count(record)

    def _count(self, record: Record) -> None:
        self.done += 1
        size = name_of(record.size)
        if record.digest:
            self._known[size, record.digest] = record
        if record.milliseconds is not None:
            best = self._bests.get(size)
            if best is None or record.milliseconds < (best.milliseconds or 0.0):
                self._bests[size] = record

    def best(self, size: Size) -> Record | None:
        return self._bests.get(name_of(size))

    def ranking(self, size: Size) -> list[Record]:
        records = [r for c in self.candidates if (r := self.journal.get(size, c)) is not None
                   and r.milliseconds is not None]
        return sorted(records, key=lambda r: r.milliseconds or 0.0)

    def reasons(self) -> list[tuple[str, int]]:
        """Why candidates have no time, and how many each; the most frequent first."""
        found = Counter(r.error for r in self.journal.records.values() if r.error)
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))

    def run(self) -> None:
        """Measure what is not measured yet.  Raises CannotStart if it cannot be measured."""
        self._anchor_all()
        while True:
            if time.monotonic() - self.started > self.budget:
                self._portions.clear()
                self._waiting.clear()
                self._ready.clear()
            self._fill()
            if not self._running:
                return
            done, _ = wait(self._running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in [f for f in self._running if f in done]:  # in the order of their start
                self._take(future)
            self.progress.tick(self)

    def _missing(self, candidate: Binding) -> list[Size]:
        return [size for size in self.sizes if self.journal.get(size, candidate) is None]

    def _anchor_all(self) -> None:
        """Compile the default and measure it first, for each size, while others are compiled."""
        code = self._result(self.compiling.submit(Compiler.compile, self.candidates[0]))
        self._portions.extend([c for c in portion if c is not self.candidates[0]]
                              for portion in self.portions)
        if not isinstance(code, Code):
            self._refuse([self.candidates[0]], code)
            return
        asked: list[tuple[Size, bool, Future[Any]]] = []
        for size in self.sizes:
            known = self.journal.get(size, self.candidates[0])
            if known is None or known.milliseconds is not None:
                job = Job((code,), size, ROUNDS, known is None)
                asked.append((size, known is None, self.measuring.submit(measure, job)))
        self._fill()
        for size, new, future in asked:
            found = self._result(future)
            if new:
                self._record(size, self.candidates[0], found, code)
            if isinstance(found, Measured):
                self._anchors[name_of(size)] = code, median(found.samples[0])
        self.progress.begins(self, self._most_seconds(code))

    def _most_seconds(self, code: Code) -> float:
        """What is left takes at most so long, if all compiles and is measured as the default."""
        usual = [milliseconds for _, milliseconds in self._anchors.values()] or [0.0]
        sample = max(SAMPLE_MILLISECONDS, sum(usual) / len(usual))
        left = self.total - self.done
        return max(left / len(self.sizes) * code.seconds / self.jobs,
                   left * 2 * ROUNDS * sample * 1e-3 / self.measurers)

    def _fill(self) -> None:
        """Keep the processes busy, and no more than a few compiled candidates in memory."""
        measuring = sum(isinstance(job, _Measuring) for job in self._running.values())
        compiling = len(self._running) - measuring
        coming = _COMING * sum(isinstance(job, _Classifying) for job in self._running.values())
        while compiling < 2 * self.jobs:
            if self._portions and len(self._waiting) + coming < CLASSIFIED * self.jobs:
                portion = self._worth(self._portions.popleft())
                if len(portion) == 1:
                    self._wait_for(portion)
                elif portion:
                    future = self.compiling.submit(Compiler.classify, portion)
                    self._running[future] = _Classifying(portion)
                    compiling += 1
                    coming += _COMING
            elif self._waiting and len(self._ready) < 4 * self.measurers + self.jobs:
                _, members = heappop(self._waiting)
                future = self.compiling.submit(Compiler.compile, members[0])
                self._running[future] = _Compiling(members)
                compiling += 1
            else:
                break
        while self._ready and measuring < 2 * self.measurers:
            asked = code, size = self._ready.popleft()
            best = self.best(size)
            cutoff = CUTOFF * best.milliseconds if best and best.milliseconds else float("inf")
            anchor, usual = self._anchors.get(name_of(size), (None, None))
            codes = (code,) if anchor is None else (anchor, code)
            job = Job(codes, size, ROUNDS, True, cutoff, usual)
            self._running[self.measuring.submit(measure, job)] = asked
            measuring += 1

    def _worth(self, portion: list[Binding]) -> list[Binding]:
        """What of a portion is to be compiled; the rest is recorded as too slow."""
        found = []
        for candidate in portion:
            missing = self._missing(candidate)
            slow = [size for size in missing if (best := self.best(size)) is not None
                    and self.least(candidate, size) > (best.milliseconds or 0.0)]
            for size in slow:
                self._add(Record(size, candidate, None, "", TOO_SLOW))
            if len(slow) < len(missing):
                found.append(candidate)
        return found

    def _wait_for(self, members: list[Binding]) -> None:
        """Have candidates that give one kernel compiled, the most promising first."""
        heappush(self._waiting, (self._places[name_of(members[0])], members))

    def _take(self, future: Future[Any]) -> None:
        """What a finished job gave."""
        job = self._running.pop(future)
        found = self._result(future)
        match job:
            case _Measuring(code, size):
                self._record(size, code.binding, found, code)
            case _Classifying(portion):
                self._classified(portion, found)
            case _Compiling(members) if isinstance(found, Code):
                self._members[name_of(members[0])] = members
                for size in self._missing(members[0]):
                    self._measure_once(found, size)
            case _Compiling(members):
                self._refuse(members, found)

    def _classified(self, portion: list[Binding], found: Any) -> None:
        if isinstance(found, Illegal):  # the job was lost: each for itself
            for candidate in portion:
                self._wait_for([candidate])
            return
        for variant in found:
            members = [portion[i] for i in variant.members]
            known = self._kernels.get(variant.digest)
            if variant.reason:
                self._refuse(members, Illegal(variant.reason))
            elif known is None:
                self._kernels[variant.digest] = members
                self._wait_for(members)
            else:
                self._join(members, known)

    def _join(self, members: list[Binding], known: list[Binding]) -> None:
        """Add candidates to those that give the same kernel."""
        known += members
        for size in self.sizes:
            if (record := self.journal.get(size, known[0])) is not None:
                for candidate in members:
                    if self.journal.get(size, candidate) is None:
                        self._add(replace(record, candidate=candidate))

    def _refuse(self, members: list[Binding], illegal: Illegal) -> None:
        for candidate in members:
            for size in self._missing(candidate):
                self._record(size, candidate, illegal)

    def _measure_once(self, code: Code, size: Size) -> None:
        """Measure a candidate, unless one of the same machine code is or was."""
        key = name_of(size), code.digest
        if (known := self._known.get(key)) is not None:
            self._add_all(replace(known, candidate=code.binding))
            return
        twins = self._twins.setdefault(key, [])
        twins.append(code.binding)
        if len(twins) == 1:
            self._ready.append(_Measuring(code, size))

    @staticmethod
    def _result(future: Future[Any]) -> Any:
        """The result of a job; Illegal where it was lost.  Raises CannotStart."""
        try:
            found = future.result()
            if isinstance(found, Exception):  # a cluster's worker hands it over so
                raise found
            return found
        except JobLost as lost:
            return Illegal(str(lost))
        except CannotStart:
            raise
        except Exception as error:
            return Illegal(f"{type(error).__name__}: {error}")

    def _record(self, size: Size, candidate: Binding, found: Any, code: Code | None = None) -> None:
        """Journal what came of a candidate, and of its twins."""
        digest = code.digest if code is not None else ""
        if isinstance(found, Measured):
            milliseconds = median(found.samples[-1]) / found.slowed
            self.slowed += found.slowed >= SLOWED
            record = Record(size, candidate, milliseconds, digest, "", found.slowed)
        else:
            assert isinstance(found, Illegal | Wrong)
            record = Record(size, candidate, None, digest, found.reason)
        for twin in self._twins.pop((name_of(size), digest), [candidate]):
            self._add_all(replace(record, candidate=twin))

    def _add_all(self, record: Record) -> None:
        """Add a record for all candidates that give the kernel of its own."""
        for member in self._members.get(name_of(record.candidate), [record.candidate]):
            if self.journal.get(record.size, member) is None:
                self._add(replace(record, candidate=member))

    def _add(self, record: Record) -> None:
        self.journal.add(record)
        self._count(record)
        self.progress.finished(self, record)

    # the end

    def choose(self, final: bool = True, within: float = 0.0) -> list[Choice]:
        """The best candidate of each size that has one.  `final`: measure the best few again.

        With `within`, of several sizes, the fewest candidates of which one at each size takes at
        most so much longer than the best (`portfolio.cover`)."""
        found, measured = [], []
        for size in self.sizes:
            known = {name_of(r.candidate): r.milliseconds or 0.0 for r in self.ranking(size)}
            times = known
            if final and times:
                times = self._final(size) or times
            if times:
                measured.append({**known, **times})
                limit = min(times.values()) * (1 + TIE)
                best = next(c for c in self.candidates
                            if times.get(name_of(c), float("inf")) <= limit)
                default = times.get(name_of(self.candidates[0]))
                found.append(Choice(size, best, times[name_of(best)], default))
        return found if within <= 0 or len(found) < 2 else fewest(
            found, measured, self.candidates, within)

    def _final(self, size: Size) -> dict[Name, float]:
        """The times of the best few, measured beside each other; {} if that fails."""
        digests: set[str] = set()
        finalists: list[Binding] = []
        for record in self.ranking(size):
            if record.digest not in digests and len(finalists) < FINALISTS:
                finalists.append(record.candidate)
                digests.add(record.digest)
        default = self.journal.get(size, self.candidates[0])
        if default is not None and default.milliseconds is not None and (
                default.digest not in digests):
            finalists.append(self.candidates[0])
        compiled = [self._result(f) for f in
                    [self.compiling.submit(Compiler.compile, c) for c in finalists]]
        codes = tuple(c for c in compiled if isinstance(c, Code))
        job = Job(codes, size, FINAL_ROUNDS, False)
        found = self._result(self.measuring.submit(measure, job))
        if not isinstance(found, Measured):
            return {}
        times = {code.digest: median(samples)
                 for code, samples in zip(codes, found.samples, strict=True)}
        return {name_of(record.candidate): times[record.digest] for record in self.ranking(size)
                if record.digest in times}
