"""One access of memory: a vector of elements, maybe under a guard, maybe with a cache policy.

Plain accesses are LLVM's own loads and stores.  A guarded one is inline assembly under a predicate,
for LLVM's masked load becomes branches.  Its destination is set first, to `other` or to zero, and
is an early-clobber output (`=&r`), as it is written before the address is read.  Elements narrower
than 32 bits travel packed in 32-bit words."""

from collections.abc import Sequence

from tritonc.backend.emit.elements.packed import whole_word
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import (
    CONSTANT_SPACE,
    GLOBAL_SPACE,
    SHARED_SPACE,
    bits_of,
    literal,
    memory_type,
)
from tritonc.backend.emit.module import NO_WRITES, READS, WRITES
from tritonc.ir.types import BF16, I8, Scalar
from tritonc.records import NamedTuple, dataclass
from tritonc.source import Span

_SPACE = {GLOBAL_SPACE: "global", SHARED_SPACE: "shared", CONSTANT_SPACE: "const"}

# Cache policies: suffix of the instruction and the feature it needs.
LOAD_POLICIES = {
    "nc": (".nc", ""), "ca": (".ca", ""), "cg": (".cg", ""), "cs": (".cs", ""), "cv": (".cv", ""),
    "no_allocate": (".L1::no_allocate", "l1_hint"),
    "evict_first": (".L1::evict_first", "l1_hint"), "evict_last": (".L1::evict_last", "l1_hint")}
STORE_POLICIES = {
    "wb": (".wb", ""), "cg": (".cg", ""), "cs": (".cs", ""), "wt": (".wt", ""),
    "no_allocate": (".L1::no_allocate", "l1_hint"),
    "evict_first": (".L1::evict_first", "l1_hint"), "evict_last": (".L1::evict_last", "l1_hint")}


class Access(NamedTuple):
    """Where and how: `pointer` is an operand in address space `space`."""

    pointer: str
    space: int
    element: Scalar
    width: int  # elements, a power of two
    guard: str = ""  # an i1 operand; "" for always
    cache: str = ""
    volatile: bool = False
    span: Span | None = None
    align: int = 0  # bytes, if they are more than the access moves

    @property
    def bytes(self) -> int:
        return self.element.bytes * self.width


@dataclass(frozen=True)
class Words:
    """How inline assembly moves `bytes`: `count` registers of `bits`, each of `each` elements."""

    count: int
    bits: int
    type: str
    constraint: str
    each: int


def words_of(access: Access) -> Words:
    size, t = access.element.bytes, memory_type(access.element)
    if size == 8:
        return Words(access.width, 64, t, "d" if t == "double" else "l", 1)
    if size == 4:
        return Words(access.width, 32, t, "f" if t == "float" else "r", 1)
    if access.bytes >= 4:
        return Words(access.bytes // 4, 32, "i32", "r", 4 // size)
    if access.bytes == 1:  # of which the other bits are zero
        return Words(1, 32, "i32", "r", 1)
    return Words(1, 16, "i16", "h", access.width)


def load(f: FunctionEmitter, access: Access, demanded: Sequence[int],
         other: int | float | None = None) -> dict[int, str]:
    """The `demanded` elements of the vector; `other` where the guard does not hold."""
    if access.guard == "false":
        return dict.fromkeys(demanded, literal(access.element, other or 0))
    plain = not access.guard and access.cache in ("", "nc")
    if access.element.bits == 1:
        return _load_bools(f, access, demanded, other, plain)
    return _plain_load(f, access, demanded) if plain else _asm_load(f, access, demanded, other)


def _load_bools(f: FunctionEmitter, access: Access, demanded: Sequence[int],
                other: int | float | None, plain: bool) -> dict[int, str]:
    """A byte of a word is tested in the word: one instruction."""
    words = words_of(access)
    if not plain:
        parts = load_words(f, access, words, demanded, other)
    elif access.width == 1:
        return {0: f.op(f"icmp ne i8 {_plain_vector(f, access, 'i8')}, 0")}
    elif words.count == 1:
        parts = {0: _plain_vector(f, access, words.type)}
    else:
        vector = f"<{words.count} x {words.type}>"
        name = _plain_vector(f, access, vector)
        parts = {w: f.op(f"extractelement {vector} {name}, i32 {w}") for w in range(words.count)}
    bits = [255 << i * 8 for i in range(words.each)]
    bytes_ = {i: f.op(f"and {words.type} {parts[i // words.each]}, {bits[i % words.each]}")
              for i in demanded}
    return {i: f.op(f"icmp ne {words.type} {name}, 0") for i, name in bytes_.items()}


def _plain_vector(f: FunctionEmitter, access: Access, vector: str) -> str:
    text = (f"load {'volatile ' if access.volatile else ''}{vector}, "
            f"ptr addrspace({access.space}) {access.pointer}, "
            f"align {max(access.bytes, access.align)}")
    if access.cache == "nc":
        text += f", !invariant.load {NO_WRITES}"
    return f.op(text)


def _plain_load(f: FunctionEmitter, access: Access, demanded: Sequence[int]) -> dict[int, str]:
    t = memory_type(access.element)
    vector = t if access.width == 1 else f"<{access.width} x {t}>"
    name = _plain_vector(f, access, vector)
    if access.width == 1:
        if access.element == I8 and f.has_words:
            _lone_byte(f, name, f.op(f"zext i8 {name} to i32"))
        return {0: name}
    found = {i: f.op(f"extractelement {vector} {name}, i32 {i}") for i in demanded}
    if access.space == SHARED_SPACE and access.element.bits in (8, 16) and access.bytes <= 16:
        f.words.update(_shared_words(f, access, vector, name, found))
    elif _shares(f, access) and access.bytes <= 16:
        f.loaded.update(_shared_words(f, access, vector, name, found))
    return found


def _lone_byte(f: FunctionEmitter, name: str, word: str) -> str:
    """Note the word that a byte loaded by itself is, with zeros."""
    f.loaded[name] = word, 0
    f.alone.add(word)
    return name


def _shares(f: FunctionEmitter, access: Access) -> bool:
    """Whether it matters which elements from global memory share a word."""
    return access.element == BF16 or (f.has_words and access.element == I8)


def _shared_words(f: FunctionEmitter, access: Access, vector: str, name: str,
                  found: dict[int, str]) -> dict[str, tuple[str, int]]:
    """Which elements of a loaded vector share a word, each with its word and its place in it."""
    each, count = 4 // access.element.bytes, access.bytes // 4
    if not count:
        words = [f.op(f"zext i16 {f.op(f'bitcast {vector} {name} to i16')} to i32")]
    elif count == 1:
        words = [f.op(f"bitcast {vector} {name} to i32")]
    else:
        cut = f.op(f"bitcast {vector} {name} to <{count} x i32>")
        words = [f.op(f"extractelement <{count} x i32> {cut}, i32 {i}") for i in range(count)]
    return {element: (words[i // each], i % each) for i, element in found.items()}


def _asm_load(f: FunctionEmitter, access: Access, demanded: Sequence[int],
              other: int | float | None) -> dict[int, str]:
    words = words_of(access)
    if access.bytes == 2 and access.width == 1:  # the other half is zero: none need be kept
        words = Words(1, 32, "i32", "r", 1)
    return unpack(f, access, words, load_words(f, access, words, demanded, other), demanded)


def load_words(f: FunctionEmitter, access: Access, words: Words, demanded: Sequence[int],
               other: int | float | None) -> dict[int, str]:
    fill = bits_of(access.element, 0 if other is None else other)
    size = access.element.bits if access.element.bits > 1 else 8
    word = sum(fill << (i * size) for i in range(words.each))
    n = words.count
    out = [f"${i}" for i in range(n)]
    guard, address = (f"@${n} ", f"${n + 1}") if access.guard else ("", f"${n}")
    text = ""
    if access.guard:
        text = "".join(f"mov.b{words.bits} {x}, 0x{word:X}; " for x in out)
    memory = _instruction(f, access, words, LOAD_POLICIES, "ld")
    text += f"{guard}{memory} {_braces(out)}, [{address}];"
    inputs = [*([("b", f"i1 {access.guard}")] if access.guard else []), _address(f, access)]
    result = words.type if n == 1 else f"{{{', '.join([words.type] * n)}}}"
    name = f.asm(result, text, [f"=&{words.constraint}"] * n, inputs,
                 WRITES if access.volatile else READS, memory=False)
    needed = sorted({i // words.each for i in demanded})
    return {0: name} if n == 1 else {w: f.op(f"extractvalue {result} {name}, {w}") for w in needed}


def unpack(f: FunctionEmitter, access: Access, words: Words, parts: dict[int, str],
           demanded: Sequence[int]) -> dict[int, str]:
    t = memory_type(access.element)
    if words.each == 1 and words.type == t:
        return {i: parts[i] for i in demanded}
    if words.each == 1 and t == "i8":
        return {0: _lone_byte(f, f.op(f"trunc i32 {parts[0]} to i8"), parts[0])}
    if words.each == 1:
        half = parts[0] if words.bits == 16 else f.op(f"trunc i32 {parts[0]} to i16")
        return {0: half if t == "i16" else f.op(f"bitcast i16 {half} to {t}")}
    vector = f"<{words.each} x {t}>"
    cut = {w: f.op(f"bitcast {words.type} {name} to {vector}") for w, name in parts.items()}
    found = {i: f.op(f"extractelement {vector} {cut[i // words.each]}, i32 {i % words.each}")
             for i in demanded}
    if _shares(f, access) and words.bits == 32:
        each = words.each
        f.loaded.update((name, (parts[i // each], i % each)) for i, name in found.items())
    return found


def store(f: FunctionEmitter, access: Access, values: Sequence[str]) -> None:
    t = memory_type(access.element)
    if access.element.bits == 1:
        values = [f.op(f"zext i1 {v} to i8") for v in values]
    if not access.guard and not access.cache:
        vector, name = t, values[0]
        if known := _known_words(f, access, values):
            vector = f"<{len(known)} x i32>" if len(known) > 1 else "i32"
            name = f.vector("i32", known) if len(known) > 1 else known[0]
        elif access.width > 1:
            vector = f"<{access.width} x {t}>"
            name = f.vector(t, values)
        f.line(f"store {'volatile ' if access.volatile else ''}{vector} {name}, "
               f"ptr addrspace({access.space}) {access.pointer}, "
               f"align {max(access.bytes, access.align)}")
        return
    words = words_of(access)
    packed = pack(f, access, words, values)
    text = f"{_instruction(f, access, words, STORE_POLICIES, 'st')} [$0], "
    text += f"{_braces([f'${i + 1}' for i in range(words.count)])};"
    inputs = [_address(f, access), *((words.constraint, f"{words.type} {x}") for x in packed)]
    if access.guard:
        text = f"@${words.count + 1} {text}"
        inputs.append(("b", f"i1 {access.guard}"))
    f.asm("void", text, [], inputs)


def _known_words(f: FunctionEmitter, access: Access, values: Sequence[str]) -> list[str]:
    """The words that elements narrower than 32 bits came in, if they are stored as they came."""
    each = 4 // access.element.bytes
    if each < 2 or access.bytes < 4:
        return []
    found = [whole_word(f, values[i : i + each]) for i in range(0, len(values), each)]
    return found if all(found) else []


def pack(f: FunctionEmitter, access: Access, words: Words, values: Sequence[str]) -> list[str]:
    t = memory_type(access.element)
    if words.each == 1:
        if words.type == t:
            return list(values)
        cast = "zext" if t == "i8" else "bitcast"
        return [f.op(f"{cast} {t} {v} to {words.type}") for v in values]
    if known := _known_words(f, access, values):
        return known
    vector = f"<{words.each} x {t}>"
    groups = [values[i : i + words.each] for i in range(0, len(values), words.each)]
    return [f.op(f"bitcast {vector} {f.vector(t, group)} to {words.type}") for group in groups]


def _instruction(f: FunctionEmitter, access: Access, words: Words,
                 policies: dict[str, tuple[str, str]], name: str) -> str:
    """Such as ld.global.nc.v4.b32."""
    policy = ""
    if access.volatile:
        name += ".volatile"
    elif access.cache:
        policy, feature = policies[access.cache]
        if feature:
            f.target.require(feature, access.span)
    vector = f".v{words.count}" if words.count > 1 else ""
    bits = min(words.bits, 8 * access.bytes)
    return f"{name}.{_SPACE[access.space]}{policy}{vector}.b{bits}"


def _address(f: FunctionEmitter, access: Access) -> tuple[str, str]:
    """The pointer as an input of inline assembly."""
    t = f"ptr addrspace({access.space})"
    if access.space == GLOBAL_SPACE:
        return "l", f"{t} {access.pointer}"
    return "r", f"i32 {f.op(f'ptrtoint {t} {access.pointer} to i32')}"


def _braces(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
