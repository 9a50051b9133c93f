"""Whole programs in the manner of both dialects of Triton-C, with real data."""

from __future__ import annotations

import numpy as np
import pytest
from sema_programs import execute, kernel_of

RNG = np.random.default_rng(3)


def close(found: np.ndarray, want: np.ndarray, tolerance: float = 1e-5) -> None:
    error = np.linalg.norm(found.astype(np.float64) - want) / np.linalg.norm(want)
    assert error <= tolerance


def test_paper_listing_1() -> None:
    source = """
      const tunable int TM = {16, 32, 64, 128};
      const tunable int TN = {16, 32, 64, 128};
      const tunable int TK = {8, 16};
      kernel void matmul_nt(float* a, float* b, float* c, int M, int N, int K) {
        int rm[TM] = get_global_range(0);
        int rn[TN] = get_global_range(1);
        int rk[TK] = 0 ... TK;
        float C[TM, TN] = 0;
        float* pa[TM, TK] = a + rm[:, newaxis] + rk * M;
        float* pb[TN, TK] = b + rn[:, newaxis] + rk * N;
        for (int k = K; k >= 0; k -= TK) {
          bool check_k[TK] = rk < k;
          bool check_a[TM, TK] = (rm < M)[:, newaxis] && check_k;
          bool check_b[TN, TK] = (rn < N)[:, newaxis] && check_k;
          float A[TM, TK] = check_a ? *pa : 0;
          float B[TN, TK] = check_b ? *pb : 0;
          C += dot(A, trans(B));
          pa = pa + TK * M;
          pb = pb + TK * N;
        }
        float* pc[TM, TN] = c + rm[:, newaxis] + rn * M;
        bool check_c[TM, TN] = (rm < M)[:, newaxis] && (rn < N);
        @check_c * pc = C;
      }"""
    a, b = (RNG.standard_normal((24, n)).astype(np.float32) for n in (20, 35))
    c = execute(source, a, b, np.zeros((35, 20), np.float32), 20, 35, 24, grid=(2, 3))[2]
    close(c, (a.T.astype(np.float64) @ b).T)


LATER = """
#define STM 4
#define STN 4
__global__ void dot(TYPE * A __noalias __readonly __aligned(16),
                    TYPE * B __noalias __readonly __aligned(16),
                    TYPE * C __noalias __aligned(16),
                    float alpha, int M __retune, int N __retune, int K __retune __multipleof(8),
                    int lda __multipleof(8), int ldb __multipleof(8), int ldc __multipleof(8),
                    int* locks) {
  int pid = get_program_id(0);
  int pidz = get_program_id(2);
  int gridm = (M + TM - 1) / TM;
  int gridn = (N + TN - 1) / TN;
  int width = STM*gridn;
  int stm = pid / width;
  int RSTM  = min(gridm - stm*STM, STM);
  int stn =  (pid % width) / (RSTM*STN);
  int RSTN = min(gridn - stn*STN, STN);
  int laneid = pid % (RSTM * RSTN);
  int lanem = laneid / RSTN;
  int lanen = laneid % RSTN;
  int pidm = stm*STM + lanem;
  int pidn = stn*STN + lanen;
  int rm[TM] = pidm * TM + 0 ... TM;
  int rn[TN] = pidn * TN + 0 ... TN;
  K           = K / TZ;
  int rk[TK]  = 0 ... TK;
  int offa[TM, TK] = (pidz*K + rk[newaxis, :]) + rm[:, newaxis] * lda;
  int offb[TK, TN] = (pidz*K + rk[:, newaxis]) * ldb + rn[newaxis, :];
  TYPE* pa[TM, TK] = A + offa;
  TYPE* pb[TK, TN] = B + offb;
  bool checka[TM, TK] = rk[newaxis, :] < K && rm[:, newaxis] < M;
  bool checkb[TK, TN] = rk[:, newaxis] < K && rn[newaxis, :] < N;
  TYPE a[TM, TK] = checka ? *pa : 0;
  TYPE b[TK, TN] = checkb ? *pb : 0;
  pa += TK;
  pb += TK * ldb;
  float acc[TM, TN] = 0;
  for(int k = K; k > 0; k -= TK){
    bool checka[TM, TK] = k > TK && rm[:, newaxis] < M;
    bool checkb[TK, TN] = k > TK && rn[newaxis, :] < N;
    acc += a @ b;
    a = checka ? *pa : 0;
    b = checkb ? *pb : 0;
    pa += TK;
    pb += TK * ldb;
  }
  acc = acc * alpha;
  TYPE c[TM, TN] = acc;
  int offc[TM, TN] = rm[:, newaxis] * ldc + rn[newaxis, :];
  TYPE* pc[TM, TN] = C + offc;
  bool checkc[TM, TN] = rm[:, newaxis] < M && rn[newaxis, :] < N;
#if (TZ==1)
  *?(checkc) pc = c;
#else
  int *plock = locks + pid;
  int *pcount = plock + get_num_programs(0) * get_num_programs(1);
  for(int repeat = 1; repeat == 1; repeat = atomic_cas(plock, 0, 1));
  int count = *pcount;
  if(count == 0)
    *?(checkc) pc = c;
  else
    *?(checkc) pc = c + *?(checkc)pc;
  atomic_xchg(pcount, (count + 1) % (TZ));
  atomic_xchg(plock, 0);
#endif
}
"""


@pytest.mark.parametrize("split", [1, 2])
def test_later_dialect_matmul(split: int) -> None:
    defines = f"#define TYPE half\n#define TM 16\n#define TN 8\n#define TK 4\n#define TZ {split}\n"
    m, n, k = 40, 24, 16
    a = RNG.integers(-4, 5, (m, k)).astype(np.float16)
    b = RNG.integers(-4, 5, (k, n)).astype(np.float16)
    tiles = 3 * 3
    found = execute(defines + LATER, a, b, np.zeros((m, n), np.float16), 0.5, m, n, k, k, n, n,
                    np.zeros(2 * tiles, np.int32), grid=(tiles, 1, split))
    np.testing.assert_array_equal(found[2], (a.astype(np.float32) @ b.astype(np.float32)) / 2)
    kernel = kernel_of(defines + LATER)
    assert [i.multiple_of for i in kernel.info[:3]] == [16, 16, 16]
    assert kernel.info[0].no_alias and kernel.info[0].read_only and kernel.info[5].retune


def test_paper_dialect_batch_normalisation() -> None:
    source = """
      const tunable int TM = {4, 8};
      void batchnorm(float *Y, float *M, float *V, restrict read_only float *X,
                     restrict read_only float *G, restrict read_only float *B,
                     int N, float rcpN, float eps) {
        int rx[TM] = 0 ... TM;
        float *px[TM];
        float x[TM];
        float mean[TM] = 0;
        float var[TM] = 0;
        int c = get_range_id(1);
        float g = *(G + c);
        float b = *(B + c);
        px = X + rx + c*N;
        for(int i = 0; i < N; i = i + TM){
          x = *px;
          mean = mean + x;
          px = px + TM;
        }
        float *pm = M + c;
        float m = __sum(mean) * rcpN;
        *pm = m;
        px = X + rx + c*N;
        for(int i = 0; i < N; i = i + TM){
          x = *px;
          x = x - m;
          var = var + x*x;
          px = px + TM;
        }
        float v = __sum(var) * rcpN;
        float *pv = V + c;
        *pv = v;
        float rstdg = 1 / sqrtf(v + eps) * g;
        px = X + rx + c*N;
        float* py[TM] = Y + rx + c*N;
        for(int i = 0; i < N; i = i + TM){
          x = *px;
          float y[TM] = (x - m)*rstdg + b;
          *py = y;
          px = px + TM;
          py = py + TM;
        }
      }"""
    x = RNG.standard_normal((3, 32)).astype(np.float32)
    g, b = (RNG.standard_normal(3).astype(np.float32) for _ in range(2))
    y, m, v, *_ = execute(source, np.zeros_like(x), np.zeros(3, np.float32),
                          np.zeros(3, np.float32), x, g, b, 32, 1 / 32, 1e-5, grid=(1, 3))
    close(m, x.mean(1))
    close(v, x.var(1))
    want = (x - x.mean(1)[:, None]) / np.sqrt(x.var(1) + 1e-5)[:, None] * g[:, None] + b[:, None]
    close(y, want)


def test_shift_convolution_with_a_constant_table() -> None:
    source = """
      const tunable int TM = {16};
      const tunable int TN = {8};
      const tunable int TK = {4};
      #define W 10
      #define CHANNELS 8
      __constant__ int* delta = alloc_const int[CHANNELS];
      for (int c = 0; c < CHANNELS; c++)
        delta[c] = c * 100 + (c % 3 - 1) * W + c / 3;
      void shift_conv(restrict read_only float *a, restrict read_only float *b, float *c,
                      int M, int N, int K) {
        int rxa[TM] = get_global_range[TM](0);
        int ryb[TN] = get_global_range[TN](1);
        int rka[TK] = 0 ... TK;
        int rkb[TK] = 0 ... TK;
        float C[TM, TN] = 0;
        float* pxa[TM, TK] = a + rxa[:, newaxis];
        float* pb[TN, TK] = b + ryb[:, newaxis] + rkb * N;
        __constant__ int* pd[TK] = delta + rka;
        for (int k = K; k > 0; k = k - TK) {
          int delta[TK] = *pd;
          float *pa[TM, TK] = pxa + delta[newaxis, :];
          float a[TM, TK] = *pa;
          float b[TN, TK] = *pb;
          C = dot(a, trans(b), C);
          pb = pb + TK * N;
          pd = pd + TK;
        }
        int rxc[TM] = get_global_range[TM](0);
        int ryc[TN] = get_global_range[TN](1);
        float* pc[TM, TN] = c + rxc[:, newaxis] * N + ryc[newaxis, :];
        bool checkc0[TM] = rxc < M;
        bool checkc1[TN] = ryc < N;
        bool checkc[TM, TN] = checkc0[:, newaxis] && checkc1[newaxis, :];
        @checkc *pc = C;
      }"""
    image = RNG.integers(-4, 5, 1024).astype(np.float32)
    b = RNG.integers(-4, 5, (8, 8)).astype(np.float32)  # [channel, output]
    # the first pixels of a channel look to the left of it: start inside the image
    shifted = np.array([[image[10 + x + c * 100 + (c % 3 - 1) * 10 + c // 3] for c in range(8)]
                        for x in range(32)])
    source = source.replace("a + rxa[:, newaxis]", "a + 10 + rxa[:, newaxis]")
    found = execute(source, image, b, np.zeros((32, 8), np.float32), 32, 8, 8, grid=(2, 1))[2]
    np.testing.assert_array_equal(found, shifted @ b)


def test_flash_attention() -> None:
    source = """
      tunable int TM = {16}; tunable int TN = {8}; const int D = 16;
      __global__ void attention(const half* q, const half* k, const half* v, half* o, int N,
                                float scale) {
        int rm[TM] = get_global_range(0);
        int rd[D] = 0 ... D;
        half Q[TM, D] = rm[:, newaxis] < N ? *(q + rm[:, newaxis] * D + rd) : 0;
        float highest[TM] = -INFINITY, total[TM] = 0, out[TM, D] = 0;
        for (int n = 0; n < N; n += TN) {
          int rn[TN] = n + 0 ... TN;
          half K[D, TN] = (rn < N)[newaxis, :] ? *(k + rn[newaxis, :] * D + rd[:, newaxis]) : 0;
          half V[TN, D] = (rn < N)[:, newaxis] ? *(v + rn[:, newaxis] * D + rd) : 0;
          float S[TM, TN] = rn[newaxis, :] < N ? (Q @ K) * scale : -INFINITY;
          float risen[TM] = max(highest, S[:, max]);
          float P[TM, TN] = exp(S - risen[:, newaxis]);
          float factor[TM] = exp(highest - risen);
          total = total * factor + P[:, +];
          out = out * factor[:, newaxis] + (half)P @ V;
          highest = risen;
        }
        @(rm < N)[:, newaxis] *(o + rm[:, newaxis] * D + rd) = out / total[:, newaxis];
      }"""
    n = 21
    q, k, v = (RNG.standard_normal((n, 16)).astype(np.float16) for _ in range(3))
    found = execute(source, q, k, v, np.zeros((n, 16), np.float16), n, 0.25, grid=(2,))[3]
    s = q.astype(np.float64) @ k.T.astype(np.float64) * 0.25
    p = np.exp(s - s.max(1, keepdims=True))
    close(found, p / p.sum(1, keepdims=True) @ v, 2e-3)
