"""reduce(x, axis, f) and scan(x, axis, f): a function of the program combines the elements.

The function takes two values of one type, a number or a struct of numbers, and gives one.  It is
lowered once, as a kernel of its own, to the text of a combiner (`ir.combiner`): branches become
choices, so that it runs side by side for all pairs of elements.  Where all that it does to each
member is what a built-in reduction does, the reduction is that one."""

from collections.abc import Iterator
from typing import Any

from tritonc.frontend import syntax
from tritonc.ir import combiner
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I1, Scalar
from tritonc.sema import functions, generics
from tritonc.sema.context import Context, decayed
from tritonc.sema.operations import implicit
from tritonc.sema.scope import FunctionEntity
from tritonc.sema.types import shapes
from tritonc.sema.types.ctypes import AUTO_TYPE, CType, PointerTo, Struct, ctype, member_type
from tritonc.sema.types.term import Refused, Term, good
from tritonc.source import Note


def combine(context: Context, node: syntax.Call, x: Term, axis: int, entity: FunctionEntity,
            scan: bool, reverse: bool = False) -> Term:
    """The reduction or scan of `x`, a tile of numbers or structs, by a function of the program."""
    given = decayed(Term(ctype(x.type.element))).type if not x.poisoned else x.type
    entity = generics.chosen(context, entity, [Term(given)] * 2, node)
    type = _combined_type(context, entity, given, node)
    first = node.arguments[0].span
    context.at(first)
    x = good(implicit.assign(context, x, ctype(type.element, x.shape), first,
                             f"a parameter of '{entity.name}'",
                             entity.note))
    function = _combiner(context, entity, type, node)
    context.at(node.span)
    left = x.shape if scan else x.shape[:axis] + x.shape[axis + 1 :]
    parts = x.leaves()
    if x.shape[axis] == 1:
        found = [shapes.reshape(context, part, left) for part in parts]
    elif function.kinds is not None:
        found = [_built_in(context, part, kind, axis, left, scan, reverse)
                 for part, kind in zip(parts, function.kinds, strict=True)]
    else:
        extra: dict[str, Any] = {"reverse": True} if reverse else {}
        text = combiner.write(function.parameters, function.ops, function.results)
        op = context.emit("scan_with" if scan else "reduce_with", *map(context.value, parts),
                          function=text, axis=axis, **extra)
        found = [Term(ctype(part.type.element, left), result)
                 for part, result in zip(parts, op.results, strict=True)]
    return assemble(ctype(type.element, left), iter(found))


def assemble(type: CType, values: Iterator[Term]) -> Term:
    """The inverse of `Term.leaves`."""
    if not isinstance(type.element, Struct):
        return next(values)
    return Term(type, members=tuple(assemble(member_type(type, at), values)
                                    for at in range(len(type.element.members))))


def _built_in(context: Context, x: Term, kind: str, axis: int, left: shapes.Shape, scan: bool,
              reverse: bool) -> Term:
    type = ctype(x.type.element, left)
    if not scan:
        return context.op("reduce", type, x, kind=kind, axes=[axis])
    extra: dict[str, Any] = {"reverse": True} if reverse else {}
    return context.op("scan", type, x, kind=kind, axis=axis, **extra)


def _combined_type(context: Context, entity: FunctionEntity, given: CType, node: syntax.Call
                   ) -> CType:
    """What the function takes twice and gives once."""
    if entity.node.body is None:
        context.refuse("combining-function", node.span, f"'{entity.name}' is declared but has no "
                       "body in this file", entity.note)
    types: list[CType | None] = []
    parameters = entity.node.parameters
    if len(parameters) == 2 and all(p.type.extents is None for p in parameters):  # not tiles
        instance = generics.instance(context, entity, [Term(given)] * 2, [node.span] * 2)
        types = [*instance.signature.parameters, instance.signature.returns]
        if types[2] is AUTO_TYPE:
            types.pop()
        if None in types:
            raise Refused
    first = types[0] if types else None
    if first is None or any(t is not first for t in types) or not _plain(first):
        context.refuse("combining-function", node.span, f"'{node.callee}' needs a function that "
                       "combines two numbers, or two structs of numbers, to one of the same type; "
                       f"'{entity.name}' does not", entity.note)
    return first


def _plain(type: CType) -> bool:
    """A scalar number, or a struct of such."""
    if isinstance(type.element, Struct):
        return all(_plain(t) for _, t in type.element.members)
    return not type.shape and not isinstance(type.element, PointerTo)


def _combiner(context: Context, entity: FunctionEntity, type: CType, node: syntax.Call
              ) -> combiner.Combiner:
    """The function as a combiner; what it cannot do is said once."""
    known, key = context.unit.combiners, (entity, type)
    entity.used = True
    if key not in known:
        known[key] = None
        known[key] = combiner.read(_lowered(context, entity, type, node))
    found = known[key]
    if found is None:
        raise Refused
    return found


def _lowered(context: Context, entity: FunctionEntity, type: CType, node: syntax.Call) -> str:
    call = node.span
    errors = context.diagnostics.errors
    kernel = Kernel(entity.name, [], [], span=entity.span)
    inner = Context(context.unit, context.diagnostics, kernel, context.unit.scope,
                    context.handlers, context.pure_calls)
    inner.contract, inner.frame = context.contract, context.frame
    instance = generics.instance(context, entity, [Term(type)] * 2, [call] * 2)
    functions.check_depth(inner, entity, node)
    values = [functions.parameters_of(inner, type) for _ in range(2)]
    result = functions.inline(inner, instance, values, call)
    if context.diagnostics.errors != errors or not inner.live:
        raise Refused
    if result.type is not type:
        context.refuse("combining-function", call, f"'{entity.name}' combines {type}, but gives "
                       f"{result.type}", entity.note)
    results = [inner.value(leaf) for leaf in result.leaves()]
    inner.emit("ret")
    inner.ssa.finish(kernel)
    functions.check_reads(inner)
    results = [inner.ssa.resolve(value) for value in results]
    cfg = Cfg(kernel)
    if cfg.loops:
        span = cfg.loops[0].header.terminator.span or entity.span
        context.refuse("combining-function", span, f"'{entity.name}' combines elements of a tile "
                       "side by side, so it cannot have loops", Note("it is given here", call))
    ops, mapping = _straight(cfg)
    results = [mapping.get(value, value) for value in results]
    ops = _needed(ops, results)
    for op in ops:
        if not combiner.combines(op):
            context.refuse("combining-function", op.span or entity.span, f"'{entity.name}' "
                           "combines elements of a tile, so it can only compute with numbers; this "
                           f"is '{op.name}'", Note("it is given here", call))
    made = {*kernel.parameters, *(found for op in ops for found in op.results)}
    read = {*results, *(operand for op in ops for operand in op.operands)}
    if context.diagnostics.errors != errors or not read <= made:  # an error that is told once
        raise Refused
    return combiner.write(kernel.parameters, ops, results)


def _straight(cfg: Cfg) -> tuple[list[Op], dict[Value, Value]]:
    """The operations in one line, and what each value that is gone has become.

    Phis become choices by the conditions that lead to them; what has no value becomes 0."""
    block = Block("straight")
    build = Builder(block)
    edges: dict[tuple[Block, Block], Value] = {}
    mapping: dict[Value, Value] = {}
    true = build.constant(True, I1)
    for at in cfg.order:
        condition: Value | None = None
        for source in cfg.predecessors[at]:
            edge = edges[source, at]
            condition = edge if condition is None else build.value("or", condition, edge)
        for op in at.ops:
            op.replace_inputs(mapping)
            if op.name == "phi":
                pairs = [(v, edges[b, at]) for v, b in zip(op.operands, op.blocks, strict=True)
                         if (b, at) in edges]
                found = pairs[-1][0]
                for value, edge in reversed(pairs[:-1]):
                    found = build.value("select", edge, value, found)
                mapping[op.result] = found
            elif op.name == "undef" and isinstance(op.result.type, Scalar):
                e = op.result.type
                mapping[op.result] = build.constant(0.0 if e.is_float else 0, e)
            elif op is not at.terminator:
                block.ops.append(op)
        _leave(build, at, condition or true, edges, true)
    return block.ops, mapping


def _leave(build: Builder, at: Block, condition: Value, edges: dict[tuple[Block, Block], Value],
           true: Value) -> None:
    """Note under which conditions the block goes to which."""
    last = at.terminator
    if last.name == "br":
        edges[at, last.blocks[0]] = condition
    elif last.name == "cond_br":
        yes, no = last.blocks
        holds = last.operands[0]
        fails = build.value("xor", holds, true)
        for target, way in ((yes, holds), (no, fails)):
            here = way if condition is true else build.value("and", condition, way)
            known = edges.get((at, target))
            edges[at, target] = here if known is None else build.value("or", known, here)


def _needed(ops: list[Op], results: list[Value]) -> list[Op]:
    """Those that the results depend on, and those that a combiner cannot do."""
    wanted = set(results)
    kept: list[Op] = []
    for op in reversed(ops):
        if not wanted.isdisjoint(op.results) or not combiner.combines(op):
            kept.append(op)
            wanted.update(op.inputs())
    return kept[::-1]
