"""What kernels of rows depend on: ranges, registers, how rows are spread over threads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_programs import ALONE, data
from machine_programs import execute
from planned_entries import planned_entries
from sketch import Program, Sketch
from test_backend_passes import lowered

from tritonc import driver
from tritonc.analysis import column_loops, row_loops, shared_data
from tritonc.analysis.registers.pressure import pressure
from tritonc.backend.launch.register_budget import rows_hold_too_much
from tritonc.backend.target.target import TARGETS
from tritonc.ir.cfg import Cfg
from tritonc.ir.types import BF16, F32, I32, Tile
from tritonc.options import Options
from tritonc.source import SourceFile

SAMPLES = Path(__file__).parents[2] / "samples"
EXTREME = 1 << 31
START = 7
LIMITS = (-EXTREME, -1, START, START + 64, START + 127, EXTREME - 1)
COMPARED = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_range_is_compared_with_any_limit(limit: int) -> None:
    """By way of the distance to the limit, which must not wrap."""
    k = Sketch(warps=1)
    bound, index, at = k.integer("limit", limit), k.arange(128, START), k.arange(128)
    for predicate in COMPARED:
        test = k.icmp(index, k.spread(bound, (128,)), predicate=predicate)
        out = k.pointer(predicate, I32, np.zeros(128, np.int32))
        k.store(k.at(out, at), k.select(test, k.full(1, I32, 128), k.full(2, I32, 128)))
    got = execute(lowered(k.done()))
    indices = np.arange(START, START + 128, dtype=np.int64)
    for predicate, holds in COMPARED.items():
        np.testing.assert_array_equal(got[predicate], np.where(holds(indices, limit), 1, 2))


def compiled(name: str, element: str = "float", **tune: int) -> driver.Result:
    text = (SAMPLES / f"{name}.tc").read_text(encoding="utf-8")
    source = SourceFile(f"{name}.tc", text.replace("float*", f"{element}*"))
    return driver.compile(source, Options(arch="sm_90a", tune=tune), ("ptx", "manifest"))


@pytest.mark.parametrize(("element", "threads"), [("float", 256), ("bfloat16", 128)])
def test_rows_are_spread_by_their_bytes(element: str, threads: int) -> None:
    """64 bytes for a thread, which has 64 registers: so many threads are resident at once."""
    result = compiled("softmax", element, TM=1, TN=4096)
    assert result.manifest is not None and result.manifest["kernels"][0]["threads"] == threads
    (blocks,) = re.findall(r"\.minnctapersm (\d+)", result.outputs["ptx"])
    assert int(blocks) * threads * 64 == 65536


def test_loops_that_hold_much_load_at_once() -> None:
    """80 registers and more, not 64, lest the assembler wait for each load in turn."""
    text = compiled("row_sum", "bfloat16", TM=1, TN=4096).outputs["ptx"]
    assert ".reqntid 128" in text and ".minnctapersm 6" in text


def test_what_a_cast_makes_of_a_small_load_is_not_exchanged() -> None:
    """Each warp, which has a row of its own, loads all weights; none goes through shared memory."""
    result = compiled("layer_norm", "bfloat16", TM=4, TN=1024)
    assert "st.shared" not in result.outputs["ptx"]


def test_live_tiles_count_once() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(512), **ALONE), k.pointer("y", F32, np.ones(512), **ALONE)
    r = k.arange(512)
    a, b = k.load(k.at(x, r)), k.load(k.at(y, r))
    k.store(k.at(y, r), k.fadd(k.fmul(a, a), b))
    found = pressure(lowered(k.done()).kernel)
    assert [weight for _, weight in found.live if weight > 2] == [16, 16]


def weighted(n: int) -> Program:
    """y = (x - sum of x) * w * v of one row, w and v the same for all instances; n numbers each."""
    k = Sketch(warps=1)
    x, y = k.pointer("x", BF16, data(2 * n)), k.pointer("y", F32, np.ones(2 * n))
    w, v = k.pointer("w", BF16, data(n), **ALONE), k.pointer("v", BF16, data(n), **ALONE)
    r, first = k.arange(n), k.mul(k.get_program_id(axis=0), k.number(n))
    mask, t = k.less(r, k.integer("n", n - 3)), Tile(F32, (n,))
    row = k.fpcast(k.load(k.at(k.at(x, first), r), mask, other=0.0), type=t)
    total = k.spread(k.reduce(row, kind="fadd", axes=(0,)), (n,))
    weights = [k.fpcast(k.load(k.at(p, r), mask, other=0.0), type=t) for p in (w, v)]
    found = k.fsub(row, total)
    for weight in weights:
        found = k.fmul(found, weight)
    k.store(k.at(k.at(y, first), r), found, mask)
    return k.done()


def test_weights_of_all_rows_come_piece_by_piece() -> None:
    program = weighted(1024)
    done = lowered(program, check=True, without=("specialize",))
    marks = [op.attributes.get("piecewise") for op in done.kernel.ops() if op.name == "load"]
    assert marks == [None, True, True]
    target = TARGETS["sm_90a"]
    assert not rows_hold_too_much(done.kernel, target)
    assert rows_hold_too_much(
        lowered(program, without=("specialize", "delay_loads")).kernel, target)
    np.testing.assert_allclose(execute(done)["y"], program.run()["y"], rtol=1e-4)


def test_few_weights_come_at_once() -> None:
    done = lowered(weighted(256), without=("specialize",))
    assert not any(op.attributes.get("piecewise") for op in done.kernel.ops())


def picked(stored: bool) -> Program:
    """y = sum of x + x[i[0]]; `stored`: x[0] changes in between."""
    k = Sketch(warps=2)
    x, i = k.pointer("x", F32, data(512)), k.pointer("i", I32, [5])
    y = k.pointer("y", F32, np.zeros(1))
    total = k.reduce(k.load(k.at(x, k.arange(512))), kind="fadd", axes=(0,))
    if stored:
        k.store(x, total)
    k.store(y, k.fadd(total, k.load(k.at(x, k.load(i)))))
    return k.done()


@pytest.mark.parametrize("stored", [False, True])
def test_numbers_are_loaded_before_a_row_is_reduced(stored: bool) -> None:
    """The index and the element, unless a store between may change them."""
    program = picked(stored)
    done = lowered(program, check=True, without=("specialize",))
    names = [op.name for op in done.kernel.ops()]
    before = names[: names.index("reduce")].count("load")
    assert before == (1 if stored else 3)
    np.testing.assert_array_equal(execute(done)["y"], program.run()["y"])


def test_rows_that_keep_little_have_more_threads() -> None:
    """Three quarters of 2048, in blocks of 512."""
    source = SourceFile("rows.tc", (SAMPLES.parent / "bench" / "rows.tc").read_text("utf-8"))
    result = driver.compile(source, Options(arch="sm_90a", tune={"TN": 8192}), ("ptx",))
    text = result.outputs["ptx"]
    assert re.findall(r"\.reqntid (\d+)|\.minnctapersm (\d+)", text) == [
        ("512", ""), ("", "3")] * 3


def divided(values: Any, divisor: float) -> Program:
    """y = x / d, all by one number."""
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, values), k.pointer("y", F32, np.zeros(512))
    at, d = k.arange(512), k.load(k.pointer("d", F32, [divisor]))
    k.store(k.at(y, at), k.fdiv(k.load(k.at(x, at)), k.spread(d, (512,))))
    return k.done()


ODD = [(1, []), (1, [0.0, -0.0, np.nan]), (1, [np.inf]), (1, [1e-45]), (1, [3e38, -3e38]),
       (2.0 ** 90, []), (2.0 ** -125, [])]


@pytest.mark.parametrize("divisor", [3.0, -3.0, 7e-8, 2.0 ** -90, 1e-42, 3e38, 0.0, np.inf, np.nan])
@pytest.mark.parametrize(("scale", "odd"), ODD)
def test_quotients_by_one_number_are_rounded(divisor: float, scale: float, odd: list[float]
                                             ) -> None:
    values = (np.random.default_rng(0).standard_normal(512) * scale).astype(np.float32)
    values[5 : 5 + len(odd)] = odd
    program = divided(values, divisor)
    got = execute(lowered(program))["y"]
    with np.errstate(all="ignore"):
        want = values / np.float32(divisor)
    np.testing.assert_array_equal(got.view(np.uint32)[~np.isnan(want)],
                                  want.view(np.uint32)[~np.isnan(want)])
    assert np.isnan(got[np.isnan(want)]).all()


@pytest.mark.parametrize("scale", [1.0, 2.0 ** 70, 2.0 ** -70, 2.0 ** -120])
@pytest.mark.parametrize("odd", [[], [0.0, -0.0, np.nan], [np.inf], [1e-45], [3e38, -3e38]])
@pytest.mark.parametrize("turned", [False, True])
def test_quotients_by_numbers_of_their_own_are_rounded(scale: float, odd: list[float],
                                                       turned: bool) -> None:
    random = np.random.default_rng(1)
    a = random.standard_normal(256).astype(np.float32)
    b = (random.standard_normal(256) * scale).astype(np.float32)
    b[5 : 5 + len(odd)] = odd
    a, b = (b, a) if turned else (a, b)
    k = Sketch(warps=1)
    x, y, z = (k.pointer(n, F32, v) for n, v in (("x", a), ("y", b), ("z", np.zeros(256))))
    at = k.arange(256)
    k.store(k.at(z, at), k.fdiv(k.load(k.at(x, at)), k.load(k.at(y, at))))
    got = execute(lowered(k.done()))["z"]
    with np.errstate(all="ignore"):
        want = a / b
    np.testing.assert_array_equal(got.view(np.uint32)[~np.isnan(want)],
                                  want.view(np.uint32)[~np.isnan(want)])
    assert np.isnan(got[np.isnan(want)]).all()


HEAD = "int r[1024] = 0 ... 1024; int row = get_program_id(0);"
LOOP = "for (int n = 0; n < N; n += 1024)"
FORMS = {
    "reducing_passes": f"""{HEAD} float t = 0;
        {LOOP} t += sum(*(x + row * N + n + r));
        {LOOP} *(y + row * N + n + r) = *(x + row * N + n + r) * t;""",
    "several_passes": f"""{HEAD} float t[1024] = 0;
        {LOOP} t += *(x + row * N + n + r);
        float s = sum(t);
        {LOOP} *(y + row * N + n + r) = *(x + row * N + n + r) * s;""",
    "several_passes of channels": f"""{HEAD} float t[1024] = 0;
        for (int c = 0; c < N; c++) {LOOP} t += *(x + (row + c) * N + n + r);
        float s = sum(t);
        for (int c = 0; c < N; c++) {LOOP}
          *(y + (row + c) * N + n + r) = *(x + (row + c) * N + n + r) * s;""",
    "sums_columns": """int r[32] = 0 ... 32, c[32] = get_global_range(0); float t[32, 32] = 0;
        for (int m = 0; m < N; m += 32) t += *(x + (m + r)[:, newaxis] * N + c);
        *(y + c) = sum(t, 0);""",
    "sums_columns of each iteration": """int r[32] = 0 ... 32, c[32] = get_global_range(0);
        float most[32] = 0;
        for (int m = 0; m < N; m += 32) {
          float t[32, 32] = m + r[:, newaxis] < N ? *(x + (m + r)[:, newaxis] * N + c) : 0;
          most = max(most, t[max, :]) * 2;
        }
        *(y + c) = most;""",
    "segments": """int r[32] = 0 ... 32, c[32] = 0 ... 32; float t[32, 32] = 0;
        int s = get_program_id(0);
        for (int m = *(first + s); m < *(first + s + 1); m += 32)
          t += *(x + (m + r)[:, newaxis] * N + c);
        *(y + s * 32 + c) = sum(t, 0);""",
    "adds_tiles": """int h[8] = get_global_range(0), w[64] = get_global_range(1);
        float t[8, 64] = 0;
        for (int i = 0; i < N; i++) for (int j = 0; j < N; j++)
          t += *(x + (h + i)[:, newaxis] * 4096 + w + j);
        *(y + h[:, newaxis] * 4096 + w) = t;""",
    "adds_gathered": """int m[32] = get_global_range(0), c[64] = 0 ... 64; float t[32, 64] = 0;
        for (int k = 0; k < N; k++)
          t += *(x + (*(first + k * N + m))[:, newaxis] * 64 + c);
        *(y + m[:, newaxis] * 64 + c) = t;""",
    "crosses": """int i[64] = get_global_range(0), j[64] = get_global_range(1);
        float t[64, 64] = 0;
        for (int k = 0; k < N; k++)
          t = max(t, (*(x + i * N + k))[:, newaxis] - *(x + j * N + k));
        *(y + i[:, newaxis] * 4096 + j) = t;""",
    "columns_alone": """int c[256] = get_global_range(0); float t[256] = 0;
        for (int m = 0; m < N; m++) t = max(t, *(x + m * N + c)) * 2;
        *(y + c) = t;""",
    " strides of programs": f"""{HEAD} float t[1024] = 0;
        for (int m = row; m < N; m += get_num_programs(0)) t += *(x + m * 1024 + r);
        *(y + r) = t;""",
    "shares_addresses": f"""{HEAD} atomic_add(told, 1); *(y + r) = *(x + r);""",
    "shares_addresses that are loaded": f"""{HEAD} atomic_add(told + *(first + row + r), 1);""",
    " of one that is read": f"""{HEAD}
        if (atomic_add(told, 1) < N) *(y + r) = *(x + r);""",
    "shares_addresses of histograms": f"""{HEAD} int t[256] = 0;
        {LOOP} t += histogram(*(first + n + r), 256);
        @(r < 256) atomic_add(told + r, r);""",
    " of its own": f"""{HEAD} atomic_add(told + row * 1024 + r, 1);""",
    "asks_programs": f"""{HEAD} while (atomic_load(told + row) == 0) {{}}
        *(y + r) = *(x + r);""",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_loops(form: str) -> None:
    text = ("kernel void f(const float* x, float* y, const int* first, int* told, int N) {"
            + FORMS[form] + "}")
    result = driver.compile(SourceFile("f.tc", text), Options(stop_after="simplify_cfg"), ("tir",))
    assert result.module is not None
    (kernel,) = result.module.kernels
    asked = (row_loops.several_passes, row_loops.reducing_passes, column_loops.sums_columns,
             row_loops.adds_tiles, shared_data.asks_programs, shared_data.shares_addresses,
             row_loops.crosses, column_loops.columns_alone, shared_data.segments,
             row_loops.adds_gathered)
    cfg = Cfg(kernel)
    assert [question.__name__ for question in asked if question(kernel, cfg)] == form.split()[:1][
        : not form.startswith(" ")]


POINTS = """const tunable int TX = {128};
kernel void f(const float* x, float* y, int W) {
  int w[TX] = get_global_range(0), h[8] = get_global_range(1);
  const float* p[8, TX] = x + h[:, newaxis] * W + w;
  float t[8, TX] = 0;
  static for (int k = 0; k < POINTS; k++) t = fma(*(p + k * W * 16), 0.5f + k, t);
  *(y + h[:, newaxis] * W + w) = t;
}"""


@pytest.mark.parametrize(("points", "threads"), [(2, 128), (24, 256)])
def test_threads_have_fewer_elements_of_which_much_is_loaded(points: int, threads: int) -> None:
    result = driver.compile(SourceFile("f.tc", POINTS), Options(
        arch="sm_90a", defines=(f"POINTS={points}",), variants=0), ("manifest",))
    assert result.manifest is not None and result.manifest["kernels"][0]["threads"] == threads


def benchmark(name: str, **options: Any) -> driver.Result:
    path = SAMPLES.parent / "bench" / f"{name}.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    return driver.compile(source, Options(arch="sm_90a", **options), ("manifest",))


SUMS = """
const tunable int TC = {16, 32, 64, 128}, TR = {8, 16, 32, 64};
kernel void sums(const float* x, float* y, int R, int C) {
  int c[TC] = get_global_range(0), r[TR] = 0 ... TR;
  float s[TC] = 0;
  for (int i = 0; i < R; i += TR)
    s += ((i + r < R)[:, newaxis] && c < C ? x[(i + r)[:, newaxis] * C + c] : 0)[+, :];
  @(c < C) y[c] = s;
}"""


def test_columns_that_each_iteration_adds_up_share_clusters() -> None:
    """As where tiles are added up first: few columns had 5 programs of 100352 rows."""
    _, *found = planned_entries(SourceFile("f.tc", SUMS))
    clusters = {v["tunables"].get("cluster_k", 1) for v in found}
    assert clusters >= {2, 4, 8}


BAGS = """
const tunable int T = {64, 128, 256, 512};
kernel void bags(const half* table, const int* index, const int* offset, half* y, int D) {
  int d[T] = get_global_range(0), b = get_program_id(1);
  float s[T] = 0;
  for (int e = offset[b]; e < offset[b + 1]; e++)
    s += d < D ? table[(long)index[e] * D + d] : 0;
  @(d < D) y[b * D + d] = s;
}"""


def test_a_vote_of_whether_to_load_is_no_sum() -> None:
    """A number that is loaded only where a row is wanted: rows of 128 were taken by 64."""
    _, *found = planned_entries(SourceFile("f.tc", BAGS))
    assert {"T": 128} in [v["tunables"] for v in found]


@pytest.mark.parametrize(("name", "tile"), [
    ("ways/memory/gemv/transposed_tile", {"TM": 1, "TN": 1024}),
    ("ways/memory/columns/transposed", {"TM": 64, "TN": 32})])
def test_addresses_say_what_is_a_column(name: str, tile: dict[str, int]) -> None:
    """Not the axes of a tile: those of these two are the other way round."""
    assert benchmark(name).tunables == tile


def test_numbers_loaded_at_quotients_do_not_count_as_moved() -> None:
    """A thread has two accesses of 16 bytes of the halves, of which each row has one number."""
    manifest = benchmark("ways/memory/gather/flat").manifest
    assert manifest is not None and manifest["kernels"][0]["threads"] == 64


def test_passes_have_threads_by_what_they_load() -> None:
    """Eight halves each, though bytes are stored."""
    manifest = benchmark("unseen/swiglu_quant").manifest
    assert manifest is not None and manifest["kernels"][0]["threads"] == 256


def test_rows_too_long_for_the_cache_stay_in_shared_memory() -> None:
    """In the entry of which one block is resident, which has all the shared memory there is."""
    manifest = benchmark("suite/layer_norm", small_clusters=True).manifest
    assert manifest is not None
    (long,) = [entry for entry in manifest["kernels"][0]["variants"]
               if entry["tunables"].get("min_blocks") == 1]
    assert long["dynamic_shared_bytes"] > TARGETS["sm_90a"].shared_per_block * 3 // 4


def test_masks_that_nothing_reads_are_not_kept() -> None:
    """Of a second pass, where the same mask of a first one stands for it."""
    assert benchmark("unseen/softmax_temp_mask").manifest is not None


@pytest.mark.parametrize(("name", "tile"), [
    ("rms/unsigned", {"TM": 1, "TN": 1024}), ("softmax/rows", {"TM": 1, "TN": 2048})])
def test_passes_that_reduce_have_tiles_by_bytes(name: str, tile: dict[str, int]) -> None:
    assert benchmark("ways/memory/" + name).tunables == tile


@pytest.mark.parametrize("name", ["seg_scan", "cummax_rows"])
def test_few_warps_scan_a_tile_by_a_function(name: str) -> None:
    """Of 2048 elements as of 1024."""
    manifest = benchmark("unseen/" + name).manifest
    assert manifest is not None and manifest["kernels"][0]["threads"] == 128


@pytest.mark.parametrize(("name", "tile"), [
    ("bench/unseen/smoothed_loss", 2048), ("samples/cross_entropy", 4096)])
def test_long_rows_of_several_sums_have_smaller_tiles(name: str, tile: int) -> None:
    """A maximum and two sums, or one."""
    source = SourceFile(name, (SAMPLES.parent / f"{name}.tc").read_text(encoding="utf-8"))
    _, *found = planned_entries(source)
    assert {"TN": tile, "num_warps": 4} in [entry["tunables"] for entry in found]


@pytest.mark.parametrize("name, threads", [
    ("rbf_predict", 128), ("mahalanobis", 256), ("small_products", 128)])
def test_products_that_are_computed_with_at_once(name: str, threads: int) -> None:
    manifest = benchmark("unseen/" + name).manifest
    assert manifest is not None and manifest["kernels"][0]["threads"] == threads


def test_aligned_images_have_an_entry_with_the_registers_of_their_body() -> None:
    """Of a median of nine bytes the general body holds twice as much as the fast one; of GELU,
    whose bodies need as many, there is none."""
    manifest = benchmark("suite/median", small_clusters=True).manifest
    assert manifest is not None
    (entry,) = manifest["kernels"][0]["variants"]
    assert entry["requires"] == [
        *({"argument": place, "multiple_of": 8} for place in (0, 1, 3)),
        {"range": 0, "at_least": 512}, {"range": 1, "at_least": 8192}]
    other = benchmark("suite/gelu_bias", small_clusters=True).manifest
    assert other is not None and not other["kernels"][0].get("variants")


def test_loops_that_add_sums_to_memory_have_large_tiles() -> None:
    result = benchmark("unseen/factor_stats")
    assert result.tunables == {"TM": 32, "TN": 256}
    assert result.manifest is not None and result.manifest["kernels"][0]["threads"] == 256


@pytest.mark.parametrize("name, threads", [
    ("unseen/grid_sample_points", 256),  # places and masks of four pixels are held beside weights
    ("unseen/ray_spheres", 64),  # an inner loop holds what the outer one does, too
    ("unseen/rotate_points", 256),  # records of 16 bytes
    ("suite/depthwise_time", 64),  # a row of records beside rows of numbers
    ("unseen/pad_transpose", 256),  # bytes that are transposed: 64 of a thread, as of wider ones
    ("unseen/stft_power", 256),  # two products fill a warpgroup that computes their operand, too
    ("unseen/select_middle", 64)])  # numbers loaded at remainders of quotients are not moved
def test_threads_of_tiles_that_are_moved(name: str, threads: int) -> None:
    manifest = benchmark(name).manifest
    assert manifest is not None and manifest["kernels"][0]["threads"] == threads


def test_rows_that_a_loaded_number_places_go_on_together() -> None:
    """Under a mask that full tiles do without."""
    path = SAMPLES.parent / "bench" / "unseen" / "select_middle.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    ptx = driver.compile(source, Options(arch="sm_90a"), ("ptx",)).outputs["ptx"]
    assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx


@pytest.mark.parametrize("name", ["decode_linear", "linear_bf16"])
def test_entries_have_tiles_between_powers_of_two(name: str) -> None:
    """Of 128 rows or columns and no fewer, as were measured, where rounds of powers of two are half
    empty: of 1536 in cube, or of 640 rows."""
    path = SAMPLES.parent / "bench" / "suite" / f"{name}.tc"
    _, *found = planned_entries(SourceFile(name, path.read_text(encoding="utf-8")))
    rows = [row["tunables"] for row in found]
    sides = [{row["TM"], row["TN"]} for row in rows]
    between = [pair for pair in sides if any(side & (side - 1) for side in pair)]
    assert between and all(min(pair) == 128 for pair in between)
    assert sum("cluster_k" in row for row in rows) >= 2
