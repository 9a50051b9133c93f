"""halve_products: the accumulation of scaled products is split into halves of their columns.

    acc += scale * dot(a, b)

Before:  %p = wgmma %a, %b, 0             After:  %p0 = wgmma %a, %b, 0 {columns = [0, 128]}
         %x = wgmma_wait %p                       %x0 = wgmma_wait %p0
         %y = fmul %scale, %x                     %y0 = fmul %scale0, %x0
         %n = fadd %acc, %y                       %n0 = fadd %acc0, %y0
                                                  %p1 = ...
                                                  %n = join_parts %n0, %n1

A thread that holds a large sum has no room for as large a product beside it.  While one warpgroup
computes what it adds, the tensor cores work for the others.  `promote` does the same for products
of 8-bit floats, whose sums are those of the tensor cores.

Done for products from zero of which only elementwise operations make something, for sums that the
loop carries.  Needs stage_dots."""

from tritonc.analysis.values import is_zero
from tritonc.backend.dots.promote import halves_of
from tritonc.backend.layout.lower_conversions import part_type
from tritonc.backend.pipeline.slices import Slices
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile, shape

SPREAD = ("splat", "constant", "broadcast", "reshape")


def halve_products(kernel: Kernel, context: Context) -> bool:
    """Halve such products, where they are too large to be held beside the sums."""
    changed = False
    for block in kernel.blocks:
        for wait in [op for op in block.ops if op.name == "wgmma_wait"]:
            changed |= _halve(kernel, block, wait)
    return changed


def _halve(kernel: Kernel, block: Block, wait: Op) -> bool:
    start = wait.operands[0].op
    t = wait.operands[0].type
    if len(wait.operands) != 1 or wait.attributes["pending"] or start not in block.ops \
            or start is None or not is_zero(start.operands[2]) \
            or not {"inner", "asked"}.isdisjoint(start.attributes):
        return False
    assert isinstance(t, Tile) and t.layout is not None
    cone, ends = _made_of(kernel, block, wait.result)
    halves = halves_of(start.result)
    if not ends or not halves:
        return False
    bits = (halves[0][1],)
    inside = _computed_beside(kernel, block, cone)
    ops: list[Op] = []
    found: dict[Value, list[Value]] = {end: [] for end in ends}
    for index, half in enumerate(halves):
        zero = make_op("constant", [], part_type(t, bits), span=start.span, value=0.0)
        own = make_op("wgmma", [*start.operands[:2], zero.result], span=start.span,
                      columns=half, **start.attributes)
        ended = make_op("wgmma_wait", [own.result], span=wait.span, pending=0)
        ops += [zero, own, ended]
        parts = Slices(inside, wait.result, bits)
        parts.begin(ops, {(wait.result, bits): ended.result})
        for end in ends:
            found[end].append(parts.of(end, index))
    replaced: dict[Value, Value] = {}
    for end, values in found.items():
        ops.append(make_op("join_parts", values, end.type, span=start.span, named=end.name,
                           bits=bits))
        replaced[end] = ops[-1].result
    at = block.ops.index(cone[-1]) + 1
    block.ops[at:at] = ops
    block.ops = [op for op in block.ops if op not in cone and op not in (start, wait)]
    kernel.replace(replaced)
    return True


def _computed_beside(kernel: Kernel, block: Block, cone: list[Op]) -> set[Op]:
    """The operations of the cone, and those of the block that compute elements for them alone, as
    the product of a row's and a column's factor."""
    readers, inside = uses(kernel), set(cone)
    for op in reversed(block.ops):
        row = op.info
        if op.name in SPREAD or (row.elementwise and row.pure and all(
                inside.issuperset(readers.get(result, ())) for result in op.results)):
            inside.add(op)
    return inside


def _made_of(kernel: Kernel, block: Block, value: Value) -> tuple[list[Op], list[Value]]:
    """The operations of the block on what is made of a value, in order, and those of their results
    that loops carry; nothing if there is more to it."""
    readers, cone, ends = uses(kernel), set[Op](), list[Value]()
    stack = [value]
    while stack:
        made = stack.pop()
        for op in readers.get(made, []):
            if op.name == "phi" and op not in block.ops:
                if made is value:
                    return [], []
                ends.append(made)
            elif op not in block.ops or not op.info.elementwise \
                    or not op.pure or len(op.results) != 1 \
                    or shape(op.result.type) != shape(value.type):
                return [], []
            elif op not in cone:
                cone.add(op)
                stack.append(op.result)
    return [op for op in block.ops if op in cone], list(dict.fromkeys(ends))
