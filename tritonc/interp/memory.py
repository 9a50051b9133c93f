"""The interpreter's memory: buffers at made-up addresses, far apart, so that a stray access is
seen.

Each buffer lies in the middle of 64 GiB of its own, so that an address tells its buffer by a shift,
and a wrong 32-bit index still falls into the neighbourhood of the buffer that it was meant for,
which the message then names."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tritonc.ir.core import ConstantTable
from tritonc.ir.numeric import numbers
from tritonc.ir.numeric.formats import memory_dtype, register_dtype, to_memory
from tritonc.records import dataclass

_ORIGIN = 0x7000_0000_0000
_ROOM_BITS = 36  # log2 of the bytes between two buffers
_HALF_ROOM = 1 << (_ROOM_BITS - 1)

Addresses = npt.NDArray[np.int64]


class BadAccess(Exception):
    """An access that hardware would fault on or that reads what is not the program's.

    `element` is the flat index of the first such address; `name` is the diagnostic's name."""

    def __init__(self, name: str, element: int, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.element = element
        self.message = message


@dataclass(eq=False)
class Buffer:
    """`array` at `base`.  `pad` bytes on both sides may be read, but hold nothing defined."""

    name: str
    base: int
    array: npt.NDArray[Any]
    pad: int
    constant: bool
    views: dict[np.dtype[Any], npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.array.nbytes

    def view(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """All whole elements of that type, flat; writing to it writes the buffer."""
        if dtype not in self.views:
            flat = self.array.reshape(-1).view(np.uint8)
            whole = self.size // dtype.itemsize * dtype.itemsize
            self.views[dtype] = flat[:whole].view(dtype)
        return self.views[dtype]


class Memory:
    """Buffers by address, and constant memory by symbol."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.symbols: dict[str, Buffer] = {}

    def allocate(self, array: npt.ArrayLike, name: str, pad: int = 0,
                 constant: bool = False) -> int:
        """Copy `array` (elements in their memory form: bf16 as uint16) to memory; its address."""
        copy = np.array(array, order="C")
        base = _ORIGIN + (len(self.buffers) << _ROOM_BITS) + _HALF_ROOM
        self.buffers.append(Buffer(name, base, copy, pad, constant))
        return base

    def define(self, symbol: str, array: npt.ArrayLike) -> int:
        """Fill the constant table `symbol`, as the host does before a launch; its address."""
        address = self.allocate(array, symbol, constant=True)
        self.symbols[symbol] = self.buffers[-1]
        return address

    def define_table(self, table: ConstantTable) -> None:
        """Fill a constant table with its initial content, unless the host filled it."""
        if table.name not in self.symbols:
            dtype = memory_dtype(table.element)
            content = np.zeros(table.count, dtype)
            if table.data:
                content[: len(table.data)] = initial_content(table)
            self.define(table.name, content)

    def read(self, address: int) -> npt.NDArray[Any]:
        """What the buffer at `address` holds now, in the shape and type it was allocated with."""
        for buffer in self.buffers:
            if buffer.base == address:
                return buffer.array
        raise KeyError(f"no buffer begins at {address:#x}")

    def find(self, addresses: Addresses, size: int, write: bool) -> Iterator[tuple[Any, ...]]:
        """Split flat `addresses` of elements of `size` bytes by buffer.

        Yields (buffer, which, index, inside): `which` selects the addresses (a slice for all),
        `index` counts elements from the buffer's base, `inside` is None where all lie in the
        buffer, else a mask: the others lie in its padding.  Raises BadAccess."""
        if not addresses.size:
            return
        found = self._whole(addresses, size, write)
        if found is not None:
            yield found
            return
        low, high = int(addresses.min()), int(addresses.max())
        rooms: Any = [(low - _ORIGIN) >> _ROOM_BITS]
        if rooms[0] != (high - _ORIGIN) >> _ROOM_BITS:
            owner = (addresses - _ORIGIN) >> _ROOM_BITS
            rooms = np.unique(owner).tolist()
        if int(np.bitwise_or.reduce(addresses)) & (size - 1):
            at = int(np.argmax(addresses & (size - 1) != 0))
            raise BadAccess("run-misaligned", at,
                            f"at {self.place(int(addresses[at]))}, not a multiple of {size}")
        shift = np.int64(size.bit_length() - 1)
        for room in rooms:
            which: Any = slice(None) if len(rooms) == 1 else np.nonzero(owner == room)[0]
            mine = addresses[which]
            if not 0 <= room < len(self.buffers):
                self._outside(addresses, _place(addresses, which), size, write)
            buffer = self.buffers[room]
            end = buffer.base + buffer.size - size
            if len(rooms) > 1:
                low, high = int(mine.min()), int(mine.max())
            inside = None
            if low < buffer.base or high > end:
                pad = 0 if write else buffer.pad
                bad = (mine < buffer.base - pad) | (mine > end + pad)
                if bad.any():
                    self._outside(addresses, _place(addresses, which, bad), size, write)
                inside = (mine >= buffer.base) & (mine <= end)
            if write and buffer.constant:
                raise BadAccess("run-constant-store", _place(addresses, which),
                                f"writes {size} bytes at {self.place(int(mine[0]))}, "
                                "which is constant memory")
            yield buffer, which, (mine - buffer.base) >> shift, inside

    def _whole(self, addresses: Addresses, size: int, write: bool) -> tuple[Any, ...] | None:
        """What `find` yields where all addresses are plainly inside of one buffer: no bit stands
        in any offset that does not stand in one that is inside."""
        room = (int(addresses[0]) - _ORIGIN) >> _ROOM_BITS
        if not 0 <= room < len(self.buffers):
            return None
        buffer = self.buffers[room]
        offsets = addresses - buffer.base
        bits = int(np.bitwise_or.reduce(offsets))  # at least the greatest, negative if one is
        if not 0 <= bits <= buffer.size - size or bits & (size - 1) or (write and buffer.constant):
            return None
        offsets >>= np.int64(size.bit_length() - 1)
        return buffer, slice(None), offsets, None

    def _outside(self, addresses: Addresses, at: int, size: int, write: bool) -> NoReturn:
        verb = "writes" if write else "reads"
        many = "byte" if size == 1 else "bytes"
        raise BadAccess("run-out-of-bounds", at,
                        f"{verb} {size} {many} at {self.place(int(addresses[at]), True)}")

    def place(self, address: int, sizes: bool = False) -> str:
        """An address in a reader's words: `a + 4096 (buffer 'a' has 4096 bytes)`."""
        room = (address - _ORIGIN) >> _ROOM_BITS
        if not 0 <= room < len(self.buffers):
            return f"address {address:#x}, which is in no buffer"
        buffer = self.buffers[room]
        offset = address - buffer.base
        text = f"{buffer.name} {'-' if offset < 0 else '+'} {abs(offset)}"
        return f"{text} (buffer '{buffer.name}' has {buffer.size} bytes)" if sizes else text


def _place(addresses: Addresses, which: Any, bad: Any = True) -> int:
    """The number of the first of some addresses for which a mask holds."""
    return int(np.arange(addresses.size)[which][np.argmax(bad)])


def initial_content(table: ConstantTable) -> npt.NDArray[Any]:
    """The initial elements of a constant table in their memory form."""
    held = [numbers.fit(table.element, value) for value in table.data or ()]
    return np.asarray(to_memory(table.element, np.array(held, register_dtype(table.element))))
