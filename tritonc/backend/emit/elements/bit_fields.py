"""Two fields of one word at once: small integers that memory holds packed, such as weights of four
bits.

    (x >> s) & 15      of register r           %b = byte s / 8 of x, alone in a word
    (x >> s + 4) & 15  of register r + 1       %p = %b * 0x1001

The product holds the byte twice, twelve bits apart: at bits 0 and 16 begin the two fields, which a
mask leaves.  Two shifts and what joins them are one multiplication, which runs in other units than
the masks that conversions are made of.  It needs to be known that both fields are of one byte, or
of a number of few bits: `Elements` says by how much registers shift."""

from tritonc.analysis.values import SPREADS, int_of, origin
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.ir.core import Value
from tritonc.ir.types import scalar, shape

BYTE, WORD, HALF = 8, 32, 16


def permute(f: FunctionEmitter, a: str, b: str, selector: int | str) -> str:
    """The bytes of two words, 0 to 3 and 4 to 7, that the selector's four digits name."""
    return f.call("llvm.nvvm.prmt", "i32", f"i32 {a}", f"i32 {b}", f"i32 {selector}")


def field_pair(f: FunctionEmitter, fields: Value, register: int, bits: int) -> str:
    """A word with the lowest `bits` of this register of `fields` from bit 0 on, and of the next
    register from bit 16 on, and other bits elsewhere; "" if two are not cheaper at once."""
    shift = fields.op
    if shift is None or shift.name not in ("ashr", "lshr") or scalar(fields.type).bits != WORD:
        return ""
    source, by = shift.operands
    names = f.values[source]
    first, second = (_shifts(f, by, r) for r in (register, register | 1))
    apart = {b - a for a, b in zip(first, second, strict=True)}
    words = [names[register], names[register | 1]]
    if words[0] != words[1] and apart == {0}:
        return _of_two_words(f, words, f.values[by][register], first, bits,
                             byte_pair(f, source, register))
    if words[0] != words[1] or not first or len(apart) != 1:
        return ""
    (distance,) = apart
    least = min(first)
    if not bits <= distance <= HALF - bits:
        return ""
    if len({*first}) == 1 and most(source) >> least < 1 << HALF - distance:
        byte = f.op(f"lshr i32 {names[register]}, {least}") if least else names[register]
    elif distance + bits <= BYTE and all(a % BYTE == 0 and 0 <= a < WORD for a in first):
        place = str(least // BYTE) if len({*first}) == 1 else f.op(
            f"lshr i32 {f.values[by][register]}, 3")
        zeros = 0x4440
        selector = str(zeros | int(place)) if place.isdigit() else f.op(
            f"or disjoint i32 {place}, {zeros}")
        byte = permute(f, names[register], "0", selector)
    else:
        return ""
    return f.op(f"mul i32 {byte}, {1 + (1 << HALF - distance)}")


def _of_two_words(f: FunctionEmitter, words: list[str], by: str, shifts: list[int], bits: int,
                  joined: str) -> str:
    """The same for fields at one place of two words: a byte of each, which are shifted at once.
    `joined`: both, where they are bytes."""
    if not all(0 <= s < (BYTE if joined else WORD) and s % BYTE + bits <= BYTE for s in shifts):
        return ""
    selector = str(shifts[0] // BYTE * 0x101 | 0x400)
    if len({*shifts}) > 1:
        byte = f.op(f"lshr i32 {by}, 3")
        selector = f.op(f"or disjoint i32 {f.op(f'mul i32 {byte}, {0x101}')}, {0x400}")
    word = joined or permute(f, words[0], words[1], selector)
    inside = {s % BYTE for s in shifts}
    rest = str(*inside) if len(inside) == 1 else f.op(f"and i32 {by}, {BYTE - 1}")
    return word if rest == "0" else f.op(f"lshr i32 {word}, {rest}")


def byte_pair(f: FunctionEmitter, value: Value, register: int) -> str:
    """A word with this register of a tile of bytes in its byte 0, the next one in byte 2, and other
    bits elsewhere; "" if memory did not bring both in words."""
    op = value.op
    if op is None or op.name != "zext" or scalar(op.operands[0].type).bits != BYTE:
        return ""
    first, second = (f.words.get(f.values[op.operands[0]][r]) for r in (register, register | 1))
    return spread(f, first, second) if first and second else ""


def spread(f: FunctionEmitter, a: tuple[str, int], b: tuple[str, int]) -> str:
    """A word with one byte at its byte 0 and the other one at byte 2."""
    (word, i), (other, j) = a, b
    if word == other and j == i + 2:
        return word if i == 0 else f.op(f"lshr i32 {word}, 8")
    selector = i | (j + 4 if word != other else j) << 8
    return permute(f, word, other, selector)


def most(value: Value) -> int:
    """A bound of the natural numbers of a value; that of a word for others."""
    op = origin(value, (*SPREADS, "trans", "convert_layout")).op
    if op is not None and op.name == "zext":
        return (1 << scalar(op.operands[0].type).bits) - 1
    if op is not None and op.name == "or":
        return (1 << max(most(v).bit_length() for v in op.operands)) - 1
    by = int_of(op.operands[1]) if op is not None and op.name in ("and", "add", "mul") else None
    if op is None or by is None or by < 0:
        return (1 << WORD) - 1
    if op.name == "mul":
        return min(most(op.operands[0]) * by, (1 << WORD) - 1)
    return by if op.name == "and" else most(op.operands[0]) + by


def _shifts(f: FunctionEmitter, by: Value, register: int) -> list[int]:
    """What a register of a tile holds in each thread, once for those that differ along axes of a
    broadcast alone; nothing if that is not known."""
    layout = f.layout(by)
    extents = shape(by.op.operands[0].type if by.op is not None and by.op.name == "broadcast"
                    else by.type)  # along other axes all is the same
    places = [layout.at(register)]
    for basis in layout.thread:
        if any(i and n > 1 for i, n in zip(layout.coordinates(basis), extents, strict=True)):
            places += [place ^ basis for place in places]
    found = []
    for place in places:
        number = f.elements.at(by, layout.coordinates(place) if extents else ())
        if number is None:
            return []
        found.append(number)
    return found
