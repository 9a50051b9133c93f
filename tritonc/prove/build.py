"""The model of a problem for one of its compilations: made of its lines, arguments and arrays.

Shapes and bounds of arrays are polynomials, by their expressions: `randn(M, K)` has M rows of K;
`randint(0, N, M)` has M numbers from 0 to N - 1.  What is not understood has no shape, or no
bounds: nothing is proved then of accesses that would need them."""

import ast
from collections.abc import Mapping
from functools import reduce
from operator import mul

from tritonc.analysis.linear import Linear, equal, number, symbol
from tritonc.ir.core import Kernel
from tritonc.ir.types import Scalar, is_pointer
from tritonc.launch.data import element_of, macros
from tritonc.problem.lines import Problem
from tritonc.problem.shapes import Shapes, called, is_numpy
from tritonc.prove.model import (
    ELEMENTS,
    Array,
    Model,
    Numbers,
    Symbol,
    is_integer,
    promised,
    promises,
    sizes_of,
)


def build(problem: Problem, kernel: Kernel) -> Model:
    """The model of a problem for one of its compilations, whose tunables are numbers."""
    model = Model()
    fixed = {name: value for name, value in {**macros(problem), **kernel.tunables}.items()
             if isinstance(value, int)}
    sizes_of(problem, model, fixed, promises(problem, kernel))
    given = {named.name: named.expression.node for named in (*problem.arguments, *problem.lets)}

    def name(word: str) -> Linear | None:
        if word in model.sizes:
            return model.sizes[word]
        if word in given and word not in within:
            within.add(word)
            try:
                return numbers.of(given[word])
            finally:
                within.discard(word)
        return number(fixed[word]) if word in fixed else None

    within: set[str] = set()
    numbers = Numbers(model, name)
    arrays = Arrays(model, numbers, given)
    model.range = [numbers.of(expression.node) for expression in problem.range]
    for argument, value, info in zip(problem.arguments, kernel.parameters, kernel.info,
                                     strict=True):
        node = argument.expression.node
        if is_integer(value):
            found = numbers.of(node)
            model.numbers[value] = found if found is not None else symbol(Symbol(argument.name))
            model.facts += promised(model, value, info)
        elif is_pointer(value.type):
            e, unsigned = element_of(argument, value.type, info)
            model.arrays[value] = _array(model, arrays, argument.name, node, e, unsigned)
    for pad in problem.pads:
        found = numbers.of(pad.expression.node)
        for array in model.arrays.values():
            if array.name == pad.name and found is not None and found.constant is not None:
                array.pad = max(found.constant, 0)
    return model


def _array(model: Model, arrays: "Arrays", name: str, node: ast.AST, e: Scalar, unsigned: bool
           ) -> Array:
    array = Array(name, None, e.bytes)
    shape = arrays.shape(node)
    if shape is not None:
        array.count = reduce(mul, map(model.named, shape), number(1))
        model.facts += [extent for extent in shape if extent.constant is None]
        if not model.limited:
            model.facts.append(number(ELEMENTS) - array.count)
    bounds = arrays.bounds(node) if e.is_int and e.bits > 1 else None
    if bounds is not None:
        low, high = bounds
        half = 1 << (e.bits - 1)
        least, most = (0, 2 * half - 1) if unsigned else (-half, half - 1)
        if model.holds(low - number(least)) and model.holds(number(most) - high):
            array.low, array.high = low, high
    return array


# ---- shapes and bounds of arrays


Shape = tuple[Linear, ...]
Bounds = tuple[Linear, Linear]  # least and greatest, both included

# Functions and methods that only move elements of an array, all of which stay.
_MOVES = frozenset("sort copy ravel flatten array asarray ascontiguousarray permutation".split())


class Arrays:
    """`definitions`: the expressions of arguments and of `let:` lines, by name."""

    def __init__(self, model: Model, numbers: Numbers, definitions: Mapping[str, ast.AST]) -> None:
        self.model = model
        self.numbers = numbers
        self.definitions = definitions
        self.open: set[str] = set()
        self.shapes = Shapes(lambda node: numbers.of(node) is not None, definitions, self._equal)

    def shape(self, node: ast.AST) -> Shape | None:
        extents = self.shapes.of(node)
        found = [self.numbers.of(extent) for extent in extents or ()]
        known = [e for e in found if e is not None and (e.constant is None or e.constant >= 0)]
        return None if extents is None or len(known) < len(found) else tuple(known)

    def _equal(self, a: ast.expr, b: ast.expr) -> bool:
        one, two = self.numbers.of(a), self.numbers.of(b)
        return one is not None and two is not None and equal(one, two)

    def bounds(self, node: ast.AST) -> Bounds | None:
        """The least and the greatest that an element of an integer array can be."""
        plain = self.numbers.of(node)
        if plain is not None:
            return plain, plain
        if isinstance(node, ast.Name):
            return self._defined(node.id)
        if isinstance(node, ast.List | ast.Tuple):
            values = [self.numbers.of(entry) for entry in node.elts]
            known = [v.constant for v in values if v is not None and v.constant is not None]
            if not known or len(known) < len(values):
                return None
            return number(min(known)), number(max(known))
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node)
        if isinstance(node, ast.Attribute) and node.attr == "T":
            return self.bounds(node.value)
        if not isinstance(node, ast.Call):
            return None
        name, receiver = called(node)
        if receiver is None and name in ("zeros", "ones"):
            return number(int(name == "ones")), number(int(name == "ones"))
        if receiver is None and name == "randint" and len(node.args) >= 2:
            low, high = self.numbers.of(node.args[0]), self.numbers.of(node.args[1])
            return None if low is None or high is None else (low, high - number(1))
        if name == "arange" and len(node.args) in (1, 2) and not node.keywords:
            ends = [self.numbers.of(a) for a in node.args]
            first, last = (number(0), ends[0]) if len(ends) == 1 else (ends[0], ends[1])
            return None if first is None or last is None else (first, last - number(1))
        if name in ("reshape", "astype", "transpose", *_MOVES):
            inner = node.args[0] if is_numpy(receiver) and node.args else receiver
            return self.bounds(inner) if inner is not None else None
        return None

    def _arithmetic(self, node: ast.BinOp) -> Bounds | None:
        a, b = self.bounds(node.left), self.bounds(node.right)
        zero, one = number(0), number(1)
        if isinstance(node.op, ast.Mod) and b is not None and equal(*b):
            return (zero, b[0] - one) if self.model.holds(b[0] - one) else None
        if a is None or b is None:
            return None
        if isinstance(node.op, ast.Add):
            return a[0] + b[0], a[1] + b[1]
        if isinstance(node.op, ast.Sub):
            return a[0] - b[1], a[1] - b[0]
        if isinstance(node.op, ast.Mult):
            if not equal(*b):
                a, b = b, a
            if equal(*b) and self.model.holds(b[0]):
                return a[0] * b[0], a[1] * b[0]
        return None

    def _defined(self, name: str) -> Bounds | None:
        if name in self.open or name not in self.definitions:
            return None
        self.open.add(name)
        found = self.bounds(self.definitions[name])
        self.open.discard(name)
        return found
