"""unroll_runtime: a loop in which tiles meet numbers from memory takes four of them at a time.

Before:  head: %k = phi [0, pre], [%k1, body]     After:  main: %m = phi [0, pre], [%k4, four]
               cond_br (%k < %n), body, exit                    cond_br (%m < %n - 3), four, head
         body: %a = load %p                               four: %a0, %a1, %a2, %a3 = load
               ... with %a                                      ... with %a0, %a1, %a2, %a3
               br head                                          br main
                                                          head: %k = phi [%m, main], [%k1, body]

Each iteration waits for its few numbers, and counts, tests and branches for them; here the numbers
of four are loaded together.  What is left runs in the loop as it was.  The bound is `%n` less the
steps of three iterations, or the least number there is if that is less; so the test of the fourth
iteration holds exactly where it held before.

Loops of a header and one more block that count upwards to a number, load numbers and no tiles,
store nothing and ask no other threads.  After rotate_dots, as load_ahead."""

from tritonc.analysis.counters import Counter, counter_of
from tritonc.analysis.values import needed
from tritonc.backend.memory.versions.general import rare
from tritonc.backend.pipeline.staged_loop import elements_per_thread
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op
from tritonc.ir.types import Tile, scalar

TIMES = 4
MOST_LOADS = 4  # of an iteration: each takes a register in four
# Operations of a thread in an iteration: of more, what is gained is little.  H200: four nearest
# points, 25 operations, 1.25 times as fast; potentials of atoms, 60, 1.07.
MOST = 128


def unroll_runtime(kernel: Kernel, context: Context) -> bool:
    """Unroll such loops."""
    changed, cfg = False, Cfg(kernel)
    left = set(rare(cfg, cfg.order))
    for loop in cfg.loops:
        counter = counter_of(loop)
        if counter is None or loop.body is None or loop.body in left or not _possible(
                loop, counter):
            continue
        context.remark("unroll_runtime", f"unrolled {TIMES} times: each iteration loads values "
                       "that all elements of a tile use", loop.header.terminator.span)
        _unroll(kernel, loop, counter)
        changed = True
    return changed


def _possible(loop: Loop, counter: Counter) -> bool:
    ops = [op for op in loop.ops() if op not in loop.header.phis()]
    loads = [op for op in ops if op.name == "load"]
    work = sum(elements_per_thread(op.result) for op in ops
               if len(op.results) == 1 and isinstance(op.result.type, Tile))
    return (counter.predicate == "slt" and counter.step > 0
            and (counter.limit.op is None or counter.limit.op not in ops)
            and counter.limit.op not in loop.header.phis()
            and 0 < len(loads) <= MOST_LOADS and 0 < work <= MOST
            and all(op in loads or op.name in ("br", "cond_br") or (op.pure and (
                op.info.elementwise or op.name in _MOVES)) for op in ops)
            and not any(isinstance(op.result.type, Tile) or op.attributes.get("volatile")
                        for op in loads))


_MOVES = frozenset("constant splat broadcast reshape range psi cmpp addptr".split())


def _unroll(kernel: Kernel, loop: Loop, counter: Counter) -> None:
    header, body, before = loop.header, loop.body, loop.preheader
    assert body is not None and before is not None
    main, four = Block(header.name + ".main"), Block(body.name + ".main")
    phis = header.phis()
    values = {phi.result: make_phi([loop.first(phi), loop.first(phi)], [before, four],
                                   phi.result.name).result for phi in phis}
    main.ops = [value.op for value in values.values() if value.op is not None]
    build = Builder(before, len(before.ops) - 1, header.terminator.span)
    t = counter.limit.type
    less = (TIMES - 1) * counter.step
    least = -1 << scalar(t).bits - 1
    far = build.value("icmp", counter.limit, build.constant(least + less, t), predicate="sge")
    bound = build.value("select", far, build.value("sub", counter.limit, build.constant(less, t)),
                        build.constant(least, t))
    test = Builder(main, len(main.ops), header.terminator.span)
    more = test.value("icmp", values[counter.phi.result], bound, predicate="slt")
    test.emit("cond_br", more, blocks=[four, header])
    ops, now = list[Op](), dict(values)
    for _ in range(TIMES):
        mapping = dict(now)
        ops += copy_ops((op for block in (header, body) for op in block.ops[:-1]
                         if op not in phis), mapping)
        now = {phi.result: mapping.get(loop.next(phi), loop.next(phi)) for phi in phis}
    loads = [op for op in ops if op.name == "load"]
    first = needed(ops, [v for op in loads for v in op.inputs()])
    first = [op for op in ops if op in {*first, *loads}]
    four.ops = [*first, *(op for op in ops if op not in {*first}),
                Op("br", [], blocks=[main], span=body.terminator.span)]
    for phi in phis:
        value = values[phi.result]
        assert value.op is not None
        value.op.operands[1] = now[phi.result]
        place = phi.blocks.index(before)
        phi.operands[place], phi.blocks[place] = value, main
    redirect(before, header, main)
    at = kernel.blocks.index(header)
    kernel.blocks[at:at] = [main, four]
