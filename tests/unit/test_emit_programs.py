"""Whole kernels through the backend: LLVM IR computes what the interpreter does, on any target."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from backend_programs import MATRIX_PROGRAMS, PROGRAMS, matmul
from machine_programs import execute, ptx
from programs import PTXAS, ptxas
from sketch import Program, Sketch, same
from test_backend_passes import THIN, lowered
from test_emit_elementwise import numbers

from tritonc.backend.emit.accesses.access import STORE_POLICIES
from tritonc.ir.layouts.layout import blocked
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.types import (
    BF16,
    F8E4M3,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    Pointer,
    Scalar,
    Tile,
)

ASSEMBLED = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a",
             "sm_120", "sm_120a")  # ptxas 13 knows none before sm_75


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_kept(name: str, target: str, thorough: bool) -> None:
    """As LLVM IR and, for one target, by the machine's operations: after each pass for every other
    program, in the end for each."""
    program = PROGRAMS[name]()
    found = program.run()
    one = target == "sm_80"
    done = lowered(program, one and (thorough or [*PROGRAMS].index(name) % 2 == 0), target)
    if one:
        for buffer, want in program.expected.items():
            shape = found[buffer].shape
            np.testing.assert_array_equal(found[buffer], np.asarray(want).reshape(shape))
        same(found, done.run())
    same(found, execute(done, target))


@pytest.mark.parametrize("name, target, room", [row[:3] for row in THIN if row[1] != "sm_90a"])
def test_meaning_is_kept_in_slices(name: str, target: str, room: int) -> None:
    program = {**PROGRAMS, **MATRIX_PROGRAMS}[name]()
    done = lowered(program, target=target, shared=room, without=("specialize",))
    same(done.run(), execute(done, target))


def test_slices_are_loaded_one_by_one_where_a_thread_cannot_hold_all() -> None:
    program = matmul(32, 64, 70, (32, 64, 64), warps=1)
    done = lowered(program, shared=12800, without=("specialize",))
    late = [op for op in done.kernel.ops() if op.attributes.get("piecewise")]
    assert late and all(op.name == "load" for op in late)
    same(done.run(), execute(done))


@pytest.mark.parametrize("number, name", [*enumerate(PROGRAMS)])
def test_no_target_is_refused(number: int, name: str, thorough: bool) -> None:
    """The oldest or the latest, in turn."""
    targets = ("sm_60", "sm_120a")
    for target in targets if thorough else (targets[number % 2],):
        text = ptx(lowered(PROGRAMS[name](), target=target), target)
        assert f".target {target}" in text


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("target", ASSEMBLED)
def test_ptxas_accepts(target: str, tmp_path: Path, thorough: bool) -> None:
    names = ("matmul nt", "softmax", "histogram", "lock", "scan columns", "table lookup")
    for name in names if thorough else names[ASSEMBLED.index(target) % 2::2]:
        text = ptx(lowered(PROGRAMS[name](), target=target), target)
        assert "0 bytes stack frame, 0 bytes spill" in ptxas(text, target, tmp_path)


def one_result(k: Sketch, r: object, result: object, n: int) -> Program:
    e = result.type.element
    out = k.pointer("out", e, np.zeros(n, register_dtype(e)))
    k.store(k.at(out, r), result)
    return k.done()


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", SCALARS.values(), ids=str)
@pytest.mark.parametrize("aligned", [1, 16])
@pytest.mark.parametrize("n", [512, 509, 3])
def test_guarded_copies(e: Scalar, aligned: int, n: int) -> None:
    k = Sketch("copy", 2)
    x = k.pointer("x", e, np.resize(numbers(e), n), multiple_of=aligned)
    y = k.pointer("y", e, np.zeros(n, register_dtype(e)), multiple_of=aligned)
    count = k.integer("n", n, multiple_of=16 if n == 512 else 1)
    r = k.indices(0, 256)
    inside = k.less(r, count)
    k.store(k.at(y, r), k.load_or_zero(k.at(x, r), inside), inside)
    k.grid = (-(-n // 256),)
    program = k.done()
    same(program.run(), execute(lowered(program)))


@pytest.mark.parametrize("e, access", [(F32, "v4.b32"), (F16, "v4.b32"), (I8, "v2.b32"),
                                       (F64, "v2.b64"), (I1, "v2.b32"), (BF16, "v4.b32")], ids=str)
@pytest.mark.parametrize("guarded", [False, True])
def test_accesses_are_wide(e: Scalar, access: str, guarded: bool) -> None:
    k = Sketch("copy", 2)
    x = k.pointer("x", e, np.zeros(1024), multiple_of=16, no_alias=True)
    y = k.pointer("y", e, np.zeros(1024), multiple_of=16, no_alias=True)
    count = k.integer("n", 1024, multiple_of=16)
    r = k.indices(0, 512)
    inside = k.less(r, count) if guarded else None
    k.store(k.at(y, r), k.load(k.at(x, r), inside), inside)
    text = ptx(lowered(k.done()), "sm_80")
    loads = [line for line in text.splitlines() if "ld.global" in line]
    stores = [line for line in text.splitlines() if "st.global" in line]
    assert loads and all(access in line for line in loads)
    assert stores and all(access in line for line in stores)
    assert ("nc" in loads[0]) == (not guarded)  # memory that no store of the kernel can change


@pytest.mark.parametrize("e, other", [(F32, 2.5), (F16, -1.0), (BF16, 3.0), (I8, -3), (I1, True),
                                      (I64, -5), (F64, 0.1), (F8E4M3, 448.0), (I16, 77)], ids=str)
def test_what_a_masked_load_holds_elsewhere(e: Scalar, other: float) -> None:
    k = Sketch("k", 1)
    x = k.pointer("x", e, numbers(e)[:64], multiple_of=16)
    bound = k.integer("n", 24, multiple_of=8)
    r = k.arange(64)
    loaded = k.load(k.at(x, r), k.less(r, bound), other=other)
    program = one_result(k, r, loaded, 64)
    same(program.run(), execute(lowered(program)))


@pytest.mark.parametrize("other", [None, 0.5])
def test_loads_of_one_address_are_made_once(other: float | None) -> None:
    """Also where a mask ends inside of a run."""
    n = 100
    k = Sketch("repeat", 1)
    x = k.pointer("x", F32, np.arange(64))
    y = k.pointer("y", F32, np.zeros(128))
    count = k.integer("n", n)
    r = k.arange(128)
    inside = k.less(r, count)
    at = k.at(x, k.build.value("udiv", r, k.number(64, r.type)))
    value = k.build.value("load", at, guard=inside,
                          **({} if other is None else {"other": other}))
    k.store(k.at(y, r), value, None if other is not None else inside)
    program = lowered(k.done())
    assert any(op.attributes.get("alike") == 64 for op in program.kernel.ops())
    same(program.run(), execute(program))
    text = ptx(program, "sm_80")
    # One where stores are wide; else, of each of two runs, one for each of two guards.
    assert text.count("ld.global") == 5


def test_scalars_are_stored_once() -> None:
    k = Sketch("k", 4)
    x, y = k.pointer("x", F32, [3.0]), k.pointer("y", F32, [0.0])
    k.store(y, k.fadd(k.load(x), k.number(1.0, F32)))
    program = k.done()
    same(program.run(), execute(lowered(program)))
    text = ptx(lowered(program), "sm_80")
    assert "@%p" in next(line for line in text.splitlines() if "st.global" in line)


def test_registers_nobody_reads_are_not_computed() -> None:
    """Of four neighbours in memory only the first address is wanted."""
    k = Sketch("k", 1)
    x = k.pointer("x", F32, np.zeros(128), multiple_of=16)
    y = k.pointer("y", F32, np.zeros(128), multiple_of=16)
    r = k.arange(128)
    k.store(k.at(y, r), k.load(k.at(x, r)))
    text = ptx(lowered(k.done()), "sm_80", opt_level=0)
    assert text.count("add.s64") + text.count("mad.wide") <= 2


# ---- atomics -------------------------------------------------------------------------------------

INTEGER_KINDS = ("add", "smin", "smax", "umin", "umax", "and", "or", "xor", "xchg")


def atomics(e: Scalar, kind: str, used: bool, places: int = 16, n: int = 64) -> Program:
    k = Sketch("k", 2)
    values = np.resize(np.nan_to_num(numbers(e).astype(np.float64), posinf=9, neginf=-9), n)
    values = np.round(np.clip(values, -8, 8)) if e.is_float else np.resize(numbers(e), n)
    if kind == "xchg":
        places = n  # who comes last is not said
    p = k.pointer("p", e, np.resize(np.arange(places) - 5, places).astype(register_dtype(e)))
    x = k.pointer("x", e, values.astype(register_dtype(e)))
    r = k.arange(n)
    at = k.at(p, k.build.value("and", r, k.spread(k.number(places - 1), (n,))))
    guard = k.less(r, k.integer("bound", n - 7))
    old = k.build.value("atomic_rmw", at, k.load(k.at(x, r)), guard=guard, kind=kind)
    if used and kind == "xchg":
        out = k.pointer("out", e, np.zeros(n, register_dtype(e)))
        k.store(k.at(out, r), old, guard)
    return k.done()


@pytest.mark.parametrize("target", ["sm_60", "sm_80", "sm_90"])
@pytest.mark.parametrize("e, kind", [
    *((e, kind) for e in (I8, I16, I32, I64) for kind in INTEGER_KINDS),
    *((e, kind) for e in (F16, BF16, F32, F64, F8E4M3)
      for kind in ("fadd", "fmin", "fmax", "xchg")),
], ids=str)
def test_atomics(e: Scalar, kind: str, target: str, thorough: bool) -> None:
    if (e.bits.bit_length() + len(kind) + int(target[3])) % 2 and not thorough:
        pytest.skip("needs --thorough")
    program = lowered(atomics(e, kind, kind == "xchg"), target=target)
    same(program.run(), execute(program, target))
    assert f".target {target}" in ptx(program, target)


@pytest.mark.parametrize("e", [I8, I16, I32, I64, F16, F32, F64], ids=str)
def test_compare_and_swap(e: Scalar) -> None:
    k = Sketch("k", 2)
    p = k.pointer("p", e, np.arange(64) % 3)
    r = k.arange(64)
    one, two = k.full(1, e, 64), k.full(2, e, 64)
    old = k.build.value("atomic_cas", k.at(p, r), one, two)
    program = one_result(k, r, old, 64)
    same(program.run(), execute(lowered(program)))
    assert "atom" in ptx(lowered(program), "sm_70")


def test_a_lock_is_fenced() -> None:
    text = ptx(lowered(PROGRAMS["lock"]()), "sm_80")
    assert text.count("fence.acq_rel.gpu") + text.count("atom.acq_rel.gpu") >= 2
    assert ptx(lowered(PROGRAMS["lock"]()), "sm_60").count("membar.gl") >= 3


# ---- reductions and scans ------------------------------------------------------------------------


REDUCED = [((256,), 0), ((8, 32), 1), ((32, 8), 0), ((4, 8, 8), 1)]


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize("shape, axis", REDUCED)
@pytest.mark.parametrize("e, kind", [
    (I32, "add"), (I32, "smin"), (I32, "umax"), (I32, "xor"), (I8, "add"), (I64, "smax"),
    (I16, "and"), (I1, "or"), (I1, "and"), (F32, "fmax"), (F64, "fadd"), (F16, "fmin"),
    (BF16, "fadd"),
    (F8E4M3, "fmax"), (I32, "mul")], ids=str)
def test_reductions_and_scans(e: Scalar, kind: str, shape: tuple[int, ...], axis: int,
                              target: str, thorough: bool) -> None:
    """Each kind of each type for both targets, without --thorough for two shapes each."""
    if REDUCED.index((shape, axis)) % 2 == (target == "sm_80") and not thorough:
        pytest.skip("needs --thorough")
    for op in ("reduce", "scan"):
        k = Sketch("k", 2)
        n = int(np.prod(shape))
        values = np.resize(numbers(e), n) if not e.is_float else np.arange(n) * 7 % 5 - 2
        x = k.pointer("x", e, values.astype(register_dtype(e)))
        tile = k.build.value("reshape", k.load(k.at(x, k.arange(n))),
                             type=Tile(e, shape))
        found = (k.build.value("reduce", tile, kind=kind, axes=(axis,)) if op == "reduce"
                 else k.build.value("scan", tile, kind=kind, axis=axis))
        size = n // shape[axis] if op == "reduce" else n
        if isinstance(found.type, Tile):
            flat = k.build.value("reshape", found, type=Tile(e, (size,)))
            program = one_result(k, k.arange(size), flat, size)
        else:
            out = k.pointer("out", e, np.zeros(1, register_dtype(e)))
            k.store(out, found)
            program = k.done()
        same(program.run(), execute(lowered(program, target=target), target))


@pytest.mark.parametrize("kind", ["or", "and"])
@pytest.mark.parametrize("warps, instruction", [
    (1, {"or": "vote.sync.any", "and": "vote.sync.all"}),
    (4, {"or": "bar.red.or", "and": "bar.red.and"})])
def test_any_and_all_of_a_tile_are_votes(kind: str, warps: int, instruction: dict[str, str]
                                         ) -> None:
    k = Sketch("k", warps)
    x = k.pointer("x", I32, np.arange(512) % 5)
    out = k.pointer("out", I1, np.zeros(1, bool))
    tests = k.less(k.load(k.at(x, k.arange(512))), k.integer("n", 4))
    k.store(out, k.build.value("reduce", tests, kind=kind, axes=(0,)))
    program = k.done()
    text = ptx(lowered(program), "sm_80")
    assert instruction[kind] in text and "st.shared" not in text and "shfl" not in text
    same(program.run(), execute(lowered(program)))


# ---- ways of access ------------------------------------------------------------------------------


def marked(e: Scalar, guarded: bool, load: dict[str, object], store: dict[str, object]) -> Program:
    """A copy after the backend, with attributes set on its accesses."""
    k = Sketch("copy", 1)
    x = k.pointer("x", e, np.resize(numbers(e), 512), multiple_of=32)
    y = k.pointer("y", e, np.zeros(512, register_dtype(e)), multiple_of=32)
    n = k.integer("n", 448, multiple_of=64)
    r = k.arange(512)
    inside = k.less(r, n) if guarded else None
    k.store(k.at(y, r), k.load(k.at(x, r), inside), inside)
    program = lowered(k.done(), without=("specialize",))
    for op in program.kernel.ops():
        op.attributes.update(load if op.name == "load" else store if op.name == "store" else {})
    return program


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("e", [F32, F16, I8, F64], ids=str)
@pytest.mark.parametrize("policy", ["nc", "ca", "cg", "cs", "cv", "no_allocate", "evict_first",
                                    "evict_last"])
def test_cache_policies(policy: str, e: Scalar, guarded: bool, tmp_path: Path, thorough: bool
                        ) -> None:
    way = policy if policy in STORE_POLICIES else "wt"
    program = marked(e, guarded, {"cache": policy}, {"cache": way})
    same(program.run(), execute(program))
    text = ptx(program, "sm_80")
    loads = [line for line in text.splitlines() if "ld.global" in line]
    assert loads and all(f".{policy}." in line or f"L1::{policy}." in line for line in loads)
    if PTXAS is not None and (e is F32 or thorough):
        ptxas(text, "sm_80", tmp_path)


def test_volatile_loads_stay(tmp_path: Path) -> None:
    for guarded in (False, True):
        text = ptx(marked(F32, guarded, {"volatile": True}, {}), "sm_80")
        assert text.count("ld.volatile.global") + text.count("ld.global.volatile") > 0


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("e", [F32, F16, F64], ids=str)
def test_accesses_of_32_bytes(e: Scalar, guarded: bool, tmp_path: Path) -> None:
    """The widest of sm_100; other targets split them."""
    width = 32 // e.bytes
    k = Sketch("copy", 1)
    layout = blocked((512,), (width,), (32,), (1,), (0,))
    x, y = (k.pointer(name, e, np.resize(numbers(e), 512), multiple_of=32) for name in "xy")
    r = k.build.value("range", type=Tile(I32, (512,), layout), start=0, stop=512)
    n = k.build.value("splat", k.integer("n", 384), type=r.type)
    inside = k.build.value("icmp", r, n, predicate="slt") if guarded else None

    def at(base: object) -> object:
        return k.addptr(k.build.value("splat", base, type=Tile(Pointer(e), (512,), layout)), r)

    wide = {"vector": width, "vector_axis": 0}
    k.build.emit("store", at(y), k.load(at(x), inside, **wide), guard=inside, **wide)
    program = k.done()
    for target, access in (("sm_100", r"v(4\.b64|8\.b32)"), ("sm_90", r"v(2\.b64|4\.b32)")):
        same(program.run(), execute(program, target))
        text = ptx(program, target)
        assert re.search(rf"ld\.global\.{access}", text)
        assert re.search(rf"st\.global\.{access}", text)
        if PTXAS is not None:
            ptxas(text, target, tmp_path)
