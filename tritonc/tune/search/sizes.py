"""Sizes to tune for, as the command line and files of sizes say them.

    M=4096,N=4096,K=4096        one size
    M=1..64:x2,N=4096           M = 1, 2, 4, ..., 64, each with this N
    M=1..64:x2,K=1024..4096:+1024     all pairs

A file has one such line for each size or grid; `#` begins a comment."""

import re
from collections.abc import Iterable
from itertools import product
from math import prod

MOST = 4096  # sizes of a run: a grid of three axes is soon larger than anyone means
_PART = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(-?\w+)\s*"
                   r"(?:\.\.\s*(-?\w+)\s*(?::\s*([x+])\s*(\w+)\s*)?)?\Z")


def expand(text: str) -> list[dict[str, int]]:
    """The sizes of one line.  Raises ValueError, whose text says what is wrong.

    >>> expand("M=1..4:x2, N=8")
    [{'M': 1, 'N': 8}, {'M': 2, 'N': 8}, {'M': 4, 'N': 8}]
    """
    axes: dict[str, list[int]] = {}
    for part in filter(str.strip, text.split(",")):
        found = _PART.match(part)
        if found is None:
            raise ValueError(f"'{part.strip()}' is none of them")
        name, *numbers = found.group(1), *found.group(2, 3, 5)
        if name in axes:
            raise ValueError(f"'{text}' has {name} twice")
        low, high, step = (None if n is None else _integer(n, part) for n in numbers)
        assert low is not None
        axes[name] = [low] if high is None else _steps(low, high, found.group(4), step, part)
        if len(axes[name]) > MOST:
            raise ValueError(f"'{part.strip()}' has {len(axes[name])} values; the limit is {MOST}")
    count = prod(map(len, axes.values()))
    if count > MOST:
        raise ValueError(f"'{text}' has {count} sizes; the limit is {MOST}")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _integer(word: str, part: str) -> int:
    try:
        return int(word, 0)
    except ValueError:
        raise ValueError(f"'{part.strip()}': '{word}' is not an integer") from None


def _steps(low: int, high: int, kind: str | None, step: int | None, part: str) -> list[int]:
    """Both ends are among the values."""
    if kind is None or step is None:
        kind, step = "x", 2
    if high < low:
        raise ValueError(f"'{part.strip()}': {high} is less than {low}")
    if kind == "x" and (step < 2 or low < 1):
        raise ValueError(f"'{part.strip()}': a factor is at least 2, and the first value 1")
    if kind == "+" and step < 1:
        raise ValueError(f"'{part.strip()}': a step is at least 1")
    found: list[int] = []
    while low < high and len(found) <= MOST:
        found.append(low)
        low = low * step if kind == "x" else low + step
    return [*found, high]


def expand_all(lines: Iterable[str]) -> list[dict[str, int]]:
    """The sizes of several lines, each once.  Raises ValueError."""
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for line in lines:
        for size in expand(line):
            found.setdefault(tuple(sorted(size.items())), size)
    if len(found) > MOST:
        raise ValueError(f"there are {len(found)} sizes; the limit is {MOST}")
    return [*found.values()]


def read(path: str) -> list[str]:
    """The lines of a file of sizes.  Raises OSError; ValueError for what is no text, or empty."""
    with open(path, encoding="utf-8") as file:
        try:
            lines = [line.partition("#")[0].strip() for line in file]
        except UnicodeDecodeError:
            raise ValueError(f"'{path}' is not text in UTF-8") from None
    found = [line for line in lines if line]
    if not found:
        raise ValueError(f"'{path}' has no size")
    return found
