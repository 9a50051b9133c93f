"""Whether one kernel can take another's place in a launch: the same source with other tunables.

A host launches over a range of elements, and the tile along an axis is the kernel's business.  That
is so for axes of which the kernel asks `get_global_range`.  It may read the ids of its programs
too; then the same arguments have to mean the same:

- Along an axis that the kernel cuts, an id counts tiles.  `(id + c) * tile` is an index of elements
  again.  Any other use of it in an address (`sums + id`) names something that the host has one of
  for each tile.
- Along an axis that it does not cut, the host says how many programs there are: heads of a batch,
  or parts that it counts by the tunables.  It is the former if no tunable has a part in what is
  computed of the id, and if what is stored is as large as tunables say only along axes that the
  kernel cuts, or where a loop goes from tile to tile as far as something else says.

Both kernels are as semantic analysis leaves them."""

from collections.abc import Iterable, Iterator

from tritonc.analysis.affine import Affinity, Iteration
from tritonc.analysis.counters import step_of
from tritonc.analysis.values import closure, int_of, origin
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import Tile, shape

_IDS = ("get_program_id", "get_num_programs")
_STORES = ("store", "atomic_rmw", "atomic_cas")
_ACCESSES = ("load", *_STORES)
_DEEPEST = 64  # of an expression that is compared


def difference(kernel: Kernel, other: Kernel) -> str | None:
    """Why `other` cannot take the place of `kernel`; None if it can."""
    types = [[str(value.type) for value in k.parameters] for k in (kernel, other)]
    if types[0] != types[1]:
        return "its parameters have other types"
    if [*kernel.tile] != [*other.tile]:
        return "it cuts other axes of the global range into tiles"
    if (kernel.tunables, kernel.tile) == (other.tunables, other.tile):
        return None
    cut = {op.attributes["axis"] for op in kernel.ops() if op.name == "get_global_range"}
    read = {op.attributes["axis"] for k in (kernel, other) for op in k.ops() if op.name in _IDS}
    for axis in sorted(read & cut):
        if kernel.tile[axis] != other.tile[axis] and any(
                _counts_tiles(k, axis) for k in (kernel, other)):
            return (f"an address depends on the number of a tile along axis {axis}, and its tiles "
                    "have another extent there")
    for axis in sorted(read - cut):
        found = [_computed_of(k, axis) for k in (kernel, other)]
        if found[0] is None or found[0] != found[1]:
            return f"the number of programs along axis {axis} may depend on tunables that differ"
    if read - cut and not _stores_what_is_cut(kernel, other, cut):
        return "the host counts programs, and how much each of them stores depends on a tunable"
    return None


def _counts_tiles(kernel: Kernel, axis: int) -> bool:
    """Whether an address depends on a program's id along an axis as a number of tiles."""
    tile = kernel.tile[axis]

    def terms(op: Op | None) -> list[Op | None]:
        return [] if op is None or (op.name == "mul" and any(
            (number := int_of(origin(value, ("splat", "sext", "zext")))) and number % tile == 0
            for value in op.operands)) else [value.op for value in op.operands]

    made = closure([op.operands[0].op for op in kernel.ops() if op.name in _ACCESSES], terms)
    return any(op is not None and op.name in _IDS and op.attributes["axis"] == axis for op in made)


def _computed_of(kernel: Kernel, axis: int) -> list[str] | None:
    """What is computed of programs' ids, without looking into tiles, and from where to where loops
    count; None if another loop is part."""
    readers, loops = uses(kernel), {phi: loop for loop in Cfg(kernel).loops
                                    for phi in loop.header.phis()}
    pending = [op.result for op in kernel.ops() if op.name in _IDS
               and op.attributes["axis"] == axis]
    seen = {*pending}
    found = []
    counting: set[Op | None] = set()
    while pending:
        value = pending.pop()
        for op in readers.get(value, ()):
            if op in counting:
                continue
            if op.name == "phi":
                walked = _walked(loops[op], op) if op in loops else None
                if walked is None:
                    return None
                found.append(walked)
                counting |= {op, loops[op].next(op).op, loops[op].header.terminator.operands[0].op}
            scalars = [result for result in op.results if not isinstance(result.type, Tile)]
            if op.name not in ("splat", "load", "phi") and (scalars or not op.results):
                found.append(_text(op, _DEEPEST))
            elif op.name != "splat" and isinstance(value.type, Tile):
                found += _others(op, value)
            new = [] if op.name == "load" else [r for r in op.results if r not in seen and (
                r in scalars or op.name == "splat")]
            seen.update(new)
            pending += new
    return sorted(found)


def _walked(loop: Loop, phi: Op) -> str | None:
    """From where to where a loop counts, if it does by a number or a parameter, which is told, and
    ends at its header."""
    test = loop.header.terminator.operands[:1]
    compared = test[0].op if test else None
    after = loop.next(phi).op if loop.latch is not None else None
    by = ""
    if not step_of(loop, phi):
        given = after is not None and after.name == "add" and after.operands[0] is phi.result
        step = origin(after.operands[1], ("sext", "zext")) if after and given else None
        if step is None or step.op is not None:
            return None
        by = step.name
    if compared is None or phi.result not in compared.operands or loop.preheader is None:
        return None
    ends = [_value(v, _DEEPEST) for v in compared.operands if v is not phi.result]
    first = _value(loop.first(phi), _DEEPEST)
    return f"{first} {compared.attributes.get('predicate')} {ends} {by}"


def _others(op: Op, value: Value) -> Iterable[str]:
    """With what an operation of tiles scales a splat of an id, if it does."""
    if op.name in ("mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"):
        return [f"{op.name} {_value(other, _DEEPEST)}" for other in op.operands
                if other is not value]
    return []


def _text(op: Op, depth: int) -> str:
    """An expression by its operations, constants and parameters; the same for equal ones."""
    attributes = {key: op.attributes[key] for key in ("value", "axis", "predicate", "start", "stop")
                  if key in op.attributes}
    operands = ", ".join(_value(value, depth - 1) for value in op.operands)
    return f"{op.name} {attributes}({operands})"


def _value(value: Value, depth: int) -> str:
    if value.op is None:
        return value.name
    if depth <= 0 or value.op.name in ("phi", "load"):
        return value.op.name
    return _text(value.op, depth)


def _stores_what_is_cut(kernel: Kernel, other: Kernel, cut: set[int]) -> bool:
    """Whether what is stored differs in extent only along axes that the kernels cut, or that loops
    go along."""
    stores = [[*_stored(k)] for k in (kernel, other)]
    if [len(extents) for extents, _ in stores[0]] != [len(extents) for extents, _ in stores[1]]:
        return False
    cuts = {(kernel.tile[axis], other.tile[axis]) for axis in cut}
    return all(a == b or (a, b) in cuts or (axis in walks and walks[axis] == others.get(axis))
               for (one, walks), (two, others) in zip(*stores, strict=True)
               for axis, (a, b) in enumerate(zip(one, two, strict=True)))


def _stored(kernel: Kernel) -> Iterator[tuple[tuple[int, ...], dict[int, list[str]]]]:
    """The extents of each tile that is stored, and the axes along which a loop goes from tile to
    tile: from where, and as far as what, counted in elements."""
    cfg = Cfg(kernel)
    for op in (op for op in kernel.ops() if op.name in _STORES):
        extents, loop, walks = shape(op.operands[0].type), cfg.innermost.get(cfg.block_of[op]), {}
        while loop is not None:
            iteration = Iteration(loop)
            affinity = Affinity(iteration)
            form, test = affinity.of(op.operands[0]), loop.header.terminator.operands[:1]
            compared = test[0].op.operands if test and test[0].op is not None else []
            for axis, stride in enumerate(form.strides if form is not None else ()):
                for phi in (v for v in compared if v.op in loop.header.phis()):
                    moves = [each and each.offset.split(iteration.counter)
                             for each in (form, affinity.of(phi))]
                    if stride.terms and moves[0] and moves[0][1] == stride.scaled(extents[axis]) \
                            and moves[1] and moves[1][1].constant == extents[axis]:
                        walks[axis] = [str(moves[1][0]), *(
                            _value(v, _DEEPEST) for v in compared if v is not phi)]
            loop = loop.parent
        yield extents, walks
