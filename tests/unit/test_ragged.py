"""Accesses whose masks end inside of them: whole where they may be, else each element alone."""

from __future__ import annotations

import numpy as np
import pytest
from backend_programs import ALONE, data
from machine_programs import execute
from sketch import Program, Sketch
from test_backend_passes import lowered

from tritonc.analysis.axis import axis_info
from tritonc.analysis.ragged import falling
from tritonc.ir.types import BF16, F16, F32, F64, I8, I32, Scalar

WIDTHS = {F64: 2, F32: 4, BF16: 8, F16: 8, I8: 16}


def doubled(e: Scalar, n: int, warps: int, elements: int = 256) -> Program:
    """y = x + x for the first n numbers, y = 7 + 7 behind them, as far as y goes."""
    k = Sketch(warps=warps)
    numbers = np.asarray(data(elements), np.float64) if e != I8 else np.arange(elements) % 50
    x, y = k.pointer("x", e, numbers, **ALONE), k.pointer("y", e, np.ones(elements), **ALONE)
    r, first = k.arange(elements), k.integer("n", n)
    v = k.load(k.at(x, r), k.less(r, first), other=7)
    double = k.add(v, v) if e == I8 else k.fadd(v, v)
    k.store(k.at(y, r), double, k.less(r, k.integer("m", n + 5)))
    return k.done()


@pytest.mark.parametrize("e", WIDTHS, ids=str)
@pytest.mark.parametrize("n", [-7, 0, 1, 131, 246, 255])
@pytest.mark.parametrize("warps", [1, 4])
def test_vectors_end_anywhere(e: Scalar, n: int, warps: int) -> None:
    program = doubled(e, min(n, 251), warps)
    done = lowered(program, check=True, without=("specialize",))
    accesses = [op for op in done.kernel.ops() if op.name in ("load", "store")]
    width = min(WIDTHS[e], 256 // (32 * warps))
    assert [op.attributes.get("vector", 1) for op in accesses] == [width] * 2
    assert all(op.attributes.get("ragged") for op in accesses)
    np.testing.assert_array_equal(execute(done)["y"], program.run()["y"])


def test_a_mask_falls_once_in_a_run() -> None:
    k = Sketch(warps=1)
    n, r = k.integer("n", 5), k.arange(64)
    limit = k.spread(n, (64,))
    below, above = k.less(r, n), k.icmp(r, limit, predicate="sge")
    unsigned = k.icmp(k.sub(r, k.full(3, I32, 64)), limit, predicate="ult")
    masks = {
        "below": (below, 64), "not below": (k.build.emit("cmpp", below).results[1], 1),
        "bound first": (k.icmp(limit, r, predicate="sgt"), 64), "above": (above, 1),
        "both": (k.build.value("and", below, k.less(r, k.integer("m", 9))), 64),
        "one of them": (k.build.value("and", below, above), 1),
        "wraps": (unsigned, 1),
        "all alike": (k.less(k.full(3, I32, 64), n), 64),
        "rows": (k.spread(below, (8, 64), 1), 64),
    }
    k.emit("ret")
    infos = axis_info.analyze(k.kernel)
    assert {name: falling(mask, len(infos[mask].constancy) - 1, infos)
            for name, (mask, _) in masks.items()} == {
        name: run for name, (_, run) in masks.items()}
