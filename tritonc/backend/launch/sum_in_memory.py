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

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod

from tritonc.backend.launch.persist import own_number
from tritonc.ir.build import Builder
from tritonc.ir.cfg import add_incoming, make_phi, split
from tritonc.ir.core import Block, Kernel, ParameterInfo, Value
from tritonc.ir.rules import neutral
from tritonc.ir.types import F32, I32, I64, Pointer, Tile, scalar, shape
from tritonc.source import fail
from tritonc.variants.choice import MOST_IN_MEMORY

TICKETS = MOST_IN_MEMORY
ALIGNED = 16  # bytes
_AXES = 3  # of a grid
_LOADED = 1 << 13  # elements of sums that are on their way at a time,
_MOST = 8  # of so many blocks at most


def add_parameter(kernel: Kernel, sums: Sequence[Collection[Value]]) -> None:
    """The memory as one more parameter; `sums` are those of each way through the kernel.  Raises
    CompileError for sums of other sizes than memory is for."""
    if any(scalar(value.type).bytes != 4 for values in sums for value in values):
        raise fail("variant", kernel.span, "sums in memory have 32 bits each")
    size = max(4 * sum(prod(shape(value.type)) for value in values) for values in sums)
    bytes = -(-size // ALIGNED) * ALIGNED
    kernel.parameters.append(Value(Pointer(F32), name="workspace"))
    kernel.info.append(ParameterInfo(ctype="float *", multiple_of=ALIGNED, no_alias=True))
    kernel.attributes["workspace"] = bytes


def add_up(kernel: Kernel, b: Builder, sums: dict[Value, str], rank: Value, blocks: int
           ) -> tuple[dict[Value, Value], Builder]:
    """At `b`, the sums of all blocks in place of each block's own; where its successor goes on."""
    memory = kernel.parameters[-1]
    program, _ = own_number(b, _AXES)
    ticket = b.value("addptr", b.value("bitcast", memory, type=Pointer(I32)), program)
    base = b.value("mul", program, b.constant(blocks, I32))
    for place, value in zip(_stored(kernel, b, b.value("add", base, rank), sums), sums,
                            strict=True):
        b.emit("store", place, value)
    before = b.value("atomic_rmw", ticket, b.constant(1, I32), kind="add")
    last = b.value("icmp", before, b.constant(blocks - 1, I32), predicate="eq")
    b = go_on_alone(kernel, b, last, "last")
    b.emit("store", ticket, b.constant(0, I32))
    totals, b = _totals(kernel, b, base, sums, blocks)
    return dict(zip(sums, totals, strict=True)), b


def go_on_alone(kernel: Kernel, b: Builder, condition: Value, name: str) -> Builder:
    """Where those blocks go on for which the condition, made at `b`, holds; the others end."""
    here = b.block
    assert b.at is not None
    rest, left = Block(f"{here.name}.{name}"), Block(f"{here.name}.others")
    split(here, b.at, rest)
    Builder(here, None, b.span).emit("cond_br", condition, blocks=[rest, left])
    Builder(left, None, b.span).emit("ret")
    at = kernel.blocks.index(here) + 1
    kernel.blocks[at:at] = [rest, left]
    return Builder(rest, 0, b.span)


def _totals(kernel: Kernel, b: Builder, base: Value, sums: dict[Value, str], blocks: int
            ) -> tuple[list[Value], Builder]:
    """The sums of a program's blocks, from number `base` on, added up by a loop at `b`; what
    follows it."""
    here = b.block
    assert b.at is not None
    add, after = Block(f"{here.name}.add"), Block(f"{here.name}.rest")
    split(here, b.at, after)
    b = Builder(here, None, b.span)
    starts = [b.constant(0, I32)]
    starts += [b.constant(neutral(kind, scalar(v.type)) + 0, v.type) for v, kind in sums.items()]
    b.emit("br", blocks=[add])
    phis = [make_phi([start], [here]) for start in starts]
    add.ops += phis
    b = Builder(add, None, b.span)
    counter, *totals = (phi.result for phi in phis)
    together = max(1, min(_MOST, blocks, _LOADED // sum(prod(shape(v.type)) for v in sums)))
    while blocks % together:
        together -= 1
    first = b.value("add", base, counter)
    rows = [[b.value("load", place) for place in _stored(kernel, b, b.value(
        "add", first, b.constant(turn, I32)), sums)] for turn in range(together)]
    for row in rows:
        totals = [*map(b.value, sums.values(), totals, row)]
    following = b.value("add", counter, b.constant(together, I32))
    for phi, value in zip(phis, (following, *totals), strict=True):
        add_incoming(phi, value, add)
    more = b.value("icmp", following, b.constant(blocks, I32), predicate="slt")
    b.emit("cond_br", more, blocks=[add, after])
    at = kernel.blocks.index(here) + 1
    kernel.blocks[at:at] = [add, after]
    return totals, Builder(after, 0, b.span)


def _stored(kernel: Kernel, b: Builder, number: Value, sums: Iterable[Value]) -> Iterator[Value]:
    """Where the block of that number has its sums."""
    each = b.constant(kernel.attributes["workspace"] // 4, I64)
    place = b.value("add", b.value("mul", b.value("sext", number, type=I64), each),
                    b.constant(TICKETS, I64))
    first, offset = b.value("addptr", kernel.parameters[-1], place), 0
    for value in sums:
        yield _places(b, first, offset, value)
        offset += prod(shape(value.type))


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
