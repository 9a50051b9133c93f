"""select_matrix_loads: fragments move between shared memory and registers by ldmatrix and
stmatrix.

Before:  %x = shared_load %s : f16<128, 64; #fragment>
After:   %x = shared_load %s {ldmatrix = "trans", late = true} : f16<128, 64; #fragment>

A fragment gives a thread pairs of neighbours here and there, so a plain access would move 4 bytes,
or 2 where the buffer is the other way round; ldmatrix moves 16 bytes of each lane's address and
hands them out.  It takes a load where the layouts allow it (`matrix_access.py`) and it passes over
the banks less often than plain accesses do.  The same for stores of 16-bit fragments and stmatrix.

A load that one mma_dot reads is `late` if shared memory stays as it is in between: then the dot
loads what it needs one step of k ahead, and few registers hold fragments.  Where the operand is
computed of what is loaded, all of that moves to the dot and is `piecewise`: each fragment is
computed when the dot needs it.  Not behind exchanges: those of a softmax leave time to convert the
values (decode from bytes, H200, 140 us behind them, 137 before; 98 and 91).

Needs the final layouts of registers and buffers, so it comes after lower_conversions."""

from tritonc.analysis.values import MOVES
from tritonc.backend.layout.access import bank_conflicts, phase_lanes, shared_accesses
from tritonc.backend.layout.matrix_access import matrix_accesses
from tritonc.backend.target.target import Target
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.ops import SHARED_WRITE, SYNC
from tritonc.ir.types import Buffer, Tile

LOAD, STORE = "ldmatrix", "stmatrix"  # attributes, features and instructions


def select_matrix_loads(kernel: Kernel, context: Context) -> bool:
    """Set `ldmatrix` and `stmatrix` on the loads and stores that they make faster."""
    target: Target = context.target
    changed = _mark_late(kernel)
    for op in kernel.ops():
        if op.name == "shared_load" and LOAD in target.features:
            form = _form(op.operands[0], op.result)
            name = LOAD
        elif op.name == "shared_store" and STORE in target.features and _owned(op):
            form = _form(op.operands[0], op.operands[1])
            name = STORE
        else:
            continue
        if form is not None:
            op.attributes[name] = form
            changed = True
    return changed


def _mark_late(kernel: Kernel) -> bool:
    """Set `late` on loads that their dot may make itself, and `piecewise` on what makes an operand
    of loads, which moves to the dot."""
    readers = uses(kernel)
    changed = False
    for block in kernel.blocks:
        unchanged: set[Op] = set()  # loads since the last change of shared memory
        moved: dict[Op, list[Op]] = {}  # to which dot
        for op in block.ops:
            if op.name == "mma_dot":
                for value in op.operands[:2]:
                    if value.op in unchanged and readers[value] == [op]:
                        value.op.attributes["late"] = changed = True
                    else:
                        made = _made_alone(value, op, block, readers)
                        if unchanged >= {one for one in made if one.name == "shared_load"}:
                            moved.setdefault(op, []).extend(made)
            elif op.effects & {SHARED_WRITE, SYNC}:
                unchanged.clear()
            elif op.name == "shared_load":
                unchanged.add(op)
        for dot, made in moved.items():
            for one in made:
                one.attributes["piecewise"] = changed = True
            block.ops = [op for op in block.ops if op not in made]
            at = block.ops.index(dot)
            block.ops[at:at] = made
    return changed


def _made_alone(value: Value, dot: Op, block: Block, readers: dict[Value, list[Op]]) -> list[Op]:
    """The operations, in order, that make a dot's operand of tiles in shared memory and that
    nothing else needs; none if it is made otherwise."""
    found, stack = {dot}, [value]
    while stack:
        op = stack.pop().op
        if op is None or op in found or op not in block.ops or len(op.results) != 1 or not all(
                reader in found for reader in readers[op.result]):
            continue
        if op.name == "shared_load":
            found.add(op)
        elif op.pure and (op.info.elementwise or op.name in (*MOVES, "convert_layout")):
            found.add(op)
            stack += op.inputs()
    made = [op for op in block.ops if op in found and op is not dot]
    return made if any(op.name == "shared_load" for op in made) else []


def _owned(op: Op) -> bool:
    """Whether 16-bit elements lie in one thread each: stmatrix stores what all threads hold."""
    t = op.operands[1].type
    return ("bits" not in op.attributes and isinstance(t, Tile) and t.layout is not None
            and t.element.bits == 16
            and not t.layout.replicated_lanes and not t.layout.replicated_warps)


def _form(buffer: Value, tile: Value) -> str | None:
    """ "plain" or "trans" if the instruction fits and pays."""
    t, b = tile.type, buffer.type
    if not isinstance(t, Tile) or not isinstance(b, Buffer) or t.layout is None \
            or b.layout is None or b.element.bits < 8:
        return None
    found = matrix_accesses(t.layout, b.layout, b.element.bytes)
    if found is None:
        return None
    bits = b.element.bytes * 8
    plain = shared_accesses(t.layout, b.layout, bits)
    passes = WARP_SIZE >> phase_lanes(plain.vector * bits)
    passes *= len(plain.accesses) * bank_conflicts(t.layout, b.layout, bits)
    if found.passes > passes or len(found.accesses) >= len(plain.accesses):
        return None
    return "trans" if found.transposed else "plain"
