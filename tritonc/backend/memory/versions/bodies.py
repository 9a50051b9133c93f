"""The bodies that a kernel gets beside the fast one, for launches whose facts are others."""

from collections.abc import Callable
from functools import cache

from tritonc.analysis.multiples import of_parameters
from tritonc.analysis.row_loops import waits_for_itself
from tritonc.analysis.values import QUOTIENTS, REMAINDERS, slice_of
from tritonc.backend.dots.together import waits
from tritonc.backend.launch.persist import by_elements
from tritonc.backend.layout.layout_choice import ACCESS_BYTES, LEAST_COPY
from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.backend.memory.versions.assumed_facts import assumed_facts
from tritonc.backend.memory.versions.conditions import ANYWHERE, before_products, place_of
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import Tile, is_pointer, scalar

_SMALL = 200  # operations of a kernel that may get a body for each way to transpose operands
# Of one that may get a body for its edge tiles.  25 points of 384 in cube on an H200: 634 us, by it
# 414.
_MODERATE = 1000


def other_bodies(kernel: Kernel, context: Context, found: Assumed, tensor: bool,
                 known: dict[Value, int]) -> list[Assumed]:
    """What each of them relies on; `found`: the fast one does.  `tensor`: TMA brings operands."""
    others = turned(kernel, found, lambda units: assumed_facts(kernel, tensor, known, units), True)
    if found.flat:
        others += [assumed_facts(kernel, tensor, known)]
        drop_promised(kernel, others[-1])
    others += _edges(kernel, found, lambda most: assumed_facts(kernel, tensor, known, edge=most))
    alone = cache(lambda: assumed_facts(kernel, tensor, known, operands=True))
    if tensor and len(others) == bool(found.flat):
        others += _operands_alone(kernel, found, alone())
        if by_elements(kernel):
            others += _operands_alone(kernel, others[-1] if others else found, assumed_facts(
                kernel, tensor, known, operands=True, records=True))
        others += _any_size(kernel, found, lambda ones: assumed_facts(
            kernel, tensor, known | ones, operands=True))
    if tensor and context.meta.get("pingpong") != 2:  # those in turn are for aligned rows
        others += _less_aligned(kernel, found, alone)
    if found.multiples and found.apart.pairs and not tensor and (
            kernel.attributes.get("single_trips", 0) > 1
            or any(op.name == "atomic_rmw" for op in kernel.ops())
            or waits_for_itself(kernel, Cfg(kernel))):
        # Of what is not aligned, too, rows of several tiles are loaded once, data are counted in
        # shared memory (`privatize_atomics`; 117 million bytes on an H200 without 30 ms), and
        # recurrences load ahead of what they store.
        others.append(Assumed(signs=found.signs, apart=found.apart))
    tests = [body.tested for body in others]  # what has been tested before does not hold
    return [body for i, body in enumerate(others) if body.subjects and body.tested not in tests[:i]]


def drop_promised(kernel: Kernel, found: Assumed) -> None:
    """Of multiples, those that the source promises."""
    for value, info in zip(kernel.parameters, kernel.info, strict=True):
        if value in found.multiples and info.multiple_of % found.multiples[value] == 0:
            del found.multiples[value]


def turned(kernel: Kernel, found: Assumed, facts: Callable[[frozenset[Value]], Assumed],
           unaligned: bool = False) -> list[Assumed]:
    """The bodies for operands of products that lie the other way: where both strides are scalars,
    either may be 1.  `facts`: what is assumed where strides are not 1.  Of two operands one may be
    transposed or both, or the results too, as where all is column-major; and the kernel must be
    small, since each body is one more of its code.  With `unaligned` the last is a body for rows
    that are not aligned, which relies on strides of 1 alone."""
    cfg = Cfg(kernel)
    inner = {cfg.innermost.get(cfg.block_of[op]) for op in kernel.ops() if op.name == "dot"}
    read = {v for op in kernel.ops() if op.name == "load" and cfg.innermost.get(
        cfg.block_of[op]) in inner for one in slice_of(op.operands[:1]) for v in one.operands}
    if None in inner or sum(len(block.ops) for block in kernel.blocks) > _SMALL:
        return []
    units = [unit for unit in found.units if unit in read]
    both = {frozenset(units): None, frozenset(found.units): None} if len(units) == 2 else {}
    bodies = [facts(way) for way in (*(frozenset({unit}) for unit in units), *both)]
    for body in bodies:
        drop_promised(kernel, body)
    if unaligned and units and found.multiples:
        bodies.append(Assumed(found.units))
    return [body for body in bodies if len(body.units) == len(found.units) and _early(body)]


def _operands_alone(kernel: Kernel, found: Assumed, alone: Assumed) -> list[Assumed]:
    """The body for results or rows of numbers that are not aligned, as of 50257 words, beside
    operands that are; `alone`: what operands assume, or of them fields of records, as weights of
    taps beside a row that may have any length.  None where all go together."""
    drop_promised(kernel, alone)
    more = any(v not in alone.multiples and not is_pointer(v.type) for v in found.multiples)
    return [alone] if more and (alone.multiples or alone.signs) and _early(alone) else []


def _any_size(kernel: Kernel, found: Assumed, facts: Callable[[dict[Value, int]], Assumed]
              ) -> list[Assumed]:
    """The body for operands whose rows are aligned whatever the sizes are, as those of a matrix of
    512 columns, beside others whose length no access divides."""
    ones = {v: 1 for v in found.multiples if not is_pointer(v.type) and v.op is None}
    if not ones or sum(len(block.ops) for block in kernel.blocks) > _SMALL:
        return []
    body = facts(ones)
    drop_promised(kernel, body)
    return [body] if body.multiples and all(
        is_pointer(v.type) for v in body.multiples) and _early(body) else []


def _less_aligned(kernel: Kernel, found: Assumed, alone: Callable[[], Assumed]) -> list[Assumed]:
    """The body of a product for rows that are multiples of the least that cp.async copies, as those
    of 1502 halves: threads would load single elements.  H200, halves by 4 bytes: 2500 x 1250 x 3750
    157 us and 94, 144 x 1758 x 10240 73 and 49, 536 x 3488 x 430 22 and 16; 1500 in cube 43, 37 by
    8 bytes, which a body more would save.  Of bytes, 8 are measured: 1024 x 2304 x 2376 70 and 37.
    Sums that threads scale in each step lie beside the product: that body spills, all take 1.03."""
    dots = [op for op in kernel.ops() if op.name == "dot"]
    part = 2 if any(scalar(v.type).bytes == 1 for op in dots for v in op.operands[:2]) else 4
    body = Assumed(found.units, {v: n // part for v, n in found.multiples.items() if n > part})
    plain = len(dots) == 1 and not any(map(waits, kernel.blocks)) and all(
        scalar(v.type).bytes < LEAST_COPY and _is_loaded(v) for v in dots[0].operands[:2]) and (
        any(op.name == "load" for op, _ in found.hindered) or not any(
            op.name in (*QUOTIENTS, *REMAINDERS) and isinstance(op.result.type, Tile)
            for op in kernel.ops()))
    if not plain or not _early(body):
        return []
    drop_promised(kernel, needs := alone())
    return [body] if any(not is_pointer(v.type) for v in needs.multiples) else []


def _early(body: Assumed) -> bool:
    """Whether all that a body relies on may be tested at entry."""
    return all(of_parameters(v) or (v.op is not None and v.op.name in ANYWHERE)
               for v in body.subjects)


def _is_loaded(value: Value) -> bool:
    """Whether it is as memory has it, but for what a mask takes away."""
    op = value.op
    return op is not None and (op.name == "load" or (
        op.name in ("trans", "psi") and any(map(_is_loaded, op.operands))))


def _edges(kernel: Kernel, found: Assumed, facts: Callable[[int], Assumed]) -> list[Assumed]:
    """The bodies for tiles of rows that end inside them: masked, by whole accesses; and, where
    tiles of bytes stand beside those of larger elements, by as many bytes as these have elements in
    an access.  Not for products, whose code is long and whose operands are few."""
    accessed = [scalar(pointee(op.operands[0].type)).bytes for op in kernel.ops()
                if op.name in ("load", "store") and isinstance(op.operands[0].type, Tile)]
    few = ACCESS_BYTES // max(accessed) if 1 in accessed else ACCESS_BYTES
    bodies: list[Assumed] = []
    if sum(len(block.ops) for block in kernel.blocks) > _MODERATE or any(
            op.name == "dot" for op in kernel.ops()):
        return bodies
    for most in [ACCESS_BYTES] * found.edges + [few] * any(
            n > few for v, n in found.multiples.items() if not is_pointer(v.type)):
        body = facts(most)
        drop_promised(kernel, body)
        body = before_products(kernel, body)
        if body.multiples and place_of(kernel, body) == (kernel.entry, 0):
            bodies.append(body)
    return bodies
