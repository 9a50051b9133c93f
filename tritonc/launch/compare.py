"""What a launch left in memory beside what its problem expects."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.launch.data import Data, Value, round_array
from tritonc.problem.evaluate import Expression
from tritonc.problem.safe_numpy import describe
from tritonc.source import fail

Array = npt.NDArray[Any]
_SHOWN = 5  # wrong elements that a message lists
_PORTION = 1 << 16  # elements that are compared at a time


def differences(data: Data, after: dict[str, Array]) -> list[str]:
    """One message for each argument that is not as it should be; [] if all are.

    `after` has the held content of every pointer argument.  Raises CompileError where an
    expectation has no value or the wrong shape."""
    expected = data.expected()
    excused = {name for name, _ in data.problem.clobbers}
    messages = []
    for value in data.arguments:
        if value.name in expected:
            if not value.pointer:
                raise fail("problem-expression", expected[value.name][1].span,
                           f"'{value.name}' is a scalar, which no kernel can change")
            message = _compare(data, value, after[value.name], *expected[value.name])
        elif value.pointer and value.name not in excused:
            message = _changed(value, after[value.name])
        else:
            message = None
        if message:
            messages.append(message)
    return messages


def _changed(value: Value, got: Array) -> str | None:
    """A message if an argument that should not change did, bit by bit but for the kind of a NaN."""
    same = got == value.held
    if same.all():
        return None
    same |= (got != got) & (value.held != value.held)
    if same.all():
        return None
    wrong = np.argwhere(~same)
    return (f"'{value.name}' is not expected to change, but {len(wrong)} elements did: "
            + _list(value, value.held, got, wrong, "was", "is"))


def _compare(data: Data, value: Value, got: Array, want: Any, where: Expression) -> str | None:
    want = np.asarray(want)
    if want.dtype.kind not in "biuf":
        raise fail("problem-expression", where.span, f"{describe(want)} does not hold real numbers")
    try:
        want = np.broadcast_to(want, got.shape)
    except ValueError:
        raise fail("problem-expression", where.span, f"'{value.name}' has the shape {got.shape}, "
                   f"the expected value {want.shape}") from None
    if not value.element.is_float:
        return _compare_integers(value, got, want, where)
    return _compare_floats(value, got, want, data.tolerance(value))


def _compare_integers(value: Value, got: Array, want: Array, where: Expression) -> str | None:
    try:
        wrapped = round_array(value.element, want)
    except ValueError as error:
        raise fail("problem-expression", where.span, str(error)) from None
    wrong = np.argwhere(got != wrapped)
    if not len(wrong):
        return None
    return (f"'{value.name}': {len(wrong)} of {got.size} elements are wrong: "
            + _list(value, value.view(got), value.view(wrapped), wrong))


@np.errstate(over="ignore")  # a norm may be infinite
def _compare_floats(value: Value, got: Array, want: Array, tolerance: float) -> str | None:
    """Infinities and NaNs must agree element by element, the others in norm."""
    norms = _norms(got, want)
    if norms is not None and norms[0] <= tolerance:
        return None
    got, want = got.astype(np.float64), want.astype(np.float64)
    special = ~(np.isfinite(got) & np.isfinite(want))
    if norms is None:
        wrong = np.argwhere(special & ~_agree(got, want))
        return (f"'{value.name}': {len(wrong)} of {got.size} elements are infinite or NaN on one "
                f"side only: " + _list(value, got, want, wrong))
    relative, norm = norms
    got, want = np.where(special, 0.0, got), np.where(special, 0.0, want)
    difference = np.abs(got - want)
    far = difference > tolerance * np.maximum(np.abs(want), norm / np.sqrt(max(got.size, 1)))
    wrong = np.argwhere(far if far.any() else difference == np.max(difference))
    return (f"'{value.name}': ||got - want|| / ||want|| = {relative:.3g}, tolerance "
            f"{tolerance:.3g}; {len(wrong)} of {got.size} elements are far off: "
            + _list(value, got, want, wrong))


def _agree(got: Array, want: Array) -> Array:
    agreeing: Array = (got == want) | (np.isnan(got) & np.isnan(want))
    return agreeing


def _norms(got: Array, want: Array) -> tuple[float, float] | None:
    """||got - want|| / ||want|| and ||want|| of what is finite; None if the rest does not agree.

    In portions that fit into a processor's cache: arrays are large."""
    starts = range(0, got.size, _PORTION)
    flat = got.reshape(-1), want.reshape(-1)

    def finite(start: int) -> tuple[Array, Array] | None:
        g, w = (a[start : start + _PORTION].astype(np.float64) for a in flat)
        both = np.isfinite(g) & np.isfinite(w)
        if both.all():
            return g, w
        return (g[both], w[both]) if (both | _agree(g, w)).all() else None

    size = 0.0
    for start in starts:
        if (pair := finite(start)) is None:
            return None
        size = max(size, float(np.max(np.abs(pair[1]), initial=0.0)))
    size = size or 1.0  # scaled by it, squares neither overflow nor vanish
    error = norm = 0.0
    for start in starts:
        if (pair := finite(start)) is not None:
            difference, scaled = (pair[0] - pair[1]) / size, pair[1] / size
            error += float(np.square(difference).sum())
            norm += float(np.square(scaled).sum())
    relative = float(np.sqrt(error / norm)) if norm else np.inf if error else 0.0
    return relative, float(np.sqrt(norm)) * size


def _list(value: Value, one: Array, other: Array, wrong: Array, is_: str = "is",
          should: str = "should be") -> str:
    return ", ".join(
        f"{value.name}[{', '.join(map(str, index))}] {is_} {_show(one[tuple(index)])}, "
        f"{should} {_show(other[tuple(index)])}"
        for index in wrong[:_SHOWN].tolist()) + (", ..." if len(wrong) > _SHOWN else "")


def _show(number: Any) -> str:
    return f"{float(number):.7g}" if np.asarray(number).dtype.kind == "f" else str(int(number))
