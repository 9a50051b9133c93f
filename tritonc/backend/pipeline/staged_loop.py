"""Loops that stage operands of dots through shared memory: what `pipeline` looks for."""

from collections.abc import Collection

from tritonc.analysis.affine import Affinity
from tritonc.analysis.signs import non_negative
from tritonc.analysis.values import conditions, defined_by, int_of, needed, origin, slice_of
from tritonc.backend.dots.together import chained, steps, sums
from tritonc.backend.layout.accesses import Accesses
from tritonc.backend.layout.conversion import Shared, plan_of
from tritonc.backend.shared.shared_memory import (
    VIEWS,
    accesses,
    allocation,
    body_of,
    buffer_bytes,
    pitch,
)
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.layouts.layout_ops import reduction
from tritonc.ir.types import F32, I1, I32, TF32, Buffer, Tile, Type, scalar, with_element
from tritonc.records import dataclass

DOTS = ("fma_dot", "mma_dot", "wgmma")
EXCHANGES = ("convert_layout", "reduce", "reduce_with", "scan", "scan_with", "gather", "histogram",
             "atomic_rmw", "atomic_cas")


@dataclass
class StagedLoop:
    """An innermost loop with one exit, at its header, whose stores feed its own dots.

    `always`: the blocks that every complete iteration runs; `stores` are in them; `fences`: the
    proxy_fences that serve these stores and no other; `pinned`: buffers of the whole run;
    `exchange`: bytes of shared memory without which other operations of the loop cannot do;
    `beside`: of a stage, for operands of later loops alone; `single`: the buffers of one stage."""

    loop: Loop
    preheader: Block
    latch: Block
    body: Block  # where the header goes while the loop runs
    exit: Block
    condition: Value
    always: set[Block]
    stores: list[Op]
    fences: list[Op]
    pinned: list[Op]
    exchange: int
    beside: int = 0
    single: Collection[Op] = ()

    @property
    def replaced(self) -> set[Op]:
        """What a pipeline has no use for."""
        return {*self.stores, *self.fences}

    @property
    def asynchronous(self) -> bool:
        """Whether the operands are read by the tensor cores' own path to memory."""
        return any(op.name == "wgmma" for op in self.loop.ops())

    @property
    def from_registers(self) -> bool:
        """Whether a product takes its left operand from registers: then it stays in flight, with
        the stage that it reads, while threads compute the next one."""
        return any(op.name == "wgmma" and isinstance(op.operands[0].type, Tile)
                   for op in self.loop.ops())

    @property
    def stage_bytes(self) -> int:
        buffers = dict.fromkeys(allocation(store.operands[0])[0] for store in self.stores)
        return self.beside + sum(pitch(op) for op in buffers if op not in self.single)


def staged_loops(kernel: Kernel) -> list[StagedLoop]:
    cfg = Cfg(kernel)
    users = buffer_users(kernel)
    readers = uses(kernel)
    pinned = [op for op in kernel.ops() if op.attributes.get("pinned")]
    found = []
    for loop in cfg.innermost_loops:
        latch, preheader, test = loop.latch, loop.preheader, loop.header.terminator
        if latch is None or preheader is None or latch is loop.header or not loop.one_exit:
            continue
        always = {block for block in loop.blocks if cfg.dominates(block, latch)}
        inside = set(loop.ops())
        stores = [op for block in loop.blocks if block in always for op in block.ops
                  if op.name == "shared_store" and _feeds_dots(op, users, inside)]
        stay, leave = test.blocks
        if stay not in loop:
            continue  # runs while its condition fails: not made by any loop statement
        if any(op in loop.header.ops for op in stores):
            continue  # before the test: the last iteration's products run too
        if stores:
            fences = [op for block in loop.blocks if block in always for op in block.ops
                      if op.name == "proxy_fence" and all(
                          other in stores for other in block.ops if other.name == "shared_store")]
            exchange = max(_least_exchange(op, readers) for op in inside)
            mailboxes = [allocation(mailbox)[0] for op in kernel.ops()
                         if op.name == "cluster_arrive"
                         and cfg.dominates(cfg.block_of[op], loop.header)
                         for mailbox in op.operands]  # peers may write there at any time
            run = body_of(cfg, [loop.header])
            held = [op for op in pinned if not run.isdisjoint(
                body_of(cfg, (cfg.block_of[user] for user in users.get(op, ()))))]
            found.append(StagedLoop(loop, preheader, latch, stay, leave, test.operands[0], always,
                                    stores, fences, [*held, *mailboxes], exchange))
    return found


def exchanged(op: Op, readers: dict[Value, list[Op]]) -> int:
    """The bytes that the operation sends between warps for its readers."""
    t = op.operands[0].type if op.operands else None
    if op.name not in EXCHANGES or not isinstance(t, Tile) or t.layout is None or not any(
            result in readers for result in op.results):
        return 0
    within = op.name == "convert_layout" and not isinstance(plan_of(op), Shared)
    if within or (op.name in ("reduce", "reduce_with") and not reduction(
            t.layout, op.attributes.get("axes") or (op.attributes["axis"],)).warp):
        return 0
    return t.size * t.element.bytes


def _least_exchange(op: Op, readers: dict[Value, list[Op]]) -> int:
    """The bytes of shared memory that it needs at least: an element for each thread."""
    t = op.operands[0].type if op.operands else None
    size = exchanged(op, readers)
    if not size or not isinstance(t, Tile) or t.layout is None:
        return size
    if op.name == "histogram":
        return int(op.attributes["extent"]) * t.element.bytes
    return min(size, t.layout.num_warps * WARP_SIZE * t.element.bytes)


def registers(kernel: Kernel, staged: StagedLoop, held: list[Value]) -> int:
    """An estimate of what a thread needs: the accumulators of the loop's products, which those that
    add to one sum share, and for each of the values `held`, on their way to shared memory,
    themselves and the addresses of the accesses that bring them, which taps share that lie side by
    side."""
    products = [op for op in staged.loop.ops() if op.name in DOTS]
    inside = {v for op in staged.loop.ops() if op.name in (*DOTS, "wgmma_wait") for v in op.results}
    addresses: dict[object, float] = {}
    if held:
        affinity, loads = Affinity(), {op for v in held if (op := v.op) and op.name == "load"}
        known = Accesses(kernel, Cfg(kernel), kernel.attributes["num_warps"], [
            block for block in kernel.blocks if not loads.isdisjoint(block.ops)])
        for v in held:
            form = affinity.of(v.op.operands[0]) if v.op and v.op in loads else None
            key = v if form is None else (form.base, form.strides, v.type, *(
                term for term in form.offset.terms if term[0]))
            addresses[key] = elements_per_thread(v) / _wide(v, known)
    return round(sum(words(op.results[0]) for op in products if op.operands[2] not in inside)
                 + sum(map(words, held)) + sum(addresses.values()))


def _wide(value: Value, known: Accesses) -> int:
    """How many elements one access brings of a value that a load alone brings."""
    load = value.op
    if load is None or load.name != "load" or not isinstance(value.type, Tile) \
            or value.type.layout is None:
        return 1
    return known.of(load).width(value.type.layout)


def elements_per_thread(value: Value) -> int:
    """How many elements of a tile a thread holds."""
    t = value.type
    return t.layout.registers if isinstance(t, Tile) and t.layout is not None else 0


def words(value: Value) -> float:
    """The registers that these fill."""
    return elements_per_thread(value) * scalar(value.type).bytes / 4


def stages_that_fit(staged: StagedLoop, limit: int) -> int:
    """How many stages of the loop's operands fit into `limit` bytes, beside the other buffers that
    are in use while the loop runs."""
    own = {allocation(store.operands[0])[0] for store in staged.stores}
    others = {op: buffer_bytes(op) for op in (*staged.pinned, *staged.single)}
    for op in staged.loop.ops():
        for access in accesses(op):
            if access.allocation not in own:
                others[access.allocation] = buffer_bytes(access.allocation)
    rest = sum(buffer_of(op.result).stage_bytes - pitch(op) for op in own)
    return (limit - staged.exchange - sum(others.values()) - rest) // staged.stage_bytes


def buffer_of(value: Value) -> Buffer:
    assert isinstance(value.type, Buffer)
    return value.type


def source_load(store: Op) -> Op | None:
    """The load whose bits the store stores: a tf32 is in memory as the f32 that it is made from."""
    value = store.operands[1]
    cast = value.op
    if cast is not None and cast.name == "fpcast" and scalar(value.type) == TF32 \
            and scalar(cast.operands[0].type) == F32:
        value = cast.operands[0]
    return value.op if value.op is not None and value.op.name == "load" else None


def buffer_users(kernel: Kernel) -> dict[Op, list[Op]]:
    """The operations that use each alloc_shared, views looked through."""
    users: dict[Op, list[Op]] = {}
    for op in kernel.ops():
        for value in op.operands:
            if isinstance(value.type, Buffer) and op.name not in VIEWS:
                users.setdefault(allocation(value)[0], []).append(op)
    return users


def _feeds_dots(store: Op, users: dict[Op, list[Op]], inside: set[Op]) -> bool:
    """The buffer is one stage, stored once, and read in this loop only, by dots or their loads."""
    root, _ = allocation(store.operands[0])
    # What is computed of another buffer, or by a product in the iteration before, a state that the
    # loop carries, is no one's to bring.
    if any(op.name in ("shared_load", *DOTS) for op in slice_of([store.operands[1]], inside)):
        return False
    return buffer_of(root.result).stages == 1 and store.operands[0] is root.result and all(
        op is store or (op.name in (*DOTS, "shared_load") and op in inside)
        for op in users[root])


def double_computed(kernel: Kernel, staged: StagedLoop, limit: int) -> None:
    """Give each buffer that threads fill in the loop, and wgmma alone reads, a second stage, if
    that and three stages of the operands fit: a product stays in flight while they fill the other.
    """
    body = staged.body
    if not staged.asynchronous or not (len(sums(body)) == 1 or chained(body)):
        return
    users = buffer_users(kernel)
    own = {allocation(store.operands[0])[0] for store in staged.stores}
    roots = [root for root, ops in users.items() if root not in own
             and buffer_of(root.result).stages == 1 and all(
                 op.name in ("wgmma", "shared_store") and op in body.ops for op in ops)]
    if not roots or stages_that_fit(staged, limit - sum(
            buffer_of(root.result).bytes for root in roots)) < 3:
        return
    zero, one = (make_op("constant", [], I32, value=value) for value in (0, 1))
    kernel.entry.ops[:0] = [zero, one]
    half = make_phi([zero.result], [staged.preheader], "half")
    staged.loop.header.ops.insert(0, half)
    other = make_op("sub", [one.result, half.result])
    staged.latch.ops.insert(-1, other)
    add_incoming(half, other.result, staged.latch)
    first = len(body.phis())
    views = {root.result: widen(root.result, 2, half.result, 0) for root in roots}
    for op in body.ops:
        op.replace_inputs({root: view.result for root, view in views.items()})
    body.ops[first:first] = views.values()

def accumulators(kernel: Kernel, loop: Loop, wait: Op) -> list[Op]:
    """The phis of the loop's header to which the products that `wait` waits for add, as far as
    nothing else in the loop reads one, or what the product makes of it."""
    readers = uses(kernel)
    inside = set(loop.ops())
    found = []
    for value, result in zip(wait.operands, wait.results, strict=True):
        start = value.op
        if start is None or start.name != "wgmma" or start not in inside:
            continue
        first, *_ = steps(start)
        phi = first.operands[2].op
        if phi is None or phi not in loop.header.phis():
            continue
        if readers.get(result) != [phi] or readers.get(value) != [wait]:
            continue
        if any(op is not first and (op in inside or op.name == "phi")
               for op in readers[phi.result]):
            continue
        found.append(phi)
    return found


def computed_stays(staged: StagedLoop, start: Op) -> bool:
    """Whether what a product reads from buffers that threads fill in the loop is still there when
    they fill the next."""
    for v in start.operands:
        if isinstance(v.type, Buffer):
            root = allocation(v)[0]
            if buffer_of(root.result).stages == 1 and any(
                    op.name == "shared_store" and allocation(op.operands[0])[0] is root
                    for op in staged.loop.ops()):
                return False
    return True


def widen(buffer: Value, stages: int, stage: Value, ahead: int) -> Op:
    """A view of one stage of the buffer, which gets `stages` of them."""
    t = buffer_of(buffer)
    buffer.type = Buffer(t.element, t.shape, stages, t.layout)
    return make_op("buffer_stage", [buffer, stage], ahead=ahead)


class Guards:
    """Conjunctions of a scalar condition with masks, each made once."""

    def __init__(self, condition: Value) -> None:
        self.condition = condition
        self.splats: dict[Type, Value] = {}

    def under(self, guard: Value | None, pointer: Type) -> tuple[list[Op], Value]:
        """Operations that compute `condition and guard` for an access through `pointer`."""
        ops: list[Op] = []
        if guard is not None and _says(guard, self.condition):
            return ops, guard
        t = with_element(pointer, I1)
        if t not in self.splats:
            self.splats[t] = self.condition
            if isinstance(t, Tile):
                ops.append(make_op("splat", [self.condition], t))
                self.splats[t] = ops[-1].result
        if guard is None:
            return ops, self.splats[t]
        ops.append(make_op("and", [guard, self.splats[t]]))
        return ops, ops[-1].result


def _says(mask: Value, condition: Value) -> bool:
    """Whether no element of a mask holds without the condition: `0 <= i && i < n` says `0 < n`."""
    test = condition.op
    if test is None or test.name != "icmp" or test.attributes["predicate"] != "sgt" \
            or int_of(test.operands[1]) != 0:
        return False
    bounds = (defined_by(v, "icmp") for v in conditions(mask, ("broadcast", "reshape")))
    return any(op is not None and op.attributes["predicate"] == "slt" and non_negative(
        op.operands[0]) and origin(op.operands[1]) is test.operands[0] for op in bounds)


def guard_loads(ops: list[Op], condition: Value, before: Value | None, conjunction: list[Op],
                runs: Value) -> list[Op]:
    """An iteration's operations, in an order in which every load comes after its new guard.

    The loop's header computes `condition` once more than there are iterations: loads that it needs
    are guarded by `before` (whether the iteration before comes) if that is not None.  The others
    are guarded by `runs`, which `conjunction` computes from the condition."""
    first, found = needed(ops, [condition]), list[Op]()
    rest = [op for op in ops if op not in first]
    for part, guard in ((first, before), (conjunction, None), (rest, runs)):
        guards = Guards(guard) if guard is not None else None
        for op in part:
            if op.name == "load" and guards is not None:
                new, op.guard = guards.under(op.guard, op.operands[0].type)
                found += new
            found.append(op)
    return found
