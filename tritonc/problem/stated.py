"""The `//!` lines of a text, and the macros among them, without NumPy: compilations read them."""

import re
from collections.abc import Sequence

from tritonc.source import SourceFile, Span

_DEFINE = r"(?a)define:\s*([A-Za-z_]\w*)\s*(?:=\s*(.*))?"


def stated_lines(source: SourceFile) -> list[tuple[str, Span]]:
    """The `//!` lines of a .tir file; what counts of a .tc file's the preprocessor says."""
    found, at = [], 0
    for line in source.text.splitlines(keepends=True):
        if line.lstrip().startswith("//!"):
            text = line.lstrip()[3:].strip()
            start = at + (line.index(text) if text else line.index("//!"))
            found.append((text, Span(source, start, start + len(text))))
        at += len(line)
    return found


def stated_defines(source: SourceFile, given: Sequence[str]) -> tuple[str, ...]:
    """The macros that lines `//! define: NAME = VALUE` before the first `//! kernel:` set for the
    whole file, whatever is done with it: those that it does not define itself, and that the
    command line neither gives nor removes."""
    if "//!" not in source.text:
        return ()
    known = {word.removeprefix("-U").partition("=")[0] for word in given}
    found: dict[str, str] = {}
    for text, _ in stated_lines(source):
        if text.startswith("kernel:"):
            break
        match = re.fullmatch(_DEFINE, text)
        if match and match[1] not in known and not re.search(
                rf"^[ \t]*#[ \t]*define[ \t]+{match[1]}\b", source.text, re.MULTILINE):
            found[match[1]] = match[2] if match[2] is not None else "1"
    return tuple(f"{name}={value.strip()}" for name, value in found.items())
