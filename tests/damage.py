"""Damage to sources, for the fuzzer: tokens deleted, doubled, swapped, replaced; cuts; splices."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

_PIECE = re.compile(
    rb"\s+|//[^\n]*|\w+|\.\.\.|[-+*/%&|^=<>!]=|&&|\|\||<<|>>|\+\+|--|->|.", re.DOTALL)
# Words that damage more than others do.
_WORDS = [word.encode() for word in (
    "if else for while do break continue return int float double half bool char unsigned long void "
    "kernel tunable const typedef restrict __constant__ alloc_const static_assert sizeof bitcast "
    "newaxis get_global_range get_program_id dot trans reshape sum max argmax cumsum atomic_add "
    "select fma exp assume multiple_of printf assert __debug_barrier int8 bfloat16 tf32 "
    "float8_e4m3 uint8 0 1 -1 2 0x7fffffff 4294967296 18446744073709551615 1e400 1.5f 1.5 0.0 "
    "( ) [ ] { } , ; : ? @ *? * + - / % ^ & | ~ ! = == < > << >> && || += ++ -- ... . -> # ## "
    "#define #if #endif #include #undef __LINE__ INFINITY NAN true \"s\" 'c' //! /* */ \\ "
    "[:, newaxis] [+] [^1, ^0] (float) (int[4]) @(1) phi psi load store : i32<4> %x @k").split()]


class Input(NamedTuple):
    """Bytes of a source of a language, "tc" or "tir"."""

    data: bytes
    language: str


def damaged(seed: int, number: int, sources: list[Input]) -> Input:
    """Input `number`: one source with one mistake, or a few."""
    rng = random.Random(f"{seed}:{number}")
    wanted = "tir" if rng.random() < 0.12 else "tc"
    # The shortest of four: damage is seen by what is near it, and the rest only takes time.
    some = [source for source in sources if source.language == wanted]
    data, language = min(rng.choices(some, k=4), key=lambda source: len(source.data))
    if rng.random() < 0.08:
        return Input(_random_bytes(rng, data), language)
    pieces = _PIECE.findall(data)
    mild = rng.random() < 0.6
    for _ in range(rng.choice((1, 1, 1, 2, 3) if mild else (1, 1, 2, 8))):
        if mild and pieces:
            at = _solid(rng, pieces)
            pieces[at] = _alike(rng, pieces[at], pieces)
        else:
            pieces = _damage(rng, pieces, sources)
    data = b"".join(pieces)
    if rng.random() < 0.05:
        data = _random_bytes(rng, data)
    return Input(data, language)


def _solid(rng: random.Random, pieces: list[bytes]) -> int:
    """The place of a piece; mostly of one that is no blank or comment."""
    for _ in range(4):
        at = rng.randrange(len(pieces))
        if not pieces[at].isspace() and not pieces[at].startswith(b"//"):
            break
    return at


def _kind(piece: bytes) -> str:
    """Pieces of one kind can often stand in each other's place."""
    first = piece[:1]
    return ("blank" if piece.isspace() else "number" if first.isdigit() else
            "name" if first.isalpha() or first == b"_" else
            "bracket" if first in b"()[]{};,:" else "operator")


def _alike(rng: random.Random, piece: bytes, pieces: list[bytes]) -> bytes:
    """Another piece of the same kind: such damage may well compile."""
    kind = _kind(piece)
    others = [p for p in pieces if _kind(p) == kind] if rng.random() < 0.6 else _WORDS
    return next((p for p in rng.sample(others, len(others)) if _kind(p) == kind), piece)


def _damage(rng: random.Random, pieces: list[bytes], sources: list[Input]) -> list[bytes]:
    if not pieces:
        return [rng.choice(_WORDS)]
    at, other = _solid(rng, pieces), _solid(rng, pieces)
    first, last = min(at, other), min(max(at, other), min(at, other) + rng.choice((1, 5, 40)))
    kind = rng.randrange(10)
    if kind == 0:
        return pieces[:at] + pieces[at + 1 :]
    if kind == 1:
        return [*pieces[:at], pieces[at], *pieces[at:]]
    if kind == 2:
        changed = list(pieces)
        changed[at], changed[other] = changed[other], changed[at]
        return changed
    if kind == 3:
        return [*pieces[:at], rng.choice(_WORDS), *pieces[at + 1 :]]
    if kind == 4:
        return [*pieces[:at], b" ", rng.choice(_WORDS), b" ", *pieces[at:]]
    if kind == 5:
        return [*pieces[:at], pieces[other], *pieces[at + 1 :]]
    if kind == 6:
        return pieces[:first] + pieces[last:]
    if kind == 7:
        return pieces[:last] + pieces[first:]
    if kind == 8:
        return pieces[:at] if rng.random() < 0.5 else pieces[at:]
    donor = _PIECE.findall(rng.choice(sources).data)
    if not donor:
        return pieces
    start = rng.randrange(len(donor))
    return pieces[:first] + donor[start : start + rng.choice((1, 3, 10, 60))] + pieces[last:]


def _random_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 10))):
        at = rng.randrange(len(changed) + 1)
        byte = rng.choice((rng.randrange(256), rng.randrange(32, 127), rng.randrange(32, 127)))
        if rng.random() < 0.5 or at == len(changed):
            changed.insert(at, byte)
        else:
            changed[at] = byte
    return bytes(changed)
