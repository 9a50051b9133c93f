"""Data between the lanes of a warp.

A shuffle moves 32 bits; wider elements travel in two words, narrower ones packed or widened."""

from collections.abc import Sequence

from tritonc.backend.emit.elements.casts import as_bits, from_bits
from tritonc.backend.emit.elements.packed import whole_word
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.ir.layouts.layout import LANE_BITS, WARP_SIZE
from tritonc.ir.types import TF32, Element

WARPGROUP_BITS = LANE_BITS + 2  # of a thread's number, below that of its warpgroup
FULL_WARP = "i32 -1"
_LAST = "i32 31"  # the clamp of a shuffle: the whole warp is one segment
_SEGMENTS = 8  # where the clamp has the mask of lane bits that number segments


def operand_word(f: FunctionEmitter, e: Element, names: Sequence[str]) -> str:
    """Elements as a word that matrix instructions read; a tf32 rounds."""
    if e == TF32:
        return f.call("llvm.nvvm.f2tf32.rna", "i32", f"float {names[0]}")
    return to_words(f, e, names)[0]


def to_words(f: FunctionEmitter, e: Element, names: Sequence[str]) -> list[str]:
    """One element or several narrow ones, the first lowest, as i32 words."""
    bits = max(e.bits, 8)
    if bits == 32:
        return [as_bits(f, e, names[0])]
    if len(names) * bits == 32 and (word := whole_word(f, names)):
        return [word]
    if bits == 64:
        pair = f.op(f"bitcast i64 {as_bits(f, e, names[0])} to <2 x i32>")
        return [f.op(f"extractelement <2 x i32> {pair}, i32 {i}") for i in (0, 1)]
    integers = [as_bits(f, e, name) for name in names]
    if len(integers) * bits < 32 or e.bits == 1:
        total = ""
        for i, name in enumerate(integers):
            word = f.op(f"zext i{e.bits} {name} to i32")
            if i:
                word = f.op(f"shl i32 {word}, {i * bits}")
                word = f.op(f"or disjoint i32 {total}, {word}")
            total = word
        return [total]
    packed = f.vector(f"i{bits}", integers)
    return [f.op(f"bitcast <{len(integers)} x i{bits}> {packed} to i32")]


def from_words(f: FunctionEmitter, e: Element, words: Sequence[str], count: int) -> list[str]:
    """The inverse of `to_words` for `count` elements."""
    bits = max(e.bits, 8)
    if bits == 32:
        return [from_bits(f, e, words[0])]
    if bits == 64:
        return [from_bits(f, e, f.op(f"bitcast <2 x i32> {f.vector('i32', words)} to i64"))]
    found = []
    for i in range(count):
        word = words[0] if not i else f.op(f"lshr i32 {words[0]}, {i * bits}")
        found.append(from_bits(f, e, f.op(f"trunc i32 {word} to i{e.bits}")))
    return found


def warpgroup(f: FunctionEmitter) -> str:
    return f.of_warp(f.thread, WARPGROUP_BITS)


def shuffle_index(f: FunctionEmitter, word: str, lane: str, own: int = 0) -> str:
    """The word of another lane of the warp, whose bits `own` are the thread's own: with those a
    constant `lane` takes no register."""
    return f.convergent("llvm.nvvm.shfl.sync.idx.i32", "i32", FULL_WARP, f"i32 {word}",
                        f"i32 {lane}", f"i32 {own << _SEGMENTS | WARP_SIZE - 1}")


def from_lane(f: FunctionEmitter, e: Element, name: str, mask: int, lane: int = 0) -> str:
    """An element of the lane whose number has the bits `lane` of `mask`, and its own beside."""
    words = [shuffle_index(f, word, str(lane), WARP_SIZE - 1 & ~mask)
             for word in to_words(f, e, [name])]
    return from_words(f, e, words, 1)[0]


def exchange(f: FunctionEmitter, e: Element, name: str, mask: int) -> str:
    """An element of the lane whose number differs by `mask`; asked for once in a block, for neither
    LLVM nor the assembler merges shuffles."""
    key = f.label, name, mask
    if key not in f.exchanged:
        words = [f.convergent("llvm.nvvm.shfl.sync.bfly.i32", "i32", FULL_WARP, f"i32 {word}",
                              f"i32 {mask}", _LAST) for word in to_words(f, e, [name])]
        f.exchanged[key] = from_words(f, e, words, 1)[0]
    return f.exchanged[key]
