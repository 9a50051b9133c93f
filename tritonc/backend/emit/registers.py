"""Which register of an operand becomes which register of a result.

A scalar is one register that all threads hold.  Operations on shapes move no data: their results
are registers of their operand under other numbers, and `sources` says which."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import takewhile

from tritonc.backend.layout.access import SharedAccess, shared_accesses, vector_chunks
from tritonc.backend.layout.conversion import Rename, plan_conversion
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.ir.core import Op
from tritonc.ir.layouts import layout_ops
from tritonc.ir.layouts.layout import LANE_BITS, Layout, axis_bases, log2
from tritonc.ir.rules import pointee
from tritonc.ir.types import Buffer, Tile, Type, element


def registers(t: Type) -> int:
    """How many registers a thread needs for a value: one per element that it holds."""
    if isinstance(t, Tile):
        assert t.layout is not None, f"{t} has no layout"
        return 1 << len(t.layout.register)
    return 1


@cache
def scalar_layout(warp_bits: int) -> Layout:
    """A scalar as a tile of one element that every thread holds."""
    return Layout((), (), (0,) * LANE_BITS, (0,) * warp_bits)


def layout_of(t: Type, warps: int) -> Layout:
    """The layout of a value in a block of `warps` warps."""
    if isinstance(t, Tile):
        assert t.layout is not None, f"{t} has no layout"
        return t.layout
    return scalar_layout(log2(warps))


@lru_cache(4096)
def members(mask: int) -> tuple[int, ...]:
    """The numbers of the bits that are set, ascending.

    >>> members(0b1101)
    (0, 2, 3)
    """
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def _narrowed(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The elements of a tile that a broadcast repeats, where `layout` has their copies."""
    known = {wide: narrow for axis in range(len(shape)) for wide, narrow in zip(
        axis_bases(layout.shape, axis), axis_bases(shape, axis), strict=False)}
    return Layout(shape, *(tuple(known.get(basis, 0) for basis in bases)
                           for bases in (layout.register, layout.lane, layout.warp)))


def sources(op: Op, warps: int) -> tuple[int, ...] | None:
    """For each register of the result the register of the operand that it is.

    None for a convert_layout that needs shuffles.  `op` is splat, broadcast, reshape, trans or
    convert_layout."""
    if op.name == "splat":
        return (0,) * registers(op.result.type)
    source, result = (layout_of(v.type, warps) for v in (op.operands[0], op.result))
    return _sources(op.name, source, result, (*op.attributes.get("permutation", ()),),
                    element(op.result.type).bits)


@lru_cache(4096)
def _sources(name: str, source: Layout, result: Layout, permutation: tuple[int, ...], bits: int
             ) -> tuple[int, ...] | None:
    if name == "reshape":
        source = layout_ops.reshape(source, result.shape)
    elif name == "trans":
        source = layout_ops.transpose(source, permutation)
    elif name == "broadcast":
        result = _narrowed(result, source.shape)
    plan = plan_conversion(source, result, bits)
    return plan.sources if isinstance(plan, Rename) else None


def reduced_registers(op: Op, warps: int) -> tuple[int, ...]:
    """For each register of a reduction's result the one of the natural layout that it is."""
    layout = layout_of(op.operands[0].type, warps)
    natural = layout_ops.slice_axes(layout, reduced_axes(op))
    plan = plan_conversion(natural, layout_of(op.results[0].type, warps), 32)
    assert isinstance(plan, Rename), f"a reduction of {layout} does not lie in its result's layout"
    return plan.sources


def access_chunks(op: Op, warps: int, access_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The registers that each access of a load or store moves together.

    What is written is written once: registers that hold copies are left out."""
    pointer = op.operands[0]
    layout = layout_of(pointer.type, warps)
    size = element(pointee(pointer.type)).bytes
    width = min(op.attributes.get("vector", 1), max(access_bytes // size, 1))
    axis = op.attributes.get("vector_axis", -1)
    return vector_chunks(layout, width, axis, op.name != "load")


def addressed(op: Op, chunk: tuple[int, ...]) -> tuple[int, ...]:
    """The registers whose addresses a load asks for: that of the access, and those at either end
    that have accesses of their own."""
    first, last = op.attributes.get("window", (0, 0))[-2:]
    return chunk[first], *chunk[:first], *chunk[len(chunk) - last:]


def place_in_run(op: Op, warps: int, register: int) -> tuple[int, int, int]:
    """Of the neighbouring records that a thread has, up to a whole run: which one a register is of,
    the first one's register, and how many there are."""
    _, axis, _, _, run = op.attributes["record"]
    layout = layout_of(op.operands[0].type, warps)
    inside = axis_bases(layout.shape, axis)[: log2(run)]
    held = [1 << layout.register.index(basis) for basis in takewhile(
        layout.register.__contains__, inside)]
    place = sum(1 << i for i, bit in enumerate(held) if register & bit)
    return place, register & ~sum(held), 1 << len(held)


def alike_registers(op: Op, warps: int) -> tuple[tuple[int, ...], ...]:
    """The registers of a load that one access fills: in runs of `alike` neighbours along
    `vector_axis`, which all have one address."""
    layout = layout_of(op.result.type, warps)
    inside = axis_bases(layout.shape, op.attributes["vector_axis"])[: log2(op.attributes["alike"])]
    bits = sum(1 << bit for bit, basis in enumerate(layout.register)
               if basis in inside or not basis)
    return tuple(tuple(r | part for part in range(bits + 1) if part | bits == bits)
                 for r in range(layout.registers) if not r & bits)


def run_bits(op: Op, warps: int) -> dict[int, int]:
    """The bits of a register's number that step inside the `vector` neighbours of which one result
    is computed; with each, how many neighbours it steps over."""
    layout, width = layout_of(op.result.type, warps), op.attributes.get("vector", 1)
    if width == 1:
        return {}
    inside = axis_bases(layout.shape, op.attributes["vector_axis"])[: log2(width)]
    return {1 << bit: 1 << inside.index(basis)
            for bit, basis in enumerate(layout.register) if basis in inside}


def copied(op: Op, warps: int) -> tuple[SharedAccess, ...]:
    """The pieces of an async_copy: `vector` neighbours of its buffer each."""
    buffer, pointer = op.operands[:2]
    assert isinstance(buffer.type, Buffer) and buffer.type.layout is not None
    moves = shared_accesses(layout_of(pointer.type, warps), buffer.type.layout,
                            buffer.type.element.bytes * 8, True)
    width = op.attributes.get("vector", 1)
    return tuple(SharedAccess(one.registers[i : i + width], one.flip, one.add + i)
                 for one in moves.accesses for i in range(0, moves.vector, width))


@cache
def owned(layout: Layout) -> tuple[int, ...]:
    """The registers that hold no copy of another register."""
    return tuple(r for r in range(layout.registers) if not r & layout.replicated_registers)


def tree(items: Sequence[str], join: Callable[[str, str], str]) -> str:
    """All of them joined: neighbours first, then neighbours of the results."""
    while len(items) > 1:
        pairs = [join(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = [*pairs, *items[len(items) - len(items) % 2:]]
    return items[0]


plan_reduction = cache(layout_ops.reduction)
