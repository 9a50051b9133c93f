"""Kernels as operators of torch: eager, under torch.compile, differentiated, exported.

    import tritonc.torch

    axpy = tritonc.torch.op(
        "mylib::axpy", "axpy.tc",
        outputs={"z": lambda x: torch.empty_like(x)},   # made by the operator, returned
        scalars={"n": lambda x: x.numel()},             # computed by the operator
        range=lambda x: x.numel())
    z = axpy(2.5, x, y)

The operator's arguments are the kernel's parameters, in their order, without the outputs and the
computed scalars.  Arrays that the kernel may write and that are no outputs are *mutated*: the
operator changes them in place.  Functions name the arguments that they read as their own
parameters; `range` may name outputs too.  They run for real tensors and for torch's fake ones, so
shapes may be dynamic."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from tritonc.launch.python.api import Source, compile
from tritonc.launch.python.kernel import Kernel
from tritonc.launch.python.parameters import Parameter

Rule = Callable[..., Any]
_SCHEMA_TYPES = {"bool": "bool", "int": "SymInt", "float": "float"}


def op(name: str, source: Source | Kernel, *, range: Rule,
       outputs: Mapping[str, Rule] | None = None, scalars: Mapping[str, Rule] | None = None,
       strided: Iterable[str] = (), backward: Callable[..., Any] | None = None,
       setup_context: Callable[..., Any] | None = None, flops: Rule | None = None,
       cpu: bool = False, **compiling: Any) -> Any:
    """Register a kernel as operator `name`, "namespace::name"; returns what calls it.

    `source` is a Kernel, or what `tritonc.compile` takes, with `compiling` for its other
    arguments.  `range` computes the launch's global range; `outputs` make the tensors that the
    kernel writes and the operator returns, uninitialised (`torch.empty_like(x)`); `scalars`
    compute parameters that follow from others, such as extents.

    Tensors are given to the kernel contiguous, copied where they are not, except those of
    `strided`, whose strides are the kernel's business (`scalars` can tell it).

    `backward(ctx, *gradients)` and `setup_context(ctx, inputs, output)` are those of
    `torch.library.register_autograd`; without `setup_context`, all tensors among the inputs are
    saved, in their order.  `flops` computes a launch's operations, for torch's FlopCounterMode.
    With `cpu`, the operator takes tensors of the CPU too, and runs them in the interpreter: slowly,
    for tests.  The result is a `torch.library.CustomOpDef`, which can register more.

    Raises CompileError, and TypeError or ValueError where the roles do not fit the kernel."""
    kernel = source if isinstance(source, Kernel) else compile(source, **compiling)
    operator = _Operator(name, kernel, range, dict(outputs or {}), dict(scalars or {}),
                         frozenset(strided))
    if cpu and kernel.module.lower is None:
        raise TypeError(f"operator '{name}': only a kernel with its source runs on a CPU")
    custom = torch.library.custom_op(name, operator.run, mutates_args=operator.mutated,
                                     device_types="cuda", schema=operator.schema)
    if cpu:
        custom.register_kernel("cpu")(operator.run)
    if flops is not None:
        count = operator.rule("flops", flops, [p.name for p in operator.inputs])
        register_flop_formula(custom._opoverload.overloadpacket, get_raw=True)(
            lambda *inputs, out_val=None, **_: count(inputs))
    custom.register_fake(operator.fake)
    if backward is not None:
        custom.register_autograd(backward, setup_context=setup_context or _save_tensors)
    elif setup_context is not None:
        raise TypeError(f"operator '{name}': setup_context without backward")
    return custom


class _Operator:
    """The roles of a kernel's parameters, and what the operator does by them."""

    def __init__(self, name: str, kernel: Kernel, range: Rule, outputs: dict[str, Rule],
                 scalars: dict[str, Rule], strided: frozenset[str]) -> None:
        self.name, self.kernel = name, kernel
        parameters = {p.name: p for p in kernel.parameters}
        self._check_roles(parameters, outputs, scalars, strided)
        self.inputs = [p for p in kernel.parameters if p.name not in {*outputs, *scalars}]
        known = [p.name for p in self.inputs]
        self.outputs = [self.rule(f"outputs['{name}']", rule, known)
                        for name, rule in outputs.items()]
        self.scalars = [self.rule(f"scalars['{name}']", rule, known)
                        for name, rule in scalars.items()]
        self.range = self.rule("range", range, [*known, *outputs])
        self.ir: Any = None  # for the interpreter
        self.mutated = [p.name for p in self.inputs if p.pointer and not p.read_only]
        # Where each argument of the launch is among inputs, outputs and scalars; the first tensor.
        slots = [*known, *outputs, *scalars]
        self.places = [slots.index(p.name) for p in kernel.parameters]
        self.tensor = next((place for place, p in zip(self.places, kernel.parameters, strict=True)
                            if p.pointer), None)
        self.contiguous = [(i, p.name) for i, p in enumerate(self.inputs)
                           if p.pointer and p.name not in strided]

    def _check_roles(self, parameters: Mapping[str, Parameter], outputs: Mapping[str, Rule],
                     scalars: Mapping[str, Rule], strided: Iterable[str]) -> None:
        for role, names, pointer in (("outputs", outputs, True), ("scalars", scalars, False),
                                     ("strided", strided, True)):
            for name in names:
                if name not in parameters:
                    raise self._error(f"{role}: the kernel has no parameter '{name}', only "
                                      f"{', '.join(parameters)}")
                if parameters[name].pointer != pointer:
                    raise self._error(f"{role}: '{name}' is of type {parameters[name].type}")
        for name in outputs:
            if parameters[name].read_only:
                raise self._error(f"outputs: the kernel writes nothing to '{name}'")

    def _error(self, message: str) -> TypeError:
        return TypeError(f"operator '{self.name}': {message}")

    def rule(self, role: str, rule: Rule, known: Sequence[str]) -> Rule:
        """`rule` as a function of all values in the order of `known`."""
        wanted = list(inspect.signature(rule).parameters)
        for name in wanted:
            if name not in known:
                raise self._error(f"{role} reads '{name}', which is none of {', '.join(known)}")
        places = [known.index(name) for name in wanted]
        if len(places) == 1:  # the usual case, a little faster
            (place,) = places
            return lambda values: rule(values[place])
        return lambda values: rule(*[values[place] for place in places])

    @property
    def schema(self) -> str:
        """The operator's type.  Integers are symbolic: they may differ without compiling anew."""
        words = []
        for number, p in enumerate(self.inputs):
            if p.pointer:
                alias = f"(a{number}!)" if p.name in self.mutated else ""
                words.append(f"Tensor{alias} {p.name}")
            else:
                kind = "float" if p.is_float else "bool" if p.dtype == "bool" else "int"
                words.append(f"{_SCHEMA_TYPES[kind]} {p.name}")
        results = ["Tensor"] * len(self.outputs)
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"({', '.join(words)}) -> {result}"

    def fake(self, *inputs: Any) -> Any:
        """The outputs as they would be, without their content."""
        return self._result([rule(inputs) for rule in self.outputs])

    def run(self, *inputs: Any) -> Any:
        """Make the outputs and launch the kernel on the current stream of the arguments' device."""
        values = [*inputs]
        for index, name in self.contiguous:
            if not values[index].is_contiguous():
                if name in self.mutated:
                    raise ValueError(f"operator '{self.name}' changes '{name}', which has to be "
                                     "contiguous for that")
                values[index] = values[index].contiguous()
        made = [rule(values) for rule in self.outputs]
        slots = [*values, *made, *[rule(values) for rule in self.scalars]]
        tensor = None if self.tensor is None else slots[self.tensor]
        arguments = [slots[place] for place in self.places]
        if tensor is not None and tensor.device.type == "cpu":
            self._interpret(self.range(slots), arguments)
        else:
            self.kernel.launch(_stream_of(tensor), self.range(slots), *arguments)
        return self._result(made)

    def _interpret(self, global_range: Any, arguments: list[Any]) -> None:
        from tritonc.launch.python import on_cpu  # which loads the interpreter

        if self.ir is None:
            assert self.kernel.module.lower is not None
            self.ir = self.kernel.module.lower()
        given = []
        for parameter, value in zip(self.kernel.parameters, arguments, strict=True):
            if parameter.pointer:
                if str(value.dtype) not in (f"torch.{parameter.dtype}",
                                            f"torch.{parameter.dtype.removeprefix('u')}"):
                    raise TypeError(f"argument '{parameter.name}' of kernel '{self.kernel.name}': "
                                    f"'{parameter.type}' needs elements of {parameter.dtype}, "
                                    f"found {value.dtype}")
                if not value.is_contiguous():
                    raise ValueError(f"operator '{self.name}': '{parameter.name}' has to be "
                                     "contiguous on a CPU")
                value = value.detach().reshape(-1).view(torch.uint8).numpy()
            given.append(value)
        on_cpu.launch(self.kernel, self.ir, global_range, given)

    def _result(self, made: list[Any]) -> Any:
        return None if not made else made[0] if len(made) == 1 else tuple(made)


def _stream_of(tensor: Any) -> int:
    """torch's current stream on a tensor's device."""
    if tensor is None:
        return int(torch.cuda.current_stream().cuda_stream)
    return int(torch._C._cuda_getCurrentRawStream(tensor.get_device()))


def _save_tensors(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """What is saved for `backward` where nobody says it."""
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, torch.Tensor)])
