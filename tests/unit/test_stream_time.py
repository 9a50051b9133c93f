"""What programs do, by numbers, and the times that follow for kernels without products."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tritonc import driver, sema, stages
from tritonc.analysis.work.work import Work, work_of
from tritonc.backend.target.target import find
from tritonc.frontend.parser import parse
from tritonc.ir.core import Kernel
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.model.stream_time import StreamLaunch
from tritonc.tune.model.traffic import Traffic, pieces

STENCIL = """
kernel void f(const float* x, float* y, int H, int W) {
  int h[8] = get_global_range(0);
  int w[64] = get_global_range(1);
  float sum[8, 64] = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 5; j++)
      sum += *(x + (h + i)[:, newaxis] * W + w + j);
  @((h < H)[:, newaxis] && w < W) *(y + h[:, newaxis] * W + w) = sum;
}"""
ROWS = """
kernel void f(const float* x, float* y, int N) {
  int row = get_program_id(0);
  int rn[512] = 0 ... 512;
  if (N > 100000) return;
  float sum[512] = 0;
  for (int n = 0; n < N; n += 512)
    sum += rn + n < N ? *(x + row * N + n + rn) : 0;
  float total = sum[+];
  for (int n = 0; n < N; n += 512)
    @(rn + n < N) *(y + row * N + n + rn) = *(x + row * N + n + rn) / total;
}"""
GATHER = """
kernel void f(const float* x, const int* where, float* y) {
  int i[256] = get_global_range(0);
  y[i] = x[where[i]];
}"""
PLANES = """
kernel void f(const float* x, float* y, int N) {
  int i[256] = get_global_range(0);
  y[i] = x[i % 2 * N + i / 2];
}"""
UNTIL = """
kernel void f(const float* x, float* y) {
  int i[256] = get_global_range(0);
  float v[256] = x[i];
  while (any(v > 1))
    v = v * 0.5f;
  y[i] = v;
}"""


def kernel(text: str) -> Kernel:
    diagnostics = Diagnostics()
    tokens = stages.preprocess(SourceFile("p.tc", text), Options(), diagnostics).tokens
    return sema.analyze(parse(tokens, diagnostics), {}, diagnostics).kernels[0]


def work(text: str, grid: tuple[int, ...], **sizes: int) -> Work:
    return work_of(kernel(text), sizes, grid)


def test_loops_run_as_often_as_numbers_say() -> None:
    found = work(ROWS, (100,), N=1300)
    assert [region.trips for region in found.regions] == [1, 3, 3]
    assert all(region.known for region in found.regions)
    (load,) = found.regions[1].accesses
    assert load.valid == pytest.approx(1300 / 1536) and load.run == 512
    assert (load.moves, load.loops) == ([1300 * 4], [512 * 4])


def test_branches_that_are_not_taken_do_not_count() -> None:
    assert work(ROWS, (100,), N=200_000).regions[1].iterations == 0


def test_neighbours_count_once() -> None:
    """Three rows and five columns of taps: 10 rows of 68 numbers for 8 of 64."""
    traffic = Traffic(work(STENCIL, (16, 2), H=128, W=128))
    ((load,),), (store,) = traffic.loads, traffic.stores
    assert load.levels[0] == pytest.approx(8 * 64 * 4, rel=0.1)
    assert load.program == pytest.approx(10 * 68 * 4, rel=0.1)
    assert store.all == 128 * 128 * 4


def test_places_that_are_loaded_have_sectors_of_their_own() -> None:
    found = work(GATHER, (64,))
    load = next(a for a in found.regions[0].accesses if a.led)
    assert load.run == 1 and load.strides[0] is not None and load.strides[0] > 28


def test_two_streams_in_turn_bring_no_more_than_they_have() -> None:
    traffic = Traffic(work(PLANES, (64,), N=8192))
    ((load,),) = traffic.loads
    assert load.access.run == 1 and load.levels[0] <= 1.2 * 256 * 4


def test_loops_that_end_by_what_they_compute_are_not_known() -> None:
    assert [region.known for region in work(UNTIL, (64,)).regions] == [True, False]


@pytest.mark.parametrize(("axes", "size", "found"), [
    ([(4, 64)], 4, (1, 256)), ([(4, 64), (1024, 8)], 4, (8, 256)),
    ([(4, 64), (1024, 8), (1024, 3)], 4, (10, 256)), ([(None, 16)], 4, (16, 4)),
    ([(8, 64)], 4, (1, 508)), ([(0, 64), (4, 2)], 4, (1, 8))])
def test_pieces(axes: list[tuple[float | None, float]], size: int, found: tuple[float, float]
                ) -> None:
    assert pieces(axes, size) == found


def test_few_threads_wait_for_memory() -> None:
    launch, target = StreamLaunch(work(ROWS, (2000,), N=4096)), find("sm_90a")
    times = {warps: launch.microseconds(warps, target) for warps in (1, 2, 4, 8, 16)}
    assert min(times, key=times.__getitem__) in (2, 4, 8)
    parts, _ = launch.parts(4, target)
    assert parts["memory"] == max(parts.values())


TILES = """
const tunable int TH = {2, 4, 8, 16};
const tunable int TW = {16, 32, 64, 128};
//! size: H = 4, W = 4
//! range: H, W
//! arg: x = zeros((H + 7) * W)
//! arg: y = zeros(H, W)
//! arg: H = H
//! arg: W = W
kernel void f(const float* x, float* y, int H, int W) {
  int h[TH] = get_global_range(0);
  int w[TW] = get_global_range(1);
  float sum[TH, TW] = 0;
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++)
      sum += *(x + (h + i)[:, newaxis] * W + w + j);
  @((h < H)[:, newaxis] && w < W) *(y + h[:, newaxis] * W + w) = sum;
}"""
HELD = """
const tunable int T = {256, 512, 1024, 2048};
//! size: M = 4, N = 4
//! range: M
//! arg: x = zeros(M, N)
//! arg: y = zeros(M)
//! arg: N = N
kernel void f(const float* x, float* y, int N) {
  int n[T] = 0 ... T;
  float v[T] = n < N ? *(x + get_program_id(0) * N + n) : 0;
  *(y + get_program_id(0)) = v[+];
}"""


def chosen(text: str, sizes: Mapping[str, int]) -> dict[str, int]:
    return driver.compile(SourceFile("p.tc", text), Options(arch="sm_90a", sizes=sizes),
                          ("tir",)).tunables


def test_narrow_images_get_narrow_tiles() -> None:
    assert chosen(TILES, {"H": 1 << 16, "W": 24})["TW"] == 32
    assert chosen(TILES, {"H": 4096, "W": 4096})["TW"] >= 64


def test_a_tile_that_is_to_hold_a_row_does() -> None:
    """Shorter ones would be quicker."""
    assert chosen(HELD, {"M": 10000, "N": 1900})["T"] == 2048


HARD = """
const tunable int T = {{256, 512}};
//! size: N = 1000
//! range: N
//! arg: x = zeros(N)
//! arg: N = N
kernel void f(float* x, int N) {{
  int i[T] = get_global_range(0);
  int a = N;
  {}
  @(i < N) x[i + (a & 1)] = 1;
}}"""
MANY = [f"v{i}" for i in range(12)]
MIXED = (f"int {' = N, '.join(MANY)} = N; for (int j = 0; j < N; j++) {{"
         + "".join(f"{v} += {' ^ '.join(MANY)};" for v in MANY)
         + "@(i < N) x[i + (v0 & 1)] = 2; }")
NESTED = "".join(f"for (int j{i} = 0; j{i} < N; j{i}++) " for i in range(40)) + "a += 3;"


@pytest.mark.parametrize("body", ["a = a * 3 + (a >> 1);" * 2000, "a = a * a;" * 64, MIXED, NESTED],
                         ids=["chain", "squares", "mixed", "nested"])
def test_numbers_that_nobody_can_follow_leave_a_choice(body: str) -> None:
    """A chain of 2000 steps and 40 loops in each other stopped the compiler; squares of squares,
    and twelve numbers of a loop that follow from each other, kept it for minutes."""
    assert chosen(HARD.format(body), {"N": (1 << 31) - 1})["T"] in (256, 512)


@pytest.mark.parametrize("size", [0, 10 ** 400], ids=["nothing", "more than a float"])
def test_launches_of_any_size_have_a_choice(size: int) -> None:
    assert chosen(HELD, {"M": size, "N": size})["T"] in (256, 512, 1024, 2048)
    assert chosen(TILES, {"H": size, "W": size})["TW"] in (16, 32, 64, 128)
