"""Edits of Triton-IR by its lines: blocks, operations, guards, attributes, parameters."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tritonc.reduce.edits import Edit, Kind, Replacement, deletion, over
from tritonc.reduce.lines import comments, last_first, numbers, problem_lines, sizes

_OPERATION = re.compile(
    r"^[ \t]+(?P<guard>@%[\w.]+ )?(?:(?P<results>%[\w.]+(?:, %[\w.]+)*) = )?(?P<name>[a-z_]\w*)\b"
    r"(?P<rest>[^\n]*)\n", re.MULTILINE)
_TYPE = re.compile(r" : ([^:{}\n]+)$")
_LABEL = re.compile(r"^([\w.]+):[ \t]*\n", re.MULTILINE)
_KERNEL = re.compile(r"^kernel\b.*?^\}\n?", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"([\w*]+(?: constant\*)?) (%[\w.]+)(?: \{[^}]*\})?(, )?")
_VALUE = re.compile(r"%[\w.]+")


def _uses(text: str, value: str) -> Iterator[re.Match[str]]:
    return re.finditer(re.escape(value) + r"(?![\w.])", text)


def kernels(text: str) -> Sequence[Edit]:
    """Kernels go, and lines outside of them."""
    apart = re.finditer(r"^(#|constant|//).*\n", text, re.MULTILINE)
    return [(over(m),) for m in (*_KERNEL.finditer(text), *apart)]


operations = last_first(_OPERATION)


def blocks(text: str) -> Iterator[Edit]:
    """A block goes; branches to it go where it went, or where they go else."""
    labels = [*_LABEL.finditer(text)]
    for label, after in zip_longest(labels, labels[1:]):
        name = label[1]
        end = after.start() if after else text.find("\n}", label.start()) + 1
        body = text[label.start() : end]
        inside = label.start(), end
        edit = [Replacement(*inside)]
        next_ = re.search(r"^\s+br ([\w.]+)\n", body, re.MULTILINE)
        for m in re.finditer(rf"cond_br (%[\w.]+), ([\w.]+), ([\w.]+)|br {re.escape(name)}(?!\S)",
                             text):
            if inside[0] <= m.start() < inside[1]:
                continue
            if m[1] and name in (m[2], m[3]):
                edit.append(over(m, f"br {m[3] if m[2] == name else m[2]}"))
            elif not m[1] and next_:
                edit.append(over(m, f"br {next_[1]}"))
        edit += map(over, re.finditer(rf"\[%[\w.]+, {re.escape(name)}\](, )?", text))
        yield tuple(edit)


def branches(text: str) -> Iterator[Edit]:
    """A branch always goes one way, or the kernel ends there; two blocks become one."""
    for m in re.finditer(r"^( +)(?:cond_)?br .*\n", text, re.MULTILINE):
        yield (over(m, f"{m[1]}ret\n"),)
    for m in re.finditer(r"^ +br ([\w.]+)\n\1:[ \t]*\n", text, re.MULTILINE):
        yield (over(m),)
    for m in re.finditer(r"cond_br %[\w.]+, ([\w.]+), ([\w.]+)", text):
        labels = [label[1] for label in _LABEL.finditer(text, 0, m.start())]
        for kept, gone in ((m[1], m[2]), (m[2], m[1])):
            edit = [over(m, f"br {kept}")]
            start = text.find(f"\n{gone}:")
            following = _LABEL.search(text, start + len(gone) + 2) if start >= 0 else None
            end = following.start() if following else len(text)
            edit += map(over, re.compile(
                rf"\[%[\w.]+, {re.escape(labels[-1] if labels else '')}\](, )?").finditer(
                text, max(start, 0), end))
            yield tuple(edit)


def replaced(text: str) -> Iterator[Edit]:
    """An operation goes, and another value of its type stands for its result."""
    known: dict[str, list[str]] = {}
    types: dict[str, str] = {}
    for m in re.finditer(r"^kernel[^\n]*", text, re.MULTILINE):
        for p in _PARAMETER.finditer(m[0]):
            known.setdefault(p[1], []).append(p[2])
            types[p[2]] = p[1]
    for m in _OPERATION.finditer(text):
        stated = _TYPE.search(m["rest"])
        results = (m["results"] or "").split(", ")
        if not stated or not results[0]:
            continue
        named = stated[1] if len(results) == 1 or ", " not in stated[1] else ""
        operands = [v for v in _VALUE.findall(m["rest"]) if types.get(v) == named]
        others = [*dict.fromkeys([*operands[::-1], *known.get(named, [])[-3:]])]
        for other in others if named else ():
            if other not in results:
                yield (over(m), *(over(u, other) for result in results
                                  for u in _uses(text, result)
                                  if not m.start() <= u.start() < m.end()))
        for result in results:
            types[result] = named
            known.setdefault(named, []).append(result)


def constants(text: str) -> Iterator[Edit]:
    """An operation becomes a constant."""
    for m in _OPERATION.finditer(text):
        stated = _TYPE.search(m["rest"])
        if not stated or m["name"] in ("constant", "phi", "undef") or "," in (m["results"] or ","):
            continue
        scalar = stated[1].partition("<")[0]
        value = "0.0" if "f" in scalar else "0"
        line = (f"undef : {stated[1]}" if "*" in scalar else
                f"constant {{value = {value}}} : {stated[1]}")
        yield (over(m, f"  {m['results']} = {line}\n"),)


def trimmed(text: str) -> Iterator[Edit]:
    """Guards, attributes, entries of lists go, and parameters that nothing uses."""
    for m in _OPERATION.finditer(text):
        if m["guard"]:
            yield deletion(m.start("guard"), m.end("guard"))
    for m in re.finditer(r"^kernel[^\n]*", text, re.MULTILINE):
        for p in _PARAMETER.finditer(m[0]):
            if len([*_uses(text, p[2])]) == 1:
                argument = re.compile(rf"^//!\s*arg:\s*{re.escape(p[2][1:])}\b.*\n", re.MULTILINE)
                yield (*deletion(m.start() + p.start(), m.start() + p.end()),
                       *map(over, argument.finditer(text)))
    for m in re.finditer(r" ?\{[^{}\n]+\}|(?<=[{\[])[^][{},\n]+, |, [^][{},\n]+(?=[,}\]])", text):
        yield (over(m),)


KINDS: tuple[Kind, ...] = (
    sizes, kernels, blocks, operations, branches, replaced, operations, constants, operations,
    trimmed, problem_lines, numbers(True), comments)
