"""The static cost model: prediction of extents, legality, determinism, and the choices it makes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
from planned_entries import planned_entries

from tritonc import driver, sema, stages
from tritonc.backend.target.target import find
from tritonc.frontend.parser import parse
from tritonc.ir.core import Module
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.model import choose as model
from tritonc.tune.model import coarse
from tritonc.tune.model.cluster_times import priced
from tritonc.tune.model.feature import Feature
from tritonc.tune.model.loops import loops_around
from tritonc.tune.model.rows import row_entries, short_rows
from tritonc.variants import choice
from tritonc.variants.variant import Fact, Variant

SAMPLES = Path(__file__).parents[2] / "samples"
TARGET = find("sm_80")


class Lowering:
    """Counts how often a program is lowered."""

    def __init__(self, text: str) -> None:
        diagnostics = Diagnostics()
        tokens = stages.preprocess(SourceFile("p.tc", text), Options(), diagnostics).tokens
        self.program = parse(tokens, diagnostics)
        self.space = {t.name: t.values or () for t in sema.tunables(self.program, diagnostics)}
        self.count = 0

    def __call__(self, binding: Mapping[str, int]) -> Module:
        self.count += 1
        return sema.analyze(self.program, binding, Diagnostics(limit=1))

    def choose(self, target: str = "sm_80") -> dict[str, int]:
        return model.choose(self.space, self, find(target))


def sample(name: str) -> Lowering:
    return Lowering((SAMPLES / f"{name}.tc").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["matmul", "matmul_nt", "matmul_tn", "matmul_tt"])
def test_extents_are_predicted(name: str) -> None:
    """As lowering each combination would say, from n + 1 lowered ones."""
    lowering = sample(name)
    names = list(lowering.space)
    predict = model._predictor(lowering.space, names, lowering)
    assert predict is not None and lowering.count == len(names) + 1
    for values in product(*((v[0], v[-1]) for v in lowering.space.values())):
        binding = dict(zip(names, values, strict=True))
        assert predict(binding) == model._profile(lowering, binding)


def test_each_value_has_a_rule_where_one_tunable_decides_more() -> None:
    """How many bytes of scales come with a weight depends on the depth."""
    text = (SAMPLES.parent / "bench/ways/products/weights_nf4.tc").read_text(encoding="utf-8")
    lowering = Lowering(text)
    names = list(lowering.space)
    predict = model._predictor(lowering.space, names, lowering)
    assert predict is not None and lowering.count <= 20  # of 60
    for values in product(*((v[0], v[-1]) for v in lowering.space.values())):
        binding = dict(zip(names, values, strict=True))
        assert predict(binding) == model._profile(lowering, binding)


@pytest.mark.parametrize("name, choices", [
    ("matmul", [{"TM": 64, "TN": 128, "TK": 16}]),
    ("matmul_nt", [{"TM": 64, "TN": 128, "TK": 16}]),  # as measured: bench/matmul.py
    ("matmul_tt", [{"TM": 128, "TN": 64, "TK": 16}]),  # the turned operand is the smaller one
    ("vector_add", [{"T": 1024}]),
    ("transpose", [{"TM": 128, "TN": 64}]),
    ("softmax", [{"TM": 1, "TN": 1024}]),
])  # fmt: skip
def test_choices(name: str, choices: list[dict[str, int]]) -> None:
    lowering = sample(name)
    assert lowering.choose() in choices
    assert lowering.count <= len(lowering.space) + 2


TILE = """
const tunable int TM = {8, 16, 32}; const tunable int TN = {32, 64, 128};
kernel void f(const float* x, float* y, int M, int N, int R) {
  int n[TN] = get_global_range(0), r[TM] = BEGIN;
  float sum[TM, TN] = 0;
"""
COLUMNS = TILE.replace("BEGIN", "0 ... TM") + """
  for (int m = get_program_id(1) * R; m < M; m += TM) sum += x[(r + m)[:, newaxis] * N + n];
  y[get_program_id(1) * N + n] = sum[+, :];
}"""
TAPS = TILE.replace("BEGIN", "get_global_range(1)") + """
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++) sum += x[(r + i)[:, newaxis] * N + n + j];
  y[r[:, newaxis] * N + n] = sum;
}"""


@pytest.mark.parametrize("text, tile", [
    (COLUMNS, (32, 64)), (TAPS, (8, 64)), (TAPS.replace("< 5", "< R"), (8, 32)),
])
def test_tiles_of_sums(text: str, tile: tuple[int, int]) -> None:
    """Columns of two lines of memory; twice as much of a known number of taps."""
    assert tuple(Lowering(text).choose("sm_90a").values()) == tile


BATCH = """
const tunable int T = {16, 32, 64}; const tunable int TC = {1, 2, 4, 8};
kernel void f(const half* a, half* z, int N, int C) {
  int i[T] = get_global_range(0), c[TC] = get_global_range(1);
  float acc[T, T, TC] = 0;
  for (int k0 = 0; k0 < N; k0 += 16) {
    half t[T, 16, TC] = a[(i[:, newaxis] * N + k0 + 0 ... 16)[:, :, newaxis] * C + c];
    acc = dot(t, trans(t, 1, 0, 2), acc);
  }
  z[(i[:, newaxis] * N + 0 ... T)[:, :, newaxis] * C + c] = acc;
}
"""


@pytest.mark.parametrize("target, batch", [("sm_80", 4), ("sm_90a", 8)])
def test_tiles_of_batches(target: str, batch: int) -> None:
    """Neighbours in memory count where they are products of one batch; an extent of 1 does not
    keep the others from being predicted."""
    lowering = Lowering(BATCH)
    assert lowering.choose(target) == {"T": 64, "TC": batch}
    assert lowering.count <= 8


def test_words_across_k_come_as_whole_sectors() -> None:
    """A step of 128 rows of words of eight columns: of 32 columns it needs 16 of 64 bytes."""
    dot = Feature("dot", (16, 32, 128), 2, raw=(0.0, 0.5), across=(False, True))
    assert dot.delivered == dot.stage_bytes + 128 * (64 - 16)
    assert dot._replace(across=(False, False)).delivered == dot.stage_bytes
    wide = dot._replace(extents=(16, 128, 128))
    assert wide.delivered == wide.stage_bytes


def test_weights_of_4_bits_take_as_long_as_measured() -> None:
    """16 x 4096 x 4096 by tiles of samples/int4_linear, in microseconds on an H200 (1755 MHz)."""
    measured = {(32, 64, 128): 14.6, (64, 64, 128): 17.3, (128, 64, 128): 22.7,
                (64, 128, 128): 26.3, (128, 128, 128): 28.2, (128, 64, 64): 28.4,
                (64, 128, 64): 31.9, (64, 128, 32): 46.0}
    lowering = sample("int4_linear")
    found = coarse._combinations(lowering.space, lowering, find("sm_90a"),
                                 {"TM": 128, "TN": 128, "TK": 64})
    assert found is not None
    for row in found[0]:
        tile = row.binding["TM"], row.binding["TN"], row.binding["TK"]
        if tile in measured:
            cycles = int(choice.time(row.cost, row.tile, (16, 4096), (4096,))) / coarse.UNIT
            assert 0.7 < measured.pop(tile) / (cycles / 1755) < 1.45, tile
    assert not measured


FILTERS = """
const tunable int TK = {64, 128};
const tunable int TJ = {64, 128};
kernel void filters(const half* x, const half* dy, half* dw, int B, int C, int H, int W, int K) {
  int k[TK] = get_global_range(0), j[TJ] = get_global_range(1), c[TJ] = j / 9;
  float acc[TK, TJ] = 0;
  for (int b = 0; b < B; b++)
    for (int p0 = 0; p0 < H * W; p0 += 64) {
      int p[64] = p0 + 0 ... 64;
      int h[TJ, 64] = (j / 3 % 3 - 1)[:, newaxis] + p / W;
      int v[TJ, 64] = (j % 3 - 1)[:, newaxis] + p % W;
      bool in[TJ, 64] = (c < C)[:, newaxis] && p < H * W && h >= 0 && h < H && v >= 0 && v < W;
      bool own[TK, 64] = (k < K)[:, newaxis] && p < H * W;
      half g[TK, 64] = own ? dy[(b * K + k)[:, newaxis] * H * W + p] : 0;
      half t[TJ, 64] = in ? x[(b * C + c)[:, newaxis] * H * W + h * W + v] : 0;
      acc = dot(g, trans(t), acc);
    }
  @((k < K)[:, newaxis] && c < C) dw[k[:, newaxis] * 9 * C + j] = acc;
}"""


def test_elements_that_come_by_themselves_take_as_long_as_measured() -> None:
    """Gradients of filters in NCHW order by clusters of eight and four, H200 (1755 MHz)."""
    lowering = Lowering(FILTERS)
    found = coarse._combinations(lowering.space, lowering, find("sm_90a"), {"TK": 64, "TJ": 64})
    assert found is not None
    rows = {(row.binding["TK"], row.binding["TJ"]): row for row in found[0]}
    large, small = ((64, 576), (3136, 16)), ((128, 1152), (784, 16))
    for tile, blocks, size, measured in [
            ((64, 64), 8, large, 66.3), ((128, 64), 8, large, 82.4), ((64, 128), 8, large, 99.7),
            ((64, 64), 8, small, 62.4), ((64, 128), 8, small, 61.7), ((128, 64), 4, small, 45.6)]:
        cost = priced(rows[tile].profile, rows[tile].cost.depths, find("sm_90a"), blocks)
        assert cost is not None
        cycles = int(choice.time(cost, tile, *size)) / coarse.UNIT
        assert 0.8 < measured / (cycles / 1755) < 1.25, (tile, blocks)


def test_planes_that_are_not_aligned_count_as_such() -> None:
    """Products of arguments are facts of a launch, as of 14 x 14 pixels: 32 x 256 x 14 x 14 to 256
    filters 408 us by the general entry, 124 by clusters of eight (H200)."""
    entries = planned_entries(SourceFile("filters.tc", FILTERS))
    kernel = entries[0]
    assert {"arguments": [5, 6], "multiple_of": 8} in kernel["choice"]["aligned"]
    taken = entries[choice.choose(kernel["choice"], [one["tile"] for one in entries],
                                  [True] * len(entries), (256, 2304),
                                  [0, 0, 0, 32, 256, 14, 14, 256])]
    assert taken["tunables"]["cluster_k"] == 8


def test_products_without_a_loop_leave_room_for_other_blocks() -> None:
    text = """
const tunable int T = {64, 128, 256};
kernel void f(const half* x, const half* w, half* y) {
  int p[T] = get_global_range(0), i[64] = 0 ... 64;
  half h[T, 64] = max(dot(x[p[:, newaxis] * 64 + i], w[i[:, newaxis] * 64 + i]), 0);
  y[p[:, newaxis] * 64 + i] = dot(h, w[4096 + i[:, newaxis] * 64 + i]);
}"""
    assert Lowering(text).choose("sm_90a") == {"T": 128}


def test_segments_are_short() -> None:
    """A loop that begins and ends at loaded numbers."""
    text = """
const tunable int T = {32, 64};
kernel void f(const half* q, const half* d, const int* start, float* y) {
  int i[64] = 0 ... 64, e[64] = 0 ... 64;
  float acc[64, T] = 0;
  for (int t = start[get_program_id(0)]; t < END; t += T)
    acc = dot(q[i[:, newaxis] * 64 + e], trans(d[(t + 0 ... T)[:, newaxis] * 64 + e]), acc);
  y[i[:, newaxis] * T + 0 ... T] = acc;
}"""
    for end, factor in (("start[get_program_id(0) + 1]", 160), ("get_program_id(1)", 1024)):
        module = Lowering(text.replace("END", end))({"T": 64})
        (around,) = loops_around(module.kernels[0])
        assert (around.factor, around.depth) == (factor, 64)


def bounds(entry: Variant) -> tuple[int | None, int | None]:
    """The numbers between which the length of a row has to be."""
    found = {fact.relation: fact.value for fact in entry.facts}
    return found.get(">="), found.get("<=")


ROWS = """
const tunable int T = {256, 512, 1024, 2048, 4096, 8192};
kernel void f(const float* x, float* y, int N) {
  int r[T] = 0 ... T, row = get_program_id(0) * N;
  float sum[T] = 0;
  for (int n = 0; n < N; n += T) sum += r + n < N ? x[row + n + r] : 0;
  float s = sum[+];
  for (int n = 0; n < N; n += T) @(r + n < N) y[row + n + r] = x[row + n + r] / s;
}
"""


@pytest.mark.parametrize("ctype, after", [("float", (4096, 8, 3)), ("half", (8192, 8, 3))])
def test_entries_for_rows(ctype: str, after: tuple[int, ...]) -> None:
    """Where a tile holds the row, 1024 threads have up to 24 elements of it, or 768 have 32; of
    longer ones as many blocks as have their rows in the L2 cache, two of halves."""
    lowering = Lowering(ROWS.replace("float", ctype))
    found = [((*row.binding.values(),), bounds(row)[1]) for row in row_entries(
        lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())]
    whole = [((256, 1), 256), ((512, 1), 512), ((1024, 2, 16), 1024), ((2048, 2, 16), 1536),
             ((2048, 4, 8), 2048), ((4096, 4, 8), 3072), ((4096, 4, 6), 4096),
             ((8192, 8, 4), 5120), ((8192, 8, 4), 6144), ((8192, 8, 3), 8192)]
    size = 4 if ctype == "float" else 2
    if size == 4:  # of rows that fill a tile 16; of longer ones several tiles
        whole[6] = (4096, 8, 4), 4096
        whole += [((2048, 16, 2), 10240), ((4096, 16, 2), 12288)]
    longer = [(after, (56 << 10) // size), *(
        ((8192, 16, blocks), held and (held << 10) // size)
        for blocks, held in ((1, 320), (2, None))[size == 2:])]
    assert found == [*whole, *longer]


def test_one_block_has_long_rows_that_are_aligned() -> None:
    """Of those that two blocks have in the L2 cache, and of others, two."""
    lowering = Lowering(ROWS)
    *_, alone, rest = row_entries(
        lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert alone.facts == (Fact("N", ">=", 43521), Fact("N", "<=", 81920), Fact("N", "%", 4))
    assert rest.facts == (Fact("N", ">=", 14337),)


def test_entries_for_rows_of_two_arrays() -> None:
    """A thread has 32 elements of each, and 128 registers."""
    lowering = Lowering(ROWS.replace("float* y", "float* z, float* y").replace(
        "x[row + n + r]", "x[row + n + r] * z[row + n + r]"))
    found = row_entries(lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert [((*row.binding.values(),), bounds(row)[1]) for row in found][:5] == [
        ((512, 1), 512), ((1024, 2), 1024), ((2048, 2, 8), 2048), ((4096, 4, 4), 4096),
        ((8192, 8, 2), 8192)]


def test_entries_for_rows_of_two_halves() -> None:
    """Two parts of one array are two."""
    lowering = Lowering(ROWS.replace("x[row + n + r]", "x[row + n + r] * x[row + n + r + N / 2]"))
    found = row_entries(lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert [row.binding.get("min_blocks") for row in found][:3] == [None, None, 8]


ONCE = """
const tunable int T = {1024, 4096, 8192};
kernel void f(const half* x, const half* z, float* y, int N) {
  int r[T] = 0 ... T, row = get_program_id(0) * N;
  float sum = 0;
  for (int n = 0; n < N; n += T) sum += (r + n < N ? x[row + n + r] : 0)[+];
  y[get_program_id(0)] = sum;
}
"""


@pytest.mark.parametrize("read, warps", [("x[row + n + r]", 4), (
    "x[row + n + r] * z[row + n + r]", 8)])
def test_entry_for_long_rows_that_are_read_once(read: str, warps: int) -> None:
    """A thread has 32 elements of one array, of two 16 of each."""
    lowering = Lowering(ONCE.replace("x[row + n + r]", read))
    found = row_entries(lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert found == [Variant({"T": 4096, "num_warps": warps}, (Fact("N", ">=", 8192),))]


SHORT = """
const tunable int R = {1, 2, 4};
const tunable int T = {256, 1024, 2048};
kernel void f(const float* x, float* y, int M, int N) {
  int r[R] = get_global_range(0), c[T] = 0 ... T;
  float sum[R] = 0;
  for (int n = 0; n < N; n += T)
    sum += ((r < M)[:, newaxis] && c + n < N ? x[r[:, newaxis] * N + c + n] : 0)[:, +];
  for (int n = 0; n < N; n += T) {
    int at[R, T] = r[:, newaxis] * N + c + n;
    @((r < M)[:, newaxis] && c + n < N) y[at] = x[at] / sum[:, newaxis];
  }
}
"""


def test_entries_for_tiles_of_one_row() -> None:
    """With a number of rows that is left open, which entries bind, too."""
    lowering = Lowering(SHORT)
    found = row_entries(lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert [row.binding for row in found][:3] == [
        {"R": 1, "T": 256, "num_warps": 1}, {"R": 1, "T": 1024, "num_warps": 1},
        {"R": 1, "T": 1024, "num_warps": 2, "min_blocks": 16}]
    # Of rows that no tile holds several, or as chosen, unless two are nearly full.
    assert [bounds(row) for row in found[3:9]] == [
        (1025, 1536), (1537, 2048), (2049, 3072), (3585, 4096), (4097, 5120), (5121, 6144)]


NESTED = """
const tunable int T = {256, 1024, 4096};
kernel void f(const float* x, float* y, int N, int C, int S) {
  int r[T] = 0 ... T, c = get_program_id(0);
  float sum[T] = 0;
  for (int n = 0; n < N; n++)
    for (int s = 0; s < S; s += T) sum += r + s < S ? x[(n * C + c) * S + s + r] : 0;
  float all = sum[+];
  for (int n = 0; n < N; n++)
    for (int s = 0; s < S; s += T)
      @(r + s < S) y[(n * C + c) * S + s + r] = x[(n * C + c) * S + s + r] / all;
}
"""


def test_entries_for_rows_in_rows() -> None:
    """By the inner length; the longer ones as chosen."""
    lowering = Lowering(NESTED)
    found = row_entries(lowering.space, lambda b: lowering(b).kernels[0], lowering.choose())
    assert [((*row.binding.values(),), row.facts[-1]) for row in found] == [
        ((256, 1), Fact("S", "<=", 64)), ((256, 2), Fact("S", "<=", 256)),
        ((1024, 4), Fact("S", "<=", 512)), ((1024, 8), Fact("S", "<=", 1024))]


BATCHES = """
const tunable int TN = {128, 256};
kernel void f(half* a, half* b, float* c, int B, int K) {
  int m[128] = 0 ... 128, n[TN] = 0 ... TN, k[64] = 0 ... 64;
  float total[128, TN] = 0;
  for (int z = 0; z < B; z++) {
    float sum[128, TN] = 0;
    for (int i = 0; i < K; i += 64)
      sum += *(a + m[:, newaxis] * K + i + k) @ *(b + (i + k)[:, newaxis] * TN + n);
    total += sum;
  }
  *(c + m[:, newaxis] * TN + n) = total;
}
"""


def test_what_outer_loops_carry_takes_registers() -> None:
    """Two tiles of 128 x 256 floats are 256 registers of 256 threads."""
    assert Lowering(BATCHES).choose("sm_90a") == {"TN": 128}
    one = BATCHES.replace("    float sum[128, TN] = 0;\n", "").replace("    total += sum;\n", "")
    assert Lowering(one.replace("sum +=", "total +=")).choose("sm_90a") == {"TN": 256}


@pytest.mark.parametrize("target, name, ctype, tile", [
    ("sm_90a", "matmul", "bfloat16", (128, 256, 64)),
    ("sm_90a", "matmul_nt", "half", (128, 256, 64)),
    ("sm_90a", "matmul_nt", "int8", (128, 256, 128)),
    ("sm_90a", "matmul_nt", "float8_e4m3", (128, 256, 128)),  # added up by halves
    ("sm_90a", "matmul", "int8", (128, 256, 128)),  # transposed in registers for wgmma
    ("sm_80", "matmul", "half", (128, 128, 32)),
    ("sm_80", "int4_linear", "float", (128, 128, 64)),  # converted for several warps
    ("sm_80", "../bench/suite/int8_linear", "float", (128, 128, 32)),  # two blocks need their room
    ("sm_100a", "../bench/suite/int8_linear", "float", (128, 128, 64)),
])
def test_choices_for_tensor_cores(target: str, name: str, ctype: str,
                                  tile: tuple[int, int, int]) -> None:
    text = (SAMPLES / f"{name}.tc").read_text(encoding="utf-8").replace("float", ctype)
    result = "int" if ctype == "int8" else "float"
    chosen = Lowering(text.replace(f"{ctype} C[", f"{result} C[")).choose(target)
    assert tuple(chosen.values()) == tile


@pytest.mark.parametrize("target", ["sm_61", "sm_75", "sm_90a", "sm_120a"])
def test_choices_fit_the_target(target: str) -> None:
    chosen = sample("matmul").choose(target)
    step = (chosen["TM"] + chosen["TN"]) * chosen["TK"] * 4
    assert 2 * step <= find(target).shared_per_block


FIXED = "kernel void f(float* y) {{ int r[{extent}] = get_global_range(0); {body} *(y + r) = 1; }}"


def test_combinations_that_are_forbidden_are_not_chosen() -> None:
    text = "const tunable int T = {256, 512, 1024, 2048};\n" + FIXED.format(
        extent="T", body='static_assert(T < 1000, "too large");')
    lowering = Lowering(text)
    assert lowering.choose() == {"T": 512}


def test_extents_that_are_no_multiples_are_lowered_one_by_one() -> None:
    text = "const tunable int T = {100, 500, 1000, 2000};\n" + FIXED.format(
        extent="T + 24", body="")
    lowering = Lowering(text)
    assert lowering.choose() == {"T": 1000}
    assert lowering.count >= 4


def test_nothing_to_choose() -> None:
    text = "const tunable int T = {64};\n" + FIXED.format(extent="T", body="")
    lowering = Lowering(text)
    assert lowering.choose() == {"T": 64} and lowering.count == 0
    assert model.choose({}, lowering, TARGET) == {}


def test_where_nothing_is_legal_the_first_is_taken() -> None:
    text = "const tunable int T = {32, 64};\n" + FIXED.format(
        extent="T", body='static_assert(T > 99, "too small");')
    assert Lowering(text).choose() == {"T": 32}


@pytest.mark.parametrize("values", ["{16, 32, 0}", "{0, 16}", "{-16, 16, 32}"])
def test_values_that_make_no_tile_are_not_chosen(values: str) -> None:
    text = (SAMPLES / "matmul.tc").read_text(encoding="utf-8")
    lowering = Lowering(text.replace("TN = {16, 32, 64, 128, 256}", f"TN = {values}"))
    assert len(lowering.space["TN"]) <= 3
    assert lowering.choose()["TN"] > 0


def test_products_of_one_sum_are_one_product() -> None:
    """Two steps of k in a turn of the loop take one accumulator's registers; two sums do not."""
    def tile(name: str) -> dict[str, int]:
        path = SAMPLES.parent / name
        source = SourceFile(path.name, path.read_text(encoding="utf-8"))
        return driver.compile(source, Options(arch="sm_90a"), ("tir",)).tunables

    assert tile("bench/ways/products/two_steps.tc") == tile("samples/matmul_bf16.tc")
    assert tile("bench/ways/products/swiglu.tc")["TN"] == 128
    # Of a chain, both bring operands: blocks of one warpgroup have no room for those of three.
    assert tile("bench/ways/attention/latent.tc") == {"TM": 128, "TN": 128}


def test_tiles_are_padded() -> None:
    """Heads of 96 take the shared memory of 128, which leaves 64 rows x 64 columns two blocks."""
    text = (SAMPLES / "attention.tc").read_text(encoding="utf-8").replace("{32, 128}", "{64, 128}")
    for d in (96, 128):
        source = SourceFile("attention.tc", text)
        found = driver.compile(source, Options(arch="sm_90a", defines=(f"D={d}",)), ("tir",))
        assert found.tunables == {"TM": 128, "TN": 128}


@pytest.mark.parametrize("kind, columns", [("half", 32), ("float", 16)])
def test_columns_of_programs_that_have_all_rows(kind: str, columns: int) -> None:
    """Memory brings 64 bytes of a row at once."""
    text = f"""const tunable int TN = {{8, 16, 32, 64}}, TK = {{16, 32, 64, 128, 256}};
kernel void sums(const {kind}* x, float* y, int K, int N) {{
  int n[TN] = get_global_range(0);
  float s[TK, TN] = 0;
  for (int k = 0; k < K; k += TK)
    s += x[(k + 0 ... TK)[:, newaxis] * N + n];
  y[n] = s[+, :];
}}"""
    assert Lowering(text).choose("sm_90a") == {"TN": columns, "TK": 2048 // columns}


@pytest.mark.parametrize("name, tile", [
    ("segment_mean", {"TR": 4, "TD": 128}),  # from one loaded number to another: few rows
    ("avg_pool", {"TX": 64, "TY": 4}),  # every other pixel: no thread reads neighbours at once
    ("lse_columns", {"TM": 64, "TN": 32}),  # a few columns, of which each program has all rows
    ("one_hot", {"TN": 16, "TC": 256}),  # of two as good the wider one
    ("instance_norm", {"T": 1024}),  # warps would wait for each other in each iteration
    ("hamming", {"TM": 64, "TN": 64}),  # lines that meet
    ("compare_strings", {"T": 256}),  # a loop that `break` ends, when all elements are done
    ("class_map", {"T": 1024}),  # columns of many programs
    ("gated_recurrence", {"TD": 32}),  # of programs that wait for themselves: pieces of 64 bytes
    ("softmax_causal_back", {"T": 512}),  # rows that are not equally long
    ("segment_softmax", {"T": 16}),  # most runs are short, of few columns, too
    ("mla_decode", {"TH": 16, "TS": 64}),  # steps of few rows wait for what they bring
    ("mla_split", {"BH": 64, "BS": 64}),  # two warpgroups share rows of 512 sums
    ("ssd_scan", {"TL": 64, "TJ": 64}),  # a product before the loop, with nothing copied ahead
    ("rbf_mean", {"TM": 64, "TN": 128}),  # exponentials of one block beside products of another
    ("bias_grad", {"BI": 64, "BJ": 64}),  # held beside two products: a sum and what is added
    ("decode_kv8", {"T": 128}),  # bytes that are converted in registers leave room for it
    ("gate2", {"TT": 64}),  # all programs add to the same tile
    ("lj_forces", {"TI": 64, "TJ": 16}),  # four sums of pairs
    ("segment_sum", {"TR": 4, "TD": 128}),  # from where one search ends to where another does
    ("ell_spmm", {"TM": 32, "TN": 64}),  # rows of a table by loaded numbers
    ("clip_norm", {"T": 1024}),  # `any(i < n)` only counts
    ("factored_moments", {"TM": 64, "TN": 64}),  # columns of 64 words: 1.25 times as fast
    ("adafactor_step", {"TM": 16, "TN": 128}),  # a row and a column are not turned; masks no rows
    ("mm_double", {"TM": 64, "TN": 128, "TK": 16}),  # sums of doubles take two registers
])
def test_tiles_of_kernels_without_a_choice_of_their_own(name: str, tile: dict[str, int]) -> None:
    path = SAMPLES.parent / "bench" / "unseen" / f"{name}.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    assert driver.compile(source, Options(arch="sm_90a"), ("tir",)).tunables == tile


OVERLAPPING = """
const tunable int A = {16, 32};
const tunable int B = {32, 64, 128};
kernel void f(const float* x, float* y, int H, int W) {
  int i[A] = 0 ... A, j[B] = 0 ... B;
  int r[A] = get_program_id(0) * (A - RIM) - RIM / 2 + i;
  int c[B] = get_program_id(1) * (B - RIM) - RIM / 2 + j;
  bool in[A, B] = (r >= 0 && r < H)[:, newaxis] && c >= 0 && c < W;
  float t[A, B] = in ? x[r[:, newaxis] * W + c] : 0;
  @in y[r[:, newaxis] * W + c] = t;
}
"""


@pytest.mark.parametrize("rim, tile", [("8", (32, 64)), ("0", (16, 64))])
def test_tiles_that_overlap_are_larger(rim: str, tile: tuple[int, int]) -> None:
    assert (*Lowering(OVERLAPPING.replace("RIM", rim)).choose().values(),) == tile


@pytest.mark.parametrize("mask, tile", [("in && t > s", (8, 128)), ("in", (8, 64))])
def test_results_that_data_mask_are_no_second_ones(mask: str, tile: tuple[int, int]) -> None:
    chosen = Lowering("""
const tunable int A = {8};
const tunable int B = {64, 128, 256};
kernel void f(float* x, float* y, int M, int N, float s) {
  int r[A] = get_global_range(0), c[B] = get_global_range(1), at[A, B] = r[:, newaxis] * N + c;
  bool in[A, B] = (r < M)[:, newaxis] && c < N;
  float t[A, B] = in ? x[at] : 0;
  @(MASK) {
    x[at] = s;
    y[at] = t;
  }
}
""".replace("MASK", mask)).choose()
    assert (*chosen.values(),) == tile


def test_rows_that_are_a_small_part_of_a_tile() -> None:
    """A tile that the source fixes has fewer warps there."""
    fixed = ROWS[ROWS.index("kernel"):].replace("T]", "1024]").replace("... T", "... 1024").replace(
        "+= T", "+= 1024")
    found = short_rows(Lowering(fixed)({}).kernels[0])
    assert found == [Variant({"num_warps": 1}, (Fact("N", "<=", 409),))]
