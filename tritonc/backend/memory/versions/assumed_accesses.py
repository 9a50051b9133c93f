"""What the loads and stores of one text of a kernel lack: see `assumed_facts`."""

from tritonc.analysis import ragged
from tritonc.analysis.affine import Affine, Affinity, Bound, Iteration, is_counter
from tritonc.analysis.axis import axis_info
from tritonc.analysis.facts import Facts
from tritonc.analysis.linear import Linear, number
from tritonc.analysis.multiples import Multiples, MultiplesNeeded, joined
from tritonc.analysis.records import Record, fields, pairs, unaligned
from tritonc.analysis.row_loops import windows_of_bytes
from tritonc.analysis.runs import Runs
from tritonc.analysis.signs import Signs, known_signs, loop_order
from tritonc.analysis.tables import table_of
from tritonc.analysis.values import computed_from
from tritonc.analysis.windows import SHARED, STEP, steps_of, strided
from tritonc.backend.dots.exponentials import assumed_factors
from tritonc.backend.dots.together import large
from tritonc.backend.launch.choose_warps import streaming_threads
from tritonc.backend.layout import layout_choice
from tritonc.backend.memory.versions.assumed import (
    NOTHING_KNOWN,
    Assumed,
    Known,
    is_number,
    known_before_loops,
    testable_scalars,
)
from tritonc.backend.memory.versions.assumed_strides import ACCESS, Divisors, fixed, signs_of
from tritonc.backend.target.matrix import BY_NAME, WGMMA
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, element, is_pointer, scalar, shape
from tritonc.later import Later
from tritonc.records import cached_property

first_part = Later("tritonc.backend.pipeline.tma.parts", "first_part")
window = Later("tritonc.backend.pipeline.tma.windows", "window")
split_start = Later("tritonc.backend.pipeline.tma.tma_access", "split_start")

SMALL = 32  # tiles of fewer elements are not worth a second body
# Rows of a product by mma.sync: 16 rows of 8-bit floats by 14336 x 4096 took 87 us on an H200 by
# tiles of 32, which went to the general body.
FEW = 32
# Of a row of a window of bytes: threads have two rows of eight, which share what they load, not one
# of sixteen.  Life on an H200: 287 us by eight pixels, 267 by one row of sixteen, 258 by two.
PIXELS = 8
_MOST_BITS = 62  # of a sum that is tested


class Collector:
    """The facts that one text of the kernel lacks."""

    def __init__(self, kernel: Kernel, known: Known = NOTHING_KNOWN) -> None:
        self.kernel, self.known, tensor = kernel, known, known.tensor
        self.tensor = tensor
        self.boxes = tensor and any(map(large, kernel.blocks))  # others are copied by threads
        self.infos, self.apart = axis_info.analyze(kernel), ragged.may_be_ragged(kernel)
        self.facts, self.runs = Facts(kernel), Runs(self.infos)
        self.cfg = cfg = Cfg(kernel)
        self.testable = testable_scalars(cfg)
        self.multiples = MultiplesNeeded(self.infos, lambda v: self.divisible(
            v) and not computed_from(v, "get_program_id", through_phis=True))
        self.affinities = {loop: Affinity(Iteration(loop), self.signs(loop)) for loop in cfg.loops}
        self.outside = Affinity(signs=self.signs(None))
        self.divisors = Divisors(self.infos, self.multiples, self.divisible,
                                 any(op.name == "dot" for op in kernel.ops()))
        self.fields: dict[Block, dict[Op, tuple[Record, Affine]]] = {}
        self.pairs: dict[Block, dict[Op, tuple[Op, int, int]]] = {}
        self.found = Assumed(multiples=self.multiples.needed_before)
        self.least, self.beside = _least_rows(kernel)
        # What stands behind the loops of small tiles is asked there (`specialize_stores`).
        self.late = not self.boxes and all(block in cfg.innermost for block in cfg.order if any(
            op.name == "dot" for op in block.ops))
        self.dots = dots = [op for op in kernel.ops() if op.name == "dot"]
        # Products on CUDA cores take so long, and additions to memory where there are no loops,
        # that masks of whole accesses cost nothing, and an edge tile without wide accesses is what
        # all others wait for.
        self.slow = all("instruction" not in op.attributes for op in dots) if dots else (
            not cfg.loops and any("wide" in op.attributes for op in kernel.ops()))

    @cached_property
    def held(self) -> int:
        """The elements of the largest tile that a thread holds."""
        largest = max((r.type.size for op in self.kernel.ops() for r in op.results
                       if isinstance(r.type, Tile)), default=1)
        each = max(1, largest // (WARP_SIZE if self.dots else streaming_threads(self.kernel)))
        bytes_ = not self.dots and windows_of_bytes(self.kernel, self.cfg)
        return min(each, PIXELS) if bytes_ else each

    def divisible(self, value: Value) -> bool:
        """Whether a value may be tested to be a multiple."""
        return value not in self.known.never and self.testable(value)

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
                and not (self.known.operands and (
                    op.name != "load" or op.operands[0].type.size <= self.held
                    or (loop is None and self.late)))
                and (not self.known.records or self.of_records(op, self.outside))]

    def placed(self) -> list[tuple[Op, bool]]:
        """The accesses, and whether each is outside of loops."""
        return [(op, affinity is self.outside) for op, affinity in self.accesses()]

    # ---- the others

    def run(self) -> Assumed:
        found = self.found
        for op, affinity in self.accesses():
            self.alignment(op, affinity)
            if self.tensor:
                self.not_negative(op, affinity)
        if self.tensor or found.full:
            for affinity in (self.outside, *self.affinities.values()):
                found.signs.update(affinity.assumed)
        found.positive.update((v, None) for v in assumed_factors(self.kernel)
                              if known_before_loops(self.cfg, v))
        return found

    def alignment(self, op: Op, affinity: Affinity) -> None:
        """What makes the access wide, and its mask one of whole tiles or accesses."""
        pointer = op.operands[0]
        t, info, found = pointer.type, self.infos.get(pointer), self.found
        assert isinstance(t, Tile)
        if info is None:
            return
        table = table_of(op, self.facts) if self.dots else None
        if table is not None and table.base in self.kernel.parameters:
            self.assume({table.base: table.bytes})
        axis = layout_choice.fastest_axis(info, len(t.shape))
        size = scalar(pointee(t)).bytes
        guard = self.infos.get(op.guard) if op.guard is not None else None
        negligible = self.negligible(op, affinity)
        if info.contiguity[axis] == 1 and op.name != "atomic_rmw":
            self.interleaved(op, affinity)
            self.strided(op, affinity)
        bounds, _, others = affinity.parts(op.guard, len(t.shape))
        reach = min(ACCESS // size, self.known.edge or ACCESS, info.contiguity[axis], self.held)
        if axis_info.vector_length(info, guard, axis, size) < reach:
            needs = self.multiples.of_pointer(pointer, axis, reach, op.name == "load")
            if needs is None:
                found.hindered.append((op, "an offset or a stride is computed from a value that "
                                       f"may not be a multiple of {reach}, and cannot be checked "
                                       "before the access runs"))
                if self.known.never and not others:  # masks of elements cost most
                    for bound in bounds:
                        self.bound(bound, t.shape[bound.axis], bound.axis == axis, 1, affinity)
                return
            if not negligible or all(is_pointer(v.type) for v in needs):
                self.assume(needs)
        if negligible:
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
                found.edges |= self.brings(op) and bound.test in found.full \
                    and bound.axis == axis and reach > 1 < len(t.shape) \
                    and self.limit(bound) is not None
            elif bound.axis == axis:
                self.whole_accesses(bound, reach)

    def brings(self, op: Op) -> bool:
        """Whether an edge tile waits for it: loads; stores too, where nothing is loaded."""
        return op.name == "load" or (op.name == "store" and not any(
            other.name == "load" and shape(other.result.type) == shape(op.operands[0].type)
            for other in self.kernel.ops()))

    def negligible(self, op: Op, affinity: Affinity) -> bool:
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
            self.pairs[block] = pairs(block.ops)
        found, pair = self.fields[block].get(op), self.pairs[block].get(op)
        needs = unaligned(*found, self.infos) if found is not None else None
        if found is None and pair is not None:
            needs = self.multiples.of_pointer(pair[0].operands[0], None, pair[2])
        if needs and all(is_pointer(v.type) or self.multiples.testable(v) for v in needs):
            self.assume(needs)

    def of_records(self, op: Op, affinity: Affinity) -> bool:
        """Whether these are fields of records, as many as a mask says, if it says how many."""
        form = affinity.of(op.operands[0])
        apart = strided(form) if form is not None else None
        return form is not None and apart is not None and not any(
            bound.axis == apart[0] for bound in affinity.parts(
                op.guard, len(form.strides), steps_of(form, *apart))[0])

    def strided(self, op: Op, affinity: Affinity) -> None:
        """Every n-th element, which whole accesses bring where rows begin and end with them.  But
        for products it is not worth a size that divides: a fact that fails leaves the fast body."""
        form = affinity.of(op.operands[0]) if op.name == "load" else None
        if form is None and self.dots:  # a remainder by what is supposed to be a multiple
            affinity = self.runs
            form = affinity.of(op.operands[0]) if op.name == "load" else None
        apart = strided(form) if form is not None else None
        if form is None or form.base is None or apart is None or op.attributes.get("volatile"):
            return
        alike = [one for one in self.cfg.block_of[op].ops if one.name == "load"
                 and (its := affinity.of(one.operands[0])) is not None
                 and (its.base, its.strides) == (form.base, form.strides)]
        if apart[1] > max(STEP, SHARED * len(alike)):
            return
        reach = ACCESS // scalar(pointee(form.base.type)).bytes
        needs = unaligned(Record(0, apart[0], 0, 0, 0), form, self.infos)
        if needs is None or not all(is_pointer(v.type) or (
                self.dots and self.multiples.testable(v)) for v in needs):
            return
        self.assume(needs)
        for steps in ((), steps_of(form, *apart)) if self.dots else ():
            for bound in affinity.parts(op.guard, len(form.strides), steps)[0]:
                if bound.axis == apart[0]:
                    self.whole_accesses(bound, reach)

    def assume(self, needs: Multiples) -> None:
        self.found.multiples = self.multiples.needed_before = joined(self.found.multiples, needs)

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
        few = (not contiguous and extent in self.least) or extent in self.beside or self.known.edge
        # If all tiles are known to be full, none is an edge.
        edges = limit is None or limit not in self.known.values or self.known.values[limit] % extent
        cheap = self.slow and reach > 1 and (limit is not None or not contiguous) and edges
        if known and somewhere and not self.tensor and not few and not cheap:
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
        self.assume({limit: reach})
        return True

    def steps(self, bound: Bound, reach: int) -> None:
        """A bound that goes on by whole accesses from iteration to iteration, as what is left of K
        does, if a parameter is a multiple: threads cannot copy less than four bytes by cp.async,
        and the copies of a product on CUDA cores take its registers."""
        left = [monomial for monomial, n in bound.limit.terms if n % reach]
        if len(left) == 1 and len(left[0]) == 1 and left[0][0].op is None and self.divisible(
                left[0][0]) and self.infos[left[0][0]].every % reach:
            self.assume({left[0][0]: reach})

    def not_negative(self, op: Op, affinity: Affinity) -> None:
        """What TMA moves has no negative strides and begins behind its base.

        The extent of an axis is no question: where it is negative, nothing is accessed."""
        form, seen = affinity.of(op.operands[0]), window(op, affinity)
        if seen is not None:
            self.found.signs.update(signs_of(seen.form, affinity.signs) or {})
            return
        if form is None:
            form = first_part(op, affinity, self.infos)
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


def _least_rows(kernel: Kernel) -> tuple[set[int], set[int]]:
    """The rows of products on wgmma that have no more than an instruction, and on mma.sync FEW: the
    source may have fewer, so that no tile is ever full.  On mma.sync the columns beside them, for a
    tile that lacks some all others would wait.  Their masks are the same in all steps of K."""
    least, beside = set(), set()
    for op in kernel.ops():
        if op.name == "dot" and "instruction" in op.attributes:
            row, (*_, m, n) = BY_NAME[op.attributes["instruction"]], shape(op.result.type)
            if row.kind == WGMMA:
                least |= {m} & {row.rows}
            elif min(m, n) <= FEW:
                least.add(min(m, n))
                beside.add(max(m, n))
    return least, beside


def _fits(polynomial: Linear) -> bool:
    """Whether 64 bits hold the sum whatever its values are."""
    terms = [(values, n) for values, n in polynomial.terms if values]
    if len(terms) == len(polynomial.terms) == 1 and len(terms[0][0]) == terms[0][1] == 1:
        return True
    return all(n.bit_length() + sum(element(v.type).bits - 1 for v in values) < _MOST_BITS
               for values, n in terms)
