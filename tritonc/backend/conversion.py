"""Planning how a tile changes from one register layout to another.

Both layouts put each bit of an element's index into one bit of the place.  Compare the two places:

* Every lane and warp bit agrees: a thread already has what it needs, in other registers.  `Rename`.

      >>> from tritonc.ir.layout import Layout
      >>> lanes = (4, 8, 16, 32, 64)
      >>> plan_conversion(Layout((128,), (1, 2), lanes, ()), Layout((128,), (2, 1), lanes, ()), 32)
      Rename(sources=(0, 2, 1, 3))

* Every warp bit of the source agrees (or is replicated): the warp has what it needs.  Bits move
  between registers and lanes, `Shuffle`.  One shuffle lets each lane read one register of any lane,
  so the difficulty is a bit that leaves a register for a lane: neighbouring lanes then want
  different registers.  If another bit comes back from that lane's side, the two are exchanged:
  first, each lane permutes its registers by XOR with its own lane bit; then plain shuffles; then
  each lane permutes what it received, again by XOR with a lane bit.  For one exchanged pair that is
  the transposition of 2 x 2 blocks, and half of its shuffles read the own lane, so they vanish.

      >>> plan = plan_conversion(
      ...     Layout((64,), (1,), (2, 4, 8, 16, 32), ()),
      ...     Layout((64,), (2,), (1, 4, 8, 16, 32), ()), 32)
      >>> plan.select_in, plan.rounds, plan.lane, plan.select_out
      ((1, 0, 0, 0, 0), ((0, 0), (1, 1)), (1, 2, 4, 8, 16), (1, 0, 0, 0, 0))

* Otherwise, or where shuffles cost more, through shared memory, `Shared`: store, barrier, load,
  with a swizzle that leaves no bank conflict on either side (`swizzle.py`).

`simulate` executes a plan, as its definition.  Source: the conversions of "Linear Layouts" (Zhou et
al., 2025), where the idea of comparing places comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonc.backend.access import SharedAccesses, bank_conflicts, phase_lanes, shared_accesses
from tritonc.backend.swizzle import conversion_buffer
from tritonc.ir import f2
from tritonc.ir.layout import LANE_BITS, WARP_SIZE, Layout, SharedLayout, axis_bases, log2

BARRIERS_COST = 40
"""Two barriers and the latency of a load, in passes over the banks: an estimate, not measured."""


@dataclass(frozen=True)
class Rename:
    """No data moves: register i of the destination is register `sources[i]` of the source."""

    sources: tuple[int, ...]


@dataclass(frozen=True)
class Shuffle:
    """Data stays in its warp.  Thread bits are numbered lane bits first, then warp bits.

    1. Word w packs the source registers `words[w]` (the first in the lowest bits).
    2. For every thread bit t that is 1: word w becomes word `w ^ select_in[t]`.
    3. Item i is, for `rounds[i] = (word, flip)`, the `word` of lane `L ^ flip` of the same warp,
       where L is the XOR of `lane[t]` over the thread bits t that are 1.
    4. For every thread bit t that is 1: item i becomes item `i ^ select_out[t]`.
    5. Destination register r is element `results[r][1]` of the item `results[r][0]`.
    """

    words: tuple[tuple[int, ...], ...]
    select_in: tuple[int, ...]
    rounds: tuple[tuple[int, int], ...]
    lane: tuple[int, ...]
    select_out: tuple[int, ...]
    results: tuple[tuple[int, int], ...]

    def is_local(self, flip: int) -> bool:
        """Whether a round with that `flip` reads the own lane, so that it needs no instruction."""
        own = tuple(1 << i if i < LANE_BITS else 0 for i in range(len(self.lane)))
        return flip == 0 and self.lane == own

    @property
    def shuffles(self) -> int:
        """The number of 32-bit shuffles (for elements of at most 32 bits)."""
        return sum(not self.is_local(flip) for _, flip in self.rounds)

    @property
    def selects(self) -> int:
        """The number of selections between two words."""
        inward = sum(map(bool, self.select_in)) * len(self.words)
        return inward + sum(map(bool, self.select_out)) * len(self.rounds)


@dataclass(frozen=True)
class Repetition:
    """One use of the buffer: full-tile register numbers of the registers of the part."""

    source: tuple[int, ...]
    destination: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """Through a buffer of `layout` in shared memory, once per repetition.

    A repetition moves a part of the tile: registers r of the part are `repetitions[i].source[r]` of
    the source and `.destination[r]` of the destination.  It stores by `store`, in the threads whose
    number has at the bits of `holders[0]` those of `holders[1 + i]`: no copies, and the part;
    waits for all threads; loads by `load`.  Before the next repetition stores, all threads must
    have loaded.  `bits`: those of the row-major index that number the parts.  `conflicts`: of the
    stores and of the loads, as `bank_conflicts` counts.
    """

    layout: SharedLayout
    element_bits: int
    store: SharedAccesses
    load: SharedAccesses
    holders: tuple[int, ...]
    bits: tuple[int, ...]
    repetitions: tuple[Repetition, ...]
    conflicts: tuple[int, int]

    @property
    def store_vector_bits(self) -> int:
        return self.store.vector * self.element_bits

    @property
    def load_vector_bits(self) -> int:
        return self.load.vector * self.element_bits

    @property
    def bytes(self) -> int:
        """The size of the buffer."""
        return self.layout.size * self.element_bits // 8


Plan = Rename | Shuffle | Shared


def plan_conversion(source: Layout, destination: Layout, element_bits: int) -> Plan:
    """The cheapest way to bring a tile from layout `source` to `destination`.

    `element_bits`: 1 to 64; fewer than 8 travel as 8.
    """
    if source.shape != destination.shape or len(source.warp) != len(destination.warp):
        raise ValueError(f"no conversion from {source} to {destination}: other shape or warps")
    if source.thread == destination.thread:
        return Rename(_renamed(source, destination))
    bits = max(8, element_bits)
    shuffle = plan_shuffle(source, destination, bits)
    if shuffle is not None and shuffle.shuffles == 0:
        return shuffle
    shared = plan_shared(source, destination, bits)
    if shuffle is None or _shuffle_cost(shuffle, bits) > _shared_cost(shared):
        return shared
    return shuffle


def _renamed(source: Layout, destination: Layout) -> tuple[int, ...]:
    place = {basis: 1 << bit for bit, basis in enumerate(source.register) if basis}
    columns = [place.get(basis, 0) for basis in destination.register]
    return tuple(f2.apply(columns, register) for register in range(destination.registers))


def _shuffle_cost(plan: Shuffle, element_bits: int) -> float:
    """In shuffles: those, like passes over the banks, go out one per cycle; selections two."""
    return (plan.shuffles + plan.selects / 2) * max(1, element_bits // 32)


def _shared_cost(plan: Shared) -> float:
    """In passes over the banks."""
    sides = zip((plan.store, plan.load), plan.conflicts)
    transfers = sum(
        len(side.accesses) * (WARP_SIZE >> phase_lanes(side.vector * plan.element_bits)) * conflicts
        for side, conflicts in sides
    )
    return (transfers + BARRIERS_COST) * len(plan.repetitions)


def plan_shuffle(source: Layout, destination: Layout, element_bits: int) -> Shuffle | None:
    """The conversion by shuffles within warps; None if elements must change warps.

    A bit of the index is in a register, a lane or a warp, before and after.  By case:

    - register to register: a constant choice of registers; up to 4 bytes of them pack into a word.
    - lane to lane, lane to warp: the lane to read from depends on the reader's thread number.
    - register to warp: which register a lane offers depends on its warp (`select_in`).
    - lane to register: the lane to read from depends on the round.
    - register to lane: *crossing*.  The lane offers another register depending on a bit of its own
      number (`select_in`), one that the reader can aim at: a bit that would otherwise choose among
      copies, or one that goes from lane to register; then rounds must be reordered afterwards
      (`select_out`).  With neither, both registers are read and one is selected (`select_out`).
    """
    if any(was and was != now for was, now in zip(source.warp, destination.warp)):
        return None
    from_register = {basis: bit for bit, basis in enumerate(source.register) if basis}
    to_register = {basis: bit for bit, basis in enumerate(destination.register) if basis}
    to_thread = {basis: bit for bit, basis in enumerate(destination.thread) if basis}

    stay = [basis for basis in destination.register if basis in from_register]
    packed = stay[: log2(max(1, 32 // element_bits))]
    word_bits = [basis for basis in from_register if basis not in packed]
    item_bits = [basis for basis in to_register if basis not in packed]
    word_bit = {basis: 1 << i for i, basis in enumerate(word_bits)}
    item_bit = {basis: 1 << i for i, basis in enumerate(item_bits)}

    partner, unpaired = _pair_crossings(source, destination)
    lane = [0] * len(source.thread)
    select_in = [0] * len(source.thread)
    select_out = [0] * len(source.thread)
    item_word = [word_bit.get(basis, 0) for basis in item_bits]
    item_flip = [0] * len(item_bits)
    for bit, basis in enumerate(source.lane):
        reader = partner.get(bit)
        if basis in to_register:
            item = item_bits.index(basis)
            item_flip[item] |= 1 << bit
            if reader is not None:
                item_word[item] |= word_bit[destination.lane[reader]]
                select_out[reader] |= 1 << item
        elif basis:
            lane[to_thread[basis]] |= 1 << bit
        elif reader is None:
            lane[bit] |= 1 << bit
        if reader is not None:
            lane[reader] |= 1 << bit
            select_in[bit] |= word_bit[destination.lane[reader]]
    for bit, basis in enumerate(destination.warp, LANE_BITS):
        select_in[bit] |= word_bit.get(basis, 0)
    for reader in unpaired:
        select_out[reader] |= 1 << len(item_word)
        item_word.append(word_bit[destination.lane[reader]])
        item_flip.append(0)

    spread = [1 << from_register[basis] for basis in word_bits]
    within = [1 << from_register[basis] for basis in packed]
    results_item = [item_bit.get(basis, 0) for basis in destination.register]
    results_element = [
        1 << packed.index(basis) if basis in packed else 0 for basis in destination.register
    ]
    return Shuffle(
        words=tuple(
            tuple(f2.apply(spread, word) | f2.apply(within, i) for i in range(1 << len(packed)))
            for word in range(1 << len(word_bits))
        ),
        select_in=tuple(select_in),
        rounds=tuple(
            (f2.apply(item_word, item), f2.apply(item_flip, item))
            for item in range(1 << len(item_word))
        ),
        lane=tuple(lane),
        select_out=tuple(select_out),
        results=tuple(
            (f2.apply(results_item, register), f2.apply(results_element, register))
            for register in range(destination.registers)
        ),
    )


def _pair_crossings(source: Layout, destination: Layout) -> tuple[dict[int, int], list[int]]:
    """For lane bits of the source, the lane bit of the destination that it serves a crossing of.

    Also the crossing lane bits for which no partner was left.
    """
    registers = {basis for basis in source.register if basis}
    crossing = [bit for bit, basis in enumerate(destination.lane) if basis in registers]
    copies = [bit for bit, basis in enumerate(source.lane) if not basis]
    registers = {basis for basis in destination.register if basis}
    leaving = [bit for bit, basis in enumerate(source.lane) if basis in registers]
    # The same bit on both sides is best: then rounds that stay in the lane cost nothing.
    partner = {bit: bit for bit in crossing if bit in copies or bit in leaving}
    rest = [bit for bit in crossing if bit not in partner]
    free = [bit for bit in copies + leaving if bit not in partner]
    partner.update(zip(free, rest))
    return partner, rest[len(free) :]


def plan_shared(
    source: Layout, destination: Layout, element_bits: int, maximum_bytes: int | None = None
) -> Shared:
    """The conversion through shared memory.  Right for any two layouts of one shape.

    `maximum_bytes` bounds the buffer, if there is one, as far as parts can be made that small.
    Parts are numbered by bits that both layouts have in registers; then by others that the
    destination has there, and threads of the source store in turn.
    """
    own = [basis for basis in destination.register if basis]
    left = [basis for basis in own if basis not in source.register]
    left += [basis for basis in source.register if basis in own]
    repeated: list[int] = []
    size = source.size * element_bits // 8
    while maximum_bytes is not None and size >> len(repeated) > maximum_bytes and left:
        repeated.append(left.pop())
    part_source = part_layout(source, repeated)
    part_destination = part_layout(destination, repeated)
    buffer = conversion_buffer(part_source, part_destination, element_bits)
    return Shared(
        layout=buffer,
        element_bits=element_bits,
        store=shared_accesses(part_source, buffer, element_bits, once=True),
        load=shared_accesses(part_destination, buffer, element_bits),
        holders=part_holders(source, repeated),
        bits=tuple(repeated),
        repetitions=tuple(
            Repetition(
                part_registers(source, repeated, index),
                part_registers(destination, repeated, index),
            )
            for index in range(1 << len(repeated))
        ),
        conflicts=(
            bank_conflicts(part_source, buffer, element_bits),
            bank_conflicts(part_destination, buffer, element_bits),
        ),
    )


def part_layout(layout: Layout, removed: Sequence[int]) -> Layout:
    """The layout of one part when bits `removed` of the index number the parts.

    Threads that differ in such a bit hold different parts; seen from one part, they hold copies.
    """
    table: dict[int, int] = {0: 0}
    shape = []
    for axis, extent in enumerate(layout.shape):
        shape.append(extent >> sum(basis in removed for basis in axis_bases(layout.shape, axis)))
    for axis in range(len(shape)):
        kept = [basis for basis in axis_bases(layout.shape, axis) if basis not in removed]
        table.update(zip(kept, axis_bases(shape, axis)))
    return Layout(
        tuple(shape),
        tuple(table[basis] for basis in layout.register if basis not in removed),
        tuple(table.get(basis, 0) for basis in layout.lane),
        tuple(table.get(basis, 0) for basis in layout.warp),
    )


def part_registers(layout: Layout, removed: Sequence[int], index: int) -> tuple[int, ...]:
    """The registers of part `index`, in the order of the part's own registers."""
    kept = [1 << bit for bit, basis in enumerate(layout.register) if basis not in removed]
    fixed = f2.apply(_places(layout.register, removed), index)
    return tuple(fixed | f2.apply(kept, register) for register in range(1 << len(kept)))


def part_holders(layout: Layout, removed: Sequence[int]) -> tuple[int, ...]:
    """Bits of a thread's number, and for each part what they are in threads that hold it first.

    >>> part_holders(Layout((8,), (2,), (1, 0, 4, 0, 0), (0,)), (2, 4))
    (62, 0, 0, 4, 4)
    """
    places = _places(layout.thread, removed)
    copies = layout.replicated_lanes | layout.replicated_warps << LANE_BITS
    return (copies | sum(places), *(f2.apply(places, i) for i in range(1 << len(removed))))


def _places(bases: tuple[int, ...], wanted: Sequence[int]) -> list[int]:
    """For each of `wanted` the bit that has it, as a power of two; 0 if none has."""
    return [1 << bases.index(basis) if basis in bases else 0 for basis in wanted]


def simulate(plan: Plan, values: Sequence[Sequence[int]]) -> list[list[int]]:
    """Execute a plan on `values[thread][register]`; the same of the destination.

    Raises ValueError where a load finds what no thread stored.
    """
    if isinstance(plan, Rename):
        return [[held[source] for source in plan.sources] for held in values]
    if isinstance(plan, Shuffle):
        return _simulate_shuffle(plan, values)
    registers = len(plan.repetitions) * len(plan.repetitions[0].destination)
    result = [[0] * registers for _ in values]
    mask, *holders = plan.holders
    for repetition, holder in zip(plan.repetitions, holders, strict=True):
        memory: dict[int, int] = {}
        for thread, held in enumerate(values):
            if thread & mask == holder:
                for offset, register in _moves(plan.store, thread):
                    memory[offset] = held[repetition.source[register]]
        for thread, held in enumerate(result):
            for offset, register in _moves(plan.load, thread):
                if offset not in memory:
                    raise ValueError(f"offset {offset} is loaded but was not stored")
                held[repetition.destination[register]] = memory[offset]
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
