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
whose names carry a checksum, so that two modules of one name never become one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pkgutil import get_data
from typing import Any

from tritonc.launch.hosts.header_kernel import (
    TYPES,
    KernelFunctions,
    identifier,
    literal,
    takes_memory,
)
from tritonc.manifest import one_line

_LITERAL, _STRING = 8000, 60000  # MSVC has limits for a literal and for several that make a string
# What a line of a header defines: a function, a constant of an `enum`.
_DEFINED = re.compile(r"^static inline \w+ (\w+)\(|^  (\w+) = -?\d+,?$", re.MULTILINE)
def header(manifest: Mapping[str, Any], name: str, *, image: str | bytes | None = None,
           prefix: str = "") -> str:
    """The text of a header for the module of `manifest`.

    `name` is the module's, a file's stem; with `prefix`, that in its place and before the names of
    the kernels.  `image`, PTX or machine code, becomes part of the header; without one, loading it
    is left to the host.
    """
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
    lines = [
        f"/* Kernels of {module} for {manifest['target']}, by {manifest['compiler']}: do not edit.",
        " * They run in the current context; each function returns an error code of the driver. */",
        f"#ifndef {tag}_h", f"#define {tag}_h", "",
        *map(runtime, texts),
        *_definitions(manifest, entries, tag, data),
        f"static const tritonc_module {module}_module = {{",
        f"    {tag}_manifest, {f'{tag}_image' if data else 'NULL'}, {len(entries)}, {tag}_kernels,",
        f"    &{tag}_state, {tag}_functions}};", "",
        *_loading(module, data is not None),
    ]
    for table in manifest["constants"]:
        if not table["initialized"]:
            lines += _fill(module, table)
    taken = _defined(lines)
    names = []
    for kernel in kernels:
        name = _prefix(before + kernel["name"])
        while taken & (own := _defined(KernelFunctions(module, name, 0, kernel).lines())):
            name += "_"  # `f_launch_variant` would be of kernels `f` and `f_launch`
        taken |= own
        names.append(name)
        lines += KernelFunctions(module, name, entries.index(kernel), kernel).lines()
    lines.append("#endif")
    return "\n".join(lines) + "\n", names


def _defined(lines: Iterable[str]) -> set[str]:
    """The names of functions and of constants that a part of a header defines."""
    return {name for line in lines for found in _DEFINED.findall(line) for name in found if name}


def runtime(name: str) -> str:
    text = get_data("tritonc.launch.hosts", name)
    assert text is not None
    return text.decode("utf-8")


def _prefix(name: str) -> str:
    """What the functions of a kernel or module begin with; those of runtime.h have `tritonc_`.

    >>> _prefix("saxpy"), _prefix("tritonc")
    ('saxpy', 'tritonc_')
    """
    plain = identifier(name)
    return f"{plain}_" if re.fullmatch("tritonc_*", plain) else plain


def _definitions(manifest: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], tag: str,
                 image: bytes | None) -> Iterator[str]:
    """What the files of a program share.  `entries` are the kernels, each before its variants."""
    yield "#ifdef __GNUC__\n#pragma GCC diagnostic push"
    yield '#pragma GCC diagnostic ignored "-Woverlength-strings"\n#endif'
    yield '#ifdef __cplusplus\nextern "C" {\n#endif'
    yield f"TRITONC_SHARED extern const char {tag}_manifest[];"
    yield f"TRITONC_DEFINE const char {tag}_manifest[] ="
    text = one_line(manifest)
    yield "\n".join(f"    {literal(text[at : at + _LITERAL])}"
                    for at in range(0, len(text), _LITERAL)) + ";"
    if image is not None:
        yield f"TRITONC_SHARED extern const tritonc_part {tag}_image[];"
        yield f"TRITONC_DEFINE const tritonc_part {tag}_image[] = {{"
        for part in _parts(image):
            yield "    {" + "\n     ".join(map(literal, part)) + f", {sum(map(len, part))}}},"
        yield "    {NULL, 0}};"
    yield f"TRITONC_SHARED extern const tritonc_kernel {tag}_kernels[];"
    yield f"TRITONC_DEFINE const tritonc_kernel {tag}_kernels[] = {{"
    for kernel in entries:
        tile = ", ".join(str(extent) for extent in (*kernel["tile"], 1, 1, 1)[:3])
        yield (f"    {{{literal(kernel['entry'])}, {kernel['threads']}, "
               f"{kernel['dynamic_shared_bytes']}, {{{tile}}}, {kernel.get('cluster', 1)}}},")
    yield "};"
    yield f"TRITONC_SHARED extern tritonc_state {tag}_state;"
    yield f"TRITONC_DEFINE tritonc_state {tag}_state = TRITONC_ZERO;"
    yield f"TRITONC_SHARED extern CUfunction volatile {tag}_functions[];"
    yield f"TRITONC_DEFINE CUfunction volatile {tag}_functions[{len(entries)} * TRITONC_CONTEXTS]"
    yield "    = TRITONC_ZERO;"
    yield "#ifdef __cplusplus\n}\n#endif\n#ifdef __GNUC__\n#pragma GCC diagnostic pop\n#endif\n"


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


def _loading(module: str, embedded: bool) -> Iterator[str]:
    yield ("/* Load the module into the current context, once: a second call does nothing.  `log`, "
           "if it is not\n * NULL, receives the driver's messages about PTX that it rejects. */")
    if embedded:
        yield f"static inline CUresult {module}_load(char *log, size_t log_size) {{"
        yield f"  return tritonc_load_parts(&{module}_module, log, log_size);\n}}"
    yield f"static inline CUresult {module}_load_file(const char *path, char *log,"
    yield f"    size_t log_size) {{\n  return tritonc_load_file(&{module}_module, path, log,"
    yield "                           log_size);\n}"
    yield f"static inline CUresult {module}_load_data(const void *image, char *log,"
    yield f"    size_t log_size) {{\n  return tritonc_load(&{module}_module, image, log, log_size);"
    yield "}"
    yield "/* Take it from the current context again, when nothing of it runs. */"
    yield f"static inline CUresult {module}_unload(void) {{"
    yield f"  return tritonc_unload(&{module}_module);\n}}\n"


def _fill(module: str, table: Mapping[str, Any]) -> Iterator[str]:
    name, count = table["name"], table["count"]
    c_type = TYPES.get(table["type"], table["type"])
    yield (f"/* Fill the table {name} of the current context with {count} values, in the order of "
           "the stream. */")
    yield f"static inline CUresult {module}_fill_{identifier(name)}(const {c_type} *values,"
    yield f"    CUstream stream) {{\n  return tritonc_fill(&{module}_module, {literal(name)},"
    yield f"                      values, {count} * sizeof *values, stream);\n}}\n"
