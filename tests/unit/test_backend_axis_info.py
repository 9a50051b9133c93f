"""Axis information against the numbers themselves, for random index expressions."""

from __future__ import annotations

from math import gcd
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch import Sketch

from tritonc.analysis.axis.axis_info import AxisInfo, analyze, vector_length
from tritonc.interp import arrays
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.ops import OPS
from tritonc.ir.types import (
    F32,
    I8,
    I16,
    I32,
    I64,
    Pointer,
    element,
    is_int,
    is_pointer,
    make,
    shape,
)
from tritonc.ir.verify import verify

SHAPES = [(16, 8), (8, 64), (48, 4), (3, 16), (1, 32)]
INTEGERS = {8: I8, 16: I16, 32: I32, 64: I64}


class Expressions:
    """Random integer and pointer tiles of one shape over scalars whose multiples are promised."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.k = Sketch()
        self.extents = random.choice(SHAPES)
        self.scalars = []
        for name in ("m", "n"):
            multiple = random.choice([1, 2, 4, 16, 48])
            self.scalars.append(self.k.integer(name, multiple * random.randint(-20, 20),
                                               multiple_of=multiple))
        align = random.choice([4, 16, 64])
        self.base = self.k.pointer("p", F32, align * random.randint(100, 200), multiple_of=align)
        self.tiles: list[Value] = [self.leaf() for _ in range(3)]

    def leaf(self) -> Value:
        k, axis = self.k, self.random.randrange(2)
        kind = self.random.randrange(4)
        if kind == 0:
            start = self.random.choice([0, 0, 0, 1, 4, 8, -16, -4, 120])
            return k.spread(k.arange(self.extents[axis], start), self.extents, axis)
        if kind == 1:
            return k.full(self.random.choice([0, 1, 2, 3, 4, 8, 12, -8, 127]), I32, *self.extents)
        if kind == 2:
            program = k.mul(k.get_program_id(axis=0), k.number(self.random.choice([1, 32, 48])))
            return k.spread(program, self.extents)
        return k.spread(self.random.choice(self.scalars), self.extents)

    def step(self) -> None:
        k, random = self.k, self.random
        a = random.choice(self.tiles)
        b = random.choice([self.leaf(), random.choice(self.tiles)])
        number = k.full(random.choice([1, 2, 4, 6, 16, -4]), I32, *self.extents)
        few = k.full(random.choice([0, 1, 2, 3]), I32, *self.extents)
        kind = random.randrange(9)
        if kind < 3:
            found = getattr(k, random.choice(["add", "add", "sub", "mul", "mul"]))(a, b)
        elif kind == 3:
            found = getattr(k, random.choice(["udiv", "urem", "sdiv", "srem"]))(a, number)
        elif kind == 4:
            found = getattr(k, random.choice(["shl", "lshr", "ashr"]))(a, few)
        elif kind == 5:
            found = getattr(k, random.choice(["and", "or", "xor", "smin", "umax"]))(a, b)
        elif kind == 6:
            predicate = random.choice(["slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
                                       "eq", "ne"])
            test = k.icmp(a, random.choice([b, number]), predicate=predicate)
            yes, no = k.emit("cmpp", test).results
            other = random.choice(self.tiles)
            if random.randrange(2):
                found = k.select(test, a, other)
            else:
                found = k.psi(yes, a, no, other)
        elif kind == 7:
            narrow = k.truncate(a, type=make(random.choice([I8, I16]), self.extents))
            wide = random.choice(["sext", "zext"])
            found = k.build.value(wide, narrow, type=make(I32, self.extents))
        else:
            found = k.assume_multiple(k.mul(a, k.full(8, I32, *self.extents)), n=8)
        self.tiles.append(found)

    def pointers(self) -> None:
        k = self.k
        for a in self.tiles[-3:]:
            p = k.at(self.base, a)
            k.ptrtoint(k.addptr(p, self.leaf()), type=make(I64, self.extents))
            k.trans(p, permutation=(1, 0))
            k.reshape(p, type=make(p.type.element, (*self.extents, 1)))


def evaluate(kernel: Kernel, arguments: list[int], program: int) -> dict[Value, Any]:
    """All values of a block."""
    values: dict[Value, Any] = {}
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        values[parameter] = register_dtype(element(parameter.type)).type(int(argument))
    with np.errstate(all="ignore"):
        for op in kernel.entry.ops:
            inputs = [values[v] for v in op.operands]
            if op.name == "get_program_id":
                found: Any = (np.int32(program),)
            elif op.name == "assume_multiple":
                found = (inputs[0],)
            elif op.name == "psi":
                found = (np.where(inputs[2], inputs[3], inputs[1]),)
            elif op.name == "ret":
                continue
            else:
                found = arrays.evaluate(OPS[op.name], op, inputs)
            values.update(zip(op.results, found, strict=True))
    return values


def check(value: Value, info: AxisInfo, array: Any) -> None:
    """What is claimed of a value holds of its elements."""
    bits = element(value.type).bits
    e = element(value.type)
    unit = e.element.bytes if isinstance(e, Pointer) else 1
    whole = np.atleast_1d(array.astype(np.int64))
    if info.value is not None:
        assert (whole == info.value).all(), "value"
    for axis in range(whole.ndim):
        n = whole.shape[axis]
        run, divisor, same = (x[axis] for x in (info.contiguity, info.divisibility,
                                                info.constancy))
        rows = np.moveaxis(whole, axis, -1).reshape(-1, n)
        assert n % same == 0 and n % run == 0
        blocks = rows.reshape(-1, same)
        assert (blocks == blocks[:, :1]).all(), f"constancy {same} along {axis}"
        blocks = rows.reshape(-1, run)
        wrong = (blocks - blocks[:, :1] - unit * np.arange(run)) % (1 << 8)  # an i8 may wrap
        assert not wrong.any(), f"contiguity {run} along {axis}"
        assert not (blocks[:, 0] % min(divisor, 1 << (bits - 1))).any(), f"divisibility {divisor}"
        aligned = gcd(run, max(divisor // unit, 1))  # no wrapping inside
        blocks = rows.reshape(-1, aligned)
        assert (blocks == blocks[:, :1] + unit * np.arange(aligned)).all(), "aligned runs"


def name_of(op: Op | None) -> str:
    return "parameter" if op is None else f"{op.name} {op.attributes}"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_claims_hold(random: Random, program: int) -> None:
    e = Expressions(random)
    for _ in range(random.randint(1, 10)):
        e.step()
    e.pointers()
    e.k.emit("ret")
    verify(e.k.kernel)
    check_all(e.k, program)


def check_all(k: Sketch, program: int = 0) -> None:
    infos = analyze(k.kernel)
    for value, array in evaluate(k.kernel, k.arguments, program).items():
        if is_int(value.type) or is_pointer(value.type):
            try:
                check(value, infos[value], array)
            except AssertionError as error:
                raise AssertionError(f"{error} of {name_of(value.op)}: {infos[value]}\n{array}"
                                     f"\n{[(infos[v], shape(v.type)) for v in value.op.operands]}"
                                     if value.op else str(error)) from None


def test_a_row_major_tile() -> None:
    """The example of the module: base + row * stride + column."""
    k = Sketch()
    base = k.pointer("p", F32, [0.0], multiple_of=16)
    stride = k.integer("stride", 4, multiple_of=4)
    p = k.rows(base, k.arange(16), stride, k.arange(64))
    info = analyze(k.kernel)[p]
    assert info.contiguity == (1, 64) and info.divisibility[1] == 16
    assert vector_length(info, None, 1, 4) == 4 and vector_length(info, None, 0, 4) == 1


def test_a_guard_that_changes_within_a_run_limits_the_access() -> None:
    k = Sketch()
    base = k.pointer("p", F32, [0.0], multiple_of=16)
    r = k.arange(64)
    for bound, width in ((48, 4), (50, 2), (51, 1)):
        guard = k.less(r, k.number(bound))
        infos = analyze(k.kernel)
        p = k.at(base, r)
        infos = analyze(k.kernel)
        assert vector_length(infos[p], infos[guard], 0, 4) == width


def test_loops_meet_what_comes_in_and_round() -> None:
    k = Sketch()
    base, step = k.pointer("p", F32, [0.0], multiple_of=64), k.integer("s", 8, multiple_of=8)
    with k.loop(k.integer("n", 3), k.at(base, k.arange(32))) as loop:
        (p,) = loop.values
        loop.next = [k.addptr(p, k.spread(step, (32,)))]
    infos = analyze(k.kernel)
    assert infos[p].contiguity == (32,) and infos[p].divisibility == (32,)
    assert infos[loop.index].divisibility == (1,)


def test_neighbours_share_a_quotient_by_a_multiple_of_their_number() -> None:
    """448 = 7 * 64: no run of 64 that begins at a multiple of 64 has a multiple of 448 inside."""
    k = Sketch()
    r = k.arange(128)
    quotient, rest = k.udiv(r, k.full(448, I32, 128)), k.urem(r, k.full(448, I32, 128))
    signed = k.sdiv(r, k.full(448, I32, 128))
    below = k.sdiv(k.sub(r, k.full(64, I32, 128)), k.full(448, I32, 128))
    infos = analyze(k.kernel)
    assert infos[quotient].constancy == infos[rest].contiguity == (64,)
    assert infos[signed].constancy == (64,)  # no number is negative
    assert infos[below].constancy == (1,)
    check_all(k)


def test_neighbours_share_what_is_above_their_lowest_bits() -> None:
    """Shifted, masked and repeated, whatever the sign: quotients are rounded down."""
    k = Sketch()
    r = k.arange(64, -32)
    page, row = k.ashr(r, k.full(4, I32, 64)), getattr(k, "and")(r, k.full(15, I32, 64))
    one = k.spread(k.arange(4), (4, 16), 0)
    repeated = k.emit("reshape", one, type=make(I32, (64,))).result
    infos = analyze(k.kernel)
    assert infos[page].constancy == infos[repeated].constancy == infos[row].contiguity == (16,)
    assert infos[row].divisibility == (16,)
    check_all(k)


def test_traps() -> None:
    """Runs across zero, divided; a choice between two runs; numbers that wrap."""
    k = Sketch()
    around, up = k.arange(16, -8), k.arange(16)
    four = k.full(4, I32, 16)
    k.sdiv(around, four)
    k.srem(around, four)
    k.select(k.icmp(up, k.full(5, I32, 16), predicate="eq"), up, k.arange(16, 16))
    k.add(k.full(100, I8, 16), k.full(100, I8, 16))
    k.mul(k.full(100, I8, 16), k.full(100, I8, 16))
    k.zext(k.full(-1, I8, 16), type=make(I32, (16,)))
    k.truncate(k.full(257, I32, 16), type=make(I8, (16,)))
    k.sdiv(k.arange(48, -24), k.full(6, I32, 48))
    check_all(k)
