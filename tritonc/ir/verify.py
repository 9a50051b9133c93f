"""The verifier: whether the IR is what every pass may rely on.

`verify` raises VerifyError, which means that a pass is wrong; it runs after each pass in tests.
`check` is for IR that a user wrote (a `.tir` file) and reports the same things as located errors.

What holds of a kernel:

  - a block is phis, then other operations, then one terminator; nothing branches to the entry
  - a phi has one operand for each block that comes before its own
  - each value is defined once, by an operation of this kernel or as its parameter, and its
    definition
    dominates its uses; a phi uses an operand at the end of the block that the operand belongs to
  - an operation has the operands, attributes and result types that its row and typing rule say
  - only operations that may carry a guard do, and it is an i1 of the shape of an operand

Code that cannot be reached need not fulfil the rule about dominance."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any

from tritonc.ir import combiner, rules
from tritonc.ir.attributes import KINDS
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import TYPE, Block, Kernel, Module, Op, Value
from tritonc.ir.layouts import layout_ops
from tritonc.ir.ops import CONTROL, FCMP, ICMP, OPS, ORDERS, ROWS, SCOPES, OpInfo
from tritonc.ir.syntax.text import print_op
from tritonc.ir.types import CONSTANT, I1, Buffer, Pointer, Scalar, Tile, element, with_element
from tritonc.records import NamedTuple
from tritonc.source import Diagnostics, Span

MAX_ELEMENTS = 1 << 24  # of one tile, so that a slip of the pen does not eat the memory
SUCCESSORS = {"br": 1, "cond_br": 2, "ret": 0}
# What each operation was when it was last found to be right.
Known = dict[Op, tuple[list[object], dict[str, Any]]]


class VerifyError(Exception):
    """The IR is broken: an internal error of the pass that ran last."""


class Problem(NamedTuple):
    """`block` and `op` are None where the kernel as a whole is wrong."""

    kernel: Kernel
    block: Block | None
    op: Op | None
    message: str

    @property
    def span(self) -> Span | None:
        return self.op.span if self.op is not None and self.op.span else self.kernel.span

    def __str__(self) -> str:
        place = f"kernel '{self.kernel.name}'"
        if self.block is not None:
            place += f", block '{self.block.name}'"
        return f"{place}: {self.message}" + (f"\n  {print_op(self.op)}" if self.op else "")


def verify(subject: Module | Kernel, stage: str = "", table: Mapping[str, OpInfo] = OPS,
           known: Known | None = None) -> None:
    """Raise VerifyError if `subject` is broken.

    `stage` names what ran last, for the message.  `table` has the rows of all operations that may
    occur.  Who verifies a kernel after each pass hands in one `known`, at first empty: an operation
    whose types and attributes are as they were is not held against its row again."""
    found = [*problems(subject, table, known)]
    if found:
        after = f"after {stage}: " if stage else ""
        raise VerifyError("\n".join(f"{after}{problem}" for problem in found[:5]))


def between_passes() -> Callable[[Kernel, Any], None]:
    """What verifies kernels after each pass."""
    known: Known = {}
    return lambda kernel, context: verify(kernel, table=ROWS, known=known)


def check(module: Module, diagnostics: Diagnostics, table: Mapping[str, OpInfo] = OPS) -> None:
    """Report what is wrong with IR that a user wrote.  Raises CompileError if anything is."""
    for problem in problems(module, table):
        where = "" if problem.op else f"kernel '{problem.kernel.name}': "
        if problem.block is not None and problem.op is None:
            where = f"block '{problem.block.name}' of {where}"
        diagnostics.error("ir-invalid", problem.span, where + problem.message)
    diagnostics.raise_if_errors()


def problems(subject: Module | Kernel, table: Mapping[str, OpInfo] = OPS,
             known: Known | None = None) -> Iterator[Problem]:
    """Everything wrong, at most one problem per operation; `known` as for `verify`."""
    known = {} if known is None else known
    if isinstance(subject, Kernel):
        yield from _kernel(subject, table, known)
        return
    tables = {constant.name: constant for constant in subject.constants}
    for kernel in subject.kernels:
        yield from _kernel(kernel, table, known)
        for block in kernel.blocks:
            for op in block.ops:
                if op.name == "constant_table" and op.results:
                    constant = tables.get(op.attributes.get("symbol", ""))
                    if constant is None:
                        yield Problem(kernel, block, op, "no constant table has this name")
                    elif op.result.type != Pointer(constant.element, CONSTANT):
                        yield Problem(kernel, block, op,
                                      f"a table of {constant.element} is not a {op.result.type}")


def _kernel(kernel: Kernel, table: Mapping[str, OpInfo], known: Known) -> Iterator[Problem]:
    structure = [*_structure(kernel, table)]
    yield from structure
    if structure:
        return  # the graph cannot be trusted
    cfg = Cfg(kernel)
    defined, phis = cache(lambda: _places(kernel)), list[tuple[Block, Op]]()
    ends: dict[Block | None, set[Value]] = {None: set(kernel.parameters)}  # what is there for sure
    for block in kernel.blocks:
        there = ends[block] = ends.get(cfg.immediate_dominator.get(block), ends[None]).copy()
        for index, op in enumerate(block.ops):
            row, before = table[op.name], known.get(op)
            now = [row, op.guard is None, *map(TYPE, op.operands if op.guard is None
                                               else op.inputs()), *map(TYPE, op.results)]
            if before is not None and before[0] == now and before[1] == op.attributes:
                message = None
            elif (message := _operation(op, row)) is None:
                known[op] = now, dict(op.attributes)  # values of attributes are never changed
            if message is None and (op.blocks or op.name == "phi"):
                message = _targets(op, block, cfg)
            if message is None and op.name == "phi":
                phis.append((block, op))
            elif message is None and not (there.issuperset(op.operands) and (
                    op.guard is None or op.guard in there)):
                message = _uses(op, block, index, cfg, defined())
            there.update(op.results)
            if message:
                yield Problem(kernel, block, op, message)
    for block, op in phis:  # what they read may come later
        if any(v not in ends[b] for v, b in zip(op.operands, op.blocks, strict=True)) and (
                message := _uses(op, block, 0, cfg, defined())):
            yield Problem(kernel, block, op, message)


def _places(kernel: Kernel) -> dict[Value, tuple[Block, int] | None]:
    """Where each value is made; None for a parameter."""
    return dict.fromkeys(kernel.parameters) | {
        result: (block, index) for block in kernel.blocks
        for index, op in enumerate(block.ops) for result in op.results}


def _structure(kernel: Kernel, table: Mapping[str, OpInfo]) -> Iterator[Problem]:
    """What is wrong with blocks, terminators and the identity of operations."""
    if not kernel.blocks:
        yield Problem(kernel, None, None, "there is no block")
    if len(kernel.info) != len(kernel.parameters):
        yield Problem(kernel, None, None, "there is not one ParameterInfo per parameter")
    for parameter in kernel.parameters:
        if not isinstance(parameter.type, Scalar | Pointer):
            yield Problem(kernel, None, None, f"a parameter of type {parameter.type}")
    for info in kernel.info:
        if not {number for number, _ in info.not_null or ()} <= {*range(len(kernel.info))}:
            yield Problem(kernel, None, None, f"there are no such parameters: {info.not_null}")
    if any(axis not in range(3) or extent < 1 for axis, extent in kernel.tile.items()):
        yield Problem(kernel, None, None, f"the tile {kernel.tile}: up to three axes, from 1 on")
    seen: set[Op] = set()
    blocks = set(kernel.blocks)
    for block in kernel.blocks:
        if not block.ops:
            yield Problem(kernel, block, None, "it is empty; a block ends in a terminator")
            continue
        end, before = block.ops[-1], "phi"
        for op in block.ops:
            if op in seen:
                yield Problem(kernel, block, op, "the operation is in two places")
            seen.add(op)
            name = op.name
            row = table.get(name)
            if row is None:
                yield Problem(kernel, block, op, f"'{name}' is not an operation of this stage")
            elif (CONTROL in row.effects) != (op is end):
                yield Problem(kernel, block, op, "a block ends in a terminator, its only one")
            if name == "phi" != before:
                yield Problem(kernel, block, op, "a phi comes after another operation")
            before = name
            for result in op.results:
                if result.op is not op:
                    yield Problem(kernel, block, op, "a result belongs to another operation")
        if len(end.blocks) != SUCCESSORS.get(end.name, len(end.blocks)):
            yield Problem(kernel, block, end, f"'{end.name}' to {len(end.blocks)} blocks")
        for target in end.blocks:
            if target not in blocks:
                yield Problem(kernel, block, end, "a branch to a block of another kernel")
            elif target is kernel.blocks[0]:
                yield Problem(kernel, block, end, "a branch to the entry")


def _targets(op: Op, block: Block, cfg: Cfg) -> str | None:
    """Whether the blocks are right that the operation names."""
    if op.name != "phi":
        return "only phis and terminators name blocks" if op.blocks and (
            op is not block.ops[-1]) else None
    if len(op.blocks) != len(op.operands):
        return f"{len(op.operands)} operands for {len(op.blocks)} blocks"
    before = cfg.predecessors[block]
    if len(set(op.blocks)) != len(op.blocks) or set(op.blocks) != set(before):
        names = ", ".join(b.name for b in before)
        return f"the blocks before '{block.name}' are {names or 'none'}"
    return None


def _uses(op: Op, block: Block, index: int, cfg: Cfg,
          defined: Mapping[Value, tuple[Block, int] | None]) -> str | None:
    """Whether all that the operation reads is there."""
    phi = op.name == "phi"
    for i, value in enumerate(op.inputs()):
        if value not in defined:
            return f"{value!r} is not of this kernel"
        place = defined[value]
        user = op.blocks[i] if phi else block
        if place is None or not cfg.reachable(user):
            continue
        there, at = place
        if there is user:
            good = phi or at < index
        else:
            good = cfg.reachable(there) and cfg.dominates(there, user)
        if not good:
            return f"%{value.name or '?'} may be used before it is defined"
    return None


def _operation(op: Op, row: OpInfo) -> str | None:
    """Whether the operation fits its row."""
    if message := row.misfit(len(op.operands), op.attributes):
        return message
    for name, value in op.attributes.items():
        kind = KINDS.get(name)
        if (kind is not None and not kind(value)) or (
                op.name in OPS and not _attribute_fits(op, name, value)):
            return f"the attribute '{name}' of '{op.name}' cannot be {value!r}"
    for result in op.results:
        t = result.type
        if isinstance(t, Tile | Buffer) and (
                not t.shape or min(t.shape) < 1 or prod(t.shape) > MAX_ELEMENTS):
            return f"a tile has from 1 to {MAX_ELEMENTS} elements, {t} has not"
        if isinstance(t, Tile | Buffer) and t.layout is not None and t.layout.shape != t.shape:
            return f"expected a layout of the shape {list(t.shape)}, found {t.layout}"
    stated = op.results[0].type if op.results else None
    try:
        types = row.rule([v.type for v in op.operands], op.attributes, stated)
    except rules.TypeMismatch as mismatch:
        return str(mismatch)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError,
            ValueError) as error:  # a rule of machine operations may trust its attributes
        return f"its attributes do not fit: {type(error).__name__}: {error}"
    if types != tuple(r.type for r in op.results):
        found = ", ".join(str(r.type) for r in op.results) or "none"
        return f"expected results of {', '.join(map(str, types)) or 'none'}, found {found}"
    return _layout(op) or (_guard(op, row) if op.guard is not None else None)


def _layout(op: Op) -> str | None:
    """Whether the layout of what moves no data between threads follows from the operand's."""
    if op.name not in ("reshape", "trans", "broadcast", "reduce") or not op.results:
        return None
    source, t = op.operands[0].type, op.results[0].type
    if not isinstance(source, Tile) or not isinstance(t, Tile):
        return None
    if source.layout is None or t.layout is None:
        return None if source.layout is t.layout else "one of the two tiles has no layout"
    if op.name == "broadcast":
        return None if layout_ops.broadcasts(source.layout, t.layout) else (
            f"threads hold other elements of {source.layout} than a broadcast to {t.layout} needs")
    if op.name == "reduce":
        return None if layout_ops.reduces(source.layout, t.layout, op.attributes["axes"]) else (
            f"a reduction of {source.layout} does not lie in {t.layout}")
    wanted = (layout_ops.reshape(source.layout, t.shape) if op.name == "reshape"
              else layout_ops.transpose(source.layout, op.attributes["permutation"]))
    return None if wanted == t.layout else f"expected the layout {wanted}, found {t.layout}"


def _guard(op: Op, row: OpInfo) -> str | None:
    assert op.guard is not None
    if not row.guardable:
        return f"'{op.name}' carries no guard"
    shapes = [with_element(v.type, I1) for v in op.operands if not isinstance(v.type, Buffer)]
    if op.guard.type not in (shapes or [I1]):
        return f"expected a guard of {shapes[0] if shapes else I1}, found {op.guard.type}"
    return None


def _attribute_fits(op: Op, name: str, value: Any) -> bool:
    """Whether an attribute's value is of the kind that rules and meanings take for granted."""
    if name == "axis":
        launch = op.name.startswith("get_")
        return type(value) is int and 0 <= value < (3 if launch else 1 << 16)
    if name in ("vector", "alike"):  # neighbours along an axis of the tile
        t, along = op.operands[0].type, op.attributes.get("vector_axis", -1)
        return value == 1 or (isinstance(t, Tile) and type(along) is int
                              and 0 <= along < len(t.shape))
    if name in ("n", "extent"):
        return type(value) is int and 0 < value < 1 << 31
    if name in ("start", "stop"):
        return type(value) is int and -(1 << 31) <= value <= 1 << 31
    if name == "predicate":
        return value in (ICMP if op.name == "icmp" else FCMP)
    if name in ("order", "scope"):
        return value in (ORDERS if name == "order" else SCOPES)
    if name == "function":
        return isinstance(value, str) and _combines(op, value)
    if name in ("value", "other") and op.results:
        return _number_fits(op, value)
    return True


def _combines(op: Op, text: str) -> bool:
    """Whether a combiner takes what the operation has."""
    try:
        function = combiner.read(text)
    except ValueError:
        return False
    return [p.type for p in function.parameters] == [element(v.type) for v in op.operands] * 2


def _number_fits(op: Op, value: Any) -> bool:
    e = element(op.results[0].type)
    if not isinstance(value, int | float):
        return False
    if e.is_float:
        return True
    return isinstance(value, int) and -(1 << (e.bits - 1)) <= value < 1 << e.bits
