"""The words of declarations: qualifiers, type words, and which names are types where.

C's grammar is ambiguous unless the parser knows which identifiers name types.  `TypeNames` knows:
it holds the names that are always types unless hidden (`half`, `int32`), and typedefs, by scope."""

from dataclasses import replace

from tritonc.frontend import syntax
from tritonc.frontend.lexer import Token
from tritonc.records import dataclass
from tritonc.source import Diagnostics, Span

# Each spelling of a qualifier and its canonical name.
QUALIFIER_NAMES = {
    "const": "const",
    "restrict": "restrict", "__restrict": "restrict", "__restrict__": "restrict",
    "__noalias": "restrict",
    "read_only": "read_only", "__readonly": "read_only", "readonly": "read_only",
    "write_only": "write_only", "__writeonly": "write_only", "writeonly": "write_only",
    "align": "align", "__aligned": "align",
    "multiple_of": "multiple_of", "__multipleof": "multiple_of",
    "__retune": "retune",
    "__constant__": "constant",
    "static": "static", "extern": "extern", "volatile": "volatile",
    "inline": "inline", "__inline__": "inline", "__forceinline__": "inline",
    "kernel": "kernel", "__global__": "kernel",
    "__device__": "device",
    "tunable": "tunable"}  # fmt: skip
# Qualifiers that have an argument in parentheses.
QUALIFIERS_WITH_ARGUMENT = frozenset(["align", "multiple_of"])
# Spellings that are qualifiers only where a declaration can stand, and names elsewhere.
CONTEXTUAL = frozenset(["kernel", "tunable", "align", "multiple_of", "read_only", "write_only",
                        "readonly", "writeonly"])

# The words that C combines to types; all are reserved.
TYPE_WORDS = frozenset([
    "void", "bool", "_Bool", "char", "short", "int", "long", "float", "double", "signed",
    "unsigned", "auto"])  # fmt: skip
_ALONE = {"auto": "auto", "void": "void", "bool": "bool", "_Bool": "bool", "float": "float32",
          "double": "float64"}
# What is left of an integer type without `int`, `signed` and `unsigned`.
_INTEGERS = {(): "int32", ("char",): "int8", ("short",): "int16", ("long",): "int64",
             ("long", "long"): "int64"}

# Names that are types in the outermost scope, as if by typedef.
PREDECLARED_TYPES: dict[str, str | None] = {
    "int1": "bool",
    **{name: name for name in (*syntax.SIGNED_TYPES, *syntax.UNSIGNED_TYPES)},
    **{name + "_t": name for name in (*syntax.SIGNED_TYPES, *syntax.UNSIGNED_TYPES)},
    **{name: name for name in syntax.FLOAT_TYPES},
    "half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32",
    "fp64": "float64"}  # fmt: skip


class TypeNames:
    """Which identifiers name types at the point that the parser has reached.

    Limit: a variable declared in the head of a `for` hides a type of its name until the block
    around the loop ends, not only in the loop."""

    def __init__(self) -> None:
        # A scope maps a name to its scalar type, or to None if it hides a type.
        self.scopes: list[dict[str, str | None]] = [PREDECLARED_TYPES, {}]
        self._parameters_open = False

    def lookup(self, name: str) -> str | None:
        """The scalar type that `name` means; None if it is no type here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare_type(self, name: str, scalar: str) -> None:
        self.scopes[-1][name] = scalar

    def in_this_block(self, name: str) -> bool:
        """Whether the innermost block itself says that `name` is a type."""
        return self.scopes[-1].get(name) is not None

    def declare_variable(self, name: str) -> None:
        """From here on to the end of the scope, `name` is no type."""
        if self.lookup(name) is not None:
            self.scopes[-1][name] = None

    def open_parameters(self) -> None:
        """A scope for the parameters; it ends with the function's body, or a prototype's `;`."""
        self.scopes.append({})
        self._parameters_open = True

    def shifted(self, text: str) -> None:
        """The parser has taken `{`, `}` or `;`, which open and close scopes."""
        if text == "{":
            self.scopes.append({})
            return
        if text == "}" and len(self.scopes) > 2:
            self.scopes.pop()
        if self._parameters_open and len(self.scopes) == 3:
            self.scopes.pop()
            self._parameters_open = False

    def reset(self, depth: int) -> None:
        """After an error: the parser is inside `depth` braces."""
        if depth == 0:
            self._parameters_open = False
        del self.scopes[2 + depth + self._parameters_open :]


@dataclass(slots=True, eq=False)
class Declarator:
    """A name being declared, with what follows it: extents and qualifiers."""

    name: str
    name_span: Span
    extents: tuple[syntax.Expression, ...] | None
    qualifiers: list[syntax.Qualifier]
    count: syntax.Expression | None = None


@dataclass(slots=True, eq=False)
class Typed:
    """A type as written before a name; `qualifiers` are those that TypeSpec has no field for."""

    spec: syntax.TypeSpec
    qualifiers: list[syntax.Qualifier]

    def without_pointer(self) -> "Typed":
        """What the next name of the same declaration starts from: in `T *a, b`, `T`."""
        return Typed(replace(self.spec, pointer=False, const_pointer=False), self.qualifiers)

    def add_stars(self, stars: tuple[Token | syntax.Qualifier, ...],
                  diagnostics: Diagnostics) -> None:
        """Apply `* const` and the like."""
        for star in stars:
            if isinstance(star, Token):
                if self.spec.pointer:
                    diagnostics.error("unsupported-construct", star.span,
                                      "a pointer to a pointer is not supported; pass each pointer "
                                      "as a parameter")
                self.spec.pointer = True
            elif star.name == "const":
                self.spec.const_pointer = True
            elif star.name == "constant":
                self.spec.space = "constant"
            else:
                self.qualifiers = [*self.qualifiers, star]


def read_type(specifiers: tuple[Token | syntax.Qualifier | syntax.Struct, ...], types: TypeNames,
              span: Span, diagnostics: Diagnostics) -> Typed:
    """The type that specifiers such as `const unsigned long` spell, without stars and extents."""
    words: list[str] = []
    qualifiers: list[syntax.Qualifier] = []
    spec = syntax.TypeSpec(span, "int32")
    defined: str | None = None
    for specifier in specifiers:
        if isinstance(specifier, syntax.Struct):
            defined = specifier.key
        elif isinstance(specifier, Token):
            words.append(specifier.text)
        elif specifier.name == "const":
            spec.const = True
        elif specifier.name == "constant":
            spec.space = "constant"
        else:
            qualifiers.append(specifier)
    scalar = defined if not words else \
        scalar_type(words) if words[0] in TYPE_WORDS else types.lookup(words[0])
    if scalar is None or (defined is not None and words):
        diagnostics.error("invalid-declaration", span,
                          f"'{' '.join(words)}' is not a type of Triton-C" if defined is None
                          else f"a struct and '{' '.join(words)}' do not make a type together")
    else:
        spec.scalar = scalar
    return Typed(spec, qualifiers)


def scalar_type(words: list[str]) -> str | None:
    """The canonical name of the scalar type that type words spell in any order, if they do.

    >>> scalar_type(["long", "unsigned", "int"]), scalar_type(["long", "double"])
    ('uint64', None)
    """
    if len(words) == 1 and words[0] in _ALONE:
        return _ALONE[words[0]]
    signs = [word for word in words if word in ("signed", "unsigned")]
    sizes = tuple(word for word in words if word not in ("signed", "unsigned", "int"))
    ints = len(words) - len(signs) - len(sizes)
    if len(signs) > 1 or ints > 1 or sizes not in _INTEGERS or (ints and sizes == ("char",)):
        return None
    return ("u" if signs == ["unsigned"] else "") + _INTEGERS[sizes]
