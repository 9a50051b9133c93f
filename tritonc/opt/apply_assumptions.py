"""facts from `assume` move to where they help: multiples to values, conditions to their uses.

    %3 = srem %lda, 8                    uses of %lda that it dominates read
    %4 = icmp %3, 0 {eq}            ->   %5 = assume_multiple %lda {n = 8}
    assume %4                            and uses of %4 read true

Tests are `x % n == 0` and `(x & n - 1) == 0`, of scalars and tiles, through casts that widen and
from pointers to integers.  What every run promises of a parameter becomes a property of the
parameter, as if it had been declared so; bounds such as `x > 0` are applied in that case only.
Both sides of an assumed `and` are assumed.

An assumption under a guard promises nothing of other elements, and is left alone.  Equal conditions
are one value after `cse`, so that masks which repeat an assumption go."""

from collections.abc import Iterator
from math import lcm

from tritonc.analysis.facts import bounds_of, full
from tritonc.analysis.values import int_of, origin, sides
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import SWAPPED
from tritonc.ir.types import element, is_int, is_pointer

_CASTS = frozenset({"sext", "zext", "ptrtoint", "splat", "broadcast", "reshape"})


def apply_assumptions(kernel: Kernel, context: Context) -> bool:
    """Replace what assumptions make known."""
    places = [(block, op) for block in kernel.blocks for op in block.ops
              if op.name == "assume" and op.guard is None]
    if not places:
        return False
    cfg = Cfg(kernel)
    changed = False
    for block, op in places:
        for condition in sides(op.operands[0], "and", within=True):
            for value, n in _multiples(condition):
                changed |= _promise(kernel, cfg, block, op, value, n)
            if _always_runs(cfg, block):
                changed |= _bound(kernel, condition)
            if int_of(condition) is None:
                true = make_op("constant", [], condition.type, value=True, span=op.span)
                changed |= _replace_below(cfg, block, op, condition, true)
    return changed


def _always_runs(cfg: Cfg, block: Block) -> bool:
    """Whether each run that comes to an end passes the block."""
    return all(cfg.dominates(block, end) for end in cfg.order if end.terminator.name == "ret")


# --- multiples ---


def _multiples(condition: Value) -> Iterator[tuple[Value, int]]:
    """Values that are multiples of a number where the condition holds."""
    test = condition.op
    if test is None or test.name != "icmp" or test.attributes["predicate"] != "eq":
        return
    a, b = test.operands
    if int_of(a) == 0:
        a, b = b, a
    rest = a.op
    if int_of(b) != 0 or rest is None or rest.name not in ("srem", "urem", "and"):
        return
    value, divisor = rest.operands
    if rest.name == "and" and int_of(divisor) is None:
        value, divisor = divisor, value
    n = int_of(divisor)
    if n is None or n <= 0:
        return
    if rest.name == "and":
        n += 1
        if n & (n - 1):
            return  # bits of the middle
    if rest.name == "urem":
        n &= -n  # of a negative number only what a power of two says is left
    yield value, n
    while value.op is not None and value.op.name in _CASTS:
        if value.op.name in ("zext", "ptrtoint"):
            n &= -n
        value = value.op.operands[0]
        if is_int(value.type) or is_pointer(value.type):
            yield value, n


def _promise(kernel: Kernel, cfg: Cfg, block: Block, op: Op, value: Value, n: int) -> bool:
    """Let `value` be known as a multiple of n."""
    if n == 1 or int_of(value) is not None or element(value.type).bits == 1:
        return False
    if value in kernel.parameters and _always_runs(cfg, block):
        info = kernel.info[kernel.parameters.index(value)]
        found = lcm(info.multiple_of, n)
        changed = found != info.multiple_of
        info.multiple_of = found
        return changed
    hint = make_op("assume_multiple", [value], n=n, span=op.span)
    hint.result.name = value.name
    return _replace_below(cfg, block, op, value, hint)


# --- bounds ---

def _bound(kernel: Kernel, condition: Value) -> bool:
    """Let a parameter be known to lie on the side of a constant that the condition says."""
    test = condition.op
    if test is None or test.name != "icmp":
        return False
    predicate, (x, limit) = test.attributes["predicate"], test.operands
    if int_of(x) is not None:
        predicate, x, limit = SWAPPED[predicate], limit, x
    n = int_of(limit)
    x = origin(x, ("sext", "splat", "broadcast", "assume_multiple"))
    if n is None or x not in kernel.parameters or not is_int(x.type):
        return False
    info = kernel.info[kernel.parameters.index(x)]
    before = info.least, info.greatest
    whole = full(element(x.type).bits)
    low, high = bounds_of(predicate, n, whole)
    if low > whole[0]:
        info.least = low if info.least is None else max(low, info.least)
    if high < whole[1]:
        info.greatest = high if info.greatest is None else min(high, info.greatest)
    return before != (info.least, info.greatest)


# --- uses ---


def _replace_below(cfg: Cfg, block: Block, op: Op, old: Value, new: Op) -> bool:
    """Put `new` behind `op`, and let uses of `old` that it dominates read it.

    Other promises about `old` keep it, so that doing this twice changes nothing."""
    at = block.ops.index(op) + 1
    mapping = {old: new.result}
    changed = False
    for other in cfg.order:
        below = cfg.dominates(block, other)
        first = at if other is block else 0 if below else len(other.ops)
        for user in other.ops[first:]:
            if old in user.inputs() and user.name not in ("phi", "assume", "assume_multiple"):
                user.replace_inputs(mapping)
                changed = True
        for phi in other.phis():
            for i, source in enumerate(phi.blocks):
                if phi.operands[i] is old and cfg.dominates(block, source):
                    phi.operands[i] = new.result
                    changed = True
    if changed:
        block.ops.insert(at, new)
    return changed
