"""Programs that state their own problem: samples and tests/run, interpreted, and on a GPU."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import problem_outcomes

from tritonc import driver
from tritonc.launch.compare import differences
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import Outcome, launch_compiled, read_problems, run_problems
from tritonc.options import DEFAULT_ARCH, NATIVE, Options
from tritonc.problem.lines import Problem
from tritonc.source import Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent
SAMPLES = sorted((ROOT / "samples").glob("*.tc"))
PROGRAMS = sorted((ROOT / "tests" / "run").rglob("*.tc"))
EVERY = [*SAMPLES, *PROGRAMS]
PRIME = 97


def source_of(path: Path) -> SourceFile:
    return SourceFile(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def run(path: Path, device: str = "interpreter", level: int = 2, arch: str = DEFAULT_ARCH,
        **sizes: int) -> list[Outcome]:
    options = Options(opt_level=level, verify_each=True, arch=arch)
    outcomes = problem_outcomes(source_of(path), options, sizes) if device == "interpreter" else [
        *run_problems(source_of(path), options, "tc", Diagnostics(), device=device, sizes=sizes)]
    for outcome in outcomes:
        assert outcome.ok, outcome.line()
        assert not outcome.diagnostics
    return outcomes


# Samples of several kernels, and those whose sizes belong together: the sizes at their bounds.
OWN_SIZES: dict[str, list[dict[str, int]]] = {
    "attention_backward": [{"BH": 1, "S": s} for s in (1, 63, 64, 65, PRIME)],
    "attention_grouped": [{"B": 1, "S": s} for s in (1, 63, 65, PRIME)] + [{"H": 3, "HK": 1}],
    "attention_lengths": [{"H": 1}],
    "conv_nchw": [{"B": 1}, {"C": 1, "K": 1}, {"H": 1, "W": 1}, {"R": 1, "S": 2, "PW": 0},
                  {"H": 13, "W": 17, "C": 33, "K": 65}],
    "conv_nhwc": [{"B": 1}, {"C": 1, "K": 1}, {"H": 1, "W": 1}, {"R": 1, "S": 2, "PW": 0},
                  {"H": 13, "W": 17, "C": 33, "K": 65}],
    "fp8_block": [{"M": 1, "N": 1, "K": 128}, {"M": 65, "N": 129, "K": 384}, {"N": 128}],
    "int4_linear": [{"M": 1, "N": 1, "K": 128}, {"M": 65, "N": 129, "K": 384}, {"M": 16}],
    "moe_experts": [{"N": 1, "K": 1}, {"N": 257, "K": 65}],
    "paged_decode_split": [{"SPLIT": 1}, {"SPLIT": 3}, {"B": 1}],
    "rms_norm_backward": [{"M": 1, "N": 1}, {"M": 4, "N": 512}, {"M": 5, "N": 511}],
    "top_k": [{"M": 1, "N": 4}, {"M": 33, "N": 128}, {"K": 1}],
    "selective_scan": [{"B": 1, "L": 1, "E": 1}, {"E": 33}],
    "cross_entropy": [{"M": 1, "N": 2}, {"N": 1024}, {"N": 1025}],
}


@cache
def compiled(path: Path) -> tuple[Problem, driver.Result]:
    """A sample's problem, and its Triton-IR."""
    options = Options(verify_each=True)
    (problem,) = read_problems(source_of(path), options, "tc", Diagnostics())
    return problem, driver.compile(source_of(path), options, ("tir",))


def boundary_sizes(path: Path) -> list[dict[str, int]]:
    """Every size at 1, about the largest tile, and a prime; and each axis alone at 1."""
    problem, result = compiled(path)
    assert result.module is not None
    kernel = result.module.kernels[0]
    tile = max([*kernel.tile.values(), *result.tunables.values()])
    names = [size.name for size in problem.sizes]
    even = [sizes_at(path, extent) for extent in (1, tile - 1, tile, tile + 1, PRIME)]
    flat = [{**dict.fromkeys(names, 37), name: 1} for name in names] if len(names) > 1 else []
    return even + flat


def sizes_at(path: Path, extent: int, most: int = 3) -> dict[str, int]:
    """Every size at `extent`; what only counts instances, such as heads, is `most` at most."""
    problem, result = compiled(path)
    assert result.module is not None
    tile = result.module.kernels[0].tile
    count = {ast.unparse(e.node) for axis, e in enumerate(problem.range) if tile.get(axis, 1) == 1}
    names = [size.name for size in problem.sizes]
    return {name: min(extent, most) if name in count else extent for name in names}


@pytest.mark.parametrize("path", EVERY, ids=lambda p: p.stem)
def test_interpreted(path: Path) -> None:
    run(path)


@pytest.mark.parametrize("path", EVERY, ids=lambda p: p.stem)
def test_interpreted_as_analysed(path: Path, thorough: bool) -> None:
    """Before any optimisation: a third, as test_ways.py and test_random_programs.py do it."""
    if EVERY.index(path) % 3 and not thorough:
        pytest.skip("needs --thorough")
    run(path, level=0)


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_samples_at_boundary_sizes(path: Path, index: int, thorough: bool) -> None:
    if path.stem in ("attention_backward", "attention_lengths") and index > 1 and not thorough:
        pytest.skip("needs --thorough")
    if path.stem in OWN_SIZES:
        if index < len(OWN_SIZES[path.stem]):
            run(path, **OWN_SIZES[path.stem][index])
        return
    sizes = boundary_sizes(path)
    if index < len(sizes):
        problem, result = compiled(path)
        assert result.module is not None
        data = prepare(problem, result.module, result.module.kernels[0], sizes[index])
        assert not differences(data, launch(result.module, data))


def architectures(path: Path) -> list[str]:
    """The GPU's own, and older ones whose code differs: the instructions for float8 are sm_89's."""
    return [NATIVE, "sm_80", *(["sm_89"] if "float8" in path.read_text(encoding="utf-8") else [])]


@pytest.mark.gpu
@pytest.mark.parametrize("path, arch", [(path, arch) for path in EVERY
                                        for arch in architectures(path)],
                         ids=lambda value: getattr(value, "stem", value))
def test_on_the_gpu(path: Path, arch: str) -> None:
    """As the reference says, and as the interpreter has it."""
    for machine, interpreted in zip(run(path, "cuda", arch=arch), run(path), strict=True):
        assert machine.after.keys() == interpreted.after.keys()
        for name, array in machine.after.items():
            compare(array, interpreted.after[name])


def compare(machine: np.ndarray[Any, Any], interpreted: np.ndarray[Any, Any]) -> None:
    a, b = machine.astype(np.float64), interpreted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    size = float(np.linalg.norm(b[np.isfinite(b)]))
    a, b = np.where(same, 0, a), np.where(same, 0, b)
    assert np.linalg.norm(a - b) <= 1e-2 * max(size, 1e-30)


@pytest.mark.gpu
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("arch", [NATIVE, "sm_80"])
@pytest.mark.parametrize("extent", [1024, None])
def test_samples_on_the_gpu_at_sizes(path: Path, extent: int | None, arch: str) -> None:
    from tritonc.launch.cuda import Device

    if path.stem in OWN_SIZES:
        for sizes in OWN_SIZES[path.stem] if extent is None else []:
            run(path, "cuda", arch=arch, **sizes)
        return
    every = boundary_sizes(path) if extent is None else [sizes_at(path, extent, 64)]
    problem, _ = compiled(path)
    with Device() as gpu:
        options = Options(arch=gpu.target if arch == NATIVE else arch)
        result = driver.compile(source_of(path), options, ("ptx",))
        for sizes in every:
            outcome = launch_compiled(problem, result, sizes, 0, gpu)
            assert outcome.ok, outcome.line()
