"""The builtin functions: one row each.

A row names a function, says what it takes and does, and lowers a call of it.  Help, the manual and
the tests of completeness derive from the rows.  Arguments come lowered; those that must be constant
are terms with a constant."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tritonc.frontend import syntax
from tritonc.ir.ops import ORDERS, SCOPES
from tritonc.later import LaterModule
from tritonc.records import NamedTuple
from tritonc.sema.builtins import launch, products
from tritonc.sema.context import Context, Words
from tritonc.sema.scope import FunctionEntity
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import STRING_TYPE
from tritonc.sema.types.term import POISON, Term

if TYPE_CHECKING:
    from tritonc.sema.builtins import bits, math, memory, moves, sort, tiles
else:
    bits, math, memory, moves, sort, tiles = (
        LaterModule(f"tritonc.sema.builtins.{name}")
        for name in ("bits", "math", "memory", "moves", "sort", "tiles"))

Lower = Callable[[Context, syntax.Call, list[Term]], Term]


class Builtin(NamedTuple):
    """`least` to `most` arguments (None: any number).

    `strings` are positions that a string may take, `words` those of a bare name which is not
    looked up; `functions` says that names of the program's functions are such, `structs` that the
    first argument may be a struct; `access` are words that may stand behind all arguments and say
    how memory is accessed.  `template` says that `f[...](...)` or `f(...)(...)` is a form
    of the call.  `effects` covers reading memory: a predicate must guard such a call, and one that
    `divides`."""

    name: str
    signature: str
    least: int
    most: int | None
    doc: str
    lower: Lower
    spellings: tuple[str, ...] = ()
    strings: tuple[int, ...] = ()
    words: tuple[int, ...] = ()
    template: bool = False
    effects: bool = False
    divides: bool = False
    functions: bool = False
    structs: bool = False
    access: tuple[str, ...] = ()


def _row(signature: str, least: int, most: int | None, doc: str, lower: Lower,
         *spellings: str, **more: Any) -> Builtin:
    name = signature.partition("(")[0].partition("[")[0]
    return Builtin(name, signature, least, most, doc, lower, spellings, **more)


def _math(name: str, doc: str, *spellings: str) -> Builtin:
    return _row(f"{name}(x)", 1, 1, doc, partial(math.function, name), *spellings)


def _library(file: str, signature: str, doc: str, *spellings: str,
             whole: tuple[int, ...] = ()) -> Builtin:
    name, _, parameters = signature.partition("(")
    count = parameters.count(",") + 1
    return _row(signature, count, count, doc,
                partial(math.library_function, f"{file}.tc", name, whole), *spellings)


def _atomic(operation: str, doc: str, *spellings: str) -> Builtin:
    return _row(f"atomic_{operation}(p, v, mask)", 2, 3, doc, partial(memory.atomic, operation),
                f"__atomic_{operation}", *spellings, template=True, effects=True,
                access=(*ORDERS, *SCOPES))


BUILTINS: tuple[Builtin, ...] = (
    # the launch
    _row("get_global_range[T](axis)", 1, 1, "This instance's T indices of the global range along "
         "the axis, an int tile; without [T], the whole initialiser of a 1-D tile, whose length "
         "it takes.", launch.global_range, template=True),
    _row("get_program_id(axis)", 1, 1, "This instance's index along the axis.",
         partial(launch.of_axis, "get_program_id"), "get_range_id"),
    _row("get_num_programs(axis)", 1, 1, "How many instances lie along the axis.",
         partial(launch.of_axis, "get_num_programs"), "get_num_program"),
    # elementwise
    _row("min(a, b, ...)", 1, None, "The least of the arguments, a number rather than a NaN; the "
         "least element of one tile.", partial(math.extremum, "min")),
    _row("max(a, b, ...)", 1, None, "The greatest of the arguments, a number rather than a NaN; "
         "the greatest element of one tile.", partial(math.extremum, "max")),
    _row("abs(x)", 1, 1, "The magnitude.", math.magnitude, "fabs", "fabsf"),
    _row("select(c, a, b)", 3, 3, "a where c holds, else b; both are evaluated.",
         math.select),
    _row("clamp(x, lo, hi)", 3, 3, "min(max(x, lo), hi).", math.clamp),
    _row("fma(a, b, c)", 3, 3, "a * b + c, rounded once.", math.fma, "fmaf"),
    _math("exp", "e to the x.", "expf", "__expf"),
    _math("exp2", "2 to the x.", "exp2f"),
    _math("log", "The natural logarithm.", "logf", "__logf"),
    _math("log2", "The logarithm to base 2.", "log2f"),
    _math("sqrt", "The square root, correctly rounded.", "sqrtf"),
    _math("rsqrt", "1 / sqrt(x).", "rsqrtf"),
    _math("sin", "The sine of x in radians.", "sinf"),
    _math("cos", "The cosine of x in radians.", "cosf"),
    _math("tanh", "The hyperbolic tangent.", "tanhf"),
    _math("erf", "The error function.", "erff"),
    _math("floor", "The greatest integer not above x, in x's type.", "floorf"),
    _math("ceil", "The least integer not below x, in x's type.", "ceilf"),
    _math("round", "The nearest integer, halves away from zero, in x's type.", "roundf"),
    _math("trunc", "The integer part, in x's type.", "truncf"),
    _math("rint", "The nearest integer, ties to even, in x's type.", "rintf", "nearbyint",
          "nearbyintf"),
    # of integers
    _row("popc(x)", 1, 1, "The number of bits of an integer that are 1, an int.",
         partial(bits.counted, "popc"), "__popc", "__popcll"),
    _row("clz(x)", 1, 1, "The number of zero bits above the highest 1, an int; for 0, the width.",
         partial(bits.counted, "clz"), "__clz", "__clzll"),
    _row("ctz(x)", 1, 1, "The number of zero bits below the lowest 1, an int; for 0, the width.",
         bits.zeros_below),
    _row("brev(x)", 1, 1, "The bits in the opposite order.", bits.reversed_bits,
         "__brev", "__brevll"),
    _row("mulhi(a, b)", 2, 2, "The high half of the product, in the arguments' type.",
         partial(bits.high_product, False), "__mulhi", "__mul64hi"),
    _row("umulhi(a, b)", 2, 2, "The high half of the product of unsigned numbers.",
         partial(bits.high_product, True), "__umulhi", "__umul64hi"),
    _row("rotl(x, n)", 2, 2, "The bits rotated up by n modulo the width.",
         partial(bits.rotation, True)),
    _row("rotr(x, n)", 2, 2, "The bits rotated down by n modulo the width.",
         partial(bits.rotation, False)),
    _row("funnelshift_l(low, high, n)", 3, 3, "The upper 32 bits of high:low << n modulo 32.",
         partial(bits.funnel, True), "__funnelshift_l"),
    _row("funnelshift_r(low, high, n)", 3, 3, "The lower 32 bits of high:low >> n modulo 32.",
         partial(bits.funnel, False), "__funnelshift_r"),
    _row("cdiv(a, b)", 2, 2, "(a + b - 1) / b, of integers.", bits.ceiling_quotient,
         divides=True),
    _row("philox(seed, c0, c1, c2, c3)", 5, 5, "Philox 4x32-10 of a counter of four words, as "
         "Triton's `tl.philox`: members `c0`, `c1`, `c2` and `c3`.", bits.philox),
    _row("randint(seed, offset)", 2, 2, "A random unsigned int, by Philox 4x32-10 as Triton's "
         "`tl.randint`.", partial(bits.random, "randint")),
    _row("rand(seed, offset)", 2, 2, "A random float of [0, 1), that of Triton's `tl.rand`.",
         partial(bits.random, "rand")),
    _row("randn(seed, offset)", 2, 2, "A random float, normally distributed, as `tl.randn`'s.",
         partial(bits.random, "randn")),
    # of the library
    _library("exponential", "pow(x, y)", "x to the y.", "powf"),
    _library("exponential", "exp10(x)", "10 to the x.", "exp10f"),
    _library("exponential", "expm1(x)", "e to the x, less 1.", "expm1f"),
    _library("exponential", "log10(x)", "The logarithm to base 10.", "log10f"),
    _library("exponential", "log1p(x)", "The natural logarithm of 1 + x.", "log1pf"),
    _library("exponential", "sinh(x)", "The hyperbolic sine.", "sinhf"),
    _library("exponential", "cosh(x)", "The hyperbolic cosine.", "coshf"),
    _library("exponential", "asinh(x)", "The inverse of sinh.", "asinhf"),
    _library("exponential", "acosh(x)", "The inverse of cosh, not negative.", "acoshf"),
    _library("exponential", "atanh(x)", "The inverse of tanh.", "atanhf"),
    _library("floats", "isnan(x)", "Whether x is a NaN."),
    _library("floats", "isinf(x)", "Whether x is infinite."),
    _library("floats", "isfinite(x)", "Whether x is neither infinite nor a NaN."),
    _library("floats", "signbit(x)", "Whether the sign bit of x is set, also for -0 and NaNs."),
    _library("floats", "copysign(x, y)", "x with the sign of y.", "copysignf"),
    _library("floats", "minimum(a, b)", "The lesser; a NaN if either is one."),
    _library("floats", "maximum(a, b)", "The greater; a NaN if either is one."),
    _library("floats", "fdim(x, y)", "x - y, or 0 where that is negative.", "fdimf"),
    _library("floats", "fmod(x, y)", "The exact remainder of x / y cut off, of x's sign.",
             "fmodf"),
    _library("floats", "remainder(x, y)", "The exact remainder of x / y rounded to the nearest "
             "integer, ties to even.", "remainderf"),
    _library("floats", "nextafter(x, y)", "The next number after x towards y.", "nextafterf"),
    _library("floats", "ldexp(x, n)", "x times 2 to the n, an integer.", "ldexpf", "scalbn",
             "scalbnf", whole=(1,)),
    _library("floats", "frexp_fraction(x)", "m of x = m 2^e with 1/2 <= |m| < 1."),
    _library("floats", "frexp_exponent(x)", "e of x = m 2^e with 1/2 <= |m| < 1, an int; 0 of 0, "
             "of an infinity and of a NaN."),
    _library("floats", "cbrt(x)", "The cube root.", "cbrtf"),
    _library("floats", "hypot(x, y)", "The square root of x * x + y * y.", "hypotf"),
    _library("trigonometric", "tan(x)", "The tangent of x in radians.", "tanf"),
    _library("trigonometric", "asin(x)", "The inverse of sin, from -pi/2 to pi/2.", "asinf"),
    _library("trigonometric", "acos(x)", "The inverse of cos, from 0 to pi.", "acosf"),
    _library("trigonometric", "atan(x)", "The inverse of tan, from -pi/2 to pi/2.", "atanf"),
    _library("trigonometric", "atan2(y, x)", "The angle of the point (x, y), from -pi to pi.",
             "atan2f"),
    _library("gamma", "erfc(x)", "1 - erf(x).", "erfcf"),
    _library("gamma", "erfinv(x)", "The inverse of erf.", "erfinvf"),
    _library("gamma", "lgamma(x)", "The logarithm of the gamma function's magnitude.", "lgammaf"),
    # across elements
    _row("sum(x, axis)", 1, 2, "The sum along an axis, a negative one from the end; of all "
         "elements without axis.", partial(tiles.reduction, "add"), "__sum"),
    _row("prod(x, axis)", 1, 2, "The product along an axis, or of all elements.",
         partial(tiles.reduction, "mul")),
    _row("any(x, axis)", 1, 2, "Whether any element along the axis, or any at all, is true.",
         partial(tiles.truth_reduction, "or")),
    _row("all(x, axis)", 1, 2, "Whether all elements, or all along the axis, are true.",
         partial(tiles.truth_reduction, "and")),
    _row("argmax(x, axis)", 1, 2, "The index of the greatest element, the first on a tie; without "
         "axis, the index in row-major order.", partial(tiles.arg_reduction, "max")),
    _row("argmin(x, axis)", 1, 2, "The index of the least element, the first on a tie; without "
         "axis, the index in row-major order.", partial(tiles.arg_reduction, "min")),
    _row("cumsum(x, axis)", 1, 2, "Inclusive sums along an axis; without axis, of all elements in "
         "row-major order.", partial(tiles.scan, "add")),
    _row("cumprod(x, axis)", 1, 2, "Inclusive products along an axis; without axis, of all "
         "elements in row-major order.", partial(tiles.scan, "mul")),
    _row("reduce(x, axis, operation)", 2, 3, "The elements along an axis combined by sum, prod, "
         "max, min, any, all, or a function of the program's own; all elements, in row-major "
         "order, without axis.", tiles.named_reduction, words=(1, 2), functions=True,
         structs=True),
    _row("scan(x, axis, operation, reverse)", 2, 4, "The inclusive scan along an axis by sum (the "
         "default), prod, max, min, any, all, or a function of the program's own; with the "
         "word `reverse`, from the end.", tiles.named_scan, words=(2, 3), functions=True,
         structs=True),
    _row("histogram(x, bins)", 2, 2, "How many elements of an integer tile are 0, 1, ..., "
         "bins - 1, an int tile; others do not count.", moves.histogram),
    _row("dot(a, b, acc)", 2, 3, "The matrix product a @ b, plus acc.", products.product),
    # shapes
    _row("trans(x, axes...)", 1, None, "The axes in the order given; reversed without one.",
         tiles.transpose),
    _row("permute(x, axes...)", 2, None, "The axes in the order given.", tiles.transpose),
    _row("reshape(x, extents...)", 2, None, "The same elements, row-major, in another shape.",
         tiles.reshaped, "__reshape"),
    _row("broadcast(x, extents...)", 2, None, "Extents of 1 repeated, missing axes added at the "
         "left.", tiles.broadcast, "__broadcast"),
    _row("gather(x, index, axis)", 3, 3, "The elements of x at the positions in `index` along the "
         "axis, as torch.gather; `index` has x's shape, except along the axis.", moves.gather),
    _row("flip(x, axis)", 2, 2, "The elements along the axis in the opposite order.",
         moves.flip),
    _row("join(a, b)", 2, 2, "a and b along a new last axis, of extent 2.", moves.join),
    _row("cat(a, b, axis)", 3, 3, "a, then b, along the axis.", moves.cat),
    _row("split(x)", 1, 1, "The two halves of the last axis, of extent 2: members `first` and "
         "`second`.", moves.split),
    _row("sort(x, axis, descending)", 2, 3, "The elements along the axis in order, or in the "
         "opposite order; NaNs come last, or first if descending.", sort.sort),
    _row("topk(x, k, axis)", 3, 3, "The k greatest elements along the axis, the greatest first, as "
         "member `values`, and their positions as `indices`; of equal ones the first comes first.",
         sort.topk),
    # memory
    _atomic("add", "Adds v to *p atomically, where mask holds, if there is one; gives the old "
            "value, as all atomics do.", "f32_atomic_add"),
    _atomic("max", "*p = max(*p, v), atomically."),
    _atomic("min", "*p = min(*p, v), atomically."),
    _atomic("and", "*p &= v, atomically."),
    _atomic("or", "*p |= v, atomically."),
    _atomic("xor", "*p ^= v, atomically."),
    _atomic("xchg", "*p = v, atomically.", "__atomic_exch", "atomic_exch"),
    _row("atomic_cas(p, compare, v, mask)", 3, 4, "*p = v where *p equals compare, atomically; "
         "gives the old value.", partial(memory.atomic, "cas"), "__atomic_cas", template=True,
         effects=True, access=(*ORDERS, *SCOPES)),
    _row("atomic_load(p, mask)", 1, 2, "*p, by one access, which the compiler neither drops nor "
         "merges; with the words relaxed or acquire, and block, gpu or system.",
         partial(memory.atomic, "load"), effects=True, access=("relaxed", "acquire", *SCOPES)),
    _row("atomic_store(p, v, mask)", 2, 3, "*p = v, by one access; with the words relaxed or "
         "release, and block, gpu or system.", partial(memory.atomic, "store"), effects=True,
         access=("relaxed", "release", *SCOPES)),
    _row("load(p, mask)", 1, 2, "*p, or *?(mask) p; with the words stream (read once: the first to "
         "leave the caches) or keep.", memory.plain_load, effects=True,
         access=("stream", "keep")),
    _row("store(p, v, mask)", 2, 3, "*p = v, or *?(mask) p = v; with the words stream (not read "
         "soon) or keep.", memory.plain_store, effects=True, access=("stream", "keep")),
    _row("__debug_barrier()", 0, 0, "A barrier: what any element wrote before it, all elements of "
         "the instance see after it.", memory.barrier, effects=True),
    # hints and checks
    _row("multiple_of(x, n)", 2, 2, "x; promises that it is a multiple of n (bytes, if a pointer).",
         memory.multiple_of),
    _row("assume(c)", 1, 1, "Promises that c holds everywhere; the compiler may rely on it.",
         memory.assume, "__builtin_assume", effects=True),
    _row("assert(c, message)", 1, 2, "With --device-assert, ends the program unless c holds.",
         memory.check, strings=(1,), effects=True),
    _row("printf(format, values...)", 1, None, "With --device-assert, prints the values as C does, "
         "once for each element of a tile.", memory.printf, strings=(0,),
         effects=True))

PURE = frozenset(spelling for row in BUILTINS if not row.effects and not row.divides
                 for spelling in (row.name, *row.spellings))

_TYPED_ATOMIC = r"(?:__)?atomic_(add|max|min|and|or|xor|xchg|cas)_[a-z]\w*?_\d+x\d+"


@cache
def _by_spelling() -> dict[str, Builtin]:
    return {spelling: row for row in BUILTINS for spelling in (row.name, *row.spellings)}


def find(name: str) -> Builtin | None:
    """The row of a name: its own, another spelling, or `atomic_add_float_64x32` and the like."""
    row = _by_spelling().get(name)
    if row is None and (match := re.fullmatch(_TYPED_ATOMIC, name)):
        row = _by_spelling()[f"atomic_{match[1]}"]
    return row


def names() -> list[str]:
    """All spellings."""
    return list(_by_spelling())


_ACCESS = frozenset(word for row in BUILTINS for word in row.access)


def _words(context: Context, said: list[syntax.Name]) -> Words:
    """What words behind the arguments say."""
    found: dict[str, str] = {}
    for word in said:
        what = "order" if word.name in ORDERS else "scope" if word.name in SCOPES else "cache"
        if what in found:
            context.refuse("call-arguments", word.span, f"'{found[what]}' and '{word.name}' "
                           "exclude each other: an access takes one of them")
        found[what] = word.name
    if "cache" in found:
        found["cache"] = {"stream": "evict_first", "keep": "evict_last"}[found["cache"]]
    return Words(**found)


def _is_word(context: Context, row: Builtin, at: int, node: syntax.Name) -> bool:
    """Whether an argument is no value, but a word that the builtin knows, or a function's name."""
    entity = context.scope.lookup(node.name)
    if isinstance(entity, FunctionEntity):
        return row.functions
    return at in row.words and (entity is None or not row.functions or at > 1)


def call(context: Context, row: Builtin, node: syntax.Call) -> Term:
    """Lower a call of a builtin."""
    arguments: list[Term] = []
    good = True
    said: list[syntax.Name] = []
    for at, argument in enumerate(node.arguments):
        if isinstance(argument, syntax.Name) and _is_word(context, row, at, argument):
            arguments.append(Term(STRING_TYPE, constant=argument.name))
            continue
        if row.access and isinstance(argument, syntax.Name) and argument.name in _ACCESS \
                and context.scope.lookup(argument.name) is None:
            if argument.name not in row.access:
                return context.error("call-arguments", argument.span, f"'{row.name}' takes no "
                                     f"'{argument.name}'; its words are {', '.join(row.access)}")
            said.append(argument)
            continue
        if said:
            return context.error("call-arguments", argument.span, f"'{said[-1].name}' must come "
                                 "after all other arguments")
        term = context.lower(argument) if at in row.strings else context.operand(
            argument, row.structs and at == 0)
        good = good and not term.poisoned
        arguments.append(term)
    count = len(arguments)
    if count < row.least or (row.most is not None and count > row.most):
        wanted = str(row.least) if row.most == row.least else (
            f"at least {row.least}" if row.most is None else
            f"{row.least} {'or' if row.most == row.least + 1 else 'to'} {row.most}")
        many = "argument" if wanted.split()[-1] == "1" else "arguments"
        return context.error("call-arguments", node.span, f"'{node.callee}' takes {wanted} {many}, "
                             f"found {count}: {row.signature}")
    if node.template is not None and not row.template:
        return context.error("call-arguments", node.span, f"'{node.callee}' takes one list of "
                             f"arguments: {row.signature}")
    if not good:
        return POISON
    if context.constant_for is not None and row.effects:
        return constants.not_constant(context, node.span, context.constant_for,
                                      f"'{node.callee}' runs on the GPU")
    context.at(node.span)
    context.words = _words(context, said) if said else None
    with context.about(*node.arguments):
        return row.lower(context, node, arguments)
