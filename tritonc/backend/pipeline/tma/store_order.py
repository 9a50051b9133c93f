"""Whether TMA may store: other accesses of a program may meet with what it writes."""

from tritonc.analysis.aliases import may_alias, pointer_roots
from tritonc.analysis.values import slice_of
from tritonc.backend.launch.persist import counts_programs
from tritonc.backend.pipeline.tma.tma_access import Strip
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ops import READ, SYNC, WRITE


def comes_again(cfg: Cfg, block: Block) -> bool:
    """Whether a program may come to the block more than once."""
    start = _instances(cfg, block)
    return block in reached(block.successors, stop=[start] if start else ())


def _instances(cfg: Cfg, block: Block) -> Block | None:
    """Where the next program begins."""
    return next((loop.header for loop in cfg.loops if block in loop and counts_programs(loop)),
                None)


def apart(strip: Strip, extents: tuple[int, ...]) -> bool:
    """Whether tiles of two iterations of a loop are the same or meet nowhere: they begin at
    multiples of their extents.  Then each thread that stores part of a tile knows what it
    stored before."""
    return all(n % extents[axis] == 0 for axis, start in zip(strip.axes, strip.starts, strict=True)
               for _, n in start.terms)


def alone(kernel: Kernel, cfg: Cfg, block: Block, store: Op) -> bool:
    """Whether nothing else of a program can meet with what TMA writes."""
    roots, target = pointer_roots(kernel), store.operands[0]
    start = _instances(cfg, block)
    at = block.ops.index(store)
    after = reached(block.successors, stop=[start] if start else ())
    before = reached(cfg.predecessors[block] if block is not start else [],
                     lambda b: cfg.predecessors[b] if b is not start else [])
    ended = _ended(kernel, store)
    later = [*block.ops[at + 1 :], *(op for b in after for op in b.ops if op is not store)]
    earlier = [op for op in (*block.ops[:at], *(op for b in before for op in b.ops))
               if op not in ended and op is not store]
    return not any(map(_signals, kernel.ops())) and not any(
        op.operands and op.effects & {READ, WRITE} and SYNC not in op.effects
        and may_alias(kernel, op.operands[0], target, roots) for op in (*later, *earlier))


def _signals(op: Op) -> bool:
    """Whether other programs may learn from it how far this one is."""
    effects = op.effects
    return effects >= {READ, WRITE} or op.name == "memory_barrier" or bool(
        op.attributes.get("release") or op.attributes.get("volatile"))


def _ended(kernel: Kernel, store: Op) -> set[Op]:
    """Loads that have ended when the value is stored to shared memory: it depends on them, or
    shared memory does that was written before."""
    readers = uses(kernel)
    seen: set[Value] = set()

    def staged(value: Value) -> bool:
        if value in seen:
            return True
        seen.add(value)
        return all(op.name == "shared_store" or (op.pure and all(
            map(staged, op.results))) for op in readers.get(value, ()))

    loaded = [op.result for op in kernel.ops() if op.name == "load" and staged(op.result)]
    return slice_of([store.operands[1], *loaded])  # with those that tell them where to load
