"""The same question to z3, where it is installed (`pip install tritonc[prove]`).

Asked only where `certificates` finds no proof.  The limit is one of z3's own steps, not of time, so
that the answer does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from tritonc.analysis.linear import Linear
from tritonc.ir.core import Value

_STEPS = 20_000_000  # of z3, some two seconds


def available() -> bool:
    return find_spec("z3") is not None


def entails(facts: Sequence[Linear], splits: Sequence[Sequence[Sequence[Linear]]], goal: Linear
            ) -> bool:
    """Whether z3 shows that the goal is not negative where no fact is, and one branch of each split
    holds."""
    if not available():
        return False
    import z3  # which is optional, and large

    context = z3.Context()
    symbols: dict[Value, object] = {}

    def holds(poly: Linear) -> object:
        total = z3.IntVal(0, context)
        for monomial, n in poly.terms:
            product = z3.IntVal(n, context)
            for v in monomial:
                if v not in symbols:
                    symbols[v] = z3.Int(f"{v.name} {len(symbols)}", context)
                product = product * symbols[v]
            total = total + product
        return total >= 0

    solver = z3.Solver(ctx=context)
    solver.set("rlimit", _STEPS)
    for fact in facts:
        solver.add(holds(fact))
    for split in splits:
        solver.add(z3.Or([z3.And([holds(f) for f in branch]) for branch in split]))
    solver.add(z3.Not(holds(goal)))
    return bool(solver.check() == z3.unsat)
