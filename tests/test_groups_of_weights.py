"""Products of grouped weights on simulated tensor cores: what groups share is loaded once."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, compiled, settings, simulate

from tritonc.ir.core import Op
from tritonc.ir.types import Tile

PATH = ROOT / "tests" / "run" / "groups_of_weights.tc"
ZERO_POINTS = ROOT / "tests" / "run" / "zero_points.tc"
GATHERED = ROOT / "tests" / "run" / "gathered_groups.tc"


@pytest.mark.parametrize("setting", [Setting(PATH), *settings(PATH)], ids=lambda s: s.name)
def test_simulated(setting: Setting, thorough: bool) -> None:
    if "ROWS=32" in setting.name and not thorough:
        pytest.skip("needs --thorough")
    simulate(setting, "sm_90a")


@pytest.mark.parametrize("setting", [Setting(ZERO_POINTS), *settings(ZERO_POINTS),
                                     Setting(GATHERED), *settings(GATHERED)], ids=lambda s: s.name)
def test_simulated_with_zero_points(setting: Setting, thorough: bool) -> None:
    if "COLUMNS=64" in setting.name and not thorough:
        pytest.skip("needs --thorough")
    simulate(setting, "sm_90a")


@pytest.mark.parametrize("folder, name", [("run", "pieces_of_words"), ("unseen", "int3_words")])
@pytest.mark.parametrize("tile", [(16, 32, 128), (64, 64, 64), (128, 128, 64)])
def test_simulated_with_words_in_pieces(folder: str, name: str, tile: tuple[int, int, int]) -> None:
    path = ROOT / ("tests" if folder == "run" else "bench") / folder / f"{name}.tc"
    simulate(Setting(path, tuple(zip(("TM", "TN", "TK"), map(str, tile), strict=True))), "sm_90a")


def size_of(op: Op) -> int:
    return op.result.type.size if isinstance(op.result.type, Tile) else 1


@pytest.mark.parametrize("number", [0, 1])
def test_weights_are_brought_as_memory_has_them(number: int) -> None:
    """Boxes bring bytes and words, each once, and no thread waits for another in the loop."""
    (result, _), = compiled(Setting(PATH, (("WAY", str(number)),)), "sm_90a")
    assert result.module is not None
    body = next(block for block in reversed(result.module.kernels[0].blocks)
                if any(op.name == "wgmma" for op in block.ops))
    names = [op.name for op in body.ops]
    assert "tma_load" in names and "barrier" not in names
    assert "async_copy" not in names and "shared_store" not in names
    assert all(size_of(op) < 64 for op in body.ops if op.name in ("sdiv", "udiv"))


@pytest.mark.parametrize("columns", ["128", "256"])
def test_groups_in_any_order_are_copied(columns: str) -> None:
    """Scales and words of zero points, of rows that loaded numbers find, go to shared memory; for
    these threads meet, once in a step: each loads the numbers that it needs by itself.  So it is in
    the body of all promises; one where results are not aligned copies less."""
    (result, _), = compiled(Setting(GATHERED, (("COLUMNS", columns),)), "sm_90a")
    assert result.module is not None
    loop = max((block for block in result.module.kernels[0].blocks
                if any(op.name == "wgmma" for op in block.ops)),
               key=lambda block: sum(op.name == "async_copy" for op in block.ops))
    assert sum(op.name == "async_copy" for op in loop.ops) == 2
    assert sum(op.name == "barrier" for op in loop.ops) == 1


def test_one_factor_for_a_group_of_columns() -> None:
    (result, _), = compiled(Setting(PATH, (("WAY", "2"),)), "sm_90a")
    assert result.module is not None
    loads = [op for op in result.module.kernels[0].ops() if op.name == "load"]
    assert min(map(size_of, loads)) == 2
