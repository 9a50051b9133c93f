"""Bodies for parameters whose accesses do not overlap: taken only where they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import tritonc
from simulator import machine as simulate
from sketch import parse

from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp.interpreter import run
from tritonc.interp.memory import Memory

SHIFTED = """
kernel void shifted(const float* x, float* y, int N) {
  int rn[256] = 0 ... 256;
  for (int n = 0; n < N; n += 256)
    @(rn + n < N) *(y + n + rn) = *(x + n + rn) + 1;
}
"""
ROWS = """
kernel void rows(const float* x, float* y, int N) {
  int r[8] = 0 ... 8, c[32] = 0 ... 32;
  for (int m = 0; m < N; m += 8) {
    float v[8, 32] = (r + m < N)[:, newaxis] ? *(x + (r + m)[:, newaxis] * 32 + c) : 0;
    @(r + m < N)[:, newaxis] *(y + (r + m)[:, newaxis] * 32 + c) = v + 1;
  }
}
"""
NUMBERED = """
kernel void numbered(const float* x, float* y, int N) {
  int rn[16] = 0 ... 16, blocks = (N + 15) / 16;
  for (int t = get_program_id(0); t < blocks * 4; t += get_num_programs(0)) {
    int start = t / blocks * N, n[16] = t % blocks * 16 + rn;
    @(n < N) *(y + start + n) = *(x + start + n) + 1;
  }
}
"""
RECURRENT = """
kernel void recurrent(const float* x, float* y, int N) {
  int rn[256] = 0 ... 256;
  float h[256] = 0;
  for (int n = 0; n < N; n += 256) {
    float v[256] = rn + n < N ? *(x + n + rn) : 0;
    h = h * 0.5f + v;
    @(rn + n < N) *(y + n + rn) = h;
  }
}
"""
COUNTED = """
kernel void counted(const unsigned char* x, int* y, int N) {
  int rn[256] = 0 ... 256;
  for (int n = 0; n < N; n += 256) {
    int v[256] = rn + n < N ? *(x + n + rn) : 0;
    atomic_add(y + v, 1, rn + n < N);
  }
}
"""


MADE: dict[tuple[str, ...], str] = {}


def machine(source: str, tmp_path: Path, *more: str) -> str:
    """The kernel at the end of the backend, of four warps."""
    if (key := (source, *more)) not in MADE:
        file = tmp_path / "k.tc"
        file.write_text(source)
        done = tritonc(str(file), "--arch=sm_80", "--tune=num_warps=4",
                       "--stop-after=insert_barriers", *more, "-o", "-")
        assert done.code == 0, done.err
        MADE[key] = done.out
    return MADE[key]


@pytest.mark.parametrize("shift", [-1024, -300, -256, -16, -4, 0, 4, 8, 256, 300, 320, 336, 1024])
@pytest.mark.parametrize("source, step, elements", [
    (SHIFTED, 256, 1), (ROWS, 8, 32), (NUMBERED, 4, 4)], ids=["row", "matrix", "numbered"])
def test_what_overlaps_is_computed_in_order(source: str, step: int, elements: int, shift: int,
                                            tmp_path: Path) -> None:
    count = 320 // elements
    memory = Memory()
    data = np.arange(4096, dtype=np.float32)
    start = memory.allocate(data.copy(), "data")
    x, y = 2000, 2000 + shift
    text = machine(source, tmp_path)
    run(parse(text), parse(text).kernels[0].name, [start + 4 * x, start + 4 * y, count], memory,
        (1,), table=ALL_OPS, handlers=simulate.handlers())
    want = data.copy()
    for first in range(0, count, step):
        rows = slice(first * elements, min(first + step, count) * elements)
        want[y:][rows] = want[x:][rows] + 1
    np.testing.assert_array_equal(memory.buffers[0].array, want)


@pytest.mark.parametrize("shift", [-2048, -768, -256, -4, 0, 4, 256, 260, 512, 768, 1024, 2048])
@pytest.mark.parametrize("stages, by", [((), " load "), (("--tune=num_stages=4",), "async_copy")])
def test_loads_run_ahead_of_stores_that_they_do_not_meet(
        shift: int, stages: tuple[str, ...], by: str, tmp_path: Path) -> None:
    memory, count = Memory(), 1300
    data = np.random.default_rng(0).integers(0, 9, 8192).astype(np.float32)
    start = memory.allocate(data.copy(), "data")
    x, y = 3000, 3000 + shift
    text = machine(RECURRENT, tmp_path, *stages)
    assert text.count(by) > 4  # in front of the loop, too
    run(parse(text), "recurrent", [start + 4 * x, start + 4 * y, count], memory, (1,),
        table=ALL_OPS, handlers=simulate.handlers())
    want, h = data.copy(), np.zeros(256, np.float32)
    for first in range(0, count, 256):
        rows = slice(first, min(first + 256, count))
        v = np.zeros(256, np.float32)
        v[: rows.stop - rows.start] = want[x:][rows]
        h = h * np.float32(0.5) + v
        want[y:][rows] = h[: rows.stop - rows.start]
    np.testing.assert_array_equal(memory.buffers[0].array, want)


@pytest.mark.parametrize("shift", [0, 64, 4096])
def test_counts_that_change_what_is_counted(shift: int, tmp_path: Path) -> None:
    memory = Memory()
    data = np.zeros(8192, np.uint8)
    data[:1024] = np.random.default_rng(0).integers(0, 256, 1024)
    start = memory.allocate(data.copy(), "data")
    text = machine(COUNTED, tmp_path)
    assert "shared_atomic" in text
    run(parse(text), "counted", [start, start + 1024 - 512 + shift, 512], memory, (1,),
        table=ALL_OPS, handlers=simulate.handlers())
    want = data.copy()
    counts = want[512 + shift :][:1024].view(np.int32)
    for first in (0, 256):
        counts += np.bincount(want[first : first + 256], minlength=256).astype(np.int32)
    np.testing.assert_array_equal(memory.buffers[0].array, want)
