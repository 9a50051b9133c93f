"""Which operands are loaded with K, the inner axis, contiguous, and which of them wgmma reads."""

from tritonc.analysis.axis import axis_info
from tritonc.backend.target.matrix import MatrixInstruction
from tritonc.ir.core import Op, Value
from tritonc.ir.types import shape

TRANSPOSED = (1, 0)
BYTE_BITS, WORD_BITS = 8, 32  # of elements that threads transpose


def reads(row: MatrixInstruction, left: bool, right: bool) -> bool:
    """Whether wgmma can read operands of which these are loaded with K contiguous.  Others of 16
    bits are transposed on their way from shared memory, words by threads, and bytes of the left one
    on their way to registers (`raw_operands`)."""
    bits = row.operand.bits
    return row.transposes or (left and right) or bits == WORD_BITS or (bits == BYTE_BITS and right)


def inner_first(dot: Op, infos: axis_info.Infos) -> tuple[bool, bool]:
    """Whether each operand is loaded with its inner axis (that of K) contiguous; one that is
    computed, whether all of what it is computed from is so, or repeated along that axis."""
    a, b = dot.operands[:2]
    return bool(_inner_first(a, 1, infos)), bool(_inner_first(b, 0, infos))


def _inner_first(operand: Value, inner: int, infos: axis_info.Infos) -> bool | None:
    """None for what no load gives."""
    op = operand.op
    if op is None or len(shape(operand.type)) != 2:
        return None
    if op.name == "load":
        info = infos.get(op.operands[0])
        runs = (0, 0) if info is None else (*map(max, info.contiguity, info.constancy),)
        return runs[inner] > runs[1 - inner]
    if is_transpose(op):
        return _inner_first(op.operands[0], 1 - inner, infos)
    if op.name in ("psi", "select"):
        data = [v for v in op.operands[1:] if v.type == op.result.type]
    else:
        data = op.operands if op.info.elementwise and op.pure else []
    found = {_inner_first(v, inner, infos) for v in data} - {None}
    return found == {True} if found else None


def is_transpose(op: Op | None) -> bool:
    return (op is not None and op.name == "trans"
            and tuple(op.attributes["permutation"]) == TRANSPOSED)
