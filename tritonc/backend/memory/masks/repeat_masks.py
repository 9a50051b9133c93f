"""repeat_masks: each access computes its mask anew.

Before:  %m = icmp %n, splat %N               After:  %m = icmp %n, splat %N
         @%m %x = load %p                             @%m %x = load %p
         ...                                          ...
         @%m store %q, %y                             %N1 = again %N
                                                      %m1 = icmp %n, splat %N1
                                                      @%m1 store %q, %y

A thread has seven predicate registers.  More predicates than that wait in the bits of other
registers, packed and unpacked by two or three instructions each, while to compare indices of a
range with a limit takes one.  `again` keeps LLVM and the assembler from merging what is repeated.

Done where a mask is nothing but such comparisons and scalars, and a thread has many of it.  After
vectorize: a comparison keeps the width that was found for it.
"""

from __future__ import annotations

from tritonc.analysis.values import origin
from tritonc.backend.memory.rematerialize import again, chain_of
from tritonc.backend.pipeline.staged_loop import held_elements
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I1, I32, I64, Tile, element

MANY = 8  # predicates of one mask: more than there are registers
_COMBINED = ("and", "or", "xor", "cmpp")
_MOVED = ("splat", "reshape", "broadcast")


def repeat_masks(kernel: Kernel, context: Context) -> bool:
    """Give each reader of a mask, but for the first in the mask's own block, a copy."""
    home = {op: block for block in kernel.blocks for op in block.ops}
    served: set[Op] = set()
    changed = False
    for block in kernel.blocks:
        for op in list(block.ops):
            for mask in _masks(op):
                chain = _chain(mask)
                tests = [link for link in chain or () if link.name == "icmp"]
                if chain is None or all(map(_few, tests)):
                    continue
                if any(test in served or home[test] is not block for test in tests):
                    _repeat(block, op, mask, chain)
                    changed = True
                served.update(tests)
    return changed


def _masks(op: Op) -> list[Value]:
    """The tiles of predicates under which the operation takes or chooses elements."""
    if op.name in ("load", "store"):
        found = [op.guard] if op.guard is not None else []
    elif op.name == "select":
        found = op.operands[:1]
    else:
        found = op.operands[::2] if op.name == "psi" else []
    return [v for v in found if isinstance(v.type, Tile) and v.op is not None]


def _chain(mask: Value) -> list[Op] | None:
    """The operations that make the mask of ranges and scalars, operands first; None if there is
    anything else in it."""
    return chain_of(mask, lambda op: op.name in ("range", "constant"), lambda op: (
        _limit(op) is not None if op.name == "icmp" else op.name in _MOVED or (
            op.name in _COMBINED and element(op.results[0].type) == I1)))


def _limit(test: Op) -> Value | None:
    """The scalar with which a comparison compares the indices of a range."""
    index, limit = map(origin, test.operands)
    if index.op is None or index.op.name != "range" or limit.type not in (I32, I64):
        return None
    return limit


def _few(test: Op) -> bool:
    """Whether a thread has few predicates of the comparison."""
    width: int = test.attributes.get("vector", 1)
    return held_elements(test.result) // width < MANY


def _repeat(block: Block, reader: Op, mask: Value, chain: list[Op]) -> None:
    """A copy of the chain before the reader, which reads it instead of the mask."""
    mapping: dict[Value, Value] = {}
    limits = (limit for op in chain if op.name == "icmp" if (limit := _limit(op)) is not None)
    made = [*again(limits, mapping), *copy_ops(chain, mapping)]
    reader.replace_inputs({mask: mapping[mask]})
    at = block.ops.index(reader)
    block.ops[at:at] = made
