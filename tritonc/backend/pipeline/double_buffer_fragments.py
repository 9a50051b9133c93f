"""double_buffer_fragments: a product's first operands are read one iteration ahead.

Before:                                        After, with n k in an iteration:
  header: ...                                    preheader: async_wait; %f0 = load_slice %s[0] {0}
                                                 header: %f = phi %f0, %g0
  body:   async_wait                             body:   async_copy %s[(i + 1) % 2], ...
          async_copy %s[(i + 1) % 2], ...                %f1 = load_slice %s[i % 2] {1}
          %d = fma_dot %s[i % 2], ..., %c                %d0 = fma_dot %f, ..., %c
          transpose what was copied                      ... some of the transposing beside each ...
                                                         async_wait
                                                         %g0 = load_slice %s[(i + 1) % 2] {0}
                                                         %d = fma_dot %fn, ..., %dm

On CUDA cores a product reads its operands, one k after the other, while it multiplies those of the
k before.  Only the first wait for the barrier at which an iteration's operands are known to be
there, and then for shared memory.  Here the barrier stands before the multiply-adds of the last k,
whose operands have been read, and the first operands of the next iteration are read behind it: the
threads have something to do while they wait for either.  A block that is alone on a
multiprocessor, as in the last wave, gains most.

What the iteration transposes on its way (`pipeline`) is stored piece by piece in the second half of
the product, not all at once behind it: shared memory serves other warps' reads beside.

Done where a loop of one block multiplies once, on a multi-stage buffer; not where a thread copies
elements one by one that each have an address or a mask: those want the registers that would hold
what is carried.  Elements that lie side by side under one mask share them.
Barriers follow from the order of the operations (`insert_barriers`).

Needs pipeline."""

from collections.abc import Sequence

from tritonc.analysis.axis import axis_info
from tritonc.backend.layout.access import VECTOR_BITS
from tritonc.backend.layout.conversion import layout_of
from tritonc.backend.layout.dot_layouts import fma_operand
from tritonc.backend.pipeline.channel import copy_width
from tritonc.backend.pipeline.staged_loop import DOTS
from tritonc.backend.shared.shared_memory import VIEWS, allocation
from tritonc.ir.build import make_op
from tritonc.ir.cfg import Cfg, Loop, incoming, make_phi
from tritonc.ir.context import Context
from tritonc.ir.copies import copy_ops
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.ir.layouts.layout import Layout, log2
from tritonc.ir.types import Tile, scalar, shape
from tritonc.records import dataclass

MANY = 8  # addresses or masks of elements that a thread copies one by one
LEAST = 4  # k of one iteration: fewer are read as soon as the iteration begins


@dataclass
class _Product:
    """A loop's product: `views` lead from the stages' buffers to its operands, `read` is the stage
    that it reads, `wait` what makes that be there."""

    header: Block
    body: Block
    preheader: Block
    dot: Op
    sums: Op
    views: tuple[list[Op], list[Op]]
    read: Op
    wait: Op


def double_buffer_fragments(kernel: Kernel, context: Context) -> bool:
    """Read the first operands of each iteration in the one before."""
    readers = uses(kernel)
    found = [one for loop in Cfg(kernel).loops if (one := _product(loop, readers)) is not None]
    infos = axis_info.analyze(kernel) if found else {}
    found = [one for one in found if not any(_piecemeal(op, infos) for op in one.body.ops)]
    for one in found:
        _carry(one)
        context.remark("double_buffer_fragments", "the first operands of this product are read one "
                       "iteration ahead (register double buffering)", one.dot.span)
    return bool(found)


def _product(loop: Loop, readers: dict[Value, list[Op]]) -> _Product | None:
    """The loop's product, if its operands can be read ahead."""
    header, preheader, body = loop.header, loop.preheader, loop.body
    if preheader is None or body is None or body.phis():
        return None
    dots = [op for op in body.ops if op.name in DOTS]
    waits = [op for op in body.ops if op.name == "async_wait"]
    if [op.name for op in dots] != ["fma_dot"] or not waits:
        return None
    (dot,), wait = dots, waits[0]
    sums = dot.operands[2].op
    before = body.ops[: body.ops.index(dot)]
    if sums not in header.phis() or sums is None or incoming(sums, body) is not dot.result \
            or readers[dot.result] != [sums] or len(shape(dot.result.type)) != 2 \
            or shape(dot.operands[0].type)[1] < LEAST or wait not in before \
            or any(other in before for other in waits[1:]):
        return None
    views = _views(dot.operands[0]), _views(dot.operands[1])
    if not all(chain and chain[0].name == "buffer_stage" and chain[0].attributes.get("ahead") == 0
               and set(chain) <= set(before) for chain in views):
        return None
    stages = {chain[0].operands[1] for chain in views}
    read = stages.pop().op
    if stages or read is None or read not in header.phis():
        return None
    return _Product(header, body, preheader, dot, sums, views, read, wait)


def _piecemeal(op: Op, infos: axis_info.Infos) -> bool:
    """Whether a thread copies elements one by one, with many addresses or masks."""
    if op.name != "async_copy":
        return False
    buffer, pointer = op.operands[:2]
    t = pointer.type
    if not isinstance(t, Tile) or t.layout is None \
            or copy_width(pointer, op.guard, buffer, infos) > scalar(buffer.type).bytes:
        return False
    runs = [axis_info.known(infos, pointer).contiguity]
    if op.guard is not None:
        runs.append(axis_info.known(infos, op.guard).constancy)
    return any(_different(t.layout, run) >= MANY for run in runs)


def _different(layout: Layout, run: Sequence[int]) -> int:
    """How many runs a thread's elements lie in; those of an axis have its length in `run`."""
    return 1 << sum(any(step >= length for step, length in zip(layout.coordinates(basis), run,
                                                               strict=True) if step)
                    for basis in layout.register)


def _views(operand: Value) -> list[Op]:
    """The views of which an operand is the last, that of the stage first."""
    found: list[Op] = []
    while operand.op is not None and operand.op.name in VIEWS:
        found.insert(0, operand.op)
        if operand.op.name == "buffer_stage":
            break
        operand = operand.op.operands[0]
    return found


def _carry(one: _Product) -> None:
    """Read the first k ahead; multiply by those that are read by themselves from registers."""
    body, dot, wait = one.body, one.dot, dict(one.wait.attributes)
    _, depth = dot.attributes.pop("inner", (0, shape(dot.operands[0].type)[1]))
    total = dot.operands[2]
    entry, ahead, first = [], [], []
    for side, chain in enumerate(one.views):
        entry += _slice(one, side, chain, incoming(one.read, one.preheader), 0)
        ahead += _slice(one, side, chain, incoming(one.read, body), 1)
        phi = make_phi([entry[-1].result, ahead[-1].result], [one.preheader, body], "ahead")
        one.header.ops.insert(0, phi)
        first.append(phi.result)
    one.preheader.ops[-1:-1] = [make_op("async_wait", [], **wait), *entry]
    body.ops.remove(one.wait)
    at = body.ops.index(dot)
    behind = body.ops[at + 1 : -1]
    pieces, behind = _pieces(behind)
    if not any(op.name == "async_wait" and not op.attributes["pending"]
               for piece in (*pieces, behind) for op in piece):
        behind.append(make_op("async_wait", [], **wait))
    half, now, ops = depth // 2, first, list[Op]()
    for k in range(depth - 1):
        later = [_load_slice(one, side, dot.operands[side], k + 1) for side in (0, 1)]
        done, wanted = (max(0, k + i - half) * len(pieces) // (depth - 1 - half) for i in (0, 1))
        ops += [*later, *(op for piece in pieces[done:wanted] for op in piece),
                _multiply(one, now, total)]
        total, now = ops[-1].result, [op.result for op in later]
    ops += [*behind, *ahead, _multiply(one, now, total)]
    body.ops[at:-1] = ops
    ops[-1].result.name = dot.result.name
    one.sums.replace_inputs({dot.result: ops[-1].result})


def _multiply(one: _Product, fragments: list[Value], total: Value) -> Op:
    return make_op("fma_dot", [*fragments, total], span=one.dot.span, **one.dot.attributes)


def _load_slice(one: _Product, side: int, buffer: Value, k: int) -> Op:
    layout = fma_operand(layout_of(one.dot.result), 1, side == 0)
    t = Tile(scalar(buffer.type), layout.shape, layout)
    return make_op("load_slice", [buffer], t, span=one.dot.span, axis=1 - side, index=k)


def _slice(one: _Product, side: int, views: list[Op], stage: Value, ahead: int) -> list[Op]:
    """The read of the first k from that stage."""
    made = copy_ops(views, {})
    made[0].operands[1] = stage
    made[0].attributes["ahead"] = ahead
    for view, source in zip(made[1:], made, strict=False):
        view.operands = [source.result]
    return [*made, _load_slice(one, side, made[-1].result, 0)]


def _pieces(behind: list[Op]) -> tuple[list[list[Op]], list[Op]]:
    """What comes behind the product, parted: what transposes operands in small pieces, each of
    which ends with a store, and the rest.

    Nothing is taken where anything but that has effects."""
    stores = [op for op in behind if op.name == "shared_store" and _raw(op) in behind]
    if not stores:
        return [], behind
    last = max(map(behind.index, stores))
    found: list[list[Op]] = []
    waiting: list[Op] = []
    for op in behind[: last + 1]:
        if op in stores:
            first, *others = _parts(op)
            found += [[*waiting, first], *([other] for other in others)]
            waiting = []
        elif op.pure or op.name in ("async_wait", "shared_load"):
            waiting.append(op)
        else:
            return [], behind
    for op in stores:
        load = _raw(op)
        assert load is not None
        load.attributes["piecewise"] = True
    return found, behind[last + 1 :]


def _raw(store: Op) -> Op | None:
    """The load of what each thread copied for itself, which the store stores."""
    load = store.operands[1].op
    if load is None or load.name != "shared_load" or "bits" in store.attributes \
            or not allocation(load.operands[0])[0].attributes.get("private"):
        return None
    return load


def _parts(store: Op) -> list[Op]:
    """Stores of a tile, one for each access that loads some of it."""
    buffer, value = store.operands
    layout = layout_of(value)
    held = log2(min(layout.registers, VECTOR_BITS // scalar(value.type).bits))
    bits = layout.register[held:]
    if not bits:
        return [store]
    return [make_op("shared_store", [buffer, value], span=store.span, bits=bits,
                    index=index, **store.attributes) for index in range(1 << len(bits))]
