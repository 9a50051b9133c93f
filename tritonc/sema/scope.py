"""Names and what they stand for, block by block."""

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from tritonc.frontend import syntax
from tritonc.ir import core
from tritonc.ir.combiner import Combiner
from tritonc.records import dataclass
from tritonc.sema.types.ctypes import CType, Struct, member_type
from tritonc.sema.types.term import Term
from tritonc.source import Note, Span

if TYPE_CHECKING:
    from tritonc.sema.predicates.in_force import Mask


@dataclass(eq=False, slots=True)
class Entity:
    """Something that has a name; `span` is where it was declared."""

    name: str
    span: Span

    kind = "name"  # what it is, in a message

    @property
    def note(self) -> Note:
        return Note(f"'{self.name}' is declared here", self.span)


@dataclass(eq=False, slots=True)
class Poisoned(Entity):
    """A name whose declaration failed, or that was reported as unknown: its uses say nothing."""


@dataclass(eq=False, slots=True)
class Variable(Entity):
    """A local variable or parameter.

    `mask` is the tile predicate under which it was declared: assignments under that very predicate
    need no merging.  `constant` is the value of a `const` scalar that is known.  A struct lies in
    its `parts`, a variable for each member, and has no value of its own."""

    type: CType
    const: bool = False
    parameter: bool = False
    mask: "Mask | None" = None
    constant: Term | None = None
    parts: "tuple[Variable, ...]" = ()

    def __post_init__(self) -> None:
        if isinstance(self.type.element, Struct):
            self.parts = tuple(
                Variable(f"{self.name}[{name}]" if self.type.element.array else
                         f"{self.name}.{name}", self.span, member_type(self.type, at), self.const,
                         self.parameter, self.mask)
                for at, (name, _) in enumerate(self.type.element.members))

    def leaves(self) -> "list[Variable]":
        """The variables of a struct's members, or the variable itself."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "parameter" if self.parameter else "variable"


@dataclass(eq=False, slots=True)
class Tunable(Entity):
    """A tunable.  `value` is None while nothing is bound; `values` are the legal ones."""

    node: syntax.Tunable
    values: tuple[int, ...] | None
    value: Term | None = None
    joint: syntax.JointTunable | None = None  # the rows that `values` number

    kind = "tunable"


@dataclass(eq=False, slots=True)
class JointMember(Entity):
    """One of several tunables that are chosen together: a constant once the row is."""

    tunable: Tunable
    place: int
    value: Term | None = None

    kind = "tunable"


@dataclass(eq=False, slots=True)
class NamedConstant(Entity):
    """A `const` at file scope, evaluated at its first use."""

    node: syntax.Constant
    value: Term | None = None
    evaluating: bool = False
    tunables: tuple[str, ...] = ()  # those that its value depends on

    kind = "constant"


@dataclass(eq=False, slots=True)
class Table(Entity):
    """A table in constant memory; `type` is that of the name, a pointer."""

    type: CType
    table: core.ConstantTable

    kind = "constant table"


@dataclass(eq=False, slots=True)
class Signature:
    """The types of a function; None where one was erroneous."""

    returns: CType | None
    parameters: list[CType | None]


@dataclass(eq=False, slots=True)
class FunctionEntity(Entity):
    """A function; `kernel` says that it is an entry point."""

    node: syntax.Function
    kernel: bool = False
    used: bool = False
    signature: Signature | None = None  # once resolved
    home: "Scope | None" = None  # of a function of the library: the names that it sees
    overloads: "list[FunctionEntity]" = field(default_factory=list)  # all of the name, this first

    kind = "function"


@dataclass(eq=False, slots=True)
class Scope:
    """The names of one block, and the scope around it."""

    outer: "Scope | None"
    names: dict[str, Entity] = field(default_factory=dict)

    def lookup(self, name: str) -> Entity | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def declare(self, entity: Entity) -> Entity | None:
        """Enter a name; the entity that has it in this very block already, if one does."""
        earlier = self.names.get(entity.name)
        if earlier is None or isinstance(earlier, Poisoned):
            self.names[entity.name] = entity
            return None
        return earlier

    def visible(self) -> Iterator[str]:
        """All names that can be used here, inner ones first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.outer


@dataclass(eq=False)
class Unit:
    """The names of a file.  `used` collects the tunables that the current kernel reads."""

    scope: Scope = field(default_factory=lambda: Scope(None))
    functions: list[FunctionEntity] = field(default_factory=list)
    tunables: list[Tunable] = field(default_factory=list)
    constants: list[NamedConstant] = field(default_factory=list)
    table_nodes: list[syntax.ConstantTable] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    statements: list[syntax.Statement] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)
    library: dict[tuple[str, int], Scope] = field(default_factory=dict)
    combiners: dict[tuple[FunctionEntity, CType], Combiner | None] = field(default_factory=dict)
    meta: dict[str, int] = field(default_factory=dict)  # that the source states
    structs: dict[str, syntax.Struct] = field(default_factory=dict)
    macros: tuple[str, ...] = ()
    resolved: dict[str, Struct | None] = field(default_factory=dict)  # structs with their types
