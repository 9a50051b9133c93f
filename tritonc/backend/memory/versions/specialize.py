"""specialize: versioning: facts are tested once, and a second body of the kernel relies on them.

Before:  entry: ...                      After:  entry: %ok = (a | b | 4 * lda) % 16 == 0
                                                              and stride == 1 and z * M >= 0 and ...
                                                        cond_br %ok, fast, general
                                                 fast:    the kernel, where the facts hold
                                                 general: the kernel as it was

A source rarely says that a pointer is aligned to 16 bytes, that a stride is 1 or that a size is not
negative, and masks its tiles everywhere although all but the last ones are full.  `wanted_facts`
collects what the accesses lack; all of it is about scalars, so the threads of a program agree.

The branch stands at entry where the facts are about parameters and program ids alone, and else
behind the last value that is loaded or computed: from there on there are two bodies.  What is known
of a value in the fast body is said by hints (`assume_multiple`), strides of 1 are constants, masks
of full tiles are true.  This is the only pass that makes versions of a body.

Blocks of a product that go from program to program (`persist`) make maps and barriers once: what is
the same for all programs is tested at entry, and in that body once more, for each program, what
differs.  Where it fails, which is rare, a product does with little shared memory.

Rows that end inside a tile (`c < C`) make edge tiles of many programs, all of them if a tile is
longer than a row.  A small kernel gets a body for these too: it keeps its masks and relies on
multiples alone, so that its accesses are wide.

Where TMA brings operands it masks them at no cost: then masks stay and edge tiles run in the fast
body too, which assumes that strides and offsets are not negative.

Where sizes are known, the fast body asks for no multiple that they are not: of a
product with rows of 7133 elements, one operand is copied by 16 bytes at least.

Nothing is done where no access would get wider and no mask would go.  Needs loops with preheaders.
The constants are left to fold_constants and peephole, which run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.analysis.moving import mark_moving
from tritonc.analysis.multiples import implied
from tritonc.analysis.row_loops import waits_for_itself, windows_of_bytes
from tritonc.analysis.signs import MOST
from tritonc.analysis.values import attributes_key, needed, slice_of
from tritonc.backend.launch.persist import by_elements, maps_last, wanted
from tritonc.backend.layout.layout_choice import ACCESS_BYTES
from tritonc.backend.memory.masks.unwrap_indices import unwrap_indices
from tritonc.backend.memory.vectorize import mark_wide
from tritonc.backend.memory.versions.conditions import ANYWHERE, add_test
from tritonc.backend.memory.versions.promises import promise
from tritonc.backend.memory.versions.wanted import Wanted
from tritonc.backend.memory.versions.wanted_facts import wanted_facts
from tritonc.backend.target.matrix import BY_NAME, WGMMA
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, add_incoming, split
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, Tile, is_int, is_pointer, scalar, with_element
from tritonc.later import Later

bring_up = Later("tritonc.backend.pipeline.tma.bring_up", "bring_up")
_SMALL = 200  # operations of a kernel that may get a body for each way to transpose operands
# Of one that may get a body for its edge tiles.  25 points of 384 in cube on an H200: 634 us, by it
# 414.
_MODERATE = 1000
_BATCHES = 2  # an axis of the grid
_QUOTIENTS = ("sdiv", "udiv", "srem", "urem")
_SPREADS = ("splat", "broadcast", "reshape")


def specialize(kernel: Kernel, context: Context) -> bool:
    """Add the fast body, if there is something to gain."""
    mark_moving(kernel)  # whose masks may go
    mark_wide(kernel, context.target)
    known = {value: context.known_sizes[value.name] for value in kernel.parameters
            if value.name in context.known_sizes}
    tensor = _copies_tensors(kernel, context)
    found = wanted_facts(kernel, tensor, known, extents=True)
    for op, why in found.hindered:
        context.remark("specialize", f"access not vectorised: {why}", op.span, missed=True)
    _drop_promised(kernel, found)
    found = _before_products(kernel, found)
    place = _place(kernel, found) if found.subjects else None
    if place is None:
        return False
    if windows_of_bytes(kernel, Cfg(kernel)):  # for `aligned_entry`
        kernel.attributes["aligned"] = [found.multiples.get(v, 1) for v in kernel.parameters]
    others = _transposed(kernel, found, lambda units: wanted_facts(kernel, tensor, known, units))
    if found.flat:
        others += [wanted_facts(kernel, tensor, known)]
        _drop_promised(kernel, others[-1])
    others += _edges(kernel, found, lambda most: wanted_facts(kernel, tensor, known, edge=most))
    if tensor and len(others) == bool(found.flat):
        others += _operands_alone(kernel, found, wanted_facts(kernel, tensor, known, operands=True))
        if by_elements(kernel):
            others += _operands_alone(kernel, others[-1] if others else found, wanted_facts(
                kernel, tensor, known, operands=True, records=True))
        others += _any_size(kernel, found, lambda ones: wanted_facts(
            kernel, tensor, known | ones, operands=True))
    if tensor and context.meta.get("pingpong") != 2:  # those in turn are for aligned rows
        others += _less_aligned(kernel, found, wanted_facts(kernel, tensor, known, operands=True))
    if found.multiples and found.apart.pairs and (
            kernel.attributes.get("single_trips", 0) > 1
            or any(op.name == "atomic_rmw" for op in kernel.ops())
            or waits_for_itself(kernel, Cfg(kernel))):
        # Of what is not aligned, too, rows of several tiles are loaded once, data are counted in
        # shared memory (`privatize_atomics`; 117 million bytes on an H200 without 30 ms), and
        # recurrences load ahead of what they store.
        others.append(Wanted(signs=found.signs, apart=found.apart))
    for body in (found, *others):
        context.remark("specialize", promise(body), kernel.span)
    common, own = found.parted() if wanted(kernel, context) and maps_last(
        kernel.blocks) else (found, Wanted())
    first = _place(kernel, common) if common.subjects and own.subjects else None
    general = place
    if first is not None:  # one body in another, for what is the same for all programs
        mapping, general = add_body(kernel, common, first)
        found = own.renamed(mapping)
        place = _place(kernel, found)
        assert place is not None
        _, inner = add_body(kernel, found, place)
        _mark_fallback(kernel, inner[0])
    else:
        _, general = add_body(kernel, found, place)
    for body in others:
        _, general = add_body(kernel, body, general)
    _mark_fallback(kernel, general[0])
    unwrap_indices(kernel, context)  # those that the fast body knows not to be negative
    if kernel.attributes.get("single_trips", 0) > 1:
        _load_once(kernel)
    return True


def _load_once(kernel: Kernel) -> None:
    """Let a block make each load once, if what it stores lies elsewhere."""
    roots = pointer_roots(kernel)
    for block in kernel.blocks:
        touched = [op for op in block.ops[:-1] if op.effects and op.name != "assume"]
        loads = [op for op in touched if op.effects == {READ} and not op.attributes.get("volatile")]
        stores = [op for op in touched if op.name == "store"]
        if len(loads) + len(stores) < len(touched) or any(may_alias(
                kernel, one.operands[0], other.operands[0], roots)
                for one in loads for other in stores):
            continue
        first: dict[Hashable, Op] = {}
        again = {op.result: same.result for op in loads if (same := first.setdefault((
            op.operands[0], op.guard, attributes_key(op.attributes)), op)) is not op}
        kernel.replace(again)
        block.ops = [op for op in block.ops if not op.results or op.results[0] not in again]


def _drop_promised(kernel: Kernel, found: Wanted) -> None:
    for value, info in zip(kernel.parameters, kernel.info, strict=True):
        if value in found.multiples and info.multiple_of % found.multiples[value] == 0:
            del found.multiples[value]


def _transposed(kernel: Kernel, found: Wanted, facts: Callable[[frozenset[Value]], Wanted]
            ) -> list[Wanted]:
    """The bodies for operands of products that lie the other way: where both strides are scalars,
    either may be 1.  `facts`: what is wanted where strides are not 1.  Of two operands one may be
    transposed or both, or the results too, as where all is column-major; and the kernel must be
    small, since each body is one more of its code.  Last comes a body for rows that are not
    aligned, which relies on strides of 1 alone."""
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
        _drop_promised(kernel, body)
    if units and found.multiples:
        bodies.append(Wanted(found.units))
    return [body for body in bodies if len(body.units) == len(found.units) and all(
        v.op is None or v.op.name in ANYWHERE for v in body.subjects)]


def _operands_alone(kernel: Kernel, found: Wanted, alone: Wanted) -> list[Wanted]:
    """The body for results or rows of numbers that are not aligned, as of 50257 words, beside
    operands that are; `alone`: what operands want, or of them fields of records, as weights of taps
    beside a row that may have any length.  None where all go together."""
    _drop_promised(kernel, alone)
    more = any(v not in alone.multiples and not is_pointer(v.type) for v in found.multiples)
    return [alone] if more and alone.multiples and all(
        v.op is None or v.op.name in ANYWHERE for v in alone.subjects) else []


def _any_size(kernel: Kernel, found: Wanted, facts: Callable[[dict[Value, int]], Wanted]
              ) -> list[Wanted]:
    """The body for operands whose rows are aligned whatever the sizes are, as those of a matrix of
    512 columns, beside others whose length no access divides."""
    ones = {v: 1 for v in found.multiples if not is_pointer(v.type) and v.op is None}
    if not ones or sum(len(block.ops) for block in kernel.blocks) > _SMALL:
        return []
    body = facts(ones)
    _drop_promised(kernel, body)
    return [body] if body.multiples and all(is_pointer(v.type) for v in body.multiples) and all(
        v.op is None or v.op.name in ANYWHERE for v in body.subjects) else []


def _less_aligned(kernel: Kernel, found: Wanted, alone: Wanted) -> list[Wanted]:
    """The body of a product of 16-bit numbers for rows that are multiples of half an access, as
    those of 1500: threads copy pieces of 8 bytes, where they would load single elements.  2880 x
    1500 x 3200 on an H200: by 128 x 128 225 us, by it 107, 1882 x 700 x 3900 109 and 63."""
    _drop_promised(kernel, alone)
    body = Wanted(found.units, {v: n // 2 for v, n in found.multiples.items()})
    dots = [op for op in kernel.ops() if op.name == "dot"]
    plain = len(dots) == 1 and all(
        scalar(v.type).bytes == 2 and _is_loaded(v) for v in dots[0].operands[:2]) and not any(
        (op.name == "get_program_id" and op.attributes["axis"] == _BATCHES)
        or (op.name in _QUOTIENTS and isinstance(op.result.type, Tile)) for op in kernel.ops())
    return [body] if plain and any(not is_pointer(v.type) for v in alone.multiples) and all(
        v.op is None or v.op.name in ANYWHERE for v in body.subjects) else []


def _is_loaded(value: Value) -> bool:
    """Whether it is as memory has it, but for what a mask takes away."""
    op = value.op
    return op is not None and (op.name == "load" or (
        op.name in ("trans", "psi") and any(map(_is_loaded, op.operands))))


def _edges(kernel: Kernel, found: Wanted, facts: Callable[[int], Wanted]) -> list[Wanted]:
    """The bodies for tiles of rows that end inside them: masked, by whole accesses; and, where
    tiles of bytes stand beside those of larger elements, by as many bytes as these have elements in
    an access.  Not for products, whose code is long and whose operands are few."""
    accessed = [scalar(pointee(op.operands[0].type)).bytes for op in kernel.ops()
                if op.name in ("load", "store") and isinstance(op.operands[0].type, Tile)]
    few = ACCESS_BYTES // max(accessed) if 1 in accessed else ACCESS_BYTES
    bodies: list[Wanted] = []
    if sum(len(block.ops) for block in kernel.blocks) > _MODERATE or any(
            op.name == "dot" for op in kernel.ops()):
        return bodies
    for most in [ACCESS_BYTES] * found.edges + [few] * any(
            n > few for v, n in found.multiples.items() if not is_pointer(v.type)):
        body = facts(most)
        _drop_promised(kernel, body)
        body = _before_products(kernel, body)
        if body.multiples and _place(kernel, body) == (kernel.entry, 0):
            bodies.append(body)
    return bodies


def _copies_tensors(kernel: Kernel, context: Context) -> bool:
    """Whether TMA brings the operands, which masks them at no cost."""
    target: Target = context.target
    names = [op.attributes.get("instruction") for op in kernel.ops() if op.name == "dot"]
    return "tensor_map" in target.features and bool(names) and all(
        name is not None and BY_NAME[name].kind == WGMMA for name in names)


# ---- where it begins


def _before_products(kernel: Kernel, found: Wanted) -> Wanted:
    """What can be tested before the products: what numbers are computed from parameters behind
    their loops is computed at entry, and what only these stores would gain from is given up."""
    cfg = Cfg(kernel)
    inner = [loop for loop in cfg.loops if any(op.name == "dot" for op in loop.ops())]
    late = [v for v in found.subjects if v.op is not None and v.op in cfg.block_of and any(
        not cfg.dominates(cfg.block_of[v.op], loop.header) for loop in inner)]
    left = {v for v in late if not bring_up([v], kernel.entry, Cfg(kernel))}
    return found.kept(lambda v: v not in left) if left else found


def _place(kernel: Kernel, found: Wanted) -> tuple[Block, int] | None:
    """Behind which operation of which block the bodies part: (entry, 0) if nothing need be
    computed before.  What cannot be known there is given up; None if nothing is left."""
    cfg = Cfg(kernel)
    computed = [v.op for v in found.subjects
                if v.op is not None and v.op.name not in ANYWHERE and v.op in cfg.block_of]
    if not computed:
        return kernel.entry, 0
    # The test wants a number in any case.
    for op in slice_of(found.subjects, set(cfg.block_of)):
        if op.name == "load" and op.guard is not None and is_int(op.result.type):
            op.attributes.setdefault("other", 0)
    blocks = list(dict.fromkeys(cfg.block_of[op] for op in computed))
    last = max(blocks, key=cfg.order.index)
    if not all(cfg.dominates(block, last) for block in blocks):
        return None
    return last, _gathered(last, [op for op in computed if cfg.block_of[op] is last])


def _gathered(block: Block, wanted: list[Op]) -> int:
    """Move what computes `wanted` before the other operations of the block, as far as memory
    allows; returns the position behind it."""
    needed = {*wanted, *slice_of((v for op in wanted for v in op.inputs()), set(block.ops))}
    writes = next((i for i, op in enumerate(block.ops) if WRITE in op.effects), len(block.ops))
    movable = all(op.name == "phi" or not op.effects or (
        op.effects == {READ} and block.ops.index(op) < writes) for op in needed)
    if not movable:
        return max(block.ops.index(op) for op in wanted) + 1
    phis = block.phis()
    first = [op for op in block.ops if op in needed and op.name != "phi"]
    block.ops = [*phis, *first, *(op for op in block.ops[len(phis):] if op not in needed)]
    return len(phis) + len(first)


# ---- the two bodies


def add_body(kernel: Kernel, found: Wanted, place: tuple[Block, int]
             ) -> tuple[dict[Value, Value], tuple[Block, int]]:
    """Split the kernel at the place, and let the facts decide between two bodies from there on.

    Returns what stands for each value in the body of the facts, and where the other one begins.
    """
    block, at = place
    if block is kernel.entry and at == 0:
        first, dispatch = block, Block("dispatch")
        kernel.blocks.insert(0, dispatch)
    else:
        first, dispatch = Block(f"{block.name}.rest"), block
        split(block, at, first)
        kernel.blocks.insert(kernel.blocks.index(block) + 1, first)
    Builder(dispatch).emit("br", blocks=[first])
    cfg = Cfg(kernel)
    region = [first, *(b for b in kernel.blocks if b is not first and b is not dispatch
                       and cfg.dominates(first, b))]
    dispatch.ops.pop()
    fast, mapping = copy_blocks(region, ".fast")
    copies = dict(zip(region, fast, strict=True))
    for outside in kernel.blocks:
        if outside not in copies:
            for phi in outside.phis():
                for value, source in list(zip(phi.operands, phi.blocks, strict=True)):
                    if source in copies:
                        add_incoming(phi, mapping.get(value, value), copies[source])
    before = [op for b in cfg.order if b is not first and cfg.dominates(b, first) for op in b.ops]
    _assume(fast, mapping, found, before)
    kernel.blocks += fast
    add_test(dispatch, found, fast[0], first)
    return mapping, (first, 0)


def _mark_fallback(kernel: Kernel, first: Block) -> None:
    """Tell remarks that operations from here on run only where the tested facts do not hold."""
    cfg = Cfg(kernel)
    for block in kernel.blocks:
        if cfg.dominates(first, block):
            for op in block.ops:
                op.span = op.span and op.span._replace(fallback=True)


def _assume(fast: list[Block], mapping: dict[Value, Value], found: Wanted, before: list[Op]
            ) -> None:
    """Put what the conditions promise into the copy; `before` has what was computed until then."""
    known: dict[Value, Value] = {}
    first: list[Op] = []
    for value in found.units:
        one = make_op("constant", [], value.type, value=1)
        known[value] = one.result
        first.append(one)
    for value in {**found.multiples, **found.signs, **found.apart.all}:
        if value in found.units:
            continue
        hint = make_op("assume_multiple", [value], n=implied(value, found.multiples))
        if value in found.signs:
            hint.attributes["least"] = 0
        if found.coordinate(value):
            hint.attributes["greatest"] = MOST
        if value in found.apart.all:
            hint.attributes["apart"] = True
        hint.result.name = value.name
        known[value] = hint.result
        first.append(hint)
    for value in found.positive:
        hint = make_op("assume_positive", [value])
        hint.result.name = value.name
        known[value] = hint.result
        first.append(hint)
    for test in found.full:
        true = make_op("constant", [], with_element(test.result.type, I1), value=True)
        known[mapping.get(test.result, test.result)] = true.result
        first.append(true)
    for op, plain in found.inside.items():
        twin = mapping.get(op.result, op.result).op or op
        home = next((block.ops for block in fast if twin in block.ops), first)
        at = home.index(twin) if twin in home else len(home)
        home[at:at] = new = plain.ops(twin)
        known[twin.result] = new[-1].result
    known |= {a: known.get(b, b) for a, b in found.equal.items()}
    first += _again(before, fast, known)
    for block in fast:
        for op in block.ops:
            op.replace_inputs(known)
    at = len(fast[0].phis())
    fast[0].ops[at:at] = first


def _again(before: list[Op], fast: list[Block], known: dict[Value, Value]) -> list[Op]:
    """Copies of the arithmetic before the test on what it promises, such as row * N: the copies
    know of the promises.  They join `known`."""
    reached, found = set(known), []
    for op in before:
        if not op.effects and (op.info.elementwise or op.name in _SPREADS) and (
                not reached.isdisjoint(op.inputs()) and reached.isdisjoint(op.results)):
            reached.update(op.results)
            found.append(op)
    return copy_ops(needed(found, [v for block in fast for op in block.ops for v in op.inputs()]),
                    known)
