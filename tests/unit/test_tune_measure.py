"""One measurement: right before fast, warm-up, turns, the cut, a GPU that slows down."""

from __future__ import annotations

from collections.abc import Mapping

from tritonc.tune.timing.measure import MOST_LAUNCHES, measure
from tritonc.tune.workers.jobs import Code, Job, Measured, Wrong

A, B = (Code({"T": n}, str(n), b"", 32, 0, (n,)) for n in (1, 2))


class Scripted:
    """Times by candidate; the GPU is slowed by each of `slow` until it rests."""

    def __init__(self, slow: list[float] | None = None, wrong: list[str] | None = None) -> None:
        self.slow, self.wrong = slow or [], wrong or []
        self.calls: list[tuple[int, int]] = []

    def check(self, code: Code, size: Mapping[str, int]) -> tuple[list[str], float]:
        assert not self.calls, "checked first"
        return self.wrong, 10.0 * code.binding["T"]

    def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
        self.calls.append((code.binding["T"], launches))
        cold = 10.0 if self.calls.count((code.binding["T"], launches)) == 1 else 1.0
        factor = self.slow[0] if self.slow else 1.0
        return code.binding["T"] * factor * (cold if launches == 1 else 1.0)

    def rest(self, seconds: float) -> None:
        self.slow.pop(0)


def test_peers_are_measured_in_turn_after_warming_up() -> None:
    gpu = Scripted()
    assert measure(gpu, Job((A, B), {}, 3)) == Measured(((1.0,) * 3, (2.0,) * 3))
    assert gpu.calls == [(1, 1), (1, 1), (2, 1), (2, 1), *[(1, 2), (2, 1)] * 3]


def test_short_kernels_are_launched_several_times() -> None:
    class Short(Scripted):
        def milliseconds(self, code: Code, size: Mapping[str, int], launches: int) -> float:
            self.calls.append((0, launches))
            return 1e-9

    gpu = Short()
    measure(gpu, Job((A,), {}, 1))
    assert gpu.calls[-1] == (0, MOST_LAUNCHES)


def test_what_is_wrong_is_not_timed() -> None:
    gpu = Scripted(wrong=["'y' is wrong", "more"])
    assert measure(gpu, Job((A,), {}, 3)) == Wrong("'y' is wrong") and gpu.calls == []
    assert isinstance(measure(gpu, Job((A,), {}, 3, check=False)), Measured)


def test_what_is_slow_is_given_up() -> None:
    gpu = Scripted()
    assert measure(gpu, Job((A, B), {}, 3, cutoff=5.0)) == Measured(((20.0,),))
    assert gpu.calls == []  # by the launch of the check
    assert measure(gpu, Job((A, B), {}, 3, cutoff=15.0)) == Measured(((20.0,),))
    assert gpu.calls == [(2, 1)]


def test_what_is_slow_on_a_disturbed_gpu_is_tried_again() -> None:
    job = Job((A, B), {}, 2, cutoff=11.0, anchor=1.0)
    assert measure(Scripted(slow=[3.0]), job) == Measured(((1.0, 1.0), (2.0, 2.0)))
    slow = job._replace(cutoff=1.5)
    assert measure(Scripted(), slow) == Measured(((20.0,),))  # the anchor is as fast as ever
    assert measure(Scripted(slow=[3.0] * 9), slow) == Measured(((6.0,),))


def test_a_slowed_gpu_rests_and_is_noticed() -> None:
    found = measure(Scripted(slow=[1.5]), Job((A, B), {}, 2, anchor=1.0))
    assert found == Measured(((1.0, 1.0), (2.0, 2.0)))
    found = measure(Scripted(slow=[1.125]), Job((A, B), {}, 2, anchor=1.0))
    assert found == Measured(((1.125, 1.125), (2.25, 2.25)), 1.125)  # which no rest would change
    found = measure(Scripted(slow=[1.5] * 9), Job((A, B), {}, 2, anchor=1.0))
    assert found == Measured(((1.5, 1.5), (3.0, 3.0)), 1.5)
