"""Affine forms and masks against the numbers themselves, for random expressions in a loop."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch import Sketch

from tritonc.analysis.affine import Affine, Affinity, Iteration
from tritonc.analysis.linear import Linear, emit, equal, number, symbol
from tritonc.interp import arrays
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.ops import OPS
from tritonc.ir.types import F32, I32, I64, Pointer, element, is_int, is_pointer, make, shape
from tritonc.ir.verify import verify

SHAPES = [(8, 4), (4, 16), (1, 8), (5, 3)]
Values = dict[Value, Any]


class Loop:
    """A kernel with one loop, random arithmetic before and in it, and random steps of its phis."""

    def __init__(self, random: Random) -> None:
        self.random, self.k = random, Sketch()
        self.extents = random.choice(SHAPES)
        k = self.k
        self.scalars = [k.integer(name, random.randint(-5, 9)) for name in ("m", "n")]
        self.base = k.pointer("p", F32, 4096)
        count = k.integer("count", 3)
        self.scalars += [k.get_program_id(axis=0), k.number(random.randint(-3, 6))]
        self.tiles = [k.spread(k.arange(n, random.randint(-2, 2)), self.extents, axis)
                      for axis, n in enumerate(self.extents)]
        self.pointers = [k.spread(self.base, self.extents)]
        self.predicates: list[Value] = []
        for _ in range(random.randint(0, 4)):
            self.step()
        start = [random.choice(self.tiles), random.choice(self.pointers),
                 random.choice(self.scalars)]
        with k.loop(count, *start) as loop:
            tile, p, scalar = loop.values
            self.tiles.append(tile)
            self.pointers.append(p)
            self.scalars += [scalar, loop.index]
            for _ in range(random.randint(1, 8)):
                self.step()
            loop.next = [self.stepped(tile), self.stepped(p), self.stepped(scalar)]
        k.emit("ret")
        verify(k.kernel)

    def stepped(self, value: Value) -> Value:
        """The value a step further: mostly by something uniform."""
        k, random = self.k, self.random
        extents = shape(value.type)
        by = k.spread(random.choice(self.scalars), extents)
        if random.randrange(4) == 0 and extents:
            by = random.choice(self.tiles)
        if is_pointer(value.type):
            return k.addptr(value, by)
        kind = random.choice(["add", "add", "sub", "turned", "twice"])
        if kind == "turned":
            return k.add(by, value)
        if kind == "twice":
            return k.add(k.sub(value, k.spread(k.number(1), extents)), by)
        return self.k.build.value(kind, value, by)

    def step(self) -> None:
        k, random = self.k, self.random
        pool = random.choice([self.scalars, self.tiles])
        a, b = random.choice(pool), random.choice(pool)
        kind = random.randrange(9)
        if kind < 4:
            name = random.choice(["add", "sub", "mul", "mul", "urem"])
            if name == "urem":
                b = k.build.constant(3, b.type)
            pool.append(k.build.value(name, a, b))
        elif kind == 4:
            scalar = k.spread(random.choice(self.scalars), self.extents)
            self.tiles.append(k.mul(random.choice(self.tiles), scalar))
        elif kind == 5:
            self.pointers.append(k.addptr(random.choice(self.pointers), random.choice(self.tiles)))
        elif kind == 6:
            t = random.choice(self.tiles)
            flat = k.reshape(t, type=make(I32, (*self.extents[:1], 1, *self.extents[1:])))
            turned = k.trans(flat, permutation=(2, 1, 0))
            k.sext(turned, type=make(I64, turned.type.shape))
        else:
            self.mask()

    def mask(self) -> None:
        k, random = self.k, self.random
        axis = random.randrange(2)
        x = k.add(k.arange(self.extents[axis]),
                  k.spread(random.choice(self.scalars), self.extents[axis : axis + 1]))
        bound = k.spread(random.choice(self.scalars), shape(x.type))
        predicate = random.choice(["slt", "sle", "sgt", "sge", "ult"])
        pair = (x, bound) if random.randrange(2) else (bound, x)
        test = k.spread(k.icmp(*pair, predicate=predicate), self.extents, axis)
        if random.randrange(2):
            test = k.emit("cmpp", test).results[0]
        if self.predicates and random.randrange(2):
            test = k.build.value("and", test, random.choice(self.predicates))
        if random.randrange(4) == 0:
            condition = k.icmp(*random.choices(self.scalars, k=2), predicate="slt")
            test = k.build.value("and", test, k.spread(condition, self.extents))
        self.predicates.append(test)


def execute(ops: list[Op], values: Values) -> None:
    for op in ops:
        if op.name in ("phi", "br", "cond_br", "ret"):
            continue
        if op.name == "get_program_id":
            values[op.result] = np.int32(2)
            continue
        found = arrays.evaluate(OPS[op.name], op, [values[v] for v in op.operands])
        values.update(zip(op.results, found, strict=True))


def number_of(p: Linear, values: Values) -> int:
    """A polynomial evaluated, in integers without bounds."""
    total = 0
    for monomial, n in p.terms:
        for v in monomial:
            n *= int(values[v])
        total += n
    return total


def check(value: Value, form: Affine | None, values: Values) -> None:
    if form is None:
        return
    unit, start = 1, 0
    if form.base is not None:
        e = element(value.type)
        assert isinstance(e, Pointer)
        unit, start = e.element.bytes, int(values[form.base])
    want = number_of(form.offset, values)
    grid = np.indices(shape(value.type)) if shape(value.type) else []
    for axis, stride in enumerate(form.strides):
        want = want + grid[axis] * number_of(stride, values)
    bits = element(value.type).bits
    np.testing.assert_array_equal((start + unit * want) % (1 << min(bits, 62)),
                                  values[value].astype(np.int64) % (1 << min(bits, 62)))


def check_mask(value: Value, affinity: Affinity, values: Values) -> None:
    extents = shape(value.type)
    mask = affinity.mask(value, len(extents))
    if mask is None:
        return
    want = np.ones(extents, np.bool_)
    for bound in mask.bounds:
        index = number_of(bound.start, values) + np.indices(extents)[bound.axis]
        want &= index < number_of(bound.limit, values)
    for condition in mask.conditions:
        want &= bool(values[condition])
    np.testing.assert_array_equal(want, values[value])


def walk(made: Loop) -> dict[str, int]:
    """Execute the kernel turn by turn and check all forms; how many there were."""
    k = made.k
    entry, header, body, _ = k.kernel.blocks
    (loop,) = Cfg(k.kernel).loops
    iteration = Iteration(loop)
    inside, outside = Affinity(iteration), Affinity()
    values: Values = {p: register_dtype(element(p.type)).type(a if np.ndim(a) == 0 else 0)
                      for p, a in zip(k.kernel.parameters, k.arguments, strict=True)}
    forms = {"forms": 0, "bounds": 0}
    with np.errstate(all="ignore"):
        execute(entry.ops, values)
        for op in entry.ops:
            for result in op.results:
                if is_int(result.type) or is_pointer(result.type):
                    check(result, outside.of(result), values)
        came: Block = entry
        for turn in range(3):
            values[iteration.counter] = turn
            now = [values[phi.operands[phi.blocks.index(came)]] for phi in header.phis()]
            values.update(zip([phi.result for phi in header.phis()], now, strict=True))
            execute(header.ops, values)
            execute(body.ops, values)
            came = body
            for op in [*entry.ops, *header.ops, *body.ops]:
                for result in op.results:
                    if is_int(result.type) or is_pointer(result.type):
                        check(result, inside.of(result), values)
                        forms["forms"] += inside.of(result) is not None
            for predicate in made.predicates:
                check_mask(predicate, inside, values)
                forms["bounds"] += inside.mask(predicate, 2) is not None
    return forms


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_forms_hold(random: Random) -> None:
    walk(Loop(random))


def test_there_are_forms_to_check() -> None:
    found = [walk(Loop(Random(seed))) for seed in range(40)]
    assert sum(f["forms"] for f in found) > 2000 and sum(f["bounds"] for f in found) > 20


def test_a_moving_tile() -> None:
    """base + rows * stride + columns, moved by a step in each iteration."""
    k = Sketch()
    base, stride, step = k.pointer("p", F32, [0.0]), k.integer("lda", 9), k.integer("step", 2)
    p = k.rows(base, k.arange(8), stride, k.arange(4))
    with k.loop(k.integer("n", 3), p) as loop:
        (q,) = loop.values
        loop.next = [k.addptr(q, k.spread(step, (8, 4)))]
    k.emit("ret")
    iteration = Iteration(Cfg(k.kernel).loops[0])
    form = Affinity(iteration).of(q)
    assert form is not None and form.base is base
    assert form.strides == (symbol(stride), number(1))
    assert equal(form.offset, symbol(step) * symbol(iteration.counter))


def test_polynomials() -> None:
    a, b = Value(I32, "a"), Value(I32, "b")
    x, y = symbol(a), symbol(b)
    assert equal((x + y) * (x - y), x * x - y * y)
    assert equal(x * y, y * x) and (x - x).constant == 0 and number(7).constant == 7
    assert (x * number(6) + x * y * number(9)).divided(x * number(3)) == number(2) + y * number(3)
    assert (x + number(1)).divided(x) is None and (x * number(3)).divided(number(2)) is None
    rest_factor = (x * y + y * number(2) + number(5)).split(a)
    assert rest_factor == (y * number(2) + number(5), y)
    assert (x * x).split(a) is None


def test_polynomials_as_operations() -> None:
    a, b = Value(I32, "a"), Value(I64, "b")
    polynomial = symbol(a) * symbol(b) * number(3) - symbol(a) + number(4)
    for t, dtype in ((I32, np.int32), (I64, np.int64)):
        block = Block("b")
        found = emit(Builder(block), polynomial, t)
        values: Values = {a: np.int32(-7), b: np.int64(11)}
        execute(block.ops, values)
        assert values[found] == -7 * 11 * 3 + 7 + 4 and values[found].dtype == dtype
