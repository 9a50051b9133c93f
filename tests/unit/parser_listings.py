"""Programs in both dialects of Triton-C, for the tests of the parser."""

MATMUL = """
const tunable int TM = {16, 32, 64};
const tunable int TN = {16, 32, 64};
const tunable int TK = {8, 16};
kernel void matmul_nt(float* a, float* b, float* c, int M, int N, int K)
{
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  int rk[TK] = 0 ... TK;
  float C[TM, TN] = 0;
  float* pa[TM, TK] = a + rm[:, newaxis] + rk * M;
  float* pb[TN, TK] = b + rn[:, newaxis] + rk * K;
  for (int k = K; k >= 0; k -= TK) {
    bool check_k[TK] = rk < k;
    bool check_a[TM, TK] = (rm < M)[:, newaxis] && check_k;
    bool check_b[TN, TK] = (rn < N)[:, newaxis] && check_k;
    float A[TM, TK] = check_a ? *pa : 0;
    float B[TN, TK] = check_b ? *pb : 0;
    C += dot(A, trans(B));
    pa = pa + TK*M;
    pb = pb + TK*N;
  }
  float* pc[TM, TN] = c + rm[:, newaxis] + rn * M;
  bool check_c[TM, TN] = (rm < M)[:, newaxis] && (rn < N);
  @check_c * pc = C;
}
"""

CONVOLUTION = """
const tunable int TM = {16, 32};
const tunable int TN = {16, 32};
const tunable int TK = 8;
const int CHANNELS = 64, R = 3, S = 3;
__constant__ int* delta = alloc_const int[512];
for (int c = 0; c < CHANNELS; c++)
  delta[c] = c * 28 * 28 + (c % 3) * 28;
{ int last = CHANNELS * R * S; while (last < 512) { delta[last] = 0; last++; } }
delta[511] = 1;
void shift_conv(restrict read_only float *a, restrict read_only float *b, float *c,
                int M, int N, int K) {
  int rxa[TM] = get_global_range[TM](0);
  int ryb[TN] = get_global_range[TN](1);
  int rka[TK] = 0 ... TK;
  __constant__ int* pd[TK] = delta + rka;
  float* pb[TK, TN] = b + ryb[newaxis, :] + rka[:, newaxis] * N;
  float C[TM, TN] = 0;
  for (int k = K; k > 0; k = k - TK) {
    int step[TK] = *pd;
    float* pa[TM, TK] = a + rxa[:, newaxis] + step[newaxis, :];
    float A[TM, TK] = *pa;
    float B[TK, TN] = *pb;
    C = dot(A, B, C);
    pd = pd + TK;
    pb = pb + TK * N;
  }
  int rxc[TM] = get_global_range[TM](0);
  float* pc[TM, TN] = c + rxc[:, newaxis] + ryb[newaxis, :] * M;
  bool checkc0[TM] = rxc < M;
  bool checkc1[TN] = ryb < N;
  bool checkc[TM, TN] = checkc0[:, newaxis] && checkc1[newaxis, :];
  @checkc *pc = C;
}
"""

LATER = """
#define STM TM
__global__ void softmax(half* X __readonly __noalias __aligned(16), half* Y __writeonly,
                        int N __retune, int ldx __multipleof(8)) {
  int pid = get_program_id(0);
  int rn[TN] = 0 ... TN;
  int offset __multipleof(8) [TN] = pid * ldx + rn;
  bool check[TN] = rn < N;
  float x[TN] = check ? *(X + offset) : -F32_INFINITY;
  float y[TN] = exp(x - x[max]);
  float z = y[+];
  if (z > 0) y = y / z; else y = 0;
  *?(check) (Y + offset) = y;
  atomic_add(float, 1, 1)(L, z, true);
  *?(check[newaxis, :]) P = (^t)[^1, ^0] @ ((half[STM * 2])y)[:, newaxis];
  do { x = x + bitcast<float>(rn); } while (any(x > 0, 0));
}
"""
