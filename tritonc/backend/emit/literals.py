"""How Triton-IR's element types and numbers are written in LLVM IR.

An f8 is an `i8` of its bits, a tf32 a `float`; a bool is an `i1` in registers and a byte in memory.
"""

import math
import struct
from functools import cache

from tritonc.ir.numeric.numbers import fit, largest
from tritonc.ir.types import CONSTANT, F8E4M3, F8E5M2, Element, Pointer, Scalar

GLOBAL_SPACE, SHARED_SPACE, CONSTANT_SPACE = 1, 3, 4  # LLVM's address spaces for NVPTX
SCOPES = {"block": 'syncscope("block") ', "gpu": 'syncscope("device") ', "system": ""}
FENCE = f"fence {SCOPES['gpu']}acq_rel"

_TYPES: dict[str, str] = {
    "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
    "f16": "half", "bf16": "bfloat", "tf32": "float", "f32": "float", "f64": "double",
    "f8e4m3": "i8", "f8e5m2": "i8"}
SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64",  # of intrinsics
          "<2 x half>": "v2f16", "<2 x bfloat>": "v2bf16"}


@cache
def llvm_type(e: Element) -> str:
    return f"ptr addrspace({address_space(e)})" if isinstance(e, Pointer) else _TYPES[e.name]


def memory_type(e: Element) -> str:
    return "i8" if isinstance(e, Scalar) and e.bits == 1 else llvm_type(e)


def address_space(pointer: Pointer) -> int:
    return CONSTANT_SPACE if pointer.space == CONSTANT else GLOBAL_SPACE


def is_eight_bit_float(e: Element) -> bool:
    return e in (F8E4M3, F8E5M2)


def bits_of(e: Scalar, value: int | float) -> int:
    """The bits in memory of a number, which is first rounded to the type.

    >>> from tritonc.ir.types import BF16, F16, F32, I8
    >>> [hex(bits_of(e, 1)) for e in (F32, F16, BF16, F8E4M3, F8E5M2)]
    ['0x3f800000', '0x3c00', '0x3f80', '0x38', '0x3c']
    >>> hex(bits_of(I8, -1)), hex(bits_of(F8E5M2, 2.0**-16)), hex(bits_of(F16, -math.inf))
    ('0xff', '0x1', '0xfc00')
    """
    number = fit(e, value)
    if not e.is_float:
        return int(number) & ((1 << e.bits) - 1)
    if e.bits == 64:
        return int(struct.unpack("<Q", struct.pack("<d", number))[0])
    exponent, mantissa = (8, 23) if e.bits == 32 else (e.exponent, e.mantissa)  # a tf32 is an f32
    top = (1 << exponent) - 1
    sign = int(math.copysign(1.0, number) < 0) << (exponent + mantissa)
    if math.isnan(number):
        return top << mantissa | ((1 << mantissa) - 1 if e == F8E4M3 else 1 << (mantissa - 1))
    magnitude = abs(number)
    if math.isinf(number):
        return sign | top << mantissa
    assert e.bits == 32 or magnitude <= largest(e)
    bias = (1 << (exponent - 1)) - 1
    power = max(math.frexp(magnitude)[1] - 1, 1 - bias) if magnitude else 1 - bias
    count = int(math.ldexp(magnitude, mantissa - power))
    return sign | (count + ((power + bias - 1) << mantissa))


def literal(e: Element, value: int | float) -> str:
    """A number as an operand, without its type.

    >>> from tritonc.ir.types import F16
    >>> literal(F16, 0.0), literal(F16, -0.0)
    ('0xH0000', '0xH8000')
    """
    return _literal(e, value, value == 0 and math.copysign(1, value) < 0)


@cache
def _literal(e: Element, value: int | float, minus_zero: bool) -> str:
    """0 and -0 are equal, so that by themselves they would be one entry of the cache."""
    if isinstance(e, Pointer):
        return f"inttoptr (i64 {int(value)} to {llvm_type(e)})" if value else "null"
    if e.bits == 1:
        return "true" if int(value) & 1 else "false"
    if not e.is_float:
        return str(fit(e, value))
    if is_eight_bit_float(e):
        return str(bits_of(e, value))
    if e.bits == 16:
        return f"0x{'H' if e.name == 'f16' else 'R'}{bits_of(e, value):04X}"
    return float_literal(float(fit(e, value)))


def float_literal(value: int | float) -> str:
    """A number that the type it is used with holds exactly, `float` or `double`."""
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
