"""Linear algebra over F2, the field of two elements, where adding is XOR.

A vector is an int: bit i is coordinate i.  A matrix is a tuple of its columns, so `columns[i]` is
the image of the unit vector `1 << i`, and a product is the XOR of the columns that the vector
selects.  Layouts are such matrices (`layout.py`) of some 5 to 20 columns: plain ints are fast.

    >>> swizzle = (0b01, 0b11)          # bit 0 stays; bit 1 also flips bit 0
    >>> [apply(swizzle, x) for x in range(4)]
    [0, 1, 3, 2]
    >>> inverse(swizzle)
    (1, 3)
"""

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], vector: int) -> int:
    """The matrix times `vector`; bits of `vector` beyond the columns are ignored."""
    result = 0
    for column in columns:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result


def compose(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
    """The matrix of x -> outer(inner(x)).

    >>> compose((2, 1), (3, 1))
    (3, 2)
    """
    return tuple(apply(outer, column) for column in inner)


class Subspace:
    """The span of the vectors added so far, kept in echelon form.

    Each pivot remembers which added vectors it is the sum of, so membership also answers *how*."""

    __slots__ = ("_added", "_pivots")

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        # highest set bit -> (vector with that highest bit, mask of the added vectors it sums)
        self._pivots: dict[int, tuple[int, int]] = {}
        self._added = 0
        for vector in vectors:
            self.add(vector)

    def _reduce(self, vector: int) -> tuple[int, int]:
        """What is left of `vector` after elimination, and the mask of added vectors subtracted."""
        combination = 0
        while vector:
            pivot = self._pivots.get(vector.bit_length())
            if pivot is None:
                break
            vector ^= pivot[0]
            combination ^= pivot[1]
        return vector, combination

    def add(self, vector: int) -> bool:
        """Add a generator.  True if it was independent of the ones before, so the span grew."""
        rest, combination = self._reduce(vector)
        if rest:
            self._pivots[rest.bit_length()] = (rest, combination ^ (1 << self._added))
        self._added += 1
        return rest != 0

    def solve(self, vector: int) -> int | None:
        """A mask of added vectors (bit i: the i-th) whose XOR is `vector`, or None."""
        rest, combination = self._reduce(vector)
        return None if rest else combination

    def __contains__(self, vector: int) -> bool:
        return self._reduce(vector)[0] == 0

    @property
    def dimension(self) -> int:
        return len(self._pivots)


def solve(columns: Sequence[int], right: int) -> int | None:
    """Some x with `apply(columns, x) == right`, or None if there is none.

    >>> solve((0b01, 0b11), 0b10)
    3
    >>> solve((0b01, 0b01), 0b10) is None
    True
    """
    return Subspace(columns).solve(right)


def rank(columns: Iterable[int]) -> int:
    """The number of independent columns.

    >>> rank((1, 2, 3, 0))
    2
    """
    return Subspace(columns).dimension


def inverse(columns: Sequence[int]) -> tuple[int, ...]:
    """The columns of the inverse of a square matrix.  Raises ValueError if it is singular."""
    span = Subspace(columns)
    result = []
    for i in range(len(columns)):
        combination = span.solve(1 << i)
        if combination is None:
            raise ValueError(f"the matrix with columns {tuple(columns)} has no inverse")
        result.append(combination)
    return tuple(result)
