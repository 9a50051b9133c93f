"""Words of neighbours: put together, taken apart, and minima and maxima of their halves.

Bytes that came from memory in words go from there to pairs of halves by one byte permute, and back
to words of four by another; nothing is taken apart into elements on the way."""

from tritonc.analysis.values import defined_by
from tritonc.backend.emit.elements.bit_fields import permute
from tritonc.backend.emit.elements.packed import each_register, lone_byte, note
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.registers import members
from tritonc.backend.emit.warps import operand_word
from tritonc.ir.core import Op
from tritonc.ir.types import I8, I16, scalar

_MINUS_ONES = 0xBC00BC00  # -1 in f16, twice
_ZEROS = 0x4040  # of a selector: bytes 1 and 3 are those of a second word that is 0


def pack(f: FunctionEmitter, op: Op) -> None:
    source, made = op.operands[0], op.operands[0].op
    e, names, found = scalar(source.type), f.values[source], f.blank(op.result.type)
    each = 32 // e.bits
    widened = made is not None and made.name in ("zext", "sext") and scalar(
        made.operands[0].type) == I8 and e == I16
    for r in members(f.demanded(op.result)):
        run = slice(r * each, (r + 1) * each)
        pair = f.values[made.operands[0]][run] if widened and made is not None else []
        places = [place for name in pair if (place := f.words.get(name) or f.loaded.get(name))]
        if len(places) == 2 and made is not None:
            found[r] = _of_bytes(f, places[0], places[1], made.name == "sext")
        else:
            found[r] = operand_word(f, e, names[run])
    f.values[op.result] = found


def _of_bytes(f: FunctionEmitter, a: tuple[str, int], b: tuple[str, int], signed: bool) -> str:
    """Two bytes as the halves of a word."""
    (word, i), (other, j) = a, b
    low = i | j << 8 if word == other else i | (j + 4) << 8
    if signed:
        return permute(f, word, other if word != other else "0", low | (low | 0x808) << 4)
    if word == other:
        return permute(f, word, "0", low | _ZEROS)
    first, second = (_aligned(f, w, k & 2) for w, k in (a, b))
    return permute(f, first, second, (0x10, 0x32)[i & 1] | (0x54, 0x76)[j & 1] << 8)


def _aligned(f: FunctionEmitter, word: str, i: int) -> str:
    """Bytes i and i + 1 of a word as halves, once in a block; of a byte by itself it and 0."""
    key = f.label, word, i
    if key not in f.halves:
        f.halves[key] = word if word in f.alone else permute(
            f, word, "0", i | (i + 1) << 8 | _ZEROS)
    return f.halves[key]


def unpack(f: FunctionEmitter, op: Op) -> None:
    t, words, found = f.type(op.result), f.values[op.operands[0]], f.blank(op.result.type)
    each = 32 // scalar(op.result.type).bits
    vectors: dict[int, str] = {}
    for r in members(f.demanded(op.result)):
        w, i = divmod(r, each)
        if w not in vectors:
            vectors[w] = f.op(f"bitcast i32 {words[w]} to <{each} x {t}>")
        found[r] = f.op(f"extractelement <{each} x {t}> {vectors[w]}, i32 {i}")
        f.words[found[r]] = words[w], i
    f.values[op.result] = found


def resize(f: FunctionEmitter, op: Op) -> None:
    t, to = f.type(op.operands[0]), f.type(op.result)
    name, emit = "trunc" if op.name == "truncate" else op.name, f.op
    words = (t, to, name) == ("i8", "i32", "zext")
    if not _lowest_bytes(f, op):
        each_register(f, op, lambda a: (words and lone_byte(f, a)) or emit(
            f"{name} {t} {a} to {to}"))


def _lowest_bytes(f: FunctionEmitter, op: Op) -> bool:
    """The lowest bytes of halves by fours, which are a word; False if a truncation is another."""
    made, mask = defined_by(op.operands[0], "unpack"), f.demanded(op.result)
    if made is None or op.name != "truncate" or scalar(op.result.type) != I8 or any(
            mask >> (r & ~3) & 15 != 15 for r in members(mask)):
        return False
    halves, found = f.values[made.operands[0]], f.blank(op.result.type)
    for r in members(mask):
        if not r & 3:
            word = permute(f, halves[r >> 1], halves[r >> 1 | 1], 0x6420)
            cut = f.op(f"bitcast i32 {word} to <4 x i8>")
            found[r : r + 4] = [f.op(f"extractelement <4 x i8> {cut}, i32 {i}") for i in range(4)]
            note(f, word, found[r : r + 4])
    f.values[op.result] = found
    return True


def extreme(f: FunctionEmitter, op: Op) -> None:
    name = op.name.removesuffix("_halves")

    def compute(a: str, b: str) -> str:
        if name == "add" or op.attributes.get("sums"):
            return _by_sums(f, name, a, b)
        halves = [f.op(f"bitcast i32 {word} to <2 x i16>") for word in (a, b)]
        found = f.call(f"llvm.{name}.v2i16", "<2 x i16>", *(f"<2 x i16> {h}" for h in halves))
        return f.op(f"bitcast <2 x i16> {found} to i32")

    each_register(f, op, compute)


def _by_sums(f: FunctionEmitter, name: str, a: str, b: str) -> str:
    """By how far b is above a, or 0: small whole numbers are bits of f16 that are as far apart.
    These are subnormal: where LLVM has sums flush them, sums of integers take their place."""
    if name != "add":
        words = [f.op(f"bitcast i32 {word} to <2 x half>") for word in (a, _MINUS_ONES, b)]
        above = f.op("bitcast <2 x half> {} to i32".format(f.call(
            "llvm.nvvm.fma.rn.relu.f16x2", "<2 x half>", *(f"<2 x half> {w}" for w in words))))
        a, b = (b, above) if name == "umin" else (a, above)
    kind = "sub" if name == "umin" else "add"
    if f.options.flushes:
        return f.op(f"{kind} i32 {a}, {b}")
    first, second = (f.op(f"bitcast i32 {word} to <2 x half>") for word in (a, b))
    return f.op(f"bitcast <2 x half> {f.op(f'f{kind} <2 x half> {first}, {second}')} to i32")


def spread(f: FunctionEmitter, op: Op) -> None:
    each_register(f, op, lambda a: permute(f, a, "0", 0xBB99))


EMITTERS: dict[str, Emitter] = {
    "sext": resize, "zext": resize, "truncate": resize,
    "pack": pack, "unpack": unpack, "umin_halves": extreme, "umax_halves": extreme,
    "add_halves": extreme, "spread_halves": spread}
