"""improve_combiners: functions that combine elements of tiles are improved as kernels are.

    reduce_with %m, %s {function = "..., f32 %m0, f32 %s0, f32 %m1, f32 %s1 -> %m, %s;
        %m = fmax %m0, %m1; ...; %a = exp %x; ...; %b = exp %y; ..."}
    ->  one exponential, since one of the two is that of 0

What they are is text (`ir.combiner`), which other passes do not look into.  A function that says by
its form that elements may change places may lose that form: then its text says so."""

from tritonc.ir import combiner
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.types import Pointer, scalar
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.peephole import peephole

PASSES = (fold_constants, peephole, cse, dce)


def improve_combiners(kernel: Kernel, context: Context) -> bool:
    """Improve the functions of reductions and scans."""
    known: dict[str, str] = {}
    changed = False
    for op in kernel.ops():
        if op.name in ("reduce_with", "scan_with"):
            text = op.attributes["function"]
            if text not in known:
                known[text] = _improved(text, context)
            op.attributes["function"] = known[text]
            changed |= known[text] != text
    return changed


def _improved(text: str, context: Context) -> str:
    """The function as the only block of a kernel that stores what it gives."""
    function = combiner.read(text)
    own = {p: Value(p.type) for p in function.parameters}
    mapping = dict(own)
    places = [Value(Pointer(scalar(r.type))) for r in function.results]
    block = Block("entry")
    block.ops = copy_ops(function.ops, mapping)
    stores = [make_op("store", [place, mapping.get(result, result)])
              for place, result in zip(places, function.results, strict=True)]
    block.ops += [*stores, Op("ret", [])]
    parameters = [*own.values(), *places]
    kernel = Kernel("f", parameters, [ParameterInfo() for _ in parameters], [block])
    changed = [improve(kernel, context) for improve in PASSES]
    if not any(changed):
        return text
    results = [op.operands[1] for op in block.ops if op.name == "store"]
    ops = [op for op in block.ops if op.name not in ("store", "ret")]
    if len(results) != len(places) or not all(map(combiner.combines, ops)):
        return text
    return combiner.write(list(own.values()), ops, results, function.commutative)
