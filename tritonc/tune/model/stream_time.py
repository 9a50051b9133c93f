"""How long a launch of a kernel without products takes, from what its programs do (`work`).

A roofline with latencies.  A multiprocessor issues instructions, its first cache delivers lines,
the second cache and memory deliver what `traffic` finds, and blocks begin one after the other: each
takes some time for the launch, of which the longest shows, and a part of the others.  Beside these
a program waits: for memory once an iteration, unless its loads run ahead, for lanes and warps that
exchange what they reduce, and for one instruction after the other.  As many programs wait at once
as are resident (Little's law), so that a launch takes as many rounds.

The constants are an H200's, in cycles of a multiprocessor: bandwidths and latencies, and estimates
that launches of bench/sweep.py agree with (`uneven` comes from one kernel).
"""

from __future__ import annotations

from math import ceil, log2

from tritonc.analysis.work.work import Access, Combined, Region, Work
from tritonc.backend.target.target import Target
from tritonc.records import NamedTuple
from tritonc.tune.model.traffic import Traffic

CLOCK = 1755.0  # cycles of a microsecond


class Costs(NamedTuple):
    """What the machine takes, for each thing that a launch does."""

    memory: float = 650.0  # until a load from memory arrives
    second: float = 280.0  # from the second cache
    delivered: float = 17.3  # bytes a cycle of memory, for each multiprocessor
    cached: float = 23.7  # of the second cache
    lines: float = 96.0  # of the first cache
    issued: float = 3.2  # instructions a cycle
    few: float = 2.5  # warps with which half of that is reached
    waits: float = 2.5  # of an instruction until the next of its thread
    lane: float = 28.0  # of an exchange between lanes
    barrier: float = 60.0  # of one between warps,
    barrier_warp: float = 6.0  # and for each of them
    start: float = 700.0  # of a block, until its first load
    launch: float = 2.2  # microseconds
    block: float = 140.0  # from one block of a multiprocessor to the next: .61 ns for each of all
    ahead_sums: float = 3.0  # iterations whose loads are in flight where a loop only adds up
    ahead_stores: float = 1.3  # where it stores
    near: float = 200e3  # bytes of the first cache
    far: float = 32e6  # of the second one
    indices: float = 0.6  # slots of an operation that makes addresses, once for an access
    access: float = 2.0  # slots of an access
    atomic: float = 4.0  # of an atomic one
    norm: float = 3.0  # of the parts: how much of the shorter ones shows
    uneven: float = 0.2  # of an element, in loops that end by what they compute
    fits: float = 150.0  # registers by the estimate below, which the assembler exceeds;
    spilled: float = 0.5  # how much longer it takes for 100 more
    single: float = 45.0  # bytes a cycle that one multiprocessor gets at most


COSTS = Costs()
_WARP, _ACCESS = 32, 16  # threads; bytes of the widest access
_COMBINED = {"reduce": 1.0, "scan": 2.5}  # slots of an element; 4 by a function


class StreamLaunch:
    """A launch, for which numbers of warps are compared."""

    def __init__(self, work: Work, costs: Costs = COSTS) -> None:
        self.work, self.traffic, self.costs = work, Traffic(work), costs
        self.programs = 1
        for count in work.grid:
            self.programs *= count

    def registers(self, threads: int) -> float:
        """Of a thread, about: for what is loaded at once, what loops carry, and addresses."""
        each = max(1.0, self.work.largest / threads)
        loaded = max(sum(max(1.0, a.elements / threads) * max(a.size, 2) / 4
                         for a in region.accesses if a.name == "load" and a.elements > 1)
                     for region in self.work.regions)
        carried = max(sum(max(1.0, n / threads) * max(size, 4) / 4 for n, size in region.carried)
                      for region in self.work.regions)
        combined = any(region.combined for region in self.work.regions)
        return 22 + 0.6 * loaded + 1.35 * carried + 0.8 * each + 4 * combined

    def parts(self, warps: int, target: Target) -> tuple[dict[str, float], float]:
        """Cycles of what limits a launch, and how much longer all of it takes."""
        costs, threads = self.costs, _WARP * warps
        registers = self.registers(threads)
        given = max(32, -(-int(registers) // 8) * 8)
        resident = max(1, min(target.blocks_per_multiprocessor,
                              target.threads_per_multiprocessor // threads,
                              target.registers_per_multiprocessor // (given * threads)))
        each = self.programs / target.multiprocessors
        beside = min(resident, max(1.0, each))
        issued = lines = 0.0
        waited = costs.start
        for region in self.work.regions:
            if region.iterations:
                slots, bytes_, cycles = self._iteration(region, warps)
                # A thread computes all its elements as often as the slowest one wants it.
                times = region.iterations * (1.0 if region.known else 1 + costs.uneven * (
                    max(1.0, self.work.largest / threads) - 1))
                issued += times * slots
                lines += times * bytes_
                waited += times * cycles
        second, memory = self.traffic.bytes(costs.near, costs.far, beside,
                                            beside * target.multiprocessors)
        rounds = each / resident
        full = max(1.0, ceil(rounds - 1e-9) if rounds < 4 else rounds + 0.5)
        uneven = ceil(each) / each if each < 4 else 1.0
        few = max(1.0, 1 / each)
        found = {
            "issue": each * uneven * issued / costs.issued * (1 + costs.few / (beside * warps)),
            "lines": each * uneven * lines / costs.lines,
            "second": second / target.multiprocessors / costs.cached,
            "memory": max(memory / target.multiprocessors / costs.delivered,
                          few * second / target.multiprocessors / costs.single),
            "blocks": each * costs.block,
            "waits": full * waited,
        }
        return found, 1 + costs.spilled * max(0.0, registers - costs.fits) / 100

    def microseconds(self, warps: int, target: Target) -> float:
        """How long it takes by blocks of so many warps."""
        parts, longer = self.parts(warps, target)
        norm = self.costs.norm
        cycles: float = sum(part ** norm for part in parts.values()) ** (1 / norm)
        return self.costs.launch + longer * cycles / CLOCK

    def _iteration(self, region: Region, warps: int) -> tuple[float, float, float]:
        """Of a block: slots that it takes, bytes of the first cache, cycles that it waits."""
        costs, threads = self.costs, _WARP * warps
        large = [a for a in region.accesses if 2 * a.elements > self.work.largest]
        wide = max((_width(a, threads) for a in large), default=1.0)
        slots = lines = chain = 0.0
        for elements, weight, index in region.operations:
            if elements == 1:
                slots += warps * weight
                chain += weight / 2
                continue
            each = weight * (costs.indices / wide if index and (
                2 * elements > self.work.largest) else 1.0)
            slots += max(elements / _WARP, warps) * each
            chain += each * max(1.0, elements / threads)
        for access in region.accesses:
            plain = access.name in ("load", "store")
            times = max(access.elements / _WARP / _width(access, threads), warps) if (
                access.elements >= threads) else float(warps)
            slots += times * costs.access * (1 if plain else costs.atomic)
            lines += max(self.traffic.of[id(access)].levels[0], 64 * times) if plain else (
                access.elements * access.valid * 32 * costs.atomic)
        exchanged = 0.0
        for one in region.combined:
            more, cycles = self._exchange(one, warps)
            slots, exchanged = slots + more, exchanged + cycles
        loads = [a for a in region.accesses if a.name == "load"]
        ahead = 1.0 if region.depth == 0 or region.combined else (
            costs.ahead_stores if len(loads) < len(region.accesses) else costs.ahead_sums)
        arriving = 0.0
        if loads:
            arriving = costs.second if all(self._shared(a) for a in loads) else costs.memory
        elif region.accesses and any(a.name not in ("load", "store") for a in region.accesses):
            arriving = costs.memory
        own = chain * max(costs.waits if chain < 8 else 1.0, 0.9 * warps / 4)
        return slots, lines, arriving / max(1.0, min(ahead, region.trips)) + own + exchanged + 8

    def _shared(self, access: Access) -> bool:
        """Whether all programs read the same, which a cache holds."""
        found = self.traffic.of[id(access)]
        return found.shared and found.all < self.costs.far

    def _exchange(self, one: Combined, warps: int) -> tuple[float, float]:
        """Slots and cycles of a reduction or a scan."""
        costs, threads, elements, along = self.costs, _WARP * warps, 1, 1
        for axis, extent in enumerate(one.extents):
            elements *= extent
            along *= extent if axis in one.axes else 1
        kept = max(1.0, elements / along)
        # Threads lie along the axis of memory first, then along others that are kept.
        inner = 1 if one.inner is None else min(threads, max(1, one.extents[one.inner] // one.run))
        if one.inner in one.axes:
            across, lanes = inner, min(_WARP, inner)
        else:
            beside = kept if one.inner is None else inner * kept / one.extents[one.inner]
            across = max(1, min(int(threads / beside), along))
            lanes = min(across, max(1, _WARP // (inner if one.inner is not None else int(kept))))
        warped = max(1, across // lanes)
        values = max(1.0, kept / threads * lanes * warped)
        steps = log2(max(1, lanes))
        slots = max(elements / _WARP, warps) * _COMBINED.get(one.name, 4.0) * one.words
        slots += warps * 2 * steps * values
        cycles = steps * costs.lane * (1 + 0.2 * (values - 1))
        if warped > 1:
            slots += warps * 3 * values
            cycles += costs.barrier + costs.barrier_warp * warps + 2 * values
        return slots, cycles


def _width(access: Access, threads: int) -> float:
    """Elements of one of its instructions."""
    return max(1.0, min(_ACCESS // access.size, access.run, access.elements / threads))

