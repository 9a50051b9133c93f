"""Facts about integers hold of what the interpreter computes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from rewriting import Kernels, outcome, parse

from tritonc.analysis.axis.axis_info import TOP
from tritonc.analysis.facts import Facts
from tritonc.ir.core import Value
from tritonc.ir.types import I8, I32, I64, Tile


def random_value(e: Kernels, rng: random.Random, depth: int, bits: int) -> Value:
    """An integer scalar or 8-element tile of many operations."""
    t = {8: I8, 32: I32, 64: I64}[bits]
    tile = Tile(t, (8,))
    if depth == 0:
        leaf = rng.randrange(5)
        if leaf == 0:
            return e.const(rng.choice((0, 1, 2, 7, 8, 48, 64, -16, -1, 127)), tile)
        if leaf == 1 and bits == 32:
            start = rng.choice((0, 5, -4, 64))
            return e.range(start=start, stop=start + 8)
        source = e.splat(e.n) if leaf == 2 else e.a if leaf == 3 else e.splat(e.nat)
        if bits == 32:
            return source
        wide = Tile(I64, (8,))
        return e.truncate(source, type=tile) if bits == 8 else e.zext(source, type=wide)
    kind = rng.randrange(9)
    if kind == 0:
        source = random_value(e, rng, depth - 1, {8: 32, 32: 8, 64: 32}[bits])
        if bits == 8:
            return e.truncate(source, type=tile)
        return e.op(rng.choice(("sext", "zext")), source, type=tile)
    if kind == 1:
        c = e.icmp(random_value(e, rng, depth - 1, 32), e.a, predicate="slt")
        return e.select(c, *(random_value(e, rng, depth - 1, bits) for _ in range(2)))
    if kind == 2:
        by = e.const(rng.choice((0, 1, 3, 5)), tile)
        return e.op(rng.choice(("shl", "lshr", "ashr")), random_value(e, rng, depth - 1, bits), by)
    if kind == 3:
        by = e.const(rng.choice((1, 2, 8, 12, 100)), tile)
        return e.op(rng.choice(("udiv", "sdiv", "urem", "srem")),
                    random_value(e, rng, depth - 1, bits), by)
    if kind == 4:
        c = e.icmp(random_value(e, rng, depth - 1, bits), e.const(3, tile), predicate="eq")
        return e.op(rng.choice(("sext", "zext")), c, type=tile)
    name = rng.choice(("add", "sub", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax"))
    return e.op(name, *(random_value(e, rng, depth - 1, bits) for _ in range(2)))


@pytest.mark.parametrize("seed", range(120))
def test_facts_hold(seed: int) -> None:
    rng = random.Random(seed)
    e = Kernels()
    values = [random_value(e, rng, rng.randint(1, 5), rng.choice((8, 32, 64))) for _ in range(3)]
    kernel = e.finish(*values)
    facts = Facts(kernel)
    for run in range(4):
        arrays = outcome(kernel, run)
        if arrays is None:
            continue
        for value, array in zip(values, arrays[-len(values):], strict=True):
            numbers = [int(n) for n in array[:8]]
            low, high = facts.interval(value)
            assert all(low <= n <= high for n in numbers), (numbers, low, high)
            assert all(n % facts.factor(value) == 0 for n in numbers), facts.factor(value)


@pytest.mark.parametrize("seed", range(60))
def test_sums_that_fit_do_fit(seed: int) -> None:
    rng = random.Random(seed)
    e = Kernels()
    bits = rng.choice((8, 32))
    pairs = [(random_value(e, rng, rng.randint(0, 3), bits),
              random_value(e, rng, rng.randint(0, 3), bits)) for _ in range(4)]
    kernel = e.finish(*(v for pair in pairs for v in pair))
    facts = Facts(kernel)
    for run in range(4):
        arrays = outcome(kernel, run)
        if arrays is None:
            continue
        arrays = [array[:8].astype(np.int64) for array in arrays[-8:]]
        for i, (a, b) in enumerate(pairs):
            total = arrays[2 * i] + arrays[2 * i + 1]
            half = 1 << (bits - 1)
            if facts.sum_fits(a, b):
                assert ((-half <= total) & (total < half)).all()
            if facts.unsigned_sum_fits(a, b):
                mask = (1 << bits) - 1
                assert ((arrays[2 * i] & mask) + (arrays[2 * i + 1] & mask) <= mask).all()


@pytest.mark.parametrize("seed", range(80))
def test_bounds_where_a_guard_holds(seed: int) -> None:
    rng = random.Random(seed)
    e = Kernels()
    tile = Tile(I8, (8,))
    value = random_value(e, rng, rng.randint(1, 3), 8)
    guard = e.icmp(e.a, e.b, predicate="slt")
    for _ in range(rng.randint(1, 3)):
        test = e.icmp(value, e.const(rng.randint(-40, 90), tile),
                      predicate=rng.choice(("slt", "sle", "sgt", "sge", "ult", "ule", "eq", "ne")))
        guard = e.op("and", *rng.sample((guard, test), 2))
    kernel = e.finish(value, e.op("zext", guard, type=tile))
    low, high = Facts(kernel).interval_where(guard, value)
    for run in range(4):
        arrays = outcome(kernel, run)
        if arrays is not None:
            held = [int(n) for n, holds in zip(*arrays[-2:], strict=True) if holds]
            assert all(low <= n <= high for n in held), (held, low, high)


def test_a_guard_bounds_what_it_compares() -> None:
    e = Kernels()
    zero, most = (e.const(n, e.a.type) for n in (0, 64))
    inside = e.op("and", e.icmp(e.a, zero, predicate="sge"), e.icmp(e.a, most, predicate="slt"))
    facts = Facts(e.finish(e.a))
    assert facts.interval_where(inside, e.a) == (0, 63)
    assert facts.interval_where(e.icmp(e.a, most, predicate="ult"), e.a) == (0, 63)
    assert facts.interval_where(inside, e.b) == facts.interval(e.b)


LOOP = """
kernel @k(i32 %n {multiple_of = 16}, i32 %m) {
entry:
  %zero = constant {value = 0} : i32
  %step = constant {value = STEP} : i32
  %start = constant {value = START} : i32
  %hundred = constant {value = 100} : i32
  %lanes = range {start = 0, stop = 32} : i32<32>
  br head
head:
  %i = phi [%start, entry], [%next, body] : i32
  %c = icmp %i, BOUND {predicate = TEST} : i1
  cond_br %c, body, exit
body:
  %t = splat %i : i32<32>
  %next = add %i, %step : i32
  br head
exit:
  ret
}
"""


def loop(start: int, step: int, test: str, bound: str) -> tuple[Facts, dict[str, Value]]:
    text = LOOP.replace("START", str(start)).replace("STEP", str(step))
    kernel = parse(text.replace("TEST", test).replace("BOUND", bound))
    values = {v.name: v for op in kernel.ops() for v in op.results}
    return Facts(kernel), values | {v.name: v for v in kernel.parameters}


@pytest.mark.parametrize("start,step,test,bound,wanted", [
    (0, 1, "slt", "%m", (0, (1 << 31) - 1)),  # stops before it can wrap
    (0, 4, "slt", "%hundred", (0, 103)),
    (0, 1, "sle", "%hundred", (0, 101)),
    (100, -3, "sgt", "%zero", (-2, 100)),
    (0, 4, "slt", "%m", (0, (1 << 31) - 1)),  # or it would go round through all multiples for ever
    (0, 3, "slt", "%m", (-(1 << 31), (1 << 31) - 1)),  # may jump over the end of the type
    (0, -4, "slt", "%hundred", (-(1 << 31), (1 << 31) - 1)),
    (0, 1, "ne", "%hundred", (-(1 << 31), (1 << 31) - 1)),
])
def test_bounds_of_a_counter(start: int, step: int, test: str, bound: str,
                             wanted: tuple[int, int]) -> None:
    facts, values = loop(start, step, test, bound)
    assert facts.interval(values["i"]) == wanted


def test_steps_of_a_power_of_two_do_not_carry_into_lanes() -> None:
    facts, values = loop(0, 32, "slt", "%m")
    assert facts.factor(values["i"]) == 32 and facts.factor(values["next"]) == 32
    assert facts.sum_fits(values["t"], values["lanes"])
    facts, values = loop(0, 48, "slt", "%m")
    assert facts.factor(values["i"]) == 16
    assert not facts.sum_fits(values["t"], values["lanes"])
    facts, values = loop(7, 32, "slt", "%m")
    assert facts.factor(values["i"]) == 1


def test_factors_of_parameters_are_promises() -> None:
    facts, values = loop(0, 1, "slt", "%m")
    assert facts.factor(values["n"]) == 16 and facts.factor(values["m"]) == 1
    assert facts.factor(values["zero"]) == TOP


def test_a_long_chain_of_operations_is_no_recursion_error() -> None:
    e = Kernels()
    value = e.a
    for _ in range(3000):
        value = e.xor(value, e.b)
    kernel = e.finish(e.icmp(value, e.a, predicate="slt"))
    facts = Facts(kernel)
    assert facts.interval(value) == (-(1 << 31), (1 << 31) - 1)
    assert facts.factor(value) == 1


def test_one_lane_too_many_carries() -> None:
    text = LOOP.replace("START", "0").replace("STEP", "32").replace("TEST", "slt")
    text = text.replace("BOUND", "%m").replace("stop = 32", "stop = 33")
    kernel = parse(text.replace("%lanes = range {start = 0, stop = 33} : i32<32>",
                                "%lanes = range {start = 1, stop = 33} : i32<32>"))
    values = {v.name: v for op in kernel.ops() for v in op.results}
    facts = Facts(kernel)
    assert facts.interval(values["lanes"]) == (1, 32)
    assert not facts.sum_fits(values["t"], values["lanes"])
