"""Campaigns: tests that could go on for ever, each by one command.

    python tests/campaign.py NAME --hours 0.5            from where the last run ended
    python tests/campaign.py NAME --replay 1234          shows input 1234 and what becomes of it

Inputs depend on the seed and their number alone.  What fails is kept in tests/findings, one file
for each cause, with the seed, the number and the input itself; tests/test_campaign.py tries them
again.  `python tests/campaign.py --list` says what there is.  Each counts on in build/campaigns.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # so that the program runs where nothing is installed

import conversions  # noqa: E402
import fuzz  # noqa: E402
import hostile  # noqa: E402
import kills  # noqa: E402
import mutations  # noqa: E402
import random_patterns  # noqa: E402
import random_planes  # noqa: E402
import random_products  # noqa: E402
import random_programs  # noqa: E402
from damage import Input, damaged  # noqa: E402
from programs import PTXAS  # noqa: E402

from tritonc import driver  # noqa: E402
from tritonc.backend.target.target import TARGETS  # noqa: E402
from tritonc.options import Options  # noqa: E402
from tritonc.source import CompileError, SourceFile  # noqa: E402

FINDINGS = ROOT / "tests" / "findings"
STATE = ROOT / "build" / "campaigns"
Outcome = tuple[str, "str | None"]  # how far an input came, and what is wrong


@dataclass
class Campaign:
    """`make` gives the input of a seed and a number, `attempt` what becomes of it."""

    doc: str
    make: Callable[[int, int], Input]
    attempt: Callable[[Input, random.Random], Outcome]
    count: int = 10**12  # of different inputs


def _program(seed: int, number: int) -> Input:
    """Statements at random, or what a kernel often is."""
    make = random_patterns.program if number % 4 else random_programs.program
    return Input(make(seed * 10**9 + number).encode(), "tc")


def _settings(given: Input, rng: random.Random) -> random_programs.Settings:
    return random_programs.Settings.draw(rng.randrange(10**9), rng.random() < 0.03)


def _judged(action: Callable[[], object], limit: float = 60) -> Outcome:
    """The outcome of an action that raises where something is wrong."""
    try:
        with fuzz.time_limit(limit):
            return str(action() or "ran"), None
    except random_programs.Refused:
        return "refused", None
    except fuzz.Hang:
        return "failed", "takes longer than the limit"
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return "failed", re.sub(r"\d+", "#", what.split("\n")[0])[:150] + "\n" + what[:4000]


def _interpreted(given: Input, rng: random.Random) -> Outcome:
    settings = _settings(given, rng)
    return _judged(lambda: random_programs.check(given.data.decode(), settings) and None)


def _on_gpu(given: Input, rng: random.Random) -> Outcome:
    from tritonc.launch.cuda import Device

    def action() -> None:
        with Device() as device:
            random_programs.check_on_gpu(given.data.decode(), _settings(given, rng), device)
    return _judged(action)


def _on_threads(given: Input, rng: random.Random) -> Outcome:
    settings = _settings(given, rng)
    settings.options = replace(settings.options, arch=rng.choice([*TARGETS]))
    return _judged(lambda: random_programs.check_on_threads(given.data.decode(), settings), 120)


_SOURCES: list[Input] = []


def _damaged(seed: int, number: int) -> Input:
    if not _SOURCES:
        _SOURCES.extend(fuzz.corpus())
    return damaged(seed, number, _SOURCES)


def _assembled(given: Input, rng: random.Random) -> Outcome:
    """PTX of a random program for some target, by NVIDIA's assembler."""
    target, level = rng.choice([*TARGETS]), rng.choice((0, 1, 2, 2, 3))

    def action() -> str:
        try:
            result = driver.compile(SourceFile("random.tc", given.data.decode()), Options(
                arch=target, opt_level=level, warnings=("no-all",)), ("ptx",))
        except CompileError as error:
            if all(random_programs.LIMIT in item.message for item in error.diagnostics):
                raise random_programs.Refused from error
            raise
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.ptx"
            path.write_text(result.outputs["ptx"])
            done = subprocess.run([str(PTXAS), f"-arch={target}", str(path), "-o",
                                   str(Path(folder) / "x.cubin")], capture_output=True, text=True,
                                  check=False)
        if "is not defined for option 'gpu-name'" in done.stderr:
            return f"{target} is not known to this ptxas"
        if done.returncode:
            raise fuzz.Wrong(f"ptxas: {done.stderr or done.stdout}")
        return target
    return _judged(action)


CAMPAIGNS: dict[str, Campaign] = {
    "programs": Campaign(
        "Random programs: the oracle, the interpreter, and the interpreter around the passes.",
        _program, _interpreted),
    "gpu": Campaign("Random programs: a GPU against the interpreter.", _program, _on_gpu),
    "threads": Campaign(
        "Random programs for all targets: LLVM IR on simulated threads against the interpreter.",
        _program, _on_threads),
    "sources": Campaign(
        "Damaged sources: diagnostics and nothing else.",
        _damaged, lambda given, rng: fuzz.try_input(given, rng, backend=0.05)),
    "passes": Campaign(
        "Damaged sources: those that still compile go through all passes and LLVM.",
        _damaged, lambda given, rng: fuzz.try_input(given, rng, backend=1.0)),
    "hostile": Campaign(
        "Inputs that are too large, too deep or too many of something.",
        hostile.make, lambda given, rng: fuzz.try_input(given, rng, backend=0.3)),
    "conversions": Campaign(
        "Every conversion between two formats, of all numbers of 8 and 16 bits and some wider.",
        conversions.make, lambda given, rng: _judged(lambda: conversions.check(given)),
        conversions.COUNT),
    "proofs": Campaign(
        "Samples with mistakes in their indices, and random programs: the interpreter against "
        "`tritonc prove`.",
        lambda seed, number: _program(seed, number) if number % 3 == 2 else Input(
            mutations.mutated(seed * 10**9 + number)[1].encode(), "tc"),
        lambda given, rng: _judged(lambda: "wrong" if mutations.doubted(
            given.data.decode())["wrong"] else "ran", 300)),
    "products": Campaign(
        "Random products for all targets, meta-parameters forced: the simulators of operations and "
        "of LLVM IR.",
        lambda seed, number: Input(str((
            random_products.make, random_products.patch, random_planes.planes,
            random_products.transposed)[number % 4](seed * 10**9 + number)).encode(), "tc"),
        lambda given, rng: _judged(lambda: random_products.check(
            random_products.Product.read(given.data.decode()), rng.random() < 0.5), 120)),
    "kills": Campaign(
        "The compiler and the tuner end at any moment: no half-written file, no line lost.",
        kills.make, lambda given, rng: _judged(lambda: kills.check(given), 120)),
    "ptxas": Campaign("Random programs for all targets, assembled.", _program, _assembled),
}


def generator(seed: int, number: int) -> random.Random:
    return random.Random(f"campaign {seed}:{number}")


def keep(name: str, seed: int, number: int, given: Input, failure: str) -> Path:
    """Write a finding, unless its cause is known; gives its file."""
    cause = failure.split("\n")[0][:200]
    path = FINDINGS / f"{name}-{hashlib.sha256(cause.encode()).hexdigest()[:12]}.json"
    if not path.exists():
        FINDINGS.mkdir(exist_ok=True)
        path.write_text(json.dumps({
            "campaign": name, "seed": seed, "number": number, "cause": cause,
            "language": given.language, "input": base64.b64encode(given.data).decode(),
        }, indent=2) + "\n", encoding="utf-8")
    return path


def again(path: Path) -> Outcome:
    """What becomes of a finding now."""
    finding: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    given = Input(base64.b64decode(finding["input"]), finding["language"])
    rng = generator(finding["seed"], finding["number"])
    return CAMPAIGNS[finding["campaign"]].attempt(given, rng)


def run(name: str, seed: int, first: int, count: int, seconds: float,
        tell: Callable[[str], None] = lambda text: None) -> fuzz.Report:
    """Try inputs of a campaign from number `first` on."""
    campaign = CAMPAIGNS[name]
    if name in ("sources", "passes"):
        _damaged(seed, 0)  # before processes are forked

    def attempt(number: int) -> Outcome:
        return campaign.attempt(campaign.make(seed, number), generator(seed, number))

    def found(number: int, failure: str) -> None:
        tell(f"kept in {keep(name, seed, number, campaign.make(seed, number), failure)}")

    last = min(first + count, campaign.count)
    memory = 1 << 50 if name == "gpu" else fuzz.MEMORY  # the driver reserves as many addresses
    return fuzz.tried(attempt, range(first, last), seconds=seconds, memory=memory, tell=tell,
                      found=found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", choices=[*CAMPAIGNS])
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--hours", type=float, default=0.1, help="stop after that time")
    parser.add_argument("--count", type=int, default=10**12, help="stop after so many inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, help="the number of the first input")
    parser.add_argument("--replay", type=int, help="show one input and what becomes of it")
    given = parser.parse_args()
    if given.list or given.name is None:
        print("\n".join(f"{name:12} {row.doc}" for name, row in CAMPAIGNS.items()))
        return 0
    campaign = CAMPAIGNS[given.name]
    if given.replay is not None:
        shown = campaign.make(given.seed, given.replay)
        print(shown.data.decode("utf-8", "replace"))
        outcome, failure = campaign.attempt(shown, generator(given.seed, given.replay))
        print(f"--- {shown.language}: {outcome}: {failure}")
        return int(failure is not None)
    state = STATE / f"{given.name}-{given.seed}"
    first = given.first
    if first is None:
        first = int(state.read_text()) if state.exists() else 0
        first = 0 if first >= campaign.count else first
    started = time.monotonic()
    report = run(given.name, given.seed, first, given.count, given.hours * 3600,
                 lambda text: print(text, flush=True))
    STATE.mkdir(parents=True, exist_ok=True)
    state.write_text(str(first + report.total))
    print(f"{given.name}: seed {given.seed}, numbers {first} to {first + report.total}, "
          f"{time.monotonic() - started:.0f} s; {report.text()}")
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
