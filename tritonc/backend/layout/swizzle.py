"""The buffer in shared memory through which a tile changes layout, without bank conflicts.

One side writes the buffer in its layout, the other reads it in its own.  The offset of an element
is made of three groups of bits, from the lowest: the bits of a *vector*, which one access moves;
the other bits within 128 bytes, which say the *bank*; and the *segment*, which does not matter to
the banks.  Each group belongs to some bits, or sums of bits, of the element's index: choosing them
is choosing the swizzle.

Take one pass of one side over the banks: the index bits that vary in it are those of the access's
vector and of the low lane bits (all five for accesses of 4 bytes, three for 16 bytes).  Call that
set P for the side that writes and Q for the one that reads; leave out the bits within a 4-byte
word, W, as lanes that share a word never conflict.  Two of the elements are in the same bank but in
different words exactly if they differ by a vector of the space that the segments step through.  So:

    no conflicts  <=>  span(segment) meets span(P + W) and span(Q + W) only in 0.

The segment needs D - n dimensions, of D index bits with n inside 128 bytes.  Take first the bits
outside W, P and Q; then pairs p ^ q of p only in P and q only in Q.  No sum of those lies in either
span.  They number D - |W| - max(|P|, |Q|), at least D - n since |W| + |P| <= n.  So it always works
out, and the pairs are the XOR swizzle.

Vectors must be exact: a vector bit in a pair would reorder the elements within a vector depending
on the thread.  Hence vector bits beyond a word must be in both P and Q: register bits of both
sides, or of one side and among the low lane bits of the other.

A transpose, for example, of 32 x 32 words: the side that writes has rows in its registers and
columns in its lanes, the side that reads the opposite.  Rows 1 and 2 make the vector (16 bytes to
write, and lanes of the side that reads); then banks by column, and further rows in the segment, of
which three are XORed with a column.

    >>> from tritonc.ir.layouts.layout import Layout
    >>> stores = Layout((32, 32), (32, 64, 128, 256, 512), (1, 2, 4, 8, 16), ())
    >>> loads = Layout((32, 32), (1, 2, 4, 8, 16), (32, 64, 128, 256, 512), ())
    >>> conversion_buffer(stores, loads, 32).offset
    (32, 64, 1, 2, 4, 8, 16, 129, 258, 516)
"""

from tritonc.backend.layout.access import VECTOR_BITS, phase_lanes
from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import Layout, SharedLayout, log2
from tritonc.ir.layouts.shared_layout import BANK_BYTES, BANKS

WORD_BITS = 8 * BANK_BYTES


def vector_bases(source: Layout, destination: Layout, element_bits: int) -> list[int]:
    """The index bits that the lowest offset bits of the buffer should be, for wide accesses.

    First the registers that both sides have, up to 16 bytes.  Then either side may widen its own
    accesses by more of its registers; the choice that leaves the fewest accesses wins."""
    limit = log2(VECTOR_BITS // element_bits)
    common = [b for b in source.register if b and b in destination.register][:limit]
    wide_store = _widen(common, source, destination, element_bits, limit)
    wide_load = _widen(common, destination, source, element_bits, limit)

    stores = (source.registers >> len(wide_store)) + (destination.registers >> len(common))
    loads = (source.registers >> len(common)) + (destination.registers >> len(wide_load))
    return wide_store if stores <= loads else wide_load


def _widen(common: list[int], wide: Layout, narrow: Layout, element_bits: int,
           limit: int) -> list[int]:
    """`common`, then register bits of `wide` that cost `narrow` no conflict."""
    lanes = narrow.lane[: phase_lanes(element_bits << len(common))]
    rest = [basis for basis in wide.register if basis and basis not in common]
    anywhere = [basis for basis in rest if basis not in lanes]
    # Within a word any bit will do: keep those of the other side's lanes for beyond.
    inside = max(0, _word(element_bits) - len(common))
    return (common + anywhere[:inside] + [basis for basis in rest if basis in lanes])[:limit]


def _word(element_bits: int) -> int:
    """The number of offset bits within a word of a bank."""
    return log2(max(1, WORD_BITS // element_bits))


def conversion_buffer(source: Layout, destination: Layout, element_bits: int) -> SharedLayout:
    """The layout of a buffer that `source` stores to and `destination` loads from.

    `element_bits`: 8, 16, 32 or 64."""
    bits = log2(source.size)
    units = [1 << i for i in range(bits)]
    vector = vector_bases(source, destination, element_bits)
    word = min(_word(element_bits), bits)
    if len(vector) < word:
        vector += [unit for unit in units if unit not in vector][: word - len(vector)]
    within = vector[:word]
    storing = _pass(source, vector, element_bits, within)
    loading = _pass(destination, vector, element_bits, within)

    taken = {*within, *storing, *loading}
    segment = [unit for unit in units if unit not in taken]
    segment += [
        p ^ q
        for p, q in zip(
            [basis for basis in storing if basis not in loading],
            [basis for basis in loading if basis not in storing])]
    inside = min(bits, log2(8 * BANKS * BANK_BYTES // element_bits))
    segment = segment[: bits - inside]
    span = f2.Subspace(segment + vector)
    bank = [unit for unit in storing + loading + units if span.add(unit)]
    return SharedLayout(source.shape, (*vector, *bank, *segment))


def _pass(layout: Layout, vector: list[int], element_bits: int, within: list[int]) -> list[int]:
    """The index bits, beyond a word, that vary in one pass of this side's accesses."""
    own = []
    for basis in vector:
        if basis not in layout.register:
            break
        own.append(basis)
    # Lanes that read the same share their pass with further ones.
    lanes = [basis for basis in layout.lane if basis]
    lanes = lanes[: phase_lanes(element_bits << len(own))]
    varying = own + [basis for basis in lanes if basis not in own]
    return [basis for basis in varying if basis not in within]
