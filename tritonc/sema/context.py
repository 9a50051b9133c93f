"""The state of lowering one kernel, and the means by which all of `sema` makes operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, NoReturn

from tritonc.frontend import syntax
from tritonc.ir.build import Builder, make_op
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.numeric import numbers
from tritonc.ir.ops import OPS
from tritonc.records import NamedTuple, dataclass
from tritonc.sema.scope import Entity, FunctionEntity, Poisoned, Scope, Unit, Variable
from tritonc.sema.ssa import Ssa
from tritonc.sema.types import ctypes
from tritonc.sema.types.exact import is_fraction, round_exact
from tritonc.sema.types.term import POISON, Refused, Term
from tritonc.source import CompileError, Diagnostics, Note, Span

if TYPE_CHECKING:
    from tritonc.sema.predicates.in_force import Mask, Region

_ROUNDED = frozenset({"fadd", "fsub", "fmul", "fdiv"})
HINTS = frozenset({"align", "multiple_of"})  # qualifiers that promise a divisor
MAX_NESTING = 6000  # levels of syntax trees inside each other, over all inlined functions


class Words(NamedTuple):
    """What the words behind the arguments of an access say; "" for those that are missing."""

    order: str = ""
    scope: str = ""
    cache: str = ""

    @property
    def attributes(self) -> dict[str, Any]:
        found = {"order": self.order, "scope": self.scope, "cache": self.cache}
        return {name: value for name, value in found.items() if value}


@dataclass(eq=False, slots=True)
class Frame:
    """A function being lowered.  `result` is None where it is void."""

    function: FunctionEntity
    returns: ctypes.CType
    mask: "Mask | None"
    outer: "Frame | None"
    call: Span | None
    result: Variable | None = None
    exit: Block | None = None  # made by the first `return` that is not at the end
    tail: syntax.Statement | None = None  # the last statement of the body
    ended: dict[str, Entity] = field(default_factory=dict)  # names of blocks that have ended
    lift: tuple[int, ...] | None = None  # of the library: the shape that scalars have
    instance: str = ""  # of a generic function: which


@dataclass(eq=False, slots=True)
class Loop:
    """The innermost loop of a function."""

    mask: "Mask | None"
    exit: Block
    next: Block  # where `continue` goes


@dataclass(eq=False)
class Context:
    """One kernel on its way from syntax to Triton-IR."""

    unit: Unit
    diagnostics: Diagnostics
    kernel: Kernel
    scope: Scope
    handlers: "dict[type[syntax.Node], Callable[[Context, Any], Any]]"
    pure_calls: frozenset[str]  # builtins that have no effects and read no memory
    contract: bool = True  # a * b + c within one expression may be rounded once
    builder: Builder = field(init=False)
    ssa: Ssa = field(init=False)
    frame: Frame | None = None
    site: Span | None = None  # of the call, while a function of the library is lowered
    loop: Loop | None = None
    mask: "Mask | None" = None  # the tile predicate of the statement
    region: "Region | None" = None  # what is made under the outermost predicate
    statement: syntax.Expression | None = None  # the expression that is a statement
    widened: syntax.Expression | None = None  # a load that may take the predicate's shape
    member: syntax.Member | None = None  # the innermost that is read
    constant_for: str | None = None  # what wants a constant expression, while one is read
    words: Words | None = None  # behind the arguments of the builtin that is called
    involved: tuple[syntax.Expression, ...] = ()  # operands of what is being made
    nesting: int = 0
    assignments: int = 0  # lowered so far; tells whether an expression has any
    operations: int = 0  # made so far
    calls: int = 0  # inlined so far
    iterations: int = 0  # of static loops, so far
    reads: list[tuple[Span, Variable, Value]] = field(default_factory=list)
    tile_spans: dict[int, Span] = field(default_factory=dict)  # where each axis got its extent
    _constants: dict[Block, dict[Any, Value]] = field(default_factory=dict)
    guarded_nodes: dict[syntax.Node, bool] = field(default_factory=dict)  # of predicates.py

    def __post_init__(self) -> None:
        entry = Block("entry")
        self.kernel.blocks.append(entry)
        self.builder = Builder(entry)
        self.ssa = Ssa(entry)

    # --- messages ---

    def error(self, name: str, span: Span, message: str, *notes: Note,
              suggestion: str | None = None) -> Term:
        """Report an error.  Gives the poisoned term, whose use reports nothing more."""
        self.diagnostics.error(name, span, message, *notes, *self.instances(),
                               suggestion=suggestion)
        return POISON

    def refuse(self, name: str, span: Span, message: str, *notes: Note,
               suggestion: str | None = None) -> NoReturn:
        """Report an error, and give up the expression.  Raises Refused."""
        self.error(name, span, message, *notes, suggestion=suggestion)
        raise Refused

    def instances(self) -> tuple[Note, ...]:
        """Of which generic functions the code is that is being lowered."""
        found, frame = [], self.frame
        while frame is not None:
            if frame.instance:
                found.append(Note(f"in {frame.instance}, which is called here", frame.call))
            frame = frame.outer
        return tuple(found)

    @contextmanager
    def about(self, *operands: syntax.Expression) -> Iterator[None]:
        """Messages may name what the operands of the operation are."""
        outer, self.involved = self.involved, operands
        try:
            yield
        finally:
            self.involved = outer

    def declarations(self) -> tuple[Note, ...]:
        """Where the variables that are operands of what is being made were declared."""
        names = dict.fromkeys(n.name for n in self.involved if isinstance(n, syntax.Name))
        found = [self.scope.lookup(name) for name in names]
        return tuple(e.note for e in found if isinstance(e, Variable))

    def warning(self, name: str, span: Span, message: str, *notes: Note,
                suggestion: str | None = None) -> None:
        self.diagnostics.warning(name, span, message, *notes, suggestion=suggestion)

    # --- reading the tree ---

    def lower(self, node: syntax.Node) -> Any:
        """Lower any node: a Term for an expression, nothing for a statement."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.diagnostics.error("inline-limit", node.span,
                                   "calls and expressions are nested too deeply here")
            raise CompileError(self.diagnostics.items)
        try:
            return self.handlers[type(node)](self, node)
        except Refused:
            return POISON
        finally:
            self.nesting -= 1

    def operand(self, node: syntax.Expression, structs: bool = False) -> Term:
        """Lower an expression that has to have a value; poisoned if it has none, or is a struct
        where these cannot be."""
        return self.checked(self.lower(node), node, structs)

    def checked(self, term: Term, node: syntax.Expression, structs: bool = False) -> Term:
        """What `operand` checks, of an expression that is lowered already."""
        if term.members and not structs:
            element = term.type.element
            assert isinstance(element, ctypes.Struct)
            if element.array:
                tile = str(term.type).replace("][", ", ")
                return self.error("struct-value", node.span, f"this is the array {term.type}, but "
                                  "a tile is expected; a constant index selects one",
                                  Note(f"a tile of {tile.count(',') + 1} axes is {tile}"))
            return self.error("struct-value", node.span, f"this is the struct {term.type}, but a "
                              "number is expected; name a member: "
                              f"{', '.join(name for name, _ in element.members)}")
        if term.type is ctypes.VOID_TYPE:
            return self.error("void-value", node.span, "a value is expected here; this call of a "
                              "void function gives none")
        if term.type is ctypes.STRING_TYPE:
            return self.error("string-literal", node.span, "a string can only be an argument "
                              "of printf, assert and static_assert")
        return term

    # --- making operations ---

    def value(self, term: Term) -> Value:
        """The term as an IR value; a constant becomes an operation, once in a block."""
        if term.value is not None:
            return term.value
        constant, type = term.constant, term.type.ir
        if is_fraction(constant):
            constant = round_exact(constant, ctypes.DOUBLE.ir)
        if constant is None or isinstance(constant, str):
            assert term.poisoned or term.type is ctypes.VOID_TYPE, f"{term} has no value"
            return self.ssa.undef(type)
        known = self._constants.setdefault(self.builder.block, {})
        key = (type, repr(constant))
        found = known.get(key)
        if found is None:
            found = known[key] = self.builder.value("constant", type=type, value=constant)
        return found

    def op(self, name: str, type: ctypes.CType, *terms: Term, guard: Value | None = None,
           **attributes: Any) -> Term:
        """The result of an operation; computed here where all operands are constants."""
        if guard is None:
            constants = [t.constant for t in terms]
            if constants and None not in constants:
                folded = self._fold(name, type, terms, attributes)
                if folded is not None:
                    return folded
        if type.element is ctypes.LITERAL:  # what is computed of one is the double that it is
            type = ctypes.ctype(ctypes.DOUBLE, type.shape)
        values = [self.value(t) for t in terms]
        return Term(type, self.emit(name, *values, type=type, guard=guard, **attributes).result)

    def emit(self, name: str, *values: Value, type: ctypes.CType | None = None,
             guard: Value | None = None, **attributes: Any) -> Op:
        if self.site is not None and name in _ROUNDED:
            attributes["exact"] = True
        span = self.builder.span
        op = make_op(name, list(values), guard=guard, span=span, **attributes) if type is None \
            else Op(name, list(values), attributes, (type.ir,), guard, span)
        self.builder.block.ops.append(op)
        if self.region is not None:
            self.region.ops.append((op, self.mask))
        self.operations += 1
        return op

    def _fold(self, name: str, type: ctypes.CType, terms: tuple[Term, ...],
              attributes: dict[str, Any]) -> Term | None:
        operands = [Value(t.type.ir) for t in terms]
        op = make_op(name, operands, type.ir, **attributes)
        constants = [round_exact(t.constant, ctypes.DOUBLE.ir) if is_fraction(t.constant)
                     else t.constant for t in terms]
        try:
            found = numbers.evaluate(OPS[name], op, constants)  # type: ignore[arg-type]
        except numbers.NotFoldable:
            return None
        return Term(type, constant=found[0])

    def at(self, span: Span) -> None:
        """Operations from here on belong to that part of the source."""
        self.builder.span = self.site or span

    # --- control flow ---

    @property
    def block(self) -> Block:
        return self.builder.block

    @property
    def live(self) -> bool:
        """Whether control can reach this point."""
        return self.ssa.is_live(self.builder.block)

    def start(self, block: Block, seal: bool = True) -> None:
        """Go on in `block`.  Its edges are known; `seal` says that there will be no more."""
        if self.ssa.is_live(block):
            self.kernel.blocks.append(block)
        if seal:
            self.ssa.seal(block)
        self.builder.block = block

    def branch(self, target: Block) -> None:
        """End the block by going to `target`; what follows is dead until `start`."""
        if self.live:
            self.emit("br").blocks = [target]
            self.ssa.add_edge(self.block, target)
        self.die()

    def branch_if(self, condition: Term, then: Block, orelse: Block) -> None:
        """End the block by going to one of two; by a constant condition, to one of one."""
        if condition.constant is not None:
            self.branch(then if condition.constant else orelse)
            return
        if self.live:
            self.emit("cond_br", self.value(condition)).blocks = [then, orelse]
            self.ssa.add_edge(self.block, then)
            self.ssa.add_edge(self.block, orelse)
        self.die()

    def die(self) -> None:
        """Control does not reach what follows."""
        self.builder.block = Block("dead")
        self.ssa.seal(self.builder.block)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """What is lowered meanwhile is checked, but leaves no operations."""
        block = self.block
        self.die()
        yield
        self.builder.block = block

    @contextmanager
    def inner_scope(self) -> Iterator[Scope]:
        outer = self.scope
        inner = self.scope = Scope(outer)
        try:
            yield inner
        finally:
            if self.frame is not None:
                self.frame.ended.update(inner.names)
            self.scope = outer

    # --- variables ---

    def read(self, variable: Variable, span: Span) -> Term:
        """The variable's value; that it has one is checked at the end."""
        if variable.parts:
            return Term(variable.type, members=tuple(self.read(p, span) for p in variable.parts))
        value = self.ssa.read(variable, self.block)
        if value.op is not None and value.op.name in ("undef", "phi"):
            self.reads.append((span, variable, value))
        return Term(variable.type, value)

    def current(self, variable: Variable) -> Term:
        """The variable's value, whether it has one or not."""
        if variable.parts:
            return Term(variable.type, members=tuple(map(self.current, variable.parts)))
        return Term(variable.type, self.ssa.read(variable, self.block))

    def write(self, variable: Variable, term: Term) -> None:
        for part, leaf in zip(variable.leaves(), term.leaves(), strict=True):
            self.ssa.write(part, self.block, self.value(leaf))

    def enter(self, variable: Variable) -> None:
        """Enter a name into the innermost block, which must not have it yet."""
        earlier = self.scope.declare(variable)
        if earlier is not None:
            self.error("redefinition", variable.span, f"'{variable.name}' is declared twice in one "
                       "block", Note("the other declaration is here", earlier.span))
            self.scope.names[variable.name] = Poisoned(variable.name, variable.span)

    def declare(self, variable: Variable) -> None:
        """From here on the variable has no value."""
        for leaf in variable.leaves():
            self.ssa.declare(leaf, self.block)

    def spoil(self, variable: Variable) -> None:
        """What was to be assigned was erroneous: later reads shall report nothing more."""
        for leaf in variable.leaves():
            self.ssa.write(leaf, self.block, self.ssa.undef(leaf.type.ir))


def decayed(term: Term) -> Term:
    """A LITERAL as the double that it is where it stands alone; other terms unchanged."""
    if term.type.element is not ctypes.LITERAL:
        return term
    constant = term.constant
    assert isinstance(constant, float) or is_fraction(constant)
    double = ctypes.DOUBLE
    return Term(ctypes.ctype(double, term.shape), constant=round_exact(constant, double.ir))


def is_poisoned(*terms: Term) -> bool:
    return any(t.type is ctypes.ERROR_TYPE for t in terms)
