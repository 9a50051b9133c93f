"""Targets: the tables are consistent, LLVM knows them, errors say what would help."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend import assemble
from tritonc.backend.target.matrix import INSTRUCTIONS
from tritonc.backend.target.target import FEATURES, PTX_VERSIONS, TARGETS, find
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize("name", TARGETS)
def test_llvm_knows_the_target(name: str) -> None:
    target = find(name)
    assert str(assemble.machine(target, 2).target_data) == assemble.DATA_LAYOUT
    text = assemble.assemble("define ptx_kernel void @k() {\n  ret void\n}\n", target, Options())
    version = f"{target.ptx // 10}.{target.ptx % 10}"
    assert f".version {version}\n.target {name}\n" in text


def test_long_functions_are_left_to_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of products, which strength reduction would rewrite."""
    lines = "".join(f"  %v{i + 1} = mul i32 %v{i}, {i + 3}\n"
                    f"  store volatile i32 %v{i + 1}, ptr %p\n" for i in range(20))
    text = f"define ptx_kernel void @k(ptr %p, i32 %v0) {{\n{lines}  ret void\n}}\n"
    target = find("sm_80")
    short = assemble.assemble(text, target, Options())
    monkeypatch.setattr(assemble, "LONGEST_OPTIMIZED", 10)
    assert assemble.assemble(text, target, Options()) != short


def test_products_in_flight_are_optimized_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else their sums are copied between a product and its wait, and ptxas serialises them."""
    source = SourceFile("m.tc", (SAMPLES / "matmul_bf16.tc").read_text(encoding="utf-8"))
    options = Options(arch="sm_90a")
    short = driver.compile(source, options, ("ptx",)).outputs["ptx"]
    monkeypatch.setattr(assemble, "LONGEST_OPTIMIZED", 10)
    assert driver.compile(source, options, ("ptx",)).outputs["ptx"] == short


@pytest.mark.parametrize("name", TARGETS)
def test_limits_are_plausible(name: str) -> None:
    target = find(name)
    assert target.static_shared <= target.shared_per_block <= target.shared_per_multiprocessor
    assert target.ptx in PTX_VERSIONS and target.ptx >= target.least_ptx
    assert target.threads_per_multiprocessor // target.warp_size in (32, 48, 64)


def test_the_default_version_has_every_feature_of_the_target() -> None:
    for target in TARGETS.values():
        newest = find(target.name, "9.0")
        assert target.features == newest.features, target.name


def test_features_grow_with_capability() -> None:
    plain = [find(name) for name in TARGETS if not name.endswith("a")]
    for older, newer in pairwise(plain):
        assert older.features <= newer.features
    for name in TARGETS:
        if name.endswith("a"):
            assert find(name[:-1]).features < find(name).features


def test_older_versions_lack_features() -> None:
    assert "async_copy" in find("sm_80", "7.0").features
    assert "l1_hint" not in find("sm_80", "7.0").features
    assert find("sm_90a", "8.0").features < find("sm_90a").features


def test_instructions_name_features() -> None:
    assert {row.feature for row in INSTRUCTIONS} <= set(FEATURES)


@pytest.mark.parametrize("name, suggestion", [("sm_91", "sm_90"), ("SM_80", "sm_80"),
                                              ("sm90a", "sm_90a"), ("ampere", None)])
def test_unknown_targets(name: str, suggestion: str | None) -> None:
    with pytest.raises(CompileError) as caught:
        find(name)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.name == "unknown-target" and diagnostic.suggestion == suggestion
    assert "sm_90a" in diagnostic.notes[-1].message


@pytest.mark.parametrize("ptx", ["6.5", "8.9", "8", "eight", "80", "8.33", ""])
def test_unknown_versions(ptx: str) -> None:
    with pytest.raises(CompileError) as caught:
        find("sm_80", ptx)
    assert caught.value.diagnostics[0].name == "unknown-ptx-version"


def test_a_missing_feature_is_explained() -> None:
    with pytest.raises(CompileError) as caught:
        find("sm_80").require("wgmma", None)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.name == "target-lacks-feature"
    assert "sm_90a" in diagnostic.notes[0].message
    find("sm_90a").require("wgmma", None)

