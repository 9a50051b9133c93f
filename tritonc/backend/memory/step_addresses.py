"""step_addresses: the addresses of a thread's rows in a loop are stepped instead of recomputed.

Before:  pre:   %q = addptr ...                   rows of a matrix, row i at i * stride
         body:  %p = addptr %q, (splat %o)        o moves with the loop
                %v = load %p
After:   pre:   %s = sext %stride : i64
         body:  %p = step_pointers %q, %o, %s, %1
                %v = load %p

`%p` is the same tile of pointers.  But as a sum of two tiles a thread would hold the address of
each row that it reads, two registers each for the whole loop; told how far the rows are apart, it
holds one address and the distance, which is the same for all threads.  A product on CUDA cores that
reads 24 rows had no room for them beside its accumulators.

Needs layouts, and pointers whose elements are an affine function of their place (`affine.py`), with
strides that are known before the loop.  After the passes that copy slices of loops.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affine, Affinity
from tritonc.analysis.linear import emit
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.layout import coordinates
from tritonc.ir.types import I64, Tile


def step_addresses(kernel: Kernel, context: Context) -> bool:
    """Rewrite the additions that move affine tiles of pointers in loops."""
    cfg = Cfg(kernel)
    if not cfg.loops:
        return False
    affinity = Affinity()
    strides: dict[tuple[Value, Block], list[Value]] = {}
    replaced: dict[Value, Value] = {}
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        if loop is None or loop.preheader is None:
            continue
        for i, op in enumerate(block.ops):
            if op.name != "addptr" or not isinstance(op.result.type, Tile):
                continue
            fixed, offset = op.operands[0], op.operands[1].op
            if offset is None or offset.name != "splat" or not _before(fixed, loop, cfg):
                continue
            form = affinity.of(fixed)
            if form is None or not _spread(op.result.type, form) or not all(
                    _before(v, loop, cfg) for s in form.strides for v in s.values()):
                continue
            key = fixed, loop.preheader
            if key not in strides:
                strides[key] = _computed(form, loop.preheader)
            new = make_op("step_pointers", [fixed, offset.operands[0], *strides[key]], span=op.span)
            new.result.name = op.result.name
            block.ops[i] = new
            replaced[op.result] = new.result
    kernel.replace(replaced)
    return bool(replaced)


def _before(value: Value, loop: Loop, cfg: Cfg) -> bool:
    """Whether the value is there before the loop."""
    if value.op is None:
        return True
    home = cfg.block_of.get(value.op)
    return home is not None and home not in loop


def _spread(t: Tile, form: Affine) -> bool:
    """Whether a thread holds elements whose distance is not a constant."""
    if t.layout is None:
        return False
    held = {axis for basis in t.layout.register
            for axis, n in enumerate(coordinates(t.shape, basis)) if n}
    return any(form.strides[axis].constant is None for axis in held)


def _computed(form: Affine, preheader: Block) -> list[Value]:
    """The strides, in elements, at the end of the preheader."""
    scratch = Block("")
    builder = Builder(scratch)
    found = [emit(builder, stride, I64) for stride in form.strides]
    preheader.ops[-1:-1] = scratch.ops
    return found
