"""What a launch left in memory beside what its problem expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.evaluate import Expression
from tritonc.launch.data import Data, Value, round_array
from tritonc.safe_numpy import describe
from tritonc.source import fail

Array = npt.NDArray[Any]
_SHOWN = 5  # wrong elements that a message lists


def differences(data: Data, after: dict[str, Array]) -> list[str]:
    """One message for each argument that is not as it should be; [] if all are.

    `after` has the held content of every pointer argument.  Raises CompileError where an
    expectation has no value or the wrong shape.
    """
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
    same = (got == value.held) | ((got != got) & (value.held != value.held))
    if same.all():
        return None
    wrong = np.argwhere(~same)
    places = ", ".join(
        f"{_place(value.name, index)} was {_show(value.held[tuple(index)])}, "
        f"is {_show(got[tuple(index)])}"
        for index in wrong[:_SHOWN]
    )
    return f"'{value.name}' is not expected to change, but {len(wrong)} elements did: {places}"


def _compare(data: Data, value: Value, got: Array, want: Any, where: Expression) -> str | None:
    want = np.asarray(want)
    if want.dtype.kind not in "biuf":
        raise fail("problem-expression", where.span, f"{describe(want)} holds no real numbers")
    try:
        want = np.broadcast_to(want, got.shape)
    except ValueError:
        raise fail("problem-expression", where.span, f"'{value.name}' has the shape {got.shape}, "
                   f"the expected value {want.shape}") from None
    if not value.element.is_float:
        return _compare_integers(value, got, want, where)
    return _compare_floats(value, got.astype(np.float64), want.astype(np.float64),
                           data.tolerance(value))


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


def _compare_floats(value: Value, got: Array, want: Array, tolerance: float) -> str | None:
    """Infinities and NaNs must agree element by element, the others in norm."""
    special = ~(np.isfinite(got) & np.isfinite(want))
    agree = (got == want) | (np.isnan(got) & np.isnan(want))
    wrong = np.argwhere(special & ~agree)
    if len(wrong):
        return (f"'{value.name}': {len(wrong)} of {got.size} elements are infinite or NaN on one "
                f"side only: " + _list(value, got, want, wrong))
    got, want = np.where(special, 0.0, got), np.where(special, 0.0, want)
    difference = got - want
    size = float(np.max(np.abs(want), initial=0.0)) or 1.0
    # Scaled, so that squares neither overflow nor vanish.
    norm = float(np.linalg.norm((want / size).ravel()))
    error = float(np.linalg.norm((difference / size).ravel()))
    relative = error / norm if norm else (np.inf if error else 0.0)
    if relative <= tolerance:
        return None
    typical = norm * size / np.sqrt(max(got.size, 1))
    far = np.abs(difference) > tolerance * np.maximum(np.abs(want), typical)
    wrong = np.argwhere(far) if far.any() else np.argwhere(np.abs(difference) == np.max(
        np.abs(difference)))
    return (f"'{value.name}': ||got - want|| / ||want|| = {relative:.3g}, tolerance "
            f"{tolerance:.3g}; {len(wrong)} of {got.size} elements are far off: "
            + _list(value, got, want, wrong))


def _list(value: Value, got: Array, want: Array, wrong: Array) -> str:
    return ", ".join(
        f"{_place(value.name, index)} is {_show(got[tuple(index)])}, "
        f"should be {_show(want[tuple(index)])}"
        for index in wrong[:_SHOWN]
    ) + (", ..." if len(wrong) > _SHOWN else "")


def _place(name: str, index: Array) -> str:
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


def _show(number: Any) -> str:
    return f"{float(number):.7g}" if np.asarray(number).dtype.kind == "f" else str(int(number))
