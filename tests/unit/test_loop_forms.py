"""Loops that mean the same get the same machinery, however the source wrote them."""

from __future__ import annotations

from collections import Counter

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

HEAD = """
#define TM 128
#define TN 256
#define TK 64
#define MASKS \\
    bool ca[TM, TK] = (rm < M)[:, newaxis] && rk + k < K; \\
    bool cb[TK, TN] = (rk + k < K)[:, newaxis] && rn < N;
#define BODY MASKS \\
    bfloat16 A[TM, TK] = ca ? *pa : 0, B[TK, TN] = cb ? *pb : 0;
#define FULL \\
    bfloat16 A[TM, TK] = (rm < M)[:, newaxis] ? *pa : 0, B[TK, TN] = rn < N ? *pb : 0;
#define STEP C += dot(A, B); pa += TK; pb += TK * N;
kernel void product(const bfloat16* a, const bfloat16* b, bfloat16* c, int M, int N, int K) {
  int rm[TM] = get_global_range(0), rn[TN] = get_global_range(1), rk[TK] = 0 ... TK;
  const bfloat16* pa[TM, TK] = a + rm[:, newaxis] * K + rk;
  const bfloat16* pb[TK, TN] = b + rk[:, newaxis] * N + rn;
  float C[TM, TN] = 0;
"""
TAIL = """
  bool inside[TM, TN] = (rm < M)[:, newaxis] && rn < N;
  @inside *(c + rm[:, newaxis] * N + rn) = C;
}
"""
PLAIN = "for (int k = 0; k < K; k += TK) { BODY STEP }"
FORMS = [
    "int k = 0; do { BODY STEP k += TK; } while (k < K);",
    "int k = 0; if (K > 0) do { BODY STEP k += TK; } while (k < K);",
    "if (K > 0) for (int k = 0; k < K; k += TK) { BODY STEP }",
    "int k = 0; for (;;) { if (k >= K) break; BODY STEP k += TK; }",
    "int k = 0; while (1) { BODY STEP k += TK; if (k >= K) break; }",
    "int k = 0; while (1) { BODY C += dot(A, B); k += TK; if (k >= K) break; "
    "pa += TK; pb += TK * N; }",
    "int k = 0; while (1) { BODY if (k >= K) break; STEP k += TK; }",
    "for (int k = 0; k < K; k += TK) { BODY STEP if (k + TK >= K) break; }",
    "for (int k = 0; k < 65536; k += TK) { if (k >= K) break; BODY STEP }",
    "bool done = K <= 0; int k = 0; while (!done) { BODY STEP k += TK; done = k >= K; }",
    "int k = 0, i = 0; while (k < K) { BODY STEP i++; k = i * TK; }",
    "for (int k = 0; k < K; k += TK) { if (k > 1000000) return; BODY STEP }",
    "int k = 0; for (; k + TK <= K; k += TK) { FULL STEP } for (; k < K; k += TK) { BODY STEP }",
    "int k = 0; for (; k + TK <= K; k += TK) { FULL STEP } if (k < K) { BODY STEP }",
    "for (int k = 0; k < K; k += TK) for (int once = 0; once < 1; once++) { BODY STEP }",
    "for (int k = 0; k < K; k += TK) { bfloat16 A[TM, TK] = 0, B[TK, TN] = 0; "
    "if (k + TK <= K) { A = (rm < M)[:, newaxis] ? *pa : 0; B = rn < N ? *pb : 0; } "
    "else { MASKS A = ca ? *pa : 0; B = cb ? *pb : 0; } STEP }",
    "for (int k = 0; k < K; k += TK) { bfloat16 A[TM, TK] = 0, B[TK, TN] = 0; "
    "if (k > K - TK) { MASKS A = ca ? *pa : 0; B = cb ? *pb : 0; } "
    "else { A = (rm < M)[:, newaxis] ? *pa : 0; B = rn < N ? *pb : 0; } STEP }",
    "if (K <= 0) return; " + PLAIN,
    "int k = 0; if (K <= 0) return; do { BODY STEP k += TK; } while (k < K);",
]
MACHINERY = {"sm_90a": ("tma_load", "start_producer", "wgmma"),
             "sm_80": ("async_copy", "async_wait", "mma_dot")}


def machinery(loop: str, target: str) -> Counter[str]:
    source = SourceFile("product.tc", HEAD + loop + TAIL)
    options = Options(arch=target, stop_after="pipeline", warnings=("no-all",))
    module = driver.compile(source, options, ("tir",)).module
    assert module is not None
    names = Counter(op.name for op in module.kernels[0].ops())
    return Counter({name: names[name] for name in MACHINERY[target]})


@pytest.fixture(scope="module", params=list(MACHINERY))
def plain(request: pytest.FixtureRequest) -> tuple[str, Counter[str]]:
    found = machinery(PLAIN, request.param)
    assert all(found[name] for name in MACHINERY[request.param])
    return request.param, found


@pytest.mark.parametrize("loop", FORMS)
def test_same_machinery(loop: str, plain: tuple[str, Counter[str]]) -> None:
    target, wanted = plain
    assert machinery(loop, target) == wanted
