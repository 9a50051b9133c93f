"""Entries of a plain launch beside the general one: for rows that are not aligned, for floats, and
for ranges that number rows alone."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from planned_entries import planned_entries

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile
from tritonc.variants import choice

BENCH = Path(__file__).parents[2] / "bench"


@cache
def entries(name: str) -> list[dict[str, Any]]:
    """The general entry of a kernel, and those that are planned beside it."""
    return planned_entries(SourceFile(name, (BENCH / name).read_text(encoding="utf-8")))


def taken(name: str, m: int, n: int, k: int, **more: int) -> tuple[list[int], int]:
    """The tile of the entry that a launch takes, and the blocks of its clusters."""
    found = entries(name)
    arguments = {i: {"M": m, "N": n, "K": k, **more}.get(p["name"], 0)
                 for i, p in enumerate(found[0]["parameters"])}
    allowed = [choice.all_hold(one.get("requires", ()), (m, n), arguments) for one in found]
    one = found[choice.choose(found[0]["choice"], [each["tile"] for each in found], allowed,
                              (m, n), arguments)]
    return one["tile"], one["tunables"].get("cluster_k", 1)


def compiled(name: str) -> list[dict[str, Any]]:
    """As `entries`, of which those that a pass refuses are missing."""
    source = SourceFile(name, (BENCH / name).read_text(encoding="utf-8"))
    found = driver.compile(source, Options(arch="sm_90a", small_clusters=True), ("manifest",))
    (kernel,) = found.manifest["kernels"]
    return [kernel, *kernel["variants"]]


@pytest.mark.parametrize("name", ["suite/matmul_f16.tc", "unseen/two_gradients.tc"])
def test_the_plan_is_what_the_manifest_says(name: str) -> None:
    keys = ("tile", "tunables", "choice", "requires")
    for made, planned in zip(compiled(name), entries(name), strict=True):
        assert {key: made.get(key) for key in keys} == {key: planned.get(key) for key in keys}


def test_three_entries_are_for_rows_that_are_not_aligned() -> None:
    """Their elements come one by one, fewest by large tiles: 144 x 1758 x 10240 170 us by the
    general entry or by 64 x 64, 68 by 128 x 128 in clusters of four; where results are few, as of
    224 x 84 x 6329, that took 46 us, by 64 x 64 in clusters of eight 17 (H200)."""
    free = [one for one in entries("suite/matmul_f16.tc")[1:] if not one["requires"]]
    assert [one["tile"] for one in free] == [[128, 128], [64, 64], [64, 64]]
    assert taken("suite/matmul_f16.tc", 144, 1758, 10240) == ([128, 128], 4)
    assert taken("suite/matmul_f16.tc", 224, 84, 6329) == ([64, 64], 8)
    assert taken("suite/matmul_f16.tc", 300, 300, 5001) == ([64, 64], 4)
    assert taken("suite/matmul_f16.tc", 152, 2048, 448) == ([64, 128], 1)


@pytest.mark.parametrize("a, b", [(False, False), (True, False), (False, True)])
def test_entries_serve_operands_that_lie_either_way(a: bool, b: bool) -> None:
    """Where strides are parameters; each with one body.  1536 x 4096 x 1024, B transposed, 32.9 us
    by the general entry, 22.8 so (H200)."""
    m, n, k = 1536, 4096, 1024
    strides = {"a_m": 1 if a else k, "a_k": m if a else 1, "b_k": 1 if b else n,
               "b_n": k if b else 1, "c_m": n, "c_n": 1}
    assert taken("suite/matmul_strides.tc", m, n, k, **strides) == ([128, 128], 1)


@pytest.mark.parametrize("m, n, k, tile", [
    (8160, 256, 5832, [64, 128]), (3000, 600, 1000, [64, 128]),  # 732 and 130 us by 32 x 32
    (4096, 4096, 4096, [64, 128])])
def test_many_floats_take_large_tiles(m: int, n: int, k: int, tile: list[int]) -> None:
    """By blocks of which each has one, not by the small body beside a large one: 496, 92 us."""
    assert taken("suite/matmul_f32.tc", m, n, k)[0] == tile


def test_entries_of_ranges_of_rows_are_judged() -> None:
    """By launches whose multiply-adds count the columns of a program: sums for 1024 rows take 110
    us by clusters of two, 58 of four."""
    assert [one["tunables"]["cluster_k"] for one in entries("unseen/rbf_mean.tc")[1:]] == [4, 2]


def test_an_entry_whose_clusters_a_pass_refuses_is_left_out() -> None:
    """A row's mean needs all sums in each block: of four there is no room for them."""
    assert [one["tunables"]["cluster_k"] for one in compiled("unseen/mm_layer_norm.tc")[1:]] == [2]


FIXED = """
kernel void product(const half* a, const half* b, half* c, int M, int N, int K) {
  int programs = cdiv(N, 128), at = get_program_id(0);
  int i[128] = at / programs * 128 + 0 ... 128, j[128] = at % programs * 128 + 0 ... 128;
  float acc[128, 128] = 0;
  for (int k0 = 0; k0 < K; k0 += 64) {
    int k[64] = k0 + 0 ... 64;
    half ta[128, 64] = (i < M)[:, newaxis] && k < K ? a[i[:, newaxis] * K + k] : 0;
    half tb[64, 128] = (k < K)[:, newaxis] && j < N ? b[k[:, newaxis] * N + j] : 0;
    acc = dot(ta, tb, acc);
  }
  @((i < M)[:, newaxis] && j < N) c[i[:, newaxis] * N + j] = acc;
}
"""
# y = (x u) v: two loops, of which no price knows the time
FACTORED = """
const tunable int TM = {32, 64, 128};
kernel void factored(const half* x, const half* u, const half* v, half* y, int M, int N, int K) {
  int i[TM] = get_global_range(0), r[64] = 0 ... 64;
  float low[TM, 64] = 0;
  for (int k0 = 0; k0 < K; k0 += 64) {
    int k[64] = k0 + 0 ... 64;
    half tx[TM, 64] = (i < M)[:, newaxis] && k < K ? x[i[:, newaxis] * K + k] : 0;
    half tu[64, 64] = (k < K)[:, newaxis] ? u[k[:, newaxis] * 64 + r] : 0;
    low = dot(tx, tu, low);
  }
  half z[TM, 64] = low;
  for (int n = 0; n < N; n += 128) {
    int j[128] = n + 0 ... 128;
    half tv[64, 128] = (j < N)[newaxis, :] ? v[r[:, newaxis] * N + j] : 0;
    @((i < M)[:, newaxis] && j < N) y[i[:, newaxis] * N + j] = z @ tv;
  }
}
"""


@pytest.mark.parametrize("text, expected", [
    (FIXED, [("cluster_k", 4), ("cluster_k", 2), ("pingpong", 2)]), (FACTORED, [("TM", 64)])])
def test_few_programs_have_entries(text: str, expected: list[tuple[str, int]]) -> None:
    """Also where nobody lists a tile, and of several loops.  H200: 512 x 512 x 4096 by 128 x 128
    25.2 us, in clusters 12.2."""
    _, *found = planned_entries(SourceFile("few.tc", text))
    assert [one["tunables"][name] for one, (name, _) in zip(
        found, expected, strict=True)] == [value for _, value in expected]


def test_entries_in_turn_are_for_aligned_results() -> None:
    """A warpgroup by itself stores single elements while the other one waits: logits of 1024 x
    50257 x 1024 under a cap 429 us, by 128 x 128 343."""
    name = "suite/linear_bf16.tc"
    names = [each["name"] for each in entries(name)[0]["parameters"]]
    one, other = ([names[fact["argument"]] for fact in entry["requires"]] for entry in sorted(
        entries(name)[3:5], key=lambda each: "pingpong" not in each["tunables"]))
    assert "N" in one and "N" not in other


def test_sums_over_all_pixels_share_clusters_where_a_program_is_a_tap() -> None:
    """The blocks of a cluster lie along axis 2, which has 65535 tiles, and a batch's product has no
    such entries."""
    found = compiled("unseen/conv_wgrad_taps.tc")
    assert {one["cluster"] for one in found[1:]} == {4, 8}  # in rounds, too
    assert all({"range": 2, "at_most": 65535 // one["cluster"]} in one["requires"]
               for one in found[1:] if one["cluster"] > 1)
    assert all(one["tunables"].get("cluster_k", 1) == 1 for one in entries("suite/bmm.tc")[1:])


def test_products_that_share_an_operand_have_entries_of_clusters() -> None:
    """As one product of all their columns has."""
    assert {one["tunables"].get("cluster_k", 1)
            for one in entries("unseen/swiglu_mm.tc")[1:]} == {1, 2, 4}


def test_products_of_one_sum_have_entries_of_clusters() -> None:
    """dG W + dU V of 512 x 1536 x 4096 took 84 us by the one tile for all launches, 45 so, of 300
    x 1024 x 3072 61 and 19 (H200)."""
    assert taken("unseen/two_gradients.tc", 512, 1536, 4096) == ([64, 128], 1)
    assert taken("unseen/two_gradients.tc", 300, 1024, 3072) == ([64, 128], 2)


def test_launches_of_a_range_that_numbers_heads_are_few() -> None:
    """Queries of 500 rows and 8 heads, 4096 deep, took 27 us without clusters (H200)."""
    assert [one["tile"] for one in entries("unseen/rope_mm.tc")[1:]
            if one["tunables"].get("cluster_k", 1) == 2] == [[64, 1], [128, 1]]


def test_loops_that_number_steps_have_the_entries_of_those_that_count_elements() -> None:
    """Of heads of 64 a step adds up one.  12 heads of 16 sequences of 64 to 768 columns took 11.5
    us by 64 x 64, 8.4 by 64 x 128 (H200)."""
    assert [64, 128] in [one["tile"][:2] for one in entries("unseen/heads_out.tc")[1:]]


def test_a_product_behind_the_loop_does_not_matter() -> None:
    """As one of low rank: beside 64 x 1536 x 1536 8.4 us in pairs, 7.4 by four blocks (H200)."""
    assert 4 in [one["tunables"].get("cluster_k") for one in entries("unseen/lora_mm.tc")[1:]]


def test_long_sums_of_few_programs_have_an_entry_of_eight_blocks() -> None:
    """Floats of 64 x 64 x 8192 took 48 us by four, 26 by eight (H200)."""
    for name in ("suite/sgemm.tc", "suite/linear_bf16.tc"):
        assert [one["tunables"].get("cluster_k") for one in entries(name)[1:]].count(8) == 1
    assert taken("suite/sgemm.tc", 64, 64, 8192)[1] == 8


def test_bytes_whose_rows_alone_are_numbered() -> None:
    """A tile has all columns; the entries of converted products asked the range for them."""
    text = (BENCH / "unseen" / "w8a8_rowquant.tc").read_text(encoding="utf-8")
    source = SourceFile("p.tc", text.replace("int TK = {64, 128}", "int TK = {64}"))
    driver.compile(source, Options(arch="sm_90a", small_clusters=True, stop_after="lower"), ())


def test_a_step_may_take_less_than_a_quarter_of_a_cycle() -> None:
    """Tiles of 4 rows; what is doubtful of their times was a part of nothing."""
    text = (BENCH / "unseen" / "conv_planes.tc").read_text(encoding="utf-8")
    for name, value in (("TM", 4), ("TN", 128)):
        text = re.sub(rf"int {name} = .*;", f"int {name} = {{{value}}};", text)
    driver.compile(SourceFile("p.tc", text), Options(
        arch="sm_80", small_clusters=True, stop_after="lower"), ())


def test_taps_and_channels_are_no_long_sums() -> None:
    """Weights [9 C, K] lie across K, rows of `u % C` channels along it: of 1568 x 256 x 2304 the
    model has 13 us by clusters of two, 18 beside those of eight in rounds."""
    assert {one["tunables"].get("cluster_k", 1)
            for one in entries("unseen/conv_im2row_s2.tc")} == {1, 2}


def test_a_range_begins_along_its_own_axis() -> None:
    """Weights [K, C, 3] whose rows are a range of one axis: records along axis 1 asked it for that
    axis, and choosing entries failed."""
    text = (BENCH / "unseen" / "conv1d_ncl.tc").read_text(encoding="utf-8")
    text = re.sub(r"int (T[TFC]) = .*;", r"int \1 = {32, 64};", text)
    driver.compile(SourceFile("p.tc", text), Options(
        arch="sm_90a", small_clusters=True, stop_after="lower"), ())


def test_sums_that_a_step_holds_load_nothing_ahead() -> None:
    """Whose rows come element by element: 3 channels by 3 x 3, 802816 pixels to 64 filters 174 us
    by 128 x 32 x 32, 80 so (H200)."""
    name = "suite/conv_nhwc_flat.tc"
    short = [one for one in entries(name) if one["tunables"].get("num_stages") == 0]
    assert [one["tile"] for one in short] == [[64, 64]]
    sizes = {"R": 3, "S": 3, "H": 224, "W": 224}
    assert taken(name, 802816, 64, 64, C=3, **sizes)[0] == [64, 64]
    assert taken(name, 802816, 64, 64, C=64, **sizes)[0] != [64, 64]
