"""Strength reduction of tiles that a loop moves by a scalar.

    pre:  br head                          pre:  br head
    head: %p = phi [%p0, pre],             head: %o = phi [0, pre], [%o1, body] : i64
                   [%p1, body]                   %p = addptr %p0, (splat %o)
    body: %p1 = addptr %p, (splat %s)  ->  body: %o1 = add %o, (sext %s)

A pointer per element that changes in each iteration becomes a tile that does not change and one
offset for all elements, which the backend holds in a uniform register, or folds into an address.
The same is done for tiles of integers (`k_indices += 32`), in their own width.

Between the header's phi and what comes back to it there may be any number of additions and
subtractions of uniform tiles, phis of branches and of inner loops: the *chain*.  Each of its values
is the start plus a scalar, and the scalar goes the same ways.  The step need not be invariant.

This is exact: addresses have 64 bits and wrap, an offset is extended to 64 bits and then scaled,
and so n steps lead where their sum leads.  Integers wrap in their own width.

Pointers that move by one same step share their offset.  Needs preheaders and single latches
(`canonicalize_loops`); steps that are made in the loop of invariant values should have left it
(`licm`)."""

from collections.abc import Hashable
from typing import Any

from tritonc.analysis.values import constant_of, is_uniform
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.types import I64, Scalar, Tile, element, is_int, is_pointer, scalar, with_element

Shared = dict[Hashable, Value]  # header, step -> the offset's phi


def strength_reduce(kernel: Kernel, context: Context) -> bool:
    """Reduce the moving tiles of all loops, outer loops first."""
    changed = False
    cfg = Cfg(kernel)
    shared: Shared = {}
    for loop in cfg.loops:
        if loop.preheader is None or loop.latch is None:
            continue
        for phi in loop.header.phis():
            chain = moves(cfg, loop, phi)
            if chain is not None:
                Reduction(kernel, cfg, loop, phi, chain, shared).run()
                changed = True
    return changed


def moves(cfg: Cfg, loop: Loop, phi: Op) -> dict[Op, None] | None:
    """The operations between the phi and its next value; None if one of them is of another kind."""
    t = phi.result.type
    if not isinstance(t, Tile) or not (is_pointer(t) or is_int(t)) or t.element.bits == 1:
        return None
    if len(phi.operands) != 2 or loop.latch not in phi.blocks:
        return None
    chain: dict[Op, None] = {phi: None}
    work = [phi.operands[phi.blocks.index(loop.latch)]]
    while work:
        op = work.pop().op
        if op in chain:
            continue
        if op is None or cfg.block_of.get(op) not in loop.block_set:
            return None
        if op.name == "phi":
            work.extend(op.operands)
        elif (op.name in ("addptr", "add", "sub") and is_uniform(op.operands[1])
              and element(op.operands[1].type).bits > 1):
            work.append(op.operands[0])
        else:
            return None
        chain[op] = None
    return chain if len(chain) > 1 else None


class Reduction:
    """One chain and the scalars that take its place."""

    def __init__(self, kernel: Kernel, cfg: Cfg, loop: Loop, phi: Op, chain: dict[Op, None],
                 shared: Shared) -> None:
        assert loop.preheader is not None and loop.latch is not None
        self.kernel, self.cfg, self.loop, self.phi, self.chain = kernel, cfg, loop, phi, chain
        self.preheader, self.latch = loop.preheader, loop.latch
        self.shared = shared
        self.start = phi.operands[phi.blocks.index(self.preheader)]
        t = phi.result.type
        assert isinstance(t, Tile)
        self.pointers = is_pointer(t)
        self.offset_type = I64 if self.pointers else scalar(t)
        self.offsets: dict[Value, Value] = {}  # of the chain's values from the start

    def run(self) -> None:
        order = [op for op in self.loop.ops() if op in self.chain]
        key = self._key(order)
        if key is not None and key in self.shared:
            phi_offset = self.shared[key]
            assert phi_offset.op is not None
            self.offsets[self.phi.result] = phi_offset
            at = phi_offset.op.blocks.index(self.latch)
            self.offsets[order[1].result] = phi_offset.op.operands[at]
        else:
            self._make_offsets(order)
            if key is not None:
                self.shared[key] = self.offsets[self.phi.result]
        self._replace(order)

    def _key(self, order: list[Op]) -> Hashable:
        """What two chains of one addition must have in common to share the offset."""
        if len(order) != 2 or order[1].name == "phi":
            return None
        step = order[1].operands[1]
        assert step.op is not None
        number = constant_of(step)
        same = ("number", int(number)) if number is not None else step.op.operands[0]
        block = self.cfg.block_of[order[1]]
        return self.loop.header, block, order[1].name, self.offset_type, same

    def _make_offsets(self, order: list[Op]) -> None:
        """Scalar phis and additions beside those of the chain."""
        type = self.offset_type
        zero = self._in_preheader("constant", type=type, value=0)
        phis = [op for op in order if op.name == "phi"]
        for op in phis:
            made = Op("phi", [], None, (type,), span=op.span, blocks=list(op.blocks))
            made.result.name = f"{op.result.name or 'tile'}.offset"
            self.offsets[op.result] = made.result
            block = self.cfg.block_of[op]
            block.ops.insert(0, made)
            self.cfg.block_of[made] = block
        for op in order:
            if op.name == "phi":
                continue
            step = self._step(op)
            name = "sub" if op.name == "sub" else "add"
            made = make_op(name, [self.offsets[op.operands[0]], step], span=op.span)
            self._before(op, made)
            self.offsets[op.result] = made.result
        for op in phis:
            of_phi = self.offsets[op.result].op
            assert of_phi is not None
            of_phi.operands = [zero if op is self.phi and block is self.preheader
                               else self.offsets[v]
                               for v, block in zip(op.operands, op.blocks, strict=True)]

    def _step(self, op: Op) -> Value:
        """The scalar by which a member of the chain moves, as wide as the offset."""
        step = op.operands[1]
        assert step.op is not None
        number = constant_of(step)
        if number is not None:
            return self._in_preheader("constant", type=self.offset_type,
                                      value=fit(self.offset_type, number))
        value = step.op.operands[0]
        if value.type == self.offset_type:
            return value
        if value.op is not None and self.cfg.block_of[value.op] in self.loop.block_set:
            wide = make_op("sext", [value], self.offset_type, span=op.span)
            self._before(op, wide)
            return wide.result
        return self._in_preheader("sext", value, type=self.offset_type)

    def _in_preheader(self, name: str, *operands: Value, type: Scalar, **attributes: Any) -> Value:
        op = make_op(name, list(operands), type, span=self.phi.span, **attributes)
        self.preheader.ops.insert(-1, op)
        self.cfg.block_of[op] = self.preheader
        return op.result

    def _before(self, op: Op, new: Op) -> None:
        block = self.cfg.block_of[op]
        block.ops.insert(block.ops.index(op), new)
        self.cfg.block_of[new] = block

    def _replace(self, order: list[Op]) -> None:
        """Remove the chain; what others read of it is start + splat of the offset."""
        users = uses(self.kernel)
        mapping: dict[Value, Value] = {}
        for op in order:
            if all(user in self.chain for user in users.get(op.result, ())):
                continue
            offsets = with_element(self.start.type, self.offset_type)
            splat = make_op("splat", [self.offsets[op.result]], offsets, span=op.span)
            moved = make_op("addptr" if self.pointers else "add", [self.start, splat.result],
                            span=op.span)
            moved.result.name = op.result.name
            block = self.cfg.block_of[op]
            at = len(block.phis()) if op.name == "phi" else block.ops.index(op)
            block.ops[at:at] = splat, moved
            self.cfg.block_of.update({splat: block, moved: block})
            mapping[op.result] = moved.result
        for block in self.loop.blocks:
            block.ops = [op for op in block.ops if op not in self.chain]
        self.kernel.replace(mapping)
