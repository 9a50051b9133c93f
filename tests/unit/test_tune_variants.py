"""Which candidates give one kernel, and which cannot be the fastest."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.target.target import find
from tritonc.ir.core import Kernel
from tritonc.launch.cuda import Peaks
from tritonc.options import Options
from tritonc.source import SourceFile
from tritonc.tune.model.feature import Feature
from tritonc.tune.search import variants
from tritonc.tune.search.bounds import least_milliseconds
from tritonc.tune.workers.jobs import Compiler, Spec

TEXT = (Path(__file__).parents[2] / "samples" / "matmul.tc").read_text()
OPTIONS = Options(arch="sm_90a", tune={"TM": 16, "TN": 32, "TK": 16})


def compiler(options: Options = OPTIONS) -> Compiler:
    return Compiler(Spec("m.tc", TEXT, options, 0, "matmul"))


def test_a_variant_is_what_each_of_its_members_gives() -> None:
    choices: list[dict[str, int]] = [
        {}, *({"num_warps": w, "slices": s, "group": 8} for w, s in product((2, 4), (1, 16))),
        {"min_blocks": 0}, {"min_blocks": 32}, {"group": 8}]
    texts = []
    for choice in choices:
        options = replace(OPTIONS, tune={**OPTIONS.tune, **choice}, stop_after="insert_barriers")
        texts.append(driver.compile(SourceFile("m.tc", TEXT), options, ("tir",)).outputs["tir"])
    by_text: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        by_text.setdefault(text, []).append(i)
    found = compiler().classify(choices)
    assert [v.members for v in found] == [*map(tuple, by_text.values())]
    assert not any(v.reason for v in found) and 4 < len(found) < len(choices)


def test_what_a_pass_refuses_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of a pass too costs those that meet it, and nobody else."""
    def fails(kernel: Kernel, context: variants.Context) -> bool:
        return context.meta["num_warps"] // (context.meta["num_warps"] - 4) > 5

    from tritonc import passes

    rows = [row._replace(function=fails) if row.name == "choose_warps" else row
            for row in passes.BACKEND]
    monkeypatch.setattr(passes, "BACKEND", rows[:rows.index(next(
        row for row in rows if row.name == "choose_warps")) + 1])
    good, bad = compiler().classify([{"num_warps": n} for n in (8, 4, 8)])
    assert good.members == (0, 2) and not good.reason
    assert bad.members == (1,) and "choose_warps" in bad.reason and not bad.digest
    (wrong,) = compiler(Options(tune={"TM": -1})).classify([{}, {"num_warps": 4}])
    assert wrong.members == (0, 1) and "TM" in wrong.reason


def test_who_owns_no_meta_parameter_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc import passes

    monkeypatch.setattr(variants, "_READERS", frozenset({"choose_warps"}))
    with pytest.raises(AssertionError, match="select_dots owns no meta-parameter, but reads one"):
        compiler().classify([{"num_warps": 8}])
    assert passes.BACKEND


H200 = Peaks(4.9e12, 67e12, 1070e12, 261e9)


def product_of(m: int, n: int, k: int, element: str = "bf16") -> tuple[Feature, ...]:
    size = {"bf16": 2, "f32": 4}[element]
    return (Feature("dot", (m, n, k), size, (), element), Feature("access", (m, k), 8),
            Feature("access", (k, n), 8))


@pytest.mark.parametrize("profile, bound, milliseconds", [
    (product_of(128, 256, 64), {}, 0.1284),  # the peak of wgmma
    (product_of(128, 256, 64), {"wgmma": 0}, 0.1976),  # that of mma.sync
    (product_of(128, 256, 64), {"num_warps": 2}, 0.1976),
    (product_of(32, 256, 64), {}, 0.2892),  # bytes
    (product_of(128, 256, 8), {}, 1.0257),  # no tensor core
    (product_of(64, 64, 16, "f32"), {}, 2.0513),
    (product_of(128, 256, 64)[:2], {}, 0.0),  # an operand comes from elsewhere
    ((*product_of(64, 64, 64), *product_of(64, 64, 64)), {}, 0.0),
])
def test_no_candidate_is_faster_than_the_machine(
        profile: tuple[Feature, ...], bound: dict[str, int], milliseconds: float) -> None:
    found = least_milliseconds(profile, bound, 2.0 * 4096**3, H200, find("sm_90a"))
    assert found == pytest.approx(milliseconds, abs=1e-4)
    unknown = H200._replace(tensor=0.0, cycles=0.0)
    assert least_milliseconds(profile, bound, 1e9, unknown, find("sm_90a")) == 0.0


def test_no_other_entry_beside_a_small_tile_of_computed_operands() -> None:
    """A tile that is told, by which no other can stand: once an error of `map`."""
    text = """
const tunable int TM = {64, 128}, TN = {64, 128}, TK = {16, 32};
kernel void covariance(const float* x, const float* mean, float* c, int N, int D) {
  int i[TM] = get_global_range(0), j[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  for (int n = 0; n < N; n += TK) {
    int k[TK, 1] = reshape(n + 0 ... TK, TK, 1);
    float xi[TK, TM] = k < N && i < D ? x[k * D + i] - mean[i] : 0;
    float xj[TK, TN] = k < N && j < D ? x[k * D + j] - mean[j] : 0;
    acc += trans(xi) @ xj;
  }
  @((i < D)[:, newaxis] && j < D) c[i[:, newaxis] * D + j] = acc;
}"""
    options = Options(arch="sm_90a", tune={"TM": 64, "TN": 64}, small_clusters=True)
    (kernel,) = driver.compile(SourceFile("f.tc", text), options, ("manifest",)).manifest["kernels"]
    assert kernel["variants"]
