"""Plain arithmetic of ints, computed without Terms: what fills a constant table repeats it a
thousand times.

What is not an `int` from end to end, overflows, or would be refused gives None, and the caller
computes it by the rules for all constants, which say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, eq, ge, gt, le, lt, mul, ne, sub

from tritonc.frontend import syntax
from tritonc.sema.context import Context
from tritonc.sema.scope import Counter, NamedConstant, Table, Tunable
from tritonc.sema.types.ctypes import INT_TYPE, PointerTo, ctype
from tritonc.sema.types.term import Term

_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": add, "-": sub, "*": mul,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


class Quick:
    """What computes expressions of one unit."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._fixed: dict[syntax.Name, int] = {}  # of names that keep their values

    def condition(self, node: syntax.Expression) -> bool | None:
        """A comparison of two ints."""
        if not isinstance(node, syntax.Binary) or node.operator not in _COMPARISONS:
            return None
        left, right = self.integer(node.left), self.integer(node.right)
        return None if left is None or right is None else _COMPARISONS[node.operator](left, right)

    def integer(self, node: syntax.Expression) -> int | None:
        """The value of an expression of type int.

        >>> [_ARITHMETIC[operator](-7, 2) for operator in "/%"]
        [-3, -1]
        """
        match node:
            case syntax.Binary() if node.operator in _ARITHMETIC:
                left, right = self.integer(node.left), self.integer(node.right)
                return None if left is None or right is None else _compute(
                    node.operator, left, right)
            case syntax.IntLiteral():
                return node.value if not node.suffix and node.value <= _GREATEST else None
            case syntax.Name():
                return self._named(node)
            case syntax.Subscript(base=syntax.Name() as base, entries=(syntax.Index() as entry,)):
                table = self.context.scope.lookup(base.name)
                at = self.integer(entry.index)
                if isinstance(table, Table) and at is not None and holds_ints(table) and (
                        table.table.data is not None and 0 <= at < table.table.count):
                    return int(table.table.data[at])
        return None

    def binary(self, operator: str, left: Term, right: Term) -> int | None:
        """The same of values."""
        a, b = left.number, right.number
        if operator not in _ARITHMETIC or a is None or b is None or not (
                left.type == right.type == INT_TYPE):
            return None
        return _compute(operator, a, b)

    def _named(self, node: syntax.Name) -> int | None:
        found = self.context.scope.lookup(node.name)
        if isinstance(found, Counter):
            value = found.value
            return value.number if value is not None and value.type == INT_TYPE else None
        if node not in self._fixed and isinstance(found, NamedConstant | Tunable):
            term = self.context.lower(node)
            if term.type != INT_TYPE or term.number is None:
                return None
            self._fixed[node] = term.number
        return self._fixed.get(node)


def _compute(operator: str, left: int, right: int) -> int | None:
    if not right and operator in "/%":
        return None
    found = _ARITHMETIC[operator](left, right)
    return found if _LEAST <= found <= _GREATEST else None


def holds_ints(table: Table) -> bool:
    """Whether a table's elements are of type int."""
    element = table.type.element
    return isinstance(element, PointerTo) and ctype(element.target) == INT_TYPE
