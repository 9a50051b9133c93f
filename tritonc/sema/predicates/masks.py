"""Accesses that a mask is missing for: `unmasked`, or it may be on purpose: `unmasked-load`, for
sources read past the end of what they know to be longer, and `never-masked`.

An *index tile* is what runs along an axis of the launch: `get_global_range(d)`, or
`get_program_id(d) * T + 0 ... T` and its like.  The last instance's tile may reach past the end of
the range.  A kernel that compares an index tile with a bound, `r < n`, to guard one access says so;
another access whose address grows with that tile, but whose guard and control flow have nothing to
do with it, is most likely a mistake.  Equal expressions count as one tile, however often the source
writes them.

Nothing is said of addresses that go through what may bound them (`min % / & ?:`, a load), behind a
branch on the instance's place, or where `assume` speaks of the tile or its bound."""

from collections.abc import Callable, Hashable
from dataclasses import field

from tritonc.analysis.values import origin
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import shape
from tritonc.records import NamedTuple, dataclass
from tritonc.source import Diagnostics, Note

_ACCESSES = {"load": "load", "store": "store", "atomic_rmw": "atomic operation",
             "atomic_cas": "atomic operation"}
_MOST = 20_000  # operations of a kernel that is looked at: the time grows with their square
_PLACES = frozenset({"get_program_id", "get_global_range"})
# Through these an address grows with its operands.
_GROWING = frozenset({"add", "sub", "mul", "addptr", "splat", "reshape", "broadcast", "trans",
                      "sext", "zext", "truncate", "shl", "phi", "assume_multiple"})
_SHAPING = frozenset({"splat", "reshape", "broadcast", "sext", "zext", "assume_multiple"})
_LESS, _GREATER = ("slt", "sle", "ult", "ule"), ("sgt", "sge", "ugt", "uge")


class _Bound(NamedTuple):
    """The comparison that some access is guarded by, and the key of its other side."""

    test: Op
    limit: Hashable


def check(kernel: Kernel, diagnostics: Diagnostics) -> None:
    """Warn about accesses of a kernel as semantic analysis made it."""
    names = [op.name for op in kernel.ops()]
    if len(names) > _MOST or _PLACES.isdisjoint(names):
        return
    reader = _Reader()
    accesses = [(block, op) for block in kernel.blocks for op in block.ops if op.name in _ACCESSES]
    bounds: dict[Hashable, _Bound] = {}
    for _, op in accesses:
        if op.guard is not None:
            for value in reader.reached(op.guard):
                reader.read_bound(value, bounds)
    assumed = {reader.key(value) for op in kernel.ops() if op.name == "assume"
               for value in reader.reached(op.operands[0])}
    # A range that is said to be a multiple of something is taken to be one of the tile.
    whole = any(
        value.op is not None and value.op.name in ("srem", "urem")
        for op in kernel.ops() if op.name == "assume" for value in reader.reached(op.operands[0]))
    cfg = Cfg(kernel)
    seen: set[int] = set()  # where the accesses reported begin: `*p += v` is two at one place
    lonely: set[Hashable] = set()
    known: dict[Value | None, set[Hashable]] = {None: set()}
    for block, op in accesses:
        if op.guard not in known:
            assert op.guard is not None
            known[op.guard] = {reader.key(v) for v in reader.reached(op.guard)}
        guards = known[op.guard]
        for tile in reader.index_tiles(op.operands[0]):
            key = reader.key(tile)
            bound = bounds.get(key)
            if key in guards or key in assumed or not cfg.reachable(block) or (
                    op.span is None or op.span.start in seen):
                continue
            if bound is not None and bound.limit in assumed:
                continue
            if _depends_on_place(cfg, block, reader):
                continue
            if bound is not None:
                seen.add(op.span.start)
                _warn(diagnostics, op, tile, bound.test)
            elif key not in lonely and not whole:
                lonely.add(key)
                diagnostics.warning("never-masked", op.span, f"this {_ACCESSES[op.name]} is not "
                                    f"masked along {_name(tile)}, nor is any other")


def _warn(diagnostics: Diagnostics, op: Op, tile: Value, test: Op) -> None:
    assert op.span is not None and test.span is not None
    mask = test.span.file.text[test.span.start : test.span.end]
    text = op.span.file.text[op.span.start : op.span.end]
    suggestion = None
    if shape(op.operands[0].type) == shape(test.result.type) and "\n" not in text + mask and not (
            op.span.expansion or test.span.expansion):
        suggestion = f"@({mask}) {text}" if op.name != "load" else f"({mask} ? {text} : 0)"
    diagnostics.warning(
        "unmasked-load" if op.name == "load" else "unmasked", op.span,
        f"this {_ACCESSES[op.name]} is not masked along {_name(tile)}, as others are: it can run "
        "out of bounds",
        Note("another access is masked by this", test.span), suggestion=suggestion)


def _name(tile: Value) -> str:
    return f"'{tile.name}'" if tile.name else "the global range"


def _depends_on_place(cfg: Cfg, block: Block, reader: "_Reader") -> bool:
    """Whether a branch on the instance's place decides if control comes to the block."""
    below, above = block, cfg.immediate_dominator[block]
    while above is not None:
        terminator = above.terminator
        if terminator.name == "cond_br" and len(cfg.predecessors[below]) == 1 and any(
                v.op is not None and v.op.name in _PLACES
                for v in reader.reached(terminator.operands[0])):
            return True
        below, above = above, cfg.immediate_dominator[above]
    return False


@dataclass(eq=False)
class _Reader:
    """Answers about values of one kernel, remembered."""

    keys: dict[Value, Hashable] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def key(self, value: Value) -> Hashable:
        """Equal for values that are the same expression."""
        pending = [value]
        while pending:
            top = pending[-1]
            op = top.op
            if op is None or op.name in ("phi", *_ACCESSES) or len(op.results) != 1:
                self.keys.setdefault(top, top)
            missing = [v for v in op.operands if v not in self.keys] if (
                op is not None and top not in self.keys) else []
            if not missing and top not in self.keys:
                assert op is not None
                parts = (op.name, tuple(self.keys[v] for v in op.operands),
                         repr(sorted(op.attributes.items())), top.type)
                self.keys[top] = self.numbers.setdefault(parts, len(self.numbers))
            if top in self.keys:
                pending.pop()
            pending += missing
        return self.keys[value]

    def reached(self, value: Value, through: Callable[[Op], bool] = lambda op: True) -> list[Value]:
        """The value and those it is computed from, by operations that `through` holds of."""
        found: dict[Value, None] = {}
        pending = [value]
        while pending:
            top = pending.pop()
            if top not in found:
                found[top] = None
                if top.op is not None and through(top.op):
                    pending += top.op.operands
        return list(found)

    def index_tiles(self, pointer: Value) -> list[Value]:
        """The index tiles that an address grows with."""
        grows = self.reached(pointer, lambda op: op.name in _GROWING)
        return [v for v in grows if self.is_index_tile(v)]

    def is_index_tile(self, value: Value) -> bool:
        """`get_global_range`, or an expression of program ids, times T, plus 0 ... T."""
        op = value.op
        if op is None or op.name == "get_global_range":
            return op is not None
        if op.name != "add":
            return False
        for a, b in (op.operands, op.operands[::-1]):
            scaled = b.op.operands[0].op if b.op is not None and b.op.name == "splat" else None
            if a.op is None or a.op.name != "range" or scaled is None or scaled.name != "mul":
                continue
            factors = [v.op.attributes["value"] for v in scaled.operands
                       if v.op is not None and v.op.name == "constant"]
            if factors == [a.op.attributes["stop"] - a.op.attributes["start"]]:
                return any(v.op is not None and v.op.name in _PLACES for v in self.reached(
                    scaled.results[0], lambda op: op.name not in _ACCESSES))
        return False

    def read_bound(self, value: Value, bounds: dict[Hashable, _Bound]) -> None:
        """Note a comparison of an index tile with a bound that is the same for all elements."""
        test = value.op
        if test is None or test.name != "icmp":
            return
        a, b = test.operands
        if test.attributes["predicate"] in _GREATER:
            a, b = b, a
        elif test.attributes["predicate"] not in _LESS:
            return
        a, b = origin(a, _SHAPING), origin(b, _SHAPING)
        constant = b.op is not None and b.op.name == "constant"
        if self.is_index_tile(a) and not shape(b.type) and not constant:
            bounds.setdefault(self.key(a), _Bound(test, self.key(b)))
