"""Times as rates: what a problem's `flops:` and `bytes:` lines say a launch does, by its time."""

from collections.abc import Mapping

from tritonc.problem.evaluate import Expression, evaluate
from tritonc.problem.lines import Problem
from tritonc.source import CompileError


def amount(expression: Expression | None, size: Mapping[str, int]) -> float | None:
    """The value of a `flops:` or `bytes:` line; None where there is none, no positive one, or it
    names what only a compiled kernel has."""
    try:
        found = evaluate(expression, size) if expression is not None else None
    except CompileError:
        return None
    return float(found) if isinstance(found, int | float) and found > 0 else None


def rates(problem: Problem, size: Mapping[str, int], milliseconds: float,
          peaks: tuple[float, float] = (0.0, 0.0)) -> str:
    """`, 52.7 TFLOP/s, 810 GB/s`, as far as the problem states them; and what share that is of
    `peaks`, operations and bytes per second, where those are known."""
    found = ""
    for expression, unit, scale, peak in ((problem.flops, "TFLOP/s", 1e-9, peaks[0]),
                                          (problem.bytes, "GB/s", 1e-6, peaks[1])):
        if (value := amount(expression, size)) is not None:
            share = f" ({value * 1e3 / milliseconds / peak:.2f} of the peak)" if peak else ""
            found += f", {value * scale / milliseconds:.4g} {unit}{share}"
    return found
