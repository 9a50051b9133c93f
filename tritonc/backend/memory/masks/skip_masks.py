"""skip_masks: a mask that holds for all elements of most tiles is tested for the whole tile.

Before:  body: ...                               After:  body: %full = icmp n + 127 < %S
               %m = icmp %n + range, %S                        cond_br %full, rest, masked
               %t = select %m, %s, -inf              masked: %m = icmp %n + range, %S
               ...                                             %t1 = select %m, %s, -inf
                                                               br rest
                                                       rest: %t = phi [%s, body], [%t1, masked]

The keys past a sequence's end, or those after a row in a causal mask, are in the last tiles of a
loop only.  There is one loop still, and the branch is the same for all threads.

A comparison of integers holds for the whole tile if it holds between the greatest element of one
side and the least of the other, which affine forms name.  They count in unbounded integers: the
test is made in 64 bits, and where an element could have wrapped the mask is computed.  Of `or`, as
with a prefix that all rows see, one side that holds everywhere is enough.

Numbers that are loaded, one for each row and each column, are compared by warps: each branches by
itself (`row_masks`).  There the selection often gives its third operand everywhere, which is
tested too.  What is loaded for the mask alone is loaded where the mask is computed; a stage of
a stage that holds it is released behind that.  Numbers of columns that others need, too, are
computed again there (soft caps and ALiBi, 64 x 128: 196 bytes of spills, 0).

Needs layouts, and that no pass that wants loops of one block comes later."""


from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear, emit, number
from tritonc.analysis.values import is_uniform, origin
from tritonc.backend.memory.masks import row_masks
from tritonc.backend.memory.rematerialize import chain_of, copy_chain
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, make_phi, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import OPPOSITE
from tritonc.ir.types import F32, I1, I32, I64, Tile, scalar, shape

ENOUGH = 16  # registers of the tile: fewer selects cost no more than the branch
MOST_WAYS = 4  # in which a mask may hold for a whole tile
SMALL = 1 << 20  # coefficients of the sums, so that they stay within 64 bits
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
Test = Linear | row_masks.RowTest
Way = list[Test]
_PASSED = ("and", "or", "broadcast", "reshape", "splat", "convert_layout", "cmpp")


def skip_masks(kernel: Kernel, context: Context) -> bool:
    """Branch around the selections of which a scalar test says that they change nothing."""
    inside = {block for loop in Cfg(kernel).loops for block in loop.blocks}
    affinity = Affinity()
    changed = False
    for by_rows in (True, False):  # before columns of a row mask are the result of a branch
        for block in list(kernel.blocks):
            if block not in inside:
                continue
            for op in list(block.ops):
                if not _is_wide(op) or op not in block.ops:
                    continue
                ways, never = _row_ways(op, block, affinity) if by_rows else (
                    _ways(op.operands[0], affinity), [])
                if ways:
                    block = _branch(kernel, block, op, ways, never)
                    inside.add(block)
                    changed = True
    return changed


def _is_wide(op: Op) -> bool:
    """Whether it is a selection between the elements of tiles that is worth a branch."""
    t = op.results[0].type if op.results else None
    return op.name == "select" and isinstance(t, Tile) and t.layout is not None \
        and t.layout.registers >= ENOUGH and bool(shape(op.operands[0].type))


def _row_ways(select: Op, block: Block, affinity: Affinity) -> tuple[list[Way], list[Way]]:
    """In which ways the mask holds everywhere, and nowhere, if numbers of rows are compared."""
    ways = _ways(select.operands[0], affinity, block)
    never = _ways(select.operands[0], affinity, block, False) \
        if is_uniform(select.operands[2]) and scalar(select.result.type) == F32 else []
    tests = [test for way in ways + never for test in way if isinstance(test, row_masks.RowTest)]
    for test in tests:
        tested = block.ops.index(row_masks.last_before(test, block))
        for load in row_masks.loads_of(test, block):
            release = _release(load, block, select)
            if release is None or block.ops.index(release) < tested:
                return [], []
    return (ways, never) if tests else ([], [])


def _release(load: Op, block: Block, select: Op) -> Op | None:
    """What releases the stage that is loaded from, if it is behind the selection or may be moved
    there: until then nothing writes to the stage."""
    ops, stage = block.ops, load.operands[0]
    found = [op for op in ops[ops.index(load):] if op.name == "arrive_empty"
             and stage in op.operands[1:]]
    if len(found) != 1:
        return None
    between = ops[ops.index(found[0]):ops.index(select)]
    return found[0] if all(op.pure or op.name == "arrive_empty" for op in between) else None


def _ways(value: Value, affinity: Affinity, block: Block | None = None,
          holds: bool = True) -> list[Way]:
    """Lists of tests.  All of one list succeed only if the mask holds everywhere, or nowhere: of
    `or`, one side that holds is enough, of `and` one that does not.  `block`: where numbers of rows
    are compared too."""
    mask = value.op
    if mask is None or (mask.name not in _PASSED and mask.name != "icmp"):
        return []
    if mask.name == "icmp":
        sums = comparison(mask, affinity, holds)
        if sums is not None:
            return [list(sums)]
        test = row_masks.row_test(mask, holds, block) if block is not None else None
        return [[test]] if test is not None else []
    if value is not mask.results[0]:
        return []
    if mask.name == "convert_layout":  # a warp has elements that another one compared
        block = None
    sides = [_ways(v, affinity, block, holds) for v in mask.operands]
    if mask.name == ("and" if holds else "or"):
        found = [a + b for a in sides[0] for b in sides[1]]
    else:
        found = [way for side in sides for way in side]
    return found[:MOST_WAYS]


def comparison(op: Op, affinity: Affinity, holds: bool) -> list[Linear] | None:
    """Sums that are negative only if `a < b` holds for all elements, or for none, and none of them
    wraps."""
    a, b = (affinity.of(v) for v in op.operands)
    predicate, t = op.attributes["predicate"], op.operands[0].type
    if not holds:
        predicate = OPPOSITE[predicate]
    if a is None or b is None or a.base or b.base or scalar(t) != I32:
        return None
    if predicate in ("sgt", "sge"):
        a, b = b, a
    elif predicate not in ("slt", "sle"):
        return None
    ends_a, ends_b, difference = (form.extremes(shape(t)) for form in (a, b, a - b))
    if ends_a is None or ends_b is None or difference is None:
        return None
    sums = [difference[1] - number(predicate in ("sle", "sge"))]
    for side, (low, high) in ((a, ends_a), (b, ends_b)):
        if len(side.offset.terms) == 1 and not any(s.terms for s in side.strides) \
                and side.offset.terms[0][1] == 1 and len(side.offset.terms[0][0]) == 1:
            continue  # one value, which is what it is
        sums += [number(LEAST - 1) - low, high - number(GREATEST + 1)]
    return sums if all(map(_small, sums)) else None


def _small(total: Linear) -> bool:
    """Whether the sum of 32-bit values stays within 64 bits."""
    return all(len(monomial) <= 1 and (not monomial or abs(n) < SMALL)
               and all(scalar(v.type).bits <= 32 for v in monomial)
               for monomial, n in total.terms)


def _branch(kernel: Kernel, block: Block, select: Op, ways: list[Way], never: list[Way]) -> Block:
    """Split the block at the selection.  Returns its second half."""
    masked, rest = Block(f"{block.name}.masked"), Block(f"{block.name}.rest")
    _, given, instead = select.operands  # outside of `masked`, which may compute them again
    tests = dict.fromkeys(test for way in ways + never for test in way
                          if isinstance(test, row_masks.RowTest))
    late = dict.fromkeys(load for test in tests for load in row_masks.loads_of(test, block))
    releases = dict.fromkeys(_release(load, block, select) for load in late)
    held: dict[Test, Value] = dict(row_masks.emit_row_tests(kernel, block, tests).items())
    for release in releases:
        assert release is not None
        release.attributes["meets"] = True
        if block.ops.index(release) < block.ops.index(select):
            block.ops.remove(release)
            block.ops.insert(block.ops.index(select) + 1, release)
    at = block.ops.index(select)
    before = block.ops[:at]
    tested = {v for way in ways + never for test in way if not isinstance(test, row_masks.RowTest)
              for monomial, _ in test.terms for v in monomial}
    kept = {given, *tested, *held.values(), *([instead] if never else [])}
    if held:  # a warp branches by itself
        kept |= {r for op in before if op not in late and not _alone(op) for r in op.results}
    sunk = only_for(select, before, kernel, kept, set(late))
    split(block, at + 1, rest)
    block.ops = [op for op in before if op not in sunk]
    masked.ops = [*(op for op in before if op in sunk), select]
    _recompute(masked)
    Builder(masked).emit("br", blocks=[rest])
    b = Builder(block, span=select.span)
    full = one_succeeds(b, ways, held)
    values, sources, added = [given], [block], [masked, rest]
    if never:
        none = one_succeeds(b, never, held)
        part, other = Block(f"{block.name}.part"), Block(f"{block.name}.other")
        Builder(part, span=select.span).emit("cond_br", none, blocks=[other, masked])
        in_other = Builder(other, span=select.span)
        # A number that is known here alone: no pass then sets the result before the branch.
        one = in_other.value("again", row_masks.number_of(in_other, instead))
        values.append(in_other.value("splat", one, type=select.result.type))
        in_other.emit("br", blocks=[rest])
        added[:0] = [part, other]
        sources.append(other)
    b.emit("cond_br", full, blocks=[rest, added[0]])
    joined = make_phi([*values, select.result], [*sources, masked], select.result.name)
    place = kernel.blocks.index(block) + 1
    kernel.blocks[place:place] = added
    kernel.replace({select.result: joined.result})
    joined.operands[-1] = select.result
    rest.ops.insert(0, joined)
    return rest


def _recompute(masked: Block) -> None:
    """Let the block compute the numbers of rows or columns that it shares with others: threads need
    not hold them until then, and few tiles come here."""
    inside = {r for op in masked.ops for r in op.results}
    for value in dict.fromkeys(v for op in masked.ops for v in op.inputs() if v not in inside):
        made = origin(value, ("broadcast", "reshape"))
        t = made.type
        if isinstance(t, Tile) and t.layout is not None and t.layout.registers >= ENOUGH \
                and made.op is not None and made.op.name != "splat" and scalar(t) != I1 \
                and (chain := chain_of(value, False)):
            copies, mapping = copy_chain(chain)
            for op in masked.ops:
                op.replace_inputs({value: mapping[value]})
            masked.ops[:0] = copies


def _alone(op: Op) -> bool:
    """Whether a thread computes the operation without others."""
    return op.info.elementwise or op.name in ("range", "splat", "constant", "broadcast", "reshape",
                                              "cmpp")


def one_succeeds(b: Builder, ways: list[Way], held: dict[Test, Value]) -> Value:
    """Whether all tests of one of the lists succeed."""
    zero = b.constant(0, I64)
    whole: list[Value] = []
    for tests in ways:
        full = b.constant(True, I1)
        for i, test in enumerate(t for t in dict.fromkeys(tests) if isinstance(t, row_masks.RowTest)
                                 or t.constant is None or t.constant >= 0):
            if not isinstance(test, row_masks.RowTest) and test not in held:
                held[test] = b.value("icmp", emit(b, test, I64), zero, predicate="slt")
            full = b.value("and", full, held[test]) if i else held[test]
        whole.append(full)
    return b.joined("or", whole)


def only_for(select: Op, before: list[Op], kernel: Kernel, kept: set[Value], late: set[Op]
              ) -> set[Op]:
    """The operations before the selection that only its mask and its last operand need, pure ones
    and loads that may come `late`, without those of the values that are `kept`."""
    readers, found = uses(kernel), {select}
    for op in reversed(before):
        if op.name != "phi" and (op.pure or op in late) and op.results and all(
                reader in found for r in op.results for reader in readers.get(r, [])
                ) and kept.isdisjoint(op.results):
            found.add(op)
    return found - {select}
