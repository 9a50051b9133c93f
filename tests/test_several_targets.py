"""One image for several targets, whose launches differ: what the header does on each of them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import tritonc
from host_tools import build, need, run, stub

from tritonc import driver
from tritonc.launch.hosts.header import header
from tritonc.launch.hosts.products import Settings, make
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile

HALF = """\
kernel void product(const half* a, const half* b, half* c, int M, int N, int K) {
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  float sum[TM, TN] = 0;
  for (int k = 0; k < K; k += 64) {
    int rk[64] = k + (0 ... 64);
    half A[TM, 64] = (rm < M)[:, newaxis] && (rk < K) ? *(a + rm[:, newaxis] * K + rk) : 0;
    half B[64, TN] = (rk < K)[:, newaxis] && (rn < N) ? *(b + rk[:, newaxis] * N + rn) : 0;
    sum += dot(A, B);
  }
  @((rm < M)[:, newaxis] && (rn < N)) *(c + rm[:, newaxis] * N + rn) = sum;
}
"""
TUNABLES = "const tunable int TM = {128, 64};\nconst tunable int TN = {256, 64};\n"
PROGRAM = """\
#include "k.h"
#include "stub.h"
#include <stdio.h>

static uint16_t *const h = (uint16_t *)4096;
static CUresult launched(CUresult code) {
  printf("%d %s %u x %u x %u, %u threads, %u bytes\\n", code, stub.name, stub.grid[0], stub.grid[1],
         stub.grid[2], stub.threads, stub.shared);
  return code;
}
int main(void) {
  const int versions[3] = {90, 80, 70};
  int i;
  cuInit(0);
  for (i = 0; i < 3; i++) {
    CUcontext context;
    stub_context(&context);
    cuCtxSetCurrent(context);
    stub.version = versions[i];
    printf("%d: %u\\n", versions[i], product_variant(64, 64, h, h, h, 64, 64, 64));
    stub.launches = 0;
    CHECKS
    launched(product_launch_variant(1, 64, 64, NULL, h, h, h, 64, 64, 64));
    launched(product_launch_variant(0, 256, 256, NULL, h, h, h, 256, 256, 64));
    launched(product_launch(64, 64, NULL, h, h, h, 64, 64, 64));
    printf("%d launches\\n", stub.launches);
  }
  return 0;
}
"""


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def manifest_of(*targets: str, **tune: int) -> dict[str, Any]:
    """What a header for these targets is made of: a copy, which may be changed."""
    return deepcopy(_manifest_of(*targets, **tune))


@cache
def _manifest_of(*targets: str, **tune: int) -> dict[str, Any]:
    first: driver.Result | None = None
    others = []
    for target in targets:
        found = driver.compile(
            SourceFile("k.tc", TUNABLES + HALF), Options(
                arch=target, tune={"coarsen": 0, **tune}, variant=("TM=64,TN=64,cluster_k=2",)),
            ("manifest", "ptx"), alike=first)
        first, others = (first, [*others, found]) if first else (found, others)
    assert first is not None
    captured: dict[str, Any] = {}

    def keep(manifest: Any, *_: Any, **__: Any) -> str:
        captured.update(manifest)
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tritonc.launch.hosts.header.header", keep)
        make(["header"], first, Settings("k"), others)
    return captured


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_each_target_has_its_launches(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    manifest = manifest_of("sm_90a", "sm_80", TM=128, TN=256)
    (kernel,) = manifest["kernels"]
    (variant,) = kernel["variants"]
    assert manifest["targets"] == ["sm_90a", "sm_80"]
    assert kernel["threads"] == 384 and kernel["targets"]["sm_80"]["threads"] == 256
    assert variant["cluster"] == 2 and "cluster" not in variant["targets"]["sm_80"]
    said = program(manifest, compiler, tmp_path)
    of_80 = [row["targets"]["sm_80"]["dynamic_shared_bytes"] for row in (kernel, variant)]
    both = (variant["dynamic_shared_bytes"], kernel["dynamic_shared_bytes"])
    one = f"0 product__v1 1 x 1 x 2, 128 threads, {both[0]} bytes\n"
    assert said == (
        f"90: 1\n{one}0 product 2 x 1 x 1, 384 threads, {both[1]} bytes\n{one}3 launches\n"
        f"80: 1\n0 product__v1 1 x 1 x 1, 128 threads, {of_80[1]} bytes\n"
        f"0 product 2 x 1 x 1, 256 threads, {of_80[0]} bytes\n"
        f"0 product__v1 1 x 1 x 1, 128 threads, {of_80[1]} bytes\n3 launches\n"
        # code of neither
        "70: 1\n" + 3 * f"200 product__v1 1 x 1 x 1, 128 threads, {of_80[1]} bytes\n"
        + "0 launches\n")


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_variant_that_a_target_lacks(compiler: str, tmp_path: Path) -> None:
    """The choice is of those that are there; by hand it is not found."""
    need(compiler)
    manifest = manifest_of("sm_90a", "sm_80", TM=128, TN=256)
    manifest["kernels"][0]["variants"][0]["targets"] = {"sm_80": None}
    said = program(manifest, compiler, tmp_path).splitlines()
    assert [line.split(" ")[:2] for line in said[1:4]] == [
        ["0", "product__v1"], ["0", "product"], ["0", "product__v1"]]
    assert [line.split(" ")[0] for line in said[6:9]] == ["500", "0", "0"]  # not found
    assert said[9] == "2 launches" and said[8].startswith("0 product 1 x 1 x 1, 256 threads")


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_each_target_chooses_by_its_own_costs(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    tune = {"TM": 128, "TN": 256}
    manifest, alone = manifest_of("sm_90a", "sm_80", **tune), manifest_of("sm_80", **tune)
    (kernel,) = manifest["kernels"]
    (own,) = kernel["choices"]
    assert own == alone["kernels"][0]["choice"] != kernel["choice"]
    own["costs"] = [[*row[:2], time, *row[3:]] for time, row in zip(
        (0, 1 << 20), own["costs"], strict=True)]  # the variant's launches take far longer
    said = program(manifest, compiler, tmp_path).splitlines()
    assert said[3].startswith("0 product__v1 ") and said[8].startswith("0 product 1 x 1 x 1")


def program(manifest: dict[str, Any], compiler: str, folder: Path) -> str:
    image = "\n".join(["// an image"])
    Path("k.h").write_text(header(manifest, "k", image=image))
    Path("k.c").write_text(PROGRAM.replace("    CHECKS\n", ""))
    language = ["-x", "c++"] if compiler == "g++" else []
    build(folder, "k", "-Wconversion", *language, "k.c", "-x", "none", stub(folder),
          compiler=compiler)
    return run("./k", cwd=folder, LD_LIBRARY_PATH=".")


def test_what_must_be_alike() -> None:
    """Code of sm_90 and sm_90a is one kind to the driver; tiles are the same everywhere."""
    with pytest.raises(CompileError, match="threads is 384 for sm_90a, 256 for sm_90"):
        manifest_of("sm_90a", "sm_90", TM=128, TN=256)
    alike = manifest_of("sm_86", "sm_89", TM=64, TN=64)
    assert "targets" not in alike["kernels"][0]


def test_a_command_for_two_targets() -> None:
    need("ptxas", "fatbinary")
    Path("k.tc").write_text(TUNABLES + HALF)
    done = tritonc("k.tc", "--arch=sm_90a,sm_80", "--variants=2", "-o", "k.fatbin", "--header=k.h")
    assert done.code == 0, done.err
    assert "_versions[] = {90, 80};" in Path("k.h").read_text()
