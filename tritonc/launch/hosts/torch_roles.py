"""What an operator of torch computes by itself, from the problem that a source states.

    //! range: M, N
    //! arg: a = randn(M, K)         a tensor of two dimensions, which say what M and K are
    //! arg: c = empty(M, N)         made by the operator; returned, because of the line `expect:`
    //! arg: M = M                   computed
    //! arg: alpha = 2.5             an argument of the operator
    //! expect: c = alpha * a @ b

Arrays of `zeros` are made so too, and filled; those that `clobber:` names are scratch memory.

Sizes come from, in this order: a dimension that is the size, or a multiple of it; the size's own
expression, if that has other sizes; a scalar parameter that is passed the size; else an argument of
the operator.  A kernel without a problem takes all its parameters, and the extents of the range."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from tritonc.problem.evaluate import Expression
from tritonc.problem.lines import Problem
from tritonc.problem.shapes import Shapes, called, is_numpy
from tritonc.records import dataclass
from tritonc.source import fail

_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


@dataclass
class Tensor:
    """A pointer of the kernel.  `shape` is None where the problem does not say it, and so is an
    extent that the operator cannot check."""

    row: Mapping[str, Any]
    shape: list[ast.expr | None] | None = None
    made: bool = False  # by the operator
    zeros: bool = False  # and filled with them
    returned: bool = False

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def changed(self) -> bool:
        return not self.made and self.row["access"] != "read"


@dataclass
class Roles:
    """The parameters of one kernel.

    `sizes` has each size that the operator computes, in an order that works, with its expression;
    `scalars` the expressions of computed parameters; `given` what is an argument of the operator
    and no tensor: parameters by their rows, and None for sizes and extents."""

    tensors: list[Tensor]
    range: list[ast.expr]
    sizes: list[tuple[str, ast.expr | tuple[str, int, int]]] = field(default_factory=list)
    scalars: dict[str, ast.expr] = field(default_factory=dict)
    given: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)

    def place_of(self, extent: ast.expr) -> object:
        """Where a size comes from."""
        return dict(self.sizes).get(extent.id) if isinstance(extent, ast.Name) else None


def roles_of(row: Mapping[str, Any], problem: Problem | None, constants: Mapping[str, int]
             ) -> Roles:
    """The roles for a kernel of the manifest; `constants` are its macros and tunables.

    Raises CompileError for a range that an operator cannot compute."""
    tensors = [Tensor(p) for p in row["parameters"] if "access" in p]
    scalars = {p["name"]: p for p in row["parameters"] if "access" not in p}
    if problem is None:
        extents = [f"range{axis}" for axis in range(len(row["tile"]))]
        return Roles(tensors, [ast.Name(name) for name in extents],
                     given={**scalars, **dict.fromkeys(extents)})
    lines = {argument.name: argument.expression for argument in problem.arguments}
    if [*lines] != [p["name"] for p in row["parameters"]]:
        raise fail("problem-name", problem.span, f"the problem's arguments are not the parameters "
                   f"of kernel '{row['name']}'")
    changed = {**dict.fromkeys((name for name, _ in problem.clobbers), False),
               **dict.fromkeys((expect.name for expect in problem.expects), True)}
    if len(problem.range) < len(row["tile"]):
        raise fail("problem-syntax", problem.span, f"kernel '{row['name']}' divides "
                   f"{len(row['tile'])} axes, but the range states {len(problem.range)}")
    numbers = {*constants, *(size.name for size in problem.sizes)}
    shapes = Shapes(lambda node: isinstance(node, ast.Name) and node.id in numbers)
    for tensor in tensors:
        node = lines[tensor.name].node
        shape = shapes.of(node)
        if shape and all(map(is_plain, shape)):
            function, receiver = called(node)
            plain = receiver is None or is_numpy(receiver)
            tensor.shape = [*shape]
            tensor.zeros = plain and function == "zeros"
            tensor.made = tensor.name in changed and (
                tensor.zeros or (plain and function == "empty"))
    if all(tensor.made for tensor in tensors):  # nothing would say on which device
        for tensor in tensors:
            tensor.made = False
    for tensor in tensors:
        tensor.returned = tensor.made and changed[tensor.name]
    found = Roles(tensors, [e.node for e in problem.range[: len(row["tile"])]])
    resolver = _Resolver(problem, lines, constants, found)
    resolver.sizes_of_dimensions()
    resolver.derived_sizes()
    for name, parameter in scalars.items():
        resolver.scalar(name, parameter)
    for expression in problem.range[: len(row["tile"])]:
        resolver.need(expression.node, expression)
    for tensor in tensors:
        for extent in filter(None, tensor.shape or ()):
            if tensor.made:
                resolver.need(extent, lines[tensor.name])
    for tensor in tensors:
        if tensor.shape is not None:
            tensor.shape = [e if e is not None and resolver.is_known(names_in(e)) else None
                            for e in tensor.shape]
    return found


def kind_of(row: Mapping[str, Any] | None) -> str:
    """The C++ type of a number among the operator's arguments; None is a size."""
    kind = row["type"] if row is not None else "int"
    if kind == "bool":
        return "bool"
    return "double" if "float" in kind or kind in ("double", "half") else "Int"


class _Resolver:
    """Finds where sizes come from, and adds to `roles` what the operator computes or takes."""

    def __init__(self, problem: Problem, lines: Mapping[str, Expression],
                 constants: Mapping[str, int], roles: Roles) -> None:
        self.lines, self.constants, self.roles = lines, constants, roles
        self.expressions = {size.name: size.expression.node for size in problem.sizes}
        self.known: set[str] = set()

    def sizes_of_dimensions(self) -> None:
        """Of plain dimensions first, then of multiples."""
        places = [(tensor.name, axis, extent) for tensor in self.roles.tensors if not tensor.made
                  for axis, extent in enumerate(tensor.shape or ()) if extent is not None]
        for plain in (True, False):
            for name, axis, extent in places:
                size, factor = self._multiple(extent)
                if size in self.expressions and size not in self.known and (factor == 1) == plain:
                    self.roles.sizes.append((size, (name, axis, factor)))
                    self.known.add(size)

    def _multiple(self, node: ast.expr) -> tuple[str, int]:
        """The size of which an extent is a multiple, and the factor; "" if it is of none."""
        if isinstance(node, ast.Name):
            return node.id, 1
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, ast.Name) and (factor := self._constant(other)) > 0:
                    return one.id, factor
        return "", 1

    def _constant(self, node: ast.expr) -> int:
        if isinstance(node, ast.Name):
            return self.constants.get(node.id, 0) if node.id not in self.expressions else 0
        value = node.value if isinstance(node, ast.Constant) else 0
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def derived_sizes(self) -> None:
        """Sizes that follow from others, all of which are known."""
        for size, node in self.expressions.items():
            names = names_in(node)
            if (size not in self.known and names & {*self.expressions} and is_plain(node)
                    and self.is_known(names)):
                self.roles.sizes.append((size, node))
                self.known.add(size)

    def is_known(self, names: Iterable[str]) -> bool:
        return all(name in self.known or (name in self.constants and name not in self.expressions)
                   for name in names)

    def scalar(self, name: str, row: Mapping[str, Any]) -> None:
        """Compute an integer that follows from known sizes; everything else is an argument."""
        node = self.lines[name].node
        names = names_in(node)
        self.roles.given[name] = row
        if kind_of(row) != "Int":
            if name in self.expressions:
                raise fail("problem-name", self.lines[name].span, f"'{name}' is a size too, and "
                           f"the parameter is of type {row['type']}")
            return
        if names and self.is_known(names) and is_plain(node):
            self.roles.scalars[name] = node
            del self.roles.given[name]
            return
        if isinstance(node, ast.Name) and node.id in self.expressions and node.id not in self.known:
            if node.id != name:
                self.roles.sizes.append((node.id, ast.Name(name)))
            self.known.add(node.id)
            self.derived_sizes()

    def need(self, node: ast.expr, line: Expression) -> None:
        """What the operator has to compute: sizes that are not known become arguments."""
        if not is_plain(node):
            raise fail("problem-expression", line.span_of(node), "an operator of torch computes "
                       "sizes with + - * // % << >> of integers and names, and with nothing else")
        for name in sorted(names_in(node) - self.known):
            if name in self.expressions:
                self.roles.given[name] = None
                self.known.add(name)
            elif not self.is_known([name]) and name not in {**self.roles.given,
                                                            **self.roles.scalars}:
                raise fail("problem-expression", line.span, f"'{name}' is neither a size nor a "
                           "number that the operator knows")


def names_in(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def is_plain(node: ast.AST) -> bool:
    """Whether `text` can write the expression."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and abs(node.value) < 1 << 63
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and is_plain(node.operand)
    if isinstance(node, ast.BinOp):
        shifts = isinstance(node.op, ast.LShift | ast.RShift)
        if shifts and not (isinstance(node.right, ast.Constant) and 0 <= _of(node.right) < 63):
            return False
        return (shifts or isinstance(node.op, ast.FloorDiv | ast.Mod | ast.Add | ast.Sub | ast.Mult)
                ) and is_plain(node.left) and is_plain(node.right)
    return isinstance(node, ast.Name)


def _of(node: ast.Constant) -> int:
    return int(node.value) if isinstance(node.value, int) else -1


def text(node: ast.expr, names: Mapping[str, str]) -> str:
    """The C++ of a plain expression, of type Int; `names` has that of each name.

    >>> text(ast.parse("-(-K // 128)", mode="eval").body, {"K": "v_K"})
    '(-tritonc_floor((-v_K), Int(128)))'
    """
    if isinstance(node, ast.Constant):
        return f"Int({_of(node)})"
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = text(node.operand, names)
        return f"(-{operand})" if isinstance(node.op, ast.USub) else operand
    assert isinstance(node, ast.BinOp)
    left, right = text(node.left, names), text(node.right, names)
    if isinstance(node.op, ast.LShift | ast.RShift):
        assert isinstance(node.right, ast.Constant)
        power = f"Int({1 << _of(node.right)})"
        return f"({left} * {power})" if isinstance(node.op, ast.LShift) else (
            f"tritonc_floor({left}, {power})")
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        function = "floor" if isinstance(node.op, ast.FloorDiv) else "modulo"
        return f"tritonc_{function}({left}, {right})"
    return f"({left} {_ARITHMETIC[type(node.op)]} {right})"
