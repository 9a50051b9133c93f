"""Scans along an axis that the warps of a block share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_programs import data
from machine_programs import execute
from sketch import Program, Sketch
from test_backend_passes import lowered

from tritonc.ir.types import BF16, F32, I32, Scalar

EXACT = [(I32, "add"), (I32, "mul"), (I32, "smin"), (I32, "umax"), (I32, "or"), (I32, "and"),
         (F32, "fadd"), (F32, "fmax"), (BF16, "fadd"), (BF16, "fmin")]


def scanned(e: Scalar, kind: str, extents: tuple[int, ...], axis: int, values: Any) -> Program:
    k = Sketch(warps=4)
    x, y = k.pointer("x", e, values), k.pointer("y", e, np.zeros(extents))
    n = int(np.prod(extents))
    at = k.reshape(k.arange(n), type=k.full(0, I32, *extents).type) if len(extents) > 1 else (
        k.arange(n))
    k.store(k.at(y, at), k.scan(k.load(k.at(x, at)), kind=kind, axis=axis))
    return k.done()


@pytest.mark.parametrize(("e", "kind"), EXACT)
def test_warps_scan_parts_of_an_axis(e: Scalar, kind: str) -> None:
    values = data(512) if e is not BF16 else data(512, low=0, high=2) * (np.arange(512) % 7 == 0)
    program = scanned(e, kind, (512,), 0, values)
    done = lowered(program, check=True, without=("specialize",))
    (scan,) = (op for op in done.kernel.ops() if op.name == "scan")
    assert scan.result.type.shape == (4, 128)
    assert scan.result.type.layout.registers == 4, "each thread has elements of its own"
    np.testing.assert_array_equal(execute(done)["y"], program.run()["y"])


@pytest.mark.parametrize(("extents", "axis", "parts"), [
    ((2, 256), 1, 2), ((256, 2), 0, 2), ((4, 128), 1, 1), ((64,), 0, 2), ((2, 64, 1), 1, 2)])
def test_axes_that_rows_leave_to_them(extents: tuple[int, ...], axis: int, parts: int) -> None:
    program = scanned(F32, "fadd", extents, axis, data(*extents))
    done = lowered(program, without=("specialize",))
    (scan,) = (op for op in done.kernel.ops() if op.name == "scan")
    assert len(scan.result.type.shape) == len(extents) + (parts > 1)
    np.testing.assert_array_equal(execute(done)["y"], program.run()["y"])


def test_what_is_no_number_reaches_later_parts_alone() -> None:
    values = np.zeros(512)
    values[200] = np.nan
    program = scanned(F32, "fadd", (512,), 0, values)
    got = execute(lowered(program))["y"]
    np.testing.assert_array_equal(np.isnan(got), np.arange(512) >= 200)
