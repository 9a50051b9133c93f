"""Copies of operations, of blocks and of kernels."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tritonc.ir.cfg import Loop, redirect
from tritonc.ir.core import TYPE, Block, Kernel, Op, Value


def copy_ops(ops: Iterable[Op], mapping: dict[Value, Value],
             blocks: Mapping[Block, Block] | None = None) -> list[Op]:
    """Copies that read mapped values and name mapped blocks; their results join `mapping`."""
    found, get = [], mapping.get
    for op in ops:
        targets = [blocks.get(block, block) for block in op.blocks] if blocks else list(op.blocks)
        new = Op(op.name, [get(v, v) for v in op.operands], dict(op.attributes),
                 (*map(TYPE, op.results),), op.guard and get(op.guard, op.guard), op.span, targets)
        for before, after in zip(op.results, new.results, strict=True):
            after.name = before.name
            mapping[before] = after
        found.append(new)
    return found


def copy_blocks(blocks: list[Block], suffix: str = "") -> tuple[list[Block], dict[Value, Value]]:
    """Copies of blocks that only branch among themselves, their names with `suffix`.

    The mapping is from values to those of the copy; other values that they read stay the same."""
    copies = {old: Block(old.name + suffix) for old in blocks}
    mapping: dict[Value, Value] = {}
    for old, new in copies.items():
        new.ops = copy_ops(old.ops, mapping, copies)
    for new in copies.values():
        for op in new.ops:
            op.replace_inputs(mapping)  # a phi reads what comes later
    return list(copies.values()), mapping


def copy_iterations(loop: Loop, numbers: Iterable[int], source: Block, values: dict[Value, Value]
                    ) -> Iterator[tuple[list[Block], dict[Value, Value]]]:
    """Copies of a loop with one latch, one behind the other: each goes on at the next, the first
    comes after `source`, the last leads back to the header.  `values`: what the header's phis are
    in the first; copies have no phis of their own.  With each come the values as it has them."""
    header, latch, phis = loop.header, loop.latch, loop.header.phis()
    assert latch is not None
    following = [(phi.result, loop.next(phi)) for phi in phis]
    for copies, mapping in [copy_blocks(loop.blocks, f".{n}") for n in numbers]:
        first = copies[0]
        first.ops = first.ops[len(phis):]
        begun = {mapping[phi]: value for phi, value in values.items()}
        for block in copies:
            for op in block.ops:
                op.replace_inputs(begun)
        redirect(source, header, first)
        source = copies[loop.blocks.index(latch)]
        redirect(source, first, header)
        known = {value: begun.get(new, new) for value, new in mapping.items()}
        values = {phi: known.get(value, value) for phi, value in following}
        yield copies, known


def copy_kernel(kernel: Kernel) -> Kernel:
    """A copy that shares nothing that passes change: parameters stay the same values."""
    return replace(kernel, blocks=copy_blocks(kernel.blocks)[0], tile=dict(kernel.tile),
                   parameters=list(kernel.parameters), info=list(kernel.info),
                   tunables=dict(kernel.tunables), attributes=dict(kernel.attributes))


def flat(kernel: Kernel) -> Any:
    """What `unflat` makes the kernel of, for pickle, which would go along operands call by call."""
    numbers = {value: i for i, value in enumerate(
        [*kernel.parameters, *(result for op in kernel.ops() for result in op.results)])}
    places = {block: i for i, block in enumerate(kernel.blocks)}
    rows = [(block.name, [
        (op.name, [numbers[v] for v in op.operands], op.attributes, (*map(TYPE, op.results),),
         op.guard and numbers[op.guard], op.span, [places[to] for to in op.blocks],
         [result.name for result in op.results]) for op in block.ops]) for block in kernel.blocks]
    return replace(kernel, blocks=[]), rows


def unflat(data: Any) -> Kernel:
    kernel: Kernel = data[0]
    values, kernel.blocks = [*kernel.parameters], [Block(name) for name, _ in data[1]]
    for block, (_, rows) in zip(kernel.blocks, data[1], strict=True):
        for name, _, attributes, types, _, span, to, names in rows:
            block.ops.append(Op(name, [], attributes, types, None, span,
                                [kernel.blocks[place] for place in to]))
            for result, known in zip(block.ops[-1].results, names, strict=True):
                result.name = known
                values.append(result)
    for block, (_, rows) in zip(kernel.blocks, data[1], strict=True):
        for op, (_, read, _, _, guard, *_) in zip(block.ops, rows, strict=True):
            op.operands = [values[number] for number in read]
            op.guard = None if guard is None else values[guard]
    return kernel
