"""uniform_quotients: quotients of an index that a step of a loop does not leave are scalars.

Before:  %i = add (splat k), 0 ... 64                After:  %q = splat (sdiv k, %C)
         %q = sdiv %i, splat %C                              %c = add (splat (srem k, %C)), 0 ... 64
         %c = srem %i, splat %C

where k and C are multiples of 64, as facts say: a step of a flat loop over taps and channels has
channels of one tap.  What follows from scalars alone becomes a scalar, too."""

from collections.abc import Callable, Sequence

from tritonc.analysis.axis import axis_info
from tritonc.analysis.multiples import Multiples, MultiplesNeeded, joined
from tritonc.analysis.signs import known_signs
from tritonc.analysis.values import QUOTIENTS, REMAINDERS, defined_by, is_uniform
from tritonc.backend.memory.masks.row_masks import number_of
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import Tile, shape
from tritonc.records import NamedTuple


class Quotient(NamedTuple):
    """A quotient or remainder of `start` + 0 ... extent by a scalar."""

    op: Op
    start: Value
    range: Value
    by: Value

    @property
    def extent(self) -> int:
        return shape(self.op.result.type)[0]


def needed(kernel: Kernel, found: Sequence[Quotient], testable: Callable[[Value], bool]
           ) -> Multiples | None:
    """What must be multiples so that they are uniform; None where no test of scalars shows it."""
    multiples, needs = MultiplesNeeded(axis_info.analyze(kernel), testable), Multiples()
    for one in found:
        more = multiples.of_integer(one.by, None, 1, one.extent)
        if more is None:
            return None
        needs = joined(needs, more)
    return needs


def uniform_quotients(kernel: Kernel, found: Sequence[Quotient], everywhere: bool = False) -> None:
    """Make them scalars, where they are known to be, or `everywhere`."""
    infos = axis_info.analyze(kernel) if found else {}
    known = {one.op: one for one in found if everywhere or (
        one.by in infos and infos[one.by].every % one.extent == 0)}
    replaced: dict[Value, Value] = {}
    for block in [block for block in kernel.blocks if not known.keys().isdisjoint(block.ops)]:
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            op.replace_inputs(replaced)
            b.span = op.span
            new = _uniform(b, op, known.get(op))
            if new is None:
                b.insert(op)
            else:
                replaced[op.result] = new
    kernel.replace(replaced)


def _uniform(b: Builder, op: Op, one: Quotient | None) -> Value | None:
    t = op.results[0].type if len(op.results) == 1 else None
    if not isinstance(t, Tile) or op.guard is not None:
        return None
    if one is not None:
        scalar = b.value("splat", b.value(op.name, one.start, one.by), type=t)
        return scalar if op.name in QUOTIENTS else b.value("add", one.range, scalar)
    if not op.operands or not all(map(is_uniform, op.operands)) or not op.pure:
        return None
    if op.name in ("reshape", "broadcast"):
        return b.value("splat", number_of(b, op.operands[0]), type=t)
    if op.name == "splat" or not op.info.elementwise:
        return None
    scalars = [number_of(b, v) for v in op.operands]
    return b.value("splat", b.value(op.name, *scalars, type=t.element, **op.attributes), type=t)


def of_steps(kernel: Kernel) -> list[Quotient]:
    """Those in loops around products, of numbers that steps go through as a whole."""
    cfg, infos, found = Cfg(kernel), axis_info.analyze(kernel), list[Quotient]()
    for block in cfg.order:
        if block not in cfg.innermost or not any(op.name == "dot" for op in block.ops):
            continue
        signs = known_signs(kernel, cfg, block)
        for op in block.ops:
            index = op.operands[0].op if op.name in (*QUOTIENTS, *REMAINDERS) else None
            by = defined_by(op.operands[1], "splat") if index is not None else None
            if index is None or by is None or index.name != "add" or len(
                    shape(op.result.type)) != 1:
                continue
            for counted, start in (index.operands, index.operands[::-1]):
                made, first = defined_by(counted, "range"), defined_by(start, "splat")
                if made is None or first is None or made.attributes["start"]:
                    continue
                one = Quotient(op, first.operands[0], counted, by.operands[0])
                info = infos.get(one.start)
                if info is not None and info.every % one.extent == 0 and signs.holds(one.start):
                    found.append(one)
    return found
