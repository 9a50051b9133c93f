"""Indices that overflow `int`.

Integer arithmetic wraps, but a sum or product that addresses memory, or that the mask of an access
compares, must stay within its type: machine code may compute it in 64 bits.  `Overflow` follows
the addresses and guards of a kernel back to such operations; while the kernel runs each of them
says which of its elements overflowed, what carries them on passes that on, and the access that
meets one warns.  An element that no access touches is no matter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritonc.interp.frame import Frame, Launch, Step, Warn
from tritonc.interp.undefined import propagation
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I1, I32, element, shape
from tritonc.source import Note, Span

_ARITHMETIC: dict[str, tuple[np.ufunc, str, str]] = {
    "add": (np.add, "sum", "+"), "sub": (np.subtract, "difference", "-"),
    "mul": (np.multiply, "product", "*")}
_CARRIERS = frozenset("addptr splat broadcast reshape trans sext select psi phi cmpp".split())
_ACCESSES = ("load", "store", "atomic_rmw", "atomic_cas")


class Overflow:
    """Which operations of a kernel make and carry indices, and what was warned of."""

    def __init__(self, kernel: Kernel, warn: Warn) -> None:
        self.warn = warn
        self.followed: set[Op] = set()
        self.warned: set[Op] = set()
        self.tracks = False
        self.first: dict[Op, tuple[int, int]] = {}  # operands that overflowed first
        work: list[Value] = []
        for op in kernel.ops():
            if op.name in _ACCESSES:
                work += [op.operands[0], *([op.guard] if op.guard is not None else [])]
        while work:
            cause = work.pop().op
            if cause is not None and cause not in self.followed and _is_followed(cause):
                self.followed.add(cause)
                work += cause.operands

    def step(self, launch: Launch, op: Op, step: Step) -> Step:
        """The step of an operation, which says if it overflows."""
        if op not in self.followed or op.name not in _ARITHMETIC:
            return step
        result, extents = op.result, shape(op.result.type)
        exact = _ARITHMETIC[op.name][0]
        first, second = _operands(launch, op)

        def noted(frame: Frame) -> None:
            step(frame)
            values = frame.values
            a, b = values[first], values[second]
            wrong = exact(a, b, dtype=np.int64) != values[result]
            if not wrong.any():
                return
            if op not in self.first:
                at = int(np.argmax(wrong))
                self.first[op] = tuple(  # type: ignore[assignment]
                    int(np.broadcast_to(v, extents).reshape(-1)[at]) for v in (a, b))
            frame.overflowed[result] = (wrong, op)
            self._track(launch)

        return noted

    def _track(self, launch: Launch) -> None:
        """From now on overflows are carried from step to step: nothing had to be, so far."""
        if not self.tracks:
            self.tracks = True
            for plan, ops in launch.plans:
                plan.steps[:] = [self._tracked(launch, op, step) if op is not None else step
                                 for op, step in zip(ops, plan.steps, strict=True)]

    def _tracked(self, launch: Launch, op: Op, step: Step) -> Step:
        if op.name in _ACCESSES:
            return self._access(op, step)
        if op not in self.followed:
            return step
        propagate = _of_psi if op.name == "psi" else propagation(launch.table[op.name], op)
        return _carrying(op, _operands(launch, op), step, propagate)

    def _access(self, op: Op, step: Step) -> Step:
        pointer, guard = op.operands[0], op.guard

        def access(frame: Frame) -> None:
            found = frame.overflowed.get(pointer)
            if found is not None:
                active = None if guard is None else frame.values[guard]
                if np.any(found[0] if active is None else found[0] & active):
                    self._report(frame, op, found[1], "address")
            found = None if guard is None else frame.overflowed.get(guard)
            if found is not None:
                self._report(frame, op, found[1], "mask")
            step(frame)

        return access

    def _report(self, frame: Frame, op: Op, cause: Op, what: str) -> None:
        if cause in self.warned:
            return
        self.warned.add(cause)
        exact, word, sign = _ARITHMETIC[cause.name]
        a, b = self.first[cause]
        span: Span | None = cause.span
        index = ", ".join(map(str, frame.instance.index))
        access = op.name if op.name in ("load", "store") else "atomic operation"
        self.warn("index-overflow", span, f"this {word} does not fit in an int: {a} {sign} "
                  f"{f'({b})' if b < 0 else b} is {exact(a, b, dtype=np.int64)}; an index may not "
                  "wrap: compute it as long",
                  Note(f"the {what} of this {access} depends on it", op.span),
                  Note(f"in instance ({index})"))


def _operands(launch: Launch, op: Op) -> Sequence[Value]:
    return launch.spread.operands(op) if launch.spread is not None else op.operands


def _is_followed(op: Op) -> bool:
    if op.name in _ARITHMETIC:
        return element(op.result.type) == I32
    if op.name in ("and", "or"):
        return element(op.result.type) == I1  # of masks; what takes bits of a number may wrap
    return op.name in _CARRIERS or (op.name == "icmp" and op.attributes["predicate"][0] == "s")


def _carrying(op: Op, operands: Sequence[Value], step: Step,
              propagate: Callable[[list[Any], Sequence[Any]], Any]) -> Step:
    """The step, after which the elements that depend on an overflow are known."""
    results = op.results

    def carrying(frame: Frame) -> None:
        known = frame.overflowed
        found = [known.get(v) for v in operands]
        for result in results:
            known.pop(result, None)
        step(frame)
        if not any(found):
            return
        mask = propagate([f and f[0] for f in found], [frame.values[v] for v in operands])
        cause = next(f[1] for f in found if f)
        for result in results:
            if np.any(mask) and result not in known:
                known[result] = (np.broadcast_to(mask, shape(result.type)), cause)

    return carrying


def _of_psi(masks: list[Any], inputs: Sequence[Any]) -> Any:
    found: Any = False
    for predicate, value, holds in zip(masks[0::2], masks[1::2], inputs[0::2], strict=True):
        found = np.where(holds, False if value is None else value, found)
        found = found if predicate is None else found | predicate
    return found
