"""clamped_loads: where a clamped index has come to its bound in all of a tile, a load is of one
number.

Before:  body: %x = smin(smax(%d, lo), hi)       After:  body: %low = %d <= lo in the whole tile
               %b = load %table + %x                           %high = %d >= hi in the whole tile
               ...                                             cond_br %low or %high, one, each
                                                         one:  %n = load %table + (%low ? lo : hi)
                                                               %s = splat %n
                                                               br rest
                                                         each: %x = smin(smax(%d, lo), hi)
                                                               %b = load %table + %x
                                                               br rest
                                                         rest: %b1 = phi [%s, one], [%b, each]

A bias that depends on the distance of two positions, up to a greatest one, is such a load: of the
tiles of a long sequence only those near the diagonal have several distances.

Needs layouts, as `skip_masks`, whose tests of whole tiles these are."""

from tritonc.analysis.affine import Affinity
from tritonc.analysis.linear import Linear
from tritonc.analysis.values import defined_by, is_uniform
from tritonc.backend.memory.masks.skip_masks import ENOUGH, comparison, one_succeeds, only_for
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, make_phi, split
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile, element

# Of a clamp, what its other operand must be to all elements to be its result.
_PREDICATES = {"smin": "sge", "smax": "sle"}
_OTHER = {"smin": "smax", "smax": "smin"}


def clamped_loads(kernel: Kernel, context: Context) -> bool:
    """Branch around the loads of loops that clamp what they load by."""
    affinity, changed = Affinity(), False
    inside = {block for loop in Cfg(kernel).loops for block in loop.blocks}
    for block in [block for block in kernel.blocks if block in inside]:
        for op in list(block.ops):
            if op.name != "load" or op.guard is not None or op.attributes.get("volatile"):
                continue
            t = op.result.type
            if not isinstance(t, Tile) or t.layout is None or t.layout.registers < ENOUGH:
                continue
            clamps = _clamps(op.operands[0])
            if not clamps or None in map(_bound, clamps):
                continue
            bounds = {clamp: way for clamp in clamps
                      if (way := _reached(clamp, affinity)) is not None}
            if bounds:
                block = _branch(kernel, block, op, bounds)
                changed = True
    return changed


def _clamps(pointer: Value) -> list[Op]:
    """The clamps of which the addresses are made with the same numbers for all elements."""
    found: list[Op] = []
    value: Value | None = pointer
    while value is not None and value.op is not None and value.op.info.elementwise:
        op = value.op
        if op.name in _PREDICATES:
            found.append(op)
        varying = [v for v in op.operands if not is_uniform(v)]
        value = varying[0] if len(varying) == 1 else None
    return found


def _bound(clamp: Op) -> Value | None:
    """The bound of a clamp, if that is a constant: one that is a size, as at the ends of a row, is
    not reached by whole tiles."""
    return next((v for v in clamp.operands if defined_by(v, "constant") is not None), None)


def _reached(clamp: Op, affinity: Affinity) -> list[Linear] | None:
    """What holds only if the clamp's result is its bound in the whole tile."""
    bound = _bound(clamp)
    other = next((v for v in clamp.operands if v is not bound), None)
    if bound is None or other is None:
        return None
    while other.op is not None and other.op.name == _OTHER[clamp.name]:
        inner = next((v for v in other.op.operands if not is_uniform(v)), None)
        if inner is None:
            break
        other = inner  # beyond the bound, so is what a clamp of the other kind makes of it
    test = make_op("icmp", [other, bound], predicate=_PREDICATES[clamp.name])
    return comparison(test, affinity, True)


def _branch(kernel: Kernel, block: Block, load: Op, bounds: dict[Op, list[Linear]]) -> Block:
    one, each, rest = (Block(f"{block.name}.{name}") for name in ("one", "each", "rest"))
    at = block.ops.index(load)
    before = block.ops[:at]
    tested = {v for way in bounds.values() for test in way
              for monomial, _ in test.terms for v in monomial}
    sunk = only_for(load, before, kernel, tested, set())
    split(block, at + 1, rest)
    block.ops = [op for op in before if op not in sunk]
    each.ops = [*(op for op in before if op in sunk), load]
    Builder(each).emit("br", blocks=[rest])
    b, in_one = Builder(block, span=load.span), Builder(one, span=load.span)
    ways = {clamp: one_succeeds(b, [[*way]], {}) for clamp, way in bounds.items()}
    whole, *others = ways.values()
    for other in others:
        whole = b.value("or", whole, other)
    b.emit("cond_br", whole, blocks=[one, each])
    places = [(way, _number(in_one, load.operands[0], clamp)) for clamp, way in ways.items()]
    _, place = places[-1]
    for way, other in reversed(places[:-1]):
        place = in_one.value("select", way, other, place)
    loaded = in_one.value("load", place, type=element(load.result.type))
    same = in_one.value("splat", loaded, type=load.result.type)
    in_one.emit("br", blocks=[rest])
    joined = make_phi([same, load.result], [one, each], load.result.name)
    index = kernel.blocks.index(block) + 1
    kernel.blocks[index:index] = [one, each, rest]
    kernel.replace({load.result: joined.result})
    joined.operands[1] = load.result
    rest.ops.insert(0, joined)
    return rest


def _number(b: Builder, value: Value, clamp: Op) -> Value:
    """A tile's value where the clamp's is its bound in all elements, as a number."""
    op = value.op
    assert op is not None
    if op is clamp:
        bound = _bound(op)
        assert bound is not None
        return _number(b, bound, clamp)
    if op.name == "splat":
        return op.operands[0]
    numbers = [_number(b, v, clamp) for v in op.operands]
    return b.emit(op.name, *numbers, type=element(value.type), **op.attributes).result
