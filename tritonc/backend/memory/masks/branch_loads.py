"""branch_loads: before a loop, what a later iteration would load is not asked for where none comes.

Before:  pre:  %p = ...                        After:  pre:    cond_br %comes, ahead, rest
               %m = and %own, (splat %comes)           ahead:  %p = ...
               @%m %a = load %p                                @%own %b = load %p
                                                               br rest
                                                       rest:   %a = phi [%b, ahead], [0, pre]

A pipeline through registers loads the first iterations before the loop, those behind the first one
under conditions of scalars: that they come.  As part of the mask each element asks that, and where
a loop has one iteration half of all addresses were computed for nothing: in a convolution of one
channel by 5 x 5 taps 310 instructions of 1500.  As a branch it is asked once; what the load alone
needs moves behind it.  In the loop itself this would cost moves in each iteration.

Needs layouts, and that no pass that wants blocks as they are comes later.
"""

from __future__ import annotations

from functools import reduce

from tritonc.analysis.values import defined_by
from tritonc.backend.memory.masks.skip_masks import ENOUGH
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, make_phi, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.types import Tile


def branch_loads(kernel: Kernel, context: Context) -> bool:
    """Branch around such loads to registers in front of loops with products."""
    changed = False
    for loop in Cfg(kernel).loops:
        block = loop.preheader
        if block is not None and any(op.name in DOTS for op in loop.ops()):
            for loads, scalars in _groups(block):
                block = _branch(kernel, block, loads, scalars)
                changed = True
    return changed


def _groups(block: Block) -> list[tuple[dict[Op, Value], list[Value]]]:
    """Loads of many registers under the same conditions, with their own masks, and what those
    conditions are: several, for that the first iteration comes is nearly certain.  Between loads of
    a group stands nothing that they could not move over."""
    found: list[tuple[dict[Op, Value], list[Value]]] = []
    free = False
    for op in block.ops:
        t = op.results[0].type if op.name == "load" else None
        if isinstance(t, Tile) and t.layout is not None and op.guard is not None \
                and t.layout.registers >= ENOUGH:
            scalars: list[Value] = []
            own = _without_scalars(op.guard, scalars)
            if len(scalars) > 1:
                if not free or set(found[-1][1]) != set(scalars):
                    found.append(({}, scalars))
                found[-1][0][op] = own
                free = True
                continue
        free &= op.pure and found != [] and not any(
            value.op in found[-1][0] for value in op.inputs())
    return found


def _without_scalars(mask: Value, scalars: list[Value]) -> Value:
    """Of a conjunction the part without scalars, which are listed."""
    op = defined_by(mask, "and")
    for rest, last in (op.operands, op.operands[::-1]) if op is not None else ():
        scalar = defined_by(last, "splat")
        if scalar is not None:
            scalars.append(scalar.operands[0])
            return _without_scalars(rest, scalars)
    return mask


def _branch(kernel: Kernel, block: Block, loads: dict[Op, Value], scalars: list[Value]) -> Block:
    """Split the block at the last of the loads.  Returns its second half."""
    ahead, rest = Block(f"{block.name}.ahead"), Block(f"{block.name}.rest")
    for load, own in loads.items():
        load.guard = own
    last = [*loads][-1]
    at = block.ops.index(last) + 1
    before, users, sunk = block.ops[:at], uses(kernel), set(loads)
    for op in reversed(before):
        if op.pure and op.name != "phi" and op.results and not any(
                r in scalars for r in op.results) and all(
                user in sunk for r in op.results for user in users.get(r, [])):
            sunk.add(op)
    split(block, at, rest)
    block.ops = [op for op in before if op not in sunk]
    ahead.ops = [op for op in before if op in sunk]
    Builder(ahead).emit("br", blocks=[rest])
    build = Builder(block, span=last.span)
    joined = [make_phi([load.result, build.constant(load.attributes.get("other", 0),
                                                    load.result.type)], [ahead, block],
                       load.result.name, load.span) for load in loads]
    comes = reduce(lambda one, other: build.value("and", one, other), scalars)
    build.emit("cond_br", comes, blocks=[ahead, rest])
    place = kernel.blocks.index(block) + 1
    kernel.blocks[place:place] = [ahead, rest]
    kernel.replace({load.result: phi.result for load, phi in zip(loads, joined, strict=True)})
    for load, phi in zip(loads, joined, strict=True):
        phi.operands[0] = load.result
    rest.ops[:0] = joined
    return rest
