"""A header for hosts in C99 and C++11: typed launches of a module's kernels by the driver API.

What every header has in common are the files platform.h and runtime.h beside this one; the rest is
made here of the manifest.  For a module `name` and each of its kernels `kernel`:

    name_load(log, size)                     load what the header holds (--embed)
    name_load_file(path, log, size)          or a file, PTX, cubin or fatbin
    name_load_data(image, log, size)         or an image in memory
    name_unload()
    name_fill_table(values, stream)          for each constant table that the host fills
    kernel_launch(range0, ..., stream, arguments...)
    kernel_check(range0, ..., arguments..., reason)
    kernel_variant(range0, ..., arguments...)        where there are variants, see header_choice.py
    kernel_launch_variant(number, range0, ..., stream, arguments...)
    kernel_threads, kernel_tile0, ...        constants of the manifest

docs/embedding.md describes them.  Definitions that the files of a program share are weak symbols
whose names carry a checksum, so that two modules of one name never become one."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tritonc.launch.hosts.header_choice import lines_of
from tritonc.launch.hosts.header_kernel import (
    TYPES,
    KernelFunctions,
    filled,
    identifier,
    literal,
    runtime,
    takes_memory,
)
from tritonc.manifest import one_line
from tritonc.ptxas import version

_LITERAL, _STRING = 8000, 60000  # MSVC has limits for a literal and for several that make a string
# What a line of a header defines: a function, a constant of an `enum`.
_DEFINED = re.compile(r"^static inline \w+ (\w+)\(|^  (\w+) = -?\d+,?$", re.MULTILINE)
def header(manifest: Mapping[str, Any], name: str, *, image: str | bytes | None = None,
           prefix: str = "") -> str:
    """The text of a header for the module of `manifest`.

    `name` is the module's, a file's stem; with `prefix`, that in its place and before the names of
    the kernels.  `image`, PTX or machine code, becomes part of the header; without one, loading it
    is left to the host."""
    return with_names(manifest, name, image=image, prefix=prefix)[0]


def with_names(manifest: Mapping[str, Any], name: str, *, image: str | bytes | None = None,
               prefix: str = "") -> tuple[str, list[str]]:
    """The header, and for each kernel what the names of its functions begin with."""
    module = _prefix(prefix or name)
    before = f"{identifier(prefix)}_" if prefix else ""
    data = image.encode() if isinstance(image, str) else image
    content = (data or b"") + f"{one_line(manifest)} {module}".encode()
    tag = f"tritonc_{module}_{hashlib.sha256(content).hexdigest()[:12]}"
    kernels = manifest["kernels"]
    texts = ["platform.h", "runtime.h"]
    texts += ["runtime_choice.h"] * any("variants" in k for k in kernels)
    texts += ["runtime_workspace.h"] * any(map(takes_memory, kernels))
    entries = [row for kernel in kernels for row in (kernel, *kernel.get("variants", ()))]
    targets = differing(manifest)
    lines = [
        f"/* Kernels of {module} for {', '.join(targets)}, by {manifest['compiler']}: do not edit.",
        " * They run in the current context; each function returns an error code of the driver. */",
        f"#ifndef {tag}_h", f"#define {tag}_h", "",
        *map(runtime, texts),
        _definitions(manifest, entries, targets, tag, data),
        f"static const tritonc_module {module}_module = {{",
        f"    {tag}_manifest, {f'{tag}_image' if data else 'NULL'}, {len(entries)}, {tag}_kernels,",
        f"    &{tag}_state, {tag}_functions, {len(targets)},",
        f"    {f'{tag}_versions' if targets[1:] else 'NULL'}}};", "",
        filled("module.h", module=module,
               embedded="" if data is None else filled("module_embedded.h", module=module) + "\n")]
    lines += [filled("module_fill.h", module=module, name=table["name"], count=table["count"],
                     own=identifier(table["name"]), text=literal(table["name"]),
                     type=TYPES.get(table["type"], table["type"]))
              for table in manifest["constants"] if not table["initialized"]]
    taken = _defined(lines)
    names = []
    for kernel in kernels:
        name = _prefix(before + kernel["name"])
        while taken & (own := _defined(lines_of(KernelFunctions(module, name, 0, kernel)))):
            name += "_"  # `f_launch_variant` would be of kernels `f` and `f_launch`
        taken |= own
        names.append(name)
        lines += lines_of(KernelFunctions(module, name, entries.index(kernel), kernel))
    lines.append("#endif")
    return "\n".join(lines) + "\n", names


def _defined(lines: Iterable[str]) -> set[str]:
    """The names of functions and of constants that a part of a header defines."""
    return {name for line in lines for found in _DEFINED.findall(line) for name in found if name}


def _prefix(name: str) -> str:
    """What the functions of a kernel or module begin with; those of runtime.h have `tritonc_`.

    >>> _prefix("saxpy"), _prefix("tritonc")
    ('saxpy', 'tritonc_')
    """
    plain = identifier(name)
    return f"{plain}_" if re.fullmatch("tritonc_*", plain) else plain


def differing(manifest: Mapping[str, Any]) -> list[str]:
    """The targets of a module, the first alone if all of them are launched alike."""
    rows = [row for kernel in manifest["kernels"] for row in (kernel, *kernel.get("variants", ()))]
    targets = manifest.get("targets", [manifest["target"]])
    return [*targets] if any("targets" in row or "choices" in row for row in rows) else targets[:1]


def _definitions(manifest: Mapping[str, Any], entries: Sequence[Mapping[str, Any]],
                 targets: Sequence[str], tag: str, image: bytes | None) -> str:
    """What the files of a program share.  `entries` are the kernels, each before its variants."""
    text, kernels = one_line(manifest), []
    for target, entry in product(targets, entries):
        own = entry.get("targets", {}).get(target, {})
        kernel = {**entry, **({"cluster": 1} if own else {}),
                  **({"threads": 0, "dynamic_shared_bytes": 0} if own is None else own)}
        tile = ", ".join(str(extent) for extent in (*kernel["tile"], 1, 1, 1)[:3])
        kernels.append(f"    {{{literal(kernel['entry'])}, {kernel['threads']}, "
                       f"{kernel['dynamic_shared_bytes']}, {{{tile}}}, "
                       f"{kernel.get('cluster', 1)}, {kernel.get('programs', 1)}}},")
    parts = ["    {" + "\n     ".join(map(literal, part)) + f", {sum(map(len, part))}}},"
             for part in (() if image is None else _parts(image))]
    versions = filled("module_versions.h", tag=tag, numbers=", ".join(
        str(version(target)) for target in targets)) + "\n" if targets[1:] else ""
    return filled("module_shared.h", tag=tag, count=len(entries), kernels="\n".join(kernels),
                  versions=versions,
                  manifest="\n".join(f"    {literal(text[at : at + _LITERAL])}"
                                     for at in range(0, len(text), _LITERAL)),
                  image=filled("module_image.h", tag=tag, parts="\n".join(parts)) + "\n"
                  if parts else "")


def _parts(image: bytes) -> Iterator[list[bytes]]:
    """PTX by its lines, machine code in rows, in parts that any compiler takes as a string."""
    rows = image.splitlines(keepends=True) if b"\0" not in image else [
        image[at : at + 24] for at in range(0, len(image), 24)]
    part: list[bytes] = []
    size = 0
    for piece in (row[at : at + _LITERAL] for row in rows for at in range(0, len(row), _LITERAL)):
        if size + len(piece) > _STRING:
            yield part
            part, size = [], 0
        part.append(piece)
        size += len(piece)
    yield part
