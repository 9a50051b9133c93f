"""Where a debugger can stop: a place of the IR for each statement of the source."""

from __future__ import annotations

from typing import NamedTuple

from tritonc.ir.core import Block, Op, Value
from tritonc.records import dataclass
from tritonc.source import Span


class Seen(NamedTuple):
    """A variable: the value that it has, its type as a user writes it."""

    value: Value
    type: str
    unsigned: bool


@dataclass(eq=False, slots=True)
class Stop:
    """In front of a statement: behind operation `after` of `block`, or at its start.

    `variables` are those that the statement can name, inner ones first, by the names that a user
    knows them by (`q.a` is a member).  `function` is the one that the statement is in; `caller` is
    the stop at the statement that called it, None in a kernel.
    """

    span: Span
    block: Block
    after: Op | None
    function: str
    variables: dict[str, Seen]
    caller: Stop | None = None
    predicate: Value | None = None  # the tile predicate in force
    depth: int = 0  # of the call
