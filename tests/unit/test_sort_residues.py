"""Rows of one residue: random programs by the simulators, and what must stay as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

sys.path.insert(0, str(Path(__file__).parent.parent))

import random_products

TEXT = """
kernel void up(const half* x, const half* w, float* y, int* count, int B, int W, int C, int N) {
  int p[64] = get_global_range(0), n[64] = get_global_range(1);
  int J = 2 * W, b[64] = p / J, j[64] = p % J;
  float acc[64, 64] = 0;
  for (int s = 0; s < 4; s++) {
    int v[64] = j + 1 - s;
    bool in[64] = b < B && v >= 0 && v % 2 == 0 && v / 2 < W;
    for (int c0 = 0; c0 < C; c0 += 32) {
      int c[32] = c0 + 0 ... 32;
      half a[64, 32] = in[:, newaxis] && c < C ? x[(b * W + v / 2)[:, newaxis] * C + c] : 0;
      half f[32, 64] = (c < C)[:, newaxis] && n < N ? w[(s * C + c)[:, newaxis] * N + n] : 0;
      acc = dot(a, f, acc);
    }
  }
  @((b < B)[:, newaxis] && n < N) y[p[:, newaxis] * N + n] = acc;
}
"""


def changed(text: str) -> bool:
    made = driver.compile(SourceFile("up.tc", text), Options(arch="sm_90a", warnings=("no-all",)),
                          ("ptx",))
    return any("rows of one residue" in str(item) for item in made.remarks)


def test_a_transposed_convolution() -> None:
    assert changed(TEXT)


def test_a_stride_of_the_program() -> None:
    text = TEXT.replace("int N)", "int N, int S)").replace("% 2", "% S").replace("v / 2", "v / S")
    assert changed(text.replace("2 * W", "S * W"))
    assert not changed(text.replace("2 * W", "S * W").replace("s++", "s += 2"))


@pytest.mark.parametrize("old, new", [
    ("acc = dot", "count[c0] = s; acc = dot"),  # the loop does more than add
    ("acc = dot(a, f, acc)", "acc = dot(a, f, acc * 2)"),
    ("acc = dot(a, f, acc)", "acc = dot(a, f, acc) + (float)s"),
    ("== 0 &&", "== 0 || v == 7 &&"),  # no conjunct
    (": 0;\n      half f", ": 1;\n      half f"),
    ("s < 4;", "s != 4;"),  # larger steps would go over it
    ("s++", "s += 2"),
    ("  @((b < B)", "  count[get_program_id(0)] = 1;\n  @((b < B)"),  # who computes what
    ("  @((b < B)", "  atomic_add(y, (acc[+, :])[+]);\n  @((b < B)"),  # brings rows together
    ("  @((b < B)", "  acc += cumsum(acc, 0);\n  @((b < B)"),
])
def test_what_stays(old: str, new: str) -> None:
    assert old in TEXT and not changed(TEXT.replace(old, new))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    random_products.check(random_products.transposed(seed), threads=seed % 4 == 0)
