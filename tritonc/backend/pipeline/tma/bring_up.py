"""Numbers that maps of tensors are made of, brought up to where the maps are made: before the loop
over programs, where they are the same in all of them.

A division may trap, and does not run where the program would not.  Each persistent block has a
program, so that what every program comes to may run before the first."""

from collections.abc import Iterable

from tritonc.analysis.values import speculatable
from tritonc.backend.launch.persist import counts_programs
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import Buffer, Tile


def bring_up(values: Iterable[Value], place: Block, cfg: Cfg) -> bool:
    """Move the numbers that `values` are computed from to the end of a block that comes before, if
    they can be computed there.  Whether that is so; the graph is to be read again then."""
    moved = _below(values, place, cfg)
    if moved is None:
        return False
    for op in moved:
        cfg.block_of[op].ops.remove(op)
    slots = [i for i, op in enumerate(place.ops) if op.name == "claim_slot"]
    at = slots[0] if slots else len(place.ops) - 1  # where maps are made
    place.ops[at:at] = moved
    return True


def computed_at(values: Iterable[Value], place: Block, cfg: Cfg) -> bool:
    """Whether the values are there at the end of a block, or can be brought up."""
    return _below(values, place, cfg) is not None


def _below(values: Iterable[Value], place: Block, cfg: Cfg) -> list[Op] | None:
    """What computes the values behind a block and could at its end; None if not all of it could."""
    found: list[Op] = []

    def passed(op: Op) -> bool:
        """Whether each program comes to a division, behind a block that has one at least."""
        home = cfg.block_of[op]
        return any(loop.preheader is place and counts_programs(loop) and home in loop
                   and loop.latch is not None and cfg.dominates(home, loop.latch)
                   for loop in cfg.loops)

    def reach(value: Value) -> bool:
        op = value.op
        if cfg.available(value, place) or op in found:
            return True
        if op is None or op.name == "phi" or isinstance(value.type, Tile | Buffer) \
                or not (speculatable(op) or (op.pure and op.guard is None and passed(op))) \
                or not all(map(reach, op.inputs())):
            return False
        found.append(op)
        return True

    return found if all(map(reach, values)) else None
