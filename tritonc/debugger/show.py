"""Values of a debugged kernel as text."""

import re
from typing import Any

import numpy as np

from tritonc.interp.frame import Frame
from tritonc.ir.core import Seen, Stop, Value
from tritonc.ir.numeric.formats import from_memory, memory_dtype, register_dtype
from tritonc.ir.types import I1, Element, Pointer, element, is_float, is_int

_MOST = 256  # elements that are shown one by one
_EDGE = 4  # of each axis, where there are more
_NAME = re.compile(r"\s*(\*?)\s*([A-Za-z_][\w.]*)")
_SUBSCRIPTS = re.compile(r"\s*\[([^\[\]]*)\]\s*$")
UNDEFINED = "?"


class NotShown(Exception):
    """What was asked for cannot be shown; the message says why."""


def show(text: str, frame: Frame, stop: Stop) -> str:
    """The value of `NAME`, `NAME[0:4, :]`, `*POINTER` or `*POINTER[0:8]`, without its name.

    Raises NotShown."""
    deref, seen, subscripts = _parsed(text, stop)
    if seen.value not in frame.values:
        return UNDEFINED
    array, undefined = np.asarray(frame.values[seen.value]), frame.mask(seen.value)
    undefined = np.zeros(array.shape, np.bool_) if undefined is None else np.broadcast_to(
        undefined, array.shape)
    e = element(seen.value.type)
    if deref:
        if not isinstance(e, Pointer):
            raise NotShown(f"'{text}': {seen.type} is not a pointer")
        if not array.shape and subscripts:
            return _memory(text, frame, e.element, int(array), subscripts)
    chosen = _chosen(text, array, undefined, subscripts)
    if deref and isinstance(e, Pointer):
        return _text(*_loaded(frame, e.element, *chosen), e.element, seen, frame)
    return _text(*chosen, e, seen, frame)


def shown(value: Value, frame: Frame) -> str:
    if value not in frame.values:
        return UNDEFINED
    array, undefined = np.asarray(frame.values[value]), frame.mask(value)
    return _lines(array, False if undefined is None else undefined, element(value.type), False)


def type_of(text: str, stop: Stop) -> str:
    """The type of the variable that is shown."""
    return _parsed(text, stop)[1].type


def _parsed(text: str, stop: Stop) -> tuple[bool, Seen, str | None]:
    """Whether memory is meant, the variable, and the subscripts without brackets."""
    found = _NAME.match(text)
    if found is None:
        raise NotShown(f"'{text}' is not a variable: NAME, NAME[0:4, :] and "
                       "*POINTER[0:8] are shown")
    names = [name for name in stop.variables
             if text[found.start(2):].startswith(name)
             and not re.match(r"[\w.]", text[found.start(2) + len(name):] or " ")]
    if not names:
        near = ", ".join(stop.variables) or "none"
        raise NotShown(f"there is no variable '{found[2]}' here; there are: {near}")
    name = max(names, key=len)
    rest = text[found.start(2) + len(name):]
    subscripts = _SUBSCRIPTS.match(rest)
    if rest.strip() and subscripts is None:
        raise NotShown(f"'{rest.strip()}' is not a subscript; write [0:4, :]")
    return bool(found[1]), stop.variables[name], subscripts[1] if subscripts else None


def _indices(text: str, subscripts: str) -> tuple[Any, ...]:
    found: list[Any] = []
    for part in subscripts.split(","):
        words = part.strip().split(":")
        try:
            numbers = [int(w, 0) if w.strip() else None for w in words]
        except ValueError:
            numbers = []
        if not 0 < len(numbers) <= 3 or numbers == [None]:
            raise NotShown(f"'{text}': '{part.strip()}' is neither a number nor FIRST:END")
        found.append(numbers[0] if len(words) == 1 else slice(*numbers))
    return tuple(found)


def _chosen(text: str, array: Any, undefined: Any, subscripts: str | None) -> tuple[Any, Any]:
    if subscripts is None:
        return array, undefined
    indices = _indices(text, subscripts)
    try:
        return array[indices], undefined[indices]
    except (IndexError, ValueError) as error:
        raise NotShown(f"'{text}': {error}") from None


def _memory(text: str, frame: Frame, target: Element, base: int, subscripts: str) -> str:
    """Elements of memory behind a pointer."""
    (index,) = _indices(text, subscripts)[:1]
    size = memory_dtype(target).itemsize
    if not isinstance(index, slice):
        index = slice(index, index + 1)
    if index.stop is None:
        raise NotShown(f"'{text}': memory has no end; write [0:8]")
    at = np.arange(index.start or 0, index.stop, index.step or 1, dtype=np.int64) * size + base
    values, undefined = _loaded(frame, target, at, np.zeros(at.shape, np.bool_))
    return _lines(values, undefined, target, False)


def _loaded(frame: Frame, target: Element, addresses: Any, unknown: Any) -> tuple[Any, Any]:
    """What memory holds; what lies outside of buffers is undefined."""
    flat, held = np.asarray(addresses).reshape(-1), register_dtype(target)
    values, undefined = np.zeros(flat.shape, held), np.ones(flat.shape, np.bool_)
    dtype = memory_dtype(target)
    for buffer in frame.memory.buffers:
        index = (flat - buffer.base) // dtype.itemsize
        inside = (flat >= buffer.base) & (flat <= buffer.base + buffer.size - dtype.itemsize)
        if inside.any():
            values[inside] = from_memory(target, buffer.view(dtype)[index[inside]])
            undefined[inside] = False
    extents = np.shape(addresses)
    return values.reshape(extents), undefined.reshape(extents) | unknown


def _text(array: Any, undefined: Any, e: Element, seen: Seen, frame: Frame) -> str:
    if isinstance(e, Pointer):
        size = memory_dtype(e.element).itemsize

        def address(a: int) -> str:
            place, _, offset = frame.memory.place(a).rpartition(" ")
            return f"{place} {int(offset) // size}" if offset.isdigit() else f"{a:#x}"

        named = np.array([address(int(a)) for a in np.ravel(array)], object)
        return _lines(named.reshape(np.shape(array)), undefined, e, False)
    return _lines(array, undefined, e, seen.unsigned)


def _lines(array: Any, undefined: Any, e: Element, unsigned: bool) -> str:
    """Numbers in brackets, those in the middle left out where there are many."""
    array = np.asarray(array)
    if e == I1:
        array = array.astype(np.bool_)
    elif unsigned and is_int(e):
        array = array.view(f"u{array.dtype.itemsize}")
    words = np.empty(array.shape, object)
    flat, hidden = words.reshape(-1), np.broadcast_to(undefined, array.shape).reshape(-1)
    for at, number in enumerate(array.reshape(-1)):
        flat[at] = UNDEFINED if hidden[at] else _number(number, e)
    words = flat.reshape(array.shape)
    if not words.shape:
        return str(words[()])
    width = max(map(len, flat), default=0)
    return np.array2string(words, threshold=_MOST, edgeitems=_EDGE, max_line_width=100,
                           formatter={"all": lambda word: str(word).rjust(width)})


def _number(number: Any, e: Element) -> str:
    if isinstance(number, str):
        return number
    if e == I1:
        return "true" if number else "false"
    return f"{float(number):.6g}" if is_float(e) else str(int(number))
