"""Whether an access of a loop meets no address twice: each iteration has addresses of its own.

A loop over a row stores to `y + n + (0 ... TN)` and moves on by TN.  Threads that are an iteration
ahead then touch nothing that others still do, and no barrier is needed.  Of the affine form

    base + offset + counter * step + i0 * stride0 + i1 * stride1 + ...

each stride must be beyond what the axes of lesser ones span together, and `step` beyond what all of
them do.  Of a stride that is a number at run time, as of rows of N elements, a mask says it:
`start + i1 < N`, where start >= 0.  So no two elements of a tile have one address, either."""

from math import gcd

from tritonc.analysis.affine import Affine, Affinity, Iteration, Mask
from tritonc.analysis.linear import Linear, equal
from tritonc.analysis.signs import known_signs
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import element, scalar, shape


def mark_moving(kernel: Kernel) -> None:
    """Mark the accesses of loops that meet nothing of other iterations, while masks say so; not
    around products, whose pipelines copy them out of loops."""
    cfg = Cfg(kernel)
    if any(op.name == "dot" for op in kernel.ops()):
        return
    for block, loop in cfg.innermost.items():
        for op in block.ops:
            if op.name in ("load", "store") and shape(op.operands[0].type) \
                    and not meets_itself(kernel, cfg, loop, op):
                op.attributes["moves"] = True


def meets_itself(kernel: Kernel, cfg: Cfg, loop: Loop, op: Op) -> bool:
    """Whether addresses of a load or store may be met twice, in one or in two iterations."""
    iteration = Iteration(loop)
    affinity = Affinity(iteration, known_signs(kernel, cfg, loop.preheader or loop.header))
    pointer = op.operands[0]
    exact = affinity.of(pointer)
    form = exact or _Unsigned(iteration).of(pointer)
    parts = form.offset.split(iteration.counter) if form is not None else None
    if form is None or parts is None or not affinity.inside.isdisjoint(
            v for each in (*parts, *form.strides) for v in each.values()):
        return True  # something else changes in the loop, too
    step = parts[1]
    extents = shape(pointer.type)
    left = [(n, s) for n, s in zip(extents, form.strides, strict=True) if n > 1]
    numbers = sorted((abs(s.constant), n) for n, s in left if s.constant is not None)
    others = [(n, s) for n, s in left if s.constant is None]
    span = 0  # of the axes of known strides together
    for stride, extent in numbers:
        if stride <= span:
            return True
        span += (extent - 1) * stride
    if not others and step.constant is not None:
        return abs(step.constant) <= span
    if exact is None or len(others) > 1 or len(numbers) != 1 or numbers[0][0] != 1:
        return True
    count, between = others[0] if others else (1, step)
    for row in _rows(affinity, affinity.mask(op.guard, len(extents)), form.strides):
        many = step.divided(row)
        if many is not None and abs(many.constant or 0) >= count and (
                not others or equal(between, row)):
            return False
    return True


class _Unsigned(Affinity):
    """Forms as to numbers: an index without sign stays within its type, as docs/language.md has it.
    Of a value alone they do not say whether it has a sign."""

    def _zext(self, op: Op) -> Affine | None:
        return self.of(op.operands[0]) if scalar(op.operands[0].type).bits > 1 else None


def _rows(affinity: Affinity, mask: Mask | None, strides: tuple[Linear, ...]) -> list[Linear]:
    """Extents of rows within which the axis of stride 1 stays: 0 <= start, start + i < row."""
    return [b.limit for b in (mask.bounds if mask else ())
            if strides[b.axis].constant == 1 and affinity.signs.positive(b.start)]


def addresses_modulo(op: Op, loop: Loop | None) -> tuple[int, int]:
    """(r, n): every address of a load or store is r modulo n, in elements from its parameter; n is
    1 where nothing is known.  `loop`: the innermost around it."""
    form = Affinity(Iteration(loop) if loop is not None else None).of(op.operands[0])
    if form is None or form.base is None or element(form.base.type) != element(op.operands[0].type):
        return 0, 1
    moving = [n for _, n in form.offset.symbolic]
    moving += [n for stride in form.strides for _, n in stride.terms]
    return form.offset.constant_term, gcd(*moving) or 1
