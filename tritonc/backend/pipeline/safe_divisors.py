"""safe_divisors: divisions of a loop are made safe to run one iteration too far.

Before:  body:  %r = sdiv %k, %S             After:  pre:   %d = umax %S, 1
                %p = addptr %q, %r                   body:  %r = sdiv %k, %d
                %a = load %p                                ...

What an address needs is computed iterations ahead by a pipeline, and also after the last one; so it
must not trap.  A divisor is 0 in no iteration that comes, or the program is wrong; the greater of
it and 1, as unsigned numbers, is the same then, and never 0.  In place of 1 stands what is known to
divide it, so that the result is a multiple of that too.

Only in loops with products, which are those that pipelines serve; divisors that a loop computes
only where the products are its own, and not those of a loop in it, which end before the next
iteration's begin.  Needs preheaders."""

from tritonc.analysis.axis import axis_info
from tritonc.analysis.values import int_of, origin
from tritonc.ir.build import Builder, behind, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import Tile

MOST_FACTOR = 64  # more than which no access asks for


def safe_divisors(kernel: Kernel, context: Context) -> bool:
    """Make the divisors of all loops with products such as are never 0."""
    cfg = Cfg(kernel)
    changed, infos = False, None
    for loop in cfg.loops:
        names = {op.name for op in loop.ops()}
        if loop.preheader is not None and "dot" in names and not names.isdisjoint(DIVISIONS):
            infos = infos or axis_info.analyze(kernel)
            changed |= _Divisors(cfg, loop, infos).run()
    return changed


def never_zero(divisor: Value) -> bool:
    """Whether a divisor is made so, or a number; -1 divides the least integer to something."""
    scalar = origin(divisor)
    number = int_of(scalar)
    if number is not None:
        return number not in (0, -1)
    return scalar.op is not None and scalar.op.name == "umax" and any(
        (int_of(v) or 0) > 0 for v in scalar.op.operands)


class _Divisors:
    def __init__(self, cfg: Cfg, loop: Loop, infos: axis_info.Infos) -> None:
        self.cfg, self.loop, self.infos = cfg, loop, infos
        self.made: dict[Value, Value] = {}
        self.own = {block for block in loop.blocks if cfg.innermost[block] is loop}
        self.multiplies = any(op.name == "dot" for block in self.own for op in block.ops)

    def run(self) -> bool:
        for block in [block for block in self.loop.blocks if block in self.own]:
            for op in list(block.ops):
                if op.name in DIVISIONS and not never_zero(op.operands[1]):
                    safe = self.safe(origin(op.operands[1]))
                    if safe is not None:
                        block.ops[(at := block.ops.index(op)):at] = new = self.shaped(
                            safe, op.operands[1])
                        op.operands[1] = new[-1].result if new else safe
        return bool(self.made)

    def safe(self, divisor: Value) -> Value | None:
        """The divisor, or 1 where it is 0; None if it is a tile, or one that this loop must not
        compute."""
        home = self.cfg.block_of.get(divisor.op) if divisor.op is not None else None
        inside = home is not None and home in self.loop.block_set
        if isinstance(divisor.type, Tile) or (
                inside and not (self.multiplies and home in self.own)):
            return None
        if divisor not in self.made:
            info = self.infos.get(divisor)
            factor = info.every if info is not None else 1
            before = self.loop.preheader
            assert before is not None
            b = behind(home, divisor) if inside and home else Builder(before, len(before.ops) - 1)
            one = b.constant(min(factor, MOST_FACTOR), divisor.type)
            self.made[divisor] = b.value("umax", divisor, one, named=divisor.name)
        return self.made[divisor]

    @staticmethod
    def shaped(value: Value, like: Value) -> list[Op]:
        """The scalar in the shape of another value."""
        return [make_op("splat", [value], like.type)] if isinstance(like.type, Tile) else []
