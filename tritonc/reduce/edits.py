"""Edits: what a reducer may do to a text, made of replacements of ranges of characters."""

import re
from collections.abc import Callable, Iterable

from tritonc.records import NamedTuple


class Replacement(NamedTuple):
    """Characters [start, end) of a text become `text`."""

    start: int
    end: int
    text: str = ""


def over(match: re.Match[str], text: str = "") -> Replacement:
    """What a pattern matches becomes `text`, or goes."""
    return Replacement(match.start(), match.end(), text)


Edit = tuple[Replacement, ...]  # what is done together
Kind = Callable[[str], Iterable[Edit]]  # the edits of one kind that a text offers


def deletion(start: int, end: int) -> Edit:
    return (Replacement(start, end),)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after as many of the edits as go together; an earlier edit has precedence.

    What lies inside of a range that is deleted is deleted with it.

    >>> apply("f(a, b);", [(Replacement(2, 6),), (Replacement(5, 6, "c"),)])
    'f();'
    """
    chosen: list[Replacement] = []
    for edit in edits:
        added, replaced = [], []
        for part in edit:
            near = [r for r in chosen if r.start < part.end and part.start < r.end]
            if any(r.start <= part.start and part.end <= r.end and not r.text for r in near):
                continue
            inside = [r for r in near if part.start <= r.start and r.end <= part.end]
            if len(inside) != len(near) or (inside and part.text):
                break
            added.append(part)
            replaced += inside
        else:
            chosen = [r for r in chosen if r not in replaced] + added
    pieces, at = [], 0
    for start, end, new in sorted(chosen):
        pieces += [text[at:start], new]
        at = max(at, end)
    return "".join([*pieces, text[at:]])
