"""Layouts: which thread holds which element of a tile, and in which of its registers.

A tile of 2**n elements is held by the threads of one block.  Number its elements row-major (last
axis fastest), so that an element is an n-bit index; a place in the hardware is three numbers, also
made of bits: the *register* of a thread, the *lane* of a warp (5 bits) and the *warp* of the block.
A layout maps places to elements.  All the maps that GPUs ask for have one property: each bit of the
place, alone, moves the element by a fixed step, and steps combine by XOR.  So a layout is a linear
map over F2, and it is enough to write down the step, or *basis*, of each bit.

Take an 8 x 8 tile in one warp: 64 elements, 32 lanes, so 2 registers each.  Index bits 1, 2, 4
count columns and 8, 16, 32 count rows.  If register bit 0 steps one column, the first two lane bits
step two and four columns and the other three step rows, then every thread holds two neighbours of
one row, four lanes make a row, and the warp makes eight:

    >>> tile = Layout((8, 8), register=(1,), lane=(2, 4, 8, 16, 32), warp=())
    >>> [tile.at(register=r, lane=0) for r in (0, 1)]      # lane 0: (0, 0) and (0, 1)
    [0, 1]
    >>> tile.at(register=1, lane=6)                        # lane 6 = 2 + 4: 4 + 8, and 1
    13
    >>> tile.coordinates(13)
    (1, 5)

`blocked` makes such layouts from the hierarchy of the paper (section 5.2): a thread owns a
nano-tile, all threads together cover a micro-tile, and micro-tiles repeat, in registers, over the
tile.  Here, with 16 columns, registers 2 and 3 hold the columns 8 to 15:

    >>> tile == blocked((8, 8), (1, 2), (8, 4), (1, 1), order=(1, 0))
    True
    >>> print(blocked((8, 16), (1, 2), (8, 4), (1, 1), order=(1, 0)))
    #layout<shape=[8,16], register=[1,8], lane=[2,4,16,32,64], warp=[]>

A basis of 0 is a bit that does not matter: the element is *replicated*.  A row of 4 elements in a
warp of 32 lanes is held eight times, and a store of it must be made once, by the lanes whose
replicated bits (4, 8 and 16) are 0:

    >>> row = Layout((4,), register=(), lane=(1, 2, 0, 0, 0), warp=())
    >>> [row.at(lane=lane) for lane in (0, 3, 4, 31)]
    [0, 3, 0, 3]
    >>> row.replicated_lanes
    28

The basis of a register layout is a power of two or 0, and no power appears twice: each bit of the
index lives in exactly one bit of the place.  Then all else is moving bits about: operations on
shapes rename bases (`layout_ops.py`), the operands of matrix instructions are small layouts that
repeat over a tile (`fragment.py`), and a conversion compares where each bit was with where it is
to be (`backend/layout/conversion.py`).

In shared memory a place is an *offset*, and there are no copies, but a basis may be the XOR of
several bits: that is a swizzle.  Below, row 1 of a 2 x 2 tile is stored with its columns exchanged,
because offset bit 1 steps a row *and* a column; the inverse says where an element is:

    >>> swizzle = SharedLayout((2, 2), offset=(1, 3))
    >>> [swizzle.coordinates(swizzle.at(offset)) for offset in range(4)]
    [(0, 0), (0, 1), (1, 1), (1, 0)]
    >>> swizzle.offset_of(2)                               # element (1, 0) is the last one
    3

The idea is that of "Linear Layouts" (Zhou et al., 2025).
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeVar

from tritonc.ir.layouts import f2
from tritonc.records import cached_property, dataclass

LANE_BITS = 5
WARP_SIZE = 1 << LANE_BITS
T = TypeVar("T")


def hashed_once(cls: type[T]) -> type[T]:
    """A frozen dataclass whose objects keep their hash; a pickle has the fields alone."""
    def ask(self: Any) -> Any:
        try:
            return self._hash
        except AttributeError:
            known = self.__dict__["_hash"] = compute(self)
            return known

    def state(self: Any) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    compute = cls.__hash__
    cls.__hash__, cls.__getstate__ = ask, state  # type: ignore[method-assign]
    return cls


@hashed_once
@dataclass(frozen=True)
class Layout:
    """A map from (register, lane, warp) onto the elements of a tile of `shape`.

    `register[i]`, `lane[i]`, `warp[i]`: what bit i of that number adds, by XOR, to the row-major
    index of the element; 0 means that the bit selects another copy of the same element.  Raises
    ValueError unless extents are powers of two, `lane` has 5 entries, and the entries that are not
    0 are exactly the powers of two below the size of the tile, each once."""

    shape: tuple[int, ...]
    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if len(self.lane) != LANE_BITS:
            raise ValueError(f"a layout has {LANE_BITS} lane bits, not {len(self.lane)}")
        size, seen = prod(self.shape), 0
        for basis in self.register + self.lane + self.warp:
            if basis < 0 or basis & (basis - 1) or basis >= size:
                raise ValueError(f"basis {basis} is not 0 or a power of two below the size {size}")
            if basis & seen:
                raise ValueError(f"basis {basis} appears twice")
            seen |= basis
        if seen != size - 1:
            raise ValueError(f"no bit of a place reaches the index bits {size - 1 & ~seen}")

    @property
    def size(self) -> int:
        """The number of elements of the tile."""
        return prod(self.shape)

    @property
    def registers(self) -> int:
        """The number of elements that one thread holds, copies included."""
        return 1 << len(self.register)

    @property
    def num_warps(self) -> int:
        return 1 << len(self.warp)

    @property
    def thread(self) -> tuple[int, ...]:
        """The bases of the bits of the thread's number in its block: lane bits, then warp bits."""
        return self.lane + self.warp

    def at(self, register: int = 0, lane: int = 0, warp: int = 0) -> int:
        index = f2.apply(self.register, register) ^ f2.apply(self.lane, lane)
        return index ^ f2.apply(self.warp, warp)

    def coordinates(self, index: int) -> tuple[int, ...]:
        """The position along each axis of the element with a row-major index."""
        return coordinates(self.shape, index)

    @property
    def replicated_registers(self) -> int:
        """The mask of register bits that only select another copy."""
        return _zeros(self.register)

    @property
    def replicated_lanes(self) -> int:
        """The mask of lane bits that only select another copy.

        A store or an atomic must happen once per element: in the threads where these bits, and
        those of `replicated_warps`, are all 0."""
        return _zeros(self.lane)

    @property
    def replicated_warps(self) -> int:
        """The mask of warp bits that only select another copy."""
        return _zeros(self.warp)

    def __str__(self) -> str:
        """The text that `parse_layout` reads."""
        names = ("shape", "register", "lane", "warp")
        return f"#layout<{', '.join(_field(name, getattr(self, name)) for name in names)}>"


@hashed_once
@dataclass(frozen=True)
class SharedLayout:
    """A one-to-one map from the offsets of a buffer in shared memory to the elements of a tile.

    Offsets count elements.  `offset[i]` is what bit i of the offset adds, by XOR, to the row-major
    index.  `alignment`: bytes that the address of the buffer must be a multiple of, so that vectors
    and the hardware's own swizzles fall where the map says.  Raises ValueError unless the map is
    invertible."""

    shape: tuple[int, ...]
    offset: tuple[int, ...]
    alignment: int = 16

    def __post_init__(self) -> None:
        check_shape((*self.shape, self.alignment))
        bits = log2(prod(self.shape))
        if len(self.offset) != bits or any(basis >> bits for basis in self.offset):
            raise ValueError(f"offset bases {self.offset} do not fit shape {self.shape}")
        if f2.rank(self.offset) != bits:
            raise ValueError(f"offset bases {self.offset} are not independent")

    @property
    def size(self) -> int:
        """The number of elements, and of offsets."""
        return prod(self.shape)

    @cached_property
    def index(self) -> tuple[int, ...]:
        """The inverse map: what each bit of the row-major index adds, by XOR, to the offset."""
        return f2.inverse(self.offset)

    def at(self, offset: int) -> int:
        return f2.apply(self.offset, offset)

    def offset_of(self, index: int) -> int:
        return f2.apply(self.index, index)

    def coordinates(self, index: int) -> tuple[int, ...]:
        """The position along each axis of the element with a row-major index."""
        return coordinates(self.shape, index)

    def __str__(self) -> str:
        """The text that `parse_shared_layout` reads."""
        fields = f"{_field('shape', self.shape)}, {_field('offset', self.offset)}"
        return f"#shared<{fields}, alignment={self.alignment}>"


def _zeros(bases: Sequence[int]) -> int:
    return sum(1 << i for i, basis in enumerate(bases) if basis == 0)


# ---- text ----------------------------------------------------------------------------------------

_NUMBERS = r"\[\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]"
_LAYOUT = (rf"#layout<\s*shape={_NUMBERS},\s*register={_NUMBERS},"
           rf"\s*lane={_NUMBERS},\s*warp={_NUMBERS}\s*>")
_SHARED = rf"#shared<\s*shape={_NUMBERS},\s*offset={_NUMBERS},\s*alignment=(\d+)\s*>"


def parse_layout(text: str) -> Layout:
    """Read what `str` of a Layout wrote.  Raises ValueError on anything else.

    >>> parse_layout("#layout<shape=[4], register=[], lane=[1,2,0,0,0], warp=[0]>").num_warps
    2
    """
    match = re.fullmatch(_LAYOUT, text.strip())
    if match is None:
        raise ValueError(f"not a layout: {text}")
    shape, register, lane, warp = (_numbers(group) for group in match.groups())
    return Layout(shape, register, lane, warp)


def parse_shared_layout(text: str) -> SharedLayout:
    """Read what `str` of a SharedLayout wrote.  Raises ValueError on anything else.

    >>> parse_shared_layout("#shared<shape=[2,2], offset=[1,3], alignment=16>").index
    (1, 3)
    """
    match = re.fullmatch(_SHARED, text.strip())
    if match is None:
        raise ValueError(f"not a layout of shared memory: {text}")
    return SharedLayout(_numbers(match[1]), _numbers(match[2]), int(match[3]))


def _field(name: str, numbers: Sequence[int]) -> str:
    return f"{name}=[{','.join(map(str, numbers))}]"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text.strip() else ()


# ---- bits of a shape -----------------------------------------------------------------------------


def log2(value: int) -> int:
    return value.bit_length() - 1


def check_shape(shape: Sequence[int]) -> None:
    """Raise ValueError unless every extent is a power of two."""
    for extent in shape:
        if extent < 1 or extent & (extent - 1):
            raise ValueError(f"extent {extent} of shape {tuple(shape)} is not a power of two")


def coordinates(shape: Sequence[int], index: int) -> tuple[int, ...]:
    """The position along each axis of row-major `index`.

    >>> coordinates((2, 4, 8), 45)
    (1, 1, 5)
    """
    result = []
    for extent in reversed(shape):
        result.append(index & (extent - 1))
        index >>= log2(extent)
    return tuple(reversed(result))


@cache
def axis_bases(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The index bits of one axis, from its lowest: steps of 1, 2, 4, ... along it.

    >>> axis_bases((4, 8), 0), axis_bases((4, 8), 1)
    ((8, 16), (1, 2, 4))
    """
    axis %= len(shape)
    low = prod(shape[axis + 1 :])
    return tuple(low << i for i in range(log2(shape[axis])))


def from_steps(shape: tuple[int, ...], register: Iterable[tuple[int, int]],
               lane: Iterable[tuple[int, int]], warp: Iterable[tuple[int, int]]) -> Layout:
    """A layout from one (axis, step along that axis) per bit; a step of 0 replicates.

    >>> print(from_steps((8, 8), [(1, 1)], [(1, 2), (1, 4), (0, 1), (0, 2), (0, 4)], [(0, 0)]))
    #layout<shape=[8,8], register=[1], lane=[2,4,8,16,32], warp=[0]>
    """
    low = [prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def bases(steps: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        return tuple(step * low[axis] for axis, step in steps)

    return Layout(shape, bases(register), bases(lane), bases(warp))


def blocked(shape: tuple[int, ...], size_per_thread: Sequence[int], threads_per_warp: Sequence[int],
            warps: Sequence[int], order: Sequence[int]) -> Layout:
    """The paper's hierarchical tiling: nano-tile, micro-tile, tile.

    Along each axis a thread holds `size_per_thread` neighbours (the nano-tile); `threads_per_warp`
    and `warps` threads stand side by side (together the micro-tile); the rest of the tile repeats
    the micro-tile in further registers.  `order` lists the axes, the fastest first, and decides how
    the bits of each number are dealt out.  Where the threads cover more than the tile they
    replicate it; registers that would do so are left out."""
    if prod(threads_per_warp) != WARP_SIZE:
        raise ValueError(f"threads_per_warp {tuple(threads_per_warp)} is not {WARP_SIZE} threads")
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"order {tuple(order)} does not permute the axes of {shape}")
    check_shape((*size_per_thread, *threads_per_warp, *warps))
    covered = [1] * len(shape)

    def deal(extents: Sequence[int]) -> list[tuple[int, int]]:
        steps = []
        for axis in order:
            for _ in range(log2(extents[axis])):
                inside = covered[axis] < shape[axis]
                steps.append((axis, covered[axis] if inside else 0))
                covered[axis] *= 2 if inside else 1
        return steps

    nano = [(axis, step) for axis, step in deal(size_per_thread) if step]
    lane, warp = deal(threads_per_warp), deal(warps)
    repeats = deal([extent // done for extent, done in zip(shape, covered)])
    return from_steps(shape, nano + repeats, lane, warp)
