"""Tiles wider than the source lists: where programs compute each row by itself, and only there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

TEXT = """
const tunable int TM = {64, 128};
const tunable int TN = {64, 128, 256};
const tunable int TK = {64};
kernel void product(const half* x, const int8* w, half* y, int* count, int M, int N, int K) {
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  for (int k = 0; k < K; k += TK) {
    int rk[TK] = k + 0 ... TK;
    half X[TM, TK] = (rm < M)[:, newaxis] && rk < K ? x[rm[:, newaxis] * K + rk] : 0;
    int8 q[TN, TK] = (rn < N)[:, newaxis] && rk < K ? w[rn[:, newaxis] * K + rk] : 0;
    acc += dot(X, trans((half)q));
  }
  BEHIND
  @((rm < M)[:, newaxis] && rn < N) y[rm[:, newaxis] * N + rn] = acc;
}
"""


def tile(text: str, arch: str = "sm_90a") -> list[int]:
    made = driver.compile(SourceFile("product.tc", text), Options(arch=arch), ("manifest",))
    tunables = json.loads(made.outputs["manifest"])["kernels"][0]["tunables"]
    return [tunables["TM"], tunables["TN"]]


@pytest.mark.parametrize("behind", ["", "acc = acc * 2 + (float)rm[:, newaxis];"])
def test_rows_of_two_programs(behind: str) -> None:
    assert tile(TEXT.replace("BEHIND", behind)) == [256, 128]


def test_constants_of_one_shape() -> None:
    """Where rows and columns are as many, the zeros of both operands are one constant."""
    masked = "half W[TN, TK] = (rn < N)[:, newaxis] ? (half)q : 0; acc += dot(X, trans(W));"
    text = TEXT.replace("acc += dot(X, trans((half)q));", masked).replace("BEHIND", "")
    assert tile(text.replace("TN = {64, 128, 256}", "TN = {64, 128}")) == [256, 128]


@pytest.mark.parametrize("old, new", [
    ("BEHIND", "*count = 1;"),  # once for each program
    ("BEHIND", "atomic_add(count, 1);"),
    ("BEHIND", "acc += acc[+, :][newaxis, :];"),  # brings rows together
    ("BEHIND", "acc += (float)(0 ... TM)[:, newaxis];"),  # a place in the tile
    ("BEHIND", "acc += TM;"),
    ("BEHIND", "acc += get_program_id(0);"),
    ("BEHIND", "acc += get_num_programs(0);"),
    ("BEHIND", "static_assert(TM < 256);"),
    ("(rm < M)[:, newaxis] && rk < K", "(rk < K)"),  # rows of no program
    ("(rm < M)[:, newaxis] && rn < N", "rn < N"),
    ("(rm < M)[:, newaxis] && rn < N", "(rm % M < M)[:, newaxis] && rn < N"),
    ("= get_global_range(0)", "= get_program_id(0) * TM + 0 ... TM"),
    ("int8* w", "half* w"), ("int8 q", "half q"),
])
def test_no_more_than_listed(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("BEHIND", "")
    if new.startswith("half"):
        text = text.replace("int8", "half")
    assert tile(text)[0] <= 128


GATHERED = """
const tunable int TM = {64, 128};
const tunable int TN = {64, 128};
const tunable int TK = {64};
kernel void taps(const half* x, const half* w, half* y, int P, int W, int C, int N) {
  int p[TM] = get_global_range(0), n[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  for (int tap = 0; tap < 3; tap++)
    for (int c0 = 0; c0 < C; c0 += TK) {
      int c[TK] = c0 + 0 ... TK;
      bool there[TM] = p < P && p % W + tap >= 1 && p % W + tap <= W;
      int at[TM] = p / W * W + p % W + tap - 1;
      half a[TM, TK] = there[:, newaxis] && c < C ? x[at[:, newaxis] * C + c] : 0;
      half b[TK, TN] = (c < C)[:, newaxis] && n < N ? w[(tap * C + c)[:, newaxis] * N + n] : 0;
      acc = dot(a, b, acc);
    }
  @((p < P)[:, newaxis] && n < N) y[p[:, newaxis] * N + n] = acc;
}
"""


@pytest.mark.parametrize("text, most", [
    (GATHERED, 256), (GATHERED.replace("&& n < N ?", "?"), 128),
    (GATHERED.replace("p % W + tap - 1", "tap").replace("p / W * W", "p").replace(
        "p < P && p % W + tap >= 1 && p % W + tap <= W", "p < P"), 128)])
def test_filters_beside_rows_that_are_gathered(text: str, most: int) -> None:
    made = driver.compile(SourceFile("taps.tc", text), Options(
        arch="sm_90a", variants=8, sizes={}), ("manifest",))
    row = json.loads(made.outputs["manifest"])["kernels"][0]
    assert max(one["tunables"]["TN"] for one in [row, *row["variants"]]) == most


def test_other_instructions_keep_the_list() -> None:
    assert tile(TEXT.replace("BEHIND", ""), "sm_80")[0] <= 128


@pytest.mark.parametrize("name", ["weights_awq_reshape", "weights_mxfp4_table"])
def test_words_are_not_gathered(name: str) -> None:
    """A third axis of each word's numbers, which a product takes as columns, is none of memory."""
    folder = Path(__file__).parents[2] / "bench/ways/products"
    assert tile((folder / f"{name}.tc").read_text(encoding="utf-8")) == [256, 128]


BETWEEN = [144, 160, 176, 192, 208, 224, 240]


def test_extents_between_those_of_the_list() -> None:
    """Columns and rows of halves may have them, others not."""
    text = TEXT.replace("int8", "half").replace("(half)q", "q").replace("BEHIND", "")
    assert between(text, "TN") == between(text, "TM") == BETWEEN
    assert not between(text.replace("half", "float8_e4m3"), "TN")
    assert not between(text.replace(", 256}", "}"), "TM")  # of which none is as wide


def test_whether_any_row_is_there() -> None:
    """A bias is loaded where a mask holds in any row; what else asks that has each program's."""
    text = TEXT.replace("int8", "half").replace("(half)q", "q")
    loaded = text.replace("BEHIND", "").replace("= acc;", "= acc + (float)x[rn];")
    assert between(loaded, "TM") == BETWEEN
    asked = text.replace("BEHIND", "acc += (rm < M && rm > 9)[|] ? 1 : 0;")
    assert between(asked, "TN") == BETWEEN and not between(asked, "TM")


def between(text: str, name: str) -> list[int]:
    """The values of the variants that the source does not list."""
    made = driver.compile(SourceFile("product.tc", text), Options(arch="sm_90a", variants=32), (),
                          plan=True)
    (planned,) = made.planned.values()
    return sorted({v["tunables"][name] for v in planned["variants"]} & {*BETWEEN})
