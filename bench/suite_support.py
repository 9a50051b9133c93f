"""The workloads of the suite: what bench/suite/*.tc state about themselves, and what is added here.

A file's `//!` lines say a kernel's sizes to measure (`bench:`), its range, its scalars and how its
tensors are made.  A `Kind`, in the tables of suite_*.py, adds what they cannot say: the group, the
reference and the peers in torch, macros that go with sizes, some tiles to try.  A `Workload` is a
file at one of its sizes.

Nothing here needs torch: `suite.py --compile-only` runs where it is not.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
FOLDER = BENCH / "suite"
sys.path[:0] = [str(BENCH.parent)]  # this checkout's tritonc
TABLES = ("suite_products", "suite_narrow", "suite_rows", "suite_streams", "suite_attention",
          "suite_convolutions", "suite_loops", "suite_tiles", "suite_people")
COLLECTIONS = {"suite": TABLES, "paper": ("paper_kernels",)}  # folders of kernels, their tables
GROUPS = ("fp32 products", "half products", "decode products", "epilogues", "batched and grouped",
          "narrow weights", "fp8", "convolution", "shift convolution", "attention",
          "attention, other forms", "attention backward", "paged decode", "rows", "streams",
          "histogram, sort, scan", "loops of tiles", "builtins of tiles", "kernels of users")

Launches = Mapping[str, Callable[[], Any]]
_PLAIN = {"__builtins__": {"min": min, "max": max, "abs": abs}}
_LINE = re.compile(r"^//!\s*(\w+)\s*:\s*(.*?)\s*$", re.MULTILINE)


@dataclass
class Stage:
    """One kernel of a file, and how its problem launches it; expressions are texts."""

    kernel: str | None = None
    range: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)


@dataclass
class Problem:
    """The `//!` lines of a file: its kernels run one behind the other, on shared arguments."""

    sizes: dict[str, str] = field(default_factory=dict)
    defines: dict[str, str] = field(default_factory=dict)
    bench: list[dict[str, str]] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    tolerance: float | None = None
    flops: str | None = None
    bytes: str | None = None

    @property
    def outputs(self) -> list[str]:
        """What the kernels change, and the problem says how."""
        return list(dict.fromkeys(name for stage in self.stages for name in stage.expected))


@dataclass(frozen=True)
class Kind:
    """What the suite adds to the kernel STEM.tc of bench/suite or samples.

    Functions take a case: an object with the tensors, scalars, sizes and macros as attributes.
    `want` gives the expected outputs by name, `peers` launches that compute the same, by name;
    a peer may return its result, or write the outputs.  `inputs` replaces tensors that the `//!`
    lines make with NumPy.  `zeroed` are outputs that a kernel adds to: clearing them is measured.
    `tiles` are tunables to try where sizes are known, `macros` what a user would define for them.
    `limit`: a copy that moves as many bytes is the peer.  `after` runs behind the kernels, where
    a library does the rest.
    """

    group: str
    want: Callable[[Any], Mapping[str, Any]]
    peers: Callable[[Any], Launches]
    inputs: Callable[[Any], Mapping[str, Any]] | None = None
    macros: Callable[[Mapping[str, int]], Mapping[str, int]] | None = None
    tiles: Callable[[Mapping[str, int]], Sequence[Mapping[str, int]]] | None = None
    variants: Sequence[Mapping[str, int]] = ({},)
    zeroed: Sequence[str] = ()
    tolerance: float | None = None
    units: int = 0  # by which integers may differ: those that are rounded, where ties go
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: bool = False
    hot: bool = False  # heats the chip: longer gaps between measurements
    only: Callable[[Mapping[str, int], Mapping[str, int]], bool] | None = None
    after: Callable[[Any], Callable[[], Any]] | None = None


@dataclass(frozen=True)
class Workload:
    """A file at one of its sizes, with macros."""

    stem: str
    kind: Kind
    problem: Problem
    sizes: Mapping[str, int]
    macros: Mapping[str, int]
    own: Mapping[str, int]  # of the macros, those that distinguish it from others
    collection: str = "suite"

    @property
    def path(self) -> Path:
        """The kernel's file."""
        return source(self.stem, self.collection)

    @property
    def name(self) -> str:
        values = [f"{key}{value}" for key, value in self.own.items()]
        return " ".join([self.stem, *values, "x".join(map(str, self.sizes.values()))])

    @property
    def defines(self) -> tuple[str, ...]:
        return tuple(f"{name}={value}" for name, value in self.macros.items())

    def number(self, text: str) -> Any:
        """The value of an expression of sizes and macros."""
        return eval(text, dict(_PLAIN), {**self.macros, **self.sizes})

    @property
    def tiles(self) -> list[dict[str, int]]:
        """Tunables to try where the sizes are known."""
        known = {**self.macros, **self.sizes}
        return [dict(row) for row in self.kind.tiles(known)] if self.kind.tiles else []


def read(text: str) -> Problem:
    """The `//!` lines of a source.

    >>> p = read("//! size: M = 3, N = 2\\n//! range: N, 1\\n//! arg: x = zeros(M, N)\\n"
    ...          "//! expect: x = 1\\n//! bench: M = 1 << 3, N = 7")
    >>> p.sizes, p.bench, p.stages[0].range, p.outputs
    ({'M': '3', 'N': '2'}, [{'M': '1 << 3', 'N': '7'}], ['N', '1'], ['x'])
    """
    problem = Problem()
    for key, value in _LINE.findall(text):
        if key == "kernel":
            problem.stages.append(Stage(value))
            continue
        if not problem.stages:
            problem.stages.append(Stage())
        stage = problem.stages[-1]
        name, _, expression = (part.strip() for part in value.partition("="))
        if key == "size":
            problem.sizes.update(pairs(value))
        elif key == "define":
            problem.defines[name] = expression or "1"
        elif key == "bench":
            problem.bench.append(pairs(value))
        elif key == "range":
            stage.range = split(value)
        elif key == "arg":
            stage.arguments[name] = re.sub(r"\s:\s*[\w ]+$", "", expression)
        elif key in ("expect", "clobber"):
            stage.expected += [name] if key == "expect" else split(value)
        elif key == "tolerance":
            problem.tolerance = float(value)
        elif key == "flops":
            problem.flops = value
        elif key == "bytes":
            problem.bytes = value
    return problem


def split(text: str) -> list[str]:
    """The parts of a text between commas that no bracket holds.

    >>> split("f(a, b), c")
    ['f(a, b)', 'c']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def pairs(text: str) -> dict[str, str]:
    """`M = 3, N = 4` by name."""
    return {name.strip(): value.strip()
            for name, _, value in (part.partition("=") for part in split(text))}


def source(stem: str, collection: str = "suite") -> Path:
    """The file of a kernel: of the collection, or else a sample."""
    own = BENCH / collection / f"{stem}.tc"
    return own if own.exists() else BENCH.parent / "samples" / own.name


@cache
def kinds(collection: str = "suite") -> dict[str, Kind]:
    """The tables of a collection, by the stem of the file."""
    found: dict[str, Kind] = {}
    for table in COLLECTIONS[collection]:
        found |= importlib.import_module(table).KINDS
    return found


def other_sizes(path: Path) -> dict[str, list[dict[str, str]]]:
    """Sizes for kernels, in place of their files': lines such as `gemv: N = 11008, K = 4096`."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            stem, _, sizes = line.partition(":")
            found.setdefault(stem, []).append(pairs(sizes))
    return found


def workloads(pattern: str = "", group: str = "", collection: str = "suite",
              others: Path | None = None) -> list[Workload]:
    """What is measured, in the order of the tables; `pattern` is a regular expression.  `others`:
    a file of sizes for those kernels that it names, and no more."""
    found, instead = [], other_sizes(others) if others is not None else None
    for stem, kind in kinds(collection).items():
        if instead is not None and stem not in instead:
            continue
        problem = read(source(stem, collection).read_text())
        for variant in kind.variants:
            for line in instead[stem] if instead else problem.bench or [problem.sizes]:
                sizes = {name: eval(value, dict(_PLAIN)) for name, value in line.items()}
                if kind.only and not kind.only(sizes, variant):
                    continue
                more = dict(kind.macros(sizes)) if kind.macros else {}
                one = Workload(stem, kind, problem, sizes, {**more, **variant}, variant,
                               collection)
                if group.lower() in kind.group.lower() and re.search(pattern, one.name):
                    found.append(one)
    return found


def with_triton(make: Callable[[Any], Launches]) -> dict[str, Callable[[], Any]]:
    """What `make(suite_triton)` gives; nothing where Triton is not installed."""
    try:
        return dict(make(importlib.import_module("suite_triton")))
    except ImportError:
        return {}


def beside(name: str, run: Callable[[Any], Any], more: Callable[[Any], Launches]
           ) -> Callable[[Any], Launches]:
    """A peer of torch and others."""
    return lambda t: {name: lambda: run(t), **more(t)}


def elsewise(peers: Launches) -> Launches:
    """Peers that reach the same results by another algorithm, which moves or computes less: they
    are measured and shown, and no ratio counts them."""
    return {f"other {name}": run for name, run in peers.items()}


def power(number: int, least: int = 16) -> int:
    """The least power of two that is not below a number."""
    return max(least, 1 << (number - 1).bit_length())


def tiles(*rows: tuple[int, ...], names: str = "TM TN TK") -> list[dict[str, int]]:
    """Tunables by rows of values.

    >>> tiles((64, 32), names="TM TN")
    [{'TM': 64, 'TN': 32}]
    """
    return [dict(zip(names.split(), row, strict=True)) for row in rows]
