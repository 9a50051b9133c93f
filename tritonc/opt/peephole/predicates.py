"""Rules of comparisons, predicates, choices and guards.

An operand, or an element of one, may be undefined: what a masked load did not read.  A rule may put
a defined value for an undefined one, never the reverse; so `select c, x, false` does not become
`and c, x`, which reads x also where c does not hold."""

from tritonc.analysis.facts import full
from tritonc.analysis.values import constant_of, defined_by, int_of
from tritonc.ir.core import Op, Value
from tritonc.ir.ops import OPPOSITE, SWAPPED
from tritonc.ir.types import I1, element
from tritonc.opt.peephole.rewrite import General, Rewriter, Rule

_STRICT = {"sle": ("slt", 1), "sge": ("sgt", -1), "ule": ("ult", 1), "uge": ("ugt", -1)}


def _is(value: Value, wanted: bool) -> bool:
    """A constant predicate, true or false in all elements."""
    number = constant_of(value)
    return number is not None and bool(number) == wanted


def _inverted(value: Value) -> Value | None:
    """c, where the value is `xor c, true`; no number, of which `xor` inverts some bits."""
    op = defined_by(value, "xor")
    return op.operands[0] if op is not None and element(value.type) == I1 and _is(
        op.operands[1], True) else None


def compare_constant_on_the_right(op: Op, r: Rewriter) -> Value | None:
    """c < x = x > c, and so for the other predicates."""
    a, b = op.operands
    if constant_of(a) is None or constant_of(b) is not None:
        return None
    return r.value(op.name, b, a, predicate=SWAPPED[op.attributes["predicate"]])


def compare_by_bounds(op: Op, r: Rewriter) -> Value | None:
    """x < y is known where the bounds of x and y do not overlap; so are the other predicates."""
    (al, ah), (bl, bh) = (r.facts.interval(v) for v in op.operands)
    predicate: str = op.attributes["predicate"]
    if predicate[0] == "u":
        if al < 0 or bl < 0:
            return None
        predicate = "s" + predicate[1:]
    elif element(op.operands[0].type).bits == 1 and predicate[0] == "s":
        return None  # true is -1 to a signed comparison
    known: bool | None = None
    if predicate in ("eq", "ne"):
        if ah < bl or bh < al:
            known = predicate == "ne"
    elif predicate in ("slt", "sge"):
        if ah < bl or al >= bh:
            known = (ah < bl) == (predicate == "slt")
    elif ah <= bl or al > bh:
        known = (ah <= bl) == (predicate == "sle")
    return r.constant(known, op.result.type) if known is not None else None


def compare_strictly(op: Op, r: Rewriter) -> Value | None:
    """x <= c = x < c + 1 and x >= c = x > c - 1, unless the constant is the last of its type."""
    a, b = op.operands
    c, bits = int_of(b), element(a.type).bits
    strict = _STRICT.get(op.attributes["predicate"])
    if c is None or strict is None or bits == 1:
        return None
    predicate, by = strict
    low, high = full(bits) if predicate[0] == "s" else (0, (1 << bits) - 1)
    bound = c if predicate[0] == "s" else c & ((1 << bits) - 1)
    if not low <= bound + by <= high:
        return None
    return r.value("icmp", a, r.constant(c + by, b.type), predicate=predicate)


def not_of_compare(op: Op, r: Rewriter) -> Value | None:
    """not (x < y) = x >= y for integers; for floats only == with !=, and ord with uno."""
    inverted = _inverted(op.result)
    compare = inverted.op if inverted is not None else None
    if compare is None or compare.name not in ("icmp", "fcmp"):
        return None
    inverse = OPPOSITE.get(compare.attributes["predicate"])
    return r.value(compare.name, *compare.operands, predicate=inverse) if inverse else None


def condition_with_its_predicate(op: Op, r: Rewriter) -> Value | None:
    """With p, q = cmpp c:  c & p = p;  c & q = false;  c | p = c;  c | q = true."""
    for c, other in (op.operands, op.operands[::-1]):
        made = other.op
        if made is not None and made.name == "cmpp" and made.operands[0] is c:
            if other is made.results[0]:
                return other if op.name == "and" else c
            return r.constant(op.name == "or", op.result.type)
    return None


def predicates_of_not(op: Op, r: Rewriter) -> list[Value] | None:
    """cmpp (not c) = the predicates of c, exchanged."""
    c = _inverted(op.operands[0])
    return list(reversed(r.emit("cmpp", c).results)) if c is not None else None


def predicates_of_predicate(op: Op, r: Rewriter) -> list[Value] | None:
    """With p, q = cmpp c:  cmpp p = p, q;  cmpp q = q, p."""
    made = op.operands[0].op
    if made is None or made.name != "cmpp":
        return None
    return list(made.results if op.operands[0] is made.results[0] else reversed(made.results))


def predicates_of_constant(op: Op, r: Rewriter) -> list[Value] | None:
    """cmpp true = true, false;  cmpp false = false, true."""
    number = constant_of(op.operands[0])
    if number is None:
        return None
    return [r.constant(holds, op.results[0].type) for holds in (bool(number), not number)]


def merge_of_few(op: Op, r: Rewriter) -> Value | None:
    """psi without the pairs that cannot matter: those whose predicate is false, those before one
    whose predicate is true, those whose value is undefined; one value left is the result."""
    pairs = list(zip(op.operands[0::2], op.operands[1::2], strict=True))
    keep = [(p, v) for p, v in pairs if not _is(p, False) and not defined_by(v, "undef")]
    for i in reversed(range(len(keep))):
        if _is(keep[i][0], True):
            keep = keep[i:]
            break
    if not keep:
        return pairs[-1][1] if defined_by(pairs[-1][1], "undef") else None
    if all(v is keep[0][1] for _, v in keep):
        return keep[0][1]
    if len(keep) == len(pairs):
        return None
    return r.value("psi", *(v for pair in keep for v in pair))


def select_of_constant(op: Op, r: Rewriter) -> Value | None:
    """select true, a, b = a;  select false, a, b = b;  select c, a, a = a; an undefined arm is
    whatever the other is."""
    c, a, b = op.operands
    if a is b or _is(c, True) or defined_by(b, "undef"):
        return a
    return b if _is(c, False) or defined_by(a, "undef") else None


def select_of_not(op: Op, r: Rewriter) -> Value | None:
    """select (not c), a, b = select c, b, a."""
    c = _inverted(op.operands[0])
    return r.value("select", c, op.operands[2], op.operands[1]) if c is not None else None


def select_with_constant_last(op: Op, r: Rewriter) -> Value | None:
    """select c, number, b = select (not c), b, number, where c is made of comparisons: masks choose
    what is not hidden first."""
    c, a, b = op.operands
    if constant_of(a) is None or constant_of(b) is not None or not _comparisons(c):
        return None
    return r.value("select", _opposite_of(c, r), b, a)


def merge_with_constant(op: Op, r: Rewriter) -> Value | None:
    """psi [p, x], [q, number] = select c, x, number, with p, q = cmpp c.  But for a load, whose
    guard takes the number (`fold_masked_loads`)."""
    pairs = list(zip(op.operands[::2], op.operands[1::2], strict=True))
    for (q, number), (p, x) in (pairs, pairs[::-1]) if len(pairs) == 2 else ():
        made = x.op.operands[0].op if x.op is not None and x.op.name == "fpcast" else x.op
        moves, moves_q = _moves(p), _moves(q)
        one, other = (chain[-1].op for chain in (moves, moves_q))
        if constant_of(number) is None or constant_of(x) is not None \
                or one is None or one is not other or one.name != "cmpp" or p is q \
                or moves[-1] is moves_q[-1] or (made is not None and made.name == "load") \
                or [v.type for v in moves] != [v.type for v in moves_q]:
            continue
        c = one.operands[0]
        if moves[-1] is not one.results[0]:
            c = r.value("xor", c, r.constant(True, c.type))
        for move in reversed(moves[:-1]):
            assert move.op is not None
            c = r.again(move.op, c).result
        return r.value("select", c, x, number)
    return None


def _moves(value: Value) -> list[Value]:
    """The value, and what it is before each reshape and broadcast."""
    found = [value]
    while (op := found[-1].op) is not None and op.name in ("reshape", "broadcast"):
        found.append(op.operands[0])
    return found


def _comparisons(value: Value, depth: int = 3) -> bool:
    """Whether the value is made of comparisons of integers, whose opposites are comparisons."""
    op = value.op
    if op is None or not depth:
        return False
    if op.name == "icmp":
        return op.attributes["predicate"] in OPPOSITE
    return op.name in ("and", "or", "reshape", "broadcast", "splat") and all(
        _comparisons(v, depth - (op.name in ("and", "or"))) for v in op.operands)


def _opposite_of(value: Value, r: Rewriter) -> Value:
    """not c, of such a value."""
    op = value.op
    assert op is not None
    if op.name == "icmp":
        return r.value("icmp", *op.operands, predicate=OPPOSITE[op.attributes["predicate"]])
    opposites = [_opposite_of(v, r) for v in op.operands]
    if op.name in ("and", "or"):
        return r.value("or" if op.name == "and" else "and", *opposites)
    return r.again(op, *opposites).result


def constant_guard(op: Op, r: Rewriter) -> list[Value] | None:
    """A guard that always holds goes; an operation whose guard never holds goes, its results are
    undefined, but for a load that says what they are then."""
    if op.guard is None:
        return None
    if _is(op.guard, True):
        return r.again(op, *op.operands).results
    if _is(op.guard, False):
        if "other" in op.attributes:
            return [r.value("constant", type=op.result.type, value=op.attributes["other"])]
        return [r.value("undef", type=v.type) for v in op.results]
    return None


ANY: list[General] = [(lambda row: row.guardable, constant_guard)]

RULES: dict[str, list[Rule]] = {
    "icmp": [compare_constant_on_the_right, compare_by_bounds, compare_strictly],
    "fcmp": [compare_constant_on_the_right],
    "xor": [not_of_compare],
    "and": [condition_with_its_predicate],
    "or": [condition_with_its_predicate],
    "cmpp": [predicates_of_not, predicates_of_predicate, predicates_of_constant],
    "psi": [merge_of_few, merge_with_constant],
    "select": [select_of_constant, select_of_not, select_with_constant_last]}

