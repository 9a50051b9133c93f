"""Loads from small tables in constant memory, at an index of its own for each thread.

Constant memory serves one address of a warp after the other.  A table of at most 32 elements fits
into the lanes of a warp: each lane loads one element at the kernel's start, and a load asks the
lane that the index names.  An index beyond the table would be an access out of bounds; where a
guard does not hold, any element will do."""

from tritonc.analysis.tables import constant_lookup
from tritonc.backend.emit.elements.packed import choose
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import CONSTANT_SPACE, literal, llvm_type
from tritonc.backend.emit.registers import members
from tritonc.backend.emit.warps import from_words, shuffle_index, to_words
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.types import Tile, scalar


def look_up(f: FunctionEmitter, op: Op, found: list[str], now: int) -> bool:
    """Those of the registers `now` that are not in `found` yet, if the load is of such a table."""
    table, index = constant_lookup(op) or ("", None)
    t, e = op.result.type, scalar(op.result.type)
    count = f.module.tables.get(table, 0) if table else 0
    if index is None or not 0 < count <= WARP_SIZE or e.bits < 8 or not isinstance(t, Tile) \
            or t.layout is None or not any(t.layout.lane) or op.attributes.get("volatile"):
        return False
    names, guards = f.values[index], f.values[op.guard] if op.guard is not None else None
    if not all(names[r] for r in members(now)):  # wide accesses ask for the first address alone
        return False
    lane = f.prelude(f"and i32 {f.thread}, {WARP_SIZE - 1}")
    held = f.prelude(f"call i32 @llvm.umin.i32(i32 {lane}, i32 {count - 1})")
    f.module.declare("llvm.umin.i32", "i32 (i32, i32)")
    kind = llvm_type(e)
    at = f.prelude(f"getelementptr {kind}, ptr addrspace({CONSTANT_SPACE}) @{table}, i32 {held}")
    own = f.prelude(f"load {kind}, ptr addrspace({CONSTANT_SPACE}) {at}")
    other = literal(e, op.attributes.get("other") or 0)
    width = scalar(index.type).bits
    for r in members(now):
        if found[r]:
            continue
        place = names[r] if width == 32 else f.op(
            f"{'trunc' if width > 32 else 'zext'} i{width} {names[r]} to i32")
        words = [shuffle_index(f, word, place) for word in to_words(f, e, [own])]
        found[r] = from_words(f, e, words, 1)[0]
        if guards is not None and guards[r] != "true":
            found[r] = choose(f, kind, guards[r], found[r], other)
    return True

