"""insert_barriers: inserts barriers exactly where one thread's access depends on another's.

Before:  shared_store %s, %x                  After:  shared_store %s, %x
         %y = shared_load %s                          barrier
                                                      %y = shared_load %s

The paper's forward data-flow equations (section 5.3): the state at a point is the set of accesses
since the last barrier on some path.  An operation that reads what a pending access wrote (RAW), or
writes what one read or wrote (WAR, WAW), needs a barrier before it, which empties the state.
States join by union and loops are iterated to a fixed point.  A barrier in a loop that ends what
was pending before it may stand before the loop instead, if the loop has fewer then.

Two accesses of shared memory touch if their bytes overlap.  In a multi-stage buffer, `ahead` says
how many iterations before its own a stage is used; crossing the back edge of the buffer's loop
moves all stages one iteration nearer, so equal distances, and only these, touch.  Global memory is
treated the same way, since a tile may be stored by one thread and loaded by another: pointers of
different parameters touch unless one is declared not to alias, or `specialize` tested that; two
operations on the same addresses, each used by one thread, in one iteration, stay in their threads;
an access that moves through memory meets nothing of its own earlier iterations (`analysis.moving`);
one of even elements meets none of odd ones; and scalars are stored by the first thread, in its own
order.

A load that is made by the operation which reads it (`late`, `piecewise`) reads there once more: a
barrier between the two does not end it.

What threads wrote becomes visible to the asynchronous proxy (wgmma, TMA loads and stores) by
a `proxy_fence` of the threads that wrote and a barrier behind the fence.  A fence that another
barrier would part from its stores moves before that barrier, which then serves both; where the
stores are in another block, a second barrier follows the fence.

Needs allocate_shared, and must be the last pass that moves memory operations."""

from collections import Counter
from collections.abc import Iterable

from tritonc.analysis.aliases import pointer_roots
from tritonc.analysis.axis import axis_info
from tritonc.analysis.moving import addresses_modulo, meets_itself
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.shared.pending import ACQUIRED, FENCED, MET, RELEASED, Pending, State, conflict
from tritonc.backend.shared.shared_memory import HANDS_OVER, accesses, allocation, buffer_bytes
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ, SYNC, WRITE
from tritonc.ir.types import Buffer, Tile, element, is_pointer
from tritonc.records import NamedTuple, cached_property


def insert_barriers(kernel: Kernel, context: Context) -> bool:
    """Insert the barriers that the accesses of the kernel need, and no other."""
    cfg = Cfg(kernel)
    found = _Uses(kernel, cfg)
    plan = _plan(kernel, cfg, found, set())
    if _move_fences(cfg, found, plan):
        plan = _plan(kernel, cfg, found, set())
    for loop in sorted(cfg.loops, key=lambda loop: -loop.depth):
        home = loop.preheader
        if home is None or not any(
                plan.ended.get(op, frozenset()) & plan.leaving[home] for op in loop.ops()):
            continue
        other = _plan(kernel, cfg, found, plan.asked | {home.terminator})
        if other.count(loop) < plan.count(loop):
            plan = other
    for block in cfg.order:
        ops: list[Op] = []
        for op in block.ops:
            if plan.needs.get(op):
                ops.append(make_op(plan.needs[op], [], span=op.span))
            ops.append(op)
        block.ops = ops
    return any(plan.needs.values())


class _Plan(NamedTuple):
    """What barriers stand before which operations, of which some were `asked` for.

    `ended`: the accesses for which a barrier stands before an operation; `leaving`: those that are
    pending where a block ends; `unfenced`: the writes that threads meet behind, with no fence yet.
    """

    needs: dict[Op, str]
    asked: set[Op]
    ended: dict[Op, State]
    leaving: dict[Block, State]
    unfenced: dict[Op, State]

    def count(self, loop: Loop) -> int:
        """Of a loop."""
        return sum(bool(self.needs.get(op)) for op in loop.ops())


def _plan(kernel: Kernel, cfg: Cfg, found: "_Uses", asked: set[Op]) -> _Plan:
    """The barriers that are needed if those `asked` for are there."""
    loops, deferred = {loop.header: loop for loop in cfg.loops}, found.deferred
    incoming: dict[Block, State] = {block: frozenset() for block in cfg.order}
    plan = _Plan({}, asked, {}, {}, {})
    work = list(cfg.order)
    while work:
        block = work.pop(0)
        state = incoming[block]
        for op in block.ops:
            if op.pure and op not in asked:
                if op in deferred:
                    state = state.union(deferred[op])
                continue
            plan.needs[op], plan.ended[op] = "", frozenset()
            if op.name in MEETS:
                plan.unfenced[op] = _unfenced(state)
                state = _flying(state)
                continue
            state = _progress(op, state)
            new = found.together(op)
            conflicts = [(old, use) for use in new for old in state if conflict(kernel, old, use)]
            need = "barrier" if op in asked else _needed(conflicts)
            plan.needs[op], plan.ended[op] = need, frozenset(old for old, _ in conflicts)
            plan.unfenced[op] = _unfenced(state) if need else frozenset()
            state = _flying(state, need) if need else state
            if new and op.name != "tma_load":  # whoever reads it waits for the stage
                state = state.union(new)
            state = state.union(deferred.get(op, ()))
        plan.leaving[block] = state
        for successor in block.successors:
            loop = loops.get(successor)
            passed = _next_iteration(state, loop) if loop is not None and block in loop else state
            if not passed <= incoming[successor]:
                incoming[successor] |= passed
                if successor not in work:
                    work.append(successor)
    return plan


def _move_fences(cfg: Cfg, found: "_Uses", plan: _Plan) -> bool:
    """Move each fence before the first barrier that parts it from stores that it serves."""
    if not any(op.name == "proxy_fence" for block in cfg.order for op in block.ops):
        return False
    moved = False
    served = [p for block in cfg.order for op in block.ops for p in found.of(op) if p.by_proxy]

    def serves(writes: Iterable[Pending]) -> bool:
        return any(one.start < other.end and other.start < one.end
                   for one in writes for other in served)

    for block in cfg.order:
        for fence in [op for op in block.ops if op.name == "proxy_fence"]:
            at = to = first = block.ops.index(fence)
            while first:
                op = block.ops[first - 1]
                if op.name in ("proxy_fence", "async_wait", "init_barriers") or serves(
                        p for p in found.of(op) if p.own_write):
                    break
                first -= 1
                if serves(plan.unfenced.get(op, ())):
                    to = first
            if to < at:
                block.ops.insert(to, block.ops.pop(at))
                moved = True
    return moved


def _late(op: Op | None) -> bool:
    """Whether it is a load that is made where it is stored (`delay_loads`)."""
    return op is not None and op.name == "load" and bool(op.attributes.get("late"))


def _piece(op: Op) -> tuple[Value, int] | None:
    """Which part of which tile the operation stores at its place in a buffer."""
    if op.name != "shared_store" or "bits" not in op.attributes:
        return None
    return op.operands[1], op.attributes["index"]


def _needed(conflicts: list[tuple[Pending, Pending]]) -> str:
    """The barrier that ends the conflicts; "" if there are none."""
    if not conflicts:
        return ""
    alone = all(old.grouped and new.grouped and (old.start, old.end) == (new.start, new.end)
                for old, new in conflicts)
    return "group_barrier" if alone else "barrier"


def _unfenced(state: State) -> State:
    return frozenset(p for p in state if p.own_write and not p.proxy)


def _flying(state: State, barrier: str = "barrier") -> State:
    """What a barrier leaves: accesses that no thread has waited for, writes without a fence; and
    one of warpgroups all that is not theirs."""
    kept = frozenset(p for p in state if barrier == "group_barrier" and not p.grouped)
    return kept | frozenset(p._replace(proxy=MET) if p.own_write else p
                            for p in state - kept
                            if p.flight or (p.own_write and FENCED not in p.proxy))


MEETS = ("barrier", "memory_barrier", "start_producer")  # where all threads meet
# Which operation closes a group of each kind of asynchronous access, and which waits for groups.
CLOSES = {"async_commit": "copy", "wgmma": "wgmma", "tma_store": "store"}
WAITS = {"async_wait": "copy", "wgmma_wait": "wgmma", "store_wait": "store"}
FLIES = {"async_copy": "copy", "wgmma": "wgmma", "tma_store": "store"}
DEFERRED = {"late", "piecewise"}  # attributes of loads
ALONE = ("tma_load", "tma_store")  # what the first thread does
OLDEST = 9  # groups older than this are not told apart


def _progress(op: Op, state: State) -> State:
    """Asynchronous accesses grow older as groups close, and end at waits."""
    closes, waits = CLOSES.get(op.name), WAITS.get(op.name)
    if closes is not None:
        return frozenset(p._replace(age=min(p.age + 1, OLDEST)) if p.flight == closes else p
                         for p in state)
    if waits is not None:
        pending = op.attributes["pending"]
        return frozenset(p._replace(flight="", age=0) if p.flight == waits and p.age > pending
                         else p for p in state)
    if op.name == "proxy_fence":
        return frozenset(p._replace(proxy=p.proxy + FENCED)
                         if p.own_write and FENCED not in p.proxy else p for p in state)
    if op.name in HANDS_OVER:
        for buffer in op.operands[HANDS_OVER[op.name]:]:
            state = _hand_over(op.name, buffer, state)
    return state


def _hand_over(name: str, buffer: Value, state: State) -> State:
    """What full and empty barriers say of the accesses of one stage of a buffer."""
    root, ahead = allocation(buffer)
    start = root.attributes["offset"]
    end = start + buffer_bytes(root)
    found = []
    for p in state:
        same = not p.is_global and p.ahead is not None and ahead is not None and (
            (p.start, p.end) == (start, end) and (p.ahead - ahead) % p.stages == 0)
        if same and name == "arrive_empty" and not p.write and not p.flight:
            p = p._replace(handed=max(p.handed, RELEASED))
        if same and name == "wait_empty" and p.handed:
            p = p._replace(handed=ACQUIRED)
        found.append(p)
    return frozenset(found)


def _next_iteration(state: State, loop: Loop) -> State:
    """The state that the next iteration of `loop` sees."""
    found = []
    instances = counts_programs(loop)
    for p in state:
        if p.is_global and instances:
            continue  # programs have no order
        if p.is_global:  # the addresses may be others by then
            moves = p.moves if p.stage_loop is loop else None
            found.append(p._replace(pointer=None, moves=moves, before=moves is not None))
        elif p.stage_loop is loop and p.ahead is not None:
            found.append(p._replace(ahead=(p.ahead - 1) % p.stages))
        elif p.stage_loop is not None and p.stage_loop.header in loop and not p.continues:
            found.append(p._replace(ahead=None))  # an outer loop: the stages start again
        else:
            found.append(p)
    return frozenset(found)


class _Uses:
    """The accesses that each operation makes, with loops and roots resolved."""

    def __init__(self, kernel: Kernel, cfg: Cfg) -> None:
        self.kernel, self.cfg = kernel, cfg
        self.moving: dict[Op, bool] = {}
        self.modulo: dict[Op, tuple[int, int]] = {}
        self._known: dict[Op, list[Pending]] = {}
        self.roots = pointer_roots(kernel)
        self.written = {self.roots.get(op.operands[0]) for op in kernel.ops()
                        if op.name == "store"} - {None}
        used = Counter(op.operands[0] for op in kernel.ops()
                       if op.effects & {READ, WRITE} and op.operands)
        self.repeated = {pointer for pointer, count in used.items() if count > 1}
        self.readers = uses(kernel)
        self.stage_loops: dict[Op, Loop] = {}  # of a buffer: the innermost that uses its stages
        for block in cfg.order:
            inside = [loop for loop in cfg.loops if block in loop]
            if not inside:
                continue
            innermost = max(inside, key=lambda loop: loop.depth)
            for op in block.ops:
                for access in accesses(op):
                    old = self.stage_loops.get(access.allocation)
                    if access.ahead is not None and (old is None or old.depth < innermost.depth):
                        self.stage_loops[access.allocation] = innermost

    @cached_property
    def infos(self) -> axis_info.Infos:
        """Axis information, for the few kernels that ask."""
        return axis_info.analyze(self.kernel)

    @cached_property
    def deferred(self) -> dict[Op, list[Pending]]:
        """The reads before an operation that are made, or end, when it needs them."""
        found: dict[Op, list[Pending]] = {}
        for load in self.kernel.ops():
            if load.name not in ("load", "shared_load") or not load.attributes.keys() & DEFERRED:
                continue
            stack = [load]
            while stack:
                for reader in self.readers.get(stack.pop().result, ()):
                    if "piecewise" in reader.attributes:
                        stack.append(reader)
                    else:
                        found.setdefault(reader, []).extend(self.of(load))
        return found

    def together(self, op: Op) -> list[Pending]:
        """The accesses of an operation; those of a delayed load's store come with the load."""
        if op.name == "shared_store" and _late(op.operands[1].op):
            return []
        if not _late(op):
            return self.of(op)
        return [*self.of(op), *(access for store in self.readers[op.result]
                                for access in self.of(store))]

    def of(self, op: Op) -> list[Pending]:
        if op not in self._known:
            self._known[op] = self._find(op)
        return self._known[op]

    def _find(self, op: Op) -> list[Pending]:
        found, flight = [], FLIES.get(op.name, "")
        for access in accesses(op):
            home, buffer = access.allocation, access.allocation.result.type
            assert isinstance(buffer, Buffer)
            start, more = home.attributes["offset"], home.attributes
            stage_loop = self.stage_loops.get(home)
            found.append(Pending(
                access.write, start, start + buffer_bytes(home), access.ahead if stage_loop else
                None, buffer.stages, stage_loop, bool(more.get("continues")), flight, age=1 if
                CLOSES.get(op.name) == flight else 0, alone=op.name in ALONE, copies=op.name ==
                "tma_load", private=home if more.get("private") else None, grouped="groups" in more,
                piece=_piece(op), atomic=op.name if op.name == "shared_atomic" else None))
        effects = op.effects
        pointers = [v for v in op.operands if is_pointer(v.type)]
        if op.name == "atomic_rmw" and op.attributes["kind"] == "load" and isinstance(
                pointers[0].type, Tile):
            effects = frozenset({READ})
        if SYNC not in effects and pointers and effects & {READ, WRITE}:
            pointer = pointers[0]
            stage_loop = self.moves(op)
            own = pointer if self.one_thread_each(pointer, stage_loop is not None) else None
            root = self.roots.get(pointer)
            if effects >= {READ, WRITE} and not isinstance(pointer.type, Tile):
                root = None  # a lock guards memory that its address does not tell
            scalar = WRITE in effects and not isinstance(pointer.type, Tile)
            change = (op.attributes["kind"], element(pointer.type)) if (
                op.name == "atomic_rmw" and isinstance(pointer.type, Tile) and not self.readers.get(
                    op.result) and op.attributes["kind"] not in ("xchg", "store")) else None
            found += [Pending(effect is WRITE, is_global=True, root=root, pointer=own,
                              release="release" in op.attributes, stage_loop=stage_loop,
                              moves=pointer if stage_loop else None, every=self.every(op, root),
                              scalar=scalar, atomic=change)
                      for effect in (READ, WRITE) if effect in effects]
        return found

    def moves(self, op: Op) -> Loop | None:
        """The loop of which each iteration has addresses of its own, if that is the innermost."""
        loop = self.cfg.innermost.get(self.cfg.block_of[op])
        if loop is None or op.name not in ("load", "store"):
            return None
        if op not in self.moving:
            self.moving[op] = bool(op.attributes.get("moves")) or not meets_itself(
                self.kernel, self.cfg, loop, op)
        return loop if self.moving[op] else None

    def every(self, op: Op, root: Value | None) -> tuple[int, int]:
        """What the addresses of an access are modulo a number, where it matters."""
        if root not in self.written or not isinstance(op.operands[0].type, Tile):
            return 0, 1
        if op not in self.modulo:
            self.modulo[op] = addresses_modulo(op, self.cfg.innermost.get(self.cfg.block_of[op]))
        return self.modulo[op]

    def one_thread_each(self, pointer: Value, distinct: bool = False) -> bool:
        """Whether each address of the tile is known to be used by one thread only.

        Each element must be in one thread, and no two elements may have one address (`distinct`:
        that is known).  Only asked for tiles that several operations use."""
        t = pointer.type
        if pointer not in self.repeated or not isinstance(t, Tile) or t.layout is None \
                or not all(t.layout.thread):
            return False
        return distinct or axis_info.distinct(self.infos, pointer)
