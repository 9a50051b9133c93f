"""What a rotated loop of chained products does where an iteration ends (`rotate_dots`).

Accumulators are scaled there, not where the next iteration adds a product to them.

Before:  loop: %acc = phi [.., first], [%w, body]    After:  first: %f = %acc0 * %g0
               %g  = phi [%g0, first], [%g1, body]           loop:  %t = phi [%f, first], [%n, body]
         body: start %s = product ...                        body:  start %s = product ...
               %t = %acc * %g                                       start product(%p, %v) + %t
               start product(%p, %v) + %t                           wait: %w
               wait: %w                                             %n = %w * %g1

Between the starts of two products the tensor cores, which soon have done the first, would wait for
the scaling; where an iteration ends, they work for the other warps, and what the threads compute
there leaves places for it.

A factor exp(a - max(a, b)) is 1 as long as the maximum does not rise.  With `skip_ones`, warps in
which it is pass the products by; whether they do is known before the wait.

Operands of the second product are waited for there, before its last wait (`wait_early`).

Before:  loop: start %s = product ...            After:  first: ...; wait_full %v[0]
               wait_full %v[i - 1]                       loop:  start %s = product ...
               start %t = product(%p, %v[i - 1])                start %t = product(%p, %v[i - 1])
               wait for %s                                      wait for %s
               %p' = exp2 ...                                   %p' = exp2 ...
               wait for %t                                      wait_full %v[i]
                                                                wait for %t

The wait for a product depends on nothing that the threads compute beside it, and NVIDIA's assembler
moves it up as far as its block of instructions goes: the second product then runs beside nothing.
It moves no wait over a branch, and the wait for a stage is a loop.

Legal where the buffer has a second stage: the copy that is waited for was started before, since
copies run at least one iteration ahead, and the stage that it fills was released an iteration ago.
"""

from collections.abc import Sequence

from tritonc.analysis.values import origin, slice_of
from tritonc.backend.dots.exponentials import difference_of
from tritonc.backend.shared.shared_memory import allocation
from tritonc.ir.build import make_op
from tritonc.ir.cfg import incoming
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import F32, Buffer, element

_OF_ROWS = ("fmul", "select", "fcmp", "fabs", "constant")  # what scales a row


def scale_early(header: Block, sources: Sequence[Block], product: Op, last: Op,
                skip_ones: bool = False) -> None:
    """Let the loop carry what `product` adds to, if only that is computed from accumulators.

    `sources`: the block before the loop's header, then its body, which has `product`; `last`: the
    same product behind the loop, which finds there what the loop carries."""
    body, total = sources[1], product.operands[2]
    needed = slice_of([total], set(body.ops))
    own = {r for op in needed for r in op.results}
    own |= {v for op in needed for v in op.inputs() if v.type == total.type and v.op is not None
            and v.op in header.phis()}
    if not needed or not all(op.pure for op in needed) or any(
            op not in needed and op is not product and own & set(op.inputs()) for op in body.ops):
        return
    ops = [op for op in body.ops if op in needed]
    body.ops = [op for op in body.ops if op not in needed]
    carried = Op("phi", [], {}, (total.type,), blocks=list(sources))
    carried.result.name = total.name
    for block in sources:
        known = {phi.result: incoming(phi, block) for phi in header.phis()}
        copies = copy_ops(ops, known)
        result = known[total]
        if block is body and skip_ones:
            replaced = _skip_ones(body, copies)
            result = replaced.get(result, result)
        block.ops[-1:-1] = copies
        carried.operands.append(result)
    header.ops.insert(0, carried)
    product.operands[2] = last.operands[2] = carried.result


def _skip_ones(body: Block, copies: list[Op]) -> dict[Value, Value]:
    """Let products of `copies`, which will end the body, be passed by where a factor is 1.

    Returns the results that take the place of others."""
    replaced: dict[Value, Value] = {}
    for i, op in enumerate(copies):
        op.replace_inputs(replaced)
        if op.name != "fmul" or element(op.result.type) != F32:
            continue
        for a, factor in (op.operands, op.operands[::-1]):
            power = _often_one(factor)
            if power is not None and power in body.ops:
                some = make_op("any_other", [power.result], number=1.0)
                body.ops.insert(body.ops.index(power) + 1, some)
                copies[i] = make_op("scale", [a, factor, some.result], span=op.span)
                replaced[op.result] = copies[i].result
                break
    return replaced


def _often_one(value: Value) -> Op | None:
    """What computes the value, spread over a tile, if it is e or 2 to the f(a) - f(max(a, b)).

    Not through a change of layout: a warp asks for the factors of what it scales itself."""
    power = origin(value).op
    difference = difference_of(power)[0] if power is not None and power.name in (
        "exp", "exp2") else None
    if difference is None:
        return None
    less, greater = difference.operands
    most = greater
    while most.op is not None and most.op.name in ("fmul", "select"):
        most = most.op.operands[-1 if most.op.name == "select" else 0]
    return power if any(_same(less, greater, a, most) for a in _compared(most)) else None


def _compared(value: Value) -> list[Value]:
    """What a maximum, perhaps of maxima, is taken of."""
    if value.op is None or value.op.name != "fmax":
        return []
    return [v for operand in value.op.operands for v in (operand, *_compared(operand))]


def _same(one: Value, other: Value, a: Value, b: Value) -> bool:
    """Whether one is a function of a, and the other the same function of b."""
    if (one is a and other is b) or one is other:
        return True
    if one.op is None or other.op is None or one.op.name not in _OF_ROWS:
        return False
    return one.op.name == other.op.name and one.op.attributes == other.op.attributes and all(
        _same(v, w, a, b) for v, w in zip(one.op.operands, other.op.operands, strict=True))


def wait_early(header: Block, sources: Sequence[Block], waits: Sequence[Op], end: Op,
               last: Block) -> None:
    """Move `waits` for stages, which precede the second product, to before `end`, the wait for it.

    `sources`: the block before the loop's header, then its body, which has them all; `last`: the
    block behind the loop with the second product's last iteration, and waits of its own."""
    body = sources[1]
    buffers = [allocation(wait.operands[0])[0] for wait in waits]
    cone = {*waits, *slice_of((v for wait in waits for v in wait.inputs()), set(body.ops))}
    needed, at = [op for op in body.ops if op in cone], body.ops.index(end)
    late = {r for op in body.ops[at:] for r in op.results}
    carried = [incoming(phi, body) for phi in header.phis()
              if any(phi.result in op.inputs() for op in needed)]
    if not needed or late & set(carried) or not all(
            isinstance(buffer.result.type, Buffer) and buffer.result.type.stages > 1
            for buffer in buffers) or any(
                not op.pure and op not in waits for op in needed):
        return
    for block, place, later in ((sources[0], len(sources[0].ops) - 1, 0), (body, at, 1)):
        known = {phi.result: incoming(phi, block) for phi in header.phis()}
        copies = copy_ops(needed, known)
        for op in copies:
            if "ahead" in op.attributes:
                op.attributes["ahead"] += later
        block.ops[place:place] = copies
    body.ops = [op for op in body.ops if op not in waits]
    last.ops = [op for op in last.ops if op.name != "wait_full"
                or allocation(op.operands[0])[0] not in buffers]
