"""The text of one kernel in LLVM IR: names, constants, blocks, phis, and the thread's place.

A tile is a list of operands, one per register of its layout (see `ir.layout`); registers that
nobody reads are "".  A scalar is a list of one.  A buffer in shared memory is a `BufferAddress`."""

from collections.abc import Callable, Hashable

from tritonc.analysis.elements import Elements
from tritonc.analysis.facts import Facts
from tritonc.backend.emit.demand import Machine, demand, is_root
from tritonc.backend.emit.floats.negations import compared_negations
from tritonc.backend.emit.instructions import Instructions
from tritonc.backend.emit.linear_map import linear_map
from tritonc.backend.emit.literals import SHARED_SPACE, llvm_type
from tritonc.backend.emit.module import CONVERGENT, ModuleEmitter
from tritonc.backend.emit.registers import layout_of, registers
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.pipeline.tma import roles
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import LANE_BITS, WARP_SIZE, Layout, log2
from tritonc.ir.types import BF16, Tile, Type, element
from tritonc.records import NamedTuple, cached_property

ROLE = 8  # the barrier of those who compute the first program, where a block has several

Names = list[str]
Emitter = Callable[["FunctionEmitter", Op], object]


class BufferAddress(NamedTuple):
    """A buffer starts `offset` bytes into the kernel's shared memory, plus the i32 `dynamic`, a
    multiple of `steps`."""

    offset: int
    dynamic: str = ""
    steps: int = 0


class FunctionEmitter(Instructions):
    def __init__(self, module: ModuleEmitter, kernel: Kernel, shared: str,
                 emit_op: "Callable[[FunctionEmitter, Op, Machine], None]") -> None:
        super().__init__(module)
        self._emit_op = emit_op
        self.target = module.target
        self.options = module.options
        self.kernel = kernel
        self.readers = uses(kernel)
        self.shared = shared  # the global that is the kernel's shared memory; "" without
        self.warps: int = kernel.attributes["num_warps"]
        self.pingpong: int = kernel.attributes.get("pingpong", 1)  # in the block that is written
        self.consumer_warps: int = self.warps * self.pingpong  # those before the producer's
        names = {op.name for op in kernel.ops()}
        # registers are few: addresses of shared memory are made of one another
        self.derives_addresses = {"fma_dot", "async_copy"} <= names or "wgmma" in names
        self.compared = frozenset() if "negations" in self.options.no_workarounds else (
            compared_negations(kernel))
        self.has_pieces = not names.isdisjoint(DOTS) and any(
            op.attributes.get("piecewise") for op in kernel.ops())
        self.has_words = any(op.name == "pack" for op in kernel.ops())
        types = {v.type for v in (*kernel.parameters, *(v for op in kernel.ops()
                                                        for v in op.results))}
        self.has_bfloat = BF16 in map(element, types)
        self.values: dict[Value, Names] = {}
        self.buffers: dict[Value, BufferAddress] = {}
        self.late: dict[Value, Callable[[int], str]] = {}  # the name of a register, loaded on use
        self.fetch: dict[Value, Callable[[int], None]] = {}  # loads a mask of registers, on use
        self.words: dict[str, tuple[str, int]] = {}  # of an element: its word, its place in it
        self.loaded = dict(self.words)  # the same of what came from global memory
        # label, window, its registers and place -> elements: see `memory._of_window`
        self.windows: dict[tuple[str, int, tuple[int, ...], int], dict[int, str]] = {}
        # label, number of records, first register of a run -> an address in it, and which byte
        self.records: dict[tuple[str, int, int], tuple[str, int]] = {}
        self.late_stores: list[Op] = []  # of fields of records, made with the next one
        # label, word, place -> that byte of the word and the next one as halves
        self.halves: dict[tuple[str, str, int], str] = {}
        self.angles: dict[str, tuple[str, str]] = {}  # of this block, modulo pi/2: see `math`
        self.alone: set[str] = set()  # words of one loaded byte
        self.read: dict[Op, tuple[str, Value]] = {}  # the last of a buffer in this block, and whose
        self.later: tuple[Op, set[Value]] | None = None  # when what is made of these is used
        self.held: dict[Value, Names] = {}  # words that an operation in flight reads
        self.role = ""  # whose code is being written: CONSUMERS, PRODUCER, or of all threads
        # name -> (base, c): an integer that is base + c, a pointer that is c bytes after base
        self.constant_parts: dict[str, tuple[str, int]] = {}
        self.addresses: dict[str, int] = {}  # of a pointer, how many addresses start from it
        # label, pointer -> its newest name there, and how many addresses start from that
        self.renamed: dict[tuple[str, str], tuple[str, int]] = {}
        self.float_parts: dict[str, tuple[str, int]] = {}  # the same of an integer as an f32
        self.exchanged: dict[tuple[str, str, int], str] = {}  # between lanes: see `exchange`
        # name -> (base, c): an index of a range, which is base + c, both from 0
        self.ranges: dict[str, tuple[str, int]] = {}
        self.moved_ranges = dict(self.ranges)  # the same of one with a number added
        self.greatest: dict[str, int] = {}  # that such a base is in any thread
        self.elements = Elements()  # that are known: none changes any more
        self.demand: dict[Value, int] = {}
        self.facts = Facts(kernel)
        self._machine = Machine(self.warps, self.target.access_bytes, False)
        self._early = 0  # of its lines, those that stand before the first branch
        self._labels: dict[Block, str] = {}
        self._ends: dict[Block, str] = {}  # the LLVM block in which a block's terminator stands
        self._phis: list[tuple[int, str, Op, int, int]] = []
        self._after_phis: list[str] = []
        self._terminators: dict[Block, int] = {}  # numbers of lines
        self._made: dict[Hashable, tuple[str, str]] = {}  # by `before`

    # the thread's place

    @property
    def thread(self) -> str:
        """The thread's number in its program: lane bits, then warp bits; the producer's threads
        are counted behind all others."""
        number = self.prelude_call("llvm.nvvm.read.ptx.sreg.tid.x")
        if "programs" in self.kernel.attributes:
            return self.prelude(f"and i32 {number}, {WARP_SIZE - 1}")
        if self.pingpong > 1 and self.role != roles.PRODUCER:
            return self.prelude(f"and i32 {number}, {(self.warps << LANE_BITS) - 1}")
        return number

    @property
    def group(self) -> str:
        """Which of the programs that a block computes at once is this thread's."""
        number = self.prelude_call("llvm.nvvm.read.ptx.sreg.tid.x")
        return self.of_warp(number, log2(self.warps) + LANE_BITS)

    def of_warp(self, thread: str, bits: int) -> str:
        """The number of a thread without its lowest bits, known to be the same in all lanes."""
        name = "llvm.nvvm.shfl.sync.idx.i32"
        self.module.declare(name, "i32 (i32, i32, i32, i32)")
        own = self.prelude(f"lshr i32 {thread}, {bits}")
        return self.prelude(f"call i32 @{name}(i32 -1, i32 {own}, i32 0, i32 31) {CONVERGENT}")

    def linear(self, bases: tuple[int, ...]) -> str:
        """The XOR of `bases[i]` over the bits i of the thread's number that are 1; "0" for none."""
        return linear_map(bases, self.thread, self.prelude, bounded=True)

    def thread_bit(self, bit: int) -> str:
        """An i1: bit `bit` of the thread's number."""
        masked = self.prelude(f"and i32 {self.thread}, {1 << bit}")
        return self.prelude(f"icmp ne i32 {masked}, 0")

    def owner(self, layout: Layout) -> str:
        """An i1 that holds in the threads that act for their elements; "" if all do."""
        return self.threads(layout.replicated_lanes | layout.replicated_warps << LANE_BITS)

    def threads(self, mask: int, number: int = 0) -> str:
        """An i1 that holds in threads whose number is `number` at the bits `mask`; "" for all."""
        if not mask:
            return ""
        masked = self.thread
        if mask != 32 * self.warps - 1:
            masked = self.prelude(f"and i32 {masked}, {mask}")
        return self.prelude(f"icmp eq i32 {masked}, {number}")

    def guard(self, op: Op, register: int = 0) -> str:
        return self.values[op.guard][register] if op.guard is not None else ""

    # values

    def layout(self, value: Value) -> Layout:
        return layout_of(value.type, self.warps)

    def type(self, value: Value) -> str:
        return llvm_type(element(value.type))

    def scalar(self, value: Value) -> str:
        return self.values[value][0]

    def blank(self, t: Type) -> Names:
        return [""] * registers(t)

    def demanded(self, value: Value) -> int:
        """The registers of a result that are read, as a mask."""
        return self.demand.get(value, 0)

    def shared_pointer(self, offset: str, dynamic: str) -> str:
        """The address `offset` + `dynamic` (i32 operands) bytes into the kernel's shared memory."""
        t = f"ptr addrspace({SHARED_SPACE})"
        base = self.shared
        if offset != "0":
            base = self.prelude(f"getelementptr i8, {t} {base}, i32 {offset}")
        if dynamic:
            base = self.op(f"getelementptr i8, {t} {base}, i32 {dynamic}")
        return base

    def local(self, t: str) -> str:
        """A variable of the thread's own memory."""
        return self.prelude(f"alloca {t}")

    # the kernel

    def emit(self, header: str) -> str:
        cfg = Cfg(self.kernel)
        suffix = ""
        if (self.options.line_info or self.options.debug) and self.kernel.span is not None:
            suffix = self.module.subprogram(self.kernel.name, self.kernel.span)
        first, blocks = self._first(cfg)
        if self.kernel.attributes.get("producer_warps"):
            self._role(roles.CONSUMERS, "b", blocks, bool(suffix))
            self._role(roles.PRODUCER, "c", blocks, bool(suffix))
            own = self.prelude(f"icmp uge i32 {self.thread}, {self.consumer_warps << LANE_BITS}")
            start = f"br i1 {own}, label %c0, label %b0"
        else:
            self._role("", "b", blocks, bool(suffix))
            start = "br label %b0"
        entry = ["entry:", *first, *self._prelude[self._early:], f"  {start}"]
        return "\n".join([f"{header}{suffix} {{", *entry, *self.lines, "}\n"])

    def _first(self, cfg: Cfg) -> tuple[list[str], list[Block]]:
        """The text before the prelude, and the blocks that are left: where the kernel begins with a
        test of scalars that blocks fail which end at once, they do nothing else."""
        entry = self.kernel.entry
        end = entry.terminator
        over = end.blocks[1] if end.name == "cond_br" else None
        if over is None or [op.name for op in over.ops] != ["ret"] or not roles.chooses(entry) \
                or cfg.predecessors[over] != [entry] or cfg.predecessors[end.blocks[0]] != [entry]:
            return [], cfg.order
        for op in entry.ops[:-1]:
            self.emit_one(op)
        self.line(f"br i1 {self.scalar(end.operands[0])}, label %start, label %over")
        self._early = len(self._prelude)
        text = [*self._prelude, *self.lines, "over:", "  ret void", "start:"]
        self.lines = []
        return text, [block for block in cfg.order if block not in (entry, over)]

    def emitted(self, block: Block | None) -> bool:
        """Whether the threads of the role have a block, which is done."""
        return block in self._ends

    def before(self, block: Block, make: Callable[[], tuple[str, str]], key: Hashable
               ) -> tuple[str, str]:
        """What is made at the end of a block that is emitted, once for each key."""
        key = self.role, block, key
        if key not in self._made:
            own, self.lines, self.prefix = self.lines, [], "before"
            self._made[key] = make()
            at = self._terminators[block]
            own[at] = "\n".join([*self.lines, own[at]])
            self.lines, self.prefix = own, ""
        return self._made[key]

    def _role(self, role: str, prefix: str, blocks: list[Block], located: bool) -> None:
        """The code of the threads of a role; `blocks` are all that can be reached."""
        self.role = role
        self._labels = {block: f"{prefix}{i}" for i, block in enumerate(blocks)}
        self._ends, self._phis = {}, []
        if role == roles.PRODUCER:
            blocks = roles.producer_blocks(blocks)
        base = Machine(self.kernel.attributes["num_warps"], self.target.access_bytes,
                       self.options.device_assert, role)
        parts = {block: end.attributes["pingpong"] for end in (b.terminator for b in blocks)
                 if "pingpong" in end.attributes
                 for block in reached(end.blocks[:1], stop=end.blocks[1:])}
        machines = {block: base._replace(warps=base.warps // parts.get(block, 1))
                    for block in blocks}
        self.demand = demand(machines)
        choices = roles.first_choices(self.kernel) if role else set()
        takes = {to for block in choices for to in block.successors} - choices
        takes = takes or ({self.kernel.entry} if role else set())
        for block, machine in machines.items():
            self.warps, self.pingpong = machine.warps, self.consumer_warps // machine.warps
            self._machine = machine
            self.start_block(self._labels[block])
            self.angles.clear()
            self.read.clear()
            for op in block.ops:
                if op.name != "phi" and self._after_phis:
                    self.lines += self._after_phis
                    self._after_phis = []
                if op.name != "phi" and block in takes:
                    takes.remove(block)
                    self._take_registers()
                if not op.pure:
                    self._emit_later(machine)
                start = self._terminators[block] = len(self.lines)
                if is_root(op, machine) or any(map(self.demanded, op.results)):
                    self._emit_op(self, op, machine)
                if self.later is not None and self._uses(op, self.later[1]):
                    self._emit_later(machine)
                if located and op.span is not None:
                    self._locate(start, op)
            self._ends[block] = self.label
        self._fill_phis()
        for block in self._labels:
            if role == roles.PRODUCER and block not in self._ends:
                self.start_block(self._labels[block])
                if block in takes or block in choices:
                    self._take_registers()
                self.line("ret void")

    @cached_property
    def cfg(self) -> Cfg:
        return Cfg(self.kernel)

    def _emit_later(self, machine: Machine) -> None:
        if self.later is not None:
            self._emit_op(self, self.later[0], machine)
            self.later = None

    def _uses(self, op: Op, made: set[Value]) -> bool:
        """Whether an operation combines what is made of loaded values with other tiles."""
        if made.isdisjoint(op.operands):
            return False
        made.update(op.results)
        return any(v not in made and isinstance(v.type, Tile) and v.op is not None
                   and v.op.name not in ("constant", "splat") for v in op.operands)

    def emit_one(self, op: Op) -> None:
        """An operation that is part of another one: on scalars, and demanded."""
        for result in op.results:
            self.demand[result] = 1
        self._emit_op(self, op, self._machine)

    def _take_registers(self) -> None:
        """Consumers take registers that the producer's warps do not need."""
        producer, consumers = self.kernel.attributes["registers"]
        if consumers:
            kind, count = ("dec", producer) if self.role == roles.PRODUCER else ("inc", consumers)
            self.convergent(f"llvm.nvvm.setmaxnreg.{kind}.sync.aligned.u32", "void", f"i32 {count}")

    def barrier(self) -> None:
        """Wait for all threads of the role.  Orders their accesses of memory, too."""
        if self.warps == 1 and not self.role:
            self.convergent("llvm.nvvm.bar.warp.sync", "void", "i32 -1")
        else:
            self._meet("sync", "void")

    def vote(self, kind: str, name: str) -> str:
        """A truth value of each thread, joined by `or` or `and` over all of the role, who meet."""
        return self._meet(f"red.{kind}", "i1", f"i1 {name}")

    def _meet(self, kind: str, result: str, *arguments: str) -> str:
        count = [f"i32 {self.warps << LANE_BITS}"] if self.role else []
        name = f"llvm.nvvm.barrier.cta.{kind}.aligned.{'count' if count else 'all'}"
        number = self.prelude(f"add i32 {self.group}, {ROLE}") if self.pingpong > 1 else 0
        return self.convergent(name, result, f"i32 {number}", *count, *arguments)

    def meet_at(self, number: str | int, threads: int, kind: str = "sync") -> None:
        """Wait for so many threads at a barrier, or only "arrive" there."""
        self.convergent(f"llvm.nvvm.barrier.cta.{kind}.aligned.count", "void", f"i32 {number}",
                        f"i32 {threads}")

    def branch_target(self, block: Block) -> str:
        return self._labels[block]

    def phi(self, op: Op, register: int) -> str:
        """A phi of one register, whose operands are filled in at the end."""
        name = f"%{self.count}"
        self.count += 1
        self._phis.append((len(self.lines), name, op, register, 1))
        self.lines.append("")
        return name

    def word_phi(self, op: Op, first: int, each: int) -> Names:
        """A phi of `each` registers that share a word."""
        word = self.phi(op, first)
        self._phis[-1] = (*self._phis[-1][:4], each)
        vector, cut = f"<{each} x {self.type(op.result)}>", f"%w{word[1:]}"
        names = [f"{cut}.{i}" for i in range(each)]
        self._after_phis += [f"  {cut} = bitcast i32 {word} to {vector}", *(
            f"  {name} = extractelement {vector} {cut}, i32 {i}" for i, name in enumerate(names))]
        return names

    def _fill_phis(self) -> None:
        for at, phi, op, register, each in self._phis:
            t = self.type(op.result) if each == 1 else "i32"
            pairs = []
            for value, block in zip(op.operands, op.blocks, strict=True):
                if block in self._ends:
                    names = self.values[value][register : register + each]
                    name = names[0] if each == 1 else self._word(
                        block, f"%{self._labels[block]}.{phi[1:]}", self.type(op.result), names)
                    pairs.append(f"[ {name}, %{self._ends[block]} ]")
            self.lines[at] = f"  {phi} = phi {t} {', '.join(pairs)}{self.lines[at]}"

    def _word(self, block: Block, name: str, t: str, elements: Names) -> str:
        """The elements as a word, made at the end of a block."""
        vector, last, lines = f"<{len(elements)} x {t}>", "poison", list[str]()
        for i, one in enumerate(elements):
            lines.append(f"  {name}.{i} = insertelement {vector} {last}, {t} {one}, i32 {i}")
            last = f"{name}.{i}"
        lines.append(f"  {name} = bitcast {vector} {last} to i32")
        at = self._terminators[block]
        self.lines[at] = "\n".join([*lines, self.lines[at]])
        return name

    def _locate(self, start: int, op: Op) -> None:
        assert op.span is not None
        suffix = self.module.location(self.kernel.name, op.span)
        for i in range(start, len(self.lines)):
            if not self.lines[i].endswith(":"):
                self.lines[i] += suffix
