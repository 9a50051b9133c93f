"""flatten_rows: rows of pixels that lie one behind the other are loaded as rows of a matrix.

Before:  %q = srem %x, %W   ...                    After:  @(0 <= x + shift < B * H * W and c < C)
         @(b < B and 0 <= p + r < H                        %t = load base + x * C + (shift * C + c)
           and 0 <= q + s < W and c < C)                   %u = select (0 <= p + r < H
         %t = load base + ((b * H + p + r) * W                          and 0 <= q + s < W), %t, 0
                           + q + s) * C + c                %d = dot %u, %w
         %d = dot %t, %w

A convolution whose result has as many pixels as its image reads for each tap a box of a matrix,
whose rows are all pixels of all images, and zeros where a tap lies outside of its image.  So TMA
brings the box, and what the mask takes away beside it threads make zero in the registers that wgmma
reads.  The box has more elements than the mask: they are of the same array, pixels that the mask
allows to other rows.

After specialize, whose facts say that extents are equal; before the passes that ask what threads
compute for each row."""

from collections.abc import Iterator
from dataclasses import replace

from tritonc.analysis.affine import Affinity
from tritonc.analysis.digits import Digits, Equal, bases
from tritonc.analysis.values import is_zero, slice_of
from tritonc.backend.dots.together import large
from tritonc.backend.memory.masks.pixel_rows import Rows
from tritonc.backend.memory.masks.uniform_quotients import Quotient, of_steps, uniform_quotients
from tritonc.backend.target import matrix
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.types import shape


def flatten_rows(kernel: Kernel, context: Context) -> bool:
    """Do it for left operands of large products on wgmma, whose masks threads apply in registers.
    """
    if "tensor_map" not in context.target.features:
        return False
    uniform_quotients(kernel, quotients(kernel))
    found = flatten(kernel)
    for load in found:
        context.remark("flatten_rows", "rows are contiguous in memory: loaded as rows of a matrix",
                       load.span)
    return bool(found)


def flatten(kernel: Kernel) -> list[Op]:
    """The same, whatever the target is; the loads that were replaced."""
    found = list(_flat(kernel, on_wgmma=True))
    for rows, zeros in found:
        rows.rewrite(kernel, Cfg(kernel), zeros)
    return [rows.load for rows, _ in found]


def may_be_flat(kernel: Kernel) -> bool:
    """Whether there is a load that it could be done for."""
    return any(True for _ in _candidates(kernel, on_wgmma=True))


def quotients(kernel: Kernel, on_wgmma: bool = True) -> list[Quotient]:
    """Of what columns count of such loads, where they are in the way."""
    found = {op for rows, _ in _candidates(kernel, on_wgmma)
             for op in slice_of(rows.load.inputs(), ends=("load", "phi"))}
    return [one for one in of_steps(kernel) if one.op in found] if found else []


def flat_loads(kernel: Kernel) -> set[Op]:
    """The loads of which that could be done, if their products were on wgmma, steps of loops within
    taps, and extents equal."""
    blocks, onward = copy_blocks(kernel.blocks)
    copy = replace(kernel, blocks=blocks)
    uniform_quotients(copy, quotients(copy, on_wgmma=False), everywhere=True)
    copy.replace(equal_extents(copy, on_wgmma=False))
    found = {rows.load.result for rows, _ in _flat(copy, on_wgmma=False)}
    return {op for op in kernel.ops() if op.name == "load" and onward[op.result] in found}


def equal_extents(kernel: Kernel, on_wgmma: bool = True) -> Equal:
    """The scalars that would have to be equal for it, computed ones with what each would be."""
    found: Equal = {}
    for rows, _ in _candidates(kernel, on_wgmma):
        total = rows.address()
        pairs = total.equalities() if total is not None else None
        if pairs and not any(_one_tap(*pair) for pair in pairs.items()):
            found |= pairs
    return found


def _flat(kernel: Kernel, on_wgmma: bool) -> Iterator[tuple[Rows, Op]]:
    """Each load once."""
    found = {rows.load: (rows, zeros) for rows, zeros in _candidates(kernel, on_wgmma)
             if rows.understood() and (rows.plain or not on_wgmma)}
    yield from found.values()


def _candidates(kernel: Kernel, on_wgmma: bool) -> Iterator[tuple[Rows, Op]]:
    """Loads of left operands by quotients of a tile of numbers."""
    for load, zeros, loop in _operands(kernel, Cfg(kernel), on_wgmma):
        made = slice_of(load.inputs(), ends=("load", "phi"))
        for base in bases(made):
            yield Rows(load, Digits(base, made), loop), zeros


def _one_tap(computed: Value, other: Value) -> bool:
    """Whether two extents are equal where there is but one tap."""
    affinity = Affinity()
    a, b = (affinity.of(v) for v in (computed, other))
    assert a is not None and b is not None
    apart = a.offset - b.offset
    return sorted((len(values), n) for values, n in apart.terms) in ([(0, 1), (1, -1)],
                                                                     [(0, -1), (1, 1)])


def _operands(kernel: Kernel, cfg: Cfg, on_wgmma: bool) -> Iterator[tuple[Op, Op, Loop]]:
    """Loads in loops that are, zero where masked, left operands of products alone, with the
    operation that has the zeros."""
    readers: dict[Value, list[Op]] = {}
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        if loop is None or loop.preheader is None or (on_wgmma and not large(block)):
            continue
        for load in [op for op in block.ops if op.name == "load" and op.guard is not None
                     and len(shape(op.result.type)) == 2 and not op.attributes.get("volatile")]:
            readers = readers or uses(kernel)
            zeros = next(iter(readers.get(load.result, [])), load)
            if zeros.name == "psi" \
                    and len(readers[load.result]) == 1 and len(zeros.operands) == 4 \
                    and zeros in block.ops and any(map(is_zero, zeros.operands[1::2])) and all(
                        op.name == "dot" and op.operands[0] is zeros.result is not op.operands[1]
                        and (not on_wgmma or matrix.on_wgmma(op))
                        for op in readers.get(zeros.result, [])):
                yield load, zeros, loop
