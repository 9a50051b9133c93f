"""NVIDIA's assembler accepts what is written, without spills.  Needs ptxas; skipped without it.

A sample meets the default target, every third one another, in turn; with --thorough, each of them.

The variable PTXAS names another than the one on the path: of CUDA 12.9, for sm_61 and sm_70.

    PTXAS=.../nvidia/cuda_nvcc/bin/ptxas python -m pytest tests/test_ptxas.py --thorough
"""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from programs import PTXAS, ptxas

from tritonc import driver, sema, stages
from tritonc.frontend.parser import parse
from tritonc.options import DEFAULT_ARCH, Options
from tritonc.source import CompileError, Diagnostics, SourceFile

ROOT = Path(__file__).parent.parent
SAMPLES = sorted((ROOT / "samples").glob("*.tc"))
HELP = "" if PTXAS is None else subprocess.run(
    [PTXAS, "--help"], capture_output=True, text=True, check=True).stdout
TARGETS = [f"sm_{name}" for name in ("61", "70", "75", "80", "89", "90a", "100a", "120a")
           if f"'sm_{name}'" in HELP] or ["sm_75"]

BY_NAME = [pytest.param(number, path, id=path.stem) for number, path in enumerate(SAMPLES)]

pytestmark = pytest.mark.skipif(PTXAS is None, reason="needs ptxas")


def assemble(path: Path, target: str, tune: dict[str, int], scratch: Path) -> str:
    """What ptxas -v says of the sample."""
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    result = driver.compile(source, Options(arch=target, tune=tune), ("ptx",))
    return ptxas(result.outputs["ptx"], target, scratch)


# Bytes that defaults for sm_90a spill: of an entry with two bodies, around the loops of one.
LATEST_SPILLS = {"fp8_block": 8}
# Those of defaults for older targets, and for those of mma.sync.
KNOWN_SPILLS = {"attention_backward": 80, "conv_nhwc": 232, "fp8_block": 1984, "int4_linear": 308,
                "matmul_bf16": 12, "moe_experts": 216, "paged_decode_split": 144}


@pytest.mark.parametrize("number, path", BY_NAME)
def test_samples_assemble_without_spills(number: int, path: Path, tmp_path: Path, thorough: bool
                                         ) -> None:
    one = TARGETS[number // 3 % len(TARGETS)] if number % 3 == 0 else DEFAULT_ARCH
    for target in TARGETS if thorough else [one]:
        log = assemble(path, target, {}, tmp_path)
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))
        known = KNOWN_SPILLS if target != "sm_90a" else LATEST_SPILLS
        assert spilled <= known.get(path.stem, 0), target


ROWS = ["gemv", "add_rms_norm", "cross_entropy_backward", "rope", "running_sum", "scan_three",
        "upsample", "welford", "quantise_rows", "gelu_bias"]


@pytest.mark.parametrize("name", ROWS)
def test_general_bodies_of_rows_do_not_spill(name: str, tmp_path: Path) -> None:
    """They have the registers that the number of resident blocks leaves."""
    log = assemble(ROOT / "bench" / "suite" / f"{name}.tc", "sm_90a", {}, tmp_path)
    assert not sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))


OPERANDS = {  # and accumulator, result
    "half": ("float", "half"), "bfloat16": ("float", "bfloat16"), "tf32": ("float", "float"),
    "float8_e4m3": ("float", "bfloat16"), "int8": ("int", "int"),
}
REPAIRS = ("C7508", "C7511", "C7512", "C7517", "C7519")  # what ptxas puts right, slowly


def product(name: str, operand: str) -> str:
    """A sample of products with other element types."""
    total, result = OPERANDS[operand]
    text = (ROOT / "samples" / f"{name}.tc").read_text(encoding="utf-8")
    head, _, body = text.partition("kernel void")
    body = body.replace("float C[", f"{total} C[").replace("float* c", f"{result}* c")
    body = body.replace("float* pc", f"{result}* pc")
    if operand == "tf32":
        return head + "kernel void" + re.sub(r"\b([AB])\b(?=[,)])", r"(tf32) \1", body)
    for name in ("float* a", "float* b", "float* pa", "float* pb", "float A[", "float B["):
        body = body.replace(name, name.replace("float", operand))
    return head + "kernel void" + body


# Bytes that entries of two bodies (tf32: of one, too) still spill, in the loops for any addresses.
OPERAND_SPILLS = {("half", "matmul_nt"): 8, ("bfloat16", "matmul_nt"): 8, ("tf32", "matmul_nt"): 44,
                  ("float8_e4m3", "matmul_nt"): 8, ("bfloat16", "matmul"): 8,
                  ("half", "matmul_tn"): 16}


@pytest.mark.parametrize("operand, name", [
    *((operand, "matmul_nt") for operand in OPERANDS), ("bfloat16", "matmul"), ("tf32", "matmul"),
    ("int8", "matmul"), ("half", "matmul_tn"),
])
def test_products_on_tensor_cores_assemble_as_they_are(operand: str, name: str, tmp_path: Path
                                                       ) -> None:
    """In the default configuration: no more spills than are known, and nothing repaired."""
    if "sm_90a" not in TARGETS:
        pytest.skip("needs ptxas of CUDA 12")
    source = SourceFile(f"{name}.tc", product(name, operand))
    result = driver.compile(source, Options(arch="sm_90a"), ("ptx",))
    log = ptxas(result.outputs["ptx"], "sm_90a", tmp_path)
    spilled = max(map(int, re.findall(r"(\d+) bytes spill", log)))
    assert spilled <= OPERAND_SPILLS.get((operand, name), 0)
    assert not any(word in log for word in REPAIRS), log


def combinations(path: Path) -> list[dict[str, int]]:
    diagnostics = Diagnostics()
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    program = parse(stages.preprocess(source, Options(), diagnostics).tokens, diagnostics)
    tunables = sema.tunables(program, diagnostics)
    return [dict(zip([t.name for t in tunables], values, strict=True))
            for values in itertools.product(*(t.values or () for t in tunables))]


@pytest.mark.parametrize("number, path", BY_NAME)
def test_every_tunable_value_assembles(number: int, path: Path, tmp_path: Path, thorough: bool
                                       ) -> None:
    """Of every other sample one combination for one target, in turn; with --thorough, all of all
    for each that has the shared memory."""
    if number % 2 and not thorough:
        pytest.skip("needs --thorough")
    every = combinations(path)
    some = every if thorough else [every[len(every) * (number // 2 % 3) // 3]]
    for index, tune in enumerate(some, number // 2):
        targets = TARGETS if thorough else TARGETS[index % len(TARGETS) :][:1]
        for target in targets:
            try:
                assemble(path, target, tune, tmp_path)
            except CompileError as error:
                if [item.name for item in error.diagnostics] != ["shared-memory"]:
                    raise


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_bfloats_are_compared_where_subnormals_are_flushed(target: str, tmp_path: Path) -> None:
    source = SourceFile("k.tc", """kernel void k(const bfloat16* x, bfloat16* y) {
  int r[256] = get_global_range(0);
  bfloat16 v[256] = x[r];
  y[r] = v > 1 ? v : -v;
}
""")
    for options in ({"fast_math": True}, {"denormal": "flush"}):
        result = driver.compile(source, Options(arch=target, **options), ("ptx",))
        ptxas(result.outputs["ptx"], target, tmp_path)


def test_debug_information_assembles_for_old_targets(tmp_path: Path) -> None:
    source = SourceFile("k.tc", "kernel void k(float* x) { *x = 1; }")
    ptxas(driver.compile(source, Options(arch="sm_75", debug=True), ("ptx",)).outputs["ptx"],
          "sm_75", tmp_path)
