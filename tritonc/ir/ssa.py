"""Static single assignment kept while control flow changes."""

from collections.abc import Container, Iterable, Mapping

from tritonc.ir.build import until_unchanged
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value


def rewire(kernel: Kernel, cfg: Cfg, old: Value, definitions: Mapping[Block, Value],
           users: list[tuple[Op, Block]]) -> None:
    """Let users of `old` read the definition that reaches them: phis come where several meet.

    `definitions`: blocks -> the value that stands for `old` at their end.  `users`: operations and
    their blocks; a phi reads at the end of the block that its operand comes from.  Each way to a
    user must pass one of the definitions.  (Braun et al. 2013, as in semantic analysis.)"""
    ends = dict(definitions)
    made: list[tuple[Block, Op]] = []

    def at_end(block: Block) -> Value:
        if block not in ends:
            ends[block] = at_start(block)
        return ends[block]

    def at_start(block: Block) -> Value:
        sources = cfg.predecessors[block]
        if len(sources) == 1:
            return at_end(sources[0])
        phi = Op("phi", [], None, (old.type,), span=old.op.span if old.op is not None else None)
        phi.result.name = old.name
        ends[block] = phi.result  # a way around a loop comes back to it
        made.append((block, phi))
        phi.operands = [at_end(source) for source in sources]
        phi.blocks = list(sources)
        return phi.result

    starts: dict[Block, Value] = {}
    for op, block in users:
        if op.name == "phi":
            op.operands = [at_end(source) if value is old else value
                           for value, source in zip(op.operands, op.blocks, strict=True)]
            continue
        if block not in starts:
            starts[block] = definitions[block] if block in definitions else at_end(block)
        op.replace_inputs({old: starts[block]})
    for block, phi in made:
        block.ops.insert(0, phi)
    phis = {phi for _, phi in made}
    until_unchanged(lambda: fold_phis(kernel, dict.fromkeys(block for block, _ in made), phis))


def fold_phis(kernel: Kernel, blocks: Iterable[Block], among: Container[Op] | None = None) -> bool:
    """Replace phis of the blocks whose operands are one value, or themselves; whether there are
    any.  `among`: the phis in question, if not all.

    Two such phis never stand for one another: in code that can be reached, the operand from
    outside of a cycle dominates it."""
    mapping: dict[Value, Value] = {}
    for block in blocks:
        phis = block.phis()
        for op in phis:
            values = {v for v in op.operands if v is not op.result}
            if len(values) == 1 and (among is None or op in among):
                mapping[op.result] = values.pop()
        block.ops[: len(phis)] = [op for op in phis if op.result not in mapping]
    kernel.replace(mapping)
    return bool(mapping)
