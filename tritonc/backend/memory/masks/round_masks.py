"""round_masks: a load takes part of the accesses that another load makes as a whole.

Before:  @(n < N) %v = load x + n                     where N is a multiple of 16 bytes
         @(n > 0 && n < N) %w = load x + n - 1 {other = 0}
After:   @(n < N) %v = load x + n
         @(n > 0 && n < N + 1) %u = load x + n - 1 {other = 0}
         %w = select (n > 0 && n < N), %u, 0

A row ends where an access ends, and the second mask one element before.  With the other mask both
loads want the same accesses, each as a whole, so that one makes them for both (`windows`).  What it
takes more lies in accesses of which it takes some part anyway; `moved_bounds` says where that is
known.

After specialize, which tests what divides N, and before layouts."""

from collections.abc import Mapping

from tritonc.analysis.affine import Affinity
from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.axis import axis_info
from tritonc.analysis.runs import Runs
from tritonc.analysis.windows import windows
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value

_THROUGH = ("and", "splat", "broadcast", "reshape")


def round_masks(kernel: Kernel, context: Context) -> bool:
    """Do it where a load of the same block has the rounded mask already."""
    roots = pointer_roots(kernel)
    sources = ([roots.get(op.operands[0]) for op in block.ops if op.name == "load"]
               for block in kernel.blocks)
    if not any(len({*each}) < len(each) or (len(each) > 1 and None in each) for each in sources):
        return False  # no two loads of a block are from one pointer, as far as that is known
    found = windows(kernel, Runs(axis_info.analyze(kernel)), kernel.blocks)
    near = {op for op, window in found.items() if window.near is not None and op.name == "load"}
    if not near:
        return False
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        places = {found[op].place for op in block.ops if op in found}
        for op in [op for op in block.ops if op in near]:
            place, moved = found[op].near or ((), {})
            if place not in places or op.guard is None:
                continue
            build = Builder(block, block.ops.index(op), op.span)
            exact = _condition(op.guard)
            op.guard = build.emit("cmpp", _rounded(exact, moved, Affinity(), build)).results[0]
            if "other" in op.attributes:
                build.at = block.ops.index(op) + 1
                other = build.constant(op.attributes["other"], op.result.type)
                replaced[op.result] = build.value("select", exact, op.result, other)
    for select in {value.op: value for value in replaced.values()}:
        assert select is not None
        loaded = select.operands[1]
        kernel.replace({loaded: select.result})
        select.operands[1] = loaded
    return True


def _condition(guard: Value) -> Value:
    op = guard.op
    return op.operands[0] if op is not None and op.name == "cmpp" and guard is op.results[0] \
        else guard


def _rounded(mask: Value, moved: Mapping[Op, int], affinity: Affinity, build: Builder) -> Value:
    """The mask with bounds moved by so many elements."""
    mask = _condition(mask)
    op = mask.op
    if op is None or (op not in moved and op.name not in _THROUGH):
        return mask
    if op not in moved:
        operands = [_rounded(v, moved, affinity, build) for v in op.operands]
        return mask if operands == op.operands else build.value(
            op.name, *operands, type=mask.type, **op.attributes)
    operands = [*op.operands]
    place = next(i for i, v in enumerate(operands)
                 if (form := affinity.of(v)) is not None and form.uniform)
    limit = operands[place]
    operands[place] = build.value("add", limit, build.constant(moved[op], limit.type))
    return build.value("icmp", *operands, **op.attributes)
