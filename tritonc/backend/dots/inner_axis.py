"""Whether operands of products are loaded with the inner axis, that of K, contiguous."""

from __future__ import annotations

from tritonc.analysis import axis_info
from tritonc.ir.core import Op, Value


def inner_first(dot: Op, infos: axis_info.Infos) -> tuple[bool, bool]:
    """Whether each operand is loaded with its inner axis (that of K) contiguous."""
    a, b = dot.operands[:2]
    return _inner_first(a, 1, infos), _inner_first(b, 0, infos)


def _inner_first(operand: Value, inner: int, infos: axis_info.Infos) -> bool:
    """Whether the operand is loaded with its inner axis (that of K) contiguous."""
    value = operand
    while value.op is not None and value.op.name != "load":
        op = value.op
        if op.name == "trans" and tuple(op.attributes["permutation"]) == (1, 0):
            inner = 1 - inner
        elif op.name not in ("fpcast", "psi", "select"):
            return False
        first = 1 if op.name in ("psi", "select") else 0
        data = [v for v in op.operands[first:] if v.type == op.result.type]
        value = next((v for v in data if v.op is not None and v.op.name != "constant"),
                     op.operands[0])
    info = infos.get(value.op.operands[0]) if value.op is not None else None
    return info is not None and info.contiguity[inner] > info.contiguity[1 - inner]
