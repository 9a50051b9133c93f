"""What kinds of values attributes have, for the verifier: one row for each name.

Rules, passes and emitters take them for granted.  An attribute that no row names may have any value
of those that the text form can write; the verifier asks more of some (`verify._attribute_fits`)."""

from collections.abc import Callable
from typing import Any

Kind = Callable[[Any], bool]


def is_integer(value: Any) -> bool:
    return type(value) is int


def is_count(value: Any) -> bool:
    """An integer from 0 on."""
    return type(value) is int and value >= 0


def is_power(value: Any) -> bool:
    """A power of two."""
    return type(value) is int and value > 0 and not value & (value - 1)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_word(value: Any) -> bool:
    return isinstance(value, str)


def are_integers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(entry) is int for entry in value)


def are_powers(value: Any) -> bool:
    return are_integers(value) and all(is_power(entry) for entry in value)


def is_window(value: Any) -> bool:
    """A number, three places of a run of elements, and how many are apart at either end."""
    return are_integers(value) and len(value) == 6


def is_record(value: Any) -> bool:
    """A number, an axis (-1 for none), two distances in bytes, and how many neighbours."""
    return are_integers(value) and len(value) == 5 and value[1] >= -1 and is_power(value[4])


def is_shift(value: Any) -> bool:
    """An axis, a number of places along it, and whether they go on at the other end."""
    return are_integers(value) and len(value) == 3 and value[0] >= 0 and value[2] in (0, 1)


KINDS: dict[str, Kind] = {
    **dict.fromkeys((
        "all", "amid", "any", "apart", "approximate", "based", "contiguous", "continues",
        "contract", "ballot", "behind", "early", "empty", "exact", "facts", "fenced", "inside",
        "late", "meets", "minus", "moves", "narrow", "piecewise", "pinned", "private", "ragged",
        "release", "reverse", "rises", "round", "rows", "short", "stored", "sums", "swapped",
        "volatile", "waits", "wide", "written"),
        is_flag),
    **dict.fromkeys(("ahead", "least", "greatest"), is_integer),
    **dict.fromkeys((
        "alike", "asked", "axis", "bytes", "every", "groups", "index", "live", "maps", "nothing",
        "offset", "panels", "passes", "pending", "pitch", "row", "second", "size", "swizzle",
        "transposed", "unread", "unroll", "vector_axis"),
        is_count),
    **dict.fromkeys(("align", "pingpong", "vector"), is_power),
    **dict.fromkeys((
        "cache", "element", "instruction", "kind", "ldmatrix", "message", "format", "step",
        "stmatrix", "symbol"), is_word),
    **dict.fromkeys((
        "axes", "bounds", "box", "columns", "indices", "inner", "neighbours", "owner",
        "permutation", "registers", "rounded"), are_integers),
    "bits": are_powers,
    "shift": is_shift,
    "window": is_window,
    "record": is_record}
