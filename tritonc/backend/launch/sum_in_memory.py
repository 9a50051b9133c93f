"""How blocks that share a loop of sums add them up in memory that the launch gives.

Before:  exit:  ... %c                       After:  exit:    store %own, %c
                                                              %n = atomic_rmw %ticket, 1 {add}
                                                              cond_br %n == blocks - 1, last, others
                                                     last:    %s = the sums of block 0, 1, ...
                                                              store %ticket, 0
                                                              ...
                                                     others:  ret

Each block stores its sums and takes a ticket of its program; who takes the last one adds up those
of all, in the order of their numbers, and goes on alone.  It puts the ticket back, so that memory
that was zero before the first launch is ready for the next one.  An atomic of a scalar releases and
acquires, with a barrier before and after it.

    bytes 0 to 4 * TICKETS      a ticket for each program
    from there on               the sums of each block of program 0, of program 1, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tritonc.backend.launch.persist import own_number
from tritonc.ir.build import Builder
from tritonc.ir.cfg import split
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.types import F32, I32, I64, Pointer, Tile, scalar, shape
from tritonc.source import fail
from tritonc.variants.choice import MOST_IN_MEMORY

TICKETS = MOST_IN_MEMORY
ALIGNED = 16  # bytes
_AXES = 3  # of a grid
_LOADED = 1 << 13  # elements of sums that are on their way at a time,
_MOST = 8  # of so many blocks at most


def add_parameter(kernel: Kernel, sums: Sequence[Sequence[Value]]) -> None:
    """The memory as one more parameter; `sums` are those of each way through the kernel.  Raises
    CompileError for sums of other sizes than memory is for."""
    if any(scalar(value.type).bytes != 4 for values in sums for value in values):
        raise fail("variant", kernel.span, "sums in memory have 32 bits each")
    size = max(4 * sum(prod(shape(value.type)) for value in values) for values in sums)
    bytes = -(-size // ALIGNED) * ALIGNED
    kernel.parameters.append(Value(Pointer(F32), name="workspace"))
    kernel.info.append(ParameterInfo(ctype="float *", multiple_of=ALIGNED, no_alias=True))
    kernel.attributes["workspace"] = bytes


def add_up(kernel: Kernel, b: Builder, sums: list[Value], rank: Value, blocks: int
           ) -> tuple[dict[Value, Value], Builder]:
    """At `b`, the sums of all blocks in place of each block's own; where its successor goes on."""
    here, memory = b.block, kernel.parameters[-1]
    assert b.at is not None
    rest, left = Block(f"{here.name}.last"), Block(f"{here.name}.others")
    add, after = Block(f"{here.name}.add"), Block(f"{here.name}.rest")
    split(here, b.at, after)
    b = Builder(here, None, b.span)
    each = kernel.attributes["workspace"] // 4
    program, _ = own_number(b, _AXES)
    ticket = b.value("addptr", b.value("bitcast", memory, type=Pointer(I32)), program)
    own = b.value("add", b.value("mul", program, b.constant(blocks, I32)), rank)

    def start(b: Builder, number: Value) -> Value:
        place = b.value("mul", b.value("sext", number, type=I64), b.constant(each, I64))
        return b.value("addptr", memory, b.value("add", place, b.constant(TICKETS, I64)))

    first = start(b, own)
    offset = 0
    offsets = []
    for value in sums:
        b.emit("store", _places(b, first, offset, value), value)
        offsets.append(offset)
        offset += prod(shape(value.type))
    before = b.value("atomic_rmw", ticket, b.constant(1, I32), kind="add")
    last = b.value("icmp", before, b.constant(blocks - 1, I32), predicate="eq")
    b.emit("cond_br", last, blocks=[rest, left])
    Builder(left, None, b.span).emit("ret")
    together = max(1, min(_MOST, blocks, _LOADED // max(1, offset)))
    while blocks % together:
        together -= 1
    b = Builder(rest, None, b.span)
    zero = b.constant(0, I32)
    zeros = [b.constant(0.0 if scalar(v.type) == F32 else 0, v.type) for v in sums]
    base = b.value("mul", program, b.constant(blocks, I32))
    b.emit("br", blocks=[add])
    counter = Op("phi", [zero], {}, (I32,), blocks=[rest])
    totals = [Op("phi", [value], {}, (value.type,), blocks=[rest]) for value in zeros]
    add.ops += [counter, *totals]
    b = Builder(add, None, b.span)
    loaded = []
    for turn in range(together):
        number = b.value("add", b.value("add", base, counter.result), b.constant(turn, I32))
        source = start(b, number)
        loaded.append([b.value("load", _places(b, source, offset, value))
                       for offset, value in zip(offsets, sums, strict=True)])
    found = [phi.result for phi in totals]
    for row in loaded:
        found = [b.value("fadd" if scalar(v.type) == F32 else "add", total, v)
                 for total, v in zip(found, row, strict=True)]
    following = b.value("add", counter.result, b.constant(together, I32))
    for phi, value in zip((counter, *totals), (following, *found), strict=True):
        phi.operands.append(value)
        phi.blocks.append(add)
    more = b.value("icmp", following, b.constant(blocks, I32), predicate="slt")
    b.emit("cond_br", more, blocks=[add, after])
    at = kernel.blocks.index(here) + 1
    kernel.blocks[at:at] = [rest, add, after, left]
    b = Builder(after, 0, b.span)
    b.emit("store", ticket, zero)
    return dict(zip(sums, found, strict=True)), b


def _places(b: Builder, first: Value, offset: int, value: Value) -> Value:
    """Where the elements of a value are, row-major from `offset` on."""
    pointer, kind = b.value("addptr", first, b.constant(offset, I32)), Pointer(scalar(value.type))
    if kind.element != F32:
        pointer = b.value("bitcast", pointer, type=kind)
    if not isinstance(value.type, Tile):
        return pointer
    count = prod(value.type.shape)
    places = b.value("range", start=0, stop=count)
    if len(value.type.shape) > 1:
        places = b.value("reshape", places, type=Tile(I32, value.type.shape))
    return b.value("addptr", b.value("splat", pointer, type=Tile(kind, value.type.shape)), places)
