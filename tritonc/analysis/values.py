"""Questions about values and operations that several passes ask."""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tritonc.ir.core import Op, Value
from tritonc.ir.numeric.numbers import fit
from tritonc.ir.ops import READ, SHARED_READ, SYNC, WRITE
from tritonc.ir.types import element, is_float, is_int, same_axes, shape

Number = int | float | bool
S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Operations whose result's elements are elements of the operand.
SPREADS = ("splat", "broadcast", "reshape")
MOVES = (*SPREADS, "trans")
QUOTIENTS, REMAINDERS = ("sdiv", "udiv"), ("srem", "urem")
_ONLY_READS = frozenset({READ, SHARED_READ})
_CHANGES_MEMORY = frozenset({WRITE, SYNC})


def remembered(start: Any = None) -> Callable[[Callable[[S, K], T]], Callable[[S, K], T]]:
    """Let a method remember what it says of each value, or block: they form a graph.  `start` is
    what it says of one on a cycle while it looks at that."""
    def decorate(method: Callable[[S, K], T]) -> Callable[[S, K], T]:
        name = f"{method.__name__} known"

        def ask(self: S, value: K) -> T:
            try:
                said: T = self.__dict__[name][value]
                return said
            except KeyError:
                known: dict[K, T] = self.__dict__.setdefault(name, {})
                known[value] = start
                found = known[value] = method(self, value)
                return found

        return ask

    return decorate


def constant_of(value: Value) -> Number | None:
    """The number in all elements of a constant, a float if its type is; None for other values."""
    op = value.op
    if op is None or op.name != "constant":
        return None
    number: Number = op.attributes["value"]
    return float(number) if is_float(value.type) else number


def int_of(value: Value) -> int | None:
    """The integer in every element of an integer constant, signed; an i1 is 0 or 1."""
    number = constant_of(value)
    return None if number is None or not is_int(value.type) else int(fit(value.type, number))


def is_zero(value: Value) -> bool:
    return constant_of(value) == 0


def possible_bits(value: Value, known: dict[Value, int] | None = None) -> int:
    """The bits that may be set in an integer: of masks, shifts by constants, and what joins them.

    `known` is what has been found already."""
    known = {} if known is None else known
    if value in known:
        return known[value]
    every = (1 << element(value.type).bits) - 1
    op, number, found = value.op, int_of(value), every
    count = int_of(op.operands[1]) if op is not None and op.name in ("shl", "lshr", "mul") else None
    if op is not None and op.name == "mul" and count is not None:
        count = (count & every).bit_length() - 1 if (count & every).bit_count() == 1 else None
    if number is not None:
        found = number
    elif op is not None and op.name in ("splat", "broadcast", "reshape", "trans", "zext"):
        found = possible_bits(op.operands[0], known)
    elif op is not None and op.name in ("and", "or", "xor"):
        a, b = (possible_bits(v, known) for v in op.operands)
        found = a & b if op.name == "and" else a | b
    elif op is not None and count is not None and 0 <= count < every.bit_length():
        inner = possible_bits(op.operands[0], known)
        found = inner >> count if op.name == "lshr" else inner << count
    known[value] = found & every
    return known[value]


def is_uniform(value: Value) -> bool:
    """Made by `splat` or `constant`: one number in all elements, plain to see."""
    return value.op is not None and value.op.name in ("constant", "splat")


def defined_by(value: Value, name: str) -> Op | None:
    op = value.op
    return op if op is not None and op.name == name else None


def origin(value: Value, names: Container[str] = SPREADS) -> Value:
    """What the value is before operations of these names, by their first operands."""
    while value.op is not None and value.op.name in names:
        value = value.op.operands[0]
    return value


def sides(value: Value, name: str, within: bool = False) -> list[Value]:
    """What operations `name`, one within the other, make the value of: the conditions of which a
    mask is the conjunction ("and"), the numbers of which one is the least ("smin").  `within`: what
    each of the operations gives is listed too."""
    op = defined_by(value, name)
    if op is None:
        return [value]
    return [value] * within + [v for side in op.operands for v in sides(side, name, within)]


def conditions(mask: Value, through: Container[str] = ()) -> list[Value]:
    """The conditions of which a mask is the conjunction, behind predicates that `cmpp` makes of one
    and operations of the names `through`."""
    value = origin(mask, through)
    op = value.op
    if op is None or not (op.name == "and" or (op.name == "cmpp" and value is op.results[0])):
        return [value]
    return [v for operand in op.operands for v in conditions(operand, through)]


def axes_before(op: Op) -> list[int | None] | None:
    """For each axis of the result of a splat, broadcast, trans or reshape the axis of the operand,
    None for one that it has not; None for a reshape that does more than add and drop axes."""
    before, after = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "trans":
        return list(op.attributes["permutation"])
    if op.name == "broadcast":
        return [d if m == n else None for d, (m, n) in enumerate(zip(before, after, strict=True))]
    return [None] * len(after) if op.name == "splat" else same_axes(before, after)


def axis_before(op: Op, axis: int) -> int | None:
    """The axis of the operand that an axis of the result is; None if there is none."""
    places = axes_before(op)
    return None if places is None else places[axis]


def slice_of(values: Iterable[Value], inside: Container[Op] | None = None,
             ends: Container[str] = (), masks: bool = True) -> set[Op]:
    """A backward slice: the operations that compute the values, and guard what does if `masks`.

    `inside`: the operations in question, if not all; `ends`: names of those behind which it ends.
    """
    found: set[Op] = set()
    stack = [*values]
    while stack:
        op = stack.pop().op
        if op is None or op in found or (inside is not None and op not in inside):
            continue
        found.add(op)
        if op.name not in ends:
            stack += op.operands
            if masks and op.guard is not None:
                stack.append(op.guard)
    return found


def closure(first: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """All that is reached from `first`, these included, each once."""
    found: dict[T, None] = {}
    stack = list(first)
    while stack:
        one = stack.pop()
        if one not in found:
            found[one] = None
            stack += following(one)
    return found


def needed(ops: Sequence[Op], values: Iterable[Value]) -> list[Op]:
    """Those of the operations that the values need, in their order."""
    found = slice_of(values, set(ops))
    return [op for op in ops if op in found]


def computed_from(value: Value, name: str, through_phis: bool = False) -> bool:
    """Whether arithmetic makes the value of what a `name` gives: not by way of memory, nor, without
    `through_phis`, of another iteration or branch."""
    ends = ("load",) if through_phis else ("load", "phi")
    return any(op.name == name for op in slice_of([value], ends=ends, masks=False))


def tile_loads(ops: Iterable[Op]) -> list[Op]:
    """The loads of tiles among operations."""
    return [op for op in ops if op.name == "load" and shape(op.result.type)]


def removable(op: Op) -> bool:
    """May go if nobody reads its results: it changes nothing."""
    return op.effects <= _ONLY_READS and not op.attributes.get("volatile", False)


def changes_memory(op: Op) -> bool:
    """A load after it may see another value than before it."""
    return not _CHANGES_MEMORY.isdisjoint(op.effects)


def speculatable(op: Op) -> bool:
    """May run where the program does not run it: pure, and it cannot trap.

    A division traps by a zero divisor, a signed one of the least number by -1 too; a constant
    divisor that is neither is safe."""
    if not op.pure or op.name == "phi":
        return False
    if not op.info.may_trap:
        return True
    divisor = int_of(op.operands[1]) if len(op.operands) == 2 else None
    return divisor is not None and divisor not in (0, -1)


def attributes_key(attributes: Mapping[str, Any]) -> Hashable:
    """A key that is equal for equal attributes only: 1, 1.0 and True differ, and 0.0 and -0.0."""
    return tuple((name, _key(value)) for name, value in sorted(attributes.items()))


def _key(value: Any) -> Hashable:
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return attributes_key(value)
    hashable: Hashable = value
    return type(value), hashable


def fills_zeros(load: Op) -> bool:
    """Whether what the guard of a load leaves out is 0, as copies fill it, and not -0.0."""
    other = load.attributes.get("other", 0)
    return other == 0 and not str(other).startswith("-")
