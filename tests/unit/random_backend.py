"""Random kernels for the backend: tiles of all shapes, loads, stores, reductions, dots, loops.

Numbers are integers, or floats that hold small ones, so that every order of summing is exact.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from sketch import Program, Sketch

from tritonc.ir.core import Value
from tritonc.ir.types import F16, F32, I1, I32, Tile, element, make, shape

SIZE = 4096  # elements of each buffer
POWERS = (1, 2, 4, 8, 16, 32, 64)
ODD = (3, 5, 6, 12, 24, 48)
REDUCTIONS = ("add", "mul", "smin", "smax", "umin", "umax", "and", "or", "xor")


class RandomKernel:
    """`random` decides everything; `odd`: extents need not be powers of two."""

    def __init__(self, random: Random, odd: bool = False) -> None:
        self.random, self.odd = random, odd
        self.k = k = Sketch("random", random.choice([1, 2, 4, 8]))
        generator = np.random.default_rng(random.randrange(1 << 30))
        alone = {"no_alias": True, "multiple_of": random.choice([4, 16])}
        self.x = k.pointer("x", I32, generator.integers(-99, 99, SIZE), **alone)
        self.y = k.pointer("y", I32, generator.integers(0, SIZE, SIZE),
                           **(alone if random.randrange(2) else {}))
        self.out = k.pointer("out", I32, np.zeros(1 << 16), **alone)
        self.counts = k.pointer("counts", I32, np.zeros(64))
        self.scalars = [k.integer("n", random.choice([0, 1, 2, 3])),
                        k.integer("m", 8 * random.randrange(20), multiple_of=8),
                        k.get_program_id(axis=0)]
        self.used = 0  # elements of `out` that have been stored
        self.tiles: list[Value] = []
        for _ in range(3):
            self.tiles.append(self.load(self.extents()))
        k.grid = (random.choice([1, 2]),)

    def extents(self) -> tuple[int, ...]:
        """A shape of at most SIZE / 2 elements."""
        choices = POWERS + ODD if self.odd else POWERS
        while True:
            found = tuple(self.random.choice(choices) for _ in range(self.random.choice([1, 2, 2,
                                                                                         3])))
            if np.prod(found) <= SIZE // 2:
                return found

    def program(self, steps: int) -> Program:
        for _ in range(steps):
            self.step()
        for value in self.random.sample(self.tiles, min(3, len(self.tiles))):
            self.store(value)
        return self.k.done()

    def pick(self, *ranks: int) -> Value:
        """An i32 tile, of one of the ranks if there is one."""
        chosen = [v for v in self.tiles if not ranks or len(shape(v.type)) in ranks]
        return self.random.choice(chosen or self.tiles)

    def step(self) -> None:
        kinds = [self.elementwise] * 4 + [
            self.reduction, self.reduction, self.transposition, self.reshape, self.scan, self.dot,
            self.broadcast, self.table, self.masked_load, self.atomic, self.loop, self.in_place,
            self.store_one, self.branch, self.exchange]
        found = self.random.choice(kinds)()
        if found is not None and shape(found.type):
            self.tiles.append(found)

    # ---- memory

    def index(self, extents: tuple[int, ...]) -> Value:
        """Row-major numbers of a tile, axis by axis or from one range."""
        k = self.k
        if self.random.randrange(3) == 0:
            flat = k.arange(int(np.prod(extents)))
            return k.reshape(flat, type=make(I32, extents)) if len(extents) > 1 else flat
        total = None
        for axis, n in enumerate(extents):
            along = k.spread(k.arange(n), extents, axis)
            step = k.full(int(np.prod(extents[axis + 1 :])), I32, *extents)
            part = k.mul(along, step)
            total = part if total is None else k.add(total, part)
        assert total is not None
        return total

    def load(self, extents: tuple[int, ...]) -> Value:
        k = self.k
        shift = self.random.choice([0, 0, 1, 4, 16])
        at = k.add(self.index(extents), k.full(shift, I32, *extents))
        return k.load(k.at(self.random.choice([self.x, self.y]), at))

    def masked_load(self) -> Value:
        k, extents = self.k, self.extents()
        axis = self.random.randrange(len(extents))
        bound = self.random.choice([*self.scalars, k.number(self.random.randrange(9))])
        mask = k.spread(k.less(k.arange(extents[axis]), bound), extents, axis)
        p = k.at(self.x, self.index(extents))
        if self.random.randrange(2):
            return k.load_or_zero(p, mask)
        return k.load(p, mask, other=self.random.choice([0, 7]))

    def bounded(self, value: Value, bound: int) -> Value:
        """The value modulo a power of two: small, not negative."""
        return self.k.build.value("and", value, self.k.full(bound - 1, I32, *shape(value.type)))

    def table(self) -> Value:
        source = self.pick()
        return self.k.load(self.k.at(self.x, self.bounded(source, SIZE)))

    def store(self, value: Value) -> None:
        """To the next elements of `out`, each instance to its own half."""
        k, extents = self.k, shape(value.type)
        size = int(np.prod(extents))
        if self.used + size > 1 << 15:
            return
        first = k.add(k.mul(self.scalars[2], k.number(1 << 15)), k.number(self.used))
        at = k.add(self.index(extents), k.spread(first, extents))
        self.used += size
        guard = None
        if self.random.randrange(3) == 0:
            guard = self.predicate(value)
        k.store(k.at(self.out, at), value, guard)

    def store_one(self) -> None:
        self.store(self.pick())

    def in_place(self) -> Value | None:
        """Store to a place and load it back in another arrangement, once at most."""
        k = self.k
        value = self.pick(2)
        extents = shape(value.type)
        if len(extents) != 2 or self.used + value.type.size > 1 << 15:
            return None
        first = k.add(k.mul(self.scalars[2], k.number(1 << 15)), k.number(self.used))
        self.used += value.type.size
        base = k.addptr(self.out, first)
        k.store(k.rows(base, k.arange(extents[0]), extents[1], k.arange(extents[1])), value)
        turned = k.add(k.spread(k.arange(extents[0]), extents[::-1], 1),
                       k.spread(k.mul(k.arange(extents[1]), k.full(extents[0], I32, extents[1])),
                                extents[::-1], 0))
        return k.load(k.at(base, turned))

    def atomic(self) -> None:
        source = self.pick()
        at = self.bounded(source, 64)
        kind = "add"
        value = self.k.full(self.random.choice([1, 3]), I32, *shape(source.type))
        guard = self.predicate(source) if self.random.randrange(2) else None
        self.k.emit("atomic_rmw", self.k.at(self.counts, at), value, kind=kind, guard=guard)

    # ---- values

    def like(self, value: Value) -> Value:
        """Another tile of the same shape, or one made so."""
        same = [v for v in self.tiles if shape(v.type) == shape(value.type)]
        if len(same) > 1 or self.random.randrange(3) == 0:
            return self.random.choice(same)
        if self.random.randrange(2) or np.prod(shape(value.type)) > SIZE // 2:
            return self.k.spread(self.random.choice(self.scalars), shape(value.type))
        return self.load(shape(value.type))

    def predicate(self, value: Value) -> Value:
        return self.k.icmp(value, self.like(value), predicate=self.random.choice(
            ["slt", "sge", "eq", "ne", "ult"]))

    def elementwise(self) -> Value:
        a = self.pick()
        b = self.like(a)
        kind = self.random.randrange(4)
        if kind == 0:
            return self.k.select(self.predicate(a), a, b)
        if kind == 1:
            yes, no = self.k.emit("cmpp", self.predicate(a)).results
            return self.k.psi(yes, a, no, b)
        name = self.random.choice(["add", "sub", "mul", "xor", "smin", "umax", "and", "or"])
        return self.k.build.value(name, a, b)

    def reduction(self) -> Value:
        a = self.pick(1, 2, 3)
        rank = len(shape(a.type))
        axes = tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))
        found = self.k.reduce(a, kind=self.random.choice(REDUCTIONS), axes=axes)
        if not shape(found.type):
            return self.k.spread(found, self.extents())
        return found

    def scan(self) -> Value:
        a = self.pick()
        return self.k.scan(a, kind=self.random.choice(["add", "smax", "xor"]),
                           axis=self.random.randrange(len(shape(a.type))))

    def transposition(self) -> Value:
        a = self.pick(2, 3)
        order = list(range(len(shape(a.type))))
        self.random.shuffle(order)
        return self.k.trans(a, permutation=tuple(order))

    def reshape(self) -> Value:
        a = self.pick()
        left, extents = int(np.prod(shape(a.type))), []
        while left > 1 and len(extents) < 2:
            n = self.random.choice([d for d in range(1, left + 1) if left % d == 0])
            extents.append(n)
            left //= n
        extents.append(left)
        return self.k.reshape(a, type=make(I32, tuple(extents)))

    def broadcast(self) -> Value | None:
        a = self.pick(1)
        if len(shape(a.type)) != 1:
            return None
        n = self.random.choice([2, 8, 16])
        if self.random.randrange(2):
            return self.k.spread(a, (n, *shape(a.type)))
        return self.k.spread(a, (*shape(a.type), n), 0)

    def dot(self) -> Value | None:
        """Of small floats or halves, or of integers."""
        k = self.k
        a = self.pick(2)
        if len(shape(a.type)) != 2:
            return None
        m, depth = shape(a.type)
        columns = self.random.choice([1, 8, 16, 32])
        if depth * columns > SIZE // 2 or m * columns > SIZE:
            return None
        b = self.load((depth, columns))
        return self.product(a, b, k.full(0, I32, m, columns))

    def product(self, a: Value, b: Value, c: Value) -> Value:
        k, e = self.k, self.random.choice([F32, F16, I32])
        if e == I32:
            return k.dot(a, b, c)
        left, right = (k.sitofp(self.bounded(v, 8), type=_with(v, e)) for v in (a, b))
        start = k.sitofp(self.bounded(c, 8), type=_with(c, F32))
        return k.fptosi(k.dot(left, right, start), type=_with(c, I32))

    def condition(self) -> Value:
        """A scalar, the same in all threads."""
        k = self.k
        a = k.reduce(self.pick(1), kind="xor", axes=(0,)) if self.random.randrange(2) else None
        a = self.random.choice(self.scalars) if a is None or shape(a.type) else a
        return k.icmp(a, k.number(self.random.randrange(4)), predicate="sgt")

    def branch(self) -> Value:
        """A tile that is changed if a condition holds, and a store that is then made."""
        k = self.k
        a = self.pick()
        outer = list(self.tiles)
        with k.branch(self.condition(), a) as branch:
            for _ in range(self.random.randint(1, 3)):
                self.step()
            branch.next = [k.add(a, self.like(a))]
        self.tiles = outer
        return branch.values[0]

    def exchange(self) -> Value:
        """A loop that swaps two tiles, one of them changed, around another loop or a branch."""
        k = self.k
        a = self.pick()
        b = self.like(a)
        outer = list(self.tiles)
        with k.loop(self.random.choice([self.scalars[0], k.number(2)]), a, b) as loop:
            x, y = loop.values
            self.tiles = [x, y]
            if self.random.randrange(2):
                self.tiles.append(self.loop())
            else:
                self.step()
            loop.next = [y, k.sub(x, self.like(y))]
        self.tiles = outer
        return loop.values[self.random.randrange(2)]

    def loop(self) -> Value:
        """Carries a tile and a pointer; the body loads, and may multiply or reduce."""
        k, random = self.k, self.random
        extents = self.extents()
        count = random.choice([self.scalars[0], k.number(random.randrange(3))])
        p = k.at(random.choice([self.x, self.y]), self.index(extents))
        step = random.choice([k.full(8, I32, *extents), k.spread(self.scalars[1], extents)])
        square = len(extents) == 2 and extents[0] * extents[0] <= SIZE
        shape_of_total = (extents[0], extents[0]) if square else extents
        start = k.full(random.choice([0, 5]), I32, *shape_of_total)
        outer = list(self.tiles)
        with k.loop(count, start, p) as loop:
            total, q = loop.values
            v = k.load(q)
            if square:
                right = k.trans(k.load(q), permutation=(1, 0))
                total = self.product(v, right, total)
            else:
                total = k.add(total, v)
            if random.randrange(2):
                self.tiles = [v, total]
                self.elementwise()
                if random.randrange(2):
                    total = k.xor(total, k.scan(total, kind="add", axis=0))
            loop.next = [total, k.addptr(q, step)]
        self.tiles = outer
        return loop.values[0]


def _with(value: Value, e: Any) -> Any:
    t = value.type
    assert isinstance(t, Tile) and element(t) in (I32, I1, F32, F16)
    return Tile(e, t.shape)
