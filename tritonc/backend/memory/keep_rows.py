"""keep_rows: what a loop computes of a row, and one behind it computes again, stays in shared
memory.

Before:  loop: %v = load %p                  After:  loop: %v = load %p
               %e = exp %v                                 %e = exp %v
               ... %e                                      shared_store (stage %i of %kept), %e,
                                                               if %i < stages
         loop.1: %w = load %q                        near: if another one, and %j < stages:
                 %f = exp %w                               %f = shared_load (stage %j of %kept)
                 ... %f                                    ... %f
                                                     loop.1: as before, for the other iterations

A program that makes several passes over a row loads it in each from a cache, and computes in each
what it needs, such as exponentials.  Each thread finds what it had itself, so nothing needs a
barrier.  The first iterations are kept, as many as the shared memory has room for that the resident
blocks leave.

Legal where both loops have as many iterations, and in each of them the second one loads what the
first one did (the same affine addresses and bounds, in terms of iterations, in the same layout), no
operation between both loads, nor in the loops, may write there, and all else is the same operation
on the same values.  Worth it where that saves functions or quotients.  What is only loaded is kept
where few blocks are resident, as of rows too long for the cache: elsewhere that holds it, too, and
kernels were 0.91 to 1.19 times as fast (H200).  Kernels with products have no shared memory left.

Needs layouts; before load_ahead, which may move the first loop's load and leave its store."""

from collections.abc import Hashable
from functools import cached_property

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.affine import Counter as Symbol
from tritonc.analysis.aliases import Roots, pointer_roots, stores_may_reach
from tritonc.analysis.counters import add_counter, counter_of
from tritonc.analysis.linear import Linear
from tritonc.analysis.registers.pressure import estimated
from tritonc.analysis.values import attributes_key, closure, removable, slice_of
from tritonc.backend.launch.register_budget import of_fast_body, registers_of, resident_blocks
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.shared.shared_memory import LEFT, own_buffer
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, reached, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.types import I1, I32, Tile, element, is_pointer, scalar
from tritonc.records import NamedTuple

FEWEST = 2  # iterations that are worth it
FAR = 2  # times as much memory as needs no permission from the host is worth asking for it
THREADS = 1024  # that shall be resident, at least, if they have registers,
SAVED = 1.2  # of which later passes may save some
FEW = 1  # block of rows that are too long for the cache
SAVING = 8  # operations of an element that are worth keeping what they make
WEIGHTS = {**dict.fromkeys("exp exp2 log log2 tanh erf sin cos fdiv sqrt rsqrt".split(), 8)}
CASTS = ("fpcast", "sitofp", "uitofp", "sext", "zext", "fpext")


class _Pair(NamedTuple):
    """A loop, one before it, and of values of the first one those that the other one has, too."""

    loop: Loop
    before: Loop
    kept: dict[Value, Value]
    saving: int


def keep_rows(kernel: Kernel, context: Context) -> bool:
    """Keep what loops compute again in shared memory, as far as there is room."""
    target: Target = context.target
    cfg = Cfg(kernel)
    if len(cfg.loops) < 2 or any(op.name in (*DOTS, "dot") for op in kernel.ops()):
        return False
    few = context.meta.get("min_blocks", FEW + 1) <= FEW
    pairs = [pair for pair in _pairs(kernel, cfg) if few or pair.saving >= SAVING]
    if not pairs:
        return False
    wanted = dict.fromkeys(value for pair in pairs for value in pair.kept.values())
    each = sum(_tile(value).size * scalar(value.type).bytes for value in wanted)
    room = min(target.shared_per_multiprocessor // _blocks(kernel, context)
               - target.shared_reserved, target.shared_per_block)
    if room < FAR * target.static_shared and FEWEST * each <= target.static_shared - LEFT:
        room = min(room, target.static_shared)
    stages = (room - LEFT) // each
    if stages < FEWEST:
        return False
    buffers: dict[Value, Value] = {}
    for loop in {pair.before: None for pair in pairs}:
        results = {value for op in loop.ops() for value in op.results}
        buffers |= _store(cfg, loop, [value for value in wanted if value in results], stages)
    for pair in pairs:
        _load(kernel, pair, buffers, stages)
        context.remark("keep_rows", f"a later loop uses this again: {stages} iterations stay in "
                       "shared memory", next(op.span for v in pair.kept.values() if (op := v.op)))
    return True


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type


def _blocks(kernel: Kernel, context: Context) -> int:
    """How many blocks shall be resident, by what registers later passes may leave."""
    if context.meta.get("min_blocks"):
        return int(context.meta["min_blocks"])
    threads, estimate = kernel.attributes["num_warps"] << LANE_BITS, estimated(kernel)
    needed = of_fast_body(estimate).registers
    fitting = [blocks for blocks in range(1, THREADS // threads + 1)
               if needed <= SAVED * registers_of(blocks * threads, context.target)]
    return max(resident_blocks(kernel, context.target, estimate), *fitting, 1)


def _pairs(kernel: Kernel, cfg: Cfg) -> list[_Pair]:
    """For each loop of a fast body the one before it that saves the most."""
    general, roots, symbol = set(rare(cfg, cfg.order)), pointer_roots(kernel), Symbol(I32, "i")
    readers = uses(kernel)
    ordered = sorted(cfg.loops, key=lambda loop: cfg.index[loop.header])
    loops = [_Forms(loop, symbol) for loop in ordered
             if loop.header not in general and len(loop.blocks) == 2 and loop.one_exit
             and loop.latch is not None and loop.preheader is not None
             and any(op.name == "load" for op in loop.latch.ops)
             and loop.header.terminator.blocks[0] is loop.latch]
    found = []
    for i, loop in enumerate(loops):
        each = [_again(kernel, cfg, loop, before, roots, readers) for before in loops[:i]]
        best = max((pair for pair in each if pair.kept), key=lambda pair: pair.saving, default=None)
        if best is not None:
            found.append(best)
    return found


class _Forms:
    """Accesses and masks of a loop, in terms of its iterations."""

    def __init__(self, loop: Loop, symbol: Value) -> None:
        self.loop, self.affinity = loop, Affinity(Iteration(loop, symbol))

    @cached_property
    def trips(self) -> Hashable:
        counter = counter_of(self.loop)
        if counter is None:
            return None
        first, limit = map(self.affinity.of, (self.loop.first(counter.phi), counter.limit))
        return None if first is None or limit is None else (
            _key(first.offset), counter.step, counter.predicate, _key(limit.offset))

    @cached_property
    def there(self) -> dict[Hashable, Op]:
        """What the loop computes, by its names."""
        assert self.loop.latch is not None
        return {key: op for op in reversed(self.loop.latch.ops)
                if (key := _name(op, self, {})) is not None}

    def mask(self, guard: Value | None, rank: int) -> Hashable:
        """Which elements take part; None if that is not known."""
        bounds, conditions, others = self.affinity.parts(guard, rank)
        return None if others else (frozenset(
            (b.axis, _key(b.limit - b.start)) for b in bounds), frozenset(conditions))

    def load(self, op: Op) -> Hashable:
        """What is loaded where the mask holds; None if that is not known."""
        t = op.result.type
        where = self.affinity.of(op.operands[0])
        mask = self.mask(op.guard, len(t.shape)) if isinstance(t, Tile) else None
        if where is None or mask is None or op.attributes.get("volatile"):
            return None
        return t, where.base, _key(where.offset), tuple(map(_key, where.strides)), mask


def _key(form: Linear) -> Hashable:
    return frozenset((frozenset((v, values.count(v)) for v in values), n)
                     for values, n in form.terms)


def _again(kernel: Kernel, cfg: Cfg, forms: _Forms, others: _Forms, roots: Roots,
           readers: dict[Value, list[Op]]) -> _Pair:
    """What the loop computes that the other one has computed before."""
    loop, before = forms.loop, others.loop
    none = _Pair(loop, before, {}, 0)
    if forms.trips is None or forms.trips != others.trips \
            or not cfg.dominates(before.header, loop.header):
        return none
    assert loop.latch is not None
    same: dict[Value, Value] = {}  # of this loop's values those of the other one
    rows: set[Value] = set()  # those that follow from rows that are not each program's
    weight: dict[Op, int] = {}
    for op in loop.latch.ops:
        key = _name(op, forms, same)
        twin = others.there.get(key) if key is not None else None
        if twin is None or (op.name == "load" and (
                stores_may_reach(kernel, _between(cfg, before, loop), [op], roots)
                or (op.attributes.get("other") != twin.attributes.get("other")
                    and not _only_stored(op, readers)))):
            continue
        same.update(zip(op.results, twin.results, strict=True))
        own = op.name == "load" and any(
            each.name == "get_program_id" for each in slice_of(op.operands[:1]))
        if own or not rows.isdisjoint(op.operands):
            rows.update(op.results)
            if op.info.elementwise and op.name not in CASTS:
                weight[op] = WEIGHTS.get(op.name, 1)
    kept: dict[Value, Value] = {}
    for value in rows:
        reading = readers.get(value, ())
        if not all(reader.results and reader.results[0] in same for reader in reading):
            while value.op is not None and value.op.name in CASTS \
                    and value.op.operands[0] in rows and scalar(
                        value.op.operands[0].type).bytes < scalar(value.type).bytes:
                value = value.op.operands[0]
            kept[value] = same[value]
    if not all(_fits(value) for value in kept):
        return none
    return _Pair(loop, before, kept, sum(weight.values()))


def _name(op: Op, forms: _Forms, same: dict[Value, Value]) -> Hashable:
    """What the operation computes, by names that another loop has for the same; None if it has no
    other effect than that."""
    t = op.results[0].type if op.results else None
    if op.name == "load":
        form = forms.load(op)
        return None if form is None else ("load", form)
    if not op.pure or op.name == "phi" or t is None:
        return None
    if isinstance(t, Tile) and element(t) == I1 and len(op.results) == 1:
        mask = forms.mask(op.result, len(t.shape))
        if mask is not None:
            return "mask", t, mask
    return (op.name, attributes_key(op.attributes), tuple(r.type for r in op.results),
            tuple(same.get(v, v) for v in op.operands))


def _only_stored(load: Op, readers: dict[Value, list[Op]]) -> bool:
    """Whether what is computed of a load is only stored, under its mask: elements beyond it do not
    count."""
    made = closure([load], lambda op: [
        reader for reader in readers.get(op.result, [])
        if reader.info.elementwise and len(reader.results) == 1 and reader.name != "phi"])
    return all(reader in made or (reader.name == "store" and reader.guard is load.guard)
               for op in made for reader in readers.get(op.result, []))


def _between(cfg: Cfg, one: Loop, two: Loop) -> list[Block]:
    """The blocks of both loops, and on all ways from one to the other."""
    stop = {one.header}
    behind = reached(one.header.successors, stop=stop)
    between = reached([two.header], lambda block: [
        each for each in cfg.predecessors[block] if each in behind], stop)
    return [*dict.fromkeys([*between, *one.blocks])]


def _fits(value: Value) -> bool:
    """Whether each element has one thread, which finds it again."""
    t = value.type
    return isinstance(t, Tile) and t.layout is not None and not is_pointer(t) \
        and element(t) != I1 and all((*t.layout.thread, *t.layout.register))


def _store(cfg: Cfg, loop: Loop, values: list[Value], stages: int) -> dict[Value, Value]:
    """Store what is computed in the first iterations; where that is."""
    body, before = loop.latch, loop.preheader
    assert body is not None and before is not None
    zero = make_op("constant", [], I32, value=0)
    before.ops.insert(-1, zero)
    count = add_counter(cfg, loop, zero.result, 1, "kept")
    found: dict[Value, Value] = {}
    for value in values:
        assert value.op is not None
        buffer = own_buffer(_tile(value), stages, span=value.op.span)
        before.ops.insert(-1, buffer)
        found[value] = buffer.result
        b = Builder(body, body.ops.index(value.op) + 1, value.op.span)
        near = b.value("icmp", count, b.constant(stages, I32), predicate="ult")
        stage = b.value("select", near, count, b.constant(0, I32))
        b.emit("shared_store", b.value("buffer_stage", buffer.result, stage), value, near)
    return found


def _load(kernel: Kernel, pair: _Pair, buffers: dict[Value, Value], stages: int) -> None:
    """A loop of the first iterations before all others."""
    loop = pair.loop
    header, body, before = loop.header, loop.latch, loop.preheader
    assert body is not None and before is not None
    (first, latch), mapping = copy_blocks([header, body], ".near")
    after = Block(header.name + ".rest")
    after.ops = [make_op("br", [], blocks=[header])]
    for phi in header.phis():
        place = phi.blocks.index(before)
        phi.blocks[place], phi.operands[place] = after, mapping[phi.result]
    redirect(before, header, first)
    first.terminator.blocks[1] = after
    kernel.blocks[kernel.blocks.index(header):kernel.blocks.index(header)] = [first, latch, after]
    now = Cfg(kernel)
    near = next(each for each in now.loops if each.header is first)
    zero = make_op("constant", [], I32, value=0)
    before.ops.insert(-1, zero)
    count = add_counter(now, near, zero.result, 1, "kept")
    b = Builder(first, len(first.ops) - 1)
    more = b.value("icmp", count, b.constant(stages, I32), predicate="ult")
    first.terminator.operands[0] = b.value("and", first.terminator.operands[0], more)
    b = Builder(latch, 0)
    kernel.replace({mapping[value]: b.value("shared_load", b.value(
        "buffer_stage", buffers[other], count), type=value.type)
        for value, other in pair.kept.items()})
    _drop(kernel, latch)


def _drop(kernel: Kernel, block: Block) -> None:
    readers = uses(kernel)
    for op in reversed(list(block.ops)):
        if op.results and removable(op) and not any(readers.get(v) for v in op.results):
            block.ops.remove(op)
            for value in op.inputs():
                readers[value].remove(op)
