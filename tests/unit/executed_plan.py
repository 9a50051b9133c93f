"""Executes the plan of a conversion, as its definition."""

from __future__ import annotations

from collections.abc import Sequence

from tritonc.backend.layout.access import SharedAccesses
from tritonc.backend.layout.conversion import Plan, Rename, part_holders, part_registers
from tritonc.backend.layout.shuffle import Shuffle
from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import WARP_SIZE


def simulate(plan: Plan, values: Sequence[Sequence[int]]) -> list[list[int]]:
    """Execute a plan on `values[thread][register]`; the same of the destination.

    Raises ValueError where a load finds what no thread stored.
    """
    if isinstance(plan, Rename):
        return [[held[source] for source in plan.sources] for held in values]
    if isinstance(plan, Shuffle):
        return _simulate_shuffle(plan, values)
    result = [[0] * plan.destination.registers for _ in values]
    (store, _), (load, _) = plan.sides
    mask, *holders = part_holders(plan.source, plan.bits)
    for index, holder in enumerate(holders):
        own, new = (part_registers(x, plan.bits, index) for x in (plan.source, plan.destination))
        memory: dict[int, int] = {}
        for thread, held in enumerate(values):
            if thread & mask == holder:
                for offset, register in _moves(store, thread):
                    memory[offset] = held[own[register]]
        for thread, held in enumerate(result):
            for offset, register in _moves(load, thread):
                if offset not in memory:
                    raise ValueError(f"offset {offset} is loaded but was not stored")
                held[new[register]] = memory[offset]
    return result


def _moves(side: SharedAccesses, thread: int) -> list[tuple[int, int]]:
    """(element offset, register of the part) of everything that a thread moves."""
    start = f2.apply(side.thread, thread)
    return [
        ((start ^ access.flip) + access.add + i, register)
        for access in side.accesses
        for i, register in enumerate(access.registers)
    ]


def _simulate_shuffle(plan: Shuffle, values: Sequence[Sequence[int]]) -> list[list[int]]:
    offered = []
    for thread, held in enumerate(values):
        change = f2.apply(plan.select_in, thread)
        words = [tuple(held[register] for register in word) for word in plan.words]
        offered.append([words[word ^ change] for word in range(len(words))])
    result = []
    for thread in range(len(values)):
        lane = f2.apply(plan.lane, thread)
        warp = thread - thread % WARP_SIZE
        items = [offered[warp + (lane ^ flip)][word] for word, flip in plan.rounds]
        change = f2.apply(plan.select_out, thread)
        result.append([items[item ^ change][element] for item, element in plan.results])
    return result
