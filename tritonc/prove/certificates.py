"""Whether polynomial facts imply another: `entails(facts, goal)`.

All polynomials are over integers, and a fact or a goal says that its polynomial is not negative.
The method is Handelman's, cut to what index arithmetic needs: facts, and facts times symbols that
are not negative, are taken as linear inequalities over monomials; with the opposite of the goal,
-goal - 1 >= 0, they have no solution if some sum of them, each times a number that is not negative,
is a negative constant.  The simplex method finds the numbers (the form of Dutertre and de Moura,
2006); exact arithmetic checks the sum.  `False` says that no proof was found, and nothing more;
then z3 is asked (`entailed`), where it is installed (`pip install tritonc[prove]`).

    facts  M - 1 - a >= 0,  K - 1 - b >= 0,  K - 1 >= 0
    goal   M*K - 1 - a*K - b >= 0
    proof  K * (M - 1 - a)  +  (K - 1 - b)  +  (-goal - 1)  =  -1
"""

from collections.abc import Sequence
from fractions import Fraction
from importlib.util import find_spec
from math import gcd

from tritonc.analysis.linear import Linear, without
from tritonc.ir.core import Value
from tritonc.prove.claims import ONE

Monomial = tuple[int, ...]  # numbers of symbols, sorted
Polynomial = dict[Monomial, int]
Exact = int | Fraction
_ROUNDS = 5  # how often facts are multiplied to meet the monomials of those before
_MOST = 240  # inequalities
_DEGREE = 5
_LARGE = 1 << 24  # a number above which all that is below it is of no use as a factor
_PIVOTS = 400
_STEPS = 20_000_000  # of z3, some two seconds: not of time, which would depend on the machine


def _polynomial(linear: Linear, numbers: dict[Value, int]) -> Polynomial:
    """With numbers for symbols, so that monomials compare fast and in one order."""
    found: Polynomial = {}
    for monomial, n in linear.terms:
        key = tuple(sorted(numbers.setdefault(v, len(numbers)) for v in monomial))
        found[key] = found.get(key, 0) + n
    return {m: n for m, n in found.items() if n}


def entails(facts: Sequence[Linear], goal: Linear) -> bool:
    """Whether a proof is found that `goal` is not negative where no fact is."""
    if goal.constant is not None and goal.constant >= 0:
        return True
    numbers: dict[Value, int] = {}
    opposite = _tightened(_polynomial(goal.scaled(-1) - ONE, numbers))
    given = [_tightened(_polynomial(fact, numbers)) for fact in facts]
    known = list({tuple(sorted(f.items())): f for f in given if f}.values())
    return refutes(known, opposite)


def entailed(facts: Sequence[Linear], splits: Sequence[Sequence[Sequence[Linear]]], goal: Linear
             ) -> bool:
    """Whether z3 shows that the goal is not negative where no fact is, and one branch of each split
    holds."""
    if find_spec("z3") is None:
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


def refutes(facts: list[Polynomial], opposite: Polynomial) -> bool:
    """Whether the facts and `opposite` are shown to have no common solution."""
    if any(set(f) == {()} and f[()] < 0 for f in (*facts, opposite)):
        return True
    positive = {m[0] for f in facts for m in [_lone(f)] if m is not None}
    least = {m[0] for f in facts for m in [_lone(f)] if m is not None and f.get((), 0) < 0}
    facts = [f for f in facts if f.get((), 0) or (m := _lone(f)) is None or m[0] not in least]
    facts += [bound for f in facts for bound in _parts(f, least)]
    products: dict[tuple[int, Monomial], Polynomial] = {(-1, ()): opposite}
    met = {m for m in opposite if m}
    before = 0
    for _ in range(_ROUNDS):
        _multiply(facts, opposite, positive, products, met)
        if len(products) == before:
            return False
        before = len(products)
        rows = list(products.values())
        weights = _farkas(rows)
        if weights is not None:
            return _adds_up(rows, weights)
        met |= {m for row in rows for m in row if m}
    return False


def _multiply(facts: list[Polynomial], opposite: Polynomial, positive: set[int],
              products: dict[tuple[int, Monomial], Polynomial], met: set[Monomial]) -> None:
    """Add facts, times what makes one of their monomials one that was met."""
    wanted = sorted(met, key=lambda m: (len(m), m))
    symbols = {s for m in met for s in m}
    for number, fact in enumerate(facts):
        if any(s in symbols for m in fact for s in m):
            _add(number, fact, (), positive, products)
        if fact.get((), 0) > _LARGE:
            continue
        for monomial in fact:
            if not monomial:
                continue
            for target in wanted:
                factor = without(target, monomial)
                if factor is None or len(products) >= _MOST:
                    continue
                _add(number, fact, factor, positive, products)
    for fact in facts:  # the opposite meets the facts in the same way
        for target in fact:
            for monomial in opposite:
                factor = without(target, monomial) if monomial else None
                if factor:
                    _add(-1, opposite, factor, positive, products)


def _add(number: int, fact: Polynomial, factor: Monomial, positive: set[int],
         products: dict[tuple[int, Monomial], Polynomial]) -> None:
    key = number, factor
    if key in products or any(s not in positive for s in factor):
        return
    if max(map(len, fact)) + len(factor) <= _DEGREE:
        products[key] = {tuple(sorted(m + factor)): n for m, n in fact.items() if n}


def _parts(fact: Polynomial, least: set[int]) -> list[Polynomial]:
    """Of `c - n * a * b * ... >= 0` the same for some of the factors, if the others are >= 1."""
    rest = [m for m in fact if m]
    if len(rest) != 1 or fact[rest[0]] > 0 or not 2 <= len(rest[0]) <= 6:
        return []
    (monomial,) = rest
    if any(s not in least for s in monomial):
        return []
    parts = {tuple(s for i, s in enumerate(monomial) if chosen >> i & 1)
             for chosen in range(1, (1 << len(monomial)) - 1)}
    return [{part: fact[monomial], (): fact.get((), 0)} for part in sorted(parts)]


def _lone(fact: Polynomial) -> Monomial | None:
    """(s,) of a fact `n * s + c >= 0` from which s >= 0 follows."""
    rest = [m for m in fact if m]
    if len(rest) == 1 and len(rest[0]) == 1 and fact[rest[0]] > 0 and fact.get((), 0) <= 0:
        return rest[0]
    return None


def _tightened(fact: Polynomial) -> Polynomial:
    """Divided by what divides all but the constant, which is rounded down: all are integers.

    >>> _tightened({(0,): 16, (): -1})
    {(0,): 1, (): -1}
    """
    divisor = gcd(*(n for m, n in fact.items() if m))
    if divisor <= 1:
        return fact
    found = {m: n // divisor for m, n in fact.items()}
    return {m: n for m, n in found.items() if n}


def _adds_up(rows: list[Polynomial], weights: dict[int, Exact]) -> bool:
    """Whether the weighted sum of the rows is a negative constant, as the proof says."""
    total: dict[Monomial, Exact] = {}
    for number, weight in weights.items():
        if weight < 0:
            return False
        for monomial, n in rows[number].items():
            total[monomial] = total.get(monomial, 0) + weight * n
    constant = total.pop((), 0)
    return constant < 0 and not any(total.values())


def _farkas(rows: list[Polynomial]) -> dict[int, Exact] | None:
    """Weights for the rows, each `row >= 0`, that show that no values of monomials obey all.

    Row i is a slack variable with a lower bound; monomials have no bounds.  Where a slack is below
    its bound and nothing that it depends on may move, its equation is the proof."""
    low = [-row.get((), 0) for row in rows]
    # Keys: the number of a row for its slack, a monomial for itself.
    table: dict[int | Monomial, dict[int | Monomial, Exact]] = {
        i: {m: n for m, n in row.items() if m} for i, row in enumerate(rows)}
    value: dict[int | Monomial, Exact] = dict.fromkeys(range(len(rows)), 0)
    value |= {m: 0 for row in rows for m in row if m}
    for _ in range(_PIVOTS):
        basic = min((k for k in table if isinstance(k, int) and value[k] < low[k]), default=None)
        if basic is None:
            return None
        row = table[basic]
        free = min((k for k in row if not isinstance(k, int)), default=None)
        entering: int | Monomial | None = free
        if entering is None:
            entering = min((k for k, a in row.items() if a > 0 and isinstance(k, int)),
                           default=None)
        if entering is None:
            return {basic: 1, **{k: -a for k, a in row.items() if isinstance(k, int)}}
        _pivot(table, value, basic, entering, low[basic])
    return None


def _pivot(table: dict[int | Monomial, dict[int | Monomial, Exact]],
           value: dict[int | Monomial, Exact], basic: int | Monomial, entering: int | Monomial,
           target: Exact) -> None:
    """Let `basic` have the value `target`, and `entering` take its place in the table."""
    row = table.pop(basic)
    by = row.pop(entering)
    change = _divided(target - value[basic], by)
    value[basic] = target
    value[entering] += change
    own = {k: _divided(-a, by) for k, a in row.items()}
    own[basic] = _divided(1, by)
    for key, other in table.items():
        a = other.pop(entering, None)
        if a is None:
            continue
        value[key] += a * change
        for k, b in own.items():
            total = other.get(k, 0) + a * b
            if total:
                other[k] = total.numerator if total.denominator == 1 else total
            else:
                other.pop(k, None)
    table[entering] = own


def _divided(a: Exact, b: Exact) -> Exact:
    """The quotient: an integer if it is one, with which Python computes much faster."""
    if type(a) is int and type(b) is int and a % b == 0:
        return a // b
    found = Fraction(a, b)
    return found.numerator if found.denominator == 1 else found
