"""TMA loads (TMA): barriers that count bytes, the copies and stores of boxes.

The first thread makes all copies and stores.  A multi-stage buffer has one barrier in shared memory
for each: the copies' bytes complete its phase, for which the readers wait.  Their maps are made in
`tensor_maps.py`."""

from tritonc.backend.emit.accesses.shared import buffer_type
from tritonc.backend.emit.accesses.tensor_maps import (
    buffer_pointer,
    first_thread,
    generic_map,
    shared_pointer,
)
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.products.wgmma import shared_address
from tritonc.backend.emit.warps import FULL_WARP, WARPGROUP_BITS, warpgroup
from tritonc.backend.pipeline.tma.roles import PRODUCER
from tritonc.backend.shared.shared_memory import allocation
from tritonc.ir.core import Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE

_CLUSTER_SPACE = 7  # shared memory of a cluster: the same addresses in a block of its own
_BARRIER_BYTES = 8


def init_barriers(f: FunctionEmitter, op: Op) -> None:
    """One arrival, the first thread's expect_full, and the bytes complete a phase; or one arrival
    of each warp, its arrive_empty."""
    barriers = op.operands[0]
    arrivals = f.warps if op.attributes.get("empty") else 1

    def initialize() -> None:
        for stage in range(buffer_type(barriers.type).stages):
            f.call("llvm.nvvm.mbarrier.init.shared", "void",
                   buffer_pointer(f, barriers, stage * _BARRIER_BYTES), f"i32 {arrivals}")
        f.call("llvm.nvvm.fence.mbarrier_init.release.cluster", "void")
        f.call("llvm.nvvm.fence.proxy.async.shared_cta", "void")

    # With a producer, a thread does it that does not claim the slot.
    f.under(first_thread(f, f.consumer_warps + 1 if f.role else 0), "barriers", initialize)


def _guarded(f: FunctionEmitter, op: Op, thread: str | None = None) -> str:
    """The condition under which a thread makes copies: the first one, or the producer, who is alone
    in its code; or the condition `thread`."""
    own = thread or ("" if f.role == PRODUCER else first_thread(f))
    return f.both(own, f.guard(op))


def expect_full(f: FunctionEmitter, op: Op) -> None:
    def expect() -> None:
        count = str(op.attributes["bytes"])
        for more in op.operands[1:]:
            count = f.op(f"add i32 {f.scalar(more)}, {count}")
        _arrive(f, op, "arrive.expect.tx", count)

    f.under(_guarded(f, op), "expect", expect)


def arrive_full(f: FunctionEmitter, op: Op) -> None:
    """The one arrival of the phase, with no bytes to come."""
    f.under(_guarded(f, op, first_thread(f)), "fill", lambda: _arrive(f, op))


def arrive_empty(f: FunctionEmitter, op: Op) -> None:
    """A warp's threads wait for products together, or meet, so one of them arrives for all.

    When what threads read of these buffers is in registers, in order, if they store beside: an
    arrival overtakes loads that wait behind stores, and TMA then writes what they have yet to read
    (H200, ptxas 13.0)."""
    roots = dict.fromkeys(allocation(value)[0] for value in op.operands[1:])
    read = [f.read[root] for root in roots if root in f.read] if _stores_beside(f, op) else []
    if read and f.later is None:  # no thread waits for it, where it is used anyway
        f.later = op, {value for _, value in read}
        return
    if op.attributes.get("meets"):
        f.convergent("llvm.nvvm.bar.warp.sync", "void", FULL_WARP)
    lane = f.prelude(f"and i32 {f.thread}, {WARP_SIZE - 1}")
    first = f.both(_loaded(f, read), f.prelude(f"icmp eq i32 {lane}, 0"))
    for root in roots:
        f.read.pop(root, None)
    f.under(_guarded(f, op, first), "free", lambda: _arrive(f, op))


def _stores_beside(f: FunctionEmitter, op: Op) -> bool:
    """Whether threads store to shared memory in the loop, or else the block, of an operation."""
    block = f.cfg.block_of[op]
    loop = f.cfg.innermost.get(block)
    return any(one.name == "shared_store" for one in (block.ops if loop is None else loop.ops()))


def _loaded(f: FunctionEmitter, read: list[tuple[str, Value]]) -> str:
    """An i1 that is true when these registers are loaded, "" if there are none: no assembler knows
    that a GPU has a multiprocessor."""
    if not read:
        return ""
    found = f.prelude_call("llvm.nvvm.read.ptx.sreg.nsmid")
    for name, value in read:
        found = f.op(f"or i32 {found}, {_word(f, name, f.type(value))}")
    return f.op(f"icmp ne i32 {found}, 0")


def _word(f: FunctionEmitter, name: str, t: str) -> str:
    """An i32 that depends on a register."""
    if name in f.words:
        return f.words[name][0]
    bits = {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(t) or int(t[1:])
    if not t.startswith("i"):
        name = f.op(f"bitcast {t} {name} to i{bits}")
    return name if bits == 32 else f.op(f"{'trunc' if bits > 32 else 'zext'} i{bits} {name} to i32")


def _arrive(f: FunctionEmitter, op: Op, kind: str = "arrive", count: str = "1") -> None:
    f.call(f"llvm.nvvm.mbarrier.{kind}.scope.cta.space.cta", "i64",
           buffer_pointer(f, op.operands[0]), f"i32 {count}")


def wait_full(f: FunctionEmitter, op: Op) -> None:
    """Every thread asks until the phase is complete."""
    full, phase = op.operands[:2]
    barrier = buffer_pointer(f, full)
    again, done = f.new_label("wait"), f.new_label("wait.end")
    f.line(f"br label %{again}")
    f.start_block(again)
    complete = f.call("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", "i1", barrier,
                      f"i32 {f.scalar(phase)}")
    f.line(f"br i1 {complete}, label %{done}, label %{again}")
    f.start_block(done)


def wait_empty(f: FunctionEmitter, op: Op) -> None:
    """The thread that makes the copies asks."""
    f.under(_guarded(f, op), "acquire", lambda: wait_full(f, op))


def order_wait(f: FunctionEmitter, op: Op) -> None:
    """The first warpgroup waits for no other."""
    later = f.prelude(f"icmp uge i32 {f.thread}, {1 << WARPGROUP_BITS}")
    f.under(later, "turn", lambda: wait_full(f, op))


def order_arrive(f: FunctionEmitter, op: Op) -> None:
    """One thread for all: no data depend on it."""
    f.under(first_thread(f), "pass", lambda: _arrive(f, op))


def tma_load(f: FunctionEmitter, op: Op) -> None:
    """A box for each panel, one after the other in shared memory."""
    f.under(_guarded(f, op), "copy", lambda: _copy_panels(f, op))


def _copy_panels(f: FunctionEmitter, op: Op) -> None:
    buffer, full, slot, *starts = op.operands
    box, panel_bytes, first = op.attributes["box"], _panel_bytes(op), 0
    if (row := op.attributes.get("row")) is not None:  # a box of some of the rows
        t = buffer_type(buffer.type)
        first, panel_bytes = row * panel_bytes // box[1], (
            t.shape[0] * t.shape[1] * t.element.bytes // op.attributes["panels"])
    barrier, tensor = buffer_pointer(f, full), generic_map(f, slot, op.attributes["index"])
    if (nothing := op.attributes.get("nothing")) is not None:
        none = f.op(f"icmp eq i32 {f.scalar(starts[1])}, {box[1]}")
        tensor = "ptr " + f.op(f"select i1 {none}, {generic_map(f, slot, nothing)}, {tensor}")
    for panel in range(op.attributes["panels"]):
        to = buffer_pointer(f, buffer, first + panel * panel_bytes, _CLUSTER_SPACE)
        f.call(f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{len(starts)}d", "void", to, barrier,
               tensor, *_coordinates(f, starts, panel * box[0]), "i16 0", "i64 0", "i1 false",
               "i1 false", "i32 0")


def _panel_bytes(op: Op) -> int:
    box = op.attributes["box"]
    return int(box[0] * box[1] * buffer_type(op.operands[0].type).element.bytes)


def _coordinates(f: FunctionEmitter, starts: list[Value], moved: int) -> list[str]:
    """The first element of a box that is moved along axis 0."""
    first, *rest = (f.scalar(v) for v in starts)
    if moved:
        first = f.op(f"add i32 {first}, {moved}")
    return [f"i32 {name}" for name in (first, *rest)]


def leader(f: FunctionEmitter, op: Op) -> str:
    """An i1 that holds in the thread that makes stores, or in one of each warpgroup."""
    if not op.attributes.get("groups"):
        return first_thread(f)
    own = f.prelude(f"and i32 {f.thread}, {(1 << WARPGROUP_BITS) - 1}")
    return f.prelude(f"icmp eq i32 {own}, 0")


def tma_store(f: FunctionEmitter, op: Op) -> None:
    """A box for each panel, all of one group."""
    f.under(leader(f, op), "send", lambda: _store_panels(f, op))


def _store_panels(f: FunctionEmitter, op: Op) -> None:
    buffer, slot, *starts = op.operands
    box, bytes_, groups = op.attributes["box"], _panel_bytes(op), op.attributes.get("groups", 1)
    tensor = generic_map(f, slot, op.attributes["index"])
    for panel in range(op.attributes["panels"]):
        source = shared_address(f, f.buffers[buffer], panel * bytes_ * groups)
        first, row, *rest = _coordinates(f, starts, panel * box[0])
        if groups > 1:
            own = warpgroup(f)
            source = f.op(f"add i32 {source}, {f.prelude(f'mul i32 {own}, {bytes_}')}")
            row = f"i32 {f.op(f'add {row}, ' + f.prelude(f'mul i32 {own}, {box[1]}'))}"
        f.call(f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{len(starts)}d", "void",
               shared_pointer(f, source), tensor, first, row, *rest, "i64 0", "i1 false")
    f.call("llvm.nvvm.cp.async.bulk.commit.group", "void")


def store_wait(f: FunctionEmitter, op: Op) -> None:
    """Groups of stores are those of the thread that started them."""
    kind = "" if op.attributes.get("written") else ".read"
    f.under(leader(f, op), "sent", lambda: f.call(
        f"llvm.nvvm.cp.async.bulk.wait.group{kind}", "void", f"i32 {op.attributes['pending']}"))


EMITTERS: dict[str, Emitter] = {
    "init_barriers": init_barriers, "expect_full": expect_full, "arrive_full": arrive_full,
    "wait_full": wait_full, "arrive_empty": arrive_empty, "wait_empty": wait_empty,
    "order_wait": order_wait, "order_arrive": order_arrive,
    "tma_load": tma_load, "tma_store": tma_store, "store_wait": store_wait,
    "proxy_fence": lambda f, op: f.call("llvm.nvvm.fence.proxy.async.shared_cta", "void")}
