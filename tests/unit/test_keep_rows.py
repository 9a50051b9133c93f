"""Rows that a later loop finds in shared memory: as far as there is room, and not changed since."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sketch import parse
from test_apart import machine

from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp import machine as simulate
from tritonc.interp.interpreter import run
from tritonc.interp.memory import Memory

LOOPS = """
kernel void scaled(const float* x, float* y, int N) {
  int r[256] = 0 ... 256;
  float total[256] = 0;
  for (int n = 0; n < N; n += 256) total += n + r < N ? x[n + r] : %s;
  float sum = total[+];
  for (int n = 0; n < %s; n += 256) {
    float v[256] = %s ? x[n + r%s] : %s;
    @(n + r < N) y[n + r] = v + sum;
  }
}
"""


def simulated(text: str, count: int, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory before and after; y is `shift` elements behind x."""
    memory = Memory()
    data = np.random.default_rng(0).integers(0, 9, 8192).astype(np.float32)
    start = memory.allocate(data.copy(), "data")
    run(parse(text), "scaled", [start + 4 * 1024, start + 4 * (1024 + shift), count], memory, (1,),
        table=ALL_OPS, handlers=simulate.handlers())
    return data, memory.buffers[0].array


@pytest.mark.parametrize("count", [0, 3, 256, 1000, 1536, 2564])
@pytest.mark.parametrize("other", ["0", "2"])
@pytest.mark.parametrize("shift", [4096, 256])
def test_a_later_loop_finds_the_same(count: int, other: str, shift: int, tmp_path: Path) -> None:
    text = machine(LOOPS % ("0", "N", "n + r < N", "", other), tmp_path)
    assert text.count("shared_load") >= 2
    data, got = simulated(text, count, shift)
    want, x = data.copy(), 1024
    total = data[x : x + count].sum()
    for n in range(0, count, 256):  # y may begin within x
        end = min(n + 256, count)
        want[x + shift + n : x + shift + end] = want[x + n : x + end] + total
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("later", [
    ("0", "N - 1", "n + r < N", "", "0"), ("0", "N", "n + r < N - 1", "", "0"),
    ("0", "N", "n + r < N", " + 1", "0")], ids=["iterations", "mask", "place"])
def test_loads_of_another_form_are_made(later: tuple[str, ...], tmp_path: Path) -> None:
    assert "buffer_stage" not in machine(LOOPS % later, tmp_path)


def test_what_is_stored_between_is_loaded(tmp_path: Path) -> None:
    text = machine("""
kernel void changed(float* x, int N) {
  int r[256] = 0 ... 256;
  float total[256] = 0;
  for (int n = 0; n < N; n += 256) total += n + r < N ? x[n + r] : 0;
  x[0] = total[+];
  for (int n = 0; n < N; n += 256) @(n + r < N) x[n + r] = x[n + r] * 2;
}
""", tmp_path)
    assert "buffer_stage" not in text
