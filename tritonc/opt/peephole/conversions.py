"""Rules of conversions: chains become one conversion, or none."""

from __future__ import annotations

from tritonc.analysis.values import defined_by
from tritonc.ir.core import Op, Value
from tritonc.ir.types import F8E5M2, TF32, Scalar, Type, element, with_element
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def _convert(name: str, x: Value, to: Type, r: Rewriter) -> Value:
    """x itself where it has that type."""
    return x if x.type == to else r.value(name, x, type=to)


def extension_of_extension(op: Op, r: Rewriter) -> Value | None:
    """zext zext x = zext x;  sext sext x = sext x;  sext zext x = zext x."""
    inner = op.operands[0].op
    if inner is None or inner.name not in (("zext",) if op.name == "zext" else ("zext", "sext")):
        return None
    return r.value(inner.name, inner.operands[0], type=op.result.type)


def truncate_of_extension(op: Op, r: Rewriter) -> Value | None:
    """truncate ext x = x, or a lesser extension, or a lesser truncation, by the widths."""
    inner = op.operands[0].op
    if inner is None or inner.name not in ("zext", "sext"):
        return None
    x, to = inner.operands[0], op.result.type
    narrower = element(to).bits < element(x.type).bits
    return _convert("truncate" if narrower else inner.name, x, to, r)


def _holds(wide: Scalar, narrow: Scalar) -> bool:
    """Whether each number of `narrow` is one of `wide`, subnormals included."""
    subnormals = (wide.exponent > narrow.exponent or
                  (wide.exponent == narrow.exponent and wide.mantissa >= narrow.mantissa))
    return subnormals and wide.mantissa >= narrow.mantissa


def fpcast_of_fpcast(op: Op, r: Rewriter) -> Value | None:
    """fpcast fpcast x = fpcast x, or x, if the inner one widens, which is exact.

    Not with tf32, which is stored as an f32; nor from f8e5m2 back to it, which saturates infinity.
    """
    x, to = op.operands[0], op.result.type
    if x.type == to:
        return x
    inner = defined_by(x, "fpcast")
    if inner is None:
        return None
    first, middle = element(inner.operands[0].type), element(x.type)
    if not isinstance(first, Scalar) or not isinstance(middle, Scalar):
        return None
    if TF32 in (first, middle, element(to)) or not _holds(middle, first):
        return None
    if first == element(to) == F8E5M2:
        return None
    return _convert("fpcast", inner.operands[0], to, r)


def fpcast_of_trans(op: Op, r: Rewriter) -> Value | None:
    """fpcast (trans x) = trans (fpcast x), to a tf32: products take either as it is in memory."""
    x, to = op.operands[0], op.result.type
    inner = defined_by(x, "trans")
    if inner is None or not r.used_once(x) or element(to) != TF32:
        return None
    source = inner.operands[0]
    converted = r.value("fpcast", source, type=with_element(source.type, element(to)))
    return r.value("trans", converted, type=to, permutation=inner.attributes["permutation"])


RULES: dict[str, list[Rule]] = {
    "zext": [extension_of_extension],
    "sext": [extension_of_extension],
    "truncate": [truncate_of_extension],
    "fpcast": [fpcast_of_fpcast, fpcast_of_trans],
}
