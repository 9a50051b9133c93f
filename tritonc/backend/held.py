"""How many numbers a thread holds at once: live ranges of tiles.

A value is live from its definition to its last use on any path (backward data flow over the
blocks).  Only tiles of floats count, each element as a register; what merely renumbers or repeats
another tile's registers is that tile.  An elementwise operation is made register by register, so
its operands and its result do not count together.
"""

from __future__ import annotations

from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile, is_float, scalar

_RENAMED = ("splat", "broadcast", "reshape", "trans")


def most_held(kernel: Kernel) -> float:
    """The most registers of 32 bits that live tiles of floats take anywhere between operations."""
    order = list(reversed(Cfg(kernel).order))
    before: dict[Block, frozenset[Value]] = {block: frozenset() for block in order}
    most, changed = 0.0, True
    while changed:
        changed, most = False, 0.0
        for block in order:
            live = set().union(*(before[s] for s in block.successors))
            most = max(most, sum(map(_registers, live)))
            for op in reversed(block.ops):
                live.difference_update(op.results)
                if op.name != "phi" and op.name not in _RENAMED:
                    live.update(map(_source, op.inputs()))
                elif op.name == "phi":
                    live.update(_source(v) for v in op.operands)  # as if on every path
                most = max(most, sum(map(_registers, live)))
            if frozenset(live) != before[block]:
                before[block], changed = frozenset(live), True
    return most


def _source(value: Value) -> Value:
    """The tile whose registers the value names."""
    while value.op is not None and value.op.name in _RENAMED:
        value = value.op.operands[0]
    return value


def _registers(value: Value) -> float:
    t = value.type
    if not isinstance(t, Tile) or t.layout is None or not is_float(t) or _is_constant(value.op):
        return 0
    size = scalar(t).bytes
    packed = value.op is not None and value.op.attributes.get("vector", 1) * size >= 4
    return t.layout.registers * (size / 4 if packed or size > 4 else 1)


def _is_constant(op: Op | None) -> bool:
    return op is not None and op.name == "constant"
