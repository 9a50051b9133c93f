"""No program observes the padding: tiles of odd extents in every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backend_programs import data, matmul, reduce_axis, softmax_like, transpose, vector_add
from sketch import Program, Sketch, context, same
from test_backend_passes import lowered

from tritonc.backend.memory.masks.pad_tiles import keeps_numbers, legal, pad_tiles, padded
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp.interpreter import InterpreterError
from tritonc.ir.rules import neutral
from tritonc.ir.types import F32, F64, I1, I8, I32, make, shape
from tritonc.ir.verify import verify
from tritonc.opt.expand_range import expand_range

EXTENTS = [(48,), (96,), (3,), (5,), (768,), (1,), (3, 5), (48, 1), (1, 96), (5, 64), (3, 4, 6)]


def padded_run(program: Program) -> Program:
    """The program after pad_tiles alone, its ranges of programs expanded as ever."""
    ready = program.copy()
    expand_range(ready.kernel, context())
    pad_tiles(ready.kernel, context())
    verify(ready.kernel, "pad_tiles", ALL_OPS)
    assert not any(legal(ready.kernel, op) for op in ready.kernel.ops())
    return ready


def check(program: Program) -> tuple[dict[str, Any], dict[str, Any]]:
    """Three ways agree: as written, only padded, and through the whole backend.

    Returns what the first and the last found.
    """
    found = program.run()
    for buffer, want in program.expected.items():
        np.testing.assert_array_equal(found[buffer], np.asarray(want).reshape(found[buffer].shape))
    same(found, padded_run(program).run(check=False))
    done = program.copy()
    expand_range(done.kernel, context())
    result = lowered(done).run()
    try:
        same(found, result)
    except AssertionError:
        lowered(done, check=True)  # says after which pass
        raise
    return found, result


def place(k: Sketch, extents: tuple[int, ...]) -> Any:
    """The row-major numbers of a tile, made axis by axis."""
    total = None
    for axis, n in enumerate(extents):
        step = k.mul(k.arange(n), k.full(int(np.prod(extents[axis + 1 :])), I32, n))
        part = k.spread(step, extents, axis)
        total = part if total is None else k.add(total, part)
    return total


@pytest.mark.parametrize("extents", EXTENTS)
def test_elementwise(extents: tuple[int, ...]) -> None:
    k = Sketch(warps=2)
    a = data(*extents, low=1)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(extents))
    at = place(k, extents)
    v = k.load(k.at(x, at))
    k.store(k.at(y, at), k.add(k.sdiv(k.mul(v, v), v), k.srem(k.full(7, I32, *extents), v)))
    program = k.done()
    program.expected["y"] = a + 7 % a
    check(program)


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("kind", ["add", "mul", "smin", "smax", "umin", "umax", "and", "or", "xor"])
def test_integer_reductions(extents: tuple[int, ...], kind: str, thorough: bool) -> None:
    if (len(kind) + EXTENTS.index(extents)) % 2 and not thorough:
        pytest.skip("needs --thorough")
    reductions(extents, kind, I32, data(*extents, low=-5, high=6) | 1)


@pytest.mark.parametrize("extents", [(48,), (3, 5), (5, 64)])
@pytest.mark.parametrize("kind", ["fadd", "fmul", "fmin", "fmax"])
@pytest.mark.parametrize("filling", [None, np.nan, -0.0, np.inf])
def test_float_reductions(extents: tuple[int, ...], kind: str, filling: float | None) -> None:
    a = data(*extents, low=1, high=3) if filling is None else np.full(extents, filling)
    reductions(extents, kind, F64, a)


def reductions(extents: tuple[int, ...], kind: str, e: Any, a: Any) -> None:
    for axes in {(0,), (len(extents) - 1,), tuple(range(len(extents)))}:
        left = tuple(n for d, n in enumerate(extents) if d not in axes)
        k = Sketch(warps=2)
        x, y = k.pointer("x", e, a), k.pointer("y", e, np.full(left, 77))
        total = k.reduce(k.load(k.at(x, place(k, extents))), kind=kind, axes=axes)
        k.store(k.at(y, place(k, left)) if left else y, total)
        found, result = check(k.done())
        np.testing.assert_array_equal(np.signbit(result["y"]), np.signbit(found["y"]))


@pytest.mark.parametrize("extents", EXTENTS)
def test_scans(extents: tuple[int, ...]) -> None:
    for axis in range(len(extents)):
        k = Sketch(warps=2)
        a = data(*extents)
        x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(extents))
        at = place(k, extents)
        k.store(k.at(y, at), k.scan(k.load(k.at(x, at)), kind="add", axis=axis))
        program = k.done()
        program.expected["y"] = np.cumsum(a, axis)
        check(program)


RESHAPES = [
    ((48,), (16, 3)), ((48,), (3, 16)), ((16, 3), (48,)), ((6, 8), (3, 16)), ((3, 5), (5, 3)),
    ((3, 5), (15,)), ((4, 6, 1, 5), (8, 3, 5)), ((48, 3), (1, 48, 3)), ((3, 5, 8), (3, 5, 2, 4)),
    ((768,), (3, 256)), ((768,), (256, 3)), ((1, 5), (5,)), ((5,), (5, 1, 1)), ((9,), (3, 3)),
]


@pytest.mark.parametrize(("before", "after"), RESHAPES)
def test_reshapes(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    k = Sketch(warps=4)
    a = data(*before)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(after))
    v = k.reshape(k.load(k.at(x, place(k, before))), type=make(I32, after))
    k.store(k.at(y, place(k, after)), v)
    program = k.done()
    program.expected["y"] = a
    check(program)
    gathers = [op for op in padded_run(program).kernel.ops() if op.name == "gather"]
    assert bool(gathers) != keeps_numbers(before, after)


def test_numbers_that_are_kept_are_kept() -> None:
    """The rule of keeps_numbers against the row-major numbers themselves."""
    for before, after in RESHAPES:
        size = int(np.prod(before))
        numbers = [np.ravel_multi_index(np.unravel_index(np.arange(size), s), padded(s))
                   for s in (before, after)]
        same_numbers = (np.prod(padded(before)) == np.prod(padded(after))
                        and np.array_equal(*numbers))
        if keeps_numbers(before, after):
            assert same_numbers, (before, after)


@pytest.mark.parametrize("extents", [(3, 5), (48, 96), (5, 1), (3, 4, 6)])
def test_transposes(extents: tuple[int, ...]) -> None:
    order = tuple(reversed(range(len(extents))))
    k = Sketch(warps=4)
    a = data(*extents)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(extents[::-1]))
    v = k.trans(k.load(k.at(x, place(k, extents))), permutation=order)
    k.store(k.at(y, place(k, extents[::-1])), v)
    program = k.done()
    program.expected["y"] = a.T
    check(program)


@pytest.mark.parametrize("tile", [(48, 48, 48), (3, 5, 7), (16, 96, 3), (1, 5, 1), (32, 32, 24)])
def test_dots(tile: tuple[int, int, int]) -> None:
    m, n, depth = (2 * e + 1 for e in tile)
    check(matmul(m, n, depth, tile))
    check(matmul(m, n, depth, tile, a_transposed=True, b_transposed=True, warps=2))


def test_dots_of_infinities_in_the_padding() -> None:
    """1 / 0 in the padding along k must not meet the zeros of the other side."""
    k = Sketch(warps=1)
    a, b = data(3, 5, low=1), data(5, 3, low=1)
    x, w = k.pointer("x", F32, a), k.pointer("w", F32, b)
    y = k.pointer("y", F32, np.zeros((3, 3)))
    left = k.load(k.at(x, place(k, (3, 5))), k.full(1, I1, 3, 5), other=0.0)
    right = k.load(k.at(w, place(k, (5, 3))), k.full(1, I1, 5, 3), other=0.0)
    inverse = [k.fdiv(k.full(840, F32, *shape(v.type)), v) for v in (left, right)]
    k.store(k.at(y, place(k, (3, 3))), k.dot(*inverse, k.full(0, F32, 3, 3)))
    program = k.done()
    found = program.run()
    same(found, padded_run(program).run(check=False))
    assert np.isfinite(found["y"]).all()


@pytest.mark.parametrize("program", [
    lambda: vector_add(100, 48, 1), lambda: vector_add(1000, 768, 4), lambda: vector_add(5, 3, 1),
    lambda: transpose(50, 70, (24, 40), 2), lambda: softmax_like(9, 40, (3, 48), 2),
    lambda: reduce_axis((12, 20), (1,)), lambda: reduce_axis((12, 20), (0, 1), "smin"),
])
def test_global_ranges(program: Callable[[], Program]) -> None:
    check(program())


def test_atomics_add_once() -> None:
    k = Sketch(warps=2)
    a = data(48, low=0, high=5)
    x, h, t = k.pointer("x", I32, a), k.pointer("h", I32, np.zeros(5)), k.pointer("t", I32, a)
    r = k.arange(48)
    k.atomic_rmw(k.at(h, k.load(k.at(x, r))), k.full(1, I32, 48), kind="add")
    k.store(k.at(t, r), k.atomic_cas(k.at(x, r), k.full(3, I32, 48), k.full(9, I32, 48)))
    program = k.done()
    program.expected |= {"h": np.bincount(a, minlength=5), "x": np.where(a == 3, 9, a), "t": a}
    check(program)


def test_assertions_and_output_are_inside() -> None:
    k = Sketch(warps=1)
    a = data(5)
    x = k.pointer("x", I32, a)
    r = k.arange(5)
    v = k.load(k.at(x, r))
    k.emit("assert", k.less(r, k.number(5)), message="inside")
    k.emit("assume", k.less(r, k.number(5)))
    k.emit("assert", k.less(r, k.number(2)), message="under a guard", guard=k.less(r, k.number(2)))
    k.store(k.at(x, k.assume_multiple(k.mul(r, k.full(1, I32, 5)), n=1)), v)
    program = k.done()
    program.expected["x"] = a
    same(program.run(), padded_run(program).run(check=False))


def test_a_promise_about_odd_tiles_is_not_asked_of_the_padding() -> None:
    k = Sketch(warps=1)
    x = k.pointer("x", I32, np.zeros(96))
    r = k.arange(3)
    even = k.select(k.less(r, k.number(3)), k.mul(r, k.full(2, I32, 3)), k.full(1, I32, 3))
    k.store(k.at(x, k.assume_multiple(even, n=2)), r)
    program = k.done()
    same(program.run(), padded_run(program).run(check=False))


def test_loops_carry_padded_tiles() -> None:
    k = Sketch(warps=2)
    a = data(4, 48)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(48))
    r = k.arange(48)
    with k.loop(k.integer("n", 4), k.full(0, I32, 48), k.at(x, r)) as loop:
        total, p = loop.values
        loop.next = [k.add(total, k.load(p)), k.addptr(p, k.full(48, I32, 48))]
    k.store(k.at(y, r), loop.values[0])
    program = k.done()
    program.expected["y"] = a.sum(0)
    check(program)


def test_kernels_of_powers_of_two_are_left_alone() -> None:
    program = vector_add(tile=64)
    assert not pad_tiles(program.kernel, context())


def test_loads_that_have_zeros_need_no_select() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", F32, data(6, 6)), k.pointer("y", F32, np.zeros((6, 6)))
    at = place(k, (6, 6))
    a = k.load(k.at(x, at), k.full(1, I1, 6, 6), other=0.0)
    k.store(k.at(y, at), k.dot(a, k.trans(a, permutation=(1, 0)), k.full(0, F32, 6, 6)))
    program = k.done()
    ready = padded_run(program)
    assert not [op for op in ready.kernel.ops() if op.name == "select"]
    same(program.run(), ready.run(check=False))


def test_a_store_outside_would_be_seen() -> None:
    """What the tests above rely on: without the guard the interpreter reports the padding."""
    ready = padded_run(vector_add(96, 96, 1))
    for op in ready.kernel.ops():
        if op.name == "store":
            op.guard = None
    with pytest.raises(InterpreterError):
        ready.run(check=False)


def test_neutral_elements() -> None:
    assert neutral("smin", I8) == 127 and neutral("smax", I8) == -128
    assert neutral("umax", I8) == 0 and neutral("umin", I8) == -1
    assert neutral("smax", I1) == -1 and neutral("smin", I1) == 0


def test_zero_divisors_of_the_padding_do_not_trap() -> None:
    k = Sketch(warps=1)
    y = k.pointer("y", I32, np.zeros(5))
    r = k.arange(5)
    k.store(k.at(y, r), k.udiv(k.full(60, I32, 5), k.sub(k.full(5, I32, 5), r)))
    program = k.done()
    program.expected["y"] = [12, 15, 20, 30, 60]
    check(program)


def test_what_a_broadcast_repeats_is_not_padding() -> None:
    k = Sketch(warps=1)
    x, y = k.pointer("x", I32, data(1, 5, low=1)), k.pointer("y", I32, np.zeros(5))
    v = k.load(k.at(x, place(k, (1, 5))), k.full(1, I1, 1, 5), other=0)
    k.store(k.at(y, k.arange(5)), k.reduce(k.spread(v, (3, 5)), kind="add", axes=(0,)))
    program = k.done()
    program.expected["y"] = 3 * data(1, 5, low=1)
    check(program)
