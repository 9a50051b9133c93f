"""Copies of kernels and of their blocks."""

from __future__ import annotations

from dataclasses import replace

from tritonc.ir.core import Block, Kernel, Op, Value


def copy_blocks(blocks: list[Block], suffix: str = "") -> tuple[list[Block], dict[Value, Value]]:
    """Copies of blocks that only branch among themselves, their names with `suffix`.

    The mapping is from values to those of the copy; other values that they read stay the same.
    """
    copies = {old: Block(old.name + suffix) for old in blocks}
    mapping: dict[Value, Value] = {}
    for old, new in copies.items():
        for op in old.ops:
            copy = Op(op.name, list(op.operands), dict(op.attributes),
                      tuple(r.type for r in op.results), op.guard, op.span,
                      [copies[b] for b in op.blocks])
            for before, after in zip(op.results, copy.results, strict=True):
                after.name = before.name
                mapping[before] = after
            new.ops.append(copy)
    for new in copies.values():
        for op in new.ops:
            op.replace_inputs(mapping)
    return list(copies.values()), mapping


def copy_kernel(kernel: Kernel) -> Kernel:
    """A copy that shares nothing that passes change: parameters stay the same values."""
    return replace(kernel, blocks=copy_blocks(kernel.blocks)[0], tile=dict(kernel.tile),
                   parameters=list(kernel.parameters), info=list(kernel.info),
                   tunables=dict(kernel.tunables), attributes=dict(kernel.attributes))
