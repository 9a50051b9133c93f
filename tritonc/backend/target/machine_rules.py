"""Typing rules of the backend's own operations, in the form of `ir.rules`."""

from collections.abc import Sequence
from math import prod

from tritonc.ir import rules
from tritonc.ir.layouts.layout import Layout, log2
from tritonc.ir.rules import Attributes, TypeMismatch, Types
from tritonc.ir.types import (
    F32,
    I1,
    I32,
    I64,
    TF32,
    Buffer,
    Pointer,
    Tile,
    Type,
    element,
    is_int,
    is_pointer,
    shape,
    with_element,
)


def layout_change(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t = types[0]
    if not (isinstance(t, Tile) and isinstance(stated, Tile)
            and (t.element, t.shape) == (stated.element, stated.shape)):
        raise TypeMismatch(f"cannot convert {t} to {stated}")
    return (stated,)


def step_pointers(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    p, offset, *strides = types
    if not is_pointer(p) or len(strides) != len(shape(p)) or not is_int(offset) or shape(offset) \
            or any(s != I64 for s in strides):
        raise TypeMismatch(f"expected a tile of pointers, an offset and strides, found {types}")
    return (p,)


def buffer(t: Type | None) -> Buffer:
    if not isinstance(t, Buffer):
        raise TypeMismatch(f"expected a buffer, found {t}")
    return t


def stage(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    whole = buffer(types[0])
    if types[1] != I32:
        raise TypeMismatch(f"expected i32, found {types[1]}")
    return (Buffer(whole.element, whole.shape, 1, whole.layout),)


def shared_store(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    b = buffer(types[0])
    if any(t != I1 for t in types[2:]):
        raise TypeMismatch(f"expected i1, found {types[2]}")
    if "bits" in attributes and b.shape != shape(types[1]):
        part = Tile(b.element, b.shape)
        if b.stages != 1 or tile_part(types[1:2], attributes, part) != (part,):
            raise TypeMismatch(f"cannot store a part of {types[1]} to {b}")
    elif b.stages != 1 or (element(types[1]), shape(types[1])) != (b.element, b.shape):
        raise TypeMismatch(f"cannot store {types[1]} to {b}")
    return ()


def shared_load(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    b = buffer(types[0])
    if stated is None or b.stages != 1 or (element(stated), shape(stated)) != (b.element, b.shape):
        raise TypeMismatch(f"cannot load {stated} from {b}")
    return (stated,)


def load_slice(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    b, axis = buffer(types[0]), attributes["axis"]
    extents = tuple(1 if d == axis else n for d, n in enumerate(b.shape))
    if stated is None or b.stages != 1 or not 0 <= attributes["index"] < b.shape[axis] or (
            element(stated), shape(stated)) != (b.element, extents):
        raise TypeMismatch(f"{stated} is no slice of {b}")
    return (stated,)


def gather(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    source, index = types
    if not isinstance(source, Tile | Buffer) or element(index) != I32 or not shape(index):
        raise TypeMismatch(f"cannot gather from {source} by {index}")
    if isinstance(source, Buffer) and source.stages != 1:
        raise TypeMismatch(f"expected one stage, found {source}")
    return (with_element(index, source.element),)


def shared_atomic(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    b, index, value = buffer(types[0]), types[1], types[2]
    if b.stages != 1 or element(index) != I32 or value != with_element(index, b.element) \
            or attributes["kind"] not in rules.ATOMICS:
        raise TypeMismatch(f"no atomic {attributes['kind']} of {value} to {b} by {index}")
    return ()


def truth(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return (I1,)


def tile_part(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    whole, parts = types[0], 1 << len(attributes["bits"])
    if stated is None or element(whole) != element(stated) or prod(shape(whole)) != prod(
            shape(stated)) * parts or not 0 <= attributes["index"] < parts:
        raise TypeMismatch(f"{stated} is not one of {parts} parts of {whole}")
    return (stated,)


def join_parts(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    parts = 1 << len(attributes["bits"])
    if stated is None or len(types) != parts or any(
            element(t) != element(stated) or prod(shape(t)) * parts != prod(shape(stated))
            for t in types):
        raise TypeMismatch(f"{len(types)} parts do not make {stated}")
    return (stated,)


def buffer_view(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    buffer(types[0])
    return (buffer(stated),)


def async_copy(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    b, p = buffer(types[0]), element(types[1])
    if not isinstance(p, Pointer) or shape(types[1]) != b.shape or (
            p.element != b.element and (p.element, b.element) != (F32, TF32)) or any(
            t != I1 for t in types[2:]):
        raise TypeMismatch(f"cannot copy from {types[1]} to {b}")
    return ()


def machine_dot(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    """As dot; the operands are buffers of one stage, or tiles in fragment layouts."""
    a, b, c = types
    plain = [Tile(element(t), shape(t)) for t in (a, b)]
    if (columns := attributes.get("columns")) is not None:
        plain[1] = Tile(element(b), (*shape(b)[:-1], columns[1] - columns[0]))
    rules.dot([*plain, c], attributes, stated)
    return (c,)


def without_live(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return tuple(types[: len(types) - attributes.get("live", 0)])


def packed(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    t = types[0]
    if not isinstance(t, Tile) or t.element.bits not in (8, 16, 32):
        raise TypeMismatch(f"expected a tile of 8, 16 or 32 bits, found {t}")
    each = 32 // t.element.bits
    extents = (*t.shape[:-1], t.shape[-1] // each)
    layout = t.layout
    if layout is not None:
        skip = log2(each)
        if layout.register[:skip] != tuple(1 << i for i in range(skip)):
            raise TypeMismatch(f"no thread holds words of {t}")
        register, lane, warp = (tuple(b >> skip for b in bases) for bases in (
            layout.register[skip:], layout.lane, layout.warp))
        layout = Layout(extents, register, lane, warp)
    return (Tile(I32, extents, layout),)


def unpacked(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    if stated is None or packed([stated], attributes, None) != tuple(types):
        raise TypeMismatch(f"{types[0]} is no tile of words of {stated}")
    return (stated,)


def same_types(types: Sequence[Type], attributes: Attributes, stated: Type | None) -> Types:
    return tuple(types)
