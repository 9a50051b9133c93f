"""Which exponentials are those of softmaxes, and what their arguments are products of."""

from collections.abc import Iterator
from math import log2

from tritonc.analysis.values import SPREADS, constant_of, defined_by, is_uniform, origin
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import BF16, F32, Tile, element, scalar
from tritonc.records import dataclass

LOG2_E = float(round_to(F32, log2(2.718281828459045)))
HIDDEN = -float("inf")
GREAT = 2.0**26  # beyond which neighbouring floats are 8 apart
MODERATE = 100  # a scalar within 2^-100 and 2^100 times a few constants overflows in no product
FEW = 20  # the same of a constant

# What keeps the relative error of an operand.
_RELATIVE = frozenset({"fmul", "fdiv", "fneg", "fabs", "select", "psi", "broadcast", "reshape",
                       "trans", "convert_layout"})
SUMS_OF_ELEMENTS = _RELATIVE | {"fadd", "fsub", "fma"}
_SUMS = frozenset({"fmul", "fadd", "fsub", "fma", "fneg", "fdiv", "select", "tanh"})
_NARROW = 11  # bits of a significand
_LOW, _HIGH = ("eq", "le", "lt"), ("ne", "ge", "gt")  # comparisons


@dataclass
class Exponential:
    """exp(x - m) or exp2(x - m), with x = the product of z and `factors`, masked by `masks`.

    `peak`: the reduction that is in m of z times the `within` of its factors, the first ones."""

    op: Op
    x: Value
    row: Value  # m before it is spread over the tile; of a tile of one row, a scalar
    peak: Op | None
    z: Value
    factors: list[Value]  # scalars, the first one multiplied first
    masks: list[tuple[Op, float]]  # the innermost first, each with what it has where it hides
    within: int = 0
    any_sign: bool = False  # of the factors, since no greatest element is looked for
    great: bool = False  # whether elements may be beyond GREAT
    great_row: bool = False  # whether m may be
    outer: bool = False  # exp((x - m) * factor): the one of `factors`, which z has not got

    @property
    def unit(self) -> float:
        """What the exponent is multiplied by."""
        return LOG2_E if self.op.name == "exp" else 1.0

    @property
    def constants(self) -> list[float]:
        return [float(n) for v in self.factors if (n := constant_of(v)) is not None]

    @property
    def scalars(self) -> list[Value]:
        return [v for v in self.factors if constant_of(v) is None]


def assumed_factors(kernel: Kernel) -> list[Value]:
    """The scalars of which to be above 0 would let exponentials of products be fused, or what they
    are made of be computed in fewer steps."""
    every, factors = [*exponentials(kernel)], list[Value]()
    readers = uses(kernel) if every else {}
    home = {op: block for block in kernel.blocks for op in block.ops} if every else {}
    for found in every:
        factors += [] if found.any_sign else found.factors
        for op in inexact(found, home[found.op], readers):
            factors += [scalar_of(v) for v in op.operands[1:]] + scaled(op.operands[0], readers)[1]
    return list(dict.fromkeys(
        root for root in map(_root, factors) if root.op is None or root.op.name != "constant"))


# ---- what is known of scalars


def positive(value: Value) -> bool:
    """Whether a float is known to be above 0, and neither large nor small."""
    root = _root(value)
    choice = defined_by(root, "select")
    return defined_by(root, "assume_positive") is not None or _moderate(root) or (
        choice is not None and all(map(positive, choice.operands[1:])))


def _root(value: Value) -> Value:
    """A scalar without the moderate constants that it is multiplied by, divided by or divides."""
    for _ in range(4):
        if (op := value.op) is not None and op.name in ("fmul", "fdiv"):
            a, b = op.operands
            value = a if _moderate(b) else b if _moderate(a) else value
    return value


def _moderate(value: Value) -> bool:
    number = constant_of(value)
    return number is not None and 2.0**-FEW <= number <= 2.0**FEW


# ---- where they are


def exponentials(kernel: Kernel) -> Iterator[Exponential]:
    ops = [op for op in kernel.ops() if op.name in ("exp", "exp2")
           and isinstance(op.result.type, Tile) and element(op.result.type) == F32]
    readers = uses(kernel) if ops else {}
    for op in ops:
        if only_rounded(op.result, readers) and (found := _match(op, readers)) is not None:
            yield found


def only_rounded(value: Value, readers: dict[Value, list[Op]], summed: bool = True,
                 through: frozenset[str] = _RELATIVE) -> bool:
    """Whether a float is but rounded to at most 16 bits, factors aside or what it goes `through`,
    or `summed` over axes."""
    stack, seen = [value], {value}
    while stack:
        for op in readers.get(stack.pop(), ()):
            if summed and op.name == "reduce" and op.attributes["kind"] == "fadd":
                continue
            if op.name == "fpcast" and scalar(op.result.type).mantissa < _NARROW:
                continue
            if op.name not in through:
                return False
            stack += [result for result in op.results if result not in seen]
            seen.update(op.results)
    return True


def _match(op: Op, readers: dict[Value, list[Op]]) -> Exponential | None:
    difference, factors = difference_of(op)
    if difference is None:
        return None
    x, row = difference.operands[0], origin(difference.operands[1], SPREADS)
    if row.op is None:
        return None
    if factors:
        made = {x, *(step.z for step in _steps(op, x, row) if not step.masks)}
        great = _may_be_great(x)
        return Exponential(op, x, row, None, x, factors, [], great=great, outer=True) if any(
            peak.operands[0] in made for peak in _peaks(row)) and (
                op.name == "exp" or not great) else None
    great = _may_be_great(x)
    steps = [Exponential(op, x, row, None, x, [], [], great=great), *_steps(op, x, row)]
    for step in steps:
        step.great = great
        step.great_row = great or _may_be_great(row, is_row=True)
    for peak in _peaks(row):
        (reduced,) = peak.operands
        for i, base in enumerate(steps):
            if _alike(reduced, x) if i == 0 else reduced is base.z and not base.masks:
                own = [step for step in steps[i:] if _alone(step, {difference, peak}, readers)]
                best = max(own, key=lambda step: len(step.factors), default=base)
                best.peak, best.within = peak, len(best.factors) - len(base.factors)
                return best if best.within or op.name == "exp" else None
        if op.name == "exp" and _hidden_alike(reduced, op, x, readers):
            return steps[0]
    if only_rounded(op.result, readers, summed=False):
        best = max(steps, key=lambda step: len(step.factors))
        best.any_sign = True
        return best if op.name == "exp" or best.masks else None
    return None


def _alike(a: Value, b: Value) -> bool:
    """Whether two values are one, or the same product, of which one may be contracted."""
    one, two = defined_by(a, "fmul"), defined_by(b, "fmul")
    return a is b or (one is not None and two is not None and one.operands == two.operands)


def inexact(found: Exponential, block: Block, readers: dict[Value, list[Op]]) -> list[Op]:
    """The divisions by scalars, and each tanh, of which x is made by sums, factors and masks, the
    last first, if all of it is read for the exponential alone: by it, by the greatest element's
    reduction, or by what is on the way."""
    difference, _ = difference_of(found.op)
    own = {difference, *(peak for peak in _peaks(found.row) if peak.operands[0] is found.x)}
    chain = list[Op]()
    for op in reversed(block.ops):
        if op.name in _SUMS and op.result.type == found.x.type and op.result in readers \
                and own.issuperset(readers[op.result]):
            own.add(op)
            chain.append(op)
    return [op for op in chain if op.name == "tanh"
            or (op.name == "fdiv" and is_uniform(op.operands[1]))]


def scalar_of(value: Value) -> Value:
    """A uniform tile's number."""
    splat = defined_by(value, "splat")
    return value if splat is None else splat.operands[0]


def scaled(value: Value, readers: dict[Value, list[Op]]) -> tuple[Value, list[Value]]:
    """What a tile is a product of with scalars, and those; nobody else reads such products."""
    factors = list[Value]()
    while (step := defined_by(value, "fmul")) is not None and len(readers[value]) == 1 and (
            found := _uniform_last(step.operands)) is not None:
        value, factor = found
        factors.append(factor)
    return value, factors


def _hidden_alike(reduced: Value, op: Op, x: Value, readers: dict[Value, list[Op]]) -> bool:
    """Whether the greatest of the x's is that under a mask, under which alone op is read."""
    mask = defined_by(reduced, "select")
    return mask is not None and _alike(mask.operands[1], x) and all(
        reader.name == "select" and reader.operands[:2] == [mask.operands[0], op.result]
        for reader in readers.get(op.result, ()))


def difference_of(op: Op) -> tuple[Op | None, list[Value]]:
    """The difference of which, or of a product of which with a scalar, it is the exponential."""
    product = defined_by(op.operands[0], "fmul")
    found = _uniform_last(product.operands) if product is not None else None
    if found is None:
        return defined_by(op.operands[0], "fsub"), []
    return defined_by(found[0], "fsub"), [found[1]]


def _may_be_great(value: Value, is_row: bool = False) -> bool:
    """Whether a program may have put numbers beyond GREAT among the scores of products, or loaded
    ones.  Of a row, what its greatest elements are compared with."""
    stack, seen = [value], set[Op]()
    while stack:
        op = stack.pop().op
        if op is None or op in seen or op.name in ("dot", *(("reduce", "load") if is_row else ())):
            continue
        seen.add(op)
        number = constant_of(op.results[0])
        if (op.name in ("load", "phi") and not is_row) or (
                number is not None and GREAT <= abs(number) < float("inf")):
            return True
        stack += [v for v in op.operands if element(v.type) in (F32, BF16)
                  and (is_row or isinstance(v.type, Tile))]
    return False


def _steps(op: Op, x: Value, row: Value) -> Iterator[Exponential]:
    """What x is a product of, looking through ever more of its factors and masks."""
    value, factors, masks = x, list[Value](), list[tuple[Op, float]]()
    while (step := value.op) is not None:
        number = constant_of(step.operands[2]) if step.name == "select" else None
        if number is not None and (number == HIDDEN or (number <= -GREAT and not factors and all(
                other == HIDDEN for _, other in masks))):
            masks.insert(0, (step, float(number)))
            value = step.operands[1]
            continue
        found = _uniform_last(step.operands) if step.name == "fmul" else None
        if found is None:
            return
        value, factor = found
        factors.insert(0, factor)
        yield Exponential(op, x, row, None, value, list(factors), list(masks))


def _uniform_last(operands: list[Value]) -> tuple[Value, Value] | None:
    """(tile, scalar or constant) of the operands of a product, if one is the same everywhere."""
    for y, factor in (operands, operands[::-1]):
        if is_uniform(factor):
            return y, scalar_of(factor)
    return None


def _alone(step: Exponential, own: set[Op], readers: dict[Value, list[Op]]) -> bool:
    """Whether what makes x of z is read by the exponential and the reduction alone."""
    value = step.x
    while value is not step.z:
        if not own.issuperset(readers[value]) or value.op is None:
            return False
        own = {*own, value.op}
        value = (value.op.operands[1] if value.op.name == "select"
                 else (_uniform_last(value.op.operands) or (step.z,))[0])
    return True


def _peaks(row: Value) -> Iterator[Op]:
    """The reductions than whose greatest elements, perhaps multiplied, a row is not less."""
    stack = [row]
    while stack:
        op = stack.pop().op
        if op is not None and op.name == "reduce" and op.attributes["kind"] == "fmax":
            yield op
        elif op is not None and op.name in ("fmax", *SPREADS):
            stack += op.operands
        elif op is not None and op.name == "fmul":
            stack += (_uniform_last(op.operands) or ())[:1]
        elif op is not None and op.name == "select":
            stack += _guarded(op)


def _guarded(op: Op) -> list[Value]:
    """The row of `row == -inf ? 0 : row`, or of another selection that gives no less than it."""
    test = defined_by(op.operands[0], "fcmp")
    limit = constant_of(test.operands[1]) if test is not None else None
    predicate = test.attributes["predicate"][1:] if test is not None else ""
    if test is None or limit is None or predicate not in (*_LOW, *_HIGH):
        return []
    other, row = op.operands[1:] if predicate in _LOW else op.operands[:0:-1]
    inner = defined_by(test.operands[0], "fabs")
    if inner is not None and limit == -HIDDEN and predicate in ("eq", "ne"):
        limit = HIDDEN  # of a row of infinity, the differences are infinite too
    number, tested = constant_of(other), (inner.operands if inner is not None and limit == HIDDEN
                                          else test.operands)[0]
    scaled = defined_by(row, "fmul") if limit == HIDDEN else None
    compared = [row, *((_uniform_last(scaled.operands) or ())[:1] if scaled is not None else ())]
    return [row] if tested in compared and number is not None and number >= limit else []
