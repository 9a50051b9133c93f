"""What the loops of a kernel hold in registers, of its tiles."""

from collections.abc import Iterator
from functools import cache

from tritonc.analysis.registers.liveness import Liveness
from tritonc.analysis.values import slice_of
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Value
from tritonc.ir.types import Type, is_float, shape


def live_tiles(kernel: Kernel, cfg: Cfg) -> Iterator[list[Type]]:
    """The types of what is held at the start of each block: what it merges, and of a loop the
    numbers that it only reads, and which come from before it; indices and masks where they follow
    from what is loaded, as of pixels at loaded places.  In a loop in a loop, also what the outer
    one holds and reads afterwards."""
    loops = {loop.header: loop for loop in cfg.loops}
    live = Liveness(cfg) if any(loop.parent for loop in cfg.loops) else None

    @cache
    def own(block: Block) -> dict[Value, None]:
        inside = set(loops[block].ops()) if block in loops else set()
        merged = {op.result: None for op in block.ops if op.name == "phi"}
        return merged | {v: None for op in inside for v in op.inputs() if v.op is not None
                         and v.op not in inside and (v.op.info.elementwise or v.op.name == "load")
                         and (is_float(v.type) or is_led(v))}

    for block in kernel.blocks:
        found, loop = own(block).copy(), loops.get(block)
        if loop is not None and loop.latch is not None and live is not None:
            later = live.at_end(loop.latch)
            while (loop := loop.parent) is not None:
                found |= {v: None for v in own(loop.header) if v in later}
        yield [v.type for v in found]


def is_led(value: Value) -> bool:
    """Whether a tile follows, element by element, from one that is loaded."""
    return any(op.name == "load" and shape(op.result.type) == shape(value.type) for op in slice_of(
        [value], ends=("load", "phi", "broadcast", "reshape"), masks=False))
