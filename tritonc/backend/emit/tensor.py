"""Tensor copies (TMA): maps that the kernel makes, rings of barriers that count bytes, the copies
and stores of boxes.

A tensor map is 128 bytes that say what a tensor is and how boxes of it go to shared memory.  The
first warp makes it in shared memory, field by field, and publishes it to global memory, where the
copy engine reads it: through a proxy of its own, hence the fences (PTX ISA, "tensormap.replace",
"tensormap.cp_fenceproxy").  The memory is a *slot* of an array of the module.  Launches of a kernel
may overlap, so a block claims a slot: each multiprocessor has a row of SLOTS of them, one compare
and swap takes a free one, and the block gives it back when it ends.  Every claim of a program has
an array of its own, so that no block waits for a slot while it holds one that others wait for.

The first thread makes all copies and stores.  A ring of stages has one barrier in shared memory for
each: the copies' bytes complete its phase, for which the readers wait.
"""

from __future__ import annotations

from collections.abc import Callable

from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import GLOBAL_SPACE, SHARED_SPACE
from tritonc.backend.emit.module import CONVERGENT
from tritonc.backend.emit.shared import buffer_type
from tritonc.backend.emit.warps import FULL_WARP, shuffle_index
from tritonc.backend.emit.wgmma import shared_address
from tritonc.ir.core import Op, Value
from tritonc.ir.layout import WARP_SIZE, log2
from tritonc.ir.types import SCALARS, TF32, Scalar

MAP_BYTES = 128
ROWS, SLOTS = 256, 8  # multiprocessors, and blocks of one that run at once without waiting
_CLUSTER_SPACE = 7  # shared memory of a cluster: the same addresses in a block of its own
_BARRIER_BYTES = 8
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_GLOBAL, _SHARED = f"ptr addrspace({GLOBAL_SPACE})", f"ptr addrspace({SHARED_SPACE})"


def _first_warp(f: FunctionEmitter) -> str:
    """An i1 that holds in the first warp; "" if there is no other."""
    return "" if f.warps == 1 else f.prelude(f"icmp ult i32 {f.thread}, {WARP_SIZE}")


def _first_thread(f: FunctionEmitter) -> str:
    return f.prelude(f"icmp eq i32 {f.thread}, 0")


def _shared_pointer(f: FunctionEmitter, address: str, space: int = SHARED_SPACE) -> str:
    pointer = f.op(f"inttoptr i32 {address} to ptr addrspace({space})")
    return f"ptr addrspace({space}) {pointer}"


def _sync_warp(f: FunctionEmitter) -> None:
    f.convergent("llvm.nvvm.bar.warp.sync", "void", FULL_WARP)


# ---- slots ---------------------------------------------------------------------------------------


def _claims(f: FunctionEmitter, op: Op) -> tuple[str, str]:
    """The arrays of a claim_slot: of the maps, and of the claims."""
    claims = [other for other in f.kernel.ops() if other.name == "claim_slot"]
    suffix = f"{f.kernel.name}_{claims.index(op)}"
    size = ROWS * SLOTS * op.attributes["maps"] * MAP_BYTES
    space = f"internal addrspace({GLOBAL_SPACE}) global"
    return (f.module.define_global(f"tensor_maps_{suffix}",
                                   f"{space} [{size} x i8] zeroinitializer, align {MAP_BYTES}"),
            f.module.define_global(f"tensor_slots_{suffix}",
                                   f"{space} [{ROWS * SLOTS} x i32] zeroinitializer, align 4"))


def claim_slot(f: FunctionEmitter, op: Op) -> None:
    """The slot's address; null outside the first warp."""
    f.target.require("tensor_map", op.span)
    maps, claims = _claims(f, op)
    warp = _first_warp(f)
    before, then, after = f.label, f.new_label("claim"), f.new_label("claim.end")
    if warp:
        f.line(f"br i1 {warp}, label %{then}, label %{after}")
        f.start_block(then)
    number = shuffle_index(f, _take(f, claims), "0")
    offset = f.op(f"mul i32 {number}, {op.attributes['maps'] * MAP_BYTES}")
    slot = f.op(f"getelementptr i8, {_GLOBAL} {maps}, i32 {offset}")
    if warp:
        end = f.label
        f.line(f"br label %{after}")
        f.start_block(after)
        slot = f.op(f"phi {_GLOBAL} [ {slot}, %{end} ], [ null, %{before} ]")
    f.values[op.result] = [slot]


def _take(f: FunctionEmitter, claims: str) -> str:
    """The number of a free slot, which lane 0 takes; its lane alone knows it."""
    entry = f.label
    first, again, done, after = (f.new_label(f"slot.{part}")
                                 for part in ("first", "try", "taken", "end"))
    f.line(f"br i1 {_first_thread(f)}, label %{first}, label %{after}")
    f.start_block(first)
    place = f.call("llvm.nvvm.read.ptx.sreg.smid", "i32")
    row = f.op(f"and i32 {place}, {ROWS - 1}")
    start = f.op(f"shl i32 {row}, {log2(SLOTS)}")
    f.line(f"br label %{again}")
    f.start_block(again)
    turn, following = f"%turn.{again}", f"%turn.{done}"
    f.line(f"{turn} = phi i32 [ 0, %{first} ], [ {following}, %{again} ]")
    number = f.op(f"add i32 {start}, {turn}")
    claim = f.op(f"getelementptr i32, {_GLOBAL} {claims}, i32 {number}")
    pair = f.op(f'cmpxchg {_GLOBAL} {claim}, i32 0, i32 1 syncscope("device") acquire monotonic')
    taken = f.op(f"extractvalue {{ i32, i1 }} {pair}, 1")
    step = f.op(f"add i32 {turn}, 1")
    f.line(f"{following} = and i32 {step}, {SLOTS - 1}")
    f.line(f"br i1 {taken}, label %{done}, label %{again}")
    f.start_block(done)
    f.line(f"br label %{after}")
    f.start_block(after)
    return f.op(f"phi i32 [ {number}, %{done} ], [ 0, %{entry} ]")


def release_slot(f: FunctionEmitter, op: Op) -> None:
    """The first thread has waited for all its copies, so nothing reads the maps any more."""
    slot = op.operands[0]
    assert slot.op is not None and slot.op.name == "claim_slot"
    maps, claims = _claims(f, slot.op)
    size = slot.op.attributes["maps"] * MAP_BYTES

    def give_back() -> None:
        address = f.op(f"ptrtoint {_GLOBAL} {f.scalar(slot)} to i64")
        base = f.op(f"ptrtoint {_GLOBAL} {maps} to i64")
        number = f.op(f"udiv i64 {f.op(f'sub i64 {address}, {base}')}, {size}")
        claim = f.op(f"getelementptr i32, {_GLOBAL} {claims}, i64 {number}")
        f.op(f'atomicrmw xchg {_GLOBAL} {claim}, i32 0 syncscope("device") monotonic')

    f.under(_first_thread(f), "release", give_back)


# ---- maps ----------------------------------------------------------------------------------------


def _element_code(e: Scalar) -> int:
    """The code of an element type: of integers, as copies change no bits; tf32 rounds."""
    return 11 if e == TF32 else {1: 0, 2: 1, 4: 2, 8: 4}[e.bytes]


def _map_address(f: FunctionEmitter, slot: Value, index: int) -> str:
    """The address of a map of a slot."""
    base = f.scalar(slot)
    if not index:
        return base
    return f.op(f"getelementptr i8, {_GLOBAL} {base}, i32 {index * MAP_BYTES}")


def tensor_map(f: FunctionEmitter, op: Op) -> None:
    """Made by the first warp; the first thread may use it from then on."""
    f.target.require("tensor_map", op.span)
    f.under(_first_warp(f), "map", lambda: _make_map(f, op))


def _make_map(f: FunctionEmitter, op: Op) -> None:
    slot, scratch = op.operands[:2]
    address = shared_address(f, f.buffers[scratch])
    _sync_warp(f)  # the map before this one has been published
    lane = f.prelude(f"shl i32 {f.thread}, 2")
    word = _shared_pointer(f, f.op(f"add i32 {address}, {lane}"))
    f.line(f"store i32 0, {word}, align 4")
    _sync_warp(f)
    f.under(_first_thread(f), "fields", lambda: _fields(f, op, _shared_pointer(f, address)))
    _sync_warp(f)
    to = _map_address(f, slot, op.attributes["index"])
    f.asm("void", "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
                  f"aligned [$0], [$1], {MAP_BYTES};", "l,r,~{memory}",
          f"{_GLOBAL} {to}, i32 {address}", CONVERGENT)

    def acquire() -> None:
        pointer = f.op(f"addrspacecast {_GLOBAL} {to} to ptr")
        f.call("llvm.nvvm.fence.proxy.tensormap_generic.acquire.gpu", "void", f"ptr {pointer}",
               f"i32 {MAP_BYTES}")

    f.under(_first_thread(f), "acquire", acquire)


def _fields(f: FunctionEmitter, op: Op, pointer: str) -> None:
    base, extent0, extent1, stride1 = (f.scalar(v) for v in op.operands[2:])
    box, e = op.attributes["box"], SCALARS[op.attributes["element"]]

    def replace(field: str, *arguments: str) -> None:
        f.call(f"llvm.nvvm.tensormap.replace.{field}.p3", "void", pointer, *arguments)

    replace("global.address", f"i64 {f.op(f'ptrtoint {_GLOBAL} {base} to i64')}")
    replace("rank", "i32 1")  # less one
    for axis, extent in enumerate((extent0, extent1)):
        replace("box.dim", f"i32 {axis}", f"i32 {box[axis]}")
        replace("global.dim", f"i32 {axis}", f"i32 {extent}")
        replace("element.stride", f"i32 {axis}", "i32 1")
    replace("global.stride", "i32 0", f"i64 {stride1}")  # of axis 1, in bytes
    replace("elemtype", f"i32 {_element_code(e)}")
    replace("interleave.layout", "i32 0")
    replace("swizzle.mode", f"i32 {_SWIZZLES[op.attributes['swizzle']]}")
    replace("fill.mode", "i32 0")


# ---- rings and copies ----------------------------------------------------------------------------


def ring_init(f: FunctionEmitter, op: Op) -> None:
    """One arrival, the first thread's ring_expect, and the bytes complete a phase."""
    f.target.require("mbarrier_transactions", op.span)
    ring = op.operands[0]

    def initialize() -> None:
        for stage in range(buffer_type(ring.type).stages):
            address = shared_address(f, f.buffers[ring], stage * _BARRIER_BYTES)
            f.call("llvm.nvvm.mbarrier.init.shared", "void", _shared_pointer(f, address), "i32 1")
        f.call("llvm.nvvm.fence.mbarrier_init.release.cluster", "void")
        f.call("llvm.nvvm.fence.proxy.async.shared_cta", "void")

    f.under(_first_thread(f), "ring", initialize)


def _guarded(f: FunctionEmitter, op: Op) -> str:
    """The condition under which the first thread acts."""
    return f.both(_first_thread(f), f.scalar(op.guard) if op.guard is not None else "")


def ring_expect(f: FunctionEmitter, op: Op) -> None:
    f.target.require("mbarrier_transactions", op.span)
    ring = f.buffers[op.operands[0]]

    def arrive() -> None:
        f.call("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", "i64",
               _shared_pointer(f, shared_address(f, ring)), f"i32 {op.attributes['bytes']}")

    f.under(_guarded(f, op), "expect", arrive)


def tensor_copy(f: FunctionEmitter, op: Op) -> None:
    """A box for each panel, one after the other in shared memory."""
    f.target.require("tensor_copy", op.span)
    f.under(_guarded(f, op), "copy", lambda: _copy_panels(f, op))


def _copy_panels(f: FunctionEmitter, op: Op) -> None:
    buffer, ring, slot, start0, start1 = op.operands
    size = buffer_type(buffer.type).element.bytes
    box = op.attributes["box"]
    barrier = _shared_pointer(f, shared_address(f, f.buffers[ring]))
    generic = f.op(f"addrspacecast {_GLOBAL} {_map_address(f, slot, op.attributes['index'])} "
                   "to ptr")
    for panel in range(op.attributes["panels"]):
        to = shared_address(f, f.buffers[buffer], panel * box[0] * box[1] * size)
        first = f.scalar(start0)
        if panel:
            first = f.op(f"add i32 {first}, {panel * box[0]}")
        f.call("llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d", "void",
               _shared_pointer(f, to, _CLUSTER_SPACE), barrier, f"ptr {generic}", f"i32 {first}",
               f"i32 {f.scalar(start1)}", "i16 0", "i64 0", "i1 false", "i1 false", "i32 0")


def tensor_store(f: FunctionEmitter, op: Op) -> None:
    """A box for each panel, all of one group."""
    f.target.require("tensor_copy", op.span)
    f.under(_first_thread(f), "send", lambda: _store_panels(f, op))


def _store_panels(f: FunctionEmitter, op: Op) -> None:
    buffer, slot, start0, start1 = op.operands
    box, size = op.attributes["box"], buffer_type(buffer.type).element.bytes
    generic = f.op(f"addrspacecast {_GLOBAL} {_map_address(f, slot, op.attributes['index'])} "
                   "to ptr")
    for panel in range(op.attributes["panels"]):
        source = shared_address(f, f.buffers[buffer], panel * box[0] * box[1] * size)
        first = f.scalar(start0)
        if panel:
            first = f.op(f"add i32 {first}, {panel * box[0]}")
        f.call("llvm.nvvm.cp.async.bulk.tensor.s2g.tile.2d", "void", _shared_pointer(f, source),
               f"ptr {generic}", f"i32 {first}", f"i32 {f.scalar(start1)}", "i64 0", "i1 false")
    f.call("llvm.nvvm.cp.async.bulk.commit.group", "void")


def store_wait(f: FunctionEmitter, op: Op) -> None:
    """Groups are those of the thread that started them, the first."""
    f.target.require("tensor_copy", op.span)

    def wait() -> None:
        f.call("llvm.nvvm.cp.async.bulk.wait.group.read", "void",
               f"i32 {op.attributes['pending']}")

    f.under(_first_thread(f), "sent", wait)


def ring_wait(f: FunctionEmitter, op: Op) -> None:
    """Every thread asks until the phase is complete."""
    f.target.require("mbarrier_transactions", op.span)
    ring, phase = op.operands
    barrier = _shared_pointer(f, shared_address(f, f.buffers[ring]))
    again, done = f.new_label("wait"), f.new_label("wait.end")
    f.line(f"br label %{again}")
    f.start_block(again)
    complete = f.call("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", "i1", barrier,
                      f"i32 {f.scalar(phase)}")
    f.line(f"br i1 {complete}, label %{done}, label %{again}")
    f.start_block(done)


def proxy_fence(f: FunctionEmitter, op: Op) -> None:
    f.target.require("tensor_copy", op.span)
    f.call("llvm.nvvm.fence.proxy.async.shared_cta", "void")


EMITTERS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "claim_slot": claim_slot, "release_slot": release_slot, "tensor_map": tensor_map,
    "ring_init": ring_init, "ring_expect": ring_expect, "tensor_copy": tensor_copy,
    "ring_wait": ring_wait, "proxy_fence": proxy_fence,
    "tensor_store": tensor_store, "store_wait": store_wait,
}
