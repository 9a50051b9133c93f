"""turn_dots: products of few rows and many columns are computed the other way round.

Before:                                    After:
  header: %c = phi [%start], [%d]            header: %t = phi [%turned], [%e] : f32<64, 32>
  body:   %d = dot %a, %b, %c : f32<32, 64>  body:   %e = dot (trans %b), (trans %a), %t
  exit:   uses of %c                         exit:   %r = trans %t; uses of %r

An instruction of wgmma multiplies 64 rows by 8 columns or more.  A product of fewer rows may have
64 columns, which are rows of the product turned.  Operands stay as they are: views of shared memory
are turned, and the sum is turned back behind the loop, which is another name for the same
registers.  With 32 rows and 64 columns more multiprocessors have a tile than with 64, and they
bring whole lines of memory, which 32 columns of 16 bits are not.

A product whose right operand the loop computes, and whose left one it does not, is swapped too:
wgmma takes the left one from registers, where threads compute it (`raw_operands`).

So is one that the source wrote the other way round, of turned operands, and turns back: nothing is
turned then.

So is what a loop computes of a product, element by element, before it adds that: factors of rows
become factors of columns.  Done where wgmma can read both operands so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonc.analysis import axis_info
from tritonc.backend.dots.inner_axis import inner_first
from tritonc.backend.dots.raw_operands import computed_operand, is_plain
from tritonc.backend.target.matrix import INSTRUCTIONS, WGMMA, MatrixInstruction
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import Tile, element, shape

TURN = (1, 0)
LEAST_ROWS = 64  # with which wgmma takes a product as it is


def turn_dots(kernel: Kernel, target: Target, infos: axis_info.Infos) -> bool:
    """Turn the products of a kernel whose only products are sums of one size, if wgmma gains."""
    found = _sums(kernel)
    if not all(_fits(kernel, one, target, infos) for one in found):
        return False
    for one in found:
        _turn(kernel, one)
    return bool(found)


def _turned_back(kernel: Kernel, one: Sum) -> bool:
    """Whether both operands are turned, and the sum wherever it is read."""
    readers, stack = uses(kernel), [one.phi.result]
    if "swapped" in one.dot.attributes or not all(_turns(v.op) for v in one.dot.operands[:2]):
        return False
    while stack:
        for op in readers.get(stack.pop(), []):
            if op in one.members or _turns(op):
                continue
            if op.name != "fpcast":
                return False
            stack.append(op.result)
    return True


def _turns(op: Op | None) -> bool:
    return op is not None and op.name == "trans" and tuple(op.attributes["permutation"]) == TURN


def _fits(kernel: Kernel, one: Sum, target: Target, infos: axis_info.Infos) -> bool:
    """Whether wgmma takes the product turned, and not as it is."""
    (rows, columns), depth = shape(one.dot.result.type), shape(one.dot.operands[0].type)[1]

    def takes(row: MatrixInstruction) -> bool:
        return (row.kind == WGMMA and row.feature in target.features
                and row.operand == element(one.dot.operands[0].type)
                and row.accumulator == element(one.dot.result.type)
                and row.rows <= columns and rows >= row.columns and depth >= row.depth
                and (rows < row.rows or _computed_right(one) or _turned_back(kernel, one))
                and (row.transposes or all(inner_first(one.dot, infos))))

    return not any(n & (n - 1) for n in (rows, columns, depth)) and any(map(takes, INSTRUCTIONS))


def _computed_right(one: Sum) -> bool:
    """Whether the loop computes the right operand alone: turned, it goes through registers."""
    left, right = one.dot.operands[:2]
    inside = set(one.loop.ops())
    return is_plain(left, True) and not is_plain(right, True) and computed_operand(
        right, inside) is not None


@dataclass
class Sum:
    """A product of two matrices of which a loop computes a sum, element by element, that nothing
    else in the loop reads: `members` are the product, the loop's `phi`, and what is between."""

    dot: Op
    phi: Op
    loop: Loop
    members: set[Op]


def _sums(kernel: Kernel) -> list[Sum]:
    """All products of the kernel, if each is one of a loop of its own and they have one size;
    otherwise none."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    cfg, readers = Cfg(kernel), uses(kernel)
    found = [one for one in (_sum(dot, cfg, readers) for dot in dots) if one is not None]
    sizes = {(shape(dot.operands[0].type), shape(dot.operands[1].type)) for dot in dots}
    return found if len(sizes) == 1 and (
        len(found) == len(dots) == len({one.loop for one in found})) else []


def _sum(dot: Op, cfg: Cfg, readers: dict[Value, list[Op]]) -> Sum | None:
    loop = cfg.innermost.get(cfg.block_of[dot])
    if len(shape(dot.result.type)) != 2 or loop is None or loop.parent is not None \
            or loop.latch is None or loop.preheader is None or len(loop.exits) != 1 \
            or not cfg.dominates(cfg.block_of[dot], loop.latch):
        return None
    (inside, leave), = loop.exits
    if inside is not loop.header or cfg.predecessors[leave] != [inside]:
        return None
    members, stack, phis = {dot}, [dot.result], list[Op]()
    while stack:
        value = stack.pop()
        for op in readers.get(value, []):
            row = op.info
            if op in members:
                continue
            if op.name == "phi" and op in loop.header.ops:
                phis.append(op)
            elif cfg.block_of[op] not in loop:
                if value.op not in phis or op.name == "phi":
                    return None
                continue
            elif not row.elementwise or not row.pure or len(op.results) != 1 \
                    or shape(op.result.type) != shape(dot.result.type):
                return None
            members.add(op)
            stack.append(op.result)
    return Sum(dot, phis[0], loop, members) if len(phis) == 1 else None


def _turn(kernel: Kernel, one: Sum) -> None:
    """Give each member the turned shape, and what else it reads; what is read behind the loop is
    turned back."""
    swapped = shape(one.dot.result.type)[0] >= LEAST_ROWS and not _turned_back(kernel, one)
    made = {op.result for op in one.members}
    leave = one.loop.exits[0][1]
    for block in one.loop.blocks:
        for op in [op for op in block.ops if op in one.members]:
            if op is one.phi:
                for i, (value, source) in enumerate(zip(op.operands, op.blocks, strict=True)):
                    if value not in made:
                        op.operands[i] = _turned(Builder(source, len(source.ops) - 1, op.span),
                                                 value)
                continue
            b = Builder(block, block.ops.index(op), op.span)
            operands = [v if v in made else _turned(b, v) for v in op.operands]
            if op is one.dot:  # for what is computed, not for its rows
                operands = [operands[1], operands[0], operands[2]]
                op.attributes.pop("asked", None)  # its columns are rows now
                if swapped:
                    op.attributes["swapped"] = True
            op.operands[:] = operands
    after = Builder(leave, len(leave.phis()), one.dot.span)
    inside = set(one.loop.ops())
    for op in one.members:
        t = op.result.type
        op.result.type = Tile(element(t), shape(t)[::-1])
    back = after.value("trans", one.phi.result, permutation=TURN)
    back.name = one.phi.result.name
    for op in list(kernel.ops()):
        if op not in inside and op is not back.op:
            op.replace_inputs({one.phi.result: back})


def _turned(b: Builder, value: Value) -> Value:
    """A tile that is turned: rows and columns that are spread stay those."""
    op, t = value.op, value.type
    turned = Tile(element(t), shape(t)[::-1])
    if op is not None and op.name == "constant":
        return b.constant(op.attributes["value"], turned)
    if op is not None and op.name == "splat":
        return b.value("splat", op.operands[0], type=turned)
    if op is not None and op.name == "broadcast" and len(shape(op.operands[0].type)) == 2:
        return b.value("broadcast", _turned(b, op.operands[0]), type=turned)
    if op is not None and op.name == "reshape" and len(shape(op.operands[0].type)) == 1:
        return b.value("reshape", op.operands[0], type=turned)
    if op is not None and op.name in ("fmul", "fadd", "fsub") and op in b.block.ops:
        return b.value(op.name, *(_turned(b, v) for v in op.operands), **op.attributes)
    found = b.value("trans", value, permutation=TURN)
    found.name = value.name
    return found
