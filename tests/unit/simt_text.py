"""Taking lines of LLVM IR apart, for `simt`: once each, as loops and threads run them again."""

from __future__ import annotations

from functools import lru_cache

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
