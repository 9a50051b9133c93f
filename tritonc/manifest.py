"""The manifest: what a host must know to launch the kernels of a module, as JSON.

    {"compiler": "tritonc 0.1.0", "target": "sm_80", "ptx": "7.4", "kernels": [
      {"name": "relu", "entry": "relu", "parameters": [
         {"name": "x", "type": "const float *", "access": "read", "multiple_of": 4}, ...],
       "threads": 128, "shared_bytes": 0, "dynamic_shared_bytes": 0, "tile": [1024],
       "tunables": {"T": 1024}, "assumptions": []}], "constants": [
      {"name": "table", "type": "int", "count": 4, "initialized": false}]}

The grid has ceil(extent / tile) programs along each axis of `tile`; a block has `threads` threads
in x.  With `programs`, of variants alone, a block has so many of a tile's programs, and its shape
says how many the last block lacks (`tritonc.variants.choice.block_shape`).  With `cluster`, which
is there only if it is more than 1, so many blocks compute a program: the grid's third axis has so
many times as many blocks.  `workspace`, of variants alone: the entry
has one pointer more, to memory with so many bytes for each program behind 4096 that are zero.
`shared_bytes` is what the PTX states itself; `dynamic_shared_bytes` is what the launch must ask
for.  An argument must be a multiple of
its parameter's `multiple_of`, if there is one: a number of bytes for a pointer.  `tunables` has the
meta-parameters that were bound too; `tuning`, which is there only if one was used, names the tuning
file.  `small` is there only if the entry has a second body, of small tiles: `tile` is theirs,
launches of at most `most` programs run it, and `tunables` above are those of the large body.  An
assumption is a sentence that the host has to make true; `at_least` and `at_most` of a parameter,
which are there only if something is promised, bound it as a signed number.  A pointer with
`not_null` is not null where all that it lists holds of other arguments: the kernel reads or writes
there.  The host fills the constant tables that are not initialized.

A header for several targets is made of the manifest of the first, with `targets`, all their names.
There an entry that is launched otherwise for some has `targets`, too: by name its threads, cluster
and dynamic shared memory, or null where that target lacks the variant.  `choices` of a kernel has,
for each target but the first, its own `choice`, or null.

A kernel with variants has two members more: "variants", each with what of the above is its own and
with `requires`, what must hold for a launch of it beside what the kernel itself wants: facts of an
`argument`, of the extent along an axis of the `range`, or of the number of `programs`, by the tile
that stands there; and
"choice", by which a launch chooses among the kernel, number 0, and them
(`tritonc.variants.choice`)."""

import json
from collections.abc import Mapping
from math import lcm
from typing import Any

from tritonc import __version__
from tritonc.backend.llvm import uses_dynamic_shared
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, Module, ParameterInfo, Value
from tritonc.ir.types import Pointer, Scalar
from tritonc.variants.variant import WITHIN, VariantSet, required, tile_of

_MARK = "// tritonc: "  # what the first line of a .ptx file begins with
# Each type as the manifest spells it: the scalar of Triton-IR, and an array's dtype.
TYPES: dict[str, tuple[str, str]] = {
    "bool": ("i1", "bool"), "signed char": ("i8", "int8"), "short": ("i16", "int16"),
    "int": ("i32", "int32"), "long long": ("i64", "int64"), "unsigned char": ("i8", "uint8"),
    "unsigned short": ("i16", "uint16"), "unsigned int": ("i32", "uint32"),
    "unsigned long long": ("i64", "uint64"), "half": ("f16", "float16"),
    "bfloat16": ("bf16", "bfloat16"), "float": ("f32", "float32"), "double": ("f64", "float64"),
    "float8_e4m3": ("f8e4m3", "float8_e4m3fn"), "float8_e5m2": ("f8e5m2", "float8_e5m2"),
}  # fmt: skip
_SIGNED = {element: (name, dtype) for name, (element, dtype) in reversed(TYPES.items())}
_C_NAMES = {element: name for element, (name, _) in _SIGNED.items()} | {"tf32": "float"}
DTYPES = {element: dtype for element, (_, dtype) in _SIGNED.items()} | {"tf32": "float32"}


def manifest(module: Module, target: Target, tuning: str | None = None,
             meta: Mapping[str, Mapping[str, int]] | None = None,
             variants: Mapping[str, tuple[VariantSet, Mapping[str, int]]] | None = None,
             ) -> dict[str, Any]:
    """The manifest of a module whose kernels went through the backend.

    `tuning` is the name of the tuning file that was used, if one was; `meta` has the
    meta-parameters that were bound, by kernel; `variants` the variants of a kernel, and which of
    them the module has, by the names of their entries."""
    used = {"tuning": tuning} if tuning is not None else {}
    rows = {kernel.name: _kernel(kernel, target, (meta or {}).get(kernel.name, {}))
            for kernel in module.kernels}
    for name, (known, entries) in (variants or {}).items():
        own = [rows.pop(entry) for entry in entries]
        if own:
            rows[name] |= {"variants": [_variant(rows[name], row) for row in own],
                           "choice": known.rule([*entries.values()])}
    return {
        "compiler": f"tritonc {__version__}",
        "target": target.name,
        "ptx": f"{target.ptx // 10}.{target.ptx % 10}",
        **used,
        "kernels": [*rows.values()],
        "constants": [{"name": table.name, "type": _C_NAMES[table.element.name],
                       "count": table.count, "initialized": table.data is not None}
                      for table in module.constants]}


def one_line(contents: Mapping[str, Any]) -> str:
    """The comment that a .ptx file begins with."""
    return _MARK + json.dumps(contents, separators=(", ", ": "))


def read(ptx: str) -> dict[str, Any]:
    """The manifest of the text of a .ptx file.  Raises ValueError where tritonc did not write it.

    >>> read(one_line({"kernels": []}) + "\\n.version 7.4")
    {'kernels': []}
    """
    line = ptx.partition("\n")[0]
    try:
        if not line.startswith(_MARK):
            raise ValueError
        found = json.loads(line.removeprefix(_MARK))
        if not isinstance(found, dict) or "kernels" not in found:
            raise ValueError
    except ValueError:
        raise ValueError(f"its first line is not a manifest ('{_MARK}{{...}}')") from None
    return found


def as_file(contents: Mapping[str, Any]) -> str:
    """The content of a .json file."""
    return json.dumps(contents, indent=2) + "\n"


def _kernel(kernel: Kernel, target: Target, meta: Mapping[str, int]) -> dict[str, Any]:
    shared = int(kernel.attributes.get("shared_bytes", 0))
    dynamic = uses_dynamic_shared(kernel, target)
    parameters = [_parameter(value, info)
                  for value, info in zip(kernel.parameters, kernel.info, strict=True)]
    blocks = int(kernel.attributes.get("cluster", 1))
    small = kernel.attributes.get("small", {})
    return {
        "name": kernel.name,
        "entry": kernel.name,
        "parameters": parameters,
        "threads": kernel.threads,
        **({"cluster": blocks} if blocks > 1 else {}),
        **{name: kernel.attributes[name] for name in (
            "programs", "tiles", "few", *WITHIN) if name in kernel.attributes},
        **({"workspace": kernel.attributes["workspace"] * blocks}
           if "workspace" in kernel.attributes else {}),
        "shared_bytes": 0 if dynamic else shared,
        "dynamic_shared_bytes": shared if dynamic else 0,
        "tile": tile_of(kernel),
        "tunables": {**kernel.tunables, **meta},
        **({"small": {"most": small["most"], "tunables": {
            name: value for name, value in small.items() if name != "most"}}} if small else {}),
        "assumptions": [text for value, info in zip(kernel.parameters, kernel.info, strict=True)
                        for text in _assumptions(value, info)]}


def _variant(general: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a variant has of its own, and what it requires."""
    kept = ("entry", "threads", "shared_bytes", "dynamic_shared_bytes", "tile", "tunables")
    cluster = {"cluster": own.get("cluster", 1)} if "cluster" in {**general, **own} else {}
    more = {key: own[key] for key in ("programs", "workspace") if key in own}
    return {**{key: own[key] for key in kept}, **cluster, **more,
            "requires": required(general, own)}


def _parameter(value: Value, info: ParameterInfo) -> dict[str, Any]:
    read_only = info.read_only or info.ctype.startswith("const ")
    access = "read" if read_only else "write" if info.write_only else "read write"
    found: dict[str, Any] = {"name": value.name, "type": info.ctype or _c_type(value)}
    multiple = info.multiple_of
    if isinstance(value.type, Pointer):
        found["access"] = access
        multiple = lcm(multiple, value.type.element.bytes)
    if multiple > 1:
        found["multiple_of"] = multiple
    if info.least is not None:
        found["at_least"] = info.least
    if info.greatest is not None:
        found["at_most"] = info.greatest
    if info.not_null is not None:
        found["not_null"] = [{"argument": other, "at_least": least}
                             for other, least in info.not_null]
    return found


def _c_type(value: Value) -> str:
    """As a C host writes the type, for IR that says nothing."""
    t = value.type
    if isinstance(t, Pointer):
        return f"{_C_NAMES[t.element.name]} *"
    assert isinstance(t, Scalar), f"a parameter of type {t}"
    return _C_NAMES[t.name]


def _assumptions(value: Value, info: ParameterInfo) -> list[str]:
    """What the source promises of a parameter beyond what its type implies."""
    found = []
    if isinstance(value.type, Pointer):
        if info.multiple_of > value.type.element.bytes:
            found.append(f"{value.name} is aligned to {info.multiple_of} bytes")
        if info.no_alias:
            found.append(f"{value.name} overlaps no other argument")
    elif info.multiple_of > 1:
        found.append(f"{value.name} is a multiple of {info.multiple_of}")
    if info.least is not None:
        found.append(f"{value.name} is at least {info.least}")
    if info.greatest is not None:
        found.append(f"{value.name} is at most {info.greatest}")
    return found
