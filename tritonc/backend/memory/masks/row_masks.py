"""Comparisons of a number of each row with one of each column, tested for all that a warp holds.

Documents in one sequence have numbers that are loaded; a row sees the keys of its own document.  In
most tiles all keys have the number of all rows, or none has.  The rows stay the same in a loop: the
least and the greatest number of those that a warp holds are found before it.  A warp asks its lanes
for the columns, of which each then has a few, and not all that its elements of the mask need:

    %least = warp_extreme %rows {kind = smin}          before the loop
    %c = shared_load %stage : i32<128; one copy>       4 registers to a thread, in place of 32
    %e = icmp %c, splat %least {predicate = eq}
    %some = any_other %e {number = true}               the test is: not %some, and %least == %most

`skip_masks` makes the branch, and moves what only the mask needs into it."""

from collections.abc import Iterable

from tritonc.analysis.values import closure, constant_of, is_uniform, origin
from tritonc.ir.build import Builder, behind
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import LANE_BITS, Layout
from tritonc.ir.ops import OPPOSITE, SWAPPED
from tritonc.ir.types import I1, Tile, is_int, scalar, with_layout
from tritonc.records import dataclass

FEWER = 4  # times fewer registers for the columns that are asked than for those of the mask
_MADE_ANYWHERE = ("range", "splat", "constant", "cmpp", "reshape")


@dataclass(frozen=True)
class RowTest:
    """Whether `rows predicate columns` holds for all that a warp has of both."""

    rows: Value
    predicate: str
    columns: Value


def row_test(mask: Op, holds: bool, block: Block) -> RowTest | None:
    """What tests an `icmp` in the block for all its elements: that it holds, or that it does not.

    None unless the rows are known before the block, and the columns can be computed in one copy;
    nor of `k % 2 == 0`, which is the same in all tiles."""
    if all(map(_fixed, mask.operands)):
        return None
    a, b = (origin(v, ("broadcast", "reshape")) for v in mask.operands)
    predicate: str = mask.attributes["predicate"]
    if not holds:
        predicate = OPPOSITE[predicate]
    inside = set(block.ops)
    for rows, columns, relation in ((a, b, predicate), (b, a, SWAPPED[predicate])):
        if relation[0] != "u" and _known(rows, inside) and columns.op in inside \
                and _columns(columns, inside) is not None:
            return RowTest(rows, relation, columns)
    return None


def _fixed(value: Value) -> bool:
    """Whether it is made of ranges and constants."""
    made = closure([value.op], lambda op: [v.op for v in op.operands] if op is not None else ())
    return all(op is not None and op.pure and op.name != "phi" and (
        op.operands or op.name in ("range", "constant")) for op in made)


def _known(value: Value, inside: set[Op]) -> bool:
    """Whether the extremes of what a warp holds of the value can be had before the block."""
    op, t = value.op, value.type
    if op is None or not isinstance(t, Tile) or not is_int(t) or scalar(t).bits < 8:
        return False
    if is_uniform(value):
        return all(v.op not in inside for v in op.operands)
    return op not in inside and t.layout is not None


def loads_of(test: RowTest, block: Block) -> list[Op]:
    """The loads from shared memory that give the columns."""
    return [op for op in _columns(test.columns, set(block.ops)) or [] if op.name == "shared_load"]


def last_before(test: RowTest, block: Block) -> Op:
    """The operation behind which the test is computed: the last load of its columns, or what they
    need in the block beside loads, for a stage that was loaded from may be released soon."""
    assert test.columns.op is not None
    loads, inside = loads_of(test, block), set(block.ops)
    if not loads:
        return test.columns.op
    ops = _columns(test.columns, inside) or []
    needed = [v.op for op in ops for v in op.operands if v.op in inside and v.op not in ops]
    return max([*loads, *(op for op in needed if op is not None)], key=block.ops.index)


def _columns(value: Value, inside: set[Op]) -> list[Op] | None:
    """The operations that compute a row of numbers, in their order; None if some cannot be made
    again in a layout without copies, or if that has not far fewer registers."""
    t = value.type
    if not isinstance(t, Tile) or t.layout is None or max(t.shape) != t.layout.size \
            or FEWER * _one_copy(t.layout).registers > t.layout.registers:
        return None
    found: dict[Op, None] = {}
    places = (t.layout.register, t.layout.lane, t.layout.warp)

    def visit(v: Value) -> bool:
        op = v.op
        if not isinstance(v.type, Tile) or op in found:
            return True
        layout = v.type.layout
        if op is None or op.guard is not None or layout is None \
                or (layout.register, layout.lane, layout.warp) != places:
            return False
        if op.name == "shared_load":
            if op not in inside or op.attributes:
                return False
        elif not op.pure or (not op.info.elementwise and op.name not in _MADE_ANYWHERE):
            return False
        if not all(map(visit, op.operands)):
            return False
        found[op] = None
        return True

    return list(found) if visit(value) else None


def _one_copy(layout: Layout) -> Layout:
    """The elements that a warp holds, each in one lane if they are as many: runs to a thread."""
    bases = sorted(basis for basis in layout.register + layout.lane if basis)
    own = max(0, len(bases) - LANE_BITS)
    lanes = (*bases[own:], *[0] * LANE_BITS)[:LANE_BITS]
    return Layout(layout.shape, tuple(bases[:own]), lanes, layout.warp)


def emit_row_tests(kernel: Kernel, block: Block, tests: Iterable[RowTest]) -> dict[RowTest, Value]:
    """Compute the tests, each where its columns are loaded."""
    home = {op: block for block in kernel.blocks for op in block.ops}
    made: dict[Value, tuple[Builder, Value]] = {}
    found: dict[RowTest, Value] = {}
    for test in tests:
        if test.columns not in made:
            made[test.columns] = _columns_once(set(block.ops), test.columns)
        found[test] = _emit(*made[test.columns], test, home)
    places = [(last_before(test, block), made.pop(test.columns)[0])
              for test in found if test.columns in made]
    for place, b in places:
        at = block.ops.index(place) + 1
        block.ops[at:at] = b.block.ops
    return found


def _columns_once(inside: set[Op], value: Value) -> tuple[Builder, Value]:
    """The columns without copies, computed in a block of their own."""
    assert value.op is not None
    b, copies = Builder(Block("columns"), span=value.op.span), dict[Value, Value]()
    ops = _columns(value, inside)
    assert ops is not None
    for op in ops:
        types = tuple(with_layout(r.type, _one_copy(r.type.layout)) if isinstance(r.type, Tile)
                      and r.type.layout is not None else r.type for r in op.results)
        new = Op(op.name, [copies.get(v, v) for v in op.operands], dict(op.attributes), types,
                 None, op.span)
        copies.update(zip(op.results, new.results, strict=True))
        b.insert(new)
    return b, copies[value]


def _emit(b: Builder, columns: Value, test: RowTest, home: dict[Op, Block]) -> Value:
    """Whether `rows predicate columns` holds for all rows that a warp holds."""
    def extreme(kind: str) -> Value:
        return number_of(b, test.rows) if is_uniform(test.rows) else _extreme(home, test.rows, kind)

    def compare(predicate: str, number: Value) -> Value:
        return b.value("icmp", columns, b.value("splat", number, type=columns.type),
                       predicate=predicate)

    predicate, uniform = test.predicate, is_uniform(test.rows)
    if predicate == "eq" or (predicate == "ne" and uniform):
        each = compare(predicate, extreme("smin"))
    elif predicate == "ne":
        each = b.value("or", compare("slt", extreme("smin")), compare("sgt", extreme("smax")))
    else:  # rows less than columns are so if the greatest is
        each = compare(SWAPPED[predicate], extreme(
            "smax" if predicate in ("slt", "sle") else "smin"))
    found = b.value("xor", b.value("any_other", each, number=True), b.constant(True, I1))
    if predicate == "eq" and not uniform:
        alike = b.value("icmp", extreme("smin"), extreme("smax"), predicate="eq")
        found = b.value("and", found, alike)
    return found


def number_of(b: Builder, value: Value) -> Value:
    """The element of a uniform tile."""
    assert value.op is not None
    if value.op.name == "splat":
        return value.op.operands[0]
    number = constant_of(value)
    assert number is not None
    return b.constant(number, scalar(value.type))


def _extreme(home: dict[Op, Block], rows: Value, kind: str) -> Value:
    """The least or the greatest number of the rows that a warp holds, found where they are."""
    assert rows.op is not None
    block = home[rows.op]
    for op in block.ops:
        if op.name == "warp_extreme" and op.operands[0] is rows and op.attributes["kind"] == kind:
            return op.result
    return behind(block, rows, rows.op.span).value("warp_extreme", rows, kind=kind)
