"""Shapes and bounds of a problem's arrays as polynomials, by their expressions.

`randn(M, K)` has M rows of K; `randint(0, N, M)` has M numbers from 0 to N - 1.  What is not
understood has no shape, or no bounds: nothing is proved then of accesses that would need them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonc.analysis.linear import Linear, equal, number
from tritonc.problem.shapes import Shapes, called, is_numpy
from tritonc.prove.model import Model, Numbers

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
        """The extents; () for a number."""
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
            values = [number_of(entry) for entry in node.elts]
            known = [v for v in values if v is not None]
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


def number_of(node: ast.AST) -> int | None:
    """The integer that a literal is."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    return None
