"""Bodies of rare programs compute products in slices, which take turns in a buffer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tritonc.backend.dots import stage_dots

sys.path.insert(0, str(Path(__file__).parent.parent))

import random_products

TEXT = """
//! size: M = 100, N = 120, K = 100
//! range: M, N
//! arg: a = randn(M, K)
//! arg: b = randn(K, N)
//! arg: c = zeros(M, N)
//! arg: M = M
//! arg: N = N
//! arg: K = K
//! expect: c = a @ b
//! tolerance: 0.05
kernel void product(const half* a, const half* b, float* c, int M, int N, int K) {
  int m[128] = get_global_range(0), n[128] = get_global_range(1);
  float acc[128, 128] = 0;
  for (int k0 = 0; k0 < K; k0 += 64) {
    int k[64] = k0 + 0 ... 64;
    half ta[128, 64] = (m < M)[:, newaxis] && k < K ? a[m[:, newaxis] * K + k] : 0;
    half tb[64, 128] = (k < K)[:, newaxis] && n < N ? b[k[:, newaxis] * N + n] : 0;
    acc = dot(ta, tb, acc);
  }
  @((m < M)[:, newaxis] && n < N) c[m[:, newaxis] * N + n] = acc;
}
"""


@pytest.mark.parametrize("target, how", [("sm_90a", "wgmma"), ("sm_80", "mma")])
def test_slices_in_turn(monkeypatch: pytest.MonkeyPatch, target: str, how: str) -> None:
    monkeypatch.setattr(stage_dots, "rare_programs", lambda kernel: list(kernel.blocks))
    product = random_products.Product(TEXT, (("tma_load", 0),), target)
    assert random_products.check(product, False).startswith(how)
