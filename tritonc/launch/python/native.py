"""The choice among variants in machine code, for launches from Python.

`tritonc.variants.choice` is the definition.  Here it is run once, on words in place of integers:
each operation of a `Word` writes an instruction of LLVM IR.  What comes out is compiled to a
function that Python calls as one of its own (method flag METH_FASTCALL of Python's C API)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tritonc.variants import words

_FASTCALL = 0x80
_HEAD = """
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @PyIndex_Check(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
"""


_INSTRUCTIONS = {
    "+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "<<": "shl", ">>": "lshr",
    "/": "sdiv", "%": "srem", "<": "icmp slt", "<=": "icmp sle", ">": "icmp sgt",
    ">=": "icmp sge", "==": "icmp eq"}  # fmt: skip


class Word(words.Word):
    """A word that an instruction in `lines` computes."""

    def __init__(self, lines: list[str], instruction: str, type: str = "i64") -> None:
        self.lines, self.type, self.text = lines, type, f"%w{len(lines)}"
        lines.append(f"  {self.text} = {instruction}")

    def made(self, name: str, *operands: Any) -> Any:
        if name == "bits":
            return 64 - Word(self.lines, f"call i64 @llvm.ctlz.i64(i64 {self.text}, i1 true)")
        if name == "?":
            test, yes, no = map(_text, operands)
            return Word(self.lines, f"select i1 {test}, i64 {yes}, i64 {no}")
        instruction = _INSTRUCTIONS[name]
        return Word(self.lines, f"{instruction} {self.type} {', '.join(map(_text, operands))}",
                    "i1" if instruction.startswith("icmp") else self.type)


def _text(value: Any) -> str:
    return value.text if isinstance(value, Word) else str(int(value))


def function(axes: int, integers: Sequence[int], more: int,
             choose: Callable[[list[Word], dict[int, Word], list[Word]], Any]
             ) -> Callable[..., int]:
    """A function `(range, arguments, addresses...)` in machine code.

    `range` is a tuple of at least `axes` integers, or an integer for the first; `arguments` is a
    tuple, of which those at `integers` are integers; there are `more` addresses.  `choose` gets
    the extents, the integers by their places and the addresses, and returns the number.  The
    function raises what Python's C API raises for other objects."""
    import llvmlite.binding as llvm  # which takes 50 ms

    lines: list[str] = []

    def item(tuple: str, place: int) -> str:
        return Word(lines, f"call ptr @PyTuple_GetItem(ptr {tuple}, i64 {place})").text

    def integer(object: str) -> Word:
        word = Word(lines, f"call i64 @PyLong_AsLongLong(ptr {object})")
        right = Word(lines, f"icmp eq ptr {Word(lines, 'call ptr @PyErr_Occurred()').text}, null")
        label = f"next{len(lines)}"
        lines.extend([f"  br i1 {right.text}, label %{label}, label %wrong", f"{label}:"])
        return word

    def given(place: int) -> str:
        address = Word(lines, f"getelementptr ptr, ptr %arguments, i64 {place}")
        return Word(lines, f"load ptr, ptr {address.text}").text

    of_range = given(0)
    if axes == 1:
        single = Word(lines, f"call i32 @PyIndex_Check(ptr {of_range})").text
        single = Word(lines, f"icmp ne i32 {single}, 0").text
        lines.extend([f"  br i1 {single}, label %extent, label %tuple", "tuple:"])
        first = item(of_range, 0)
        lines.extend(["  br label %extent", "extent:"])
        first = Word(lines, f"phi ptr [{of_range}, %begin], [{first}, %tuple]").text
        extents = [integer(first)]
    else:
        extents = [integer(item(of_range, axis)) for axis in range(axes)]
    of_launch = given(1)
    known = {place: integer(item(of_launch, place)) for place in integers}
    found = choose(extents, known, [integer(given(2 + place)) for place in range(more)])
    text = "\n".join([
        _HEAD, "define ptr @choose(ptr %self, ptr %arguments, i64 %count) {", "begin:", *lines,
        f"  %number = call ptr @PyLong_FromLongLong(i64 {_text(found)})", "  ret ptr %number",
        "wrong:", "  ret ptr null", "}"])
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return _callable(llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine))


class _Method(ctypes.Structure):
    """Python's PyMethodDef, and the machine code that it names."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("text", ctypes.c_char_p))
    engine: Any


def _callable(engine: Any) -> Callable[..., int]:
    """What Python calls; it keeps the machine code, as the object that its method is of."""
    engine.finalize_object()
    method = _Method(b"choose", engine.get_function_address("choose"), _FASTCALL, None)
    method.engine = engine
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi))
    found: Callable[..., int] = make(ctypes.addressof(method), method, None)
    return found
