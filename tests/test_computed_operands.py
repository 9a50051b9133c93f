"""Products of computed operands on simulated tensor cores: channels, both ways of multiplying."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from in_flight import touched_in_flight
from programs import PTXAS, ROOT, Setting, compiled, ptxas, settings, simulate, simulated

from tritonc import driver, passes
from tritonc.ir.types import Tile
from tritonc.launch.run_problems import read_problems, with_defines
from tritonc.options import Options
from tritonc.source import Diagnostics

sys.path.append(str(ROOT / "bench"))

from registers import compile_plainly

PATH = ROOT / "tests" / "run" / "computed_operands.tc"
GATHERED = ROOT / "tests" / "run" / "gathered_operand.tc"
FEW = ROOT / "tests" / "run" / "few_rows_of_weights.tc"
SHARED = ROOT / "tests" / "run" / "one_operand_of_two.tc"
BYTES = ROOT / "tests" / "run" / "few_rows_of_bytes.tc"
COLUMNS = [ROOT / "tests" / "run" / f"{name}_columns.tc" for name in ("int8", "f8")]
WAYS = settings(PATH)


def way(number: int, path: Path = PATH) -> Setting:
    return Setting(path, (("WAY", str(number)),))


@pytest.mark.parametrize("setting", [
    *(setting for setting in WAYS if setting not in map(way, range(9))), *settings(GATHERED),
    Setting(FEW), *settings(FEW), Setting(BYTES), *settings(BYTES), Setting(SHARED),
    *settings(SHARED),
    *(Setting(path, tuple(values.items())) for path in COLUMNS for values in (
        {"TM": "16", "TK": "128", "K": "320", "N": "95"}, {"TM": "128", "TN": "128", "M": "130"})),
], ids=lambda s: s.name)
def test_simulated_with_boxes(setting: Setting) -> None:
    simulate(setting, "sm_90a")


@pytest.mark.parametrize("number", [1, 4, 7, 8])
def test_simulated_with_warps(number: int) -> None:
    simulate(way(number), "sm_80")


@pytest.mark.parametrize("number, rows, columns, depth", [
    (1, 16, 32, 64), (2, 32, 32, 64), (3, 16, 64, 64), (3, 32, 128, 32), (4, 32, 64, 64),
    (5, 16, 64, 64), (5, 32, 128, 32), (7, 16, 32, 64), (8, 16, 64, 64), (8, 32, 128, 32)])
def test_fragments_are_computed_where_they_are_read(number: int, rows: int, columns: int, depth: int
                                                    ) -> None:
    """No operand that threads compute for mma.sync goes back to shared memory."""
    values = {"WAY": number, "TM": rows, "TN": columns, "TK": depth}
    setting = Setting(PATH, tuple((name, str(value)) for name, value in values.items()))
    for result in simulate(setting, "sm_80"):
        assert result.module is not None
        loops = [[op.name for op in block.ops] for block in result.module.kernels[0].blocks
                 if any(op.name == "mma_dot" for op in block.ops)]
        assert any(names.count("async_copy") == 2 and names.count("barrier") == 1
                   and "shared_store" not in names for names in loops)


@pytest.mark.parametrize("number", [3, 4, 8])
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_stay_until_products_have_read_them(number: int, stages: int) -> None:
    """Several warps share what threads compute and store: the other operand's fragments are read
    behind the barrier that this takes, and copies to their stage wait for that."""
    setting = Setting(PATH, (("WAY", str(number)), ("M", "128"), ("N", "128"), ("K", "320")))
    options, sizes = setting.options(arch="sm_80")
    tune = {"TM": 128, "TN": 128, "TK": 64, "num_stages": stages}
    (problem,) = read_problems(setting.source, options, "tc", Diagnostics())
    result = driver.compile(setting.source, with_defines(problem, replace(options, tune=tune)),
                            ("manifest",))
    simulated(result, problem, **sizes)
    assert result.module is not None
    loops = [[op.name for op in block.ops] for block in result.module.kernels[0].blocks
             if {"mma_dot", "async_copy"} <= {op.name for op in block.ops}]
    assert loops
    for names in loops:
        assert "shared_store" in names and names.count("barrier") == 2 + (number == 8)
        assert names.index("barrier") < names.index("async_copy")


@pytest.mark.parametrize("target, keys, tile", [
    ("sm_80", 50, 16), ("sm_90a", 52, 16), ("sm_80", 150, 64), ("sm_90a", 132, 64)])
def test_a_cache_of_bytes_is_converted_in_fragments(target: str, keys: int, tile: int) -> None:
    """Three barriers a step: what has been copied is there, the maximum, the weights."""
    (result,) = simulate(Setting(ROOT / "bench" / "suite" / "decode_int8.tc", (
        ("T", str(keys)), ("TN", str(tile)))), target)
    assert result.module is not None
    ops = [op for block in result.module.kernels[0].blocks if block.name.startswith("body.fast")
           for op in block.ops]
    assert sum(op.name == "barrier" for op in ops) == 3
    rights = [op.operands[1].op for op in ops if op.name == "mma_dot"]
    assert [op.name for op in rights if op is not None] == ["convert_layout"] * 2


@pytest.mark.parametrize("number", range(9))
def test_a_warp_of_its_own_makes_the_copies(number: int, tmp_path: Path, thorough: bool) -> None:
    """Whatever is computed, boxes bring all operands; products stay in flight meanwhile."""
    assembled = PTXAS is not None and (thorough or number % 3 == 1)
    (result,) = simulate(way(number), "sm_90a", ("ptx" if assembled else "manifest",))
    assert result.module is not None
    kernel = result.module.kernels[0]
    if number != 2:  # another body, for where factors are not aligned
        assert kernel.attributes["producer_warps"]
    loops = [op for op in kernel.ops() if op.name == "wgmma_wait" and op.attributes["pending"]]
    assert bool(loops) == (number != 0)
    assert not any(op.name == "async_copy" for block in kernel.blocks
                   if any(other.name == "wgmma" for other in block.ops) for op in block.ops)
    if assembled:
        said = ptxas(result.outputs["ptx"], "sm_90a", tmp_path)
        assert "C75" not in said and " 0 bytes spill stores" in said


@pytest.mark.parametrize("level, without", [(2, ""), (2, "alternate_registers"), (0, "")])
def test_registers_in_flight_stay(level: int, without: str, monkeypatch: pytest.MonkeyPatch
                                  ) -> None:
    """Also where no pass gives two iterations registers of their own: then none is in flight."""
    monkeypatch.setattr(passes, "BACKEND", [row for row in passes.BACKEND if row.name != without])
    path = ROOT / "samples" / "int4_linear.tc"
    text = compile_plainly(path, Options(arch="sm_90a", opt_level=level), "ptx").outputs["ptx"]
    assert "wgmma.mma_async" in text and touched_in_flight(text) == []
    loops = re.findall(r"wgmma.wait_group.sync.aligned 1;", text)
    assert bool(loops) == (level > 0 and not without)


def test_gathered_rows_are_copied_beside_boxes() -> None:
    (result, _), = compiled(Setting(GATHERED), "sm_90a")
    assert result.module is not None
    (body,) = (block for block in result.module.kernels[0].blocks
               if any(op.name == "wgmma" for op in block.ops))
    names = [op.name for op in body.ops]
    assert "async_copy" in names and "tma_load" in names and "shared_store" not in names


@pytest.mark.parametrize("name", ["as_rows", "as_columns", "gathered", "attention"])
def test_words_whose_inner_axis_is_not_contiguous(name: str) -> None:
    """wgmma takes tf32 with K contiguous in shared memory: an operand that lies otherwise comes by
    registers, as the left one of a product that is swapped if need be, or is turned on its way."""
    path = ROOT / "tests" / "run" / f"tf32_{name}.tc"
    for tile in ((), (("TM", "128"), ("TN", "128"))):
        (result,) = simulate(Setting(path, tile), "sm_90a")
        assert result.module is not None
        names = {op.name for op in result.module.kernels[0].ops()}
        assert "wgmma" in names and "mma_dot" not in names


def test_two_products_of_one_loop_compute_their_operands_in_registers() -> None:
    """Both swap theirs, in few rows and many, and where rows end."""
    path = ROOT / "tests" / "run" / "swiglu_of_weights.tc"
    for values in ({"BM": 16, "BK": 64, "K": 192}, {"BM": 64, "BK": 64, "M": 70, "K": 320}):
        for result in simulate(Setting(path, tuple((n, str(v)) for n, v in values.items())),
                               "sm_90a"):
            assert result.module is not None
            dots = [op for op in result.module.kernels[0].ops() if op.name == "wgmma"]
            assert sum(isinstance(op.operands[0].type, Tile) for op in dots) >= 2


@pytest.mark.parametrize("values", [{}, {"TM": 32, "TK": 128, "GROUP": 256, "K": 1024}])
def test_products_of_one_sum_compute_their_operands_in_registers(values: dict[str, int]) -> None:
    """They are swapped together, and bytes of which all have a part cross shared memory once.
    Where rows of scales begin follows from a quotient: that stood behind the first copies."""
    path = ROOT / "tests" / "run" / "weights_in_planes.tc"
    (result,) = simulate(Setting(path, tuple((n, str(v)) for n, v in values.items())), "sm_90a",
                         ("ptx",))
    assert result.module is not None
    loops = [block.ops for block in result.module.kernels[0].blocks
             if block.name.startswith("body.fast")]
    assert loops
    for ops in loops:
        products = [op for op in ops if op.name == "wgmma"]
        assert len(products) == 4
        assert all(isinstance(op.operands[0].type, Tile) for op in products)
        assert "shared_store" not in [op.name for op in ops]
