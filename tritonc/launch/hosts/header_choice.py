"""The C by which a header chooses among the variants of a kernel: `tritonc.variants.choice`, run on
words that write C.

For a kernel `k` with variants:

    k_variants                                  how many there are beside the general entry
    k_variant(range0, ..., arguments...)        the number of the one that a launch takes
    k_allowed(range0, ..., arguments...)        a bit for each variant that may run
    k_launch_variant(number, range0, ..., stream, arguments...)

And if variants take memory for sums (`backend.launch.sum_in_memory`):

    k_workspace_bytes(range0, ..., arguments...)
    k_launch_workspace(range0, ..., stream, workspace, bytes, arguments...)
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tritonc.launch.hosts.header_kernel import KernelFunctions, as_signed, constant
from tritonc.variants import choice, words

_NAME = re.compile(r"\btritonc_\d+\b")


def lines_of(of: KernelFunctions) -> Iterator[str]:
    yield f"/* ---- {of.name} ---- */"
    yield from of.constants()
    yield from of.check()
    if of.variants:
        yield from choosing(of)
        yield "/* Launches one variant, if it may run with these arguments. */"
        yield of.head("launch_variant", ["unsigned variant"], ["CUstream stream"])
        yield from of.start("variant", (
            f"variant > {len(of.variants)} || !({of.name}_allowed({of.call})"
            " >> variant & 1)"))
    if of.kernel["assumptions"]:
        yield ("/* The arguments must be such that "
               + ",\n * ".join(of.kernel["assumptions"]) + ". */")
    yield of.head("launch", between=["CUstream stream"])
    yield from of.start(of.taken)
    if of.in_memory:
        yield of.with_memory()


def choosing(of: KernelFunctions) -> Iterator[str]:
    unused = [f"  (void){each};" for each in (*of.axes, *of.names)]
    yield "/* A bit for each variant that may run with these arguments; bit 0: the general one. */"
    yield of.head("allowed", returns="uint64_t")
    yield from [*unused, *_allowed(of, False), "}\n"]
    yield of.head("choose", ["uint64_t allowed", "unsigned target"], returns="unsigned")
    yield from [*unused, "  (void)allowed;", "  (void)target;"]
    for target, own in enumerate(of.choices, 1):
        if own is not None:
            yield f"  if (target == {target}) {{"
            yield from _chosen(of, own)
            yield "  }"
    yield from [*_chosen(of, of.kernel["choice"]), "}\n"]
    if of.in_memory:
        yield "/* The variant that a launch takes which has memory. */"
        yield of.head("with_memory", returns="uint64_t")
        yield from [*unused, *_allowed(of, True), "}\n"]
        yield of.head("in_memory", returns="unsigned")
        yield f"  const uint64_t allowed = {of.name}_with_memory({of.call});"
        yield f"  return {of.best(f'allowed | {of.name}_allowed({of.call})', '0')};\n}}\n"
    yield "/* The variant that a launch takes which is allowed: 0 is the general one. */"
    yield of.head("variant", returns="unsigned")
    yield f"  return {of.best(f'{of.name}_allowed({of.call})', '0')};\n}}\n"


class _Word(words.Word):
    """A word that one of `lines` computes, each an expression and its name; equal ones once."""

    def __init__(self, lines: dict[str, str], expression: str) -> None:
        self.lines = lines
        self.text = lines.setdefault(expression, f"tritonc_{len(lines)}")

    def made(self, name: str, *operands: Any) -> "_Word":
        a, *more = map(_text, operands)
        if name == "bits":
            return _Word(self.lines, f"tritonc_bits({a})")
        if name == "?":
            return _Word(self.lines, f"{a} ? {more[0]} : {more[1]}")
        if name in ("+", "-", "*", "/", "<<"):  # where it overflows or is negative, nobody looks
            return _Word(self.lines, f"(int64_t)((uint64_t){a} {name} (uint64_t){more[0]})")
        return _Word(self.lines, f"{a} {name} {more[0]}")


def _text(value: Any) -> str:
    return value.text if isinstance(value, _Word) else (
        str(int(value)) if abs(value) < 1 << 31 else constant(value))


def _returned(lines: Mapping[str, str], result: str) -> list[str]:
    """The lines that a result needs, and its return."""
    needed, found = set(_NAME.findall(result)), [f"  return {result};"]
    for expression, name in [*lines.items()][::-1]:
        if name in needed:
            needed.update(_NAME.findall(expression))
            found.append(f"  const int64_t {name} = {expression};")
    return found[::-1]


def _allowed(of: KernelFunctions, in_memory: bool) -> list[str]:
    """Which variants may run, among those that take memory or the others."""
    lines: dict[str, str] = {}
    extents = [_Word(lines, axis) for axis in of.axes]
    values = [_Word(lines, f"(int64_t)(uintptr_t){own}" if "access" in row else
                    f"(int64_t){as_signed(row['type'], own)}")
              for own, row in zip(of.names, of.kernel["parameters"], strict=True)]
    bits = {number: choice.allowed(v["requires"], v["tile"], extents, values, in_memory)
            for number, v in enumerate(of.variants, 1) if choice.is_in_memory(v) == in_memory}
    return _returned(lines, " | ".join(["1", *(
        f"(uint64_t){_text(bit)} << {number}" for number, bit in bits.items())]))


def _chosen(of: KernelFunctions, rule: Mapping[str, Any]) -> list[str]:
    """The best of those that are allowed."""
    lines: dict[str, str] = {}
    extents = [_Word(lines, axis) for axis in of.axes]
    values = [_Word(lines, f"tritonc_signed({own})" if row["type"] == "unsigned long long" else
                    f"(int64_t){own}")
              for own, row in zip(of.names, of.kernel["parameters"], strict=True)]
    may = [True, *(_Word(lines, f"(int64_t)(allowed >> {number} & 1)")
                   for number in range(1, len(of.variants) + 1))]
    tiles = [of.kernel["tile"], *(variant["tile"] for variant in of.variants)]
    return _returned(lines, f"(unsigned){_text(choice.choose(rule, tiles, may, extents, values))}")
