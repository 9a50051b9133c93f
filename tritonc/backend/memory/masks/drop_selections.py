"""drop_selections: removes the value of masked elements if nobody reads it, no element is masked,
or it is what zeros give.

Before:  %m = and (%k + r < %K), (%n < %N)       After:  %d = dot %a, %x, %c
         %b = select %m, %x, 0                           @(%n < %N) store ... %d
         %d = dot %a, %b, %c
         @(%n < %N) store ... %d

What a source computes of operands it masks again.  Rows and columns of a product that no store
needs may be anything (`unwrap_indices` finds out which those are); and a step of K is whole where
the steps' length divides K, which `specialize` tests: then the loop's own test says that its mask
holds.  Each part of a conjunction may go by itself.  What is loaded may be 0 where the mask does
not hold; if that makes the same value, as of `m ? x * g : 0`, copies fill the zeros in.

After specialize, whose facts it uses; before layouts, which selections of a product's operand in
registers would multiply."""

from tritonc.analysis.affine import Affinity
from tritonc.analysis.facts import Facts, scalar_of
from tritonc.analysis.values import constant_of, defined_by, is_zero, origin, sides
from tritonc.backend.dots.raw_operands import computed_operand
from tritonc.backend.memory.masks.unwrap_indices import Demand, bounds_of, demand_of
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.numeric.numbers import NotFoldable, Number, evaluate, fit
from tritonc.ir.types import shape


def drop_selections(kernel: Kernel, context: Context) -> bool:
    """Do it for the selections of tiles in loops around products."""
    cfg = Cfg(kernel)
    loops = {cfg.innermost.get(cfg.block_of[op]) for op in kernel.ops() if op.name == "dot"}
    selections = [op for op in kernel.ops() if op.name == "select" and shape(op.operands[0].type)
                  and cfg.innermost.get(cfg.block_of[op]) in loops
                  and cfg.innermost.get(cfg.block_of[op]) is not None]
    if not selections:
        return False
    affinity, replaced = Affinity(), dict[Value, Value]()
    demand, facts = demand_of(kernel, affinity), Facts(kernel)
    for op in selections:
        loop = cfg.innermost[cfg.block_of[op]]
        if (loads := vanishing(op)) is not None:
            for load in loads:
                _fill_zeros(kernel, cfg, load)
            replaced[op.result] = op.operands[1]
            continue
        parts = sides(op.operands[0], "and")
        left = [part for part in parts if not _unread(part, demand.get(op.result), affinity)
                and not whole(part, loop, facts)]
        if len(left) == len(parts):
            continue
        if not left:
            replaced[op.result] = op.operands[1]
            continue
        block = cfg.block_of[op]
        op.operands[0] = Builder(block, block.ops.index(op), op.span).joined("and", left)
    kernel.replace(replaced)
    return bool(replaced)


def _unread(mask: Value, wanted: Demand | None, affinity: Affinity) -> bool:
    """Whether the mask holds for all elements that anybody needs."""
    bounds = bounds_of(affinity.mask(mask, len(shape(mask.type))))
    return bool(bounds) and wanted is not None and bounds <= wanted


def vanishing(selection: Op) -> list[Op] | None:
    """The loads to fill with zeros, so that a selection's value is its other value where its mask
    does not hold.  None if zeros do not give that."""
    mask, value, other = selection.operands
    loads, known, parts = list[Op](), dict[Value, Number](), {*sides(mask, "and")}

    def leaf(v: Value, guard: Value | None) -> bool:
        """Whether the guard holds for no element for which the mask does not."""
        test = guard.op if guard is not None else None
        if test is None or test.name != "cmpp" or guard is not test.results[0] \
                or not parts <= {*sides(test.operands[0], "and")}:
            return False
        known[v] = fit(v.type, 0)
        return True

    def number(v: Value) -> Number:
        op = v.op
        if v in known or op is None:
            pass
        elif (constant := constant_of(v)) is not None:
            known[v] = fit(v.type, constant)
        elif op.name == "psi" and len(op.operands) == 4 and is_zero(op.operands[3]):
            leaf(v, op.operands[0])
        elif op.name == "load" and leaf(v, op.guard):
            loads.append(op)
        elif op.info.elementwise and len(op.results) == 1:
            known[v] = evaluate(op.info, op, [*map(number, op.operands)])[0]
        if v not in known:
            raise NotFoldable(v.name)
        return known[v]

    try:
        return loads if repr(number(value)) == repr(number(other)) else None
    except NotFoldable:
        return None


def _fill_zeros(kernel: Kernel, cfg: Cfg, load: Op) -> None:
    """Let what the guard of a load leaves out be 0."""
    assert load.guard is not None and load.guard.op is not None
    block, (yes, no) = cfg.block_of[load], load.guard.op.results
    zero = make_op("constant", [], load.result.type, span=load.span,
                   value=fit(load.result.type, 0))
    filled = make_op("psi", [yes, load.result, no, zero.result], span=load.span)
    kernel.replace({load.result: filled.result})
    filled.operands[1] = load.result
    at = block.ops.index(load) + 1
    block.ops[at:at] = [zero, filled]


def whole(mask: Value, loop: Loop, facts: Facts) -> bool:
    """Whether the loop's test says that the mask, of one step of its counter, holds everywhere."""
    op, test = _compared(mask), loop.header.terminator
    end = test.operands[0].op if test.name == "cond_br" and test.blocks[0] in loop else None
    if op is None or end is None or end.name != "icmp" \
            or op.attributes["predicate"] != "slt" or end.attributes["predicate"] != "slt":
        return False
    index, limit = op.operands[0].op, scalar_of(op.operands[1], facts)
    if index is None or index.name != "add" or limit is not end.operands[1]:
        return False
    for a, b in (index.operands, index.operands[::-1]):
        if scalar_of(a, facts) is end.operands[0]:
            least, most = facts.interval(b)
            steps = min(facts.factor(end.operands[0]), facts.factor(limit))
            return least >= 0 and most < steps
    return False


def steps_of_selections(kernel: Kernel, cfg: Cfg) -> list[Op]:
    """Comparisons of the loop's indices in masks of what is computed of loads for operands."""
    found: dict[Op, None] = {}
    for dot in [op for op in kernel.ops() if op.name == "dot"]:
        loop = cfg.innermost.get(cfg.block_of[dot])
        inside = set(loop.ops()) if loop is not None else set()
        for operand in dot.operands[:2]:
            made = computed_operand(operand, inside)
            for op in made.ops if made is not None else []:
                if op.name == "select" and shape(op.operands[0].type) and vanishing(op) is None:
                    found.update((test, None) for part in sides(op.operands[0], "and")
                                 if (test := _compared(part)) in inside and test is not None)
    return list(found)


def _compared(mask: Value) -> Op | None:
    return defined_by(origin(mask), "icmp")
