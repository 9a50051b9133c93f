"""Tile predicates in force, and what is noted while one is."""

from dataclasses import field

from tritonc.ir.core import Block, Op, Value
from tritonc.records import dataclass
from tritonc.sema.types.term import Term
from tritonc.source import Span

Shape = tuple[int, ...]
Pair = tuple[Term, Term]


class Mask:
    """A predicate in force: `own` alone, and `full`, conjoined with those around it.

    Each is a pair: where it holds and where it does not.  `full` is None where the shapes do not
    broadcast together, which matters only to what has to take effect under both.  `spread` has
    predicates broadcast to other shapes, by the block that this was done in; the two branches of
    an if share it."""

    __slots__ = ("full", "outer", "own", "shape", "span", "spread")

    def __init__(self, own: Pair, full: Pair | None, outer: "Mask | None", span: Span,
                 spread: dict[tuple[Block, Value, Shape], Term]) -> None:
        self.own = own
        self.full = full
        self.shape = (full or own)[0].shape
        self.outer = outer
        self.span = span
        self.spread = spread


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """An operation that waits for its guard: what is needed of its result decides.

    `explicit` is the mask that the program states beside the predicate.  A scalar division is not
    guarded, since its result may decide where control goes: its divisor becomes 1 instead."""

    op: Op
    block: Block
    mask: Mask
    explicit: Term | None = None


@dataclass(slots=True, eq=False)
class Region:
    """What is made under an outermost predicate, in order, each under the predicate then in force.

    `arms`: operands, by place, that count only where a predicate of `?:` or `&&` holds; `joins`:
    operations between the end of such an arm and the one that reads it, and the arms.  `merges`:
    operands of psis that an assignment under that predicate gives to a variable, and the predicate
    under which the variable was declared.  `lines`: the last operation of a builtin that is made of
    many, all of whose elements along an axis depend on all of that operand's."""

    ops: list[tuple[Op, Mask | None]] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    arms: dict[Op, dict[int, Mask]] = field(default_factory=dict)
    joins: dict[Op, tuple[Mask, ...]] = field(default_factory=dict)
    merges: dict[Op, dict[int, tuple[Mask, Mask | None]]] = field(default_factory=dict)
    lines: dict[Op, tuple[Value, int]] = field(default_factory=dict)

    def join(self, op: Op, start: int, arms: dict[int, Mask]) -> None:
        """`op` reads arms, with what was made since there were `start` operations."""
        self.arms[op] = arms
        for made, _ in self.ops[start:]:
            self.joins[made] = tuple(arms.values())
