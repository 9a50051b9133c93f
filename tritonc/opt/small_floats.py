"""small_floats: what arithmetic makes of a few bits is read as a float, where it is one.

    e = c >> 1 & 3, m = c & 1, v = e == 0 ? 0.5 m : (1 + 0.5 m) * (1 << e) * 0.5, -v if c & 8

Before:  %v = select ...             After:  %w = or (shl (and %c, 7), 22), (shl (and %c, 8), 28)
                                             %v = fmul (bitcast %w), 2^126

Formats of 3 to 6 bits, as OCP's e2m1, e2m3 and e3m2, have a sign, an exponent and a mantissa, the
least exponent for subnormal numbers, as floats have: put where a float has these fields, they are
the number but for a power of two.  Whether a value is such a number, however it is computed, shows
in its value for each code (`ir.numeric`), of which there are few.  Conversions of operands then
make two at once, by their bits (`backend/emit`).

So are numbers that are looked up in a table of which the source states the contents.

Done beside products, where a value of one small integer takes more operations than that."""

from collections.abc import Mapping, Sequence
from math import copysign, frexp, ldexp

from tritonc.analysis.facts import Facts
from tritonc.analysis.tables import constant_lookup
from tritonc.analysis.values import constant_of, int_of
from tritonc.ir.build import Builder
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.numeric.numbers import NotFoldable, Number, evaluate, fit
from tritonc.ir.types import F32, I32, Tile, element, with_element
from tritonc.records import NamedTuple

# Of a code; operations, at least and at most.  A table takes a shuffle and what names the lane.
MOST_BITS, WORTH, LONGEST = 6, 8, 64
Tables = Mapping[str, Sequence[int | float]]
MANTISSA, SIGN, BIAS = 23, 31, 126  # of a float; the least exponent of a normal one


class Format(NamedTuple):
    """Where the bits of a code are in the float that is the number times 2 to the -`scale`."""

    magnitude: int
    sign: int
    shift: int
    scale: int


def small_floats(kernel: Kernel, context: Context) -> bool:
    """Read as floats what arithmetic makes of a few bits."""
    if context.flushes or not any(op.name == "dot" for op in kernel.ops()) or not any(
            op.name == "and" and element(op.result.type) == I32 for op in kernel.ops()):
        return False
    tables = {one.name: one.data for one in context.constants if one.data is not None}
    facts, seen, replaced = Facts(kernel), set[Op](), dict[Value, Value]()
    for block in kernel.blocks:
        for op in reversed([*block.ops]):
            if op in seen or _inputs(op, tables) is None or element(op.result.type) != F32:
                continue
            code, bits, ops = _code(op, facts, tables)
            found = _format(_values(op, code, bits, ops, tables)) if code is not None else None
            if code is not None and found is not None:
                new = _decoded(code, op, found)
                at = block.ops.index(op) + 1
                block.ops[at:at] = new
                replaced[op.result] = new[-1].result
                seen.update(ops)
    kernel.replace(replaced)
    return bool(replaced)


def _inputs(op: Op, tables: Tables) -> Sequence[Value] | None:
    """The tiles of which an operation makes its result, element by element: of a load from a known
    table its index; None of operations that do more."""
    found = constant_lookup(op)
    if op.guard is not None or len(op.results) != 1 or not isinstance(op.result.type, Tile):
        return None
    if found is not None and found[0] in tables and not op.attributes.get("volatile"):
        return found[1:]
    return op.operands if op.info.elementwise and op.pure else None


def _code(root: Op, facts: Facts, tables: Tables) -> tuple[Value | None, int, list[Op]]:
    """The small integer of which alone the value is made, by enough operations, the earliest such;
    its bits; and these operations, in an order in which they can be computed."""
    ops, found = [root], {root}
    for op in ops:  # which grows
        more = dict.fromkeys(v.op for v in _inputs(op, tables) or () if v.op is not None
                             and v.op not in found and _inputs(v.op, tables) is not None)
        ops += more
        found.update(more)
        if len(ops) > LONGEST:
            return None, 0, []
    for op in reversed(ops[1:]):
        code = op.result
        if code.type != with_element(root.result.type, I32):
            continue
        made = _between(root, code, tables)
        worth = made is not None and (len(made) >= WORTH or any(o.name == "load" for o in made))
        if made is not None and worth and 2 < (bits := _bits(code, made, facts)) <= MOST_BITS:
            return code, bits, made
    return None, 0, []


def _bits(code: Value, readers: Sequence[Op], facts: Facts) -> int:
    """How many of an integer's bits, from the lowest, the operations read; all of them where it may
    be negative."""
    masks = [int_of(v) for op in readers if code in op.operands for v in op.operands
             if op.name == "and" and v is not code]
    bits = [mask.bit_length() for mask in masks if mask is not None and mask >= 0]
    if bits and len(bits) == sum(
            code in op.operands or code in (constant_lookup(op) or ()) for op in readers):
        return max(bits)
    low, high = facts.interval(code)
    return high.bit_length() if low >= 0 else element(code.type).bits


def _between(root: Op, code: Value, tables: Tables) -> list[Op] | None:
    """The operations from a value to another one; None if it is not made of that alone."""
    found: dict[Op, None] = {}

    def visit(op: Op) -> bool:
        for v in _inputs(op, tables) or ():
            if v is code or constant_of(v) is not None or v.op in found:
                continue
            if v.op is None or _inputs(v.op, tables) is None or not visit(v.op):
                return False
        found[op] = None
        return True

    return [*found] if visit(root) else None


def _values(root: Op, code: Value, bits: int, ops: Sequence[Op], tables: Tables) -> list[float]:
    """What the value is for each code; nothing if that is not known."""
    found = []
    for number in range(1 << bits):
        known: dict[Value, Number] = {code: number}
        try:
            for op in ops:
                numbers = [known[v] if v in known else fit(v.type, constant_of(v) or 0)
                           for v in _inputs(op, tables) or ()]
                looked_up = constant_lookup(op)
                if looked_up is None:
                    known[op.result] = evaluate(op.info, op, numbers)[0]
                    continue
                table = tables[looked_up[0]]
                if not 0 <= numbers[0] < len(table):
                    return []
                known[op.result] = table[int(numbers[0])]
        except NotFoldable:
            return []
        found.append(float(known[root.result]))
    return found


def _format(values: Sequence[float]) -> Format | None:
    """The format of which these are all numbers, by their codes."""
    bits = len(values).bit_length() - 1
    if not values:
        return None
    fraction, exponent = frexp(values[1])
    for signed in (1, 0):
        count = 1 << bits - signed
        for mantissa in range(bits - signed):
            scale = exponent - 1 + BIAS + mantissa  # of the number whose code is 1, subnormal
            numbers = [ldexp(_number(m, mantissa), exponent - 1) for m in range(count)]
            numbers += [-number for number in numbers] * signed
            if fraction == 0.5 and -BIAS <= scale <= BIAS + 1 and all(
                    a == b and copysign(1, a) == copysign(1, b)
                    for a, b in zip(values, numbers, strict=True)):
                return Format(count - 1, count * signed, MANTISSA - mantissa, scale)
    return None


def _number(code: int, mantissa: int) -> float:
    """A number whose fields are a code, as a multiple of the least one."""
    exponent, fraction = code >> mantissa, code & (1 << mantissa) - 1
    return float(code if not exponent else (fraction | 1 << mantissa) << exponent - 1)


def _decoded(code: Value, root: Op, form: Format) -> list[Op]:
    """Operations that put the fields of a code where a float has them; the last has the number."""
    b, whole = Builder(Block("decoded"), span=root.span), with_element(root.result.type, I32)

    def field(mask: int, shift: int) -> Value:
        bits = b.value("and", code, b.constant(mask, whole))
        return b.value("shl", bits, b.constant(shift, whole))

    word = field(form.magnitude, form.shift)
    if form.sign:
        word = b.value("or", field(form.sign, SIGN - form.sign.bit_length() + 1), word)
    number = b.value("bitcast", word, type=root.result.type)
    b.value("fmul", number, b.constant(2.0 ** form.scale, root.result.type))
    return b.block.ops
