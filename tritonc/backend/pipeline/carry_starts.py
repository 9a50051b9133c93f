"""Where an instance's boxes begin is computed before the instance begins.

Before:  launch: br head                          After:  launch: %m0 = ... %first; start_copier
         head:   %i = phi %first, %next                   head:   %i = phi ...; %m = phi %m0, %m1
         begin:  %m = 128 * (%i / columns) ...            begin:  -
         loop:   tensor_copy at %m ...                    loop:   tensor_copy at %m ...
         exit:   tensor_store at %m                       exit:   tensor_store at %m
         next:   br head                                  next:   %m1 = ... %next; br head

Numbers of instances are divided: with a copier, both it and the readers would do so between the
maps and the first product.  Now the first instance's starts are computed while maps are made.  For
the next one, the copier computes them anyway, with its first copies; the readers do when their
result leaves.
"""

from __future__ import annotations

from collections.abc import Iterable

from tritonc.backend.pipeline.loop_slice import advance, copy_slice, find_slice, initial_values
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Loop
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import I32


def moving(outer: Loop, always: set[Block], values: Iterable[Value]) -> list[Value]:
    """The numbers among `values` that each turn of the outer loop begins with, and that differ.

    `always`: the blocks of the loop that every turn runs.
    """
    found = []
    for value in dict.fromkeys(values):
        if value.op is not None and value.op.name != "phi" and value.type == I32:
            part = find_slice(outer, [value], ALL_OPS, always, comes=True)
            if part is not None and part.phis:
                found.append(value)
    return found


def carry_copies(outer: Loop, users: Iterable[Block], exit_: Block, opening: Block,
                 values: list[tuple[Value, Value, Value]]) -> None:
    """Let the blocks read values that turn with the outer loop.

    `values`: of a turn, of the first one, of the next one; the last is computed in `opening`, which
    runs behind `exit_` where there is a next turn.
    """
    (rest,) = opening.successors
    after = {v: Op("phi", [v, following], {}, (v.type,), blocks=[exit_, opening])
             for v, _, following in values}
    around = _around(outer, {v: (first, after[v].result) for v, first, _ in values})
    for v, op in after.items():
        op.operands[0] = around[v]
        rest.ops.insert(0, op)
    for block in users:
        for op in block.ops:
            op.replace_inputs(around)


def carry_results(outer: Loop, always: set[Block], rest: Block, comes: Value) -> list[Op]:
    """Let the block `rest`, in which results are stored, read values that turn with the outer loop.

    `comes`: whether there is a next turn.  Returns what is to be computed before the first one.
    """
    read = [v for op in rest.ops if op.name != "phi" for v in op.inputs()]
    values = moving(outer, always, [v for v in read if v.op not in rest.ops])
    whole = find_slice(outer, values, ALL_OPS, always, comes=True)
    if whole is None:
        return []
    assert outer.latch is not None
    first = initial_values(whole)
    begin = copy_slice(whole, first)
    steps, following = advance(whole, {phi.result: phi.result for phi in whole.phis})
    for phi in whole.phis:  # of a turn that does not come, nothing may be computed
        steps.append(make_op("select", [comes, following[phi.result], phi.result]))
        following[phi.result] = steps[-1].result
    outer.latch.ops[-1:-1] = [*steps, *copy_slice(whole, following)]
    around = _around(outer, {v: (first[v], following[v]) for v in values})
    for op in rest.ops:
        op.replace_inputs(around)
    return begin


def _around(outer: Loop, values: dict[Value, tuple[Value, Value]]) -> dict[Value, Value]:
    """Phis of the outer loop of what the values are in its first turn, and in the next one."""
    assert outer.preheader is not None and outer.latch is not None
    found = {}
    for value, (first, following) in values.items():
        phi = Op("phi", [first, following], {}, (value.type,),
                 blocks=[outer.preheader, outer.latch])
        outer.header.ops.insert(0, phi)
        found[value] = phi.result
    return found
