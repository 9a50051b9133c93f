"""Expressions against NumPy, through the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from sema_programs import computed, execute, program_of, same, text_of

from tritonc.ir.syntax.text import print_module
from tritonc.options import Options
from tritonc.sema import analyze
from tritonc.sema.types.ctypes import HALF
from tritonc.sema.types.exact import parse, round_exact
from tritonc.source import Diagnostics

N = np.arange(8, dtype=np.int32) - 3
F = np.linspace(-2, 2, 8, dtype=np.float32)
INT8, FLOAT8 = ("int x[8]", N), ("float x[8]", F)


@pytest.mark.parametrize("operator", ["+", "-", "*", "&", "|", "^"])
def test_integer_operators(operator: str) -> None:
    other = np.arange(8, dtype=np.int32)[::-1].copy()
    want = eval(f"x {operator} y", {"x": N, "y": other})
    same(computed(f"x {operator} y", "int", INT8, ("int y[8]", other), shape="8"), want)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
def test_float_operators(operator: str) -> None:
    other = F + np.float32(2.5)
    want = eval(f"x {operator} y", {"x": F, "y": other})
    same(computed(f"x {operator} y", "float", FLOAT8, ("float y[8]", other), shape="8"), want)


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("type", ["int", "unsigned int", "float"])
def test_comparisons(operator: str, type: str) -> None:
    x = N.astype({"int": np.int32, "unsigned int": np.uint32, "float": np.float32}[type])
    want = eval(f"x {operator} y", {"x": x, "y": x[::-1]})
    same(computed(f"x {operator} y", "bool", (f"{type} x[8]", x), (f"{type} y[8]", x[::-1].copy()),
                  shape="8"), want)


def test_division_truncates() -> None:
    by = np.full(8, 2, np.int32)
    y = ("int y[8]", by)
    same(computed("x / y", "int", INT8, y, shape="8"), np.trunc(N / 2))
    same(computed("x % y", "int", INT8, y, shape="8"), np.fmod(N, 2))
    same(computed("x / 2", "int", INT8, shape="8"), np.trunc(N / 2))
    unsigned = N.view(np.uint32)
    same(computed("x / 2", "unsigned int", ("unsigned int x[8]", unsigned), shape="8"),
         unsigned // 2)


def test_shifts_follow_the_sign() -> None:
    same(computed("x >> 1", "int", INT8, shape="8"), N >> 1)
    same(computed("x >> 1", "uint32", ("uint32 x[8]", N.view(np.uint32)), shape="8"),
         N.view(np.uint32) >> 1)
    same(computed("x << 3", "int", INT8, shape="8"), N << 3)
    same(computed("1 << x", "int", ("unsigned char x[8]", np.arange(8, dtype=np.uint8)),
                  shape="8"), 1 << np.arange(8))


@pytest.mark.parametrize(("a", "b", "result"), [
    ("char", "char", "int"), ("unsigned char", "short", "int"), ("int", "unsigned int", "uint32"),
    ("long", "unsigned int", "long"), ("unsigned long", "long", "uint64"),
    ("int", "half", "half"), ("half", "float", "float"), ("float", "double", "double"),
    ("half", "bfloat16", "float"), ("long", "float", "float"), ("tf32", "tf32", "float"),
    ("float8_e4m3", "half", "float"), ("bool", "bool", "int"), ("bfloat16", "bfloat16", "bfloat16"),
])
def test_usual_arithmetic_conversions(a: str, b: str, result: str) -> None:
    """The size of a sum tells its type; its IR, whether it is a float."""
    source = f"kernel void k({a}* p, {b}* q, int* o) {{ auto_ = *p + *q; }}"
    wanted = {"uint32": "i32", "uint64": "i64", "int": "i32", "long": "i64", "half": "f16",
              "float": "f32", "double": "f64", "bfloat16": "bf16"}[result]
    source = f"kernel void k({a}* p, {b}* q, double* o) {{ *o = *p + *q; }}"
    line = next(t for t in text_of(source).splitlines() if "add " in t)
    assert line.rpartition(" : ")[2] == wanted


def test_unsigned_wins_and_widening_follows_the_source() -> None:
    x = np.array([-1, 1], np.int32)
    y = np.array([1, 2], np.uint32)
    same(computed("x < y", "bool", ("int x[2]", x), ("uint32 y[2]", y), shape="2"), [False, True])
    c, u = np.array([-1, 100], np.int8), np.array([255, 100], np.uint8)
    same(computed("x", "long", ("char x[2]", c), shape="2"), [-1, 100])
    same(computed("x", "long", ("uint8 x[2]", u), shape="2"), [255, 100])
    same(computed("x + x", "int", ("uint8 x[2]", u), shape="2"), [510, 200])
    same(computed("x", "float", ("uint32 x[2]", np.array([2**32 - 1, 7], np.uint32)), shape="2"),
         np.float32([2**32 - 1, 7]))
    same(computed("(unsigned char)x", "int", ("int x[2]", x), shape="2"), [255, 1])
    same(computed("(char)x", "int", ("int x[2]", np.array([255, 130], np.int32)), shape="2"),
         [-1, -126])


def test_bool() -> None:
    b = np.array([True, False, True])
    same(computed("x + x", "int", ("bool x[3]", b), shape="3"), [2, 0, 2])
    same(computed("~x", "bool", ("bool x[3]", b), shape="3"), ~b)
    same(computed("!x", "bool", ("int x[8]", N), shape="8"), N == 0)
    same(computed("x ^ true", "bool", ("bool x[3]", b), shape="3"), ~b)
    same(computed("(bool)x", "int", ("int x[8]", N * 256), shape="8"), N != 0)
    same(computed("x", "bool", ("float x[8]", F), shape="8"), F != 0)
    same(computed("-x", "int", ("bool x[3]", b), shape="3"), [-1, 0, -1])


# --- constants ---


def test_unsuffixed_constants_take_the_type_they_meet() -> None:
    h = np.arange(4, dtype=np.float16)
    assert "f16<4> " not in text_of("kernel void k(float* p) { *p = *p + 1.5; }")
    assert "f64" not in text_of("kernel void k(float* p) { *p = *p * 1.5 + 2; }")
    same(computed("x + 0.1", "half", ("half x[4]", h), shape="4"), h + np.float16(0.1))
    same(computed("i * 0.5", "double", ("int i[8]", N), shape="8"), N * np.float32(0.5))
    assert "fmul" in (t := text_of("kernel void k(double* p, int i) { *p = i * 0.1; }"))
    assert ": f32" in t
    same(computed("0.1", "double"), 0.1)
    same(computed("0.1f", "double"), float(np.float32(0.1)))
    same(computed("1.0 / 3.0", "double"), 1 / 3)
    same(computed("1 / 3.0 * x", "double", ("double x", np.array(1.0))), float(np.float32(1 / 3)))
    same(computed("-0.0", "float"), np.float32(-0.0))
    assert np.signbit(computed("-0.0", "float"))
    same(computed("INFINITY", "float"), np.float32(np.inf))
    assert np.isnan(computed("x + NAN", "half", ("half x[4]", h), shape="4")).all()


def test_constants_without_a_fraction() -> None:
    same(computed("(bool)INFINITY", "bool"), True)
    same(computed("(bool)-0.0", "bool"), False)
    same(computed("(bool)0.0", "bool"), False)
    same(computed("(int)-0.0", "int"), 0)
    same(computed("(int)INFINITY", "int"), 2**31 - 1)
    same(computed("(unsigned char)-INFINITY", "uint8"), 0)
    same(computed("(int)NAN", "int"), 0)
    same(computed("(char)-1e10", "char"), -128)
    same(computed("(unsigned int)4e9", "uint32"), 4 * 10**9)
    same(computed("1.0 / 0.0", "double"), np.inf)
    same(computed("-1.0 / 0.0", "double"), -np.inf)
    same(computed("INFINITY * -2.0 + 1.0", "double"), -np.inf)
    same(computed("1.0 / -0.0", "double"), -np.inf)
    for nothing in ("0.0 / 0.0", "INFINITY - INFINITY"):
        assert np.isnan(computed(nothing, "double"))
    same(computed("3.0 > 2.5", "bool"), True)


def test_constants_round_once() -> None:
    """1 + 2^-11 + 2^-40 is above the middle of two halves, but as a float it is the middle."""
    text = "1.000488281250909494701772928237915039062500"
    same(computed(text, "half"), np.float16(1 + 2**-10))
    assert round_exact(parse(text), HALF.ir) == 1 + 2**-10
    same(computed("16777217.0", "float"), np.float32(16777216))
    same(computed("1.0 + 0.00048828125 + 1e-20", "half"), np.float16(1 + 2**-10))
    same(computed("1.00048828125 - 1e-20 * 1.0", "half"), np.float16(1))
    same(computed("0x1.8p1", "float"), np.float32(3))


def test_integer_constants_have_c_types() -> None:
    for text, want in [("2147483648", "i64"), ("0x80000000", "i32"), ("4294967295u", "i32"),
                       ("0xFFFFFFFFFF", "i64"), ("1l", "i64"), ("'a'", "i32")]:
        source = f"kernel void k(double* p, char c) {{ *p = {text} - c; }}"
        line = next(t for t in text_of(source).splitlines() if " sub " in t)
        assert line.endswith(want), text
    same(computed("0xFFFFFFFF > 0", "bool"), True)
    same(computed("-1 > 0u", "bool"), True)
    same(computed("-2147483648 < 0", "bool"), True)
    same(computed("sizeof(half) + sizeof(int64)", "int"), 10)


def test_constants_fold() -> None:
    text = text_of("const int N = 4 * 3; kernel void k(int* p) { *p = N % 5 + (N > 3 ? 1 : 2); }")
    assert "value = 3" in text and "srem" not in text and "select" not in text


# --- elementwise builtins ---


@pytest.mark.parametrize("name", ["exp", "exp2", "sqrt", "sin", "cos", "tanh", "floor", "ceil",
                                  "trunc", "log", "log2"])
def test_math(name: str) -> None:
    x = np.abs(F) + np.float32(0.3)
    want = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    same(computed(f"{name}(x)", "float", ("float x[8]", x), shape="8"), want)
    same(computed(f"{name}f(x)", "float", ("float x[8]", x), shape="8"), want)


def test_math_of_other_types() -> None:
    i = np.arange(4, dtype=np.int32)
    same(computed("sqrt(x)", "double", ("int x[4]", i), shape="4"), np.sqrt(i.astype(np.float32)))
    h = np.arange(4, dtype=np.float16)
    same(computed("exp(x)", "float", ("half x[4]", h), shape="4"), np.exp(h))
    same(computed("sqrt(2.0)", "double"), np.sqrt(2))
    same(computed("round(x)", "float", ("float x[2]", np.float32([2.5, -2.5])), shape="2"), [3, -3])
    same(computed("rsqrt(x)", "float", ("float x[1]", np.float32([4])), shape="1"), [0.5])
    same(computed("erf(x)", "float", ("float x[1]", np.float32([0])), shape="1"), [0])


def test_choices() -> None:
    y = ("int y[8]", N[::-1].copy())
    same(computed("min(x, y)", "int", INT8, y, shape="8"), np.minimum(N, N[::-1]))
    same(computed("max(x, y, 2, 1)", "int", INT8, y, shape="8"),
         np.maximum(np.maximum(N, N[::-1]), 2))
    same(computed("max(x, 0u)", "uint32", INT8, shape="8"), np.maximum(N.view(np.uint32), 0))
    same(computed("clamp(x, -1, 2)", "int", INT8, shape="8"), np.clip(N, -1, 2))
    same(computed("clamp(x, 0, 1)", "float", FLOAT8, shape="8"), np.clip(F, 0, 1))
    same(computed("abs(x)", "int", INT8, shape="8"), np.abs(N))
    same(computed("abs(x)", "float", FLOAT8, shape="8"), np.abs(F))
    same(computed("fma(x, x, 0.5)", "float", FLOAT8, shape="8"), F * F + np.float32(0.5))
    same(computed("fma(x, x, 1)", "int", INT8, shape="8"), N * N + 1)
    same(computed("select(x > 0, x, 0.5)", "float", FLOAT8, shape="8"), np.where(F > 0, F, 0.5))
    same(computed("x > 0 ? x : y", "int", INT8, y, shape="8"), np.where(N > 0, N, N[::-1]))
    same(computed("*select(x > 0, p0, p1)", "int", INT8, y, shape="8"),
         np.where(N > 0, N[0], N[7]))
    same(computed("max(x, 0)", "float", ("float x[2]", np.float32([np.nan, -1])), shape="2"), 0)


@pytest.mark.parametrize(("type", "constant", "result"), [
    ("int", "3u", "uint32"), ("int", "3l", "int64"), ("char", "3u", "uint32"), ("int", "3", "int"),
    ("uint32", "3", "uint32"), ("uint32", "3l", "int64"), ("long", "3ul", "uint64"),
    ("long", "3u", "int64"), ("char", "3", "int8"),
])
def test_choices_convert_as_in_c(type: str, constant: str, result: str) -> None:
    x = N.astype({"char": np.int8, "int": np.int32, "uint32": np.uint32, "long": np.int64}[type])
    want = np.where(N < 0, x, 3).astype(getattr(np, result.replace("int", "int32")
                                                if result == "int" else result))
    for choice in (f"y < 0 ? x : {constant}", f"y >= 0 ? {constant} : x",
                   f"select(y < 0, x, {constant})"):
        same(computed(f"({choice}) / 2", "long", (f"{type} x[8]", x), ("int y[8]", N), shape="8"),
             np.trunc(want / 2) if want.dtype.kind == "i" else want // 2)


def test_conditional_with_a_scalar_condition() -> None:
    for n, want in ((3, 30), (-3, 6)):
        operand = ("int x", np.array(n, np.int32))
        same(computed("x > 0 ? x * 10 : -x * 2", "int", operand), want)
        same(computed("(x > 0 ? x * 10 : (int[4])6)", "int", operand, shape="4"), want)
        same(computed("x > 0 ? *(p0 + 0) * 10 : 6", "int", operand), want)
    zero = ("int x", np.array(0, np.int32))
    same(computed("x != 0 ? 7 / x : -1", "int", zero), -1)
    same(computed("x != 0 && 7 / x > 2", "bool", zero), False)
    same(computed("x == 0 || 7 / x > 2", "bool", zero), True)
    same(computed("x != 0 && *(p0 + 100000000 * x) > 2", "bool", zero), False)


def test_free_choices_do_not_branch() -> None:
    text = text_of("kernel void k(int* p, int a, int b) { *p = a < b && b < 9 ? a + 1 : b * 2; }")
    assert "cond_br" not in text and "select" in text and " and " in text
    text = text_of("kernel void k(int* p, int a, int b) { *p = a < b ? a / b : 1; }")
    assert "cond_br" in text
    text = text_of("kernel void k(int* p, int a, int b) { *p = a < b ? a / 4 : 1; }")
    assert "cond_br" not in text


def test_short_circuit_with_side_effects() -> None:
    source = """kernel void k(int* p, int a) {
      int n = 0;
      if (a > 0 && (n = n + 5) > 0) n += 1;
      int m = a > 0 ? (n += 100) : (n -= 100);
      *p = n; *(p + 1) = m;
    }"""
    same(execute(source, np.zeros(2, np.int32), 1)[0], [106, 106])
    same(execute(source, np.zeros(2, np.int32), -1)[0], [-100, -100])


def test_increments() -> None:
    source = """kernel void k(int* p) {
      int i = 5; int* q = p;
      *q++ = i++; *q++ = i; *q++ = ++i; *q++ = i--; *q = --i;
      (*p)++; --*(p + 1);
      float f[4] = 0 ... 4; f++;
      *(p + 5) = (int)f[+];
    }"""
    same(execute(source, np.zeros(6, np.int32))[0], [6, 5, 7, 7, 5, 10])


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"])
def test_compound_assignment(operator: str) -> None:
    x = np.array([100, 7, -9, 12], np.int32)
    want = {"/": np.trunc(x / 2), "%": np.fmod(x, 2)}.get(operator)
    if want is None:
        want = eval(f"x {operator} 2", {"x": x})
    source = f"""kernel void k(int* p) {{
      int x[4] = *(p + 0 ... 4); x {operator}= 2; *(p + 4 + 0 ... 4) = x;
      *(p + 0 ... 4) {operator}= 2;
    }}"""
    found = execute(source, np.concatenate([x, x]))[0]
    same(found[:4], want)
    same(found[4:], want)


def test_assignment_converts() -> None:
    source = """kernel void k(half* h, int* p) {
      half x = 1; x = x + 0.1; x *= 3; *h = x;
      char c = (char)300; *p = c; c += 200; *(p + 1) = c;
      bool b = *(p + 1); *(p + 2) = b;
      int a, d; a = d = 4; *(p + 3) = a + d;
    }"""
    h, p = execute(source, np.zeros(1, np.float16), np.zeros(4, np.int32))
    same(h, (np.float16(1) + np.float16(0.1)) * np.float16(3))
    same(p, [44, -12, 1, 8])


def test_8_bit_floats_and_bfloat16_compute() -> None:
    raw = np.array([0x3F80, 0x4000], np.uint16)  # 1 and 2
    same(computed("x + 0.5", "float", ("bfloat16 x[2]", raw), shape="2"), [1.5, 2.5])
    same(computed("x * 2 + 0.25", "float", ("float8_e4m3 x[2]", np.array([0x38, 0x40], np.uint8)),
                  shape="2"), [2.25, 4.25])


def test_products_and_sums_of_one_expression_may_contract() -> None:
    source = """kernel void k(float* p, float a, float b) {
      float x = a * b;
      float y = x + a;
      float z = a + b * y;
      z -= x * y;
      *p = (z - x) * a - b;
    }"""
    marked = [line for line in text_of(source).splitlines() if "contract" in line]
    assert [line.split(" = ")[1].split()[0] for line in marked] == [
        "fmul", "fadd", "fmul", "fsub", "fmul", "fsub"]
    diagnostics = Diagnostics()
    module = analyze(program_of(source, diagnostics), {}, diagnostics, Options(fp_contract=False))
    assert "contract" not in print_module(module)


@pytest.mark.parametrize(("type", "constant", "result"), [
    ("char", "0", "i8"), ("char", "-128", "i8"), ("char", "128", "i32"), ("char", "0u", "i32"),
    ("uint8", "-1", "i32"), ("uint8", "255", "i8"), ("char", "(char)-1", "i8"),
    ("char", "4294967295u", "i32"), ("float8_e4m3", "0", "f8e4m3"), ("tf32", "0", "tf32"),
    ("float8_e4m3", "1.5", "f8e4m3"), ("float8_e4m3", "1.1", "f32"), ("half", "0.1", "f16"),
    ("float8_e4m3", "NAN", "f8e4m3"), ("float8_e4m3", "INFINITY", "f32"), ("bool", "1", "i1"),
    ("half", "0.0f", "f32"), ("float", "0", "f32"), ("float", "0.1", "f32"), ("int", "0.5", "f32"),
    ("char", "0.5", "f32"), ("half", "100000", "f16"), ("tf32", "0.0", "tf32"),
])
def test_a_constant_beside_a_load_keeps_its_type(type: str, constant: str, result: str) -> None:
    for choice in (f"r < 2 ? *(p + r) : {constant}", f"n ? *p : {constant}",
                   f"select(r < 2, {constant}, *(p + r))"):
        text = text_of(f"""kernel void k({type}* p, double* q, int n) {{
          int r[4] = 0 ... 4; *(q + r) = {choice};
        }}""")
        line = [t for t in text.splitlines() if "psi" in t or "select" in t or "phi" in t][-1]
        assert line.rpartition(" : ")[2].removesuffix("<4>") == result, choice


def test_predicates_of_fewer_axes_give_one_psi_too() -> None:
    text = text_of("""kernel void k(int* p, int n) {
      int r[8] = 0 ... 8; int y[4, 8] = 5;
      if (r < n) y = 1; else y = 2;
      *(p + r) = y;
    }""")
    psis = [line.partition("=")[2] for line in text.splitlines() if "psi" in line]
    assert len(psis) == 2 and "%y" not in psis[1]
