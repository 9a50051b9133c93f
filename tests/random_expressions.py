"""Random well-defined expressions of Triton-C, of a wanted kind and shape.

What could have no defined value is not made: indices are taken modulo the size of a buffer, no
divisor is 0, counts of shifts are 0 to 31.  Under a tile predicate loads and divisions have a value
where an element is needed, through whatever changes of shape, reductions and products.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Shape = tuple[int, ...]

INTS = ("int", "int", "int", "unsigned int", "long", "unsigned long", "short", "unsigned short",
        "char", "unsigned char")
FLOATS = ("float", "float", "float", "double", "half", "bfloat16")
ROOM = 64  # elements of each input

KINDS = {"ia": "int", "ib": "int", "la": "int", "ca": "int", "ua": "int", "fa": "float",
         "da": "float", "ha": "float", "ba": "float"}
class Variable(NamedTuple):
    name: str
    kind: str  # "int", "float" or "bool"
    shape: Shape
    assignable: bool = True


@dataclass
class Function:
    """A device function that may be called."""

    name: str
    kind: str
    shape: Shape
    parameters: list[tuple[str, Shape]]


@dataclass
class Scope:
    """What the place where text grows can see."""

    variables: list[Variable]
    mask: Variable | None = None  # the tile predicate of the statement
    locals: int = 0  # variables before this one cannot be assigned as scalars under the mask
    loops: int = 0  # that `break` and `continue` may leave
    depth: int = 0
    callee: Function | None = None  # being defined: no stores, `return` gives a value
    repeated: int = 1  # how often the statement may run

    def inner(self, **changed: Any) -> Scope:
        return replace(self, variables=list(self.variables), depth=self.depth + 1, **changed)


class Expressions:
    """Makes expressions.  `m`, `n` and `t` are the extents that tiles of the program have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        few = self.chance(0.7)  # powers of two, mostly
        extents = (1, 2, 4, 8, 16) if few else (1, 2, 3, 4, 5, 6, 8, 12, 16)
        self.m, self.n = rng.choice(extents), rng.choice(extents)
        lengths = (2, 8, 16, 32, 64, 128, 256) if few else (1, 3, 7, 32, 33, 48, 96, 100, 128)
        self.t = self.m * self.n if self.chance(0.3) else rng.choice(lengths)
        self.names = 0
        self.functions: list[Function] = []

    # --- names, shapes, literals ---

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def shape(self) -> Shape:
        m, n, t = self.m, self.n, self.t
        return self.rng.choice(((), (), (t,), (t,), (t,), (m,), (n,), (m, n), (m, n), (n, m)))

    def kind(self) -> str:
        return self.rng.choice(("int", "int", "int", "float", "float", "bool"))

    def type_of(self, kind: str) -> str:
        return "bool" if kind == "bool" else self.rng.choice(INTS if kind == "int" else FLOATS)

    def literal(self, kind: str) -> str:
        rng = self.rng
        if kind == "bool":
            return rng.choice(("true", "false"))
        if kind == "float":
            return rng.choice(("0.5f", "1.0f", "-2.0f", "0.0f", "-0.0f", "3.25f", "1.5", "0.1",
                               "100.0f", "7"))
        return rng.choice(("0", "1", "2", "3", "5", "7", "16", "31", "100", "1000", "0x7fffffff",
                           "255", "3u", "1l", "-1", "-7", "(-2147483647 - 1)", "65536"))

    @staticmethod
    def spell(shape: Shape) -> str:
        return f"[{', '.join(map(str, shape))}]" if shape else ""

    def index(self, shape: Shape) -> str:
        """Row-major offsets of a tile's elements."""
        if len(shape) == 2:
            return f"((0 ... {shape[0]})[:, newaxis] * {shape[1]} + (0 ... {shape[1]}))"
        return f"(0 ... {shape[0]})" if shape else "0"

    # --- expressions ---

    def variable(self, scope: Scope, kind: str, shape: Shape) -> str | None:
        found = [v for v in scope.variables if v.kind == kind and v.shape == shape]
        if not found:
            return None
        return self.rng.choice(found[-6:]).name

    def leaf(self, scope: Scope, kind: str, shape: Shape) -> str:
        """An expression of exactly that shape."""
        name = self.variable(scope, kind, shape)
        if name is not None and self.chance(0.85):
            return name
        if not shape:
            return self.literal(kind)
        if self.chance(0.4):
            name = self.variable(scope, kind, ()) or self.literal(kind)
            return f"({self.type_of(kind)}{self.spell(shape)}){name}"
        ramp = self.index(shape)
        if kind == "bool":
            return f"({ramp} % {self.rng.choice((2, 3))} == 0)"
        return ramp if kind == "int" else f"({self.rng.choice(FLOATS)}){ramp}"

    def narrower(self, shape: Shape) -> list[Shape]:
        """Shapes that broadcast to a shape."""
        return [(), shape, shape[-1:]] if len(shape) == 2 else [(), shape]

    def other(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str:
        """An operand that broadcasts to a shape."""
        if len(shape) == 2 and self.chance(0.2):
            return f"({self.expression(scope, kind, shape[:1], depth)})[:, newaxis]"
        return self.expression(scope, kind, self.rng.choice(self.narrower(shape)), depth)

    def expression(self, scope: Scope, kind: str, shape: Shape, depth: int = 3) -> str:
        """An expression of a kind ("int": any integer type, and so on) and of exactly a shape."""
        if depth <= 0 or self.chance(0.12):
            return self.leaf(scope, kind, shape)
        for _ in range(3):
            made = self.shaped(scope, kind, shape, depth) if self.chance(0.2) else None
            if made is not None:
                return made
        if self.chance(0.1):
            return self.choice(scope, kind, shape, depth)
        grow = {"int": self.integer, "float": self.floating, "bool": self.truth}[kind]
        return grow(scope, shape, depth - 1)

    def choice(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str:
        a = self.expression(scope, kind, shape, depth - 1)
        b = self.other(scope, kind, shape, depth - 1)
        if self.chance(0.5):
            a, b = b, a
        condition = self.other(scope, "bool", shape, depth - 1)
        return f"({condition} ? ({a}) : ({b}))"

    def integer(self, scope: Scope, shape: Shape, depth: int) -> str:
        rng = self.rng
        a = self.expression(scope, "int", shape, depth)
        way = rng.randrange(14)
        if way == 13:
            b = self.other(scope, "int", shape, depth)
            return rng.choice((f"popc({a})", f"clz({a})", f"ctz({a})", f"brev({a})",
                               f"rotl({a}, {b})", f"rotr({a}, {b})", f"mulhi({a}, {b})",
                               f"umulhi({a}, {b})", f"funnelshift_l({a}, {a}, {b})",
                               f"(int)randint({rng.randrange(99)}, {a})"))
        if way == 12:
            condition = self.other(scope, "bool", shape, depth)
            return f"select({condition}, {a}, {self.other(scope, 'int', shape, depth)})"
        if way < 4:
            b = self.other(scope, "int", shape, depth)
            if self.chance(0.5):
                a, b = b, a
            return f"(({a}) {rng.choice('+ - * & | ^'.split())} ({b}))"
        if way == 4:
            b = self.other(scope, "int", shape, depth)
            divisor = f"(({b}) & 7) + 1" if self.chance(0.6) else f"({b}) | 1"
            return f"(({a}) {rng.choice('/%')} ({divisor}))"
        if way in (4, 5):
            b = self.other(scope, "int", shape, depth) if self.chance(0.5) else "5"
            return f"(({a}) {rng.choice(('<<', '>>'))} (({b}) & {rng.choice((7, 7, 31))}))"
        if way == 6:
            return f"({rng.choice('-~')}({a}))"
        if way == 7:
            return f"(({self.type_of('int')})({a}))"
        if way == 8:
            b = self.other(scope, "int", shape, depth)
            return f"{rng.choice(('min', 'max'))}({a}, {b})"
        if way == 9:
            return rng.choice((f"abs({a})", f"clamp({a}, -100, 100)"))
        if way == 10:
            b = self.expression(scope, "float", shape, depth)
            if self.chance(0.5):
                b = f"clamp({b}, -1000.0f, 1000.0f)"
            return f"(({self.type_of('int')})({b}))"
        b = self.expression(scope, "bool", shape, depth)
        return f"(({b}) + ({a}))"

    def floating(self, scope: Scope, shape: Shape, depth: int) -> str:
        rng = self.rng
        a = self.expression(scope, "float", shape, depth)
        way = rng.randrange(12)
        if way == 11:
            if self.chance(0.5):
                return f"bitcast<float>((int)({self.expression(scope, 'int', shape, depth)}))"
            return f"((float)({rng.choice(('float8_e4m3', 'float8_e5m2'))})({a}))"
        if way < 4:
            b = self.other(scope, rng.choice(("float", "float", "int")), shape, depth)
            if self.chance(0.5):
                a, b = b, a
            return f"(({a}) {rng.choice('+-*')} ({b}))"
        if way == 4:
            b = self.other(scope, "float", shape, depth)
            return f"(({a}) / (abs({b}) + 1))"
        if way == 5:
            b = self.other(scope, "float", shape, depth)
            return f"{rng.choice(('min', 'max'))}({a}, {b})"
        if way == 6:
            return f"{rng.choice(('abs', 'floor', 'ceil', 'trunc', 'round'))}({a})"
        if way == 7:
            return f"sqrt(abs({a}))" if self.chance(0.5) else f"(-({a}))"
        if way == 8:
            return f"(({self.type_of('float')})({a}))"
        if way == 9:
            b = self.expression(scope, "int", shape, depth)
            return f"(({self.type_of('float')})({b}))"
        b, c = (self.other(scope, "float", shape, depth) for _ in range(2))
        return f"fma({a}, {b}, {c})"

    def truth(self, scope: Scope, shape: Shape, depth: int) -> str:
        rng = self.rng
        way = rng.randrange(8)
        if way < 5:
            kind = rng.choice(("int", "int", "float"))
            a, b = self.expression(scope, kind, shape, depth), self.other(scope, kind, shape, depth)
            return f"(({a}) {rng.choice('< <= > >= == !='.split())} ({b}))"
        a = self.expression(scope, "bool", shape, depth)
        if way == 5:
            return f"({rng.choice('!~')}({a}))"
        operator = rng.choice("&& || & | ^".split())
        return f"(({a}) {operator} ({self.other(scope, 'bool', shape, depth)}))"

    def shaped(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        """What makes a tile of another: reductions, scans, products, shapes, loads, calls."""
        makers: list[Callable[[Scope, str, Shape, int], str | None]] = [
            self.load, self.load, self.call, self.scan, self.moved, self.product, self.cube]
        if shape in ((), (self.m,), (self.n,)):
            makers += [self.reduction] * 4
        return self.rng.choice(makers)(scope, kind, shape, depth - 1)

    def load(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        names = [name for name, found in KINDS.items() if found == kind]
        if not names or scope.callee is not None:
            return None
        at = self.expression(scope, "int", shape, depth)
        if self.chance(0.3):
            return f"{self.rng.choice(names)}[({at}) & {ROOM - 1}]"
        return f"(*({self.rng.choice(names)} + (({at}) & {ROOM - 1})))"

    def call(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        found = [f for f in self.functions if f.kind == kind and f.shape == shape]
        if not found or scope.callee is not None or scope.repeated > 8:
            return None
        function = self.rng.choice(found)
        arguments = [self.expression(scope, kind, shape, depth)
                     for kind, shape in function.parameters]
        return f"{function.name}({', '.join(arguments)})"

    def scan(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        if kind != "int" or not shape:
            return None
        a = self.expression(scope, "int", shape, depth)
        axis = self.rng.randrange(len(shape))
        if self.chance(0.3):
            return f"scan({a}, {axis}, {self.rng.choice(('max', 'min', 'sum'))})"
        if self.chance(0.3):
            n = shape[axis]
            return self.rng.choice((
                f"flip({a}, {axis})", f"sort({a}, {axis}, {self.rng.choice(('true', 'false'))})",
                f"gather({a}, (int)({self.expression(scope, 'int', shape, depth)} & 0xff) % {n}, "
                f"{axis})",
                f"gather(cat({a}, {a}, {axis}), {self.index(shape)} % {2 * n}, {axis})"))
        return f"{self.rng.choice(('cumsum', 'cumprod'))}({a}, {axis})"

    def moved(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        """The elements of another tile in this shape."""
        m, n = self.m, self.n
        if len(shape) == 2:
            if self.chance(0.5):
                turned = self.expression(scope, kind, shape[::-1], depth)
                return f"{self.rng.choice(('trans', '^'))}({turned})"
            if shape[0] * shape[1] == self.t:
                flat = self.expression(scope, kind, (self.t,), depth)
                return f"reshape({flat}, {shape[0]}, {shape[1]})"
            row = self.expression(scope, kind, shape[1:], depth)
            return f"broadcast({row}, {shape[0]}, {shape[1]})"
        if shape == (self.t,) and m * n == self.t and self.t > 1:
            square = self.expression(scope, kind, (m, n), depth)
            return f"reshape({square}, {self.t})"
        return None

    def product(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        """Of small integers, so that every order of additions gives the same."""
        if len(shape) != 2 or kind == "bool":
            return None
        deep = self.rng.choice((self.m, self.n))
        a = self.expression(scope, "int", (shape[0], deep), depth) if (
            shape[0] != deep) else self.index((deep, deep))
        b = self.expression(scope, "int", (deep, shape[1]), depth) if (
            shape[1] != deep) else self.index((deep, deep))
        types = ("char", "int") if kind == "int" else ("half", "float", "bfloat16", "double")
        t = self.rng.choice(types)
        left, right = f"({t})(({a}) & 7)", f"({t})(({b}) & 7)"
        return f"dot({left}, {right})" if self.chance(0.5) else f"({left} @ {right})"

    def cube(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        """What three axes, one of them reduced, leave of two tiles of this shape."""
        if len(shape) != 2 or kind != "int":
            return None
        rng = self.rng
        a, b = (self.expression(scope, "int", shape, depth) for _ in range(2))
        if self.chance(0.2):  # a product in batches
            deep = self.expression(scope, "int", shape[1:] * 2, depth) if (
                shape != shape[1:] * 2) else b
            left, right = (f"((char)(({x}) & 7))[:, :, newaxis]" for x in (a, deep))
            return f"({left} @ {right})[:, :, +]"
        # [m, 1, n] and [m, n, 1]; then what is reduced goes to any place
        whole = f"(({a})[:, newaxis, :] {rng.choice('+^&-')} ({b})[:, :, newaxis])"
        operation = rng.choice(("+", "max", "min", "^", "|", "&"))
        if self.chance(0.4):
            return f"{whole}[:, {operation}, :]"
        axes = [0, 1, 2]
        rng.shuffle(axes)
        entries = [operation if axis == 1 else ":" for axis in axes]
        turned = f"trans({whole}, {', '.join(map(str, axes))})[{', '.join(entries)}]"
        kept = [axis for axis in axes if axis != 1]
        return turned if kept == [0, 2] else f"trans({turned})"

    def reduction(self, scope: Scope, kind: str, shape: Shape, depth: int) -> str | None:
        m, n = self.m, self.n
        sources: list[tuple[Shape, str]] = []  # a tile, and where its reduced axes stand
        if shape == ():
            sources += [((self.t,), "R"), ((m, n), "R, R")]
        if shape == (m,):
            sources += [((m, n), ":, R"), ((n, m), "R, :")]
        if shape == (n,):
            sources += [((m, n), "R, :"), ((n, m), ":, R")]
        tile, entries = self.rng.choice(sources)
        a = self.expression(scope, kind, tile, depth)
        if kind == "bool":
            name = self.rng.choice(("any", "all"))
            if shape == ():
                return f"{name}({a})"
            return f"{name}({a}, {int(entries[0] == ':')})"
        if kind == "float":
            if self.chance(0.3):  # small integers, which add exactly
                b = self.expression(scope, "int", tile, depth)
                t = self.rng.choice(("float", "double"))
                return f"(({t})(({b}) & 255))[{entries.replace('R', '+')}]"
            operation = self.rng.choice(("max", "min"))
        else:
            if len(tile) == 2 and shape and self.chance(0.2):
                name = self.rng.choice(("argmax", "argmin"))
                return f"{name}({a}, {int(entries[0] == ':')})"
            operation = self.rng.choice(("+", "+", "max", "min", "&", "|", "^", "*"))
        return f"({a})[{entries.replace('R', operation)}]"
