"""prefetch_epilogue: what a program reads behind its product comes to L2 during the product.

Before:  loop:  %acc = wgmma ...                After:  prefetch_tile %p0, %stride, %rows, %columns
         exit:  @%m %c = load %p : f16<128, 256>        loop:  %acc = wgmma ...
                                                        exit:  @%m %c = load %p : f16<128, 256>

All blocks of a launch come to the end of their loops at about the same time.  A residual that is
added there, or a matrix that the result is added to, is then asked of memory by all at once, while
nobody multiplies, though memory had little to do before: a tile's operands come from L2 for the
most part.  A prefetch takes no register and nobody waits for it.

Done for tiles of at least LEAST bytes whose addresses are affine (`analysis/affine`), under a mask
that is a box, all of it known before the loop, where the program comes to the load whatever happens
behind the loop; in bodies that tested facts serve, and not in the general one.

Needs layouts, so that loads have their final masks; before store_tensors, which loads parts.
"""

from __future__ import annotations

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, emit, number
from tritonc.analysis.signs import known_signs
from tritonc.analysis.values import slice_of, speculatable
from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.pipeline.tensors.tensor_access import available
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import I32, I64, Scalar, Tile, scalar

LEAST = 4096  # bytes of a tile that are worth it: fewer wait for one another alone


def prefetch_epilogue(kernel: Kernel, context: Context) -> bool:
    """Prefetch for the loads behind each loop of products."""
    cfg = Cfg(kernel)
    slow = {*rare(cfg, cfg.order), *rare_programs(kernel)}
    changed = False
    for loop in cfg.loops:
        if loop.preheader is None or len(loop.exits) != 1 or loop.header in slow or (
                counts_programs(loop) or not any(op.name in DOTS for op in loop.ops())) or (
                loop.parent is not None and not counts_programs(loop.parent)):
            continue
        for block, conditions in _behind(cfg, loop).items():
            for op in block.ops:
                if op.name == "load" and not op.attributes.get("volatile"):
                    changed |= _prefetch(kernel, cfg, loop.preheader, op, conditions, context)
    return changed


def _behind(cfg: Cfg, loop: Loop) -> dict[Block, list[Value]]:
    """The blocks behind the loop, up to the next loop, and on what conditions they run; those of
    the bodies where facts hold."""
    found: dict[Block, list[Value]] = {loop.exits[0][1]: []}
    for block in cfg.order:
        by = cfg.immediate_dominator.get(block)
        if by is None or by not in found or cfg.innermost.get(block) is not loop.parent:
            continue
        found[block] = found[by]
        end = by.terminator
        if len(by.successors) > 1 and cfg.predecessors[block] == [by]:
            if block is not by.successors[0]:
                del found[block]
            elif not end.attributes.get("facts"):
                found[block] = [*found[by], end.operands[0]]
    return found


def _prefetch(kernel: Kernel, cfg: Cfg, place: Block, load: Op, conditions: list[Value],
              context: Context) -> bool:
    pointer, block = load.operands[0], cfg.block_of[load]
    t, size = pointer.type, scalar(pointee(pointer.type)).bytes
    if not isinstance(t, Tile) or len(t.shape) != 2 or t.size * size < LEAST:
        return False
    affinity = Affinity(signs=known_signs(kernel, cfg, block))
    form, mask = affinity.of(pointer), affinity.mask(load.guard, 2)
    if form is None or form.base is None or mask is None:
        return False
    inner = next((d for d in (1, 0) if form.strides[d].constant == 1), None)
    if inner is None:
        return False
    inside: list[list[Linear]] = [[], []]
    for bound in mask.bounds:
        inside[bound.axis].append(bound.limit - bound.start)
    stride = form.strides[1 - inner]
    conditions = [*conditions, *mask.conditions]
    used = [*conditions, *(v for p in (form.offset, stride, *inside[0], *inside[1])
                           for v in p.values())]
    wanted = slice_of(used)
    late = [op for block in cfg.order for op in block.ops if op in wanted
            and not all(available(v, place, cfg) for v in op.results)]
    if any(len(own) > 1 for own in inside) or not all(map(_early, late)):
        return False
    made = Block("")
    copies: dict[Value, Value] = {}
    made.ops += copy_ops(late, copies)
    b = Builder(made, span=load.span)

    def polynomial(value: Linear, t: Scalar) -> Value:
        return emit(b, value, t, lambda v: copies.get(v, v))

    at = b.value("addptr", form.base, polynomial(form.offset, I64))
    far, rows, columns = polynomial(stride, I64), *(polynomial(
        inside[d][0] if inside[d] else number(t.shape[d]), I32) for d in (1 - inner, inner))
    guard = None
    for condition in conditions:
        condition = copies.get(condition, condition)
        guard = condition if guard is None else b.value("and", guard, condition)
    b.insert(make_op("prefetch_tile", [at, far, rows, columns], guard=guard, span=load.span,
                     extents=(t.shape[1 - inner], t.shape[inner])))
    place.ops[-1:-1] = made.ops
    context.remark("prefetch_epilogue", "comes to the L2 cache while the product is computed",
                   load.span)
    return True


def _early(op: Op) -> bool:
    """Whether it may be computed before the loop, too."""
    return op.name != "phi" and speculatable(op) and not any(
        isinstance(value.type, Tile) for value in (*op.operands, *op.results))
