"""bound_conversions: integers with known small bounds convert to 16-bit floats directly.

Before:  %n = and %w, %fifteen : i32<64, 8>       After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %n : bf16<64, 8>

Before:  %s = fpcast %h : f32<64, 8>              After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %n : f32<64, 8>                      %t = fmul %x, %h : bf16<64, 8>
         %t = fpcast (fmul %x, %s) : bf16<64, 8>

What an f32 holds exactly is rounded once on its way through one.  Integers of seven bits and their
sign need no conversion at all: they are fractions of a 16-bit float whose exponent is known (see
`emit/elements/packed_casts`).  Weights of four bits are such.

Before:  %d = sub %n, %z : i32<64, 8>             After:  %x = sitofp %n {bounds = (0, 15)} : bf16
         %x = sitofp %d : bf16<64, 8>                      %y = uitofp %byte : bf16<64, 8>
                                                           %t = fsub %x, %y : bf16<64, 8>

Where a 16-bit float holds two integers and their difference exactly, it is the difference of two
floats.  A difference of more than seven bits and a sign is computed so, as that of weights of four
bits and zero points of eight: both operands take fewer instructions than the difference, and a zero
point is converted once for all its neighbours.

The product of two 16-bit floats, or of one and an integer of as many digits, has at most 22 bits,
and none that counts below f32's last: f32 has it exactly, so it is rounded once, as the short one
is.  Floats that are put together of bits, as those of four or eight bits are, are such where their
lower half is zero, and so are powers of two by whole exponents; those of 8 bits are numbers of both
formats.  What scales an exponent is exact if it is so for each pattern of their bits.
"""

from collections.abc import Callable
from itertools import combinations
from struct import pack, unpack

from tritonc.analysis.facts import Facts
from tritonc.analysis.values import (
    MOVES,
    constant_of,
    defined_by,
    origin,
    possible_bits,
    removable,
    slice_of,
)
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import BF16, F16, F32, I8, I16, Scalar, Tile, scalar, with_element

EXACT = 1 << 24  # all integers up to here are numbers of f32
_DIGITS = {BF16: 1 << 8, F16: 1 << 11}  # all integers up to here are numbers of a format
_FEW_BITS = 8  # of which all patterns are tried
_APART = 112  # between the exponents that f32 and f16 count from


def bound_conversions(kernel: Kernel, context: Context) -> bool:
    """Set `bounds` on conversions of tiles where that helps."""
    facts, changed = Facts(kernel), False
    target: Target = context.target
    if "bf16_fma" in target.features:
        changed = _replaced(kernel, lambda op: _short(op, facts) if op.name == "fpcast" else [])
        changed |= _differences(kernel, facts)
    changed |= _replaced(kernel, lambda op: _through_f32(op, facts))
    operands = slice_of((v for op in kernel.ops() if op.name == "dot" for v in op.operands[:2]),
                        None, ("load", "phi", "dot"), False)
    for op in kernel.ops():
        if op.name not in ("sitofp", "uitofp") or not isinstance(op.result.type, Tile):
            continue
        (least, most), t = facts.interval(op.operands[0]), scalar(op.result.type)
        bits, far = scalar(op.operands[0].type).bits, max(-least, most)
        if (least >= 0 or op.name == "sitofp") and (
                (t in (F16, BF16) and far <= EXACT and bits >= 16)
                or (t == F32 and far < EXACT >> 2 and 8 <= bits <= 32 and op in operands)):
            op.attributes["bounds"] = (least, most)
            changed = True
    return changed


def _differences(kernel: Kernel, facts: Facts) -> bool:
    """Convert what is subtracted, not the difference, where that has too many bits."""
    def parts(op: Op) -> list[Op]:
        whole = defined_by(op.operands[0], "sub") if op.name == "sitofp" else None
        if whole is None or not isinstance(op.result.type, Tile) \
                or (to := scalar(op.result.type)) not in _DIGITS:
            return []
        bounds = [facts.interval(v) for v in (whole.result, *whole.operands)]
        if any(max(-least, most) > _DIGITS[to] for least, most in bounds) \
                or bounds[0][1] - bounds[0][0] < _DIGITS[to] // 2:
            return []
        made = [make_op("uitofp", byte.operands, op.result.type, span=op.span)
                if (byte := defined_by(v, "zext")) is not None
                and scalar(byte.operands[0].type) == I8
                else make_op("sitofp", [v], op.result.type, span=op.span)
                for v in whole.operands]
        return [*made, make_op("fsub", [one.result for one in made], span=op.span)]

    return _replaced(kernel, parts)


def _through_f32(op: Op, facts: Facts) -> list[Op]:
    """An 8-bit float by way of the f32 that an integer is; threads round two of these at once."""
    if op.name not in ("sitofp", "uitofp") or scalar(op.result.type).bits != 8 \
            or max(map(abs, facts.interval(op.operands[0]))) > EXACT:
        return []
    number = make_op(op.name, op.operands, with_element(op.result.type, F32), span=op.span)
    return [number, make_op("fpcast", [number.result], op.result.type, span=op.span)]


def _replaced(kernel: Kernel, replacement: Callable[[Op], list[Op]]) -> bool:
    """Let the last of other operations take the place of each that has some."""
    replaced: dict[Value, Value] = {}
    for block in kernel.blocks:
        ops: list[Op] = []
        for op in block.ops:
            made = replacement(op)
            if made:
                replaced[op.result] = made[-1].result
                made[-1].result.name = op.result.name
            ops += made or [op]
        block.ops = ops
    kernel.replace(replaced)
    _drop(kernel, [v for old in replaced if old.op is not None for v in old.op.operands])
    return bool(replaced)


def _drop(kernel: Kernel, values: list[Value]) -> None:
    """Remove what only made these values: layouts are chosen by readers."""
    readers, homes = uses(kernel), {op: block for block in kernel.blocks for op in block.ops}
    while values:
        op = values.pop().op
        if op in homes and removable(op) and not any(readers.get(r) for r in op.results):
            homes.pop(op).ops.remove(op)
            for value in dict.fromkeys(op.inputs()):
                readers[value] = [reader for reader in readers[value] if reader is not op]
                values.append(value)


def _short(cast: Op, facts: Facts) -> list[Op]:
    """Operations of 16 bits that make the same number; none if there are no such."""
    to, product = scalar(cast.result.type), defined_by(cast.operands[0], "fmul")
    if to not in _DIGITS or product is None or not isinstance(cast.result.type, Tile) \
            or scalar(product.result.type) != F32:
        return []
    made: list[Op] = []
    factors = [found for v in product.operands if (found := _exact(v, to, facts, made)) is not None]
    if len(factors) < 2 or not any(op.name in ("sitofp", "uitofp", "bitcast") or (
            op.name == "fpcast" and defined_by(op.operands[0], "exp2")) for op in made):
        return []
    return [*made, make_op("fmul", factors, span=cast.span, **product.attributes)]


def _exact(value: Value, to: Scalar, facts: Facts, made: list[Op]) -> Value | None:
    """The same numbers in a format of 16 bits, by operations that are added to `made`; None if it
    is not known that it has them all."""
    op, operands = value.op, value.op.operands if value.op is not None else []
    if op is None or (op.name == "fpcast" and scalar(operands[0].type) == to):
        return None if op is None else operands[0]
    t, factors = with_element(value.type, to), list[Value]()
    if op.name in ("sitofp", "uitofp"):
        least, most = facts.interval(operands[0])
        if max(-least, most) <= _DIGITS[to] and (least >= 0 or op.name == "sitofp"):
            made.append(make_op(op.name, operands, t, span=op.span))
            return made[-1].result
    elif op.name == "constant" and round_to(to, op.attributes["value"]) == op.attributes["value"]:
        made.append(make_op("constant", [], t, value=op.attributes["value"]))
        return made[-1].result
    elif (op.name == "fpcast" and scalar(operands[0].type).bits == 8) or (
            to == BF16 and op.name == "exp2" and _whole(operands[0])):
        made.append(make_op("fpcast", operands if op.name == "fpcast" else [value], t,
                            span=op.span))
        return made[-1].result
    elif op.name == "bitcast" and to == BF16:
        return _of_bits(op, to, made)
    elif op.name in MOVES or (op.name == "fmul" and _few(op, to)):
        for one in operands:
            factor = constant_of(one) if op.name == "fmul" and to == F16 else None
            if factor is not None:  # what f16 has at these bits is another number
                one = make_op("constant", [], value.type, value=factor * 2.0**-_APART).result
            made_of = _of_bits(one.op, to, made) if to == F16 and one.op is not None and (
                op.name == "fmul" and one.op.name == "bitcast") else _exact(one, to, facts, made)
            factors += [made_of] if made_of is not None else []
        if len(factors) == len(operands):
            made.append(make_op(op.name, factors, t, span=op.span, **op.attributes))
            return made[-1].result
    return None


def _of_bits(cast: Op, to: Scalar, made: list[Op]) -> Value | None:
    """What a format of 16 bits has where an f32 has these fields, by operations that are added to
    `made`; None if it lacks some of them.  In f16 that is 2 to the _APART times the number."""
    (bits,) = cast.operands
    fields = [bits]
    if to == F16 and bits.op is not None and bits.op.name == "or":
        fields = bits.op.operands
    found: Value | None = None
    for part in fields:
        known = possible_bits(part)
        moved = 16 if to == BF16 or known == 1 << 31 else 13
        if known & (1 << moved) - 1 or (moved == 13 and known >> 23 >= 31):
            return None
        by = make_op("constant", [], bits.type, value=moved)
        made += [by, make_op("lshr", [part, by.result], span=cast.span)]
        if found is not None:
            made.append(make_op("or", [found, made[-1].result], span=cast.span))
        found = made[-1].result
    assert found is not None
    short = make_op("truncate", [found], with_element(bits.type, I16), span=cast.span)
    made += [short, make_op("bitcast", [short.result], with_element(bits.type, to), span=cast.span)]
    return made[-1].result


def _whole(value: Value) -> bool:
    """Whether a float is an integer: 2 to it is 0, infinite, or has one digit."""
    op = origin(value, MOVES).op
    return op is not None and op.name in ("sitofp", "uitofp")


def _few(product: Op, to: Scalar) -> bool:
    """Whether all products of a constant and of floats with few patterns of bits are numbers of a
    format of 16 bits: then they are exact."""
    bits, factor = product.operands[0].op, constant_of(product.operands[1])
    if bits is None or bits.name != "bitcast" or factor is None:
        return False
    mask = possible_bits(bits.operands[0])
    places = [1 << i for i in range(mask.bit_length()) if mask >> i & 1]
    if len(places) > _FEW_BITS or mask >> 32:
        return False
    patterns = [sum(chosen) for n in range(len(places) + 1) for chosen in combinations(places, n)]
    products = [unpack("<f", pack("<I", pattern))[0] * factor for pattern in patterns]
    return all(round_to(to, number) == number for number in products)  # exact in Python's floats
