"""Which parameters' accesses should be known not to meet, and how that is tested.

A store may change what a later load of another parameter reads, unless the source says `restrict`.
So a loop that stores a row of y while it loads one of x makes all threads meet in each iteration,
atomics on counts cannot wait for the end of a loop that loads, and behind a store all threads meet
before they load a factor.  What one program accesses of a
parameter is a range, from the affine forms of its pointers (in elements, both ends included):

    x + row * N + n + (0 ... TN), n + i < N        row * N  to  row * N + N - 1

and two ranges that do not meet are a test of a few scalars, at entry.  Other programs do not
matter: nothing orders them."""

from collections.abc import Callable, Iterator
from dataclasses import field

from tritonc.analysis.affine import Affine, Affinity, Iteration, is_counter
from tritonc.analysis.aliases import no_alias, pointer_roots
from tritonc.analysis.facts import Facts, full
from tritonc.analysis.linear import Linear, emit, number
from tritonc.analysis.signs import Needs, Signs, known_signs, loop_order
from tritonc.analysis.values import defined_by
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import I64, Tile, element, is_int, is_pointer, scalar, shape
from tritonc.records import NamedTuple, dataclass

MOST_PAIRS = 12  # to test at entry
MOST_RANGES = 3  # of a parameter


class Range(NamedTuple):
    """Elements from `low` to `high` behind a parameter, of so many bytes."""

    low: Linear
    high: Linear
    bytes: int


@dataclass
class Apart:
    """`pairs` to test, by the `ranges` of each; `all`: those that then meet no other."""

    pairs: list[tuple[Value, Value]] = field(default_factory=list)
    ranges: dict[Value, list[Range]] = field(default_factory=dict)
    all: dict[Value, None] = field(default_factory=dict)
    needs: Needs = field(default_factory=dict)  # what must not be negative


def assumed_apart(kernel: Kernel) -> Apart:
    """What to test; nothing where neither a loop would gain nor what loads behind a store."""
    found = Apart()
    cfg = Cfg(kernel)
    if any(op.name == "dot" for op in kernel.ops()) and not any(
            map(_multiplies_and_stores, cfg.loops)):
        return found
    roots = pointer_roots(kernel)
    used: dict[Value, list[Op]] = {}
    written: set[Value] = set()
    moving: set[Value] = set()  # those that loops access, or what follows a store in a block
    stored: dict[Block | None, set[Value]] = {}
    for op, pointer in _accesses(kernel):
        root = roots.get(pointer)
        if root is None or root not in kernel.parameters or no_alias(kernel, root):
            continue
        used.setdefault(root, []).append(op)
        if WRITE in op.effects:
            written.add(root)
        block = cfg.block_of.get(op)
        if block in cfg.innermost and isinstance(pointer.type, Tile):
            moving.add(root)
        if op.name == "store":
            stored.setdefault(block, set()).add(root)
        elif op.name == "load" and (before := stored.get(block, set()) - {root}):
            moving |= {root, *before}
    looped = set(moving)

    def pairs_of(some: set[Value]) -> list[tuple[Value, Value]]:
        return [(a, b) for i, a in enumerate(used) for b in list(used)[i + 1 :]
                if (a in written or b in written) and (a in some or b in some)]

    if len(pairs := pairs_of(moving)) > MOST_PAIRS:  # those alone that a loop writes
        moving &= {root for op, pointer in _accesses(kernel) if WRITE in op.effects
                   and cfg.block_of.get(op) in cfg.innermost and (root := roots.get(pointer))}
        pairs = pairs_of(moving)
    if not any(a in looped and b in looped for a, b in pairs) or len(pairs) > MOST_PAIRS:
        return found
    ranges = _Ranges(kernel, cfg)
    for root in dict.fromkeys(v for pair in pairs for v in pair):
        known = ranges.of(used[root])
        if known:
            found.ranges[root] = known
    found.pairs = [(a, b) for a, b in pairs if a in found.ranges and b in found.ranges]
    tested = set(found.pairs)
    found.all = {root: None for root in found.ranges if root in moving
                 and all(pair in tested for pair in pairs if root in pair)}
    found.pairs = [(a, b) for a, b in found.pairs if a in found.all or b in found.all]
    found.ranges = {root: found.ranges[root] for pair in found.pairs for root in pair}
    found.needs = dict.fromkeys(ranges.needs) if found.pairs else {}
    return Apart() if not any(a in looped and b in looped for a, b in found.pairs) else found


def _multiplies_and_stores(loop: Loop) -> bool:
    """Whether a result is stored, or added to memory, before operands of the next product are
    loaded."""
    ops = list(loop.ops())
    return any(op.name == "dot" for op in ops) and any(WRITE in op.effects for op in ops)


def _accesses(kernel: Kernel) -> Iterator[tuple[Op, Value]]:
    for op in kernel.ops():
        pointer = next((v for v in op.operands if is_pointer(v.type)), None)
        if pointer is not None and op.effects & {READ, WRITE}:
            yield op, pointer


class _Ranges:
    def __init__(self, kernel: Kernel, cfg: Cfg) -> None:
        self.kernel, self.cfg, self.facts = kernel, cfg, Facts(kernel)
        self.needs: Needs = {}
        self.place = kernel.entry  # of the access
        self.early = _early(kernel)
        self.affinities: dict[Loop | None, Affinity] = {}

    def affinity(self, loop: Loop | None) -> Affinity:
        if loop not in self.affinities:
            place = self.kernel.entry if loop is None else loop.preheader or loop.header
            signs = known_signs(self.kernel, self.cfg, place, loop_order(loop))
            signs.testable = lambda v: v.op is None and not is_counter(v)
            self.affinities[loop] = Affinity(Iteration(loop) if loop else None, signs)
        return self.affinities[loop]

    def of(self, accesses: list[Op]) -> list[Range]:
        """The ranges, joined where only numbers differ; None where one is unknown, or too many."""
        found: dict[object, Range] = {}
        for op in accesses:
            one = self.one(op)
            if one is None:
                return []
            key = one.low.symbolic, one.high.symbolic
            other = found.setdefault(key, one)
            found[key] = Range(
                min(one.low, other.low, key=lambda end: end.constant_term),
                max(one.high, other.high, key=lambda end: end.constant_term), one.bytes)
        return list(found.values()) if len(found) <= MOST_RANGES else []

    def one(self, op: Op) -> Range | None:
        pointer = next(v for v in op.operands if is_pointer(v.type))
        self.place = self.cfg.block_of[op]
        loop = self.cfg.innermost.get(self.place)
        affinity = self.affinity(loop)
        found = self.sum(pointer, affinity)
        if found is None:
            return None
        form, (least, most) = found
        extents = shape(pointer.type)
        for stride in form.strides:
            if not self.not_negative(stride, affinity.signs):
                return None
        low, high = form.offset + number(least), form.offset + number(most)
        end = sum(((s.scaled(n - 1)) for n, s in zip(extents, form.strides, strict=True)), high)
        ends = [end, *self.masked(op, affinity, form, high)]
        if loop is None and self.kernel.attributes.get("single_trips"):
            ends.reverse()  # a row that one tile holds may be shorter than that
        start: Linear | None = low
        while loop is not None and start is not None:
            tested = self.cfg.block_of[op] is not loop.header
            start, ends = self.first(loop, start, tested), self.last(loop, ends, tested)
            loop = loop.parent
        first = self.extreme(start, affinity.signs, 0) if start is not None else None
        last = next((greatest for quotients in (False, True)  # masks are nearer than those
                     for each in (reversed(ends) if quotients else ends) if (
                         greatest := self.extreme(each, affinity.signs, 1, quotients)) is not None),
                    None)
        if first is None or last is None:
            return None
        return Range(first, last, scalar(pointee(pointer.type)).bytes)

    def sum(self, pointer: Value, affinity: Affinity) -> tuple[Affine, tuple[int, int]] | None:
        """The affine part of an address, and bounds of the rest: of indices in a small interval."""
        extents = shape(pointer.type)
        total, least, most, stack = Affine(Linear(), (Linear(),) * len(extents)), 0, 0, [pointer]
        while stack:
            value = stack.pop()
            form, op = affinity.of(value), value.op
            if form is not None and shape(value.type) == extents:
                total = Affine(total.offset + form.offset, tuple(
                    a + b for a, b in zip(total.strides, form.strides, strict=True)))
            elif op is not None and op.name in ("add", "addptr"):
                stack += op.operands
            elif is_int(value.type) and (known := self.interval(value)) is not None:
                least, most = least + known[0], most + known[1]
            else:
                return None
        return total, (least, most)

    def interval(self, value: Value) -> tuple[int, int] | None:
        found = self.facts.interval(value)
        return None if found == full(element(value.type).bits) else found

    def first(self, loop: Loop, low: Linear, tested: bool) -> Linear | None:
        """The least address over all iterations of a loop, of the least in one; `tested`: of
        those whose test holds."""
        parts = self.parts(loop, low)
        if parts is None:
            return None
        rises = self.not_negative(parts[1], self.affinity(loop).signs)
        return parts[0] if rises else self.by_test(loop, parts[0], parts[1], -1, tested)

    def last(self, loop: Loop, ends: list[Linear], tested: bool) -> list[Linear]:
        """Bounds of the address over all iterations, of those in one: masks in a row bound it by
        themselves, and so does the first iteration where addresses fall; others by how often the
        loop runs."""
        split = [parts for end in ends if (parts := self.parts(loop, end)) is not None]
        found = [start for start, step in split if not step.terms]
        falls = [start for start, step in split if step.terms
                 and self.not_negative(step.scaled(-1), self.affinity(loop).signs)]
        return found + falls + [end for start, step in split if step.terms
                                and (end := self.by_test(loop, start, step, 1, tested)) is not None]

    def parts(self, loop: Loop, address: Linear) -> tuple[Linear, Linear] | None:
        """An address in the first iteration, and how it moves from one to the next."""
        affinity = self.affinity(loop)
        assert affinity.iteration is not None
        return affinity.seen(address).split(affinity.iteration.counter)

    def masked(self, op: Op, affinity: Affinity, form: Affine, offset: Linear) -> Iterator[Linear]:
        """The greatest address by each bound of the mask, and by all of them."""
        extents = shape(op.operands[0].type)
        mask = affinity.mask(op.guard, len(extents))
        steps = [number(n - 1) for n in extents]
        every = list(steps)
        for bound in mask.bounds if mask else ():
            own = list(steps)
            own[bound.axis] = every[bound.axis] = bound.limit - bound.start - number(1)
            yield sum((n * s for n, s in zip(own, form.strides, strict=True)), offset)
        yield sum((n * s for n, s in zip(every, form.strides, strict=True)), offset)

    def by_test(self, loop: Loop, start: Linear, step: Linear, sign: int, tested: bool
                ) -> Linear | None:
        """A bound of an address that rises (sign 1) or falls (-1): the loop's header tests
        `room - shrinks * counter > 0`, and runs once more than that holds."""
        affinity, test = self.affinity(loop), loop.header.terminator
        compare = test.operands[0].op if test.name == "cond_br" else None
        if compare is None or compare.name != "icmp" or test.blocks[0] not in loop \
                or test.blocks[1] in loop:
            return None
        predicate = compare.attributes["predicate"]
        a, b = (affinity.of(v) for v in compare.operands)
        if a is None or b is None or predicate not in ("slt", "sle", "sgt", "sge"):
            return None
        more = b.offset - a.offset if predicate in ("slt", "sle") else a.offset - b.offset
        moved = self.parts(loop, more + number(predicate in ("sle", "sge")))
        shrinks = moved[1].scaled(-1) if moved is not None else Linear()
        turns = step.divided(shrinks)
        if moved is None or turns is None or not all(
                self.not_negative(each, affinity.signs) for each in (shrinks, turns.scaled(sign))):
            return None
        if not tested and not self.not_negative(moved[0], affinity.signs):
            return None
        return start + turns * (moved[0] - number(tested))

    def limit(self, value: Value, signs: Signs) -> Linear | None:
        """What a counter stays below in its loop, and the quotient of one where the limit is a
        multiple of the divisor, or the remainder, as programs are numbered by hand."""
        op = value.op
        if op is None or op.name not in ("phi", "sdiv", "srem"):
            return None
        if op.name == "phi":
            loop = next((one for one in self.cfg.loops if op in one.header.phis()
                         and self.place in one.blocks), None)
            end = loop.header.terminator if loop is not None else None
            test = defined_by(end.operands[0], "icmp") if end is not None \
                and end.name == "cond_br" else None
            if loop is None or end is None or end.blocks[0] not in loop or test is None \
                    or any(one.effects & {READ, WRITE} for one in loop.header.ops) \
                    or test.attributes["predicate"] != "slt" or test.operands[0] is not value:
                return None
            form = self.affinity(None).of(test.operands[1])
            return form.offset if form is not None else None
        by = self.affinity(None).of(op.operands[1])
        if by is None or not all(self.not_negative(Linear((((v,), 1),)), signs)
                                 for v in op.operands):
            return None
        whole = self.limit(op.operands[0], signs) if op.name == "sdiv" else None
        return by.offset if op.name == "srem" else whole and whole.divided(by.offset)

    def not_negative(self, polynomial: Linear, signs: Signs) -> bool:
        """Whether no term is negative, or none would be after a test."""
        needs = signs.of_polynomial(polynomial)
        self.needs.update(needs or {})
        return needs is not None

    def extreme(self, polynomial: Linear, signs: Signs, side: int, quotients: bool = False
                ) -> Linear | None:
        """The least (0) or greatest (1) value, made of what is known at entry."""
        total = Linear()
        for values, n in polynomial.terms:
            inner = [v for v in values if is_counter(v) or not (v.op is None or v.op in self.early)]
            if not inner:
                total += Linear(((values, n),))
                continue
            rest = Linear(((tuple(v for v in values if v is not inner[0]), n),))
            known = self.interval(inner[0]) if not is_counter(inner[0]) else None
            if side == 0 and known is None and n > 0 and self.not_negative(
                    Linear(((values, n),)), signs):
                continue  # no less than 0
            if quotients and n > 0 and len(inner) == 1 and (
                    limit := self.limit(inner[0], signs)) is not None \
                    and self.not_negative(rest, signs):
                total += rest * (limit - number(1))
                continue
            if len(inner) > 1 or known is None:
                return None
            factor = rest if n > 0 else rest.scaled(-1)
            if not self.not_negative(factor, signs):
                return None
            total += rest.scaled(known[side if n > 0 else 1 - side])
        return total


def _early(kernel: Kernel) -> set[Op]:
    """What the entry computes of parameters, program ids and numbers that it loads first."""
    found: set[Op] = set()
    for op in kernel.entry.ops:
        effects = frozenset() if op.name == "assume" else op.effects
        if effects - {READ} or op.attributes.get("volatile"):
            break
        if op.name != "phi" and all(v.op is None or v.op in found for v in op.inputs()):
            found.add(op)
    return found


def values_of(apart: Apart) -> list[Value]:
    """All that the tests read."""
    return [v for ranges in apart.ranges.values() for one in ranges
            for v in (*one.low.values(), *one.high.values())] + list(apart.ranges)


def apart_tests(b: Builder, apart: Apart, here: Callable[[Value], Value]) -> Iterator[Value]:
    """A condition for each pair: one ends before the other begins."""
    ends: dict[Value, tuple[Value, Value]] = {}
    for root, ranges in apart.ranges.items():
        address = b.value("ptrtoint", root, type=I64)
        first: Value | None = None
        behind: Value | None = None
        for one in ranges:
            low = b.value("add", address, emit(b, one.low.scaled(one.bytes), I64, here))
            end = b.value("add", address, emit(
                b, (one.high + number(1)).scaled(one.bytes), I64, here))
            first = low if first is None else b.value("smin", first, low)
            behind = end if behind is None else b.value("smax", behind, end)
        assert first is not None and behind is not None
        ends[root] = first, behind
    for one_root, other in apart.pairs:
        (low, end), (start, stop) = ends[one_root], ends[other]
        yield b.value("or", b.value("icmp", end, start, predicate="sle"),
                      b.value("icmp", stop, low, predicate="sle"))
