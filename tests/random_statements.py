"""Random well-defined programs of Triton-C: statements, and the file around them.

Every store goes to places of its own, so that no order of instances or of a tile's elements
matters; variables have a value from the start; loops end.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from random_expressions import ROOM, Function, Scope, Shape, Variable
from random_predicates import Predicates

# Inputs: declaration of the parameter, its data.  Every index below ROOM is inside.
INPUTS = {
    "ia": ("const int* ia", f"randint(-2**31, 2**31, {ROOM})"),
    "ib": ("const int* ib", f"randint(-9, 9, {ROOM})"),
    "la": ("const long* la", f"randint(-2**62, 2**62, {ROOM})"),
    "ca": ("const char* ca", f"randint(-128, 128, {ROOM})"),
    "ua": ("const unsigned short* ua", f"randint(0, 65536, {ROOM})"),
    "fa": ("const float* fa", f"randn({ROOM}) * 10"),
    "da": ("const double* da", f"randn({ROOM})"),
    "ha": ("const half* ha", f"randn({ROOM})"),
    "ba": ("const bfloat16* ba", f"randn({ROOM})"),
    # of small integers, for products
    "hm": ("const half* hm", "randint(-4, 5, 8192)"),
    "cm": ("const char* cm", "randint(-4, 5, 8192)"),
    "fm": ("const float* fm", "randint(-4, 5, 8192)"),
}
# An input for products, the type of the operands, of the result, and where that is stored.
PRODUCTS = (("hm", "half", "float", "of"), ("hm", "bfloat16", "float", "of"),
            ("cm", "char", "int", "oi"), ("fm", "float", "float", "of"),
            ("fm", "tf32", "float", "of"), ("fm", "double", "double", "od"))
# Outputs: an element type each; every store has places of its own.
OUTPUTS = {"oi": "int", "ol": "long", "oc": "unsigned char", "of": "float", "od": "double",
           "oh": "half", "rough": "float"}
COUNTERS = 16
# Functions of two numbers, for reductions and scans; both orders need not be the same.
COMBINING = ("mixed", "latter", "most")
LIBRARY = """\
struct pair { int a; float b; };
struct nest { pair inner; int k; };
struct best { int value, place; };
struct affine { int factor, add; };

int mixed(int a, int b) { return a + b + (a & b) * 0; }
int latter(int a, int b) { return b; }
int most(int a, int b) { return a > b ? a : b; }
best better(best a, best b) {
  return b.value > a.value || b.value == a.value && b.place < a.place ? b : a;
}
affine after(affine a, affine b) { return {a.factor * b.factor, a.add * b.factor + b.add}; }
pair[N] turned(pair p[N]) { return {p.a * 3 + N, -p.b}; }
auto fetched(auto p, auto k) { return *(p + k); }
auto parted(auto a, auto b) { return a / b; }
auto same(auto x) { auto y = x; return y; }
"""


class Generator(Predicates):
    """Grows one program.  `text()` is the file."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(f"program {seed}"))
        self.instances = self.rng.choice((1, 1, 2, 3))
        self.s = self.rng.randint(-5, 9)  # the argument
        self.slots = dict.fromkeys(OUTPUTS, 0)
        self.scratch = 0
        self.definitions: list[str] = []
        self.budget = 0
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.define_function()
        self.budget = self.rng.randint(6, 26)
        self.body = self.kernel_body()

    def kernel_body(self) -> list[str]:
        scope = Scope([Variable("pid", "int", (), False), Variable("s", "int", (), False),
                       Variable("z", "float", (), False), Variable("r", "int", (self.t,), False)])
        lines = self.statements(scope, self.rng.randint(4, 9))
        for variable in scope.variables[4:][-8:]:
            lines.append(self.store(scope, variable.name, variable.kind, variable.shape))
        return lines

    def statements(self, scope: Scope, count: int) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            if self.budget <= 0:
                break
            self.budget -= 1
            lines += self.statement(scope)
        return lines

    def statement(self, scope: Scope) -> list[str]:
        deep = scope.depth >= 3
        choices: list[tuple[float, Callable[[Scope], list[str]]]] = [
            (5, self.declare), (4, self.assign), (2, self.output), (0 if deep else 2, self.branch),
            (0 if deep else 2, self.loop), (0 if deep else 2.5, self.predicated),
            (1, self.masked_load), (0.8, self.lines), (0.8, self.crossed), (1, self.memory),
            (1, self.count),
            (0.7, self.leave), (0.4, self.product_loop), (0.8, self.assume), (0.7, self.pair),
            (0.6, self.combined)]
        weights, makers = zip(*choices, strict=True)
        return self.rng.choices(makers, weights)[0](scope)

    def declare(self, scope: Scope) -> list[str]:
        kind, shape = self.kind(), self.shape()
        value = self.expression(scope, kind, shape)
        if shape and self.chance(0.1):
            value = self.other(scope, kind, shape, 2)
        name, t = self.name("v"), self.type_of(kind)
        scope.variables.append(Variable(name, kind, shape))
        return [f"{t} {name}{self.spell(shape)} = {value};"]

    def targets(self, scope: Scope) -> list[Variable]:
        """Variables that may be assigned here."""
        found = [v for v in scope.variables if v.assignable]
        if scope.mask is None:
            return found
        inside = scope.variables[scope.locals:]
        return [v for v in found if v.shape == scope.mask.shape
                or (v in inside and not v.shape)]

    def assign(self, scope: Scope) -> list[str]:
        found = self.targets(scope)
        if not found:
            return self.declare(scope)
        v = self.rng.choice(found[-8:])
        shape = v.shape if self.chance(0.7) else self.rng.choice(self.narrower(v.shape))
        if v.kind == "int" and self.chance(0.4):
            if self.chance(0.2) and not (scope.mask and not v.shape):
                return [self.rng.choice((f"{v.name}++;", f"--{v.name};"))]
            operator = self.rng.choice(("+=", "-=", "*=", "^=", "&=", "|="))
            return [f"{v.name} {operator} {self.expression(scope, 'int', shape, 2)};"]
        if v.kind == "float" and self.chance(0.3):
            operator = self.rng.choice(("+=", "-=", "*="))
            return [f"{v.name} {operator} {self.expression(scope, 'float', shape, 2)};"]
        return [f"{v.name} = {self.expression(scope, v.kind, shape)};"]

    def output(self, scope: Scope) -> list[str]:
        """A store in the middle."""
        if scope.callee is not None:
            return self.assign(scope)
        shape = scope.mask.shape if scope.mask else self.shape()
        kind = self.kind()
        value = self.expression(scope, kind, shape)
        return [self.store(scope, value, kind, shape)]

    def store(self, scope: Scope, value: str, kind: str, shape: Shape) -> str:
        """A store of an expression to places of its own; sometimes of what is rough of it."""
        if kind == "float" and scope.mask is None and self.chance(0.15):
            name = "rough"
            function = self.rng.choice(("exp", "exp2", "sin", "cos", "tanh", "erf"))
            value = f"{function}(clamp((float)({value}), -4.0f, 4.0f))"
            if shape == (self.t,) and self.chance(0.5):
                value, shape = f"({value})[+]", ()
        else:
            name = self.rng.choice(("of", "od", "oh") if kind == "float" else ("oi", "ol", "oc"))
        slot = self.slots[name]
        self.slots[name] += math.prod(shape)
        pointer = f"{name} + at_{name} + {slot}"
        if shape:
            pointer += f" + {self.index(shape)}"
        if shape and scope.mask is None and self.chance(0.25):
            condition = self.expression(scope, "bool", shape, 2)
            if self.chance(0.3):
                return f"*?({condition}) ({pointer}) = {value};"
            return f"@({condition}) *({pointer}) = {value};"
        if self.chance(0.2):
            return f"{name}[{pointer.partition(' + ')[2]}] = {value};"
        return f"*({pointer}) = {value};"

    def block(self, scope: Scope, count: int) -> list[str]:
        return ["{", *("  " + line for line in self.statements(scope, count)), "}"]

    def branch(self, scope: Scope) -> list[str]:
        condition = self.expression(scope, "bool", (), 2)
        lines = [f"if ({condition}) {{", *self.block(scope.inner(), 3)[1:]]
        if self.chance(0.5):
            lines = [*lines[:-1], "} else {", *self.block(scope.inner(), 3)[1:]]
        return lines

    def loop(self, scope: Scope) -> list[str]:
        i = self.name("i")
        trips = self.rng.choice("0 1 2 3 4".split() + ["(s & 3)"] * (scope.callee is None))
        inner = scope.inner(loops=1, repeated=scope.repeated * 4)
        if scope.mask is not None:
            inner.loops = 0 if scope.loops == 0 else 1
        inner.variables.append(Variable(i, "int", (), False))
        if inner.repeated > 64:
            return self.assign(scope)
        way = self.rng.randrange(7)
        if way == 4:  # `continue` would skip the test in the middle
            inner.loops = 0
        body = self.block(inner, 3)[1:-1]
        if way == 4:
            more = self.block(inner, 2)[1:-1]
            return ["{", f"  int {i} = 0;", "  for (;;) {", f"    {i}++;",
                    *("  " + line for line in body), f"    if ({i} >= {trips}) break;",
                    *("  " + line for line in more), "  }", "}"]
        if way == 5:  # tested at both ends
            limit = self.rng.choice(("s", "3", "(s & 7)")) if scope.callee is None else "2"
            return [f"for (int {i} = 0; {i} < {trips}; {i}++) {{", *body,
                    f"  if ({i} + 1 >= {limit}) break;", "}"]
        if way == 6:  # a flag
            go = self.name("go")
            start = self.rng.choice((f"{trips} > 0", "true"))
            return ["{", f"  int {i} = 0;", f"  bool {go} = {start};", f"  while ({go}) {{",
                    f"    {i}++; {go} = {i} < {trips};", *("  " + line for line in body), "  }",
                    "}"]
        if way < 2:
            step = self.rng.choice((f"{i}++", f"{i} += 1", f"++{i}"))
            return [f"for (int {i} = 0; {i} < {trips}; {step}) {{", *body, "}"]
        # The step stands first, so that `continue` does not skip it.
        if way == 2:
            return ["{", f"  int {i} = 0;", f"  while ({i} < {trips}) {{", f"    {i}++;",
                    *("  " + line for line in body), "  }", "}"]
        return ["{", f"  int {i} = 0;", "  do {", f"    {i}++;", *("  " + line for line in body),
                f"  }} while ({i} < {trips});", "}"]

    def predicated(self, scope: Scope) -> list[str]:
        """Statements under a tile predicate."""
        if scope.mask is None:
            shape = self.rng.choice(((self.t,), (self.t,), (self.m, self.n), (self.n,)))
        else:
            shape = scope.mask.shape
        name = self.name("p")
        lines = [f"bool {name}{self.spell(shape)} = {self.expression(scope, 'bool', shape, 2)};"]
        mask = Variable(name, "bool", shape, False)
        scope.variables.append(mask)
        inner = scope.inner(mask=mask, locals=len(scope.variables), loops=0)
        if self.chance(0.3) and any(v.shape == shape for v in self.targets(inner)):
            (statement,) = self.assign_tile(inner, shape)
            return [*lines, f"@{name} {statement}"]
        if self.chance(0.4):
            return [*lines, f"@{name} {{", *self.block(inner, 3)[1:]]
        lines += [f"if ({name}) {{", *self.block(inner, 3)[1:]]
        if self.chance(0.5):
            inner = scope.inner(mask=mask, locals=len(scope.variables), loops=0)
            lines = [*lines[:-1], "} else {", *self.block(inner, 3)[1:]]
        return lines

    def assign_tile(self, scope: Scope, shape: Shape) -> list[str]:
        v = self.rng.choice([v for v in self.targets(scope) if v.shape == shape])
        return [f"{v.name} = {self.expression(scope, v.kind, shape)};"]

    def pair(self, scope: Scope) -> list[str]:
        """A struct of tiles: its members are read and assigned, it is chosen, copied, and goes
        through a generic function."""
        shape, extents = (self.t,), f"[{self.t}]"
        if scope.mask is not None and scope.mask.shape != shape:
            return self.declare(scope)
        p, q, v = (self.name(letter) for letter in "pqv")
        a = self.expression(scope, "int", shape, 2)
        b = self.expression(scope, "float", shape, 2)
        lines = [f"pair {p}{extents} = {{{a}, {b}}};"]
        way = self.rng.randrange(5)
        if way == 4:
            lines += [f"nest {q}{extents} = {{{p}, {self.expression(scope, 'int', shape, 1)}}};",
                      f"{q}.inner.a {self.rng.choice(('=', '-=', '|='))} {q}.k;",
                      f"{q} = {self.expression(scope, 'bool', shape, 1)} ? {q} : "
                      f"(nest{extents}){{{{3, 0.5f}}, {p}.a}};",
                      f"int {v}{extents} = {q}.inner.a ^ {q}.k;"]
        elif way == 0:
            lines += [f"{p}.a {self.rng.choice(('=', '+=', '^='))} "
                      f"{self.expression(scope, 'int', shape, 1)};", f"int {v}{extents} = {p}.a;"]
        elif way == 1:
            condition = self.expression(scope, "bool", shape, 1)
            lines += [f"pair {q}{extents} = {{{self.expression(scope, 'int', shape, 1)}, 1.5f}};",
                      f"{q} = {condition} ? {p} : {q};", f"float {v}{extents} = {q}.b;"]
        elif way == 2:
            lines += [f"pair {q}{extents} = turned({p});", f"int {v}{extents} = {q}.a;"]
        else:
            lines += [f"auto {q} = same({p}.{self.rng.choice('ab')});",
                      f"float {v}{extents} = (float){q};"]
        kind = "int" if lines[-1].startswith("int") else "float"
        scope.variables.append(Variable(v, kind, shape))
        return lines

    def combined(self, scope: Scope) -> list[str]:
        """A reduction or a scan by a function of the program."""
        if scope.mask is not None:
            return self.declare(scope)
        m, n = self.m, self.n
        a = f"(int)({self.expression(scope, 'int', (m, n), 2)})"
        v, way = self.name("v"), self.rng.randrange(4)
        axis = self.rng.randrange(2)
        left = n if axis == 0 else m
        if way == 0:
            scope.variables.append(Variable(v, "int", (left,)))
            return [f"int {v}[{left}] = reduce({a}, {axis}, {self.rng.choice(COMBINING)});"]
        if way == 1:
            scope.variables.append(Variable(v, "int", (m, n)))
            return [f"int {v}[{m}, {n}] = scan({a}, {axis}, {self.rng.choice(COMBINING)});"]
        places = f"({self.index((m, n))})"
        if way == 2:
            scope.variables.append(Variable(v, "int", (left,)))
            return [f"int {v}[{left}] = reduce((best[{m}, {n}]){{{a}, {places}}}, {axis}, better)"
                    ".place;"]
        scope.variables.append(Variable(v, "int", (m, n)))
        return [f"int {v}[{m}, {n}] = scan((affine[{m}, {n}]){{{a}, {places}}}, {axis}, after)"
                ".add;"]

    def memory(self, scope: Scope) -> list[str]:
        """Writes a tile to memory and reads it in another order."""
        if scope.callee is not None or scope.mask is not None:
            return self.declare(scope)
        kind, shape = self.rng.choice(("int", "float")), self.rng.choice(((self.t,), (self.m,)))
        area = "wi" if kind == "int" else "wf"
        size, name = shape[0], self.name("v")
        start = f"{area} + at_w + {self.scratch}"
        self.scratch += size
        value = self.expression(scope, kind, shape, 2)
        lines = [f"*({start} + (0 ... {size})) = {value};"]
        if self.chance(0.3):
            lines[0] = f"@({self.expression(scope, 'bool', shape, 2)}) {lines[0]}"
        if self.chance(0.3):
            lines.append("__debug_barrier();")
        order = self.rng.choice((f"({size - 1} - (0 ... {size}))", f"((0 ... {size}) / 2)",
                                 f"((0 ... {size}) ^ 1) % {size}", f"(0 ... {size})"))
        t = "int" if kind == "int" else "float"
        if kind == "int" and self.chance(0.3):
            old, operation = self.name("v"), self.rng.choice(("add", "min", "xchg", "and"))
            other = self.expression(scope, "int", (size,), 1)
            lines.append(f"int {old}[{size}] = atomic_{operation}({start} + (0 ... {size}), "
                         f"(int)({other}));")
            scope.variables.append(Variable(old, "int", shape))
        lines.append(f"{t} {name}{self.spell(shape)} = *({start} + {order});")
        scope.variables.append(Variable(name, kind, shape))
        return lines

    def product_loop(self, scope: Scope) -> list[str]:
        """A matrix product over a loop, of operands in memory: what is staged and pipelined."""
        if scope.callee is not None or scope.mask is not None or scope.repeated > 4:
            return self.declare(scope)
        rng = self.rng
        array, operand, result, out = rng.choice(PRODUCTS)
        m, n = (rng.choice((16, 32, 32, 64, 12)) for _ in range(2))
        k = rng.choice((8, 16, 16, 32, 32, 24))
        depth = rng.choice((0, k, 2 * k, 3 * k, 3 * k - 5))
        i, j, q, step, a, b, acc = (self.name(letter) for letter in "ijqsabc")
        # Pointers that move with the loop, or are computed in each iteration.
        moving, at = self.chance(0.4), f"({q} + {step})"
        if moving:
            at = q
        by_row, by_column = self.chance(0.5), self.chance(0.5)
        left = (f"{array} + {i}[:, newaxis] * 64 + {at}" if by_row else
                f"{array} + {i}[:, newaxis] + {at} * 64")
        right = (f"{array} + {at}[:, newaxis] * 64 + {j}" if by_column else
                 f"{array} + {at}[:, newaxis] + {j} * 64")
        before, after = [], []
        if moving:
            kind = {"hm": "half", "cm": "char", "fm": "float"}[array]
            pa, pb = self.name("p"), self.name("p")
            before = [f"  const {kind}* {pa}[{m}, {k}] = {left};",
                      f"  const {kind}* {pb}[{k}, {n}] = {right};"]
            after = [f"    {pa} += {k if by_row else 64 * k};",
                     f"    {pb} += {64 * k if by_column else k};"]
            left, right = pa, pb
        inside_a, inside_b = f"{q} + {step} < {depth}", f"({q} + {step} < {depth})[:, newaxis]"
        if self.chance(0.3):
            inside_a += f" && ({i} < {m - 3})[:, newaxis]"
            inside_b += f" && {j} < {n - 2}"
        update = f"{acc} = dot({a}, {b}, {acc});" if self.chance(0.5) else f"{acc} += {a} @ {b};"
        value, slot = acc, self.slots[out]
        if self.chance(0.3):
            value = f"{acc} * 2 + {self.leaf(scope, 'int', ())} % 8"
        self.slots[out] += m * n
        target = f"{out} + at_{out} + {slot} + {self.index((m, n))}"
        steps = [
            f"  {operand} {a}[{m}, {k}] = {inside_a} ? *({left}) : 0;",
            f"  {operand} {b}[{k}, {n}] = {inside_b} ? *({right}) : 0;", f"  {update}"]
        full = [line.replace(f"{q} + {step} < {depth}", f"{q} >= 0") for line in steps]
        if self.chance(0.1):
            steps.insert(2, f"  if (*(ia + ({step} & 63)) < 0) break;")
        after = [line[2:] for line in after]
        return [
            "{", f"  int {i}[{m}] = 0 ... {m}, {j}[{n}] = 0 ... {n}, {q}[{k}] = 0 ... {k};",
            *before, f"  {result} {acc}[{m}, {n}] = {rng.choice(('0', '1', 's & 7'))};",
            *("  " + line for line in self.counted(step, depth, k, steps, full, after)),
            f"  *({target}) = {value};", "}"]

    def counted(self, i: str, depth: int, by: int, body: list[str], full: list[str],
                after: list[str]) -> list[str]:
        """A loop over `i` from 0 to `depth` by `by`, written in one of many ways; `full` is its
        body for whole tiles."""
        count = -(-depth // by)
        step, stop = f"  {i} += {by};", f"  if ({i} >= {depth}) break;"
        ways = [
            [f"for (int {i} = 0; {i} < {depth}; {i} += {by}) {{", *body, *after, "}"],
            [f"int {i} = 0; do {{", *body, *after, step, f"}} while ({i} < {depth});"],
            [f"int {i} = 0; for (;;) {{", stop, *body, *after, step, "}"],
            [f"int {i} = 0; while (1) {{", *body, step, *after, stop, "}"],
            [f"int {i} = 0; while (1) {{", *body, step, stop, *after, "}"],
            [f"int {i} = 0; while (1) {{", *body[:2], stop, *body[2:], step, *after, "}"],
            [f"for (int {i} = 0; {i} < {depth}; {i} += {by}) {{", *body, *after,
             f"  if ({i} + {by} >= {depth}) break;", "}"],
            [f"for (int {i} = 0; {i} < 1000; {i} += {by}) {{", stop, *body, *after, "}"],
            [f"int {i} = 0; if (s + {depth} > s) do {{", *body, *after, step,
             f"}} while ({i} < {depth});"],
            [f"int {i} = 0; bool {i}go = {depth} > 0; while ({i}go) {{", *body, *after, step,
             f"  {i}go = !({i} >= {depth});", "}"],
            [f"int {i} = 0; int {i}n = {count}; while ({i}n-- > 0) {{", *body, *after, step, "}"],
            [f"int {i} = 0; int {i}n = 0; while ({i} < {depth}) {{", *body, *after,
             f"  {i}n += 1; {i} = {i}n * {by};", "}"],
            [f"for (int {i} = 0; {i} != {count * by}; {i} += {by}) {{", *body, *after,
             f"  if (s == {self.s + 1}) return;", "}"],
            [f"int {i} = 0; for (; {i} + {by} <= {depth}; {i} += {by}) {{", *full, *after, "}",
             f"for (; {i} < {depth}; {i} += {by}) {{", *body, *after, "}"],
            [f"int {i} = 0; for (; {i} <= {depth} - {by}; {i} += {by}) {{", *full, *after, "}",
             *([] if "break" in "".join(body) else [f"if ({i} < {depth}) {{", *body, "}"])],
            [f"for (int {i}o = 0; {i}o < {depth}; {i}o += {2 * by}) "
             f"for (int {i}h = 0; {i}h < 2; {i}h++) {{", f"  int {i} = {i}o + {i}h * {by};",
             *body, *after, "}"],
        ]
        return ways[0] if self.chance(0.3) else self.rng.choice(ways)

    def count(self, scope: Scope) -> list[str]:
        """Atomics that commute: each operation has counters of its own."""
        if scope.callee is not None:
            return self.declare(scope)
        operation = self.rng.randrange(4)
        name = ("atomic_add", "atomic_max", "atomic_xor", "atomic_or")[operation]
        shape = scope.mask.shape if scope.mask else self.rng.choice(((), (self.t,), (self.m,)))
        at = self.expression(scope, "int", shape, 1)
        value = self.expression(scope, "int", self.rng.choice((shape, ())), 1)
        return [f"{name}(counters + {4 * operation} + (({at}) & 3), (int)({value}));"]

    def leave(self, scope: Scope) -> list[str]:
        """Break, continue, return, under a scalar condition."""
        if scope.mask is not None or scope.depth == 0:
            return self.assign(scope)
        condition = self.expression(scope, "bool", (), 1)
        if scope.callee is not None:
            value = self.expression(scope, scope.callee.kind, scope.callee.shape, 2)
            return [f"if ({condition}) return {value};"]
        if scope.loops and self.chance(0.8):
            return [f"if ({condition}) {self.rng.choice(('break', 'continue'))};"]
        return [f"if ({condition} && pid == 1) return;"]

    def assume(self, scope: Scope) -> list[str]:
        """A promise that holds, and something that passes may make of it."""
        if scope.callee is not None:  # neither s nor pid is visible there
            return []
        s, d, low = self.s, self.rng.randint(0, 3), self.rng.choice((1, 2, 4, 8))
        known = [f"s >= {s - d}", f"{s + d + 1} > s", f"s == {s}", f"s - {d} <= {s}", "pid >= 0",
                 f"pid < {self.instances}", f"pid < {self.instances} && s >= {s - d}",
                 *([f"s % {low} == 0", f"(s & {low - 1}) == 0", f"(long)s % {low} == 0 && s <= {s}"]
                   if s % low == 0 else [])]
        known += ["r >= 0", f"r < {self.instances * self.t}"]
        condition = self.rng.choice(known)
        value = f"(s / {low} + s % {low} + (s > {s - d - 1} ? pid / 2 : 5))"
        shape = scope.mask.shape if scope.mask else ()
        return [f"assume({condition});", self.store(scope, value, "int", shape)]

    # --- device functions and the file ---

    def define_function(self) -> None:
        self.budget = 6
        function = Function(self.name("f"), self.kind(), self.shape(),
                            [(self.kind(), self.shape()) for _ in range(self.rng.randint(1, 3))])
        names = [self.name("a") for _ in function.parameters]
        scope = Scope([Variable(n, kind, shape) for n, (kind, shape) in
                       zip(names, function.parameters, strict=True)], callee=function)
        body = self.statements(scope, self.rng.randint(0, 4))
        result = self.expression(scope, function.kind, function.shape)
        parameters = ", ".join(
            f"{self.type_of(kind)} {n}{self.spell(shape)}"
            for n, (kind, shape) in zip(names, function.parameters, strict=True))
        head = f"{self.type_of(function.kind)}{self.spell(function.shape)} {function.name}"
        self.definitions += [f"{head}({parameters}) {{", *("  " + line for line in body),
                             f"  return {result};", "}", ""]
        self.functions.append(function)

    def text(self) -> str:
        strides = {name: max(count, 1) for name, count in self.slots.items()}
        room = max(self.scratch, 1)
        outputs = {name: f"zeros({count * self.instances})" for name, count in strides.items()}
        data = [(name, expression) for name, (_, expression) in INPUTS.items()]
        data += [*outputs.items(), ("wi", f"zeros({room * self.instances})"),
                 ("wf", f"zeros({room * self.instances})"), ("counters", f"zeros({COUNTERS})"),
                 ("s", str(self.s)), ("z", self.rng.choice(("0.5", "-3", "1e10")))]
        declarations = [declaration for declaration, _ in INPUTS.values()]
        declarations += [f"{t}* {name}" for name, t in OUTPUTS.items()]
        declarations += ["int* wi", "float* wf", "int* counters", "int s", "float z"]
        changed = ", ".join([*(set_by for set_by in outputs if set_by != "rough"), "wi", "wf",
                             "counters"])
        setup = [f"int at_{name} = pid * {count};" for name, count in strides.items()]
        return "\n".join([
            f"//! range: {self.instances * self.t}", *(f"//! arg: {n} = {e}" for n, e in data),
            f"//! clobber: {changed}", "//! expect: rough = rough", "//! tolerance: np.inf", "",
            LIBRARY, *self.definitions,
            f"kernel void k({', '.join(declarations)}) {{", "  int pid = get_program_id(0);",
            f"  int r[{self.t}] = get_global_range(0);",
            *("  " + line for line in [*setup, f"int at_w = pid * {room};", *self.body]), "}", ""])


def program(seed: int) -> str:
    """The text of a program."""
    return Generator(seed).text()
