"""Loops that end by tests of tiles of indices end by tests of scalars.

    head: %k = phi [%k0, pre], [%k1, body]         head: %o = phi [0, pre], [%o1, body]
          %m = reduce %k {smin}                ->        %c = icmp slt %o, %K
          %c = icmp slt %m, %K
    body: %k1 = add %k, 64                         body: %o1 = add %o, 64

So does `while (any(k < K))`.  What a loop moves becomes a start and a scalar, as strength reduction
does later for all tiles, and a reduction its end: the least of i + a, ..., j + a is i + a, and the
greatest j + a; all of them are below b if j + a is, and any of them if i + a is.  No sum may wrap.
The same is done with ends elsewhere, as `if (min(rows) >= length) return;` has one: what depends on
them are scalars, which a producer warp computes too.
"""

from tritonc.analysis.values import defined_by, is_uniform, needed
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import SWAPPED
from tritonc.ir.types import Tile, element
from tritonc.opt.addresses.strength_reduce import Reduction, Shared, moves
from tritonc.opt.peephole.rewrite import Rewriter

_ENDS = ("smin", "smax")


def scalar_tests(kernel: Kernel, context: Context) -> bool:
    """Rewrite the tests of all loops."""
    cfg, shared = Cfg(kernel), Shared()
    found: list[Op] = []
    for loop in cfg.loops:
        tests = _reductions(loop) if loop.preheader is not None and loop.latch is not None else []
        read = {value for op in tests for value in (op.operands[0], *_compared(op))}
        for phi in loop.header.phis() if read else ():
            chain = moves(cfg, loop, phi)
            if chain is not None and any(op.result in read for op in chain):
                Reduction(kernel, cfg, loop, phi, chain, shared).run()
                found += [op for op in tests if op not in found]
    rewriter, changed = Rewriter(kernel), bool(found)
    found += [op for op in kernel.ops() if op.name == "reduce" and op not in found
              and op.attributes["kind"] in _ENDS and not isinstance(op.result.type, Tile)]
    for op in found:
        rewriter.op = op
        if (end := _end_of(op, rewriter)) is not None:
            changed = True
            block = cfg.block_of[op]
            block.ops[block.ops.index(op) : block.ops.index(op) + 1] = rewriter.made
            kernel.replace({op.result: end})
        rewriter.made = []
    return changed


def _reductions(loop: Loop) -> list[Op]:
    """The reductions to scalars on which the loop's branches depend."""
    ends = [value for block in loop.blocks for value in block.terminator.operands]
    return [op for op in needed([*loop.ops()], ends)
            if op.name == "reduce" and not isinstance(op.result.type, Tile)]


def _compared(op: Op) -> list[Value]:
    test = defined_by(op.operands[0], "icmp")
    return test.operands if test is not None else []


def _end_of(op: Op, r: Rewriter) -> Value | None:
    """What stands for a reduction."""
    kind, x = op.attributes["kind"], op.operands[0]
    if kind in _ENDS:
        return end_of_run(x, kind == "smin", r)
    test = defined_by(x, "icmp")
    if kind not in ("and", "or") or test is None or test.guard is not None:
        return None
    (a, b), predicate = test.operands, test.attributes["predicate"]
    if is_uniform(a):
        a, b, predicate = b, a, SWAPPED[predicate]
    if not is_uniform(b) or predicate[:2] not in ("sl", "sg"):
        return None
    end = end_of_run(a, (predicate[1] == "l") == (kind == "or"), r)
    return end and r.value("icmp", end, r.element_of(b), predicate=predicate)


def end_of_run(x: Value, least: bool, r: Rewriter) -> Value | None:
    """The least or the greatest element of a range that scalars shift."""
    shifts: list[Value] = []
    while x.op is not None and x.op.guard is None:
        if x.op.name == "add" and is_uniform(x.op.operands[1]):
            shifts.append(x.op.operands[1])
        elif x.op.name not in ("reshape", "broadcast", "trans"):
            break
        x = x.op.operands[0]
    run = defined_by(x, "range")
    if run is None:
        return None
    first, last = run.attributes["start"], run.attributes["stop"] - 1
    if not (len(shifts) == 1 and r.facts.sum_fits(x, shifts[0])) and not all(
            first >= 0 and last < r.facts.factor(shift) for shift in shifts):
        return None
    end, number = None, first if least else last
    for shift in reversed(shifts):
        end = r.value("add", end, r.element_of(shift)) if end else r.element_of(shift)
    if end is None or number:
        constant = r.constant(number, element(x.type))
        end = r.value("add", end, constant) if end else constant
    return end
