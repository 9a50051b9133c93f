"""Small programs for the tests of semantic analysis: lowered, verified, interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.frontend.parser import parse
from tritonc.frontend.preprocess import PreprocessOptions, preprocess
from tritonc.frontend.syntax import Program
from tritonc.interp.interpreter import Memory, run
from tritonc.ir.core import Kernel, Module
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.syntax.text import print_module
from tritonc.ir.verify import verify
from tritonc.options import Options
from tritonc.sema import analyze
from tritonc.source import CompileError, Diagnostic, Diagnostics, SourceFile
from tritonc.stages import new_diagnostics

Array = npt.NDArray[Any]


def program_of(source: str, diagnostics: Diagnostics) -> Program:
    """The syntax tree of a source."""
    done = preprocess(SourceFile("t.tc", source), PreprocessOptions(), diagnostics)
    diagnostics.raise_if_errors()
    return parse(done.tokens, diagnostics)


def lower(source: str, diagnostics: Diagnostics | None = None, **bindings: int) -> Module:
    """The verified Triton-IR of a source."""
    diagnostics = diagnostics or Diagnostics()
    module = analyze(program_of(source, diagnostics), bindings, diagnostics)
    verify(module)
    text = print_module(module)
    again = parse_module(SourceFile("t.tir", text), Diagnostics())
    assert print_module(again) == text
    return module


def kernel_of(source: str, **bindings: int) -> Kernel:
    """The first kernel of a source."""
    return lower(source, **bindings).kernels[0]


def text_of(source: str, **bindings: int) -> str:
    return print_module(lower(source, **bindings))


def execute(source: str, *arguments: Any, grid: tuple[int, ...] = (1,), name: str = "",
            output: list[str] | None = None, **bindings: int) -> list[Any]:
    """The arguments after the first kernel (or `name`) of a source ran: arrays are buffers.

    A buffer may be read, but holds nothing defined, 4 KiB before and behind its elements.
    """
    module = lower(source, **bindings)
    memory = Memory()
    addresses = [memory.allocate(a, f"argument{i}", 4096) if isinstance(a, np.ndarray) else a
                 for i, a in enumerate(arguments)]
    run(module, name or module.kernels[0].name, addresses, memory, grid,
        output=output.append if output is not None else print)
    return [memory.read(at) if isinstance(a, np.ndarray) else a
            for a, at in zip(arguments, addresses, strict=True)]


def diagnose(source: str, **bindings: int) -> list[Diagnostic]:
    """Everything that is reported about a source."""
    diagnostics = new_diagnostics(Options(error_limit=0))
    try:
        lower(source, diagnostics, **bindings)
    except CompileError as error:
        return list(error.diagnostics)
    return diagnostics.items


def computed(expression: str, type: str, *operands: tuple[str, Array], shape: str = "",
             before: str = "") -> Array:
    """`expression` over the operands `(declaration, values)`, stored as elements of `type`.

    A declaration is such as "int x[4]"; the operand is a tile loaded with the values.  The result
    is a tile of shape `shape` ("4", "2, 8"; empty for a scalar).
    """
    parameters, body = [], []
    for at, (declaration, _) in enumerate(operands):
        head, _, extents = declaration.rstrip("]").partition("[")
        element, _, name = head.rpartition(" ")
        parameters.append(f"{element}* p{at}")
        if not extents:
            body.append(f"{element} {name} = *p{at};")
            continue
        body.append(f"{element} {name}[{extents}] = *(p{at} + {index_of(extents)});")
    target = f"*(out + {index_of(shape)})" if shape else "*out"
    source = (f"kernel void k({type}* out, {', '.join(parameters) or 'int unused'}) {{\n"
              f"{' '.join(body)}\n{before}\n{target} = {expression};\n}}")
    extents = tuple(int(n) for n in shape.split(",")) if shape else ()
    result = np.zeros(extents, DTYPES[type])
    arguments = [values for _, values in operands] or [0]
    return np.asarray(execute(source, result, *arguments)[0])


def index_of(extents: str) -> str:
    """The expression of row-major offsets of a tile."""
    numbers = [n.strip() for n in extents.split(",")]
    terms = []
    for axis, n in enumerate(numbers):
        stride = "*".join(numbers[axis + 1:]) or "1"
        entries = ", ".join(":" if d == axis else "newaxis" for d in range(len(numbers)))
        terms.append(f"(0 ... {n})[{entries}] * ({stride})")
    return "(" + " + ".join(terms) + ")"


DTYPES: dict[str, type[Any]] = {
    "bool": np.bool_, "char": np.int8, "short": np.int16, "int": np.int32, "long": np.int64,
    "unsigned char": np.uint8, "unsigned short": np.uint16, "unsigned int": np.uint32,
    "unsigned long": np.uint64, "half": np.float16, "float": np.float32, "double": np.float64,
    "bfloat16": np.uint16, "tf32": np.float32, "uint8": np.uint8, "uint32": np.uint32,
    "uint64": np.uint64, "int8": np.int8,
}


X = np.array([3, -1, 4, -1, 5, -9, 2, 6], np.int32)
ZERO = np.zeros(8, np.int32)


def same(found: Any, want: Any) -> None:
    np.testing.assert_array_equal(found, want)


def body(text: str, *arguments: Any, parameters: str = "int* p, int* q, int n",
         **bindings: int) -> list[Any]:
    """Run a kernel body in which `r` is 0 ... 8, `x` is *(p + r), and `y` is a tile of zeros."""
    source = f"""kernel void k({parameters}) {{
      int r[8] = 0 ... 8; int x[8] = *(p + r); int y[8] = 0;
      {text}
      *(q + r) = y;
    }}"""
    return execute(source, *(arguments or (X, ZERO, 3)), **bindings)
