"""Products whose loop is not alone, on simulated tensor cores: one ring serves a whole region."""

from __future__ import annotations

import pytest
from programs import ROOT, Setting, compiled, settings, simulate

WAYS = [setting for name in ("region_matmul.tc", "tiles_matmul.tc")
        for setting in settings(ROOT / "tests" / "run" / name)]


@pytest.mark.parametrize("setting", WAYS, ids=lambda s: s.name)
def test_a_producer_warp_serves_any_region(setting: Setting) -> None:
    (result, _), = compiled(setting, "sm_90a")
    assert result.module is not None and result.module.kernels[0].attributes["copier_warps"]
    simulate(setting, "sm_90a")
