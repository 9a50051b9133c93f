"""How builtins of integers lower: bits, high products, and random numbers that count."""

from tritonc.frontend import syntax
from tritonc.sema.builtins import library
from tritonc.sema.builtins.moves import structure
from tritonc.sema.context import Context
from tritonc.sema.operations import convert, operators
from tritonc.sema.types import constants, shapes
from tritonc.sema.types.ctypes import INT, INT_TYPE, UINT, ULONG, Number, ctype
from tritonc.sema.types.term import Term


def integers(context: Context, node: syntax.Call, arguments: list[Term], unify: bool = True
             ) -> list[Term]:
    """The arguments, which must be integers, of one type; without `unify` each promoted alone."""
    for term, argument in zip(arguments, node.arguments):
        element = term.type.element
        if not isinstance(element, Number) or not element.is_int:
            context.refuse("type-mismatch", argument.span, f"'{node.callee}' takes integers, found "
                           f"{term.type}")
    if unify:
        return convert.unify(context, node.span, *arguments)
    found = [t for each in arguments for t in convert.unify(context, node.span, each)]
    shape = shapes.meet_shapes(context, node.span, *arguments)
    return [shapes.broadcast(context, t, shape) for t in found]


def _unsigned(context: Context, term: Term) -> Term:
    element = term.type.arithmetic
    return convert.number(context, term, ULONG if element.ir.bits == 64 else UINT)


def counted(name: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """popc and clz: an int."""
    (x,) = integers(context, node, arguments)
    return convert.number(context, context.op(name, x.type, x), INT)


def zeros_below(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """ctz(x): the ones of ~x & (x - 1)."""
    (x,) = integers(context, node, arguments)
    below = context.op("and", x.type, context.op("xor", x.type, x, x.like(-1)),
                       context.op("add", x.type, x, x.like(-1)))
    return convert.number(context, context.op("popc", x.type, below), INT)


def reversed_bits(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    (x,) = integers(context, node, arguments)
    return context.op("brev", x.type, x)


def high_product(unsigned: bool, context: Context, node: syntax.Call, arguments: list[Term]
                 ) -> Term:
    """mulhi(a, b) in the type of its arguments, umulhi(a, b) without signs."""
    a, b = integers(context, node, arguments)
    if unsigned:
        a, b = _unsigned(context, a), _unsigned(context, b)
    return context.op("smulhi" if a.type.arithmetic.signed else "umulhi", a.type, a, b)


def rotation(left: bool, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """rotl(x, n), rotr(x, n): by n modulo the width."""
    x, n = integers(context, node, arguments, unify=False)
    result = _funnel(context, x, x, n, left)
    return Term(x.type, result.value, result.constant)


def funnel(left: bool, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """funnelshift_l(low, high, n), funnelshift_r(low, high, n): 32 bits of the 64 of high:low."""
    low, high, n = integers(context, node, arguments, unify=False)
    low, high = convert.number(context, low, UINT), convert.number(context, high, UINT)
    return _funnel(context, low, high, n, left)


def _funnel(context: Context, low: Term, high: Term, n: Term, left: bool) -> Term:
    """(high << n) | (low >> (width - n)), or the other way, with n modulo the width; one more
    place makes n = 0 right."""
    type, width = low.type, low.type.arithmetic.ir.bits
    one, most = low.like(1), low.like(width - 1)
    n = context.op("and", type, convert.number(context, n, type.arithmetic), most)
    rest = context.op("xor", type, n, most)
    if left:
        up = context.op("shl", type, high, n)
        down = context.op("lshr", type, context.op("lshr", type, low, one), rest)
    else:
        up = context.op("shl", type, context.op("shl", type, high, one), rest)
        down = context.op("lshr", type, low, n)
    return context.op("or", type, up, down)


def ceiling_quotient(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """cdiv(a, b): (a + b - 1) / b; a constant where they are."""
    a, b = integers(context, node, arguments)
    span = node.span
    total = operators.binary(context, "+", a, b, span, span)
    total = operators.binary(context, "-", total, Term(INT_TYPE, constant=1), span, span)
    return operators.binary(context, "/", total, b, span, node.arguments[1].span)


# --- random numbers ---


def _words(context: Context, offset: Term) -> tuple[Term, Term]:
    """The low and high 32 bits of an offset; the high ones of an int are 0."""
    element = offset.type.arithmetic
    low = convert.number(context, offset, UINT)
    if element.ir.bits < 64:
        return low, Term(ctype(UINT, offset.shape), constant=0)
    wide = convert.number(context, offset, ULONG)
    high = context.op("lshr", wide.type, wide, wide.like(32))
    return low, convert.number(context, high, UINT)


def _seeded(context: Context, node: syntax.Call, arguments: list[Term]) -> list[Term]:
    """The integers of a call to the library's random numbers, the first as a seed."""
    constants.check_constant(context, node.span, f"'{node.callee}' is a function of the library")
    found = integers(context, node, arguments, unify=False)
    return [convert.number(context, arguments[0], ULONG), *found[1:]]


def philox(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """philox(seed, c0, c1, c2, c3): four words, as the members c0 to c3."""
    seed, *rest = _seeded(context, node, arguments)
    counters = [convert.number(context, term, UINT) for term in rest]
    words = [library.call(context, "random.tc", f"philox_{i}", [seed, *counters], 32, node.span)
             for i in range(4)]
    return structure("philox", tuple(f"c{i}" for i in range(4)), words)


def random(name: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """rand, randn and randint of a seed and an offset."""
    seed, offset = _seeded(context, node, arguments)
    return library.call(context, "random.tc", name, [seed, *_words(context, offset)], 32, node.span)

