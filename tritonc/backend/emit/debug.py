"""printf, assert and assume.

`printf` and `assert` cost nothing unless `--device-assert`.  Scalars print once per program, tiles
once per element: each owner prints a line for each of its registers."""

from functools import partial

from tritonc.backend.emit.elements.casts import convert_float
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import llvm_type
from tritonc.backend.emit.registers import owned, scalar_layout
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import log2
from tritonc.ir.types import F64, Element, Pointer, Tile, element
from tritonc.options import mapped_path


def assume(f: FunctionEmitter, op: Op) -> None:
    """LLVM learns it, where it speaks of a scalar."""
    condition = op.operands[0]
    if not isinstance(condition.type, Tile) and op.guard is None:
        f.call("llvm.assume", "void", f"i1 {f.scalar(condition)}")


def assertion(f: FunctionEmitter, op: Op) -> None:
    if not f.options.device_assert:
        return
    condition = op.operands[0]
    span = op.span
    file, line = (span.file.name, span.line) if span is not None else ("", 0)
    file = mapped_path(file, f.options.file_prefix_map)
    strings = [f.module.string(text) for text in (op.attributes["message"], file, f.kernel.name)]

    def stop() -> None:
        message, name, function = (
            f.op(f"addrspacecast ptr addrspace(1) {s} to ptr") for s in strings)
        f.call("__assertfail", "void", f"ptr {message}", f"ptr {name}", f"i32 {line}",
               f"ptr {function}", "i64 1")

    for r in owned(f.layout(condition)):
        failed = f.op(f"xor i1 {f.values[condition][r]}, true")
        f.under(f.both(failed, f.guard(op, r)), "assert", stop)


def printf(f: FunctionEmitter, op: Op) -> None:
    if not f.options.device_assert:
        return
    text = f.module.string(op.attributes["format"])
    tiles = [v for v in op.inputs() if isinstance(v.type, Tile)]
    layout = f.layout(tiles[0]) if tiles else scalar_layout(log2(f.warps))
    if any(f.layout(v) != layout for v in tiles):
        raise AssertionError("the tiles of a printf have one layout")
    for r in owned(layout):
        names = [f.values[v][r if v in tiles else 0] for v in op.operands]
        guard = f.guard(op, r if op.guard in tiles else 0)
        f.under(f.both(f.owner(layout), guard), "printf", partial(_print, f, op, text, names))


def _print(f: FunctionEmitter, op: Op, text: str, names: list[str]) -> None:
    """vprintf reads the arguments, promoted as C does, from a struct in memory."""
    values = [_promoted(f, element(v.type), name)
              for v, name in zip(op.operands, names, strict=True)]
    struct = f"{{ {', '.join(t for t, _ in values)} }}"
    arguments = "null"
    if values:
        arguments = f.local(struct)
        for i, (t, name) in enumerate(values):
            at = f.op(f"getelementptr {struct}, ptr {arguments}, i32 0, i32 {i}")
            f.line(f"store {t} {name}, ptr {at}")
    string = f.op(f"addrspacecast ptr addrspace(1) {text} to ptr")
    f.call("vprintf", "i32", f"ptr {string}", f"ptr {arguments}")


def _promoted(f: FunctionEmitter, e: Element, name: str) -> tuple[str, str]:
    """The type and operand of a C argument: double, i32 (booleans too), i64."""
    if isinstance(e, Pointer):
        return "i64", f.op(f"ptrtoint {llvm_type(e)} {name} to i64")
    if e.is_float:
        return "double", convert_float(f, e, F64, name)
    if e.bits >= 32:
        return llvm_type(e), name
    return "i32", f.op(f"{'zext' if e.bits == 1 else 'sext'} {llvm_type(e)} {name} to i32")


EMITTERS: dict[str, Emitter] = {"assume": assume, "assert": assertion, "printf": printf}
