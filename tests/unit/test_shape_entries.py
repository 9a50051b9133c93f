"""Entries for launches whose sizes the chosen tile does not suit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tritonc as package

COLUMNS = """
const tunable int R = {16, 32, 64};
const tunable int C = {32, 64};
kernel void f(const half* x, float* y, int M, int N) {
  int c[C] = get_global_range(0), r[R] = 0 ... R;
  float sum[R, C] = 0;
  for (int m = 0; m < M; m += R)
    sum += (r + m < M)[:, newaxis] && c < N ? x[(m + r)[:, newaxis] * N + c] : 0;
  @(c < N) y[c] = sum[+, :];
}
"""
SHORT = """
const tunable int T = {1, 2, 4, 8};
kernel void f(const half* x, half* y, int M, int N) {
  int t[T] = get_global_range(0), r[1024] = 0 ... 1024;
  bool in[T, 1024] = (t < M)[:, newaxis] && r < N;
  int at[T, 1024] = (get_program_id(1) * M + t[:, newaxis]) * N + r;
  float e[T, 1024] = in ? exp(x[at]) : 0;
  @in y[at] = e / e[:, +][:, newaxis];
}
"""
IMAGES = """
const tunable int T = {4, 8};
const tunable int U = {16, 32, 64};
kernel void f(const float* x, float* y, int H, int W) {
  int h[T] = get_global_range(0), w[U] = get_global_range(1);
  x += get_program_id(2) * H * W;
  float sum[T, U] = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      int a[T] = h + i - 1, b[U] = w + j - 1;
      sum += (a >= 0 && a < H)[:, newaxis] && b >= 0 && b < W ? x[a[:, newaxis] * W + b] : 0;
    }
  @((h < H)[:, newaxis] && w < W) y[(get_program_id(2) * H + h)[:, newaxis] * W + w] = sum;
}
"""
TAPS = """
const tunable int T = {2, 4, 8};
const tunable int C = {128, 256, 512};
kernel void f(const half* x, half* y, int P, int W, int N) {
  int p[T] = get_global_range(0), c[C] = 0 ... C;
  float sum[T, C] = 0;
  for (int s = -3; s <= 3; s++)
    sum += (p < P && p % W + s >= 0 && p % W + s < W)[:, newaxis] && c < N
               ? x[(p + s)[:, newaxis] * N + c] : 0;
  float mean[T] = (c < N ? sum : 0)[:, +] / N;
  @((p < P)[:, newaxis] && c < N) y[p[:, newaxis] * N + c] = sum - mean[:, newaxis];
}
"""
SUMS = """
const tunable int T = {512, 1024, 4096};
kernel void f(const float* x, float* y, int N) {
  int row = get_program_id(0), r[T] = 0 ... T;
  float before = 0;
  for (int n = 0; n < N; n += T) {
    float v[T] = r + n < N ? x[row * N + n + r] : 0;
    @(r + n < N) y[row * N + n + r] = before + cumsum(v, 0);
    before += v[+];
  }
}
"""

STEPS = """
kernel void f(float* y, int S) {
  int i[256] = get_global_range(0);
  float v[256] = i;
  for (int k = 0; k < S; k++)
    v = sin(v + k) * exp(-v);
  y[i] = v;
}
"""
STORED = """
const tunable int T = {512, 1024, 2048, 4096};
kernel void f(const float* x, float* y, float* sums, int N) {
  int row = get_program_id(0), r[T] = 0 ... T;
  float sum[T] = 0;
  for (int n = 0; n < N; n += T) {
    float v[T] = r + n < N ? x[row * N + n + r] : 0;
    sum += v * v;
    @(r + n < N) y[row * N + n + r] = 2 * v;
  }
  sums[row] = sum[+];
}
"""
POWERS = """
kernel void f(const float* x, float* y, int N) {
  int row = get_program_id(0), r[1024] = 0 ... 1024;
  float a[1024] = 0, b[1024] = 0;
  for (int n = 0; n < N; n += 1024) {
    float v[1024] = r + n < N ? x[row * N + n + r] : 0;
    a += v * v;
    b += v * v * v;
  }
  y[row] = a[+] / b[+];
}
"""


@cache
def compiled(source: str) -> package.Kernel:
    return package.compile(source, arch="sm_90a")


def taken(source: str, launches: list[tuple[Any, ...]]) -> list[tuple[int, ...]]:
    """The tunables of the entries that launches take, and their blocks' threads."""
    kernel = compiled(source)
    entries = [kernel, *kernel.variants]
    found = [entries[kernel.variant(*launch)] for launch in launches]
    return [(*(v for k, v in one.tunables.items() if k in "CRTU" or k == "cluster_k"), one.threads)
            for one in found]


def test_few_columns_are_summed_by_clusters() -> None:
    """Whole pieces, one for each multiprocessor, as chosen."""
    assert taken(COLUMNS, [(n, None, None, 999, n) for n in (
        1, 1056, 1057, 2112, 3000, 4001, 4096, 8448, 8449)]) == [
        (32, 32, 8, 256), (32, 32, 8, 256), (16, 64, 8, 256), (16, 64, 8, 256), (16, 64, 4, 256),
        (16, 64, 4, 256), (64, 32, 256), (16, 64, 2, 256), (16, 64, 1, 256)]


def test_short_rows_of_a_tile() -> None:
    """Several of them in a program; and longer ones, of which half of the masks hold."""
    assert taken(SHORT, [((8, 9), None, None, 8, n) for n in (128, 129, 256, 512, 513, 1024)]) == [
        (8, 64), (4, 64), (4, 64), (2, 64), (1, 64), (1, 64)]


def test_rows_that_no_block_holds_are_shared_by_clusters() -> None:
    """Of a tile that the source fixes; short rows leave most of its blocks nothing to do."""
    source = """kernel void f(const half* x, half* y, int N) {
  int row = get_program_id(0), r[32768] = 0 ... 32768;
  float v[32768] = r < N ? x[row * N + r] : 0;
  @(r < N) y[row * N + r] = v / v[max];
}
"""
    assert taken(source, [(9, None, None, n) for n in (20480, 20481, 32768)]) == [
        (512,), (4, 256), (4, 256)]


def test_short_rows_of_sums_over_taps() -> None:
    """Rows of 96 channels of a depthwise convolution with a norm do not take tiles of 512."""
    assert [row[:2] for row in taken(TAPS, [(9, None, None, 9, 3, n) for n in (96, 129, 512)])] == [
        (8, 128), (4, 256), (2, 512)]


@pytest.mark.parametrize("width, side", [(16, 16), (17, 32), (32, 32), (33, 64)])
def test_narrow_images_have_narrow_tiles(width: int, side: int) -> None:
    ((_, found, _),) = taken(IMAGES, [((9, width, 3), None, None, 9, width)])
    assert found == side


def test_long_rows_of_sums_have_long_tiles() -> None:
    assert [row[0] for row in taken(SUMS, [(9, None, None, n) for n in (3071, 3072)])] == [
        1024, 4096]


def test_few_programs_of_loops_have_many_threads() -> None:
    """Four times as many where an iteration computes enough; sums of long rows share clusters."""
    assert taken(STEPS, [(256 * n, None, 9) for n in (792, 793)]) == [(128,), (32,)]
    assert taken(POWERS, [(n, None, None, 1 << 16) for n in (33, 34, 396, 397)]) == [
        (8, 64), (256,), (256,), (64,)]
    assert taken(POWERS, [(33, None, None, 9999)]) == [(256,)]


def test_few_rows_have_longer_tiles_and_more_threads() -> None:
    """151 rows of 30522 floats that a loop stores again took twice as long by 64 threads each."""
    assert taken(STORED, [(n, None, None, None, 30522) for n in (396, 397)]) == [
        (4096, 512), (1024, 64)]


def test_programs_of_several_axes_share_blocks() -> None:
    """As many of them as fill the machine, whichever axis they are numbered along; axis 0 has as
    many as a block, or more."""
    kernel = package.compile("""kernel void f(const int* x, int* y) {
  int i[32] = (get_program_id(1) * 8 + get_program_id(0)) * 32 + 0 ... 32;
  y[i] = x[i] + get_num_programs(1);
}""", arch="sm_90a")
    assert [kernel.variant(n, None, None) for n in (
        (8, 527), (8, 528), (6, 900), (3, 1800))] == [0, 1, 1, 0]


def test_loops_that_carry_no_more_for_longer_tiles_have_no_entry_of_short_rows() -> None:
    """Decoding carries a row of results: by one warp it spilled, and took 2.5 times as long; by
    eight, as long rows that are read once have, 1.19 times (32 x 8 x 8192)."""
    path = Path(__file__).parents[2] / "bench" / "suite" / "decode_int8.tc"
    kernel = package.compile(path.read_text(), arch="sm_90a")
    assert [kernel.variant((64, 8), *[None] * 6, 0.1, n, 8) for n in (4096, 8192)] == [0, 0]
