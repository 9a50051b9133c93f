"""Random kernels of Triton-IR for tests: scalars and tiles, branches, loops, memory, guards."""

from __future__ import annotations

import random
from typing import Any

from tritonc.ir.build import Builder
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.types import F32, I1, I8, I32, I64, Pointer, Tile, Type

N = 4
_INT2 = ("add", "sub", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")
_FLOAT2 = ("fadd", "fsub", "fmul", "fmin", "fmax")
_NUMBERS = (0, 1, -1, 2, 3, 4, 8, 32, -7, 100, (1 << 31) - 1, -(1 << 31))


class RandomKernel:
    """Grows a kernel; `pool` holds the values that may be used at the place of growth."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        types: list[tuple[str, Type]] = [
            ("pi", Pointer(I32)), ("pf", Pointer(F32)), ("out0", Pointer(I32)),
            ("out1", Pointer(F32)), ("x", I32), ("y", I32), ("s", F32), ("u", I1), ("w", I64)]
        self.parameters = [Value(t, name) for name, t in types]
        named = {v.name: v for v in self.parameters}
        self.entry = Block("entry")
        self.blocks = [self.entry]
        self.build = Builder(self.entry)
        self.pool: list[Value] = [named[n] for n in ("x", "y", "s", "u", "w")]
        self.lanes = self.build.value("range", start=0, stop=N)
        self.pool.append(self.lanes)
        self.outs = {}
        self.counters: list[Value] = []  # of the loops around
        for name in ("pi", "pf", "out0", "out1"):
            t = named[name].type
            base = self.build.value("splat", named[name], type=Tile(t, (N,)))
            pointers = self.build.value("addptr", base, self.lanes)
            if name.startswith("out"):
                self.outs[t.element] = pointers
            else:
                self.pool.append(pointers)
                self.pool.append(self.build.value("load", pointers))
        self.budget = self.rng.randint(8, 40)
        self.statements(0)
        for t in (Tile(I32, (N,)), Tile(F32, (N,))):
            for value in [v for v in self.pool if v.type == t][-3:]:
                self.store(value)
        for value in [v for v in self.pool if v.type == I32][-3:]:
            self.store(self.build.value("splat", value, type=Tile(I32, (N,))))
        self.build.emit("ret")
        self.kernel = Kernel("k", self.parameters, [ParameterInfo() for _ in types], self.blocks)

    def store(self, value: Value, guard: Value | None = None) -> None:
        """A store to the next place of the output, which is the following tile."""
        pointers = self.outs[value.type.element]
        self.build.emit("store", pointers, value, guard=guard)
        step = self.build.constant(N, Tile(I32, (N,)))
        self.outs[value.type.element] = self.build.value("addptr", pointers, step)

    def block(self, name: str) -> Block:
        block = Block(f"{name}{len(self.blocks)}")
        self.blocks.append(block)
        return block

    def pick(self, t: Type) -> Value:
        found = [v for v in self.pool if v.type == t]
        if not found or (self.rng.random() < 0.2 and not isinstance(getattr(t, "element", t),
                                                                    Pointer)):
            return self.number(t)
        return self.rng.choice(found[-8:])

    def number(self, t: Type) -> Value:
        e = getattr(t, "element", t)
        if e == F32:
            return self.build.constant(self.rng.choice((0.0, -0.0, 1.0, -1.0, 0.5, 3.0)), t)
        if e == I1:
            return self.build.constant(self.rng.random() < 0.5, t)
        number = self.rng.choice(_NUMBERS)
        return self.build.constant(number % 100 if e == I8 else number, t)

    def add(self, value: Value) -> Value:
        self.pool.append(value)
        return value

    def type(self, *elements: Any) -> Type:
        e = self.rng.choice(elements)
        return self.rng.choice((e, Tile(e, (N,))))

    # statements

    def statements(self, depth: int) -> None:
        for _ in range(self.rng.choice((0, 1, 2, 3, 5, 8) if depth else (6, 9))):
            if self.budget <= 0:
                return
            self.budget -= 1
            choice = self.rng.random()
            if choice < 0.15 and depth < 3:
                self.branch(depth)
            elif choice < 0.35 and depth < 3:
                self.loop(depth)
            elif choice < 0.47:
                self.memory()
            else:
                self.expression()

    def expression(self) -> None:
        rng, value = self.rng, self.build.value
        kind = rng.randrange(13)
        if kind < 3:
            t = self.type(I32, I32, I64)
            self.add(value(rng.choice(_INT2), self.pick(t), self.pick(t)))
        elif kind == 3:
            t = self.type(F32)
            self.add(value(rng.choice(_FLOAT2), self.pick(t), self.pick(t)))
        elif kind == 4:
            t = self.type(I32)
            predicate = rng.choice(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"))
            self.add(value("icmp", self.pick(t), self.pick(t), predicate=predicate))
        elif kind == 5:
            t = self.type(I32, F32, I1, I64)
            condition = Tile(I1, (N,)) if isinstance(t, Tile) else I1
            self.add(value("select", self.pick(condition), self.pick(t), self.pick(t)))
        elif kind == 6:
            e = rng.choice((I32, F32, I1))
            self.add(value("splat", self.pick(e), type=Tile(e, (N,))))
        elif kind == 7:
            t = self.type(I1)
            self.add(value(rng.choice(("and", "or", "xor")), self.pick(t), self.pick(t)))
        elif kind == 8:
            t = self.type(I32)
            wide = Tile(I64, (N,)) if isinstance(t, Tile) else I64
            extended = value(rng.choice(("sext", "zext")), self.pick(t), type=wide)
            self.add(extended)
            self.add(value("truncate", extended, type=t))
        elif kind == 9:
            divisor = self.build.constant(rng.choice((1, 2, 3, 8, 32, -1, -4)), I32)
            name = rng.choice(("sdiv", "srem", "udiv", "urem"))
            self.add(value(name, self.pick(I32), divisor))
        elif kind == 10:
            t = self.type(I32)
            self.add(value(rng.choice(("shl", "lshr", "ashr")), self.pick(t),
                           self.build.constant(rng.choice((0, 1, 3, 31)), t)))
        elif kind == 11:
            tile = self.pick(Tile(rng.choice((I32, F32)), (N,)))
            square = value("reshape", tile, type=Tile(tile.type.element, (2, 2)))
            turned = value("trans", square, permutation=[1, 0])
            self.add(value("reshape", turned, type=tile.type))
        else:
            tile = self.pick(Tile(I32, (N,)))
            column = value("reshape", tile, type=Tile(I32, (N, 1)))
            wide = value("broadcast", column, type=Tile(I32, (N, 3)))
            more = value("add", wide, value("splat", self.pick(I32), type=wide.type))
            self.add(value("reduce", more, kind=rng.choice(("add", "smax", "xor")), axes=[1]))

    def memory(self) -> None:
        rng, value = self.rng, self.build.value
        mask = self.pick(Tile(I1, (N,)))
        if rng.random() < 0.4:
            self.store(self.pick(Tile(I32, (N,))), mask if rng.random() < 0.5 else None)
            return
        e = rng.choice((I32, F32))
        pointers = self.pick(Tile(Pointer(e), (N,)))
        moved = value("addptr", pointers, self.small_index(wide=True))
        if rng.random() < 0.3:
            column = value("reshape", moved, type=Tile(Pointer(e), (N, 1)))
            row = value("reshape", self.small_index(), type=Tile(I32, (1, N)))
            square = value("addptr", value("broadcast", column, type=Tile(Pointer(e), (N, N))),
                           value("broadcast", row, type=Tile(I32, (N, N))))
            self.add(value("reduce", value("load", square), axes=[1],
                           kind="smax" if e == I32 else "fmax"))
            return
        if rng.random() < 0.5:
            self.add(value("load", moved))
            return
        yes, no = self.build.emit("cmpp", mask).results
        loaded = value("load", moved, guard=yes)
        self.add(value("psi", yes, loaded, no, self.pick(Tile(e, (N,)))))

    def small_index(self, wide: bool = False) -> Value:
        """A tile of indices from 0 to 63: of anything, or of a loop's counter."""
        rng, value, t = self.rng, self.build.value, Tile(I32, (N,))
        if not self.counters or rng.random() < 0.3:
            return value("and", self.pick(t), self.build.constant(15, t))
        counter = rng.choice(self.counters)
        by = self.build.constant(rng.choice((1, 3, 4, 8)), I32)
        moved = value("splat", value("mul", counter, by), type=t)
        index = value("add", self.lanes, moved)
        if rng.random() < 0.5:
            index = value("mul", index, self.build.constant(2, t))
        if wide and rng.random() < 0.4:
            return value(rng.choice(("sext", "zext")), index, type=Tile(I64, (N,)))
        return index

    def branch(self, depth: int) -> None:
        condition = self.pick(I1)
        start, pool, outs = self.build.block, list(self.pool), dict(self.outs)
        then = self.block("then")
        other = self.block("else") if self.rng.random() < 0.5 else None
        types = [self.type(I32, F32, I1) for _ in range(self.rng.randint(0, 2))]
        ends = []
        for first in (then, other):
            self.pool = list(pool)
            if first is None:
                self.build.block = start
                ends.append((start, [self.pick(t) for t in types]))
                continue
            self.build.block = first
            self.statements(depth + 1)
            ends.append((self.build.block, [self.pick(t) for t in types]))
            self.outs = dict(outs)
        join = self.block("join")
        for end, _ in ends:
            if end is not start:
                end.ops.append(Op("br", [], blocks=[join]))
        start.ops.append(Op("cond_br", [condition], blocks=[then, other or join]))
        self.pool = list(pool)
        for i, t in enumerate(types):
            join.ops.append(Op("phi", [values[i] for _, values in ends], None, (t,),
                               blocks=[end for end, _ in ends]))
            self.pool.append(join.ops[-1].result)
        self.build.block = join

    def loop(self, depth: int) -> None:
        rng = self.rng
        trips = self.build.constant(rng.randint(0, 3), I32)
        start = self.build.constant(0, I32)
        step = self.build.constant(1, I32)
        carried = [self.pick(self.type(I32, F32)) for _ in range(rng.randint(0, 2))]
        carried += [self.pick(Tile(Pointer(rng.choice((I32, F32))), (N,)))]
        before, outs, pool = self.build.block, dict(self.outs), list(self.pool)
        head, body = self.block("head"), self.block("body")
        before.ops.append(Op("br", [], blocks=[head]))
        phis = [Op("phi", [v], None, (v.type,), blocks=[before]) for v in [start, *carried]]
        head.ops.extend(phis)
        self.build.block = head
        counter = phis[0].result
        more = self.build.value("icmp", counter, trips, predicate="slt")
        inside = [*pool, *(phi.result for phi in phis)]
        self.pool = list(inside)
        self.build.block = body
        self.counters.append(counter)
        self.statements(depth + 1)
        self.counters.pop()
        nexts = [self.build.value("add", counter, step)]
        for phi in phis[1:]:
            nexts.append(self.next_of(phi.result))
        latch = self.build.block
        latch.ops.append(Op("br", [], blocks=[head]))
        for phi, value in zip(phis, nexts, strict=True):
            phi.operands.append(value)
            phi.blocks.append(latch)
        after = self.block("after")
        head.ops.append(Op("cond_br", [more], blocks=[body, after]))
        self.build.block = after
        self.pool, self.outs = inside, outs

    def next_of(self, value: Value) -> Value:
        """What a carried value is in the next iteration: often itself, moved by a number."""
        t = value.type
        if not isinstance(getattr(t, "element", t), Pointer):
            if self.rng.random() < 0.5 and isinstance(t, Tile) and t.element == I32:
                moved = self.build.value("splat", self.pick(I32), type=t)
                return self.build.value(self.rng.choice(("add", "sub")), value, moved)
            return self.pick(t)
        for _ in range(self.rng.randint(0, 2)):
            step = self.build.value("and", self.pick(I32), self.build.constant(3, I32))
            moved = self.build.value("splat", step, type=Tile(I32, (N,)))
            value = self.build.value("addptr", value, moved)
        return value
