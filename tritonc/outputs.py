"""Kinds of output, where they go, and writing them whole or not at all; rules for make.

A file is written under another name in its own directory and then renamed, so nobody ever sees half
of it; several outputs of one run are all written before the first is renamed.  Where the source is
wrong, what an earlier run left at their places goes, so that no build takes it for new."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence

from tritonc.source import fail

# Each kind of output and the suffix of its file.
KINDS: dict[str, str] = {
    "ptx": ".ptx", "ll": ".ll", "tir": ".tir", "ast": ".ast", "i": ".i", "manifest": ".json",
    "header": ".h", "cubin": ".cubin", "fatbin": ".fatbin", "torch": ".cpp"}  # fmt: skip
STANDARD = "-"  # standard input or output


def kind_of(path: str) -> str | None:
    suffix = os.path.splitext(path)[1]
    return next((kind for kind, known in KINDS.items() if known == suffix), None)


def paths(kinds: Sequence[str], output: str | None, source: str) -> dict[str, str]:
    """Where each kind goes.  `output` is what -o says; without it (None) a file of the source's
    stem in the working directory, but standard output for "i" alone.

    >>> paths(["ptx", "ll"], "build/a.ptx", "a.tc")
    {'ptx': 'build/a.ptx', 'll': 'build/a.ll'}
    """
    if output is not None and len(kinds) == 1:
        return {kinds[0]: output}
    if output is None and list(kinds) == ["i"]:
        return {"i": STANDARD}
    if output is None:
        name = "stdin" if source == STANDARD else os.path.basename(source)
        output = os.path.splitext(name)[0]
        return {kind: output + KINDS[kind] for kind in kinds}
    if output == STANDARD:
        return dict.fromkeys(kinds, STANDARD)
    stem, suffix = os.path.splitext(output)
    if suffix not in KINDS.values():
        stem = output
    return {kind: stem + KINDS[kind] for kind in kinds}


def same_file(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def write_all(contents: Mapping[str, str | bytes], if_changed: bool = False) -> None:
    """Write each path's text or bytes, whole or not at all, regular files through a rename.

    With `if_changed`, a file that holds them already is left as it is, time and all.

    Raises OSError, whose `filename` is a path of `contents`; then no output is left half-written.
    """
    waiting: list[tuple[str, str]] = []
    try:
        for path, content in contents.items():
            data = as_bytes(content)
            try:
                final = os.path.realpath(path)  # a link stays a link
                if if_changed and _holds(final, data):
                    continue
                if os.path.exists(final) and not stat.S_ISREG(os.stat(final).st_mode):
                    if os.path.isdir(final):
                        raise IsADirectoryError(21, "Is a directory")
                    with open(final, "wb") as device:
                        device.write(data)
                    continue
                waiting.append((_write_temporary(final, data), final))
            except OSError as error:
                raise OSError(error.errno, error.strerror or str(error), path) from None
        while waiting:
            temporary, final = waiting[0]
            os.replace(temporary, final)
            waiting.pop(0)
    finally:
        for temporary, _ in waiting:
            os.unlink(temporary)


def write_or_fail(contents: Mapping[str, str | bytes], if_changed: bool = False) -> None:
    """`write_all`.  Raises CompileError where a file cannot be written."""
    try:
        write_all(contents, if_changed)
    except OSError as error:
        raise fail("cannot-write", None, f"cannot write '{error.filename}': {error.strerror}"
                   ) from None


def _holds(path: str, data: bytes) -> bool:
    """Whether a regular file is there whose content is `data`."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read() == data


def as_bytes(content: str | bytes) -> bytes:
    """Text as UTF-8; bytes of file names that are not UTF-8 are what they were."""
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def _write_temporary(final: str, data: bytes) -> str:
    """A new file beside `final` with `data`, with its permissions if it exists."""
    directory, name = os.path.split(final)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    mode = stat.S_IMODE(os.stat(final).st_mode) if os.path.exists(final) else None
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(temporary, mode)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def remove(paths: Iterable[str], inputs: Sequence[str]) -> None:
    """Remove outputs of an earlier run, but for those that this one read as input."""
    for path in paths:
        if (path == STANDARD or not os.path.isfile(path) or os.path.islink(path)
                or any(same_file(path, read) for read in inputs)):
            continue
        with contextlib.suppress(OSError):  # not ours to remove; the error is reported already
            os.unlink(path)


def dependency_rule(targets: Sequence[str], sources: Sequence[str], phony: bool) -> str:
    """A rule for make and ninja: `targets` (already quoted) are made from `sources`.

    Raises ValueError for a name that the two cannot read alike.

    `phony` adds a rule without a recipe for each source but the first, so that make goes on when an
    included file is deleted."""
    quoted = [quote_for_make(source) for source in sources]
    lines = [" ".join(targets) + ":" + "".join(f" \\\n  {source}" for source in quoted)]
    if phony:
        lines += [f"\n{source}:" for source in quoted[1:]]
    return "\n".join(lines) + "\n"


def quote_for_make(path: str, target: bool = False) -> str:
    r"""A file's name as make reads it.

    >>> print(quote_for_make("a b$#c.tc"))
    a\ b$$\#c.tc

    Raises ValueError for a name with a character that no quoting hides from make or from ninja.
    """
    if found := next((c for c in path if c in ";|\n\r"), None):
        raise ValueError(f"a rule of make cannot name '{path}': it has {found!r} in it")
    drive = 2 if path[1:2] == ":" and path[2:3] in ("/", "\\") else 0  # `C:/` stays
    # make halves the backslashes before a blank
    text = re.sub(r"(\\*)([ \t])", r"\1\1\\\2", path[drive:]).replace("$", "$$")
    return path[:drive] + re.sub("[#:%]" if target else "[#:]", r"\\\g<0>", text)
