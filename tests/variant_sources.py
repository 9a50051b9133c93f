"""Kernels with variants for tests, one for each rule of the choice."""

from __future__ import annotations

from pathlib import Path

from tritonc import stages
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.tuning_file import Entry, beside, render, source_hash

# Sizes of several integer types: M by its parameter, N by the range, K by its `arg:` line.
PRODUCT = """\
//! size: M = 40, N = 50, K = 60
//! range: M, N
//! arg: a = randn(M, K)
//! arg: b = randn(K, N)
//! arg: c = zeros(M, N)
//! arg: M = M
//! arg: columns = N
//! arg: depth = K
//! arg: step = 1
//! expect: c = a @ b
//! tolerance: 1e-5
const tunable int TM = {16, 64};
const tunable int TN = {16, 64, 128};
const tunable int TK = {8, 16};

kernel void product(const float* a, const float* b, float* c, unsigned M, long columns,
                    unsigned long depth, int step) {
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  int rk[TK] = 0 ... TK;
  int N = columns;
  const float* pa[TM, TK] = a + (rm[:, newaxis] * (int)depth + rk) * step;
  const float* pb[TK, TN] = b + rk[:, newaxis] * N + rn;
  float C[TM, TN] = 0;
  for (int k = (int)depth; k > 0; k -= TK) {
    bool check_a[TM, TK] = (rm < (int)M)[:, newaxis] && (rk < k);
    bool check_b[TK, TN] = (rk < k)[:, newaxis] && (rn < N);
    float A[TM, TK] = check_a ? *pa : 0;
    float B[TK, TN] = check_b ? *pb : 0;
    C += dot(A, B);
    pa += TK * step;
    pb += TK * N;
  }
  bool check_c[TM, TN] = (rm < (int)M)[:, newaxis] && (rn < N);
  @check_c *(c + rm[:, newaxis] * N + rn) = C;
}
"""
# What a choice asks for that tells aligned rows from others.
HALVES = PRODUCT.replace("float* ", "half* ").replace("float A", "half A").replace(
    "float B", "half B").replace("{8, 16}", "{16, 64}")
STREAM = """\
const tunable int T = {64, 256};

kernel void twice(float* x, unsigned N, int stride) {
  int r[T] = get_global_range(0);
  @(r < (int)N) *(x + r * stride) = 2 * *(x + r * stride);
}
"""
FACTS = ("T=256,stride==1,x%16,N%4,N>=64", "stride==1", "N<=63")  # of STREAM
SIZES = ({"M": 16, "N": 2560, "K": 2560}, {"M": 4096, "N": 4096, "K": 4096},
         {"M": 64, "N": 64, "K": 8192}, {"M": 128, "N": 128, "K": 128})
TUNED = ({"TM": 16, "TN": 64, "TK": 8}, {"TM": 64, "TN": 128, "TK": 16, "num_warps": 8},
         {"TM": 16, "TN": 16, "TK": 16}, {"TM": 16, "TN": 64, "TK": 8})


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def write_tuning(path: Path, target: str = "sm_80") -> None:
    """PRODUCT at `path` gets a tuning file with SIZES."""
    source = SourceFile(str(path), path.read_text())
    tokens = stages.preprocess(source, Options(), Diagnostics()).tokens
    entries = [Entry("product", target, size, (), source_hash(tokens), "GPU", 1.0, tunables)
               for size, tunables in zip(SIZES, TUNED, strict=True)]
    Path(beside(str(path))).write_text(render(entries))
