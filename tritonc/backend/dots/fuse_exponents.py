"""fuse_exponents: the argument of a softmax's exponentials becomes one fused multiply-add.

    next = max(top, (s * c)[:, max]);  p = exp(s * c - next);  rescale = exp(top - next)

Before:  %x = fmul %s, splat %c           After:  %r = reduce %s {kind = fmax}
         %r = reduce %x {kind = fmax}             %m = fmax %top, %r * %c
         %m = fmax %top, %r                       %n = %m * log2(e), %t = %top * log2(e)
         %p = exp(%x - %m)                        %p = exp2(fma(%s, splat %c * log2(e), -%n))
         %g = exp(%top - %m)                      %g = exp2(%t - %n)

An element then takes a multiply-add and the hardware's exp2, where the product, the difference and
exp take ten instructions.  What stands on rows is of no account.

exp((s - m) * c) is made exp(s * c - m * c) first, s / c, of a scalar, s * (1 / c), and c * tanh(s),
as of capped scores, c - 2 c / (1 + e^2s): two of the hardware's approximations, where tanh takes a
polynomial near 0 besides.  Its error is at most 2^-22 c, what the rounding of a score of c makes.
An exponential over its row's sum is a product with that one's inverse, with 1.5 ulp.

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
by a power of two so that |m| is 2^20 to 2^21: where x = m the exponential is 1 but for the rounding
of what it takes, the same for all such x.  A mask's number is divided by the factors, and the
greatest product is that number itself where the greatest element is the quotient.

That a factor is above 0 is known of constants; of other scalars it is a fact that `specialize` has
tested (`assume_positive`, which `assumed_factors` asks for)."""

from math import prod

from tritonc.analysis.values import SPREADS, constant_of, defined_by, is_uniform, origin
from tritonc.backend.dots.exponentials import (
    GREAT,
    HIDDEN,
    LOG2_E,
    Exponential,
    difference_of,
    exponentials,
    inexact,
    positive,
    scalar_of,
    scaled,
)
from tritonc.ir.build import Builder, behind
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32, I32, Tile, Type, with_element

# Of a float's bits its exponent; the sum of two of them whose product is 2^20.
_EXPONENT, _SUM = 0x7F800000, (2 * 127 + 20) << 23
LEAST = -(2 - 2.0**-23) * 2.0**127


def fuse_exponents(kernel: Kernel, context: Context) -> bool:
    """Rewrite the exponentials whose factors are known to be above 0."""
    if not context.contract or context.precise_math:
        return False
    done: set[Op] = set()
    while True:
        found = next((one for one in exponentials(kernel) if one.op not in done), None)
        if found is None:
            return bool(done)
        if _simplify(kernel, found, context):
            continue
        done.add(found.op)
        if not found.any_sign:
            _share_quotients(kernel, found)
        if found.outer:
            if all(map(positive, found.factors)):
                _Rewrite(kernel, found).distribute()
            continue
        if not found.any_sign and not all(map(positive, found.factors)):
            found.factors, found.masks, found.z, found.within = [], [], found.x, 0
        _Rewrite(kernel, found).run()


def _simplify(kernel: Kernel, found: Exponential, context: Context) -> bool:
    """Make divisions by scalars products with what is one divided by them, and each tanh one
    exponential and one quotient.  -ffast-math has one instruction for tanh."""
    home = {op: block for block in kernel.blocks for op in block.ops}
    readers = uses(kernel)
    ops = inexact(found, home[found.op], readers)
    divided = [op for op in ops if op.name == "fdiv" and positive(scalar_of(op.operands[1]))]
    for op in divided:
        inverse, t = _inverse(kernel, scalar_of(op.operands[1]), home), op.result.type
        b = Builder(home[op], home[op].ops.index(op), op.span)
        kernel.replace({op.result: b.value("fmul", op.operands[0], _uniform(b, inverse, t))})
        home[op].ops.remove(op)
    if divided or context.fast_math:
        return bool(divided)
    found_tanh = [op for op in ops if op.name == "tanh"]
    for op in found_tanh:
        _exponential(kernel, op, home[op], readers)
    return bool(found_tanh)


def _share_quotients(kernel: Kernel, found: Exponential) -> None:
    """e / sum(e) is e * (1 / sum(e)), with one quotient for a row: the greatest e is 1, so that the
    sum is a moderate number."""
    home = {op: block for block in kernel.blocks for op in block.ops}
    value, replaced = found.op.result, dict[Value, Value]()
    for op in uses(kernel).get(value, ()):
        total = origin(op.operands[1], SPREADS).op if op.name == "fdiv" else None
        if total is None or total.name != "reduce" or total.attributes["kind"] != "fadd" \
                or total.operands[0] is not value:
            continue
        block = home[total]
        b = Builder(block, block.ops.index(total) + 1, op.span)
        inverse = b.value("fdiv", b.constant(1.0, total.result.type), total.result)
        b = Builder(home[op], home[op].ops.index(op), op.span)
        replaced[op.result] = b.value("fmul", value, _spread(b, inverse, op.operands[1]))
    kernel.replace(replaced)


def _spread(b: Builder, value: Value, like: Value) -> Value:
    """A row spread as the one in `like` is."""
    steps = list[Op]()
    while like.op is not None and like.op.name in SPREADS:
        steps.append(like.op)
        like = like.op.operands[0]
    for step in reversed(steps):
        value = b.value(step.name, value, type=step.result.type, **step.attributes)
    return value


def _inverse(kernel: Kernel, value: Value, home: dict[Op, Block]) -> Value:
    """1 / value, a scalar, where the value is made."""
    made, number = value.op, constant_of(value)
    b = Builder(kernel.entry, 0) if made is None or number is not None else Builder(
        home[made], home[made].ops.index(made) + 1, made.span)
    if number is not None:
        return b.constant(float(round_to(F32, 1 / float(number))), F32)
    return b.value("fdiv", b.constant(1.0, F32), value)


def _uniform(b: Builder, value: Value, t: Type) -> Value:
    """A number for all elements of a row or tile."""
    number = constant_of(value)
    if number is not None:
        return b.constant(number, t)
    return b.value("splat", value, type=t) if isinstance(t, Tile) else value


def _product(b: Builder, number: float, factors: list[Value], t: Type) -> Value:
    rest = [v for v in factors if constant_of(v) is None]
    number = prod((float(n) for v in factors if (n := constant_of(v)) is not None), start=number)
    if not rest:
        return b.constant(float(round_to(F32, number)), t)
    product = b.joined("fmul", rest)
    if number != 1.0:
        product = b.value("fmul", product, b.constant(float(round_to(F32, number)), F32))
    return _uniform(b, product, t)


def _exponential(kernel: Kernel, tanh: Op, block: Block, readers: dict[Value, list[Op]]) -> None:
    """c * tanh(s * f) = fma(1 / (1 + exp2(s * (2 log2(e) f))), -2 c, c)."""
    b, t = Builder(block, block.ops.index(tanh), tanh.span), tanh.result.type
    value, factors = scaled(tanh.operands[0], readers)
    if not all(map(positive, factors)):
        value, factors = tanh.operands[0], []
    power = b.value("exp2", b.value("fmul", value, _product(b, 2 * LOG2_E, factors, t)))
    total = b.value("fadd", power, b.constant(1.0, t))
    share = b.value("fdiv", b.constant(1.0, t), total, approximate=True)
    product, *others = readers[tanh.result]
    cap = [scalar_of(v) for v in product.operands if is_uniform(v)]
    if product.name != "fmul" or others or product not in block.ops or not all(map(positive, cap)):
        product, cap = tanh, []
    result = b.value("fma", share, _product(b, -2.0, cap, t), _product(b, 1.0, cap, t))
    kernel.replace({product.result: result})


class _Rewrite:
    """Of one exponential."""

    def __init__(self, kernel: Kernel, found: Exponential) -> None:
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
        assert isinstance(t, Tile)
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

    def distribute(self) -> None:
        """exp((x - m) * c) is exp(x * c - m * c), which may be fused in its turn."""
        found, b = self.found, self.before(self.found.op)
        (factor,) = found.factors
        row = b.value("fmul", found.row, _uniform(b, factor, found.row.type))
        scale = _uniform(b, factor, found.x.type)
        if found.op.name == "exp":
            exponent = b.value("fsub", b.value("fmul", found.x, scale), self.spread(b, row))
        else:
            exponent = b.value("fma", found.x, scale, self.spread(b, b.value("fneg", row)))
        self.kernel.replace({found.op.result: b.value(found.op.name, exponent)})

    def before(self, op: Op) -> Builder:
        block = self.home[op]
        return Builder(block, block.ops.index(op), op.span)

    def behind(self, op: Op) -> Builder:
        return behind(self.home[op], op.results[0], op.span)

    def masked(self) -> Value:
        """z under the masks of x; of factors of any sign the exponents are masked."""
        value = self.found.z
        for mask, number in () if self.found.any_sign else self.found.masks:
            other = mask.operands[2]
            if number != HIDDEN and self.found.factors:
                self.hidden = number, self.quotient(mask, number)
                other = _uniform(self.before(mask), self.hidden[1], other.type)
            value = self.before(mask).value("select", mask.operands[0], value, other)
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
        if peak is None or not self.found.within:
            return
        b = self.before(peak)
        value = reduced = b.value("reduce", z, **peak.attributes)
        for factor in self.found.factors[: self.found.within]:
            value = b.value("fmul", value, _uniform(b, factor, value.type))
        if self.hidden is not None:
            number, quotient = self.hidden
            none = b.value("fcmp", reduced, _uniform(b, quotient, value.type), predicate="oeq")
            value = b.value("select", none, b.constant(number, value.type), value)
        self.replaced[peak.result] = value

    def factor(self, b: Builder, t: Type) -> Value:
        """The product of all factors and the unit, for a row or tile."""
        return _product(b, self.found.unit, self.found.factors, t)

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
        """1; where the row is great the power of two that makes it 2^20 and more: its exponent's
        distance from that of 2^20."""
        row = self.found.row
        bits = with_element(row.type, I32)
        exponent = b.value("and", b.value("bitcast", row, type=bits), b.constant(_EXPONENT, bits))
        power = b.value("sub", b.constant(_SUM - (1 << 32), bits), exponent)
        return self.chosen(b, row, b.constant(1.0, row.type),
                           b.value("bitcast", power, type=row.type))

    def spread(self, b: Builder, value: Value) -> Value:
        """A row as x - m has it."""
        difference, _ = difference_of(self.found.op)
        assert difference is not None
        return _spread(b, value, difference.operands[1])

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
