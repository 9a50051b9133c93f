"""Kernels of one file that share no tunables: each is compiled as it would be alone."""

import gc
import re

import pytest

from tritonc import driver, sema, stages
from tritonc.frontend.parser import parse
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.search.space import search_space

PRODUCT = """
const tunable int TM_ = {16, 32, 64, 128};
const tunable int TN_ = {16, 32, 64, 128, 256};
const tunable int TK_ = {8, 16, 32, 64, 128};
kernel void product_(const float* a, const float* b, float* c, int M, int N, int K) {
  int rm[TM_] = get_global_range(0);
  int rn[TN_] = get_global_range(1);
  int rk[TK_] = 0 ... TK_;
  float C[TM_, TN_] = 0;
  for (int k = 0; k < K; k += TK_)
    C += dot(*(a + rm[:, newaxis] * K + (k + rk)), *(b + (k + rk)[:, newaxis] * N + rn));
  *(c + rm[:, newaxis] * N + rn) = C;
}
"""
ROWS = """
const tunable int TL_ = {256, 512, 1024, 2048};
float scaled_(float x[TL_]) { return x[+] / WIDTH_; }
const float WIDTH_ = TL_ * 1.0f;
kernel void rows_(const float* x, float* y, int n) {
  int r[TL_] = 0 ... TL_;
  int row = get_program_id(0);
  *(y + row) = scaled_(r < n ? *(x + row * n + r) : 0);
}
"""


def named(text: str, suffix: str) -> str:
    return re.sub(r"(\w+)_\b", rf"\1_{suffix}", text)


def chosen(text: str, options: Options | None = None) -> dict[str, int]:
    result = driver.compile(SourceFile("parts.tc", text), options or Options(), ())
    assert not result.diagnostics  # before, of four products: "many-tunables"
    return result.bindings.chosen


def test_kernels_have_the_tiles_that_they_have_alone() -> None:
    texts = [named(PRODUCT, "a"), named(ROWS, "b"), named(PRODUCT, "c"), named(ROWS, "d"),
             named(PRODUCT, "e"), named(PRODUCT, "f")]
    alone = {name: value for text in texts for name, value in chosen(text).items()}
    assert chosen("\n".join(texts)) == alone
    assert len(alone) == 14


def kernels(text: str) -> list[list[str]]:
    diagnostics = Diagnostics()
    tokens = stages.preprocess(SourceFile("parts.tc", text), Options(), diagnostics).tokens
    program = parse(tokens, diagnostics)
    diagnostics.raise_if_errors()
    return [sorted(part.kernels) for part in sema.parts(program)]


def test_what_joins_kernels() -> None:
    text = named(ROWS, "a") + named(ROWS, "b") + named(PRODUCT, "c")
    assert kernels(text) == [["rows_a"], ["rows_b"], ["product_c"]]
    condition = 'static_assert(TL_a != WIDTH_b, "other lengths");'
    assert kernels(text + condition) == [["product_c"], ["rows_a", "rows_b"]]
    assert kernels("const tunable (num_warps, idle) = {(4, 1), (8, 2)};" + text) == [
        ["product_c", "rows_a", "rows_b"]]  # meta-parameters are of all kernels


def test_what_no_kernel_uses_has_its_first_value() -> None:
    result = driver.compile(SourceFile("parts.tc", named(ROWS, "a") + named(ROWS, "b")
                                       + "const tunable int idle = {4, 8};"), Options(), ())
    assert result.module is not None
    assert [kernel.name for kernel in result.module.kernels] == ["rows_a", "rows_b"]


def test_given_values_are_of_their_part() -> None:
    text = named(PRODUCT, "a") + named(ROWS, "b")
    assert chosen(text, Options(tune={"TL_b": 512})) == chosen(named(PRODUCT, "a"))


def test_one_of_tunables_that_are_chosen_together_is_given() -> None:
    text = ("const tunable (TM, TN) = {(16, 64), (32, 32), (64, 16)};\n" + named(ROWS, "a") +
            "kernel void tiles(float* x) { *(x + get_global_range[TM](0) * TN) = TN; }\n")
    assert chosen(text, Options(tune={"TM": 32}))["TM_TN"] == 1


@pytest.mark.parametrize("first", ["prints", "rows_a"])
def test_kernels_beside_one_that_calls_a_function(first: str) -> None:
    """The PTX of kernels is made one by one; of those that need a function that stays, together."""
    prints = "kernel void prints(int n) { printf(\"%d\", n); }\n" \
        "kernel void prints_too(int n) { printf(\"%d\", n + 1); }\n"
    texts = [prints, named(ROWS, "a"), named(ROWS, "b")]
    text = "".join(texts if first == "prints" else reversed(texts))
    result = driver.compile(SourceFile("parts.tc", text), Options(device_assert=True), ("ptx",))
    ptx = result.outputs["ptx"]
    assert sorted(re.findall(r"\.visible \.entry (\w+)\(", ptx)) == [
        "prints", "prints_too", "rows_a", "rows_b"]
    assert ptx.count(".extern .func") == 1
    assert ptx.index("vprintf") < ptx.index(".entry prints(")
    assert ptx.count(".version") == ptx.count(".address_size") == 1


def test_the_tuner_varies_what_its_kernel_has() -> None:
    source = SourceFile("parts.tc", named(ROWS, "a") + named(PRODUCT, "b"))
    space = search_space(source, Options(), "rows_a")
    assert {name for name in space.parameters if name.startswith("T")} == {"TL_a"}


@pytest.mark.parametrize("small_clusters", [False, True])
def test_kernels_go_through_passes_in_batches(small_clusters: bool,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are PTX give up their operations, whatever entries they have."""
    source = SourceFile("two.tc", named(PRODUCT, "a") + named(ROWS, "b"))
    options = Options(arch="sm_90a", small_clusters=small_clusters)
    together = driver.compile(source, options, ("ptx",))
    monkeypatch.setattr(driver, "_BATCH", 1)
    monkeypatch.setattr(driver, "_ENTRIES", 1)
    frozen = gc.get_freeze_count()
    apart = driver.compile(source, options, ("ptx",))
    assert apart.manifest == together.manifest
    one, two = (sorted(re.sub(r"\$L__BB\d+|\n}\n.*", "", entry, flags=re.DOTALL)
                       for entry in r.outputs["ptx"].split(".visible .entry ")[1:])
                for r in (together, apart))
    assert one == two and len(one) >= 2
    assert gc.get_freeze_count() <= frozen, "what others made is still collected"
    assert apart.module is not None and not [*apart.module.kernels[0].ops()]
