"""The function of a `reduce_with` or `scan_with`: how two groups of elements combine to one.

An attribute holds it as text, so that operations compare, print and parse as others do:

    f32 %a, f32 %b -> %c; %m = fmul %a, %a : f32; %c = fadd %m, %b : f32

Parameters, results, operations; before them the word `commutes`, if elements may change places and
that does not show in the operations any more.  Of k values that are combined there are 2 k
parameters, those of the elements before and then those of the elements behind, and k results.  The
operations are elementwise, on scalars; all that runs them (the interpreter, the emitter) does so
once for each pair of elements.

    >>> read("f32 %a, f32 %b -> %c; %c = fsub %a, %b : f32").commutative
    False
    >>> maximum = read("f32 %a, f32 %b -> %c; %c = fmax %b, %a : f32")
    >>> maximum.commutative, maximum.kinds
    (True, ('fmax',))
"""

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

from tritonc.ir.build import Builder
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.ops import OPS
from tritonc.ir.rules import REDUCTIONS
from tritonc.ir.types import I1, Scalar, element
from tritonc.records import cached_property, dataclass
from tritonc.source import CompileError, Diagnostics, SourceFile


@dataclass(eq=False)
class Combiner:
    """See the top."""

    parameters: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    commutes: bool = False  # said so
    _numbers: dict[object, int] = field(default_factory=dict)

    @property
    def values(self) -> int:
        return len(self.results)

    @cached_property
    def kinds(self) -> tuple[str, ...] | None:
        """The kinds of built-in reductions that combine each value on its own, if all are such."""
        k, found = self.values, []
        for at, result in enumerate(self.results):
            op = result.op
            pair = {self.parameters[at], self.parameters[k + at]}
            if op is None or op.name not in REDUCTIONS or set(op.operands) != pair \
                    or op.attributes.get("exact"):
                return None
            found.append(op.name)
        return tuple(found)

    @cached_property
    def commutative(self) -> bool:
        """Whether the elements behind may as well come before: both orders are the same sums,
        products and so on, but for the order of the operands of each."""
        if self.commutes:
            return True
        k = self.values
        swapped = (*self.parameters[k:], *self.parameters[:k])
        return self._shape(self.parameters) == self._shape(swapped)

    def _shape(self, parameters: Sequence[Value]) -> list[int]:
        """What the results are, if `parameters` stand for the parameters."""
        names: dict[Value, int] = {p: -1 - i for i, p in enumerate(parameters)}
        for op in self.ops:
            operands = [names[v] for v in op.operands]
            if OPS[op.name].commutative:
                operands.sort()
            attributes = {k: v for k, v in op.attributes.items() if k != "contract"}
            for at, result in enumerate(op.results):
                key = (op.name, repr(attributes), at, *operands)
                names[result] = self._numbers.setdefault(key, len(self._numbers))
        return [names[r] for r in self.results]


def write(parameters: Sequence[Value], ops: Sequence[Op], results: Sequence[Value],
          commutes: bool = False) -> str:
    """The text of a combiner."""
    from tritonc.ir.syntax.text import print_kernel  # few kernels have combiners

    block = Block("entry")
    block.ops = [*ops, Op("ret", [])]
    for at, value in enumerate([*parameters, *(r for op in ops for r in op.results)]):
        value.name = f"{'xy'[at * 2 >= len(parameters)]}{at}" if at < len(parameters) else f"v{at}"
    kernel = Kernel("f", list(parameters), [ParameterInfo() for _ in parameters], [block])
    lines = print_kernel(kernel).splitlines()
    head = ", ".join(f"{element(p.type)} %{p.name}" for p in parameters)
    names = ", ".join(f"%{r.name}" for r in results)
    word = "commutes " if commutes else ""
    return "; ".join([f"{word}{head} -> {names}", *(line.strip() for line in lines[2:-2])])


@lru_cache(256)
def with_presence(text: str) -> str:
    """The combiner that also takes, first, whether there are elements before and behind.

    Where one of both is missing, the other is the result."""
    inner = read(text)
    k = inner.values
    block = Block("entry")
    block.ops.extend(inner.ops)
    build = Builder(block)
    before, behind = Value(I1), Value(I1)
    both = build.value("and", before, behind)
    found = [build.value("or", before, behind)]
    for at, result in enumerate(inner.results):
        one = build.value("select", before, inner.parameters[at], inner.parameters[k + at])
        found.append(build.value("select", both, result, one))
    parameters = (before, *inner.parameters[:k], behind, *inner.parameters[k:])
    return write(parameters, block.ops, found, inner.commutes)


@lru_cache(256)
def read(text: str) -> Combiner:
    """The combiner of a text.  Raises ValueError if it is none."""
    from tritonc.ir.syntax.parse import parse_module  # it loads lark, which -E does without

    head, *lines = (part.strip() for part in text.split(";"))
    commutes = head.startswith("commutes ")
    parameters, _, results = head.removeprefix("commutes ").partition("->")
    source = "\n".join([f"kernel @f({parameters}) {{", "entry:", *lines, "ret", "}", ""])
    try:
        module = parse_module(SourceFile("combiner", source), Diagnostics())
    except CompileError as error:
        raise ValueError(f"no function combines like this: {text}") from error
    kernel = module.kernels[0]
    ops = kernel.entry.ops[:-1]
    values = {v.name: v for v in kernel.parameters}
    values.update((r.name, r) for op in ops for r in op.results)
    names = [name.strip().removeprefix("%") for name in results.split(",")]
    wrong = next((op for op in ops if not combines(op)), None)
    if wrong is not None or not all(name in values for name in names) or \
            [values[n].type for n in names * 2] != [p.type for p in kernel.parameters]:
        raise ValueError(f"no function combines like this: {text}")
    return Combiner(tuple(kernel.parameters), tuple(ops), tuple(values[n] for n in names), commutes)


def combines(op: Op) -> bool:
    """Whether the operation can be part of a combiner: it computes scalars of scalars."""
    row = OPS[op.name]
    return (row.meaning is not None and row.pure and (row.elementwise or not op.operands)
            and op.guard is None
            and all(isinstance(v.type, Scalar) for v in (*op.operands, *op.results)))
