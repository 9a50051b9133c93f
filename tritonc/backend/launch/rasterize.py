"""rasterize: an order of programs in which those that run together share rows and columns.

Before:  %m = get_program_id {axis = 0}      After:  the same two numbers, of another program:
         %n = get_program_id {axis = 1}              i = n * rows + m, counted in bands of 8 rows:
                                                     band = i / (8 * columns), first = 8 * band,
                                                     high = min(rows - first, 8),
                                                     j = i % (8 * columns),
                                                     m' = first + j % high, n' = j / high

The hardware starts blocks in the order of i.  As the source numbers them, those that run together
fill whole columns of the result, so each reads its own rows of the left operand; in bands of 8 rows
they form a rectangle, and the L2 cache serves each operand to several.  The map is one to one
whatever the launch's size, and programs have no order that a program could see.

Where all operands depend on the second number, as those of a batch do, programs share nothing
across it: they keep the order of i, in which those of one column run together.  Bands have 16 rows
where these choose their matrices by loaded numbers.  Where the work
grows with the first number, as under a causal mask, or falls, those with most of it come first, of
a few columns, as many as the L2 cache serves at once: what ends last is short.  Persistent blocks
take every other round of such programs backwards, so that each gets as much work as the others, in
an order that is even (`_evened`).

Where a part of the programs takes the body for edges (`specialize`), which is slower, the order is
backwards: edges are last along each axis, and now first, so that what ends last is not slow.

Products on wgmma are computed by persistent blocks (`persist`), in the same order.

Done for kernels with a matrix product that number their programs along two axes.  `group` is a
meta-parameter; 1 leaves the order alone.  Must come after specialize, which reads program ids.

Which programs have the longest loops, their numbers tell (`trend`):

    end = min(S, (get_program_id(0) + 1) * TM)        the work grows with the number along axis 0
    for (int n = 0; n < end; n += TN) ...

A launch takes as long as its last block: whoever has most to do should not come last (Graham 1969).
"""

from collections.abc import Set

from tritonc.analysis.counters import step_of
from tritonc.analysis.signs import non_negative
from tritonc.analysis.values import computed_from
from tritonc.backend.launch import persist
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, Tile, bytes_of, shape

GROUP = 8  # rows of a band
OF_MANY = 16  # of one whose rows may have matrices of their own on the right, as experts have
COLUMNS = 8  # whose longest programs come first
# Bytes that loops read, of which all columns' longest programs come first.  H200, causal, D = 64,
# by rows of 64, us: 36 heads x 1920 57.2, 46.4 by all columns, 24 x 2560 59.3, 51.6, 12 x 4096
# 72.4, 63.9, 32 x 2048 49.7, 47.3, 32 x 4096 (34 MB) 161, 152, 64 x 4096 308, 316, 128 x 4096
# 600, 729.
CACHE = 40 << 20
# Columns, times what is in common, of the multiprocessors; rounds, of columns for a third of these.
EVEN, MANY = (9, 5), 16
_FOLLOW = ("add", "smin", "smax", "umin", "umax", "sext", "zext", "trunc", "assume_multiple")
_LESS = ("slt", "sle", "ult", "ule")
_GREATER = ("sgt", "sge", "ugt", "uge")


def rasterize(kernel: Kernel, context: Context) -> bool:
    """Renumber the programs of matrix products in bands."""
    shared = persist.shares_loops(context)  # few programs: an order saves nothing
    group = context.meta.get("group", 1 if shared else OF_MANY if _chosen(kernel) else GROUP)
    ids = [op for op in kernel.ops() if op.name == "get_program_id"]
    axes = {op.attributes["axis"] for op in ids}
    if not axes or not any(op.name == "dot" for op in kernel.ops()):
        return False
    if not {0, 1} <= axes or ("group" not in context.meta and not _shared(kernel)):
        group = 0
    persistent = persist.should_persist(kernel, context)
    if not {0, 1} <= axes and not persistent:
        return False
    grows = trend(kernel) if group == 0 else 0
    if group < 2 and not persistent and not grows:
        return False
    if not persistent:
        edges = any(op.attributes.get("facts") and computed_from(op.operands[0], "get_program_id")
                    for op in kernel.ops() if op.name == "cond_br")
        persist.renumber(
            kernel, kernel.blocks, kernel.entry,
            lambda b: _longest_first(b, grows, few=_few(kernel)) if grows else _banded(
                b, group, None, edges))
        return True
    looping = persist.body(kernel)
    context.remark("rasterize", "persistent blocks: each block computes several programs",
                   kernel.span)
    plain = [block for block in kernel.blocks[1:] if block not in looping]
    count = persist.axes(looping)
    home, number = persist.add_loop(kernel, looping, back=group == 0)
    if group and count == 2 and {0, 1} <= axes:
        kernel.attributes["bands"] = group
    persist.renumber(kernel, looping, home,
                     lambda b: _numbers(b, group, number, count, axes, grows))
    if plain and group > 1:
        persist.renumber(kernel, plain, plain[0], lambda b: _banded(b, group, None))
    return True


def _numbers(b: Builder, group: int, number: Value, count: int, used: set[int], grows: int
             ) -> tuple[Value, ...]:
    """The numbers along all axes of program `number`, counted along `count` of them."""
    if used == {0}:  # the source has its own order
        return (b.value("urem", number, b.value("get_num_programs", axis=0)),)
    rows, columns = (b.value("get_num_programs", axis=axis) for axis in (0, 1))
    if grows:
        every = columns if count == 2 else b.value("mul", columns, b.value(
            "get_num_programs", axis=2))
        m, n = _evened(b, number, grows, every)
        return (m, n) if count == 2 else (m, b.value("urem", n, columns), b.value(
            "udiv", n, columns))
    if count == 2:
        return _banded(b, group, number)
    plane = b.value("mul", rows, columns)
    within = b.value("urem", number, plane)
    return *_banded(b, group, within), b.value("udiv", number, plane)


def _shared(kernel: Kernel) -> bool:
    """Whether programs of different numbers along axis 1 load a matrix in common."""
    ops = list(kernel.ops())
    own = persist.computed_of(ops, {op.result for op in ops if op.name == "get_program_id"
                                    and op.attributes["axis"] == 1})
    return any(op.name == "load" and len(shape(op.result.type)) > 1 and op.operands[0] not in own
               for op in ops)


def _chosen(kernel: Kernel) -> bool:
    """Whether numbers that are loaded for rows of programs say which matrix the columns are of:
    each band reads all that its rows name."""
    ops = list(kernel.ops())
    rows, columns = (persist.computed_of(ops, {op.result for op in ops if op.name ==
                     "get_program_id" and op.attributes["axis"] == axis}) for axis in (0, 1))
    loaded = persist.computed_of(ops, {op.result for op in ops if op.name == "load" and not shape(
        op.result.type) and op.operands[0] in rows})
    return any(op.name == "load" and len(shape(op.result.type)) > 1
               and op.operands[0] in loaded and op.operands[0] in columns for op in ops)


def _banded(b: Builder, group: int, number: Value | None, back: bool = False
            ) -> tuple[Value, Value]:
    """The numbers along axes 0 and 1 of a program; `number` is None for this block's own.

    `group`: 0 for the order of the numbers.  `back`: counted from the last ones."""
    rows, columns = (b.value("get_num_programs", axis=axis) for axis in (0, 1))
    if not group and number is not None:
        return b.value("urem", number, rows), b.value("udiv", number, rows)
    new_m, new_n = bands(b, number or _own(b), rows, columns, group)
    if back:
        new_m, new_n = (b.value("sub", b.value("sub", count, b.constant(1, I32)), at)
                        for count, at in ((rows, new_m), (columns, new_n)))
        # The minima change nothing; with them the numbers are known not to be negative.
        new_m, new_n = b.value("umin", new_m, rows), b.value("umin", new_n, columns)
    new_m.name, new_n.name = "row", "column"
    return new_m, new_n


def _evened(b: Builder, number: Value, grows: int, columns: Value) -> tuple[Value, Value]:
    """The numbers in persistent blocks, each of which takes every other round backwards, where the
    work grows or falls with the first one.

    In the order of the numbers, a block's rows of two such rounds make up for each other, but for
    two rounds modulo the rows of a column.  That evens out if columns are many enough for what both
    have in common (EVEN), or nearly so, if rounds are many (MANY).  Else the longest of all come
    first, which is even for any shape; but more columns are read at once, and the cache may not
    hold them.  The busiest of 132 has, of the mean, for 32 columns of 16, 18, 63 and 65 rows 1.03,
    1.32, 1.32 and 1.49 in the order of the numbers, by the longest at most 1.05.  Causal attention
    of D = 128 on an H200, heads x keys: 24 x 2560 93.7 us, 67.9 by the longest, 36 x 1920 88.8,
    61.7, 32 x 8320 1131, 844, 64 x 3968 445, 431; but 128 x 2176 314, 329."""
    rows = b.value("get_num_programs", axis=0)
    blocks = b.value("get_num_multiprocessors", type=I32)

    def times(value: Value, number: int) -> Value:
        return b.value("mul", value, b.constant(number, I32))

    def most(value: Value, least: Value) -> Value:
        return b.value("icmp", value, least, predicate="sge")

    bits = b.value("or", rows, times(blocks, 2))
    common = b.value("and", bits, b.value("sub", b.constant(0, I32), bits))  # the lowest bit
    even = most(times(b.value("mul", columns, common), EVEN[1]), times(blocks, EVEN[0]))
    many = b.value("and", most(b.value("mul", rows, columns), times(blocks, MANY)),
                   most(times(columns, 3), blocks))
    stays = b.value("or", even, many)
    orders = zip(_banded(b, 0, number), _longest_first(b, grows, (number, columns)), strict=True)
    m, n = (b.value("select", stays, *order) for order in orders)
    return m, n


def _few(kernel: Kernel) -> int:
    """The programs of which the second-level cache holds all that their loops read, where each
    reads what is in other programs' rows."""
    read = 0
    for loop in Cfg(kernel).loops:
        step = max((abs(step_of(loop, phi) or 0) for phi in loop.header.phis()
                    if phi.result.type == I32 and loop.latch is not None), default=0)
        size = sum(bytes_of(op.result.type) for op in loop.ops()
                   if op.name == "load" and isinstance(op.result.type, Tile))
        read = max(read, size // step if step else 0)
    return CACHE // max(1, read * kernel.tile.get(0, 1))


def _longest_first(b: Builder, grows: int, of: tuple[Value, Value] | None = None, few: int = 0
                   ) -> tuple[Value, Value]:
    """The numbers where the work grows with the first one (1), or falls (-1); `of` a program's
    number, of so many columns.  Of fewer than `few` programs, the longest of all columns come
    first: what begins late is a large part of the whole."""
    rows = b.value("get_num_programs", axis=0)
    number, columns = of or (_own(b), b.value("get_num_programs", axis=1))
    if of:
        n, m = b.value("urem", number, columns), b.value("udiv", number, columns)
    else:
        fewer = b.value("icmp", b.value("mul", rows, columns), b.constant(few, I32),
                        predicate="slt")
        n, m = bands(b, number, columns, rows,
                     b.value("select", fewer, columns, b.constant(COLUMNS, I32)))
    # The minima change nothing, but make the numbers one value each, known not to be negative.
    n = b.value("umin", n, columns)
    if grows > 0:
        m = b.value("umin", b.value("sub", b.value("sub", rows, b.constant(1, I32)), m), rows)
    m.name, n.name = "row", "column"
    return m, n


def _own(b: Builder) -> Value:
    """The number of this block's program."""
    m, n = (b.value("get_program_id", axis=axis) for axis in (0, 1))
    return b.value("add", b.value("mul", n, b.value("get_num_programs", axis=0)), m)


def bands(b: Builder, number: Value, rows: Value, columns: Value, group: int | Value
           ) -> tuple[Value, Value]:
    """Row and column of a program, if they are counted in bands of `group` rows."""
    band_rows = group if isinstance(group, Value) else b.constant(group, I32)
    size = b.value("mul", columns, band_rows)
    first = b.value("mul", b.value("udiv", number, size), band_rows)
    high = b.value("umin", b.value("sub", rows, first), band_rows)
    j = b.value("urem", number, size)
    return b.value("add", first, b.value("urem", j, high)), b.value("udiv", j, high)


def trend(kernel: Kernel) -> int:
    """1 if loops get longer with the number along axis 0, -1 if shorter; 0 if it makes no
    difference, or not one that is understood."""
    found = {_length(loop) for loop in Cfg(kernel).loops} - {0}
    only = found.pop() if len(found) == 1 else None
    return only or 0


def _length(loop: Loop) -> int | None:
    """How a loop's number of iterations changes with the number along axis 0; None if unknown."""
    test = loop.header.terminator
    if test.name != "cond_br" or loop.preheader is None:
        return 0
    compare = test.operands[0].op
    if compare is None or compare.name != "icmp":
        return None if _slope(test.operands[0], frozenset()) else 0
    left, right = (loop.first(v.op) if v.op in loop.header.phis() and v.op else v
                   for v in compare.operands)
    ends = _slope(right, frozenset()), _slope(left, frozenset())
    if ends == (0, 0):
        return 0
    if None in ends:
        return None
    more = _sum([ends[0], -(ends[1] or 0)])
    stays = 1 if test.blocks[0] in loop else -1
    predicate = compare.attributes["predicate"]
    if more is None or predicate not in (*_LESS, *_GREATER):
        return None
    return more * stays * (1 if predicate in _LESS else -1)


def _sum(slopes: list[int | None]) -> int | None:
    """What a sum does whose terms do these."""
    found = set(slopes) - {0}
    return 0 if not found else found.pop() if len(found) == 1 else None


def _slope(value: Value, seen: Set[Op]) -> int | None:
    """1 if the value never falls when the number along axis 0 rises, -1 if it never rises, 0 if
    the number is not in it; None if unknown.  `seen`: phis above."""
    op = value.op
    if op is None or op in seen or op.name == "constant":
        return 0
    if op.name == "get_program_id":
        return int(op.attributes["axis"] == 0)
    seen = {*seen, op} if op.name == "phi" else seen
    slopes = [_slope(v, seen) for v in op.inputs()]
    if not any(slopes) and None not in slopes:
        return 0
    if op.name in _FOLLOW:
        return _sum(slopes)
    if op.name == "sub":
        return None if slopes[1] is None else _sum([slopes[0], -slopes[1]])
    if op.name in ("mul", "shl", "udiv", "sdiv") and slopes[1] == 0 and non_negative(
            op.operands[1]):
        return slopes[0]
    if op.name == "mul" and slopes[0] == 0 and non_negative(op.operands[0]):
        return slopes[1]
    return None
