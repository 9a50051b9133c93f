"""How much a call of NumPy would make and how long it would take, from its arguments alone.

`check` refuses a call before it runs.  Each function whose result is larger than its operands, or
whose work grows faster than their sizes, has a row: the elements of its result, and a count of
elementary operations.  The counts are rough; the limits leave a few minutes and some gigabytes."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

MAX_ELEMENTS = 1 << 30  # of one array
MAX_WORK = 1 << 42  # multiplications; a product of 8192 x 8192 x 8192 takes half a minute
# How much longer an operation takes than one of a product of matrices:
SLOW = 64  # of transforms and convolutions
ITERATED = 256  # of singular values and eigenvalues
SOLVED = 8  # of systems of equations


class Refused(Exception):
    """An expression asks for what is not to be had; the message says what."""


Bound = Callable[..., tuple[int, int]]  # the call's arguments -> elements of the result, work


def check(function: Any, arguments: list[Any], keywords: Mapping[str, Any]) -> None:
    """Raise Refused for a call that would make or take too much.

    >>> check(np.convolve, [np.ones(3), np.ones(2)], {})
    """
    bound = _BOUNDS.get(getattr(function, "__name__", ""))
    if bound is None:
        return
    if isinstance(owner := getattr(function, "__self__", None), np.ndarray):
        arguments = [owner, *arguments]
    try:
        elements, work = bound(*arguments, **keywords)
    except (TypeError, ValueError, IndexError, AttributeError):
        return  # arguments that NumPy rejects, in its own words
    if elements > MAX_ELEMENTS:
        raise Refused(f"an array of {elements} elements is too large")
    if work > MAX_WORK:
        raise Refused(f"this takes about {work:.0e} operations; the limit is {MAX_WORK:.0e}")


def _factors(longer: int, a: Any, *_: Any, **__: Any) -> tuple[int, int]:
    *batch, m, n = np.shape(a)
    return prod(batch) * max(m, n) ** 2, longer * prod(batch) * m * n * max(m, n)


def _fit(x: Any, _: Any, deg: Any, *__: Any, **___: Any) -> tuple[int, int]:
    count, terms = np.size(x), int(np.max(deg)) + 1
    return count * terms, ITERATED * count * terms**2


def _power(a: Any, n: int) -> tuple[int, int]:
    *batch, m, _ = np.shape(a)
    count = prod(batch)
    return count * m * m, 2 * count * m**3 * max(1, abs(int(n)).bit_length())


def _chain(arrays: Any, *_: Any, **__: Any) -> tuple[int, int]:
    largest = max(extent for a in arrays for extent in np.shape(a))
    return largest**2, len(arrays) * largest**3


def _convolution(a: Any, v: Any, *_: Any, **__: Any) -> tuple[int, int]:
    return np.size(a) + np.size(v), SLOW * np.size(a) * np.size(v)


def _einsum(subscripts: Any, *operands: Any, **_: Any) -> tuple[int, int]:
    """Extents by letter; an ellipsis stands for all axes that have no letter."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    rest = 1
    for letters, operand in zip(inputs.split(","), operands, strict=True):
        before, dots, after = letters.partition("...")
        shape = np.shape(operand)
        named = [*zip(before, shape), *zip(after, shape[len(shape) - len(after) :])]
        if dots:
            rest = max(rest, prod(shape[len(before) : len(shape) - len(after)]))
        for letter, extent in named:
            extents[letter] = max(extents.get(letter, 1), extent)
    work = prod(extents.values()) * rest
    kept = set(output) if arrow else {c for c in extents if inputs.count(c) == 1}
    return prod(n for c, n in extents.items() if c in kept) * rest, work


def _tensordot(a: Any, b: Any, axes: Any = 2) -> tuple[int, int]:
    shape = np.shape(a)
    if isinstance(axes, int | np.integer):
        summed = list(range(len(shape) - int(axes), len(shape)))
    else:
        summed = [int(axis) for axis in np.ravel(axes[0])]
    inner = prod(shape[axis] for axis in summed)
    elements = np.size(a) * np.size(b) // max(1, inner * inner)
    return elements, elements * inner


def _diagonal(v: Any, k: int = 0) -> tuple[int, int]:
    extent = np.size(v) + abs(int(k))
    return (extent**2 if np.ndim(v) != 2 else np.size(v)), 0


def _transform(a: Any, n: int | None = None, *_: Any, **__: Any) -> tuple[int, int]:
    length = np.shape(a)[-1] if n is None else int(n)
    elements = np.size(a) // max(1, np.shape(a)[-1]) * length
    return elements, SLOW * elements


def _eye(n: int, m: int | None = None, *_: Any, **__: Any) -> tuple[int, int]:
    return int(n) * int(n if m is None else m), 0


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> tuple[int, int]:
    return max(int(np.max(x, initial=0)) + 1, int(minlength)), np.size(x)


def _columns(x: Any, n: int | None = None, *_: Any, **__: Any) -> tuple[int, int]:
    return np.size(x) * (np.size(x) if n is None else int(n)), 0


def _histogram(a: Any, bins: Any = 10, *_: Any, **__: Any) -> tuple[int, int]:
    return (int(bins) if isinstance(bins, int | np.integer) else np.size(bins)), SLOW * np.size(a)


def _product(a: Any, b: Any, *_: Any, **__: Any) -> tuple[int, int]:
    inner = np.shape(a)[-1] if np.ndim(a) else 1
    elements = max(1, np.size(a) // max(1, inner)) * max(1, np.size(b) // max(1, inner))
    if np.ndim(a) > 2 and np.ndim(b) > 2:  # batches go side by side
        elements //= max(1, min(prod(np.shape(a)[:-2]), prod(np.shape(b)[:-2])))
    return elements, elements * inner


def _pairs(*arrays: Any, **_: Any) -> tuple[int, int]:
    return prod(map(np.size, arrays)), 0


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> tuple[int, int]:
    return np.size(a) * int(np.max(repeats)), 0


def _tile(a: Any, reps: Any) -> tuple[int, int]:
    return np.size(a) * prod(map(int, np.ravel(reps))), 0


def _resize(_: Any, shape: Any) -> tuple[int, int]:
    return prod(map(int, np.ravel(shape))), 0


def _pad(a: Any, width: Any, *_: Any, **__: Any) -> tuple[int, int]:
    return prod(extent + 2 * int(np.max(width)) for extent in np.shape(a)), 0


_BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(["svd", "eig", "eigh", "eigvals", "eigvalsh", "pinv", "lstsq", "cond",
                     "matrix_rank", "svdvals"], partial(_factors, ITERATED)),
    **dict.fromkeys(["qr", "inv", "det", "slogdet", "cholesky", "solve"],
                    partial(_factors, SOLVED)),
    **dict.fromkeys(["convolve", "correlate", "polymul"], _convolution),
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"], _transform),
    **dict.fromkeys(["matmul", "dot", "inner", "vecdot", "matvec", "vecmat"], _product),
    **dict.fromkeys(["histogram", "histogram_bin_edges"], _histogram),
    **dict.fromkeys(["diag", "diagflat"], _diagonal),
    **dict.fromkeys(["outer", "kron", "meshgrid"], _pairs),
    "matrix_power": _power, "multi_dot": _chain, "einsum": _einsum, "tensordot": _tensordot,
    "polyfit": _fit, "eye": _eye, "identity": _eye, "bincount": _bincount, "vander": _columns,
    "repeat": _repeat, "tile": _tile, "resize": _resize, "pad": _pad}  # fmt: skip
