"""A file reduced: the first try, the kinds of edits that fit its language, the output."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tritonc import outputs
from tritonc.frontend.preprocess import read_bytes
from tritonc.options import Options
from tritonc.reduce.command import Command
from tritonc.reduce.edits import Kind
from tritonc.reduce.lines import ANY
from tritonc.reduce.operations import KINDS
from tritonc.reduce.search import Judge, Search
from tritonc.reduce.tree import Tree, preprocessed
from tritonc.source import fail

_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)


def reduce_file(path: str, language: str, options: Options, command: Command, output: str,
                jobs: int, tell: Callable[[str], None]) -> Search:
    """Reduce a file; `output` always has the smallest text so far.  Raises CompileError."""
    text = read(path)
    try:
        first = command.answer(text)
    except OSError as error:
        raise fail("cannot-run", None,
                   f"cannot run '{command.words[0]}': {error.strerror}") from None
    if first.code is None:
        raise fail("cannot-run", None, f"the command takes longer than {command.timeout:g} s for "
                   "the whole source; --timeout gives it more")
    command.wanted = first.code
    if not command.shows(first):
        raise fail("cannot-run", None, "what the command prints for the whole source has no match "
                   "of --matching")
    tell(f"exit status {first.code}, {size(text)}")

    def keep(smaller: str) -> None:
        outputs.write_or_fail({output: smaller})

    keep(text)
    return reduce_text(text, path, language, options, command.first, jobs, keep)


def reduce_text(text: str, path: str, language: str, options: Options, judge: Judge, jobs: int = 1,
                keep: Callable[[str], None] = lambda text: None) -> Search:
    """Reduce a text that stands at `path`; a Search with the smallest text that was found."""
    search = Search(text, judge, jobs, keep)
    if language == "tir":
        search.run((*KINDS, *ANY))
        return search
    tree = Tree(path, options)
    kinds: Sequence[Kind] = (*tree.kinds(), *ANY)
    if not tree.parses(text):
        search.run(ANY)
    if _DIRECTIVE.search(search.text):
        plain = preprocessed(search.text, path, options)
        if plain is not None:
            search.attempt([plain])
    search.run(kinds)
    return search


def read(path: str) -> str:
    """The text of a file, of whatever encoding.  Raises CompileError."""
    try:
        return read_bytes(path).decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise fail("unreadable-file", None, f"cannot read '{path}': {reason}") from None


def size(text: str) -> str:
    """How many lines of a text are not blank, in words.

    >>> size("a\\n\\n b")
    '2 lines'
    """
    count = sum(bool(line.strip()) for line in text.splitlines())
    return f"{count} line{'s' if count != 1 else ''}"
