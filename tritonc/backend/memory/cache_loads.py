"""cache_loads: loads from memory that nobody writes use the read-only cache.

Before:  @%p %v = load %x                     After:  @%p %v = load %x {cache = nc}

A parameter that is declared read_only, or points to const, promises that the program does not write
through it; that nothing writes there through another one is proved here: every store of the kernel
goes elsewhere, because one of the two parameters is declared restrict, or known to be apart in that
body; there another program may write it, which counts if atomics order the two.  LLVM finds the
like for loads without a guard and restrict parameters only, and the assembler may not move others
across stores.  What is not hinted at stays coherent: another kernel may write it meanwhile."""

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.analysis.values import origin
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel
from tritonc.ir.ops import READ, WRITE


def cache_loads(kernel: Kernel, context: Context) -> bool:
    """Set `cache` on loads through read-only parameters that no store may reach."""
    hinted = {value for value, info in zip(kernel.parameters, kernel.info, strict=True)
              if info.read_only}
    if not hinted:
        return False
    roots = pointer_roots(kernel)
    ordered = any(op.effects >= {READ, WRITE} or op.attributes.get("volatile")
                  for op in kernel.ops())
    hints = () if ordered else ("assume_multiple",)
    loads = [op for op in kernel.ops() if op.name == "load" and (root := roots.get(op.operands[0]))
             and origin(root, hints) in hinted
             and not op.attributes.get("volatile") and not op.attributes.get("cache")]
    one = {roots[op.operands[0]]: op for op in loads}  # of each parameter, and body
    safe = {root for root, op in one.items()
            if not stores_may_reach(kernel, kernel.blocks, [op], roots)}
    for op in loads:
        if roots[op.operands[0]] in safe:
            op.attributes["cache"] = "nc"
    return bool(safe)
