"""Which pointers may reach the same memory."""

from collections.abc import Iterable

from tritonc.analysis.values import origin
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import WRITE
from tritonc.ir.types import is_pointer

_HINTS = ("assume_multiple",)  # what the parameter is that they are about

Roots = dict[Value, Value | None]


def pointer_roots(kernel: Kernel) -> Roots:
    """The parameter or constant table that each pointer is computed from, or the hint that it is
    apart from all others.

    None if there are several, and for a pointer made from an integer."""
    roots: Roots = {v: v for v in kernel.parameters if is_pointer(v.type)}
    made = [(op, result) for op in kernel.ops() for result in op.results if is_pointer(result.type)]
    changed = True
    while changed:  # twice, as a rule: loops carry pointers
        changed = False
        for op, result in made:
            sources = {roots[v] for v in op.operands if v in roots}
            if op.name == "constant_table" or op.attributes.get("apart"):
                root: Value | None = result
            elif not sources and any(is_pointer(v.type) for v in op.operands):
                continue  # a loop's phi, not reached yet
            else:
                root = sources.pop() if len(sources) == 1 else None
            if result not in roots or roots[result] is not root:
                roots[result] = root
                changed = True
    return roots


def may_alias(kernel: Kernel, a: Value, b: Value, roots: Roots) -> bool:
    """Whether two pointers may reach one object: not if one's parameter is declared no_alias."""
    return not apart(kernel, roots.get(a), roots.get(b))


def apart(kernel: Kernel, a: Value | None, b: Value | None) -> bool:
    """Whether two roots are known to reach different objects."""
    if a is None or b is None or origin(a, _HINTS) is origin(b, _HINTS):
        return False
    return no_alias(kernel, a) or no_alias(kernel, b)


def no_alias(kernel: Kernel, root: Value) -> bool:
    """Whether nothing else reaches what this parameter, table or hint points to."""
    if root in kernel.parameters:
        return kernel.info[kernel.parameters.index(root)].no_alias
    return True  # a constant table, which nothing writes, or a hint that says so


def stores_may_reach(kernel: Kernel, blocks: Iterable[Block], loads: Iterable[Op],
                     roots: Roots) -> bool:
    """Whether an operation of the blocks may write what one of `loads` reads."""
    sources = [op.operands[0] for op in loads]
    for block in blocks:
        for op in block.ops:
            if WRITE not in op.effects:
                continue
            if not op.operands:
                return True  # a barrier: other programs' writes may become visible
            if any(may_alias(kernel, op.operands[0], source, roots) for source in sources):
                return True
    return False
