"""Shapes and bounds of a problem's arrays, read from their expressions without computing them.

`randn(M, K)` has M rows of K; `randint(0, N, M)` has M numbers from 0 to N - 1.  What is not
understood has no shape, or no bounds: nothing is proved then of accesses that would need them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from tritonc.analysis.linear import Linear, equal, number
from tritonc.prove.model import Model, Numbers

Shape = tuple[Linear, ...]
Bounds = tuple[Linear, Linear]  # least and greatest, both included

# Functions of NumPy whose result is as large as their operands together.
_ELEMENTWISE = frozenset("abs exp exp2 log log2 sqrt sin cos tanh floor ceil round rint sign where "
                         "minimum maximum clip add subtract multiply isfinite".split())
# Functions and methods that only move elements of an array, all of which stay.
_MOVES = frozenset("sort copy ravel flatten array asarray ascontiguousarray permutation".split())


class Arrays:
    """`definitions`: the expressions of arguments and of `let:` lines, by name."""

    def __init__(self, model: Model, numbers: Numbers, definitions: Mapping[str, ast.AST]) -> None:
        self.model = model
        self.numbers = numbers
        self.definitions = definitions
        self.open: set[str] = set()

    # shapes

    def shape(self, node: ast.AST) -> Shape | None:
        """The extents; () for a number."""
        if isinstance(node, ast.Constant) or self.numbers.of(node) is not None:
            return ()
        if isinstance(node, ast.Name):
            return self._defined(node.id, self.shape)
        if isinstance(node, ast.List | ast.Tuple):
            rows = [self.shape(entry) for entry in node.elts]
            first = rows[0] if rows else ()
            same = first is not None and all(row is not None and _same(row, first) for row in rows)
            return (number(len(rows)), *first) if same and first is not None else None
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                return None
            return self._together([node.left, node.right])
        if isinstance(node, ast.Compare):
            return self._together([node.left, *node.comparators])
        if isinstance(node, ast.UnaryOp):
            return self.shape(node.operand)
        if isinstance(node, ast.Attribute) and node.attr == "T":
            found = self.shape(node.value)
            return found[::-1] if found is not None else None
        return self._call(node) if isinstance(node, ast.Call) else None

    def _call(self, node: ast.Call) -> Shape | None:
        name, receiver = _called(node)
        if receiver is None and name in ("randn", "rand", "zeros", "ones", "empty"):
            return self._extents(node.args)
        if receiver is None and name == "full":
            return self._extents(node.args[:-1])
        if receiver is None and name == "randint":
            return self._extents(node.args[2:])
        if name in ("zeros", "ones", "empty", "full") and _is_numpy(receiver) and node.args:
            return self._extents(node.args[:1])
        if name == "arange" and not node.keywords:
            bounds = [self.numbers.of(a) for a in node.args]
            if len(bounds) == 1 and bounds[0] is not None:
                return (bounds[0],)
            if len(bounds) == 2 and bounds[0] is not None and bounds[1] is not None:
                return (bounds[1] - bounds[0],)
            return None
        if name in _ELEMENTWISE and _is_numpy(receiver) and not node.keywords:
            return self._together(node.args)
        if name in ("astype", "copy") and receiver is not None and not _is_numpy(receiver):
            return self.shape(receiver)
        if name == "reshape" and receiver is not None and not _is_numpy(receiver):
            return self._extents(node.args)
        if name == "sort" and _is_numpy(receiver) and len(node.args) == 1 and not node.keywords:
            return self.shape(node.args[0])
        return None

    def _extents(self, nodes: Sequence[ast.expr]) -> Shape | None:
        if len(nodes) == 1 and isinstance(nodes[0], ast.Tuple | ast.List):
            nodes = nodes[0].elts
        found = [self.numbers.of(node) for node in nodes]
        # -1 in a reshape is what is left.
        known = [e for e in found if e is not None and (e.constant is None or e.constant >= 0)]
        return tuple(known) if len(known) == len(nodes) else None

    def _together(self, nodes: Sequence[ast.AST]) -> Shape | None:
        """The shape of an operation on each element, by NumPy's rule."""
        shapes = [self.shape(node) for node in nodes]
        total: Shape = ()
        for shape in shapes:
            if shape is None:
                return None
            rank = max(len(total), len(shape))
            pairs = zip(_padded(total, rank), _padded(shape, rank), strict=True)
            extents = [a if equal(a, b) or b.constant == 1 else b if a.constant == 1 else None
                       for a, b in pairs]
            known = [e for e in extents if e is not None]
            if len(known) < rank:
                return None
            total = tuple(known)
        return total

    # bounds

    def bounds(self, node: ast.AST) -> Bounds | None:
        """The least and the greatest that an element of an integer array can be."""
        plain = self.numbers.of(node)
        if plain is not None:
            return plain, plain
        if isinstance(node, ast.Name):
            found = self._defined(node.id, self.bounds)
            return (found[0], found[1]) if found is not None else None
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
        name, receiver = _called(node)
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
            inner = node.args[0] if _is_numpy(receiver) and node.args else receiver
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

    def _defined(self, name: str, ask: Callable[[ast.AST], tuple[Linear, ...] | None]
                 ) -> tuple[Linear, ...] | None:
        definition = self.definitions.get(name)
        if definition is None or name in self.open:
            return None
        self.open.add(name)
        try:
            return ask(definition)
        finally:
            self.open.discard(name)


def count(shape: Shape) -> Linear:
    """How many elements a shape has."""
    total = number(1)
    for extent in shape:
        total = total * extent
    return total


def number_of(node: ast.AST) -> int | None:
    """The integer that a literal is."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    return None


def _same(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(equal, a, b))


def _padded(shape: Shape, rank: int) -> Shape:
    return (number(1),) * (rank - len(shape)) + shape


def _called(node: ast.Call) -> tuple[str, ast.AST | None]:
    """The function's name, and what stands before its dot."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr, node.func.value
    return (node.func.id, None) if isinstance(node.func, ast.Name) else ("", None)


def _is_numpy(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "np"
