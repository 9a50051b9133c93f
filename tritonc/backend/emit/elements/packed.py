"""Elements that share a 32-bit register: operations on two of 16 bits at once.

Accesses of shared memory that move whole words note of each element which word it is part of
(`FunctionEmitter.words`), and so do the operations here.  Where two neighbouring registers of an
operand are the halves of a word, one instruction computes both, and nothing is taken apart."""

from collections.abc import Callable, Sequence

from tritonc.analysis.values import constant_of
from tritonc.backend.emit.function import FunctionEmitter, Names
from tritonc.backend.emit.literals import bits_of, llvm_type
from tritonc.backend.emit.registers import members
from tritonc.ir.core import Op, Value
from tritonc.ir.types import BF16, F16, Scalar, scalar


def note(f: FunctionEmitter, word: str, names: Sequence[str]) -> None:
    """These elements are `word`, the first lowest."""
    f.words.update((name, (word, i)) for i, name in enumerate(names))


def lone_byte(f: FunctionEmitter, name: str) -> str:
    """The word of zeros and this byte, which was loaded by itself; "" for others."""
    word = f.loaded.get(name, ("", 0))[0]
    return word if word in f.alone else ""


def whole_word(f: FunctionEmitter, names: Sequence[str]) -> str:
    """The word that these elements are, in their order; "" if there is none."""
    word = f.words.get(names[0], ("", 0))[0]
    same = all(f.words.get(name) == (word, i) for i, name in enumerate(names))
    return word if word and same else ""


def take(f: FunctionEmitter, e: Scalar, vector: str) -> Names:
    t = llvm_type(e)
    names = [f.op(f"extractelement <2 x {t}> {vector}, i32 {i}") for i in (0, 1)]
    note(f, f.op(f"bitcast <2 x {t}> {vector} to i32"), names)
    return names


def vector(f: FunctionEmitter, e: Scalar, names: Sequence[str]) -> str:
    t = llvm_type(e)
    word = whole_word(f, names)
    return f.op(f"bitcast i32 {word} to <2 x {t}>") if word else f.vector(t, names)


def each_register(f: FunctionEmitter, op: Op, compute: Callable[..., str]) -> None:
    """Set the demanded registers of the result to `compute` of the operands' registers."""
    f.values[op.result] = map_registers(f, f.demanded(op.result), op.result, op.inputs(), compute)


def map_registers(f: FunctionEmitter, mask: int, like: Value, operands: list[Value],
                  compute: Callable[..., str]) -> list[str]:
    """`compute` for each register of the mask, once for equal operands."""
    found = f.blank(like.type)
    known: dict[tuple[str, ...], str] = {}
    lists = [f.values[v] for v in operands]
    for r in members(mask):
        key = tuple([names[r] for names in lists])
        name = known.get(key)
        if name is None:
            name = known[key] = compute(*key)
        found[r] = name
    return found


def able(f: FunctionEmitter, e: Scalar) -> bool:
    """Whether one instruction adds or multiplies two numbers of a format of 16 bits; of bf16 that
    is a fused multiply-add, before sm_90."""
    return e == F16 or (e == BF16 and "bf16_fma" in f.target.features)


def in_pairs(f: FunctionEmitter, op: Op, compute: Callable[..., str], feature: str = "") -> None:
    """The demanded registers of a result: `compute` of an LLVM type and operands, of two registers
    as vectors where that saves taking a word apart."""
    result, operands = op.result, op.operands
    e, mask = scalar(result.type), f.demanded(result)
    lists = [f.values[v] for v in operands]
    found, known = f.blank(result.type), dict[tuple[str, ...], str]()
    paired = able(f, e) and (not feature or feature in f.target.features)
    for r in members(mask):
        if found[r]:
            continue
        pair = [(names[r], names[r | 1]) for names in lists] if paired and not r & 1 and (
            mask >> (r | 1) & 1) else []
        if any(whole_word(f, names) for names in pair):
            vectors = (vector(f, e, p) for p in pair)
            found[r], found[r | 1] = take(f, e, compute(f"<2 x {llvm_type(e)}>", *vectors))
            continue
        key = tuple(names[r] for names in lists)
        if key not in known:
            known[key] = compute(llvm_type(e), *key)
        found[r] = known[key]
    f.values[result] = found


def choose(f: FunctionEmitter, t: str, condition: str, a: str, b: str) -> str:
    """One of two by a condition, which may be known."""
    if condition == "true" or a == b:
        return a
    return b if condition == "false" else f.op(f"select i1 {condition}, {t} {a}, {t} {b}")


def select_words(f: FunctionEmitter, op: Op) -> None:
    """Set the demanded registers of a choice between a tile that came in words and a number: whole
    words where all of one have the same condition."""
    condition, _, other = op.operands
    e, number, mask = scalar(op.result.type), constant_of(other), f.demanded(op.result)
    count, t, names = 32 // e.bits, llvm_type(e), f.values[op.operands[1]]
    found, known = f.blank(op.result.type), dict[tuple[str, ...], Names]()
    for r in members(mask):
        if found[r]:
            continue
        own, group = f.values[condition][r], slice(r, r + count)
        word = whole_word(f, names[group]) if number is not None and own[:1] == "%" and not (
            r % count) and mask >> r & (1 << count) - 1 == (1 << count) - 1 and all(
            name == own for name in f.values[condition][group]) else ""
        if not word:
            found[r] = choose(f, t, own, names[r], f.values[other][r])
            continue
        if (own, word) not in known:
            assert number is not None
            bits = bits_of(e, number) * sum(1 << e.bits * i for i in range(count))
            chosen = f.op(f"select i1 {own}, i32 {word}, i32 {bits}")
            parts = [f.op(f"trunc i32 {f.op(f'lshr i32 {chosen}, {e.bits * i}')} to i{e.bits}")
                     for i in range(count)]
            known[own, word] = parts if t == f"i{e.bits}" else [
                f.op(f"bitcast i{e.bits} {part} to {t}") for part in parts]
            note(f, chosen, known[own, word])
        found[group] = known[own, word]
    f.values[op.result] = found


def set_pairs(f: FunctionEmitter, result: Value, pair: Callable[[int], Names],
               *keys: Sequence[str]) -> bool:
    """Set the demanded registers of a result, all of which come by twos, to what `pair` gives for
    the even one: once where the lists `keys` have the same for both.  Always true."""
    found, known = f.blank(result.type), dict[tuple[str, ...], Names]()
    for r in members(f.demanded(result)):
        if not r & 1:
            key = tuple(name for names in keys for name in names[r : r + 2]) or (str(r),)
            if key not in known:
                known[key] = pair(r)
            found[r : r + 2] = known[key]
    f.values[result] = found
    return True


def by_twos(f: FunctionEmitter, result: Value) -> bool:
    """Whether the demanded registers of a result come by twos."""
    mask = f.demanded(result)
    return all(mask >> (r ^ 1) & 1 for r in members(mask))
