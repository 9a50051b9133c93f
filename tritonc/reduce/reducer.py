"""A file reduced: edits are tried, many at once and then fewer, and kept where the bug shows."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from tritonc import outputs
from tritonc.frontend.preprocess import read_bytes
from tritonc.options import Options
from tritonc.records import dataclass
from tritonc.reduce.command import Command
from tritonc.reduce.edits import Kind, apply
from tritonc.reduce.lines import ANY
from tritonc.reduce.operations import KINDS
from tritonc.reduce.tree import Tree, preprocessed
from tritonc.source import fail

_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)
Judge = Callable[[Sequence[str]], int | None]  # the first of some candidates that shows the bug
ROUNDS = 20  # of all kinds, so that no two of them undo each other for ever


@dataclass
class Search:
    """The smallest text so far.  `judge` is asked about at most `width` candidates at once;
    `keep` is told of each improvement."""

    text: str
    judge: Judge
    width: int = 1
    keep: Callable[[str], None] = lambda text: None
    tried: int = 0
    _seen: set[bytes] = field(default_factory=set)

    def run(self, kinds: Sequence[Kind]) -> str:
        for _ in range(ROUNDS):
            before = self.text
            for kind in kinds:
                self.sweep(kind)
            if self.text == before:
                break
        return self.text

    def sweep(self, kind: Kind) -> None:
        """Try the edits of one kind: all, halves, quarters, each.

        After a success the kind is asked anew.  What was done is not offered again, so the edits
        behind it stand where it stood."""
        edits = [*kind(self.text)]
        size = len(edits)
        while size:
            at = 0
            while at < len(edits):
                starts = range(at, len(edits), size)[: self.width]
                found = self.attempt([apply(self.text, edits[s : s + size]) for s in starts])
                if found is None:
                    at = starts[-1] + size
                else:
                    at = starts[found]
                    edits = [*kind(self.text)]
            size = min(size // 2, len(edits))

    def attempt(self, candidates: Iterable[str]) -> int | None:
        """The number of the first candidate that shows the bug, which becomes the text."""
        fresh: list[tuple[int, str]] = []
        for number, text in enumerate(candidates):
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest()
            if key not in self._seen and text != self.text:
                self._seen.add(key)
                fresh.append((number, text))
        if not fresh:
            return None
        self.tried += len(fresh)
        found = self.judge([text for _, text in fresh])
        if found is None:
            return None
        # Later ones were not judged, perhaps, and come again.
        for _, text in fresh[found + 1 :]:
            self._seen.discard(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest())
        number, self.text = fresh[found]
        self.keep(self.text)
        return number


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
