"""The data of a problem: sizes, arguments and tables evaluated and rounded to the kernel's types.

An argument is kept in the *held* form of `ir.formats` (what its rounded elements are) and seen by
expressions as int64 or float64, read-only: every expression sees what was there before the launch.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tritonc.frontend.parser_types import PREDECLARED_TYPES, scalar_type
from tritonc.ir.core import Kernel, Module, ParameterInfo
from tritonc.ir.numeric import numbers
from tritonc.ir.numeric.formats import register_dtype, round_to
from tritonc.ir.types import I1, Pointer, Scalar, Type
from tritonc.problem.evaluate import Expression, evaluate, generators, integer, parse_expression
from tritonc.problem.lines import Argument, Named, Problem
from tritonc.problem.safe_numpy import describe
from tritonc.records import dataclass
from tritonc.sema.types.ctypes import NUMBERS, VOID
from tritonc.source import CompileError, Note, Span, fail
from tritonc.spelling import hint
from tritonc.variants.choice import MOST_PROGRAMS

Array = npt.NDArray[Any]

# ||got - want|| / ||want|| that passes where a problem states no tolerance: a few ulps of the
# result's format, with room for sums that both sides round in another order.
_TOLERANCES: dict[str, float] = {
    "f64": 1e-12, "f32": 1e-5, "tf32": 1e-3, "f16": 2e-3, "bf16": 1.5e-2, "f8e4m3": 0.1,
    "f8e5m2": 0.2}  # fmt: skip


@dataclass
class Value:
    """One argument: `held` is an array for a pointer, a Python number for a scalar."""

    name: str
    element: Scalar
    unsigned: bool
    pointer: bool
    held: Any
    pad: int = 0  # bytes past both ends that may be read
    span: Span | None = None

    def view(self, held: Any = None) -> Any:
        """The argument (or another content of it) as expressions see it."""
        held = self.held if held is None else held
        if not isinstance(held, np.ndarray):
            mask = self.unsigned and self.element.bits < 64
            return held & ((1 << self.element.bits) - 1) if mask else held
        seen: Array
        if self.element.is_float:
            seen = held.astype(np.float64)
        elif self.unsigned and self.element.bits < 64:
            seen = held.astype(np.int64) & ((1 << self.element.bits) - 1)
        else:
            seen = held.astype(np.int64)
        seen.setflags(write=False)
        return seen


@dataclass
class Data:
    """A problem made ready for one launch."""

    problem: Problem
    kernel: Kernel
    sizes: dict[str, int]
    arguments: list[Value]
    grid: tuple[int, ...]
    tables: dict[str, Array]  # constant memory, held
    names: Mapping[str, Any] = field(repr=False)
    seed: int = 0
    _expected: dict[str, tuple[Any, Expression]] | None = field(default=None, repr=False)

    def expected(self) -> dict[str, tuple[Any, Expression]]:
        """What each changed argument holds afterwards, by name, and where that is said."""
        if self._expected is None:
            self._expected = {e.name: (_evaluate(e, self.names, self.seed), e.expression)
                              for e in self.problem.expects}
        return self._expected

    def tolerance(self, value: Value) -> float:
        """The relative error that passes for an argument."""
        expression = self.problem.tolerance
        if expression is None:
            return _TOLERANCES.get(value.element.name, 0.0)
        found = evaluate(expression, self.names)
        if isinstance(found, np.ndarray | tuple | list | str | None) or not float(found) >= 0:
            raise fail("problem-expression", expression.span,
                       f"a tolerance is a number of 0 or more, not {describe(found)}")
        return float(found)


class _Environment(Mapping[str, Any]):
    """Names and their values, computed when first read."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        self.waiting: dict[str, tuple[Callable[[], Any], Span]] = {}
        self.computing: list[str] = []

    def later(self, name: str, span: Span, compute: Callable[[], Any]) -> None:
        self.waiting[name] = compute, span

    def __getitem__(self, name: str) -> Any:
        if name in self.known:
            return self.known[name]
        compute, span = self.waiting[name]
        if name in self.computing:
            chain = " -> ".join([*self.computing[self.computing.index(name) :], name])
            lacks = f"; `size: {name} = ...` states a size" if chain == f"{name} -> {name}" else ""
            raise fail("problem-expression", span, f"'{name}' is defined by itself: {chain}{lacks}")
        self.computing.append(name)
        try:
            self.known[name] = compute()
        finally:
            self.computing.remove(name)
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.known, **self.waiting})

    def __len__(self) -> int:
        return len({**self.known, **self.waiting})


def size_values(problem: Problem, changed: Mapping[str, int]) -> dict[str, int]:
    """The problem's sizes, of which each may use earlier ones; `changed` by --set comes first."""
    known = [size.name for size in problem.sizes]
    for name in changed:
        if name not in known:
            meant = hint(name, known, f"known: {', '.join(known) or 'none'}")
            raise fail("problem-name", problem.span, f"the problem has no size '{name}'; {meant}")
    values: dict[str, int] = {}
    for size in problem.sizes:
        if size.name in changed:
            values[size.name] = changed[size.name]
        else:
            values[size.name] = integer(size.expression, values, f"size '{size.name}'")
    for line in problem.wheres:
        if not evaluate(line, {**macros(problem), **values}):
            given = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise fail("problem-expression", line.span, f"this does not hold for {given}")
    return values


def bench_sizes(problem: Problem) -> list[dict[str, int]]:
    """The sizes of the problem's `bench:` lines, or the problem's own if it has none."""
    found = []
    for line in problem.bench or [[]]:
        values: dict[str, int] = {}
        for size in line:
            values[size.name] = integer(size.expression, values, f"size '{size.name}'")
        found.append(size_values(problem, values))
    return found


def prepare(problem: Problem, module: Module, kernel: Kernel, changed: Mapping[str, int],
            seed: int = 0) -> Data:
    """Evaluate a problem for a compiled kernel.  `changed` replaces sizes by name.

    Raises CompileError where the problem and the kernel do not fit, or an expression has no value.
    """
    sizes = size_values(problem, changed)
    names = _Environment({**problem.functions, **kernel.tunables, **macros(problem), **sizes})
    _check_arguments(problem, kernel)
    values: dict[str, Value] = {}

    def compute(argument: Argument, kind: Type, info: ParameterInfo) -> Any:
        # In `arg: N = N` the right N is the size.
        inner = {argument.name: sizes[argument.name]} if argument.name in sizes else {}
        found = _evaluate(argument, ChainMap(inner, names), seed)  # type: ignore[arg-type]
        values[argument.name] = _round(argument, kind, info, found)
        return values[argument.name].view()

    for argument, parameter, info in zip(problem.arguments, kernel.parameters, kernel.info,
                                         strict=True):
        names.known.pop(argument.name, None)
        names.later(argument.name, argument.span, partial(compute, argument, parameter.type, info))
    for let in problem.lets:
        names.later(let.name, let.span, partial(_evaluate, let, names, seed))
    for argument in problem.arguments:
        names[argument.name]
    for pad in problem.pads:
        values[pad.name].pad = max(integer(pad.expression, names, "a padding"), 0)
    return Data(problem, kernel, sizes, [values[a.name] for a in problem.arguments],
                grid_of(problem, kernel.name, kernel.tile, names),
                _tables(problem, module, names, seed), names, seed)


def _evaluate(named: Named, names: Mapping[str, Any], seed: int) -> Any:
    functions = generators(seed, named.line)
    return evaluate(named.expression, ChainMap(names, functions))  # type: ignore[arg-type]


def macros(problem: Problem) -> dict[str, Any]:
    """The macros of `define:` lines whose text is an expression."""
    values: dict[str, Any] = {}
    for name, text, span in problem.defines:
        try:
            values[name] = evaluate(parse_expression(text, span), values)
        except CompileError:
            continue  # it is code, which no expression can mean
    return values


def _check_arguments(problem: Problem, kernel: Kernel) -> None:
    """One `arg:` for each parameter, in order and under its name."""
    wanted = [parameter.name for parameter in kernel.parameters]
    found = [argument.name for argument in problem.arguments]
    if wanted != found:
        at = next((a.span for a, w in zip(problem.arguments, wanted) if a.name != w), problem.span)
        notes = [Note(f"kernel '{kernel.name}' is here", kernel.span)] if kernel.span else []
        raise fail("problem-name", at,
                   f"kernel '{kernel.name}' has the parameters {', '.join(wanted) or 'none'}, but "
                   f"the problem gives {', '.join(found) or 'none'}", *notes)


def _round(argument: Argument, kind: Type, info: ParameterInfo, found: Any) -> Value:
    """The argument as the parameter's type, or the type stated after it, holds it."""
    pointer = isinstance(kind, Pointer)
    element, unsigned = element_of(argument, kind, info)
    try:
        held = round_array(element, np.asarray(found))
    except (TypeError, ValueError, OverflowError) as error:
        raise fail("problem-expression", argument.expression.span,
                   f"'{argument.name}' cannot hold {describe(found)}: {error}") from None
    if not pointer:
        if held.ndim:
            raise fail("problem-expression", argument.expression.span,
                       f"'{argument.name}' is a scalar parameter, found {describe(found)}")
        number = held[()].item()
        return Value(argument.name, element, unsigned, False, numbers.fit(element, number),
                     span=argument.span)
    return Value(argument.name, element, unsigned, True, held, span=argument.span)


def element_of(argument: Argument, kind: Type, info: ParameterInfo) -> tuple[Scalar, bool]:
    """The type of an argument's elements, and whether it is unsigned."""
    element = kind.element if isinstance(kind, Pointer) else kind
    assert isinstance(element, Scalar), f"a parameter of type {kind}"
    if argument.type is None:
        return element, "unsigned" in info.ctype or "uint" in info.ctype
    words = argument.type.split()
    known = PREDECLARED_TYPES.get(words[0]) if len(words) == 1 else None
    named = NUMBERS.get(known or scalar_type(words) or "", VOID)
    if named is VOID:
        raise fail("problem-syntax", argument.span, f"'{argument.type}' is not an element type")
    if not isinstance(kind, Pointer) and named.ir != element:
        raise fail("problem-syntax", argument.span, f"'{argument.name}' is a parameter of type "
                   f"{element}, which the problem cannot change to {argument.type}")
    return named.ir, named.name.startswith("u")


def round_array(element: Scalar, array: Array) -> Array:
    """The held form of `array` as elements of a type: integers wrap, floats round to nearest.

    Raises ValueError for what is no number, or no integer where one is wanted."""
    if array.dtype.kind not in "biuf":
        raise ValueError("its elements are not real numbers")
    if element == I1:
        return np.ascontiguousarray(array != 0).reshape(array.shape)
    if element.is_int:
        if array.dtype.kind == "f":
            if not (np.isfinite(array) & (np.trunc(array) == array)).all():
                raise ValueError("its elements are not all integers")
            array = array.astype(np.int64)
        return np.ascontiguousarray(array.astype(register_dtype(element))).reshape(array.shape)
    with np.errstate(all="ignore"):
        exact = array if array.dtype.kind == "f" else array.astype(np.float64)
        rounded = np.asarray(round_to(element, exact))
    return np.ascontiguousarray(rounded).reshape(array.shape)


def grid_of(problem: Problem, kernel: str, tile: Mapping[int, int], names: Mapping[str, Any]
            ) -> tuple[int, ...]:
    """How many programs lie along each axis: the range divided by the tile, rounded up."""
    axes = max(tile, default=0) + 1
    if len(problem.range) < axes:
        at = problem.range[-1].span if problem.range else problem.span
        raise fail("problem-syntax", at, f"kernel '{kernel}' divides {axes} axes, but the "
                   f"range states {len(problem.range)}")
    grid = []
    for axis, expression in enumerate(problem.range):
        extent = integer(expression, names, f"the range of axis {axis}")
        if extent < 0:
            raise fail("problem-expression", expression.span, f"a range of {extent} is negative")
        count, most = -(-extent // tile.get(axis, 1)), MOST_PROGRAMS[min(axis, 2)]
        if count > most:
            raise fail("problem-expression", expression.span, f"a range of {extent} takes {count} "
                       f"programs along axis {axis}; a launch has at most {most} there")
        grid.append(count)
    return tuple(grid)


def _tables(problem: Problem, module: Module, names: Mapping[str, Any], seed: int
            ) -> dict[str, Array]:
    """The content of constant tables that `symbol:` lines state, rounded to their types."""
    tables: dict[str, Array] = {}
    known = {table.name: table for table in module.constants}
    for symbol in problem.symbols:
        table = known.get(symbol.name)
        if table is None:
            raise fail("problem-name", symbol.span, f"the source has no constant table "
                       f"'{symbol.name}'; known: {', '.join(known) or 'none'}")
        found = np.asarray(_evaluate(symbol, names, seed))
        try:
            held = round_array(table.element, found).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise fail("problem-expression", symbol.expression.span, str(error)) from None
        if held.size > table.count:
            raise fail("problem-expression", symbol.expression.span, f"table '{symbol.name}' has "
                       f"{table.count} elements, found {held.size}")
        tables[symbol.name] = np.zeros(table.count, held.dtype)
        tables[symbol.name][: held.size] = held
    return tables
