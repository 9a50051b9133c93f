"""The facts that accesses lack: what would make them wide, unmasked, or boxes of a tensor.

    unit       a scalar is 1: then an axis of the tile is contiguous (`r * stride`)
    multiple   a scalar or a pointer is a multiple of n: then runs are aligned
    sign       a scalar is not negative: then a tensor begins behind its base, and an unsigned bound
               is a bound
    full       end <= limit: then a mask holds for the whole tile
    inside     the same of indices that wrap or are clamped (`assumed_inside`)
    equal      two scalars are: rows of pixels lie one behind the other (`flatten_rows`)
    positive   a float is above 0: then exponentials of products are fused (`fuse_exponents`)
    apart      what is accessed of two parameters does not meet (`assumed_apart`)

Each is about scalars that are known before the accesses run: parameters, program ids, and values
that are loaded or computed from them outside of loops.  `specialize` tests them once, and makes the
body that may rely on them.  What is promised or proved is not assumed."""

from collections.abc import Mapping
from dataclasses import replace
from math import lcm, prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.multiples import Multiples, joined
from tritonc.analysis.repeats import Runs
from tritonc.analysis.signs import Needs, known_signs
from tritonc.analysis.values import slice_of
from tritonc.backend.dots.share_repeats import loads_of_products, share_repeats
from tritonc.backend.dots.together import large
from tritonc.backend.memory.masks.drop_selections import steps_of_selections
from tritonc.backend.memory.masks.flatten_rows import equal_extents, flatten, may_be_flat, quotients
from tritonc.backend.memory.masks.uniform_quotients import needed, uniform_quotients
from tritonc.backend.memory.masks.unwrap_indices import unwrap, wrapping
from tritonc.backend.memory.versions.assumed import Assumed, Known, Text, renamed, testable_scalars
from tritonc.backend.memory.versions.assumed_accesses import SMALL, Collector
from tritonc.backend.memory.versions.assumed_apart import assumed_apart
from tritonc.backend.memory.versions.assumed_inside import begins_inside, suppose_inside
from tritonc.backend.memory.versions.assumed_strides import (
    Units,
    has_remainder,
    limits_of,
    multiples_of,
    reach_of,
)
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import is_int, shape


def assumed_facts(kernel: Kernel, tensor: bool, known: Mapping[Value, int] | None = None,
                 not_one: frozenset[Value] = frozenset(), edge: int = 0,
                 operands: bool = False, records: bool = False, extents: bool = False) -> Assumed:
    """What the accesses of a kernel lack.

    `tensor`: TMA brings the operands, which masks them at no cost: masks stay, and the signs of
    strides and offsets are assumed.  `known`: values of parameters; no multiple is assumed that one
    of these is not.  `not_one`: strides that are not supposed to be 1.  `edge`: the tiles are
    not full, and an access has so many elements at most.  `operands`: stores and
    single rows assume nothing; `records`: but of fields of records.  `extents`: scalars are assumed
    to be equal."""
    never: frozenset[Value] = frozenset()
    values = known or {}
    while True:
        found = _assumed_facts(kernel, Known(
            tensor, values, never, not_one, edge, operands, records, extents))
        missed = {v for v, n in found.multiples.items() if values.get(v, 0) % n} - never
        if not missed:
            return found
        never |= missed


def _assumed_facts(kernel: Kernel, known: Known) -> Assumed:
    """The same, of which no value of `known.never` need be a multiple."""
    text, needs = Text(kernel), dict[Value, None]()
    if wrapping(kernel):  # looked at as if their indices were not negative
        text = text.supposing({})
        signs = known_signs(text.kernel, cfg := Cfg(text.kernel), text.kernel.entry)
        signs.testable = testable_scalars(cfg)
        needs = renamed(unwrap(text.kernel, signs, text.kernel.blocks) or {}, text.own)
    # Looked at as if rows lay one behind the other, indices were inside, and what tiles repeat were
    # loaded once.
    text, same, whole = _flat(text, known)
    text, supposed_inside = (text, {}) if known.edge or known.operands else suppose_inside(text)
    inside = {old: plain.renamed(text.own) for op, plain in supposed_inside.items()
              for old in [text.own.get(op.result, op.result).op]
              if old is not None and old is not op}
    text, assumed, natural = _shared(_placed(text), known)
    collector = Collector(text.kernel, known)
    not_one = {*known.not_one, *(v for v, old in text.own.items() if old in known.not_one)}
    units = Units(collector.infos, collector.testable, not_one,
                  limits_of(text.kernel)).asked(collector.accesses())
    own = text.own
    if units:  # looked at as if they were 1
        text = text.supposing({v: make_op("constant", [], v.type, value=1) for v in units})
        collector = Collector(text.kernel, known)
    asked = collector.divisors.asked(collector.placed())
    for last in (False, True):  # looked at as if they were multiples; then those that helped
        hints = multiples_of(dict(pair for some in asked for pair in some.items()))
        if not hints:
            break
        supposed = text.supposing(hints)
        helped = Collector(supposed.kernel, known)
        asked = helped.divisors.helped(helped.placed(), asked)
        if last:
            text, collector = supposed, helped
            collector.assume({hint.operands[0]: hint.attributes["n"] for hint in hints.values()})
    values = {*kernel.parameters, *(v for op in kernel.ops() for v in op.results)}
    collector.assume(joined(assumed, whole))
    found = collector.run().renamed(text.own)
    found.units, found.signs = renamed(units, own), {**needs, **natural, **found.signs}
    found.inside = inside
    # Copies that were looked at have other values, of loads that a later pass makes narrow, whose
    # masks it derives from the kernel's.
    found = found.kept(values.__contains__)
    found.apart, found.equal = assumed_apart(kernel), same
    found.flat = bool(same or whole)
    found.edges |= bool(found.inside) and begins_inside(kernel)
    found.signs.update(found.apart.needs)
    return found


def _flat(text: Text, known: Known) -> tuple[Text, dict[Value, Value], Multiples]:
    """The kernel with rows of pixels as rows of a matrix, as far as extents may be equal and sizes
    multiples; which these are."""
    if not known.tensor or not may_be_flat(text.kernel):
        return text, {}, {}
    testable = testable_scalars(Cfg(text.kernel))
    needs = needed(text.kernel, quotients(text.kernel), lambda v: (
        testable(v) and v not in known.never)) if known.extents else {}
    flat = text.supposing(multiples_of(needs or {}))
    uniform_quotients(flat.kernel, quotients(flat.kernel))
    equal = equal_extents(flat.kernel) if known.extents else {}
    if not all(map(testable_scalars(Cfg(flat.kernel)), [*equal, *equal.values()])):
        equal = {}
    flat.kernel.replace(equal)
    return (flat, {flat.own.get(a, a): flat.own.get(b, b) for a, b in equal.items()},
            renamed(needs or {}, text.own)) if flatten(flat.kernel) else (text, {}, {})


def _placed(text: Text) -> Text:
    """The kernel looked at as if bounds held of loads by which others are addressed: in full tiles
    they do, and neighbours that one number places go on together."""
    def places(kernel: Kernel) -> list[Op]:
        led = slice_of([op.operands[0] for op in kernel.ops() if op.effects & {READ, WRITE}
                        and op.operands and shape(op.operands[0].type)], masks=False)
        affinity = Affinity()
        return [op for op in kernel.ops() if op in led and op.name == "load"
                and op.guard is not None and len(extents := shape(op.guard.type)) > 0
                and not affinity.parts(op.guard, len(extents))[2]]

    if not places(text.kernel):
        return text
    text = text.supposing({})
    for op in places(text.kernel):
        op.attributes = {**op.attributes, "whole": True}
    return text


def _shared(text: Text, known: Known) -> tuple[Text, Multiples, Needs]:
    """The kernel with loads of what their tiles repeat, as far as parameters may be assumed to be
    multiples of the runs, and natural; and what is assumed: nothing for rows beside operands alone.
    """
    kernel, cfg = text.kernel, Cfg(text.kernel)

    def assumable(value: Value) -> bool:
        return value in kernel.parameters and is_int(value.type) and value not in known.never

    runs = Runs(kernel, cfg, assumable)
    repeated = [load for load in loads_of_products(kernel, cfg)
                if not (known.operands and len(shape(load.result.type)) == 1)
                and runs.of_load(load, large(cfg.block_of[load])) is not None]
    for test in steps_of_selections(kernel, cfg):  # whole steps of K need none
        for axis, extent in enumerate(shape(test.result.type)):
            runs.of(test.result, axis, extent, extent)
    if not repeated:
        return text, runs.assumed, runs.natural
    shared = text.supposing({})
    shared.kernel.info = [replace(i, multiple_of=lcm(i.multiple_of, runs.assumed.get(v, 1)),
                                  least=max(i.least or 0, 0) if v in runs.natural else i.least)
                          for v, i in zip(kernel.parameters, kernel.info, strict=True)]
    share_repeats(shared.kernel)
    return shared, runs.assumed, runs.natural


def assumed_of(kernel: Kernel, op: Op, behind: bool) -> Multiples:
    """What would have to be multiples so that an access alone is wide, whose addresses go on only
    where remainders do, or which stands `behind` a product of gathered rows; nothing where that is
    not enough."""
    reach = reach_of(op)
    divides = reach > 1 and has_remainder(op.operands[0])
    if prod(shape(op.operands[0].type)) < SMALL or not (behind or divides):
        return {}
    collector = Collector(kernel)
    info = collector.infos.get(op.operands[0])
    if info is None or not (behind if max(info.contiguity) > 1 else divides):
        return {}
    if max(info.contiguity) > 1:
        collector.alignment(op, collector.outside)
        return {} if collector.found.hindered else collector.found.multiples
    at = [one for one, _ in collector.accesses()].index(op)
    divisors = {v: run for _, v, run in collector.divisors.remainders(op.operands[0], reach)}
    if not divisors:
        return {}
    text = Text(kernel).supposing(multiples_of(divisors))
    supposed = Collector(text.kernel)
    twin, _ = supposed.accesses()[at]
    needs = supposed.divisors.needs(twin)
    return {} if needs is None else joined(divisors, renamed(needs, text.own))
