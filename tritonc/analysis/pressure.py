"""How many numbers a thread holds at once: live ranges of tiles.

A value is live from its definition to its last use on any path (backward data flow over the
blocks).  Only tiles of floats count, each element as a register; what merely renumbers or repeats
another tile's registers is that tile.  An elementwise operation is made register by register, so
its operands and its result do not count together; if only a reduction reads its result, that does
not count at all.
"""

from __future__ import annotations

from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile, is_float, scalar

_RENAMED = ("splat", "broadcast", "reshape", "trans")
MOST_HELD = 48  # registers: so many, and those for addresses and what is on the way, are 64


def most_held(kernel: Kernel) -> float:
    """The most registers of 32 bits that live tiles of floats take between operations.

    Where tiles are loaded outside of loops, only there: loops are for what does not fit a tile.
    """
    cfg = Cfg(kernel)
    straight = [block for block in cfg.order if block not in cfg.innermost]
    loads = any(op.name == "load" and isinstance(op.result.type, Tile)
                for block in straight for op in block.ops)
    counted = set(straight if loads else cfg.order)
    readers = uses(kernel)
    passing = {v for block in cfg.order for op in block.ops if ALL_OPS[op.name].elementwise
               for v in op.results if _only_reduced(v, readers)}
    order = list(reversed(cfg.order))
    before: dict[Block, frozenset[Value]] = {block: frozenset() for block in order}
    most, changed = 0.0, True
    while changed:
        changed, most = False, 0.0
        for block in order:
            live = {v for s in block.successors for v in before[s]}
            live |= {_source(v) for s in block.successors for phi in s.phis()
                     for v, source in zip(phi.operands, phi.blocks, strict=True)
                     if source is block}
            for op in reversed(block.ops):
                live.difference_update(op.results)
                if op.name != "phi" and op.name not in _RENAMED:
                    live.update(map(_source, op.inputs()))
                if block in counted:
                    most = max(most, sum(_registers(v) for v in live if v not in passing))
            if frozenset(live) != before[block]:
                before[block], changed = frozenset(live), True
    return most


def _source(value: Value) -> Value:
    """The tile whose registers the value names."""
    while value.op is not None and value.op.name in _RENAMED:
        value = value.op.operands[0]
    return value


def _only_reduced(value: Value, readers: dict[Value, list[Op]]) -> bool:
    found = readers.get(value, [])
    while len(found) == 1 and found[0].name in _RENAMED:
        found = readers.get(found[0].result, [])
    return len(found) == 1 and found[0].name == "reduce"


def made_alone(op: Op) -> bool:
    """Whether the operation makes a tile of one other, element by element, or renumbers it."""
    return len(op.results) == 1 and len(op.inputs()) == 1 and (
        op.name in _RENAMED or ALL_OPS[op.name].elementwise)


def _comes_in_pieces(op: Op | None) -> bool:
    """Whether the tile is never whole in a thread (see delay_loads)."""
    while op is not None and made_alone(op):
        op = op.operands[0].op
    return op is not None and bool(op.attributes.get("piecewise"))


def _registers(value: Value) -> float:
    t = value.type
    if not isinstance(t, Tile) or t.layout is None or not is_float(t) or _is_constant(value.op) \
            or _comes_in_pieces(value.op):
        return 0
    size = scalar(t).bytes
    packed = value.op is not None and value.op.attributes.get("vector", 1) * size >= 4
    return t.layout.registers * (size / 4 if packed or size > 4 else 1)


def _is_constant(op: Op | None) -> bool:
    return op is not None and op.name == "constant"
