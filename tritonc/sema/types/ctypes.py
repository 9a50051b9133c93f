"""The types of Triton-C expressions.

Signedness and `const` live here: Triton-IR has neither.  Types are made once each, so that they are
compared by identity.

`LITERAL` is the type of a floating constant without a suffix.  Such a constant has an exact value
and no format of its own: it takes the float type of the operand that it meets, float beside an
integer, and double where it stands alone.

tf32 and the 8-bit floats are formats of memory and of the operands of a dot: arithmetic on them is
done in float, as C does arithmetic on char in int.  Copies, choices and changes of shape keep them.
"""

from __future__ import annotations

from functools import cache
from math import prod

from tritonc.ir import types
from tritonc.ir.types import Scalar, Type
from tritonc.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """An arithmetic type; also void, and the types of strings and of erroneous expressions."""

    name: str  # canonical, as the syntax tree has it
    spelling: str  # as messages show it
    host: str  # as a C host spells it
    ir: Scalar
    signed: bool = True

    @property
    def is_float(self) -> bool:
        return self.ir.kind == "float"

    @property
    def is_int(self) -> bool:
        """An integer or bool."""
        return self.ir.kind == "int"

    def __str__(self) -> str:
        return self.spelling


BOOL = Number("bool", "bool", "bool", types.I1, signed=False)
INT8 = Number("int8", "char", "signed char", types.I8)
INT16 = Number("int16", "short", "short", types.I16)
INT = Number("int32", "int", "int", types.I32)
LONG = Number("int64", "long", "long long", types.I64)
UINT8 = Number("uint8", "unsigned char", "unsigned char", types.I8, signed=False)
UINT16 = Number("uint16", "unsigned short", "unsigned short", types.I16, signed=False)
UINT = Number("uint32", "unsigned int", "unsigned int", types.I32, signed=False)
ULONG = Number("uint64", "unsigned long", "unsigned long long", types.I64, signed=False)
HALF = Number("float16", "half", "half", types.F16)
BFLOAT16 = Number("bfloat16", "bfloat16", "bfloat16", types.BF16)
TF32 = Number("tf32", "tf32", "float", types.TF32)
FLOAT = Number("float32", "float", "float", types.F32)
DOUBLE = Number("float64", "double", "double", types.F64)
E4M3 = Number("float8_e4m3", "float8_e4m3", "float8_e4m3", types.F8E4M3)
E5M2 = Number("float8_e5m2", "float8_e5m2", "float8_e5m2", types.F8E5M2)
LITERAL = Number("literal", "double", "double", types.F64)
VOID = Number("void", "void", "void", types.I1)
STRING = Number("string", "a string", "const char *", types.I8)
AUTO = Number("auto", "auto", "", types.I1)
ERROR = Number("error", "an erroneous expression", "", types.I1)

NUMBERS: dict[str, Number] = {
    n.name: n
    for n in (BOOL, INT8, INT16, INT, LONG, UINT8, UINT16, UINT, ULONG, HALF, BFLOAT16, TF32,
              FLOAT, DOUBLE, E4M3, E5M2, VOID)}


@dataclass(frozen=True, slots=True, eq=False)
class PointerTo:
    """A pointer to `target`; `const` forbids stores through it."""

    target: Number
    const: bool
    ir: types.Pointer
    volatile: bool = False

    @property
    def space(self) -> str:
        return self.ir.space

    def __str__(self) -> str:
        const = "volatile " if self.volatile else ""
        const += "const " if self.const else ""
        space = "__constant__ " if self.space == types.CONSTANT else ""
        return f"{const}{space}{self.target}*"


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A struct: values side by side.  Triton-IR has its members alone; `ir` means nothing."""

    name: str
    members: tuple[tuple[str, CType], ...]
    built_in: bool = False  # of a builtin's result
    array: bool = False  # the members are its elements, "0", "1" and so on
    ir: Scalar = types.I1
    is_float = is_int = signed = False

    def __str__(self) -> str:
        return self.name


Element = Number | PointerTo | Struct


@dataclass(frozen=True, slots=True, eq=False)
class CType:
    """An element type and a shape; () for a scalar or pointer."""

    element: Element
    shape: tuple[int, ...]
    ir: Type

    def __str__(self) -> str:
        extents = f"[{', '.join(map(str, self.shape))}]" if self.shape else ""
        return f"{self.element}{extents}"

    @property
    def arithmetic(self) -> Number:
        """The element type, which is known to be a number."""
        assert isinstance(self.element, Number)
        return self.element

    @property
    def size(self) -> int:
        return prod(self.shape)


@cache
def array_of(type: CType, count: int) -> CType:
    shape = "".join(map(str, [list(type.shape)])) if type.shape else ""
    return ctype(Struct(f"{type.element}[{count}]{shape}", tuple(
        (str(at), type) for at in range(count)), array=True))


@cache
def pointer_to(target: Number, const: bool = False, space: str = types.GLOBAL,
               volatile: bool = False) -> PointerTo:
    return PointerTo(target, const, types.Pointer(target.ir, space), volatile)


@cache
def ctype(element: Element, shape: tuple[int, ...] = ()) -> CType:
    return CType(element, shape, types.make(element.ir, shape))


def member_type(type: CType, at: int) -> CType:
    """The type of a member of a struct; in a tile of structs, a tile."""
    assert isinstance(type.element, Struct)
    member = type.element.members[at][1]
    return ctype(member.element, type.shape) if type.shape else member


BOOL_TYPE = ctype(BOOL)
INT_TYPE = ctype(INT)
VOID_TYPE = ctype(VOID)
STRING_TYPE = ctype(STRING)
ERROR_TYPE = ctype(ERROR)
AUTO_TYPE = ctype(AUTO)  # of a result until something is returned


def promote(number: Number) -> Number:
    """Integer promotion (C11 6.3.1.1), and that of storage-only floats to float."""
    if number.is_int:
        return INT if number.ir.bits < 32 else number
    return FLOAT if number in (TF32, E4M3, E5M2) else number


def arithmetic(a: Number, b: Number) -> Number:
    """The usual arithmetic conversions (C11 6.3.1.8); the result for two LITERALs is LITERAL.

    >>> str(arithmetic(UINT8, INT16)), str(arithmetic(INT, UINT)), str(arithmetic(LONG, UINT))
    ('int', 'unsigned int', 'long')
    >>> str(arithmetic(HALF, BFLOAT16)), arithmetic(LITERAL, HALF) is HALF, arithmetic(LITERAL, INT) is FLOAT
    ('float', True, True)
    """  # noqa: E501
    a, b = promote(a), promote(b)
    if a is b:
        return a
    if a.is_float or b.is_float:
        if not a.is_float or not b.is_float:
            result = a if a.is_float else b
            return FLOAT if result is LITERAL else result
        if a is LITERAL or b is LITERAL:
            return b if a is LITERAL else a
        if a.ir.bits == b.ir.bits:
            return FLOAT  # half with bfloat16
        return a if a.ir.bits > b.ir.bits else b
    if a.ir.bits == b.ir.bits:
        return a if not a.signed else b
    return a if a.ir.bits > b.ir.bits else b


def integer_ends(number: Number) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = number.ir.bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if number.signed else (0, (1 << bits) - 1)
