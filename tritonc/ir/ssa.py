"""Static single assignment kept while control flow changes."""

from collections.abc import Mapping

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
    _drop_trivial(kernel, made)


def _drop_trivial(kernel: Kernel, made: list[tuple[Block, Op]]) -> None:
    """Remove phis whose operands are one value, or they themselves."""
    left, changed = list(made), True
    while changed:
        changed = False
        for block, phi in left:
            others = {v: None for v in phi.operands if v is not phi.result}
            if len(others) == 1:
                block.ops.remove(phi)
                left.remove((block, phi))
                kernel.replace({phi.result: next(iter(others))})
                changed = True
                break
