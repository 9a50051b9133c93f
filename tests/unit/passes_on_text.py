"""Passes on kernels that are written as text."""

from __future__ import annotations

from typing import Any

from rewriting import CONTEXT, body_text, check_same_meaning, parse

from tritonc.ir.syntax.text import print_kernel
from tritonc.ir.verify import verify


def after(function: Any, text: str, run: bool = True) -> str:
    """The body of the kernel after the pass, which must keep the meaning and be done at once."""
    kernel = parse(text)
    if run:
        check_same_meaning(kernel, lambda k: function(k, CONTEXT), seeds=6)
    else:
        verify(kernel)
        function(kernel, CONTEXT)
        verify(kernel)
    found = print_kernel(kernel)
    assert not function(kernel, CONTEXT)
    assert print_kernel(kernel) == found
    return body_text(kernel)


def kernel(body: str, parameters: str = "i32 %x, i32 %y, i1 %c, i32* %out0") -> str:
    return f"kernel @k({parameters}) {{\n{body.strip()}\n}}\n"


def names(text: str, block: str) -> list[str]:
    """The operations of a block of a printed kernel."""
    found, inside = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line.rstrip() == f"{block}:"
        elif inside:
            words = line.split("=", 1)[1].split() if "=" in line.split("{")[0] else line.split()
            found.append(words[0])
    return found
