"""Which registers of each value anything reads.

A thread holds a register for each element of its part of a tile, but not all are demanded: a vector
access reads the address and the guard of its first element alone, and what computes the others need
not be emitted.  A register is demanded if an operation with effects reads it, or one whose result
is demanded; going backwards until nothing changes, around loops through their phis.  A set of
registers is an int, bit r for register r."""

from collections.abc import Callable, Iterable, Mapping

from tritonc.analysis.values import removable
from tritonc.backend.emit.registers import (
    access_chunks,
    addressed,
    alike_registers,
    copied,
    layout_of,
    members,
    owned,
    plan_reduction,
    reduced_registers,
    registers,
    run_bits,
    sources,
)
from tritonc.backend.layout.conversion import part_registers
from tritonc.backend.layout.split_reductions import reduced_axes
from tritonc.backend.pipeline.tma.roles import CONSUMERS, COPIES, PRODUCER, SETUP, START
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.ops import DIVISIONS
from tritonc.ir.types import Buffer, Tile, scalar
from tritonc.records import NamedTuple

Demanded = list[tuple[Value, int]]


class Machine(NamedTuple):
    """What the demand depends on beside the operations."""

    warps: int
    access_bytes: int
    checks: bool  # whether printf and assert are compiled
    role: str = ""  # of the threads that run the code (see `pipeline.roles`); "" if there is one


def demand(machines: Mapping[Block, Machine]) -> dict[Value, int]:
    """The demanded registers of each value; values of which none is demanded have no entry.

    `machines`: that of each block, of the reachable ones in reverse postorder."""
    found: dict[Value, int] = {}
    seen: dict[Op, int] = {}  # for which of its results' registers an operation has been looked at
    backwards = [*machines.items()][::-1]
    changed = True
    while changed:
        changed = False
        for block, machine in backwards:
            for op in reversed(block.ops):
                mask = 0
                for result in op.results:
                    mask |= found.get(result, 0)
                if seen.get(op) == mask:
                    continue
                seen[op] = mask
                if not mask and not is_root(op, machine):
                    continue
                for value, demanded in reads(op, mask, machine):
                    old = found.get(value, 0)
                    if demanded & ~old:
                        found[value] = old | demanded
                        changed |= op.name == "phi"  # other operands are made before: come yet
    return found


def is_root(op: Op, machine: Machine) -> bool:
    """Whether an operation is emitted although nobody reads its results."""
    if machine.role == PRODUCER:
        return op.name in (*SETUP, *COPIES, START) or op.info.terminator
    if machine.role == CONSUMERS and op.name in (*SETUP, *COPIES):
        return False
    if op.name in ("printf", "assert"):
        return machine.checks
    if op.name in ("alloc_shared", "buffer_stage"):
        return False
    return not removable(op)


def _full(value: Value) -> int:
    return (1 << registers(value.type)) - 1


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def reads(op: Op, mask: int, machine: Machine) -> Demanded:
    """The registers of its operands that an operation reads for those of `mask` of its results."""
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op, mask, machine)
    if op.name == "phi" or op.info.elementwise:
        return [(value, mask) for value in op.inputs()]
    return [(value, _full(value)) for value in op.inputs()]


def _load(op: Op, mask: int, machine: Machine) -> Demanded:
    if "alike" in op.attributes:
        groups = [group for group in alike_registers(op, machine.warps) if mask & _mask(group)]
        every = _mask(r for group in groups for r in group) & mask
        return [(value, every if value is op.guard else _mask(group[0] for group in groups))
                for value in op.inputs()]
    chunks = access_chunks(op, machine.warps, machine.access_bytes)
    volatile = op.attributes.get("volatile")
    made = [chunk for chunk in chunks if volatile or mask & _mask(chunk)]
    first = _mask(r for chunk in made for r in addressed(op, chunk))
    return [(value, _guarded(op, made) if value is op.guard else first) for value in op.inputs()]


def _guarded(op: Op, chunks: Iterable[tuple[int, ...]]) -> int:
    """The registers of the guard: of each access one, or all where elements may differ."""
    return _mask(r for chunk in chunks for r in (
        chunk if {"ragged", "any", "rows"} & op.attributes.keys() else addressed(op, chunk)))


def _store(op: Op, mask: int, machine: Machine) -> Demanded:
    chunks = access_chunks(op, machine.warps, machine.access_bytes)
    first = _mask(chunk[0] for chunk in chunks)
    demanded = [(op.operands[0], first), (op.operands[1], _mask(r for c in chunks for r in c))]
    return demanded if op.guard is None else [*demanded, (op.guard, _guarded(op, chunks))]


def _async_copy(op: Op, mask: int, machine: Machine) -> Demanded:
    first = _mask(piece.registers[0] for piece in copied(op, machine.warps))
    return [(value, first if isinstance(value.type, Tile) else 1) for value in op.inputs()]


def _compare(op: Op, mask: int, machine: Machine) -> Demanded:
    inside = sum(run_bits(op, machine.warps))
    first = _mask(r & ~inside for r in members(mask))
    return [(value, first) for value in op.inputs()]


def _once(op: Op, mask: int, machine: Machine) -> Demanded:
    return [(value, 1 if isinstance(value.type, Buffer)
             else _mask(owned(layout_of(value.type, machine.warps)))) for value in op.inputs()]


def _shared_store(op: Op, mask: int, machine: Machine) -> Demanded:
    if "bits" not in op.attributes:
        return _once(op, mask, machine)
    buffer, value = op.operands
    layout = layout_of(value.type, machine.warps)
    part = part_registers(layout, op.attributes["bits"], op.attributes["index"])
    return [(buffer, 1), (value, _mask(part) & _mask(owned(layout)))]


def _renaming(op: Op, mask: int, machine: Machine) -> Demanded:
    moved = sources(op, machine.warps)
    if moved is None:
        return [(op.operands[0], _full(op.operands[0]))]
    return [(op.operands[0], _mask(moved[r] for r in members(mask)))]


def _tile_part(op: Op, mask: int, machine: Machine) -> Demanded:
    layout = layout_of(op.operands[0].type, machine.warps)
    moved = part_registers(layout, op.attributes["bits"], op.attributes["index"])
    return [(op.operands[0], _mask(moved[r] for r in members(mask)))]


def _join_parts(op: Op, mask: int, machine: Machine) -> Demanded:
    layout, bits = layout_of(op.result.type, machine.warps), op.attributes["bits"]
    return [(part, _mask(r for r, whole in enumerate(part_registers(layout, bits, index))
                         if mask >> whole & 1))
            for index, part in enumerate(op.operands)]


def _pack(op: Op, mask: int, machine: Machine) -> Demanded:
    each = 32 // scalar(op.operands[0].type).bits
    return [(op.operands[0], _mask(r * each + i for r in members(mask) for i in range(each)))]


def _unpack(op: Op, mask: int, machine: Machine) -> Demanded:
    each = 32 // scalar(op.result.type).bits
    return [(op.operands[0], _mask(r // each for r in members(mask)))]


def _reduce(op: Op, mask: int, machine: Machine) -> Demanded:
    groups = plan_reduction(layout_of(op.operands[0].type, machine.warps), reduced_axes(op)).groups
    picked = reduced_registers(op, machine.warps)
    return [(op.operands[0], _mask(r for i in members(mask) for r in groups[picked[i]]))]


def _branch(op: Op, mask: int, machine: Machine) -> Demanded:
    passes = machine.role == PRODUCER and "passes" in op.attributes
    return [] if passes else [(op.operands[0], 1)]


_RULES: dict[str, Callable[[Op, int, Machine], Demanded]] = {
    **dict.fromkeys(("icmp", *DIVISIONS), _compare),
    "cond_br": _branch, "load": _load, "store": _store, "async_copy": _async_copy,
    "atomic_rmw": _once, "atomic_cas": _once, "shared_atomic": _once, "shared_store": _shared_store,
    "splat": _renaming, "broadcast": _renaming, "reshape": _renaming, "trans": _renaming,
    "convert_layout": _renaming,
    "shared_gather": lambda op, mask, machine: [(op.operands[0], 1), (op.operands[1], mask)],
    "tile_part": _tile_part, "join_parts": _join_parts,
    "step_pointers": lambda op, mask, machine: [(value, 1) for value in op.inputs()],
    "start_producer": lambda op, mask, machine: [(op.operands[1], 1)],  # the cell, with the slot
    "reduce": _reduce, "pack": _pack, "unpack": _unpack}
