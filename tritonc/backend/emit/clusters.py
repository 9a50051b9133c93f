"""Blocks of a cluster: their numbers, their barrier, and sums over all of them.

Distributed shared memory (PTX ISA, "Shared State Space", `.shared::cluster`) is written and not
read: a store is on its way at once, a load waits for 200 cycles.  A sum is

    barrier.cluster.wait              all blocks run (cluster_arrive has been before)
    st.shared::cluster                what another block owns, into its mailbox
    barrier.cluster.arrive, wait      all has arrived: a release, an acquire
    ld.shared, add                    in the order of the distance between the blocks' numbers
"""

from tritonc.backend.emit.elements.arithmetic import combine
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SHARED_SPACE
from tritonc.backend.emit.registers import layout_of
from tritonc.backend.launch.lower_clusters import WORD, owner_bases, owner_bits, sent
from tritonc.ir.core import Op
from tritonc.ir.types import Buffer, Scalar, Tile, element

CLUSTER_SPACE = 7
_BARRIER = "llvm.nvvm.barrier.cluster"


def rank(f: FunctionEmitter) -> str:
    if "workspace" in f.kernel.attributes:
        number = f.prelude_call("llvm.nvvm.read.ptx.sreg.ctaid.z")
        return f.prelude(f"urem i32 {number}, {f.kernel.attributes['cluster']}")
    return f.prelude_call("llvm.nvvm.read.ptx.sreg.cluster.ctarank")


def cluster_reduce(f: FunctionEmitter, op: Op) -> None:
    value, mailbox = op.operands
    e, names = element(value.type), f.values[value]
    assert isinstance(e, Scalar) and isinstance(mailbox.type, Buffer)
    stage, per, kind = mailbox.type.stage_bytes, WORD // e.bytes, f.type(value)
    line = mailbox.type.shape[1] * WORD
    groups = sent(op)
    if op.attributes.get("all"):
        _reduce_for_all(f, op)
        return
    thread = f.linear(owner_bases(op, layout_of(value.type, f.warps)))
    own, place = rank(f), _place(f, op)
    start = f.buffers[mailbox].offset
    if op.attributes.get("waits"):
        f.convergent(f"{_BARRIER}.wait.aligned", "void")
    for group, registers in groups.items():
        owner = str(group) if thread == "0" else f.op(f"xor i32 {thread}, {group}")
        distance = _distance(f, own, owner, op.attributes["size"])
        base = f.op(f"add i32 {f.op(f'mul i32 {distance}, {stage}')}, {start - stage}")
        words = [[names[r] for r in registers[i : i + per]] for i in range(0, len(registers), per)]

        def push(base: str = base, owner: str = owner, words: list[list[str]] = words) -> None:
            near = f.shared_pointer(place, base)
            far = f.call("llvm.nvvm.mapa.shared.cluster", f"ptr addrspace({CLUSTER_SPACE})",
                         f"ptr addrspace({SHARED_SPACE}) {near}", f"i32 {owner}")
            for i, word in enumerate(words):
                at = f.op(f"getelementptr i8, ptr addrspace({CLUSTER_SPACE}) {far}, "
                          f"i32 {i * line}")
                f.line(f"store <{len(word)} x {kind}> {f.vector(kind, word)}, "
                       f"ptr addrspace({CLUSTER_SPACE}) {at}, align 16")

        f.under(f.op(f"icmp ne i32 {distance}, 0"), "push", push)
    f.convergent(f"{_BARRIER}.arrive.aligned", "void")
    f.convergent(f"{_BARRIER}.wait.aligned", "void")
    count = max(map(len, groups.values()))
    sums = [_received(f, op, start, i, line, stage, min(per, count)) for i in
            range(-(-count // per))]
    found = list(names)
    for registers in groups.values():
        for i, r in enumerate(registers):
            total = names[r]
            for part in sums[i // per]:
                total = combine(f, op.attributes["kind"], e, total, part[i % per])
            found[r] = total
    f.values[op.result] = found


def _reduce_for_all(f: FunctionEmitter, op: Op) -> None:
    """Each block sends what it has to all, itself too, and adds up in the same order: of a scalar
    one thread does, of a tile each thread for its elements."""
    value, mailbox = op.operands
    e, names = element(value.type), f.values[value]
    assert isinstance(e, Scalar) and isinstance(mailbox.type, Buffer)
    stage, per, kind = mailbox.type.stage_bytes, WORD // e.bytes, f.type(value)
    line, start = mailbox.type.shape[1] * WORD, f.buffers[mailbox].offset
    (registers,) = sent(op).values()
    words = [[names[r] for r in registers[i : i + per]] for i in range(0, len(registers), per)]
    place = _place(f, op)
    if op.attributes.get("waits"):
        f.convergent(f"{_BARRIER}.wait.aligned", "void")
    base = f.op(f"add i32 {f.op(f'mul i32 {rank(f)}, {stage}')}, {start}")

    def push() -> None:
        near = f.shared_pointer(place, base)
        for block in range(op.attributes["size"]):
            far = f.call("llvm.nvvm.mapa.shared.cluster", f"ptr addrspace({CLUSTER_SPACE})",
                         f"ptr addrspace({SHARED_SPACE}) {near}", f"i32 {block}")
            for i, word in enumerate(words):
                at = f.op(f"getelementptr i8, ptr addrspace({CLUSTER_SPACE}) {far}, "
                          f"i32 {i * line}")
                f.line(f"store <{len(word)} x {kind}> {f.vector(kind, word)}, "
                       f"ptr addrspace({CLUSTER_SPACE}) {at}, align 16")

    if isinstance(value.type, Tile):
        push()
    else:
        f.under(f.op(f"icmp eq i32 {f.thread}, 0"), "push", push)
    f.convergent(f"{_BARRIER}.arrive.aligned", "void")
    f.convergent(f"{_BARRIER}.wait.aligned", "void")
    found = list(names)
    for i, word in enumerate(words):
        first, *rest = _received(f, op, start, i, line, stage, len(word))
        for j, total in enumerate(first):
            for part in rest:
                total = combine(f, op.attributes["kind"], e, total, part[j])
            found[registers[per * i + j]] = total
    f.values[op.result] = found


def _place(f: FunctionEmitter, op: Op) -> str:
    """Where a thread's words begin in the mailbox: by its number without the bits of owners."""
    if op.attributes.get("all") and not isinstance(op.result.type, Tile):
        return "0"
    number = f.thread
    for bit in reversed(owner_bits(op)):
        above = f.prelude(f"lshr i32 {number}, {bit + 1}")
        below = f.prelude(f"and i32 {number}, {(1 << bit) - 1}")
        number = f.prelude(f"or i32 {f.prelude(f'shl i32 {above}, {bit}')}, {below}")
    return f.prelude(f"shl i32 {number}, 4")


def _distance(f: FunctionEmitter, own: str, owner: str, size: int) -> str:
    """The place of this block among those that send to the owner; 0 is its own."""
    if size & (size - 1) == 0:
        return f.op(f"xor i32 {own}, {owner}")
    behind = f.op(f"sub i32 {own}, {owner}")
    around = f.op(f"add i32 {behind}, {size}")
    return f.op(f"select i1 {f.op(f'icmp slt i32 {behind}, 0')}, i32 {around}, i32 {behind}")


def _received(f: FunctionEmitter, op: Op, start: int, word: int, line: int, stage: int,
              width: int) -> list[list[str]]:
    """The elements of one word from each sender."""
    kind = f.type(op.result)
    vector = f"<{width} x {kind}>"
    place = _place(f, op)
    found = []
    assert isinstance(op.operands[1].type, Buffer)
    for sender in range(op.operands[1].type.stages):
        near = f.shared_pointer(place, "")
        at = f.op(f"getelementptr i8, ptr addrspace({SHARED_SPACE}) {near}, "
                  f"i32 {start + sender * stage + word * line}")
        loaded = f.op(f"load {vector}, ptr addrspace({SHARED_SPACE}) {at}, align 16")
        found.append([f.op(f"extractelement {vector} {loaded}, i32 {j}") for j in range(width)])
    return found


EMITTERS: dict[str, Emitter] = {
    "get_cluster_rank": lambda f, op: f.values.update({op.result: [rank(f)]}),
    # Nothing is published, so the arrival is relaxed.
    "cluster_arrive": lambda f, op: f.convergent(f"{_BARRIER}.arrive.relaxed.aligned", "void"),
    "cluster_reduce": cluster_reduce}
