"""Along which axis addresses are likely to go on, where along none they are known to.

    b * K * P * Q + p * Q + q    with q = pixel % Q, p = pixel / Q % P, of neighbouring pixels

mostly goes on by 1 from pixel to pixel, though no two are known to be neighbours in memory.  This
proves nothing: it is asked to choose which elements neighbouring lanes get, where any choice is
right.  A remainder by something that is not known goes on with its dividend; anything else that is
no sum or move does not.
"""

from __future__ import annotations

from tritonc.analysis import axis_info
from tritonc.ir.core import Value
from tritonc.ir.types import same_axes, shape

_SUMS = ("addptr", "add", "sub", "sext", "zext", "assume_multiple", "broadcast")
_MOST = 200  # values looked at


def likely_axes(pointer: Value, infos: axis_info.Infos) -> set[int]:
    """The axes of the tile along which a term of its addresses is a remainder that goes on by 1."""
    found: set[int] = set()
    stack = [(pointer, tuple(range(len(shape(pointer.type)))))]
    for value, axes in stack:  # which grows
        op = value.op
        if op is None or len(stack) > _MOST:
            break
        if op.name in _SUMS:
            stack += [(v, axes) for v in op.operands]
        elif op.name == "reshape":
            before, after = shape(op.operands[0].type), shape(op.result.type)
            if (places := same_axes(after, before)) is not None:
                stack.append((op.operands[0], tuple(-1 if d is None else axes[d] for d in places)))
        elif op.name in ("srem", "urem"):
            info = infos.get(op.operands[0])
            if info is not None:
                found.update(a for a, n in zip(axes, info.contiguity, strict=True) if n > 1)
    return found - {-1}
