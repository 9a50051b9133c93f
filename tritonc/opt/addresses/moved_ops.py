"""New operations for a value of a loop: in front of the loop as far as they can stand there.

What a rewriting makes is placed only if it succeeds, so that an attempt costs nothing."""

from typing import Any

from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.types import Tile, Type

_MOVES = ("broadcast", "reshape", "trans", "splat", "range", "constant")


class MovedOps:
    """`op` is the operation of the loop that the new ones serve: those that read what the loop
    changes stand before it (`inside`), the others at the end of the preheader (`outside`)."""

    def __init__(self, cfg: Cfg, loop: Loop, preheader: Block, op: Op) -> None:
        self.cfg, self.loop, self.preheader, self.op = cfg, loop, preheader, op
        self.outside: list[Op] = []
        self.inside: list[Op] = []
        self.now: dict[Op, int] = {}  # tile elements that the loop computes now, by operation

    def make(self, name: str, *operands: Value, type: Type | None = None,
             **attributes: Any) -> Value:
        """The result of a new operation, before the loop if all that it reads is there."""
        op = make_op(name, list(operands), type, span=self.op.span, **attributes)
        (self.outside if all(map(self.invariant, operands)) else self.inside).append(op)
        return op.result

    def replaces(self, op: Op) -> None:
        """`op` is one that the new operations may make needless."""
        self.now[op] = _work(op)

    def gains(self, less: float = 1) -> bool:
        """Whether the loop then computes fewer elements of tiles; so much less."""
        return sum(map(_work, self.inside)) * less < sum(self.now.values())

    def invariant(self, value: Value) -> bool:
        op = value.op
        return op is None or (op not in self.inside and self.cfg.block_of.get(
            op, self.preheader) not in self.loop.block_set)

    def place(self, block: Block) -> None:
        """Put the new operations where they belong; `block` is that of `op`."""
        self.preheader.ops[-1:-1] = self.outside
        at = block.ops.index(self.op)
        block.ops[at:at] = self.inside
        self.cfg.block_of.update(dict.fromkeys(self.outside, self.preheader))
        self.cfg.block_of.update(dict.fromkeys(self.inside, block))


def _work(op: Op) -> int:
    """Elements that an operation computes; those that only move them are free."""
    t = op.result.type
    return t.size if isinstance(t, Tile) and op.name not in _MOVES else 0
