"""Conversions between random layouts, gathers, and dots of every type: emitted code that runs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from machine_programs import execute, ptx
from programs import PTXAS, ptxas
from sketch import Program, Sketch, context, same
from test_backend_passes import lowered
from test_emit_elementwise import numbers

from tritonc.backend.layout.conversion import Rename, Shared, plan_conversion
from tritonc.backend.layout.lower_conversions import lower_conversions
from tritonc.backend.layout.shift import plan_shift
from tritonc.backend.shared.allocate_shared import allocate_shared
from tritonc.backend.shared.insert_barriers import insert_barriers
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    TF32,
    Pointer,
    Scalar,
    Tile,
)


def random_layout(choose: random.Random, bits: int, warp_bits: int) -> Layout:
    """The index bits dealt out to registers, lanes and warps, some of which hold copies."""
    places = [*(("lane", i) for i in range(5)), *(("warp", i) for i in range(warp_bits)),
              *(("register", i) for i in range(bits))]
    taken = dict(zip(choose.sample(places, bits), (1 << i for i in range(bits)), strict=True))
    register = [taken[place] for place in taken if place[0] == "register"]
    if choose.random() < 0.2:
        register.insert(choose.randrange(len(register) + 1), 0)
    return Layout((1 << bits,), tuple(register),
                  tuple(taken.get(("lane", i), 0) for i in range(5)),
                  tuple(taken.get(("warp", i), 0) for i in range(warp_bits)))


def conversion(e: Scalar, source: Layout, destination: Layout, limit: int | None = None,
               **more: bool) -> Program:
    """out[i] = x[i], read in one layout and written in another; `limit`: bytes of shared memory."""
    k = Sketch("k", source.num_warps)
    n = source.size
    x = k.pointer("x", e, np.resize(numbers(e), n))
    out = k.pointer("out", e, np.zeros(n, register_dtype(e)))

    def pointers(base: object, layout: Layout) -> object:
        r = k.build.value("range", type=Tile(I32, (n,), layout), start=0, stop=n)
        spread = k.build.value("splat", base, type=Tile(Pointer(e), (n,), layout))
        return k.addptr(spread, r)

    moved = k.convert_layout(k.load(pointers(x, source)), type=Tile(e, (n,), destination), **more)
    k.store(pointers(out, destination), moved)
    program = k.done()
    settings = context()
    if limit is not None:
        settings.target = settings.target._replace(shared_per_block=limit)
    for function in (lower_conversions, allocate_shared, insert_barriers):
        function(program.kernel, settings)
    return program


@pytest.mark.parametrize("e", [I1, I8, F16, F32, I64], ids=str)
@pytest.mark.parametrize("seed", range(16))
def test_conversions(seed: int, e: Scalar) -> None:
    choose = random.Random(seed)
    bits, warp_bits = choose.randint(3, 9), choose.randint(0, 2)
    source = random_layout(choose, bits, warp_bits)
    destination = random_layout(choose, bits, warp_bits)
    if seed % 2:  # more that stay in their warp
        destination = Layout(source.shape, *shuffled(choose, source), source.warp)
    program = conversion(e, source, destination)
    same(program.run(), execute(program))


@pytest.mark.parametrize("e", [I1, I8, F32, I64], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_a_conversion_that_does_not_fit_goes_part_by_part(seed: int, e: Scalar) -> None:
    """Two register bits of both sides number four parts, each a quarter of shared memory."""
    choose = random.Random(seed)
    bits = [1 << i for i in range(9)]
    choose.shuffle(bits)
    kept, lanes, (one, other) = bits[:2], bits[2:7], bits[7:]
    source = Layout((512,), (*kept, one), tuple(lanes), (other,))
    destination = Layout((512,), (*reversed(kept), lanes[0]), (*lanes[1:], other), (one,))
    size = 512 * max(e.bits // 8, 1)
    program = conversion(e, source, destination, size // 2)
    names = [op.name for op in program.kernel.ops()]
    assert names.count("shared_store") == 4 and names.count("join_parts") == 1
    assert program.kernel.attributes["shared_bytes"] == size // 4
    same(program.run(), execute(program))


@pytest.mark.parametrize("taken", [(2, 3), (7, 8), (1, 8)], ids=["lanes", "warps", "all"])
def test_threads_of_the_source_take_turns_in_parts(taken: tuple[int, int]) -> None:
    """Parts are numbered by what the destination has in registers, wherever the source has it."""
    bits = [1 << i for i in (8, 3, 0, 4, 1, 7, 2, 6, 5)]
    rest = [bit for i, bit in enumerate(bits) if i not in taken]
    source = Layout((512,), tuple(bits[:2]), tuple(bits[2:7]), tuple(bits[7:]))
    destination = Layout((512,), tuple(bits[i] for i in taken), tuple(rest[2:]), tuple(rest[:2]))
    program = conversion(F32, source, destination, 512)
    assert program.kernel.attributes["shared_bytes"] == 512
    same(program.run(), execute(program))


def shuffled(choose: random.Random, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    both = [*layout.register, *layout.lane]
    choose.shuffle(both)
    return tuple(both[:-5]), tuple(both[-5:])


@pytest.mark.parametrize("lane", [(64, 32, 16, 1, 2), (1, 64, 2, 32, 16)], ids=str)
def test_conditions_of_other_lanes(lane: tuple[int, ...]) -> None:
    """One instruction tells each lane those of all, in place of a shuffle for each register."""
    source = Layout((128,), (), lane, (4, 8))
    destination = Layout((128,), (16, 32, 64), tuple(b if b < 4 else 0 for b in lane), (4, 8))
    program = conversion(I1, source, destination, ballot=True)
    same(program.run(), execute(program))
    assert ptx(program, "sm_80").count("vote.sync.ballot") == 1


def test_random_conversions_are_of_all_kinds() -> None:
    kinds = set()
    for seed in range(16):
        choose = random.Random(seed)
        bits, warp_bits = choose.randint(3, 9), choose.randint(0, 2)
        source = random_layout(choose, bits, warp_bits)
        destination = random_layout(choose, bits, warp_bits)
        if seed % 2:
            destination = Layout(source.shape, *shuffled(choose, source), source.warp)
        kinds.add(type(plan_conversion(source, destination, 32)))
    assert {Shared} < kinds and len(kinds - {Rename}) == 2


@pytest.mark.parametrize("e", [F32, F16, I8], ids=str)
def test_gathers(e: Scalar) -> None:
    k = Sketch("k", 2)
    x = k.pointer("x", e, np.resize(numbers(e), 1024))
    i = k.pointer("i", I32, np.random.default_rng(0).integers(0, 1024, 256))
    r, s = k.arange(1024), k.arange(256)
    out = k.pointer("out", e, np.zeros(256, register_dtype(e)))
    found = k.gather(k.load(k.at(x, r)), k.load(k.at(i, s)))
    k.store(k.at(out, s), found)
    program = k.done()
    same(program.run(), execute(lowered(program)))
    # With little room, a quarter of the table at a time.
    done = lowered(program, shared=512 * e.bytes, without=("specialize",))
    assert sum(op.name == "shared_gather" for op in done.kernel.ops()) == 4
    same(program.run(), done.run())
    same(program.run(), execute(done))


def test_gathers_of_a_tile_share_what_is_stored() -> None:
    k = Sketch("k", 2)
    x = k.pointer("x", I32, np.arange(256) ** 2)
    r = k.arange(256)
    out = k.pointer("out", I32, np.zeros(256, np.int32))
    value = k.load(k.at(x, r))
    found = [k.gather(value, k.build.value("xor", r, k.build.constant(n, r.type))) for n in (5, 77)]
    k.store(k.at(out, r), k.build.value("sub", *found))
    program = k.done()
    want, done = program.run(), lowered(program, without=("specialize",))
    names = [op.name for op in done.kernel.ops()]
    assert names.count("shared_gather") == 2 and names.count("shared_store") == 1
    same(want, done.run())
    same(want, execute(done))


@pytest.mark.parametrize("e", [I1, I8, F16, F32, I64], ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_shifts(seed: int, e: Scalar) -> None:
    """Elements so many places on along an axis: lanes exchange them where a warp has the axis."""
    choose = random.Random(seed)
    bits, warp_bits = choose.randint(4, 9), choose.randint(0, 2)
    rows = 1 << choose.randint(0, bits - 1)
    columns = (1 << bits) // rows
    layout = random_layout(choose, bits, warp_bits)
    layout = Layout((rows, columns), layout.register, layout.lane, layout.warp)
    if seed % 4:  # neighbours in a thread, rows in lanes, warps last
        places = [1 << i for i in range(bits)]
        register = places[: max(bits - 5 - warp_bits, 2)]
        warp = places[len(register) :][5 : 5 + warp_bits]
        lane = [b for b in places if b not in register and b not in warp]
        layout = Layout((rows, columns), tuple(register), (*lane, *[0] * 5)[:5],
                        (*warp, *[0] * warp_bits)[:warp_bits])
    axis = choose.randrange(2) if rows > 1 else 1
    extent, wrap = (rows, columns)[axis], choose.randrange(2)
    by = choose.choice([-1, 1, 1 - extent, choose.randrange(1, extent)])
    at = np.arange(1 << bits).reshape(rows, columns)
    places = np.arange(extent) + by
    places = places % extent if wrap else np.clip(places, 0, extent - 1)
    k = Sketch("k", 1 << warp_bits)
    x = k.pointer("x", e, np.resize(numbers(e), at.shape))
    i = k.pointer("i", I32, at.take(places, axis))
    out = k.pointer("out", e, np.zeros(at.shape, register_dtype(e)))
    line = Layout((at.size,), layout.register, layout.lane, layout.warp)

    def pointers(base: object, to: Scalar) -> object:
        r = k.build.value("range", type=Tile(I32, (at.size,), line), start=0, stop=at.size)
        spread = k.build.value("splat", base, type=Tile(Pointer(to), at.shape, layout))
        return k.addptr(spread, k.build.value("reshape", r, type=Tile(I32, at.shape, layout)))

    found = k.gather(k.load(pointers(x, e)), k.load(pointers(i, I32)), shift=(axis, by, wrap))
    k.store(pointers(out, e), found)
    program = k.done()
    want = program.run()
    for function in (lower_conversions, allocate_shared, insert_barriers):
        function(program.kernel, context())
    names = [op.name for op in program.kernel.ops()]
    plan = plan_shift(layout, axis, by, wrap)
    assert ("shift_lanes" in names) == (plan is not None) == ("shared_gather" not in names)
    same(want, program.run())
    same(want, execute(program))


# ---- dots ----------------------------------------------------------------------------------------


def product(e: Scalar, to: Scalar, m: int, n: int, depth: int, warps: int = 2,
            turned: bool = False) -> Program:
    """out = a @ b of small whole numbers."""
    k = Sketch("k", warps)
    a = np.random.default_rng(0).integers(-3, 4, (m, depth))
    b = np.random.default_rng(1).integers(-3, 4, (depth, n))
    pa = k.pointer("a", e, a.astype(register_dtype(e)), multiple_of=16)
    pb = k.pointer("b", e, (b.T if turned else b).astype(register_dtype(e)), multiple_of=16)
    rm, rn, rk = k.arange(m), k.arange(n), k.arange(depth)
    left = k.load(k.rows(pa, rm, depth, rk))
    if turned:
        right = k.build.value("trans", k.load(k.rows(pb, rn, depth, rk)), permutation=(1, 0))
    else:
        right = k.load(k.rows(pb, rk, n, rn))
    out = k.pointer("out", to, np.zeros((m, n), register_dtype(to)))
    k.store(k.rows(out, rm, n, rn), k.dot(left, right, k.full(1, to, m, n)))
    return k.done()


DOTS = [(F32, F32), (F16, F32), (BF16, F32), (TF32, F32), (F64, F64), (I8, I32), (I16, I16),
        (I32, I32), (I64, I64), (F8E4M3, F32), (F8E5M2, F32)]


TARGETS = ("sm_61", "sm_75", "sm_80", "sm_89")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("e, to", DOTS, ids=str)
@pytest.mark.parametrize("m, n, depth, turned", [(32, 64, 32, False), (64, 16, 64, True),
                                                 (8, 8, 4, False)])
def test_dots(e: Scalar, to: Scalar, m: int, n: int, depth: int, turned: bool,
              target: str, thorough: bool) -> None:
    if (TARGETS.index(target) + (m == 64)) % 2 and not thorough:
        pytest.skip("needs --thorough")
    program = lowered(product(e, to, m, n, depth, turned=turned), target=target)
    same(program.run(), execute(program, target))


@pytest.mark.parametrize("e, to, target, instruction", [
    (F16, F32, "sm_75", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
    (I8, I32, "sm_75", "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"),
    (F16, F32, "sm_80", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    (BF16, F32, "sm_80", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    (TF32, F32, "sm_80", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    (I8, I32, "sm_80", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
    (F64, F64, "sm_80", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    (F64, F64, "sm_90", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"),
    (F8E4M3, F32, "sm_89", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    (F32, F32, "sm_80", "fma.rn.f32"),
], ids=str)
@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
def test_instructions_of_dots(e: Scalar, to: Scalar, target: str, instruction: str,
                              tmp_path: object) -> None:
    text = ptx(lowered(product(e, to, 64, 64, 32), target=target), target)
    assert instruction in text
    assert "0 bytes spill stores" in ptxas(text, target, tmp_path)


def test_dots_on_cores_read_wide_and_accumulate_in_place() -> None:
    text = ptx(lowered(product(F32, F32, 64, 128, 16, warps=4), target="sm_80"), "sm_80")
    bodies = 2  # for aligned pointers and others
    assert text.count("fma.rn.f32") == bodies * 64 * 16
    reads = [line for line in text.splitlines() if "ld.shared" in line]
    assert len(reads) >= bodies * 16 * 4 and all("v4.b32" in line for line in reads)
