"""Local rewriting by algebra.

    %t = trans %x : f32<8, 4>
    %u = trans %t : f32<4, 8>        ->   uses of %u read %x

A rule is one function in a file of this package; its docstring states the algebra.  It looks at
an operation and at what makes its operands, and gives what stands for the result, or None.  Rules
never make the program worse: not more work, not longer lives of tiles in registers.  `RULES` holds
them by the name of the operation; those of `ANY` are tried on all.

The pass goes over the blocks in reverse postorder, so that operands come first; it tries the rules
on each operation, and on what a rule made, until none applies, and over all again until nothing
changes.  What is no longer used is left to `dce`."""

from functools import cache

from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.ops import ROWS
from tritonc.opt.fold_constants import fold
from tritonc.opt.peephole import dots, floats, integers, pointers, predicates, shapes, uniform
from tritonc.opt.peephole.rewrite import Rewriter, Rule

RULES: dict[str, list[Rule]] = {}
for file in (uniform, integers, floats, predicates, shapes, pointers, dots):
    for name, some in file.RULES.items():
        RULES.setdefault(name, []).extend(some)
ANY = [*predicates.ANY, *uniform.ANY]

_MAX_SWEEPS = 20  # more would mean that two rules undo each other; a test watches for that


def peephole(kernel: Kernel, context: Context) -> bool:
    """Apply the rules until none applies."""
    changed = False
    for _ in range(_MAX_SWEEPS):
        if not sweep(kernel):
            break
        changed = True
    return changed


def sweep(kernel: Kernel, only: Rule | None = None) -> bool:
    """One walk over the kernel; with `only`, by that rule alone, and nothing is folded."""
    return _Sweep(kernel, only).run()


class _Sweep:
    """The state of one walk."""

    def __init__(self, kernel: Kernel, only: Rule | None) -> None:
        self.kernel = kernel
        self.only = only
        self.rewriter = Rewriter(kernel)
        self.replaced: dict[Value, Value] = {}
        self.out: list[Op] = []  # the new content of the block

    def run(self) -> bool:
        for block in Cfg(self.kernel).order:
            self.out = []
            self.rewriter.here.clear()
            for op in block.ops:
                self.visit(op)
            block.ops = self.out
        self.kernel.replace(self.replaced)  # what phis read across back edges
        return bool(self.replaced) or self.rewriter.dropped

    def visit(self, op: Op) -> None:
        if self.replaced:
            op.replace_inputs(self.replaced)
        if op.name != "phi":
            self.rewriter.op = op
            found = self.rewrite(op)
            if found is not None:
                self.take(op, found)
                return
        self.out.append(op)
        self.rewriter.here.add(op)

    def rewrite(self, op: Op) -> list[Value] | None:
        """The results of the first rule that applies."""
        r = self.rewriter
        number = fold(op) if self.only is None else None
        if number is not None:
            return [r.constant(number, op.result.type)]
        for rule in rules_for(op.name, self.only):
            found = rule(op, r)
            if found is not None:
                return found if isinstance(found, list) else [found]
            if r.made:
                r.discard()
        return None

    def take(self, op: Op, found: list[Value]) -> None:
        """Put the new operations in place of the old one, and look at them in turn."""
        r = self.rewriter
        made, r.made = r.made, []
        for new in made:
            self.visit(new)
        r.retire(op)
        for old, value in zip(op.results, found, strict=True):
            value = self.replaced.get(value, value)
            assert value.type == old.type, f"{op.name}: {old.type} became {value.type}"
            if old.name and not value.name and value.op is not None and value.op in made:
                value.name = old.name
            self.replaced[old] = value
            r.use_counts[value] = r.use_counts.get(value, 0) + r.use_counts.get(old, 0)


@cache
def rules_for(name: str, only: Rule | None) -> list[Rule]:
    """The rules to try on operations of that name."""
    rules = [*(rule for applies, rule in ANY if applies(ROWS[name])), *RULES.get(name, [])]
    return rules if only is None else [rule for rule in rules if rule is only]
