"""Small tables in memory: loads whose index has few values, whatever the data are.

`t[w & 15]` reads one of 16 neighbours.  Where the table begins at a multiple of its size, at most
TABLE_BYTES, all of it is in memory if any of it is: no page ends in it."""

from typing import NamedTuple

from tritonc.analysis.facts import Facts
from tritonc.analysis.values import defined_by, origin
from tritonc.ir.core import Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar

TABLE_BYTES = 64
FEWEST = 4  # times as many loads as the table has places


class Table(NamedTuple):
    """Where it begins, how many elements it has, and which of them are loaded."""

    base: Value
    places: int
    place: Value

    @property
    def bytes(self) -> int:
        return self.places * scalar(pointee(self.base.type)).bytes


def table_of(load: Op, facts: Facts) -> Table | None:
    """The table that a load of a tile reads, each element of it under no guard."""
    if load.name != "load" or load.guard is not None or load.attributes.get("volatile"):
        return None
    step = defined_by(load.operands[0], "addptr")
    if step is None:
        return None
    start = defined_by(step.operands[0], "splat")
    low, high = facts.interval(step.operands[1])
    if start is None or low < 0 or high == 0:
        return None
    found = Table(start.operands[0], 1 << high.bit_length(), step.operands[1])
    size = getattr(load.result.type, "size", 1)
    return found if found.bytes <= TABLE_BYTES and size >= FEWEST * found.places else None


def constant_lookup(load: Op) -> tuple[str, Value] | None:
    """The symbol of constant memory from whose start a load counts, and its index there."""
    step = defined_by(load.operands[0], "addptr") if load.name == "load" else None
    base = defined_by(origin(step.operands[0]), "constant_table") if step is not None else None
    return (base.attributes["symbol"], step.operands[1]) if base and step else None
