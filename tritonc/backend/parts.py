"""A module of LLVM IR as several, which threads make PTX at the same time, and their PTX as one.

Kernels share no code: where nothing but intrinsics and inlined helpers is called, each part has
some of them, the helpers, and the globals.  LLVM leaves out globals that no kernel of the part
names, and writes the others each time.
"""

import re
from itertools import groupby

LEAST = 1000  # lines of a kernel, 15 to 30 ms of LLVM; a part of its own costs 1
KERNEL = "\ndefine ptx_kernel "
_HEAD = re.compile(r"(.*?\n\.address_size [0-9]+\n)(.*)", re.DOTALL)


def stands_alone(text: str) -> bool:
    """Whether nothing but kernels, globals and helpers that are inlined is in the module."""
    return "!dbg" not in text and not re.search(
        r"\nde(?:clare .*@(?!llvm\.)|fine (?!ptx_kernel|.* #4 \{\n))", text)


def is_long(text: str) -> bool:
    """Whether a kernel, after which anything may come, is long enough for a part."""
    return text.partition("\n}\n")[0].count("\n") >= LEAST


def split(text: str) -> list[str]:
    """The parts of a module, in its order: each long kernel, and the short ones between; itself,
    if kernels call functions that stay."""
    head, *kernels = text.split(KERNEL)
    if len(kernels) < 2 or not any(map(is_long, kernels)) or not stands_alone(text):
        return [text]
    last, end, tail = kernels[-1].partition("\n}\n")
    kernels[-1] = last + end
    groups = list[list[str]]()
    for long, found in groupby(kernels, is_long):
        run = [*found]
        groups += [[one] for one in run] if long else [run]
    return [KERNEL.join([_named(head, part), *part]) + tail for part in groups]


def _named(head: str, kernels: list[str]) -> str:
    """Without the shared memory of other kernels, which LLVM would write, unlike other globals."""
    lines = head.split("\n")
    return "\n".join(line for line in lines if "= internal addrspace(3) " not in line or any(
        re.search(line.partition(" ")[0] + r"\b", kernel) for kernel in kernels))


def join(parts: list[str]) -> str:
    """The PTX of a module by that of its parts, which are used up, as they may be large: first what
    declares their globals, each once.  The first part alone may have functions that stay: all of it
    then comes before the globals."""
    if len(parts) == 1:
        return parts[0]
    head, globals, kernels, own = "", dict[str, None](), list[str](), set[str]()
    parts.reverse()
    while parts:
        match = _HEAD.fullmatch(part := parts.pop())
        assert match is not None
        text, entry, rest = match[2].partition(".visible .entry ")
        if not head and ".func" in match[2]:
            head, own = part, {*match[2].split("\n")}
            continue
        lines = text.split("\n")
        globals |= dict.fromkeys(line for line in lines if line.startswith((".", "// "))
                                 and line not in own)
        name = "".join(line + "\n" for line in lines if line.startswith("\t// .globl"))
        if not head:
            head = match[1] + "\n" + name
            name = ""
        kernels += [name, entry, rest]
    return "".join([head, *(line + "\n" for line in globals), "\n", *kernels])
