"""What a problem's lines say for all sizes: polynomials for arguments, shapes and the range.

Sizes are symbols.  `where:` lines bound and relate them; a size that they leave open goes from 1 to
2**30, and arguments have fewer than 2**31 elements, what 32-bit indices reach, unless all sizes are
bounded above.  Of an argument that is an array there is a shape, as far as its expression tells
(`build`), and of integers between which bounds they lie: a kernel may use them as indices."""

import ast
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from math import lcm

from tritonc.analysis.linear import Linear, number, symbol
from tritonc.ir.core import Kernel, ParameterInfo, Value
from tritonc.ir.types import I64, is_float, is_pointer
from tritonc.problem.lines import Problem
from tritonc.prove.certificates import entails
from tritonc.records import dataclass
from tritonc.variants.choice import MOST_PROGRAMS

MOST = 1 << 30  # of a size that no line bounds
ELEMENTS = (1 << 31) - 1  # of an argument
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)
Branch = list[Linear]  # facts that hold together
Split = list[Branch]  # of which one holds


class Symbol(Value):
    """A number that nothing computes from others: a size, an index, what a table holds.

    `own`: each instance, element or iteration has its own."""

    __slots__ = ("own",)

    def __init__(self, name: str, own: bool = False) -> None:
        super().__init__(I64, name)
        self.own = own


@dataclass
class Array:
    """A pointer argument: how many bytes it has, in which a null says that it is not known why."""

    name: str
    count: Linear | None
    element_bytes: int
    pad: int = 0
    low: Linear | None = None  # bounds of its elements, if they are integers that nothing changes
    high: Linear | None = None


@dataclass
class Model:
    """See the top.  `range`: extents of the axes, None where not understood."""

    sizes: dict[str, Linear] = field(default_factory=dict)
    facts: list[Linear] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    numbers: dict[Value, Linear] = field(default_factory=dict)  # integer parameters
    arrays: dict[Value, Array] = field(default_factory=dict)
    range: list[Linear | None] = field(default_factory=list)
    limited: bool = False  # lines bound all sizes above
    names: dict[Hashable, Linear] = field(default_factory=dict)  # of sums of sizes
    sums: dict[Value, list[Linear]] = field(default_factory=dict)  # what holds of those

    def named(self, poly: Linear) -> Linear:
        """A symbol in place of a longer sum of sizes, so that its products stay short."""
        if len(poly.terms) < 3 or any(not isinstance(v, Symbol) or v.own for v in poly.values()):
            return poly
        place = poly.key
        if place not in self.names:
            own = Symbol("sum")
            self.names[place] = found = symbol(own)
            self.sums[own] = [found - poly, poly - found]
            self.sums[own] += [found - number(n) for n in (1, 0) if self.holds(poly - number(n))]
            self.facts += self.sums[own]
        return self.names[place]

    def holds(self, goal: Linear) -> bool:
        return entails(self.facts, goal)


Names = Callable[[str], "Linear | None"]


class Numbers:
    """Integer expressions of a problem as polynomials; quotients are symbols with facts."""

    def __init__(self, model: Model, names: Names) -> None:
        self.model = model
        self.names = names
        self.known: dict[str, Linear | None] = {}  # by text, so that one quotient is one symbol

    def of(self, node: ast.AST) -> Linear | None:
        text = ast.unparse(node)
        if text not in self.known:
            self.known[text] = None
            self.known[text] = self._of(node)
        return self.known[text]

    def _of(self, node: ast.AST) -> Linear | None:
        if isinstance(node, ast.Constant):
            value = node.value
            plain = isinstance(value, int) and not isinstance(value, bool)
            return number(int(value)) if plain else None  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return self.names(node.id)
        if isinstance(node, ast.UnaryOp):
            a = self.of(node.operand)
            if a is None or not isinstance(node.op, ast.USub | ast.UAdd):
                return None
            return a.scaled(-1) if isinstance(node.op, ast.USub) else a
        if isinstance(node, ast.BinOp):
            a, b = self.of(node.left), self.of(node.right)
            return None if a is None or b is None else self._binary(node.op, a, b)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            parts = [self.of(a) for a in node.args]
            if name in ("minimum", "maximum") and len(parts) == 2 and parts[0] and parts[1]:
                return self._extreme(parts[0], parts[1], 1 if name == "minimum" else -1)
        return None

    def _binary(self, op: ast.operator, a: Linear, b: Linear) -> Linear | None:
        if isinstance(op, ast.Add):
            return a + b
        if isinstance(op, ast.Sub):
            return a - b
        if isinstance(op, ast.Mult):
            return self.model.named(a) * self.model.named(b)
        if isinstance(op, ast.LShift) and b.constant is not None and 0 <= b.constant < 64:
            return a.scaled(1 << b.constant)
        if isinstance(op, ast.Pow) and a.constant is not None and b.constant is not None:
            return number(a.constant ** b.constant) if 0 <= b.constant < 64 else None
        if isinstance(op, ast.FloorDiv | ast.Mod) and self.model.holds(b - number(1)):
            b = self.model.named(b)
            quotient = a.divided(b)
            if quotient is None:
                quotient = symbol(Symbol("quotient"))
                rest = a - quotient * b
                self.model.facts += [rest, b - number(1) - rest]
                if self.model.holds(a):
                    self.model.facts.append(quotient)
            return quotient if isinstance(op, ast.FloorDiv) else a - quotient * b
        return None

    def _extreme(self, a: Linear, b: Linear, sign: int) -> Linear:
        found = symbol(Symbol("least" if sign > 0 else "greatest"))
        self.model.facts += [(a - found).scaled(sign), (b - found).scaled(sign)]
        self.model.splits.append([[(found - a).scaled(sign)], [(found - b).scaled(sign)]])
        return found


def sizes_of(problem: Problem, model: Model, fixed: Mapping[str, int],
             multiples: Mapping[str, ast.AST]) -> None:
    """Symbols for the problem's sizes, and what its `where:` lines say of them.

    `fixed` has what is a number all the time: macros and tunables; `multiples` what sizes are
    multiples of beside that."""
    given = {size.name: size for size in problem.sizes}
    divisors = _divisors(problem, set(given), multiples)
    bounded, open_above = set[str](), set(given)
    parts: list[tuple[Linear, Linear, Linear]] = []  # q, d and q * d of what is a multiple of d
    numbers = Numbers(model, lambda name: size(name))

    def size(name: str) -> Linear | None:
        if name in model.sizes:
            return model.sizes[name]
        if name not in given:
            return number(fixed[name]) if name in fixed else None
        expression = given[name].expression.node
        if any(isinstance(node, ast.Name) for node in ast.walk(expression)):
            found = numbers.of(expression)
            if found is not None:  # it follows from others
                model.sizes[name] = found
                open_above.discard(name)
                bounded.add(name)
                return found
        own = symbol(Symbol(name))
        model.sizes[name] = own  # to end circles
        factor = numbers.of(divisors[name]) if name in divisors else None
        if factor is not None and not any(v.name == name for v in factor.values()):
            own = symbol(Symbol(f"a part of {name}"))
            model.sizes[name] = own * factor
            parts.append((own, factor, model.sizes[name]))
        return model.sizes[name]

    for name in given:
        size(name)
    for line in problem.wheres:
        _compare(line.node, numbers, model, bounded, open_above)
    model.limited = bool(given) and not open_above
    for name in given:
        found = model.sizes[name]
        if name not in bounded:
            model.facts.append(found - number(1))
        if name in open_above:
            model.facts.append(number(MOST) - found)
    for own, factor, product in parts:
        if model.holds(factor - number(1)):
            model.facts += [own - number(n) for n in (1, 0) if model.holds(product - number(n))]


def _divisors(problem: Problem, given: set[str], multiples: Mapping[str, ast.AST]
              ) -> dict[str, ast.AST]:
    """`N % d == 0` of `where:` lines: d by N; of several numbers the least common multiple."""
    found = dict(multiples)
    for line in problem.wheres:
        node = line.node
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1
                and isinstance(node.ops[0], ast.Eq) and isinstance(node.left, ast.BinOp)
                and isinstance(node.left.op, ast.Mod) and isinstance(node.left.left, ast.Name)
                and isinstance(node.comparators[0], ast.Constant)
                and node.comparators[0].value == 0 and node.left.left.id in given):
            continue
        by, before = node.left.right, found.get(node.left.left.id)
        if isinstance(before, ast.Constant) and isinstance(by, ast.Constant):
            by = ast.Constant(lcm(before.value, by.value))  # type: ignore[arg-type]
        found[node.left.left.id] = by
    return found


def _compare(node: ast.AST, numbers: Numbers, model: Model, bounded: set[str],
             open_above: set[str]) -> None:
    """Add what one comparison of a `where:` line says; what is not understood adds nothing."""
    if not isinstance(node, ast.Compare):
        return
    left: ast.expr = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        a, b = numbers.of(left), numbers.of(right)
        low, high = left, right
        if isinstance(op, ast.Gt | ast.GtE):
            a, b, low, high = b, a, right, left
        if a is not None and b is not None and isinstance(op, _ORDER):
            strict = number(int(isinstance(op, ast.Lt | ast.Gt)))
            model.facts.append(b - a - strict)
            if isinstance(op, ast.Eq):
                model.facts.append(a - b)
            for side, other, above in ((low, b, True), (high, a, False), (high, a, True),
                                       (low, b, False))[:4 if isinstance(op, ast.Eq) else 2]:
                if isinstance(side, ast.Name) and other.constant is not None:
                    (open_above.discard if above else bounded.add)(side.id)
        left = right


def program_facts(model: Model, kernel: Kernel, axis: int, program: Linear) -> list[Linear]:
    """What holds of a program's index along an axis."""
    most = MOST_PROGRAMS[min(axis, 2)]
    facts = [program, number(most - 1) - program]
    extent = model.range[axis] if axis < len(model.range) else number(1)
    if extent is not None:
        facts.append(extent - number(1) - program.scaled(kernel.tile.get(axis, 1)))
    return facts


def promises(problem: Problem, kernel: Kernel) -> dict[str, ast.AST]:
    """Sizes that are passed to parameters of which a multiple is promised."""
    found: dict[str, ast.AST] = {}
    for argument, value, info in zip(problem.arguments, kernel.parameters, kernel.info,
                                     strict=True):
        node = argument.expression.node
        if is_integer(value) and info.multiple_of > 1 and isinstance(node, ast.Name):
            found[node.id] = ast.Constant(info.multiple_of)
    return found


def is_integer(value: Value) -> bool:
    """A parameter that is one."""
    return not is_pointer(value.type) and not is_float(value.type)


def promised(model: Model, value: Value, info: ParameterInfo) -> list[Linear]:
    """What a launch would refuse otherwise."""
    found = model.numbers[value]
    facts = [] if info.least is None else [found - number(info.least)]
    return facts if info.greatest is None else [*facts, number(info.greatest) - found]
