"""ask_ahead: a loop that asks memory for one word after the other asks for the next ones as well.

Before:  loop: %at = phi ..., %at.1             After:  loop: %at = phi ..., %at.2
         body: %seen = atomic_rmw told + %at            ask:  %words = atomic_rmw told + %at - lane
               ...                                      body: ... by word 0
         join: %at.1 = phi %at, %at - 1                 next: if %at.1 is %at - 1, and comes:
               br loop                                  body.1: ... by word 1
                                                        ...
                                                        again: %at.2 = phi ...; br loop

So a scan looks back over what the programs before have told: each word takes a latency of memory,
and the next address is mostly the one before it.  Lanes ask for several words at once, and the loop
takes them in their order as long as it comes to their addresses.

Legal where the loop reads relaxed words, which memory may give in any order, and does nothing else
but arithmetic of scalars.  A word that the loop does not come to lies between the start of a
parameter and a word that it reads, so it may be read.  Before narrow_loops."""

from collections.abc import Iterator

from tritonc.analysis.values import int_of
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Loop, make_phi, redirect
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_blocks, copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.layouts.layout import Layout, log2
from tritonc.ir.ops import CONTROL
from tritonc.ir.types import I32, Scalar, Tile, element, with_element
from tritonc.records import NamedTuple

WORDS = 8  # at once
MOST = 1 << 26  # that a number may count down by: its lanes wrap around to no other place


class _Asked(NamedTuple):
    """The load of a loop, the number that counts down to its address, and by how much."""

    load: Op
    phi: Op
    step: int
    least: int  # of the number while the loop goes on


def ask_ahead(kernel: Kernel, loop: Loop, context: Context) -> bool:
    """Ask for several words at once, if the loop asks for one at a time, downwards."""
    asked = _asked(kernel, loop)
    if asked is None:
        return False
    header, (load, counter, step, _) = loop.header, asked
    rest = [block for block in loop.blocks if block is not header]
    body, latch = header.successors[0], loop.latch
    assert latch is not None
    warps = log2(int(kernel.attributes["num_warps"]))
    lanes = Layout((32,), (), (1, 2, 4, 8, 16), (0,) * warps)
    ask, done = Block(f"{header.name}.ask"), Block(f"{header.name}.again")
    words = _words(Builder(ask, span=load.span), asked, Tile(I32, (32,), lanes), body)
    redirect(header, body, ask)
    body.ops.remove(load)
    kernel.replace({load.result: words[0]})
    state = {phi.result: loop.next(phi) for phi in header.phis()}
    ways: list[tuple[Block, dict[Value, Value]]] = []
    last, made = latch, list[Block]()
    for number, (copies, mapping) in enumerate([copy_blocks(rest, f".{number}")
                                                for number in range(1, WORDS)], 1):
        check = Block(f"{header.name}.{number}")
        redirect(last, header, check)
        known = dict(state)
        check.ops = copy_ops([op for op in header.ops if op.name not in ("phi", "cond_br")], known)
        goes_on = header.terminator.operands[0]
        build = Builder(check)
        there = build.value("add", counter.result, build.constant(number * step, I32))
        same = build.value("icmp", state[counter.result], there, predicate="eq")
        ways.append((check, dict(state)))
        build.emit("cond_br", build.value("and", known.get(goes_on, goes_on), same),
                   blocks=[copies[rest.index(body)], done])
        known[words[0]] = words[number]
        for block in copies:
            for op in block.ops:
                op.replace_inputs(known)
        following = {phi.result: loop.next(phi) for phi in header.phis()}
        state = {phi: mapping.get(value, known.get(value, value))
                 for phi, value in following.items()}
        last = copies[rest.index(latch)]
        made += [check, *copies]
    redirect(last, header, done)
    ways.append((last, state))
    for phi in header.phis():
        joined = make_phi([values[phi.result] for _, values in ways],
                          [block for block, _ in ways], phi.result.name)
        done.ops.append(joined)
        at = phi.blocks.index(latch)
        phi.blocks[at], phi.operands[at] = done, joined.result
    Builder(done).emit("br", blocks=[header])
    at = kernel.blocks.index(header) + 1
    kernel.blocks[at:at] = [ask]
    at = 1 + max(kernel.blocks.index(block) for block in rest)
    kernel.blocks[at:at] = [*made, done]
    context.remark("narrow_loops", f"loads {WORDS} words ahead of the loop at once", load.span)
    return True


def _words(build: Builder, asked: _Asked, t: Tile, body: Block) -> list[Value]:
    """Asks for the words of this iteration and those that probably follow, in lanes."""
    load, counter, step, least = asked
    lane = build.value("range", type=t, start=0, stop=32)
    numbers = build.value("add", build.value("splat", counter.result, type=t), build.value(
        "mul", lane, build.constant(step, t)))
    there = build.value("icmp", numbers, build.constant(least, t), predicate="sge")
    few = build.value("icmp", lane, build.constant(WORDS, t), predicate="slt")
    guard = build.emit("cmpp", build.value("and", there, few)).results[0]
    pointer, kind = load.operands[0], element(load.result.type)
    assert pointer.op is not None
    base = build.value("splat", pointer.op.operands[0], type=with_element(
        t, element(pointer.type)))
    words = build.emit("atomic_rmw", build.value("addptr", base, numbers), build.value(
        "splat", build.constant(0, kind), type=with_element(t, kind)), guard=guard,
        **load.attributes).result
    none = build.constant(0, words.type)
    found = [build.value("reduce", build.value("select", build.value(
        "icmp", lane, build.constant(k, t), predicate="eq"), words, none), kind="add", axes=[0])
        for k in range(WORDS)]
    build.emit("br", blocks=[body])
    return found


def _asked(kernel: Kernel, loop: Loop) -> _Asked | None:
    """What the loop asks for, if it may ask ahead."""
    test, ops = loop.header.terminator.operands[0].op, list(loop.ops())
    others = [op for op in ops if op.effects - {CONTROL}]
    if not loop.regular or len(others) != 1 or test is None or test.name != "icmp" or any(
            not isinstance(v.type, Scalar) for op in ops if op is not others[0]
            and op is not others[0].operands[0].op for v in op.results):
        return None
    load, body = others[0], loop.header.successors[0]
    address, bound = load.operands[0].op, int_of(test.operands[1])
    if load.name != "atomic_rmw" or load.attributes["kind"] != "load" or load.guard is not None \
            or load.attributes.get("order") != "relaxed" or load not in body.ops or body.phis() \
            or not isinstance(load.result.type, Scalar) or load.result.type.is_float \
            or address is None or bound is None \
            or address.name != "addptr" or address.operands[0] not in kernel.parameters:
        return None
    counter = address.operands[1].op
    if counter is None or counter not in loop.header.phis() or counter.result.type != I32 \
            or test.operands[0] is not counter.result or any(
            phi.result.type is not I32 and not isinstance(phi.result.type, Scalar)
            for phi in loop.header.phis()):
        return None
    steps = set(_steps(loop, loop.next(counter), counter.result, set()))
    least = bound + (test.attributes["predicate"] == "sgt")
    if test.attributes["predicate"] not in ("sgt", "sge") or least < 0 or len(steps) != 1 \
            or not -MOST <= (step := steps.pop()) < 0:
        return None
    return _Asked(load, counter, step, least)


def _steps(loop: Loop, value: Value, counter: Value, seen: set[Value]) -> Iterator[int]:
    """By what numbers the counter may move on."""
    op = value.op
    if op is None or value in seen or value is counter:
        return
    seen.add(value)
    if op.name in ("phi", "select", "psi"):
        for operand in op.operands:
            yield from _steps(loop, operand, counter, seen)
    elif op.name == "add" and op.operands[0] is counter and (
            number := int_of(op.operands[1])) is not None:
        yield number
