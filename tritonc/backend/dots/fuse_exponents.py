"""fuse_exponents: the argument of a softmax's exponentials becomes one fused multiply-add.

    next = max(top, (s * c)[:, max]);  p = exp(s * c - next);  rescale = exp(top - next)

Before:  %x = fmul %s, splat %c           After:  %r = reduce %s {kind = fmax}
         %r = reduce %x {kind = fmax}             %m = fmax %top, %r * %c
         %m = fmax %top, %r                       %n = %m * log2(e), %t = %top * log2(e)
         %p = exp(%x - %m)                        %p = exp2(fma(%s, splat %c * log2(e), -%n))
         %g = exp(%top - %m)                      %g = exp2(%t - %n)

An element then takes a multiply-add and the hardware's exp2, where the product, the difference and
exp take ten instructions.  What stands on rows is of no account.

Done where the exponentials e^(x - m) are those of a softmax: m is at least the greatest x of its
row, and what they are for is sums and floats of at most 16 bits (`only_rounded`).  Where they go
into such floats alone, as in a softmax's gradient, m may be any row.

What is exact: rounding is monotone, so for a factor above 0 the greatest product is the product of
the greatest; a mask's -infinity is one still after the multiplication.  What is not: the product,
the difference and the multiplication by log2(e) are rounded once.  That is contraction over several
expressions (-ffp-contract=off forbids it): |x| 2^-23 relative to e^(x - m), about as much as the
rounding of x itself makes of it.  m is multiplied by log2(e) once, for all its readers, so that a
factor e^(m - m) is 1, and a row's exponentials have one scale.

Of |x| beyond 2^26 that says nothing.  Scores of products are not so large; what programs put in
their place where a mask hides them (-1e30, the least float) is, and a row of which no other number
has been seen has it as its m.  So where x may be of that kind, a row whose |m| is so large has
another scale.  Without factors, its exponentials are 2^(x - m), by an exact difference, which is 1
where x = m, and near 0 where the two differ: by 8 or more.  With factors, x and m are both scaled
so that m is 2^20: where x = m the exponential is 1 but for that scale's rounding, the same for all
such x.  A mask's number is divided by the factors, and the greatest product is that number itself
where the greatest element is the quotient.

That a factor is above 0 is known of constants; of other scalars it is a fact that `specialize` has
tested (`assume_positive`, which `wanted_factors` asks for).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from math import log2, prod

from tritonc.analysis.values import computed_from, constant_of, defined_by, is_uniform, origin
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.numbers import round_to
from tritonc.ir.types import BF16, F32, Tile, element, scalar, shape

LOG2_E = float(round_to(F32, log2(2.718281828459045)))
LEAST = -(2 - 2.0**-23) * 2.0**127
_HIDDEN = -float("inf")
GREAT = 2.0**26  # beyond which neighbouring floats are 8 apart
MODERATE = 100  # a scalar within 2^-100 and 2^100 times a few constants overflows in no product
FEW = 20  # the same of a constant

_SPREADS = ("broadcast", "reshape")
# What keeps the relative error of an operand.
_RELATIVE = frozenset({"fmul", "fdiv", "fneg", "fabs", "select", "psi", "broadcast", "reshape",
                       "trans", "convert_layout"})
_NARROW = 11  # bits of a significand


@dataclass
class _Exponential:
    """exp(x - m) or exp2(x - m), with x = the product of z and `factors`, masked by `masks`.

    `peak`: the reduction of x that is in m; None if m is made of that of z.
    """

    op: Op
    x: Value
    row: Value  # m before it is spread over the tile
    peak: Op | None
    z: Value
    factors: list[Value]  # scalars, the first one multiplied first
    masks: list[tuple[Op, float]]  # the innermost first, each with what it has where it hides
    any_sign: bool = False  # of the factors, since no greatest element is looked for
    great: bool = False  # whether elements may be beyond GREAT
    great_row: bool = False  # whether m may be

    @property
    def unit(self) -> float:
        """What the exponent is multiplied by."""
        return LOG2_E if self.op.name == "exp" else 1.0

    @property
    def constants(self) -> list[float]:
        """The factors that are known."""
        return [float(n) for v in self.factors if (n := constant_of(v)) is not None]

    @property
    def scalars(self) -> list[Value]:
        """The others."""
        return [v for v in self.factors if constant_of(v) is None]


def fuse_exponents(kernel: Kernel, context: Context) -> bool:
    """Rewrite the exponentials whose factors are known to be above 0."""
    if not context.contract or context.precise_math:
        return False
    done: set[Op] = set()
    while True:
        found = next((one for one in _exponentials(kernel) if one.op not in done), None)
        if found is None:
            return bool(done)
        done.add(found.op)
        if not found.any_sign and not all(map(positive, found.factors)):
            found.factors, found.masks, found.z = [], [], found.x
        _Rewrite(kernel, found).run()


def wanted_factors(kernel: Kernel) -> list[Value]:
    """The scalars of which to be above 0 would let exponentials of products be fused."""
    return list(dict.fromkeys(
        root for found in _exponentials(kernel)
        if not found.any_sign and computed_from(found.z, "dot")
        for root in map(_root, found.factors) if root.op is None or root.op.name != "constant"))


# ---- what is known of scalars


def positive(value: Value) -> bool:
    """Whether a float is known to be above 0, and neither large nor small."""
    root = _root(value)
    return defined_by(root, "assume_positive") is not None or _moderate(root)


def _root(value: Value) -> Value:
    """A scalar without the moderate constants that it is multiplied by or divided by."""
    for _ in range(4):
        if (op := value.op) is not None and op.name in ("fmul", "fdiv"):
            a, b = op.operands
            value = a if _moderate(b) else b if op.name == "fmul" and _moderate(a) else value
    return value


def _moderate(value: Value) -> bool:
    number = constant_of(value)
    return number is not None and 2.0**-FEW <= number <= 2.0**FEW


# ---- where they are


def _exponentials(kernel: Kernel) -> Iterator[_Exponential]:
    readers = uses(kernel)
    for op in kernel.ops():
        if op.name in ("exp", "exp2") and isinstance(op.result.type, Tile) \
                and element(op.result.type) == F32 and only_rounded(op.result, readers):
            found = _match(op, readers)
            if found is not None:
                yield found


def only_rounded(value: Value, readers: dict[Value, list[Op]], summed: bool = True) -> bool:
    """Whether a float is but rounded to at most 16 bits, factors aside, or `summed` over axes."""
    stack, seen = [value], {value}
    while stack:
        for op in readers.get(stack.pop(), ()):
            if summed and op.name == "reduce" and op.attributes["kind"] == "fadd":
                continue
            if op.name == "fpcast" and scalar(op.result.type).mantissa < _NARROW:
                continue
            if op.name not in _RELATIVE:
                return False
            stack += [result for result in op.results if result not in seen]
            seen.update(op.results)
    return True


def _match(op: Op, readers: dict[Value, list[Op]]) -> _Exponential | None:
    difference = defined_by(op.operands[0], "fsub")
    if difference is None:
        return None
    x, row = difference.operands[0], origin(difference.operands[1], _SPREADS)
    if not shape(row.type) or row.op is None:
        return None
    great = _may_be_great(x)
    steps = [_Exponential(op, x, row, None, x, [], [], great=great), *_steps(op, x, row)]
    for step in steps:
        step.great = great
        step.great_row = great or _may_be_great(row, is_row=True)
    for peak in _peaks(row):
        (reduced,) = peak.operands
        if reduced is x:
            own = [step for step in steps if _alone(step, (difference, peak), readers)]
            best = max(own, key=lambda step: len(step.factors), default=steps[0])
            best.peak = peak
            return best if best.factors or op.name == "exp" else None
        for step in steps if op.name == "exp" else ():
            if reduced is step.z and not step.masks:
                return step
    if only_rounded(op.result, readers, summed=False):
        best = max(steps, key=lambda step: len(step.factors))
        best.any_sign = True
        return best if op.name == "exp" or best.masks else None
    return None


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
        stack += [v for v in op.operands
                  if isinstance(v.type, Tile) and element(v.type) in (F32, BF16)]
    return False


def _steps(op: Op, x: Value, row: Value) -> Iterator[_Exponential]:
    """What x is a product of, looking through ever more of its factors and masks."""
    value, factors, masks = x, list[Value](), list[tuple[Op, float]]()
    while (step := value.op) is not None:
        number = constant_of(step.operands[2]) if step.name == "select" else None
        if number is not None and (number == _HIDDEN or (number <= -GREAT and not factors and all(
                other == _HIDDEN for _, other in masks))):
            masks.insert(0, (step, float(number)))
            value = step.operands[1]
            continue
        found = _uniform_last(step.operands) if step.name == "fmul" else None
        if found is None:
            return
        value, factor = found
        factors.insert(0, factor)
        yield _Exponential(op, x, row, None, value, list(factors), list(masks))


def _uniform_last(operands: list[Value]) -> tuple[Value, Value] | None:
    """(tile, scalar or constant) of the operands of a product, if one is the same everywhere."""
    for y, factor in (operands, operands[::-1]):
        if is_uniform(factor):
            splat = defined_by(factor, "splat")
            return y, factor if splat is None else splat.operands[0]
    return None


def _alone(step: _Exponential, own: tuple[Op, Op], readers: dict[Value, list[Op]]) -> bool:
    """Whether what makes x of z is read by the exponential and the reduction alone."""
    value = step.x
    while value is not step.z:
        if not (all(reader in own for reader in readers[value]) if value is step.x
                else len(readers[value]) == 1):
            return False
        assert value.op is not None
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
        elif op is not None and op.name in ("fmax", *_SPREADS):
            stack += op.operands
        elif op is not None and op.name == "fmul":
            stack += (_uniform_last(op.operands) or ())[:1]


# ---- the rewriting


class _Rewrite:
    """Of one exponential."""

    def __init__(self, kernel: Kernel, found: _Exponential) -> None:
        self.kernel, self.found = kernel, found
        self.home = {op: block for block in kernel.blocks for op in block.ops}
        self.replaced: dict[Value, Value] = {}
        self.hidden: tuple[float, Value] | None = None  # a mask's number; it over the factors

    def run(self) -> None:
        found = self.found
        z = self.masked()
        self.peak(z)
        assert found.row.op is not None
        scaled = self.scaled(self.behind(found.row.op), found.row)
        t, rows = found.x.type, found.row.type
        assert isinstance(t, Tile) and isinstance(rows, Tile)
        b = self.before(found.op)
        negative, factor, own = b.value("fneg", scaled), self.factor(b, t), None
        if found.great and found.factors:
            less = self.less(b)
            own = b.value("fmul", b.constant(found.unit, rows), less)
            negative = b.value("fneg", b.value("fmul", found.row, own))
            factor = self.spread(b, b.value("fmul", less, self.factor(b, rows)))
        elif found.great and found.unit != 1.0:
            own = self.chosen(b, found.row, *(b.constant(n, rows) for n in (found.unit, 1.0)))
            factor = self.spread(b, own)
        exponent = b.value("fma", z, factor, self.spread(b, negative))
        for mask, number in found.masks if found.any_sign else ():
            hidden = b.value("fma", b.constant(number, rows),
                             own or b.constant(found.unit, rows), negative)
            exponent = b.value("select", mask.operands[0], exponent, self.spread(b, hidden))
        self.replaced[found.op.result] = b.value("exp2", exponent)
        if found.op.name == "exp":
            self.rows(scaled)
        self.kernel.replace(self.replaced)

    def before(self, op: Op) -> Builder:
        block = self.home[op]
        return Builder(block, block.ops.index(op), op.span)

    def behind(self, op: Op) -> Builder:
        block = self.home[op]
        at = block.ops.index(op) + 1
        return Builder(block, max(at, len(block.phis())), op.span)

    def masked(self) -> Value:
        """z under the masks of x; of factors of any sign the exponents are masked."""
        value = self.found.z
        for mask, number in () if self.found.any_sign else self.found.masks:
            b, other = self.before(mask), mask.operands[2]
            if number != _HIDDEN and self.found.factors:
                self.hidden = number, self.quotient(mask, number)
                other = b.value("splat", self.hidden[1], type=other.type)
            value = b.value("select", mask.operands[0], value, other)
        return value

    def quotient(self, mask: Op, number: float) -> Value:
        """A number divided by the factors, a finite float; where they are known."""
        for known in self.found.constants:
            number /= known
        b, rest = self.before(mask), self.found.scalars
        if len(rest) == 1:
            made = rest[0].op
            b = self.behind(made) if made is not None else Builder(self.kernel.entry, 0, mask.span)
        value = b.constant(max(LEAST, float(round_to(F32, number))), F32)
        for factor in rest:
            value = b.value("fdiv", value, factor)
        return b.value("fmax", value, b.constant(LEAST, F32)) if rest else value

    def peak(self, z: Value) -> None:
        """The greatest elements of z, then multiplied as x was."""
        peak = self.found.peak
        if peak is None or not self.found.factors:
            return
        b = self.before(peak)
        value = reduced = b.value("reduce", z, **peak.attributes)
        for factor in self.found.factors:
            value = b.value("fmul", value, self.uniform(b, factor, value))
        if self.hidden is not None:
            number, quotient = self.hidden
            none = b.value("fcmp", reduced, self.uniform(b, quotient, value), predicate="oeq")
            value = b.value("select", none, b.constant(number, value.type), value)
        self.replaced[peak.result] = value

    def uniform(self, b: Builder, factor: Value, like: Value) -> Value:
        """A factor for all elements of a row or tile."""
        number = constant_of(factor)
        return b.value("splat", factor, type=like.type) if number is None else b.constant(
            number, like.type)

    def factor(self, b: Builder, t: Tile) -> Value:
        """The product of all factors and the unit, for a tile."""
        number, rest = prod(self.found.constants, start=self.found.unit), self.found.scalars
        if not rest:
            return b.constant(float(round_to(F32, number)), t)
        product = reduce(lambda one, more: b.value("fmul", one, more), rest)
        if number != 1.0:
            product = b.value("fmul", product, b.constant(float(round_to(F32, number)), F32))
        return b.value("splat", product, type=t)

    def scaled(self, b: Builder, row: Value) -> Value:
        """The row times the unit; as it is where it is great."""
        if self.found.unit == 1.0:
            return row
        product = b.value("fmul", row, b.constant(self.found.unit, row.type))
        return self.chosen(b, row, product, row) if self.found.great_row else product

    def chosen(self, b: Builder, row: Value, usual: Value, great: Value) -> Value:
        """One of two rows, by how great the elements of `row` are."""
        less = b.value("fcmp", b.value("fabs", row), b.constant(GREAT, row.type), predicate="olt")
        return b.value("select", less, usual, great)

    def less(self, b: Builder) -> Value:
        """1; where the row is great 2^20 over its size, in two steps, which are normal floats."""
        row = self.found.row
        small = b.value("fmul", b.value("fabs", row), b.constant(2.0**-30, row.type))
        inverse = b.value("fdiv", b.constant(1.0, row.type), small, approximate=True)
        return self.chosen(b, row, b.constant(1.0, row.type),
                           b.value("fmul", inverse, b.constant(2.0**-10, row.type)))

    def spread(self, b: Builder, value: Value) -> Value:
        """A row as x - m has it."""
        difference = self.found.op.operands[0].op
        assert difference is not None
        steps, row = list[Op](), difference.operands[1]
        while row.op is not None and row.op.name in _SPREADS:
            steps.append(row.op)
            row = row.op.operands[0]
        for step in reversed(steps):
            value = b.value(step.name, value, type=step.result.type, **step.attributes)
        return value

    def rows(self, scaled: Value) -> None:
        """Exponentials of differences to the same row, which its other exponentials rely on."""
        row = self.found.row
        for op, block in list(self.home.items()):
            if op.name != "exp" or op.result.type != row.type:
                continue
            difference = defined_by(op.operands[0], "fsub")
            if difference is None or difference.operands[1] is not row:
                continue
            b = Builder(block, block.ops.index(op), op.span)
            top = self.scaled(b, difference.operands[0])
            self.replaced[op.result] = b.value("exp2", b.value("fsub", top, scaled))
