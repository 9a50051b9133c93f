"""A `Term`: what an expression lowers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tritonc.ir.core import Value
from tritonc.sema.types.ctypes import ERROR_TYPE, LITERAL, VOID_TYPE, CType

if TYPE_CHECKING:
    from fractions import Fraction

Constant: TypeAlias = "int | float | Fraction | str"


class Term:
    """A typed value: an IR value, or a constant that every element equals.

    Integer constants are signed as in Triton-IR (4294967295u is -1), those of bool are bools;
    floats are rounded to their format, except that a LITERAL is exact.  `number` reads an integer
    as its C type does.  A constant becomes an operation where it is first needed as a value.
    A struct has `members` alone, in order."""

    __slots__ = ("constant", "members", "type", "value")

    def __init__(self, type: CType, value: Value | None = None,
                 constant: Constant | None = None, members: tuple[Term, ...] = ()) -> None:
        self.type = type
        self.value = value
        self.constant = constant
        self.members = members

    @property
    def poisoned(self) -> bool:
        """The expression was erroneous, and its error is reported."""
        return self.type is ERROR_TYPE

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def number(self) -> int | None:
        """The value of a constant scalar integer; None for anything else."""
        return None if self.type.shape else self.integer

    @property
    def integer(self) -> int | None:
        """The integer that a constant has in every element; None for anything else."""
        element, constant = self.type.element, self.constant
        if not isinstance(constant, int):
            return None
        if isinstance(element, type(LITERAL)) and not element.signed:
            return constant & ((1 << element.ir.bits) - 1)
        return int(constant)

    def like(self, constant: Constant) -> Term:
        """A constant of the same type."""
        return Term(self.type, constant=constant)

    def leaves(self) -> list[Term]:
        """The values of a struct, or the value itself."""
        return [leaf for m in self.members for leaf in m.leaves()] if self.members else [self]

    def __repr__(self) -> str:
        return f"<{self.type} {self.value if self.constant is None else self.constant!r}>"


class Refused(Exception):
    """What an expression asks for cannot be made, and a message has said why.

    `Context.lower` catches it: the expression is poisoned."""


def good(term: Term) -> Term:
    """The term, unless it is poisoned.  Raises Refused."""
    if term.poisoned:
        raise Refused
    return term


POISON = Term(ERROR_TYPE)
NOTHING = Term(VOID_TYPE)  # what a call of a void function gives
