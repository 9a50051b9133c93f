"""Conversions between layouts: plans move every element right and have no bank conflicts."""

import doctest
import importlib

import pytest
from executed_plan import simulate
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from tritonc.backend.layout.access import (
    bank_conflicts,
    phase_lanes,
    shared_accesses,
    vector_chunks,
)
from tritonc.backend.layout.conversion import Rename, Shared, plan_conversion, plan_shared
from tritonc.backend.layout.shuffle import Shuffle, plan_shuffle
from tritonc.backend.layout.swizzle import conversion_buffer
from tritonc.ir.layouts import f2, layout_ops
from tritonc.ir.layouts.fragment import mma_accumulator, wgmma_a, wgmma_accumulator
from tritonc.ir.layouts.layout import Layout, SharedLayout, blocked
from tritonc.ir.layouts.shared_layout import row_major, tensor_core


@pytest.mark.parametrize("name", ["access", "swizzle", "conversion"])
def test_doctests(name):
    result = doctest.testmod(importlib.import_module(f"tritonc.backend.layout.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def given(*arguments):
    """Hypothesis' `given` with no time limit on each example."""
    return lambda test: settings(max_examples=80, deadline=None)(hypothesis_given(*arguments)(test))


def deal(draw, bits, places, fixed):
    """Put `bits` into `places` zeroed places, in random order; what is left goes to registers."""
    thread = [0] * places
    free = [place for place in range(places) if place not in fixed]
    thread_bits = dict(fixed)
    rest = draw(st.permutations([basis for basis in bits if basis not in fixed.values()]))
    count = draw(st.integers(0, min(len(rest), len(free))))
    for place, basis in zip(draw(st.permutations(free)), rest[:count]):
        thread_bits[place] = basis
    for place, basis in thread_bits.items():
        thread[place] = basis
    register = draw(st.permutations(rest[count:] + [0] * draw(st.integers(0, 1))))
    return tuple(register), tuple(thread[:5]), tuple(thread[5:])


@st.composite
def pairs(draw, within_warps=False):
    """Two layouts of one shape.  `within_warps`: every warp has what it needs."""
    total = draw(st.integers(1, 8))
    warp_bits = draw(st.integers(0, 2))
    rows = draw(st.integers(0, total))
    shape = (1 << rows, 1 << total - rows)
    bits = [1 << i for i in range(total)]
    destination = Layout(shape, *deal(draw, bits, 5 + warp_bits, {}))
    fixed = {}
    if within_warps:
        for place, basis in enumerate(destination.warp, 5):
            fixed[place] = draw(st.sampled_from([0, basis]))
        zero = [place for place, basis in fixed.items() if not basis]
        register, lane, warp = deal(draw, bits, 5, {})
        # Bits fixed to warps must not be anywhere else.
        taken = {basis for basis in fixed.values() if basis}
        keep = [basis for basis in (*register, *lane) if basis in taken]
        register = tuple(basis for basis in register if basis not in keep)
        lane = tuple(0 if basis in keep else basis for basis in lane)
        warp = tuple(0 if place in zero else fixed[place] for place in range(5, 5 + warp_bits))
        return Layout(shape, register, lane, warp), destination
    return Layout(shape, *deal(draw, bits, 5 + warp_bits, {})), destination


def bits_moved(plan):
    """What one store and one load of a conversion move."""
    return [side.vector * plan.element_bits for side, _ in plan.sides]


def held(layout):
    """What each thread holds: [thread][register] -> index of the element."""
    return [
        [
            f2.apply(layout.register, register) ^ f2.apply(layout.thread, thread)
            for register in range(layout.registers)
        ]
        for thread in range(1 << len(layout.thread))
    ]


widths = st.sampled_from([8, 16, 32, 64])


@given(pairs(), st.sampled_from([1, 8, 16, 32, 64]))
def test_plans_move_every_element(pair, element_bits):
    source, destination = pair
    plan = plan_conversion(source, destination, element_bits)
    assert simulate(plan, held(source)) == held(destination)


@given(pairs(within_warps=True), widths)
def test_shuffles_move_every_element(pair, element_bits):
    source, destination = pair
    plan = plan_shuffle(source, destination, element_bits)
    assert plan is not None
    assert simulate(plan, held(source)) == held(destination)
    assert all(len(word) * element_bits <= max(32, element_bits) for word in plan.words)


@given(pairs(), widths, st.sampled_from([None, 1, 64, 256]))
def test_shared_memory_moves_every_element_without_conflicts(pair, element_bits, maximum):
    source, destination = pair
    plan = plan_shared(source, destination, element_bits, maximum)
    assert simulate(plan, held(source)) == held(destination)
    assert [conflicts for _, conflicts in plan.sides] == [1, 1]
    assert plan.bytes * (1 << len(plan.bits)) == source.size * element_bits // 8


@given(pairs())
def test_layouts_are_exchanged_only_in_shared_memory_if_warps_differ(pair):
    source, destination = pair
    warps = zip(source.warp, destination.warp)
    possible = all(was in (0, now) for was, now in warps)
    assert (plan_shuffle(source, destination, 32) is not None) == possible


def test_same_threads_rename():
    source = Layout((128,), (1, 64, 0), (2, 4, 8, 16, 32), (0,))
    destination = Layout((128,), (64, 1), (2, 4, 8, 16, 32), (0,))
    assert plan_conversion(source, destination, 32) == Rename((0, 2, 1, 3))
    assert plan_conversion(source, source, 32) == Rename((0, 1, 2, 3, 0, 1, 2, 3))


def test_one_exchanged_bit_costs_half_the_registers():
    lanes = (8, 16, 32, 64)
    source = Layout((128,), (1, 2), (4, *lanes), ())
    destination = Layout((128,), (4, 2), (1, *lanes), ())
    plan = plan_conversion(source, destination, 32)
    assert isinstance(plan, Shuffle)
    assert (plan.shuffles, plan.selects) == (2, 8)
    halves = plan_conversion(source, destination, 16)
    assert isinstance(halves, Shuffle)
    assert halves.words == ((0, 2), (1, 3))
    assert (halves.shuffles, halves.selects) == (1, 4)


def test_exchange_within_the_same_lane_bit_is_preferred():
    """Lane bit 0 holds copies and could serve, but exchanging in place saves a shuffle."""
    source = Layout((32,), (1,), (0, 2, 4, 8, 16), ())
    plan = plan_shuffle(source, Layout((32,), (2,), (0, 1, 4, 8, 16), ()), 32)
    assert plan is not None
    assert plan.shuffles == 1


def test_a_replicated_source_needs_no_shuffle():
    """All lanes have everything: each picks its own register."""
    source = Layout((32,), (1, 2, 4, 8, 16), (0,) * 5, ())
    plan = plan_conversion(source, Layout((32,), (), (1, 2, 4, 8, 16), ()), 32)
    assert isinstance(plan, Shuffle)
    assert (plan.shuffles, len(plan.rounds)) == (0, 1)


def test_register_chosen_by_the_warp():
    source = Layout((32,), (16,), (1, 2, 4, 8, 0), (0,))
    plan = plan_conversion(source, Layout((32,), (), (1, 2, 4, 8, 0), (16,)), 32)
    assert isinstance(plan, Shuffle)
    assert (plan.shuffles, plan.select_in) == (0, (0, 0, 0, 0, 0, 1))


def test_crossing_without_a_partner_reads_twice():
    """Lane bit 0 goes to the warp, so half of the lanes hold nothing that this warp wants."""
    source = Layout((64,), (32,), (1, 2, 4, 8, 16), (0,))
    destination = Layout((64,), (), (32, 2, 4, 8, 16), (1,))
    plan = plan_shuffle(source, destination, 32)
    assert plan is not None
    assert len(plan.rounds) == 2
    assert simulate(plan, held(source)) == held(destination)


def test_full_transpose_goes_through_shared_memory():
    """32 x 32 in one warp exchanges all five bits: selections would dominate."""
    source = Layout((32, 32), (1, 2, 4, 8, 16), (32, 64, 128, 256, 512), ())
    plan = plan_conversion(source, layout_ops.transpose(source, (1, 0)), 32)
    assert isinstance(plan, Shared)
    assert [conflicts for _, conflicts in plan.sides] == [1, 1]
    assert max(bits_moved(plan)) == 128


wgmma = wgmma_accumulator((128, 256), (2, 1), 256)
wide_rows = blocked((128, 256), (1, 8), (1, 32), (8, 1), (1, 0))
mma = mma_accumulator((128, 128), (2, 4))
rows = blocked((128, 128), (1, 4), (2, 16), (4, 2), (1, 0))
columns = blocked((128, 128), (4, 1), (16, 2), (2, 4), (0, 1))
half_rows = blocked((128, 128), (1, 8), (4, 8), (8, 1), (1, 0))


@pytest.mark.parametrize(
    ("source", "destination", "element_bits", "store_bits", "load_bits"),
    [
        (wgmma, wide_rows, 16, 128, 64),
        (wide_rows, wgmma, 32, 128, 128),
        (mma, rows, 32, 128, 128),
        (rows, columns, 32, 128, 32),
        (half_rows, layout_ops.transpose(half_rows, (1, 0)), 16, 128, 64),
        (half_rows, layout_ops.transpose(half_rows, (1, 0)), 8, 128, 32),
        (mma, columns, 16, 128, 64),
    ],
)
def test_usual_conversions(source, destination, element_bits, store_bits, load_bits):
    plan = plan_conversion(source, destination, element_bits)
    assert isinstance(plan, Shared)
    assert [conflicts for _, conflicts in plan.sides] == [1, 1]
    assert bits_moved(plan) == [store_bits, load_bits]
    assert simulate(plan, held(source)) == held(destination)


def test_wgmma_result_to_operand_is_free():
    result, operand = wgmma_accumulator((64, 128), (1, 1), 128), wgmma_a((64, 128), (1, 1), 16)
    assert plan_conversion(result, operand, 16) == Rename(tuple(range(64)))


def test_repetitions_bound_the_buffer():
    plan = plan_shared(wgmma, wide_rows, 32, maximum_bytes=1 << 16)
    assert plan.bytes <= 1 << 16
    assert len(plan.bits) == 1
    assert simulate(plan, held(wgmma)) == held(wide_rows)


def test_repetitions_spare_the_vectors():
    source = Layout((1024,), (1, 2, 256, 512), (4, 8, 16, 32, 64), (128,))
    destination = Layout((1024,), (512, 1, 2, 256), (4, 8, 16, 32, 128), (64,))
    plan = plan_shared(source, destination, 32, maximum_bytes=1024)
    assert (plan.bytes, (1 << len(plan.bits))) == (1024, 4)
    assert bits_moved(plan) == [128, 128]


def test_a_word_holds_registers_even_if_only_one_side_has_them():
    source = Layout((128,), (64,), (1, 2, 4, 8, 16), (32,))
    destination = Layout((128,), (32,), (1, 2, 4, 8, 16), (64,))
    plan = plan_shared(source, destination, 16)
    assert bits_moved(plan) == [32, 16]


def test_other_shapes_or_warps_are_rejected():
    for other in (rows, blocked((128, 256), (1, 8), (1, 32), (4, 1), (1, 0))):
        with pytest.raises(ValueError, match="no conversion"):
            plan_conversion(wgmma, other, 32)


# ---- accesses ------------------------------------------------------------------------------------


@given(pairs(), widths)
def test_shared_accesses_cover_every_register_at_its_offset(pair, element_bits):
    source, destination = pair
    shared = conversion_buffer(source, destination, element_bits)
    moves = shared_accesses(source, shared, element_bits)
    seen = []
    for access in moves.accesses:
        for i, register in enumerate(access.registers):
            seen.append(register)
            for thread in range(1 << len(source.thread)):
                offset = (f2.apply(moves.thread, thread) ^ access.flip) + access.add + i
                index = f2.apply(source.register, register) ^ f2.apply(source.thread, thread)
                assert offset == shared.offset_of(index)
                assert i or offset % moves.vector == 0
    assert sorted(seen) == list(range(source.registers))


@given(pairs(), widths)
def test_conflicts_of_one_pass_are_those_of_all(pair, element_bits):
    """The short count agrees with one over every pass of every access of every warp."""
    layout, _ = pair
    for shared in (row_major(layout.shape), row_major(layout.shape, (0, 1))):
        moves = shared_accesses(layout, shared, element_bits)
        lanes = 1 << phase_lanes(moves.vector * element_bits)
        size = moves.vector * element_bits // 8
        for access in moves.accesses:
            for first in range(0, 1 << len(layout.thread), lanes):
                words = set()
                for thread in range(first, first + lanes):
                    offset = (f2.apply(moves.thread, thread) ^ access.flip) + access.add
                    start = offset * element_bits // 8
                    words |= {byte // 4 for byte in range(start, start + size)}
                banks = [word % 32 for word in words]
                worst = max(banks.count(bank) for bank in banks)
                assert worst == bank_conflicts(layout, shared, element_bits)


def test_known_conflicts():
    column = Layout((32, 32), (1, 2, 4, 8, 16), (32, 64, 128, 256, 512), ())
    # 16 bytes for 8 lanes at a time, all in the same 4 banks.
    assert bank_conflicts(column, row_major((32, 32)), 32) == 8
    assert bank_conflicts(column, tensor_core((32, 32), (1, 0), 4, 128), 32) == 1
    words = Layout((32, 32), (32, 64, 128, 256, 512), (1, 2, 4, 8, 16), ())
    assert bank_conflicts(words, row_major((32, 32), (0, 1)), 64) == 8
    assert bank_conflicts(column, row_major((32, 32), (0, 1)), 32) == 1
    halves = Layout((8, 64), (1, 2, 4), (8, 16, 32, 64, 128), (256,))
    assert bank_conflicts(halves, tensor_core((8, 64), (1, 0), 2, 128), 16) == 1


def test_accesses_stop_at_a_swizzle():
    """Chunks of 8 bytes are exchanged, so 16 bytes are not in order for every thread."""
    tile = Layout((32, 32), (1, 2, 4, 8, 16), (32, 64, 128, 256, 512), ())
    pairs = SharedLayout((32, 32), (1, 2, 4, 8, 16, 34, 68, 136, 272, 512), 16)
    assert shared_accesses(tile, pairs, 32).vector == 2
    assert shared_accesses(tile, row_major((32, 32)), 32).vector == 4
    with pytest.raises(ValueError, match="does not fit"):
        shared_accesses(tile, row_major((32, 16)), 32)


@given(pairs(), st.sampled_from([0, 1]))
def test_vector_chunks_are_neighbours(pair, axis):
    layout, _ = pair
    width = layout_ops.vector_width(layout, 8, 0, axis=axis)
    chunks = vector_chunks(layout, width, axis)
    assert sorted(r for chunk in chunks for r in chunk) == list(range(layout.registers))
    for chunk in chunks:
        at = [layout.coordinates(layout.at(register)) for register in chunk]
        assert [coordinates[axis] for coordinates in at] == [at[0][axis] + i for i in range(width)]
        assert len({coordinates[1 - axis] for coordinates in at}) == 1
        assert at[0][axis] % width == 0
    once = vector_chunks(layout, width, axis, once=True)
    stored = [layout.at(r) for chunk in once for r in chunk]
    assert len(stored) == len(set(stored)) == layout.registers >> layout.register.count(0)


def test_vector_chunks_wider_than_a_thread_holds():
    with pytest.raises(ValueError, match="no thread holds 2 neighbours"):
        vector_chunks(Layout((32,), (), (1, 2, 4, 8, 16), ()), 2)
