"""Tensor maps, which the kernel makes itself, and the slots of global memory that they lie in.

A tensor map is 128 bytes that say what a tensor is and how boxes of it go to shared memory.  A warp
makes it in shared memory, field by field, and publishes it to global memory, where TMA
reads it: through a proxy of its own, hence the fences (PTX ISA, "tensormap.replace",
"tensormap.cp_fenceproxy").  Maps are made by several warps, beside each other, while the first one
claims the slot: this takes longer than anything else before the first copy.  Where a warp of its
own makes the copies, all this is done by it and those that come with it, and the others can load
what they need in the meantime.

The memory is a *slot* of an array of the module.  Launches of a kernel may overlap, so a block
claims a slot: each multiprocessor has a row of SLOTS of them, one compare and swap takes a free
one, and the block gives it back when it ends.  Every claim of a program has an array of its own, so
that no block waits for a slot while it holds one that others wait for."""

from collections.abc import Callable, Sequence

from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import GLOBAL_SPACE, SHARED_SPACE
from tritonc.backend.emit.module import CONVERGENT
from tritonc.backend.emit.products.wgmma import shared_address
from tritonc.backend.emit.warps import FULL_WARP, WARPGROUP_BITS
from tritonc.backend.pipeline.tma.roles import CONSUMERS, PRODUCER, PRODUCER_WARPS
from tritonc.backend.pipeline.tma.tma_access import ENDLESS
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE, log2
from tritonc.ir.types import SCALARS, TF32, Scalar

MAP_BYTES = 128
ROWS, SLOTS = 256, 8  # multiprocessors, and blocks of one that run at once without waiting
# Barriers of the producer's warps: with the others, once; alone; of its first one and that of the
# others that gives the slot back.
_MEETING, _SETUP, _CLAIMED = 15, 14, 13
_HANDING_BACK = _CLAIMED, 2 * WARP_SIZE
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
GLOBAL, _SHARED = f"ptr addrspace({GLOBAL_SPACE})", f"ptr addrspace({SHARED_SPACE})"


def first_thread(f: FunctionEmitter, warp: int = 0) -> str:
    return f.prelude(f"icmp eq i32 {f.thread}, {warp * WARP_SIZE}")


def _in_warp(f: FunctionEmitter, warp: int) -> str:
    """An i1 that holds in the threads of a warp; "" if there is no other."""
    if f.warps == 1:
        return ""
    own = f.prelude(f"lshr i32 {f.thread}, {log2(WARP_SIZE)}")
    return f.prelude(f"icmp eq i32 {own}, {warp}")


def _maker(f: FunctionEmitter, index: int) -> int:
    """The warp that makes and publishes a map; the first one is the last to be asked."""
    if f.role == PRODUCER:
        return f.consumer_warps + 1 + index % (PRODUCER_WARPS - 1)
    return (index + 1) % f.warps


def _claimer(f: FunctionEmitter) -> int:
    """The warp whose first thread claims the slot, and makes the copies."""
    return f.consumer_warps if f.role == PRODUCER else 0


def _setup_barrier(f: FunctionEmitter) -> None:
    """The producer's warps wait for each other."""
    f.meet_at(_SETUP, PRODUCER_WARPS * WARP_SIZE)


def shared_pointer(f: FunctionEmitter, address: str, space: int = SHARED_SPACE) -> str:
    pointer = f.op(f"inttoptr i32 {address} to ptr addrspace({space})")
    return f"ptr addrspace({space}) {pointer}"


def buffer_pointer(f: FunctionEmitter, buffer: Value, offset: int = 0, space: int = SHARED_SPACE
                   ) -> str:
    return shared_pointer(f, shared_address(f, f.buffers[buffer], offset), space)


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
    """The slot's address: null but in the first thread, which writes it to the cell."""
    if f.role == CONSUMERS:
        f.values[op.result] = ["null"]  # until they have met those who claim it
        return
    if f.role == PRODUCER and _early(f, op.result):  # the barriers are made
        f.meet_at(*_meeting(f), "arrive")
    maps, claims = _claims(f, op)

    def claim() -> str:
        offset = f.op(f"mul i32 {_take(f, claims)}, {op.attributes['maps'] * MAP_BYTES}")
        slot = f.op(f"getelementptr i8, {GLOBAL} {maps}, i32 {offset}")
        f.line(f"store {GLOBAL} {slot}, {buffer_pointer(f, op.operands[0])}, align 8")
        return slot

    f.values[op.result] = [f.where(first_thread(f, _claimer(f)), "claim", GLOBAL, "null", claim)]


def _take(f: FunctionEmitter, claims: str) -> str:
    first, again, done = f.label, f.new_label("slot.try"), f.new_label("slot.taken")
    place = f.call("llvm.nvvm.read.ptx.sreg.smid", "i32")
    row = f.op(f"and i32 {place}, {ROWS - 1}")
    start = f.op(f"shl i32 {row}, {log2(SLOTS)}")
    f.line(f"br label %{again}")
    f.start_block(again)
    turn, following = f"%turn.{again}", f"%turn.{done}"
    f.line(f"{turn} = phi i32 [ 0, %{first} ], [ {following}, %{again} ]")
    number = f.op(f"add i32 {start}, {turn}")
    claim = f.op(f"getelementptr i32, {GLOBAL} {claims}, i32 {number}")
    pair = f.op(f'cmpxchg {GLOBAL} {claim}, i32 0, i32 1 syncscope("device") acquire monotonic')
    taken = f.op(f"extractvalue {{ i32, i1 }} {pair}, 1")
    step = f.op(f"add i32 {turn}, 1")
    f.line(f"{following} = and i32 {step}, {SLOTS - 1}")
    f.line(f"br i1 {taken}, label %{done}, label %{again}")
    f.start_block(done)
    return number


def release_slot(f: FunctionEmitter, op: Op) -> None:
    """The first thread has waited for all its copies, so nothing reads the maps any more."""
    slot = op.operands[0]
    assert slot.op is not None and slot.op.name == "claim_slot"
    maps, claims = _claims(f, slot.op)
    size = slot.op.attributes["maps"] * MAP_BYTES

    def give_back() -> None:
        address = f.op(f"ptrtoint {GLOBAL} {f.scalar(slot)} to i64")
        base = f.op(f"ptrtoint {GLOBAL} {maps} to i64")
        number = f.op(f"udiv i64 {f.op(f'sub i64 {address}, {base}')}, {size}")
        claim = f.op(f"getelementptr i32, {GLOBAL} {claims}, i64 {number}")
        f.line(f'store atomic i32 0, {GLOBAL} {claim} syncscope("device") monotonic, align 4')

    if f.pingpong > 1:
        _release_last(f, slot, give_back)
        return
    if f.role == CONSUMERS and (start := _early(f, slot)) is not None:
        def meet() -> None:
            f.meet_at(*_HANDING_BACK)
            f.values[slot] = [_own_slot(f, start.operands[1])]
            f.under(first_thread(f), "release", give_back)

        f.under(_in_warp(f, 0), "claimed", meet)
        return
    f.under(first_thread(f), "release", give_back)


def _release_last(f: FunctionEmitter, slot: Value, give_back: Callable[[], None]) -> None:
    """The threads of the first program wait for the others, who have done with the maps."""
    start = _early(f, slot)
    threads = (f.consumer_warps + (start is not None)) * WARP_SIZE

    def meet() -> None:
        f.meet_at(_CLAIMED, threads)
        if start is not None:
            f.values[slot] = [_own_slot(f, start.operands[1])]
        f.under(first_thread(f), "release", give_back)

    first = f.prelude(f"icmp eq i32 {f.group}, 0")
    f.under(first, "last", meet)
    f.under(f.prelude(f"xor i1 {first}, true"), "leave",
            lambda: f.meet_at(_CLAIMED, threads, "arrive"))


def _early(f: FunctionEmitter, slot: Value) -> Op | None:
    """The start of the copies by maps of a slot, if those that compute go on before it is claimed.
    """
    return next((op for op in f.kernel.ops() if op.name == "start_producer"
                 and op.operands[0] is slot and op.attributes.get("early")), None)


def _own_slot(f: FunctionEmitter, cell: Value) -> str:
    """The slot's address, from where the claim wrote it."""
    place = buffer_pointer(f, cell)
    return f.op(f"load {GLOBAL}, {place}, align 8")


# ---- maps ----------------------------------------------------------------------------------------


def _element_code(e: Scalar) -> int:
    """The code of an element type: of integers, as copies change no bits; tf32 rounds."""
    return 11 if e == TF32 else {1: 0, 2: 1, 4: 2, 8: 4}[e.bytes]


def _map_address(f: FunctionEmitter, slot: str, index: int) -> str:
    return slot if not index else f.op(f"getelementptr i8, {GLOBAL} {slot}, i32 "
                                       f"{index * MAP_BYTES}")


def generic_map(f: FunctionEmitter, slot: Value, index: int) -> str:
    """The same as instructions take it, with its type."""
    address = _map_address(f, f.scalar(slot), index)
    return f"ptr {f.op(f'addrspacecast {GLOBAL} {address} to ptr')}"


def _scratch(f: FunctionEmitter, scratch: Value, index: int) -> str:
    return shared_address(f, f.buffers[scratch], index * MAP_BYTES)


def tensor_map(f: FunctionEmitter, op: Op) -> None:
    """Made by a warp of its own, where there are enough."""
    warp = _maker(f, op.attributes["index"])
    f.under(_in_warp(f, warp), "map", lambda: _make_map(f, op, warp))


def _make_map(f: FunctionEmitter, op: Op, warp: int) -> None:
    address = _scratch(f, op.operands[0], op.attributes["index"])
    lane = f.prelude(f"and i32 {f.thread}, {WARP_SIZE - 1}")
    place = f.op(f"add i32 {address}, {f.prelude(f'shl i32 {lane}, 2')}")
    _sync_warp(f)  # what was made there before has been published
    f.line(f"store i32 0, {shared_pointer(f, place)}, align 4")
    _sync_warp(f)
    f.under(first_thread(f, warp), "fields", lambda: _fields(f, op, shared_pointer(f, address)))
    _sync_warp(f)


def publish_maps(f: FunctionEmitter, op: Op) -> None:
    """Each by the warp that has made it; then the first thread may use them."""
    scratch, cell = op.operands[1:]
    if f.role == PRODUCER:
        _setup_barrier(f)
    for index in op.attributes["indices"]:
        f.under(_in_warp(f, _maker(f, index)), "publish",
                lambda index=index: _publish(f, scratch, cell, index))  # type: ignore[misc]
    if not f.role:  # else they wait in start_producer
        f.barrier()
        f.under(first_thread(f), "acquire",
                lambda: _acquire(f, op.operands[0], op.attributes["indices"]))


def _acquire(f: FunctionEmitter, slot: Value, indices: Sequence[int]) -> None:
    """This thread may use maps that others have published."""
    for index in indices:
        f.call("llvm.nvvm.fence.proxy.tensormap_generic.acquire.gpu", "void",
               generic_map(f, slot, index), f"i32 {MAP_BYTES}")


def start_producer(f: FunctionEmitter, op: Op) -> None:
    """One thread of the warps that others do without makes the copies; the rest of them end.

    The maps are published.  The producer may use some of them then, the first thread of each
    warpgroup the others."""
    slot, cell = op.operands
    early = op.attributes.get("early")
    if f.role == PRODUCER:
        _setup_barrier(f)
        if early:
            f.under(_in_warp(f, _claimer(f)), "claimed",
                    lambda: f.meet_at(_CLAIMED, (f.consumer_warps + 1) * WARP_SIZE if f.pingpong > 1
                                      else _HANDING_BACK[1], "arrive"))
        else:
            f.meet_at(*_meeting(f), "sync" if op.attributes.get("waits") else "arrive")
        go, end = f.new_label("producer"), f.new_label("idle")
        f.line(f"br i1 {first_thread(f, _claimer(f))}, label %{go}, label %{end}")
        f.start_block(end)
        f.line("ret void")
        f.start_block(go)
    else:
        f.meet_at(*_meeting(f))
        if early:
            f.values[op.result] = ["null"]
            return
    f.values[op.result] = [_own_slot(f, cell)]
    if f.role == PRODUCER:
        _acquire(f, op.result, op.attributes["indices"])
        return
    f.values[slot] = f.values[op.result]
    left = [i for other in f.kernel.ops() if other.name == "publish_maps"
            and other.operands[0] is slot for i in other.attributes["indices"]
            if i not in op.attributes["indices"]]
    own = f.prelude(f"and i32 {f.thread}, {(1 << WARPGROUP_BITS) - 1}")
    f.under(f.prelude(f"icmp eq i32 {own}, 0"), "acquire", lambda: _acquire(f, op.result, left))


def _meeting(f: FunctionEmitter) -> tuple[int, int]:
    """The barrier of the consumers and the producer's warps."""
    return _MEETING, (f.consumer_warps + PRODUCER_WARPS) * WARP_SIZE


def _publish(f: FunctionEmitter, scratch: Value, cell: Value, index: int) -> None:
    to = _map_address(f, _own_slot(f, cell), index)
    f.asm("void", "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
                  f"aligned [$0], [$1], {MAP_BYTES};", [],
          [("l", f"{GLOBAL} {to}"), ("r", f"i32 {_scratch(f, scratch, index)}")], CONVERGENT)


def _fields(f: FunctionEmitter, op: Op, pointer: str) -> None:
    base, extent0, extent1, *strides = (f.scalar(v) for v in op.operands[1:])
    rows = strides.pop() if op.attributes.get("short") else op.attributes["box"][1]
    # Of further axes there is no end, and a box is of one tensor.
    deep = [(str(ENDLESS), 1)] * (len(strides) - 1)
    box, e = op.attributes["box"], SCALARS[op.attributes["element"]]

    def replace(field: str, *arguments: str) -> None:
        f.call(f"llvm.nvvm.tensormap.replace.{field}.p3", "void", pointer, *arguments)

    replace("global.address", f"i64 {f.op(f'ptrtoint {GLOBAL} {base} to i64')}")
    replace("rank", f"i32 {len(strides)}")  # less one
    for axis, (extent, size) in enumerate(((extent0, box[0]), (extent1, rows), *deep)):
        replace("box.dim", f"i32 {axis}", f"i32 {size}")
        replace("global.dim", f"i32 {axis}", f"i32 {extent}")
        replace("element.stride", f"i32 {axis}", "i32 1")
    for i, stride in enumerate(strides):
        replace("global.stride", f"i32 {i}", f"i64 {stride}")  # of axis i + 1, in bytes
    replace("elemtype", f"i32 {_element_code(e)}")
    replace("interleave.layout", "i32 0")
    replace("swizzle.mode", f"i32 {_SWIZZLES[op.attributes['swizzle']]}")
    replace("fill.mode", "i32 0")


EMITTERS: dict[str, Emitter] = {
    "claim_slot": claim_slot, "release_slot": release_slot, "tensor_map": tensor_map,
    "publish_maps": publish_maps, "start_producer": start_producer}
