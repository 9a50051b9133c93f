"""The intrinsics and the inline assembly that the emitter uses, for `simt`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tritonc.backend.target.matrix import INSTRUCTIONS
from tritonc.ir.layouts.fragment import a_fragment, accumulator_fragment, b_fragment
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.numeric.formats import add_to_odd, from_memory, round_to, round_to_tf32, to_memory
from tritonc.ir.types import BF16, F8E4M3, F8E5M2, F16

FLOATS = ("half", "bfloat", "float", "double")
_TYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64,
    "half": np.float16, "bfloat": np.float32, "float": np.float32, "double": np.float64,
}
Lanes = Any


def numpy_type(t: str) -> Any:
    return np.uint64 if t.startswith("ptr") else _TYPES[t]


def raw(t: str, a: Any) -> Any:
    """The bits of a value."""
    if t == "bfloat":
        return to_memory(BF16, np.ascontiguousarray(a))
    if t == "i1":
        return a.astype(np.uint8)
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def unraw(t: str, bits: Any) -> Any:
    """The inverse of `raw`."""
    if t == "bfloat":
        return from_memory(BF16, bits)
    if t == "i1":
        return bits != 0
    return np.ascontiguousarray(bits).view(numpy_type(t))


def fma(t: str, a: Any, b: Any, c: Any) -> Any:
    if t == "double":
        wide = np.longdouble
        return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(np.float64)
    total = add_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return round_to(BF16, total) if t == "bfloat" else total.astype(a.dtype)


def _saturated_difference(m: Any, name: str, types: list[str], v: list[Lanes], active: Any
                          ) -> Lanes:
    a, b = (x.view(np.int32).astype(np.int64) for x in v)
    return np.clip(a - b, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32)


def _extreme(choose: Any) -> Any:
    def compute(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
        a, b = v
        if types[0] in FLOATS:
            equal = np.where(np.signbit(a) == (choose is np.fmin), a, b)  # -0 before 0
            return np.where(a == b, equal, choose(a, b))
        if name[5] == "s":
            kind = f"i{a.dtype.itemsize}"
            return choose(a.view(kind), b.view(kind)).view(a.dtype) if a.dtype != bool else (
                a & b if choose is np.fmax else a | b)
        return choose(a, b)

    return compute


def _away(a: Any) -> Any:
    whole = np.trunc(a)
    rounded = whole + np.where(np.abs(a - whole) >= 0.5, np.copysign(1, a), 0).astype(a.dtype)
    return np.copysign(rounded, a)


def _unary(function: Any) -> Any:
    def compute(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
        if types[0] == "bfloat":
            return round_to(BF16, function(v[0].astype(np.float64)))
        return np.asarray(function(v[0])).astype(v[0].dtype)

    return compute


def _special(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    place, _, axis = name.rpartition(".")
    if axis in ("smid", "nsmid"):  # the multiprocessor's number, and how many there are
        return np.full(m.threads, 3 if axis == "nsmid" else 2, np.uint32)
    d = "xyz".index(axis)
    if place.endswith("nctaid"):
        return np.full(m.threads, m.grid[d], np.uint32)
    if place.endswith("ctaid"):
        return np.full(m.threads, m.block_id[d], np.uint32)
    if place.endswith("ntid"):
        return np.full(m.threads, m.block[d], np.uint32)
    return np.arange(m.threads, dtype=np.uint32) // prod(m.block[:d]) % np.uint32(m.block[d])


def _together(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """All threads, or as many as a barrier says, of which some may only arrive."""
    if ".count" not in name:
        assert m.chance is not None or active.all(), f"{name} without all threads"
        if m.chance is not None:
            m.meet(active, v[0], m.threads, said=v[-1])
        return
    _whole_warps(m, name, types, v, active)
    (count,) = np.unique(v[1][active])
    m.meet(active, v[0], int(count), ".arrive" not in name, v[-1] if len(v) > 2 else False)


def _set_registers(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """More come from those that others have given back."""
    _whole_groups(m, name, types, v, active)
    (count,) = np.unique(v[0][active])
    free = (int(m.registers.size * ((1 << 16) // m.threads & ~7)) - int(m.registers.sum()))
    if int(active.sum()) * int(count) - int(m.registers[active].sum()) > free:
        m.hold(active)
    else:
        m.registers[active] = count


def _whole_groups(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    groups = active.reshape(-1, 128)
    assert (groups.all(1) | ~groups.any(1)).all(), f"{name} in a part of a warpgroup"


def _whole_warps(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> None:
    warps = active.reshape(-1, 32)
    assert (warps.all(1) | ~warps.any(1)).all(), f"{name} in a part of a warp"


def _shuffle(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    _whole_warps(m, name, types, v, active)
    lane = np.arange(m.threads)
    segment = v[3].astype(np.int64) >> 8 & 31
    source = lane & segment | v[2].astype(np.int64) & ~segment & 31
    if "bfly" in name:
        source = (lane & 31) ^ source
    return v[1][(lane & ~31) | source]


def _vote(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """Of the lanes of each warp, or at a barrier, of all threads."""
    kind = np.any if ".any." in name or ".or." in name else np.all
    of_all = ".barrier." in name
    (_together if of_all else _whole_warps)(m, name, types, v, active)
    if of_all and (m.chance is not None or ".count" in name):
        return np.array([kind(m.meetings[n].votes) if n in m.meetings else False
                         for n in v[0].tolist()])
    votes = v[-1][active] if of_all else v[1].reshape(-1, 32)
    found = kind(votes, axis=-1)
    return np.full(m.threads, found) if of_all else np.repeat(found, 32)


def _ballot(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    _whole_warps(m, name, types, v, active)
    bits = v[1].reshape(-1, 32).astype(np.uint64) << np.arange(32, dtype=np.uint64)
    return np.repeat(bits.sum(axis=-1).astype(np.uint32), 32)


def _redux(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    _whole_warps(m, name, types, v, active)
    kind = name.rpartition(".")[2]
    table = {"add": np.add, "min": np.minimum, "max": np.maximum, "umin": np.minimum,
             "umax": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    a = v[0].view(np.int32) if kind in ("min", "max") else v[0]
    found = table[kind].reduce(a.reshape(-1, 32), axis=1, dtype=a.dtype)
    return np.repeat(found, 32).view(np.uint32)


def _to_int(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """cvt.rzi: saturates; a NaN gives 0 from f32 to 32 bits, else something else."""
    found = re.fullmatch(r"llvm\.nvvm\.([fd])2(u?)(i|ll)\.rz", name)
    assert found
    bits = 64 if found[3] == "ll" else 32
    low, high = (0, (1 << bits) - 1) if found[2] else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    nan = 0 if bits == 32 and found[1] == "f" else 1 << (bits - 1)
    whole = [int(x) if np.isfinite(x) else int(np.nan_to_num(np.sign(x))) << 70 for x in v[0]]
    out = [nan if np.isnan(x) else min(max(n, low), high) for x, n in zip(v[0], whole, strict=True)]
    return np.array([n % (1 << bits) for n in out], np.uint64).astype(f"u{bits // 8}")


def _towards_zero(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    near = v[0].astype(np.float32)
    over = np.abs(near.astype(np.float64)) > np.abs(v[0])
    return np.where(over, np.nextafter(near, np.float32(0)), near)


def _f8(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    e = F8E4M3 if "e4m3" in name else F8E5M2
    high, low = (to_memory(e, round_to(e, a)).astype(np.uint16) for a in v)
    return (high << np.uint16(8)) | low


def _halves_of_f8(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> list[Lanes]:
    e = F8E4M3 if "e4m3" in name else F8E5M2
    pair = v[0].view(np.uint16)
    bits = (pair & np.uint16(255)).astype(np.uint8), (pair >> np.uint16(8)).astype(np.uint8)
    return [from_memory(e, part).astype(np.float16) for part in bits]


def _fshl(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    wide = [(int(a) << 64 | int(b)) << (int(s) & 63) for a, b, s in zip(*v, strict=True)]
    return np.array([x >> 64 & (1 << 64) - 1 for x in wide], np.uint64)


def _bits(function: Callable[[str], int]) -> Any:
    """Of a number's binary digits, the highest first."""
    def compute(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
        width = 8 * v[0].dtype.itemsize
        return np.array([function(f"{int(x):0{width}b}") for x in v[0]], v[0].dtype)

    return compute


def _permute(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """prmt: each of four digits selects a byte of b and a together, or its sign eight times."""
    both = v[1].astype(np.uint64) << np.uint64(32) | v[0]
    found = np.zeros(m.threads, np.uint32)
    for i in range(4):
        digit = (v[2] >> np.uint32(4 * i) & np.uint32(15)).astype(np.uint64)
        byte = (both >> (digit % np.uint64(8) * np.uint64(8))).astype(np.uint8)
        byte = np.where(digit > 7, (byte.view(np.int8) >> 7).view(np.uint8), byte)
        found |= byte.astype(np.uint32) << np.uint32(8 * i)
    return found


def _assume(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    assert v[0][active].all(), "an assumption does not hold"


def _directed(down: bool) -> Any:
    def compute(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
        exact = v[0].astype(np.longdouble) * v[1] + v[2]
        near = exact.astype(np.float64)
        beyond = near > exact if down else near < exact
        return np.where(beyond, np.nextafter(near, -np.inf if down else np.inf), near)

    return compute


def _matrix_move(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """ldmatrix and stmatrix: lane 8 j + i has the address of row i of matrix j, eight 16-bit
    elements; lane l holds row l / 4, elements 2 (l % 4) and the next (of the transpose)."""
    assert m.chance is not None or active.all(), f"{name} without all threads"
    _whole_warps(m, name, types, v, active)
    count = int(name.split(".x")[1][0])
    lane = np.arange(m.threads)
    first, row = lane & ~31, lane % 32 // 4
    words = [np.zeros(m.threads, np.uint32) for _ in range(count)]
    for j in range(count):
        for half in range(2):
            i, column = row, lane % 4 * 2 + half
            if "trans" in name:
                i, column = column, row
            address = v[0][first + 8 * j + i]
            assert not (address % np.uint64(16)).any(), "misaligned row"
            at = address + (2 * column).astype(np.uint64)
            if "stmatrix" in name:
                part = v[1 + j] >> np.uint32(16 * half) & np.uint32(0xFFFF)
                m.write(at, part, 2, "shared", active)
            else:
                found = m.read(at, 2, "shared", active).astype(np.uint32)
                words[j] |= found << np.uint32(16 * half)
    return None if "stmatrix" in name else words if count > 1 else words[0]


def _matrix(m: Any, name: str, types: list[str], v: list[Lanes], active: Any) -> Lanes:
    """mma.sync: the fragments of each warp put together, multiplied, taken apart."""
    assert m.chance is not None or active.all(), f"{name} without all threads"
    _whole_warps(m, name, types, v, active)
    row = next(r for r in INSTRUCTIONS if r.kind == "mma" and name ==
               f"llvm.nvvm.mma.m{r.rows}n{r.columns}k{r.depth}.row.col.{r.ptx}")
    bits = row.operand.bits
    layouts = (a_fragment(row.rows, row.depth, bits), b_fragment(row.depth, bits),
               accumulator_fragment(row.rows, row.columns))
    count = [max(1, layout.registers * bits // 32) if bits < 64 else layout.registers
             for layout in layouts[:2]]
    operands = [v[: count[0]], v[count[0] : sum(count)], v[sum(count) :]]
    kinds = [types[0], types[0], types[-1]]
    result = [np.zeros_like(a) for a in operands[2]]
    for warp in range(0, m.threads, 32):
        tiles = []
        for values, layout, kind in zip(operands, layouts, kinds, strict=True):
            tile = np.zeros(layout.size, np.float64 if kind != "i32" or row.operand.is_float
                            else np.int64)
            elements = _elements(values, kind, row.operand if layout is not layouts[2] else None)
            for at, element in zip(places(layout), elements, strict=True):
                tile[at] = element[warp : warp + 32]
            tiles.append(tile.reshape(layout.shape))
        found = (tiles[0] @ tiles[1] + tiles[2]).reshape(-1)
        for at, total in zip(places(layouts[2]), result, strict=True):
            one = found[at]
            total[warp : warp + 32] = one.astype(np.int64) if kinds[2] == "i32" else one
    return result


@cache
def places(layout: Layout) -> Any:
    """[register, thread]: the row-major index of the element that is there."""
    found = np.zeros(1, np.int64)
    for basis in (*layout.thread, *layout.register):  # each bit moves all places below it
        found = np.concatenate([found, found ^ basis])
    return found.reshape(layout.registers, -1)


def _elements(values: list[Lanes], kind: str, operand: Any) -> list[Any]:
    """The elements of operand registers, by number of the fragment's register."""
    if operand is None:
        return [x.view(np.int32) if kind == "i32" else x for x in values]
    if kind == "<2 x half>":
        return [half for pair in values for half in pair]
    if kind == "double":
        return list(values)
    if operand.bits == 32:
        return [x.view(np.float32) for x in values]
    size = operand.bytes
    found = []
    for x in values:
        parts = np.ascontiguousarray(x).view(f"u{size}").reshape(len(x), -1)
        for i in range(4 // size):
            bits = np.ascontiguousarray(parts[:, i])
            found.append(from_memory(operand, bits) if operand.is_float else bits.view(np.int8))
    return found


def _reciprocal(a: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.float32(1) / a


def _gross_reciprocal(a: Any) -> Any:
    """Some 20 bits of it: the low half of a result is 0."""
    with np.errstate(all="ignore"):
        bits = (1 / np.asarray(a, np.float64)).view(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


_BY_PREFIX: list[tuple[str, Callable[..., Lanes]]] = [
    ("llvm.nvvm.read.ptx.sreg", _special),
    ("llvm.nvvm.barrier.cta.red", _vote),
    ("llvm.nvvm.barrier", _together),
    ("llvm.nvvm.bar.warp.sync", _whole_warps),
    ("llvm.nvvm.setmaxnreg", _set_registers),
    ("llvm.nvvm.cp.async.commit.group", lambda m, name, types, v, active: m.commit(m.unit)),
    ("llvm.nvvm.cp.async.wait.group", lambda m, name, types, v, active: m.wait(
        m.unit, int(v[0][0]))),
    ("llvm.nvvm.shfl", _shuffle),
    ("llvm.nvvm.vote.ballot", _ballot),
    ("llvm.nvvm.vote", _vote),
    ("llvm.nvvm.redux", _redux),
    ("llvm.nvvm.mma", _matrix),
    ("llvm.nvvm.ldmatrix", _matrix_move), ("llvm.nvvm.stmatrix", _matrix_move),
    ("llvm.nvvm.f2tf32", lambda m, name, types, v, active: round_to_tf32(v[0]).view(np.uint32)),
    ("llvm.nvvm.d2f.rz", _towards_zero),
    ("llvm.nvvm.fma.rn.sat", lambda m, name, types, v, active: np.fmin(np.fmax(
        fma(types[0], *v), np.float32(0)), np.float32(1))),
    ("llvm.nvvm.fma.rn.relu.f16x2", lambda m, name, types, v, active: [
        np.fmax(fma("half", *parts), np.float16(0)) for parts in zip(*v, strict=True)]),
    ("llvm.nvvm.fma.rm", _directed(True)), ("llvm.nvvm.fma.rp", _directed(False)),
    ("llvm.nvvm.ff.to", _f8),
    ("llvm.nvvm.e4m3x2.to", _halves_of_f8), ("llvm.nvvm.e5m2x2.to", _halves_of_f8),
    ("llvm.nvvm.f2", _to_int), ("llvm.nvvm.d2", _to_int),
    ("llvm.nvvm.rsqrt", _unary(lambda a: 1 / np.sqrt(a.astype(np.float64)))),
    ("llvm.nvvm.lg2", _unary(lambda a: np.log2(a.astype(np.float64)))),
    ("llvm.nvvm.sin", _unary(np.sin)), ("llvm.nvvm.cos", _unary(np.cos)),
    ("llvm.ssub.sat.i32", _saturated_difference),
    ("llvm.launder.invariant.group", lambda m, name, types, v, active: v[0]),
    ("llvm.minnum", _extreme(np.fmin)), ("llvm.maxnum", _extreme(np.fmax)),
    ("llvm.smin", _extreme(np.fmin)), ("llvm.smax", _extreme(np.fmax)),
    ("llvm.abs.i32", lambda m, name, types, v, active: np.abs(v[0].view(np.int32)).view(np.uint32)),
    ("llvm.umin", _extreme(np.minimum)), ("llvm.umax", _extreme(np.maximum)),
    ("llvm.fma", lambda m, name, types, v, active: fma(types[0], *v)),
    ("llvm.canonicalize", lambda m, name, types, v, active: v[0]),
    ("llvm.fabs", _unary(np.abs)), ("llvm.floor", _unary(np.floor)), ("llvm.ceil", _unary(np.ceil)),
    ("llvm.trunc", _unary(np.trunc)), ("llvm.rint", _unary(np.rint)),
    ("llvm.round", _unary(_away)),
    ("llvm.sqrt", _unary(np.sqrt)),
    ("llvm.nvvm.rcp.approx.ftz.f", _unary(_reciprocal)),
    ("llvm.nvvm.rcp.approx.ftz.d", _unary(_gross_reciprocal)),
    ("llvm.nvvm.ex2", _unary(lambda a: np.exp2(a.astype(np.float64)))),
    ("llvm.exp2", _unary(lambda a: np.exp2(a.astype(np.float64)))),
    ("llvm.copysign", lambda m, name, types, v, active: np.copysign(*v)),
    ("llvm.fshl", _fshl),
    ("llvm.ctlz", _bits(lambda text: len(text) - len(text.lstrip("0")))),
    ("llvm.ctpop", _bits(lambda text: text.count("1"))),
    ("llvm.bitreverse", _bits(lambda text: int(text[::-1], 2))),
    ("llvm.nvvm.prmt", _permute),
    ("llvm.assume", _assume),
]


def CALLS(name: str) -> Callable[..., Lanes]:
    for prefix, function in _BY_PREFIX:
        if name.startswith(prefix):
            return function
    raise KeyError(name)


# ---- inline assembly -----------------------------------------------------------------------------

_STATEMENT = re.compile(r"(?:@\$(\d+) )?(\S+) (.*)")
F8 = (F8E4M3, F8E5M2, F16)


def asm(m: Any, result: str, text: str, constraints: str, arguments: list[tuple[str, Lanes]],
        active: Any) -> Lanes:
    """Execute the statements; registers hold raw bits."""
    outputs = [c for c in constraints.split(",") if c.startswith("=")]
    types = [result] if result[0] != "{" else [t.strip() for t in result[1:-1].split(",")]
    registers: list[Any] = [None] * len(outputs)
    registers += [a if t == "i1" else raw(t, a) for t, a in arguments]
    for i, constraint in enumerate(constraints.split(",")):
        if constraint.isdigit():  # an input in the register of an output
            registers[int(constraint)] = registers[i]
    for statement in filter(None, (s.strip() for s in text.split(";"))):
        found = _STATEMENT.fullmatch(statement)
        assert found, statement
        mask = active & registers[int(found[1])] if found[1] else active
        _statement(m, found[2], found[3], registers, mask)
    if not outputs:
        return None
    values = [unraw(t, r.astype(f"u{np.dtype(numpy_type(t)).itemsize}") if t != "bfloat" else r)
              for t, r in zip(types, registers, strict=False)]
    return values if result[0] == "{" else values[0]


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\$(\d+)", text)]


def _statement(m: Any, op: str, operands: str, registers: list[Any], mask: Any) -> None:
    parts = op.split(".")
    size = int(parts[-1][1:]) // 8 if parts[-1][1:].isdigit() else 0
    numbers = _numbers(operands)
    if parts[0] == "not":
        registers[numbers[0]] = ~registers[numbers[1]]
        return
    if parts[0] == "lop3":  # bit 4 a + 2 b + c of the table, for each bit of the three
        *words, table = (registers[int(w[1:])] if w[0] == "$" else np.uint32(int(w, 0))
                         for w in operands.split(", ")[1:])
        picked = [index for index in range(8) if int(table) >> index & 1]
        registers[numbers[0]] = sum((functools.reduce(np.bitwise_and, (
            word if index >> 2 - i & 1 else ~word for i, word in enumerate(words)))
            for index in picked), np.zeros(m.threads, np.uint32))
        return
    if parts[0] == "tanh":
        registers[numbers[0]] = np.tanh(registers[numbers[1]].view(np.float32)).view(np.uint32)
        return
    if parts[:3] == ["cvt", "rn", "f16"]:
        wide = registers[numbers[1]].view(f"f{int(parts[3][1:]) // 8}")
        with np.errstate(over="ignore", invalid="ignore"):
            registers[numbers[0]] = wide.astype(np.float16).view(np.uint16)
        return
    if parts[:3] == ["cvt", "pack", "sat"]:  # b lowest, a above it, and then what c has lowest
        signed, bits = parts[3][0] == "s", int(parts[3][1:])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        a, b = (registers[n].view(np.int32).clip(low, high).astype(np.int64) & (1 << bits) - 1
                for n in numbers[1:3])
        word = b | a << bits
        if len(numbers) > 3:
            word |= registers[numbers[3]].astype(np.int64) << 2 * bits
        registers[numbers[0]] = word.astype(np.uint32)
        return
    if parts[0] == "mov" and len(numbers) == 2:
        registers[numbers[0]] = registers[numbers[1]]
        return
    if parts[0] == "mov":
        text = operands.rpartition(" ")[2]
        number = 1 if text == "%nctaid.z" else int(text, 0)
        registers[numbers[0]] = np.full(m.threads, number, f"u{size}")
        return
    if op == "add.s32":
        to, *terms = numbers
        old, total = registers[to], sum(registers[n] for n in terms)
        registers[to] = total if old is None else np.where(mask, total, old)
        return
    if op.startswith("cp.async"):
        assert registers[numbers[0]].dtype == np.uint32
        count = int(operands.split(",")[2])
        address, source = registers[numbers[0]].astype(np.uint64), registers[numbers[1]]
        filled = registers[numbers[2]] if len(numbers) > 2 else np.full(m.threads, count)
        if filled.dtype == bool:  # whether to ignore the source
            filled = np.where(filled, 0, count)
        assert not (address[mask] % np.uint64(count)).any()
        assert not (source[mask & (filled > 0)] % np.uint64(count)).any()

        def copy() -> None:
            for i in range(count):
                at = np.uint64(i)
                value = m.read(source + at, 1, "global", mask & (filled > i))
                m.write(address + at, value, 1, "shared", mask)

        m.copy(m.unit, copy)
        return
    # One thread after the other: all orders are kept.
    parts = [part for part in parts if part not in ("acquire", "acq_rel", "relaxed", "gpu")]
    space = parts[1] if parts[1] in ("global", "shared", "const") else parts[2]
    inside = operands[operands.index("[") : operands.index("]")]
    address = registers[_numbers(inside)[0]].astype(np.uint64)
    data = [n for n in numbers if n != _numbers(inside)[0]]
    if parts[0] in ("ld", "st"):
        assert not (address[mask] % np.uint64(size * len(data))).any(), "misaligned vector"
    for i, number in enumerate(data if parts[0] in ("ld", "st") else []):
        at = address + np.uint64(i * size)
        if parts[0] == "st":
            m.write(at, registers[number], size, space, mask)
            continue
        old, new = registers[number], m.read(at, size, space, mask)
        registers[number] = new if old is None else np.where(mask, new, old)
    if parts[0] == "red":
        for i, number in enumerate(data):
            _atomic(m, op, parts, address + np.uint64(i * size), [number], registers, mask)
    elif parts[0] == "atom":
        _atomic(m, op, parts, address, data, registers, mask)


def _atomic(m: Any, op: str, parts: list[str], address: Any, data: list[int], registers: list[Any],
            mask: Any) -> None:
    kind, t = parts[parts.index("global") + 1], parts[-1]
    size = int(t.lstrip("usfb")) // 8
    value = registers[data[-1]]
    old = np.zeros(m.threads, f"u{size}")
    dtype = {"f": f"f{size}", "s": f"i{size}"}.get(t[0], f"u{size}")
    table: dict[str, Any] = {"add": lambda a, b: a + b, "min": min, "max": max,
                             "and": lambda a, b: a & b, "or": lambda a, b: a | b,
                             "xor": lambda a, b: a ^ b, "exch": lambda a, b: b}
    for lane in np.nonzero(mask)[0]:
        one = np.arange(m.threads) == lane
        here = m.read(address, size, "global", one)
        old[lane] = here[lane]
        if t == "bf16":
            total = from_memory(BF16, here).astype(np.float64) + from_memory(
                BF16, value.astype(np.uint16))
            new = to_memory(BF16, round_to(BF16, total))
        else:
            a, b = here.view(dtype)[lane], value.astype(f"u{size}").view(dtype)[lane]
            new = np.full(m.threads, table[kind](a, b), dtype).view(f"u{size}")
        m.write(address, new, size, "global", one)
    if parts[0] == "atom":
        before = registers[data[0]]
        registers[data[0]] = old if before is None else np.where(mask, old, before)
