"""The launch, atomics, checks, functions, tunables and tables, through the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from sema_programs import ZERO, X, body, diagnose, execute, kernel_of, lower, same, text_of

from tritonc.interp.interpreter import InterpreterError

# --- the launch ---


def test_global_ranges() -> None:
    source = """tunable int T = {4, 8};
      kernel void k(int* p, int n) {
        int r[T] = get_global_range(0);
        int c[3] = get_global_range[3](1);
        long again[T] = get_global_range(0);
        bool m[T, 3] = (r < n)[:, newaxis] && c < 4;
        @m *(p + r[:, newaxis] * 4 + c) = (r * 10)[:, newaxis] + c + 100 * get_num_programs(0);
        @(again < 0) *p = 0;
      }"""
    kernel = kernel_of(source, T=8)
    assert kernel.tile == {0: 8, 1: 3} and kernel.tunables == {"T": 8}
    r, c = np.arange(10)[:, None], np.arange(4)
    same(execute(source, np.zeros((10, 4), np.int32), 10, grid=(3, 2))[0], r * 10 + c + 300)


def test_program_ids() -> None:
    source = """kernel void k(int* p) {
      int i = get_program_id(0) + get_range_id(1) * get_num_program(0);
      *(p + i) = i + 1;
    }"""
    assert kernel_of(source).tile == {0: 1, 1: 1}
    same(execute(source, np.zeros(6, np.int32), grid=(2, 3))[0], np.arange(6) + 1)
    both = "kernel void k(int* p) { *(p + get_global_range[4](2)) = get_program_id(2); }"
    assert kernel_of(both).tile == {2: 4}


# --- atomics, barriers, hints, checks ---


def test_atomics() -> None:
    source = """kernel void k(int* p, float* f, unsigned int* u, long* l) {
      int r[4] = 0 ... 4;
      int old[4] = atomic_add(p + r, 10);
      *(p + 4 + r) = old;
      atomic_max(p, 100); __atomic_min(p + 1, -5); atomic_xchg(p + 2, 77); __atomic_exch(p + 3, 78);
      f32_atomic_add(f + r, 1.5);
      atomic_add_float_1x1(f, 100, r[max] > 2);
      atomic_add(float, 2, 2)(f + reshape(r, 2, 2), 1000, reshape(r > 1, 2, 2));
      atomic_max(u, 5); atomic_or(u + 1, 6); atomic_and(u + 2, 6u); atomic_xor(u + 3, 1);
      *(p + 8) = atomic_cas(p + 2, 77, 5);
      if (r > 2) atomic_add(l + r, 3);
    }"""
    p, f, u, w = execute(source, np.arange(10, dtype=np.int32), np.zeros(4, np.float32),
                         np.array([2**31, 1, 7, 3], np.uint32), np.zeros(4, np.int64))
    same(p, [100, -5, 5, 78, 0, 1, 2, 3, 77, 9])
    same(f, [101.5, 1.5, 1001.5, 1001.5])
    same(u, [2**31, 7, 6, 2])
    same(w, [0, 0, 0, 3])


def test_locks() -> None:
    source = """kernel void k(int* lock, int* p) {
      while (atomic_cas(lock, 0, 1) == 1) ;
      *p = *p + 1;
      __debug_barrier();
      atomic_xchg(lock, 0);
    }"""
    same(execute(source, np.zeros(1, np.int32), np.zeros(1, np.int32), grid=(5,))[1], [5])


def test_hints() -> None:
    kernel = kernel_of("""kernel void k(int* p __aligned(16), int n __multipleof(8),
                            multiple_of(4) int m, restrict read_only align(32) const float* q,
                            __retune int s, long* w __writeonly, unsigned char c) {
      int r[4] __multipleof(2) = (0 ... 4) * 2;
      int x = multiple_of(n * 3, 24);
      assume(n > 0);
      *(p + r) = x + m + s + c; *w = (long)*q;
    }""")
    info = kernel.info
    assert [i.multiple_of for i in info] == [16, 8, 4, 32, 1, 1, 1]
    assert [i.ctype for i in info] == ["int *", "int", "int", "const float *", "int", "long long *",
                                       "unsigned char"]
    assert [i.read_only for i in info] == [False, False, False, True, False, False, False]
    assert info[3].no_alias and info[4].retune and info[5].write_only and not info[0].no_alias
    assert [op.attributes["n"] for op in kernel.ops() if op.name == "assume_multiple"] == [2, 24]
    with pytest.raises(InterpreterError, match="does not hold"):
        body("assume(n == 4);")
    with pytest.raises(InterpreterError, match="not a multiple of 2"):
        body("int m __multipleof(2) = n; y = m;")


def test_read_only_hints_are_dropped_where_they_are_false() -> None:
    source = """kernel void k(read_only int* p, read_only int* q, int* o, int c) {
      int* w[4] = (c > 0 ? p : o) + 0 ... 4;
      for (int i = 0; i < c; i++) w += 4;
      *w = *q;
    }"""
    found = diagnose(source)
    assert [(d.name, d.span.line if d.span else 0) for d in found] == [("read-only", 4)]
    assert [i.read_only for i in kernel_of(source).info] == [False, True, False, False]


def test_checks_and_output() -> None:
    lines: list[str] = []
    source = """kernel void k(int* p, float f, unsigned char c) {
      int x[2] = *(p + 0 ... 2);
      if (x > 1) printf("%d %5.2f %u|", x, f, c);
      printf("done %% %s" + 0);
    }""".replace('%s" + 0', '"')
    execute(source, np.array([1, 2], np.int32), 1.5, 200, output=lines)
    assert lines == ["2  1.50 200|", "done % "]
    text = text_of("""kernel void k(int* p, short s, unsigned char c, half h, long w, bool b) {
      printf("%p %d %u %f %ld %d %g", p, s, c, h, w, b, 0.5); }""")
    types = {line.split()[0]: line.split()[-1] for line in text.splitlines() if " = " in line[:8]}
    line = next(line for line in text.splitlines() if line.strip().startswith("printf"))
    operands = line.strip().removeprefix("printf ").partition(" {")[0].split(", ")
    assert [types.get(o, "parameter") for o in operands] == [
        "i64", "i32", "i32", "f64", "parameter", "i32", "f64"]
    with pytest.raises(InterpreterError, match="assertion failed: n < 3"):
        body("assert(n < 3);")
    with pytest.raises(InterpreterError, match="too large"):
        body('@(r > 3) assert(x < 6, "too large");')
    same(body('@(r < 3) assert(x < 6, "too large");')[1], ZERO)


# --- functions ---


def test_device_functions() -> None:
    source = """
      tunable int T = {8};
      int square(int);
      float[T] scale(float x[T], float by) { x *= by; return x; }
      int square(int x) { return x * x; }
      int steps(int n) { int c = 0; while (n != 1) { if (n % 2 == 0) n /= 2; else n = 3 * n + 1;
                         c++; if (c > 1000) return -1; } return c; }
      static inline void nothing() { }
      kernel void k(float* p, int n) {
        int r[T] = 0 ... T;
        nothing();
        float x[T] = scale(r, square(n) + steps(n));
        *(p + r) = scale(x, 0.5);
      }"""
    same(execute(source, np.zeros(8, np.float32), 6)[0], np.arange(8) * 22.0)


def test_parameters_of_functions_are_copies() -> None:
    source = """int twice(int x) { x = x * 2; int n = 100; return x + n; }
      kernel void k(int* p) { int x = 1; int n = 2; *p = twice(x); *(p + 1) = x + n; }"""
    same(execute(source, np.zeros(2, np.int32))[0], [102, 3])


def test_returns_from_loops() -> None:
    source = """int find(int* p, int n, int v) {
        for (int i = 0; i < n; i++) { if (*(p + i) == v) return i; }
        return -1;
      }
      kernel void k(int* p, int* o) { *o = find(p, 8, 5); *(o + 1) = find(p, 8, 50); }"""
    same(execute(source, X, np.zeros(2, np.int32))[1], [4, -1])


def test_entry_points() -> None:
    def names(source: str) -> list[str]:
        return [kernel.name for kernel in lower(source).kernels]

    assert names("void a(int* p) { *p = 1; } void b(int* p) { h(p); } void h(int* p) { *p = 2; }"
                 "int c() { return 1; }") == ["a", "b"]
    assert names("__global__ void a(int* p) { b(p); } void b(int* p) { *p = 1; }") == ["a"]
    assert names("kernel void a(int* p); void a(int* p) { *p = 1; } void b() {}") == ["a"]


def test_builtins_can_be_hidden() -> None:
    source = """int dot(int a, int b) { return a * b + 1; }
      kernel void k(int* p) { int sum = 4; int max = dot(sum, 3); *p = max + min(sum, 1); }"""
    same(execute(source, np.zeros(1, np.int32))[0], [14])


# --- tunables, constants, tables ---


def test_tunables_and_constants() -> None:
    source = """
      const int W = 2 * TM;   // names of the file are known everywhere in it
      const tunable int TM = {4, 8, 16};
      tunable int unused = {3};
      const float scale = 0.1;
      kernel void k(float* p) {
        const int half_of = TM / 2;
        float x[half_of, 2] = scale * W;
        *(p + (0 ... half_of)[:, newaxis] * 2 + 0 ... 2) = x;
      }"""
    kernel = kernel_of(source)
    assert kernel.tunables == {"TM": 4}
    want = np.float32(0.1) * np.float32(16)
    same(execute(source, np.zeros(8, np.float32), TM=8)[0], np.full(8, want))


def test_constant_tables() -> None:
    source = """
      const int N = 6;
      __constant__ int* delta = alloc_const int[N];
      __constant__ float* weight = alloc_const float[2];
      char __constant__* host = calloc(16);
      for (int c = 0; c < N; c++) { delta[c] = c * c; if (c == 4) delta[c] += 100; }
      *weight = 1.5; *(weight + 1) = delta[2] / 8.0;
      kernel void k(float* o, int n) {
        __constant__ int* pd[4] = delta + 0 ... 4;
        int delta[4] = *pd;
        *(o + 0 ... 4) = delta;
        *(o + 4) = weight[1] + host[n];
      }"""
    module = lower(source)
    assert [(t.name, t.count, t.data) for t in module.constants] == [
        ("delta", 6, [0, 1, 4, 9, 116, 25]), ("weight", 2, [1.5, 0.5]), ("host", 16, None)]
    same(execute(source, np.zeros(5, np.float32), 3)[0], [0, 1, 4, 9, 0.5])


def test_statements_outside_functions() -> None:
    source = """
      __constant__ unsigned int* t = alloc_const unsigned int[8];
      for (int i = 0; i < 8; ++i) {
        int v = i;
        while (v > 3) { v -= 2; if (v == 4) break; }
        do v++; while (v < 2);
        if (i == 7) continue; else t[i] = v - 5;
      }
      static_assert(sizeof(int) == 4, "four bytes");
      kernel void k(int* p) { *p = t[0] > 100; }"""
    assert lower(source).constants[0].data == [-3, -3, -2, -1, -2, -1, 0, 0]
    same(execute(source, np.zeros(1, np.int32))[0], [1])
