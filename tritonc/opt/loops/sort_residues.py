"""sort_residues: programs take rows of one residue, and loops over taps leave out those that meet
none of them.

Before:  for r = 0, 1, ..: for s = 0, 1, ..:       After:  p of a program is 2 i + its residue, and
           acc += dot(x where (p % W + 1 - s) % 2 == 0            so are p % W and p / W % H
                      and (p / W % H + 1 - r) % 2 == 0, w)  for r = (h + 1) % 2, + 2, ..: for s ..

A transposed convolution of stride n, as its definition says, meets a zero in n - 1 of n taps, but
which ones differs between neighbours.  The rows of a launch can be numbered so that those of a tile
are alike: of n programs side by side the first one takes every n-th row, the next one the rows
behind these, and so on; where several digits of the row's number matter, as row and column of a
pixel, of n * n programs.  Then all rows of a tile mask the same iterations of a loop that counts,
which goes on with the others, from the first of them, in larger steps.

    classes = 4, class = id % 4, i = id / 4 * TM + 0 ... TM
    w = i % (W / 2) * 2 + class % 2, h = i / (W / 2) % (H / 2) * 2 + class / 2, rest = i / ..
    p = (rest * H + h) * W + w

That is one to one on all rows of the launch, if extents of digits are multiples of n, the number of
programs is one of the classes, and that of rows one of the extents.  These are tested once, by
scalars, as is a stride that is one: where they do not hold, rows and steps are what they were.

Only where rows are by themselves: no operation brings rows together or adds them up, and nothing
but the number of a row says which program computes it.  What a loop computes must be sums of
products, in each of which the mask makes an operand zero: nothing comes of a step left out (of an
infinity times such a zero neither, as the language says)."""

from collections.abc import Callable
from functools import partial, reduce
from math import prod

from tritonc.analysis.counters import Counter, counter_of
from tritonc.analysis.values import SPREADS, conditions, defined_by, int_of, is_zero, origin
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, incoming
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import I1, I32, Tile, same_axes, shape
from tritonc.records import NamedTuple

_MOST = 16  # classes
_LARGE = 1 << 30  # a limit beyond which a larger step may go too far
_UP, _DOWN = ("slt", "sle", "ult", "ule"), ("sgt", "sge", "ugt", "uge")


class Tap(NamedTuple):
    """A loop of which an iteration counts where digit + sum of terms is a multiple of `every`."""

    loop: Loop
    counter: Counter
    digit: int
    terms: list[tuple[int, Value]]
    every: int | Value
    sign: int  # of the counter among the terms


def sort_residues(kernel: Kernel, context: Context) -> bool:
    """Renumber rows along one axis, if a loop over taps gains by it."""
    cfg, readers = Cfg(kernel), uses(kernel)
    for op in [op for op in kernel.ops() if op.name == "get_program_id"]:
        rows = _rows_of(kernel, op, readers)
        if rows is None or not _by_themselves(kernel, rows):
            continue
        digits = _digits(rows, readers)
        taps = [tap for loop in cfg.loops
                if (tap := _tap(cfg, loop, digits, rows.more)) is not None]
        every = {tap.digit: tap.every for tap in taps}
        if taps and all(every[tap.digit] == tap.every for tap in taps) \
                and prod(n for n in every.values() if isinstance(n, int)) <= _MOST:
            _renumber(kernel, op, rows, digits, taps, every)
            context.remark("sort_residues", "each program computes rows of one residue: "
                           f"{len(taps)} loops skip the iterations that these rows mask",
                           taps[0].loop.header.terminator.span)
            return True
    return False


class Rows(NamedTuple):
    """What numbers the rows of a program, id * T + 0 ... T; values that are a scalar more."""

    op: Op
    more: dict[Value, Value]


def _rows_of(kernel: Kernel, number: Op, readers: dict[Value, list[Op]]) -> Rows | None:
    """The rows' numbers, if the number of the program has no other use."""
    axis = number.attributes["axis"]
    extent, found = kernel.tile.get(axis), list[Op]()
    if any(o is not number and o.name == number.name and o.attributes["axis"] == axis
           for o in kernel.ops()):
        return None
    more: dict[Value, Value] = {}
    for first in readers.get(number.result, []):
        if first.name != "mul" or int_of(first.operands[1]) != extent:
            return None
        stack: list[tuple[Op, Value | None]] = [(o, None) for o in readers.get(first.result, [])]
        while stack:
            op, by = stack.pop()
            if op.name == "add" and by is None and not shape(op.result.type):
                (by,) = (v for v in op.operands if v is not first.result)
                stack += [(o, by) for o in readers.get(op.result, [])]
            elif op.name == "splat":
                stack += [(o, by) for o in readers.get(op.result, [])]
            elif op.name == "add" and shape(op.result.type) == (extent,) and any(
                    (r := defined_by(v, "range")) is not None and r.attributes["start"] == 0
                    for v in op.operands):
                if by is None:
                    found.append(op)
                else:
                    more[op.result] = by
            else:
                return None
    return Rows(found[0], more) if len(found) == 1 else None


def _by_themselves(kernel: Kernel, rows: Rows) -> bool:
    """Whether no operation brings rows together."""
    axes = {value: {0} for value in (rows.op.result, *rows.more)}
    ops, before = list(kernel.ops()), -1
    while before != (before := sum(map(len, axes.values()))):
        for op in ops:
            own = [axes.get(v, set()) for v in op.inputs()]
            if not any(own) or (op.results and op.results[0] in axes and op.name == "add" and (
                    op is rows.op or op.results[0] in rows.more)):
                continue
            if op.name in ("reshape", "trans"):
                old, new = shape(op.operands[0].type), shape(op.result.type)
                places = op.attributes["permutation"] if op.name == "trans" else same_axes(old, new)
                if places is None:
                    return False
                found = {d for d, place in enumerate(places) if place in own[0]}
            elif op.name == "dot":
                if own[0] - {0} or own[1] - {1} or len(shape(op.result.type)) != 2:
                    return False
                found = set().union(*own)
            elif op.name in ("phi", "broadcast", "load", "store") or (
                    op.info.elementwise and op.pure):
                found = set().union(*own)
            else:
                return False
            for result in op.results:
                axes[result] = axes.get(result, set()) | found
    return all(len(found) < 2 for found in axes.values())


def _digits(rows: Rows, readers: dict[Value, list[Op]]) -> list[tuple[Value, Value | None]]:
    """The digits of the rows' numbers, the last one first, with their extents; the rows themselves
    if they have none."""
    found: list[tuple[Value, Value | None]] = []
    now: Value = rows.op.result
    while True:
        rest = [op for op in readers.get(now, []) if op.name == "srem" and op.operands[0] is now]
        if not rest or (extent := _scalar(rest[0].operands[1])) is None:
            break
        found.append((rest[0].result, extent))
        over = [op for op in readers.get(now, []) if op.name == "sdiv" and op.operands[0] is now
                and _scalar(op.operands[1]) is extent]
        if not over:
            break
        now = over[0].result
    return found or [(rows.op.result, None)]


def _scalar(value: Value) -> Value | None:
    op = defined_by(value, "splat")
    return op.operands[0] if op is not None else None


def _tap(cfg: Cfg, loop: Loop, digits: list[tuple[Value, Value | None]], more: dict[Value, Value]
         ) -> Tap | None:
    """What an iteration of the loop rests on, if that is a digit's residue."""
    counter = counter_of(loop) if loop.regular else None
    if counter is None or counter.phi.result.type != I32 or counter.predicate not in (
            _UP if counter.step > 0 else _DOWN):
        return None
    limit = int_of(counter.limit)
    if abs(limit or 0) > _LARGE or (limit is None and (counter.step < 0 or not (
            counter.limit.op is None or cfg.block_of[counter.limit.op] is cfg.order[0]))):
        return None
    found = (_residue(cfg, loop, counter, digits, more, test)
             for test in _masks(loop, counter.phi) or ())
    return next((tap for tap in found if tap is not None), None)


def _masks(loop: Loop, counter: Op) -> set[Value] | None:
    """Conditions that hold wherever an iteration of the loop adds something; None if it does more
    than add up products, of which one operand is zero elsewhere."""
    inside = set(loop.ops())
    if any(op.effects and op.name not in ("load", "br", "cond_br") for op in inside):
        return None
    found: set[Value] | None = None
    for phi in loop.header.phis():
        if phi is counter:
            continue
        stack, seen = [loop.next(phi)], set[Value]()
        while stack:
            value = stack.pop()
            op = value.op
            if value is phi.result or value in seen:
                continue
            seen.add(value)
            if op is None or op not in inside:
                return None
            if op.name == "phi":
                stack += op.operands
            elif op.name == "dot":
                masks = _zero(op.operands[0]) | _zero(op.operands[1])
                found = masks if found is None else found & masks
                stack.append(op.operands[2])
            else:
                return None
    return found


def _zero(operand: Value) -> set[Value]:
    """Conditions of all of a row without which an operand is 0."""
    op = origin(operand, ("trans", "reshape")).op
    if op is None or op.name != "psi" or len(op.operands) != 4:
        return set()
    for at in (0, 2):
        holds = op.operands[at].op
        if holds is not None and holds.name == "cmpp" and op.operands[at] is holds.results[0] \
                and is_zero(origin(op.operands[3 - at], SPREADS)):
            return set(conditions(holds.operands[0], ("broadcast", "reshape")))
    return set()


def _residue(cfg: Cfg, loop: Loop, counter: Counter, digits: list[tuple[Value, Value | None]],
             more: dict[Value, Value], test: Value) -> Tap | None:
    """What a condition says of the loop's counter, if it says that a sum with it is a multiple."""
    op = defined_by(test, "icmp")
    if op is None or op.attributes["predicate"] != "eq" or not is_zero(op.operands[1]):
        return None
    rest = op.operands[0].op
    if rest is None or rest.name not in ("and", "srem") or (every := _every(cfg, rest)) is None:
        return None
    terms: list[tuple[int, Value]] = []
    found, sign, stack = None, 0, [(1, rest.operands[0])]
    assert loop.preheader is not None
    while stack:
        by, value = stack.pop()
        if value in more and digits[0][1] is None:
            stack.append((by, more[value]))
            value = digits[0][0]
        number = next((d for d, (digit, _) in enumerate(digits) if digit is value), None)
        made = value.op
        scalar = _scalar(value)
        if number is not None:
            if found is not None or by < 0:
                return None
            found = number
        elif (constant := int_of(value)) is not None:
            if abs(constant) > _LARGE:
                return None
            terms.append((by, value))
        elif scalar is not None:
            stack.append((by, scalar))
        elif value is counter.phi.result:
            sign += by
            terms.append((by, value))
        elif made is not None and made.name in ("add", "sub"):
            stack += [(by, made.operands[0]), (by if made.name == "add" else -by, made.operands[1])]
        elif isinstance(value.type, Tile) or not (
                made is None or cfg.dominates(cfg.block_of[made], loop.preheader)):
            return None
        else:
            terms.append((by, value))
    by = sign * counter.step
    if found is None or not (by % every in (1, every - 1) if isinstance(every, int) else by in (
            1, -1)):
        return None
    return Tap(loop, counter, found, terms, every, sign)


def _every(cfg: Cfg, rest: Op) -> int | Value | None:
    n, scalar = int_of(rest.operands[1]), _scalar(rest.operands[1])
    if n is not None:
        every = n if rest.name == "srem" else n + 1 if not n & (n + 1) else 0
        return every if every > 1 else None
    return scalar if scalar is not None and rest.name == "srem" and (
        scalar.op is None or cfg.block_of[scalar.op] is cfg.order[0]) else None


def _renumber(kernel: Kernel, number: Op, rows: Rows, digits: list[tuple[Value, Value | None]],
              taps: list[Tap], strides: dict[int, int | Value]) -> None:
    axis, extent = number.attributes["axis"], kernel.tile[number.attributes["axis"]]
    entry = kernel.entry
    extents = [value for _, value in digits[: max(strides) + 1] if value is not None]
    limits = [tap.counter.limit for tap in taps if int_of(tap.counter.limit) is None]
    made = {v.op for v in (*extents, *limits, *strides.values()) if isinstance(v, Value)}
    start = min(i for i, op in enumerate(entry.ops) if op is rows.op or (
        op.results and op.results[0] in rows.more))
    end = max(i + 1 for i, op in enumerate(entry.ops) if op in made or op is rows.op)
    later: list[Op] = []  # what follows from the rows, and stands before what tests need
    for op in entry.ops[start:end]:
        if (op.results and op.results[0] in rows.more) or any(
                v is rows.op.result or v.op in later for v in op.inputs()):
            later.append(op)
    entry.ops[start:end] = [op for op in entry.ops[start:end] if op not in later]
    b = Builder(entry, end - len(later), rows.op.span)

    def of(name: str, *operands: Value | int) -> Value:
        return b.value(name, *(v if isinstance(v, Value) else b.constant(v, I32) for v in operands))

    def holds(predicate: str, left: Value, right: Value | int) -> Value:
        right = right if isinstance(right, Value) else b.constant(right, I32)
        return b.value("icmp", left, right, predicate=predicate)

    tests, every = list[Value](), dict(strides)
    classes: Value | int = prod(n for n in strides.values() if isinstance(n, int))
    for digit, n in strides.items():
        if isinstance(n, Value):
            few = of("and", holds("sgt", n, 0), holds("sle", n, _MOST))
            every[digit] = b.value("select", few, n, b.constant(1, I32))
            classes = of("mul", every[digit], classes)
            tests += [few, holds("sle", classes, _MOST)]
    count = b.value("get_num_programs", axis=axis)
    tests.append(holds("eq", of("urem", count, classes), 0))
    whole = of("mul", count, extent)
    for place, value in enumerate(extents):
        tests += [holds("sgt", value, 0), holds("eq", of("srem", value, every.get(place, 1)), 0)]
    for value in extents:  # one after the other: their product may be too large
        positive = b.value("select", holds("sgt", value, 0), value, b.constant(1, I32))
        tests.append(holds("eq", of("srem", whole, positive), 0))
        whole = of("sdiv", whole, positive)
    tests += [holds("slt", limit, _LARGE) for limit in limits]
    sorted_ = reduce(partial(of, "and"), tests)
    own, left = {}, of("urem", number.result, classes)
    for digit, n in every.items():
        own[digit] = of("urem", left, n)
        left = of("udiv", left, n)
    tile = rows.op.result.type
    assert isinstance(tile, Tile)

    def spread(value: Value | int) -> Value:
        value = value if isinstance(value, Value) else b.constant(value, I32)
        return b.value("splat", value, type=tile)

    first = of("mul", of("udiv", number.result, classes), extent)
    i = b.value("add", b.value("range", type=tile, start=0, stop=extent), spread(first))
    values = []
    for place, value in enumerate(extents):
        n = every.get(place, 1)
        part = of("sdiv", value, n)
        part = spread(b.value("select", holds("sgt", part, 0), part, b.constant(1, I32)))
        values.append(_joined(b, b.value("srem", i, part), n, own.get(place), spread))
        i = b.value("sdiv", i, part)
    p = _joined(b, i, every[0], own[0], spread) if not extents else i
    for value, part in zip(reversed(extents), reversed(values), strict=True):
        p = b.value("add", b.value("mul", p, spread(value)), part)
    mask = b.value("splat", sorted_, type=Tile(I1, tile.shape))
    chosen = b.emit("select", mask, p, rows.op.result)
    assert b.at is not None
    entry.ops[b.at:b.at] = later
    kernel.replace({rows.op.result: chosen.result})
    chosen.operands[2] = rows.op.result
    for block in kernel.blocks:
        for op in [op for op in block.ops if op.results and op.results[0] in rows.more]:
            before = Builder(block, block.ops.index(op), op.span)
            by = before.value("splat", rows.more[op.results[0]], type=tile)
            op.operands = [chosen.result, by]
    for tap in taps:
        _fewer(tap, sorted_, own[tap.digit], every[tap.digit])


def _joined(b: Builder, value: Value, n: Value | int, residue: Value | None,
            spread: Callable[..., Value]) -> Value:
    if residue is None:
        return value
    return b.value("add", b.value("mul", value, spread(n)), spread(residue))


def _fewer(tap: Tap, sorted_: Value, residue: Value, n: Value | int) -> None:
    """Let a loop begin with the first iteration that counts, and go on with the next ones."""
    loop, phi, step = tap.loop, tap.counter.phi, tap.counter.step
    assert loop.preheader is not None and loop.latch is not None
    b = Builder(loop.preheader, len(loop.preheader.ops) - 1, phi.span)
    start, total = loop.first(phi), residue
    for sign, value in tap.terms:
        value = start if value is phi.result else value
        if isinstance(value.type, Tile):
            value = b.constant(int_of(value) or 0, I32)
        total = b.value("add" if sign > 0 else "sub", total, value)
    if (tap.sign * step + 1) % n if isinstance(n, int) else tap.sign * step != -1:
        total = b.value("sub", b.constant(0, I32), total)
    by = n if isinstance(n, Value) else b.constant(n, I32)
    ahead = b.value("srem", b.value("add", b.value("srem", total, by), by), by)
    moved = b.value("add", start, b.value("mul", ahead, b.constant(step, I32)))
    first = b.value("select", sorted_, moved, start)
    first.name = phi.result.name
    phi.operands[phi.blocks.index(loop.preheader)] = first
    after = incoming(phi, loop.latch).op
    assert after is not None
    one = after.operands[1]
    larger = by if step == 1 else b.value("mul", by, one)
    after.operands[1] = b.value("select", sorted_, larger, one)
