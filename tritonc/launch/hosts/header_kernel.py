"""The C of one kernel in a header: its constants, its check, its launches."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pkgutil import get_data
from string import Template
from typing import Any

from tritonc.variants.choice import is_in_memory

TYPES = {
    "half": "TRITONC_HALF", "bfloat16": "TRITONC_BFLOAT16",
    "float8_e4m3": "TRITONC_FLOAT8_E4M3", "float8_e5m2": "TRITONC_FLOAT8_E5M2"}  # fmt: skip
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
_LOCAL = frozenset("variant allowed target".split())
# Of cuda.h, whose functions are macros for their newest versions, of runtime.h, of C's own headers.
_RESERVED_PATTERN = re.compile(
    r"CU|cu[A-Z]|TRITONC|tritonc_|_|RESOURCE_ABI_|RTLD_|SCHED_|SEEK_|EXIT_|FD_|SIG_"
    r"|U?INT(\d|MAX|PTR|_)|(SIZE|PTRDIFF|WCHAR|WINT|RAND|TMP|FOPEN|FILENAME|MB_CUR)_(MAX|MIN)"
    r"|[LP]_tmp|L_ctermid|W(IF|EXIT|STOP|TERM|CONT|NO|UN)[A-Z]+$|(BIG|LITTLE|PDP)_ENDIAN"
    r"|(be|le)\d\dtoh|hto[bl]e\d\d")


class KernelFunctions:
    """Kernel number `index` of the entries of `module`, whose functions begin with `name`."""

    def __init__(self, module: str, name: str, index: int, kernel: Mapping[str, Any]) -> None:
        self.module, self.name, self.index, self.kernel = module, name, index, kernel
        self.variants: Sequence[Mapping[str, Any]] = kernel.get("variants", ())
        self.in_memory = takes_memory(kernel)
        # A variant that a target lacks: the launch chooses among those that it has.
        self.some_lack = any(None in row.get("targets", {}).values() for row in self.variants)
        # Targets beside the first that choose by costs of their own.
        self.choices: Sequence[Mapping[str, Any] | None] = kernel.get("choices", ())
        self.by_target = self.some_lack or bool(self.choices)
        own = [f"{name}_{word}" for word in (
            "check", *("variant", "allowed", "choose", "launch_variant") * bool(self.variants),
            *("in_memory", "with_memory", "workspace_bytes") * self.in_memory)]
        used = {f"{module}_module", *own, *("workspace", "bytes", "needed") * self.in_memory,
                *["present"] * self.by_target}
        self.names = parameter_names(kernel["parameters"],
                                     used | (_LOCAL if self.variants else set()))
        self.axes = [f"range{axis}" for axis in range(len(kernel["tile"]))]
        self.parameters = [_declaration(p, n)
                           for p, n in zip(kernel["parameters"], self.names, strict=True)]
        self.call = ", ".join([*self.axes, *self.names])

    def best(self, *allowed_and_target: str) -> str:
        """The number of the variant to take of those that are allowed."""
        return f"{self.name}_choose({', '.join([*allowed_and_target, *self.axes, *self.names])})"

    @property
    def taken(self) -> str:
        """The number of the variant of a launch that is given no memory."""
        if self.by_target:
            return self.best(f"{self.name}_allowed({self.call}) & present", "target")
        return f"{self.name}_variant({self.call})" if self.variants else ""

    def head(self, word: str, before: Sequence[str] = (), between: Sequence[str] = (),
             after: Sequence[str] = (), returns: str = "CUresult") -> str:
        """The head of a function that takes extents and arguments, in lines of no more than 100
        columns where that can be."""
        parameters = [*before, *(f"int64_t {axis}" for axis in self.axes), *between,
                      *self.parameters, *after]
        lines = [f"static inline {returns} {self.name}_{word}("]
        for at, parameter in enumerate(parameters):
            text = parameter + (") {" if at == len(parameters) - 1 else ",")
            if len(lines[-1]) + len(text) < 99:
                lines[-1] += text if lines[-1].endswith("(") else f" {text}"
            else:
                lines.append(f"    {text}")
        if not parameters:
            lines[-1] += "void) {"
        return "\n".join(lines)

    def constants(self) -> Iterator[str]:
        constants = {word: self.kernel[word] for word in (
            "threads", "shared_bytes", "dynamic_shared_bytes")}
        constants |= {f"tile{axis}": extent for axis, extent in enumerate(self.kernel["tile"])}
        constants |= {f"tunable_{name}": v for name, v in self.kernel["tunables"].items()}
        constants |= {"variants": len(self.variants)} if self.variants else {}
        listed = ",\n".join(f"  {self.name}_{name} = {v}" for name, v in constants.items())
        yield f"enum {{\n{listed}\n}};\n"

    def _range(self) -> str:
        return f"  const int64_t range[3] = {{{', '.join([*self.axes, '1', '1', '1'][:3])}}};"

    def start(self, number: str, refused: str = "") -> Iterator[str]:
        """The body of a launch of the variant of this number."""
        yield self._range()
        yield f"  void *arguments[] = {{{', '.join(f'&{n}' for n in self.names) or 'NULL'}}};"
        given = ", ".join([*self.axes, *self.names, "NULL"])
        yield f"  CUresult code = {self.name}_check({given});"
        if refused:
            yield f"  if (code == CUDA_SUCCESS && ({refused}))"
            yield "    code = CUDA_ERROR_INVALID_VALUE;"
        if "present" in number:
            yield "  uint64_t present = 1;\n  unsigned target = 0;"
            yield "  if (code == CUDA_SUCCESS)"
            yield (f"    code = tritonc_present(&{self.module}_module, {self.index}, "
                   f"{len(self.variants)}, range, &present, &target);")
        yield "  return code != CUDA_SUCCESS ? code : tritonc_launch("
        index = f"{self.index} + {number}" if number else f"{self.index}"
        yield f"      &{self.module}_module, {index}, range, stream, arguments);\n}}\n"

    def with_memory(self) -> str:
        """How much memory a launch takes for sums, and the launch that is given it."""
        return filled(
            "kernel_workspace.h", name=self.name, call=self.call, module=self.module,
            index=self.index, range=self._range(),
            each=", ".join(str(row.get("workspace", 0)) for row in (self.kernel, *self.variants)),
            addresses=", ".join(f"&{n}" for n in (*self.names, "workspace")),
            launched=", ".join([*self.axes, "stream", *self.names]),
            bytes_head=self.head("workspace_bytes", returns="size_t"),
            launch_head=self.head("launch_workspace", between=[
                "CUstream stream", "void *workspace", "size_t bytes"]))

    def check(self) -> Iterator[str]:
        yield ("/* Whether a launch over this range with these arguments is allowed.  If it is "
               "not, *reason is a\n * sentence, unless reason is NULL. */")
        yield self.head("check", after=["const char **reason"])
        yield self._range()
        yield "  unsigned grid[3];"
        own = f"&{self.module}_module.kernels[{self.index}]"
        yield f"  CUresult code = tritonc_grid({own}, range, grid, reason);"
        pairs = [*zip(self.kernel["parameters"], self.names, strict=True)]
        rows = [(own, self._refused(parameter, own)) for parameter, own in pairs]
        tested = {fact["argument"] for row in self.kernel["parameters"]
                  for fact in row.get("not_null", ())}
        yield from (f"  (void){own};" for place, (own, refused) in enumerate(rows)
                    if not refused and place not in tested)
        empty = "".join(f" || {axis} == 0" for axis in self.axes)
        yield f"  if (code != CUDA_SUCCESS{empty})\n    return code;"
        for _, refused in rows:
            for condition, error, sentence in refused:
                yield f"  if ({condition})"
                yield f"    return tritonc_refuse({error}, {literal(sentence)}, reason);"
        for parameter, own in pairs:
            if "access" in parameter:
                sentence = literal(f"{parameter['name']} is in no memory that the GPU reaches")
                yield "  if (code == CUDA_SUCCESS)"
                yield f"    code = tritonc_reachable({own}, {sentence}, reason);"
        yield "  return code;\n}\n"

    def _refused(self, parameter: Mapping[str, Any], own: str) -> list[tuple[str, str, str]]:
        """What a parameter must not be, in C; the error's code and a sentence for each."""
        name, multiple = parameter["name"], parameter.get("multiple_of")
        found = []
        if "not_null" in parameter:
            facts = [f"{as_signed(self.kernel['parameters'][fact['argument']]['type'], other)}"
                     f" >= {constant(fact['at_least'])}" for fact in parameter["not_null"]
                     for other in [self.names[fact["argument"]]]]
            found.append((" && ".join([f"{own} == NULL", *facts]), "CUDA_ERROR_INVALID_VALUE",
                          f"{name} is null"))
        if "access" in parameter:
            return [*found, *[(f"(uintptr_t){own} % {multiple} != 0",
                               "CUDA_ERROR_MISALIGNED_ADDRESS",
                               f"{name} is not aligned to {multiple} bytes")] * bool(multiple)]
        wrong = [(f"{own} % {multiple} != 0", f"not a multiple of {multiple}")] * bool(multiple)
        wrong += [(f"{as_signed(parameter['type'], own)} {relation} {constant(parameter[key])}",
                   f"{words} {parameter[key]}")
                  for key, relation, words in (("at_least", "<", "less than"),
                                               ("at_most", ">", "more than")) if key in parameter]
        return [(condition, "CUDA_ERROR_INVALID_VALUE", f"{name} is {words}")
                for condition, words in wrong]


def constant(number: int) -> str:
    """A number of 64 bits; the least has no literal of its own."""
    return "INT64_MIN" if number == -(1 << 63) else f"INT64_C({number})"


def as_signed(type: str, name: str) -> str:
    """The bits of an integer as a signed number."""
    bits = {"unsigned char": 8, "unsigned short": 16, "unsigned int": 32,
            "unsigned long long": 64}.get(type)
    return name if bits is None else f"(int{bits}_t){name}"


def runtime(name: str) -> str:
    """One of the files beside this one."""
    text = get_data("tritonc.launch.hosts", name)
    assert text is not None
    return text.decode("utf-8")


def filled(file: str, /, **words: object) -> str:
    """The same with values in the places of its `${words}`, without the end of the last line."""
    return Template(runtime(file)).substitute(words).removesuffix("\n")


def takes_memory(kernel: Mapping[str, Any]) -> bool:
    """Whether a variant takes memory of the launch."""
    return any(map(is_in_memory, kernel.get("variants", ())))


def identifier(name: str) -> str:
    """A name as C allows it.

    >>> identifier("my-kernel.v2"), identifier("2d")
    ('my_kernel_v2', '_2d')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{plain}" if plain[0].isdigit() else plain


def literal(text: str | bytes) -> str:
    r"""A C string, without trigraphs, of plain ASCII.

    >>> print(literal('a\t"b"??='), literal("é1"))
    "a\t\"b\"\?\?=" "\303\2511"
    """
    plain = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "?": r"\?"}
    return '"' + "".join(
        plain.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in (text.encode() if isinstance(text, str) else text)) + '"'


def _declaration(parameter: Mapping[str, Any], name: str) -> str:
    """A parameter in C; const where the kernel only reads what it points to."""
    base, star, _ = parameter["type"].partition("*")
    base = base.strip()
    const = base.startswith("const ")
    base = base.removeprefix("const ")
    base = TYPES.get(base, base)
    if not star:
        return f"{base} {name}"
    const = const or parameter["access"] == "read"
    return f"{'const ' if const else ''}{base} *{name}"


def parameter_names(parameters: Sequence[Mapping[str, Any]],
                     used: Container[str] = ()) -> list[str]:
    """The names of the source, with an underscore where C or this header has another use for one.

    `used`: names that the kernel's own functions call.

    >>> parameter_names([{"name": "new"}, {"name": "x"}, {"name": "new_"}])
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
