"""How many registers of a thread a value takes, by its layout and by how it is emitted.

A tile costs a register of 32 bits for each element that a thread holds; the exceptions:

  - what renumbers or repeats another tile's registers (splat, broadcast, reshape, trans) is that
    tile; constants, parameters and the numbers of programs cost nothing;
  - elements of less than 32 bits share a register where they are moved as words: loaded or
    stored by wide accesses, or on their way to a matrix instruction;
  - integers and addresses that differ by a constant share a register: of the indices of a range a
    thread has one.  `_varying` says over which bits of an element's index the rest goes;
  - of a tile of addresses or masks only the elements count at which a wide access begins;
  - what a dot loads itself (`late`), or comes piece by piece (`piecewise`), is never whole; of what
    is computed so PIECE registers are there at once.

A dot needs two steps of its operands beside."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from tritonc.analysis.values import MOVES, remembered
from tritonc.backend.target.matrix import BY_NAME
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import Layout, axis_bases
from tritonc.ir.types import Buffer, Pointer, Tile, element, is_float, shape

PREDICATES = 7  # masks of a thread that are no register; of more, 16 share one
_FREE = frozenset((
    "constant", "undef", "get_program_id", "get_num_programs", "get_num_multiprocessors",
    "get_cluster_rank",
    "constant_table", "alloc_shared", "buffer_stage", "buffer_trans", "buffer_reshape"))
_RENAMES = frozenset((*MOVES, "assume_multiple", "convert_layout"))
# Registers that a function of an element takes meanwhile: of subroutines and polynomials.
_BESIDE = dict.fromkeys(("fdiv", "sqrt", "sin", "cos"), 28)
_NEEDS_MORE = frozenset((*_BESIDE, "scan", "scan_with", "mma_dot", "fma_dot", "fpcast"))
_MANY = 4  # elements of a thread, for which that is done side by side
PIECE = 8  # registers of what comes piece by piece that are computed together
_WORDS = ("store", "shared_store", "mma_dot", "wgmma")  # what takes narrow elements packed


def made_alone(op: Op) -> bool:
    """Whether the operation makes a tile of one other, element by element, or renumbers it."""
    return len(op.results) == 1 and len(op.inputs()) == 1 and (
        op.name in MOVES or op.info.elementwise)


def chain_of(op: Op, readers: dict[Value, list[Op]]) -> tuple[list[Op], list[Op]]:
    """The operation with those of which each makes a tile of the one before, which nothing else
    reads; and what reads the last one."""
    chain = [op]
    while len(found := readers.get(chain[-1].result, [])) == 1 and made_alone(found[0]):
        chain += found
    return chain, found


def tile_registers(elements: float, bits: int) -> float:
    """The registers of so many elements of a thread, each by itself."""
    return elements * max(1.0, bits / 32)


class Weights:
    """The registers of the values of a kernel, as it is now."""

    def __init__(self, kernel: Kernel) -> None:
        self.readers = uses(kernel)

    def root(self, value: Value) -> Value | None:
        """The value whose registers it has; None if it has none."""
        op = value.op
        while op is not None and op.name in _RENAMES and (
                op.name != "convert_layout" or is_rename(op)):
            value = op.operands[0]
            op = value.op
        return None if op is None or op.name in _FREE or isinstance(value.type, Buffer) else value

    def _loaded_alone(self, value: Value) -> bool:
        """Whether narrow elements come one by one: converted, they are there twice for a while."""
        op = self._moved(value).op
        bits = element(value.type).bits
        return op is not None and op.name == "load" and bits < 32 and \
            op.attributes.get("vector", 1) * bits < 32

    def _moved(self, value: Value) -> Value:
        """What the value repeats."""
        return self.root(value) or value

    @remembered(0.0)
    def weight(self, value: Value) -> float:
        op = value.op
        if op is not None and op.attributes.get("piecewise") and by_register(op):
            return min(1.0, PIECE / _count(value)) * self._whole(value)
        return 0 if op is None or _never_whole(op) else self._whole(value)

    def _whole(self, value: Value) -> float:
        """The registers of a value, if a thread holds all of it."""
        t, op = value.type, value.op
        assert op is not None
        e = element(t)
        if not isinstance(t, Tile):
            return 0.5 if e.bits == 1 else max(1.0, e.bits / 32)
        if t.layout is None:
            return 0
        if op.name == "select" and all(v.op is not None and v.op.name == "constant"
                                       for v in op.operands[1:]):  # is made where it is read
            mask = self.root(op.operands[0])
            return 0 if mask is None else self.weight(mask)
        if is_float(t):
            held = float(_distinct(t.layout))
            if e.bits < 32 and self._packed(value, e.bits):
                return max(1.0, held * e.bits / 32)
            return tile_registers(held, e.bits)
        if not isinstance(e, Pointer) and e.bits < 32 and op.name in ("load", "shared_load") and \
                op.attributes.get("vector", 1) * e.bits >= 32:
            return max(1.0, _distinct(t.layout) * e.bits / 32)
        held = _along(t.layout, self._varying(value) & ~self._skipped(value))
        if e.bits == 1:
            return held / 16 if held > PREDICATES else 0
        return tile_registers(held, e.bits)

    def _packed(self, value: Value, bits: int) -> bool:
        seen: set[Value] = set()
        stack = [value]
        while stack:
            one = stack.pop()
            if one in seen or one.op is None:
                continue
            seen.add(one)
            op = one.op
            if op.name == "phi":
                stack += op.operands
            elif op.name in ("shared_load", "load_slice") or (
                    op.name == "convert_layout" and not is_rename(op)):
                continue
            elif op.name in ("load", "shared_gather"):
                if op.attributes.get("vector", 1) * bits < 32:
                    return False
            else:
                for reader in self.readers.get(one, ()):
                    if is_rename(reader) or reader.name == "phi":
                        stack.append(reader.result)
                    elif reader.name not in _WORDS and reader.name not in MOVES:
                        return False
        return True

    @remembered(0)
    def _varying(self, value: Value) -> int:
        """The bits of an element's index over which integers differ by more than a constant."""
        op, t = value.op, value.type
        if op is None or not isinstance(t, Tile) or op.name in ("constant", "undef", "splat",
                                                                "range"):
            return 0
        every = t.size - 1
        if op.name in ("broadcast", "reshape", "trans"):
            return _moved(op, self._varying(op.operands[0]))
        if op.name in ("add", "sub", "addptr", "sext", "zext", "assume_multiple", "phi", "cast",
                       "convert_layout"):
            return _union(map(self._varying, op.operands)) & every
        if op.name == "step_pointers":
            steps = op.operands[2:]
            return _union(base for axis, step in enumerate(steps)
                          if step.op is None or step.op.name != "constant"
                          for base in axis_bases(t.shape, axis))
        if op.name == "select":
            return every if any(self._dependent(v) for v in op.operands) else 0
        if op.info.elementwise:
            return _union(map(self._dependent, op.operands)) & every
        return every

    @remembered(0)
    def _dependent(self, value: Value) -> int:
        """The bits of an element's index over which integers differ at all."""
        op, t = value.op, value.type
        if op is None or not isinstance(t, Tile) or op.name in ("constant", "undef", "splat"):
            return 0
        every = t.size - 1
        if op.name in ("broadcast", "reshape", "trans"):
            return _moved(op, self._dependent(op.operands[0]))
        if op.info.elementwise:
            return _union(map(self._dependent, op.operands)) & every
        return every

    @remembered(-1)
    def _skipped(self, value: Value) -> int:
        """The bits inside of wide accesses, if nothing but such reads the tile."""
        found: int | None = None
        for reader in self.readers.get(value, ()):
            if reader.name == "step_pointers":
                bits = -1  # it steps from the first
            elif reader.name in ("load", "store", "async_copy") and (
                    value is reader.operands[reader.name == "async_copy"]
                    or value is reader.guard):
                t = reader.operands[reader.name == "async_copy"].type
                bits = _inside(reader, t)
            elif (by_register(reader) or reader.name == "phi") and len(reader.results) == 1 and (
                    isinstance(reader.result.type, Tile) and not is_float(reader.result.type)):
                bits = self._skipped(reader.result)
            else:
                return 0
            found = bits if found is None else found & bits
        return found or 0

    def beside(self, op: Op) -> float:
        """What an operation needs beside its operands and its results."""
        if op.name not in _NEEDS_MORE:
            return 0
        if op.name in ("scan", "scan_with"):  # what its groups of neighbours combine to
            return sum(map(self.weight, op.results)) / _neighbours(op)
        if op.name == "mma_dot":
            return 2 * _step_words(op)
        if op.name == "fma_dot":
            return 2 * _step_rows(op)
        if op.name == "fpcast":
            return self.weight(op.result) / 2 if self._loaded_alone(op.operands[0]) else 0
        if self.weight(op.result) < _MANY:
            return 0
        if op.name == "fdiv" and self.weight(self._moved(op.operands[1])) < _MANY:
            return 0  # the slower way, a call for each, spills what it needs
        return _BESIDE[op.name]


def _count(value: Value) -> int:
    t = value.type
    return t.layout.registers if isinstance(t, Tile) and t.layout is not None else 1


def by_register(op: Op) -> bool:
    """Whether each register of the result is made by itself."""
    return op.info.elementwise or op.name in ("addptr", "step_pointers")


def _never_whole(op: Op | None) -> bool:
    """Whether what reads the tile takes it in pieces, loading each."""
    while op is not None:
        if op.attributes.get("late") or op.attributes.get("piecewise"):
            return True
        if not made_alone(op):
            return False
        op = op.operands[0].op
    return False


def is_rename(op: Op) -> bool:
    """Whether a conversion only gives a thread's registers other numbers."""
    if op.name != "convert_layout":
        return False
    a, b = op.operands[0].type, op.result.type
    return (isinstance(a, Tile) and isinstance(b, Tile) and a.layout is not None
            and b.layout is not None and a.layout.thread == b.layout.thread)


def _inside(op: Op, t: object) -> int:
    """The bits of an element's index inside of one access."""
    width = op.attributes.get("vector", 1)
    if width <= 1 or not isinstance(t, Tile):
        return 0
    axis = op.attributes.get("vector_axis", len(t.shape) - 1)
    return _union(axis_bases(t.shape, axis)[: width.bit_length() - 1])


def _distinct(layout: Layout) -> int:
    return layout.registers >> layout.replicated_registers.bit_count()


def _along(layout: Layout, bits: int) -> int:
    """Registers that differ in those bits of the index."""
    return 1 << sum(bool(basis & bits) for basis in layout.register)


def _union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _neighbours(scan: Op) -> int:
    """How many elements side by side along a scan's axis a thread holds."""
    t, found = scan.results[0].type, 1
    assert isinstance(t, Tile) and t.layout is not None
    for basis in axis_bases(t.shape, scan.attributes["axis"]):
        if basis not in t.layout.register:
            break
        found *= 2
    return found


def _step_words(op: Op) -> float:
    """The registers of both operands' fragments of one step of K, of those that it loads."""
    row = BY_NAME[op.attributes["instruction"]]
    found = 0.0
    for side, value in enumerate(op.operands[:2]):
        t = value.type
        if isinstance(t, Tile) and t.layout is not None and _never_whole(value.op):
            steps = max(1, t.shape[-1 - side] // row.depth)
            found += t.layout.registers * row.operand.bits / 32 / steps
    return found


def _step_rows(op: Op) -> float:
    """The registers of the rows of A and columns of B that a thread multiplies at once."""
    t = op.result.type
    assert isinstance(t, Tile) and t.layout is not None
    sides = [sum(basis in axis_bases(t.shape, axis) for basis in t.layout.register)
             for axis in (len(t.shape) - 2, len(t.shape) - 1)]
    return sum(1 << bits for bits in sides) * tile_registers(1, element(t).bits)


def _moved(op: Op, bits: int) -> int:
    """Bits of the operand's index as bits of the result's."""
    source, result = shape(op.operands[0].type), shape(op.result.type)
    if op.name == "reshape" or not bits:
        return bits
    axes = op.attributes["permutation"] if op.name == "trans" else range(len(source))
    return _union(to for d, axis in enumerate(axes)
                  for to, of in zip(axis_bases(result, d), axis_bases(source, axis), strict=False)
                  if of & bits)
