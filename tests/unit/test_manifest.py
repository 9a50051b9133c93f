"""What the manifest says in numbers: alignments, multiples, constant tables."""

from __future__ import annotations

from typing import Any

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

SOURCE = """
__constant__ int* host = alloc_const int[4];
__constant__ short* squares = alloc_const short[2];
squares[1] = 1;
kernel void f(const char* b, restrict align(16) float* x, multiple_of(12) half* h,
              multiple_of(8) int n, int m) {
  int r[16] = get_global_range(1);
  @(r < n) *(x + r) = *host + *(squares + 1) + *b + *h + m;
}
"""


def contents() -> dict[str, Any]:
    found = driver.compile(SourceFile("f.tc", SOURCE), Options(), ("manifest",)).manifest
    assert found is not None
    return found


def test_multiples() -> None:
    (kernel,) = contents()["kernels"]
    assert {p["name"]: p.get("multiple_of") for p in kernel["parameters"]} == {
        "b": None, "x": 16, "h": 12, "n": 8, "m": None}
    assert kernel["tile"] == [1, 16]
    assert kernel["assumptions"] == ["x is aligned to 16 bytes", "x overlaps no other argument",
                                     "h is aligned to 12 bytes", "n is a multiple of 8"]


def test_constant_tables() -> None:
    assert contents()["constants"] == [
        {"name": "host", "type": "int", "count": 4, "initialized": False},
        {"name": "squares", "type": "short", "count": 2, "initialized": True}]
