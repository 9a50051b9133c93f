"""The syntax tree of Triton-C: one class for each construct, a span on every node.

Expressions, and the types that they name, are in `expressions`; all names are found here.
The parser builds it, semantic analysis reads it, nobody changes it.  A node's `span` covers the
construct from its first to its last token; names of things have a `name_span` of their own.
Nodes compare by identity.  Parentheses leave no node, and a typedef is already replaced by the
scalar type that it names."""

from tritonc.frontend.expressions import *  # noqa: F403  # one namespace for all nodes
from tritonc.frontend.expressions import Expression, Name, Node, StructValue, TypeSpec
from tritonc.source import Span

# The canonical names that `Qualifier.name` may have; `align` and `multiple_of` have an argument.
# Other qualifiers become fields: `const` and `__constant__` of TypeSpec, `kernel` of Function.
QUALIFIERS = (
    "restrict", "read_only", "write_only", "align", "multiple_of", "retune",
    "static", "extern", "inline", "volatile", "device")  # fmt: skip


class Statement(Node):
    """One statement of a function, or of the file where it fills a constant table."""


# --- declarations ---------------------------------------------------------------------------------


class Named(Node):
    """What has a name."""

    name: str
    name_span: Span


class TypedName(Named):
    """A name, and the type that a declaration gives it."""

    type: TypeSpec


class Qualifier(Node):
    """`restrict`, `__multipleof(8)` and the like, under its canonical name (see QUALIFIERS)."""

    name: str
    argument: Expression | None = None


class Parameter(TypedName):
    """One parameter; a prototype's may have no name (""), then `name_span` is the type's."""

    qualifiers: tuple[Qualifier, ...]


class Variable(TypedName):
    """One name of a local declaration; the span begins at the name's declarator, not the type."""

    initializer: Expression | None
    qualifiers: tuple[Qualifier, ...]


class Function(Named):
    """A function; `kernel` says that the source marks it as one.  A prototype has no body."""

    kernel: bool
    returns: TypeSpec
    parameters: tuple[Parameter, ...]
    body: "Block | None"
    qualifiers: tuple[Qualifier, ...]


class Tunable(TypedName):
    """`const tunable int TM = {16, 32};`; `values` is None when the list is missing."""

    values: tuple[Expression, ...] | None


class JointTunable(Node):
    """`const tunable (TM, TN) = {(16, 32), (32, 16)};`: of each row of values one for each name."""

    names: tuple[Name, ...]
    rows: tuple[StructValue, ...]


class Constant(TypedName):
    """`const int X = expr;` at file scope; the value is a scalar."""

    value: Expression


class ConstantTable(TypedName):
    """A table in constant memory: `__constant__ int* delta = alloc_const int[512];`.

    `type` is that of the name (a pointer to constant memory).  The size is `extents` elements
    of type `element`; for `= calloc(n)`, `element` is None and `extents` is one count of bytes."""

    element: TypeSpec | None
    extents: tuple[Expression, ...]


class Typedef(TypedName):
    """`typedef float real;`.  Uses of the name are already replaced."""


class Struct(Named):
    """`struct pair { float a; int b; }`; `key` is what `TypeSpec.scalar` calls it.

    `name` is "" without one, until a typedef gives it one."""

    key: str
    members: tuple[Variable, ...]


class Program(Node):
    """A whole preprocessed source, in order.  `structs` are all that it defines anywhere, `macros`
    the names that were macros at its end."""

    items: "tuple[Item, ...]"
    structs: tuple[Struct, ...] = ()
    macros: tuple[str, ...] = ()


# --- statements -----------------------------------------------------------------------------------


class Block(Statement):
    """`{ ... }`; a local typedef is among the statements."""

    statements: tuple[Statement, ...]


class Declaration(Statement):
    """`int a, *b[TM] = c;`: one or more variables."""

    variables: tuple[Variable, ...]


class LocalTypedef(Statement):
    """A typedef inside a function."""

    typedefs: tuple[Typedef, ...]


class ExpressionStatement(Statement):
    """`expr;`."""

    expression: Expression


class StaticAssert(Statement):
    """`static_assert(condition, "message");` in a function or at file scope."""

    condition: Expression
    message: str | None


class If(Statement):
    """`if (condition) then else orelse`."""

    condition: Expression
    then: Statement
    orelse: Statement | None = None


class For(Statement):
    """`for (init; condition; step) body`; each part of the head may be missing.

    `static`: the compiler runs it.  `unroll`: how many copies of the body, as for other loops."""

    init: Statement | None
    condition: Expression | None
    step: Expression | None
    body: Statement
    static: bool = False
    unroll: Expression | None = None


class While(Statement):
    """`while (condition) body`."""

    condition: Expression
    body: Statement
    unroll: Expression | None = None


class DoWhile(Statement):
    """`do body while (condition);`."""

    body: Statement
    condition: Expression
    unroll: Expression | None = None


class Break(Statement):
    """`break;`."""


class Continue(Statement):
    """`continue;`."""


class Return(Statement):
    """`return;` or `return value;`."""

    value: Expression | None


class Empty(Statement):
    """`;`."""


class Predicated(Statement):
    """`@mask body`: the body takes effect where the mask holds."""

    mask: Expression
    body: Statement


Item = Function | Tunable | JointTunable | Constant | ConstantTable | Typedef | Statement
