"""each loop gets a single exit: one test at its header, true while the loop runs.

Before:  pre:  br head                   After:  pre:  br head
         head: %k = phi [%k0], [%k1]             head: %k = phi [%k0], [%k1]
               X                                       %go = phi [true], [%more]
               %more = ...                             cond_br %go, body, exit
               cond_br %more, head, exit         body: X   %more = ...   br head

         head: cond_br %a, rest, exit    ->      head: %c = and %a, %b   cond_br %c, body, out
         rest: %b = ...   cond_br %b, body, out2       (out: where %a still holds, to out2)

         head: cond_br %done, exit, body ->      head: cond_br (not %done), body, exit

A test behind the header moves into it if what stands before it may run once more than it did, or
may move behind it; its loads then run under the tests before it.  Of a test at the end, as that of
`do while`, the header's phi `%go` remembers the outcome: the first iteration needs none.  What the
tests leave behind goes into phis where the header does not have it.

All loops that read or write memory get this form: pipelines need it.  After licm, which takes loads
out of loops whose first iteration is certain.  Needs preheaders and single latches."""

from typing import Any

from tritonc.analysis.values import defined_by, int_of, needed, slice_of, speculatable
from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, Loop, follow, incoming, make_phi, redirect, remove_edge, split_edge
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.ops import OPPOSITE
from tritonc.ir.ssa import rewire
from tritonc.ir.types import I1, Scalar, Type
from tritonc.opt.loops.plan_exits import Plan, needed_by_tests, plan
from tritonc.opt.uniform_choice import limit
from tritonc.records import dataclass

_NEARER = {"slt": "smin", "sle": "smin", "ult": "umin", "ule": "umin",
           "sgt": "smax", "sge": "smax", "ugt": "umax", "uge": "umax"}


def unify_exits(kernel: Kernel, context: Context) -> bool:
    """Give loops that access memory one exit, inner loops first."""
    changed = False
    seen: set[Block] = set()
    cfg = Cfg(kernel)
    while True:
        loop = next((loop for loop in reversed(cfg.loops) if loop.header not in seen), None)
        if loop is None:
            return _join_bounds(cfg) or changed
        seen.add(loop.header)
        if loop.preheader is None or loop.latch is None or not loop.exits or not _accesses(loop):
            continue
        if plan(cfg, loop) is None:
            continue
        _repeat_invariants(cfg, loop)
        found = plan(cfg, loop)
        if isinstance(found, Plan):
            seen.add(_Unification(kernel, cfg, loop, found).run())
            changed = True
        elif found and any(op.name == "dot" for op in loop.ops()):
            context.remark("unify_exits", "this exit prevents pipelining of the loop: "
                           f"{found[1]}", found[0].span, missed=True)
        cfg = Cfg(kernel)


def _join_bounds(cfg: Cfg) -> bool:
    """Tests of one value by two bounds that do not change are one by the nearer bound: passes that
    ask how long a loop is look at a comparison."""
    changed = False
    for loop in cfg.loops:
        end = loop.header.terminator
        both = defined_by(end.operands[0], "and") if end.name == "cond_br" else None
        one, two = (defined_by(v, "icmp") for v in both.operands) if both else (None, None)
        if one is None or two is None or loop.preheader is None:
            continue
        counter, bound = one.operands
        predicate, nearer = one.attributes["predicate"], _NEARER.get(one.attributes["predicate"])
        bounds = {bound: None, two.operands[1]: None}
        if nearer is None or two.attributes["predicate"] != predicate or not isinstance(
                bound.type, Scalar) or two.operands[0] is not counter or any(
                    v in bounds for op in loop.ops() for v in op.results):
            continue
        bound = Builder(loop.preheader, len(loop.preheader.ops) - 1, end.span).value(
            nearer, bound, two.operands[1])
        end.operands[0] = Builder(loop.header, len(loop.header.ops) - 1, end.span).value(
            "icmp", counter, bound, predicate=predicate)
        changed = True
    return changed


def _accesses(loop: Loop) -> bool:
    """Whether there is something to pipeline; a loop that waits for a lock stays as it is."""
    return any(op.name in ("load", "store") and not op.attributes.get("volatile")
               for op in loop.ops())


def _repeat_invariants(cfg: Cfg, loop: Loop) -> None:
    """What does not change in the loop is computed anew behind it, where it is read there: no phi
    carries it."""
    varying: dict[Value, None] = {}
    for op in loop.ops():
        if not speculatable(op) or any(v in varying for v in op.inputs()):
            varying.update(dict.fromkeys(op.results))
    ops = [op for op in loop.ops() if op.results and op.results[0] not in varying]
    own = {result: op for op in ops for result in op.results}
    for block in cfg.order:
        if block in loop:
            continue
        for op in block.ops:
            if op.name == "phi":
                for i, (value, source) in enumerate(zip(op.operands, op.blocks, strict=True)):
                    if value in own and source not in loop:
                        op.operands[i] = _again(value, ops, source, len(source.ops) - 1)
        found: dict[Value, Value] = {}
        for op in list(block.ops):
            for value in op.inputs():
                if op.name != "phi" and value in own and value not in found:
                    found[value] = _again(value, ops, block, len(block.phis()))
            if op.name != "phi":
                op.replace_inputs(found)


def _again(value: Value, ops: list[Op], block: Block, at: int) -> Value:
    """A copy of what computes an invariant, at a place behind the loop."""
    mapping: dict[Value, Value] = {}
    block.ops[at:at] = copy_ops(needed(ops, [value]), mapping)
    return mapping[value]


@dataclass
class _Exit:
    """One way out of the loop: the block on its edge, and what holds while it is not taken."""

    landing: Block
    stay: Value


class _Unification:
    """The rewriting of one loop."""

    def __init__(self, kernel: Kernel, cfg: Cfg, loop: Loop, chosen: Plan) -> None:
        assert loop.preheader is not None and loop.latch is not None
        self.kernel, self.loop = kernel, loop
        self.early, self.late, self.sinks = chosen.early, chosen.late, chosen.sinks
        self.preheader, self.latch, self.header = loop.preheader, loop.latch, loop.header
        self.needed = needed_by_tests(cfg, loop, self.early)
        self.landings: dict[Block, Block] = {}
        self.span = loop.exits[0][0].terminator.span
        self._land(cfg)

    def run(self) -> Block:
        """Rewrite; gives the loop's header."""
        exits = self._at_the_end() if self.late else []
        self._dispatch(exits + self._at_the_start())
        return self.header

    def _land(self, cfg: Cfg) -> None:
        """A block on each edge out of the loop, with a phi for each value that is read behind."""
        loop = self.loop
        blocks = [block for block in cfg.order if block not in loop]
        inside = {result: block for block in loop.blocks for op in block.ops
                  for result in op.results}
        users: dict[Value, list[tuple[Op, Block]]] = {}
        for block in blocks:
            for op in block.ops:
                for v in dict.fromkeys(op.inputs()):
                    if v in inside:
                        users.setdefault(v, []).append((op, block))
        for source, target in loop.exits:
            self.landings[source] = split_edge(self.kernel, source, target)
        after = Cfg(self.kernel)
        for value, readers in users.items():
            ends: dict[Block, Value] = {}
            for source, landing in self.landings.items():
                if cfg.dominates(inside[value], source):
                    phi = make_phi([value], [source], value.name,
                                   value.op.span if value.op is not None else None)
                    landing.ops.insert(0, phi)
                    ends[landing] = phi.result
            rewire(self.kernel, after, value, ends, readers)

    def _negated(self, condition: Value, block: Block) -> Value:
        build = Builder(block, len(block.ops) - 1, block.terminator.span)
        test = defined_by(condition, "icmp")
        if test is not None:
            return build.value("icmp", *test.operands,
                               predicate=OPPOSITE[test.attributes["predicate"]])
        negation = defined_by(condition, "xor")
        if negation is not None and int_of(negation.operands[1]) == 1:
            return negation.operands[0]
        return build.value("xor", condition, build.constant(True, I1))

    def _staying(self, block: Block) -> Value:
        """What holds where the block does not leave the loop."""
        test = block.terminator
        if test.blocks[0] is self.landings[block]:
            return self._negated(test.operands[0], block)
        return test.operands[0]

    def _landed(self, phi: Op, landing: Block) -> Value:
        """What a phi behind a landing gets from the loop."""
        value = incoming(phi, landing)
        return value.op.operands[0] if value.op is not None and value.op in landing.phis() \
            else value

    # tests at the end

    def _at_the_end(self) -> list[_Exit]:
        """Join the blocks from the first test on; a new header knows what they found."""
        first = self.late[0]
        found: list[tuple[Block, Value]] = []
        go: Value | None = None
        for block in self.late:
            stay = self._staying(block) if block in self.landings else None
            if block is not first:
                assert go is not None
                self._append(first, block.ops[:-1], go)
                self.kernel.blocks.remove(block)
            if stay is not None:
                found.append((self.landings[block], stay))
                go = stay if go is None else self._both(first, go, stay)
        assert go is not None
        again = Block(f"{self.header.name}.test")
        phis = self.header.phis()
        again.ops, self.header.ops = list(phis), self.header.ops[len(phis):]
        follow(again, self.latch, first)
        first.ops[-1] = Op("br", [], blocks=[again], span=first.terminator.span)
        redirect(self.preheader, self.header, again)
        self.latch = first
        carried: dict[Value, Value] = {}
        for landing, _ in found:
            for phi in landing.phis():
                phi.operands = [self._carried(again, phi.operands[0], carried)]
        true = self._before("constant", I1, value=True)
        exits = [_Exit(landing, self._phi(again, true, stay)) for landing, stay in found]
        test = exits[0].stay if len(exits) == 1 else self._phi(again, true, go)
        again.ops.append(Op("cond_br", [test], blocks=[self.header, exits[0].landing],
                            span=self.span))
        self.kernel.blocks.insert(self.kernel.blocks.index(self.header), again)
        self.early = [again, *self.early]
        self.header, self.test = again, test
        return exits

    def _append(self, block: Block, ops: list[Op], guard: Value) -> None:
        """Operations before the block's branch, loads under a guard."""
        for op in ops:
            if op.name == "load":
                limit(op, guard, Builder(block, len(block.ops) - 1, op.span))
                op.attributes.setdefault("other", 0)
            block.ops.insert(-1, op)

    def _both(self, block: Block, a: Value, b: Value) -> Value:
        if int_of(a) == 1:
            return b
        return Builder(block, len(block.ops) - 1, self.span).value("and", a, b)

    def _before(self, name: str, type: Type, **attributes: Any) -> Value:
        build = Builder(self.preheader, len(self.preheader.ops) - 1, self.span)
        return build.value(name, type=type, **attributes)

    def _phi(self, header: Block, start: Value, after: Value) -> Value:
        phi = make_phi([start, after], [self.preheader, self.latch], after.name, self.span)
        header.ops.insert(len(header.phis()), phi)
        return phi.result

    def _carried(self, header: Block, value: Value, known: dict[Value, Value]) -> Value:
        """A value of the iteration that has ended, as the header knows it."""
        if value not in known:
            made = value.op is not None and (value.op in header.ops or any(
                value.op in block.ops for block in self.loop.blocks))
            phi = next((phi for phi in header.phis() if incoming(phi, self.latch) is value), None)
            known[value] = value if not made else phi.result if phi is not None else (
                self._phi(header, self._before("undef", value.type), value))
        return known[value]

    # tests at the start

    def _at_the_start(self) -> list[_Exit]:
        """Move the tests of the first blocks into the header, one after the other."""
        header, exits = self.header, []
        go: Value | None = None
        inside = header
        for block in self.early:
            if block is header and self.late:  # made by _at_the_end, with its exits
                go, inside = self.test, header.successors[0]
                continue
            stay, landing = self._staying(block), self.landings[block]
            following = next(to for to in block.successors if to is not landing)
            wanted = self.needed | slice_of([stay], set(block.ops))  # its opposite included
            needed = dict.fromkeys(op for op in block.ops if op in wanted)
            others = [op for op in block.ops[:-1] if op not in needed and op.name != "phi"]
            if block is header:
                inside = self._body(following, others if self.sinks else [])
                go = stay
            else:
                assert go is not None
                block.ops = [*others, Op("br", [], blocks=[following], span=block.terminator.span)]
                self._append(header, [op for op in needed if op.name != "phi"], go)
                go = self._both(header, go, stay)
            exits.append(_Exit(landing, stay))
        assert go is not None
        header.ops[-1] = Op("cond_br", [go], span=header.terminator.span,
                            blocks=[inside, header.terminator.blocks[1]])
        return exits

    def _body(self, following: Block, others: list[Op]) -> Block:
        """Let the block after the header begin with what the header's test does not need."""
        if not others:
            return following
        self.header.ops = [op for op in self.header.ops if op not in others]
        if Cfg(self.kernel).predecessors[following] != [self.header] or following.phis():
            following = split_edge(self.kernel, self.header, following)
            if following.successors[0] is self.header:
                self.latch = following
        following.ops[:0] = others
        return following

    def _dispatch(self, exits: list[_Exit]) -> None:
        """Behind the header, find which way out was taken, where they differ."""
        while len(exits) > 1 and self._alike(exits[-2].landing, exits[-1].landing):
            gone = exits.pop(-2).landing
            remove_edge(gone, gone.successors[0])
            self.kernel.blocks.remove(gone)
        target = exits[-1].landing
        for exit in reversed(exits[:-1]):
            choice = Block(f"{self.header.name}.left")
            choice.ops.append(Op("cond_br", [exit.stay], span=self.span,
                                 blocks=[target, exit.landing]))
            self._settle(target, choice)
            self._settle(exit.landing, choice)
            self.kernel.blocks.insert(self.kernel.blocks.index(exit.landing), choice)
            target = choice
        self.header.terminator.blocks[1] = target
        self._settle(target, self.header)
        for exit in exits:
            self._fold(exit.landing)

    @staticmethod
    def _settle(landing: Block, source: Block) -> None:
        for phi in landing.phis():
            phi.blocks = [source]

    def _alike(self, a: Block, b: Block) -> bool:
        target = a.successors[0]
        return target is b.successors[0] and all(
            self._landed(phi, a) is self._landed(phi, b) for phi in target.phis())

    def _fold(self, landing: Block) -> None:
        phis = landing.phis()
        landing.ops = landing.ops[len(phis):]
        self.kernel.replace({phi.result: phi.operands[0] for phi in phis})
