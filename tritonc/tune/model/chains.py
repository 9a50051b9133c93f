"""A second entry for chained products, as of attention: of twice the rows, for short programs.

Where blocks of one warpgroup fill each other's waits, that is the faster tile of long loops.  But
each block makes its tensor maps and waits for its first operands.  Persistent blocks of two
warpgroups do that once, and a producer warp is ahead into their next programs: what they lose in
each step, they save between programs.  Which is more the launch knows; not where programs may end
before any work, since blocks that are not persistent save nothing.  H200, bf16, heads of 64,
us by rows of 64 and of 128, heads x keys; causal ones have half the steps:

    64 x 4096   551, 575   causal 305, 317        32 x 2048   77.9, 77.7   causal 47.3, 46.4
    16 x 8192   554, 567          278, 290        64 x 1024   42.5, 40.4          29.5, 27.6
    2 x 16384   310, 285          177, 145        128 x 512   26.3, 24.0          20.8, 19.7
    8 x 4096    86.8, 75.5       46.8, 41.8       16 x 2048   46.9, 40.4          27.6, 25.5
    8 x 1024    10.3, 12.7       10.8, 13.5         4 x 512    6.9, 8.5            7.1, 9.4
"""

from collections.abc import Mapping, Sequence
from math import prod

from tritonc.analysis.values import computed_from
from tritonc.backend.dots.together import chained
from tritonc.backend.launch.persist import uneven
from tritonc.backend.target.target import Target
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel
from tritonc.tune.model.choose import Binding, Lower, Ranked, ranked
from tritonc.tune.model.form import form_of
from tritonc.tune.model.loops import Around
from tritonc.tune.model.portfolio import Member
from tritonc.tune.model.residency import ENOUGH, ROWS
from tritonc.variants.choice import Cost

_UNIT = 4  # of a cycle, in a `Cost`
# Cycles by warpgroups of a block: of a launch; before and after its steps; of a step of 64 x 128
# scores for each, where all of a multiprocessor's warpgroups compute, and of a block alone.
_ONCE, _START, _STEP, _ALONE = (500, 4500), (5600, 1900), (920, 1915), (1450, 1960)
_SCORES = 64 * 128
_DOUBT = 1.02, 1.05  # where all programs are as long, and where they are not


def more_rows(space: Mapping[str, Sequence[int]], lower: Lower, target: Target, general: Binding
              ) -> tuple[Member, Cost, tuple[Around, ...]] | None:
    """The entry of twice the rows, the cost of the `general` one of a warpgroup, and the loops;
    None where the kernel is no chain of two products, where its blocks do not persist, or where
    there is no such tile."""
    (kernel,) = lower(general).kernels
    if "tensor_map" not in target.features or uneven(kernel) or not any(
            map(chained, kernel.blocks)):
        return None
    form, rows = form_of(space, lower), ranked(space, lower, target)
    own = next((row for row in rows if row.binding == general), None)
    if form is None or not form.loops or own is None or len(_dots(own)) != 2:
        return None
    wanted = [(2 * m, *rest) for m, *rest in _dots(own)]
    other = next((row for row in rows if row.runs and _dots(row) == wanted), None)
    if other is None or {m for m, *_ in _dots(own)} != {ROWS}:
        return None
    costs, grows = [], _grows(kernel)
    for groups, row in enumerate((own, other)):
        depths = [depth << grows for depth in form.cuts(row.binding)[1]]
        scale = _UNIT * prod(_dots(own)[0][:2]) / _SCORES * _DOUBT[grows] ** groups
        costs.append(Cost(target.multiprocessors, 1 if groups else ENOUGH, _UNIT * _ONCE[groups],
                          _UNIT * _START[groups], round(scale * _STEP[groups]),
                          round(scale * _ALONE[groups]), depths=(*depths,)))
    return Member(other.binding, costs[1]), costs[0], form.loops


def _dots(row: Ranked) -> list[tuple[int, ...]]:
    return [feature.extents for feature in row.profile if feature.kind == "dot"]


def _grows(kernel: Kernel) -> bool:
    """Whether the loop of the products ends where its program's number says, as under a causal
    mask: programs have half of its length."""
    return any(computed_from(v, "get_program_id") for loop in Cfg(kernel).loops
               if any(op.name == "dot" for op in loop.ops())
               for block, _ in loop.exits for v in block.terminator.operands[:1])
