"""Conversions between bytes, small integers and floats whose elements share 32-bit registers.

Bytes become pairs of 16-bit floats.  For an i8 x the word

    (x & 0x7f) | 0x4300    is the bf16 128 + (x & 0x7f)
    (x & 0x80) | 0x4300    is the bf16 128, or 256 where x is negative

and their difference is x; (x & 0xff) ^ 0x6480 is the f16 1024 + 128 + x.  An unsigned x is 128 and
such a number, or without the 0x80 of the f16.  Bytes 0 and 2 of a word are so converted without
being moved.  8-bit floats come by twos as f16 (cvt.rn.f16x2.e4m3x2)."""

from collections.abc import Sequence

from tritonc.analysis.values import int_of
from tritonc.backend.emit.elements.bit_fields import byte_pair, field_pair, most, permute, spread
from tritonc.backend.emit.elements.packed import (
    able,
    by_twos,
    each_register,
    lone_byte,
    note,
    set_pairs,
    take,
    vector,
)
from tritonc.backend.emit.function import FunctionEmitter, Names
from tritonc.backend.emit.literals import literal, llvm_type
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op, Value
from tritonc.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, I8, Scalar, element, is_pointer, scalar

# Integers that a fraction tells apart, with the bits of that number, from which on floats count in
# ones.
_FRACTIONS = {BF16: (128, 0x4300), F16: (1024, 0x6400)}
_COUNTS, _MIDDLE = 0x4B000000, 1 << 22  # the bits of 2**23, and the middle of its fractions
_HALF_OF_BYTES = {F8E4M3: "e4m3x2", F8E5M2: "e5m2x2"}


def convert_bytes(f: FunctionEmitter, op: Op) -> bool:
    """Convert bytes that came in words, or each in its own, to 16-bit floats, or 8-bit floats to
    those or to f32; False if the operation is something else."""
    source, target = scalar(op.operands[0].type), scalar(op.result.type)
    names, demanded = f.values[op.operands[0]], members(f.demanded(op.result))
    integers = source == I8 and op.name in ("sitofp", "uitofp") and target in (F16, BF16)
    floats = source in _HALF_OF_BYTES and op.name == "fpcast" and target in (F16, BF16, F32)
    if not (integers or floats) or not (
            able(f, target) if integers else "f8_conversion" in f.target.features) \
            or not all(names[r] in f.words or (integers and lone_byte(f, names[r]))
                       for r in demanded):
        return False
    halves: dict[tuple[str, int], str] = {}
    if target == F32:
        found = f.values[op.result] = f.blank(op.result.type)
        for r in demanded:
            half = _single(f, source, f.words[names[r]], halves)
            found[r] = f.op(f"fpext half {half} to float")
        return True

    def pair(r: int) -> Names:
        a, b = (f.words.get(name) or (lone_byte(f, name), 0) for name in names[r : r + 2])
        if integers:
            vector = _byte_pair(f, target, spread(f, a, b), op.name == "sitofp")
        elif target == F16 and (b[0], b[1]) == (a[0], a[1] + 1) and not a[1] & 1:
            vector = _half(f, source, a, halves)
        else:
            vector = _float_pair(f, target, [_single(f, source, one, halves) for one in (a, b)])
        return take(f, target, vector)

    return by_twos(f, op.result) and set_pairs(f, op.result, pair)


def convert_near(f: FunctionEmitter, op: Op) -> bool:
    """Convert integers near 0 to f32: a float that counts in ones has each in its fraction, which a
    subtraction leaves.  Conversions take four times as long as both on a multiprocessor."""
    source, target = scalar(op.operands[0].type), scalar(op.result.type)
    if target != F32 or "bounds" not in op.attributes:
        return False
    signed, flipped = op.name == "sitofp", dict[str, str]()

    def convert(name: str) -> str:
        word, byte = f.words.get(name, ("", 0)) if source == I8 else ("", 0)
        if not word:
            wide = name if source.bits == 32 else f.op(
                f"{'sext' if signed else 'zext'} {llvm_type(source)} {name} to i32")
            bits = f.op(f"add i32 {wide}, {_COUNTS + _MIDDLE}")
        else:
            if signed and word not in flipped:
                flipped[word] = f.op(f"xor i32 {word}, {0x80808080}")
            bits = permute(f, flipped.get(word, word), str(_COUNTS), 0x7650 | byte)
        base = float(2**23 + (_MIDDLE if not word else 128 if signed else 0))
        number = f.op(f"bitcast i32 {bits} to float")
        return f.op(f"fsub float {number}, {literal(F32, base)}")

    each_register(f, op, convert)
    return True


def convert_to_bytes(f: FunctionEmitter, op: Op) -> bool:
    """Convert f32 to 8-bit floats by twos, which are a word; False if the operation is another."""
    source, target = scalar(op.operands[0].type), scalar(op.result.type)
    names = f.values[op.operands[0]]
    if source != F32 or target not in _HALF_OF_BYTES or not (
            "f8_conversion" in f.target.features and by_twos(f, op.result)):
        return False

    def pair(r: int) -> Names:
        both = f.call(f"llvm.nvvm.ff.to.{_HALF_OF_BYTES[target]}.rn", "i16",
                      f"float {names[r + 1]}", f"float {names[r]}")
        high = f.op(f"lshr i16 {both}, 8")
        found = [f.op(f"trunc i16 {one} to i8") for one in (both, high)]
        note(f, f.op(f"zext i16 {both} to i32"), found)
        return found

    return set_pairs(f, op.result, pair, names)


def convert_small(f: FunctionEmitter, op: Op) -> bool:
    """Convert integers that are known to lie within a fraction's numbers: each is added to the bits
    of a float with that exponent, which is subtracted then."""
    source, target = scalar(op.operands[0].type), scalar(op.result.type)
    if target not in _FRACTIONS or "bounds" not in op.attributes:
        return False
    number, pattern = _FRACTIONS[target]
    least, most = op.attributes["bounds"]
    if source.bits not in (16, 32) or most - least >= number or abs(least) > number \
            or not able(f, target) or not by_twos(f, op.result):
        return False
    t = f"<2 x {llvm_type(target)}>"
    value, less, added = _natural_parts(op.operands[0], number)
    moved = 0 if less is not None or added == least else least
    if moved:
        value, less, added = op.operands[0], None, least
    one = f"{llvm_type(target)} {literal(target, float(number - added))}"
    known: dict[tuple[Value, str, str], str] = {}

    def part(value: Value, r: int) -> str:
        names = f.values[value]
        key = value, names[r], names[r | 1]
        if key not in known:
            word = _natural_pair(f, value, r, pattern) if not moved else _joined(
                f, [f.op(f"add i{source.bits} {name}, {pattern - moved}") for name in key[1:]],
                source)
            known[key] = f.op(f"bitcast i32 {word} to {t}")
        return known[key]

    def pair(r: int) -> Names:
        other = f"<{one}, {one}>" if less is None else part(less, r)
        return take(f, target, f.op(f"fsub {t} {part(value, r)}, {other}"))

    return set_pairs(f, op.result, pair)


def join_halves(f: FunctionEmitter, op: Op) -> bool:
    """The lower halves of words, by twos, as 16-bit floats; False if the operation is another."""
    cut, target = op.operands[0].op, element(op.result.type)
    if cut is None or cut.name != "truncate" or target not in (F16, BF16) \
            or scalar(cut.operands[0].type).bits != 32 or not by_twos(f, op.result):
        return False
    (whole,), e = cut.operands, scalar(op.result.type)
    names = f.values[whole]

    def pair(r: int) -> Names:
        word = _bits_pair(f, whole, r, 0, 0xFFFF) or _joined(
            f, names[r : r + 2], scalar(whole.type))
        return take(f, e, f.op(f"bitcast i32 {word} to <2 x {llvm_type(e)}>"))

    return set_pairs(f, op.result, pair, names)


def _bits_pair(f: FunctionEmitter, value: Value, r: int, left: int, mask: int, depth: int = 6
               ) -> str:
    """The bits `mask` of two integers, moved to the left, in the halves of a word; "" if that is
    not made of masks and shifts of bits that lie in the integers' own lower halves."""
    op = value.op if depth else None
    count = int_of(op.operands[1]) if op is not None and len(op.operands) == 2 else None
    if op is not None and op.name in ("or", "xor"):
        parts = [_bits_pair(f, v, r, left, mask, depth - 1) for v in op.operands]
        return f.op(f"{op.name} i32 {parts[0]}, {parts[1]}") if all(parts) else ""
    if op is not None and count is not None and op.name == "and":
        return _bits_pair(f, op.operands[0], r, left, mask & count, depth - 1)
    if op is not None and count is not None and op.name == "lshr" and 0 <= count < 32:
        return _bits_pair(f, op.operands[0], r, left - count, mask << count, depth - 1)
    if op is not None and count is not None and op.name == "mul" and (
            count & 0xFFFFFFFF).bit_count() == 1:
        by = (count & 0xFFFFFFFF).bit_length() - 1
        return _bits_pair(f, op.operands[0], r, left + by, mask >> by, depth - 1)
    mask &= (1 << most(value).bit_length()) - 1
    moved = mask << left if left >= 0 else mask >> -left
    names = f.values[value]
    if not 0 < mask < 1 << 16 or moved >= 1 << 16:
        return ""
    word = field_pair(f, value, r, mask.bit_length()) or byte_pair(f, value, r) or _joined(
        f, (names[r], names[r | 1]), scalar(value.type))
    if left:
        word = f.op(f"{'shl' if left > 0 else 'lshr'} i32 {word}, {abs(left)}")
    return f.op(f"and i32 {word}, {moved << 16 | moved}")


def _natural_parts(value: Value, number: int) -> tuple[Value, Value | None, int]:
    """(x, y, n): the value is x + n or, if there is a y, x - y, of natural numbers that are known
    to be below `number`; it is x itself if nothing is known."""
    op = value.op
    if op is not None and op.name == "sub" and all(most(v) < number for v in op.operands):
        return op.operands[0], op.operands[1], 0
    added = int_of(op.operands[1]) if op is not None and op.name == "add" else None
    if op is not None and added is not None and most(op.operands[0]) < number:
        return op.operands[0], None, added
    return value, None, 0


def _natural_pair(f: FunctionEmitter, value: Value, r: int, pattern: int) -> str:
    """Two natural numbers as the fractions of two floats: a mask and the exponent meet both at
    once, and bytes of one word come to their places together with the exponent."""
    op, names, magic = value.op, f.values[value], pattern << 16 | pattern
    while op is not None and op.name == "reshape" and f.values.get(op.operands[0]) == names:
        op = op.operands[0].op
    if op is not None and op.name == "or" and (
            word := _bits_pair(f, value, r, 0, (1 << most(value).bit_length()) - 1)):
        return f.op(f"or i32 {word}, {_hidden(f, magic)}")
    constant = int_of(op.operands[1]) if op is not None and op.name in ("and", "add") else None
    if op is not None and constant is not None and most(value) < 1 << 16:
        if op.name == "add":
            word = _natural_pair(f, op.operands[0], r, pattern)
            return f.op(f"add i32 {word}, {constant << 16 | constant}")
        names = f.values[op.operands[0]]
        word = field_pair(f, op.operands[0], r, constant.bit_length()) or (
            byte_pair(f, op.operands[0], r) if constant < 1 << 8 else "") or _joined(
            f, (names[r], names[r | 1]), scalar(value.type))
        return _logic(f, word, constant << 16 | constant, _hidden(f, magic), "0xEA")
    if op is not None and op.name == "zext" and scalar(op.operands[0].type) == I8:
        (a, i), (b, j) = (f.words.get(f.values[op.operands[0]][n], ("", 0)) for n in (r, r | 1))
        if a and a == b:  # bytes 4 and 5 are those of the exponent
            return permute(f, a, _hidden(f, pattern), 0x5050 | i | j << 8)
    word = _joined(f, (names[r], names[r | 1]), scalar(value.type))
    return f.op(f"or i32 {word}, {magic}")


def _joined(f: FunctionEmitter, names: Sequence[str], e: Scalar) -> str:
    """The lower halves of two integers as a word."""
    words = names if e.bits == 32 else [f.op(f"zext i{e.bits} {name} to i32") for name in names]
    return permute(f, words[0], words[1], 0x5410)


def _logic(f: FunctionEmitter, word: str, mask: int, number: str, table: str) -> str:
    """lop3 of a word, a mask and a number.

    ptxas makes two instructions of `(x & c) | d`, at half the rate of others each, if it knows
    both numbers: so it is not told d."""
    return f.op(f'call i32 asm "lop3.b32 $0, $1, {mask}, $2, {table};", "=r,r,r"'
                f"(i32 {word}, i32 {number})")


def _byte_pair(f: FunctionEmitter, target: Scalar, word: str, signed: bool) -> str:
    """Bytes 0 and 2 as two floats."""
    t, e = f"<2 x {llvm_type(target)}>", llvm_type(target)

    def logic(mask: int, number: int, table: str) -> str:
        return f.op(f"bitcast i32 {_logic(f, word, mask, _hidden(f, number), table)} to {t}")

    def both(number: float) -> str:
        return f"<{e} {literal(target, number)}, {e} {literal(target, number)}>"

    if target == F16:
        number, table = (0x64806480, "0x6A") if signed else (0x64006400, "0xEA")
        less = both(1152.0 if signed else 1024.0)
        return f.op(f"fsub {t} {logic(0x00FF00FF, number, table)}, {less}")
    first = logic(0x007F007F, 0x43004300, "0xEA")
    second = logic(0x00800080, 0x43004300, "0xEA" if signed else "0xAE")  # ~x for an unsigned x
    found = f.op(f"fsub {t} {first}, {second}")
    return found if signed else f.op(f"fadd {t} {found}, {both(128.0)}")


def _hidden(f: FunctionEmitter, number: int) -> str:
    """A number that the assembler does not know: no address has its highest bit set.  Of two that
    it knows, ptxas moves one to a register before each instruction."""
    parameter = next((v for v in f.kernel.parameters if is_pointer(v.type)), None)
    if parameter is None:
        return str(number)
    name = f.values[parameter][0]
    address = f.prelude(f"ptrtoint {llvm_type(element(parameter.type))} {name} to i64")
    high = f.prelude(f"trunc i64 {f.prelude(f'lshr i64 {address}, 63')} to i32")
    return f.prelude(f"add i32 {high}, {number}")


def _half(f: FunctionEmitter, source: Scalar, place: tuple[str, int],
          halves: dict[tuple[str, int], str]) -> str:
    """The two 8-bit floats of the half of a word in which a byte is, as f16."""
    key = place[0], place[1] >> 1
    if key not in halves:
        word = f.op(f"lshr i32 {key[0]}, 16") if key[1] else key[0]
        halves[key] = f.call(f"llvm.nvvm.{_HALF_OF_BYTES[source]}.to.f16x2.rn", "<2 x half>",
                             f"i16 {f.op(f'trunc i32 {word} to i16')}")
    return halves[key]


def _single(f: FunctionEmitter, source: Scalar, place: tuple[str, int],
            halves: dict[tuple[str, int], str]) -> str:
    """One 8-bit float as f16."""
    vector = _half(f, source, place, halves)
    return f.op(f"extractelement <2 x half> {vector}, i32 {place[1] & 1}")


def _float_pair(f: FunctionEmitter, target: Scalar, halves: Sequence[str]) -> str:
    """Two f16 as a pair of `target`, which has them all."""
    if target == F16:
        return vector(f, F16, halves)
    low, high = (f.op(f"fpext half {name} to float") for name in halves)
    return f.call("llvm.nvvm.ff2bf16x2.rn", "<2 x bfloat>", f"float {high}", f"float {low}")
