"""Variants: launches from Python as the driver sees them, and what each computes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeTensor, install
from variant_sources import FACTS, PRODUCT, STREAM, write, write_tuning

import tritonc as package
from tritonc import driver
from tritonc.launch.compare import differences
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import read_problems
from tritonc.options import MOST_VARIANTS, Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.variants import choice


def test_launches_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry, its grid; a choice that was made before is looked up."""
    gpu = install(monkeypatch)
    kernel = package.compile(STREAM, "sm_80", tunables={"T": 64}, variant=FACTS)
    x, odd = FakeTensor(8192), FakeTensor(8196)

    def entry(number: int | None, *arguments: Any) -> str:
        count = len(gpu.launches)
        if number is None:
            kernel.launch(0, 1024, *arguments)
        else:
            kernel.launch_variant(number, 0, 1024, *arguments)
        assert len(gpu.launches) == count + 1
        return str(gpu.launches[-1].function).removesuffix(" on 0")

    for _ in range(3):
        assert entry(None, x, 1024, 1) == "twice__v1" and gpu.launches[-1].grid == (4, 1, 1)
        assert entry(None, odd, 1024, 1) == "twice__v2" and gpu.launches[-1].grid == (16, 1, 1)
        assert entry(None, odd, 60, 2) == "twice__v3"
        assert entry(None, x, 1024, 2) == "twice"
        assert entry(None, x, 2**32 - 4, 1) == "twice__v2"  # as a signed number it is -4
    assert entry(0, x, 1024, 1) == "twice" and entry(2, x, 1024, 1) == "twice__v2"
    count = len(gpu.launches)
    for number, arguments in ((1, (odd, 1024, 1)), (4, (x, 1024, 1)), (-1, (x, 1024, 1))):
        with pytest.raises(ValueError, match="variant"):
            kernel.launch_variant(number, 0, 1024, *arguments)
    for wrong in ((x, 1024), (x, 2.5, 1), (x, 2**40, 1), (None, 1024, 1), (FakeTensor(8193), 8, 1)):
        for _ in range(2):
            with pytest.raises((TypeError, ValueError), match="twice"):
                kernel.launch(0, 1024, *wrong)
    for extent in (-1, 2**40, None, "x", [1024.5]):
        with pytest.raises((TypeError, ValueError), match="range"):
            kernel.launch(0, extent, x, 1024, 1)
    assert len(gpu.launches) == count
    kernel.launch(0, [1024], x, 1024, 1)
    assert gpu.launches[-1].function == "twice__v1 on 0"


def test_sizes_from_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = install(monkeypatch)
    path = write(tmp_path, "product.tc", PRODUCT)
    write_tuning(path)
    kernel = package.compile(path, "sm_80", variants=4)
    x = FakeTensor(8192)
    for _ in range(2):
        kernel.launch(0, (16, 2560), x, x, x, 16, 2560, 2560, 1)
        assert gpu.launches[-1].function == "product__v1 on 0"
        kernel.launch(0, (4096, 4096), x, x, x, 4096, 4096, 4096, 1)
        assert gpu.launches[-1].function == "product on 0"


def test_a_launch_compiles_the_variant_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; the choice is that of variants which are there from the beginning."""
    gpu = install(monkeypatch)
    kernel = package.compile(PRODUCT, "sm_80")
    whole = package.compile(PRODUCT, "sm_80", variants=MOST_VARIANTS)
    plain = package.compile(PRODUCT, "sm_80", variants=0)
    assert kernel.tile == whole.tile == plain.tile and not plain.variants
    x = FakeTensor(8192)
    for m, n, k in ((16, 2560, 2560), (4096, 4096, 4096), (16, 2560, 2560)):
        arguments = (x, x, x, m, n, k, 1)
        number = kernel.variant((m, n), *arguments)
        assert number == whole.variant((m, n), *arguments)
        kernel.launch(0, (m, n), *arguments)
        tile = (whole, *whole.variants)[number].tile
        assert gpu.launches[-1].grid == (-(-m // tile[0]), -(-n // tile[1]), 1)
        assert gpu.launches[-1].function == "product on 0"
    assert len(kernel.module.compiled) == len({kernel.variant((m, n), x, x, x, m, n, k, 1)
                                               for m, n, k in ((16, 2560, 2560),
                                                               (4096, 4096, 4096))} - {0})
    assert [v.tile for v in kernel.variants] == [v.tile for v in whole.variants]


def test_the_choice_of_new_sizes_is_the_definition_s(tmp_path: Path) -> None:
    """Python computes it in a way of its own."""
    kernel = package.compile(write(tmp_path, "product.tc", PRODUCT), "sm_80", variants=4)
    row, rng = kernel.module.manifest["kernels"][0], random.Random(5)
    tiles = [row["tile"], *(variant["tile"] for variant in row["variants"])]
    found = set()
    for _ in range(4000):
        extents = [int(2 ** rng.uniform(-1, 23)) for _ in range(2)]
        depth = int(2 ** rng.uniform(-1, 30))
        arguments = (0, 0, 0, extents[0], extents[1], depth, 1)
        allowed = [True, *(choice.allowed([], tile, extents, []) for tile in tiles[1:])]
        number = kernel.variant(tuple(extents), *arguments)
        assert number == choice.choose(row["choice"], tiles, allowed, extents, arguments)
        found.add(number)
    assert len(found) > 2


def test_the_interpreter_runs_variants() -> None:
    """Each as right as the kernel, with what it assumes."""
    source = SourceFile("p.tc", PRODUCT)
    options = Options(variant=("TM=64,TN=16,TK=8,step==1,M%8", "TM=16,TN=128,num_warps=2"))
    module = driver.compile(source, replace(options, stop_after=driver.LOWER), ("tir",)).module
    assert module is not None
    assert [k.name for k in module.kernels] == ["product", "product__v1", "product__v2"]
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    for kernel in module.kernels:
        data = prepare(problem, module, kernel, {}, 0)
        assert differences(data, launch(module, data)) == []
