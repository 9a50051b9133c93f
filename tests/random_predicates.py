"""Random statements whose loads and divisions have a value only where a predicate says so.

The predicate belongs to another shape than they: the condition is taken back through new axes,
transposes, sums, functions, structs and variables.
"""

from __future__ import annotations

from random_expressions import KINDS, ROOM, Expressions, Scope, Shape, Variable


class Predicates(Expressions):
    """Makes statements; what they assign and store is the generator's."""

    def declare(self, scope: Scope) -> list[str]:
        raise NotImplementedError

    def store(self, scope: Scope, value: str, kind: str, shape: Shape) -> str:
        raise NotImplementedError

    def masked_load(self, scope: Scope) -> list[str]:
        """Indices that may be outside, and a load of those that are not."""
        if scope.callee is not None or (scope.mask is not None and scope.mask.shape == ()):
            return self.declare(scope)
        shape = scope.mask.shape if scope.mask else self.rng.choice(((self.t,), (self.m, self.n)))
        at, inside, name = self.name("k"), self.name("m"), self.name("v")
        array = self.rng.choice(list(KINDS))
        kind = KINDS[array]
        extents = self.spell(shape)
        lines = [f"long {at}{extents} = {self.expression(scope, 'int', shape, 2)} % 100;",
                 f"bool {inside}{extents} = {at} >= 0 && {at} < {ROOM};"]
        t, other = self.type_of(kind), self.other(scope, kind, shape, 1)
        way = self.rng.randrange(3)
        if way == 0:
            lines.append(f"{t} {name}{extents} = {inside} ? *({array} + {at}) : {other};")
        elif way == 1:
            lines += [f"{t} {name}{extents} = {other};",
                      f"@{inside} {name} = *({array} + {at});"]
        else:
            lines += [f"{t} {name}{extents} = *?({inside}) ({array} + {at});",
                      f"@(!{inside}) {name} = {other};"]
        scope.variables += [Variable(at, "int", shape),
                            Variable(inside, "bool", shape),
                            Variable(name, kind, shape)]
        return lines

    def lines(self, scope: Scope) -> list[str]:
        """A row or a column loaded for a tile's predicate, at places that only it makes safe."""
        if scope.callee is not None or scope.mask is not None:
            return self.declare(scope)
        rng, rows = self.rng, self.chance(0.5)
        length, shape = (self.m if rows else self.n), (self.m, self.n)
        at, inside, line = self.name("k"), self.name("m"), self.name("v")
        array = rng.choice(list(KINDS))
        kind = KINDS[array]
        axis = "[:, newaxis]" if rows else rng.choice(("[newaxis, :]", ""))
        load = f"*({array} + {at})"
        value = rng.choice((load, load, f"{load} + {load}",
                            f"trans(trans(({load})[newaxis, :]))[+, :]",
                            f"({self.literal('bool')} && {inside} ? {load} : 0)",
                            f"sum(*({array} + {at}[:, newaxis] + 0 * (0 ... 4)), 1)",
                            f"({self.literal('int')} / (1 + ({inside} && {load} > 0)))"))
        if kind == "float" and "sum" in value:
            value = load
        lines = [f"long {at}[{length}] = {self.expression(scope, 'int', (length,), 2)} % 100;",
                 f"bool {inside}[{length}] = {at} >= 0 && {at} < {ROOM};"]
        condition = f"({inside}){axis} && {self.expression(scope, 'bool', shape, 2)}"
        rest = self.expression(scope, kind, shape, 2)
        if self.chance(0.5):
            return [*lines, f"@({condition}) " + self.store(
                scope, f"({rest}) + ({value}){axis}", kind, shape)]
        t = self.type_of(kind)
        return [*lines, f"if ({condition}) {{", f"  {t} {line}[{length}] = {value};", "  " +
                self.store(scope.inner(mask=Variable("", "bool", shape)),
                           f"({rest}) + ({line}){axis}", kind, shape), "}"]

    def crossed(self, scope: Scope) -> list[str]:
        """Lines of both axes that are safe where the predicate of both selects something."""
        if scope.callee is not None or scope.mask is not None:
            return self.declare(scope)
        rng, shape = self.rng, (self.m, self.n)
        lines, conditions, values, names = [], [], [], []
        for length, axis in ((self.m, "[:, newaxis]"), (self.n, rng.choice(("", "[newaxis, :]")))):
            at, inside = self.name("k"), self.name("m")
            lines += [
                f"int {at}[{length}] = (int)({self.expression(scope, 'int', (length,), 2)}) % 100;",
                f"bool {inside}[{length}] = {at} >= 0 && {at} < {ROOM};"]
            conditions.append(f"({inside}){axis}")
            value, before = self.line(rng.choice(("ia", "ib", "ca", "ua")), at, inside, length)
            names.append(before)
            values.append(f"({value}){axis}")
        if self.chance(0.5):
            conditions.append(f"({self.expression(scope, 'bool', shape, 2)})")
        rng.shuffle(conditions)
        total = rng.choice((f"{values[0]} + {values[1]}", f"{values[1]} - {values[0]}",
                            f"{self.expression(scope, 'int', shape, 1)} ^ {values[0]} + "
                            f"{values[1]}", f"parted({values[0]}, {values[1]} * 0 + 3)",
                            f"trans(trans({values[0]} + {values[1]}))"))
        inner = scope.inner(mask=Variable("", "bool", shape))
        before = [line for part in names for line in part]
        store = self.store(inner, total, "int", shape)
        way = rng.randrange(4)
        if way == 0 and not before:
            return [*lines, f"@({' && '.join(conditions)}) {store}"]
        if way == 1:  # one inside of another
            first, *others = conditions
            return [*lines, f"@({first}) {{", f"  @({' && '.join(others)}) {{", *before,
                    f"    {store}", "  }", "}"]
        if way == 2 and not before:  # a side of a choice
            v, other = self.name("v"), self.other(scope, "int", shape, 1)
            scope.variables.append(Variable(v, "int", shape))
            return [*lines, f"int {v}{self.spell(shape)} = {' && '.join(conditions)} ? "
                    f"(int)({total}) : (int)({other});"]
        return [*lines, f"if ({' && '.join(conditions)}) {{", *before, f"  {store}", "}"]

    def line(self, array: str, at: str, inside: str, length: int) -> tuple[str, list[str]]:
        """A value for each place of a line, and what stands before its use."""
        name, load = self.name("v"), f"*({array} + {at})"
        way = self.rng.randrange(7)
        if way == 0:
            return load, []
        if way == 1:
            return f"fetched({array}, {at})", []
        if way == 2:  # a divisor that is 0 elsewhere
            return f"1000 / ({inside} ? 7 : 0)", []
        if way == 3:
            return f"parted({array}[{at}], ({inside} + 0) * 3)", []
        if way == 4:
            return name, [f"  int {name}[{length}] = {load};", f"  {name} += {array}[{at}] % "
                          f"({inside} ? 5 : 0);"]
        if way == 5:
            return f"{name}.a + (int){name}.b", [
                f"  pair {name}[{length}] = {{{array}[{at}], 2.5f}};"]
        return f"sum({array}[{at}[:, newaxis] + 0 * (0 ... 2)], 1)", []
