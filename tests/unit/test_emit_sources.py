"""Whole sources as LLVM IR on simulated threads: boxes of three axes, chains of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import ROOT, Setting, compiled
from simt_matrix import MatrixMachine

from tritonc.interp.memory import Memory
from tritonc.ir.formats import from_memory, memory_dtype, to_memory
from tritonc.launch.compare import differences
from tritonc.launch.data import Data


def execute(setting: Setting, target: str) -> set[str]:
    """Run each problem, compare with its reference, and give the instructions that ran."""
    seen: set[str] = set()
    for result, data in compiled(setting, target, ("ll",)):
        machine, found = launch(result.outputs["ll"], data)
        assert not (wrong := differences(data, found)), wrong
        seen |= machine.seen
    return seen


def launch(text: str, data: Data) -> tuple[MatrixMachine, dict[str, Any]]:
    memory = Memory()
    arguments = []
    for value in data.arguments:
        if value.pointer:
            stored = np.ascontiguousarray(to_memory(value.element, value.held))
            stored = stored.view(memory_dtype(value.element))
            arguments.append(memory.allocate(stored, value.name, value.pad))
        else:
            arguments.append(value.held)
    machine = MatrixMachine(text, memory, data.kernel.threads)
    machine.launch(data.kernel.name, arguments, data.grid)
    return machine, {value.name: from_memory(value.element, memory.read(int(address)))
                     for value, address in zip(data.arguments, arguments) if value.pointer}


@pytest.mark.parametrize("name, values", [
    ("attention", "H=2,S=72,TM=64,TN=32"), ("attention_causal", "H=2,S=72,TM=64,TN=32")])
def test_heads_by_boxes_of_three_axes(name: str, values: str) -> None:
    """No head's rows reach into the next one's."""
    path = ROOT / "samples" / f"{name}.tc"
    pairs = tuple((n, v) for n, _, v in (pair.partition("=") for pair in values.split(",")))
    seen = execute(Setting(path, pairs), "sm_90a")
    assert "cp.async.bulk.tensor.g2s.tile.3d" in seen, seen
