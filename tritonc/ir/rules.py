"""Typing rules of operations: from operand types to result types.

A rule takes the operand types, the attributes, and the result type that the program states (None if
it states none), and returns the result types.  It raises `TypeMismatch` with what was found and
what was wanted.  Semantic analysis builds operations through these rules and the verifier checks
them with the same ones.  Layouts take part in equality: an elementwise operation keeps the layout
of its operands; operations that change the shape take the result's layout as stated."""

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tritonc.ir.types import (
    F32,
    I1,
    I32,
    I64,
    SCALARS,
    Buffer,
    Pointer,
    Scalar,
    Tile,
    Type,
    element,
    is_float,
    is_int,
    is_pointer,
    make,
    shape,
    with_element,
)


class TypeMismatch(Exception):
    """The operands of an operation do not fit it."""


Types = tuple[Type, ...]
Attributes = Mapping[str, Any]
Rule = Callable[[Sequence[Type], Attributes, Type | None], Types]


def _want(condition: bool, message: str, *found: object) -> None:
    """Raise TypeMismatch unless `condition`; `{}` in the message stand for what was found.

    A message is put together only when it is wanted: rules run for every operation of every pass.
    """
    if not condition:
        raise TypeMismatch(message.format(*found))


def _same(types: Sequence[Type]) -> Type:
    first = types[0]
    for t in types:
        _want(t is first or t == first, "expected operands of one type, found {} and {}", first, t)
    return first


def _alike(fits: Callable[[Type], bool], what: str, to: Scalar | None = None) -> Rule:
    """All operands of one type; the result's is that too, or has `to` for its element."""
    message = f"expected {what}, found {{}}"

    def rule(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
        t = _same(types)
        _want(fits(t), message, t)
        return (t if to is None else with_element(t, to),)

    return rule


same_int, compare_int = _alike(is_int, "integers"), _alike(is_int, "integers", I1)
same_float, compare_float = _alike(is_float, "floats"), _alike(is_float, "floats", I1)
subtract_pointers = _alike(is_pointer, "pointers", I64)
multiple = _alike(lambda t: is_int(t) or is_pointer(t), "integers or pointers")


def predicates(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """A condition gives two opposite predicates."""
    _want(element(types[0]) == I1, "expected i1, found {}", types[0])
    return (types[0], types[0])


def choose(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """condition, a, b: a and b of one type, the condition of its shape."""
    t = _same(types[1:])
    mask = with_element(t, I1)
    _want(types[0] == mask, "expected {}, found {}", mask, types[0])
    return (t,)


def merge(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """psi: predicate, value, predicate, value, ..."""
    _want(len(types) >= 2 and len(types) % 2 == 0, "expected pairs of predicate and value")
    t = _same(types[1::2])
    mask = with_element(t, I1)
    for p in types[0::2]:
        _want(p == mask, "expected {}, found {}", mask, p)
    return (t,)


def phi(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return (_same(types),) if types else _as_stated(
        stated, True, "a phi with no operand must state its type")


def stated_type(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """No operands; the type is the one stated."""
    return _as_stated(stated, True, "the result type must be stated")


def _as_stated(stated: Type | None, fits: bool, message: str, *found: object) -> Types:
    """The type that the program states, if it does and that fits."""
    _want(stated is not None and fits, message, *found)
    assert stated is not None
    return (stated,)


def scalar_i32(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return (I32,)


def make_range(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    start, stop = attributes["start"], attributes["stop"]
    _want(stop > start, "an empty range {} ... {}", start, stop)
    return _shaped(I32, (stop - start,), stated)


def global_range(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return _shaped(I32, (attributes["extent"],), stated)


def _shaped(e: Any, extents: tuple[int, ...], stated: Type | None) -> Types:
    """A result of that element and shape; its layout is the stated type's."""
    if isinstance(stated, Tile) and stated.element == e and stated.shape == extents:
        return (stated,)
    return (make(e, extents),)


def _cast(from_ok: Callable[[Type], bool], to_ok: Callable[[Scalar | Pointer], bool],
          fits: Callable[[int, int], bool]) -> Rule:
    def rule(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
        if stated is None:
            raise TypeMismatch("a conversion must state its type")
        t, to = types[0], element(stated)
        _want(from_ok(t) and to_ok(to) and fits(element(t).bits, to.bits),
              "no such conversion from {} to {}", t, stated)
        return (with_element(t, to),)

    return rule


extend = _cast(is_int, is_int, lambda a, b: a < b)
truncate = _cast(is_int, is_int, lambda a, b: a > b)
float_to_int = _cast(is_float, is_int, lambda a, b: True)
int_to_float = _cast(is_int, is_float, lambda a, b: True)
float_cast = _cast(is_float, is_float, lambda a, b: True)
pointer_to_int = _cast(is_pointer, lambda e: e == I64, lambda a, b: True)
int_to_pointer = _cast(lambda t: element(t) == I64, lambda e: isinstance(e, Pointer),
                       lambda a, b: True)
bit_cast = _cast(lambda t: True, lambda e: True, lambda a, b: a == b)


def add_pointer(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    p, offset = types
    _want(is_pointer(p), "expected a pointer, found {}", p)
    _want(is_int(offset) and with_element(p, element(offset)) == offset,
          "expected integers of the pointer's shape, found {} for {}", offset, p)
    return (p,)


def pointee(pointer: Type) -> Type:
    """The type of what a pointer, or tile of pointers, points to."""
    e = element(pointer)
    _want(isinstance(e, Pointer), "expected a pointer, found {}", pointer)
    assert isinstance(e, Pointer)
    return with_element(pointer, e.element)


def load(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return (pointee(types[0]),)


def store(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    want = pointee(types[0])
    _want(types[1] == want, "expected {}, found {}", want, types[1])
    return ()


def atomic(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    want = pointee(types[0])
    for t in types[1:]:
        _want(t == want, "expected {}, found {}", want, t)
    if "kind" in attributes:
        kind = attributes["kind"]
        _want(kind in ATOMICS, "no atomic operation '{}'", kind)
        _want(ATOMICS[kind] in ("any", "float" if is_float(want) else "int"),
              "no atomic '{}' of {}", kind, want)
    return (want,)


def splat(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return _as_stated(stated, isinstance(stated, Tile) and not isinstance(types[0], Tile | Buffer)
                      and stated.element == types[0], "cannot splat {} to {}", types[0], stated)


def broadcast(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t = types[0]
    ok = (isinstance(t, Tile) and isinstance(stated, Tile) and t.element == stated.element
          and len(t.shape) == len(stated.shape)
          and all(a in (1, b) for a, b in zip(t.shape, stated.shape, strict=True)))
    return _as_stated(stated, ok, "cannot broadcast {} to {}", t, stated)


def reshape(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t = types[0]
    fits = stated is not None and element(t) == element(stated) \
        and prod(shape(t)) == prod(shape(stated))
    return _as_stated(stated, fits, "cannot reshape {} to {}", t, stated)


def transpose(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t, order = types[0], attributes["permutation"]
    _want(sorted(order) == list(range(len(shape(t)))),
          "{} does not permute the axes of {}", order, t)
    return _shaped(element(t), tuple(shape(t)[d] for d in order), stated)


def reduce(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t, axes, kind = types[0], attributes["axes"], attributes["kind"]
    _want(bool(axes) and all(0 <= d < len(shape(t)) for d in axes), "no axes {} in {}", axes, t)
    _combines(kind, t)
    left = tuple(n for d, n in enumerate(shape(t)) if d not in axes)
    return _shaped(element(t), left, stated)


def _combines(kind: str, t: Type) -> None:
    _want(kind in REDUCTIONS, "no reduction '{}'", kind)
    _want(REDUCTIONS[kind] == ("float" if is_float(t) else "int") and not is_pointer(t),
          "no '{}' of {}", kind, t)


def scan(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t, axis = types[0], attributes["axis"]
    _want(0 <= axis < len(shape(t)), "no axis {} in {}", axis, t)
    _combines(attributes["kind"], t)
    return (t,)


def _together(types: Sequence[Type], axis: int) -> tuple[int, ...]:
    """The shape of tiles that are combined element by element."""
    extents = shape(types[0])
    _want(all(isinstance(t, Tile) and t.shape == extents and isinstance(t.element, Scalar)
              for t in types), "expected tiles of one shape, found {}", types[-1])
    _want(0 <= axis < len(extents), "no axis {} in {}", axis, types[0])
    return extents


def reduce_with(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """Tiles of one shape, which all lose the axis."""
    extents, axis = _together(types, attributes["axis"]), attributes["axis"]
    left = extents[:axis] + extents[axis + 1 :]
    layout = stated.layout if isinstance(stated, Tile) else None
    return tuple(make(element(t), left, layout) if left else element(t) for t in types)


def scan_with(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """Tiles of one shape."""
    _together(types, attributes["axis"])
    return tuple(types)


def take(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """A tile, and a tile of indices whose shape may differ along `axis`."""
    t, index, axis = types[0], types[1], attributes["axis"]
    extents = shape(t)
    _want(0 <= axis < len(extents) == len(shape(index)) and element(index) == I32 and all(
        a == b for d, (a, b) in enumerate(zip(extents, shape(index), strict=True)) if d != axis),
        "cannot take from {} by {}", t, index)
    return (with_element(index, element(t)),)


def histogram(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """Integers of 32 bits, and a count for each number below `extent`; padded, of more."""
    _want(element(types[0]) == I32 and bool(shape(types[0])), "expected a tile of i32, found {}",
          types[0])
    counts = shape(stated) if stated is not None else ()
    padded = len(counts) == 1 and counts[0] >= attributes["extent"]
    return _shaped(I32, counts if padded else (attributes["extent"],), stated)


def dot(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """a [..., M, K] @ b [..., K, N] + c [..., M, N]; c's element is the accumulator's."""
    a, b, c = types
    sa, sb = shape(a), shape(b)
    _want(len(sa) == len(sb) >= 2 and sa[:-2] == sb[:-2] and sa[-1] == sb[-2],
          "cannot multiply {} and {}", a, b)
    _want(element(a) == element(b), "expected one element type, found {} and {}", a, b)
    want = make(accumulator(element(a)), (*sa[:-1], sb[-1]))
    _want(shape(c) == shape(want) and element(c) == element(want), "expected {}, found {}", want, c)
    return (c,)


def accumulator(e: Scalar | Pointer) -> Scalar:
    """The element type in which a dot of `e` operands accumulates."""
    _want(isinstance(e, Scalar) and e != I1, "no dot of {}", e)
    assert isinstance(e, Scalar)
    if e.is_float:
        return e if e.bits == 64 else F32
    return SCALARS["i32"] if e.bits == 8 else e


def nothing(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return ()


def holds(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """An i1 that is promised or asserted, element by element."""
    _want(element(types[0]) == I1, "expected i1, found {}", types[0])
    return ()


def printed(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """Values to print: scalars, and tiles of one shape."""
    shapes = [shape(t) for t in types if shape(t)]
    _want(not any(isinstance(t, Buffer) for t in types), "a buffer cannot be printed")
    if len(set(shapes)) > 1:
        raise TypeMismatch(f"expected tiles of one shape, found {' and '.join(map(str, types))}")
    return ()


def condition(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """A scalar i1 that a branch reads."""
    _want(types[0] == I1, "expected i1, found {}", types[0])
    return ()


# What each reduction and scan kind takes: "int" or "float".
REDUCTIONS: dict[str, str] = {
    "add": "int", "fadd": "float", "mul": "int", "fmul": "float",
    "smin": "int", "smax": "int", "umin": "int", "umax": "int", "fmin": "float", "fmax": "float",
    "and": "int", "or": "int", "xor": "int"}

def neutral(kind: str, e: Scalar) -> int | float:
    """What changes no result of a reduction of that kind."""
    if kind in ("fmin", "fmax"):
        return math.nan
    least, greatest = -(1 << (e.bits - 1)), (1 << (e.bits - 1)) - 1
    return {"fadd": -0.0, "fmul": 1.0, "mul": 1, "and": -1, "umin": -1, "smin": greatest,
            "smax": least}.get(kind, 0)


# The same of atomic operations; "any" is both, and pointers.
ATOMICS: dict[str, str] = {
    **{kind: takes for kind, takes in REDUCTIONS.items() if kind not in ("mul", "fmul")},
    "xchg": "any", "load": "any", "store": "any"}
