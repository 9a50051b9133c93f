"""Matrix products: scalar multiply-adds on operands in shared memory, and matrix instructions.

fma_dot.  A thread holds some rows m and columns n of the accumulator.  For each k in turn it needs
its rows' elements of column k of A and its columns' elements of row k of B.  Seen as a tile, the
part of A that a thread reads over all k has a layout (`layout_choice.fma_operand`).  So
`shared_accesses` says how wide its accesses can be and where they
lie, whichever axis is contiguous in the buffer.  The accesses for k + 1 are issued before the
multiply-adds of k.  Those go through the accumulators in a snake, row by row, so that one operand
stays in the register cache from each to the next.  Neighbouring products that share operands, as
those of complex numbers do, go through k together."""

from functools import cache

from tritonc.backend.emit.accesses.pieces import keep
from tritonc.backend.emit.accesses.shared import SharedTile
from tritonc.backend.emit.body import helper_function
from tritonc.backend.emit.elements.casts import convert_float, round_to_tf32
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import llvm_type
from tritonc.backend.emit.warps import operand_word
from tritonc.backend.layout.access import SharedAccess
from tritonc.backend.layout.dot_layouts import fma_operand
from tritonc.backend.target.matrix import BY_NAME, MatrixInstruction
from tritonc.ir.core import Op, Value, uses
from tritonc.ir.layouts.fragment import a_fragment, accumulator_fragment, b_fragment, instances
from tritonc.ir.layouts.layout import Layout
from tritonc.ir.types import F16, F64, TF32, Scalar, Tile, scalar, shape


class _Operand:
    """One operand of an fma_dot: a tile in registers, or a buffer and its accesses by the k at
    which they are first needed."""

    def __init__(self, f: FunctionEmitter, value: Value, to: Scalar, c: Layout, depth: int,
                 left: bool) -> None:
        self.f, self.to, self.element = f, to, scalar(value.type)
        *_, rows, columns = c.shape
        # Bits of the accumulator's register that step along this operand's rows, or the batch.
        self.row_bits = tuple(bit for bit, b in enumerate(c.register) if b and (
            b >= rows * columns or (b >= columns) == left))
        self.names: dict[int, str] = {}  # (k, row register) -> operand
        self.by_k: dict[int, list[SharedAccess]] = {}
        if isinstance(value.type, Tile):
            self.names = {r: self._widened(name) for r, name in enumerate(f.values[value])}
            return
        self.tile = SharedTile(f, value, fma_operand(c, depth, left))
        for access in self.tile.moves.accesses:
            k = min(r >> len(self.row_bits) for r in access.registers)
            self.by_k.setdefault(k, []).append(access)

    def fetch(self, k: int) -> None:
        """Issue the loads that k is the first to need."""
        for one in self.by_k.get(k, ()):
            for r, name in self.tile.load(one).items():
                self.names[r] = self._widened(name)

    def _widened(self, name: str) -> str:
        f, e, to = self.f, self.element, self.to
        if e == to:
            return name
        if e == TF32:
            helper = helper_function(f.module, "round.tf32", "float", ("float",), round_to_tf32)
            return f.op(f"call float @{helper}(float {name})")
        if e.is_float:
            return convert_float(f, e, to, name)
        if e.bits < to.bits:
            return f.op(f"sext {llvm_type(e)} {name} to {llvm_type(to)}")
        return name

    def take(self, k: int) -> list[str]:
        """The operands of step k, by row register, which are needed no more."""
        bits = len(self.row_bits)
        return [self.names.pop(k << bits | row) for row in range(1 << bits)]


def fma_dot(f: FunctionEmitter, op: Op) -> None:
    group = _together(f, op)
    if op is not group[-1]:
        return  # computed with the last one
    to, layout, depth = scalar(op.result.type), f.layout(op.result), shape(op.operands[0].type)[-1]
    found: dict[tuple[Value, bool], _Operand] = {}
    totals: dict[Value, list[str]] = {}
    steps = []
    for one in group:
        a, b, c = one.operands
        for value, first in ((a, True), (b, False)):
            if (value, first) not in found:
                found[value, first] = _Operand(f, value, to, layout, depth, first)
        total = totals[one.result] = totals[c] if c in totals else list(f.values[c])
        left, right = found[a, True], found[b, False]
        order = _snake(left.row_bits, right.row_bits, f.demanded(one.result))
        steps.append((one, left, right, order, total))
    last = max(one.attributes.get("inner", (0, depth))[1] for one in group)  # the rest is padding
    for k in range(-1, last):
        if k + 1 < last:
            for operand in found.values():
                operand.fetch(k + 1)
        if k >= 0:
            taken = {operand: operand.take(k) for operand in found.values()}
            for one, left, right, order, total in steps:
                factors = taken[left]
                if one.attributes.get("minus"):
                    factors = [f.op(f"fneg {llvm_type(to)} {name}") for name in factors]
                _multiply_add(f, to, order, factors, taken[right], total)
    home = next(block for block in f.kernel.blocks if op in block.ops)
    if home.terminator.name == "cond_br" and home not in home.successors:
        for value, total in totals.items():  # LLVM would sink all additions behind the loads
            f.values[value] = [keep(f, f.type(value), name) for name in total]
    else:
        f.values |= totals


def _together(f: FunctionEmitter, op: Op) -> list[Op]:
    """The products beside `op` that share operands with it: each step of k is that of all, so that
    a thread loads what they share once, and holds little of it."""
    runs: list[list[Op]] = [[]]
    for one in next(block.ops for block in f.kernel.blocks if op in block.ops):
        if one.name == "fma_dot":
            types = [v.type for v in one.operands]
            if runs[-1] and types != [v.type for v in runs[-1][0].operands]:
                runs.append([])
            runs[-1].append(one)
        elif one.name != "buffer_stage":
            runs.append([])
    run = next(run for run in runs if op in run)
    operands = [v for one in run for v in one.operands[:2]]
    if len(set(operands)) == len(operands):
        return [op]
    readers = uses(f.kernel)
    apart = any(reader in run and (v in operands or readers[v] != [reader])
                for v in (one.result for one in run) for reader in readers.get(v, ()))
    return [op] if apart else run


@cache
def _snake(left: tuple[int, ...], right: tuple[int, ...], demanded: int
           ) -> list[tuple[int, int, int]]:
    """(register, row of A, column of B), row by row, every other row backwards.

    `left`, `right`: the bits of the register that make the number of the row, and of the column."""
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for r in range(demanded.bit_length()):
        if demanded >> r & 1:
            row, column = (sum((r >> bit & 1) << i for i, bit in enumerate(bits))
                           for bits in (left, right))
            rows.setdefault(row, []).append((r, row, column))
    found = []
    for i, row in enumerate(sorted(rows)):
        found += sorted(rows[row], key=lambda entry: entry[2], reverse=bool(i % 2))
    return found


def _multiply_add(f: FunctionEmitter, to: Scalar, order: list[tuple[int, int, int]],
                  left: list[str], right: list[str], total: list[str]) -> None:
    t = llvm_type(to)
    if not to.is_float:
        for r, row, column in order:
            product = f.op(f"mul {t} {left[row]}, {right[column]}")
            total[r] = f.op(f"add {t} {total[r]}, {product}")
        return
    name = "llvm.fma.f32" if t == "float" else "llvm.fma.f64"
    f.module.declare(name, f"{t} ({t}, {t}, {t})")
    count, lines = f.count, f.lines  # thousands of lines: no call for each
    for r, row, column in order:
        lines.append(f"  %{count} = call {t} @{name}({t} {left[row]}, {t} {right[column]}, "
                     f"{t} {total[r]})")
        total[r] = f"%{count}"
        count += 1
    f.count = count


# ---- matrix instructions -------------------------------------------------------------------------


def mma_dot(f: FunctionEmitter, op: Op) -> None:
    """One instruction for each step of k, ascending, and fragment of the accumulator.

    Neighbouring instructions have different accumulators, so that none waits for the one before.
    The fragments of a step are fetched before the instructions of the step before it."""
    row = BY_NAME[op.attributes["instruction"]]
    f.target.require(row.feature, op.span)
    a, b, c = op.operands
    bits = row.operand.bits
    rounded = op.attributes.get("rounded", ())
    left = _Fragments(f, a, row, a_fragment(row.rows, row.depth, bits), -1, 0 in rounded,
                      negated=bool(op.attributes.get("minus")))
    right = _Fragments(f, b, row, b_fragment(row.depth, bits), -2, 1 in rounded)
    blocks = instances(f.layout(c), accumulator_fragment(row.rows, row.columns))
    names = list(f.values[c])
    _, last = op.attributes.get("inner", (0, shape(a.type)[-1]))  # the rest is padding
    steps = sorted(k for k in left.by_k if k < last)
    for k, after in zip(steps, [*steps[1:], None], strict=True):
        for needed in (k, after):
            if needed is not None:
                left.fetch(needed)
                right.fetch(needed)
        for (*batch, m, n), registers in blocks:
            outcome = _issue(f, row, left.words[*batch, m, k], right.words[*batch, k, n],
                             [names[r] for r in registers])
            for r, name in zip(registers, outcome, strict=True):
                names[r] = name
    f.values[op.result] = names


class _Fragments:
    """The operand registers of each instruction, by the origin of its fragment."""

    def __init__(self, f: FunctionEmitter, value: Value, row: MatrixInstruction, fragment: Layout,
                 axis: int, rounded: bool, negated: bool = False) -> None:
        self.f, self.row, self.rounded, self.negated = f, row, rounded, negated
        self.words: dict[tuple[int, ...], list[str]] = {}
        self.by_k: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
        for origin, registers in instances(f.layout(value), fragment):
            self.by_k.setdefault(origin[axis], []).append((origin, registers))
        self.register = f.late.get(value) or f.values[value].__getitem__
        self.pieces = f.fetch.get(value)

    def fetch(self, k: int) -> None:
        """Have the words of step k, loading them if they are not there."""
        each = max(1, 32 // self.row.operand.bits)
        found = self.by_k.pop(k, ())
        if self.pieces is not None:
            self.pieces(sum(1 << r for _, registers in found for r in registers))
        for origin, registers in found:
            names = [self.register(r) for r in registers]
            self.words[origin] = [self._register(names[i : i + each])
                                  for i in range(0, len(names), each)]

    def _register(self, names: list[str]) -> str:
        """Elements packed as one operand register; a tf32 rounds, unless it is `rounded`."""
        f, row = self.f, self.row
        if row.operand == F64:
            return f.op(f"fneg double {names[0]}") if self.negated else names[0]
        word = f.op(f"bitcast float {names[0]} to i32") if self.rounded else operand_word(
            f, row.operand, names)
        if self.negated:
            signs = sum(1 << i - 1 for i in range(32, 0, -min(row.operand.bits, 32)))
            word = f.op(f"xor i32 {word}, {signs}")
        return f.op(f"bitcast i32 {word} to <2 x half>") if row.operand == F16 else word


def _issue(f: FunctionEmitter, row: MatrixInstruction, a: list[str], b: list[str], c: list[str]
           ) -> list[str]:
    t = llvm_type(row.accumulator)
    register = "<2 x half>" if row.operand == F16 else "double" if row.operand == F64 else "i32"
    result = f"{{ {', '.join([t] * len(c))} }}"
    operands = [f"{register} {name}" for name in (*a, *b)]
    intrinsic = f"llvm.nvvm.mma.m{row.rows}n{row.columns}k{row.depth}.row.col.{row.ptx}"
    name = f.call(intrinsic, result, *operands, *(f"{t} {total}" for total in c))
    return [f.op(f"extractvalue {result} {name}, {i}") for i in range(len(c))]


EMITTERS: dict[str, Emitter] = {"fma_dot": fma_dot, "mma_dot": mma_dot}
