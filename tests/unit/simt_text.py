"""Taking lines of LLVM IR apart, for `simt`: once each, as loops and threads run them again."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

remembered = lru_cache(1 << 15)


@remembered
def split(text: str) -> tuple[str, ...]:
    """Split at commas outside of brackets and strings."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    rest = text[start:].strip()
    return (*parts, rest) if rest else tuple(parts)


@remembered
def typed(text: str) -> tuple[str, str]:
    """ "TYPE OPERAND" in two."""
    text = text.strip()
    if text.startswith("ptr addrspace("):
        end = text.index(")") + 1
        return text[:end], text[end:].strip()
    if text[0] in "<{":
        depth = 0
        for i, c in enumerate(text):
            depth += (c in "<{[") - (c in ">}]")
            if not depth:
                return text[: i + 1], text[i + 1 :].strip()
    kind, _, rest = text.partition(" ")
    return kind, rest.strip()


@remembered
def closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes the one before `start`."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    raise AssertionError(text)


_ORDER = re.compile(r'( syncscope\("\w+"\))? monotonic')


class Access(NamedTuple):
    """A load or store: the type that is loaded, or the value's type and text; where, and how."""

    type: str
    text: str
    space: str
    address: str
    align: int


@remembered
def access(rest: str, stores: bool) -> Access:
    value, pointer, *_ = split(rest.removeprefix("atomic "))
    align = re.search(r"align (\d+)", rest)
    assert align, rest
    return Access(*(typed(value) if stores else (value, "")), *typed(_ORDER.sub("", pointer)),
                  int(align[1]))


@remembered
def called(rest: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The function's name, and each argument's type and text."""
    head = re.match(r".*? @([\w.$]+)\(", rest)
    assert head, rest
    inside = rest[head.end() : closing(rest, head.end())]
    return head[1], tuple(map(typed, split(inside)))


@remembered
def assembly(rest: str) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    """The result's type, the text and its constraints, and each argument's type and text."""
    head = re.match(r'(.*?) asm (?:sideeffect )?"([^"]*)", "([^"]*)"\(', rest)
    assert head, rest
    inside = rest[head.end() : closing(rest, head.end())]
    return head[1], head[2], head[3], tuple(map(typed, split(inside)))
