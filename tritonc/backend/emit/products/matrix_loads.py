"""ldmatrix and stmatrix: loads and stores of fragments that `select_matrix_loads` marked."""

from collections.abc import Sequence

from tritonc.backend.emit.accesses import shared
from tritonc.backend.emit.accesses.shared import SharedTile, buffer_layout, buffer_type
from tritonc.backend.emit.elements.casts import from_bits
from tritonc.backend.emit.elements.packed import note
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SHARED_SPACE
from tritonc.backend.emit.warps import to_words
from tritonc.backend.layout.access import SharedAccess
from tritonc.backend.layout.matrix_access import WORD_BYTES, MatrixAccesses, matrix_accesses
from tritonc.ir.core import Op, Value
from tritonc.ir.types import Scalar


def _found(f: FunctionEmitter, buffer: Value, tile: Value) -> tuple[MatrixAccesses, SharedTile]:
    found = matrix_accesses(f.layout(tile), buffer_layout(buffer.type),
                            buffer_type(buffer.type).element.bytes)
    assert found is not None, f"no matrix instruction moves {tile}"
    return found, SharedTile(f, buffer, f.layout(tile), moves=found.moves)


def _call(f: FunctionEmitter, name: str, result: str, found: MatrixAccesses, address: str,
          words: Sequence[str] = ()) -> str:
    form = ".trans" if found.transposed else ""
    return f.convergent(f"llvm.nvvm.{name}.sync.aligned.m8n8.x{found.count}{form}.b16.p"
                        f"{SHARED_SPACE}", result, f"ptr addrspace({SHARED_SPACE}) {address}",
                        *(f"i32 {word}" for word in words))


def shared_load(f: FunctionEmitter, op: Op) -> None:
    if "ldmatrix" not in op.attributes:
        shared.shared_load(f, op)
        return
    f.target.require("ldmatrix", op.span)
    found, tile = _found(f, op.operands[0], op.result)
    result = "i32" if found.count == 1 else f"{{ {', '.join(['i32'] * found.count)} }}"
    each = WORD_BYTES // tile.element.bytes
    copies = _subsets(f.layout(op.result).replicated_registers)

    def piece(one: SharedAccess) -> dict[int, str]:
        names = {}
        loaded = _call(f, "ldmatrix", result, found, tile.at(one))
        for i in range(found.count):
            word = loaded if found.count == 1 else f.op(f"extractvalue {result} {loaded}, {i}")
            registers = one.registers[i * each : (i + 1) * each]
            for r, element in zip(registers, _elements(f, tile.element, word), strict=True):
                names.update({r | copy: element for copy in copies})
        return names

    shared.set_pieces(f, op, found.moves, piece)


def _subsets(mask: int) -> list[int]:
    """All numbers whose bits are in the mask."""
    found, one = [0], mask
    while one:
        found.append(one)
        one = one - 1 & mask
    return found


def _elements(f: FunctionEmitter, e: Scalar, word: str) -> list[str]:
    count = WORD_BYTES // e.bytes
    if count == 1:
        return [from_bits(f, e, word)]
    vector = f"<{count} x i{e.bits}>"
    cut = f.op(f"bitcast i32 {word} to {vector}")
    names = [from_bits(f, e, f.op(f"extractelement {vector} {cut}, i32 {i}")) for i in range(count)]
    note(f, word, names)
    return names


def shared_store(f: FunctionEmitter, op: Op) -> None:
    if "stmatrix" not in op.attributes:
        shared.shared_store(f, op)
        return
    f.target.require("stmatrix", op.span)
    buffer, value = op.operands
    found, tile = _found(f, buffer, value)
    e, names, fetch = tile.element, f.values[value], f.fetch.get(value)
    each = WORD_BYTES // e.bytes
    for one in found.accesses:
        if fetch is not None:
            fetch(sum(1 << r for r in one.registers))
        words = [to_words(f, e, [names[r] for r in one.registers[i : i + each]])[0]
                 for i in range(0, len(one.registers), each)]
        _call(f, "stmatrix", "void", found, tile.at(one), words)


EMITTERS: dict[str, Emitter] = {"shared_load": shared_load, "shared_store": shared_store}
