"""The second body of an entry, for launches of few programs, as `coarsen` takes it.

It is the source with other tunables, as a variant is, and what may be a variant may be this: the
same launch means the same to both (`interface`).  It goes through all passes by itself, up to
`coarsen`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tritonc.ir.context import Context, PingpongKernel, SmallBody
from tritonc.ir.core import Kernel, Module
from tritonc.ir.ops import READ, WRITE
from tritonc.source import CompileError

if TYPE_CHECKING:
    from tritonc.tune.model.coarse import Small

Lower = Callable[[Mapping[str, int], str], Module]
Choose = Callable[[Kernel], "Small | None"]


def small_body(kernel: Kernel, lower: Lower, choose: Choose, context: Context, level: int,
               verify: Callable[[Kernel, Context], None] | None
               ) -> Callable[[Kernel], SmallBody | None] | None:
    """What makes the small body, with as many warps, beside a large one that went through the
    passes; None where there can be none: without a product, or where programs may wait for each
    other.  `lower` makes the source's Triton-IR with other tunables; `kernel` has not gone through.
    """
    ops = [*kernel.ops()]
    if all(op.name != "dot" for op in ops) or any(op.effects >= {READ, WRITE} for op in ops):
        return None

    def make(large: Kernel) -> SmallBody | None:
        from tritonc import pass_manager, passes
        from tritonc.variants.kernels import lowered
        from tritonc.variants.variant import Variant

        chosen = choose(kernel)
        if chosen is None:
            return None
        whole = lower({}, kernel.name)
        meta = {**context.meta, "num_warps": large.attributes["num_warps"], "coarsen": 0}
        if large.attributes.get("bands"):  # `coarsen` gives the programs their numbers
            meta["group"] = 1

        def passed(binding: Mapping[str, int], meta: dict[str, int]) -> Kernel:
            own = replace(context, meta=meta, remarks=[], warnings=[], small=None)
            found = lowered(Variant(binding), whole.kernels[0], whole, lower)
            pass_manager.run(found, own, [*passes.OPT, *passes.BACKEND], level=level,
                             hooks=pass_manager.Hooks(verify=verify))
            return found

        try:
            small = passed(chosen.binding, meta)
            body = chosen.pingpong
            pingpong = None if body is None else PingpongKernel(passed(body.binding, {
                **context.meta, "coarsen": 0, "pingpong": 2}), body.longest)
        except CompileError as error:
            context.remark("coarsen", "no smaller tiles for launches of few programs: "
                           f"{error.diagnostics[0].message}", kernel.span, missed=True)
            return None
        return SmallBody(small, chosen.most, chosen.worth, pingpong)

    return make
