"""The expressions of the syntax tree, and the types that they name (see `syntax`)."""

from typing import dataclass_transform

from tritonc.records import dataclass
from tritonc.source import Span

SIGNED_TYPES = ("int8", "int16", "int32", "int64")
UNSIGNED_TYPES = ("uint8", "uint16", "uint32", "uint64")
FLOAT_TYPES = (
    "float8_e4m3", "float8_e5m2", "float16", "bfloat16", "tf32", "float32", "float64")  # fmt: skip
# The canonical names that `TypeSpec.scalar` may have.
SCALAR_TYPES = ("void", "bool", *SIGNED_TYPES, *UNSIGNED_TYPES, *FLOAT_TYPES)


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


class TypeSpec(Node):
    """`const float*` and `[TM, TK]`: an element type and, for a tile, its extents.

    The span is that of the type's own tokens; extents after a name are outside it.
    `const` is that of the element: what a `const T*` points to, or the scalar itself.
    `const_pointer` is that of the pointer, `T* const`.  `space` is "constant" for
    `__constant__ T*`, else "global".  `extents` is None unless there were brackets.
    `scalar` is one of SCALAR_TYPES, the key of a struct, which begins with "struct ", or "auto"."""

    scalar: str
    const: bool = False
    pointer: bool = False
    space: str = "global"
    const_pointer: bool = False
    extents: tuple[Expression, ...] | None = None
    count: Expression | None = None  # of an array of tiles, `float x[4][16, 16]`
    volatile: bool = False  # of what a pointer points to


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

    `suffix` is "" or "f" (or "l", which C calls long double)."""

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
    `atomic_add(float, TM, TN)(p, v, m)`, whose first entry is a type; None without one."""

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
    entries: "tuple[SubscriptEntry, ...]"


class AddressOf(Expression):
    """`&base[index]`, which is `base + index` of a pointer."""

    base: Expression
    index: "Index"


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
