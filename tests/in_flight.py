"""Registers of PTX that products on wgmma still read or write, and what touches them meanwhile.

PTX ISA, "Asynchronous warpgroup-level matrix instructions": until a `wgmma.wait_group` that covers
it, nothing but another wgmma may access the accumulators of a wgmma.mma_async, and nothing may
write the registers of its left operand.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Group = frozenset[int]  # lines of wgmma.mma_async
State = tuple[Group, ...]  # what is committed and may be in flight, then what is not committed

_NAME = re.compile(r"%[a-z]+\d+")
_PRODUCT = re.compile(r"wgmma\.mma_async\S* \{([^}]*)\}, (?:\{([^}]*)\})?")
_LABEL = re.compile(r"^(\$\w+):")
_JUMP = re.compile(r"^(@!?%p\d+ )?bra(?:\.uni)? +\t?(\$\w+);")
_NO_RESULT = ("st.", "red.", "bar", "bra", "ret", "fence", "membar", "cp.", "mbarrier.arrive.",
              "mbarrier.init", "mbarrier.inval", "prefetch", "setmaxnreg", "trap", "stmatrix",
              "griddepcontrol", "discard", "nanosleep", "exit", "mbarrier.expect", "barrier")


class _Line(NamedTuple):
    text: str
    written: frozenset[str]
    named: frozenset[str]


def touched_in_flight(ptx: str) -> list[str]:
    """What accesses a register of a product in flight, a line for each.

    >>> start = "wgmma.mma_async.x {%f1}, {%r1}, %rd1; wgmma.commit_group.sync.aligned; "
    >>> start = start.replace("; ", ";" + chr(10))
    >>> touched_in_flight(start + "mov.b32 %r1, %r2;")
    ['mov.b32 %r1, %r2; // %r1']
    >>> touched_in_flight(start + "mov.b32 %r2, %r1;\\nwgmma.wait_group.sync.aligned 0;\\nret;")
    []
    """
    found: dict[str, None] = {}
    for text in re.split(r"(?m)^\t?\.(?:visible |weak )?\.?(?:entry|func)", ptx):
        found.update(dict.fromkeys(_function(text)))
    return list(found)


def _function(text: str) -> list[str]:
    lines = [_read(one) for one in _statements(text)]
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line.text))}
    products = {i: (frozenset(_NAME.findall(m[1])), frozenset(_NAME.findall(m[2] or "")))
                for i, line in enumerate(lines) if (m := _PRODUCT.search(line.text))}
    found = []
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, (frozenset(),))]
    while stack:
        at, state = stack.pop()
        while at < len(lines) and (not any(state) or (at, state) not in seen):
            if any(state) or _LABEL.match(lines[at].text):
                if (at, state) in seen:
                    break
                seen.add((at, state))
            line = lines[at]
            if at in products:
                state = (*state[:-1], state[-1] | {at})
            elif line.text.startswith("wgmma.commit_group"):
                state = (*state, frozenset())
            elif line.text.startswith("wgmma.wait_group"):
                pending = int(line.text.rstrip(";").split()[-1])
                state = (*state[max(0, len(state) - 1 - pending):-1], state[-1])
            elif any(state):
                flying = [products[i] for group in state for i in group]
                for sums, operands in flying:
                    found += [f"{line.text} // {name}" for name in sorted(
                        line.named & sums | line.written & operands)]
            if jump := _JUMP.match(line.text):
                stack.append((labels[jump[2]], state))
                if jump[1] is None:
                    break
            elif line.text in ("ret;", "exit;", "trap;"):
                break
            at += 1
    return found


def _statements(text: str) -> list[str]:
    """Instructions and labels, one each, without braces, directives and comments."""
    text = re.sub(r"//[^\n]*", "", text)
    found = []
    for line in text.splitlines():
        line = line.strip()
        if m := _LABEL.match(line):
            found.append(m[0])
            line = line[m.end():].strip()
        found += [f"{part.strip().lstrip('{ ')};" if not part.strip().startswith("{%") else
                  f"{part.strip()};" for part in line.split(";") if part.strip(" {}\t)")]
    return [one for one in found if not one.startswith(".")]


def _read(text: str) -> _Line:
    named = frozenset(_NAME.findall(text))
    body = re.sub(r"^@!?%p\d+ ", "", text)
    if _LABEL.match(text) or body.startswith((*_NO_RESULT, "wgmma")):
        return _Line(text, frozenset(), named)
    operands = body.split(None, 1)[1] if " " in body or "\t" in body else ""
    first = operands[: operands.index("}")] if operands.startswith("{") and "}" in operands \
        else operands.split(",")[0]
    return _Line(text, frozenset(_NAME.findall(first)), named)
