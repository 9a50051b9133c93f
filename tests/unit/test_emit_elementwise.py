"""Every elementwise operation on every type: emitted code against the interpreter, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_programs import execute, ptx
from sketch import Program, Sketch, parse
from test_backend_passes import lowered

from tritonc.backend.emit import function
from tritonc.ir.build import make_op
from tritonc.ir.numeric.formats import register_dtype, round_to
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
    SCALARS,
    TF32,
    Scalar,
    with_element,
)

N = 256
INTEGERS, FLOATS = (I8, I16, I32, I64), (F16, BF16, TF32, F32, F64, F8E4M3, F8E5M2)


def numbers(e: Scalar, seed: int = 0) -> Any:
    """Values of a type: special ones, then random ones of many magnitudes."""
    generator = np.random.default_rng(seed)
    if e == I1:
        return generator.integers(0, 2, N).astype(bool)
    if e.is_int:
        low, high = -(1 << (e.bits - 1)), (1 << (e.bits - 1)) - 1
        special = [0, 1, -1, 2, -2, low, high, low + 1, high - 1]
        bits = generator.integers(low, high, N, endpoint=True, dtype=np.int64)
        small = bits >> generator.integers(0, e.bits, N)
        values = np.concatenate([special, small])[:N]
        return generator.permutation(values).astype(register_dtype(e))
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 448.0,
               57344.0, 65504.0, 65520.0, 2.0**-24, 2.0**-149, 3.4e38, 1e-7, 464.0, 2.0**31,
               -(2.0**31), 2.0**63, -(2.0**63), 255.5, 127.5, -128.5]
    # halfway between two numbers of a narrow type, and next to that
    special += [sign * (1 + 2.0**-n + d) for n in (3, 4, 8, 11, 24) for sign in (1, -1)
                for d in (0, 2.0**-40, -(2.0**-40))]
    wide = generator.normal(0, 1, N) * np.exp2(generator.integers(-30, 30, N))
    near = np.round(generator.normal(0, 8, N) * 16) / 16
    values = np.concatenate([special, np.where(generator.random(N) < 0.5, wide, near)])[:N]
    return round_to(e, generator.permutation(values).astype(np.float64))


def program(op: str, operands: list[Any], types: list[Scalar], to: Scalar | None = None,
            **attributes: Any) -> Program:
    """result = op(operands), element by element."""
    k = Sketch("k", 2)
    r = k.arange(N)
    values = [k.load(k.at(k.pointer(f"x{i}", e, a), r))
              for i, (e, a) in enumerate(zip(types, operands, strict=True))]
    if to is not None:
        attributes["type"] = k.full(0, to, N).type
    result = k.build.value(op, *values, **attributes)
    e = result.type.element
    out = k.pointer("out", e, np.zeros(N, register_dtype(e)))
    k.store(k.at(out, r), result)
    return k.done()


def check(p: Program, target: str = "sm_80", **options: Any) -> None:
    compare(p, lowered(p, target=target), target, **options)


def compare(p: Program, low: Program, target: str = "sm_80", **options: Any) -> None:
    want, got = p.run()["out"], execute(low, target, **options)["out"]
    e = p.kernel.parameters[-1].type.element
    if e == BF16:
        want, got = ((a.astype(np.uint32) << 16).view(np.float32) for a in (want, got))
    if e in (F8E4M3, F8E5M2):  # which NaN it is does not matter
        nan = (want & 0x7F) > (0x7E if e == F8E4M3 else 0x7C)
        other = (got & 0x7F) > (0x7E if e == F8E4M3 else 0x7C)
        np.testing.assert_array_equal(nan, other)
        want, got = np.where(nan, 0, want), np.where(nan, 0, got)
    assert want.dtype == got.dtype
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(want), np.isnan(got))
        zero = (want == 0) & (got == 0)
        np.testing.assert_array_equal(np.signbit(want[zero]), np.signbit(got[zero]))
    np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("others", [(), (N // 2 + 5,), (3, N - 1)])
def test_a_warp_passes_products_with_ones_by(others: tuple[int, ...]) -> None:
    """One number among the ones of a warp is enough for its products."""
    factor = np.ones(N, np.float32)
    factor[list(others)] = (np.nan, -0.5)[: len(others)]
    p = program("fmul", [numbers(F32), factor], [F32, F32])
    want, low = p.run()["out"], lowered(p)
    for block in low.kernel.blocks:
        for product in [op for op in block.ops if op.name == "fmul"]:
            some = make_op("any_other", [product.operands[1]], number=1.0)
            scaled = make_op("scale", [*product.operands, some.result])
            at = block.ops.index(product)
            block.ops[at : at + 1] = [some, scaled]
            low.kernel.replace({product.result: scaled.result})
    np.testing.assert_array_equal(want, execute(low)["out"])


@pytest.mark.parametrize("e", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", ["smin", "smax"])
def test_a_warp_knows_the_extreme_of_what_it_holds(kind: str, e: Scalar) -> None:
    """Each element becomes the least or the greatest of its warp."""
    a = numbers(e)
    p = program("add", [a, np.zeros_like(a)], [e, e])
    low = lowered(p)
    for block in low.kernel.blocks:
        for total in [op for op in block.ops if op.name == "add" and op.result.type.layout]:
            layout = total.result.type.layout
            found = make_op("warp_extreme", [total.operands[0]], kind=kind)
            least = make_op("splat", [found.result], total.result.type)
            at = block.ops.index(total)
            block.ops[at : at + 1] = [found, least]
            low.kernel.replace({total.result: least.result})
    want = np.empty_like(a)
    for warp in range(layout.num_warps):
        held = [layout.at(r, lane, warp) for r in range(layout.registers) for lane in range(32)]
        want[held] = a[held].min() if kind == "smin" else a[held].max()
    np.testing.assert_array_equal(want, execute(low)["out"])


def operands(types: list[Scalar]) -> list[Any]:
    return [numbers(e, seed) for seed, e in enumerate(types)]


@pytest.mark.parametrize("e", [I1, *INTEGERS], ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "or", "xor", "smin", "smax", "umin",
                                "umax"])
def test_integers(op: str, e: Scalar) -> None:
    check(program(op, operands([e, e]), [e, e]))


@pytest.mark.parametrize("e", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_division(op: str, e: Scalar) -> None:
    a, b = operands([e, e])
    b = np.where((b == 0) | (b == -1), 3, b).astype(b.dtype)
    check(program(op, [a, b], [e, e]))


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 1000, 4096, 65537, 2**30, 2**31 - 1, -3, -4096,
                                     -(2**31), -(2**31) + 5, -2])
@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_many_numbers_divided_by_one(op: str, divisor: int) -> None:
    random = np.random.default_rng(divisor & 0xFFFF)
    near = divisor * random.integers(-9, 9, 500) + random.integers(-2, 3, 500)
    a = np.concatenate([random.integers(-(2**31), 2**31, 500), near, [0, 1, -1, 2, -2],
                        [2**31 - 1, -(2**31) + 1, -(2**31)] * 7]).astype(np.int64)
    k = Sketch("k", 1)
    r = k.arange(1024)
    dividends = k.load(k.at(k.pointer("a", I32, np.resize(a, 1024).astype(np.int32)), r))
    d = k.spread(k.integer("d", divisor), (1024,))
    out = k.pointer("out", I32, np.zeros(1024, np.int32))
    k.store(k.at(out, r), k.build.value(op, dividends, d))
    p = k.done()
    check(p)
    text = ptx(lowered(p, without=("specialize",)), "sm_80")
    assert text.count("div.") == 1 and "rem." not in text  # none for each number


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("kind", ["each", "one", "moderate"])
def test_quotients_of_any_floats(kind: str, pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subnormal, infinite and zero ones too: of numbers with a divisor of their own, and of one;
    by themselves, and behind a product, where they come piece by piece."""
    one = kind == "one"
    random = np.random.default_rng(int(one))
    bits = random.integers(0, 2**32, (2, 1024), dtype=np.uint64).astype(np.uint32)
    a, d = (row.view(np.float32) for row in bits)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 2**-126, 2**-149, -3 * 2**-149, 2**127,
                      np.finfo(np.float32).max, 2**-63, 2**63, 3], np.float32)
    a[:196], d[:196] = np.repeat(edges, 14), np.tile(edges, 14)
    ties = slice(200, 400)  # quotients between subnormal numbers, some in the middle
    d[ties] = np.exp2(random.integers(1, 4, 200))
    a[ties] = random.integers(-99, 99, 200) * 2.0**-149
    if kind == "moderate":  # divided in groups: zeros keep their signs
        a[:], d[:] = np.resize([0, -0.0, 1, -2.5], 1024), np.resize([3, -3, -1.5], 1024)
    k = Sketch("k", 1)
    r = k.arange(1024)
    x = k.load(k.at(k.pointer("a", F32, a), r))
    divisor = k.spread(k.load(k.pointer("d", F32, d[300:301])), (1024,)) if one else k.load(
        k.at(k.pointer("d", F32, d), r))
    out = k.pointer("out", F32, np.zeros(1024, np.float32))
    ones = k.load(k.at(k.pointer("ones", F32, np.ones(1024, np.float32)), r))
    k.store(k.at(out, r), k.build.value("fmul", k.build.value("fdiv", x, divisor), ones))
    p = k.done()
    low = lowered(p, without=("specialize",))
    if pieces:  # as behind a product: this kernel has none
        monkeypatch.setattr(function, "DOTS", ("fdiv",))
    for op in low.kernel.ops():
        if op.name == "fdiv" and pieces:
            op.attributes["piecewise"] = True
    compare(p, low)
    text = ptx(low, "sm_80")
    assert ("rcp.approx.ftz.f64" in text, "div.rn" in text) == (pieces, not pieces)


@pytest.mark.parametrize("divisor", [3, -0.7, 0, -0.0, np.inf, -np.inf, np.nan, 2**-149, -(2**-130),
                                     2**-100, 2**126, -(2**127), 2**64])
def test_quotients_that_go_into_halves(divisor: float) -> None:
    """Of one divisor, whatever it is, they are products with its reciprocal: none is divided."""
    d = np.float32(divisor)
    x = np.random.default_rng(1).uniform(-8, 8, 1024).astype(np.float32)
    with np.errstate(all="ignore"):
        x[:512] *= d
    x[:14] = [0, -0.0, np.inf, -np.inf, np.nan, 1, 2**-126, 2**-149, -3 * 2**-149, 2**127,
              -(2**127), np.finfo(np.float32).max, 2**-63, 2**63]
    k = Sketch("k", 1)
    r = k.arange(1024)
    out = k.pointer("out", F16, np.zeros(1024, np.float16))
    quotient = k.build.value("fdiv", k.load(k.at(k.pointer("x", F32, x), r)), k.spread(
        k.load(k.at(k.pointer("d", F32, np.array([d])), k.integer("zero", 0))), (1024,)))
    k.store(k.at(out, r), k.build.value("fpcast", quotient, type=with_element(quotient.type, F16)))
    p = k.done()
    low = lowered(p, without=("specialize",))
    want, found = p.run()["out"], execute(low)["out"]
    np.testing.assert_allclose(found, want, rtol=2**-10, atol=2**-24)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(want[known]))
    assert "div." not in ptx(low, "sm_80")


@pytest.mark.parametrize("e", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["shl", "lshr", "ashr"])
def test_shifts(op: str, e: Scalar) -> None:
    a, b = operands([e, e])
    check(program(op, [a, np.abs(b.astype(np.int64)) % e.bits], [e, e]))


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["fadd", "fsub", "fmul", "fdiv", "fmin", "fmax"])
def test_floats(op: str, e: Scalar, target: str) -> None:
    check(program(op, operands([e, e]), [e, e]), target)


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("e", FLOATS[:4] + FLOATS[5:], ids=str)
def test_fma(e: Scalar, target: str) -> None:
    check(program("fma", operands([e, e, e]), [e, e, e]), target)


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_fma_of_bf16_rounds_once(target: str) -> None:
    """265 lies halfway between 264 and 266: what is added, however small, decides."""
    c = np.resize([2.0**-46, -(2.0**-46), 0.0], N)
    check(program("fma", [np.full(N, 5.0), np.full(N, 53.0), c], [BF16] * 3), target)


@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["fneg", "fabs", "floor", "ceil", "round", "trunc", "rint",
                                "sqrt"])
def test_exact_functions(op: str, e: Scalar) -> None:
    check(program(op, operands([e]), [e]))


@pytest.mark.parametrize("e", [I1, *INTEGERS], ids=str)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt",
                                       "uge"])
def test_integer_comparisons(predicate: str, e: Scalar) -> None:
    a, b = operands([e, e])
    b = np.where(np.arange(N) % 4 == 0, a, b)
    check(program("icmp", [a, b], [e, e], predicate=predicate))


@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("predicate", ["oeq", "one", "olt", "ole", "ogt", "oge", "une", "ord",
                                       "uno"])
def test_float_comparisons(predicate: str, e: Scalar) -> None:
    a, b = operands([e, e])
    b = np.where(np.arange(N) % 4 == 0, a, b)
    check(program("fcmp", [a, b], [e, e], predicate=predicate))


@pytest.mark.parametrize("e", SCALARS.values(), ids=str)
def test_select(e: Scalar) -> None:
    check(program("select", operands([I1, e, e]), [I1, e, e]))


@pytest.mark.parametrize("target", ["sm_75", "sm_89", "sm_90"])
@pytest.mark.parametrize("to", FLOATS, ids=str)
@pytest.mark.parametrize("e", FLOATS, ids=str)
def test_casts_between_floats(e: Scalar, to: Scalar, target: str) -> None:
    if e != to:
        check(program("fpcast", operands([e]), [e], to), target)


@pytest.mark.parametrize("to", [I1, *INTEGERS], ids=str)
@pytest.mark.parametrize("e", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["fptosi", "fptoui"])
def test_casts_to_integers(op: str, e: Scalar, to: Scalar) -> None:
    check(program(op, operands([e]), [e], to))


@pytest.mark.parametrize("to", FLOATS, ids=str)
@pytest.mark.parametrize("e", [I1, *INTEGERS], ids=str)
@pytest.mark.parametrize("op", ["sitofp", "uitofp"])
def test_casts_from_integers(op: str, e: Scalar, to: Scalar) -> None:
    check(program(op, operands([e]), [e], to))


@pytest.mark.parametrize("op, e, to", [
    (op, e, to) for e in (I1, *INTEGERS) for to in (I1, *INTEGERS)
    for op in (("sext", "zext") if e.bits < to.bits else ("truncate",)) if e != to
], ids=str)
def test_casts_between_integers(op: str, e: Scalar, to: Scalar) -> None:
    check(program(op, operands([e]), [e], to))


@pytest.mark.parametrize("e, to", [(F16, I16), (I16, BF16), (F32, I32), (I32, F32), (F64, I64),
                                   (I64, F64), (F8E4M3, I8), (I8, F8E5M2), (F16, BF16),
                                   (TF32, F32)], ids=str)
def test_bit_casts(e: Scalar, to: Scalar) -> None:
    a = numbers(e)
    if e.is_float:  # the bits of a NaN are nobody's promise
        a = np.where(np.isnan(a), 1, a)
    check(program("bitcast", [a], [e], to))


@pytest.mark.parametrize("e", [I64, F32, F16, I1], ids=str)
def test_psi_takes_the_last_that_holds(e: Scalar) -> None:
    types = [I1, e, I1, e, I1, e]
    given = operands(types)
    given[0] = np.ones(N, bool)
    check(program("psi", given, types))


@pytest.mark.parametrize("start", [0, 5, 16, 100])
@pytest.mark.parametrize("predicate,based", [("slt", ""), ("sle", ""), ("slt", ", based = true")])
def test_comparisons_of_indices(predicate: str, start: int, based: str) -> None:
    """Of two indices that a register has, most pairs are known: no thread compares them."""
    text = f"""
#r = #layout<shape=[64,64], register=[1,2,8,16,32,512,1024,2048], lane=[4,64,128,256,0], warp=[]>
#i = #layout<shape=[64], register=[8,16,32], lane=[0,1,2,4,0], warp=[]>
#j = #layout<shape=[64], register=[1,2,8,16,32], lane=[4,0,0,0,0], warp=[]>
#m = #layout<shape=[64,1], register=[8,16,32], lane=[0,1,2,4,0], warp=[]>
#n = #layout<shape=[1,64], register=[1,2,8,16,32], lane=[4,0,0,0,0], warp=[]>
kernel @k(i32* %y) {{num_warps = 1}} {{
entry:
  %i = range {{start = 0, stop = 64}} : i32<64; #i>
  %j = range {{start = {start}, stop = {start + 64}}} : i32<64; #j>
  %m = reshape %i : i32<64, 1; #m>
  %n = reshape %j : i32<1, 64; #n>
  %mm = broadcast %m : i32<64, 64; #r>
  %nn = broadcast %n : i32<64, 64; #r>
  %c = icmp %nn, %mm {{predicate = {predicate}{based}}} : i1<64, 64; #r>
  %v = zext %c : i32<64, 64; #r>
  %size = constant {{value = 64}} : i32<64, 64; #r>
  %row = mul %mm, %size : i32<64, 64; #r>
  %first = constant {{value = {-start}}} : i32<64, 64; #r>
  %column = add %nn, %first : i32<64, 64; #r>
  %at = add %row, %column : i32<64, 64; #r>
  %ys = splat %y : i32*<64, 64; #r>
  %p = addptr %ys, %at : i32*<64, 64; #r>
  store %p, %v
  ret
}}
"""
    low = Program(parse(text), [np.zeros(64 * 64, np.int32)], (1,))
    found = execute(low)["y"].view(np.int32).reshape(64, 64)
    m, n = np.ogrid[:64, start:start + 64]
    np.testing.assert_array_equal(found, n < m if predicate == "slt" else n <= m)
    assert ptx(low, "sm_90a").count("setp.") <= 72


@pytest.mark.parametrize("start", [0, 5, (1 << 31) - 64])
@pytest.mark.parametrize("limit", [-(1 << 31), -1, 0, 7, 40, 64, (1 << 31) - 1])
def test_comparisons_by_distances(start: int, limit: int) -> None:
    text = """
#l = #layout<shape=[64], register=[32], lane=[1,2,4,8,16], warp=[]>
kernel @k(i32* %y, i32 %start, i32 %limit) {num_warps = 1} {
entry:
  %r = range {start = 0, stop = 64} : i32<64; #l>
  %s = splat %start : i32<64; #l>
  %i = add %r, %s : i32<64; #l>
  %b = splat %limit : i32<64; #l>
  %c = icmp %i, %b {predicate = slt, based = true} : i1<64; #l>
  %n = zext %c : i32<64; #l>
  %ys = splat %y : i32*<64; #l>
  %py = addptr %ys, %r : i32*<64; #l>
  store %py, %n
  ret
}
"""
    program = Program(parse(text), [np.zeros(64, np.int32), start, limit], (1,))
    found = execute(program)["y"].view(np.int32)
    np.testing.assert_array_equal(found, np.arange(start, start + 64) < limit)


def test_bools_that_share_a_word() -> None:
    """Each is tested in its word, whatever its neighbours are."""
    text = """
#l = #layout<shape=[64], register=[1,2,4,8], lane=[16,32,0,0,0], warp=[]>
kernel @k(i1* %x, i32* %y) {num_warps = 1} {
entry:
  %r = range {start = 0, stop = 64} : i32<64; #l>
  %xs = splat %x : i1*<64; #l>
  %px = addptr %xs, %r : i1*<64; #l>
  %b = load %px {vector = WIDTH, vector_axis = 0} : i1<64; #l>
  %n = zext %b : i32<64; #l>
  %ys = splat %y : i32*<64; #l>
  %py = addptr %ys, %r : i32*<64; #l>
  store %py, %n
  ret
}
"""
    x = np.random.default_rng(0).integers(0, 2, 64).astype(bool)
    for width in (1, 2, 4, 16):
        own = Program(parse(text.replace("WIDTH", str(width))), [x, np.zeros(64, np.int32)], (1,))
        np.testing.assert_array_equal(execute(own)["y"].view(np.int32), x)


def test_products_of_indices_as_floats() -> None:
    """With -ffast-math, of a base for all registers and a constant."""
    text = """
#l = #layout<shape=[64], register=[1,2,32], lane=[4,8,16,0,0], warp=[]>
kernel @k(f32* %y, i32 %start, f32 %slope) {num_warps = 1} {
entry:
  %r = range {start = 0, stop = 64} : i32<64; #l>
  %s = splat %start : i32<64; #l>
  %i = sub %s, %r : i32<64; #l>
  %f = sitofp %i : f32<64; #l>
  %b = splat %slope : f32<64; #l>
  %p = fmul %f, %b : f32<64; #l>
  %ys = splat %y : f32*<64; #l>
  %py = addptr %ys, %r : f32*<64; #l>
  store %py, %p
  ret
}
"""
    program = Program(parse(text), [np.zeros(64, np.float32), 40, np.float32(0.3)], (1,))
    found = execute(program, fast_math=True)["y"].view(np.float32)
    np.testing.assert_allclose(found, (40 - np.arange(64)) * np.float32(0.3), atol=1e-5)
    assert ptx(program, "sm_80", fast_math=True).count("cvt.rn.f32.s32") == 1
