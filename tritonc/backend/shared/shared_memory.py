"""What operations do to shared memory: which bytes of which buffer each reads or writes."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from tritonc.backend.layout.access import VECTOR_BITS
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Op, Value
from tritonc.ir.layouts.layout import SharedLayout, log2
from tritonc.ir.ops import ROWS, SHARED_READ, SHARED_WRITE
from tritonc.ir.types import Buffer, Scalar, Tile, scalar
from tritonc.records import NamedTuple

VIEWS = ("buffer_stage", "buffer_trans", "buffer_reshape")  # of their operand
SHARED_ALIGNMENT = 1024  # of where a block's begins: what the widest swizzle asks for
# Bytes left to barriers, cells and small exchanges by those who take what there is.
LEFT = 1024
# Operands that one warp alone uses at this place, in its own order: barriers, maps in making.
OWN_WARP = {"expect_full": 0, "tma_load": 1, "tensor_map": 0, "publish_maps": 1}
# Operations that hand buffers, which stand from this operand on, from one user to the next.
HANDS_OVER = {"arrive_empty": 1, "wait_empty": 2}
_SHARED = frozenset({SHARED_READ, SHARED_WRITE})


class Access(NamedTuple):
    """One use of a buffer.  `ahead` is the stage's distance in iterations, None for all stages."""

    allocation: Op
    write: bool
    ahead: int | None
    op: Op


def allocate(element: Scalar, layout: SharedLayout, stages: int = 1, **more: Any) -> Op:
    """A buffer of that many tiles; `more`: its span, name (`named`) and attributes."""
    return make_op("alloc_shared", [], Buffer(element, layout.shape, stages, layout), **more)


def own_buffer(t: Tile, stages: int = 1, held: int | None = None, **more: Any) -> Op:
    """A buffer where each thread finds its own elements of a tile, those that differ in the first
    `held` bits of its registers side by side, or what an access of 16 bytes brings.  `private`, if
    no other thread holds the same elements: then nothing needs a barrier."""
    layout, e = t.layout, scalar(t)
    assert layout is not None
    if held is None:
        held = log2(min(layout.registers, VECTOR_BITS // e.bits))
    bases = (*layout.register[:held], *layout.thread, *layout.register[held:])
    if all(bases):
        more["private"] = True
    return allocate(e, SharedLayout(t.shape, tuple(filter(None, bases))), stages, **more)


def allocation(buffer: Value) -> tuple[Op, int | None]:
    """The alloc_shared behind a view, and the distance of the stage if one was taken."""
    ahead: int | None = None
    op = buffer.op
    while op is not None and op.name in VIEWS:
        if op.name == "buffer_stage":
            ahead = op.attributes.get("ahead")
        op = op.operands[0].op
    assert op is not None and op.name == "alloc_shared"
    return op, ahead


def pitch(op: Op) -> int:
    """The bytes of each stage of a buffer that count: stages are as far apart."""
    t = op.result.type
    assert isinstance(t, Buffer)
    return int(op.attributes.get("pitch", t.stage_bytes))


def buffer_bytes(op: Op) -> int:
    """The bytes of a buffer with all stages."""
    t = op.result.type
    assert isinstance(t, Buffer)
    return (t.stages - 1) * pitch(op) + t.stage_bytes


def allocations(op: Op) -> set[Op]:
    """The buffers and barriers that an operation names."""
    return {allocation(v)[0] for v in op.operands if isinstance(v.type, Buffer)}


@cache
def _effects(name: str) -> frozenset[str]:
    """What an operation of that name does to the buffers that it names."""
    return frozenset() if name in (*VIEWS, "alloc_shared") else ROWS[name].effects & _SHARED


def accesses(op: Op) -> list[Access]:
    """The uses of buffers that an operation makes; none for views and allocations."""
    effects = _effects(op.name)
    if not effects:
        return []
    found = []
    for i, value in enumerate(op.operands):
        if OWN_WARP.get(op.name) == i or i >= HANDS_OVER.get(op.name, len(op.operands)):
            continue
        if isinstance(value.type, Buffer):
            root, ahead = allocation(value)
            for write, effect in ((False, SHARED_READ), (True, SHARED_WRITE)):
                if effect in effects:
                    found.append(Access(root, write, ahead, op))
    return found


def body_of(cfg: Cfg, blocks: Iterable[Block]) -> set[Block]:
    """What may run in a block's program beside `blocks`: all behind the last choice by facts, as of
    arguments, before them.  Without such a choice, or where a loop leads back to it, everything."""
    found = list(blocks)
    start = found[0] if found else cfg.order[0]
    while (above := cfg.immediate_dominator[start]) is not None and not (
            above.terminator.attributes.get("facts")
            and all(cfg.dominates(start, block) for block in found)):
        start = above
    return set(reached([start]))
