"""`--set` at a compilation: the cost model chooses for the launch that the sizes make."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import tritonc

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile

SAMPLES = Path(__file__).parents[2] / "samples"


def chosen(name: str, **sizes: int) -> dict[str, int]:
    source = SourceFile(f"{name}.tc", (SAMPLES / f"{name}.tc").read_text(encoding="utf-8"))
    return driver.compile(source, Options(arch="sm_90a", sizes=sizes), ("tir",)).tunables


@pytest.mark.parametrize("sizes", [{"M": 1, "N": 4096}, {"M": 16, "N": 16384}])
def test_few_rows_get_few(sizes: dict[str, int]) -> None:
    assert chosen("matmul_bf16", **sizes, K=4096)["TM"] == 16


def test_few_columns_get_few() -> None:
    assert chosen("matmul_bf16", M=4096, N=32, K=4096)["TN"] <= 32


def test_large_products_are_as_without_sizes() -> None:
    assert chosen("matmul_bf16", M=8192, N=8192, K=8192) == chosen("matmul_bf16")


def test_few_long_rows_get_many_threads() -> None:
    assert chosen("softmax", M=4, N=131072)["TN"] == 8192
    assert chosen("softmax", M=65536, N=1000) == chosen("softmax")


def test_accumulators_of_several_products_count_together() -> None:
    """Two of 128 x 256 would be all registers of a multiprocessor."""
    text = (SAMPLES / "matmul_bf16.tc").read_text(encoding="utf-8")
    text = text[text.index("const tunable"):]
    text = text.replace("float C[TM, TN] = 0;", "float C[TM, TN] = 0, D[TM, TN] = 0;")
    text = text.replace("C += dot(A, B);", "C += dot(A, B); D += dot(A, B * B);")
    text = text.replace("*pc = C;", "*pc = C * D;")
    found = driver.compile(SourceFile("two.tc", text), Options(arch="sm_90a"), ("tir",)).tunables
    assert found["TM"] * found["TN"] <= 128 * 128


def test_doubles_take_tiles_that_stand_beside_each_other() -> None:
    """128 x 128 is alone on a multiprocessor, whose tensor cores wait while it copies."""
    path = SAMPLES.parent / "bench" / "unseen" / "mm_double.tc"
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))

    def tile(**sizes: int) -> tuple[int, int, int]:
        found = driver.compile(source, Options(arch="sm_90a", sizes=sizes), ("manifest",)).manifest
        assert found is not None
        kernel = found["kernels"][0]
        return *kernel["tile"], kernel.get("cluster", 1)

    assert tile(M=3000, N=2000, K=1000) == (64, 64, 1)  # 274 us, 316 by 128 x 128
    assert tile(M=1000, N=700, K=3000) == (64, 64, 2)  # 142 us, 174 by 128 x 128 in clusters


def clusters(text: str, arch: str = "sm_90a", tune: dict[str, int] | None = None, **sizes: int
             ) -> int:
    """How many blocks share the loop of a program."""
    options = Options(arch=arch, sizes=sizes, tune=tune or {})
    found = driver.compile(SourceFile("p.tc", text), options, ("manifest",)).manifest
    assert found is not None
    return int(found["kernels"][0].get("cluster", 1))


MATMUL = (SAMPLES / "matmul_bf16.tc").read_text(encoding="utf-8")


@pytest.mark.parametrize(("m", "n", "k", "shared"), [
    (1760, 64, 1760, True), (1, 4096, 4096, True), (32, 4096, 14336, True),
    (1024, 1024, 1024, False), (128, 14336, 4096, False), (4096, 4096, 4096, False),
    (2560, 64, 64, False)])
def test_clusters_share_long_loops_of_few_tiles(m: int, n: int, k: int, shared: bool) -> None:
    """112 tiles of 128 x 128 fill an H200 (37.2 us); 56 of 128 x 256 in clusters of two, 37.4."""
    assert (clusters(MATMUL, M=m, N=n, K=k) > 1) == shared


def test_clusters_where_there_are_some() -> None:
    sizes = {"M": 64, "N": 1760, "K": 1760}
    assert clusters(MATMUL, **sizes) > 1
    assert clusters(MATMUL, "sm_80", **sizes) == 1
    assert clusters(MATMUL, tune={"cluster_k": 1}, **sizes) == 1
    assert clusters(MATMUL, tune={"TM": 64, "TN": 64, "TK": 64}, **sizes) == 4
    assert clusters(MATMUL) == 1


@pytest.mark.parametrize(("step", "count"), [
    ("C = max(C, dot(A, B));", 4), ("C = C * 0.5f + dot(A, B);", 1)])
def test_clusters_where_a_loop_combines_in_any_order(step: str, count: int) -> None:
    text = MATMUL.replace("C += dot(A, B);", step)
    assert text != MATMUL
    assert clusters(text, M=64, N=1760, K=1760) == count


def test_macros_of_the_command_line_are_sizes_too() -> None:
    """The range is P * Q * B by F, of which the first three are macros: few pixels, small tiles."""
    path = SAMPLES.parent / "bench" / "paper" / "conv_f32.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    tiles = {}
    for extent in (7, 112):
        defines = (f"P={extent}", f"Q={extent}", "B=4", "C=64", "R=3", "S=3")
        tiles[extent] = driver.compile(source, Options(
            arch="sm_90a", defines=defines, sizes={"F": 512}), ("tir",)).tunables
    assert tiles[7]["TM"] * tiles[7]["TN"] < tiles[112]["TM"] * tiles[112]["TN"]


def test_a_loop_that_counts_steps_is_as_long_as_its_tiles_say() -> None:
    """`i < DEPTH / TK; i++`: 32 filters take no tile of 256."""
    path = SAMPLES.parent / "bench" / "paper" / "conv_half.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    defines = ("P=75", "Q=332", "B=8", "C=32", "R=5", "S=10")
    tiles = {filters: driver.compile(source, Options(
        arch="sm_90a", defines=defines, sizes={"F": filters}), ("tir",)).tunables["TN"]
        for filters in (32, 256)}
    assert tiles == {32: 32, 256: 256}


@pytest.mark.parametrize(("m", "n", "k", "shared"), [
    (64, 2560, 2560, True), (128, 1760, 1760, True), (512, 512, 2048, True),
    (512, 512, 512, False), (4096, 4096, 4096, False), (7133, 1760, 1760, False)])
def test_clusters_on_cuda_cores(m: int, n: int, k: int, shared: bool) -> None:
    """As measured for bench/paper: 1.3 to 3 times as fast where few tiles share a long sum.  512 in
    cube takes 10.3 us by 256 tiles of 32 x 32, and the best clusters 10.9."""
    text = (SAMPLES / "matmul.tc").read_text(encoding="utf-8")
    assert (clusters(text, M=m, N=n, K=k) > 1) == shared


def test_the_interpreter_takes_the_tile_of_any_size() -> None:
    """A GPU wants small tiles at small sizes; the interpreter runs longest by those."""
    path = str(SAMPLES / "matmul.tc")
    tiles = [tritonc("run", path, *sizes).out.partition("(")[2] for sizes in (
        [], ["--set", "M=33,N=17,K=5"])]
    assert tiles[0] == tiles[1] and tiles[0].startswith("interpreter; TM=")
