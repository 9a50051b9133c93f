"""Tests that are one file: input, command and expectation.

    // RUN: tritonc %s --stop-after=cse -o -     the command; %s is the file, %t a scratch path.
                                                 Several run in order, their output is joined
    // CHECK: text                               the output has it, after the match before
    // CHECK-NEXT: text                          on the line after the match before
    // CHECK-NOT: text                           not between the matches around it
    // GOLDEN                                    the whole output is kept in NAME.golden;
                                                 `make bless` rewrites it
    ... // error: text                           an error on this line whose message has the text;
    ... // warning: text                         several may be joined by `;;`; `@7 text` says the
                                                 column, too
    // EXIT: 2                                   the exit code, if neither 0 nor that of errors

In CHECK lines `{{...}}` is a regular expression, and blanks stand for any number of blanks.  What
RUN prints on standard output comes before what it prints on standard error.  Diagnostics of the
file that no comment expects fail the test.  A file with no RUN line is checked by -fsyntax-only.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from command import tritonc

ROOT = Path(__file__).parent.parent
_DIRECTIVE = re.compile(r"//\s*(RUN|CHECK|CHECK-NEXT|CHECK-NOT|EXIT):\s*(.*?)\s*$")
_EXPECTED = re.compile(r"//\s*(error|warning):\s*(.*?)\s*$")
_GOLDEN = re.compile(r"//\s*GOLDEN\s*$")
_DIAGNOSTIC = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): "
                         r"(?P<kind>error|warning): (?P<text>.*)$", re.MULTILINE)  # fmt: skip


class LitFailure(Exception):
    """The file's expectation does not hold."""


@dataclass
class LitTest:
    """What a file says of itself."""

    path: Path
    runs: list[str] = field(default_factory=list)
    checks: list[tuple[int, str, str]] = field(default_factory=list)  # line, directive, text
    expected: list[tuple[int, str, str]] = field(default_factory=list)  # line, kind, text
    golden: bool = False
    exit_code: int | None = None

    @staticmethod
    def read(path: Path) -> LitTest:
        test = LitTest(path)
        text = path.read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.split("\n"), 1):
            if found := _DIRECTIVE.search(line):
                kind, value = found.groups()
                if kind == "RUN":
                    test.runs.append(value)
                elif kind == "EXIT":
                    test.exit_code = int(value)
                else:
                    test.checks.append((number, kind, value))
            elif found := _EXPECTED.search(line):
                for one in found.group(2).split(";;"):
                    test.expected.append((number, found.group(1), one.strip()))
            elif _GOLDEN.search(line):
                test.golden = True
        if not test.runs:
            test.runs.append("tritonc %s -fsyntax-only")
        return test

    def run(self, scratch: Path, bless: bool) -> None:
        """Raise LitFailure unless all holds; with `bless`, rewrite the golden file."""
        name = self.path.relative_to(ROOT).as_posix()
        output, seen = "", []
        errors = any(kind == "error" for _, kind, _ in self.expected)
        wanted = self.exit_code if self.exit_code is not None else int(errors)
        for run in self.runs:
            words = [w.replace("%s", name).replace("%t", str(scratch / "t"))
                     for w in shlex.split(run)]
            if words[0] != "tritonc":
                raise LitFailure(f"RUN lines begin with tritonc, not {words[0]}")
            done = tritonc(*words[1:])
            if done.code != wanted:
                raise LitFailure(f"exit code {done.code}, expected {wanted}\n{done.err}")
            output += done.out + done.err
            seen += [(int(m["line"]), m["kind"], f"@{m['column']} {m['text']}")
                     for m in _DIAGNOSTIC.finditer(done.err) if m["file"] == name]
        self._match_diagnostics(seen)
        self._match_checks(output)
        if self.golden:
            self._compare_golden(output, bless)

    def _match_diagnostics(self, seen: list[tuple[int, str, str]]) -> None:
        left = list(seen)
        for line, kind, text in self.expected:
            match = next((d for d in left if d[:2] == (line, kind) and text in d[2]), None)
            if match is None:
                raise LitFailure(f"line {line}: no {kind} with '{text}'; there are:\n"
                                 + "\n".join(map(str, seen)))
            left.remove(match)
        if left:
            raise LitFailure("unexpected: " + "\n".join(map(str, left)))

    def _match_checks(self, output: str) -> None:
        at, forbidden = 0, []
        for number, kind, text in self.checks:
            pattern = _pattern(text)
            if kind == "CHECK-NOT":
                forbidden.append((number, pattern))
                continue
            match = pattern.search(output, at)
            if match is None:
                raise LitFailure(f"line {number}: no '{text}' after:\n{output[:at][-300:]}\nin:\n"
                                 f"{output[at:][:4000]}")
            if kind == "CHECK-NEXT" and output.count("\n", at, match.start()) != 1:
                raise LitFailure(f"line {number}: '{text}' is not on the next line")
            _refuse(forbidden, output, at, match.start())
            at, forbidden = match.end(), []
        _refuse(forbidden, output, at, len(output))

    def _compare_golden(self, output: str, bless: bool) -> None:
        golden = self.path.with_suffix(".golden")
        if bless:
            golden.write_text(output, encoding="utf-8", newline="\n")
            return
        kept = golden.read_text(encoding="utf-8") if golden.exists() else ""
        if kept != output:
            from difflib import unified_diff

            difference = "\n".join(unified_diff(kept.splitlines(), output.splitlines(),
                                                golden.name, "output", lineterm=""))
            raise LitFailure(f"not as {golden.name} has it (make bless rewrites it):\n{difference}")


def _refuse(forbidden: list[tuple[int, re.Pattern[str]]], output: str, start: int, end: int
            ) -> None:
    for number, pattern in forbidden:
        if match := pattern.search(output, start, end):
            raise LitFailure(f"line {number}: found '{match.group()}'")


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", text)
    literal = [r"[ \t]+".join(map(re.escape, re.split(r"\s+", part))) for part in parts[::2]]
    joined = literal[0]
    for expression, following in zip(parts[1::2], literal[1:], strict=True):
        joined += f"(?:{expression}){following}"
    return re.compile(joined)
