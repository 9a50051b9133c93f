"""privatize_atomics: atomics on few addresses are accumulated in shared memory first.

Before:  %p = addptr %counts, %v            After:  a table of zeros; for all programs of the block:
         atomic_rmw %p, %one {kind = add}             %in = icmp %v < size
                                                      shared_atomic %table, %v, %one where %in
                                                      atomic_rmw %p, %one            elsewhere
                                                    then: atomic_rmw %counts + 0 ... size, table

Atomics of global memory that go to one address take turns in the L2 cache, some nanoseconds each: a
histogram of 2^26 numbers is held by that, not by memory.  Those of shared memory cost a cycle or
two, and each block adds its table to memory once.  Blocks are persistent for that: some of them run
all programs (see `persist`).

An index is known only when the program runs.  Those below the table's size are counted there, the
others where they were: no bound needs to be known, and where one is, nothing is left elsewhere.

Legal where nothing could see that additions happen later than the source says: no result of an
atomic is read, all atomics of the kernel are such, nothing is volatile, and nothing that comes
after one in its program reads or writes what it changes (programs have no order among them).
Integers of 32 bits, and floats whose indices all are in the table: shared memory adds these by
compare-and-swap, which pays where memory would be asked otherwise.
Worthwhile where addresses may coincide: neighbours are not known to differ.  Of several versions of
a body, those gather where the facts of their own allow it.

Needs layouts."""

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.analysis.axis import axis_info
from tritonc.analysis.facts import Facts
from tritonc.analysis.values import SPREADS, defined_by, origin
from tritonc.backend.launch import persist
from tritonc.backend.layout.layout_choice import spread
from tritonc.backend.pipeline.staged_loop import buffer_of
from tritonc.backend.shared.shared_memory import allocate
from tritonc.ir import types
from tritonc.ir.build import Builder
from tritonc.ir.cfg import reached
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import LANE_BITS
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.ops import READ, SYNC, WRITE
from tritonc.ir.rules import REDUCTIONS, neutral

TABLE = 2048  # entries; 8 KB leave room for as many blocks as there are warps
LEAST = 256  # elements of a tile for which a table pays,
# or one is small: so many entries for each element, or for each thread, which an access clears.
# k-means of 2^20 points by tiles of 32, 64 centres, on an H200: 546 us, 313 by a table.
MOST_REPEATS, OF_THREAD = 2, 4
WARPS = 32  # on each multiprocessor, so that memory is busy while some of them count,
BLOCKS = (8, 24)  # of at least and at most so many blocks,
# and not more than are resident: others begin when these are done.  By 4 of 16 warps for 8 on an
# H200, us: 2^26 pairs of bytes 78 and 61, numbers 101 and 84, pairs with a mask 82 and 69, 2^27
# floats in bins 159 and 164.


def privatize_atomics(kernel: Kernel, context: Context) -> bool:
    """Give the atomics of a kernel tables in shared memory."""
    found = [op for op in kernel.ops() if op.name == "atomic_rmw"]
    if not found:
        return False
    infos, facts = axis_info.analyze(kernel), Facts(kernel)
    threads = kernel.attributes["num_warps"] << LANE_BITS
    gathered = [op for op in found if _coincide(op, infos, facts, threads)]
    if not gathered:
        return False
    joined = [op for op in gathered if _join_indices(kernel, op, facts)]
    why = _hindrance(kernel, found, facts)
    if why is None:
        meets = {op: _meets(kernel, op) for op in gathered}
        why = None if None in meets.values() else next(iter(meets.values()))
        gathered = [op for op in gathered if meets[op] is None]
    if why is not None:
        context.remark("privatize_atomics", f"atomics not accumulated in shared memory: {why}",
                       found[0].span, missed=True)
        return bool(joined)
    groups: dict[tuple[Value | None, str], list[Op]] = {}
    for op in gathered:
        groups.setdefault((_base(op), op.attributes["kind"]), []).append(op)
    tables: dict[tuple[Value | None, str], Op] = {}
    counted: dict[Op, list[Op]] = {}
    for key, ops in groups.items():
        size = max(_entries(op, facts) for op in ops)
        e = types.scalar(ops[0].operands[1].type)
        tables[key] = allocate(e, row_major((size,)), span=ops[0].span, named="table", pinned=True)
        counted.update((op, _counted(op, tables[key].result, size, facts)) for op in ops)
    for block in kernel.blocks:
        block.ops = [new for op in block.ops for new in counted.get(op, [op])]
    begin, done = _loop(kernel, context.target.threads_per_multiprocessor)
    for (base, kind), table in tables.items():
        assert base is not None
        _fill(kernel, begin, table.result, kind)
        _add_up(kernel, done, base, kind, table.result)
    kernel.entry.ops[:0] = tables.values()
    most = max(types.shape(table.result.type)[0] for table in tables.values())
    context.remark("privatize_atomics", f"atomics on indices below {most} are "
                   "accumulated in shared memory first", found[0].span)
    return True


def _coincide(op: Op, infos: axis_info.Infos, facts: Facts, threads: int) -> bool:
    """Whether elements of a tile of addresses may well be the same, and a table pays."""
    pointer = op.operands[0]
    t, info = pointer.type, infos.get(pointer)
    return isinstance(t, types.Tile) and (info is None or max(info.contiguity) == 1) and (
        t.size >= LEAST or (_base(op) is not None and _entries(op, facts) <= max(
            MOST_REPEATS * t.size, OF_THREAD * threads)))


def _join_indices(kernel: Kernel, op: Op, facts: Facts) -> bool:
    """Make a pointer plus two indices one plus their sum, where that cannot wrap."""
    joined = False
    while (outer := defined_by(op.operands[0], "addptr")) is not None and (
            inner := defined_by(outer.operands[0], "addptr")) is not None:
        first, second = inner.operands[1], outer.operands[1]
        (low, high), (least, most) = map(facts.interval, (first, second))
        bits = types.element(first.type).bits - 1
        if first.type != second.type or low + least < -1 << bits or high + most >= 1 << bits:
            break
        block = next(block for block in kernel.blocks if op in block.ops)
        b = Builder(block, block.ops.index(op), op.span)
        op.operands[0] = b.value("addptr", inner.operands[0], b.value("add", first, second))
        joined = True
    return joined


def _entries(op: Op, facts: Facts) -> int:
    """Of a table that has room for the operation's indices, or is as large as tables are."""
    low, high = _interval(op, facts)
    return min(TABLE, 1 << max(high.bit_length(), 5)) if low >= 0 else TABLE


def _all_inside(op: Op, facts: Facts) -> bool:
    """Whether a table has all indices of the operation."""
    low, high = _interval(op, facts)
    return low >= 0 and high < TABLE


def _interval(op: Op, facts: Facts) -> tuple[int, int]:
    """The bounds of the operation's indices, which its mask may give."""
    assert op.operands[0].op is not None
    return facts.interval_where(op.guard, op.operands[0].op.operands[1])


def _base(op: Op) -> Value | None:
    """The parameter to which the operation's pointers add an index each."""
    made = defined_by(op.operands[0], "addptr")
    if made is None or not isinstance(made.operands[0].type, types.Tile):
        return None
    base = origin(made.operands[0], (*SPREADS, "convert_layout", "assume_multiple"))
    return base if base.op is None and not isinstance(base.type, types.Tile) else None


def _hindrance(kernel: Kernel, found: list[Op], facts: Facts) -> str | None:
    """Why the kernel's atomics may not happen later, or None."""
    readers = uses(kernel)
    for op in found:
        if readers.get(op.result):
            return "the result of an atomic is used"
        if _base(op) is None:
            return "an address is not of the form parameter + index"
        kind, e = op.attributes["kind"], types.scalar(op.operands[1].type)
        if (kind, e) == ("fadd", types.F32):
            if not _all_inside(op, facts):
                return "an index of a float atomic may be outside of the table"
        elif REDUCTIONS.get(kind) != "int" or e != types.I32:
            return "their type is neither a 32-bit integer nor a float that is added"
    for op in kernel.ops():
        if op.attributes.get("volatile") or op.name in ("atomic_cas", "dot") \
                or (SYNC in op.effects and READ in op.effects):
            return "the kernel has ordered accesses"
        if op.name == "get_program_id" and op.attributes["axis"] > 1:
            return "the launch has three axes"
    roots = pointer_roots(kernel)
    kinds = {op.attributes["kind"] for op in found}
    if len(kinds) > 1 and any(may_alias(kernel, a.operands[0], b.operands[0], roots)
                              for a in found for b in found
                              if a.attributes["kind"] != b.attributes["kind"]):
        return "different kinds of atomics may access the same address"
    return None


def _meets(kernel: Kernel, atomic: Op) -> str | None:
    """Why one of the atomics may not happen later, or None.  In another version of the body, where
    more is known, one of the same addresses may: additions have no order among them."""
    roots = pointer_roots(kernel)
    home = next(block for block in kernel.blocks if atomic in block.ops)
    after = [*home.ops[home.ops.index(atomic) + 1 :],
             *(op for block in reached(home.successors) for op in block.ops)]
    for op in after:
        if op.name != "atomic_rmw" and op.effects & {READ, WRITE} and op.operands \
                and may_alias(kernel, op.operands[0], atomic.operands[0], roots):
            return f"a later {op.name} may access the same memory; `restrict` says that it does not"
    return None


def _counted(op: Op, table: Value, size: int, facts: Facts) -> list[Op]:
    """The operation as one of the table, and of memory for what the table does not have."""
    made = op.operands[0].op
    assert made is not None
    index = made.operands[1]
    t, kind = index.type, op.attributes["kind"]
    b = Builder(Block(""), span=op.span)
    low, high = _interval(op, facts)
    narrow, inside, rest = index, op.guard, list[Op]()
    if types.element(t).bits != types.I32.bits:
        narrow = b.value("truncate" if types.element(t).bits > types.I32.bits else "sext", index,
                         type=types.with_element(t, types.I32))
    if low < 0 or high >= size:
        inside = b.value("icmp", index, b.constant(size, t), predicate="ult")
        outside = b.value("xor", inside, b.constant(True, types.with_element(t, types.I1)))
        if op.guard is not None:
            inside, outside = (b.value("and", op.guard, test) for test in (inside, outside))
        op.guard, rest = outside, [op]
    b.emit("shared_atomic", table, narrow, op.operands[1], guard=inside, kind=kind)
    return [*b.block.ops, *rest]


def _loop(kernel: Kernel, threads: int) -> tuple[Block, Block]:
    """A loop over programs around the kernel, for multiprocessors of so many threads: where a block
    begins, and where it is done."""
    warps = kernel.attributes["num_warps"]
    blocks = min(max(WARPS // warps, BLOCKS[0]), BLOCKS[1], threads // (32 * warps))
    home, number = persist.add_loop(kernel, kernel.blocks, blocks)

    def order(b: Builder) -> tuple[Value, ...]:
        rows = b.value("get_num_programs", axis=0)
        return b.value("urem", number, rows), b.value("udiv", number, rows)

    persist.renumber(kernel, kernel.blocks[kernel.blocks.index(home):], home, order)
    begin = next(block for block in kernel.blocks if block.name == "begin")
    done = next(block for block in kernel.blocks if block.name == "done")
    return begin, done


def _tile(kernel: Kernel, table: Value, e: types.Scalar | types.Pointer) -> types.Tile:
    """A tile of as many elements as the table has, spread over the threads."""
    extents = buffer_of(table).shape
    return types.Tile(e, extents, spread(extents, (0,), 4, kernel.attributes["num_warps"]))


def _fill(kernel: Kernel, begin: Block, table: Value, kind: str) -> None:
    b, e = Builder(begin, len(begin.ops) - 1), types.scalar(table.type)
    none = b.emit("constant", type=_tile(kernel, table, e), value=neutral(kind, e)).result
    b.emit("shared_store", table, none)


def _add_up(kernel: Kernel, done: Block, base: Value, kind: str, table: Value) -> None:
    """Add the table to memory, but for what changes nothing."""
    e = types.scalar(table.type)
    t, bits = _tile(kernel, table, e), _tile(kernel, table, types.I32)
    b = Builder(done, len(done.ops) - 1)
    sums = b.emit("shared_load", table, type=t).result
    none = b.emit("constant", type=t, value=neutral(kind, e)).result
    changed, none = (v if e == types.I32 else b.value("bitcast", v, type=bits)
                     for v in (sums, none))
    some = b.value("icmp", changed, none, predicate="ne")
    index = b.emit("range", type=bits, start=0, stop=t.size).result
    assert isinstance(base.type, types.Pointer)
    start = b.emit("splat", base, type=_tile(kernel, table, base.type)).result
    b.emit("atomic_rmw", b.value("addptr", start, index), sums, guard=some, kind=kind)
