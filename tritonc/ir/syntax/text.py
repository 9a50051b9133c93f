"""The text form of Triton-IR: what `--emit ir` prints and a `.tir` file holds.

    // a comment
    #l0 = #layout<...>                         a layout's short name, defined before it is used
    constant @delta : i32[512] = [1, 2, ...]   or with no data, where the host fills the table
    kernel @relu(f32* %x {ctype = "float *", multiple_of = 16}, i32 %n) {tile = [128]} {
    entry:
      %r = get_global_range {axis = 0, extent = 128} : i32<128>
      %in, %out = cmpp %c : i1<128>
      @%in %v = load %px : f32<128>
      %a = psi [%in, %v], [%out, %zero] : f32<128>
      cond_br %c, body, exit
    body:
      %i = phi [%z, entry], [%j, body] : i32
      @%in store %py, %a
      ret
    }

An operation takes one line: guard, results, name, operands, attributes, result types.  Results
always state their types; one type stands for several results of that type.  An attribute is a
number, a string (bare where it is a word), a list, a table `{key = value}`, a type or a layout's
name; a key alone is true: `{volatile}`.  Printing what was parsed gives the same text.

Printing is here; the parser is `ir.syntax.parse`."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tritonc.ir.core import FLAGS, Block, ConstantTable, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.layouts.layout import Layout, SharedLayout
from tritonc.ir.types import SCALARS, Buffer, Pointer, Scalar, Tile, Type

_WORD = r"(?a)[A-Za-z_][\w.$]*"
_RESERVED = frozenset({"true", "false", "none", "inf", "nan", "buffer", *SCALARS})
AnyLayout = Layout | SharedLayout



def print_module(module: Module) -> str:
    printer = _Printer()
    parts = [printer.constant(c) for c in module.constants]
    parts += [printer.kernel(k) for k in module.kernels]
    return printer.aliases_text() + "\n".join(parts)


def print_kernel(kernel: Kernel) -> str:
    """The text of one kernel, with the layouts that it names."""
    printer = _Printer()
    text = printer.kernel(kernel)
    return printer.aliases_text() + text


def print_op(op: Op) -> str:
    """One operation, for messages: values by their own names, which may not be unique."""
    values = [*op.inputs(), *op.results]
    return _Printer().op(op, {v: f"%{v.name or '?'}" for v in values},
                         {b: b.name for b in op.blocks})


class _Printer:
    """Text of the parts of a module.  Collects the layouts that need an alias on the way."""

    def __init__(self) -> None:
        self.aliases: dict[AnyLayout, str] = {}

    def aliases_text(self) -> str:
        return "".join(f"{name} = {layout}\n" for layout, name in self.aliases.items())

    def alias(self, layout: AnyLayout) -> str:
        if layout not in self.aliases:
            letter = "s" if isinstance(layout, SharedLayout) else "l"
            count = sum(name[1] == letter for name in self.aliases.values())
            self.aliases[layout] = f"#{letter}{count}"
        return self.aliases[layout]

    def type(self, t: Type) -> str:
        if not isinstance(t, Tile | Buffer):
            return str(t)
        layout = f"; {self.alias(t.layout)}" if t.layout is not None else ""
        tile = f"{t.element}<{', '.join(map(str, t.shape))}"
        if isinstance(t, Tile):
            return f"{tile}{layout}>"
        return f"buffer<{t.stages} x {tile}>{layout}>"

    def attribute(self, value: Any) -> str:
        """An attribute's value.  What has no text of its own prints as its quoted description."""
        if value is None or isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return int.__repr__(value)
        if isinstance(value, float):
            return float.__repr__(value)
        if isinstance(value, str):
            bare = re.fullmatch(_WORD, value) and value not in _RESERVED
            return value if bare else json.dumps(value)
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.attribute, value))}]"
        if isinstance(value, dict):
            return self.attributes(value) or "{}"
        if isinstance(value, Layout | SharedLayout):
            return self.alias(value)
        if isinstance(value, Scalar | Pointer | Tile | Buffer):
            return self.type(value)
        return json.dumps(str(value))

    def attributes(self, table: Mapping[Any, Any]) -> str:
        """`{a = 1, b = word}`, or nothing where the table is empty."""
        items = [f"{k} = {self.attribute(v)}" for k, v in table.items()]
        return f"{{{', '.join(items)}}}" if items else ""

    def constant(self, table: ConstantTable) -> str:
        data = "" if table.data is None else f" = {self.attribute(table.data)}"
        return f"constant @{table.name} : {table.element}[{table.count}]{data}\n"

    def kernel(self, kernel: Kernel) -> str:
        values = _unique([*kernel.parameters, *(r for op in kernel.ops() for r in op.results)],
                         lambda v: v.name, "%", "")
        blocks = _unique(kernel.blocks, lambda b: b.name, "", "block")
        parameters = ", ".join(
            " ".join(filter(None, (self.type(p.type), values[p], _information(info))))
            for p, info in zip(kernel.parameters, kernel.info, strict=True))
        header: dict[str, Any] = {}
        if kernel.tile:
            header["tile"] = _list_if_dense(kernel.tile)
        if kernel.tunables:
            header["tunables"] = kernel.tunables
        attributes = self.attributes(header | kernel.attributes)
        lines = [" ".join(filter(None, (f"kernel @{kernel.name}({parameters})", attributes, "{")))]
        for block in kernel.blocks:
            lines.append(f"{blocks[block]}:")
            for op in block.ops:
                lines.append(f"  {self.op(op, values, blocks)}")
        return "\n".join(lines) + "\n}\n"

    def op(self, op: Op, values: Mapping[Value, str], blocks: Mapping[Block, str]) -> str:
        names = [values.get(v, f"%<{v.name}: not defined here>") for v in op.operands]
        targets = [blocks.get(b, f"<{b.name}: not of this kernel>") for b in op.blocks]
        if op.name == "phi" and len(names) == len(targets):
            operands = ", ".join(f"[{v}, {b}]" for v, b in zip(names, targets))
        elif op.name == "psi" and len(names) % 2 == 0:
            operands = ", ".join(f"[{p}, {v}]" for p, v in zip(names[0::2], names[1::2]))
        else:
            operands = ", ".join(names + targets)
        parts = [op.name, operands, self.attributes(op.attributes)]
        if op.results:
            parts.insert(0, f"{', '.join(values[r] for r in op.results)} =")
            types = [self.type(r.type) for r in op.results]
            parts.append(": " + (types[0] if len(set(types)) == 1 else ", ".join(types)))
        if op.guard is not None:
            parts.insert(0, f"@{values.get(op.guard, '%<not defined here>')}")
        return " ".join(filter(None, parts))


def _information(info: ParameterInfo) -> str:
    items = [f"ctype = {json.dumps(info.ctype)}"] if info.ctype else []
    if info.multiple_of != 1:
        items.append(f"multiple_of = {info.multiple_of}")
    items += [f"{name} = {bound}" for name in ("least", "greatest")
              if (bound := getattr(info, name)) is not None]
    if info.not_null is not None:
        items.append(f"not_null = {[number for fact in info.not_null for number in fact]}")
    items += [flag for flag in FLAGS if getattr(info, flag)]
    return f"{{{', '.join(items)}}}" if items else ""


def _list_if_dense(tile: dict[int, int]) -> list[int] | dict[int, int]:
    if sorted(tile) == list(range(len(tile))):
        return [tile[axis] for axis in range(len(tile))]
    return dict(sorted(tile.items()))


_T = TypeVar("_T")


def _unique(items: list[_T], name: Callable[[_T], str], mark: str, default: str) -> dict[_T, str]:
    """A name for each item: its own where that is free, else its own and a number; no two alike."""
    taken: set[str] = set()
    counters: dict[str, int] = {}
    found: dict[_T, str] = {}
    for item in items:
        base = re.sub(r"[^\w.$]", "_", name(item), flags=re.ASCII) or default
        if mark == "" and not re.fullmatch(_WORD, base):
            base = f"_{base}"
        text = base
        while not text or text in taken:
            count = counters.get(base, 0)
            counters[base] = count + 1
            text = f"{base}.{count + 1}" if base else str(count)
        taken.add(text)
        found[item] = mark + text
    return found
