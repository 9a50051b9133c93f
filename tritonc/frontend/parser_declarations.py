"""Productions of grammar.lark about types and declarations to syntax-tree nodes.

How the methods are called is said in parser_actions.py, whose class adds the rest.  What C has and
Triton-C does not (pointers to pointers, lists of initial values, variables outside functions) is
reported here, where it is known what was meant."""

from typing import Any, TypeGuard

from tritonc.frontend import syntax
from tritonc.frontend.lexer import Token
from tritonc.frontend.parser_structs import Declared, StructActions
from tritonc.frontend.parser_types import QUALIFIER_NAMES, Declarator, Typed, read_type
from tritonc.records import dataclass
from tritonc.source import Span

_FUNCTION_QUALIFIERS = frozenset(["static", "extern", "inline", "volatile", "device", "kernel"])
@dataclass(slots=True, eq=False)
class Allocation:
    """`alloc_const T[n]`."""

    span: Span
    type: syntax.TypeSpec


_MISPLACED_TABLE = ("a constant table is declared outside a function, as in "
                    "'__constant__ int* table = alloc_const int[512];'")
Initializer = syntax.Expression | Allocation


class DeclarationActions(StructActions):
    """The methods for functions, types and declarations."""

    # --- functions and the file ---

    def head(self, typed: Typed, name: Token) -> tuple[Typed, Token]:
        self.types.open_parameters()
        return typed, name

    def function(self, head: tuple[Typed, Token], parameters: tuple[syntax.Parameter, ...],
                 body: syntax.Block | None = None) -> syntax.Function:
        typed, name = head
        if len(parameters) == 1 and _is_void(parameters[0]):
            parameters = ()
        for parameter in parameters:
            if body is not None and not parameter.name:
                self.error(parameter.span, "a parameter of a function with a body needs a name")
        self._check_qualifiers(typed.qualifiers, _FUNCTION_QUALIFIERS, "a function")
        kernel = any(qualifier.name == "kernel" for qualifier in typed.qualifiers)
        rest = tuple(q for q in typed.qualifiers if q.name != "kernel")
        return syntax.Function(self.span(), name.text, name.span, kernel, self._spec(typed),
                               parameters, body, rest)

    def parameter(self, typed: Typed, declarator: Declarator | None) -> syntax.Parameter:
        declarator = declarator or Declarator("", typed.spec.span, None, [])
        spec, qualifiers = self._variable_type(typed, declarator)
        return syntax.Parameter(self.span(), declarator.name, declarator.name_span, spec,
                                qualifiers)

    def file_declaration(self, declared: Declared) -> tuple[syntax.Item, ...]:
        items: list[syntax.Item] = []
        for typed, declarator, initializer, _ in declared:
            item = self._file_variable(self.span(), typed, declarator, initializer)
            if item is None:
                break  # the next name would give the same message
            items.append(item)
        return tuple(items) or (syntax.Empty(typed.spec.span),)

    def _file_variable(self, span: Span, typed: Typed, declarator: Declarator,
                       initializer: Initializer | None) -> syntax.Item | None:
        qualifiers = [*typed.qualifiers, *declarator.qualifiers]
        tunable = any(qualifier.name == "tunable" for qualifier in qualifiers)
        kept = [qualifier for qualifier in qualifiers if qualifier.name != "tunable"]
        spec = self._spec(typed, declarator)
        name, name_span = declarator.name, declarator.name_span
        self._check_qualifiers(kept, frozenset(["static", "extern", "volatile", "inline"]),
                               f"'{name}', which is outside a function")
        if tunable:
            return self._tunable(span, spec, declarator, initializer)
        if spec.space == "constant":
            return self._table(span, spec, declarator, initializer)
        if not spec.const or spec.pointer:
            self.unsupported(name_span, f"'{name}' is a variable outside a function, which is not "
                             "supported; make it a parameter of the kernel, a 'const' scalar or a "
                             "'__constant__' table")
            return None
        if spec.extents is not None:
            self.unsupported(name_span, f"constant '{name}' is a tile, which is not supported "
                             "outside a function; declare it in the function that uses it")
            return None
        value = self._expression(initializer, name_span)
        if value is None:
            if initializer is None:
                self.error(name_span, f"constant '{name}' needs a value, as in "
                           f"'const int {name} = 4;'")
            return None
        return syntax.Constant(span, name, name_span, spec, value)

    def _tunable(self, span: Span, spec: syntax.TypeSpec, declarator: Declarator,
                 initializer: Initializer | None) -> syntax.Item | None:
        name, name_span = declarator.name, declarator.name_span
        if spec.pointer or spec.extents is not None or spec.space == "constant":
            self.error(name_span, f"tunable '{name}' must be a scalar")
            return None
        if initializer is None:
            return syntax.Tunable(span, name, name_span, spec, None)
        values = _listed(initializer)
        if not values:
            self.error(initializer.span, f"tunable '{name}' needs at least one value; without a "
                       "list, its value comes from outside")
        plain: list[syntax.Expression] = []
        for value in values:
            if isinstance(value, Allocation) or _is_list(value):
                self.error(value.span, "a value of a tunable must be a constant expression")
            else:
                plain.append(value)
        return syntax.Tunable(span, name, name_span, spec, tuple(plain))

    def joint_tunable(self, *parts: Any) -> syntax.Item:
        """`const tunable (TM, TN) = {(16, 32), (32, 16)};`"""
        *qualifiers, nodes, listed = parts
        span = self.span()
        wrong = [q for q in qualifiers if q.name not in ("const", "tunable")]
        if wrong or not any(q.name == "tunable" for q in qualifiers):
            self.error((wrong or qualifiers)[0].span, "names in parentheses are those of tunables "
                       "that are chosen together, as in "
                       "'const tunable (TM, TN) = {(16, 32), (32, 16)};'")
            return syntax.Empty(span)
        names = [n for n in nodes if isinstance(n, syntax.Name)]
        for node in nodes:
            if not isinstance(node, syntax.Name):
                self.error(node.span, "the name of a tunable is expected here")
        rows: list[syntax.StructValue] = []
        for row in listed.values:
            plain = _listed(row)
            if len(plain) != len(nodes) or any(map(_is_list, plain)):
                self.error(row.span, f"each row has {len(nodes)} values, one for each name, as "
                           "in '(16, 32)'")
                continue
            rows.append(syntax.StructValue(row.span, None, plain))
        if not listed.values:
            self.error(listed.span, "tunables that are chosen together need at least one row")
        if not rows or len(names) != len(nodes):
            return syntax.Empty(span)
        return syntax.JointTunable(span, tuple(names), tuple(rows))

    def _table(self, span: Span, spec: syntax.TypeSpec, declarator: Declarator,
               initializer: Initializer | None) -> syntax.Item | None:
        name, name_span = declarator.name, declarator.name_span
        shape = f"'__constant__ int* {name} = alloc_const int[512];'"
        if not spec.pointer or spec.extents is not None:
            self.error(name_span, f"constant table '{name}' must be declared as a pointer: {shape}")
        elif isinstance(initializer, Allocation):
            element = initializer.type
            if element.extents is None:
                self.error(initializer.span, "'alloc_const' needs a count of elements, as in "
                           "'alloc_const int[512]'")
                return None
            return syntax.ConstantTable(span, name, name_span, spec, element, element.extents)
        elif isinstance(initializer, syntax.Call) and initializer.callee == "calloc":
            if len(initializer.arguments) == 1 and initializer.template is None:
                return syntax.ConstantTable(span, name, name_span, spec, None,
                                            initializer.arguments)
            self.error(initializer.span, "'calloc' takes one argument, a count of bytes")
        else:
            where = name_span if initializer is None else initializer.span
            self.error(where, f"constant table '{name}' needs a size: {shape}")
        return None

    def typedef(self, typed: Typed, *declarators: Declarator) -> tuple[syntax.Typedef, ...]:
        return tuple([self._typedef(typed, each, self.span()) for each in declarators])

    def _typedef(self, typed: Typed, declarator: Declarator, span: Span) -> syntax.Typedef:
        spec = self._spec(typed, declarator)
        if spec.pointer or spec.extents is not None or spec.scalar in ("void", "auto"):
            self.unsupported(span, "a typedef can only name a scalar type or a struct; write "
                             "pointers and tiles out where they are declared")
        elif typed.spec.const or typed.qualifiers or declarator.qualifiers:
            self.error(span, "a typedef names a plain scalar type; put qualifiers where it is used")
        self.types.declare_type(declarator.name, spec.scalar)
        struct = self.structs.get(spec.scalar)
        if struct is not None and not struct.name:
            struct.name, struct.name_span = declarator.name, declarator.name_span
        plain = syntax.TypeSpec(typed.spec.span, spec.scalar)
        return syntax.Typedef(span, declarator.name, declarator.name_span, plain)

    # --- types and declarations ---

    def qualifier(self, word: Token, argument: syntax.Expression | None = None) -> syntax.Qualifier:
        return syntax.Qualifier(self.span(), QUALIFIER_NAMES[word.text], argument)

    def type(self, specifiers: tuple[Token | syntax.Qualifier | syntax.Struct, ...],
             stars: tuple[Token | syntax.Qualifier, ...] | None,
             extents: tuple[syntax.Expression, ...] | None) -> Typed:
        typed = read_type(specifiers, self.types, self.span(), self.diagnostics)
        typed.spec.extents = extents
        typed.add_stars(stars or (), self.diagnostics)
        return typed

    def no_extents(self) -> tuple[syntax.Expression, ...]:
        self.error(self.span(), "the extents of a tile must be given, as in '[16]'")
        return (syntax.IntLiteral(self.span(), 1),)

    def declared(self, name: Token) -> Declarator:
        self.types.declare_variable(name.text)
        return Declarator(name.text, name.span, None, [])

    def declarator_extents(self, declarator: Declarator,
                           extents: tuple[syntax.Expression, ...]) -> Declarator:
        if declarator.extents is not None and (len(declarator.extents) != 1
                                               or declarator.count is not None):
            self.unsupported(self.span(1), "an array holds tiles and has one count, "
                             "as in 'float x[4][16, 16]'; a tile of two axes is written [M, N]")
        elif declarator.extents is not None:
            (declarator.count,), declarator.extents = declarator.extents, extents
        else:
            declarator.extents = extents
        return declarator

    def declarator_qualifier(self, declarator: Declarator,
                             qualifier: syntax.Qualifier) -> Declarator:
        declarator.qualifiers.append(qualifier)
        return declarator

    def initialized(self, declarator: Declarator, initializer: Initializer | None) -> Any:
        return declarator, initializer, self.span()

    def alloc_const(self, type: Typed) -> Allocation:
        return Allocation(self.span(), self._plain_type(type))

    def listed_value(self, *values: syntax.Expression) -> syntax.StructValue:
        return syntax.StructValue(self.span(), None, values)

    def row(self, first: syntax.Expression, rest: tuple[syntax.Expression, ...]
            ) -> syntax.StructValue:
        return self.listed_value(first, *rest)

    def declarations(self, typed: Typed, first: Any, *more: Any) -> Declared:
        declared: list[Any] = [(typed, *first)]
        for stars, initialized in more:
            typed = typed.without_pointer()
            typed.add_stars(stars or (), self.diagnostics)
            declared.append((typed, *initialized))
        return declared

    def local_declaration(self, declared: Declared) -> syntax.Declaration:
        variables: list[syntax.Variable] = []
        for typed, declarator, initializer, span in declared:
            spec, qualifiers = self._variable_type(typed, declarator)
            value = self._expression(initializer, declarator.name_span, spec.count is not None
                                     or typed.spec.scalar.startswith(("struct ", "auto")))
            variables.append(syntax.Variable(span, declarator.name, declarator.name_span, spec,
                                             value, qualifiers))
        return syntax.Declaration(self.span(), tuple(variables))

    def _expression(self, initializer: Initializer | None, name_span: Span,
                    struct: bool = False) -> syntax.Expression | None:
        """`initializer` if it is an expression; None, after a message, if it is not."""
        if _is_list(initializer) and not struct:
            hint = "assign a scalar, which fills the tile"
            if len(initializer.values) == 1 and not _is_list(initializer.values[0]):
                hint = "write the value without braces; it fills the tile"
            self.unsupported(initializer.span, "initialiser lists are only for structs and "
                             f"tunables; {hint}")
            return None
        if isinstance(initializer, Allocation):
            self.error(initializer.span, _MISPLACED_TABLE)
            return None
        return initializer


def _is_list(value: Initializer | None) -> TypeGuard[syntax.StructValue]:
    """Whether it is `{a, b}`: of a struct, or the values of a tunable; anywhere else an error."""
    return isinstance(value, syntax.StructValue) and value.type is None


def _listed(value: Initializer) -> tuple[Any, ...]:
    return value.values if _is_list(value) else (value,)


def _is_void(parameter: syntax.Parameter) -> bool:
    spec = parameter.type
    return (not parameter.name and spec.scalar == "void" and not spec.pointer
            and spec.extents is None)
