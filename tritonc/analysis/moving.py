"""Whether an access of a loop meets no address twice: each iteration has addresses of its own.

A loop over a row stores to `y + n + (0 ... TN)` and moves on by TN.  Threads that are an iteration
ahead then touch nothing that others still do, and no barrier is needed.  Of the affine form

    base + offset + counter * step + i0 * stride0 + i1 * stride1 + ...

axes are left out one after the other, the one of the least stride first, as long as what they span
is below the next stride; `step` must be beyond all that is left.  Of a stride that is a number at
run time, as of rows of N elements, a mask says it: `start + i1 < N`, where start >= 0.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affinity, Iteration, Mask
from tritonc.analysis.linear import Linear, equal
from tritonc.analysis.signs import known_signs
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import shape


def meets_itself(kernel: Kernel, cfg: Cfg, loop: Loop, op: Op) -> bool:
    """Whether the addresses of a load or store may be those of another iteration of the loop."""
    iteration = Iteration(loop)
    affinity = Affinity(iteration, known_signs(kernel, cfg, loop.preheader or loop.header))
    pointer = op.operands[0]
    form = affinity.of(pointer)
    parts = form.offset.split(iteration.counter) if form is not None else None
    if form is None or parts is None:
        return True
    step = parts[1]
    extents = shape(pointer.type)
    left = [(n, s) for n, s in zip(extents, form.strides, strict=True) if n > 1 and s.terms]
    numbers = [(n, abs(s.constant)) for n, s in left if s.constant is not None]
    others = [(n, s) for n, s in left if s.constant is None]
    span = sum((n - 1) * s for n, s in numbers)  # of the axes of known strides together
    if not others:
        return step.constant is None or abs(step.constant) <= span
    if len(others) > 1:
        return True
    extent, row = others[0]
    many = step.divided(row)
    mask = affinity.mask(op.guard, len(extents))
    return many is None or many.constant is None or abs(many.constant) < extent \
        or not (len(numbers) == 0 or (len(numbers) == 1 and numbers[0][1] == 1 and mask is not None
                                      and _within(affinity, mask, form.strides, row)))


def _within(affinity: Affinity, mask: Mask, strides: tuple[Linear, ...], row: Linear) -> bool:
    """Whether the axis of stride 1 stays within a row: 0 <= start, start + i < row."""
    return any(strides[b.axis].constant == 1 and equal(b.limit, row)
               and affinity.signs.positive(b.start) for b in mask.bounds)
