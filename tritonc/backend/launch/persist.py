"""persist: as many blocks as run at once compute all programs of a product, one after another.

Before:  entry: ...             After:  launch: cond_br %own < blocks, begin, over
         ...                            begin:  br head
         ret                            head:   %i = phi [%own, begin], [%i + blocks, next]
                                                cond_br %i < programs, entry, done
                                        entry:  ... program %i
                                                br next
                                        next:   br head
                                        done:   ret
                                        over:   ret

Making tensor maps, barriers and the first copies takes a block some microseconds, a tenth of the
time of a middling tile.  The launch still has a block for each program: those beyond what the
multiprocessors hold end before they make anything.  Programs keep their numbers, so that one
that asks for its number gets it; a kernel with atomics, whose programs may wait for each other, is
left alone.

Where the kernel begins with a choice of a body that does not depend on the program (`specialize`),
only the body that is taken first gets the loop: what is made once per block is made once there.

Also gives the programs the order of `rasterize`.  Done where a dot runs on wgmma and is so
large that TMA brings its operands: then there are tensor maps to make, and a block
fills a multiprocessor; and where one map serves all programs.  Where one dot feeds another one of
its iteration, as in attention, only if a producer warp can be ahead of both, into the next program
too (`_ahead`).
Meta-parameter `persistent`: 0 leaves one block for each program."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.linear import Linear
from tritonc.analysis.values import computed_from, defined_by, slice_of
from tritonc.analysis.windows import takes_apart
from tritonc.backend.dots.raw_operands import added_loads, is_plain
from tritonc.backend.dots.together import back_to_back, large, products
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.shared.shared_memory import LEFT
from tritonc.backend.target.matrix import BY_NAME, WGMMA
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi, reached, redirect, split_returns
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import I32, Tile, Type, bytes_of, shape
from tritonc.later import Later

split_start = Later("tritonc.backend.pipeline.tma.tma_access", "split_start")

ROWS = 128  # of a product on two warpgroups, which a producer warp feeds
_NUMBERS = ("get_program_id", "get_num_programs")


def shares_loops(context: Context) -> bool:
    """Whether several blocks compute a program (`split_loops`)."""
    return max(context.meta.get("cluster_k", 1), context.meta.get("memory_k", 1)) > 1


def should_persist(kernel: Kernel, context: Context) -> bool:
    """Whether the kernel gains from it and allows it."""
    brought = context.meta.get(
        "tma_load", any(map(large, kernel.blocks)) and not by_elements(kernel))
    if not context.meta.get("persistent", brought and not uneven(kernel)
                            and _ahead(kernel, context)):
        return False
    if shares_loops(context) or _alternatives(kernel) or _maps_differ(kernel):
        return False
    found = False
    for op in kernel.ops():
        if op.effects >= {READ, WRITE}:
            return False
        name = op.attributes.get("instruction") if op.name == "dot" else None
        found |= name is not None and BY_NAME[name].kind == WGMMA
    return found


def by_elements(kernel: Kernel) -> bool:
    """Whether half of what products multiply, or more, are every n-th elements of memory."""
    operands = (v for op in kernel.ops() if op.name == "dot" for v in op.operands[:2])
    return takes_apart(op for op in slice_of(operands, ends=("dot", "phi", "load"), masks=False)
                       if op.name == "load" and shape(op.result.type))


def uneven(kernel: Kernel) -> bool:
    """Whether programs return before any work by what both their numbers say, as those above the
    diagonal of a symmetric result, or by a number and what is loaded, as those behind the rows that
    an expert has.  Blocks that take programs in turn have more or less of the others; the hardware
    gives each multiprocessor the next one (A A^T of bf16, us: 3000 x 1000 42.6 and 38.6, 4096 x
    2048 86.4 and 74.1, 2000 x 3000 51.5 and 49.3)."""
    ends = [block for block in kernel.blocks if all(len(b.ops) == 1 for b in reached([block]))]
    tests = [block.terminator.operands[0] for block in kernel.blocks
             if block.terminator.name == "cond_br" and any(to in ends for to in block.successors)]
    for test in tests:
        made = slice_of([test], ends=("load", "phi"), masks=False)
        axes = {op.attributes["axis"] for op in made if op.name == "get_program_id"}
        if {0, 1} <= axes or (axes and any(op.name == "load" for op in made)):
            return True
    return False


def _ahead(kernel: Kernel, context: Context) -> bool:
    """Whether shared memory holds what a producer warp brings for chained products: two stages of
    an iteration's tiles, what all iterations read, and half of a result that leaves meanwhile; if
    not all of it, `plain_stores` are kept from being TMA's.  What is added to scores can do with
    `one_stage`: threads have read it long before the next iteration does."""
    part = body(kernel)
    general = rare(Cfg(kernel), part)
    blocks = [block for block in part if block not in general and products(block.ops)]
    if not any(map(back_to_back, blocks)):
        return True
    if None in map(Cfg(kernel).innermost.get, blocks) or not all(
            back_to_back(block) or large(block) for block in blocks):
        return False  # products that no pipeline feeds
    most = max(blocks, key=lambda block: _types(block).total())
    dots, loads = products(most.ops), [op for op in most.ops if op.name == "load"]
    sums = [dot for dot in dots if dot.operands[2].op not in dots]
    operands = [v for dot in dots for v in dot.operands[:2]]
    fixed = [v for v in operands if v.op not in most.ops]
    computed = [v for v in operands if v not in fixed and not is_plain(v, masked=True)]
    if any(not _types(block) <= _types(most) for block in blocks) or len(sums) != 2 \
            or len(computed) > 1 or shape(dots[0].result.type)[0] < ROWS \
            or not all(isinstance(op.result.type, Tile) or op.guard is None for op in loads):
        return False
    stored = [op.operands[1] for block in part if block not in general for op in block.ops
              if op.name == "store"]
    read, stores = (sum(times * bytes_of(v.type) for times, values in found
                        for v in values if isinstance(v.type, Tile) and len(v.type.shape) > 1)
                    for found in (((2, [op.result for op in loads]), (1, fixed)), ((1, stored),)))
    room = context.target.shared_per_block - LEFT - read
    added = sum(bytes_of(op.result.type) for op in added_loads(most))
    if 2 * room < stores <= 2 * (room + added):
        kernel.attributes["one_stage"] = True
        room += added
    if room < stores:
        kernel.attributes["plain_stores"] = True
    return bool(2 * room >= stores)


def _types(block: Block) -> Counter[Type]:
    """Of what a block loads and multiplies: loops behind each other share buffers of these."""
    return Counter(op.result.type for op in block.ops if op.name in ("load", "dot"))


def _alternatives(kernel: Kernel) -> bool:
    """Whether a program chooses between products: their loops take up no copies of each other."""
    part = body(kernel)
    general = rare(Cfg(kernel), part) if maps_last(part) else []
    found = [block for block in part if block not in general
             and any(op.name == "dot" for op in block.ops)]
    after = {block: reached([block]) for block in found}
    return any(a not in after[b] and b not in after[a] for a in found for b in found)


def _maps_differ(kernel: Kernel) -> bool:
    """Whether programs have rows of other lengths, where masks of a product's operands end at
    what a program's number says, as at the end of its part of K: each would make maps."""
    for loop in Cfg(kernel).loops:
        iteration = Iteration(loop)
        affinity = Affinity(iteration)
        ops = list(loop.ops()) if any(op.name == "dot" for op in loop.ops()) else []
        if any(op.name == "load" and len(shape(op.result.type)) == 2 and any(
                computed_from(v, "get_program_id") for extent in _extents(
                    op, affinity, iteration.counter) for v in extent.values()) for op in ops):
            return True
    return False


def _extents(op: Op, affinity: Affinity, counter: Value) -> list[Linear]:
    """Those of the tensor that a loop's load reads, as far as masks say them, less what its tiles
    begin with: a number times a stride counts along an axis of its own (`tma_access`).  Rows are
    counted."""
    form, mask = affinity.of(op.operands[0]), affinity.mask(op.guard, 2)
    parts = form.offset.split(counter) if form is not None else None
    if form is None or mask is None or parts is None:
        return []
    found = []
    for inner in (axis for axis in (0, 1) if form.strides[axis].constant == 1):
        start = split_start(parts[0], form.strides[1 - inner])[0]
        for bound in (bound for bound in mask.bounds if bound.axis == inner):
            inside = (bound.limit - bound.start).split(counter)
            begins = {values for values, _ in start.terms}
            found += [Linear(tuple(term for term in (inside[0] + start).terms
                                   if term[0] not in begins))] if inside is not None else []
    return found


def maps_last(part: list[Block]) -> bool:
    """Whether the extents of tensors are the same for all programs: no mask reads what a
    program loads."""
    ops = [op for block in part for op in block.ops]
    loaded = computed_of(ops, {op.result for op in ops if op.name == "load" and not isinstance(
        op.result.type, Tile)}, ("load",))
    return not any(op.name == "icmp" and isinstance(op.result.type, Tile)
                   and not loaded.isdisjoint(op.operands) for op in ops)


def computed_of(ops: Iterable[Op], values: set[Value], ends: Container[str] = ()) -> set[Value]:
    """The values and what operations make of them, around loops too, but for those named `ends`."""
    found, before = set(values), -1
    while len(found) > before:
        before = len(found)
        for op in ops:
            if op.name not in ends and not found.isdisjoint(op.inputs()):
                found.update(op.results)
    return found


def body(kernel: Kernel) -> list[Block]:
    """The blocks that compute a program: those behind the first choice of the kernel's entry, if
    that is the same for all programs and the bodies stay apart, and behind returns that all
    programs take or none; otherwise all."""
    found, start = kernel.blocks, kernel.entry
    while True:
        end = start.terminator
        if end.name != "cond_br" or end.blocks[0] is end.blocks[1] \
                or any(not op.pure or op.name in (*_NUMBERS, "phi")
                       for op in start.ops[:-1]):
            return found
        going = [block for block in end.blocks if [op.name for op in block.ops] != ["ret"]]
        if len(going) == 1:
            split_returns(kernel)
        elif start is not kernel.entry:
            return found
        first, second = (going[0], next(to for to in end.blocks if to is not going[0]))
        cfg = Cfg(kernel)
        inside = [block for block in found if cfg.dominates(first, block)]
        others = [block for block in found if cfg.dominates(second, block)]
        if len(inside) + len(others) + 1 != len(found):
            return found
        found, start = inside, first


def add_loop(kernel: Kernel, part: list[Block], each: int = 1, back: bool = False
             ) -> tuple[Block, Value]:
    """Put blocks of the kernel into a loop over programs.  The first of them begins a program.
    `each`: blocks that go through it on each multiprocessor; `back`: in every other iteration the
    last block takes the first program, so that all get as much work where that falls or grows.

    Returns the block that begins one now, and the program's number."""
    launch, begin, head = Block("launch"), Block("begin"), Block("head")
    start, following, done, over = (Block(name) for name in ("instance", "next", "done", "over"))
    b = Builder(launch)
    for op in [op for op in part[0].ops if op.name in ("assume_multiple", "assume_positive")
               and not op.operands[0].op]:
        part[0].ops.remove(op)
        b.insert(op)
    own, total = own_number(b, axes(part))
    blocks = b.emit("get_num_multiprocessors", type=I32).result
    if each > 1:
        blocks = b.value("mul", blocks, b.constant(each, I32))
    b.emit("cond_br", b.value("icmp", own, blocks, predicate="slt"), blocks=[begin, over])
    b = Builder(begin)
    starts = [own]
    if back:
        last = b.value("sub", blocks, b.constant(1, I32))
        # The minimum changes nothing, but says that the number is not negative.
        starts.append(b.value("umin", b.value("sub", last, own), blocks))
    b.emit("br", blocks=[head])
    numbers = [make_phi([value], [begin]) for value in starts]
    number = numbers[0]
    number.result.name = "instance"
    head.ops += numbers
    b = Builder(head)
    b.emit("cond_br", b.value("icmp", number.result, total, predicate="slt"), blocks=[start, done])
    b = Builder(following)
    for phi, before in zip(numbers, reversed(numbers), strict=True):
        add_incoming(phi, b.value("add", before.result, blocks), following)
    b.emit("br", blocks=[head])
    for block in part:
        if block.terminator.name == "ret":
            block.ops[-1] = Op("br", [], blocks=[following], span=block.terminator.span)
    for block in (done, over):
        Builder(block).emit("ret")
    Builder(start).emit("br", blocks=[part[0]])
    if part[0] is not kernel.entry:
        for block in kernel.blocks:
            if block not in part:
                redirect(block, part[0], launch)
    at = kernel.blocks.index(part[0])
    rest = [block for block in kernel.blocks if block not in part]
    kernel.blocks = [*rest[:at], launch, begin, head, start, *part, following, done, over,
                     *rest[at:]]
    return start, number.result


def axes(blocks: list[Block]) -> int:
    """How many axes of the launch the programs are numbered along, at least two."""
    used = {int(op.attributes["axis"]) for block in blocks for op in block.ops
            if op.name in _NUMBERS}
    return max({1, *used}) + 1


def renumber(kernel: Kernel, blocks: list[Block], home: Block,
             order: Callable[[Builder], tuple[Value, ...]]) -> None:
    """Other program ids, along the axes that `order` makes, for `blocks`, which come after `home`.
    """
    before = Block("")
    numbers = order(Builder(before))
    supersede(kernel, blocks, {
        op.result: numbers[op.attributes["axis"]] for block in blocks for op in block.ops
        if op.name == "get_program_id" and op.attributes["axis"] < len(numbers)})
    home.ops[:0] = before.ops


def supersede(kernel: Kernel, blocks: list[Block], found: Mapping[Value, Value]) -> None:
    """Take operations of `blocks` away for which another value is `found`."""
    for block in blocks:
        block.ops = [op for op in block.ops if not op.results or op.results[0] not in found]
    kernel.replace(found)


def own_number(b: Builder, count: int) -> tuple[Value, Value]:
    """This block's number in the order in which blocks start, and how many there are."""
    number, total = (b.value(name, axis=count - 1) for name in _NUMBERS)
    for axis in reversed(range(count - 1)):
        extent = b.value("get_num_programs", axis=axis)
        number = b.value("add", b.value("mul", number, extent),
                         b.value("get_program_id", axis=axis))
        total = b.value("mul", total, extent)
    return number, total


def counts_programs(loop: Loop) -> bool:
    """Whether the loop is the one that `add_loop` makes: its iterations have no order."""
    def blocks(value: Value) -> bool:
        made = defined_by(value, "mul")
        count = made.operands[0] if made is not None else value
        return defined_by(count, "get_num_multiprocessors") is not None

    def steps(value: Value) -> bool:
        made = defined_by(value, "add")
        return made is not None and any(map(blocks, made.operands))

    return loop.latch is not None and any(steps(loop.next(phi)) for phi in loop.header.phis())


def rare_programs(kernel: Kernel) -> list[Block]:
    """The blocks of bodies that persistent blocks take for few programs, if for any."""
    return [block for loop in Cfg(kernel).loops if counts_programs(loop)
            for block in rare(Cfg(kernel), loop.blocks)]
