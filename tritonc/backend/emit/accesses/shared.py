"""Shared memory: buffers, stores, loads, and copies that fill them asynchronously.

Where an element lies is a linear function of thread and register (see `backend.layout.access`):
the thread's part is computed once per kernel and layout, constants of registers join it by XOR
where the bits meet and by addition, in the instruction itself, where they do not."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from tritonc.backend.emit.accesses.access import Access, load, store
from tritonc.backend.emit.elements.packed import map_registers
from tritonc.backend.emit.function import BufferAddress, Emitter, FunctionEmitter
from tritonc.backend.emit.linear_map import linear_map
from tritonc.backend.emit.literals import SHARED_SPACE
from tritonc.backend.emit.registers import copied, members, owned
from tritonc.backend.layout.access import SharedAccess, SharedAccesses, shared_accesses
from tritonc.backend.layout.conversion import part_holders, part_layout, part_registers
from tritonc.backend.layout.dot_layouts import thickened
from tritonc.backend.shared.shared_memory import SHARED_ALIGNMENT, allocation, pitch
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import Layout, SharedLayout
from tritonc.ir.types import Buffer, shape

AT_ONCE = 32  # registers of a tile that is loaded where it is stored


def buffer_type(t: object) -> Buffer:
    assert isinstance(t, Buffer)
    return t


def buffer_layout(t: object) -> SharedLayout:
    layout = buffer_type(t).layout
    assert layout is not None, "a buffer without a layout"
    return layout


def alloc_shared(f: FunctionEmitter, op: Op) -> None:
    if apart := op.attributes.get("second"):
        own = f.prelude(f"mul nuw i32 {f.group}, {apart}")
        f.buffers[op.result] = BufferAddress(op.attributes["offset"], own, apart)
        return
    f.buffers[op.result] = BufferAddress(op.attributes["offset"])


def buffer_stage(f: FunctionEmitter, op: Op) -> None:
    whole = f.buffers[op.operands[0]]
    root = allocation(op.operands[0])[0]
    stage, size = f.scalar(op.operands[1]), pitch(root)
    backwards = "pitch" in root.attributes
    last = buffer_type(root.result.type).stages - 1
    if stage.lstrip("-").isdigit():
        number = last - int(stage) if backwards else int(stage)
        f.buffers[op.result] = BufferAddress(whole.offset + number * size, whole.dynamic,
                                             whole.steps)
        return
    if backwards:
        stage = f.op(f"sub nuw i32 {last}, {stage}")
    dynamic = f.op(f"mul nuw i32 {stage}, {size}")
    if whole.dynamic:
        dynamic = f.op(f"add nuw i32 {whole.dynamic}, {dynamic}")
    f.buffers[op.result] = BufferAddress(whole.offset, dynamic, math.gcd(whole.steps, size))


def buffer_view(f: FunctionEmitter, op: Op) -> None:
    f.buffers[op.result] = f.buffers[op.operands[0]]


class SharedTile:
    """The accesses of a thread to a tile in a buffer; threads' parts of addresses are computed
    once.  `moves`: if not given those of a tile of `layout`, of a store (`once`) without copies."""

    def __init__(self, f: FunctionEmitter, buffer: Value, layout: Layout, once: bool = False,
                 moves: SharedAccesses | None = None) -> None:
        self.f, self.element = f, buffer_type(buffer.type).element
        self._size, self._base = self.element.bytes, f.buffers[buffer]
        self.moves = moves or shared_accesses(layout, buffer_layout(buffer.type), 8 * self._size,
                                              once)
        self._thread = f.linear(tuple(offset * self._size for offset in self.moves.thread))
        self._pointers: dict[int, str] = {}
        steps = self._base.steps if self._base.dynamic and f.derives_addresses else 1
        self._derived = steps % SHARED_ALIGNMENT == 0  # addresses of one another

    def at(self, one: SharedAccess) -> str:
        """The address of an access: at element offset (thread ^ flip) + add."""
        pointer = self._pointer(one.flip)
        constant = self._base.offset + one.add * self._size
        if not constant:
            return pointer
        return self.f.op(f"getelementptr i8, ptr addrspace({SHARED_SPACE}) {pointer}, "
                         f"i32 {constant}")

    def access(self, one: SharedAccess, owner: str = "") -> Access:
        """The access as an instruction, in the threads for which the i1 `owner` holds."""
        return Access(self.at(one), SHARED_SPACE, self.element, self.moves.vector, owner)

    def load(self, one: SharedAccess, picked: Sequence[int] | None = None) -> dict[int, str]:
        """The registers that the access brings; of its elements only those that are `picked`."""
        if picked is not None and not picked:
            return {}
        loaded = load(self.f, self.access(one), range(self.moves.vector) if picked is None
                      else picked)
        return {one.registers[i]: name for i, name in loaded.items()}

    def _pointer(self, flip: int) -> str:
        f, size = self.f, self._size
        pointer = self._pointers.get(flip)
        if pointer is None:
            if self._derived and 0 < flip * size < SHARED_ALIGNMENT:
                pointer = self._flipped(flip * size)
            else:
                offset = self._thread
                if flip:
                    offset = f.prelude(f"xor i32 {offset}, {flip * size}")
                pointer = f.shared_pointer(offset, self._base.dynamic)
            self._pointers[flip] = pointer
        return pointer

    def _flipped(self, bits: int) -> str:
        """The address whose low bits are others than those of the thread's part.

        Made of the address that has those: what a stage of the buffer adds has no low bits, and the
        start of shared memory has none.  So a loop holds one number, and not one for each such
        address: products on CUDA cores have none to spare, nor has wgmma beside operands that are
        converted.  (Where operands come through registers, before sm_80, the assembler spilled less
        without.)"""
        f, t = self.f, f"ptr addrspace({SHARED_SPACE})"
        address = f.op(f"ptrtoint {t} {self._pointer(0)} to i32")
        return f.op(f"inttoptr i32 {f.op(f'xor i32 {address}, {bits}')} to {t}")


def shared_store(f: FunctionEmitter, op: Op) -> None:
    buffer, value, *some = op.operands
    layout, names, fetch = f.layout(value), f.values[value], f.fetch.get(value)
    bits, index = op.attributes.get("bits", ()), op.attributes.get("index", 0)
    mask, *holders = part_holders(layout, bits)
    whole = part_registers(layout, bits, index)  # the register of the value for each of the part
    if bits and shape(buffer.type) != shape(value.type):
        layout = part_layout(layout, bits)
    tile = SharedTile(f, buffer, layout, once=True)
    accesses = tile.moves.accesses
    if bits and shape(buffer.type) == shape(value.type):
        accesses = tuple(one for one in accesses if {*whole}.issuperset(one.registers))
        whole = tuple(range(layout.registers))
    owner = f.threads(mask, holders[index])
    for condition in some:
        owner = f.both(owner, f.scalar(condition))
    rounds = op.attributes.get("round")
    each = max(1, AT_ONCE // tile.moves.vector if fetch is not None else len(accesses))
    for i in range(0, len(accesses), each):
        part = accesses[i : i + each]
        if fetch is not None:
            fetch(sum(1 << whole[r] for one in part for r in one.registers))
        for one in part:
            picked = [names[whole[r]] for r in one.registers]
            if rounds:
                words = [f.call("llvm.nvvm.f2tf32.rna", "i32", f"float {name}") for name in picked]
                picked = [f.op(f"bitcast i32 {word} to float") for word in words]
            store(f, tile.access(one, owner), picked)


def shared_load(f: FunctionEmitter, op: Op) -> None:
    tile, demanded = SharedTile(f, op.operands[0], f.layout(op.result)), f.demanded(op.result)
    set_pieces(f, op, tile.moves, lambda one: tile.load(
        one, [i for i, r in enumerate(one.registers) if demanded >> r & 1]))


def set_pieces(f: FunctionEmitter, op: Op, moves: SharedAccesses,
               piece: Callable[[SharedAccess], dict[int, str]]) -> None:
    """Load a tile by its accesses: now, or each when the first of its registers is asked for."""
    found = f.blank(op.result.type)
    if not (op.attributes.get("late") or op.attributes.get("piecewise")):
        for one in moves.accesses:
            for r, name in piece(one).items():
                found[r] = name
                f.read[allocation(op.operands[0])[0]] = name, op.result
        f.values[op.result] = found
        return
    whose = {r: one for one in moves.accesses for r in one.registers}

    def register(r: int) -> str:
        if not found[r]:
            for number, name in piece(whose[r]).items():
                found[number] = name
        return found[r]

    def fetch(mask: int) -> None:
        for r in members(mask):
            register(r)

    if op.attributes.get("piecewise"):
        f.values[op.result], f.fetch[op.result] = found, fetch
    else:
        f.late[op.result] = register


def load_slice(f: FunctionEmitter, op: Op) -> None:
    buffer, axis, layout = op.operands[0], op.attributes["axis"], f.layout(op.result)
    tile = SharedTile(f, buffer, thickened(layout, axis, buffer_type(buffer.type).shape[axis]))
    found, bits = f.blank(op.result.type), len(layout.register)
    for one in tile.moves.accesses:
        picked = [i for i, r in enumerate(one.registers) if r >> bits == op.attributes["index"]]
        for r, name in tile.load(one, picked).items():
            found[r & (1 << bits) - 1] = name
    f.values[op.result] = found


def _element(f: FunctionEmitter, buffer: Value, index: str) -> str:
    """The address of the element with an i32 as its index: the same linear map, at run time."""
    size, place = buffer_type(buffer.type).element.bytes, f.buffers[buffer]
    offset = linear_map(tuple(step * size for step in buffer_layout(buffer.type).index), index,
                        f.op)
    pointer = f.shared_pointer("0", place.dynamic)
    for more in (offset, str(place.offset)):
        if more != "0":
            pointer = f.op(f"getelementptr i8, ptr addrspace({SHARED_SPACE}) {pointer}, i32 {more}")
    return pointer


def shared_gather(f: FunctionEmitter, op: Op) -> None:
    """An index that has no value is some element's all the same."""
    buffer, index = op.operands
    last, wide = len(buffer_layout(buffer.type).index), f.type(index)

    def read(name: str) -> str:
        if wide != "i32":
            name = f.op(f"{'trunc' if wide == 'i64' else 'zext'} {wide} {name} to i32")
        name = f.op(f"and i32 {f.op(f'freeze i32 {name}')}, {(1 << last) - 1}")
        return load(f, Access(_element(f, buffer, name), SHARED_SPACE,
                              buffer_type(buffer.type).element, 1), [0])[0]

    f.values[op.result] = map_registers(f, f.demanded(op.result), op.result, [index], read)


def shared_atomic(f: FunctionEmitter, op: Op) -> None:
    buffer, index, value = op.operands
    layout, kind = f.layout(index), op.attributes["kind"]
    kind = kind[1:] if kind in ("smin", "smax") else kind
    owner = f.owner(layout)

    def combine(r: int) -> None:
        pointer = _element(f, buffer, f.values[index][r])
        f.op(f"atomicrmw {kind} ptr addrspace({SHARED_SPACE}) {pointer}, {f.type(value)} "
             f'{f.values[value][r]} syncscope("block") monotonic')

    for r in owned(layout):
        f.under(f.both(owner, f.guard(op, r)), "atomic", partial(combine, r))


# ---- asynchronous copies -------------------------------------------------------------------------


def async_copy(f: FunctionEmitter, op: Op) -> None:
    """cp.async of 4, 8 or 16 bytes, by the owner of each element; zeros where the guard fails.

    Those take their turn at shared memory as copies do: what nobody reads is left out by its own
    condition."""
    buffer, pointer, *some = op.operands
    layout, sources = f.layout(pointer), f.values[pointer]
    tile, pieces = SharedTile(f, buffer, layout, once=True), copied(op, f.warps)
    owner = f.owner(layout)
    for condition in some:
        owner = f.both(owner, f.scalar(condition))
    amid: dict[int, str] = {}
    for piece in pieces:
        size, first = len(piece.registers) * tile.element.bytes, piece.registers[0]
        assert size in (4, 8, 16), f"no asynchronous copy moves {size} bytes"
        where, copy = tile.at(piece), partial(_copy, f, sources[first], size, f.guard(op, first))
        taken = owner
        if op.attributes.get("amid"):
            row = _row(layout, piece) & 1  # those of a thread mostly are all even, or all odd
            if row not in amid:
                amid[row] = _amid_sector(f, layout, piece, sources[first])
            if amid[row]:
                copy(where, f.both(owner, amid[row]), "ca")
                taken = f.both(owner, f.op(f"xor i1 {amid[row]}, true"))
        copy(where, taken, "cg" if size == 16 else "ca")


def _row(layout: Layout, piece: SharedAccess) -> int:
    """The row of a piece, whose neighbours are along a row or, of a tile of two axes, a column."""
    first, second = (layout.at(register) for register in piece.registers[:2])
    return first // layout.shape[-1] if first ^ second < layout.shape[-1] else first


def _amid_sector(f: FunctionEmitter, layout: Layout, piece: SharedAccess, source: str) -> str:
    """An i1: a piece of 16 bytes is the first half of a sector of 32 where its place in the tile
    says that it is the second, or the other way around, so that its row begins amid a sector; ""
    where no place says.  The second-level cache brings such rows at less than half of its rate,
    the first-level cache at that of others (us of 1000 in cube: 11.3 and 8.8)."""
    first, second = (layout.at(register) for register in piece.registers[:2])
    step = (first ^ second) * len(piece.registers)
    place = f"{(first // step & 1) * 16}"
    if step in layout.thread:
        place = f.linear(tuple(16 * (basis == step) for basis in layout.thread))
    elif step not in layout.register:
        return ""
    low = f.op(f"trunc i64 {f.op(f'ptrtoint ptr addrspace(1) {source} to i64')} to i32")
    half = f.op(f"and i32 {f.op(f'xor i32 {low}, {place}')}, 16")
    return f.op(f"icmp ne i32 {half}, 0")


def _copy(f: FunctionEmitter, source: str, size: int, guard: str, to: str, owner: str,
          level: str) -> None:
    address = f.op(f"ptrtoint ptr addrspace({SHARED_SPACE}) {to} to i32")
    text = f"cp.async.{level}.shared.global [$0], [$1], {size}"
    inputs = [("r", f"i32 {address}"), ("l", f"ptr addrspace(1) {source}")]
    if guard not in ("", "true"):
        text += ", $2"
        inputs.append(("b", f"i1 {f.op(f'xor i1 {guard}, true')}")
                      if "async_copy_ignore" in f.target.features else
                      ("r", f"i32 {f.op(f'select i1 {guard}, i32 {size}, i32 0')}"))
    if owner:
        text = f"@${len(inputs)} {text}"
        inputs.append(("b", f"i1 {owner}"))
    f.asm("void", f"{text};", [], inputs)


EMITTERS: dict[str, Emitter] = {
    "alloc_shared": alloc_shared, "buffer_stage": buffer_stage, "buffer_trans": buffer_view,
    "buffer_reshape": buffer_view, "load_slice": load_slice, "shared_gather": shared_gather,
    "shared_atomic": shared_atomic, "async_copy": async_copy,
    "async_commit": lambda f, op: f.call("llvm.nvvm.cp.async.commit.group", "void"),
    "async_wait": lambda f, op: f.call("llvm.nvvm.cp.async.wait.group", "void",
                                       f"i32 {op.attributes['pending']}")}
