"""A pipeline of TMA loads for a region of the control-flow graph, with a producer warp.

Before:  place:  ...                      After:  place:  init_barriers; start_producer
         outer:  ...                              outer:  %s = phi [0], [..]   stage
                                                          %p = phi [0], [..]   phase
         loop:   shared_store %a, load ..         loop:   wait_empty %a[%s]; tma_load %a[%s]
                 wgmma %a, %b                             wait_full %a[%s], %p; wgmma %a[%s], ...
                                                          arrive_empty %a[%s]
                 br loop                                  stage and phase after these; br loop

Each iteration copies its own operands: the text has no run-ahead, no prologue, no slices.  The
producer warp runs the region's control flow, addresses and copies, and no computation; it waits for
stages that are free, and is so ahead of the consumers by as many as there are, over whatever
branches and loops lie between.  Stage and phase go through the region like any other value.

Loops behind each other share the multi-stage buffers of like operands (`followers`).  Those advance
in the loops that read them alone, and those of the same loops together.  What all iterations of a
loop read has one of its own, around the loop (`fixed`), and so has what is read behind it
(`behind`), such as a residual.

Only for kernels whose copies are programs of their own (`specialize_warps` has the conditions):
otherwise every iteration would wait for its operands."""

from collections.abc import Mapping, Sequence

from tritonc.analysis.aliases import pointer_roots, stores_may_reach
from tritonc.backend.dots.together import back_to_back
from tritonc.backend.launch.persist import counts_programs, rare_programs
from tritonc.backend.pipeline.channel import Boxes
from tritonc.backend.pipeline.loop_slice import find_slice
from tritonc.backend.pipeline.staged_loop import StagedLoop, buffer_of, exchanged, widen
from tritonc.backend.pipeline.tma.map_slots import claim
from tritonc.backend.pipeline.tma.roles import leading_to
from tritonc.backend.pipeline.tma.specialize_warps import computable, steady_loads
from tritonc.backend.pipeline.tma.tma_expander import TmaExpander
from tritonc.backend.shared.shared_memory import accesses, allocation
from tritonc.ir.build import Builder, make_op
from tritonc.ir.cfg import Cfg, Loop, add_incoming, make_phi
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.ssa import rewire
from tritonc.ir.types import I1, I32

# Bytes of a tile that goes between warps at once: half of them, if that leaves room for a third
# stage.  A product of 64 x 512 x 64 and its layer norm on an H200: 80.6 us, 66.6.
EXCHANGE = 16 * 1024, 8 * 1024


def region(kernel: Kernel, loops: list[StagedLoop], place: Block, boxes: list[Boxes]
           ) -> list[Block]:
    """The blocks behind `place`, if one thread can run what leads to the loops' copies by itself;
    none if it cannot."""
    cfg = Cfg(kernel)
    found = [block for block in cfg.order if cfg.dominates(place, block)]
    values = [v for one in boxes for v in one.values()]
    values += [block.terminator.operands[0]
               for block in leading_to(found, [one.body for one in loops])
               if block.terminator.name == "cond_br"]
    rare = rare_programs(kernel)
    own = {block for one in loops for block in one.loop.blocks}
    others = {block for loop in cfg.loops if own.isdisjoint(loop.blocks) for block in loop.blocks}
    buffers = {allocation(store.operands[0])[0] for one in loops for store in one.stores}
    if any(op.name == "wgmma" and (block in others or any(
            access.allocation in buffers for access in accesses(op)))
           for block in found if block not in rare and block not in own for op in block.ops):
        return []  # two that start producers on one path have none
    if not computable(values, None, steady_loads(cfg)):
        return []
    loads, roots = [one.load for one in boxes], pointer_roots(kernel)
    loop = loops[0].loop.parent
    while loop is not None:  # copies overtake what earlier iterations store
        if not counts_programs(loop) and stores_may_reach(kernel, loop.blocks, loads, roots):
            return []
        loop = loop.parent
    return found


def needed_beside(kernel: Kernel, blocks: list[Block], staged: StagedLoop, known: set[Op],
                  part: int) -> int:
    """Bytes of shared memory that other operations of the blocks want: buffers that are not set
    apart yet, nor `known`, nor of the loop, and one for the largest exchange, which may go in parts
    of `part` bytes.  What only an inner loop uses, others may use when it does not run."""
    readers, cfg = uses(kernel), Cfg(kernel)
    known |= {access.allocation for op in staged.loop.ops() for access in accesses(op)}
    buffers: dict[Op, set[Loop | None]] = {}
    exchange: dict[Loop | None, int] = {None: 0}
    for block in blocks:
        loop = cfg.innermost.get(block)
        for op in block.ops if block not in staged.loop else ():
            exchange[loop] = max(exchange.get(loop, 0), min(exchanged(op, readers), part))
            for access in accesses(op):
                if access.allocation not in known and not access.allocation.attributes.get(
                        "pinned"):
                    buffers.setdefault(access.allocation, set()).add(loop)
    sizes = {op: buffer_of(op.result).stage_bytes for op in buffers}
    own = {loop: size + sum(sizes[op] for op, users in buffers.items() if users == {loop})
           for loop, size in exchange.items()}
    return max(own.values()) + sum(sizes[op] for op, users in buffers.items() if len(users) > 1)


class RegionExpander(TmaExpander):
    """A pipeline that begins in `place` and goes on through all that follows, `followers`
    included: loops of their own.  `shares`: of each product the group of buffers, of all loops';
    `depths`: of groups that have another number of stages than the loop."""

    followers: "Sequence[RegionExpander]" = ()
    shares: Sequence[int]
    depths: Mapping[int, int] = {}
    in_step: list[int]  # of each group the first that advances with it
    clocks: dict[int, tuple[Op, Op]]  # stage and phase of the groups that advance together

    @property
    def group_count(self) -> int:
        return 1 + max(group for one in (self, *self.followers) for group in one.shares)

    def depth(self, product: int) -> int:
        group = self.shares[product] if product < len(self.shares) else product
        return self.depths.get(group, self.stages)

    def clock(self, product: int) -> tuple[Op, Op, Op, Op]:
        read, phase = self.clocks[self.in_step[self.shares[product]]]
        return read, read, phase, phase

    def stage_of(self, buffer: Value) -> Value:
        return self.clock(self.product_of(buffer))[0].result

    def stages_of(self, buffer: Value) -> int:
        return self.depth(self.product_of(buffer))

    def product_of(self, buffer: Value) -> int:
        """The number of the product that a buffer feeds."""
        return next(i for i, members in enumerate(self.products) if any(
            self.staged.stores[m].operands[0] is buffer for m in members))

    @property
    def home(self) -> Block:
        return self.place

    def run(self) -> None:
        fixed = {one.store for one in self.fixed}
        before = self.staged.preheader
        before.ops = [op for op in before.ops if op not in fixed]
        every = (self, *self.followers)
        readers = [tuple(one for one in every if group in one.shares)
                   for group in range(self.group_count)]
        in_step = [(some, self.depths.get(group)) for group, some in enumerate(readers)]
        self.in_step = [*map(in_step.index, in_step)]
        self.prologue()
        self.buffers = {group: self.operands(i) for i, group in enumerate(self.shares)}
        self.rewrite()
        for one in self.followers:
            one.follow(self)
        for first in dict.fromkeys(self.in_step):
            for i in range(2):
                self.thread([(one, one.clocks[first][i]) for one in readers[first]])
        for phi in self.brings:
            self.thread([(self, phi)])
        if self.fixed:
            self.bring_fixed()
        if self.behind:
            self.bring_behind()
        if self.staged.asynchronous:
            self.keep_in_flight()

    def rewrite(self) -> None:
        """What happens in the loop."""
        self.phis({})
        self.hand_over()
        latch = self.staged.latch
        step = make_op("add", [self.copied.result, self.number(1)])
        yes = make_op("constant", [], I1, value=True)
        self.kernel.entry.ops.insert(0, yes)
        following = [(self.copied, step), *((phi, yes) for phi in self.brings)]
        for group, (read, before) in self.clocks.items():
            stage = self.next_stage(read.result, self.depths.get(group, self.stages))
            phase = self.flip_phase(stage[-1].result, before.result)
            latch.ops[-1:-1] = [*stage, *phase]
            following += [(read, stage[-1]), (before, phase[-1])]
        latch.ops.insert(-1, step)
        for phi, after in following:
            add_incoming(phi, after.result, latch)
        self.use_stage()

    def follow(self, leader: "RegionExpander") -> None:
        """Rewrite a loop that comes later, on the same buffers."""
        self.slot, self.in_step, self.now = leader.slot, leader.in_step, {}
        self.full = [leader.full[group] for group in self.shares]
        self.empty = [leader.empty[group] for group in self.shares]
        for i, group in enumerate(self.shares):
            own, shared = self.operands(i), leader.buffers.get(group)
            if shared is not None:
                self.kernel.replace(dict(zip(own, shared, strict=True)))
            leader.buffers.setdefault(group, own)
        self.staged.preheader.ops[-1:-1] = self.describe(claim(self.kernel, self.place))
        leader.begin.attributes["indices"] += self.used_maps
        self.rewrite()

    def operands(self, product: int) -> list[Value]:
        """The buffers of what a product reads."""
        return [self.staged.stores[i].operands[0] for i in self.products[product]]

    def bring_fixed(self) -> None:
        """Around the loops: what all iterations read is there; they have read it."""
        loops = [one.staged for one in (self, *self.followers)]
        before, leave, kernel = self.staged.preheader, loops[-1].exit, self.kernel
        stores = [one.store for one in self.fixed]
        stage, phase = (make_op("undef", [], I32).result for _ in range(2))
        opened = [widen(v, self.fixed_stages, stage, 0) for v in (
            self.full[-1], self.empty[-1], *(store.operands[0] for store in stores))]
        full, free, *views = (op.result for op in opened)
        block = Block("")
        block.ops += opened
        b = Builder(block, span=self.span)
        # The first is there already, where the threads have brought it.
        comes = make_op("undef", [], I1).result if self.here and self.warm_fixed else None
        b.insert(make_op("wait_empty", [free, b.value("xor", phase, self.number(1)), *views],
                         guard=comes))
        first = len(self.channels) - len(stores)
        self.bring_boxes(b, range(first, len(self.channels)), views, full, self.number(0), comes)
        b.insert(make_op("wait_full", [full, phase]))
        buffers = [store.operands[0] for store in stores]
        for op in (op for one in loops for op in one.loop.ops()):
            op.replace_inputs(dict(zip(buffers, views, strict=True)))
        before.ops[-1:-1] = block.ops
        next_stage = self.next_stage(stage, self.fixed_stages)
        next_phase = self.flip_phase(next_stage[-1].result, phase)
        released = self.fixed_stages == 1 and self.release_early(free, views)
        leave.ops[len(leave.phis()):len(leave.phis())] = [
            *([] if released else [make_op("arrive_empty", [free, *views])]),
            *next_stage, *next_phase]
        following = [(stage, self.number(0), next_stage[-1].result),
                  (phase, self.number(0), next_phase[-1].result)]
        if comes is not None:
            no, yes = (make_op("constant", [], I1, value=value) for value in (False, True))
            kernel.entry.ops[:0] = [no, yes]
            following.append((comes, no.result, yes.result))
        for old, initial, new in following:
            rewire(kernel, Cfg(kernel), old, {self.place: initial, leave: new},
                   [(op, before) for op in (*block.ops, *next_stage, *next_phase)
                    if old in op.inputs()])

    def release_early(self, free: Value, views: list[Value]) -> bool:
        """Release what is fixed as soon as the last iteration's first product has read it, and not
        behind the loop: it comes for the next program while threads compute what the second product
        reads, and that runs.  Whether that is done: the loop must know that its next iteration does
        not come; where none has come, it is released behind the loop."""
        staged, loop = self.staged, self.staged.loop
        ops = staged.body.ops
        readers = [op for op in loop.ops() if not set(views).isdisjoint(op.operands)]
        part = find_slice(loop, [staged.condition], staged.always, comes=True, once=True)
        if self.followers or part is None or not back_to_back(staged.body) or not readers or not (
                all(op.name == "wgmma" and op in ops for op in readers)):
            return False
        at = next(i for i, op in enumerate(ops) if op.name == "wgmma_wait"
                  and i > ops.index(readers[-1])) + 1
        known = dict[Value, Value]()
        following = copy_ops([op for op in part.ops if op not in loop.header.ops], known)
        known = {phi.result: known.get(loop.next(phi), loop.next(phi)) for phi in part.phis}
        following += copy_ops([op for op in part.ops if op in loop.header.ops], known)
        if staged.condition not in known:
            return False
        no, yes = (make_op("constant", [], I1, value=value) for value in (False, True))
        self.kernel.entry.ops[:0] = [no, yes]
        ends = make_op("xor", [known[staged.condition], yes.result])
        ops[at:at] = [*following, ends,
                      make_op("arrive_empty", [free, *views], guard=ends.result)]
        none = make_phi([yes.result, no.result], [staged.preheader, staged.latch], "none")
        loop.header.ops.insert(0, none)
        staged.exit.ops.insert(len(staged.exit.phis()), make_op(
            "arrive_empty", [free, *views], guard=none.result))
        return True

    def bring_behind(self) -> None:
        """Behind the loop, where the last copies of its operands are on their way: parts of what is
        read there, each as soon as the threads have read the part before it in its buffer."""
        ops, opened = self.staged.exit.ops, list[Op]()
        own: dict[Value, list[int]] = {}
        for i, one in enumerate(self.behind, len(self.channels) - len(self.behind)):
            own.setdefault(one.store.operands[0], []).append(i)
        for buffer, channels in own.items():
            views = [widen(v, 1, self.number(0), 0) for v in (*self.beside[buffer], buffer)]
            full, free, view = (op.result for op in views)
            phases, copies = self.phases_behind(len(channels)), []
            for number, i in enumerate(channels):
                block = Block("")
                b = Builder(block, span=self.channels[i].store.span)
                b.insert(make_op("wait_empty", [free, phases[1 - number % 2], view]))
                self.bring_boxes(b, [i], [view], full, self.number(0), None)
                copies.append(block.ops)
            opened += [*views, *copies[0]]
            for number, i in enumerate(channels):
                at = ops.index(self.channels[i].store)
                ops[at] = make_op("wait_full", [full, phases[number % 2]])
                at = next(at for at, op in enumerate(ops) if op.name == "shared_load"
                          and op.operands[0] is buffer)
                ops[at].operands[0] = view
                later = copies[number + 1] if number + 1 < len(copies) else []
                ops[at + 1 : at + 1] = [make_op("arrive_empty", [free, view]), *later]
        at = next(at for at, op in enumerate(ops) if op.name == "wait_full")
        ops[at:at] = opened

    def phases_behind(self, times: int) -> tuple[Value, Value]:
        """Of a buffer that is filled `times` behind each run of the loop, the phase when it is
        filled the first time, and the other one."""
        if times % 2 == 0:
            return self.number(0), self.number(1)
        before, phase = self.staged.preheader, make_op("undef", [], I32).result
        same, other = (make_op("xor", [phase, self.number(i)]) for i in range(2))
        before.ops[-1:-1] = [same, other]
        rewire(self.kernel, Cfg(self.kernel), phase, {
            self.place: self.number(0), self.staged.exit: other.result},
            [(same, before), (other, before)])
        return same.result, other.result

    def place_barriers(self, ops: list[Op]) -> None:
        super().place_barriers(ops)
        stores = [store for one in (self, *self.followers) for store in one.staged.stores]
        for store in (*stores, *(one.store for one in (*self.fixed, *self.behind))):
            assert store.operands[0].op is not None
            store.operands[0].op.attributes["continues"] = True

    def first_copies(self) -> dict[Value, Value]:
        """There are none."""
        self.now = {}
        return {}

    def phis(self, ahead: dict[Value, Value]) -> dict[Value, Value]:
        """The stage, its phase, and the number of the iteration."""
        def new(name: str) -> Op:
            phi = make_phi([self.number(0)], [self.staged.preheader], name)
            self.staged.loop.header.ops.insert(0, phi)
            return phi

        self.clocks = {group: (new("stage"), new("phase")) for group in dict.fromkeys(
            self.in_step[group] for group in self.shares)}
        self.copied = new("iteration")
        self.stage_phis = list(self.clock(0)[:2])
        self.brings = [self.bring()] if self.here else []
        return ahead

    def bring(self) -> Op:
        """Whether an iteration copies: the threads have brought the first one's operands."""
        b = Builder(self.place, at=len(self.place.ops) - 1)
        first = b.value("xor", self.filled, b.constant(True, I1))
        phi = make_phi([first], [self.staged.preheader], "bring")
        self.staged.loop.header.ops.insert(0, phi)
        return phi

    def fill(self, product: int, stage: Value, ahead: int) -> list[Op]:
        self.coming = self.brings[product].result if product < self.here else None
        return super().fill(product, stage, ahead)

    def thread(self, phis: "Sequence[tuple[RegionExpander, Op]]") -> None:
        """Let each loop begin with what the one left that ran last, or 0."""
        zero = phis[0][1].operands[0]
        before = make_op("undef", [], zero.type).result
        for _, phi in phis:
            phi.operands[0] = before
        places = [(phi, one.staged.loop.header) for one, phi in phis]
        rewire(self.kernel, Cfg(self.kernel), before, {
            self.place: zero, **{header: phi.result for phi, header in places}}, places)
