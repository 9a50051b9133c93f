"""Which products of a block run beside each other, and how large they are together.

Two products of one iteration are *chained* if threads compute with one what the other multiplies or
adds to, as in attention.  Products that are not (gate and up of a SwiGLU, or two that make one sum)
are one large product in all but name: they start together, wait once, and want what that wants."""

from collections.abc import Callable, Iterable
from math import prod

from tritonc.analysis.values import constant_of, slice_of
from tritonc.backend.target.matrix import BY_NAME, LARGE
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import Buffer, Tile, shape

PRODUCTS = ("dot", "wgmma")
OF_A_CYCLE = 2048  # numbers of 16 bits that a multiprocessor of sm_90 multiplies on tensor cores
WARPGROUP = 4  # warps


def products(ops: Iterable[Op]) -> list[Op]:
    """The generic products and those on wgmma."""
    return [op for op in ops if op.name in PRODUCTS]


def chained(block: Block) -> bool:
    """Whether a product of the block takes part in what another one multiplies, or in what that is
    added to: threads compute between the two.  Those that make one sum follow at once."""
    found = set(products(block.ops))
    return _reaches(block, lambda op: [v for v in op.inputs() if v is not op.operands[2]
                                       or summed(v) not in found])


def waits(block: Block) -> bool:
    """Whether threads compute with all products in the iteration that makes them."""
    found = products(block.ops)
    return chained(block) or (bool(found) and all(
        constant_of(op.operands[2]) is not None for op in found))


def back_to_back(block: Block) -> bool:
    """Whether a product of the block multiplies what is made of another one (CUTLASS: B2B GEMM), in
    registers."""
    return _reaches(block, lambda product: product.operands[:2])


def _reaches(block: Block, read: Callable[[Op], list[Value]]) -> bool:
    """Whether what a product of the block reads depends on another one within it."""
    found = set(products(block.ops))
    inside = set(block.ops) if len(found) > 1 else found
    return len(found) > 1 and any(
        not (found - {product}).isdisjoint(slice_of(read(product), inside, ("phi",)))
        for product in found)


def sums(block: Block) -> list[Op]:
    """The products of the block to which no other one adds."""
    found = products(block.ops)
    added = {summed(op.operands[2]) for op in found}
    return [op for op in found if op not in added]


def steps(product: Op) -> list[Op]:
    """A product behind those of its block to whose sums it adds."""
    before = summed(product.operands[2])
    return [*(steps(before) if before and before.name in PRODUCTS else ()), product]


def summed(value: Value) -> Op | None:
    """What makes a value that a product adds to: another one, beside the wait for it."""
    op = value.op
    return op.operands[op.results.index(value)].op if op and op.name == "wgmma_wait" else op


def large(block: Block, least: int = LARGE) -> bool:
    """Whether products of the block that run beside each other make a large one, of so many
    elements.  Slices of the inner axis make none: its tile is as small, and may have few rows, of
    which TMA brings those that a tensor lacks no faster than others (H200, 112 of 128 rows beyond
    the tensor: 35 us, 18 without; by threads 16)."""
    sizes = [prod(shape(op.result.type)[-2:]) for op in sums(block)]
    return bool(sizes) and (max(sizes) if chained(block) else sum(sizes)) >= least


def cycles(block: Block, warps: int) -> int:
    """What a warpgroup's part of a block's products on wgmma takes, if no other one runs."""
    found = 0
    for op in block.ops:
        if op.name == "wgmma":
            left = op.operands[0].type
            assert isinstance(left, Tile | Buffer)
            bits = BY_NAME[op.attributes["instruction"]].operand.bits
            found += prod(shape(op.result.type)) * left.shape[-1] * bits // 16
    return found * WARPGROUP // (OF_A_CYCLE * max(warps, WARPGROUP))
