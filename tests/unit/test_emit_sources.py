"""Whole sources as LLVM IR on simulated threads: boxes of three axes, chains of products."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from programs import ROOT, Setting, compiled
from simt_functions import CALLS
from simt_matrix import MatrixMachine

from tritonc import driver
from tritonc.interp.memory import Memory
from tritonc.ir.numeric.formats import from_memory, memory_dtype, to_memory
from tritonc.launch.compare import differences
from tritonc.launch.data import Data, prepare
from tritonc.launch.run_problems import read_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.variants.choice import block_shape


def execute(setting: Setting, target: str) -> set[str]:
    """Run each problem, compare with its reference, and give the instructions that ran."""
    seen: set[str] = set()
    for result, data in compiled(setting, target, ("ll",)):
        machine, found = launch(result.outputs["ll"], data)
        assert not (wrong := differences(data, found)), wrong
        seen |= machine.seen
    return seen


def launch(text: str, data: Data, block: tuple[int, int, int] | None = None,
           chance: random.Random | None = None) -> tuple[MatrixMachine, dict[str, Any]]:
    memory = Memory()
    arguments = []
    for value in data.arguments:
        if value.pointer:
            stored = np.ascontiguousarray(to_memory(value.element, value.held))
            stored = stored.view(memory_dtype(value.element))
            arguments.append(memory.allocate(stored, value.name, value.pad))
        else:
            arguments.append(value.held)
    machine = MatrixMachine(text, memory, data.kernel.threads, chance)
    machine.launch(data.kernel.name, arguments, data.grid, block)
    return machine, {value.name: from_memory(value.element, memory.read(int(address)))
                     for value, address in zip(data.arguments, arguments) if value.pointer}


def in_some_order(text: str, data: Data) -> dict[str, Any]:
    """Of half of the texts warps go on by themselves, as the text says; of others all together."""
    seed = zlib.crc32(text.encode())
    return launch(text, data, chance=random.Random(seed) if seed & 1 else None)[1]


@pytest.mark.parametrize("name, values", [
    ("attention", "H=2,S=72,TM=64,TN=32"), ("attention_causal", "H=2,S=72,TM=64,TN=32")])
def test_heads_by_boxes_of_three_axes(name: str, values: str) -> None:
    """No head's rows reach into the next one's."""
    path = ROOT / "samples" / f"{name}.tc"
    pairs = tuple((n, v) for n, _, v in (pair.partition("=") for pair in values.split(",")))
    seen = execute(Setting(path, pairs), "sm_90a")
    assert "cp.async.bulk.tensor.g2s.tile.3d" in seen, seen


@pytest.mark.parametrize("name, values", [
    ("masked_rows", ""), ("masked_rows", "L=71"),
    ("convolutions/conv_1d_causal", "C=24,TL=128,TK=128,TC=32")])
def test_masks_that_say_where_rows_begin(name: str, values: str) -> None:
    """Zeros before a row and behind it, by boxes that begin outside and by aligned accesses."""
    path = ROOT / "tests" / "run" / f"{name}.tc"
    pairs = tuple((n, v) for n, _, v in (pair.partition("=") for pair in values.split(",")) if n)
    seen = execute(Setting(path, pairs), "sm_90a")
    assert ("cp.async.bulk.tensor.g2s.tile.3d" in seen) == ("C=24" in values), seen


@pytest.mark.parametrize("name", ["awq", "gptq", "int8_groups", "mxfp4_bits"])
def test_weights_of_few_bits(name: str) -> None:
    """Fields of words, differences of bytes, floats that are put together of bits: two at once."""
    path = ROOT / "bench" / "ways" / "products" / f"weights_{name}.tc"
    sizes = tuple((n, "64") for n in ("TM", "TN", "TK", "M", "N"))
    assert any("wgmma" in one for one in execute(Setting(path, sizes), "sm_90a"))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_products_of_batches_on_tensor_cores(target: str) -> None:
    setting = Setting(ROOT / "tests" / "run" / "batched_products.tc")
    execute(setting, target)
    for result, _ in compiled(setting, target, ("ptx",)):
        assert "mma.sync" in result.outputs["ptx"]


@pytest.mark.parametrize("count", [12, 11, 10, 9])
def test_programs_that_share_a_block(count: int) -> None:
    """Each is what it is alone: its number, its lanes; the last block may lack some."""
    text = f"//! range: {count}\n//! arg: x = randn({count}, 40)\n" \
        f"//! arg: y = zeros({count}, 40)\n" \
        f"//! expect: y = x / x.sum(axis=1, keepdims=True) + {count}" """
kernel void f(const float* x, float* y) {
  int row = get_program_id(0), i[64] = 0 ... 64;
  float v[64] = i < 40 ? x[row * 40 + i] : 0;
  @(i < 40) y[row * 40 + i] = v / v[+] + get_num_programs(0);
}
"""
    source, options = SourceFile("f.tc", text), Options(arch="sm_90a", small_clusters=True)
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    result = driver.compile(source, options, ("ll",))
    assert result.module is not None
    general, packed = result.module.kernels
    assert (packed.tile, packed.threads) == ({0: 4}, 128)
    data = prepare(problem, result.module, general, {})
    data = replace(data, kernel=packed, grid=(3,))
    _, found = launch(result.outputs["ll"], data, block_shape(128, 4, 4, count))
    assert not (wrong := differences(data, found)), wrong


def test_loops_behind_each_other_on_one_buffer() -> None:
    path = ROOT / "bench" / "ways" / "attention" / "two_sets.tc"
    execute(Setting(path, (("H", "1"), ("S", "100"), ("T", "40"), ("TM", "128"), ("TN", "128"))),
            "sm_90a")


_ARRIVE = r"(call void @llvm.nvvm.barrier.cta.arrive.aligned.count.i32 )(%\w+)(, i32 256.)"


def test_turns_and_registers_of_roles() -> None:
    """Each warpgroup goes on by itself between the barriers where it waits for others; what would
    hang on a GPU is an error."""
    setting = Setting(ROOT / "bench" / "ways" / "attention" / "bias.tc", (
        ("D", "128"), ("TM", "128"), ("TN", "128"), ("H", "1"), ("S", "300")))
    ((result, data),) = compiled(setting, "sm_90a", ("ll",))
    text = result.outputs["ll"]
    machine, found = launch(text, data)
    assert not differences(data, found)
    assert {*machine.registers[:256]} == {240} and {*machine.registers[256:]} == {24}
    for pattern, put, message in (
            (_ARRIVE, "call void @llvm.assume(i1 true)", "waits for ever"),
            (_ARRIVE, r"\g<1>1\3", "come twice to barrier 1"),
            (r"(barrier.cta.sync.aligned.count.i32 15, i32) 384", r"\1 385", "two counts"),
            (r"call void @\S*setmaxnreg.dec.*", "call void @llvm.assume(i1 true)",
             "waits for ever")):
        broken, count = re.subn(pattern, put, text)
        assert count
        with pytest.raises(AssertionError, match=message):
            launch(broken, data)


@pytest.mark.parametrize("target, tiles, pattern", [
    ("sm_75", 64, "barrier.cta.sync"), ("sm_80", 64, "barrier.cta.sync"),
    ("sm_80", 64, "cp.async.wait.group"), ("sm_90a", 128, "mbarrier.try.wait")])
def test_warps_in_any_order(target: str, tiles: int, pattern: str) -> None:
    """Warps go on by themselves, copies land late.  Where all threads do everything at once a
    barrier too few changes no number."""
    values = {"M": tiles, "N": tiles, "K": 272, "TM": tiles, "TN": tiles}
    setting = Setting(ROOT / "samples" / "matmul_bf16.tc", tuple(
        (name, str(number)) for name, number in values.items()))
    ((result, data),) = compiled(setting, target, ("ll",))
    text = result.outputs["ll"]
    for seed in range(2):
        assert not differences(data, launch(text, data, chance=random.Random(seed))[1])
    broken = "\n".join(
        line.split(" = ")[0] + " = add i1 true, false" if pattern in line and " = call" in line
        else "  call void @llvm.assume(i1 true)" if pattern in line and "call" in line else line
        for line in text.splitlines())
    assert any(differences(data, launch(broken, data, chance=random.Random(seed))[1])
               for seed in range(6))


def test_what_the_simulator_does_not_know() -> None:
    """A call that it does not know is an error: a copy that never happened would go unseen."""
    with pytest.raises(KeyError, match="tomorrow"):
        CALLS("llvm.nvvm.of.tomorrow")
    source = SourceFile("k.tc", "kernel void k(float* x) { *x = 1; }")
    result = driver.compile(source, Options(), ("ll",))
    text = result.outputs["ll"].replace("  ret void", "  call void @llvm.nvvm.of.tomorrow()\n"
                                        "  ret void", 1)
    memory = Memory()
    machine = MatrixMachine(text, memory, 32)
    with pytest.raises(KeyError, match="tomorrow"):
        machine.launch("k", [memory.allocate(np.zeros(1, np.float32), "x")], (1, 1, 1))


@pytest.mark.parametrize("path, values", [
    ("samples/attention.tc", "H=2,S=130,TM=128,TN=128"),
    ("tests/run/loops_on_one_buffer.tc", "M=130,N=136,K=72,R=40"),
], ids=["persistent", "sequence"])
def test_a_producer_is_ahead_of_loops_in_and_behind_loops(path: str, values: str) -> None:
    """Of each role its own text runs."""
    pairs = tuple((n, v) for n, _, v in (pair.partition("=") for pair in values.split(",")))
    seen = execute(Setting(ROOT / path, pairs), "sm_90a")
    assert "mbarrier.try.wait.parity.scope.cta.space.cta" in seen, seen


@pytest.mark.parametrize("name", ["windows", "flat_windows", "every_other"])
def test_loads_of_a_window_share_accesses(name: str) -> None:
    """They read what one of them asks for alone: the machine knows where buffers end."""
    execute(Setting(ROOT / "tests/run" / f"{name}.tc"), "sm_90a")


def test_loops_ask_ahead() -> None:
    """Each copy of the loop's body goes by the word that it came to."""
    execute(Setting(ROOT / "tests/run/look_back.tc"), "sm_90a")


def test_copies_ahead() -> None:
    """Each piece lies together in memory, and zeros are those of the source."""
    execute(Setting(ROOT / "tests/run/copied_ahead.tc"), "sm_90a")
