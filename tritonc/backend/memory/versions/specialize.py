"""specialize: versioning: facts are tested once, and a second body of the kernel relies on them.

Before:  entry: ...                      After:  entry: %ok = (a | b | 4 * lda) % 16 == 0
                                                              and stride == 1 and z * M >= 0 and ...
                                                        cond_br %ok, fast, general
                                                 fast:    the kernel, where the facts hold
                                                 general: the kernel as it was

A source rarely says that a pointer is aligned to 16 bytes, that a stride is 1 or that a size is not
negative, and masks its tiles everywhere although all but the last ones are full.  `assumed_facts`
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
The constants are left to fold_constants and peephole, which run again."""

from collections.abc import Hashable

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.analysis.moving import mark_moving
from tritonc.analysis.multiples import implied
from tritonc.analysis.quotients import gathered
from tritonc.analysis.row_loops import windows_of_bytes
from tritonc.analysis.signs import MOST
from tritonc.analysis.values import SPREADS, attributes_key, needed
from tritonc.backend.dots.together import large
from tritonc.backend.launch.persist import maps_last, should_persist
from tritonc.backend.memory.masks.unwrap_indices import unwrap_indices
from tritonc.backend.memory.vectorize import mark_wide
from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.backend.memory.versions.assumed_facts import assumed_facts
from tritonc.backend.memory.versions.bodies import drop_promised, other_bodies
from tritonc.backend.memory.versions.conditions import add_test, before_products, place_of
from tritonc.backend.memory.versions.promises import promise
from tritonc.backend.target.matrix import BY_NAME, WGMMA
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, add_incoming, split
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ
from tritonc.ir.types import I1, with_element


def specialize(kernel: Kernel, context: Context) -> bool:
    """Add the fast body, if there is something to gain."""
    mark_moving(kernel)  # whose masks may go
    mark_wide(kernel, context.target)
    known = {value: context.known_sizes[value.name] for value in kernel.parameters
            if value.name in context.known_sizes}
    tensor = _copies_tensors(kernel, context)
    # Threads store the results of small tiles, and what they need is tested behind the loop.
    late = tensor and not any(map(large, kernel.blocks)) and any(
        op.name == "dot" and gathered(op) for op in kernel.ops())
    found = assumed_facts(kernel, tensor, known, extents=True, operands=late)
    if late and not found.multiples:
        found = assumed_facts(kernel, tensor, known, extents=True)
    for op, why in found.hindered:
        context.remark("specialize", f"access not vectorised: {why}", op.span, missed=True)
    drop_promised(kernel, found)
    found = before_products(kernel, found)
    place = place_of(kernel, found) if found.subjects else None
    if place is None:
        return False
    if windows_of_bytes(kernel, Cfg(kernel)):  # for `aligned_entry`
        kernel.attributes["aligned"] = [found.multiples.get(v, 1) for v in kernel.parameters]
    others = other_bodies(kernel, context, found, tensor, known)
    place = place_of(kernel, found, *others)
    if place is None:
        return False
    for body in (found, *others):
        context.remark("specialize", promise(body), kernel.span)
    common, own = found.parted() if should_persist(kernel, context) and maps_last(
        kernel.blocks) else (found, Assumed())
    first = place_of(kernel, common, *others) if common.subjects and own.subjects else None
    general = place
    if first is not None:  # one body in another, for what is the same for all programs
        mapping, general = add_body(kernel, common, first)
        found = own.renamed(mapping)
        place = place_of(kernel, found)
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


def _copies_tensors(kernel: Kernel, context: Context) -> bool:
    """Whether TMA brings the operands, which masks them at no cost."""
    target: Target = context.target
    names = [op.attributes.get("instruction") for op in kernel.ops() if op.name == "dot"]
    return "tensor_map" in target.features and bool(names) and all(
        name is not None and BY_NAME[name].kind == WGMMA for name in names)


# ---- where it begins


def add_body(kernel: Kernel, found: Assumed, place: tuple[Block, int]
             ) -> tuple[dict[Value, Value], tuple[Block, int]]:
    """Split the kernel at the place, and let the facts decide between two bodies from there on.

    Returns what stands for each value in the body of the facts, and where the other one begins."""
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


def _assume(fast: list[Block], mapping: dict[Value, Value], found: Assumed, before: list[Op]
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
        hint = make_op("assume_multiple", [value], named=value.name,
                       n=implied(value, found.multiples))
        if value in found.signs:
            hint.attributes["least"] = 0
        if found.coordinate(value):
            hint.attributes["greatest"] = MOST
        if value in found.apart.all:
            hint.attributes["apart"] = True
        known[value] = hint.result
        first.append(hint)
    for value in found.positive:
        hint = make_op("assume_positive", [value], named=value.name)
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
        if not op.effects and (op.info.elementwise or op.name in SPREADS) and (
                not reached.isdisjoint(op.inputs()) and reached.isdisjoint(op.results)):
            reached.update(op.results)
            found.append(op)
    return copy_ops(needed(found, [v for block in fast for op in block.ops for v in op.inputs()]),
                    known)
