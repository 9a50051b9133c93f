"""Entries with two bodies, of small and of large tiles: simulated, assembled, and on a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command import tritonc
from programs import PTXAS, ROOT, Setting, ptxas, simulated
from simulator import machine

from tritonc import driver
from tritonc.ir.types import shape
from tritonc.launch.cuda import Device
from tritonc.launch.run_problems import launch_compiled, read_problems, with_defines
from tritonc.options import Options
from tritonc.source import Diagnostics
from tritonc.tune.model import coarse
from tritonc.variants import choice

PATH = ROOT / "tests" / "run" / "two_tiles.tc"


def bench(stem: str) -> Path:
    """A kernel of the suite, which measures some samples too."""
    own = ROOT / "bench" / "suite" / f"{stem}.tc"
    return own if own.exists() else ROOT / "samples" / f"{stem}.tc"



def built(path: Path = PATH, target: str = "sm_90a", most: int | None = None,
          defines: tuple[str, ...] = (), kinds: tuple[str, ...] = ("manifest",),
          alone: bool = False, **tune: int) -> tuple[driver.Result, Any]:
    """A compilation, and its problem; launches of at most `most` programs take the small body.

    `alone`: of the general entry without those for some launches.

    By the model a batch of large tiles on tensor cores has none, for blocks that end at once cost
    3.3 per cent of 64 times 512 x 512 x 256.  That of PATH shall have one.
    """
    source = Setting(path).source
    options = Options(arch=target, verify_each=True, small_clusters=not alone, defines=defines,
                      tune=tune if most is None else {**tune, "coarsen": most})
    problem = read_problems(source, options, "tc", Diagnostics())[0]
    with pytest.MonkeyPatch.context() as patch:
        if path == PATH:
            patch.setattr(coarse, "_MOST_LOST", 0.04)
        return driver.compile(source, with_defines(problem, options), kinds), problem


def tile(result: driver.Result) -> list[int]:
    assert result.manifest is not None
    found: list[int] = result.manifest["kernels"][0]["tile"]
    return found


def said(result: driver.Result) -> str:
    return "".join(r.message for r in result.remarks if r.pass_name == "coarsen")


@pytest.mark.parametrize("number, element, target", [
    (0, "bfloat16", "sm_90a"), (1, "float", "sm_90a"), (2, "bfloat16", "sm_80"),
    (3, "float", "sm_80")])
def test_both_sides_of_the_limit(number: int, element: str, target: str, thorough: bool) -> None:
    """Programs of one more than the limit run the large body; sizes need not be whole tiles.

    Without --thorough each case takes one of the five launches or two, all of them together.
    """
    if thorough:
        whole, _ = built(target=target, most=0, defines=(f"TYPE={element}",))
        assert not said(whole) and tile(whole)[:2] == [whole.tunables["TM"], whole.tunables["TN"]]
    launches = [*enumerate((12, 11, 5, 4, 3))]
    for which, most in launches if thorough else launches[number::4]:
        result, problem = built(target=target, most=most, defines=(f"TYPE={element}",))
        assert f"at most {most} programs" in said(result)
        small = tile(result)
        ratios = [result.tunables[name] // small[axis] for axis, name in enumerate(("TM", "TN"))]
        assert prod(ratios) > 1
        rows, columns, batch = [(2, 3, 2), (2, 3, 2), (5, 1, 1), (1, 5, 1),
                                (ratios[0] + 1, ratios[1] + 1, 2)][which]
        for rest in (0, 7) if thorough else ((0, 7)[number % 2],):
            simulated(result, problem, M=rows * small[0] - rest, N=columns * small[1] - rest,
                      B=batch, K=40 + rest)


@pytest.mark.parametrize("stem", ["linear_bf16", "conv_nhwc", "conv_nchw", "int8_matmul"])
def test_of_others(stem: str, thorough: bool) -> None:
    """Their problems have few programs, which run the one body or the other."""
    for most in (1, 1024) if thorough else (1 if stem.startswith("conv") else 1024,):
        result, problem = built(bench(stem), most=most)
        assert f"at most {most} programs" in said(result)
        simulated(result, problem)


@pytest.mark.parametrize("seed", range(6))
def test_random_limits(seed: int, thorough: bool) -> None:
    if seed > 2 and not thorough:
        pytest.skip("needs --thorough")
    random = Random(seed)
    element = random.choice(["bfloat16", "float", "half"])
    result, problem = built(target=random.choice(["sm_80", "sm_90a"]),
                            most=random.randrange(1, 12), defines=(f"TYPE={element}",))
    for _ in range(3):
        simulated(result, problem, M=random.randrange(1, 300), N=random.randrange(1, 400),
                  B=random.choice([1, 1, 3]), K=random.randrange(1, 100))


@pytest.mark.parametrize("worth", [1, 2, 4])
def test_narrow_matrices(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large tiles that would hold few small ones are not computed, whatever their number."""
    choose = coarse.bodies

    def chosen(*arguments: Any) -> tuple[coarse.Small | None, None]:
        small, _ = choose(*arguments)
        return small and small._replace(most=1, worth=worth), None

    monkeypatch.setattr(coarse, "bodies", chosen)
    result, problem = built(defines=("TYPE=float",))
    for rows, columns in ((5, 1), (1, 5), (3, 2), (4, 4))[:4 if worth == 2 else 2]:
        simulated(result, problem, M=rows * tile(result)[0] - 3, N=columns * tile(result)[1],
                  B=1, K=40)


def test_last_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of persistent blocks: small tiles compute it where they are no more than there are blocks."""
    choose = coarse.bodies

    def chosen(*arguments: Any) -> tuple[coarse.Small | None, None]:
        small, _ = choose(*arguments)
        return small and small._replace(most=1, worth=2), None

    monkeypatch.setattr(coarse, "bodies", chosen)
    monkeypatch.setattr(machine, "MULTIPROCESSORS", 5)
    result, problem = built(bench("linear_bf16"))
    assert result.module is not None
    assert "cut" in [block.name for block in result.module.kernels[0].blocks]
    # One large tile beyond a round, at the edge or not; two, which are too many; without facts.
    for rows, columns, depth in ((6, 1, 64), (2, 3, 72), (7, 1, 64), (11, 1, 72), (6, 1, 63)):
        simulated(result, problem, result.module.kernels[0], M=128 * rows - 5,
                  N=256 * columns - 72, K=depth)  # of the general entry


@pytest.mark.parametrize("stem", ["linear_bf16", "fp8_rowwise", "decode_linear"])
def test_producer_warps_leave_their_registers(stem: str) -> None:
    """On each way to their end: consumers wait for them, whichever body they run."""
    result, _ = built(bench(stem), kinds=("ll",), alone=True)
    _, text = re.split(r"^define", str(result.outputs["ll"]), flags=re.MULTILINE)
    blocks = dict(re.findall(r"^(c\d+):\n(.*?)(?=^\w+:$|^}$)", text, re.MULTILINE | re.DOTALL))
    pending, seen = ["c0"], set[str]()
    while pending:
        name = pending.pop()
        if name not in seen and "setmaxnreg.dec" not in blocks[name]:
            assert "ret void" not in blocks[name], name
            pending += re.findall(r"label %(c\d+)", blocks[name])
        seen.add(name)
    assert len(seen) > 1


def entries(result: driver.Result) -> list[dict[str, Any]]:
    """Those beside the general one, as the manifest has them."""
    assert result.manifest is not None
    found: list[dict[str, Any]] = result.manifest["kernels"][0].get("variants", [])
    return found


@pytest.mark.parametrize("stem", ["matmul_f16", "conv_nhwc", "int8_linear", "sgemm", "fp8_block"])
def test_entries_of_launches(stem: str) -> None:
    """They compute what the general entry does; launches of more programs than run at once take
    none of clusters, and those of many programs none but the general one, or one of tiles four
    times as large (conv_nhwc: 98 of 128 x 256 take no longer than 392 of 64 x 128, and these fill
    the GPU).  Of halves all but three ask for rows that are aligned."""
    result, problem = built(bench(stem))
    assert result.module is not None and result.manifest is not None
    (row,) = result.manifest["kernels"]
    clusters = [entry.get("cluster", 1) > 1 for entry in entries(result)]
    assert any(clusters) and all(clusters) == (stem == "sgemm")
    tiles = [row["tile"], *(entry["tile"] for entry in entries(result))]
    arguments = [3 if p["name"] in ("R", "S") else 2048 for p in row["parameters"]]
    taken = [choice.choose(row["choice"], tiles, [True] * len(tiles), extents, arguments)
             for extents in ((64, 64), (512, 64), (2048, 64), (1 << 13, 1 << 13))]
    assert any(taken)
    free = [not entry["requires"] for entry in entries(result)]
    assert free.count(True) == 3 if stem == "matmul_f16" else all(free)
    assert tiles[taken[-1]] == [128, 256] if stem == "conv_nhwc" else not taken[-1]
    for entry in entries(result):  # those that ask for sizes want others than the problem's
        sizes = {"M": 37, "N": 48, "K": 256} if entry["requires"] else {}
        kernel = next(k for k in result.module.kernels if k.name == entry["entry"])
        simulated(result, problem, kernel, **sizes)


def test_a_ptx_by_itself_has_one_entry(tmp_path: Path) -> None:
    """A host that knows the tile alone computes the grid from it; so it is where somebody chooses
    clusters or bodies."""
    path, header = str(bench("decode_linear")), str(tmp_path / "x.h")
    for more, blocks in (([], 1), ([f"--header={header}"], 2)):
        done = tritonc(path, "--arch=sm_90a", "-o", str(tmp_path / "x.ptx"), *more)
        assert done.code == 0, done.err
        manifest = (tmp_path / "x.ptx").read_text().splitlines()[0]
        assert ('"cluster": 2' in manifest) == (blocks == 2)
    assert tritonc(path, "--arch=sm_90a", "--emit=header", "-o", header).code == 0
    assert '"cluster": 2' not in Path(header).read_text()
    for tune in ({"coarsen": 0}, {"cluster_k": 2}):
        assert not entries(built(bench("decode_linear"), **tune)[0])


def test_small_bodies_share_what_they_compute() -> None:
    """Two warpgroups compute one operand, each for its slice of K, with as many warps given; and a
    tile of so few rows is copied by threads."""
    result, _ = built(bench("int8_linear"), TM=128, TN=64, TK=128, num_warps=8, cluster_k=2)
    assert result.module is not None
    ops = [*result.module.kernels[0].ops()]
    assert any(op.name == "wgmma" and len(shape(op.result.type)) == 3 for op in ops)
    assert any(op.name == "async_copy" for op in ops)
    assert not any(op.name == "tma_load" for op in ops)


def test_one_body() -> None:
    """Where somebody chose a tile, knows the sizes or wants variants, and where programs may wait
    for each other or an address counts tiles."""
    for more in ({"most": 0}, {"TM": 64, "TN": 64, "TK": 32}, {"defines": ("WAY=1",)}):
        result, _ = built(**more)  # type: ignore[arg-type]
        assert "at most" not in said(result)
    counts, _ = built(defines=("WAY=2",))
    assert "an address depends on the number of a tile along axis" in said(counts)
    source, options = Setting(PATH).source, Options(arch="sm_90a", defines=("TYPE=float",))
    assert said(driver.compile(source, options, ("manifest",)))
    for more_options in (replace(options, sizes={"M": 64, "N": 64, "K": 64, "B": 1}),
                         replace(options, variants=4)):
        assert not said(driver.compile(source, more_options, ("manifest",)))


@pytest.mark.parametrize("stem", ["matmul_f16", "matmul_f32", "conv_nhwc", "conv_nchw",
                                  "decode_linear"])
def test_assembled(stem: str, tmp_path: Path, thorough: bool) -> None:
    if PTXAS is None or not (thorough or stem == "matmul_f16"):
        pytest.skip("needs ptxas" if PTXAS is None else "needs --thorough")
    result, _ = built(bench(stem), kinds=("ptx",))
    told = ptxas(result.outputs["ptx"], "sm_90a", tmp_path)
    assert said(result) and "C75" not in told and " 0 bytes spill stores" in told


@pytest.mark.gpu
@pytest.mark.parametrize("stem", ["two_tiles", "matmul_f16", "matmul_f32", "conv_nhwc",
                                  "conv_nchw"])
def test_on_the_gpu(stem: str) -> None:
    """Around the limit that the model chooses, and around lower ones."""
    random = Random(stem)
    path = PATH if stem == "two_tiles" else bench(stem)
    with Device() as gpu:
        for most in (None, 1, 7, 1024):
            result, problem = built(path, gpu.target, most, kinds=("ptx",))
            if not said(result):
                pytest.skip("the model chooses one body for this GPU")
            assert result.module is not None  # beside the kernel it may have entries of clusters
            problem = replace(problem, kernel=result.module.kernels[0].name)
            for _ in range(4):
                names = ("M", "N", "K") if "conv" not in stem else ("H", "W", "C", "K")
                sizes = {name: random.choice([random.randrange(3, 200),
                                              8 * random.randrange(1, 120)]) for name in names}
                if "conv" in stem:
                    sizes |= {"H": min(sizes["H"], 40), "W": min(sizes["W"], 40)}
                outcome = launch_compiled(problem, result, sizes, 1, gpu)
                assert outcome.ok, outcome.line()
