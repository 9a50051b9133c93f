"""The order of instances: what their numbers say about their work, and who comes first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from passes_on_text import kernel
from rewriting import parse

from tritonc.backend.launch.rasterize import (
    COLUMNS,
    GROUP,
    _banded,
    _evened,
    _longest_first,
    _numbers,
    _own,
    trend,
)
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp.interpreter import Memory, run
from tritonc.ir.build import Builder
from tritonc.ir.core import Block, Module, Value

PROCESSORS = 132


@pytest.mark.parametrize("start, end, predicate, expected", [
    ("%zero", "%n", "slt", 0),
    ("%zero", "%other", "slt", 0),  # along axis 1
    ("%zero", "%up", "slt", 1),
    ("%zero", "%less", "sle", 1),  # the minimum with a parameter
    ("%up", "%n", "slt", -1),
    ("%up", "%up", "slt", None),  # one may grow faster
    ("%zero", "%down", "slt", -1),
    ("%n", "%up", "sgt", -1),  # downwards, to an end that rises
    ("%zero", "%odd", "slt", None),
    ("%zero", "%up", "ne", None),
])
def test_work_as_the_numbers_say(start: str, end: str, predicate: str, expected: int | None
                                 ) -> None:
    found = trend(parse(kernel(f"""
entry:
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %tile = constant {{value = 128}} : i32
  %m = get_program_id {{axis = 0}} : i32
  %other = get_program_id {{axis = 1}} : i32
  %next = add %m, %one : i32
  %up = mul %next, %tile : i32
  %less = smin %n, %up : i32
  %down = sub %n, %up : i32
  %odd = urem %m, %tile : i32
  br loop
loop:
  %i = phi [{start}, entry], [%j, body] : i32
  %c = icmp %i, {end} {{predicate = {predicate}}} : i1
  cond_br %c, body, done
body:
  %j = add %i, %tile : i32
  br loop
done:
  ret
""", "i32 %n")))
    assert found == (expected or 0)


def numbers(rows: int, columns: int, order: Callable[[Builder], tuple[Value, ...]], planes: int = 1
            ) -> NDArray[np.int32]:
    """Of each instance, as they start, the number that it gets."""
    k = parse(kernel("entry:\n  ret", "i32* %o"))
    before = Block("")
    b = Builder(before)

    def counted(row: Value, column: Value, *plane: Value) -> Value:
        if plane:
            across = b.value("get_num_programs", axis=1)
            column = b.value("add", b.value("mul", plane[0], across), column)
        return b.value("add", b.value("mul", column, b.value("get_num_programs", axis=0)), row)

    own = counted(*(b.value("get_program_id", axis=axis) for axis in range(2 + (planes > 1))))
    number = counted(*order(b))
    b.emit("store", b.value("addptr", k.parameters[0], own), number)
    k.entry.ops[:0] = before.ops
    grid = (rows, columns, planes)[:2 + (planes > 1)]
    memory, found = Memory(), np.full(rows * columns * planes, -1, np.int32)
    address = memory.allocate(found, "o")
    run(Module([k]), "k", [address], memory, grid, table=ALL_OPS, handlers={
        "get_num_multiprocessors": lambda frame, op: np.int32(PROCESSORS)})
    found = memory.read(address)
    assert sorted(found) == list(range(rows * columns * planes))
    return found


@pytest.mark.parametrize("rows, columns", [(1, 1), (5, 3), (8, 4), (19, 5)])
def test_edges_come_first(rows: int, columns: int) -> None:
    """Backwards, the last band starts with its last column."""
    there, back = (numbers(rows, columns, lambda b, back=back: _banded(b, GROUP, None, back))
                   for back in (False, True))
    assert (there[0], back[0]) == (0, rows * columns - 1)
    assert (back == rows * columns - 1 - there).all()


@pytest.mark.parametrize("rows, columns", [(1, 1), (5, 3), (4, COLUMNS), (3, 2 * COLUMNS + 3)])
@pytest.mark.parametrize("few", [0, 30])
@pytest.mark.parametrize("grows", [1, -1])
def test_every_instance_comes_once_and_the_longest_first(rows: int, columns: int, grows: int,
                                                         few: int) -> None:
    found = numbers(rows, columns, lambda b: _longest_first(b, grows, few=few))
    width = columns if rows * columns < few else COLUMNS
    order, heads = found % rows, found // rows
    for first in range(0, columns, width):
        band = (heads >= first) & (heads < first + width)
        at = np.flatnonzero(band)
        assert (at == at[0] + np.arange(at.size)).all()  # together
        assert (np.diff(order[band]) * grows <= 0).all()


@pytest.mark.parametrize("rows, columns, even, stays", [
    (16, 32, 1.04, True), (18, 32, 1.06, False), (65, 32, 1.01, False), (20, 24, 1.03, False),
    (32, 16, 1.01, False), (15, 36, 1.05, False), (64, 64, 1.04, True),
    (63, 64, 1.1, True), (17, 128, 1.35, True)])
@pytest.mark.parametrize("grows", [1, -1])
def test_persistent_blocks_get_even_work(rows: int, columns: int, even: float, stays: bool,
                                         grows: int) -> None:
    """In the order of the numbers, where that is even."""
    found = numbers(rows, columns, lambda b: _evened(
        b, _own(b), grows, b.value("get_num_programs", axis=1)))
    assert (found == np.arange(rows * columns)).all() == stays
    assert_even(found % rows + 1 if grows > 0 else rows - found % rows, even)


def assert_even(work: NDArray[np.int32], even: float) -> None:
    """That the busiest of all blocks has at most so many times the mean."""
    shares = [work[first::2 * PROCESSORS].sum() + work[last::2 * PROCESSORS].sum()
              for first in range(PROCESSORS) for last in [2 * PROCESSORS - 1 - first]]
    assert max(shares) * PROCESSORS <= even * work.sum()


def test_two_axes_of_columns_are_even() -> None:
    def order(b: Builder) -> tuple[Value, ...]:
        rows, columns = (b.value("get_num_programs", axis=axis) for axis in (0, 1))
        plane = b.value("mul", b.value("get_program_id", axis=2), b.value("mul", rows, columns))
        return _numbers(b, 0, b.value("add", plane, _own(b)), 3, {0, 1, 2}, 1)

    assert_even(numbers(20, 6, order, planes=4) % 20 + 1, 1.03)
