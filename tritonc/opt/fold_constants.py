"""Constant folding: operations on constants, branches on constants, phis of one value.

    %a = constant {value = 3} : i32
    %b = mul %a, %a : i32            ->   %b = constant {value = 9} : i32
    cond_br %true, body, exit        ->   br body
    %p = phi [%x, a], [%x, b] : T    ->   %x in place of %p

A `constant` may be a tile, with one number in all elements.  The arithmetic is the `meaning` of the
operation's row over Python numbers (`ir.numbers`), so that the compiler and the interpreter cannot
disagree.  What would be reported at run time (a division by zero, a shift past the width) stays.
Algebra is left to `peephole`, which folds what its rules make with the same `fold`."""

from tritonc.analysis.values import Number, constant_of
from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import remove_edge, remove_unreachable
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op
from tritonc.ir.numeric.numbers import NotFoldable, evaluate, fit
from tritonc.ir.ssa import fold_phis


def fold_constants(kernel: Kernel, context: Context) -> bool:
    """Fold until nothing changes.  Blocks that no branch reaches any more are removed."""
    changed = remove_unreachable(kernel)
    return until_unchanged(lambda: _fold_operations(kernel) | fold_phis(kernel, kernel.blocks)
                           | _fold_branches(kernel)) or changed


def fold(op: Op) -> Number | None:
    """The number in all elements of the operation's one result, if its operands are constants."""
    for value in op.operands:  # mostly one is no constant
        if value.op is None or value.op.name != "constant":
            return None
    if not op.operands or not op.pure or op.info.meaning is None or len(op.results) != 1:
        return None
    numbers = [fit(value.type, number) for value in op.operands
               if (number := constant_of(value)) is not None]
    try:
        return evaluate(op.info, op, numbers)[0]
    except NotFoldable:
        return None


def _fold_operations(kernel: Kernel) -> bool:
    changed = False
    for op in kernel.ops():
        number = fold(op)
        if number is not None:
            op.name, op.operands, op.attributes = "constant", [], {"value": number}
            changed = True
    return changed


def _fold_branches(kernel: Kernel) -> bool:
    changed = False
    for block in kernel.blocks:
        op = block.terminator
        if op.name != "cond_br":
            continue
        number = constant_of(op.operands[0])
        if number is None:
            continue
        taken, other = op.blocks if number else reversed(op.blocks)
        block.ops[-1] = Op("br", [], span=op.span, blocks=[taken])
        if other is not taken:
            remove_edge(block, other)
        changed = True
    return remove_unreachable(kernel) | changed
