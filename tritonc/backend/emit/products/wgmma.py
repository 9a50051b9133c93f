"""Matrix products of warpgroups: wgmma, which reads B, and mostly A, from shared memory.

An instruction multiplies 64 rows of A by up to 256 columns of B, 32 bytes deep, asynchronously.
All instructions of a dot are one piece of inline assembly, so that nothing comes between them (of
a left operand that comes piece by piece, those of a step of k):

    wgmma.fence                       registers written before are seen
    wgmma.mma_async ...               for each step of k, each block of the accumulator
    wgmma.commit_group                the group that a wait counts

and a wait is another, through which all values in flight are threaded: their registers are not
touched in between, which no attribute of an intrinsic could say.

An operand in shared memory is named by a 64-bit descriptor (PTX ISA, "Matrix descriptor format"):

    bits 0-13   address / 16             bits 32-45  stride byte offset / 16
    bits 16-29  leading byte offset / 16 bits 62-63  swizzle: 0 none, 1 128, 2 64, 3 32 bytes

Its layout is one of `tensor_core`: panels of S bytes along the contiguous axis.  Eight rows of a
panel are the pattern that repeats: 8 S bytes on come the next eight (the stride byte offset), and
one panel further the next S bytes of the contiguous axis (the leading byte offset, which is read
only where the contiguous axis is not k, for 32 bytes of k never leave a panel).  With no swizzle a
panel is 16 bytes, so k does go on in the next panel, and the two offsets change places where the
contiguous axis is m or n.  A step of k or another block is another address, because the hardware
swizzles the address that it has computed, like the layout does."""

from collections.abc import Callable, Sequence
from functools import cache

from tritonc.backend.emit.accesses.shared import buffer_layout
from tritonc.backend.emit.function import BufferAddress, Emitter, FunctionEmitter, Names
from tritonc.backend.emit.literals import SHARED_SPACE, literal, llvm_type
from tritonc.backend.emit.module import CONVERGENT
from tritonc.backend.emit.warps import operand_word, warpgroup
from tritonc.backend.target.matrix import BY_NAME, MatrixInstruction
from tritonc.ir.cfg import reached
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.fragment import a_fragment, accumulator_fragment, instances
from tritonc.ir.layouts.layout import SharedLayout
from tritonc.ir.layouts.shared_layout import tensor_core, transpose
from tritonc.ir.types import Buffer, Scalar, Tile, scalar, shape
from tritonc.records import NamedTuple

ROWS = 64  # of one instruction
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}
_ADDRESS_BITS = (1 << 18) - 1
_LOW = (1 << 32) - 1


class SharedOperand(NamedTuple):
    """How an operand lies in shared memory.

    `rows`: the axis of m or n; `transposed`: that axis is contiguous, not k; `swizzle` in bytes."""

    layout: SharedLayout
    element_bytes: int
    rows: int
    transposed: bool
    swizzle: int

    @property
    def high(self) -> int:
        """The descriptor without its address."""
        panel = max(16, self.swizzle)
        lines = self.layout.shape[1 - self.rows if self.transposed else self.rows]
        next_panel, next_lines = lines * panel, 8 * panel  # in bytes
        if self.swizzle == 0 and self.transposed:
            next_panel, next_lines = next_lines, next_panel
        return _MODES[self.swizzle] << 62 | next_lines >> 4 << 32 | next_panel >> 4 << 16

    def offset(self, row: int, k: int) -> int:
        """The byte at which a block begins, from the buffer's start."""
        columns = self.layout.shape[1]
        index = row * columns + k if self.rows == 0 else k * columns + row
        return self.layout.offset_of(index) * self.element_bytes


@cache
def shared_operand(layout: SharedLayout, element_bytes: int, rows: int) -> SharedOperand:
    """What the layout of a buffer says to wgmma.  Raises AssertionError if it cannot be read.

    >>> a = tensor_core((128, 64), (1, 0), 2, 128)
    >>> operand = shared_operand(a, 2, 0)
    >>> operand.transposed, operand.swizzle, operand.offset(64, 16), hex(operand.high)
    (False, 128, 8224, '0x4000004004000000')
    """
    for transposed in (False, True):
        inner = rows if transposed else 1 - rows
        for swizzle in (128, 64, 32, 0):
            if layout.shape[inner] * element_bytes >= max(16, swizzle) and layout == tensor_core(
                    layout.shape, (inner, 1 - inner), element_bytes, swizzle):
                return SharedOperand(layout, element_bytes, rows, transposed, swizzle)
    raise AssertionError(f"no descriptor describes {layout}")


def shared_address(f: FunctionEmitter, buffer: BufferAddress, offset: int = 0) -> str:
    """The i32 address of a byte of a buffer in shared memory."""
    base = f.prelude(f"ptrtoint ptr addrspace({SHARED_SPACE}) {f.shared} to i32")
    if buffer.offset + offset:
        base = f.prelude(f"add i32 {base}, {buffer.offset + offset}")
    return f.op(f"add i32 {base}, {buffer.dynamic}") if buffer.dynamic else base


class _Product:
    def __init__(self, f: FunctionEmitter, op: Op) -> None:
        self.f, self.op = f, op
        self.row: MatrixInstruction = BY_NAME[op.attributes["instruction"]]
        f.target.require(self.row.feature, op.span)
        a, b, _ = op.operands
        self.layout = f.layout(op.result)
        self.groups: list[tuple[int, int, int]] = []  # slice of k, m, n of each bit
        for basis in self.layout.warp[2:]:
            *piece, m, n = self.layout.coordinates(basis) if basis else (0, 0)
            self.groups.append((sum(piece), m, n))
        along = sum(1 for _, _, n in self.groups if n)
        self.columns = min(256, shape(op.result.type)[-1] >> along)
        # Operands of a piece of assembly after its accumulators: constraint and text, its name.
        self.inputs: dict[tuple[str, str], str] = {}
        self.outputs = self.layout.registers
        first, last = op.attributes.get("inner") or (0, shape(a.type)[-1])
        self.steps = range(first, last, self.row.depth)
        whole = shape(op.result.type)[-1]
        self.asked = whole if along else op.attributes.get("asked", whole)  # the rest is padding
        zero = literal(self.row.accumulator, 0)
        self.zero = self.asked == whole and all(name == zero for name in f.values[op.operands[2]])
        self.transposed = [False, False]  # A, B
        self.fetch: Callable[[int], None] | None = None  # computes A for a step of k
        # Each a function of the block's origin and k, which gives lines and the text.
        self.left = self._registers(a) if isinstance(a.type, Tile) else self._shared(a, 0)
        self.right = self._shared(b, 1)

    def _input(self, constraint: str, text: str) -> str:
        """An operand of the assembly; its name there."""
        before = self.outputs if self.zero else 2 * self.outputs
        return self.inputs.setdefault((constraint, text), f"${before + len(self.inputs)}")

    def _registers(self, a: Value) -> Callable[[int, int], tuple[str, str]]:
        """A in registers: four to an instruction."""
        f, bits = self.f, self.row.operand.bits
        each = max(1, 32 // bits)
        fragments = {origin[-2:]: registers for origin, registers in instances(
            f.layout(a), a_fragment(ROWS, self.row.depth, bits))}

        def at(row: int, k: int) -> tuple[str, str]:
            names, registers = f.values[a], fragments[row, k]
            words = [operand_word(f, self.row.operand, [names[r] for r in registers[i : i + each]])
                     for i in range(0, len(registers), each)]
            f.held.setdefault(self.op.result, []).extend(words)
            return "", f"{{{', '.join(self._input('r', f'i32 {w}') for w in words)}}}"

        if a in f.fetch:
            self.fetch = lambda k: f.fetch[a](sum(
                1 << r for (_, step), found in fragments.items() if step == k for r in found))
        return at

    def _shared(self, buffer: Value, rows: int) -> Callable[[int, int], tuple[str, str]]:
        """An operand in shared memory: a descriptor for each warpgroup, constants for the rest.

        The descriptor of the buffer's first stage is computed once; a stage adds to it.  Its base
        is one of its own: where threads read shared memory, too, ptxas keeps theirs in a register
        of each thread, from which each descriptor would have to be brought (`R2UR`).
        H200: attention, d 128, 1.609 ms, so 1.584; fp8_block 0.133, 0.136, and 0.142 if each
        product makes its descriptor from an address."""
        f, size, place = self.f, scalar(buffer.type).bytes, self.f.buffers[buffer]
        first = self.op.attributes.get("columns", (0,))[0] if rows else 0
        operand = shared_operand(_together(buffer_layout(buffer.type), rows), size, rows)
        assert self.row.transposes or not operand.transposed, "k must be the contiguous axis"
        count = f.prelude('call i32 asm "mov.u32 $0, %nctaid.z;", "=r"()')
        zero = f.prelude(f"lshr i32 {count}, 16")  # which nobody but the hardware knows
        address = f.prelude(f"or i32 {shared_address(f, BufferAddress(place.offset))}, {zero}")
        depth = shape(buffer.type)[-1 if rows == 0 else -2]
        for bit, origin in enumerate(self.groups):
            if move := operand.offset(origin[1 + rows], origin[0] * depth):
                part = f.prelude(f"and i32 {warpgroup(f)}, {1 << bit}")
                part = f.prelude(f"mul i32 {part}, {move >> bit}")
                address = f.prelude(f"add i32 {address}, {part}")
        low = f.prelude(f"lshr i32 {f.prelude(f'and i32 {address}, {_ADDRESS_BITS}')}, 4")
        if operand.high & _LOW:
            low = f.prelude(f"or i32 {low}, {operand.high & _LOW}")
        if place.dynamic:
            low = f.op(f"add i32 {low}, {f.op(f'lshr i32 {place.dynamic}, 4')}")
        register, high = "db" if rows else "da", operand.high & ~_LOW
        self.transposed[rows] = operand.transposed
        if isinstance(self.op.operands[0].type, Tile):
            return self._by_halves(operand, first, low, register)
        wide = f.op(f"zext i32 {low} to i64")
        wide = f.op(f"or i64 {wide}, {_signed(high)}")

        def at(row: int, k: int) -> tuple[str, str]:
            name, offset = self._input("l", f"i64 {wide}"), operand.offset(first + row, k)
            if not offset:
                return "", name
            return f"add.s64 {register}, {name}, {offset >> 4};", register

        return at

    def _by_halves(self, operand: SharedOperand, first: int, low: str, register: str
                   ) -> Callable[[int, int], tuple[str, str]]:
        """The same with additions of 32 bits: where threads compute the other operand, as here,
        ptxas may keep descriptors in registers of threads, for which 64 bits are four moves."""
        def at(row: int, k: int) -> tuple[str, str]:
            name, offset = self._input("r", f"i32 {low}"), operand.offset(first + row, k) >> 4
            part = f"add.u32 low, {name}, {offset};" if offset else f"mov.b32 low, {name};"
            return f"{part} mov.b64 {register}, {{low, {operand.high >> 32}}};", register

        return at

    # the assembly

    def _instruction(self, origin: tuple[int, ...], first_register: int, count: int, k: int) -> str:
        row = self.row
        m, n = origin[-2:]
        columns = min(self.columns, self.asked - n)
        count = count * columns // self.columns
        before_a, a = self.left(m, k)
        before_b, b = self.right(n, k)
        total = ", ".join(f"${first_register + i}" for i in range(count))
        kind = f"{'s32' if row.accumulator.is_int else 'f32'}.{row.ptx}.{row.ptx}"
        text = (f"wgmma.mma_async.sync.aligned.m64n{columns}k{row.depth}.{kind} "
                f"{{{total}}}, {a}, {b}, {0 if self.zero and k == self.steps[0] else 1}")
        if row.operand.is_float:
            text += ", -1, 1" if self.op.attributes.get("minus") else ", 1, 1"
        if row.transposes:
            if isinstance(self.op.operands[0].type, Buffer):
                text += f", {int(self.transposed[0])}"
            text += f", {int(self.transposed[1])}"
        return " ".join(part for part in (before_a, before_b, f"{text};") if part)

    def emit(self) -> Names:
        """All instructions together; where A is computed on use, those of each step by themselves,
        so that a step is computed while those before it multiply."""
        names = [] if self.zero else self.f.values[self.op.operands[2]]
        blocks = instances(self.layout, accumulator_fragment(ROWS, self.columns))
        last = self.steps[-1]
        for steps in [[k] for k in self.steps] if self.fetch else [self.steps]:
            lines = ["{", ".reg .b64 da, db; .reg .b32 low;", "wgmma.fence.sync.aligned;"]
            if self.fetch:
                self.fetch(steps[0])
            for k in steps:
                for origin, registers in blocks:
                    if origin[-1] < self.asked:
                        lines.append(self._instruction(origin, registers[0], len(registers), k))
            lines += [*["wgmma.commit_group.sync.aligned;"] * (last in steps), "}"]
            names = _threaded(self.f, "\\0A".join(lines), self.row.accumulator, self.outputs, names,
                              [*self.inputs])
            self.zero, self.inputs = False, {}
        return names


def _together(layout: SharedLayout, rows: int) -> SharedLayout:
    """A buffer of slices of k as the matrix that they are of."""
    if len(layout.shape) == 2:
        return layout
    count, first, second = layout.shape
    if rows == 1:
        return SharedLayout((count * first, second), layout.offset, layout.alignment)
    transposed = transpose(layout, (1, 0, 2))
    return SharedLayout((first, count * second), transposed.offset, transposed.alignment)


def _signed(word: int) -> int:
    """A 64-bit word as LLVM writes it."""
    return word - (1 << 64) if word >> 63 else word


def _threaded(f: FunctionEmitter, text: str, e: Scalar, count: int, names: Sequence[str],
              inputs: Sequence[tuple[str, str]]) -> Names:
    """Assembly with `count` results, which are also its first operands if there are `names`."""
    t = llvm_type(e)
    letter = "r" if e.is_int else "f"
    tied = [(str(i), f"{t} {name}") for i, name in enumerate(names)]
    result = f"{{ {', '.join([t] * count)} }}" if count > 1 else t
    name = f.asm(result, text, [f"={letter}" if names else f"=&{letter}"] * count,
                 [*tied, *inputs], CONVERGENT)
    if count == 1:
        return [name]
    return [f.op(f"extractvalue {result} {name}, {i}") for i in range(count)]


def wgmma(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = _Product(f, op).emit()


def wgmma_wait(f: FunctionEmitter, op: Op) -> None:
    """One wait; every register of every value goes in and comes out.  It leaves no product in
    flight where its operand would be moved."""
    count = len(op.results)
    moved = any(_moved(f.kernel, op, value) for value in op.operands[count:])
    text = f"wgmma.wait_group.sync.aligned {0 if moved else op.attributes['pending']};"
    kept = [word for value in op.operands[count:] for word in f.values[value]]
    for value, result in zip(op.operands, op.results, strict=False):
        names, e = f.values[value], scalar(value.type)
        # Registers that a product reads must not change before it has ended.
        held = kept if kept and not moved else [*kept, *f.held.get(value, ())]
        f.values[result] = _threaded(f, text, e, len(names), names,
                                     [("r", f"i32 {word}") for word in held])


def _moved(kernel: Kernel, wait: Op, value: Value) -> bool:
    """Whether the next iteration's registers are made before the wait for this one's: the two are
    apart then, and a copy brings the new ones to where the next iteration has its own, though the
    product that reads them goes on (see `alternate_registers`, which leaves no such wait)."""
    if value.op is None or value.op.name != "phi":
        return False
    header, home, *made = (next(block for block in kernel.blocks if op in block.ops) for op in (
        value.op, wait, *(v.op for v in value.op.operands if v.op is not None)))
    return any(block is header or home in reached([block], stop=(header,)) for block in made)


EMITTERS: dict[str, Emitter] = {"wgmma": wgmma, "wgmma_wait": wgmma_wait}
