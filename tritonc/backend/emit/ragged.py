"""Vectors whose guard may hold for their first elements alone (`analysis/ragged`).

The access is made whole where the last element's guard holds.  Of the vectors of which only some
elements are wanted, there is one in a row as a rule: behind one branch for all of an operation's,
each of their elements is accessed under its own guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonc.backend.emit.access import Access, load, load_words, pack, store, unpack, words_of
from tritonc.backend.emit.function import FunctionEmitter


@dataclass
class Vector:
    """An access with the guard of each of its elements; of a load, the elements wanted."""

    access: Access
    guards: Sequence[str]
    wanted: Sequence[int] = ()
    part: str = ""  # whether some elements are accessed, but not all

    def single(self, f: FunctionEmitter, i: int) -> Access:
        """The access of one element."""
        at, a = self.access.pointer, self.access
        if i:
            at = f.op(f"getelementptr i8, ptr addrspace({a.space}) {at}, "
                      f"i32 {i * a.element.bytes}")
        return a._replace(pointer=at, width=1, guard=f.both(self.part, self.guards[i]))


def _parts(f: FunctionEmitter, vectors: Sequence[Vector], owner: str = "") -> str:
    """Whether there is a part of any vector to access."""
    found = ""
    for one in vectors:
        rest = f.op(f"xor i1 {one.guards[0]}, {one.guards[-1]}")
        one.part = f.both(owner, rest)
        found = f.op(f"or i1 {found}, {one.part}") if found else one.part
    return found


def load_vectors(f: FunctionEmitter, vectors: Sequence[Vector], other: int | float | None
                 ) -> list[dict[int, str]]:
    """The wanted elements of each vector; `other` where their guards do not hold."""
    whole = []
    for one in vectors:
        words = words_of(one.access)
        whole.append(load_words(f, one.access._replace(guard=one.guards[-1]), words, one.wanted,
                                other))
    if not vectors:
        return []
    condition, before = _parts(f, vectors), f.label
    then, after = f.new_label("edge"), f.new_label("edge.end")
    f.line(f"br i1 {condition}, label %{then}, label %{after}")
    f.start_block(then)
    edges = []
    for one, loaded in zip(vectors, whole, strict=True):
        words = words_of(one.access)
        values = [load(f, one.single(f, i), [0], other)[0] for i in range(one.access.width)]
        edges.append({w: f.op(f"select i1 {one.part}, {words.type} {name}, {words.type} "
                              f"{loaded[w]}")
                      for w, name in enumerate(pack(f, one.access, words, values))
                      if w in loaded})
    end = f.label
    f.line(f"br label %{after}")
    f.start_block(after)
    both = [{w: f.op(f"phi {words_of(one.access).type} [ {edge[w]}, %{end} ], "
                     f"[ {name}, %{before} ]") for w, name in loaded.items()}
            for one, loaded, edge in zip(vectors, whole, edges, strict=True)]
    return [unpack(f, one.access, words_of(one.access), parts, one.wanted)
            for one, parts in zip(vectors, both, strict=True)]


def store_vectors(f: FunctionEmitter, vectors: Sequence[Vector], values: Sequence[Sequence[str]],
                  owner: str) -> None:
    """Write the elements whose guards hold, in the thread that is their `owner`."""
    for one, written in zip(vectors, values, strict=True):
        store(f, one.access._replace(guard=f.both(owner, one.guards[-1])), written)

    def edges() -> None:
        for one, written in zip(vectors, values, strict=True):
            for i in range(one.access.width):
                store(f, one.single(f, i), [written[i]])

    f.under(_parts(f, vectors, owner), "edge", edges)
