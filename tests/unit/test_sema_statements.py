"""Control flow and predicates, through the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from sema_programs import ZERO, X, body, execute, kernel_of, same, text_of

from tritonc.interp.interpreter import InterpreterError

# --- control flow ---


@pytest.mark.parametrize("n", [-2, 0, 1, 5, 9])
def test_scalar_control_flow(n: int) -> None:
    def reference(n: int) -> int:
        total = 0
        for i in range(n):
            if i == 2:
                continue
            if i == 6:
                break
            total += i if i % 2 else 10
        while total > 20:
            total -= 7
        while True:
            total += 1
            if total % 3 == 0:
                break
        return total

    source = """kernel void k(int* p, int n) {
      int total = 0;
      for (int i = 0; i < n; i++) {
        if (i == 2) continue;
        if (i == 6) break;
        if (i % 2) total += i; else total += 10;
      }
      while (total > 20) total -= 7;
      do total++; while (total % 3 != 0);
      *p = total;
    }"""
    same(execute(source, np.zeros(1, np.int32), n)[0], [reference(n)])


def test_loops_without_parts() -> None:
    source = """kernel void k(int* p, int n) {
      int i = 0;
      for (;;) { if (i >= n) break; i++; if (i == 3) continue; *p += i; }
      while (true) { i += 10; if (i > 50) return; *(p + 1) = i; }
    }"""
    same(execute(source, np.zeros(2, np.int32), 5)[0], [12, 45])


def test_do_while_with_continue_tests_its_condition() -> None:
    source = """kernel void k(int* p, int n) {
      int i = 0;
      do { i++; if (i == 2) continue; *p += i; } while (i < n);
    }"""
    same(execute(source, np.zeros(1, np.int32), 4)[0], [8])
    same(execute(source, np.zeros(1, np.int32), 0)[0], [1])


def test_scope() -> None:
    source = """kernel void k(int* p, float n) {
      int x = 1;
      { float x = 2.5f; { long x = 7; *p = x; } *(p + 1) = (int)(x * 2); }
      *(p + 2) = x;
      int n = 9;
      for (int x = 3; x < 4; x++) { int x = 100; *(p + 3) = x; }
      *(p + 4) = x + n;
    }"""
    same(execute(source, np.zeros(5, np.int32), 1.0)[0], [7, 5, 1, 100, 10])


def test_parameters_can_be_assigned() -> None:
    source = "kernel void k(int* p, int n) { n = n * 2; p += n; *p = n; }"
    same(execute(source, np.zeros(8, np.int32), 3)[0], [0, 0, 0, 0, 0, 0, 6, 0])


def test_known_conditions_leave_no_branch() -> None:
    text = text_of("""tunable int T = {4, 8};
      kernel void k(int* p) { if (T == 4) *p = 1; else *p = 2; while (T > 4) *p = 3; }""")
    assert "cond_br" not in text and "value = 3" not in text and "value = 2" not in text


def test_early_return_of_a_kernel() -> None:
    source = """kernel void k(int* p, int n) {
      if (n < 0) return;
      *p = 1;
      if (n == 0) { *(p + 1) = 1; return; }
      *(p + 2) = 1;
    }"""
    for n, want in ((-1, [0, 0, 0]), (0, [1, 1, 0]), (1, [1, 0, 1])):
        same(execute(source, np.zeros(3, np.int32), n)[0], want)


def test_a_loop_keeps_what_it_does_not_change() -> None:
    """Variables that a loop only reads, or never names, need no phi."""
    kernel = kernel_of("""kernel void k(int* p, int n) {
      int a = n * 3; int b = n; int c = 1;
      for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { b = a; *p = j + b; }
      *p = c + b;
    }""")
    phis = [op.result.name for op in kernel.ops() if op.name == "phi"]
    assert sorted(phis) == ["b", "b", "i", "j"]


def test_many_statements_are_no_deep_recursion() -> None:
    steps = "".join(f"if (n > {i}) m += {i};" for i in range(1500))
    source = f"kernel void k(int* p, int n) {{ int keep = n; int m = 0; {steps} *p = m + keep; }}"
    same(execute(source, np.zeros(1, np.int32), 10)[0], [45 + 10])
    nested = "- " * 200 + "n" + " + 1" * 700
    source = f"kernel void k(int* p, int n) {{ *p = {nested}; }}"
    same(execute(source, np.zeros(1, np.int32), 10)[0],
         [710])


# --- predicates ---


def test_tile_if() -> None:
    want = np.where(X > 0, X * 10, -X)
    same(body("if (x > 0) y = x * 10; else y = -x;")[1], want)
    same(body("if (x > 0) { y = x; y = y * 10; } else { int z[8] = x; y -= z; }")[1], want)
    same(body("y = 7; if (x > 0) y = x;")[1], np.where(X > 0, X, 7))


def test_both_branches_give_one_psi() -> None:
    text = text_of("""kernel void k(int* p) { int r[8] = 0 ... 8; int x[8] = *(p + r);
                      int y[8] = 5; if (x > 0) y = 1; else y = 2; *(p + r) = y; }""")
    psis = [line for line in text.splitlines() if "psi" in line]
    assert len(psis) == 2
    assert "%y" not in psis[1].partition("=")[2]  # neither the first value nor the first psi


def test_nested_predicates_conjoin() -> None:
    text = """y = 1;
      if (x > 0) { if (x > 4) y = 2; else y = 3; @(x == 4) y = 4; }
      else if (x == -1) y = 5;"""
    want = np.select([X == 4, X > 4, X > 0, X == -1], [4, 2, 3, 5], 1)
    same(body(text)[1], want)
    same(body("bool m[8] = x > 0; @m { @(x < 5) y = 9; }")[1], np.where((X > 0) & (X < 5), 9, 0))


def test_predicates_guard_memory() -> None:
    text = "int* w[8] = q + r; @(r < n) *w = x; if (r >= n) *(w + 100000) = 3; y = *w;"
    same(body("@(r < n) *(q + r) = x; y = *(q + r);")[1], np.where(np.arange(8) < 3, X, 0))
    with pytest.raises(InterpreterError, match="out of bounds"):
        body(text)
    far = "int z[8] = r > n ? *(p + r * 0) : *(p + r); y = r > 100 ? *(p + 123456789) : z;"
    same(body(far)[1], np.where(np.arange(8) > 3, X[0], X))


def test_each_side_is_guarded_by_its_own_condition() -> None:
    text = "bool ok[8] = r < n; y = ok ? *(p + r) : *(p + r - n);"
    same(body(text)[1], np.where(np.arange(8) < 3, X, np.concatenate([X[:3], X[:5]])))
    want = np.where((np.arange(8) >= 3) & (X > 0), 1, 0)
    same(body("y = r >= n && *(p + (r < n ? 123456789 + r : r)) > 0;")[1], want)
    same(body("y = r < n || *(p + (r < n ? 123456789 + r : r)) > 0;")[1],
         ((np.arange(8) < 3) | (X > 0)).astype(int))


def test_masked_access() -> None:
    same(body("y = *?(r < n) (p + r); y = r < n ? y : -7;")[1], np.where(np.arange(8) < 3, X, -7))
    same(body("*?(r < n) (q + r) = 5; *?(r >= n)(q + r) += x; y = *(q + r);")[1],
         np.where(np.arange(8) < 3, 5, X))
    same(body("y = * ?(n) (p + r); y += 1;")[1], X + 1)
    with pytest.raises(InterpreterError, match="undefined"):
        body("y = *?(r < n) (p + r);")
    same(body("@(x > 0) { y = *?(r < 6) (p + r); y = r < 6 ? y : 1; }")[1],
         np.where(X > 0, np.where(np.arange(8) < 6, X, 1), 0))


def test_masks_and_pointers_broadcast_together() -> None:
    same(body("y = r < n ? *p : 9;")[1], np.where(np.arange(8) < 3, 3, 9))
    same(body("@(r < 1) *(q + 3) = 8; y = *(q + r);")[1], np.where(np.arange(8) == 3, 8, 0))
    source = """kernel void k(float* p) {
      int i[3] = 0 ... 3; int j[2] = 0 ... 2;
      *?((i > 0)[:, newaxis] && true) (p + i[:, newaxis] * 2 + j) = i[:, newaxis] + 1;
      @(j == 0) *(p + 6 + j) = 5;
      *(p + 8 + i[:, newaxis] * 2) = (float[3, 1])7;
    }"""
    same(execute(source, np.zeros(14, np.float32))[0], [0, 0, 2, 2, 3, 3, 5, 0, 7, 0, 7, 0, 7, 0])


def test_conditions_convert_integers() -> None:
    same(body("@r y = 4;")[1], [0, 4, 4, 4, 4, 4, 4, 4])
    same(body("y = r ? 1 : 2;")[1], [2, 1, 1, 1, 1, 1, 1, 1])
    same(body("if (n) y = 1; @n y += 1; @(n - 3) y += 100;")[1], [2] * 8)


def test_scalars_inside_a_predicate() -> None:
    text = """@(x > 0) {
        int s = 0;
        for (int i = 0; i < n; i++) { s += i; if (i == 1) continue; y += x * i; }
        y += s;
      }"""
    want = np.where(X > 0, X * 2 + 3, 0)
    same(body(text)[1], want)


def test_tiles_declared_under_a_predicate_are_ordinary_there() -> None:
    text = """if (x > 0) { int z[8] = 1; z = z + x; if (x > 3) z = 100; y = z; }"""
    same(body(text)[1], np.where(X > 0, np.where(X > 3, 100, X + 1), 0))
    wide = """if ((r < n)[:, newaxis] && (r < n)) { int z[8] = r; @(r > 1) z = 50; y2 = z + y2; }
              y = y2[:, max];"""
    same(body("int y2[8, 8] = 0;" + wide)[1], np.where(np.arange(8) < 3, 50, 0))


def test_guarded_division() -> None:
    same(body("@(x - 3) y = 12 / (x - 3);")[1],
         [int(12 / (v - 3)) if v != 3 else 0 for v in X])
    same(body("y = x == 3 ? 0 : 12 / (x - 3);")[1],
         [int(12 / (v - 3)) if v != 3 else 0 for v in X])
    with pytest.raises(InterpreterError, match="division by zero"):
        body("y = 12 / (x - 3);")
    same(body("@(r > 100) { int s = n / (n - 3); y = s; }")[1], ZERO)
    with pytest.raises(InterpreterError, match="division by zero"):
        body("@(r > 6) { int s = n / (n - 3); y = s; }")
    same(body("if ((r > 100)[:, newaxis] && r > 0) { int s[8] = r / (r - 3); }")[1], ZERO)


def test_calls_under_a_predicate() -> None:
    source = """
      int[8] pick(int a[8], int limit) { if (limit > 100) return a; int s = limit; s += 1;
                                         return a + s; }
      void put(int* p[8], int v[8]) { *p = v; if (any(v > 1000)) return; @(v > 4) *p = 0; }
      kernel void k(int* p, int* q) {
        int x[8] = *(p + 0 ... 8); int y[8] = -1;
        if (x > 0) { y = pick(x, 2); put(q + 0 ... 8, y); }
        @(x < 0) y = pick(x, 200);
        *(p + 0 ... 8) = y;
      }"""
    p, q = execute(source, X, ZERO)
    same(p, np.where(X > 0, X + 3, X))
    same(q, np.where((X > 0) & (X + 3 <= 4), X + 3, 0))


def test_uninitialised_tiles_take_masked_assignments() -> None:
    same(body("int z[8]; @(x > 0) z = x; if (x > 0) y = z;")[1], np.where(X > 0, X, 0))
    with pytest.raises(InterpreterError, match="undefined"):
        body("int z[8]; @(x > 0) z = x; y = z;")


def test_maybe_uninitialised_is_left_to_the_interpreter() -> None:
    text = "int s; if (n > 5) s = 1; y = s;"
    same(body(text, X, ZERO, 6)[1], [1] * 8)
    with pytest.raises(InterpreterError, match="undefined"):
        body(text)


def test_loads_under_a_predicate_keep_the_shape_of_their_pointer() -> None:
    source = """
      int at(int* p, int i) { int v = *(p + i); return v; }
      kernel void k(int* p, int* q, int n) {
        int r[8] = 0 ... 8; int c[4] = 0 ... 4; int y[8, 4] = 0;
        bool m[8, 4] = (r < n)[:, newaxis] && c < 3;
        @m {
          int s = *(p + 2);
          int rows[8] = *(p + r), columns[4] = *(p + c);
          y = s + at(p, 1) * 10 + rows[:, newaxis] * 100 + columns;
        }
        @(r > 100)[:, newaxis] { int far = *(p + 123456789); @(c > far) y = far; }
        *(q + r[:, newaxis] * 4 + c) = y;
      }"""
    r, c = np.arange(8)[:, None], np.arange(4)
    want = np.where((r < 3) & (c < 3), X[2] + X[1] * 10 + X[:, None] * 100 + X[:4], 0)
    same(execute(source, X, np.zeros((8, 4), np.int32), 3)[1], want)
    kernel = kernel_of(source)
    shapes = [getattr(op.results[0].type, "shape", ()) for op in kernel.ops() if op.name == "load"]
    assert shapes == [(), (8,), (4,), (), ()]
    text = "kernel void k(int* p, int* q) { int r[8] = 0 ... 8; *(q + r) = r > 2 ? *p : 0; }"
    load = next(op for op in kernel_of(text).ops() if op.name == "load")
    assert load.result.type.shape == (8,)
