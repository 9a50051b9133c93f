"""quotients and remainders of a sum are split into those of its parts.

    body: %i = add (splat %k), %r             head: %q = phi [0], [%q + 32]
          %a = sdiv %i, 2               ->    body: %a = add (splat %q), (sdiv %r, 2)
          %b = srem %i, 2                           %b = srem %r, 2

where 2 divides %k, a counter in steps of 64, and neither %k nor %r is negative:  (a + b) / c =
a / c + b / c, and (a + b) % c = b % c.  The part of a loop's counter is a counter again, that of a
program id a smaller multiple of it, that of `0 ... T` does not change and leaves the loop.  So
weights of four bits and scales of groups along K have addresses of one form: a fixed tile, and a
scalar that the loop moves.

Those divisors are powers of two.  Of other ones a quotient by a product becomes one of a quotient
that is there, where a division gives that one's remainder too:

    %a = srem %i, %q                              %a = srem %i, %q
    %b = srem (sdiv %i, %q), %p           ->      %b = srem (sdiv %i, %q), %p
    %c = sdiv %i, (mul %p, %q)                    %c = sdiv (sdiv %i, %q), %p

A sum of signed numbers must be one of natural numbers (a quotient of
negative ones rounds the other way); that no sum wraps is taken of indices only: what addresses
memory, or what masks compare (docs/language.md).  Needs loops with preheaders and single latches.
"""

from collections.abc import Container

from tritonc.analysis.counters import add_counter, step_of
from tritonc.analysis.facts import Facts, scalar_of
from tritonc.analysis.signs import known_signs
from tritonc.analysis.values import QUOTIENTS, REMAINDERS, closure, int_of
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Type, is_int, is_pointer, shape

_Nested = tuple[Block, str, Value, Value | None, Value | None]
_OTHERS = ("load", "atomic_rmw", "atomic_cas")  # their operands are looked at by themselves


def split_quotients(kernel: Kernel, context: Context) -> bool:
    """Split those of indices whose parts can be told apart."""
    wanted = [op for op in kernel.ops() if op.name in (*QUOTIENTS, *REMAINDERS)]
    if not wanted:
        return False
    split, found = _Split(kernel), dict[Value, Value]()
    wanted = [op for op in wanted if op.operands[0] in split.indices]
    again = {split.remainder_of(op) for op in wanted if op.name in REMAINDERS}
    for op in wanted:
        new = split.apart(op) or split.nested(op, again)
        if new is not None:
            found[op.result] = new
    kernel.replace(found)
    return bool(found)


def _indices(kernel: Kernel) -> set[Value]:
    """What addresses and masks of accesses are computed from."""
    first = (v for op in kernel.ops() if op.operands and is_pointer(op.operands[0].type)
             for v in ((op.operands[0],) if op.guard is None else (op.operands[0], op.guard)))
    return {*closure(first, lambda value: () if value.op is None or value.op.name in _OTHERS
                     else value.op.inputs())}


class _Split:
    """Places operations behind what they read; parts are made once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cfg, self.facts = kernel, Cfg(kernel), Facts(kernel)
        self.signs = known_signs(kernel, self.cfg, kernel.entry)
        self.indices = _indices(kernel)
        self.made: dict[tuple[Value, int], Value | None] = {}

    def apart(self, op: Op) -> Value | None:
        """What equals the quotient or remainder; None where nothing is gained."""
        value, by = op.operands[0], int_of(op.operands[1])
        if by is None or by < 2 or by & by - 1:
            return None
        terms = self.terms(value, op)
        if not terms:
            return self.part(value, by) if op.name in QUOTIENTS and (
                self.signs.holds(value)) else None
        for a, b in (terms, terms[::-1]):
            if self.facts.factor(a) % by or self.facts.interval(b)[0] < 0 or not (
                    self.signs.holds(a)):
                continue
            below = self.facts.interval(b)[1] < by
            if op.name in REMAINDERS:
                return b if below else self.make("srem", b, by)
            first = self.part(a, by)
            if first is not None:
                return first if below else self.place(
                    make_op("add", [first, self.make("sdiv", b, by)]))
        return None

    def terms(self, value: Value, before: Op) -> list[Value]:
        """Two of which an index is the sum; (a + b) * 3 is that of a * 3 and b * 3."""
        op = value.op
        if op is None or op.name == "add":
            return [] if op is None else op.operands
        inner = op.operands[0].op if op.name == "mul" else None
        if inner is None or inner.name != "add" or int_of(op.operands[1]) is None:
            return []
        return [self.before(before, make_op("mul", [term, op.operands[1]]))
                for term in inner.operands]

    def remainder_of(self, op: Op) -> _Nested | None:
        """What of (x / q) % p says whether another quotient shares its division."""
        inner = op.operands[0].op
        if inner is None or inner.name not in QUOTIENTS:
            return None
        q, p = (scalar_of(one.operands[1], self.facts) for one in (inner, op))
        return self.cfg.block_of[op], inner.name, inner.operands[0], q, p

    def nested(self, op: Op, again: Container[_Nested | None]) -> Value | None:
        """x / (p * q) as (x / q) / p, where (x / q) % p is one of `again`.  In loops only: for the
        rows of a convolution, before them, the assembler needed more instructions."""
        value, divisor = op.operands
        product = scalar_of(divisor, self.facts)
        if product is None or product.op is None or product.op.name != "mul" \
                or self.cfg.block_of[op] not in self.cfg.innermost:
            return None
        for p, q in (product.op.operands, product.op.operands[::-1]):
            if (self.cfg.block_of[op], op.name, value, q, p) in again:
                for by in (q, p):
                    if shape(value.type):
                        by = self.before(op, make_op("splat", [by], value.type))
                    value = self.before(op, make_op(op.name, [value, by], span=op.span))
                return value
        return None

    def before(self, op: Op, new: Op) -> Value:
        block = self.cfg.block_of[new] = self.cfg.block_of[op]
        block.ops.insert(block.ops.index(op), new)
        return new.result

    # parts

    def part(self, value: Value, by: int) -> Value | None:
        """value / by, of a value by which that divides; None if it takes a division."""
        if (value, by) not in self.made:
            self.made[value, by] = None
            self.made[value, by] = self._part(value, by)
        return self.made[value, by]

    def _part(self, value: Value, by: int) -> Value | None:
        op, number = value.op, int_of(value)
        if self.facts.factor(value) % by or op is None:
            return None
        if number is not None:
            return self.constant(number // by, value.type, op)
        if op.name in ("splat", "sext"):
            inner = self.part(op.operands[0], by)
            return None if inner is None else self.place(make_op(op.name, [inner], value.type))
        if op.name == "mul":
            for a, b in (op.operands, op.operands[::-1]):
                if (factor := int_of(b)) is not None and factor % by == 0:
                    return a if factor == by else self.place(make_op(
                        "mul", [a, self.constant(factor // by, value.type, op)]))
                if factor is not None and (inner := self.part(a, by)) is not None:
                    return self.place(make_op("mul", [inner, b]))
        return self.counter(op, by) if op.name == "phi" else None

    def counter(self, phi: Op, by: int) -> Value | None:
        """A counter of a loop in steps by which `by` divides, divided by it."""
        block = self.cfg.block_of[phi]
        loop = self.cfg.innermost.get(block)
        if loop is None or loop.header is not block or loop.preheader is None \
                or loop.latch is None or len(phi.operands) != 2 or not is_int(phi.result.type):
            return None
        step = step_of(loop, phi)
        if step is None or step % by:
            return None
        first = self.part(loop.first(phi), by)
        if first is None:
            return None
        return add_counter(self.cfg, loop, first, step // by, phi.result.name)

    # operations

    def make(self, name: str, value: Value, by: int) -> Value:
        """A division, before the loop where it is one of a range."""
        op = value.op
        assert op is not None
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        if op.name == "range" and loop is not None and loop.preheader is not None:
            op = make_op("range", [], value.type, span=op.span, **op.attributes)
            loop.preheader.ops.insert(-1, op)
            self.cfg.block_of[op] = loop.preheader
        return self.place(make_op(name, [op.result, self.constant(by, value.type, op)]))

    def constant(self, number: int, t: Type, after: Op) -> Value:
        return self.place(make_op("constant", [], t, value=number), [after])

    def place(self, op: Op, behind: list[Op] | None = None) -> Value:
        """Put an operation behind those whose results it reads, in the block of the last one."""
        sources = behind or [v.op for v in op.operands if v.op is not None]
        blocks = [self.cfg.block_of[source] for source in sources]
        home = blocks[0]
        for block in blocks[1:]:
            home = block if self.cfg.dominates(home, block) else home
        at = max([home.ops.index(source) for source, block in zip(sources, blocks, strict=True)
                  if block is home] + [len(home.phis()) - 1])
        home.ops.insert(at + 1, op)
        self.cfg.block_of[op] = home
        op.span = sources[0].span
        return op.result
