"""Rules of conversions: a truncation that undoes one, and those to a tf32."""

from __future__ import annotations

from tritonc.analysis.values import defined_by
from tritonc.ir.core import Op, Value
from tritonc.ir.types import TF32, Type, element, with_element
from tritonc.opt.peephole.rewrite import Rewriter, Rule


def _convert(name: str, x: Value, to: Type, r: Rewriter) -> Value:
    """x itself where it has that type."""
    return x if x.type == to else r.value(name, x, type=to)


def truncate_of_extension(op: Op, r: Rewriter) -> Value | None:
    """truncate ext x = x, or a lesser extension, or a lesser truncation, by the widths."""
    inner = op.operands[0].op
    if inner is None or inner.name not in ("zext", "sext"):
        return None
    x, to = inner.operands[0], op.result.type
    narrower = element(to).bits < element(x.type).bits
    return _convert("truncate" if narrower else inner.name, x, to, r)


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
    "truncate": [truncate_of_extension],
    "fpcast": [fpcast_of_trans],
}
