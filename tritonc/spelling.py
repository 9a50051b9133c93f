"""What a misspelt name was most likely meant to be."""

from collections.abc import Collection, Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that the fewest slips of the pen make of `name`, if they are few enough:
    one for each three letters.  A name cut short by as few is one slip.  Of several the one that
    begins most like it, then the first.

    >>> closest("lenght", ["long", "length"]), closest("N", ["m", "n"])
    ('length', 'n')
    >>> closest("bfloat", ["float", "bfloat16"])
    'bfloat16'
    >>> closest("foo", ["floor", "for_each"])
    """
    limit = max(1, len(name) // 3) if len(name) > 1 else 0  # of one letter, its case
    best, found = (limit, 1), None
    for candidate in known:
        if candidate != name and abs(len(candidate) - len(name)) <= limit:
            slips = (1 if candidate.startswith(name) else
                     distance(name.lower(), candidate.lower(), best[0] + 1))
            alike = next((i for i, (x, y) in enumerate(zip(name, candidate)) if x != y), len(name))
            rank = slips, -alike
            if rank < best:
                best, found = rank, candidate
    return found


def hint(name: str, known: Collection[str], otherwise: str = "") -> str:
    """"did you mean 'x'?", or what is said where nothing is close."""
    near = closest(name, known)
    return f"did you mean '{near}'?" if near else otherwise


def distance(a: str, b: str, limit: int) -> int:
    """How many characters have to be put in, left out, replaced, or swapped with their neighbour,
    to make b of a; any number from `limit` on where it is not less.

    >>> distance("flaot", "float", 9), distance("mian", "main", 9), distance("abc", "xyz", 9)
    (1, 1, 3)
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) >= limit:
            return limit
    return row[-1]
