"""Tiles that the source does not list, where programs of another extent compute the same.

A program that converts an operand converts each element anew, so that what it costs falls with the
extent of the other operand: by 256 x 128 half as many conversions as by 128 x 256.  So it is with
rows whose places follow from quotients or are loaded, as a convolution's pixels, which threads
copy: tiles twice as wide.  Of other products, tiles between 128 and 256 columns or rows fill
rounds of multiprocessors that those leave half empty.  Where the programs along an axis compute
each row by itself, one can take the rows of two: what the rows share, loops and the other operand,
is the same.  That is so if the kernel lowered with another extent differs in extents alone, and no
operation brings elements along that axis together, but to say whether a load has any.  Rows beyond
the launch are those of no program; so each access must have a mask that ends them.
"""

from collections.abc import Mapping, Sequence
from math import prod

from tritonc.analysis.quotients import gathered
from tritonc.analysis.values import constant_of, slice_of
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, Op, Value, uses
from tritonc.ir.ops import CONTROL, READ
from tritonc.ir.types import shape
from tritonc.tune.model.choose import Lower, lowered, middle
from tritonc.tune.model.feature import SIDE
from tritonc.tune.model.features import features

WIDEST = 256  # columns of an instruction
# Columns of halves, or rows, between those of the list.  H200, by 128 x 128 or 256, 128 x 192, and
# the best of these: A B of 1536 in cube 20.0, 16.2, 14.8 us, A B^T 20.2, 16.9, 14.8, of 1152 x 3840
# x 1024 22.7, 22.3, 18.8; A B of 1792 in cube 22.9, 31.0, 21.3.
BETWEEN = (144, 160, 176, 192, 208, 224, 240)
FEW = (192,)
# Rows beside a converted operand.  Weights of 8 bits, 777 x 12288 x 4224: 163 us by those of the
# list, 124 by 224 x 128; 300 x 13824 x 3072 67, and 49 by 160 x 128; 384 x 8200 x 3072 41, 31.
CONVERTED = (160, 192, 224)
_BELOW, _ABOVE = ("slt", "sle", "ult", "ule"), ("sgt", "sge", "ugt", "uge")
_RISES = ("get_global_range", "splat", "constant", "broadcast", "reshape", "trans", "add", "sub",
          "mul", "sdiv", "udiv", "sext", "zext")
_ENDS = ("dot", "phi", "load")
_SPREADS = ("phi", "splat", "constant", "broadcast", "trans", "select", "psi", "cmpp")


def wider(space: Mapping[str, Sequence[int]], lower: Lower, target: Target,
          measured: bool = False) -> dict[str, tuple[int, ...]]:
    """The tunables of `space` that may have more values, with their values; few more where each is
    `measured`."""
    if "wgmma" not in target.features:
        return {}
    base = lowered(lower, middle(space))
    dots = [] if base is None or len(base.kernels) != 1 else [
        f for f in features(base.kernels[0]) if f.kind == "dot"]
    if base is None or len(dots) != 1:
        return {}
    (dot,) = dots
    left, right = _gathered(base.kernels[0])
    doubled = any(dot.raw) or dot.swapped or left != right
    if not doubled and (left or dot.scaled or dot.bytes != 2 or len(dot.extents) > 3):
        return {}
    axes = (-3,) if dot.raw[1] or dot.swapped or (right and not dot.raw[0]) else (
        -2,) if doubled else (-3, -2)
    widest = any(WIDEST in values for values in space.values())
    sides = () if not widest else (WIDEST,) if measured else (WIDEST, SIDE)
    found = {}
    for name, values in space.items():
        twice = 2 * max(values)
        between = CONVERTED if twice == WIDEST and any(dot.raw) else ()
        added = (*between, twice) if doubled else () if max(values) not in sides else (
            FEW if measured else BETWEEN)
        more = [n for n in added if 2 <= n <= WIDEST and n not in values]
        if more and (other := lowered(lower, {**middle(space), name: more[-1]})):
            (wide,) = (f for f in features(other.kernels[0]) if f.kind == "dot")
            if any(wide.extents[axis] > dot.extents[axis] for axis in axes) and by_themselves(
                    base.kernels[0], other.kernels[0]):
                found[name] = (*values, *more)
    return found


def for_all_sizes(space: Mapping[str, Sequence[int]], listed: Mapping[str, Sequence[int]]
                  ) -> dict[str, Sequence[int]]:
    """The values to choose among where nothing is known of a launch: rounds are not known that
    others fill.  4096 x 4096 x 1024 with 48 multiply-adds for each result takes 92 us by 128 x 192,
    and 83 by 128 x 128."""
    return {name: [v for v in values if v in listed[name] or v not in BETWEEN]
            for name, values in space.items()}


def _gathered(kernel: Kernel) -> tuple[bool, bool]:
    """Of which operands of products threads compute the rows, by quotients or loaded numbers."""
    sides = [False, False]
    for dot in (op for op in kernel.ops() if op.name == "dot"):
        far = {*gathered(dot), *(op for op in slice_of(dot.operands[:2], None, _ENDS, False)
                                 if op.name == "load" and any(
                                     one.name == "load" and shape(one.result.type)
                                     for one in slice_of(op.operands[:1], None, ("load",), False)))}
        for side, operand in enumerate(dot.operands[:2]):
            sides[side] |= not far.isdisjoint(slice_of([operand], None, _ENDS, False))
    return sides[0], sides[1]


def by_themselves(kernel: Kernel, wide: Kernel) -> bool:
    """Whether `wide`, which is the kernel with another extent of its tiles along one axis, computes
    for each element along that axis what the kernel does.  Constants of one shape may be one
    in either of them."""
    ops, others = ([op for op in one.ops() if op.name != "constant"] for one in (kernel, wide))
    axes = {op.attributes["axis"] for op, other in zip(ops, others, strict=False)
            if op.name == other.name == "get_global_range"
            and op.attributes["extent"] != other.attributes["extent"]}
    readers = uses(kernel)
    return len(ops) == len(others) and len(axes) == 1 and all(
        _alike(op, other, axes) or (op.name == other.name and _any_row(op, readers))
        for op, other in zip(ops, others, strict=True))


def _any_row(op: Op, readers: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether it says if a mask holds anywhere along an axis, which loads alone ask, of what they
    give nothing elsewhere: as of a bias that a masked store reads."""
    if op.name != "reduce" or op.attributes["kind"] != "or":
        return False
    stack = [op.result]
    while stack:
        value = stack.pop()
        for reader in readers.get(value, ()):
            if reader.name in ("splat", "reshape", "broadcast", "and") or (
                    reader.name == "reduce" and reader.attributes["kind"] == "or"):
                stack.append(reader.result)
            elif reader.name != "load" or value is not reader.guard \
                    or not {"other", "volatile"}.isdisjoint(reader.attributes):
                return False
    return True


def _alike(op: Op, other: Op, axes: set[int]) -> bool:
    cut = [*map(_cut, op.operands, other.operands)]
    made = [*map(_cut, op.results, other.results)]
    if op.name != other.name or any(len(dims) > 1 for dims in (*cut, *made)) or [
            *map(constant_of, op.operands)] != [*map(constant_of, other.operands)]:
        return False
    if op.name == "get_global_range":
        return bool(made[0]) == (op.attributes["axis"] in axes)
    if op.attributes != other.attributes or (op.name in (
            "get_program_id", "get_num_programs") and op.attributes["axis"] in axes):
        return False
    if op.effects - {READ, CONTROL} and not (op.operands and cut[0]):
        return False  # each program does it once
    if op.effects - {CONTROL} and op.operands and cut[0] and not _ends(op.guard, other.guard):
        return False
    if not any((*cut, *made)) or op.info.elementwise or op.name in (*_SPREADS, "load", "store"):
        return True
    if op.name == "reshape":  # the axis stays one
        (before,), (after,) = cut[0], made[0]
        old, new = shape(op.operands[0].type), shape(op.result.type)
        return old[before] == new[after] and prod(old[:before]) == prod(new[:after])
    return op.name == "dot" and not (cut[0] - {0} or cut[1] - {1}) and len(
        shape(op.result.type)) == 2


def _ends(guard: Value | None, other: Value | None) -> bool:
    """Whether a mask has a greatest index along the axis."""
    op, twin = (None if value is None else value.op for value in (guard, other))
    if op is None or twin is None:
        return False
    if op.name == "icmp":
        sides = [slice_of([value], masks=False) for value in op.operands]
        far = [any(one.name == "get_global_range" for one in side) for side in sides]
        return bool(_cut(op.operands[0], twin.operands[0])) and far.count(True) == 1 \
            and op.attributes["predicate"] in (_BELOW if far[0] else _ABOVE) and all(
                one.name in _RISES for one in sides[far.index(True)] if shape(one.result.type))
    return op.name in ("and", "broadcast", "reshape", "trans", "cmpp") and (
        op.name != "cmpp" or guard is op.results[0]) and any(
        map(_ends, op.operands, twin.operands))


def _cut(value: Value, other: Value) -> set[int]:
    """The axes along which the extents differ."""
    return {d for d, (a, b) in enumerate(zip(shape(value.type), shape(other.type), strict=True))
            if a != b}

