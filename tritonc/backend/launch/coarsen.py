"""coarsen: one entry with two bodies, for small and for large tiles; the size of the launch
chooses.

Before:  two kernels of one source,      After:  launch: few = programs <= most || they are <= worth
                                                         times the large tiles
         of tiles of 64 x 128                            number = this block's, of all
         and of 128 x 256                                cond_br few || number < large tiles,
                                                                 choose, over
                                                 choose: cond_br few, s, l
                                                 s:      ... a tile of 64 x 128
                                                 l:      ... the tile `number` of 128 x 256
                                                 over:   ret

The host launches a block for each *small* tile.  Where these are few, each computes its own, so
that more multiprocessors have work; also where large tiles would be empty for the most part, as
those of a narrow matrix are.  Else the tiles of the other body are larger by a whole factor along
each axis, the first blocks compute one each, and the blocks beyond them end at once.  They come
last in the order in which the hardware starts blocks.  The last round of persistent blocks is
computed in small tiles where that is faster (`last_round`).

The programs of the large body are numbered as if the host had launched it alone: what reads the
number of a program, or of programs, reads numbers of large tiles.

Both kernels went through all passes, each by itself: every buffer has its place in shared memory,
of which the entry has as much as the larger of both needs, and every layout its number of warps,
which has to be the same.  The second one is the context's (`Context.small`), which knows whether it
pays (`tune.coarse`); this pass only says whether the two can be one.

A meta-parameter, `coarsen`: up to so many programs run the small body; 0 makes none."""

from collections.abc import Mapping, Sequence
from math import prod

from tritonc.backend.launch import last_round
from tritonc.backend.launch.add_pingpong import add_pingpong, can_add
from tritonc.backend.launch.persist import axes, own_number, supersede
from tritonc.backend.pipeline.tma.roles import COPIES, SETUP
from tritonc.ir.build import Builder
from tritonc.ir.context import Context, PingpongKernel
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import I1, I32

AXES = 3  # of a grid
MOST = 1 << 12  # programs that a small body may have: the square of such a number has 32 bits


def coarsen(kernel: Kernel, context: Context) -> bool:
    """Add the context's small body to the kernel, if it has one."""
    if context.small is None or context.meta.get("coarsen") == 0:
        return False
    found = context.small(kernel)
    if found is None:
        return False
    reason = obstacle(kernel, found.kernel)
    if reason is not None:
        context.remark("coarsen", f"no smaller tiles for launches of few programs: {reason}",
                       kernel.span, missed=True)
        return False
    given = context.meta.get("coarsen")
    most, worth = (found.most, found.worth) if given is None else (given, 0)
    tile = " x ".join(map(str, found.kernel.tile.values()))
    pingpong = found.pingpong
    if pingpong is not None and not _can_pingpong(kernel, found.kernel, pingpong.kernel):
        pingpong = None
    join(kernel, found.kernel, most, worth, pingpong)
    context.remark("coarsen", f"launches of at most {most} programs use smaller tiles: "
                   f"{tile}", kernel.span)
    if pingpong is not None:
        context.remark("coarsen", "launches of more programs, with aligned rows, use ping-pong of "
                       "warpgroups: " + " x ".join(map(str, pingpong.kernel.tile.values())),
                       kernel.span)
    return True


def obstacle(large: Kernel, small: Kernel) -> str | None:
    """Why two kernels that went through the passes cannot be one; None if they can."""
    if ratios(large.tile, small.tile) is None:
        return "the larger tile is not a multiple of the smaller one"
    if large.attributes["num_warps"] != small.attributes["num_warps"]:
        return "the two tiles need different numbers of warps"
    if large.attributes.get("pingpong") or small.attributes.get("pingpong"):
        return "warpgroups take programs in turn"
    if max(kernel.attributes.get("cluster", 1) for kernel in (large, small)) > 1:
        return "the kernel is launched in clusters"
    # A producer warp runs what it does in both bodies, or in none.
    roles = [kernel.attributes.get("producer_warps", 0) for kernel in (large, small)]
    if roles[0] != roles[1] and any(op.name in (*SETUP, *COPIES) for op in
                                    (large, small)[roles.index(0)].ops()):
        return "one of the tiles uses a producer warp"
    if not roles[0] and roles[1]:
        return "the smaller tile uses a producer warp"
    return None


def _can_pingpong(large: Kernel, small: Kernel, pingpong: Kernel) -> bool:
    return can_add(large, pingpong) and axes(large.blocks) == axes(pingpong.blocks) and (
        pingpong.tile == small.tile or ratios(pingpong.tile, small.tile) is not None)


def ratios(large: Mapping[int, int], small: Mapping[int, int]) -> dict[int, int] | None:
    """How many small tiles a large one has along each axis; None where they are no whole number,
    or where none is more than 1."""
    if [*large] != [*small] or any(large[axis] % small[axis] for axis in large):
        return None
    found = {axis: large[axis] // small[axis] for axis in large}
    return found if any(ratio > 1 for ratio in found.values()) else None


def join(large: Kernel, small: Kernel, most: int, worth: int = 1,
         pingpong: PingpongKernel | None = None) -> None:
    """Make `large` an entry whose launches of at most `most` programs run the body of `small`,
    which is used up, and those whose large tiles would hold at most `worth` small ones each; there
    is no `obstacle`.  Others may run a body of `pingpong`."""
    times = ratios(large.tile, small.tile)
    assert times is not None and most <= MOST
    small.replace(dict(zip(small.parameters, large.parameters, strict=True)))
    launch, choose, over = Block("launch"), Block("choose"), Block("over")
    b = Builder(launch)
    count = axes(large.blocks)
    number, launched = own_number(b, count)
    extents = _extents(b, count, times)
    total = b.joined("mul", extents)
    filled = b.value("mul", total, b.constant(worth, I32))
    few = b.value("or", _few(b, most), b.value("icmp", launched, filled, predicate="ule"))
    inside = b.value("icmp", number, total, predicate="ult")
    plain = worth > 1 and "bands" not in small.attributes  # blocks of persistent ones go on
    last = last_round.plan(b, large, prod(times.values()), total, launched) if plain else None
    used = b.value("icmp", number, last.bound, predicate="ult") if last else inside
    b.emit("cond_br", b.value("or", few, used), blocks=[choose, over])
    b = Builder(choose)
    _renumber(b, large, extents, number)
    start, other, more = small.entry, large.entry, list[Block]()
    if last is not None:
        start, other, more = last_round.add(large, small, last, times, number, inside, extents)
    b.emit("cond_br", few, blocks=[start, other])
    Builder(over).emit("ret")
    kernels, added = [large, small], list[Block]()
    if pingpong is not None:
        kernels.append(pingpong.kernel)
        added = _pingpong(launch, large, small, pingpong, few, number, count)
    large.blocks = [launch, *added, choose, *more, *small.blocks, *large.blocks, over]
    large.tile = dict(small.tile)
    large.attributes["small"] = {"most": most, **small.tunables}
    large.attributes["shared_bytes"] = max(
        int(kernel.attributes.get("shared_bytes", 0)) for kernel in kernels)


def _pingpong(launch: Block, large: Kernel, small: Kernel, found: PingpongKernel, few: Value,
              number: Value, count: int) -> list[Block]:
    """Let launches of many programs run the body of `found`, if its loop is no longer than it says;
    returns the blocks behind `launch`."""
    pingpong, end = found.kernel, launch.ops.pop()
    pingpong.replace(dict(zip(pingpong.parameters, large.parameters, strict=True)))
    b = Builder(launch)
    wanted = b.value("xor", few, b.constant(1, I1))
    for argument, most in found.longest:
        length = large.parameters[argument]
        wanted = b.value("and", wanted, b.value(
            "icmp", length, b.constant(most, length.type), predicate="sle"))
    launch.ops.append(end)
    turn, added = add_pingpong(launch, pingpong, wanted, end.operands[0], number)
    end = turn.ops.pop()
    b = Builder(turn)
    _renumber(b, pingpong, _extents(b, count, ratios(pingpong.tile, small.tile) or {}), number)
    turn.ops.append(end)
    return added


def _extents(b: Builder, count: int, times: Mapping[int, int]) -> list[Value]:
    """How many tiles there are along each axis, that have `times` as much of it as a block's."""
    extents = [b.value("get_num_programs", axis=axis) for axis in range(count)]
    for axis, ratio in times.items():
        if axis < count and ratio > 1:
            up = b.value("add", extents[axis], b.constant(ratio - 1, I32))
            extents[axis] = b.value("udiv", up, b.constant(ratio, I32))
    return extents


def _few(b: Builder, most: int) -> Value:
    """Whether there are at most so many programs along all axes."""
    beyond = b.constant(most + 1, I32)
    total = b.constant(1, I32)
    for axis in range(AXES):
        extent = b.value("umin", b.value("get_num_programs", axis=axis), beyond)
        total = b.value("umin", b.value("mul", total, extent), beyond)
    return b.value("icmp", total, beyond, predicate="ult")


def _renumber(b: Builder, kernel: Kernel, extents: Sequence[Value], number: Value) -> None:
    """Other numbers for the programs of a kernel, by this block's `number` of all."""
    numbers, rest = [], number
    for extent in extents[:-1]:
        numbers.append(b.value("urem", rest, extent))
        rest = b.value("udiv", rest, extent)
    numbers.append(rest)
    known = {"get_program_id": numbers, "get_num_programs": extents}
    supersede(kernel, kernel.blocks, {op.result: known[op.name][op.attributes["axis"]]
                                      for op in kernel.ops() if op.name in known})
    kernel.replace(_linear(kernel.blocks, numbers, extents, number))


def _linear(blocks: Sequence[Block], numbers: Sequence[Value], extents: Sequence[Value],
            number: Value) -> dict[Value, Value]:
    """What is computed of the numbers along all axes, and is the number that they were taken from:
    `(n / b % c) * b + n % b` is n."""
    last = len(numbers) - 1
    place = {numbers[last]: last}  # a value that counts along this axis and the next ones

    def at(op: Op) -> int | None:
        for product, own in (op.operands, op.operands[::-1]):
            if product.op is None or product.op.name != "mul":
                continue
            for upper, extent in (product.op.operands, product.op.operands[::-1]):
                axis = place.get(upper, 0) - 1
                if axis >= 0 and extent is extents[axis] and own is numbers[axis]:
                    return axis
        return None

    for op in (op for block in blocks for op in block.ops):
        if op.name == "add" and op.result.type == I32 and (axis := at(op)) is not None:
            place[op.result] = axis
    return {value: number for value, axis in place.items() if axis == 0 and value is not number}
