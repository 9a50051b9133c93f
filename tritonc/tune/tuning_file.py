"""Tuning files: KERNEL.tune.json beside KERNEL.tc, written by `tritonc tune` and kept with it.

    {"format": 1, "entries": [
      {"kernel": "matmul", "target": "sm_90a", "size": {"K": 4096, "M": 4096, "N": 4096},
       "defines": [], "source": "4a7d...", "device": "NVIDIA H200", "milliseconds": 2.61,
       "tunables": {"TK": 16, "TM": 128, "TN": 128, "num_warps": 8}}]}

An entry says what was best for one kernel, target and problem size.  `source` is a hash of the
preprocessed tokens: comments and layout may change, and every macro has its effect.  An entry with
another hash is *stale* and not used: what was measured on another program proves nothing of this.
Entries are sorted and written one fact on a line, so that differences read well.

Of several sizes, a compilation takes the nearest to the one that it is told: the least sum of
|log2(a / b)| over the sizes' names, the first in sorted order if several are as near.  Told
none, it takes the largest, by the product of its sizes.  Launches of variants measure the same
distance (`tritonc.variants.choice`), in integers."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Protocol

from tritonc.options import Options
from tritonc.outputs import STANDARD
from tritonc.records import NamedTuple
from tritonc.source import fail
from tritonc.variants.choice import distance

FORMAT = 1
SUFFIX = ".tune.json"


class _Token(Protocol):
    kind: str
    text: str


class Entry(NamedTuple):
    """The best found for one kernel, target and size.  `tunables` has meta-parameters too."""

    kernel: str
    target: str
    size: Mapping[str, int]
    defines: tuple[str, ...]
    source: str
    device: str
    milliseconds: float
    tunables: Mapping[str, int]

    @property
    def order(self) -> tuple[Any, ...]:
        """By which entries are sorted."""
        return self.kernel, self.target, self.defines, sorted(self.size.items()), self.source

    def replaces(self, other: "Entry") -> bool:
        """Whether this is a new measurement of what the other one measured."""
        same = (self.kernel, self.target, self.size) == (other.kernel, other.target, other.size)
        return same and (self.source == other.source or self.defines == other.defines)


def beside(path: str) -> str:
    """The tuning file of a source.

    >>> beside("kernels/matmul.tc")
    'kernels/matmul.tune.json'
    """
    return os.path.splitext(path)[0] + SUFFIX


def with_tuning_file(options: Options, path: str) -> Options:
    """The options with the tuning file that the source `path` has, unless they name another."""
    if options.tuning == "none":
        return replace(options, tuning=None)
    if options.tuning is None and path != STANDARD and os.path.exists(beside(path)):
        return replace(options, tuning=beside(path))
    return options


def source_hash(tokens: Iterable[_Token]) -> str:
    """16 hexadecimal digits that say which program this is."""
    from hashlib import sha256  # 2 ms

    text = "\n".join(f"{token.kind} {token.text}" for token in tokens)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- text -----------------------------------------------------------------------------------------

_KINDS: dict[str, type | tuple[type, ...]] = {
    "kernel": str, "target": str, "size": dict, "defines": list, "source": str, "device": str,
    "milliseconds": (int, float), "tunables": dict}  # fmt: skip


def parse(text: str, name: str) -> list[Entry]:
    """The entries of a file's text.  Raises CompileError naming the file `name`."""
    try:
        contents = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fail("tuning-file", None, f"'{name}' is not a tuning file: {error}") from None
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise fail("tuning-file", None, f"'{name}' is not a tuning file of format {FORMAT}")
    rows = contents.get("entries")
    if not isinstance(rows, list):
        raise fail("tuning-file", None, f"'{name}' has no list of entries")
    return [_entry(row, name, number) for number, row in enumerate(rows, 1)]


def _entry(row: Any, name: str, number: int) -> Entry:
    for key, kind in _KINDS.items():
        if not isinstance(row, dict) or not isinstance(row.get(key), kind):
            raise fail("tuning-file", None, f"'{name}': entry {number} has no valid '{key}'")
    for key in ("size", "tunables"):
        if not all(type(value) is int for value in row[key].values()):
            raise fail("tuning-file", None, f"'{name}': entry {number}: '{key}' holds integers")
    if not all(isinstance(word, str) for word in row["defines"]):
        raise fail("tuning-file", None, f"'{name}': entry {number}: 'defines' holds strings")
    return Entry(**{**{key: row[key] for key in _KINDS}, "defines": tuple(row["defines"])})


def render(entries: Iterable[Entry]) -> str:
    """The file's text."""
    blocks = []
    for entry in sorted(entries, key=lambda e: e.order):
        facts = {**entry._asdict(), "size": dict(sorted(entry.size.items())),
                 "tunables": dict(sorted(entry.tunables.items())),
                 "milliseconds": float(f"{entry.milliseconds:.4g}")}
        lines = [f"      {json.dumps(key)}: {json.dumps(facts[key])}" for key in _KINDS]
        blocks.append("    {\n" + ",\n".join(lines) + "\n    }")
    inner = "\n" + ",\n".join(blocks) + "\n  " if blocks else ""
    return f'{{\n  "format": {FORMAT},\n  "entries": [{inner}]\n}}\n'


def read(path: str) -> list[Entry]:
    """The entries of a file.  Raises CompileError if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read(), path)
    except OSError as error:
        raise fail("tuning-file", None, f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise fail("tuning-file", None, f"'{path}' is not text in UTF-8") from None


# --- choosing -------------------------------------------------------------------------------------


def merge(old: Iterable[Entry], new: Sequence[Entry]) -> list[Entry]:
    """`new`, and what of `old` it does not replace."""
    return [*(e for e in old if not any(n.replaces(e) for n in new)), *new]


def matching(entries: Iterable[Entry], source: str, target: str) -> dict[str, list[Entry]]:
    """The entries for this source and target by their kernels, sorted."""
    found: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: e.order):
        if (entry.source, entry.target) == (source, target):
            found.setdefault(entry.kernel, []).append(entry)
    return found


def lookup(entries: Iterable[Entry], source: str, target: str, size: Mapping[str, int]
           ) -> dict[str, Entry]:
    """The entry to use for each kernel that has one for this source and target."""
    return {kernel: nearest(choice, size)
            for kernel, choice in matching(entries, source, target).items()}


def is_stale(entries: Iterable[Entry], source: str, target: str, defines: tuple[str, ...]) -> bool:
    """Whether there are entries for this target and these macros, but of another program."""
    mine = [e for e in entries if (e.target, e.defines) == (target, defines)]
    return bool(mine) and all(e.source != source for e in mine)


def nearest(entries: Sequence[Entry], size: Mapping[str, int]) -> Entry:
    """The entry of the nearest size; of the largest if `size` is empty."""
    def far(entry: Entry) -> int:
        names = [name for name in entry.size if name in size]
        return distance([entry.size[n] for n in names], [size[n] for n in names])

    if size:
        return min(entries, key=far)
    return max(entries, key=lambda e: prod(max(n, 1) for n in e.size.values()))
