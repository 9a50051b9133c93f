"""Layouts: the maps, their text, operations on shapes, fragments and layouts of shared memory."""

import doctest
import importlib
import itertools

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from tritonc.ir.layouts import f2, layout_ops
from tritonc.ir.layouts.fragment import (
    a_fragment,
    accumulator_fragment,
    b_fragment,
    instances,
    mma_a,
    mma_accumulator,
    mma_b,
    tile,
    wgmma_a,
    wgmma_accumulator,
)
from tritonc.ir.layouts.layout import (
    Layout,
    SharedLayout,
    blocked,
    coordinates,
    parse_layout,
    parse_shared_layout,
)
from tritonc.ir.layouts.shared_layout import row_major, tensor_core


@pytest.mark.parametrize("name", ["f2", "layout", "layout_ops", "fragment", "shared_layout"])
def test_doctests(name):
    result = doctest.testmod(importlib.import_module(f"tritonc.ir.layouts.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@st.composite
def layouts(draw, rank=2, warp_bits=None):
    """Any layout: the bits of a random shape dealt to registers, lanes and warps, with copies."""
    shape = tuple(1 << draw(st.integers(0, 7 // rank)) for _ in range(rank))
    bits = [1 << i for i in range(sum(extent.bit_length() - 1 for extent in shape))]
    bits = draw(st.permutations(bits))
    if warp_bits is None:
        warp_bits = draw(st.integers(0, 2))
    places = draw(st.permutations(range(5 + warp_bits)))
    count = draw(st.integers(0, min(len(bits), len(places))))
    thread = [0] * len(places)
    for place, basis in zip(places, bits[:count]):
        thread[place] = basis
    register = draw(st.permutations(bits[count:] + [0] * draw(st.integers(0, 1))))
    return Layout(shape, tuple(register), tuple(thread[:5]), tuple(thread[5:]))


def elements(layout):
    """What every place holds: {(register, lane, warp): coordinates}."""
    at = [layout.coordinates(index) for index in range(layout.size)]
    return {
        (register, lane, warp): at[first ^ second ^ third]
        for register, first in enumerate(sums(layout.register))
        for lane, second in enumerate(sums(layout.lane))
        for warp, third in enumerate(sums(layout.warp))
    }


def sums(bases):
    """The XOR of every choice of `bases`, by mask: what `Layout.at` is to compute."""
    result = [0]
    for basis in bases:
        result += [value ^ basis for value in result]
    return result


def given(*arguments):
    """Hypothesis' `given`, with few examples and no time limit on each."""
    return lambda test: settings(max_examples=40, deadline=None)(hypothesis_given(*arguments)(test))


def rejected(match, make, *arguments):
    with pytest.raises(ValueError, match=match):
        make(*arguments)


# ---- F2 ------------------------------------------------------------------------------------------

matrices = st.integers(1, 7).flatmap(
    lambda n: st.lists(st.integers(0, (1 << n) - 1), min_size=n, max_size=n)
)


@given(matrices)
def test_rank_counts_the_image(columns):
    image = {f2.apply(columns, x) for x in range(1 << len(columns))}
    assert len(image) == 1 << f2.rank(columns)


@given(matrices, st.integers(0, 127))
def test_solve_finds_what_exists(columns, right):
    solution = f2.solve(columns, right)
    image = {f2.apply(columns, x) for x in range(1 << len(columns))}
    assert (solution is not None) == (right in image)
    assert (right in f2.Subspace(columns)) == (right in image)
    if solution is not None:
        assert f2.apply(columns, solution) == right


@given(matrices)
def test_inverse_undoes(columns):
    if f2.rank(columns) < len(columns):
        rejected("no inverse", f2.inverse, columns)
    else:
        unit = tuple(1 << i for i in range(len(columns)))
        assert f2.compose(columns, f2.inverse(columns)) == unit
        assert f2.compose(f2.inverse(columns), columns) == unit


# ---- the class -----------------------------------------------------------------------------------


def test_invalid_layouts_are_rejected():
    lane = (1, 2, 4, 8, 16)
    rejected("not a power of two", Layout, (3,), (), (1, 2, 0, 0, 0), ())
    rejected("5 lane bits", Layout, (2,), (), (1,), ())
    rejected("is not 0 or a power of two", Layout, (64,), (33,), lane, ())
    rejected("below the size", Layout, (32,), (32,), lane, ())
    rejected("below the size", Layout, (32,), (-1,), lane, ())
    rejected("twice", Layout, (32,), (1,), lane, ())
    rejected("index bits 32", Layout, (64,), (), lane, ())


@given(layouts())
def test_at_is_the_sum_of_the_bases(layout):
    for place, at in elements(layout).items():
        assert layout.coordinates(layout.at(*place)) == at


@given(layouts())
def test_every_element_is_held_equally_often(layout):
    held = [layout.at(*place) for place in elements(layout)]
    copies = {held.count(index) for index in range(layout.size)}
    masks = layout.replicated_registers, layout.replicated_lanes, layout.replicated_warps
    assert copies == {1 << sum(mask.bit_count() for mask in masks)}
    once = [
        layout.at(*place)
        for place in elements(layout)
        if not any(number & mask for number, mask in zip(place, masks))
    ]
    assert sorted(once) == list(range(layout.size))


@given(layouts())
def test_text_round_trip(layout):
    assert parse_layout(str(layout)) == layout
    assert str(parse_layout(str(layout))) == str(layout)


def test_text_of_other_things_is_rejected():
    for text in ("", "#layout<>", "#layout<shape=[2 2], register=[], lane=[1], warp=[]>"):
        rejected("not a layout", parse_layout, text)
        rejected("not a layout of shared", parse_shared_layout, text)
    rejected("twice", parse_layout, "#layout<shape=[2], register=[1,1], lane=[0,0,0,0,0], warp=[]>")


def test_blocked_is_the_papers_hierarchy():
    """Element n of a thread lies at thread * nano + (n / nano) * (nano * threads) + n % nano."""
    layout = blocked((64, 128), (2, 4), (4, 8), (2, 2), order=(1, 0))
    for (register, lane, warp), (row, column) in elements(layout).items():
        n_column = register % 4 + 4 * (register >> 3 & 1)
        n_row = register >> 2 & 1 | (register >> 4) << 1
        t_column = lane % 8 + 8 * (warp % 2)
        t_row = lane // 8 + 4 * (warp // 2)
        assert column == t_column * 4 + (n_column // 4) * (4 * 16) + n_column % 4
        assert row == t_row * 2 + (n_row // 2) * (2 * 8) + n_row % 2


def test_blocked_replicates_what_exceeds_the_tile():
    layout = blocked((2, 4), (1, 8), (4, 8), (2, 1), order=(1, 0))
    assert layout.register == (1, 2)
    assert (layout.lane, layout.warp) == ((0, 0, 0, 4, 0), (0,))
    rejected("is not 32 threads", blocked, (64,), (1,), (16,), (1,), (0,))
    rejected("does not permute", blocked, (8, 8), (1, 1), (8, 4), (1, 1), (0, 0))


# ---- operations on shapes ------------------------------------------------------------------------


@given(layouts(rank=3), st.permutations(range(3)))
def test_transpose_renames_coordinates(layout, permutation):
    before, after = elements(layout), elements(layout_ops.transpose(layout, permutation))
    assert all(
        after[place] == tuple(at[axis] for axis in permutation) for place, at in before.items()
    )
    rejected("does not permute", layout_ops.transpose, layout, (0, 0, 1))


@given(layouts())
def test_reshape_keeps_elements(layout):
    before = elements(layout)
    flat = layout_ops.reshape(layout, (layout.size,))
    assert all(flat.at(*place) == layout.at(*place) for place in before)
    rejected("sizes differ", layout_ops.reshape, layout, (2 * layout.size,))


@given(layouts(rank=3), st.sets(st.integers(0, 2), min_size=1))
def test_reduction_plan_sums_every_element_once(layout, axes):
    """Folding groups, then exchanging the lanes and warps of the plan, reduces each row."""
    plan = layout_ops.reduction(layout, axes)
    result = layout_ops.slice_axes(layout, axes)
    assert len(plan.groups) == result.registers
    lanes = sums([1 << bit for bit in plan.lane])
    warps = sums([1 << bit for bit in plan.warp])
    kept = [axis for axis in range(3) if axis not in axes]
    for register, lane, warp in itertools.product(
        range(result.registers), range(32), range(layout.num_warps)
    ):
        group = plan.groups[register]
        assert [layout.at(r) for r in group] == sorted(layout.at(r) for r in group)
        folded = [
            layout.coordinates(layout.at(r, lane ^ dl, warp ^ dw))
            for dw in warps
            for dl in lanes
            for r in group
        ]
        row = result.coordinates(result.at(register, lane, warp))
        assert {tuple(at[axis] for axis in kept) for at in folded} == {row}
        assert len(folded) == len(set(folded)) == layout.size // result.size


def test_reduction_of_a_wgmma_accumulator():
    accumulator = wgmma_accumulator((64, 256), (1, 1), 256)
    rows = layout_ops.reduction(accumulator, (1,))
    assert (rows.lane, rows.warp, len(rows.groups), len(rows.groups[0])) == ((0, 1), (), 2, 64)
    columns = layout_ops.reduction(accumulator, (-2,))
    assert (columns.lane, columns.warp, len(columns.groups)) == ((2, 3, 4), (0, 1), 64)
    rejected("has no axis", layout_ops.reduction, accumulator, (2,))
    rejected("has no axis", layout_ops.slice_axes, accumulator, (-3,))


def test_vector_width():
    layout = Layout((8, 256), (1, 2, 4, 8), (16, 32, 64, 128, 256), (512, 1024))
    assert layout_ops.vector_width(layout, 16, 0) == 8
    assert layout_ops.vector_width(layout, 8, 0) == 16
    assert layout_ops.vector_width(layout, 16, 12) == 4
    assert layout_ops.vector_width(layout, 16, 1) == 1
    assert layout_ops.vector_width(layout, 16, 0, axis=0) == 1
    # Rows of 4: the next register is contiguous in the tile but not along the axis.
    narrow = Layout((64, 4), (1, 2, 4), (8, 16, 32, 64, 128), ())
    assert layout_ops.vector_width(narrow, 8, 0) == 4
    assert layout_ops.vector_width(Layout((), (), (0,) * 5, ()), 8, 0) == 1


# ---- fragments -----------------------------------------------------------------------------------


def mma_positions(kind, element_bits, depth, lane, register):
    """Coordinates as the PTX ISA writes them, with groupID and threadID_in_group."""
    group, thread = lane >> 2, lane % 4
    packed = max(1, 32 // element_bits)
    word, inside = divmod(register, packed)
    if kind == "a":
        return group + 8 * (word % 2), thread * packed + inside + 4 * packed * (word // 2)
    if kind == "b":
        return thread * packed + inside + 4 * packed * word, group
    return group + 8 * (register // 2 % 2), 2 * thread + register % 2


@pytest.mark.parametrize(
    ("element_bits", "depth"), [(16, 8), (16, 16), (32, 4), (32, 8), (8, 16), (8, 32)]
)
def test_mma_fragments(element_bits, depth):
    for kind, layout in (
        ("a", a_fragment(16, depth, element_bits)),
        ("b", b_fragment(depth, element_bits)),
        ("d", accumulator_fragment(16, 8)),
    ):
        for (register, lane, _), at in elements(layout).items():
            assert at == mma_positions(kind, element_bits, depth, lane, register)


def test_small_and_wide_fragments():
    assert a_fragment(8, 16, 8) == Layout((8, 16), (1, 2), (4, 8, 16, 32, 64), ())
    assert a_fragment(8, 4, 64) == Layout((8, 4), (), (1, 2, 4, 8, 16), ())
    assert b_fragment(4, 64) == Layout((4, 8), (), (8, 16, 1, 2, 4), ())
    assert accumulator_fragment(8, 8) == Layout((8, 8), (1,), (2, 4, 8, 16, 32), ())
    rejected("no fragment", a_fragment, 16, 4, 16)
    rejected("no fragment", b_fragment, 4, 16)
    rejected("12 rows", accumulator_fragment, 12, 8)
    rejected("4 columns", accumulator_fragment, 16, 4)


def test_wgmma_accumulator():
    """Row 16 w + lane / 4 (+ 8), register 4 (n / 8) + 2 (m / 8 % 2) + n % 2."""
    layout = wgmma_accumulator((128, 128), (2, 1), 128)
    for (register, lane, warp), (m, n) in elements(layout).items():
        assert m == 64 * (warp // 4) + 16 * (warp % 4) + lane // 4 + 8 * (register // 2 % 2)
        assert n == 8 * (register // 4) + 2 * (lane % 4) + register % 2


def test_wgmma_result_is_the_next_a_operand():
    """Registers 8 t .. 8 t + 7 of D are the operand of step t: no data moves."""
    result = wgmma_accumulator((64, 64), (1, 1), 64)
    operand = wgmma_a((64, 64), (1, 1), 16)
    assert result == operand


@pytest.mark.parametrize("warps", [(1, 1), (4, 1), (2, 2), (1, 8)])
@pytest.mark.parametrize("warp_tile", [None, (32, 16)])
def test_operands_of_one_dot_agree(warps, warp_tile):
    """Each accumulator of a warp finds its row of A and column of B in the same warp."""
    m, n, k = 64, 64, 32
    warp_rows, warp_columns = warp_tile or (0, 0)
    d = mma_accumulator((m, n), warps, warp_tile=warp_tile)
    a = mma_a((m, k), warps, 16, 16, warp_rows=warp_rows)
    b = mma_b((k, n), warps, 16, 16, warp_columns=warp_columns)
    fragments = a_fragment(16, 16, 16), b_fragment(16, 16), accumulator_fragment(16, 8)
    a_of = dict(instances(a, fragments[0]))
    b_of = dict(instances(b, fragments[1]))
    done = 0
    for (row, column), registers in instances(d, fragments[2]):
        for step in range(0, k, 16):
            for warp in range(d.num_warps):
                (d_row, d_column), (a_row, a_step), (b_step, b_column) = (
                    layout.coordinates(layout.at(register[0], 0, warp))
                    for layout, register in (
                        (d, registers),
                        (a, a_of[row, step]),
                        (b, b_of[step, column]),
                    )
                )
                assert (d_row, d_column) == (a_row, b_column)
                assert a_step == b_step == step
                done += 1
    assert done * 16 * 8 * 16 >= m * n * k


def test_tile_smaller_than_the_fragment_replicates():
    layout = tile(accumulator_fragment(16, 8), (4, 8), [(0, 2)])
    assert layout == Layout((4, 8), (1, 0), (2, 4, 8, 16, 0), (0,))


# ---- shared memory -------------------------------------------------------------------------------


def test_invalid_shared_layouts_are_rejected():
    rejected("do not fit", SharedLayout, (4,), (1,))
    rejected("do not fit", SharedLayout, (4,), (1, 4))
    rejected("not independent", SharedLayout, (4,), (1, 1))
    rejected("not a power of two", SharedLayout, (4,), (1, 2), 12)


def test_shared_layout_inverse_and_text():
    layout = tensor_core((16, 64), (1, 0), 2, 128)
    assert all(layout.at(layout.offset_of(index)) == index for index in range(layout.size))
    assert sorted(layout.offset_of(index) for index in range(layout.size)) == list(range(1024))
    assert parse_shared_layout(str(layout)) == layout


def test_row_major_orders():
    assert row_major((4, 8)).offset_of(9) == 9
    assert row_major((4, 8), (0, 1)).offset_of(8 * 1 + 3) == 3 * 4 + 1
    rejected("does not permute", row_major, (4, 8), (0, 0))


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("swizzle_bytes", [128, 64, 32, 0])
@pytest.mark.parametrize("k_major", [True, False])
def test_tensor_core_layouts_are_the_canonical_ones(element_bytes, swizzle_bytes, k_major):
    """Byte offsets as wgmma's descriptors expect them, with the XOR on the byte address."""
    mn_extent, k_extent = (32, 256) if k_major else (256, 32)
    layout = tensor_core(
        (mn_extent, k_extent), (1, 0) if k_major else (0, 1), element_bytes, swizzle_bytes
    )
    s = swizzle_bytes
    for index in range(layout.size):
        mn, k = coordinates(layout.shape, index)
        if k_major:
            kb = k * element_bytes
            if s:
                offset = (kb // s) * (mn_extent * s) + mn * s + kb % s
            else:
                offset = (
                    (kb // 16) * (mn_extent * 16) + (mn // 8) * 128 + (mn % 8) * 16 + kb % 16
                )
        else:
            mb = mn * element_bytes
            if s:
                offset = (mb // s) * (k_extent * s) + k * s + mb % s
            else:
                offset = (mb // 16) * (k_extent * 16) + k * 16 + mb % 16
        if s:
            offset ^= ((offset >> 7) & (s // 16 - 1)) << 4
        assert layout.offset_of(index) * element_bytes == offset
    assert layout.alignment == 8 * max(16, s)


def test_tensor_core_with_stages_outermost():
    one = tensor_core((16, 64), (1, 0), 2, 128)
    both = tensor_core((2, 16, 64), (2, 1, 0), 2, 128)
    assert all(both.offset_of(i) == one.offset_of(i) for i in range(1024))
    assert all(both.offset_of(1024 + i) == 1024 + one.offset_of(i) for i in range(1024))
    rejected("not a panel", tensor_core, (16, 32), (1, 0), 2, 128)
    rejected("no swizzle of 16", tensor_core, (16, 64), (1, 0), 2, 16)
