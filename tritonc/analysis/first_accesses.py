"""Which pointers a launch reads or writes for certain, so that they cannot be null.

Looked at is one element alone: the first of each tile, in the program whose ids are 0, which every
launch has that has any.  There `get_global_range` is 0, masks such as `r < N` say `N >= 1`, and an
address is often the parameter itself.  In a loop it is the first iteration that counts.

    @((m < M)[:, newaxis] && (n < N)) *(c + m[:, newaxis] * N + n) = C;

writes to `c` if M and N are at least 1.  What is not understood is no access: a kernel that asks
whether a pointer is null before it reads there may be given one.

The kernel is as semantic analysis leaves it."""

from tritonc.analysis.values import int_of
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block, Kernel, Module, Op, Value
from tritonc.ir.ops import SWAPPED
from tritonc.ir.types import Pointer, element, is_int
from tritonc.records import dataclass

Facts = frozenset[tuple[int, int]]  # (number of a parameter, what it is at least)
_ALWAYS: Facts = frozenset()
_ACCESSES = ("load", "store", "atomic_rmw", "atomic_cas")
_SAME = ("splat", "broadcast", "reshape", "trans", "sext", "zext", "cmpp")  # for the first element
_MORE = {"slt": 1, "ult": 1, "sle": 0, "ule": 0}  # a < b: b is at least a + 1
_MOST_BLOCKS = 100  # that are looked through for a way around one


def set_not_null(module: Module) -> None:
    """Each kernel says when its pointers are not null, as `ParameterInfo.not_null` has it."""
    for kernel in module.kernels:
        for number, facts in first_accesses(kernel).items():
            kernel.info[number].not_null = (*sorted(facts),)


def first_accesses(kernel: Kernel) -> dict[int, Facts]:
    """For each parameter that points to something: when the kernel accesses its first element."""
    found: dict[int, Facts] = {}
    search = _Search(kernel)
    for block in search.cfg.order:
        facts = search.reached[block] = search.of_block(block)
        for op in block.ops:
            search.elements |= dict.fromkeys(op.results, search.of_op(op, block))
            if op.name == "cmpp":
                search.elements[op.results[1]] = None
            if facts is None or op.name not in _ACCESSES:
                continue
            where = search.seen(op.operands[0], block)
            mask = _ALWAYS if op.guard is None else search.condition(op.guard, block)
            if isinstance(where, _Parameter) and mask is not None:
                old = found.get(where.number, facts | mask)
                found[where.number] = min(old, facts | mask, key=lambda f: (len(f), sorted(f)))
    return found


@dataclass(frozen=True)
class _Parameter:
    """A parameter's own value: a pointer or an integer."""

    number: int


Known = int | _Parameter | Facts | None  # a condition has facts from which it follows


class _Search:
    """Blocks are looked at in reverse postorder."""

    def __init__(self, kernel: Kernel) -> None:
        self.cfg = Cfg(kernel)
        self.places = {value: block for block in kernel.blocks for op in block.ops
                       for value in op.results}
        self.reached: dict[Block, Facts | None] = {}
        self.elements: dict[Value, Known] = {
            value: _Parameter(i) for i, value in enumerate(kernel.parameters)
            if isinstance(value.type, Pointer) or (is_int(value.type)
                                                   and element(value.type).bits > 1)}

    def of_block(self, block: Block) -> Facts | None:
        """From what it follows that control comes here, in the first iteration of its loops."""
        above = self.cfg.immediate_dominator[block]
        if above is None:
            return _ALWAYS
        if self._follows(above, block):
            return self.reached[above]
        for source in self.cfg.predecessors[block]:
            facts, last = self.reached.get(source), source.terminator
            if facts is not None and last.name == "cond_br" and last.blocks[0] is block:
                condition = self.condition(last.operands[0], source)
                return None if condition is None else facts | condition
        return None

    def _follows(self, above: Block, block: Block) -> bool:
        """Whether control comes from one block to the other whatever happens, in one iteration of
        the loops that they are in; loops between them end."""
        seen, pending = {above}, [above]
        while pending:
            now = pending.pop()
            if not now.successors or len(seen) > _MOST_BLOCKS:
                return False
            for after in now.successors:
                if self.cfg.index[after] <= self.cfg.index[now] and any(
                        block in loop for loop in self.cfg.loops if loop.header is after):
                    return False
                if after is not block and after not in seen:
                    seen.add(after)
                    pending.append(after)
        return True

    def seen(self, value: Value, block: Block) -> Known:
        """A value's first element as a block sees it: after a loop, its last values are unknown."""
        loop = self.cfg.innermost.get(self.places[value]) if value in self.places else None
        return self.elements.get(value) if loop is None or block in loop else None

    def condition(self, value: Value, block: Block) -> Facts | None:
        found = self.seen(value, block)
        if isinstance(found, int):
            return _ALWAYS if found else None
        return found if isinstance(found, frozenset) else None

    def of_op(self, op: Op, block: Block) -> Known:
        if op.name == "phi":  # of a loop, in its first iteration
            before = [(value, source) for source, value in zip(op.blocks, op.operands, strict=True)
                      if self.cfg.index.get(source, 0) < self.cfg.index[block]]
            return self.seen(*before[0]) if len(before) == 1 else None
        if op.name == "constant":
            return int_of(op.result)
        if op.name in ("get_global_range", "get_program_id"):
            return 0
        if op.name == "range":
            return int(op.attributes["start"])
        operands = [self.seen(operand, block) for operand in op.operands]
        if op.name in _SAME:
            return operands[0]
        if op.name == "reduce":  # one of them holds if the first does
            holds = op.attributes["kind"] == "or" and isinstance(operands[0], frozenset)
            return operands[0] if holds else None
        if op.name == "icmp" and is_int(op.operands[0].type):
            return _compared(op.attributes["predicate"], *operands)
        return _computed(op.name, operands)


def _computed(name: str, operands: list[Known]) -> Known:
    if name == "mul" and 0 in operands:
        return 0
    if name in ("sdiv", "srem", "udiv", "urem") and operands[0] == 0:
        return 0 if isinstance(operands[1], int) and operands[1] else None
    if name in ("add", "addptr", "sub") and operands[1] == 0:
        return operands[0]
    if name == "add" and operands[0] == 0:
        return operands[1]
    if name in ("and", "or"):
        a, b = operands
        if isinstance(a, frozenset) and isinstance(b, frozenset):
            return a | b if name == "and" else a
    return None


def _compared(predicate: str, a: Known, b: Known) -> Known:
    """Of a < b and the like, where `a` is a number."""
    if predicate[1:] in ("gt", "ge"):
        predicate, a, b = SWAPPED[predicate], b, a
    if predicate not in _MORE or not isinstance(a, int) or a < 0:
        return None
    least = a + _MORE[predicate]
    if isinstance(b, int):
        return _ALWAYS if b >= least else None
    return frozenset([(b.number, least)]) if isinstance(b, _Parameter) else None
