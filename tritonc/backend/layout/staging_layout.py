"""Layouts of the buffers through which operands of dots go.

On CUDA cores a thread reads nano-tiles along the axis that is not reduced (`staging_layout`);
ldmatrix and wgmma read panels with the 128-byte swizzle (`panel_layout`)."""

from tritonc.backend.layout.access import bank_conflicts
from tritonc.ir.layouts import f2
from tritonc.ir.layouts.layout import Layout, SharedLayout, axis_bases, log2
from tritonc.ir.layouts.shared_layout import BANK_BYTES, BANKS, row_major, tensor_core


def contiguous_axis(layout: Layout) -> int:
    """The axis along which a thread, or else neighbouring lanes, hold neighbours."""
    def run(axis: int) -> tuple[int, bool, int]:
        steps = axis_bases(layout.shape, axis)
        held = 0
        while held < len(steps) and steps[held] in layout.register:
            held += 1
        first_lane = bool(steps[held:]) and steps[held] == layout.lane[0]
        return held, first_lane, axis

    return max(range(len(layout.shape)), key=run)


def panel_layout(layout: Layout, element_bytes: int, inner: int | None = None) -> SharedLayout:
    """The swizzled layout that ldmatrix and wgmma read, contiguous along `inner`, or as loaded."""
    axis = contiguous_axis(layout) if inner is None else inner
    order = (axis, *[d for d in reversed(range(len(layout.shape))) if d != axis])
    row = layout.shape[axis] * element_bytes
    for swizzle in (128, 64, 32):
        if row >= swizzle:
            return tensor_core(layout.shape, order, element_bytes, swizzle)
    if row >= 16:
        return tensor_core(layout.shape, order, element_bytes, 0)
    return row_major(layout.shape, order)


def staging_layout(layout: Layout, axis: int, element_bytes: int) -> SharedLayout:
    """A shared layout with `axis` contiguous, free of bank conflicts for stores from `layout`.

    Reads take 16 bytes along `axis` at one position of the others, which the compiler knows: so an
    XOR with bits of that position keeps the words whole, and inside a word it permutes elements in
    a way known to the compiler.  The bank bits that no lane reaches by its steps along
    `axis` are given, by XOR, to lanes that step along the other axes.

    >>> from tritonc.ir.layouts.layout import Layout
    >>> k_contiguous = Layout((32, 16), (1, 2), (4, 8, 16, 32, 64), (128, 256))
    >>> staging_layout(k_contiguous, 0, 4).index[:4]      # k steps 1, 2 as they are; 4, 8 swizzled
    (32, 64, 136, 272)
    """
    extents = layout.shape
    axis %= len(extents)
    order = (axis, *[d for d in reversed(range(len(extents))) if d != axis])
    plain = row_major(extents, order)
    if bank_conflicts(layout, plain, 8 * element_bytes) == 1:
        return plain
    index = list(plain.index)
    along = axis_bases(extents, axis)
    reached = {log2(plain.offset_of(basis)) for basis in layout.lane if basis in along}
    free = [bit for bit in range(log2(max(1, BANK_BYTES // element_bytes)),
                                 min(log2(BANKS * BANK_BYTES // element_bytes), len(along)))
            if bit not in reached]
    for basis in layout.lane:
        if basis and basis not in along and free:
            index[log2(basis)] ^= 1 << free.pop(0)
    swizzled = SharedLayout(extents, f2.inverse(tuple(index)), plain.alignment)
    return min(plain, swizzled, key=lambda s: bank_conflicts(layout, s, 8 * element_bytes))
