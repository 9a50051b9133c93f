"""Which tests of a loop can become one at its header: what `unify_exits` may do.

A test *early* in the loop moves into the header: what it needs may run for an iteration that does
not come, the rest may move behind it.  A *late* one moves to the end: nothing with an effect, nor a
product, stands behind it.  The reasons against it are said in remarks."""

from tritonc.analysis.values import slice_of, speculatable
from tritonc.ir.cfg import Cfg, Loop
from tritonc.ir.core import Block, Op
from tritonc.ir.ops import READ
from tritonc.ir.types import Tile, is_pointer
from tritonc.records import dataclass

_READS = frozenset({READ})


@dataclass
class Plan:
    """`early`: blocks from the header on whose tests move into it; `late`: from the first test at
    the end to the latch, blocks that become one; `sinks`: whether what the test at the header does
    not need may move behind it."""

    early: list[Block]
    late: list[Block]
    sinks: bool = True


def plan(cfg: Cfg, loop: Loop) -> Plan | tuple[Op, str] | None:
    """How to bring the loop into its form; None if it has it; or what prevents it, and why."""
    assert loop.latch is not None
    header = loop.header
    sources = [block for block, _ in loop.exits]
    hindered = _may_move(cfg, loop, [header])
    early: list[Block] = []
    if header in sources and header is not loop.latch and not hindered:
        early = [header]
        while not hindered:
            following = next(to for to in early[-1].successors if to in loop)
            if following not in sources or cfg.predecessors[following] != [early[-1]]:
                break
            hindered = _may_move(cfg, loop, [*early, following])
            if not hindered:
                early.append(following)
    rest = [block for block in sources if block not in early]
    late = _late(cfg, loop, rest, early)
    if isinstance(late, str):
        if sources == [header]:
            return None if header.terminator.blocks[0] in loop else Plan([header], [], False)
        return rest[-1].terminator, hindered or late
    if late and early:
        why = _may_move(cfg, loop, [header])
        if why:
            return late[0].terminator, why
    if not late and early == [header] and header.terminator.blocks[0] in loop \
            and not _works(cfg, loop):
        return None
    return Plan(early, late)


def _late(cfg: Cfg, loop: Loop, rest: list[Block], early: list[Block]) -> list[Block] | str:
    """The blocks from the first of the exits of `rest` to the latch; or what stands between."""
    if not rest:
        return []
    assert loop.latch is not None
    if any(block in other for other in cfg.loops if other is not loop and other.header in loop
           for block in rest):
        return "it is inside an inner loop"
    late = [loop.latch]
    while not all(block in late for block in rest):
        first = late[0]
        if first.phis():
            return "two paths lead to it"
        found = next((op for op in first.ops[:-1] if not _early(op)), None)
        if found is not None:
            return f"'{found.name}' comes after it"
        source = cfg.predecessors[first]
        if first is loop.header or len(source) != 1 or source[0] in early:
            return "it is under a condition"
        late.insert(0, source[0])
    return late


def _works(cfg: Cfg, loop: Loop) -> bool:
    """Whether the header loads, or works on tiles, for more than its test."""
    needed = needed_by_tests(cfg, loop, [loop.header])
    return any(op not in needed and (op.name == "load" or any(
        isinstance(v.type, Tile) for v in op.results)) for op in loop.header.ops
        if op.name != "phi")


def _early(op: Op) -> bool:
    """May run for an iteration that does not come, a load if it is guarded."""
    if op.name == "dot":
        return False
    if speculatable(op):
        return True
    return (op.name == "load" and op.effects == _READS and not op.attributes.get("volatile")
            and not is_pointer(op.result.type))


def needed_by_tests(cfg: Cfg, loop: Loop, blocks: list[Block]) -> set[Op]:
    """The operations of blocks that their tests need, and what is read behind the loop."""
    behind = [v for other in cfg.order if other not in loop for op in other.ops
              for v in op.inputs()]
    tests = [v for block in blocks for v in block.terminator.operands]
    return slice_of([*tests, *behind],
                    {op for block in blocks for op in block.ops[len(block.phis()):]})


def _may_move(cfg: Cfg, loop: Loop, blocks: list[Block]) -> str:
    """Whether the tests of blocks may move into the first, the header; if not, what hinders."""
    needed = needed_by_tests(cfg, loop, blocks)
    for block in blocks:
        if block is not loop.header and block.phis():
            return "two paths lead to it"
        for op in block.ops[len(block.phis()):-1]:
            if not (_early(op) if op in needed else op.pure or _early(op)):
                return f"'{op.name}' comes before it"
    return ""
