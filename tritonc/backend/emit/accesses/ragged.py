"""Vectors whose guard may hold for their first elements alone (`analysis/ragged`), or, of a load,
for their last ones, or, of a store, for all but the ends (`analysis/windows`).

The access is made whole where the guards of the last element, and of the first, hold.  Of the
vectors of which only some elements are demanded, as a rule there are one or two in a row: behind a
branch for all of an operation's, each of their elements is accessed under its own guard."""

from collections.abc import Sequence

from tritonc.backend.emit.accesses.access import (
    Access,
    load,
    load_words,
    pack,
    store,
    unpack,
    words_of,
)
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.records import dataclass


@dataclass
class Vector:
    """An access with the guard of each of its elements; of a load, the elements demanded."""

    access: Access
    guards: Sequence[str]
    demanded: Sequence[int] = ()
    part: str = ""  # whether some elements are accessed, but not all
    inner: int = 0  # of which it says whether any is
    rises: bool = False  # the last elements are accessed

    def whole(self, f: FunctionEmitter) -> str:
        last = self.guards[0 if self.rises else -1]
        return f.both(self.guards[0], last) if self.inner else last

    def single(self, f: FunctionEmitter, i: int) -> Access:
        at, a = self.access.pointer, self.access
        if i:
            at = f.op(f"getelementptr i8, ptr addrspace({a.space}) {at}, "
                      f"i32 {i * a.element.bytes}")
        return a._replace(pointer=at, width=1, guard=f.both(self.part, self.guards[i]))


def _parts(f: FunctionEmitter, vectors: Sequence[Vector], owner: str = "") -> str:
    """Whether there is a part of any vector to access."""
    found = ""
    for one in vectors:
        rest = f.op(f"xor i1 {one.guards[-1 if one.rises else one.inner]}, {one.whole(f)}")
        one.part = f.both(owner, rest)
        found = f.op(f"or i1 {found}, {one.part}") if found else one.part
    return found


def load_vectors(f: FunctionEmitter, vectors: Sequence[Vector], other: int | float | None
                 ) -> list[dict[int, str]]:
    """The demanded elements of each vector; `other` where their guards do not hold."""
    if not vectors:
        return []
    words = [words_of(one.access) for one in vectors]
    whole = [load_words(f, one.access._replace(guard=one.whole(f)), w, one.demanded, other)
             for one, w in zip(vectors, words, strict=True)]
    condition, before = _parts(f, vectors), f.label
    edges: list[dict[int, str]] = []

    def emit() -> None:
        for one, w, loaded in zip(vectors, words, whole, strict=True):
            values = [load(f, one.single(f, i), [0], other)[0] for i in range(one.access.width)]
            edges.append({i: f.op(f"select i1 {one.part}, {w.type} {name}, {w.type} {loaded[i]}")
                          for i, name in enumerate(pack(f, one.access, w, values))
                          if i in loaded})

    end = f.under(condition, "edge", emit)
    both = [{i: f.op(f"phi {w.type} [ {edge[i]}, %{end} ], [ {name}, %{before} ]")
             for i, name in loaded.items()}
            for w, loaded, edge in zip(words, whole, edges, strict=True)]
    return [unpack(f, one.access, w, parts, one.demanded)
            for one, w, parts in zip(vectors, words, both, strict=True)]


def store_vectors(f: FunctionEmitter, vectors: Sequence[Vector], values: Sequence[Sequence[str]],
                  owner: str) -> None:
    """Write the elements whose guards hold, in the thread that is their `owner`."""
    for one, written in zip(vectors, values, strict=True):
        store(f, one.access._replace(guard=f.both(owner, one.whole(f))), written)

    def edges() -> None:
        for one, written in zip(vectors, values, strict=True):
            for i in range(one.access.width):
                store(f, one.single(f, i), [written[i]])

    f.under(_parts(f, vectors, owner), "edge", edges)
