"""Writing helper functions in LLVM IR as expressions.

A `Term` is an SSA value that Python's operators combine; each operator appends an instruction to
the function's `Body`.  Comparisons of floats are ordered, of integers signed; `>>` shifts zeros in;
a Python number beside a term takes its type.

    >>> body = Body(None, ("float", "float"))
    >>> x, y = body.parameters
    >>> body.give(x * y + 1.0)
    >>> print(body.text("f", "float", True))
    define internal float @f(float %a0, float %a1) #4 {
    start:
      %v0 = fmul float %a0, %a1
      %v1 = fadd float %v0, 0x3FF0000000000000
      ret float %v1
    }
    <BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tritonc.backend.emit.literals import SUFFIX, float_literal
from tritonc.backend.emit.module import ModuleEmitter
from tritonc.ir.numeric.numbers import round_to
from tritonc.ir.types import F32
from tritonc.records import dataclass

FLOATS = ("half", "bfloat", "float", "double")
_WIDTH = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def _operator(integer: str, real: str, swap: bool = False) -> Callable[[Term, Operand], Term]:
    """What Python's operator means for integers and for floats; `swap`: the term comes second."""
    def apply(self: Term, other: Operand) -> Term:
        b = self.body.term(other, self.type)
        left, right = (b, self) if swap else (self, b)
        name = real if self.type in FLOATS else integer
        return self.body.make(f"{name} {self.type} {left.name}, {right.name}", self.type)

    return apply


def _comparison(integer: str, ordered: str) -> Callable[[Term, Operand], Term]:
    return lambda self, other: self.compare(integer, ordered, other)


@dataclass(frozen=True, eq=False)
class Term:
    body: Body
    name: str
    type: str

    __add__, __radd__ = _operator("add", "fadd"), _operator("add", "fadd", swap=True)
    __sub__, __rsub__ = _operator("sub", "fsub"), _operator("sub", "fsub", swap=True)
    __mul__, __rmul__ = _operator("mul", "fmul"), _operator("mul", "fmul", swap=True)
    __truediv__, __rtruediv__ = _operator("sdiv", "fdiv"), _operator("sdiv", "fdiv", swap=True)
    __and__, __or__ = _operator("and", "and"), _operator("or", "or")
    __lshift__, __rshift__ = _operator("shl", "shl"), _operator("lshr", "lshr")
    __lt__, __le__ = _comparison("slt", "olt"), _comparison("sle", "ole")
    __gt__, __ge__ = _comparison("sgt", "ogt"), _comparison("sge", "oge")
    equals, differs = _comparison("eq", "oeq"), _comparison("ne", "une")

    def __neg__(self) -> Term:
        if self.type in FLOATS:
            return self.body.make(f"fneg {self.type} {self.name}", self.type)
        return 0 - self

    def compare(self, integer: str, ordered: str, other: Operand) -> Term:
        b = self.body.term(other, self.type)
        op = f"fcmp {ordered}" if self.type in FLOATS else f"icmp {integer}"
        return self.body.make(f"{op} {self.type} {self.name}, {b.name}", "i1")

    def is_nan(self) -> Term:
        return self.compare("", "uno", 0.0)

    def shift_right_signed(self, count: int) -> Term:
        return self.body.make(f"ashr {self.type} {self.name}, {count}", self.type)

    def cast(self, op: str, to: str) -> Term:
        """An LLVM conversion: zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, bitcast."""
        return self.body.make(f"{op} {self.type} {self.name} to {to}", to)

    def bits(self) -> Term:
        return self.cast("bitcast", f"i{_WIDTH[self.type]}")

    def as_float(self) -> Term:
        return self.cast("bitcast", "float" if self.type == "i32" else "double")


Operand = Term | int | float


class Body:
    """The instructions of a helper function in the making."""

    def __init__(self, module: ModuleEmitter | None, parameters: Sequence[str]) -> None:
        self.module = module
        self.parameters = [Term(self, f"%a{i}", t) for i, t in enumerate(parameters)]
        self.lines: list[str] = ["start:"]
        self.label = "start"  # the block being written
        self._count = 0

    def term(self, value: Operand, type: str) -> Term:
        """A number as a constant of `type`, rounded to it; a term as it is."""
        if isinstance(value, Term):
            return value
        if type == "float":
            value = round_to(F32, value)
        text = float_literal(value) if type in ("float", "double") else str(int(value))
        return Term(self, text, type)

    def make(self, text: str, type: str) -> Term:
        name = f"%v{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {text}")
        return Term(self, name, type)

    def call(self, name: str, type: str, *arguments: Term) -> Term:
        if self.module is not None:
            self.module.declare(name, f"{type} ({', '.join(a.type for a in arguments)})")
        return self._call(name, type, arguments)

    def call_helper(self, name: str, type: str, *arguments: Term) -> Term:
        return self._call(name, type, arguments)

    def _call(self, name: str, type: str, arguments: Sequence[Term]) -> Term:
        given = ", ".join(f"{a.type} {a.name}" for a in arguments)
        return self.make(f"call {type} @{name}({given})", type)

    def intrinsic(self, name: str, *arguments: Term) -> Term:
        """Call an `llvm.NAME.TYPE` that is overloaded on its arguments' one type."""
        t = arguments[0].type
        return self.call(f"llvm.{name}.{SUFFIX.get(t, t)}", t, *arguments)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Term:
        """a * b + c, rounded once; one of the three is a term."""
        t = next(v.type for v in (a, b, c) if isinstance(v, Term))
        return self.intrinsic("fma", *(self.term(v, t) for v in (a, b, c)))

    def polynomial(self, x: Term, coefficients: Sequence[float]) -> Term:
        """Horner's rule; the coefficient of the highest power comes first."""
        total = self.term(coefficients[0], x.type)
        for c in coefficients[1:]:
            total = self.fma(total, x, c)
        return total

    def abs(self, x: Term) -> Term:
        return self.intrinsic("fabs", x)

    def copy_sign(self, magnitude: Term, sign: Term) -> Term:
        return self.intrinsic("copysign", magnitude, sign)

    def select(self, condition: Term, a: Operand, b: Operand) -> Term:
        t = next(v.type for v in (a, b) if isinstance(v, Term))
        x, y = self.term(a, t), self.term(b, t)
        return self.make(f"select i1 {condition.name}, {t} {x.name}, {t} {y.name}", t)

    def block(self, label: str) -> None:
        """Go on in a new block; the branch to it has been written."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: Term, then: str, otherwise: str) -> None:
        self.lines.append(f"  br i1 {condition.name}, label %{then}, label %{otherwise}")

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def phi(self, *incoming: tuple[Term, str]) -> Term:
        t = incoming[0][0].type
        pairs = ", ".join(f"[ {value.name}, %{label} ]" for value, label in incoming)
        return self.make(f"phi {t} {pairs}", t)

    def give(self, value: Term) -> None:
        self.lines.append(f"  ret {value.type} {value.name}")

    def give_pair(self, a: Term, b: Term) -> None:
        pair = f"{{ {a.type}, {b.type} }}"
        first = self.make(f"insertvalue {pair} poison, {a.type} {a.name}, 0", pair)
        self.give(self.make(f"insertvalue {pair} {first.name}, {b.type} {b.name}, 1", pair))

    def text(self, name: str, result: str, inline: bool) -> str:
        parameters = ", ".join(f"{p.type} {p.name}" for p in self.parameters)
        attributes = "#4" if inline else "#5"
        lines = "\n".join(self.lines)
        return f"define internal {result} @{name}({parameters}) {attributes} {{\n{lines}\n}}\n"


HelperBuilder = Callable[[Body], None]


def helper_function(module: ModuleEmitter, name: str, result: str, parameters: tuple[str, ...],
                    build: HelperBuilder, inline: bool = True) -> str:
    """The name of a helper function of a module, which `build` writes on first use."""
    def text(full_name: str) -> str:
        body = Body(module, parameters)
        build(body)
        return body.text(full_name, result, inline)

    return module.define_helper(name, text)
