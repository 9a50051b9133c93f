"""Blocks of a cluster that share the iterations of a loop: simulated, assembled, and on a GPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from programs import PTXAS, ROOT, Setting, ptxas, simulated
from simulator.machine import handlers

from tritonc import driver
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.backend.target.target import TARGETS
from tritonc.ir.types import F32
from tritonc.launch.compare import differences
from tritonc.launch.cuda import Device
from tritonc.launch.data import Value, prepare
from tritonc.launch.hosts.header import header
from tritonc.launch.hosts.products import Settings, make
from tritonc.launch.interpreter import launch
from tritonc.launch.python.kernel import Module
from tritonc.launch.run_problems import launch_compiled, read_problems, with_defines
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile

PATH = ROOT / "tests" / "run" / "cluster_sums.tc"
# What stands behind the loop lets each block own a part of the tile; otherwise the first goes on.
SHARED = {0: True, 1: True, 2: True, 3: False, 4: False, 5: True, 6: False, 7: True, 8: True,
          9: True, 11: False}
TYPES = ("bfloat16", "half", "float", "float8_e4m3", "double")


def built(way: int, cluster: int, path: Path = PATH, target: str = "sm_90a",
          kind: str = "manifest", **more: Any) -> tuple[driver.Result, Any]:
    """The compilation of one way, and its problem."""
    defines = (f"WAY={way}", *(f"{n}={v}" for n, v in more.items() if not n.startswith("T")
                               or n == "TYPE"))
    tune = {n: int(v) for n, v in more.items() if n in ("TM", "TN", "TK", "num_warps")}
    tune = tune if path is not PATH else {"TM": 32, "TN": 64, "TK": 32, **tune}
    options = Options(arch=target, verify_each=True, defines=defines,
                      tune={**tune, "cluster_k": cluster})
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    return driver.compile(source, options, (kind,)), problem


def exchanges(result: driver.Result) -> list[Any]:
    assert result.module is not None
    return [op for op in result.module.kernels[0].ops() if op.name == "cluster_reduce"]


@pytest.mark.parametrize("cluster", [2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("way", SHARED)
def test_simulated(way: int, cluster: int, thorough: bool) -> None:
    if (way + cluster) % 3 and not thorough:
        pytest.skip("needs --thorough")
    result, problem = built(way, cluster)
    assert result.manifest is not None
    assert result.manifest["kernels"][0]["cluster"] == cluster
    assert exchanges(result)  # of six blocks, four own a part each
    assert all((1 << len(op.attributes["owner"]) == 1 << cluster.bit_length() - 1) == SHARED[way]
               for op in exchanges(result))
    simulated(result, problem)


@pytest.mark.parametrize("cluster", [2, 3, 4, 8])
def test_rows_are_added_up_before_they_are_sent(cluster: int) -> None:
    """Each block owns rows, of 8 at least; else the first block goes on alone."""
    result, problem = built(0, cluster, ROOT / "tests" / "run" / "cluster_rows.tc", TN=32, TK=64)
    assert {op.result.type.shape for op in exchanges(result)} == {(32,)}
    assert {bool(op.attributes["owner"]) for op in exchanges(result)} == {cluster < 8}
    simulated(result, problem)


@pytest.mark.parametrize("cluster", [3, 4, 7, 8])
def test_a_mailbox_has_no_room_for_what_others_own(cluster: int) -> None:
    """Whether a thread's bits say the owner, or those of its registers."""
    result, problem = built(0, cluster, TM=64, TN=64, TYPE="float")
    owners = 1 << cluster.bit_length() - 1
    for op in exchanges(result):
        mailbox = op.operands[1].type
        assert mailbox.bytes == (cluster - 1) * 64 * 64 * 4 // owners
    simulated(result, problem)


TILES = ROOT / "tests" / "run" / "cluster_tiles.tc"


@pytest.mark.parametrize("cluster", [2, 4, 8])
@pytest.mark.parametrize("way", [0, 1, 2, 3, 4, 5, 6])
def test_blocks_hold_parts_of_a_row(way: int, cluster: int, thorough: bool) -> None:
    """All get the same results of reductions; a body with a load behind a store is one block's."""
    if (way + cluster // 2) % 3 and not thorough:
        pytest.skip("needs --thorough")
    result, problem = built(way, cluster, TILES, num_warps=4)
    assert all(op.attributes["all"] for op in exchanges(result))
    shared = way != 3
    assert bool(exchanges(result)) == (result.manifest["kernels"][0].get("cluster") == cluster)
    assert bool(exchanges(result)) == shared
    simulated(result, problem)


# Stores whose tiles, behind each other, have addresses in common that are different blocks'.
OVERLAPS = {
    "downwards": "y[4000 + r] = v; y[7000 - r] = v / m;",
    "behind a loop": "for (int n = 0; n < N; n += 2048) y[n + r] = v + n; y[700 + r] = v / m;",
    "around a loop": "y[r] = v; float a[2048] = v; for (int n = 0; n < N; n += 2048) "
                     "a = a * 0.5 + v * v; y[700 + r] = a / m;",
    "counter": "int n = 0; for (n = 0; n < N; n += 2100) y[n + r] = v + n; "
               "y[n - 3000 + r] = v / m;",
    "iterations": "for (int n = 0; n < N; n += 2048) "
                  "{ y[n + r] = v + n; y[n + 3072 + r] = v / m; }",
    "inner loop": "for (int n = 0; n < N; n += 2048) for (int i = 0; i < N; i += 700) "
                  "y[n + i + r] = v / m + i;",
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_parts_of_stores_that_overlap(name: str) -> None:
    """The blocks meet before the second store, or one stores alone."""
    source = SourceFile("overlap.tc", f"""//! size: N = 4096
//! range: 1
//! arg: x = randn(N)
//! arg: y = zeros(4 * N)
//! arg: N = N
//! expect: y = y
kernel void overlap(const float* restrict x, float* restrict y, int N) {{
  int r[2048] = 0 ... 2048; float v[2048] = x[r]; float m = max(v); {OVERLAPS[name]}
}}
""")
    found = []
    for tune in {}, {"cluster_k": 4}:
        options = Options(arch="sm_90a", verify_each=True, tune={"num_warps": 4, **tune})
        (problem,) = read_problems(source, options, "tc", Diagnostics())
        result = driver.compile(source, options, ("manifest",))
        data = prepare(problem, result.module, result.module.kernels[0], {})
        found.append(launch(result.module, data, ALL_OPS, handlers())["y"])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_effects_before_the_loop() -> None:
    """A store that every block would make keeps the loop to one block."""
    result, problem = built(10, 2)
    assert not exchanges(result) and "cluster" not in result.manifest["kernels"][0]
    assert any("store does not come after an accumulation loop" in remark.message
               for remark in result.remarks)
    simulated(result, problem)


def test_sums_that_do_not_fit() -> None:
    """The first of 8 blocks would get 7 tiles of 64 KB, and as many columns."""
    result, problem = built(6, 8, TM=128, TN=128)
    assert not exchanges(result)
    assert any("462336 bytes of partial sums" in remark.message for remark in result.remarks)
    simulated(result, problem)


def test_targets_without_clusters() -> None:
    result, problem = built(0, 2, target="sm_80")
    assert not exchanges(result)
    simulated(result, problem)


@pytest.mark.parametrize("seed", range(12))
def test_random_tiles(seed: int, thorough: bool) -> None:
    """Any layout of accumulators: fragments, CUDA cores, copies of small tiles, a producer warp."""
    if seed > 4 and not thorough:
        pytest.skip("needs --thorough")
    random = Random(seed)
    e = random.choice(TYPES)
    most = 64 if e == "double" else 128
    tile = {n: random.choice([t for t in (16, 32, 64, 128) if t <= most]) for n in ("TM", "TN")}
    way = random.choice([w for w in SHARED if w != 3 or tile["TN"] > 32])
    result, problem = built(way, random.choice([2, 3, 4, 8]), TYPE=e,
                            TK=random.choice([16, 32, 64]), **tile)
    sizes = {"M": random.randrange(1, 150), "N": random.randrange(1, 60 if way == 3 else 150),
             "K": random.choice([1, 16, 64, 150, 200, 256])}
    simulated(result, problem, **sizes)


@pytest.mark.parametrize("name", [
    "assumed_facts", "gated_products", "later_lstm", "loop_forms", "n_body",
    "paper_batchnorm_backward", "paper_cross_entropy", "scaled_partial_sums"])
def test_programs_of_others(name: str) -> None:
    """Whatever adds up in a loop: products, rows, several sums, with all that follows."""
    path = ROOT / "tests" / "run" / f"{name}.tc"
    options, sizes = Setting(path).options(arch="sm_90a")
    options = replace(options, tune={**options.tune, "cluster_k": 2})
    source = Setting(path).source
    problem = read_problems(source, options, "tc", Diagnostics())[0]
    result = driver.compile(source, with_defines(problem, options), ("manifest",))
    assert exchanges(result)
    simulated(result, problem, **sizes)


@pytest.mark.parametrize("tile", [(16, 16), (64, 64), (128, 128)])
def test_assembled(tile: tuple[int, int], tmp_path: Path) -> None:
    if PTXAS is None:
        pytest.skip("needs ptxas")
    result, _ = built(0, 4, kind="ptx", TM=tile[0], TN=tile[1], TK=64)
    text = result.outputs["ptx"]
    assert ".reqnctapercluster 1, 1, 4" in text and "st.shared::cluster" in text
    assert "%clusterid.z" in text and "%ctaid.z" not in text
    said = ptxas(text, "sm_90a", tmp_path)
    assert "C75" not in said and " 0 bytes spill stores" in said


def test_a_fatbin_needs_clusters_on_all_targets() -> None:
    """One launch serves all of its code."""
    one, other = (built(0, 2, kind="ptx", target=target)[0] for target in ("sm_90a", "sm_80"))
    for first, second in ((one, other), (other, one)):
        with pytest.raises(CompileError, match=r"kernel 'cluster_sums' is launched differently"):
            make([], first, Settings("k"), [second])


def test_headers_and_grids() -> None:
    """Programs keep their numbers; the grid's third axis has all blocks of a cluster."""
    result, _ = built(0, 4, kind="ptx")
    assert result.manifest is not None
    assert ", {32, 64, 1}, 4, 1}," in header(result.manifest, "k")
    kernel = Module(result.outputs["ptx"], result.manifest)["cluster_sums"]
    assert kernel.cluster == 4


@pytest.mark.gpu
@pytest.mark.parametrize("cluster", [2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("way", SHARED)
def test_on_the_gpu(way: int, cluster: int) -> None:
    random = Random(17 * way + cluster)
    with Device() as gpu:
        if "cluster" not in TARGETS[gpu.target].features:
            pytest.skip("needs a GPU with clusters")
        for e, tile in product(("bfloat16", "float"), ((16, 64), (64, 64), (128, 128))):
            result, problem = built(way, cluster, target=gpu.target, kind="ptx", TYPE=e,
                                    TM=tile[0], TN=tile[1], TK=32)
            for _ in range(2):
                sizes = {"M": random.randrange(1, 300), "K": random.randrange(1, 600),
                         "N": random.randrange(1, tile[1] if way == 3 else 300)}
                outcome = launch_compiled(problem, result, sizes, 1, gpu)
                assert outcome.ok, outcome.line()


@pytest.mark.parametrize("blocks", [2, 3, 12])
@pytest.mark.parametrize("way", SHARED)
def test_sums_in_memory(way: int, blocks: int, thorough: bool) -> None:
    """A variant whose blocks add up in memory, which is as before afterwards: twice in a row."""
    if (way + len(str(blocks)) + blocks) % 3 and not thorough:  # one number of blocks each
        pytest.skip("needs --thorough")
    options = Options(arch="sm_90a", verify_each=True, defines=(f"WAY={way}",),
                      tune={"TM": 32, "TN": 64, "TK": 32}, variant=(f"memory_k={blocks}",))
    source = SourceFile(PATH.name, PATH.read_text(encoding="utf-8"))
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    result = driver.compile(source, options, ("manifest", "ptx")[way == 0:][:1])
    assert result.module is not None and result.manifest is not None
    (row,) = result.manifest["kernels"][0]["variants"]
    assert row["cluster"] == blocks and row["requires"] == [
        {"range": 2, "at_most": 65535 // blocks}]  # blocks lie along the third axis of the grid
    assert "cluster_dim" not in result.outputs.get("ptx", "")
    general, variant = result.module.kernels
    memory = np.zeros(1024 + row["workspace"], np.float32)  # of four programs
    for _ in range(2):
        data = prepare(problem, result.module, general, {})
        data.kernel = variant
        data.arguments.append(Value("workspace", F32, False, True, memory))
        after = launch(result.module, data, ALL_OPS, handlers())
        memory = after.pop("workspace")
        data.arguments.pop()
        assert not differences(data, after) and not memory[:1024].any() and memory[1024:].any()
