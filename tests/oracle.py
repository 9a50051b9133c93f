"""The oracle: what a random program computes, by NumPy over the syntax tree.

It reads the text with the frontend's parser and shares nothing else with the compiler: not semantic
analysis, not Triton-IR, not the interpreter.  It covers what `random_programs` generates, by
docs/language.md.  All that a program computes is computed for every element; a mask says which
elements of variables and memory change, and a place outside of a buffer, which nobody may look at,
reads as some number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from oracle_builtins import EXTREMES
from oracle_values import (
    DTYPES,
    Array,
    Value,
    binary,
    both,
    convert,
    is_float,
    promoted,
    result,
    value,
)

from tritonc import stages
from tritonc.frontend import syntax
from tritonc.frontend.parser import parse
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "+": np.add, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
TURNS = 100_000  # of all loops of a program


class Unknown(Exception):
    """The program has something that the oracle does not know."""


class Left(Exception):
    """`break`, `continue` or `return` on its way out."""

    def __init__(self, kind: str, found: Value | None = None) -> None:
        self.kind, self.found = kind, found


@dataclass
class Scope:
    """The names of a block and of those around it, and the mask of the statement.  `added`: what
    this scope's own predicate says, which variables declared within it do not feel."""

    names: dict[str, Value]
    outer: Scope | None = None
    mask: Array | None = None
    extents: dict[str, int] = field(default_factory=dict)
    added: Array | None = None

    def since(self, name: str) -> Array | None:
        """The mask of assignments to a variable: the predicates within its own scope."""
        at: Scope | None = self
        mask = None
        while at is not None and name not in at.names:
            if at.added is not None:
                mask = at.added if mask is None else mask & at.added
            at = at.outer
        return mask

    def holder(self, name: str) -> dict[str, Value]:
        at: Scope | None = self
        while at is not None:
            if name in at.names:
                return at.names
            at = at.outer
        raise Unknown(name)

    def inner(self, mask: Array | None) -> Scope:
        return Scope({}, self, mask, self.extents)


def run(text: str, kernel: str, memory: dict[str, Any], grid: tuple[int, ...]
        ) -> dict[str, Array]:
    """What the buffers hold after the kernel: `memory` has an array for each pointer and a number
    for each scalar, by the parameter's name."""
    source = SourceFile("oracle.tc", text)
    done = stages.preprocess(source, Options(), Diagnostics())
    program = parse(done.tokens, Diagnostics())
    return Oracle(program, kernel, memory).run(grid)


class Oracle:
    """One run of a kernel."""

    def __init__(self, program: syntax.Program, kernel: str, memory: dict[str, Any]) -> None:
        functions = [item for item in program.items if isinstance(item, syntax.Function)]
        self.functions = {function.name: function for function in functions}
        self.structs = {struct.key: struct for struct in program.structs}
        self.kernel = self.functions[kernel]
        self.memory: dict[str, Value] = {}
        self.arguments: dict[str, Value] = {}
        self.turns = 0
        self.place: tuple[int, ...] = ()  # of the instance
        for parameter in self.kernel.parameters:
            t, given = parameter.type.scalar, memory[parameter.name]
            if not parameter.type.pointer:
                self.arguments[parameter.name] = value(t, np.asarray(given).astype(DTYPES[t]))
                continue
            whole = given.reshape(-1)
            narrow = DTYPES[t]
            data = (whole.view(narrow) if whole.dtype.itemsize == np.dtype(narrow).itemsize
                    and whole.dtype.kind in "iu" else whole.astype(narrow)).copy()
            self.memory[parameter.name] = Value(t, data)
            self.arguments[parameter.name] = value("pointer", 0, parameter.name)

    def run(self, grid: tuple[int, ...]) -> dict[str, Array]:
        assert self.kernel.body is not None
        with np.errstate(all="ignore"):
            for self.place in np.ndindex(*grid):
                try:
                    self.statement(self.kernel.body, Scope(dict(self.arguments)))
                except Left as left:
                    assert left.kind == "return"
        return {name: found.data for name, found in self.memory.items()}

    # --- statements ---

    def statement(self, node: syntax.Statement | None, scope: Scope) -> None:
        if node is None or isinstance(node, syntax.Empty):
            return
        method = getattr(self, f"do_{type(node).__name__.lower()}", None)
        if method is None:
            raise Unknown(type(node).__name__)
        method(node, scope)

    def do_block(self, node: syntax.Block, scope: Scope) -> None:
        inside = scope.inner(scope.mask)
        for statement in node.statements:
            self.statement(statement, inside)

    def do_declaration(self, node: syntax.Declaration, scope: Scope) -> None:
        for variable in node.variables:
            t = variable.type
            extents = self.extents(t.extents, scope)
            if variable.initializer is None:
                raise Unknown("a variable without a value")
            found = self.expression(variable.initializer, scope, extents, t.scalar)
            scope.names[variable.name] = self.shaped(self.typed(found, t), extents)

    def typed(self, found: Value, t: syntax.TypeSpec) -> Value:
        if t.pointer or t.scalar == "auto" or t.scalar in self.structs:
            return convert(found, "float64") if found.type == "literal" else found
        return convert(found, t.scalar)

    def extents(self, given: tuple[syntax.Expression, ...] | None, scope: Scope
                ) -> tuple[int, ...] | None:
        if given is None:
            return None
        return tuple(scope.extents[e.name] if isinstance(e, syntax.Name) and e.name in scope.extents
                     else int(self.expression(e, scope).data) for e in given)

    def shaped(self, found: Value, extents: tuple[int, ...] | None) -> Value:
        if extents is None:
            return found
        if found.members is not None:
            return replace(found, members={
                name: self.shaped(member, extents) for name, member in found.members.items()})
        return replace(found, data=np.broadcast_to(found.data, extents))

    def do_expressionstatement(self, node: syntax.ExpressionStatement, scope: Scope) -> None:
        self.expression(node.expression, scope)

    def do_if(self, node: syntax.If, scope: Scope) -> None:
        condition = convert(self.expression(node.condition, scope), "bool").data
        if condition.ndim == 0:
            self.statement(node.then if condition else node.orelse, scope.inner(scope.mask))
            return
        self.masked(node.then, condition, scope)
        self.masked(node.orelse, ~condition, scope)

    def masked(self, node: syntax.Statement | None, condition: Array, scope: Scope) -> None:
        mask = condition if scope.mask is None else condition & scope.mask
        inside = scope.inner(mask)
        inside.added = condition
        self.statement(node, inside)

    def do_predicated(self, node: syntax.Predicated, scope: Scope) -> None:
        self.masked(node.body, convert(self.expression(node.mask, scope), "bool").data, scope)

    def holds(self, node: syntax.Expression | None, scope: Scope) -> bool:
        self.turns += 1
        if self.turns > TURNS:
            raise Unknown("a loop that does not end")
        return node is None or bool(convert(self.expression(node, scope), "bool").data)

    def turn(self, body: syntax.Statement, scope: Scope) -> bool:
        """Run a loop's body once; whether the loop goes on."""
        try:
            self.statement(body, scope)
        except Left as left:
            if left.kind == "return":
                raise
            return left.kind == "continue"
        return True

    def do_for(self, node: syntax.For, scope: Scope) -> None:
        inside = scope.inner(scope.mask)
        self.statement(node.init, inside)
        while self.holds(node.condition, inside) and self.turn(node.body, inside):
            if node.step is not None:
                self.expression(node.step, inside)

    def do_while(self, node: syntax.While, scope: Scope) -> None:
        while self.holds(node.condition, scope) and self.turn(node.body, scope):
            pass

    def do_dowhile(self, node: syntax.DoWhile, scope: Scope) -> None:
        while self.turn(node.body, scope) and self.holds(node.condition, scope):
            pass

    def do_break(self, node: syntax.Break, scope: Scope) -> None:
        raise Left("break")

    def do_continue(self, node: syntax.Continue, scope: Scope) -> None:
        raise Left("continue")

    def do_return(self, node: syntax.Return, scope: Scope) -> None:
        if node.value is None:
            raise Left("return")
        hint = scope.holder("return")["return"].base if node.value else ""
        raise Left("return", self.expression(node.value, scope, None, hint))

    # --- expressions ---

    def expression(self, node: syntax.Expression, scope: Scope,
                   extents: tuple[int, ...] | None = None, wanted: str = "") -> Value:
        """The value of an expression; `extents` and `wanted` are what a declaration around it
        says, for a range and for the members of a struct in braces."""
        method = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if method is None:
            raise Unknown(type(node).__name__)
        if isinstance(node, syntax.StructValue | syntax.Call | syntax.Conditional):
            found: Value = method(node, scope, extents, wanted)
            return convert(found, "float64") if found.type == "literal" else found
        return method(node, scope)  # type: ignore[no-any-return]

    def of_name(self, node: syntax.Name, scope: Scope) -> Value:
        if node.name in scope.extents:
            return value("int32", scope.extents[node.name])
        return scope.holder(node.name)[node.name]

    def of_intliteral(self, node: syntax.IntLiteral, scope: Scope) -> Value:
        unsigned = "u" in node.suffix
        wide = "l" in node.suffix or node.value >= 1 << (32 if unsigned else 31)
        return value(("u" if unsigned else "") + ("int64" if wide else "int32"), node.value)

    def of_floatliteral(self, node: syntax.FloatLiteral, scope: Scope) -> Value:
        return value("float32" if node.suffix == "f" else "literal", float(node.text))

    def of_boolliteral(self, node: syntax.BoolLiteral, scope: Scope) -> Value:
        return value("bool", node.value)

    def of_structvalue(self, node: syntax.StructValue, scope: Scope,
                       extents: tuple[int, ...] | None, wanted: str) -> Value:
        key = node.type.scalar if node.type else wanted
        shape = self.extents(node.type.extents, scope) if node.type else extents
        members: dict[str, Value] = {}
        for member, given in zip(self.structs[key].members, node.values, strict=True):
            found = self.typed(self.expression(given, scope, None, member.type.scalar), member.type)
            members[member.name] = self.shaped(found, shape)
        return Value(key, np.zeros(shape or ()), members=members)

    def of_member(self, node: syntax.Member, scope: Scope) -> Value:
        members = self.expression(node.base, scope).members
        if members is None:
            raise Unknown(node.name)
        return members[node.name]

    def of_unary(self, node: syntax.Unary, scope: Scope) -> Value:
        a = self.expression(node.operand, scope)
        if node.operator == "!" or (node.operator == "~" and a.type == "bool"):
            return value("bool", ~convert(a, "bool").data)
        if node.operator == "^":
            return replace(a, data=np.moveaxis(a.data, 0, -1))
        a = convert(a, promoted(a.type))
        if node.operator == "-":
            return value(a.type, np.negative(a.data))
        return value(a.type, ~a.data) if node.operator == "~" else a

    def of_binary(self, node: syntax.Binary, scope: Scope) -> Value:
        a, b = self.expression(node.left, scope), self.expression(node.right, scope)
        return self.product(a, b) if node.operator == "@" else binary(node.operator, a, b)

    def of_logical(self, node: syntax.Logical, scope: Scope) -> Value:
        a = convert(self.expression(node.left, scope), "bool").data
        b = convert(self.expression(node.right, scope), "bool").data
        return value("bool", a & b if node.operator == "&&" else a | b)

    def of_range(self, node: syntax.Range, scope: Scope) -> Value:
        low, high = (int(self.expression(e, scope).data) for e in (node.low, node.high))
        return value("int32", np.arange(low, high))

    def of_conditional(self, node: syntax.Conditional, scope: Scope,
                       extents: tuple[int, ...] | None, wanted: str) -> Value:
        condition = convert(self.expression(node.condition, scope), "bool").data
        return self.choice(condition, self.expression(node.then, scope, extents, wanted),
                           self.expression(node.orelse, scope, extents, wanted))

    def choice(self, condition: Array, a: Value, b: Value) -> Value:
        if a.members is not None and b.members is not None:
            both_ = {name: self.choice(condition, member, b.members[name])
                     for name, member in a.members.items()}
            return replace(a, members={name: convert(found, a.members[name].type)
                                       for name, found in both_.items()})
        if a.type == "pointer":
            return Value("pointer", np.where(condition, a.data, b.data), a.base)
        if a.type == b.type:
            return value(a.type, np.where(condition, a.data, b.data))
        a, b, t = both(a, b)
        return value(t, np.where(condition, a.data, b.data))

    def of_cast(self, node: syntax.Cast, scope: Scope) -> Value:
        found = self.typed(self.expression(node.operand, scope), node.type)
        extents = self.extents(node.type.extents, scope)
        if extents is not None and found.data.ndim and prod(extents) == found.data.size:
            return replace(found, data=found.data.reshape(extents))
        return self.shaped(found, extents)

    def of_bitcast(self, node: syntax.Bitcast, scope: Scope) -> Value:
        found = self.expression(node.operand, scope)
        return value(node.type.scalar, np.ascontiguousarray(found.data).view(
            DTYPES[node.type.scalar]).reshape(found.shape))

    def of_subscript(self, node: syntax.Subscript, scope: Scope) -> Value:
        a = self.expression(node.base, scope)
        if a.type == "pointer" and isinstance(node.entries[0], syntax.Index):
            return self.load(self.element(a, node, scope))
        data, t, axis = a.data, a.type, 0
        for entry in node.entries:
            if isinstance(entry, syntax.Keep):
                axis += 1
            elif isinstance(entry, syntax.NewAxis):
                data, axis = np.expand_dims(data, axis), axis + 1
            elif isinstance(entry, syntax.Reduce):
                t = t if entry.operator in ("max", "min") else promoted(t)
                reduced = self.reduced(value(t, data) if t == a.type else convert(
                    value(a.type, data), t), axis, entry.operator)
                data = reduced.data
                a = replace(a, type=t)
            else:
                raise Unknown(type(entry).__name__)
        return Value(t, data, a.base)

    def reduced(self, a: Value, axis: int, operator: str) -> Value:
        if a.type == "bool":
            return result(a.type, (np.any if operator == "max" else np.all)(a.data, axis=axis))
        if operator in EXTREMES:
            rows = np.moveaxis(a.data, axis, 0)
            return result(a.type, np.asarray(functools.reduce(EXTREMES[operator], rows)))
        first = {"initial": -0.0} if operator == "+" and is_float(a.type) else {}  # NumPy's is +0
        found = REDUCTIONS[operator].reduce(a.data, axis=axis, dtype=a.data.dtype, **first)
        return result(a.type, found)

    def product(self, a: Value, b: Value, c: Value | None = None) -> Value:
        t = a.type if a.type in ("float32", "float64", "int16", "int32", "int64", "uint16",
                                 "uint32", "uint64") else "float32" if is_float(a.type) else "int32"
        wide = np.float64 if is_float(t) else DTYPES[t]
        spelt = "mkb,knb->mnb" if a.data.ndim == 3 else "mk,kn->mn"
        found = np.einsum(spelt, a.data.astype(wide), b.data.astype(wide)).astype(DTYPES[t])
        return value(t, found if c is None else found + convert(c, t).data)

    # --- memory and variables ---

    def of_deref(self, node: syntax.Deref, scope: Scope) -> Value:
        return self.load(self.expression(node.pointer, scope))

    def of_maskedderef(self, node: syntax.MaskedDeref, scope: Scope) -> Value:
        mask = self.expression(node.mask, scope).data
        found = self.load(self.expression(node.pointer, scope))
        return replace(found, data=np.broadcast_to(found.data, np.broadcast_shapes(
            mask.shape, found.shape)))

    def of_addressof(self, node: syntax.AddressOf, scope: Scope) -> Value:
        base = self.expression(node.base, scope)
        return binary("+", base, self.expression(node.index.index, scope))

    def element(self, pointer: Value, node: syntax.Subscript, scope: Scope) -> Value:
        """The address of p[i]."""
        (entry,) = node.entries
        assert isinstance(entry, syntax.Index)
        return binary("+", pointer, self.expression(entry.index, scope))

    def load(self, pointer: Value) -> Value:
        whole = self.memory[pointer.base]
        return value(whole.type, whole.data[np.clip(pointer.data, 0, max(whole.data.size - 1, 0))])

    def store(self, pointer: Value, found: Value, mask: Array | None) -> None:
        whole = self.memory[pointer.base]
        shape = pointer.shape if mask is None else np.broadcast_shapes(pointer.shape, mask.shape)
        at = np.broadcast_to(pointer.data, shape)
        new = np.broadcast_to(convert(found, whole.type).data, shape)
        some = np.broadcast_to(True if mask is None else mask, shape)
        if ((at < 0) | (at >= whole.data.size))[some].any():
            raise Unknown("a store outside of its buffer")
        whole.data[at[some]] = new[some]

    def of_assign(self, node: syntax.Assign, scope: Scope) -> Value:
        target = node.target
        element = isinstance(target, syntax.Subscript)
        if isinstance(target, syntax.Deref | syntax.MaskedDeref | syntax.Subscript):
            pointer = self.expression(target.base if element else target.pointer, scope)
            if element:
                pointer = self.element(pointer, target, scope)
            mask = scope.mask
            if isinstance(target, syntax.MaskedDeref):
                more = convert(self.expression(target.mask, scope), "bool").data
                mask = more if mask is None else more & mask
            found = self.expression(node.value, scope)
            if node.operator is not None:
                found = binary(node.operator, self.load(pointer), found)
            self.store(pointer, found, mask)
            return found
        return self.assign(target, node.operator, node.value, scope)

    def assign(self, target: syntax.Expression, operator: str | None,
               given: syntax.Expression | Value, scope: Scope) -> Value:
        old = self.expression(target, scope)
        hint = old.type if old.members is not None else ""
        found = given if isinstance(given, Value) else self.expression(
            given, scope, old.shape, hint)
        if operator is not None:
            found = binary(operator, old, found)
        new = self.shaped(convert(found, old.type), self.shape(old))
        root = target
        while isinstance(root, syntax.Member):
            root = root.base
        mask = scope.since(root.name) if isinstance(root, syntax.Name) else scope.mask
        self.put(target, self.kept(new, old, mask), scope)
        return new

    def shape(self, found: Value) -> tuple[int, ...]:
        members = found.members
        return self.shape(next(iter(members.values()))) if members else found.shape

    def kept(self, new: Value, old: Value, mask: Array | None) -> Value:
        """The new value where the mask holds, if it is of the value's shape."""
        if mask is None or mask.shape != self.shape(old):
            return new
        if new.members is not None and old.members is not None:
            return replace(new, members={name: self.kept(member, old.members[name], mask)
                                         for name, member in new.members.items()})
        return replace(new, data=np.where(mask, new.data, old.data))

    def put(self, target: syntax.Expression, new: Value, scope: Scope) -> None:
        if isinstance(target, syntax.Name):
            scope.holder(target.name)[target.name] = new
        elif isinstance(target, syntax.Member):
            base = self.expression(target.base, scope)
            assert base.members is not None
            self.put(target.base, replace(base, members={**base.members, target.name: new}), scope)
        else:
            raise Unknown(type(target).__name__)

    def of_incdec(self, node: syntax.IncDec, scope: Scope) -> Value:
        old = self.expression(node.target, scope)
        new = self.assign(node.target, node.operator, value("int32", 1), scope)
        return new if node.prefix else old

    # --- calls ---

    def of_call(self, node: syntax.Call, scope: Scope, extents: tuple[int, ...] | None, wanted: str
                ) -> Value:
        name = node.callee
        if name in self.functions:
            function = self.functions[name]
            given = [self.expression(a, scope, None, p.type.scalar) for a, p in zip(
                node.arguments, function.parameters, strict=True)]
            return self.call(function, given, None)
        if name == "get_global_range":
            assert extents is not None
            first = self.place[int(self.expression(node.arguments[0], scope).data)] * extents[0]
            return value("int32", first + np.arange(extents[0]))
        if name == "get_program_id":
            return value("int32", self.place[int(self.expression(
                node.arguments[0], scope).data)])
        if name.startswith("atomic_"):
            return self.atomic(name[7:], [self.expression(a, scope) for a in node.arguments],
                               scope.mask)
        if name in ("assume", "__debug_barrier"):
            return value("int32", 0)
        from oracle_builtins import BUILTINS, folded

        words = [a.name if isinstance(a, syntax.Name) and self.is_word(a.name, scope) else None
                 for a in node.arguments]
        if name in ("reduce", "scan") and words[-1] in self.functions:
            function = self.functions[words[-1] or ""]
            a = self.expression(node.arguments[0], scope)
            axis = int(self.expression(node.arguments[1], scope).data)
            return folded(a, axis, name == "scan",
                          lambda x, y: self.call(function, [x, y], None))
        if name not in BUILTINS:
            raise Unknown(name)
        arguments = [word or self.expression(a, scope) for a, word in zip(
            node.arguments, words, strict=True)]
        return BUILTINS[name](self, *arguments)

    def is_word(self, name: str, scope: Scope) -> bool:
        """Whether a name is none of a variable, as `max` in `scan(x, 0, max)`."""
        try:
            scope.holder(name)
        except Unknown:
            return name not in scope.extents
        return False

    def call(self, function: syntax.Function, given: Iterable[Value], mask: Array | None) -> Value:
        names: dict[str, Value] = {"return": value("int32", 0, function.returns.scalar)}
        inside = Scope(names, None, mask)
        for parameter, found in zip(function.parameters, given, strict=True):
            wanted = parameter.type.extents
            if wanted is not None and self.shape(found):
                for extent, count in zip(wanted, self.shape(found), strict=True):
                    if isinstance(extent, syntax.Name):
                        inside.extents.setdefault(extent.name, count)
            names[parameter.name] = self.shaped(self.typed(found, parameter.type),
                                                self.extents(wanted, inside))
        try:
            self.statement(function.body, inside)
        except Left as left:
            assert left.kind == "return" and left.found is not None
            return self.shaped(self.typed(left.found, function.returns),
                               self.extents(function.returns.extents, inside))
        raise Unknown("a function without a value")

    def atomic(self, name: str, given: list[Value], mask: Array | None) -> Value:
        pointer, operand = given
        whole = self.memory[pointer.base]
        shape = np.broadcast_shapes(pointer.shape, operand.shape,
                                    () if mask is None else mask.shape)
        at = np.broadcast_to(pointer.data, shape)
        new = np.broadcast_to(convert(operand, whole.type).data, shape)
        some = np.broadcast_to(True if mask is None else mask, shape)
        old = np.zeros(shape, whole.data.dtype)
        compute = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
                   "or": np.bitwise_or, "xor": np.bitwise_xor,
                   "xchg": lambda x, y: y}[name]
        for place in np.ndindex(shape):
            if some[place]:
                old[place] = whole.data[at[place]]
                whole.data[at[place]] = compute(old[place], new[place])
        return value(whole.type, old)


