"""Products that pass their sums on without a wait read their operands until the last one ends."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import random_products

# Eight taps side by side; what the next step loads does not fit beside them, so that no pipeline
# gives each operand stages of its own.
TAPS = """
//! size: B = 1, C = 32, F = 64, L = 32
//! range: 4 * L, F, B
//! arg: x = randn(B, C, L)
//! arg: w = randn(C, F, 8) * 0.1
//! arg: y = zeros(B, F, 4 * L)
//! arg: C = C
//! arg: F = F
//! arg: L = L
//! arg: S = 4
//! let: up = np.pad(x.reshape(B, C, L, 1), ((0, 0), (0, 0), (0, 0), (0, 3))).reshape(B, C, 4 * L)
//! let: padded = np.pad(up, ((0, 0), (0, 0), (5, 2)))
//! let: win = np.lib.stride_tricks.sliding_window_view(padded, 8, axis=2)
//! expect: y = np.einsum("bctk,cfk->bft", win, w[:, :, ::-1])
//! tolerance: 1e-2
kernel void taps(const half* x, const half* w, half* y, int C, int F, int L, int S) {
  int t[128] = get_global_range(0), f[64] = get_global_range(1);
  int b = get_program_id(2);
  float acc[64, 128] = 0;
  for (int k = 0; k < 8; k++) {
    int at[128] = t + 2 - k;
    bool ok[128] = at >= 0 && at % S == 0 && at / S < L;
    for (int c0 = 0; c0 < C; c0 += 16) {
      int c[16] = c0 + 0 ... 16;
      half tw[64, 16] = (f < F)[:, newaxis] && c < C ? w[(c * F + f[:, newaxis]) * 8 + k] : 0;
      half tx[16, 128] = (c < C)[:, newaxis] && ok ? x[(b * C + c)[:, newaxis] * L + at / S] : 0;
      acc = dot(tw, tx, acc);
    }
  }
  @((f < F)[:, newaxis] && t < 4 * L) y[(b * F + f)[:, newaxis] * (4 * L) + t] = acc;
}
"""


def test_operands_of_a_chain_of_sums() -> None:
    assert random_products.check(random_products.Product(TAPS, (), "sm_90a"), False) == "wgmma"
