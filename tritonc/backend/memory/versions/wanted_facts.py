"""The facts that accesses lack: what would make them wide, unmasked, or boxes of a tensor.

    unit       a scalar is 1: then an axis of the tile is contiguous (`r * stride`)
    multiple   a scalar or a pointer is a multiple of n: then runs are aligned
    sign       a scalar is not negative: then a tensor begins behind its base, and an unsigned bound
               is a bound
    full       end <= limit: then a mask holds for the whole tile
    inside     the same of indices that wrap or are clamped (`wanted_inside`)
    positive   a float is above 0: then exponentials of products are fused (`fuse_exponents`)
    apart      what is accessed of two parameters does not meet (`wanted_apart`)

Each is about scalars that are known before the accesses run: parameters, program ids, and values
that are loaded or computed from them outside of loops.  `specialize` tests them once, and makes the
body that may rely on them.  What is promised or proved is not wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm, prod

from tritonc.analysis import ragged
from tritonc.analysis.affine import Affine, Affinity, Bound, Iteration, is_counter
from tritonc.analysis.axis import axis_info
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.multiples import Multiples, MultiplesNeeded, joined
from tritonc.analysis.quotients import gathered
from tritonc.analysis.records import Record, fields, unaligned
from tritonc.analysis.signs import Signs, known_signs, loop_order
from tritonc.analysis.values import computed_from
from tritonc.backend.dots.exponentials import wanted_factors
from tritonc.backend.dots.share_repeats import Runs, loads_of_products, share_repeats
from tritonc.backend.dots.together import large
from tritonc.backend.launch.choose_warps import streaming_threads
from tritonc.backend.layout import layout_choice
from tritonc.backend.memory.masks.drop_selections import steps_of_selections
from tritonc.backend.memory.masks.unwrap_indices import unwrap, wrapping
from tritonc.backend.memory.versions.moved_tiles import Moved, moved_tiles
from tritonc.backend.memory.versions.wanted import (
    NOTHING_TOLD,
    Text,
    Told,
    Wanted,
    axis_of,
    axis_of_start,
    is_number,
    known_before_loops,
    renamed,
    testable_scalars,
)
from tritonc.backend.memory.versions.wanted_apart import wanted_apart
from tritonc.backend.memory.versions.wanted_inside import begins_inside, suppose_inside
from tritonc.backend.memory.versions.wanted_strides import (
    ACCESS,
    Divisors,
    Units,
    fixed,
    limits_of,
    multiples_of,
    reach_of,
    signs_of,
)
from tritonc.backend.pipeline.tensors.tensor_access import split_start
from tritonc.backend.pipeline.tensors.windows import window
from tritonc.backend.target.matrix import BY_NAME
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, element, is_int, is_pointer, scalar, shape

SMALL = 32  # tiles of fewer elements are not worth a second body
_MOST_BITS = 62  # of a sum that is tested


def wanted_facts(kernel: Kernel, tensor: bool, told: Mapping[Value, int] | None = None,
                 not_one: frozenset[Value] = frozenset(), edge: int = 0,
                 operands: bool = False) -> Wanted:
    """What the accesses of a kernel lack: see `_wanted`.  Tiles at edges begin earlier where that
    leaves all accesses as wide."""
    moved = {} if tensor or edge else moved_tiles(kernel)
    while True:
        found = _wanted(kernel, tensor, told or {}, not_one, edge, moved, operands)
        tested = {axis_of_start(end) for end, _ in found.full.values()}
        left = {axis: one for axis, one in moved.items() if axis in tested and not any(
            axis_of(v) == axis for v in found.subjects) and not found.apart.pairs
            and found.multiples.get(one.limit, 1) % found.whole.get(axis, 1) == 0}
        if left == moved:
            return found
        moved = left


def _wanted(kernel: Kernel, tensor: bool, told: Mapping[Value, int], not_one: frozenset[Value],
            edge: int, moved: Mapping[int, Moved], operands: bool) -> Wanted:
    """What the accesses of a kernel lack.

    `tensor`: TMA brings the operands, which masks them at no cost: masks stay, and the signs of
    strides and offsets are wanted.  `told`: values of parameters; no multiple is wanted that one of
    these is not.  `not_one`: strides that are not supposed to be 1.  `edge`: the tiles are
    not full, and an access has so many elements at most.  `operands`: stores and
    single rows want nothing.
    """
    never: frozenset[Value] = frozenset()
    while True:
        found = _wanted_facts(kernel, Told(tensor, told, never, not_one, edge, moved, operands))
        missed = {v for v, n in found.multiples.items() if told.get(v, 0) % n} - never
        if not missed:
            return found
        never |= missed


def _wanted_facts(kernel: Kernel, told: Told) -> Wanted:
    """The same, of which no value of `told.never` need be a multiple."""
    text, needs = Text(kernel), dict[Value, None]()
    if wrapping(kernel):  # looked at as if their indices were not negative
        text = text.supposing({})
        signs = known_signs(text.kernel, cfg := Cfg(text.kernel), text.kernel.entry)
        signs.testable = testable_scalars(cfg)
        needs = renamed(unwrap(text.kernel, signs, text.kernel.blocks) or {}, text.own)
    # Looked at as if indices were inside, and what tiles repeat were loaded once.
    text, supposed_inside = (text, {}) if told.edge else suppose_inside(text)
    inside = {old: plain.renamed(text.own) for op, plain in supposed_inside.items()
              for old in [text.own.get(op.result, op.result).op]
              if old is not None and old is not op}
    text, assumed = _shared(text, told.never)
    collector = _Collector(text.kernel, told)
    not_one = {*told.not_one, *(v for v, old in text.own.items() if old in told.not_one)}
    units = Units(collector.infos, collector.testable, not_one,
                  limits_of(text.kernel)).asked(collector.accesses())
    own = text.own
    if units:  # looked at as if they were 1
        text = text.supposing({v: make_op("constant", [], v.type, value=1) for v in units})
        collector = _Collector(text.kernel, told)
    asked = collector.divisors.asked(collector.placed())
    for last in (False, True):  # looked at as if they were multiples; then those that helped
        hints = multiples_of(dict(pair for some in asked for pair in some.items()))
        if not hints:
            break
        supposed = text.supposing(hints)
        helped = _Collector(supposed.kernel, told)
        asked = helped.divisors.helped(helped.placed(), asked)
        if last:
            text, collector = supposed, helped
            collector.want({hint.operands[0]: hint.attributes["n"] for hint in hints.values()})
    known = {*kernel.parameters, *(v for op in kernel.ops() for v in op.results)}
    collector.want(assumed)
    found = collector.run().renamed(text.own)
    found.whole = collector.found.whole
    found.units, found.signs = renamed(units, own), {**needs, **found.signs}
    # Copies that were looked at have other values, of loads that a later pass makes narrow, whose
    # masks it derives from the kernel's.
    found = found.kept(known.__contains__)
    found.inside, found.apart = inside, wanted_apart(kernel)
    found.edges |= bool(inside) and begins_inside(kernel)
    found.signs.update(found.apart.needs)
    return found


def _shared(text: Text, never: frozenset[Value]) -> tuple[Text, Multiples]:
    """The kernel with loads of what their tiles repeat, as far as parameters may be assumed to be
    multiples of the runs; and what is assumed."""
    kernel, cfg = text.kernel, Cfg(text.kernel)
    runs = Runs(axis_info.analyze(kernel), known_signs(kernel, cfg, kernel.entry),
                lambda v: v in kernel.parameters and is_int(v.type) and v not in never)
    repeated = [load for load in loads_of_products(kernel, cfg)
                if runs.of_load(load, large(cfg.block_of[load])) is not None]
    for test in steps_of_selections(kernel, cfg):  # whole steps of K need none
        for axis, extent in enumerate(shape(test.result.type)):
            runs.of(test.result, axis, extent, extent)
    if not repeated:
        return text, runs.assumed
    shared = text.supposing({})
    shared.kernel.info = [replace(i, multiple_of=lcm(i.multiple_of, runs.assumed.get(v, 1)))
                          for v, i in zip(kernel.parameters, kernel.info, strict=True)]
    share_repeats(shared.kernel)
    return shared, runs.assumed


def wanted_of(kernel: Kernel, op: Op) -> Multiples:
    """What would have to be multiples so that an access alone is wide, whose addresses go on only
    where remainders do, or which stands behind a product of gathered rows; nothing where that is
    not enough."""
    collector = _Collector(kernel)
    at = [one for one, _ in collector.accesses()].index(op) if prod(
        shape(op.operands[0].type)) >= SMALL else -1
    info, reach = collector.infos.get(op.operands[0]), reach_of(op)
    if at < 0 or info is None:
        return {}
    if max(info.contiguity) > 1 and any(op.name == "dot" and gathered(op) for op in kernel.ops()):
        collector.alignment(op, collector.outside)
        return {} if collector.found.hindered else collector.found.multiples
    if max(info.contiguity) > 1 or reach < 2:
        return {}
    divisors = {v: reach for _, v in collector.divisors.remainders(op.operands[0], reach)}
    if not divisors:
        return {}
    text = Text(kernel).supposing(multiples_of(divisors))
    supposed = _Collector(text.kernel)
    twin, _ = supposed.accesses()[at]
    needs = supposed.divisors.needs(twin)
    return {} if needs is None else joined(divisors, renamed(needs, text.own))


class _Collector:
    """The facts that one text of the kernel lacks."""

    def __init__(self, kernel: Kernel, told: Told = NOTHING_TOLD) -> None:
        self.kernel, self.told, tensor = kernel, told, told.tensor
        self.tensor = tensor
        self.boxes = tensor and any(map(large, kernel.blocks))  # others are copied by threads
        self.infos, self.apart = axis_info.analyze(kernel), ragged.may_be_ragged(kernel)
        self.cfg = cfg = Cfg(kernel)
        self.testable = testable_scalars(cfg)
        self.multiples = MultiplesNeeded(self.infos, lambda v: self.divisible(
            v) and not computed_from(v, "get_program_id", through_phis=True), not tensor)
        self.affinities = {loop: Affinity(Iteration(loop), self.signs(loop)) for loop in cfg.loops}
        self.outside = Affinity(signs=self.signs(None))
        self.divisors = Divisors(self.infos, self.multiples, self.divisible,
                                 any(op.name == "dot" for op in kernel.ops()))
        self.fields: dict[Block, dict[Op, tuple[Record, Affine]]] = {}
        self.found = Wanted(multiples=self.multiples.wanted, moved=dict(told.moved))
        self.least = _least_rows(kernel)
        self.dots = dots = [op for op in kernel.ops() if op.name == "dot"]
        largest = max((r.type.size for op in kernel.ops() for r in op.results
                       if isinstance(r.type, Tile)), default=1)
        self.held = largest // (WARP_SIZE if dots else streaming_threads(kernel))
        # Products on CUDA cores take so long, and additions to memory where there are no loops,
        # that masks of whole accesses cost nothing, and an edge tile without wide accesses is what
        # all others wait for.
        self.slow = all("instruction" not in op.attributes for op in dots) if dots else (
            not cfg.loops and any("wide" in op.attributes for op in kernel.ops()))

    def divisible(self, value: Value) -> bool:
        """Whether a value may be tested to be a multiple."""
        return value not in self.told.never and self.testable(value)

    def signs(self, loop: Loop | None) -> Signs:
        place = self.kernel.entry if loop is None else loop.preheader or loop.header
        found = known_signs(self.kernel, self.cfg, place, loop_order(loop))
        found.testable = self.testable
        return found

    def accesses(self) -> list[tuple[Op, Affinity]]:
        """Loads and stores of tiles, with the forms of values where they stand."""
        return [(op, self.outside if loop is None else self.affinities[loop])
                for block in self.cfg.order for loop in [self.cfg.innermost.get(block)]
                for op in block.ops if (op.name in ("load", "store") or "wide" in op.attributes)
                and isinstance(op.operands[0].type, Tile) and op.operands[0].type.size >= SMALL
                and not (self.told.operands and (
                    op.name != "load" or op.operands[0].type.size <= self.held))]

    def placed(self) -> list[tuple[Op, bool]]:
        """The accesses, and whether each is outside of loops."""
        return [(op, affinity is self.outside) for op, affinity in self.accesses()]

    # ---- the others

    def run(self) -> Wanted:
        found = self.found
        for op, affinity in self.accesses():
            self.alignment(op, affinity)
            if self.tensor:
                self.not_negative(op, affinity)
        if self.tensor or found.full:
            for affinity in (self.outside, *self.affinities.values()):
                found.signs.update(affinity.assumed)
        found.positive.update((v, None) for v in wanted_factors(self.kernel)
                              if known_before_loops(self.cfg, v))
        return found

    def alignment(self, op: Op, affinity: Affinity) -> None:
        """What makes the access wide, and its mask one of whole tiles or accesses."""
        pointer = op.operands[0]
        t, info, found = pointer.type, self.infos.get(pointer), self.found
        assert isinstance(t, Tile)
        if info is None:
            return
        axis = layout_choice.fastest_axis(info, len(t.shape))
        size = scalar(pointee(t)).bytes
        guard = self.infos.get(op.guard) if op.guard is not None else None
        slight = self.slight(op, affinity)
        if info.contiguity[axis] == 1 and op.name != "atomic_rmw":
            self.interleaved(op, affinity)
        bounds, _, others = affinity.parts(op.guard, len(t.shape))
        reach = min(ACCESS // size, self.told.edge or ACCESS, info.contiguity[axis], self.held)
        if axis_info.vector_length(info, guard, axis, size) < reach:
            needs = self.multiples.of_pointer(pointer, axis, reach, op.name == "load")
            if needs is None:
                found.hindered.append((op, "an offset or a stride is computed from a value that "
                                       f"may not be a multiple of {reach}, and cannot be checked "
                                       "before the access runs"))
                if self.told.never and not others:  # masks of elements cost most
                    for bound in bounds:
                        self.bound(bound, t.shape[bound.axis], bound.axis == axis, 1, affinity)
                return
            if not slight or all(is_pointer(v.type) for v in needs):
                self.want(needs)
        if slight:
            return
        free = op.name == "load" and not op.attributes.get("volatile") and (
            self.apart or ragged.too_fine(op, self.infos))
        if not free and any(
                axis in where and (value not in self.infos or self.infos[value].constancy[
                    where.index(axis)] < reach) for value, where in others):
            found.hindered.append((op, f"its mask may differ among {reach} neighbours: it is not a "
                                   "bound on each axis"))
        for bound in bounds:
            if free or not others:
                self.bound(bound, t.shape[bound.axis], bound.axis == axis, reach, affinity)
                found.edges |= op.name == "load" and bound.test in found.full \
                    and bound.axis == axis and reach > 1 < len(t.shape) \
                    and self.limit(bound) is not None
            elif bound.axis == axis:
                self.whole_accesses(bound, reach)

    def slight(self, op: Op, affinity: Affinity) -> bool:
        """Whether an access matters little beside those of the products' loops, as those of a
        factor or an index of each row: no size that divides it is worth a body that few take."""
        pointer = op.operands[0].type
        assert isinstance(pointer, Tile)
        return bool(self.dots) and affinity is self.outside and pointer.size <= self.held

    def interleaved(self, op: Op, affinity: Affinity) -> None:
        """Fields of records, which LLVM moves together where the first one is aligned."""
        block = self.cfg.block_of[op]
        if block not in self.fields:
            self.fields[block] = fields(block.ops, affinity)
        found = self.fields[block].get(op)
        needs = unaligned(*found, self.infos) if found is not None else None
        if needs and all(is_pointer(v.type) or self.multiples.testable(v) for v in needs):
            self.want(needs)

    def want(self, needs: Multiples) -> None:
        self.found.multiples = self.multiples.wanted = joined(self.found.multiples, needs)

    def bound(self, bound: Bound, extent: int, contiguous: bool, reach: int, affinity: Affinity
              ) -> None:
        """A bound that holds for the whole tile, or one whose limit is a multiple of the access."""
        end = bound.start + number(extent)
        values = [*bound.start.values(), *bound.limit.values()]
        known = all(not is_counter(v) and (self.testable(v) or is_number(v)) for v in values) \
            and _fits(end) and _fits(bound.limit) and (end - bound.limit).constant is None
        limit = self.limit(bound)
        # A row that ends inside its tile does so in all programs: whole accesses keep its mask.
        somewhere = any(v.op is not None for v in values) or not contiguous or limit is None
        few = (not contiguous and extent in self.least) or self.told.edge
        # If all tiles are known to be full, none is an edge.
        edges = limit is None or limit not in self.told.values or self.told.values[limit] % extent
        cheap = self.slow and reach > 1 and (limit is not None or not contiguous) and edges
        axis = axis_of_start(end)
        if contiguous:  # where tiles begin earlier, accesses are aligned by their limit
            self.found.whole[axis] = max(reach, self.found.whole.get(axis, 1))
        roomy = limit is not None and axis in self.told.moved and self.told.values.get(
            limit, 0) >= extent
        if known and somewhere and not self.tensor and not few and (not cheap or roomy):
            self.found.full[bound.test] = end, bound.limit
        elif contiguous and not self.whole_accesses(bound, reach) and not self.boxes and (
                reach > ACCESS // 4 or (self.slow and reach > 1)):
            self.steps(bound, reach)

    def limit(self, bound: Bound) -> Value | None:
        """The parameter that ends a bound, perhaps several times, if that is all."""
        (values, _) = bound.limit.terms[0] if len(bound.limit.terms) == 1 else ((), 0)
        return values[0] if len(values) == 1 and values[0].op is None and self.divisible(
            values[0]) else None

    def whole_accesses(self, bound: Bound, reach: int) -> bool:
        """Want the parameter that ends a bound to be a multiple; whether it is not known to be."""
        limit = self.limit(bound)
        if limit is None or not bound.limit.terms[0][1] % reach \
                or not self.infos[limit].every % reach:
            return False
        self.want({limit: reach})
        return True

    def steps(self, bound: Bound, reach: int) -> None:
        """A bound that goes on by whole accesses from iteration to iteration, as what is left of K
        does, if a parameter is a multiple: threads cannot copy less than four bytes by cp.async,
        and the copies of a product on CUDA cores take its registers."""
        left = [monomial for monomial, n in bound.limit.terms if n % reach]
        if len(left) == 1 and len(left[0]) == 1 and left[0][0].op is None and self.divisible(
                left[0][0]) and self.infos[left[0][0]].every % reach:
            self.want({left[0][0]: reach})

    def not_negative(self, op: Op, affinity: Affinity) -> None:
        """What TMA moves has no negative strides and begins behind its base.

        The extent of an axis is no question: where it is negative, nothing is accessed.
        """
        form, seen = affinity.of(op.operands[0]), window(op, affinity)
        if seen is not None:
            self.found.signs.update(signs_of(seen.form, affinity.signs) or {})
            return
        if form is None or form.base is None or len(form.strides) != 2:
            return
        needs = signs_of(form, affinity.signs)
        inner = next((d for d in (1, 0) if form.strides[d].constant == 1), None)
        mask = affinity.mask(op.guard, 2)
        if needs is None or inner is None:
            return
        starts = split_start(fixed(form.offset), form.strides[1 - inner])
        for bound in mask.bounds if mask else ():
            start = starts[0 if bound.axis == inner else 1]
            extent = fixed(bound.limit) - fixed(bound.start) + start
            if len(extent.terms) == len(extent.values()) == 1 and extent.terms[0][1] > 0:
                needs.pop(extent.values()[0], None)
        self.found.signs.update(needs)


def _least_rows(kernel: Kernel) -> set[int]:
    """The rows of products on mma.sync that have no more than an instruction: the source may have
    fewer, so that no tile is ever full.  Their masks are the same in all steps of K."""
    rows = [(BY_NAME[op.attributes["instruction"]].rows, shape(op.result.type)[-2])
            for op in kernel.ops() if op.name == "dot" and "instruction" in op.attributes]
    return {tile for least, tile in rows if tile == least}


def _fits(polynomial: Linear) -> bool:
    """Whether 64 bits hold the sum whatever its values are."""
    terms = [(values, n) for values, n in polynomial.terms if values]
    if len(terms) == len(polynomial.terms) == 1 and len(terms[0][0]) == terms[0][1] == 1:
        return True
    return all(n.bit_length() + sum(element(v.type).bits - 1 for v in values) < _MOST_BITS
               for values, n in terms)
