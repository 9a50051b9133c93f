"""A source in C++ that registers the kernels of a module as operators of torch.

It holds the module's header with its image, the file torch_runtime.h beside this one, and for each
kernel a function and its schema.  The function is written once, for sizes of type `Int`: with
int64_t it launches, with c10::SymInt it makes the outputs of torch's fake tensors.
`tritonc.launch.hosts.torch_roles` says what of a kernel's parameters it computes; docs/embedding.md
describes how to build it."""

import ast
import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tritonc.launch.data import macros
from tritonc.launch.hosts.header import with_names
from tritonc.launch.hosts.header_kernel import identifier, runtime
from tritonc.launch.hosts.torch_roles import Roles, Tensor, kind_of, roles_of, text
from tritonc.problem.lines import Problem
from tritonc.source import fail

_DTYPES = {
    "bool": "Bool", "signed char": "Char", "short": "Short", "int": "Int", "long long": "Long",
    "unsigned char": "Byte", "unsigned short": "UInt16", "unsigned int": "UInt32",
    "unsigned long long": "UInt64", "half": "Half", "bfloat16": "BFloat16", "float": "Float",
    "double": "Double", "float8_e4m3": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2"}  # fmt: skip
_SIGNED = {"UInt16": "Short", "UInt32": "Int", "UInt64": "Long"}  # which torch computes with
_BITS = ("half", "bfloat16", "float8_e4m3", "float8_e5m2")  # numbers that a header takes as bits


def torch_source(manifest: Mapping[str, Any], name: str, problems: Sequence[Problem], *,
                 image: str | bytes, prefix: str = "") -> str:
    """The text for the module of `manifest`, with the problems that its source states.

    The operators are `name::kernel`, or with `prefix` `prefix::kernel`.  Raises CompileError where
    a problem and its kernel do not fit."""
    header, functions = with_names(manifest, name, image=image, prefix=prefix)
    space = identifier(prefix or name)
    kernels = manifest["kernels"]
    for table in manifest["constants"]:
        if not table["initialized"]:
            raise fail("no-such-output", None, f"the host fills the constant table "
                       f"'{table['name']}', which an operator of torch cannot do")
    lines = [f"// Operators of torch for {name}, by {manifest['compiler']}: do not edit.",
             "#ifndef TRITONC_DLOPEN", "#define TRITONC_DLOPEN 1", "#endif", header,
             runtime("torch_runtime.h"), "namespace {", ""]
    made = []
    for kernel, function in zip(kernels, functions, strict=True):
        problem = next((p for p in problems if p.kernel in (None, kernel["name"])), None)
        numbers = {**kernel["tunables"], **(macros(problem) if problem is not None else {})}
        constants = {key: value for key, value in numbers.items()
                     if isinstance(value, int) and not isinstance(value, bool)}
        operator = _Operator(kernel, function, roles_of(kernel, problem, constants), constants)
        if operator.roles.tensors:  # else it has no effect, and no device
            lines += [f"// {space}::{operator.schema}", *operator.function(), ""]
            made.append(operator)
    lines += ["}  // namespace", "", f"TORCH_LIBRARY_FRAGMENT({space}, library) {{"]
    lines += [f'  library.def("{one.schema}", {{at::Tag::pt2_compliant_tag}});' for one in made]
    lines.append("}")
    for key, kind in (("CUDA", "int64_t"), ("Meta", "c10::SymInt")):
        lines.append(f"TORCH_LIBRARY_IMPL({space}, {key}, library) {{")
        lines += [f'  library.impl("{one.name}", TORCH_FN({one.own}<{kind}>));' for one in made]
        lines.append("}")
    return "\n".join(lines) + "\n"


class _Operator:
    """One operator: its schema and its function."""

    def __init__(self, kernel: Mapping[str, Any], function: str, roles: Roles,
                 constants: Mapping[str, int]) -> None:
        self.kernel, self.header_name, self.roles = kernel, function, roles
        self.name = _safe(kernel["name"])
        self.own = f"tritonc_op_{identifier(kernel['name'])}"
        tensors = {tensor.name: tensor for tensor in roles.tensors}
        self.returned = [tensor for tensor in roles.tensors if tensor.returned]
        order = [p["name"] for p in kernel["parameters"]]
        self.inputs: list[tuple[str, Tensor | Mapping[str, Any] | None]] = [
            *((name, tensors.get(name) or roles.given.get(name)) for name in order
              if name in roles.given or (name in tensors and not tensors[name].made)),
            *((name, None) for name in roles.given if name not in order)]
        self.public: dict[str, str] = {}  # the arguments' names in the schema
        for argument, _ in self.inputs:
            own = _safe(argument)
            while own in self.public.values() or (own != argument and own in order):
                own += "_"
            self.public[argument] = own
        self.variables = {**{key: f"Int({value})" for key, value in constants.items()},
                          **{name: f"v_{identifier(name)}" for name in
                             (*(size for size, _ in roles.sizes), *order, *roles.given)}}

    @property
    def schema(self) -> str:
        words = []
        for number, (name, one) in enumerate(self.inputs):
            if isinstance(one, Tensor):
                kind = f"Tensor(a{number}!)" if one.changed else "Tensor"
            else:
                kind = {"bool": "bool", "double": "float", "Int": "SymInt"}[kind_of(one)]
            words.append(f"{kind} {self.public[name]}")
        result = ["Tensor"] * len(self.returned)
        returned = result[0] if len(result) == 1 else f"({', '.join(result)})"
        return f"{self.name}({', '.join(words)}) -> {returned}"

    def function(self) -> Iterator[str]:
        returned = ["at::Tensor"] * len(self.returned)
        result = "void" if not returned else returned[0] if len(returned) == 1 else (
            f"std::tuple<{', '.join(returned)}>")
        parameters = ", ".join(
            f"{'const at::Tensor &' if isinstance(one, Tensor) else kind_of(one) + ' '}"
            f"{self.variables[name]}" for name, one in self.inputs)
        yield f"template <class Int>\n{result} {self.own}({parameters}) {{"
        tensors = [one for _, one in self.inputs if isinstance(one, Tensor)]
        yield from self._checks(tensors)
        yield from self._sizes()
        for tensor in tensors:
            for axis, extent in enumerate(tensor.shape or ()):
                if extent is not None and self.roles.place_of(extent) != (tensor.name, axis, 1):
                    yield (f'  tritonc_extent<Int>("{tensor.name}", {self._of(tensor)}, {axis}, '
                           f"{self._text(extent)});")
        like = self._of(tensors[0])
        for tensor in self.roles.tensors:
            if not tensor.made:
                continue
            extents = ", ".join(self._text(e) for e in tensor.shape or () if e is not None)
            yield (f"  const at::Tensor {self._of(tensor)} = tritonc_made<Int>({like}, "
                   f"at::k{_dtype(tensor)}, {{{extents}}}, {str(tensor.zeros).lower()});")
        yield "  if constexpr (tritonc_real<Int>) {"
        yield from self._launch(tensors, like)
        yield "  }"
        names = ", ".join(self._of(tensor) for tensor in self.returned)
        if names:
            yield f"  return {names if len(self.returned) == 1 else f'{{{names}}}'};"
        yield "}"

    def _checks(self, tensors: Sequence[Tensor]) -> Iterator[str]:
        for tensor in tensors:
            kind = _dtype(tensor)
            yield (f'  tritonc_type("{tensor.name}", {self._of(tensor)}, at::k{kind}, '
                   f"at::k{_SIGNED.get(kind, kind)});")
            if tensor.shape is not None:
                yield f'  tritonc_axes("{tensor.name}", {self._of(tensor)}, {len(tensor.shape)});'

    def _sizes(self) -> Iterator[str]:
        """Sizes, and then parameters that are computed of them."""
        for size, of in self.roles.sizes:
            if isinstance(of, ast.expr):
                found = self._text(of)
            else:
                name, axis, factor = of
                found = f"tritonc_size<Int>({self.variables[name]}, {axis})"
                found = found if factor == 1 else f"tritonc_floor({found}, Int({factor}))"
            yield f"  const Int {self.variables[size]} = {found};"
        for name, node in self.roles.scalars.items():
            if not (isinstance(node, ast.Name) and node.id == name):
                yield f"  const Int {self.variables[name]} = {self._text(node)};"

    def _launch(self, tensors: Sequence[Tensor], like: str) -> Iterator[str]:
        yield f"    const c10::DeviceGuard guard({like}.device());"
        arguments = [self._text(extent) for extent in self.roles.range]
        for tensor in tensors[1:]:
            yield f'    tritonc_device("{tensor.name}", {self._of(tensor)}, {like}.device());'
        known = {tensor.name: tensor for tensor in self.roles.tensors}
        for row in self.kernel["parameters"]:
            name = row["name"]
            value = self.variables[name]
            if name in known and (known[name].changed or known[name].made):
                arguments.append(f'tritonc_written("{name}", {value})')
            elif name in known:
                yield f"    const auto {value}_ = {value}.expect_contiguous();"
                arguments.append(f"tritonc_read(*{value}_)")
            elif kind_of(row) == "Int":
                arguments.append(f'tritonc_integer{{"{name}", {value}}}')
            elif row["type"] in _BITS:
                arguments.append(f"c10::{_DTYPES[row['type']]}(static_cast<float>({value})).x")
            else:
                arguments.append(value)
        extents = ", ".join(arguments[: len(self.roles.range)])
        rest = ", ".join(arguments[len(self.roles.range):])
        before = f"{extents}, " if extents else ""
        yield f'    const CUstream stream = tritonc_stream("{self.name}", {like}.device());'
        yield f"    const CUresult code = {self.header_name}_launch({before}stream, {rest});"
        yield "    if (code != CUDA_SUCCESS) {"
        yield "      const char *reason = nullptr;"
        yield f"      {self.header_name}_check({before}{rest}, &reason);"
        yield f'      tritonc_done("{self.name}", code, reason);'
        yield "    }"

    def _of(self, tensor: Tensor) -> str:
        return self.variables[tensor.name]

    def _text(self, node: ast.expr) -> str:
        return text(node, self.variables)


def _safe(name: str) -> str:
    """A name that a schema can have: its language has Python's keywords."""
    return f"{name}_" if keyword.iskeyword(name) or name == "global" else name


def _dtype(tensor: Tensor) -> str:
    return _DTYPES[tensor.row["type"].removeprefix("const ").removesuffix("*").rstrip()]

