"""Entries of kernels without products for some sizes, and the one that a launch takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.problem.known import KnownLaunch
from tritonc.source import CompileError, SourceFile
from tritonc.tune.model.stream_entries import entry_at
from tritonc.variants.variant import Fact, Variant, VariantSet

BENCH = Path(__file__).parents[2] / "bench"


def entries(text: str) -> list[Variant]:
    """Of the one kernel of a source."""
    source = SourceFile("p.tc", text)
    found = driver.compile(source, Options(arch="sm_90a", small_clusters=True), ("tir",))
    (sets,) = found.variants.sets.values()
    assert isinstance(sets, VariantSet)
    return sets.variants


def suite(name: str) -> str:
    return (BENCH / "suite" / f"{name}.tc").read_text(encoding="utf-8")


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


def test_entries_hold_the_rows_that_they_are_for() -> None:
    """Where a tunable says how long the tile is; those of 257 to 512 elements had one of 256."""
    found = [(one.binding["T"], one.facts[-1].value) for one in entries(HELD)]
    assert found == [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]


def test_shorter_tiles_have_more_rows() -> None:
    """Where tunables say how many rows a tile holds, and how long they are."""
    text = ("const tunable int R = {1, 2, 4, 8};" + HELD).replace(
        "int n[T] = 0 ... T;", "int n[T] = 0 ... T, m[R] = get_global_range(0);").replace(
        "float v[T] = n < N ? *(x + get_program_id(0) * N + n) : 0;",
        "float v[R, T] = n < N ? *(x + m[:, newaxis] * N + n) : 0;").replace(
        "*(y + get_program_id(0)) = v[+];", "*(y + m) = v[:, +];")
    found = [(one.binding["R"], one.binding["T"], one.facts[-1].value) for one in entries(text)]
    assert found == [(4, 256, 256), (2, 512, 512), (1, 1024, 1024), (1, 2048, 2048)]


@pytest.mark.parametrize("extent", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", ["1", "{1, 2}"])
def test_rows_of_a_few_elements_have_entries(extent: int, rows: str) -> None:
    """A quarter of a tile of one element was none: the compiler ended in a division by zero."""
    for one in entries(f"""const tunable int R = {rows};
kernel void f(const float* x, float* y, int N) {{
  int p[R] = get_global_range(0), i[{extent}] = 0 ... {extent};
  float v[R, {extent}] = i < N ? x[p[:, newaxis] * N + i] : 0;
  y[p] = v[:, +];
}}"""):
        facts = {fact.relation: fact.value for fact in one.facts}
        assert facts.get(">=", 1) <= facts.get("<=", extent)


def test_tiles_beside_rows_are_what_a_loop_reads() -> None:
    """Scales of 8-bit keys: by eight warps for rows of 8192 160 us, 135 as for shorter ones."""
    assert entries(suite("decode_int8")) == []


def test_a_source_with_a_way_of_its_own_for_short_rows_has_entries() -> None:
    """Loops that follow each other load rows again, whatever short ones do."""
    text = (BENCH.parent / "samples" / "softmax.tc").read_text(encoding="utf-8")
    found = entries(text)
    assert found[0].binding["TN"] == 256 and found[-1].binding["TN"] == 8192


def test_tiles_whose_greatest_element_ends_a_loop_are_small() -> None:
    """The greatest 16 of 6388 floats: 177 us by 256, 312 by 1024 and two warps (H200)."""
    assert chosen(suite("top_k_large"), {}) == {"TN": 256}


def test_tiles_that_a_loop_does_not_change_are_as_others() -> None:
    """A million sparse rows of six entries: 69 us by 32 rows, 155 by 4 (H200)."""
    text = (BENCH / "unseen" / "csr_spmv.tc").read_text(encoding="utf-8")
    assert chosen(text, {}) == {"TM": 32, "TZ": 32}


def test_few_heads_get_a_tile_of_few() -> None:
    """3609 x 6 heads: 7.6 us by 8, 8.6 by 16 (H200)."""
    found = [(one.binding["TH"], one.facts[-1].value) for one in entries(suite("qk_norm_rope"))]
    assert found == [(4, 4), (8, 8)]


def test_the_range_says_how_long_a_side_is() -> None:
    """Not a parameter, of which a mask may have twice as many, or half."""
    assert [one.within for one in entries(suite("upsample"))] == [(1, 64)]
    assert [one.within for one in entries(suite("max_pool"))] == [(1, 32)]


def test_few_programs_copy_ahead() -> None:
    """Fewer than those that have more threads, in the same tile; others load ahead."""
    (copying,) = entries(suite("cumsum_columns"))
    assert copying.binding["num_stages"] > 1 and 132 <= copying.few <= 4 * 132
    scan = (BENCH.parent / "samples" / "selective_scan.tc").read_text(encoding="utf-8")
    copying, few, *_ = entries(scan)
    assert copying.binding == {**few.binding, "num_stages": copying.binding["num_stages"]}
    assert 0 < copying.few < few.few


def test_a_launch_takes_the_first_entry_whose_facts_hold() -> None:
    module = driver.compile(SourceFile("p.tc", HELD), Options(
        arch="sm_90a", tune={"T": 256}), ("tir",)).module
    assert module is not None
    (kernel,) = module.kernels
    few = Variant({"T": 2048}, few=4)
    short = Variant({"T": 512}, (Fact("N", ">=", 9), Fact("N", "<=", 512), Fact("N", "%", 3)))
    at = [entry_at([few, short], kernel, KnownLaunch((m,), {"N": n}))
          for m, n in ((4, 9), (5, 9), (5, 10), (5, 513), (5, 6))]
    assert at == [few, short, None, None, None]
    assert entry_at([few, short], kernel, KnownLaunch((), {"M": 1})) is None
    narrow = [Variant({"T": 512}, within=(0, 8))]
    at = [entry_at(narrow, kernel, KnownLaunch(m, {})) for m in ((8,), (9,), ())]
    assert at == [*narrow, None, None]


def test_sizes_that_are_known_choose_what_the_entries_have() -> None:
    """Softmax of 76800 x 200: 39 us by the entry, which knows that 256 elements hold a row."""
    found = driver.compile(SourceFile("p.tc", suite("softmax")), Options(
        arch="sm_90a", sizes={"M": 76800, "N": 200}, small_clusters=True), ("manifest",))
    assert found.manifest is not None
    (kernel,) = found.manifest["kernels"]
    assert kernel["threads"] == 32 and {"argument": 2, "at_least": 1, "at_most": 256} in [
        fact for entry in kernel["variants"] for fact in entry["requires"]]


@pytest.mark.parametrize("path, least", [
    ("bench/suite/layer_norm", [81921]), ("bench/suite/softmax", [81921]), ("samples/softmax", [])])
def test_few_rows_that_no_block_holds_are_held_by_clusters(path: str, least: list[int]) -> None:
    """Where loops reduce nothing: those of the sample find the greatest in each iteration."""
    text = (BENCH.parent / f"{path}.tc").read_text(encoding="utf-8")
    shared = [one for one in entries(text) if "cluster_k" in one.binding]
    assert [fact.value for one in shared for fact in one.facts if fact.relation == ">="] == least


ALONE = """const tunable int T = {64, 128, 256, 512};
kernel void f(float* x, int n) {
  BEFORE
  int i[T] = get_global_range(0);
  @(i < n) *(x + i) = 1;
}
AFTER
"""


@pytest.mark.parametrize("place", ["BEFORE", "AFTER"])
def test_values_that_the_program_refuses_are_not_chosen(place: str) -> None:
    """In the kernel an entry of another tile stopped the compiler, outside nobody looked."""
    text = ALONE.replace(place, 'static_assert(T <= 64, "small");')
    text = text.replace("BEFORE", "").replace("AFTER", "")
    result = driver.compile(SourceFile("p.tc", text), Options(
        arch="sm_90a", small_clusters=True), ("manifest",))
    assert result.tunables == {"T": 64}


@pytest.mark.parametrize("wrong", ['static_assert(N == 5, "five");', "5 + q;"])
def test_what_stands_outside_functions_is_checked(wrong: str) -> None:
    text = f"const int N = 4;\n{wrong}\n{ALONE}".replace("BEFORE", "").replace("AFTER", "")
    with pytest.raises(CompileError):
        driver.compile(SourceFile("p.tc", text), Options(), ("manifest",))
