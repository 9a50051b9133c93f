"""Loops over the taps of a filter: short ones, whose iterations read what lies side by side."""

from collections.abc import Iterable
from math import prod

from tritonc.analysis.affine import Affinity
from tritonc.analysis.axis import axis_info
from tritonc.analysis.counters import counter_of, iterations
from tritonc.analysis.row_loops import only_adds
from tritonc.analysis.values import int_of, tile_loads
from tritonc.analysis.windows import ACCESS_BYTES, SMALL
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Kernel, Op
from tritonc.ir.rules import pointee
from tritonc.ir.types import scalar, shape

_MANY_TAPS, _ALL_TAPS = 16, 100
# Elements that all taps of a product load, if they run side by side: as halves they fill 64
# registers of 256 threads, beside as many sums; or each of them, of 128 x 128 x 16.  And how many
# taps there may be.
_MOST_NEAR, _MOST_EACH, MOST_TAPS = 1 << 15, 1 << 12, 9


def near(loop: Loop, ops: Iterable[Op]) -> bool:
    """Whether what a load reads in one iteration of a loop that counts lies less than an access
    from what it reads in the next, in elements so small that loads of single ones cost most."""
    affinity, counter = Affinity(), counter_of(loop)
    if counter is None:
        return False
    for op in ops:
        form = affinity.of(op.operands[0]) if op.name == "load" else None
        if form is None or form.base is None:
            continue
        moves = [(values, n) for values, n in form.offset.terms if counter.phi.result in values]
        size = scalar(pointee(op.operands[0].type)).bytes
        if size <= SMALL and len(moves) == 1 and len(moves[0][0]) == 1 \
                and abs(moves[0][1] * counter.step) * size < ACCESS_BYTES:
            return True
    return False


def few(taps: int, elements: int) -> bool:
    """Whether so many taps, which load so many elements together, may run side by side."""
    return taps <= MOST_TAPS and elements <= max(_MOST_NEAR, taps * _MOST_EACH)


def products(ops: Iterable[Op]) -> int:
    """How many taps one iteration has."""
    return sum(op.name == "dot" for op in ops)


def loaded(ops: Iterable[Op]) -> int:
    """How many elements one iteration loads."""
    return sum(prod(shape(op.result.type)) for op in ops if op.name == "load")


def adds_taps(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether loops of known numbers of iterations only add tiles of several axes, as of a filter:
    threads read rows of them again."""
    adding = [loop for block, loop in cfg.innermost.items() for op in tile_loads(block.ops)
              if len(shape(op.result.type)) > 1]
    return bool(adding) and all(only_adds(loop) and all(
        (counter := counter_of(one)) is not None and int_of(counter.limit) is not None
        for one in cfg.loops if loop.header in one.blocks) for loop in adding)


def adds_far_taps(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether these are of elements that are no neighbours in memory, as of every other pixel."""
    infos = axis_info.analyze(kernel)
    return adds_taps(kernel, cfg) and all(
        info.contiguity[-1] == 1 for loop in cfg.loops for op in tile_loads(loop.ops()) if
        len(shape(op.result.type)) > 1 and (info := infos.get(op.operands[0])) is not None)


def adds_many_rows(kernel: Kernel, cfg: Cfg) -> bool:
    """Whether these are of so many whole rows of memory that their loops remain, as of channels of
    pixels: threads read none of them again."""
    affinity, taps = Affinity(), 1
    for loop in cfg.loops:
        counter, times = counter_of(loop), iterations(loop, _ALL_TAPS)
        if counter is None or times is None:
            return False
        taps *= times
        for op in loop.ops():
            form = affinity.of(op.operands[0]) if op.name == "load" else None
            if form is not None and len(form.strides) > 1 and any(
                    values == (counter.phi.result,) for values, _ in form.offset.terms):
                return False  # along a row
    return taps > _MANY_TAPS and adds_taps(kernel, cfg)
