"""spread_tiles: the blocks of a cluster hold a part of a tile's axis each.

Before:  %r = range 0 ... 65536      After, in block k of 4:   %r = k * 16384 + (0 ... 16384)
         %v = load %x + %r                                     %v = load %x + %r
         %m = reduce %v                                        %n = reduce %v
         store %y + %r, %v / %m                                %m = cluster_reduce %n
                                                               store %y + %r, %v / %m

A row that one block cannot hold in its registers is loaded once so, and few rows keep the whole GPU
busy.  What does not have the axis, each block computes; the first one stores it.

Legal where the axis is that of ranges and goes through elementwise operations, changes of shape
that keep it, and, outside of loops, reductions that may be taken in parts.  Blocks do not see what
others store, so no load comes behind a store that may reach it: the first block computes such a
body alone.  Where another block may access memory before it is stored to, the blocks meet."""

from itertools import pairwise

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.backend.launch.sum_in_memory import go_on_alone
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ
from tritonc.ir.rules import REDUCTIONS
from tritonc.ir.types import I1, I32, Scalar, Tile, element, shape
from tritonc.source import Span

Axis = tuple[Value, int]
_LEAST = 256  # elements of a block's part


class _Classes:
    """Axes of tiles that are the same, as far as operations say."""

    def __init__(self) -> None:
        self.parents: dict[Axis, Axis] = {}
        self.odd: set[Axis] = set()  # which cannot be divided

    def of(self, axis: Axis) -> Axis:
        while (above := self.parents.get(axis, axis)) != axis:
            axis = above
        return axis

    def join(self, a: Axis, b: Axis) -> None:
        self.parents[self.of(a)] = self.of(b)


def spread_tiles(kernel: Kernel, blocks: int, context: Context) -> bool:
    """Divide the longest axes of ranges that may be divided among `blocks`."""
    classes = _Classes()
    for op in kernel.ops():
        if (op.name not in ("load", "store", "assume") and op.effects - {READ} and not \
                op.info.terminator) or op.attributes.get("volatile"):
            context.remark("spread_tiles", f"no tile is divided among the blocks of a cluster: a "
                           f"{op.name} is done once", op.span, missed=True)
            return False
        _relate(op, classes)
    cfg = Cfg(kernel)
    bodies = _bodies(cfg)
    for body in bodies:
        found = _meetings(kernel, cfg, body, None)
        if isinstance(found, set):
            continue
        context.remark("spread_tiles", f"one block of a cluster computes this alone: {found[0]}",
                       found[1], missed=True)
        classes.odd |= {(v, axis) for block in body for op in block.ops
                        for v in (*op.inputs(), *op.results)
                        for axis in range(len(shape(v.type)))}
    odd = {classes.of(axis) for axis in classes.odd}
    extents = {classes.of((op.result, 0)): shape(op.result.type)[0] for op in kernel.ops()
               if op.name == "range" and classes.of((op.result, 0)) not in odd}
    longest = max(extents.values(), default=0)
    if blocks & (blocks - 1):
        longest = 0  # extents are powers of two
    chosen = {axis for axis, extent in extents.items() if extent == longest}
    if longest < blocks * _LEAST:
        context.remark("spread_tiles", "no axis of a tile is divided among the blocks of a cluster",
                       kernel.span, missed=True)
        return False

    def divided(value: Value) -> list[int]:
        return [axis for axis in range(len(shape(value.type)))
                if classes.of((value, axis)) in chosen]

    shared = {op for op in kernel.ops() if any(map(divided, (*op.inputs(), *op.results)))}
    if any(len(divided(v)) > 1 for op in shared for v in op.results):
        return False
    whole = {op for op in shared if op.name == "reduce" and any(
        axis in divided(op.operands[0]) for axis in op.attributes["axes"])}
    meeting = set(whole)
    for body in bodies:
        if any(op in shared for block in body for op in block.ops):
            found = _meetings(kernel, cfg, body, whole)
            if not isinstance(found, set):
                return False
            meeting |= found
    for value in [v for op in kernel.ops() for v in op.results if divided(v)]:
        t, axes = value.type, divided(value)
        assert isinstance(t, Tile)
        value.type = Tile(t.element, tuple(
            n // blocks if axis in axes and n > 1 else n for axis, n in enumerate(t.shape)))
    first = Builder(kernel.entry, len(kernel.entry.phis()), kernel.span)
    rank = first.value("get_cluster_rank", type=I32)
    alone = first.value("icmp", rank, first.constant(0, I32), predicate="eq")
    for body in bodies:
        if any(op in shared for block in body for op in block.ops):
            continue
        for block in [one for one in kernel.blocks if one in body and (
                one is kernel.entry or not body.issuperset(cfg.predecessors[one]))]:
            go_on_alone(kernel, Builder(block, len(block.phis()) + 3 * (block is kernel.entry),
                                        kernel.span), alone, "first")
    for block in kernel.blocks:
        _divide(kernel, block, shared, meeting, rank, alone, blocks)
    kernel.attributes["cluster"] = blocks
    context.remark("spread_tiles", f"the {blocks} blocks of a cluster hold a part of each row",
                   kernel.span)
    return True


def _relate(op: Op, classes: _Classes) -> None:
    """Say which axes of the operation's tiles are the same, and which cannot be divided."""
    tiles = [v for v in (*op.inputs(), *op.results) if isinstance(v.type, Tile)]
    pairs: list[tuple[Axis, Axis]] = []
    if op.name in ("range", "constant", "splat"):
        return
    if op.name == "reshape":
        a, b = op.operands[0], op.result
        kept = [[axis for axis, n in enumerate(shape(v.type)) if n > 1] for v in (a, b)]
        if [shape(a.type)[i] for i in kept[0]] == [shape(b.type)[i] for i in kept[1]]:
            pairs = [((a, i), (b, j)) for i, j in zip(*kept, strict=True)]
            tiles = []
    elif op.name == "broadcast":
        a, b = op.operands[0], op.result
        pairs = [((a, i), (b, i)) for i, n in enumerate(shape(a.type)) if n == shape(b.type)[i]]
        tiles = []
    elif op.name == "trans":
        pairs = [((op.operands[0], axis), (op.result, i))
                 for i, axis in enumerate(op.attributes["permutation"])]
        tiles = []
    elif op.name == "reduce":
        a, axes = op.operands[0], op.attributes["axes"]
        left = [axis for axis in range(len(shape(a.type))) if axis not in axes]
        pairs = [((a, axis), (op.result, i)) for i, axis in enumerate(left)
                 if isinstance(op.result.type, Tile)]
        e, kind = element(a.type), op.attributes["kind"]
        if isinstance(e, Scalar) and e.bits in (32, 64) and kind in REDUCTIONS and kind != "fmul":
            tiles = []
        else:
            classes.odd |= {(a, axis) for axis in axes}
            tiles = []
    elif op.info.elementwise or op.name in ("load", "store", "phi"):
        pairs = [((one, axis), (other, axis)) for one, other in pairwise(tiles)
                 for axis in range(len(shape(one.type)))]
        tiles = []
    for pair in pairs:
        classes.join(*pair)
    classes.odd |= {(v, axis) for v in tiles for axis in range(len(shape(v.type)))}


def _bodies(cfg: Cfg) -> list[set[Block]]:
    """Blocks that access memory, those together of which one comes behind the other."""
    found: list[set[Block]] = []
    for block in cfg.order:
        if any(op.effects and op.name != "assume" and not op.info.terminator for op in block.ops):
            before = [body for body in found if any(block in _behind(one) for one in body)]
            found = [body for body in found if body not in before] + [{block}.union(*before)]
    return found


def _behind(block: Block) -> set[Block]:
    """The blocks that may run behind one, itself if that is in a loop."""
    seen, stack = set[Block](), list(block.terminator.blocks or ())
    while stack:
        other = stack.pop()
        if other not in seen:
            seen.add(other)
            stack += other.terminator.blocks or ()
    return seen


def _meetings(kernel: Kernel, cfg: Cfg, body: set[Block], whole: set[Op] | None
              ) -> set[Op] | tuple[str, Span | None]:
    """The stores before which the blocks have to meet, as others may access the same memory before;
    or why they cannot each do their part, and where.  They meet in the reductions of `whole`."""
    found, roots = set[Op](), pointer_roots(kernel)
    left: dict[Block, dict[Op, None]] = {block: {} for block in cfg.order}
    stores = [op for block in cfg.order if block in body for op in block.ops if op.name == "store"]

    def meet(a: Op, b: Op) -> bool:
        return may_alias(kernel, a.operands[0], b.operands[0], roots)

    known = -1
    while known < (known := len(found) + sum(map(len, left.values()))):  # around loops too
        for block in cfg.order:
            loop = cfg.innermost.get(block)
            pending = {op: None for before in cfg.predecessors[block]
                       for op in left.get(before, ())}
            for op in block.ops:
                if op.name == "reduce" and loop is None and (whole is None or op in whole):
                    pending = {}
                if op.name == "load" and any(meet(op, store) and (
                        block in _behind(cfg.block_of[store])
                        or store in block.ops[: block.ops.index(op)]) for store in stores):
                    return "a load may read what a block stored before", op.span
                if op.name == "store":
                    if op in found or any(
                            op is not other and meet(op, other)
                            and not (loop is cfg.innermost.get(cfg.block_of[other])
                                     and _apart(op, other, loop)) for other in pending):
                        if loop is not None:
                            return "a store in a loop may change what a block accessed before", \
                                op.span
                        found.add(op)
                        pending = {}
                    if loop is not None and not (loop.parent is None and _apart(op, op, loop)):
                        return "iterations may store to the same memory", op.span
                if op.name in ("load", "store") and block in body:
                    pending[op] = None
            left[block] |= pending
    return found


def _apart(a: Op, b: Op, loop: Loop | None) -> bool:
    """Whether two stores are known to have no address in common, in any iterations of the loop that
    they are in; of one store, in any two."""
    iteration = Iteration(loop) if loop is not None else None
    affinity = Affinity(iteration)
    one, other = (affinity.of(op.operands[0]) for op in (a, b))
    if one is None or other is None or one.base is not other.base or a.name != b.name:
        return False
    low, high = one.extremes(shape(a.operands[0].type)) or (None, None)
    least, most = other.extremes(shape(b.operands[0].type)) or (None, None)
    if low is None or high is None or least is None or most is None:
        return False
    after, before = (low - most).constant, (least - high).constant
    if a is not b and (after is None or before is None or max(after, before) <= 0):
        return False
    if iteration is None:
        return True
    parts = low.split(iteration.counter)
    step = parts[1].constant if parts is not None else None
    if parts is None or step is None or any(v in affinity.inside for v in parts[0].values()):
        return False
    spans = [n.constant for n in (high - low, most - least, high - least, most - low)]
    return all(n is not None and n < abs(step) for n in spans)


def _divide(kernel: Kernel, block: Block, shared: set[Op], meeting: set[Op], rank: Value,
            alone: Value, blocks: int) -> None:
    """Rewrite the operations of a block."""
    old, block.ops = block.ops, []
    b, replaced = Builder(block), dict[Value, Value]()
    phis = [op for op in old if op.name == "phi"]
    block.ops += phis
    if any(op in meeting for op in old):
        b.emit("cluster_arrive")
    for op in old[len(phis):]:
        b.span = op.span
        if op.name == "store":
            if op in meeting:
                b.emit("cluster_reduce", b.constant(0, I32), kind="add", size=blocks, owner=(),
                       all=True)
            if op not in shared:
                t = op.operands[0].type
                mask = alone
                if isinstance(t, Tile):
                    mask = b.value("splat", alone, type=Tile(I1, t.shape))
                mask = mask if op.guard is None else b.value("and", op.guard, mask)
                op.guard = b.emit("cmpp", mask).results[0]
        b.insert(op)
        if op.name == "range" and op in shared:
            extent = shape(op.result.type)[0]
            op.attributes["stop"] = op.attributes["start"] + extent
            begin = b.value("mul", rank, b.constant(extent, I32))
            replaced[op.result] = b.value("add", op.result, b.value(
                "splat", begin, type=op.result.type))
        elif op.name == "reduce" and op in meeting:
            replaced[op.result] = b.value("cluster_reduce", op.result, kind=op.attributes["kind"],
                                          size=blocks, owner=(), all=True)
    made = {value.op for value in replaced.values()}
    for after in kernel.ops():
        if after not in made:
            after.replace_inputs(replaced)
