"""specialize: one branch at entry picks a body that may assume aligned addresses and full tiles.

Before:  entry: ...                      After:  entry: %ok = (a | b | 4 * lda) % 16 == 0
                                                              and 64 * pid + 64 <= m and ...
                                                        cond_br %ok, fast, general
                                                 fast:    the kernel, where pointers and strides are
                                                          known multiples and bounds known to hold
                                                 general: the kernel as it was

A source rarely says that a pointer is aligned to 16 bytes or that a stride is a multiple of four,
and masks its tiles everywhere although all but the last ones are full.  The conditions are scalars
of parameters and program ids, so all threads of an instance agree.  They are collected from the
affine accesses of the kernel: its base pointer and strides must allow 16-byte accesses, its
invariant bounds must hold for the whole tile, and a bound that moves with a loop must be a multiple
of the access.

Where the copy engine brings operands it masks them at no cost: then masks stay and edge tiles run
in the fast body too, which assumes that strides and offsets are not negative.

Nothing is done where no access would get wider and no mask would go.  Needs loops with preheaders.
The constants that it puts in place of masks are left to fold_constants and peephole, which run
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonc.analysis import axis_info
from tritonc.analysis.affine import Affine, Affinity, Bound, Iteration, is_counter
from tritonc.analysis.linear import Linear, emit, number
from tritonc.backend.layout import layout_choice
from tritonc.backend.target.matrix import BY_NAME, WGMMA
from tritonc.backend.target.target import Target
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, I64, Tile, is_pointer, scalar, with_element

ACCESS = layout_choice.ACCESS_BYTES
SMALL = 32  # tiles of fewer elements are not worth a second body


@dataclass
class _Conditions:
    """What the fast body assumes."""

    multiples: dict[Value, int] = field(default_factory=dict)  # parameter -> known divisor
    full: dict[Op, tuple[Linear, Linear]] = field(default_factory=dict)  # icmp -> end <= limit
    signs: dict[Value, None] = field(default_factory=dict)  # parameters that are not negative
    hindered: list[tuple[Op, str]] = field(default_factory=list)  # accesses that stay narrow, why


def specialize(kernel: Kernel, context: Context) -> bool:
    """Add the fast body, if there is something to gain."""
    found = _collect(kernel, _copies_tensors(kernel, context))
    for op, why in found.hindered:
        context.remark("specialize", f"access not vectorised: {why}", op.span, missed=True)
    for value, info in zip(kernel.parameters, kernel.info, strict=True):
        if value in found.multiples and info.multiple_of % found.multiples[value] == 0:
            del found.multiples[value]  # the source promises it
    if not found.multiples and not found.full and not found.signs:
        return False
    fast, mapping = copy_blocks(kernel.blocks, ".fast")
    kernel.blocks[:0] = [_dispatch(kernel, found, fast[0])]
    kernel.blocks += fast
    _assume(fast, mapping, found)
    context.remark("specialize", _promise(found), kernel.span)
    return True


def _promise(found: _Conditions) -> str:
    """What the fast body assumes, in words."""
    by_unit: dict[str, list[str]] = {}
    for value, n in found.multiples.items():
        unit = f"{n}{' bytes' if is_pointer(value.type) else ''}"
        by_unit.setdefault(unit, []).append(f"'{value.name}'")
    parts = ["its tile is full"] if found.full else []
    for unit, names in by_unit.items():
        some = names if len(names) < 2 else [", ".join(names[:-1]), names[-1]]
        verb = "is a multiple" if len(names) < 2 else "are multiples"
        parts.append(f"{' and '.join(some)} {verb} of {unit}")
    if found.signs:
        names = [f"'{value.name}'" for value in found.signs]
        parts.append(f"none of {', '.join(names)} is negative" if len(names) > 1
                     else f"{names[0]} is not negative")
    return (f"an instance runs a body made for it if {'; '.join(parts)}: what parameters promise "
            "needs no test")


def _copies_tensors(kernel: Kernel, context: Context) -> bool:
    """Whether the copy engine brings the operands, which masks them at no cost."""
    target: Target = context.target
    names = [op.attributes.get("instruction") for op in kernel.ops() if op.name == "dot"]
    return "tensor_map" in target.features and bool(names) and all(
        name is not None and BY_NAME[name].kind == WGMMA for name in names)


def _collect(kernel: Kernel, masked: bool) -> _Conditions:
    """`masked`: the masks of tiles stay, and only alignment is assumed."""
    infos = axis_info.analyze(kernel)
    cfg = Cfg(kernel)
    outside = Affinity()
    per_loop = {loop: Affinity(Iteration(loop)) for loop in cfg.loops}
    found = _Conditions()
    for block in cfg.order:
        loop = cfg.innermost.get(block)
        affinity = per_loop[loop] if loop is not None else outside
        for op in block.ops:
            if op.name in ("load", "store") and isinstance(op.operands[0].type, Tile):
                _collect_access(op, affinity, infos, masked, found)
                if masked:
                    _collect_signs(op, affinity, found)
    promised = {value for value, info in zip(kernel.parameters, kernel.info, strict=True)
                if info.least is not None and info.least >= 0}
    found.signs = {value: None for value in found.signs if value not in promised}
    return found


def _collect_signs(op: Op, affinity: Affinity, found: _Conditions) -> None:
    """What the copy engine moves has no negative strides and begins behind its base.

    A parameter that limits an index is no question: where it is negative, nothing is accessed.
    """
    form = affinity.of(op.operands[0])
    if form is None or form.base is None or len(form.strides) != 2:
        return
    limits: set[Value] = set()
    mask = affinity.mask(op.guard, 2)
    for bound in mask.bounds if mask else ():
        fixed = [m for m, _ in bound.limit.terms if not any(map(is_counter, m))]
        limits.update(v for m in fixed if len(fixed) == len(m) == 1 for v in m)
    for polynomial in (form.offset, *form.strides):
        for monomial, _ in polynomial.terms:
            found.signs.update((v, None) for v in monomial
                               if v.op is None and not is_counter(v) and v not in limits)


def _collect_access(op: Op, affinity: Affinity, infos: axis_info.Infos, masked: bool,
                    found: _Conditions) -> None:
    pointer = op.operands[0]
    t, info = pointer.type, infos.get(pointer)
    form = affinity.of(pointer)
    assert isinstance(t, Tile)
    if info is None or t.size < SMALL:
        return
    axis = layout_choice.fastest_axis(info, len(t.shape))
    if form is None or form.base is None:
        return
    size = scalar(pointee(t)).bytes
    guard = infos.get(op.guard) if op.guard is not None else None
    reach = min(ACCESS // size, info.contiguity[axis])
    if axis_info.vector_length(info, guard, axis, size) < reach:
        multiples = _alignment(form, size, reach)
        if multiples is None:
            found.hindered.append((op, "an offset or a stride depends on a value that is not known "
                                   f"to be a multiple of {reach}, and is no parameter"))
            return
        for value, n in multiples.items():
            found.multiples[value] = max(n, found.multiples.get(value, 1))
    mask = affinity.mask(op.guard, len(t.shape))
    if mask is None and guard is not None and guard.constancy[axis] < reach:
        found.hindered.append((op, f"its mask is not known to be one for {reach} neighbours: it is "
                               "no conjunction of bounds of the axes"))
    for bound in mask.bounds if mask else ():
        _collect_bound(bound, t.shape[bound.axis], bound.axis == axis, reach, masked, found)


def _alignment(form: Affine, size: int, reach: int) -> dict[Value, int] | None:
    """The parameters that must be multiples for accesses of `reach` elements; None if others must.

    Terms of the offset and of the strides with a coefficient that is a multiple already are fine.
    """
    found: dict[Value, int] = {}
    assert form.base is not None
    found[form.base] = reach * size
    for polynomial in (form.offset, *form.strides):
        if polynomial.constant == 1:
            continue
        for monomial, n in polynomial.terms:
            if n % reach == 0:
                continue
            parameters = [v for v in monomial if v.op is None and not is_counter(v)]
            if not parameters:
                return None
            found[parameters[-1]] = max(reach // (n & -n), found.get(parameters[-1], 1))
    return found


def _collect_bound(bound: Bound, extent: int, contiguous: bool, reach: int, masked: bool,
                   found: _Conditions) -> None:
    """A bound that holds for the whole tile, or one whose limit is a multiple of the access."""
    values = [*bound.start.values(), *bound.limit.values()]
    known = all(v.op.name == "get_program_id" if v.op is not None else not is_counter(v)
                for v in values)
    (monomial, n) = bound.limit.terms[0] if len(bound.limit.terms) == 1 else ((), 0)
    parameter = monomial[0] if len(monomial) == 1 and monomial[0].op is None else None
    # A row that ends inside its tile does so in all instances: the mask stays, by whole accesses.
    somewhere = any(v.op is not None for v in values) or not contiguous or parameter is None
    if known and somewhere and not masked:
        found.full[bound.test] = (bound.start + number(extent), bound.limit)
    elif contiguous and parameter is not None and n % reach:
        found.multiples[parameter] = max(reach, found.multiples.get(parameter, 1))


def _dispatch(kernel: Kernel, found: _Conditions, fast: Block) -> Block:
    """The new entry: computes the conditions and branches."""
    block = Block("dispatch")
    b = Builder(block)
    ok: Value | None = None

    def both(test: Value) -> None:
        nonlocal ok
        ok = test if ok is None else b.value("and", ok, test)

    zero = b.constant(0, I64)
    for value, n in found.multiples.items():
        low = b.value("and", _wide(b, value), b.constant(n - 1, I64))
        both(b.value("icmp", low, zero, predicate="eq"))
    if found.signs:
        wide = [_wide(b, value) for value in found.signs]
        together = wide[0]
        for value in wide[1:]:
            together = b.value("or", together, value)
        both(b.value("icmp", together, zero, predicate="sge"))
    ids: dict[int, Value] = {}

    def here(value: Value) -> Value:
        """A program id as this block computes it."""
        if value.op is None:
            return value
        axis = value.op.attributes["axis"]
        if axis not in ids:
            ids[axis] = b.value("get_program_id", axis=axis)
        return ids[axis]

    tests = {(end.terms, limit.terms): (end, limit) for end, limit in found.full.values()}
    for end, limit in tests.values():
        both(b.value("icmp", emit(b, end, I64, here), emit(b, limit, I64, here),
                     predicate="sle"))
    assert ok is not None
    b.emit("cond_br", ok, blocks=[fast, kernel.entry])
    return block


def _wide(b: Builder, value: Value) -> Value:
    """A parameter as a signed number of 64 bits."""
    if is_pointer(value.type):
        return b.value("ptrtoint", value, type=I64)
    return b.value("sext", value, type=I64) if scalar(value.type).bits < 64 else value


def _assume(fast: list[Block], mapping: dict[Value, Value], found: _Conditions) -> None:
    """Put what the conditions promise into the copy."""
    known: dict[Value, Value] = {}
    first: list[Op] = []
    for value in {**found.multiples, **found.signs}:
        hint = make_op("assume_multiple", [value], n=found.multiples.get(value, 1))
        if value in found.signs:
            hint.attributes["least"] = 0
        hint.result.name = value.name
        known[value] = hint.result
        first.append(hint)
    for test in found.full:
        copy = mapping[test.result].op
        assert copy is not None
        t = with_element(copy.result.type, I1)
        copy.name, copy.operands, copy.attributes = "constant", [], {"value": True}
        copy.results[0].type = t
    for block in fast:
        for op in block.ops:
            op.replace_inputs(known)
    fast[0].ops[:0] = first
