"""The syntax tree of Triton-C: one class for each construct, a span on every node.

The parser builds it, semantic analysis reads it, nobody changes it.  A node's `span` covers the
construct from its first to its last token; names of things have a `name_span` of their own.
Nodes compare by identity.  Parentheses leave no node, and a typedef is already replaced by the
scalar type that it names.
"""

from __future__ import annotations

from typing import dataclass_transform

from tritonc.records import dataclass
from tritonc.source import Span

SIGNED_TYPES = ("int8", "int16", "int32", "int64")
UNSIGNED_TYPES = ("uint8", "uint16", "uint32", "uint64")
FLOAT_TYPES = (
    "float8_e4m3", "float8_e5m2", "float16", "bfloat16", "tf32", "float32", "float64",
)  # fmt: skip
# The canonical names that `TypeSpec.scalar` may have.
SCALAR_TYPES = ("void", "bool", *SIGNED_TYPES, *UNSIGNED_TYPES, *FLOAT_TYPES)

# The canonical names that `Qualifier.name` may have; `align` and `multiple_of` have an argument.
# Other qualifiers become fields: `const` and `__constant__` of TypeSpec, `kernel` of Function.
QUALIFIERS = (
    "restrict", "read_only", "write_only", "align", "multiple_of", "retune",
    "static", "extern", "inline", "volatile", "device",
)  # fmt: skip

@dataclass_transform(eq_default=False)
class _Tree:
    """Each class below is a dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


class Node(_Tree):
    """What every node of the tree has."""

    span: Span


class Expression(Node):
    """A scalar or tile value; also what may stand left of `=`."""


class Statement(Node):
    """One statement of a function, or of the file where it fills a constant table."""


# --- types and declarations -----------------------------------------------------------------------


class TypeSpec(Node):
    """`const float*` and `[TM, TK]`: an element type and, for a tile, its extents.

    The span is that of the type's own tokens; extents after a name are outside it.
    `const` is that of the element: what a `const T*` points to, or the scalar itself.
    `const_pointer` is that of the pointer, `T* const`.  `space` is "constant" for
    `__constant__ T*`, else "global".  `extents` is None unless there were brackets.
    `scalar` is one of SCALAR_TYPES, the key of a struct, which begins with "struct ", or "auto".
    """

    scalar: str
    const: bool = False
    pointer: bool = False
    space: str = "global"
    const_pointer: bool = False
    extents: tuple[Expression, ...] | None = None
    count: Expression | None = None  # of an array of tiles, `float x[4][16, 16]`
    volatile: bool = False  # of what a pointer points to


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
    body: Block | None
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
    of type `element`; for `= calloc(n)`, `element` is None and `extents` is one count of bytes.
    """

    element: TypeSpec | None
    extents: tuple[Expression, ...]


class Typedef(TypedName):
    """`typedef float real;`.  Uses of the name are already replaced."""


class Struct(Named):
    """`struct pair { float a; int b; }`; `key` is what `TypeSpec.scalar` calls it.

    `name` is "" without one, until a typedef gives it one.
    """

    key: str
    members: tuple[Variable, ...]


class Program(Node):
    """A whole preprocessed source, in order.  `structs` are all that it defines anywhere, `macros`
    the names that were macros at its end."""

    items: tuple[Item, ...]
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

    `static`: the compiler runs it.  `unroll`: how many copies of the body, as for other loops.
    """

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


# --- expressions ----------------------------------------------------------------------------------


class Name(Expression):
    """A use of a variable, parameter, constant or tunable."""

    name: str


class IntLiteral(Expression):
    """An integer; `suffix` is "", "u", "l" or "ul".  In C the type depends on `decimal` too."""

    value: int
    suffix: str = ""
    decimal: bool = True


class FloatLiteral(Expression):
    """A floating literal: `text` without its suffix, exact as written; or "inf" or "nan".

    `suffix` is "" or "f" (or "l", which C calls long double).
    """

    text: str
    suffix: str = ""


class BoolLiteral(Expression):
    """`true` or `false`."""

    value: bool


class CharLiteral(Expression):
    """`'a'`, an int by value as in C."""

    value: int


class StringLiteral(Expression):
    """A string, escapes decoded; only an argument of printf or assert."""

    value: str


class StructValue(Expression):
    """`{a, b}`, the members of a struct in order; `type` stands before it in `(pair){a, b}`."""

    type: TypeSpec | None
    values: tuple[Expression, ...]


class Member(Expression):
    """`base.name`."""

    base: Expression
    name: str
    name_span: Span


class Unary(Expression):
    """`operator` is one of `- + ! ~`, or `^`: rotate the axes left by one."""

    operator: str
    operand: Expression


class Binary(Expression):
    """`operator` is one of `* / % + - << >> < > <= >= == != & ^ |`, or `@`: matrix product."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span


class Logical(Expression):
    """`&&` or `||`."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span


class Range(Expression):
    """`low ... high`."""

    low: Expression
    high: Expression


class Assign(Expression):
    """`target = value`, or `target += value` with `operator` "+" (None for plain `=`)."""

    operator: str | None
    target: Expression
    value: Expression
    operator_span: Span


class IncDec(Expression):
    """`++x`, `x--`: `operator` is "+" or "-", `prefix` says where it stands."""

    operator: str
    prefix: bool
    target: Expression


class Conditional(Expression):
    """`condition ? then : orelse`."""

    condition: Expression
    then: Expression
    orelse: Expression


class Cast(Expression):
    """`(type)operand`; the type may have extents."""

    type: TypeSpec
    operand: Expression


class Bitcast(Expression):
    """`bitcast<type>(operand)`."""

    type: TypeSpec
    operand: Expression


class SizeOf(Expression):
    """`sizeof(type)`."""

    type: TypeSpec


class Call(Expression):
    """`callee(arguments)`.

    `template` holds the first group of `get_global_range[TM](0)` and of
    `atomic_add(float, TM, TN)(p, v, m)`, whose first entry is a type; None without one.
    """

    callee: str
    callee_span: Span
    template: tuple[Expression | TypeSpec, ...] | None
    arguments: tuple[Expression, ...]


class Deref(Expression):
    """`*pointer`."""

    pointer: Expression


class MaskedDeref(Expression):
    """`*?(mask) pointer`."""

    mask: Expression
    pointer: Expression


class Subscript(Expression):
    """`base[entries]`, as `x[:, newaxis]`."""

    base: Expression
    entries: tuple[SubscriptEntry, ...]


class AddressOf(Expression):
    """`&base[index]`, which is `base + index` of a pointer."""

    base: Expression
    index: Index


class Keep(Node):
    """`:`."""


class NewAxis(Node):
    """`newaxis`."""


class Reduce(Node):
    """`+`, `*`, `&`, `|`, `^`, `max` or `min` in a subscript."""

    operator: str


class Rotate(Node):
    """`^k` in a subscript: axis k of the base comes here."""

    axis: int


class Index(Node):
    """Any other expression in a subscript; only a constant table can be indexed, by one."""

    index: Expression


class Slice(Node):
    """`low:high` with at least one of both; never legal, kept so that the message can say so."""

    low: Expression | None
    high: Expression | None


SubscriptEntry = Keep | NewAxis | Reduce | Rotate | Index | Slice
Item = Function | Tunable | JointTunable | Constant | ConstantTable | Typedef | Statement
