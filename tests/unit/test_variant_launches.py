"""Variants: launches from Python as the driver sees them, and what each computes."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_driver import FakeTensor, argument, install
from variant_sources import FACTS, PRODUCT, STREAM, write, write_tuning

import tritonc as package
from tritonc import driver
from tritonc.launch.compare import differences
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import read_problems
from tritonc.options import MOST_PLANNED, Options
from tritonc.source import Diagnostics, SourceFile


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


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("options", [{}, {"variants": 4}], ids=["planned", "compiled"])
def test_wrong_launches_of_many_sizes(options: dict[str, int], tuned: bool, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """The first launch, which looks closely, and later ones; nothing is launched."""
    gpu = install(monkeypatch)
    path = write(tmp_path, "product.tc", PRODUCT)
    if tuned:
        write_tuning(path)
    kernel = package.compile(path, "sm_80", **options)
    x = FakeTensor(8192)
    wrong = [((-1, 64), (64, 64, 64)), ((64, -(2**63)), (64, 64, 64)), ((64,), (64, 64, 64)),
             ((2**63 - 1, 2**63 - 1), (64, 64, 64)), ((2**31, 64), (64, 64, 64)),
             ((2**80, 64), (64, 64, 64)), ((64, 64), (2**32, 64, 64)), ((64, 64), (-1, 64, 64)),
             ((64, 64), (64, 2**63, 64)), ((64, 64), (64, 64, -1)), ((64, 64), (64, 64, 2**64)),
             ((64, 64.5), (64, 64, 64)), ((64, 64), (64, 64.5, 64))]
    for turn in range(2):
        for extents, sizes in wrong:
            with pytest.raises((TypeError, ValueError), match=r"product|range"):
                kernel.launch(0, extents, x, x, x, *sizes, 1)
        for other in (None, FakeTensor(8193), 3):
            with pytest.raises((TypeError, ValueError), match="product"):
                kernel.launch(0, (64, 64), other, x, x, 64, 64, 64, 1)
        assert len(gpu.launches) == 2 * turn
        # Products of sizes that exceed 64 bits, and negative ones: some variant.
        kernel.launch(0, (2**31 - 1, 65535), x, x, x, 2**32 - 1, 2**63 - 1, 2**64 - 1, 1)
        kernel.launch(0, (64, 64), x, x, x, 0, -(2**63), 2**63, -1)
        assert len(gpu.launches) == 2 + 2 * turn


def test_a_launch_compiles_the_variant_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; the choice is that of variants which are there from the beginning."""
    gpu = install(monkeypatch)
    kernel = package.compile(PRODUCT, "sm_80")
    whole = package.compile(PRODUCT, "sm_80", variants=MOST_PLANNED)
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


def test_a_last_round_in_small_tiles_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 132 multiprocessors: 420 large tiles leave 24, which are 96 small ones; 256 leave too
    many, and 260 none that would be cut."""
    gpu = install(monkeypatch)
    path = Path(__file__).resolve().parents[2] / "bench" / "suite" / "matmul_f16.tc"
    kernel = package.compile(path, "sm_90a")
    chooser = kernel._chooser
    assert chooser is not None and kernel.tile == (128, 256)
    native, x, last = chooser.native(), FakeTensor(8192, "float16"), len(chooser.tiles) - 1
    for sizes, cut in (((1920, 7168, 4096), True), ((4096, 4096, 4096), False),
                       ((3712, 7168, 4096), True), ((1664, 5120, 4096), False)):
        arguments = (x, x, x, *sizes)
        number = chooser.number(sizes[:2], arguments)
        assert number == native(sizes[:2], arguments) and (number == last) == cut
    kernel.launch(0, (1920, 7168), x, x, x, 1920, 7168, 4096)
    small = chooser.tiles[last]
    assert gpu.launches[-1].grid == (1920 // small[0], 7168 // small[1], 1)
    (module,) = kernel.module.compiled.values()
    assert module["matmul"].tunables == kernel.tunables


@pytest.mark.parametrize("rule", ["cost", "nearest", "first"])
def test_the_choice_in_machine_code_is_the_definition_s(
        rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    path = write(tmp_path, "k.tc", STREAM if rule == "first" else PRODUCT)
    if rule == "nearest":
        write_tuning(path)
    options: dict[str, Any] = {"variant": FACTS} if rule == "first" else {"variants": 4}
    kernel = package.compile(path, "sm_80", **options)
    chooser, rng = kernel._chooser, random.Random(5)
    assert chooser is not None and chooser.row["choice"]["rule"] == rule
    native, found = chooser.native(), set()
    unsigned = [p.dtype.startswith("uint") for p in kernel.parameters]

    def number(*edges: int) -> int:
        return rng.choice((*edges, int(2 ** rng.uniform(0, 13)), int(2 ** rng.uniform(13, 31)),
                           rng.choice((64, 4096)) * rng.randrange(1, 50)))

    for _ in range(5000):
        arguments = tuple([
            FakeTensor(4 * number()) if parameter.pointer else
            number(0, 1, 2**31 - 1, *((2**32 - 1, 2**31) if never else (-1, -(2**31))))
            for parameter, never in zip(kernel.parameters, unsigned, strict=True)])
        extents = tuple([number(0, 1, -5, 2**40, 2**63 - 1) for _ in range(chooser.axes)])
        given = extents if chooser.axes > 1 or rng.random() < 0.5 else extents[0]
        chosen = native(given, arguments)
        assert chosen == chooser.number(given, arguments) == kernel.variant(given, *arguments)
        found.add(chosen)
    assert len(found) > 2
    for wrong in (1.5, "x", None, 2**63, ((1,),)):
        with pytest.raises((TypeError, OverflowError, SystemError, IndexError)):
            native((wrong, 1), arguments)
    for wrong in (1.5, "x", None, [64]):
        with pytest.raises((TypeError, SystemError)):
            native(wrong, arguments)
    with pytest.raises((IndexError, SystemError)):
        native(given, ())


def test_memory_for_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch, kept for each stream, and one more argument; without torch another variant."""
    gpu = install(monkeypatch)
    torch, made = sys.modules["torch"], []
    monkeypatch.setattr(gpu, "capturing", 0, raising=False)
    monkeypatch.setattr(gpu, "cuStreamIsCapturing", lambda stream: (0, gpu.capturing),
                        raising=False)

    class Made(FakeTensor):
        def __init__(self, count: int, dtype: Any, device: str) -> None:
            made.append(count)
            super().__init__(65536 * len(made))

        def __getitem__(self, part: slice) -> Any:
            return SimpleNamespace(zero_=lambda: None)

        def numel(self) -> int:
            return made[self.address // 65536 - 1]

    stream = SimpleNamespace(synchronize=lambda: None, cuda_stream=7)
    monkeypatch.setattr(torch, "empty", Made, raising=False)
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(current_stream=lambda device: stream),
                        raising=False)
    tunables = {"TM": 64, "TN": 64, "TK": 16}
    kernel = package.compile(PRODUCT, "sm_90a", tunables=tunables, variant=("memory_k=8",))
    x = FakeTensor(8192)

    def entry(m: int, n: int, k: int, where: int = 0) -> Any:
        kernel.launch(where, (m, n), x, x, x, m, n, k, 1)
        return gpu.launches[-1]

    for _ in range(2):
        last = entry(64, 128, 65536)
        assert last.function == "product__v1 on 0" and last.grid == (1, 2, 8)
        assert argument(last, 7) == 65536
    assert made == [1 << 17]  # 1024 tickets, 2 x 8 x 4096 sums
    assert argument(entry(64, 128, 65536, 7), 7) == 2 * 65536 and len(made) == 2
    assert argument(entry(256, 128, 65536), 7) == 3 * 65536 and made[-1] == 1 << 19
    assert entry(4096, 4096, 64).function == "product on 0"
    assert kernel.variant((64, 128), x, x, x, 64, 128, 65536, 1) == 0
    with pytest.raises(ValueError, match="requires"):
        kernel.launch_variant(1, 0, (64, 128), x, x, x, 64, 128, 65536, 1)
    with pytest.raises(TypeError, match="takes 7 arguments"):
        kernel.launch(0, (64, 128), x, x, x, 64, 128, 65536)
    gpu.capturing = 1  # a captured launch has memory of its own, in the stream that torch knows
    assert argument(entry(64, 128, 65536, 7), 7) == 4 * 65536
    assert argument(entry(64, 128, 65536, 7), 7) == 5 * 65536
    assert entry(64, 128, 65536, 8).function == "product on 0" and len(made) == 5
    gpu.capturing = 0
    other = SimpleNamespace(__cuda_array_interface__={
        "data": (8192, False), "typestr": "<f4", "version": 3, "shape": (1,)})
    kernel.launch(0, (64, 128), other, other, other, 64, 128, 65536, 1)
    assert gpu.launches[-1].function == "product on 0"


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
