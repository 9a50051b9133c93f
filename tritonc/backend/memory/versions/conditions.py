"""The conditions that decide between two bodies of a kernel, the branch, and where it stands."""

from collections.abc import Hashable

from tritonc.analysis.linear import Linear, emit
from tritonc.analysis.signs import MOST
from tritonc.analysis.values import slice_of
from tritonc.backend.dots.exponentials import MODERATE
from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.backend.memory.versions.assumed_apart import apart_tests
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import I64, is_int, is_pointer, scalar
from tritonc.later import Later

bring_up = Later("tritonc.backend.pipeline.tma.bring_up", "bring_up")

ANYWHERE = ("get_program_id", "get_num_programs")  # the same wherever it is asked for


def add_test(block: Block, found: Assumed, fast: Block, general: Block) -> None:
    """The conditions, and the branch, at the end of a block."""
    b = Builder(block)
    ok: Value | None = None

    def both(test: Value) -> None:
        nonlocal ok
        ok = test if ok is None else b.value("and", ok, test)

    zero = b.constant(0, I64)
    for value in found.units:
        both(b.value("icmp", value, b.constant(1, value.type), predicate="eq"))
    for value, n in found.multiples.items():
        low = b.value("and", _wide(b, value), b.constant(n - 1, I64))
        both(b.value("icmp", low, zero, predicate="eq"))
    if found.signs:
        wide = [_wide(b, value) for value in found.signs]
        together = wide[0]
        for value in wide[1:]:
            together = b.value("or", together, value)
        both(b.value("icmp", together, zero, predicate="sge"))
    for value in filter(found.coordinate, found.signs):
        both(b.value("icmp", value, b.constant(MOST, I64), predicate="sle"))
    for value in found.positive:
        for predicate, edge in (("oge", 2.0**-MODERATE), ("ole", 2.0**MODERATE)):
            both(b.value("fcmp", value, b.constant(edge, value.type), predicate=predicate))
    ids: dict[tuple[str, int], Value] = {}

    def here(value: Value) -> Value:
        """A program id as this block computes it."""
        if value.op is None or value.op.name not in ANYWHERE:
            return value
        key = value.op.name, value.op.attributes["axis"]
        if key not in ids:
            ids[key] = b.value(key[0], axis=key[1])
        return ids[key]

    for end, limit in strongest(found.pairs):
        both(b.value("icmp", emit(b, end, I64, here), emit(b, limit, I64, here), predicate="sle"))
    for separate in apart_tests(b, found.apart, here):
        both(separate)
    assert ok is not None
    b.emit("cond_br", ok, blocks=[fast, general], facts=True)


def strongest(pairs: list[tuple[Linear, Linear]]) -> list[tuple[Linear, Linear]]:
    """Of sums that differ by a number those that imply the others."""
    found: dict[Hashable, tuple[int, tuple[Linear, Linear]]] = {}
    for pair in pairs:
        excess = pair[0] - pair[1]
        constant, key = excess.constant_term, Linear(excess.symbolic).key
        if key not in found or found[key][0] < constant:
            found[key] = constant, pair
    return [pair for _, pair in found.values()]


def _wide(b: Builder, value: Value) -> Value:
    """A scalar as a signed number of 64 bits."""
    if is_pointer(value.type):
        return b.value("ptrtoint", value, type=I64)
    return b.value("sext", value, type=I64) if scalar(value.type).bits < 64 else value


def before_products(kernel: Kernel, found: Assumed) -> Assumed:
    """What can be tested before the products: what numbers are computed from parameters behind
    their loops is computed at entry, and what only these stores would gain from is given up."""
    cfg = Cfg(kernel)
    inner = [loop for loop in cfg.loops if any(op.name == "dot" for op in loop.ops())]
    late = [v for v in found.subjects if v.op is not None and v.op in cfg.block_of and any(
        not cfg.dominates(cfg.block_of[v.op], loop.header) for loop in inner)]
    left = {v for v in late if not bring_up([v], kernel.entry, Cfg(kernel))}
    return found.kept(lambda v: v not in left) if left else found


def place_of(kernel: Kernel, *bodies: Assumed) -> tuple[Block, int] | None:
    """Behind which operation of which block the bodies part: (entry, 0) if nothing need be
    computed before.  What cannot be known there is given up; None if nothing is left."""
    cfg, subjects = Cfg(kernel), [v for found in bodies for v in found.subjects]
    computed = [v.op for v in subjects
                if v.op is not None and v.op.name not in ANYWHERE and v.op in cfg.block_of]
    if not computed:
        return kernel.entry, 0
    # The test needs a number in any case.
    for op in slice_of(subjects, set(cfg.block_of)):
        if op.name == "load" and op.guard is not None and is_int(op.result.type):
            op.attributes.setdefault("other", 0)
    blocks = list(dict.fromkeys(cfg.block_of[op] for op in computed))
    last = max(blocks, key=cfg.order.index)
    if not all(cfg.dominates(block, last) for block in blocks):
        return None
    return last, _gathered(last, [op for op in computed if cfg.block_of[op] is last])


def _gathered(block: Block, tests: list[Op]) -> int:
    """Move what computes `tests` before the other operations of the block, as far as memory
    allows; returns the position behind it."""
    needed = {*tests, *slice_of((v for op in tests for v in op.inputs()), set(block.ops))}
    writes = next((i for i, op in enumerate(block.ops) if WRITE in op.effects), len(block.ops))
    movable = all(op.name == "phi" or not op.effects or (
        op.effects == {READ} and block.ops.index(op) < writes) for op in needed)
    if not movable:
        return max(block.ops.index(op) for op in tests) + 1
    phis = block.phis()
    first = [op for op in block.ops if op in needed and op.name != "phi"]
    block.ops = [*phis, *first, *(op for op in block.ops[len(phis):] if op not in needed)]
    return len(phis) + len(first)
