"""The data structure of Triton-IR: modules, kernels, blocks, operations and values.

A kernel is a list of basic blocks, the entry first.  A block is a list of operations: phis first,
one terminator last.  An operation has operands, attributes, results and, maybe, a *guard*: a
predicate under which it takes effect, element by element.  Values know the operation that makes
them; the users of a value are found by walking (`uses`), so a rewrite has one list to keep right
and no other."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import chain
from operator import attrgetter
from typing import Any

from tritonc.ir.ops import ROWS, OpInfo
from tritonc.ir.types import Scalar, Type
from tritonc.records import NamedTuple, dataclass
from tritonc.source import Span

OPS: Any = attrgetter("ops")  # of a block
TYPE: Any = attrgetter("type")  # of a value


class Value:
    """The result of an operation, or a kernel's parameter (then `op` is None)."""

    __slots__ = ("name", "op", "type")

    def __init__(self, type: Type, name: str = "", op: "Op | None" = None) -> None:
        self.type = type
        self.name = name  # a hint for the printer, which makes names unique
        self.op = op

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Op:
    """One operation; `name` is its row in the tables of operations.

    `blocks` are the successors of a terminator, or the incoming blocks of a phi, one per operand.
    """

    __slots__ = ("attributes", "blocks", "guard", "name", "operands", "results", "span")

    def __init__(self, name: str, operands: list[Value], attributes: dict[str, Any] | None = None,
                 result_types: tuple[Type, ...] = (), guard: Value | None = None,
                 span: Span | None = None, blocks: "list[Block] | None" = None) -> None:
        self.name = name
        self.operands = operands
        self.attributes = attributes if attributes is not None else {}
        self.results = [Value(t, "", self) for t in result_types] if result_types else []
        self.guard = guard
        self.span = span
        self.blocks = blocks if blocks is not None else []

    @property
    def info(self) -> OpInfo:
        """Its row in the table of operations."""
        return ROWS[self.name]

    @property
    def effects(self) -> frozenset[str]:
        return ROWS[self.name].effects

    @property
    def pure(self) -> bool:
        """No effects: equal inputs give equal results, and an unused one may go."""
        return not ROWS[self.name].effects

    @property
    def result(self) -> Value:
        (found,) = self.results
        return found

    def inputs(self) -> list[Value]:
        return self.operands if self.guard is None else [*self.operands, self.guard]

    def replace_inputs(self, mapping: Mapping[Value, Value]) -> None:
        """Read mapped values in place of the old ones."""
        if not mapping.keys().isdisjoint(self.operands):  # mostly they are
            self.operands = [mapping.get(v, v) for v in self.operands]
        if self.guard is not None:
            self.guard = mapping.get(self.guard, self.guard)

    def __repr__(self) -> str:
        return f"<{', '.join(map(repr, self.results))} = {self.name} {self.operands}>"


class Block:
    """A basic block: phis, then other operations, then a terminator."""

    __slots__ = ("name", "ops")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ops: list[Op] = []

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    @property
    def successors(self) -> "list[Block]":
        return self.ops[-1].blocks if self.ops else []

    def phis(self) -> list[Op]:
        """The phis at the start, as a new list."""
        found = []
        for op in self.ops:
            if op.name != "phi":
                break
            found.append(op)
        return found

    def __repr__(self) -> str:
        return f"<block {self.name}>"


FLAGS = ("read_only", "write_only", "no_alias", "retune")  # of ParameterInfo


class Seen(NamedTuple):
    """A variable: the value that it has, its type as a user writes it."""

    value: Value
    type: str
    unsigned: bool


@dataclass(eq=False, slots=True)
class Stop:
    """Where a debugger can stop, in front of a statement: behind operation `after` of `block`, or
    at its start.

    `variables` are those that the statement can name, inner ones first, by the names that a user
    knows them by (`q.a` is a member).  `function` is the one that the statement is in; `caller` is
    the stop at the statement that called it, None in a kernel."""

    span: Span
    block: Block
    after: Op | None
    function: str
    variables: dict[str, Seen]
    caller: "Stop | None" = None
    predicate: Value | None = None  # the tile predicate in force
    depth: int = 0  # of the call


@dataclass
class ParameterInfo:
    """What the source promises about a parameter.

    `multiple_of` is in units of the value (a pointer's is in bytes: its alignment).  `least` and
    `greatest` bound an integer, as a signed number; None where nothing is promised.
    A pointer is not null where each argument that `not_null` numbers is at least what stands beside
    it, since the kernel accesses its first element then; None where it may be null."""

    ctype: str = ""  # as a C host writes it: "float *", "unsigned int"
    multiple_of: int = 1
    least: int | None = None
    greatest: int | None = None
    not_null: tuple[tuple[int, int], ...] | None = None
    read_only: bool = False
    write_only: bool = False
    no_alias: bool = False
    retune: bool = False
    span: Span | None = None


@dataclass(eq=False)
class ConstantTable:
    """A symbol in constant memory.  `data` is its initial content, None where the host fills it."""

    name: str
    element: Scalar
    count: int
    data: list[int | float] | None = None
    span: Span | None = None


@dataclass(eq=False)
class Kernel:
    """An entry point.  `tile[axis]` is the extent of an instance's slice of the global range."""

    name: str
    parameters: list[Value]
    info: list[ParameterInfo]
    blocks: list[Block] = field(default_factory=list)
    tile: dict[int, int] = field(default_factory=dict)
    tunables: dict[str, int] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)  # num_warps, shared_bytes, ...
    span: Span | None = None
    stops: list[Stop] = field(default_factory=list)  # of a debugger, if it asks for them

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    @property
    def threads(self) -> int:
        """Of a block: those that hold tiles, and those of warps that only make copies."""
        warps = self.attributes.get("num_warps", 1) * self.attributes.get("pingpong", 1)
        warps += self.attributes.get("producer_warps", 0)
        return 32 * int(warps) * int(self.attributes.get("programs", 1))

    def ops(self) -> Iterator[Op]:
        """All operations in block order.  Do not change the lists meanwhile."""
        return chain.from_iterable(map(OPS, self.blocks))

    def replace(self, mapping: Mapping[Value, Value]) -> None:
        """Replace the use of each key by its value; chains of replacements are followed, to a
        value that stays if it is one."""
        if not mapping:
            return
        resolved: dict[Value, Value] = {}
        for old in mapping:
            new = mapping[old]
            while new in mapping and mapping[new] is not new:
                new = mapping[new]
            resolved[old] = new
        untouched = resolved.keys().isdisjoint
        for op in self.ops():  # mostly they are
            if op.guard is not None or not untouched(op.operands):
                op.replace_inputs(resolved)


@dataclass(eq=False)
class Module:
    kernels: list[Kernel] = field(default_factory=list)
    constants: list[ConstantTable] = field(default_factory=list)


def uses(kernel: Kernel) -> dict[Value, list[Op]]:
    """The operations that read each value, guards included, in block order."""
    found: dict[Value, list[Op]] = {}
    for block in kernel.blocks:
        for op in block.ops:
            for value in op.operands if op.guard is None else (*op.operands, op.guard):
                if value in found:
                    found[value].append(op)
                else:
                    found[value] = [op]
    return found
