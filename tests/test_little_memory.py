"""Products in slices, exchanges in parts: programs for targets with little shared memory.

The samples at tiles that fit no target's shared memory, or none as small as is said here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.target.target import TARGETS
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

SAMPLES = Path(__file__).parent.parent / "samples"
PRODUCTS = ("matmul", "matmul_nt", "matmul_tn", "matmul_tt")
CASES = [  # sample, target, KiB of shared memory, tunables
    *((name, arch, room, {"TM": 32, "TN": tn, "TK": tk}) for name in PRODUCTS
      for arch in ("sm_80", "sm_90a") for room, tn, tk in ((8, 32, 64), (48, 256, 128))),
    ("attention", "sm_80", 8, {"TM": 64, "TN": 32}),
    ("attention", "sm_90a", 24, {"TM": 128, "TN": 128}),
    ("attention_causal", "sm_90a", 24, {"TM": 128, "TN": 128}),
]


def little(arch: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a target have `room` KiB of shared memory."""
    monkeypatch.setitem(TARGETS, arch, TARGETS[arch]._replace(
        shared_per_block=room << 10, shared_per_multiprocessor=(room + 1) << 10))


def sample(name: str) -> SourceFile:
    return SourceFile(f"{name}.tc", (SAMPLES / f"{name}.tc").read_text(encoding="utf-8"))


def test_a_product_in_slices_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    name, arch, room, tune = CASES[0]
    little(arch, room, monkeypatch)
    options = Options(arch=arch, tune=tune, stop_after="insert_barriers")
    found = driver.compile(sample(name), options, ())
    assert any("slices of its inner axis" in remark.message for remark in found.remarks)
    assert found.module is not None
    assert found.module.kernels[0].attributes["shared_bytes"] <= room << 10


@pytest.mark.gpu
@pytest.mark.parametrize("name, arch, room, tune", CASES)
def test_on_the_gpu(name: str, arch: str, room: int, tune: dict[str, int],
                    monkeypatch: pytest.MonkeyPatch) -> None:
    little(arch, room, monkeypatch)
    for outcome in run_problems(sample(name), Options(arch=arch, tune=tune), "tc", Diagnostics(),
                                device="cuda"):
        assert outcome.ok, outcome.line()
