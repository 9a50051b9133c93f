"""Shapes of a problem's arrays, read from their expressions without computing them.

`randn(M, K // 2)` has the extents M and K // 2: expressions themselves."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from tritonc.records import dataclass

Shape = Sequence[ast.expr]

# Functions of shapes, and how many arguments stand before it.
_SHAPED = {"randn": 0, "rand": 0, "zeros": 0, "ones": 0, "empty": 0, "full": 0, "randint": 2}
# Functions of NumPy whose result is as large as their operands together.
_ELEMENTWISE = frozenset("abs exp exp2 log log2 sqrt sin cos tanh floor ceil round rint sign where "
                         "minimum maximum clip add subtract multiply isfinite".split())


def called(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The name of the function that an expression calls, and what stands before its dot."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr, node.func.value
    named = node.func if isinstance(node, ast.Call) else None
    return (named.id, None) if isinstance(named, ast.Name) else ("", None)


def is_numpy(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "np"


def _text_is_same(a: ast.expr, b: ast.expr) -> bool:
    return ast.unparse(a) == ast.unparse(b)


@dataclass
class Shapes:
    """`is_number`: which expressions are no arrays, beside literals; `definitions`: expressions of
    arrays by name; `same`: whether two extents are equal."""

    is_number: Callable[[ast.AST], bool]
    definitions: Mapping[str, ast.AST] = field(default_factory=dict)
    same: Callable[[ast.expr, ast.expr], bool] = _text_is_same
    _open: set[str] = field(default_factory=set)

    def of(self, node: ast.AST) -> Shape | None:
        """The extents; () of a number; None where they are not understood.

        >>> shape = Shapes(lambda node: False).of(
        ...     ast.parse("0.5 * randn(M, K // 2) + 1", mode="eval").body)
        >>> [ast.unparse(extent) for extent in shape]
        ['M', 'K // 2']
        """
        if isinstance(node, ast.Constant) or self.is_number(node):
            return ()
        if isinstance(node, ast.Name):
            return self._defined(node.id)
        if isinstance(node, ast.List | ast.Tuple):
            rows = [self.of(entry) for entry in node.elts]
            inner = self._all_same(rows) if rows else ()
            return None if inner is None else (ast.Constant(len(rows)), *inner)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return self._together([node.left, node.right])
        if isinstance(node, ast.Compare):
            return self._together([node.left, *node.comparators])
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, ast.Attribute) and node.attr == "T":
            found = self.of(node.value)
            return found and found[::-1]
        return self._call(node) if isinstance(node, ast.Call) and not node.keywords else None

    def _defined(self, name: str) -> Shape | None:
        if name in self._open or name not in self.definitions:
            return None
        self._open.add(name)
        found = self.of(self.definitions[name])
        self._open.discard(name)
        return found

    def _call(self, node: ast.Call) -> Shape | None:
        name, receiver = called(node)
        if receiver is not None and not is_numpy(receiver):
            if name in ("astype", "copy"):
                return self.of(receiver)
            return _extents(node.args) if name == "reshape" else None
        if name in _SHAPED:
            return _extents(node.args[:1] if receiver is not None else
                            node.args[_SHAPED[name]:len(node.args) - (name == "full")])
        if name == "arange" and 1 <= len(node.args) <= 2:
            first, *rest = node.args
            return (ast.BinOp(rest[0], ast.Sub(), first) if rest else first,)
        if receiver is not None and (name in _ELEMENTWISE or
                                     (name == "sort" and len(node.args) == 1)):
            return self._together(node.args)
        return None

    def _together(self, nodes: Sequence[ast.AST]) -> Shape | None:
        """The shape of an operation on each element, by NumPy's rule."""
        total: Shape = ()
        for node in nodes:
            shape = self.of(node)
            if shape is None:
                return None
            rank = max(len(total), len(shape))
            pairs = zip(*([ast.Constant(1)] * (rank - len(s)) + [*s] for s in (total, shape)))
            found = [a if _is_one(b) or self.same(a, b) else b if _is_one(a) else None
                     for a, b in pairs]
            total = [extent for extent in found if extent is not None]
            if len(total) < rank:
                return None
        return total

    def _all_same(self, shapes: Sequence[Shape | None]) -> Shape | None:
        first = shapes[0]
        same = first is not None and all(
            shape is not None and len(shape) == len(first) and all(map(self.same, shape, first))
            for shape in shapes)
        return first if same else None


def _extents(nodes: Sequence[ast.expr]) -> Shape | None:
    """`zeros(2, 3)` and `zeros((2, 3))` both; -1 in a reshape is what is left."""
    if len(nodes) == 1 and isinstance(nodes[0], ast.Tuple | ast.List):
        nodes = nodes[0].elts
    return None if any(isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
                       for node in nodes) else nodes


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1
