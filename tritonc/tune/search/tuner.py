"""One run of the tuner: from a source to its tuning file."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from tritonc import __version__, outputs
from tritonc.backend.target.target import find
from tritonc.source import fail
from tritonc.tune import tuning_file
from tritonc.tune.search.bounds import least_milliseconds
from tritonc.tune.search.choices import Choice
from tritonc.tune.search.journal import Journal, name_of
from tritonc.tune.search.progress import ProgressLine, text
from tritonc.tune.search.report import report
from tritonc.tune.search.schedule import TOO_SLOW, Search
from tritonc.tune.search.task import Request, Task
from tritonc.tune.timing.rates import amount, rates
from tritonc.tune.workers.jobs import Binding
from tritonc.tune.workers.sites import Site
from tritonc.tune.workers.workers import CannotStart

_SHOWN = 10  # candidates of a ranking without measurements


def tune(request: Request, task: Task, site: Site, out: TextIO) -> list[Choice]:
    """Search, and write the tuning file (and the report) with what was found.

    What was measured is kept whatever happens; KeyboardInterrupt goes on to the caller after the
    files are written.  Raises CompileError if nothing can be measured, or files not be written."""
    old = tuning_file.read(request.tuning) if os.path.exists(request.tuning) else []
    progress = ProgressLine(out)
    out.write(f"{task.spec.kernel}: {len(task.space.candidates)} candidates on {site.measurers} x "
              f"{site.device}, {site.jobs} compilations at a time\n")
    try:
        journal = Journal(request.tuning.removesuffix(".json") + ".journal",
                          _key(task, site.device, request.seed), request.fresh)
    except OSError as error:
        raise fail("cannot-write", None, f"cannot write '{error.filename}': {error.strerror}"
                   ) from None
    with closing(journal), site.executors(task.spec, task.sizes, request.seed) as executors:
        search = Search(task.space.candidates, task.space.portions(), task.sizes,
                        executors.compiling, executors.measuring, journal, progress, site.jobs,
                        site.measurers, _least(task, site), request.budget)
        if search.done:
            progress.write(f"{search.done} of {search.total} are measured already")
        try:
            search.run()
            choices = search.choose(within=request.within)
            _write(request, task, site, choices, old, search)
        except BaseException as error:
            choices = search.choose(final=False, within=request.within)
            _write(request, task, site, choices, old, search)
            if isinstance(error, KeyboardInterrupt):
                for line in summary(task, choices, search):
                    progress.write(line)
            if isinstance(error, CannotStart):
                raise fail("no-device", None, f"cannot measure on {site.device}: {error}") from None
            raise
    for line in summary(task, choices, search):
        progress.write(line)
    return choices


def _least(task: Task, site: Site) -> Callable[[Binding, Mapping[str, int]], float]:
    """The milliseconds below which a candidate cannot take at a size."""
    target = find(task.options.arch, task.options.ptx)
    work = {name_of(size): amount(task.problem.flops, size) for size in task.sizes}

    def least(candidate: Binding, size: Mapping[str, int]) -> float:
        profile = task.space.profiles.get(task.space.tile(candidate))
        flops = work[name_of(size)]
        if profile is None or flops is None or site.peaks is None:
            return 0.0
        return least_milliseconds(profile, {**task.options.tune, **candidate}, flops, site.peaks,
                                  target)

    return least


def _key(task: Task, device: str, seed: int) -> str:
    """What must be equal for an old measurement to count: compiler, program, settings, GPU."""
    settings = {name: value for name, value in vars(task.options).items()
                if name not in ("tuning", "sizes", "verbose", "time_report", "defines",
                                "include_dirs", "system_dirs", "warnings", "error_limit")}
    facts = [_compiler(), task.hash, task.spec.kernel, task.spec.problem, seed, device, settings]
    return sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _compiler() -> str:
    """A digest of the compiler's own sources: what was measured with others does not count."""
    root = Path(__file__).parents[2]
    found = sha256(__version__.encode())
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".lark", ".tc", ".h")):
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _write(request: Request, task: Task, site: Site, choices: Sequence[Choice],
           old: Sequence[tuning_file.Entry], search: Search) -> None:
    """Write the tuning file, with new entries for what was chosen, and the report."""
    files: dict[str, str] = {}
    if choices:
        new = [tuning_file.Entry(task.spec.kernel, task.options.arch, dict(choice.size),
                                 task.options.defines, task.hash, site.device, choice.milliseconds,
                                 {**task.options.tune, **choice.best}) for choice in choices]
        files[request.tuning] = tuning_file.render(tuning_file.merge(old, new))
    if request.report is not None and search.done:
        files[request.report] = report(task, site.device, site.peaks, choices, search)
    outputs.write_or_fail(files)


def summary(task: Task, choices: Sequence[Choice], search: Search) -> list[str]:
    """What was found, a line for each size, and why other candidates cannot run."""
    lines = []
    for choice in choices:
        speed = rates(task.problem, choice.size, choice.milliseconds)
        lines.append(f"{task.spec.kernel} {text(choice.size)}: {choice.milliseconds:.4g} ms{speed} "
                     f"with {text(choice.best)}")
        if choice.default is not None:
            lines.append(f"  the default, {text(search.candidates[0])}, takes {choice.default:.4g} "
                         f"ms, {choice.default / choice.milliseconds:.3f} times as long")
    lines += portfolio_lines(choices)
    kernels = {r.digest for r in search.journal.records.values() if r.digest}
    seconds = time.monotonic() - search.started
    lines.append(f"  {search.done} of {search.total} done, which are {len(kernels)} different "
                 f"kernels, in {seconds:.0f} s")
    reasons = dict(search.reasons())
    if (slow := reasons.pop(TOO_SLOW, 0)):
        lines.append(f"  {slow} not compiled: {TOO_SLOW}")
    lines += [f"  {count} cannot run: {reason}" for reason, count in [*reasons.items()][:_SHOWN]]
    if search.slowed:
        lines.append(f"  the GPU was slowed during {search.slowed} measurements")
    if search.done < search.total:
        lines.append(f"  {search.total - search.done} of {search.total} were not measured; run "
                     "the same command again to continue")
    return lines


def portfolio_lines(choices: Sequence[Choice]) -> list[str]:
    """How few sets of values serve the sizes, and how well."""
    members = Counter(text(choice.best) for choice in choices)
    worst = max((choice.milliseconds / choice.fastest for choice in choices if choice.fastest),
                default=1.0)
    if len(choices) < 2:
        return []
    lines = [f"  portfolio: {len(members)} set{'s' if len(members) > 1 else ''} of values for "
             f"{len(choices)} sizes, at most {worst - 1:.1%} slower than the best"]
    return [*lines, *(f"    {count} with {binding}" for binding, count in members.items())]


def ranking(task: Task) -> list[str]:
    """The model's order of the candidates, where nothing can be measured."""
    return [f"{place:4}  {text(candidate)}"
            for place, candidate in enumerate(task.space.candidates[:_SHOWN], 1)]
