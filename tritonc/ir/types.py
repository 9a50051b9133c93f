"""The types of Triton-IR: scalars, pointers, tiles of either, and buffers in shared memory.

Integers carry no sign, as in LLVM: operations do.  A tile has a constant shape; once the backend
has decided how its elements lie in the threads of a block, it has a `Layout` too."""

from collections.abc import Callable
from functools import cache
from math import prod
from operator import attrgetter

from tritonc.ir.layouts.layout import Layout, SharedLayout, hashed_once
from tritonc.records import cached_property, dataclass

GLOBAL, CONSTANT = "global", "constant"  # address spaces of pointers


@hashed_once
@dataclass(frozen=True)
class Scalar:
    """An element type.  `kind` is "int" or "float"; i1 is the type of predicates and booleans."""

    name: str
    bits: int  # in memory; an i1 takes a byte there
    kind: str
    mantissa: int = 0  # explicit significand bits of a float
    exponent: int = 0  # exponent bits of a float

    shape, is_pointer = (), False

    @cached_property
    def bytes(self) -> int:
        return max(self.bits // 8, 1)

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def is_int(self) -> bool:
        return self.kind == "int"

    has_numbers, base = cached_property(attrgetter("is_int")), cached_property(lambda self: self)

    def __str__(self) -> str:
        return self.name


I1 = Scalar("i1", 1, "int")
I8 = Scalar("i8", 8, "int")
I16 = Scalar("i16", 16, "int")
I32 = Scalar("i32", 32, "int")
I64 = Scalar("i64", 64, "int")
F16 = Scalar("f16", 16, "float", 10, 5)
BF16 = Scalar("bf16", 16, "float", 7, 8)
TF32 = Scalar("tf32", 32, "float", 10, 8)  # stored as an f32; a dot reads ten mantissa bits
F32 = Scalar("f32", 32, "float", 23, 8)
F64 = Scalar("f64", 64, "float", 52, 11)
F8E4M3 = Scalar("f8e4m3", 8, "float", 3, 4)  # no infinities, as the OCP "fn" form
F8E5M2 = Scalar("f8e5m2", 8, "float", 2, 5)

SCALARS: dict[str, Scalar] = {
    t.name: t for t in (I1, I8, I16, I32, I64, F16, BF16, TF32, F32, F64, F8E4M3, F8E5M2)}


@hashed_once
@dataclass(frozen=True)
class Pointer:
    """A 64-bit address of an `element` in global or constant memory."""

    element: Scalar
    space: str = GLOBAL

    bits, bytes, shape = 64, 8, ()
    is_float = is_int = False
    is_pointer = has_numbers = True

    base = cached_property(lambda self: self)

    def __str__(self) -> str:
        return f"{self.element}*" if self.space == GLOBAL else f"{self.element} {self.space}*"


Element = Scalar | Pointer


class _Shaped:
    """What is asked of types again and again: the answers are attributes of the object."""

    element: Element

    base, is_float, is_int, is_pointer, has_numbers = map(cached_property, map(attrgetter, (
        "element", "element.is_float", "element.is_int", "element.is_pointer",
        "element.has_numbers")))


@hashed_once
@dataclass(frozen=True)
class Tile(_Shaped):
    """`shape` elements, row-major in meaning; `layout` places them in threads, once it is known."""

    element: Element
    shape: tuple[int, ...]
    layout: Layout | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.element}<{', '.join(map(str, self.shape))}>"


@hashed_once
@dataclass(frozen=True)
class Buffer(_Shaped):
    """`stages` tiles in shared memory, each laid out by `layout`, one after the other."""

    element: Scalar
    shape: tuple[int, ...]
    stages: int
    layout: SharedLayout | None = None

    @property
    def stage_bytes(self) -> int:
        return prod(self.shape) * self.element.bytes

    @property
    def bytes(self) -> int:
        return self.stages * self.stage_bytes

    def __str__(self) -> str:
        return f"buffer<{self.stages} x {self.element}<{', '.join(map(str, self.shape))}>>"


Type = Scalar | Pointer | Tile | Buffer
# The element type of a tile or buffer, a scalar or pointer itself; the shape, () for these; whether
# elements are pointers, floats, integers, and integers or pointers.
element: Callable[[Type], Element] = attrgetter("base")
shape: Callable[[Type], tuple[int, ...]] = attrgetter("shape")
is_pointer: Callable[[Type], bool] = attrgetter("is_pointer")
is_float: Callable[[Type], bool] = attrgetter("is_float")
is_int: Callable[[Type], bool] = attrgetter("is_int")
has_numbers: Callable[[Type], bool] = attrgetter("has_numbers")


def bytes_of(t: Type) -> int:
    """The bytes of all elements of a tile, or of a scalar."""
    return prod(shape(t)) * element(t).bytes


def scalar(t: Type) -> Scalar:
    """The element type, which the caller knows to be no pointer."""
    e = element(t)
    assert isinstance(e, Scalar), f"{t} has pointer elements"
    return e


@cache
def same_axes(before: tuple[int, ...], after: tuple[int, ...]) -> list[int | None] | None:
    """For each axis of `after` the equal one of `before`, None for an extent of 1; None where they
    differ in more than axes of extent 1.

    >>> same_axes((4, 1, 6), (4, 6, 1)), same_axes((4, 6), (24,))
    ([0, 2, None], None)
    """
    if [n for n in before if n > 1] != [n for n in after if n > 1]:
        return None
    kept = iter([d for d, n in enumerate(before) if n > 1])
    return [next(kept) if n > 1 else None for n in after]


def merged_axes(before: tuple[int, ...], after: tuple[int, ...]
                ) -> tuple[tuple[int, ...], ...] | None:
    """For each axis of `after` the neighbours in `before` that it is made of; None where the shapes
    differ otherwise, or `after` has no fewer axes.

    >>> merged_axes((8, 16, 64), (128, 64)), merged_axes((128, 64), (8, 16, 64))
    (((0, 1), (2,)), None)
    """
    found: list[tuple[int, ...]] = []
    at = 0
    for extent in after:
        start, size = at, 1
        while at < len(before) and (at == start or size < extent):
            size *= before[at]
            at += 1
        if size != extent:
            return None
        found.append(tuple(range(start, at)))
    return tuple(found) if at == len(before) > len(after) else None


def make(e: Element, extents: tuple[int, ...], layout: Layout | None = None) -> Type:
    """The tile type of `e` and `extents`; `e` itself where there are no extents."""
    return Tile(e, extents, layout) if extents else e


def with_element(t: Type, e: Element) -> Type:
    """The type like `t` (shape, layout) but of elements `e`."""
    return Tile(e, t.shape, t.layout) if isinstance(t, Tile) else e


def with_layout(t: Type, layout: Layout | None) -> Type:
    """A tile type with another layout; scalars unchanged."""
    return Tile(t.element, t.shape, layout) if isinstance(t, Tile) else t
