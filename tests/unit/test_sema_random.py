"""Random structured programs against a direct evaluation of their statements.

The program and its reference come out of one generator: each statement is its text, and a
function that executes it on a dictionary of NumPy arrays under a mask.  There are scalars and tiles
of 32-bit integers, tile predicates, nested scalar and tile ifs, loops with break and continue, and
inner declarations.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sema_programs import execute

Values = dict[str, Any]
Expression = tuple[str, Callable[[Values], Any]]
Statement = tuple[str, Callable[[Values, Any], None]]  # the second argument is the mask
SCALARS, TILES = ("a", "b", "c"), ("x", "y", "z")


class Jump(Exception):
    """break or continue."""


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fresh = 0

    def expression(self, tile: bool, depth: int = 2) -> Expression:
        if depth == 0 or self.random.random() < 0.3:
            if self.random.random() < 0.3:
                number = self.random.randint(-5, 5)
                return str(number), lambda v: np.int32(number)
            name = self.random.choice(TILES + SCALARS if tile else SCALARS)
            return name, lambda v: v[name]
        left, right = self.expression(tile, depth - 1), self.expression(tile, depth - 1)
        if self.random.random() < 0.2:
            condition = self.condition(tile and self.random.random() < 0.7, depth - 1)
            return (f"({condition[0]} ? {left[0]} : {right[0]})",
                    lambda v: np.where(condition[1](v), left[1](v), right[1](v)))
        operator = self.random.choice("+-*")
        functions = {"+": np.add, "-": np.subtract, "*": np.multiply}
        return (f"({left[0]} {operator} {right[0]})",
                lambda v: functions[operator](left[1](v), right[1](v), dtype=np.int32))

    def condition(self, tile: bool, depth: int = 1) -> Expression:
        if depth and self.random.random() < 0.3:
            left, right = self.condition(tile, 0), self.condition(tile, 0)
            operator = self.random.choice(["&&", "||"])
            combine = np.logical_and if operator == "&&" else np.logical_or
            return (f"({left[0]} {operator} {right[0]})",
                    lambda v: combine(left[1](v), right[1](v)))
        left, right = self.expression(tile, depth), self.expression(tile, depth)
        if tile and self.random.random() < 0.8:
            name = self.random.choice(TILES)
            left = name, lambda v: v[name]
        return f"({left[0]} < {right[0]})", lambda v: left[1](v) < right[1](v)

    def assignment(self, masked: bool) -> Statement:
        tile = masked or self.random.random() < 0.6
        name = self.random.choice(TILES if tile else SCALARS)
        value = self.expression(tile)
        if not tile:
            def set_scalar(v: Values, mask: Any) -> None:
                v[name] = np.int32(value[1](v))
            return f"{name} = {value[0]};", set_scalar

        def set_tile(v: Values, mask: Any) -> None:
            v[name] = np.where(mask, value[1](v), v[name]).astype(np.int32)
        return f"{name} = {value[0]};", set_tile

    def block(self, depth: int, masked: bool, loop: bool) -> Statement:
        parts = [self.statement(depth, masked, loop) for _ in range(self.random.randint(1, 4))]

        def run(v: Values, mask: Any) -> None:
            for _, execute_part in parts:
                execute_part(v, mask)
        return "{ " + " ".join(text for text, _ in parts) + " }", run

    def statement(self, depth: int, masked: bool, loop: bool) -> Statement:
        kind = self.random.random()
        if depth == 0 or kind < 0.35:
            return self.assignment(masked)
        if kind < 0.55:
            return self.tile_if(depth, loop)
        if kind < 0.7:
            return self.scalar_if(depth, masked, loop)
        if kind < 0.8:
            return self.inner(depth, masked, loop)
        if kind < 0.92:
            return self.loop(depth, masked)
        if loop and not masked:
            word = self.random.choice(["break", "continue"])
            condition = self.condition(False)

            def jump(v: Values, mask: Any) -> None:
                if condition[1](v):
                    raise Jump(word)
            return f"if ({condition[0]}) {word};", jump
        return self.assignment(masked)

    def tile_if(self, depth: int, loop: bool) -> Statement:
        condition = self.condition(True)
        condition = f"(x - x < 1 && {condition[0]})", condition[1]  # a tile in any case
        then = self.block(depth - 1, True, loop)
        orelse = self.block(depth - 1, True, loop) if self.random.random() < 0.5 else None

        def run(v: Values, mask: Any) -> None:
            holds = np.broadcast_to(condition[1](v), (4,))
            then[1](v, mask & holds)
            if orelse:
                orelse[1](v, mask & ~holds)
        if orelse is None and self.random.random() < 0.5:
            return f"@{condition[0]} {then[0]}", run
        tail = f" else {orelse[0]}" if orelse else ""
        return f"if ({condition[0]}) {then[0]}{tail}", run

    def scalar_if(self, depth: int, masked: bool, loop: bool) -> Statement:
        condition = self.condition(False)
        then, orelse = (self.block(depth - 1, masked, loop) for _ in range(2))

        def run(v: Values, mask: Any) -> None:
            (then if condition[1](v) else orelse)[1](v, mask)
        return f"if ({condition[0]}) {then[0]} else {orelse[0]}", run

    def inner(self, depth: int, masked: bool, loop: bool) -> Statement:
        """A block with a variable that hides one from outside."""
        name = self.random.choice(TILES + SCALARS)
        tile = name in TILES
        value = self.expression(tile)
        body = self.block(depth - 1, masked, loop) if tile or not masked else None
        if body is None:
            return self.assignment(masked)
        self.fresh += 1

        def run(v: Values, mask: Any) -> None:
            old = v[name]
            v[name] = np.broadcast_to(value[1](v), old.shape).astype(np.int32)
            try:
                body[1](v, mask)
            finally:
                v[name] = old
        # The initialiser stands in a variable of its own: a name hides itself in C.
        extents = "[4]" if tile else ""
        return (f"{{ int t{self.fresh}{extents} = {value[0]}; int {name}{extents} = "
                f"t{self.fresh}; {body[0]} }}"), run

    def loop(self, depth: int, masked: bool) -> Statement:
        count = self.random.randint(0, 3)
        self.fresh += 1
        counter = f"i{self.fresh}"
        body = self.block(depth - 1, masked, not masked)

        def run(v: Values, mask: Any) -> None:
            for _ in range(count):
                try:
                    body[1](v, mask)
                except Jump as jump:
                    if jump.args == ("break",):
                        break
        return f"for (int {counter} = 0; {counter} < {count}; {counter}++) {body[0]}", run


@pytest.mark.parametrize("seed", range(40))
def test_random_program(seed: int) -> None:
    generator = Generator(seed)
    text, reference = generator.block(4, False, False)
    rng = np.random.default_rng(seed)
    tiles = rng.integers(-9, 9, (3, 4)).astype(np.int32)
    scalars = rng.integers(-9, 9, 3).astype(np.int32)
    source = f"""kernel void k(int* p, int a, int b, int c) {{
      int r[4] = 0 ... 4;
      int x[4] = *(p + r), y[4] = *(p + 4 + r), z[4] = *(p + 8 + r);
      {text}
      *(p + r) = x; *(p + 4 + r) = y; *(p + 8 + r) = z;
      *(p + 12) = a; *(p + 13) = b; *(p + 14) = c;
    }}"""
    values: Values = dict(zip(TILES, tiles)) | dict(zip(SCALARS, scalars))
    with np.errstate(over="ignore"):
        reference(values, np.ones(4, np.bool_))
    want = np.concatenate([*(values[n] for n in TILES), [values[n] for n in SCALARS]])
    memory = np.concatenate([tiles.reshape(-1), np.zeros(3, np.int32)])
    found = execute(source, memory, *(int(s) for s in scalars))[0]
    np.testing.assert_array_equal(found, want, err_msg=source)
