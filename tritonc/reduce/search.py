"""The search: edits are tried, many at once and then fewer, and kept where the bug still shows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tritonc.reduce.edits import Kind, apply

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
        """Try all kinds until none changes anything."""
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
        behind it stand where it stood.
        """
        edits = kind(self.text)
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
                    edits = kind(self.text)
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
