"""A launch's arguments as the driver reads them: one memory of values, and one of their addresses.

`Block` keeps both.  Values have places of 8 bytes, so that their addresses are known before any
value is; a launch writes the values and passes the address of the addresses.  The driver copies
them before it returns, but another thread may run meanwhile: each launch in flight needs a block.
"""

from array import array
from collections.abc import Sequence
from struct import Struct, calcsize

import numpy as np

from tritonc.ir.numeric.formats import to_memory
from tritonc.ir.types import Scalar

# How a scalar of each type of Triton-IR is packed; bfloat16 and float8 by their bits.
FORMATS: dict[str, str] = {
    "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "f16": "e", "bf16": "H", "tf32": "f",
    "f32": "f", "f64": "d", "f8e4m3": "B", "f8e5m2": "B"}  # fmt: skip
POINTER = "Q"
_PLACE = 8  # bytes of each value


def layout(formats: Sequence[str]) -> Struct:
    """Values of these formats, each at the start of 8 bytes.

    >>> layout(["?", "q", "i"]).pack(True, 2, 3).hex(" ", 8)
    '0100000000000000 0200000000000000 0300000000000000'
    """
    return Struct("=" + "".join(f"{f}{_PLACE - calcsize('=' + f)}x" for f in formats))


class Block:
    """Memory for the arguments of one launch.

    `memory` is a buffer to pack values into, from `start` on; `address` is what a launch takes."""

    __slots__ = ("address", "memory", "start")

    def __init__(self, count: int) -> None:
        self.memory = array("Q", bytes(2 * _PLACE * max(count, 1)))
        self.address, _ = self.memory.buffer_info()
        self.start = _PLACE * count
        for index in range(count):
            self.memory[index] = self.address + self.start + _PLACE * index


def packed(formats: Sequence[str], values: Sequence[int | float]) -> Block:
    """A block that holds `values`.  Raises struct.error or OverflowError for what does not fit."""
    block = Block(len(formats))
    layout(formats).pack_into(block.memory, block.start, *values)
    return block


def number(element: Scalar, held: int | float) -> int | float:
    """What is packed for a scalar in held form (`ir.numeric.formats`): short floats by their bits.

    >>> from tritonc.ir.types import BF16, F32
    >>> number(BF16, 1.0) == 0x3F80, number(F32, 1.0)
    (True, 1.0)
    """
    if FORMATS[element.name] not in "HB" or element.is_int:
        return held
    return int(to_memory(element, np.asarray([held], np.float32))[0])
