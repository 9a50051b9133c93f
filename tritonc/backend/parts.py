"""A module of LLVM IR as several, which threads make PTX at the same time, and their PTX as one.

Kernels share no code: where nothing but intrinsics is called, each part has some of them, and the
globals.  LLVM leaves out those that no kernel of the part names, and writes the others each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LEAST = 4000  # lines of a part, 50 to 100 ms of LLVM
_KERNEL = "\ndefine ptx_kernel "
_HEAD = re.compile(r"(.*?\n\.address_size [0-9]+\n)(.*)", re.DOTALL)


def split(text: str) -> list[str]:
    """The parts of a module, in its order: itself, if its kernels are small or call functions."""
    head, *kernels = text.split(_KERNEL)
    if len(kernels) < 2 or text.count("\n") < 2 * LEAST or "!dbg" in text or re.search(
            r"^(declare .*@(?!llvm\.)|define (?!ptx_kernel))", text, re.MULTILINE):
        return [text]
    last, end, tail = kernels[-1].partition("\n}\n")
    kernels[-1] = last + end
    return [_KERNEL.join([head, *part]) + tail for part in _groups(kernels)]


def _groups(kernels: list[str]) -> Iterator[list[str]]:
    """Neighbours, until they have LEAST lines."""
    part: list[str] = []
    for kernel in kernels:
        part.append(kernel)
        if sum(one.count("\n") for one in part) >= LEAST:
            yield part
            part = []
    if part:
        yield part


def join(parts: list[str]) -> str:
    """The PTX of a module by that of its parts: what declares a global again is left out."""
    found, seen = "", set[str]()
    for part in parts:
        match = _HEAD.fullmatch(part)
        assert match is not None
        head, rest = match.groups()
        globals, entry, kernels = rest.partition(".visible .entry ")
        lines = globals.split("\n")
        if found:
            head, lines = "", [*(line for line in lines if line and line not in seen), ""]
        seen.update(lines)
        found += head + "\n".join(lines) + entry + kernels
    return found
