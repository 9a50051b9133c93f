"""Productions of grammar.lark about structs to syntax-tree nodes, and the types of names.

The name of a struct is a type from its definition on; what the tree calls the type is a key that is
the struct's own, so that an inner struct may have the name of an outer one."""

from dataclasses import replace
from typing import Any

from tritonc.frontend import syntax
from tritonc.frontend.lexer import Token
from tritonc.frontend.parser_types import Declarator, Typed, TypeNames
from tritonc.lalr import Parse
from tritonc.source import Diagnostics, Note, Span

_VARIABLE_QUALIFIERS = frozenset([
    "restrict", "read_only", "write_only", "align", "multiple_of", "retune", "static", "volatile",
    "inline"])  # fmt: skip
# Of each name: its type, itself, its value and its span.
Declared = list[tuple[Typed, Declarator, Any, Span]]


class StructActions:
    """The methods for structs, and what all methods use."""

    parse: Parse  # that calls these methods

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics, types: TypeNames) -> None:
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.types = types
        self.structs: dict[str, syntax.Struct] = {}  # by their keys
        self.ranges: dict[int, Span] = {}  # `a ... b` by the index of its last token

    def span(self, at: int = 0) -> Span:
        """From the first token of part `at` of the production to its last token; an empty
        production has the span of its neighbour."""
        first, last = self.parse.places[at], self.parse.last
        start = self.tokens[first].span
        return start.to(self.tokens[last].span) if last > first else start

    def error(self, span: Span, message: str, *notes: Note) -> None:
        self.diagnostics.error("invalid-declaration", span, message, *notes)

    def unsupported(self, span: Span, message: str) -> None:
        self.diagnostics.error("unsupported-construct", span, message)

    def _spec(self, typed: Typed, declarator: Declarator | None = None) -> syntax.TypeSpec:
        """The type that a declaration gives to a name (or a function returns)."""
        spec, qualifiers = replace(typed.spec), typed.qualifiers
        if declarator is not None:
            qualifiers, spec.count = [*qualifiers, *declarator.qualifiers], declarator.count
            names = {qualifier.name for qualifier in declarator.qualifiers}
            spec.const = spec.const or "const" in names
            spec.space = "constant" if "constant" in names else spec.space
            if declarator.extents is not None:
                if spec.extents is not None:
                    self.error(declarator.name_span, f"'{declarator.name}' has extents both on its "
                               "type and after its name")
                spec.extents = declarator.extents
        spec.volatile = spec.pointer and any(q.name == "volatile" for q in qualifiers)
        return spec

    def _variable_type(self, typed: Typed, declarator: Declarator,
                       ) -> tuple[syntax.TypeSpec, tuple[syntax.Qualifier, ...]]:
        """Type and qualifiers of a local variable or parameter."""
        spec = self._spec(typed, declarator)
        what = f"'{declarator.name}'" if declarator.name else "a parameter"
        qualifiers = [*typed.qualifiers, *(q for q in declarator.qualifiers
                                           if q.name not in ("const", "constant"))]
        self._check_qualifiers(qualifiers, _VARIABLE_QUALIFIERS, what)
        for qualifier in qualifiers:
            if qualifier.name == "volatile" and not spec.pointer:
                self.diagnostics.warning("ignored-word", qualifier.span, f"{what} is in registers, "
                                         "where 'volatile' means nothing; a pointer to volatile "
                                         "says how memory is accessed")
        if spec.space == "constant" and not spec.pointer:
            self.error(declarator.name_span, f"{what} is '__constant__' but not a pointer; only "
                       "a pointer can point to constant memory")
        return spec, tuple(qualifiers)

    def _plain_type(self, typed: Typed) -> syntax.TypeSpec:
        """The type of a cast and the like, which has no qualifiers but const and __constant__."""
        allowed = frozenset(["volatile"] if typed.spec.pointer else [])
        self._check_qualifiers(typed.qualifiers, allowed, "a type without a name")
        return self._spec(typed)

    def _check_qualifiers(self, qualifiers: list[syntax.Qualifier], allowed: frozenset[str],
                          what: str) -> None:
        for qualifier in qualifiers:
            if qualifier.name in allowed or qualifier.name in ("const", "constant"):
                continue
            if qualifier.name == "tunable":
                self.error(qualifier.span, "a tunable is declared outside a function, as in "
                           "'const tunable int TM = {16, 32};'")
            else:
                self.error(qualifier.span, f"'{qualifier.name}' does not apply to {what}")

    # --- structs ---

    def struct_name(self, name: Token) -> syntax.Struct:
        """The name is a type from here on; its members follow."""
        return self._new_struct(name.text, name.span, self.span())

    def _new_struct(self, name: str, name_span: Span, span: Span) -> syntax.Struct:
        key = f"struct {name or '?'}"
        if key in self.structs:
            key += f"'{len(self.structs)}"
        if name and self.types.in_this_block(name):
            earlier = self.structs.get(self.types.lookup(name) or "")
            self.diagnostics.error(
                "redefinition", name_span, f"'{name}' is a type in this block already",
                *([] if earlier is None else [Note("it is defined here", earlier.name_span)]))
        struct = self.structs[key] = syntax.Struct(span, name, name_span, key, ())
        if name:
            self.types.declare_type(name, key)
        return struct

    def unnamed_struct(self, *declarations: Declared) -> syntax.Struct:
        return self.struct(self._new_struct("", self.span(), self.span()), *declarations)

    def struct(self, struct: syntax.Struct, *declarations: Declared) -> syntax.Struct:
        span = self.span()
        members: dict[str, syntax.Variable] = {}
        for declaration in declarations:
            for typed, declarator, initializer, place in declaration:
                name = declarator.name
                spec, qualifiers = self._variable_type(typed, declarator)
                if spec.scalar == struct.key:
                    self.error(place, "there are no pointers to structs; "
                               "the number of another record is an int" if spec.pointer else
                               f"member '{name}' has the type of its own struct")
                    continue
                if initializer is not None:
                    self.error(place, f"member '{name}' takes its value where a struct is made, "
                               f"as in '{struct.name or 'pair'} x = {{a, b}};'")
                if spec.const or (spec.const_pointer and not spec.pointer):
                    self.error(place, f"member '{name}' cannot be const; the struct can")
                if qualifiers:
                    self.error(qualifiers[0].span, f"'{qualifiers[0].name}' does not apply to a "
                               "member of a struct")
                if name in members:
                    self.diagnostics.error("redefinition", declarator.name_span, f"the struct has "
                                           f"a member '{name}' already",
                                           Note("it is declared here", members[name].name_span))
                    continue
                members[name] = syntax.Variable(place, name, declarator.name_span, spec, None, ())
        if not declarations:
            self.error(span, "a struct has at least one member, as in "
                       "'struct pair { float a; int b; };'")
        struct.span, struct.members = span, tuple(members.values())
        return struct

    def struct_alone(self, typed: Typed) -> syntax.Empty:
        if not typed.spec.scalar.startswith("struct "):
            self.error(self.span(), "this declares nothing: a name is missing after the type")
        return syntax.Empty(self.span())
