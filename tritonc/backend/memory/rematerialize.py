"""rematerialize: addresses that do not fit into registers are recomputed where they are read.

Before:  entry: %r = mul %rm, %K                   After:  entry: ...
                %q = addptr %base, %r                      body:  %K1 = again %K
         body:  %p = addptr %q, %k                                %base1 = again %base
                %a = load %p                                      %r1 = mul %rm, %K1
                                                                  %q1 = addptr %base1, %r1
                                                                  %p = addptr %q1, %k
                                                                  %a = load %p

Address arithmetic that does not change leaves loops early.  An address takes two registers for as
long as the loop runs, of each element of a tile whose accesses are narrow: a body for unaligned
addresses has hundreds.  Where more registers are live than a thread can have, this pass takes, one
after the other, the tile of integers or addresses that costs most at the point of highest pressure,
and gives each reader a computation of its own, from scalars and ranges, right before it.  `again`
keeps LLVM from merging the copies and from moving them out of the loop.

A quotient of indices takes as long as some thirty additions: what it takes is computed again from
the quotient, as long as there is something of that kind.

It ends when everything fits, or when nothing is left whose roots cost less than it does.  What
still does not fit is told.  General bodies (`versions.general`) are to fit into fewer registers;
there, what does not lower the estimates of all blocks together is taken back.  Masks of narrow
accesses in them are computed where they are read, too.

Needs vectorize, which says how many addresses a tile's accesses need; after delay_loads, which
makes room for the elements."""

from collections.abc import Iterable, Iterator, Sequence, Set

from tritonc.analysis.registers.pressure import Estimate, estimated
from tritonc.analysis.registers.weights import PREDICATES
from tritonc.analysis.values import MOVES, int_of, origin
from tritonc.backend.launch.register_budget import GENERAL, RECOMPUTED, SURE, available
from tritonc.backend.memory.versions.general import general_blocks, rare
from tritonc.backend.pipeline.staged_loop import DOTS, elements_per_thread
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import F32, I32, Tile, element, is_float, scalar

LEAST = 4.0  # registers that one step is to save
MOST_STEPS = 24  # tiles
_ENDS = ("range", "constant")
LONGEST = 24  # operations that compute a tile
_SHAPES = (*MOVES, "step_pointers")


def rematerialize(kernel: Kernel, context: Context) -> bool:
    """Compute addresses anew until the kernel fits its registers, and general bodies fewer."""
    estimate = estimated(kernel)
    room = available(kernel, context, estimate=estimate)
    changed, general = False, general_blocks(estimate.cfg, DOTS)
    for blocks, share in ((estimate.cfg.order, SURE), (general, RECOMPUTED)):
        left: set[Value] = set()
        for _ in range(MOST_STEPS):
            found = estimate.pressure(blocks)
            if found.registers <= share * room:
                break
            held = dict(found.live)
            best = next(((value, chain) for value, chain in _candidates(found.live, left)
                         if held[value] - _cost(chain, held.keys(), estimate) >= LEAST), None)
            if best is None:
                break
            changed, copies = True, _spread(blocks, *best)
            left.update((best[0], *copies))
            old, estimate = estimate, estimated(kernel)
            if blocks is general and _total(estimate, blocks) >= _total(old, blocks):
                copies.undo()
                estimate = old
    if _wants_masks(kernel, estimate, room):
        for block in rare(estimate.cfg, estimate.cfg.order):
            changed |= _masks(block)
    return changed


def _wants_masks(kernel: Kernel, estimate: Estimate, room: float) -> bool:
    """Whether masks of the general bodies of products are made anew.  H200: bmm of 511 columns on
    wgmma, whose masks fit, takes 1.06 of the time with masks anew; a shift convolution of floats on
    CUDA cores 23.9 us for 22.4, as its loop gets other registers, of other banks."""
    dots = [op for op in kernel.ops() if op.name in DOTS]
    if not dots or any(op.name == "fma_dot" and scalar(op.operands[0].type) == F32 for op in dots):
        return False
    slow = rare(estimate.cfg, estimate.cfg.order)
    return all(op.name != "wgmma" for op in dots) or (
        estimate.pressure(slow).registers > GENERAL * room)


def _masks(block: Block) -> bool:
    """Give narrow accesses masks of their own: what compares a distance with constants takes as
    many instructions as what tests bits of a word, into which the assembler packs masks."""
    ops: list[Op] = []
    for op in block.ops:
        mask = op.guard
        if op.name in ("load", "store") and mask is not None and elements_per_thread(
                mask) > PREDICATES and op.attributes.get("vector", 1) == 1:
            made, renaming = mask, list[Op]()
            while made.op is not None and made.op.name in MOVES:
                renaming.insert(0, made.op)
                made = made.op.operands[0]
            compared = made
            if made.op is not None and made.op.name == "cmpp" and made is made.op.results[0]:
                compared = made.op.operands[0]
            if chain := chain_of(compared, False):
                copies, mapping = copy_chain(chain)
                mapping[made] = mapping[compared]
                copies += copy_ops(renaming, mapping)
                op.replace_inputs({mask: mapping[mask]})
                ops += copies
        ops.append(op)
    changed, block.ops = len(ops) > len(block.ops), ops
    return changed


def _total(estimate: Estimate, blocks: Iterable[Block]) -> int:
    return sum(map(estimate.registers, blocks))


def _candidates(live: Sequence[tuple[Value, float]], left: set[Value]
                ) -> Iterator[tuple[Value, list[Op]]]:
    """What could be computed again, and how: first without quotients."""
    for quotients in (False, True):
        for value, _ in live:
            chain = None if value in left else chain_of(value, quotients)
            if chain is not None:
                yield value, chain


def chain_of(value: Value, quotients: bool) -> list[Op] | None:
    """The operations that compute a tile of integers from scalars and ranges, operands first; if
    not `quotients`, from those too.  None if there are more than LONGEST."""
    found: dict[Op, None] = {}
    begun: set[Op] = set()

    def visit(one: Value) -> bool:
        op = one.op
        if op is None or not isinstance(one.type, Tile) or op in found or op.name in _ENDS:
            return True
        made = origin(one, ("convert_layout",)).op  # lanes may share the work of a quotient
        if made is not None and made.name in DIVISIONS and not quotients and not is_number(
                made.operands[1]):
            return True
        begun.add(op)
        if len(begun) > LONGEST or not (op.info.elementwise or op.name in _SHAPES) \
                or op.guard is not None or len(op.results) != 1 or is_float(op.result.type) \
                or not all(map(visit, op.operands)):
            return False
        found[op] = None
        return True

    if not isinstance(value.type, Tile) or is_float(value.type) or value.op is None:
        return None
    return list(found) or None if visit(value) else None


def is_number(divisor: Value) -> bool:
    """Whether it is a constant, by which a quotient takes a multiplication."""
    return int_of(origin(divisor, _SHAPES)) is not None


def _cost(chain: list[Op], live: Set[Value], estimate: Estimate) -> float:
    """The registers of what the chain is made of, as far as it is not live anyway."""
    inside = {result for op in chain for result in op.results}
    roots = {estimate.live.root(v) for op in chain for v in op.operands if v not in inside}
    return sum(estimate.weight(root) for root in roots if root is not None and root not in live)


class _Copies(list[Value]):
    """The copies of a value, and what stood in the blocks before."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.before = [(block, block.ops) for block in blocks]
        self.replaced: list[tuple[Op, Value, Value]] = []

    def undo(self) -> None:
        for block, ops in self.before:
            block.ops = ops
        for op, old, new in self.replaced:
            op.replace_inputs({new: old})


def _spread(blocks: Sequence[Block], value: Value, chain: list[Op]) -> _Copies:
    """Give each reader but phis a copy of the chain, and of operations in between that only rename
    its registers."""
    made = _Copies(blocks)
    chains = {value: chain}
    for block in blocks:  # operands first
        for op in block.ops:
            if op.name in MOVES and op.operands[0] in chains:
                chains[op.result] = [*chains[op.operands[0]], op]
    for block in blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name != "phi" and not (op.results and op.results[0] in chains):
                for one in [v for v in dict.fromkeys(op.inputs()) if v in chains]:
                    copies, mapping = copy_chain(chains[one])
                    ops += copies
                    op.replace_inputs({one: mapping[one]})
                    made.replaced.append((op, one, mapping[one]))
                    made.append(mapping[value])
            ops.append(op)
        block.ops = ops
    return made


def copy_chain(chain: list[Op]) -> tuple[list[Op], dict[Value, Value]]:
    """The chain again, from scalars that LLVM does not know to be the same."""
    inside = {result for op in chain for result in op.results}
    mapping: dict[Value, Value] = {}
    first: list[Op] = []
    for v in dict.fromkeys(v for op in chain for v in op.operands):
        if not (v in inside or isinstance(v.type, Tile) or element(v.type).bits < 32
                or (v.op is not None and v.op.name == "constant")):
            first.append(make_op("again", [v], named=v.name))
            mapping[v] = first[-1].result
    first += _opaque_ranges(chain, mapping)
    return [*first, *copy_ops(chain, mapping)], mapping


def _opaque_ranges(chain: list[Op], mapping: dict[Value, Value]) -> list[Op]:
    """Ranges of the chain, plus a zero that LLVM does not know."""
    ops: list[Op] = []
    for value in dict.fromkeys(v for op in chain for v in op.operands):
        if value.op is None or value.op.name != "range":
            continue
        zero = make_op("constant", [], I32, value=0)
        hidden = make_op("again", [zero.result])
        tile = make_op("splat", [hidden.result], value.type)
        added = make_op("add", [value, tile.result])
        ops += [zero, hidden, tile, added]
        mapping[value] = added.result
    return ops
