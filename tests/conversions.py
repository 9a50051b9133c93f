"""Conversions between all number formats: the interpreter against NumPy, or ml_dtypes.

Numbers of 8 and 16 bits are tried all; of wider formats some thousands, chosen near the limits of
all formats, their ties, and at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle_values
from damage import Input

from tritonc import driver
from tritonc.interp.interpreter import Memory
from tritonc.interp.interpreter import run as interpret
from tritonc.ir.numeric.formats import from_memory, memory_dtype
from tritonc.ir.types import Pointer
from tritonc.options import Options
from tritonc.source import SourceFile

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

FORMATS = [name for name in oracle_values.DTYPES if name not in ("pointer", "literal", "tf32")]
PAIRS = [(a, b) for a in FORMATS for b in FORMATS]
COUNT = len(PAIRS)
TILE = 256
# Names in ml_dtypes of what NumPy has not.
_PEERS = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
_BITS = {"bool": 8, "bfloat16": 16, "float8_e4m3": 8, "float8_e5m2": 8}


def make(seed: int, number: int) -> Input:
    """A kernel that converts tiles of a format to another."""
    source, target = PAIRS[number % COUNT]
    return Input(f"// {source} {target}\nkernel void k(const {source}* x, {target}* y) {{\n"
                 f"  int r[{TILE}] = get_global_range(0);\n  *(y + r) = ({target})*(x + r);\n"
                 "}\n".encode(), "tc")


def bits(name: str) -> np.ndarray[Any, Any]:
    """Bit patterns of a format: all, or some."""
    width = _BITS.get(name) or 8 * np.dtype(oracle_values.DTYPES[name]).itemsize
    if name == "bool":
        return np.arange(2, dtype=np.uint8)
    if width <= 16:
        return np.arange(1 << width, dtype=f"uint{width}")
    rng = np.random.default_rng(width)
    found = [rng.integers(0, 1 << width, 20000, np.uint64, endpoint=False) if width < 64
             else rng.integers(0, 1 << 63, 20000, np.uint64) * np.uint64(2)]
    dtype: Any = oracle_values.DTYPES[name]
    if name.startswith("float"):
        with np.errstate(all="ignore"):
            factors = (1, 1.5, 1.25, 1 + 2**-8, 1 + 2**-9, 1 + 2**-11, 1 + 2**-24, 2 - 2**-9)
            near = [np.float64(2.0) ** e * m for e in range(-150, 130) for m in factors]
            numbers = np.array([*near, 448, 464, 480, 57344, 61440, 65504, 65520], dtype)
        numbers = np.concatenate([numbers, -numbers, np.nextafter(numbers, dtype(np.inf)),
                                  np.nextafter(numbers, dtype(-np.inf)),
                                  np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype)])
        found.append(numbers.view(f"uint{width}").astype(np.uint64))
    else:
        steps = [(1 << e) + d for e in range(width) for d in (-2, -1, 0, 1, 2)]
        whole = [s % (1 << width) for s in steps] + [-s % (1 << width) for s in steps]
        found.append(np.array(whole, np.uint64))
    return np.concatenate(found).astype(f"uint{width}")


def expected(source: str, target: str, held: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By NumPy; by ml_dtypes for the formats that it has, where there it is."""
    value = oracle_values.value(source, held)
    with np.errstate(all="ignore"):
        found = oracle_values.convert(value, target).data
        if target in _PEERS and (held.dtype.kind == "f" or held.dtype.itemsize <= 2):
            _compare(source, target, held, found)
    return found


def _compare(source: str, target: str, held: np.ndarray[Any, Any], found: np.ndarray[Any, Any]
             ) -> None:
    """The oracle against ml_dtypes, which overflows to NaN or infinity where PTX, and so the
    language, takes the greatest number.

    Its conversions from wider formats than float round twice, so those are not compared.
    """
    peer = _PEERS[target]
    if ml_dtypes is None or held.dtype.itemsize > 4 or source == target:
        return
    most = np.float32(ml_dtypes.finfo(getattr(ml_dtypes, peer)).max)
    numbers = held.astype(np.float32)
    if target != "bfloat16":
        numbers = np.clip(numbers, -most, most)
    want = numbers.astype(getattr(ml_dtypes, peer)).astype(np.float32)
    same = (want == found.astype(np.float32)) | (np.isnan(want) & np.isnan(found))
    assert same.all(), f"the oracle and ml_dtypes differ: {source} to {target}"


def read_by_peer(name: str, raw: np.ndarray[Any, Any], held: np.ndarray[Any, Any]) -> None:
    """What the bits of a format mean, to us and to ml_dtypes."""
    if ml_dtypes is None or name not in _PEERS:
        return
    with np.errstate(all="ignore"):
        want = raw.view(getattr(ml_dtypes, _PEERS[name])).astype(np.float32)
    numbers = held.astype(np.float32)
    same = (want == numbers) | (np.isnan(want) & np.isnan(numbers))
    assert same.all(), f"ml_dtypes reads {name} otherwise"


def check(given: Input) -> str:
    """Compile and interpret; raises AssertionError where a number differs."""
    text = given.data.decode()
    source, target = text.split("\n")[0].split()[1:]
    options = Options(stop_after=driver.LOWER, warnings=("no-all",))
    module = driver.compile(SourceFile("convert.tc", text), options, ("tir",)).module
    assert module is not None
    kernel = module.kernels[0]
    e, f = (p.type.element for p in kernel.parameters if isinstance(p.type, Pointer))
    raw = bits(source)
    raw = np.resize(raw, -(-len(raw) // TILE) * TILE).view(memory_dtype(e))
    memory = Memory()
    x = memory.allocate(raw, "x")
    y = memory.allocate(np.zeros(len(raw), memory_dtype(f)), "y")
    interpret(module, "k", [x, y], memory, (len(raw) // TILE, 1, 1))
    held, got = from_memory(e, raw), from_memory(f, memory.read(y))
    read_by_peer(source, raw, held)
    unsigned = oracle_values.DTYPES[source]
    numbers = held.view(unsigned) if held.dtype.kind == "i" else held.astype(unsigned)
    want = expected(source, target, numbers)
    got = got.view(want.dtype) if got.dtype.kind == "i" else got.astype(want.dtype)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) if want.dtype.kind == "f" else (
        got == want)
    if want.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(want)
    at = np.flatnonzero(~same)
    assert not len(at), (f"{source} to {target}: {numbers[at[0]]!r} gives {got[at[0]]!r}, should "
                         f"be {want[at[0]]!r}; {len(at)} differ")
    return f"{len(raw)} numbers"
