"""The axes of a reduction, cut into runs of bits that lie in warps and runs that do not."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from tritonc.ir.layout import Layout, axis_bases


def split_axes(layout: Layout, axes: tuple[int, ...], distant: tuple[int, ...]) -> tuple[
        tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Split each reduced axis into runs of bits that are `distant`, as those of warps, and others.

    Returns the new shape, its reduced axes that are not distant, and those that are.
    """
    shape: list[int] = []
    inside: list[int] = []
    across: list[int] = []
    for axis, extent in enumerate(layout.shape):
        if axis not in axes:
            shape.append(extent)
            continue
        runs: list[tuple[bool, int]] = []  # from the highest bit: distant?, extent
        for basis in reversed(axis_bases(layout.shape, axis)):
            far = basis in distant
            if runs and runs[-1][0] == far:
                runs[-1] = (far, runs[-1][1] * 2)
            else:
                runs.append((far, 2))
        for far, size in runs or [(False, 1)]:
            (across if far else inside).append(len(shape))
            shape.append(size)
    assert prod(shape) == layout.size
    return tuple(shape), tuple(inside), tuple(across)


def into_registers(layout: Layout, axes: Collection[int]) -> Layout:
    """The layout with the bits of `axes` in registers; the warps that held them hold copies."""
    moved = [basis for axis in axes for basis in axis_bases(layout.shape, axis)]
    warp = tuple(0 if basis in moved else basis for basis in layout.warp)
    return Layout(layout.shape, (*layout.register, *moved), layout.lane, warp)
