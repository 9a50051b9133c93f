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
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pkgutil import get_data
from typing import Any

from tritonc.launch.hosts.header_choice import choosing, takes_memory
from tritonc.manifest import one_line

_TYPES = {
    "half": "TRITONC_HALF", "bfloat16": "TRITONC_BFLOAT16",
    "float8_e4m3": "TRITONC_FLOAT8_E4M3", "float8_e5m2": "TRITONC_FLOAT8_E5M2",
}  # fmt: skip
# What parameters may not be called: keywords, names that the functions use, usual macros.
_RESERVED = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int int64_t long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename typeof uintptr_t union
    unsigned using virtual void volatile wchar_t while xor xor_eq concept requires co_await
    co_return co_yield constinit consteval char8_t char16_t char32_t
    arguments grid range range0 range1 range2 reason stream code
    int8_t int16_t int32_t uint8_t uint16_t uint32_t uint64_t size_t
    NULL EOF errno stdin stdout stderr linux unix
    BUFSIZ BYTE_ORDER FILENAME NFDBITS alloca offsetof sched_priority
""".split())
# And, of kernels with variants, what the functions that choose use.
_LOCAL = frozenset("variant variants allowed length least time best number points size".split())
_LITERAL, _STRING = 8000, 60000  # MSVC has limits for a literal and for several that make a string
# What a line of a header defines: a function, a constant of an `enum`.
_DEFINED = re.compile(r"^static inline \w+ (\w+)\(|^  (\w+) = -?\d+,?$", re.MULTILINE)
# Of cuda.h, whose functions are macros for their newest versions, of runtime.h, of C's own headers.
_RESERVED_PATTERN = re.compile(
    r"CU|cu[A-Z]|TRITONC|tritonc_|_|RESOURCE_ABI_|RTLD_|SCHED_|SEEK_|EXIT_|FD_|SIG_"
    r"|U?INT(\d|MAX|PTR|_)|(SIZE|PTRDIFF|WCHAR|WINT|RAND|TMP|FOPEN|FILENAME|MB_CUR)_(MAX|MIN)"
    r"|[LP]_tmp|L_ctermid|W(IF|EXIT|STOP|TERM|CONT|NO|UN)[A-Z]+$|(BIG|LITTLE|PDP)_ENDIAN"
    r"|(be|le)\d\dtoh|hto[bl]e\d\d")


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
        while taken & (own := _defined(_kernel(module, name, 0, kernel))):
            name += "_"  # `f_launch_variant` would be of kernels `f` and `f_launch`
        taken |= own
        names.append(name)
        lines += _kernel(module, name, entries.index(kernel), kernel)
    lines.append("#endif")
    return "\n".join(lines) + "\n", names


def _defined(lines: Iterable[str]) -> set[str]:
    """The names of functions and of constants that a part of a header defines."""
    return {name for line in lines for found in _DEFINED.findall(line) for name in found if name}


def runtime(name: str) -> str:
    text = get_data("tritonc.launch.hosts", name)
    assert text is not None
    return text.decode("utf-8")


def identifier(name: str) -> str:
    """A name as C allows it.

    >>> identifier("my-kernel.v2"), identifier("2d")
    ('my_kernel_v2', '_2d')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{plain}" if plain[0].isdigit() else plain


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
    yield "\n".join(f"    {_literal(text[at : at + _LITERAL])}"
                    for at in range(0, len(text), _LITERAL)) + ";"
    if image is not None:
        yield f"TRITONC_SHARED extern const tritonc_part {tag}_image[];"
        yield f"TRITONC_DEFINE const tritonc_part {tag}_image[] = {{"
        for part in _parts(image):
            yield "    {" + "\n     ".join(map(_literal, part)) + f", {sum(map(len, part))}}},"
        yield "    {NULL, 0}};"
    yield f"TRITONC_SHARED extern const tritonc_kernel {tag}_kernels[];"
    yield f"TRITONC_DEFINE const tritonc_kernel {tag}_kernels[] = {{"
    for kernel in entries:
        tile = ", ".join(str(extent) for extent in (*kernel["tile"], 1, 1, 1)[:3])
        yield (f"    {{{_literal(kernel['entry'])}, {kernel['threads']}, "
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


def _literal(text: str | bytes) -> str:
    r"""A C string, without trigraphs, of plain ASCII.

    >>> print(_literal('a\t"b"??='), _literal("é1"))
    "a\t\"b\"\?\?=" "\303\2511"
    """
    plain = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "?": r"\?"}
    return '"' + "".join(
        plain.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in (text.encode() if isinstance(text, str) else text)) + '"'


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
    c_type = _TYPES.get(table["type"], table["type"])
    yield (f"/* Fill the table {name} of the current context with {count} values, in the order of "
           "the stream. */")
    yield f"static inline CUresult {module}_fill_{identifier(name)}(const {c_type} *values,"
    yield f"    CUstream stream) {{\n  return tritonc_fill(&{module}_module, {_literal(name)},"
    yield f"                      values, {count} * sizeof *values, stream);\n}}\n"


def _kernel(module: str, name: str, index: int, kernel: Mapping[str, Any]) -> Iterator[str]:
    """The constants of a kernel, its check and its launch."""
    yield f"/* ---- {name} ---- */"
    constants = {"threads": kernel["threads"], "shared_bytes": kernel["shared_bytes"],
                 "dynamic_shared_bytes": kernel["dynamic_shared_bytes"]}
    constants |= {f"tile{axis}": extent for axis, extent in enumerate(kernel["tile"])}
    constants |= {f"tunable_{tunable}": value for tunable, value in kernel["tunables"].items()}
    variants = kernel.get("variants", ())
    if variants:
        constants["variants"] = len(variants)
    listed = ",\n".join(f"  {name}_{constant} = {value}" for constant, value in constants.items())
    yield f"enum {{\n{listed}\n}};\n"
    in_memory = takes_memory(kernel)
    own = [f"{name}_{word}" for word in (
        "check", *("variant", "allowed", "launch_variant") * bool(variants),
        *("in_memory", "choose", "workspace_bytes") * in_memory)]
    used = {f"{module}_module", *own, *("workspace", "bytes", "needed") * in_memory}
    names = _parameter_names(kernel["parameters"], used | (_LOCAL if variants else set()))
    axes = [f"range{axis}" for axis in range(len(kernel["tile"]))]
    parameters = [_declaration(p, n) for p, n in zip(kernel["parameters"], names, strict=True)]
    yield from _check(module, name, index, kernel, axes, names, parameters)
    extents = [f"int64_t {axis}" for axis in axes]
    if variants:
        heads = {"allowed": _function(f"{name}_allowed", [*extents, *parameters], "uint64_t"),
                 "variant": _function(f"{name}_variant", [*extents, *parameters], "unsigned"),
                 "in_memory": _function(f"{name}_in_memory", [*extents, *parameters], "unsigned"),
                 "choose": _function(f"{name}_choose", ["uint64_t allowed", *extents, *parameters],
                                     "unsigned")}
        yield from choosing(kernel, name, heads, names, axes)
        yield "/* Launches one variant, if it may run with these arguments. */"
        yield _function(f"{name}_launch_variant", ["unsigned variant", *extents, "CUstream stream",
                                                   *parameters])
        yield from _start(module, name, f"{index} + variant", axes, names, (
            f"variant > {len(variants)} || !({name}_allowed({', '.join([*axes, *names])})"
            " >> variant & 1)"))
    if in_memory:
        yield from _in_memory(module, name, index, kernel, axes, names, parameters)
    if kernel["assumptions"]:
        yield "/* The arguments must be such that " + ",\n * ".join(kernel["assumptions"]) + ". */"
    yield _function(f"{name}_launch", [*extents, "CUstream stream", *parameters])
    number = f"{name}_variant({', '.join([*axes, *names])})"
    yield from _start(module, name, f"{index} + {number}" if variants else str(index), axes, names)


def _start(module: str, name: str, index: str, axes: list[str], names: list[str],
           refused: str | None = None) -> Iterator[str]:
    """The body of a launch of the entry number `index`."""
    yield f"  const int64_t range[3] = {{{', '.join([*axes, '1', '1', '1'][:3])}}};"
    addresses = ", ".join(f"&{n}" for n in names) or "NULL"
    yield f"  void *arguments[] = {{{addresses}}};"
    yield f"  CUresult code = {name}_check({', '.join([*axes, *names, 'NULL'])});"
    if refused is not None:
        yield f"  if (code == CUDA_SUCCESS && ({refused}))"
        yield "    code = CUDA_ERROR_INVALID_VALUE;"
    yield "  return code != CUDA_SUCCESS ? code : tritonc_launch("
    yield f"      &{module}_module, {index}, range, stream, arguments);\n}}\n"


def _in_memory(module: str, name: str, index: int, kernel: Mapping[str, Any], axes: list[str],
               names: list[str], parameters: list[str]) -> Iterator[str]:
    """How much memory a launch takes for sums, and the launch that is given it."""
    extents, call = [f"int64_t {axis}" for axis in axes], ", ".join([*axes, *names])
    each = ", ".join(str(row.get("workspace", 0)) for row in (kernel, *kernel["variants"]))
    range_ = f"  const int64_t range[3] = {{{', '.join([*axes, '1', '1', '1'][:3])}}};"
    yield "/* The bytes of memory that the launch below takes at best; 0 if it needs none. */"
    yield _function(f"{name}_workspace_bytes", [*extents, *parameters], "size_t")
    yield f"  static const size_t each[] = {{{each}}};"
    yield range_
    yield f"  const unsigned variant = {name}_in_memory({call});"
    yield f"  return tritonc_workspace(&{module}_module.kernels[{index} + variant], range,"
    yield "                           each[variant]);\n}\n"
    yield "/* A launch that may take memory of the device, aligned to 16 bytes, for sums; with less"
    yield " * than it takes at best, it does without.  The memory holds zeros before its first"
    yield " * launch, and no two launches use it at the same time. */"
    yield _function(f"{name}_launch_workspace", [*extents, "CUstream stream", "void *workspace",
                                                 "size_t bytes", *parameters])
    yield range_
    yield f"  void *arguments[] = {{{', '.join(f'&{n}' for n in (*names, 'workspace'))}}};"
    yield f"  const size_t needed = {name}_workspace_bytes({call});"
    yield "  const int with = needed != 0 && workspace != NULL && bytes >= needed;"
    yield f"  CUresult code = {name}_check({call}, NULL);"
    yield "  if (code == CUDA_SUCCESS && (uintptr_t)workspace % 16 != 0)"
    yield "    code = CUDA_ERROR_MISALIGNED_ADDRESS;"
    yield "  return code != CUDA_SUCCESS ? code : tritonc_launch("
    yield f"      &{module}_module, {index} + (with ? {name}_in_memory({call})"
    yield f"                                 : {name}_variant({call})), range, stream, arguments);"
    yield "}\n"


def _check(module: str, name: str, index: int, kernel: Mapping[str, Any], axes: list[str],
           names: list[str], parameters: list[str]) -> Iterator[str]:
    yield ("/* Whether a launch over this range with these arguments is allowed.  If it is not, "
           "*reason is a\n * sentence, unless reason is NULL. */")
    extents = [f"int64_t {axis}" for axis in axes]
    yield _function(f"{name}_check", [*extents, *parameters, "const char **reason"])
    yield f"  const int64_t range[3] = {{{', '.join([*axes, '1', '1', '1'][:3])}}};"
    yield "  unsigned grid[3];"
    yield f"  CUresult code = tritonc_grid(&{module}_module.kernels[{index}], range, grid, reason);"
    for parameter, own in zip(kernel["parameters"], names, strict=True):
        if "multiple_of" not in parameter:
            yield f"  (void){own};"
    empty = "".join(f" || {axis} == 0" for axis in axes)
    yield f"  if (code != CUDA_SUCCESS{empty})\n    return code;"
    for parameter, own in zip(kernel["parameters"], names, strict=True):
        multiple = parameter.get("multiple_of")
        if multiple is None:
            continue
        if "access" in parameter:
            value, error = f"(uintptr_t){own}", "CUDA_ERROR_MISALIGNED_ADDRESS"
            sentence = f"{parameter['name']} is not aligned to {multiple} bytes"
        else:
            value, error = own, "CUDA_ERROR_INVALID_VALUE"
            sentence = f"{parameter['name']} is not a multiple of {multiple}"
        yield f"  if ({value} % {multiple} != 0)"
        yield f"    return tritonc_refuse({error}, {_literal(sentence)}, reason);"
    yield "  return code;\n}\n"


def _function(name: str, parameters: Sequence[str], returns: str = "CUresult") -> str:
    """The head of a function, in lines of no more than 100 columns where that can be."""
    lines = [f"static inline {returns} {name}("]
    for at, parameter in enumerate(parameters):
        text = parameter + (") {" if at == len(parameters) - 1 else ",")
        if len(lines[-1]) + len(text) < 99:
            lines[-1] += text if lines[-1].endswith("(") else f" {text}"
        else:
            lines.append(f"    {text}")
    if not parameters:
        lines[-1] += "void) {"
    return "\n".join(lines)


def _declaration(parameter: Mapping[str, Any], name: str) -> str:
    """A parameter in C; const where the kernel only reads what it points to."""
    base, star, _ = parameter["type"].partition("*")
    base = base.strip()
    const = base.startswith("const ")
    base = base.removeprefix("const ")
    base = _TYPES.get(base, base)
    if not star:
        return f"{base} {name}"
    const = const or parameter["access"] == "read"
    return f"{'const ' if const else ''}{base} *{name}"


def _parameter_names(parameters: Sequence[Mapping[str, Any]],
                     used: Container[str] = ()) -> list[str]:
    """The names of the source, with an underscore where C or this header has another use for one.

    `used`: names that the kernel's own functions call.

    >>> _parameter_names([{"name": "new"}, {"name": "x"}, {"name": "new_"}])
    ['new__', 'x', 'new_']
    """
    own = {parameter["name"] for parameter in parameters}
    found: list[str] = []
    for parameter in parameters:
        name = identifier(parameter["name"])
        if (name != parameter["name"] or name in _RESERVED or name in used
                or _RESERVED_PATTERN.match(name)):
            name = name.lstrip("_") if name.startswith("_") else name
            name = identifier(name) + "_"
            while name in own or name in found:
                name += "_"
        found.append(name)
    return found
