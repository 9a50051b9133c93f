"""Changing the layout of a tile by shuffles within warps.

Bits of an element's index move between registers and lanes.  One shuffle lets each lane read one
register of any lane, so the difficulty is a bit that leaves a register for a lane: neighbouring
lanes then want different registers.  If another bit comes back from that lane's side, the two are
exchanged: first, each lane permutes its registers by XOR with its own lane bit; then shuffles; then
each lane permutes what it received, again by XOR with a lane bit.  For one exchanged pair that is
the transposition of 2 x 2 blocks, and half of its shuffles read the own lane, so they vanish.

    >>> plan = plan_shuffle(
    ...     Layout((64,), (1,), (2, 4, 8, 16, 32), ()),
    ...     Layout((64,), (2,), (1, 4, 8, 16, 32), ()), 32)
    >>> plan.select_in, plan.rounds, plan.lane, plan.select_out
    ((1, 0, 0, 0, 0), ((0, 0), (1, 1)), (1, 2, 4, 8, 16), (1, 0, 0, 0, 0))
"""

from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import LANE_BITS, Layout, log2
from tritonc.records import NamedTuple


class Shuffle(NamedTuple):
    """Data stays in its warp.  Thread bits are numbered lane bits first, then warp bits.

    1. Word w packs the source registers `words[w]` (the first in the lowest bits).
    2. For every thread bit t that is 1: word w becomes word `w ^ select_in[t]`.
    3. Item i is, for `rounds[i] = (word, flip)`, the `word` of lane `L ^ flip` of the same warp,
       where L is the XOR of `lane[t]` over the thread bits t that are 1.
    4. For every thread bit t that is 1: item i becomes item `i ^ select_out[t]`.
    5. Destination register r is element `results[r][1]` of the item `results[r][0]`."""

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
        inward = sum(map(bool, self.select_in)) * len(self.words)
        return inward + sum(map(bool, self.select_out)) * len(self.rounds)


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
        1 << packed.index(basis) if basis in packed else 0 for basis in destination.register]
    return Shuffle(
        words=tuple(
            tuple(f2.apply(spread, word) | f2.apply(within, i) for i in range(1 << len(packed)))
            for word in range(1 << len(word_bits))),
        select_in=tuple(select_in),
        rounds=tuple(
            (f2.apply(item_word, item), f2.apply(item_flip, item))
            for item in range(1 << len(item_word))),
        lane=tuple(lane),
        select_out=tuple(select_out),
        results=tuple(
            (f2.apply(results_item, register), f2.apply(results_element, register))
            for register in range(destination.registers)))


def _pair_crossings(source: Layout, destination: Layout) -> tuple[dict[int, int], list[int]]:
    """For lane bits of the source, the lane bit of the destination that it serves a crossing of.

    Also the crossing lane bits for which no partner was left."""
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
