"""Late merges, of `late_sums`: a loop combines elements by a function, and lanes do so behind it.

Before:  head: %m = phi [%m0], [%m2]           After:  head: %t = phi [%m0, ...], [%t1]
         body: %m1 = reduce_with %x {f}                body: %t1 = f(%t, %x)
               %m2 = f(%m, %m1)                        exit: %m = reduce_with %t {f}
         exit: ... %m

The loop keeps what each element of the tile comes to.  All of them begin with %m0, where that is so
many constants of which f makes the same again: then it counts no more often than once.  Needs a
function that commutes, and a loop in which nothing else reads what it has combined so far.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import permutations

from tritonc.analysis.loop_totals import place_behind
from tritonc.analysis.values import attributes_key, constant_of
from tritonc.ir import combiner
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, make_phi
from tritonc.ir.combiner import Combiner
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.numbers import NotFoldable, evaluate, fit
from tritonc.ir.types import Tile, make, scalar, shape

_MOST_VALUES = 4  # that a function combines at once


def merge_late(kernel: Kernel, cfg: Cfg, loop: Loop, readers: dict[Value, list[Op]],
               largest: int) -> bool:
    """Do it for one reduction of a loop with a preheader, a latch and one exit, at its header."""
    for block in loop.blocks:
        for op in block.ops:
            t = op.operands[0].type if op.name == "reduce_with" else None
            if not isinstance(t, Tile) or t.size > largest or len(op.operands) > _MOST_VALUES:
                continue
            function = combiner.read(op.attributes["function"])
            found = _merged(loop, op, function, readers) if function.commutative else None
            if found is not None and _idempotent(function, [loop.first(phi) for phi in found[0]]):
                _move(kernel, cfg, loop, op, function, *found)
                return True
    return False


def _merged(loop: Loop, reduction: Op, function: Combiner, readers: dict[Value, list[Op]]
            ) -> tuple[tuple[Op, ...], list[Op]] | None:
    """The phis with which the function combines the reduction's results, in its order, and the
    operations that do; None if anything else reads any of these but, behind the loop, the phis."""
    made: dict[Value, None] = dict.fromkeys(reduction.results)
    ops = []
    for block in loop.blocks:
        for op in block.ops:
            if op.name != "phi" and op is not reduction and any(v in made for v in op.inputs()):
                ops.append(op)
                made.update(dict.fromkeys(op.results))
    phis = [phi for phi in loop.header.phis() if loop.next(phi) in made]
    inside = set(loop.ops())
    if len(phis) != len(reduction.results) or any(not op.pure or op.guard for op in ops) or any(
            reader not in ops and reader not in phis and (value in made or reader in inside)
            for value in (*made, *(p.result for p in phis)) for reader in readers.get(value, [])):
        return None
    want = _numbers(function.ops, dict(zip(function.parameters, range(len(function.parameters)))))
    wanted = [want[result] for result in function.results]
    for order in permutations(phis):
        known = dict(zip((*(p.result for p in order), *reduction.results),
                         range(len(function.parameters))))
        found = _numbers(ops, known)
        if [found.get(loop.next(phi)) for phi in order] == wanted:
            return order, ops
    return None


def _numbers(ops: Sequence[Op], known: dict[Value, int]) -> dict[Value, Hashable]:
    """What operations compute, as keys that are equal for equal things; constants by value."""
    found: dict[Value, Hashable] = dict(known)
    for op in ops:
        keys = [found[v] if v in found else (str(scalar(v.type)), repr(constant_of(v)))
                if constant_of(v) is not None else v for v in op.operands]
        if op.info.commutative:
            keys.sort(key=repr)
        for at, result in enumerate(op.results):
            number = constant_of(result)
            found[result] = (str(scalar(result.type)), repr(number)) if number is not None else (
                op.name, attributes_key(op.attributes), at, *keys)
    return found


def _idempotent(function: Combiner, starts: list[Value]) -> bool:
    """Whether the starts are constants that the function combines with themselves to the same."""
    numbers = [n for start in starts if (n := constant_of(start)) is not None]
    if len(numbers) < len(starts):
        return False
    values = {p: fit(p.type, n) for p, n in zip(function.parameters, numbers * 2, strict=True)}
    try:
        for op in function.ops:
            found = evaluate(op.info, op, [values[v] for v in op.operands])
            values.update(zip(op.results, found, strict=True))
    except NotFoldable:
        return False
    return [repr(values[r]) for r in function.results] == [
        repr(values[p]) for p in function.parameters[:function.values]]


def _move(kernel: Kernel, cfg: Cfg, loop: Loop, reduction: Op, function: Combiner,
          phis: tuple[Op, ...], ops: list[Op]) -> None:
    assert loop.preheader is not None and loop.latch is not None
    outside = place_behind(kernel, cfg, loop)
    before = Builder(loop.preheader, len(loop.preheader.ops) - 1, reduction.span)
    partial = []
    for phi, tile in zip(phis, reduction.operands, strict=True):
        number = constant_of(loop.first(phi))
        assert number is not None
        start = before.constant(number, tile.type)
        partial.append(make_phi([start, start], [loop.preheader, loop.latch], phi.result.name,
                                phi.span))
    mapping = dict(zip(function.parameters, [*(p.result for p in partial), *reduction.operands]))
    extents = shape(reduction.operands[0].type)
    made = []
    for op in copy_ops(function.ops, mapping):
        made.append(op)
        for result in op.results:
            result.type = make(scalar(result.type), extents)
    for phi, result in zip(partial, function.results, strict=True):
        phi.operands[1] = mapping[result]
    for block in loop.blocks:
        if reduction in block.ops:
            at = block.ops.index(reduction)
            block.ops[at:at + 1] = made
        block.ops = [op for op in block.ops if op not in ops and op not in phis]
    loop.header.ops[:0] = partial
    whole = make_op("reduce_with", [p.result for p in partial], span=reduction.span,
                    **reduction.attributes)
    outside.ops.insert(0, whole)
    kernel.replace({phi.result: result for phi, result in zip(phis, whole.results, strict=True)})
