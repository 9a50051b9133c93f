"""Operations on shapes, which only number registers anew, and conversions inside a warp."""

from collections.abc import Sequence

from tritonc.backend.emit.elements.packed import choose
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.registers import members, sources
from tritonc.backend.emit.warps import FULL_WARP, from_words, shuffle_index, to_words
from tritonc.backend.layout.conversion import part_registers, plan_conversion
from tritonc.backend.layout.shift import plan_shift
from tritonc.backend.layout.shuffle import Shuffle
from tritonc.ir.core import Op
from tritonc.ir.layouts.layout import WARP_SIZE
from tritonc.ir.types import I1, element


def rename(f: FunctionEmitter, op: Op) -> None:
    moved = sources(op, f.warps)
    if moved is None:
        _shuffle(f, op)
        return
    names = f.values[op.operands[0]]
    found = f.blank(op.result.type)
    for r in members(f.demanded(op.result)):
        found[r] = names[moved[r]]
    f.values[op.result] = found


def _shuffle(f: FunctionEmitter, op: Op) -> None:
    """The five steps that `conversion.Shuffle` describes."""
    e = element(op.result.type)
    plan = plan_conversion(f.layout(op.operands[0]), f.layout(op.result), e.bits)
    if not isinstance(plan, Shuffle):
        raise AssertionError("a conversion across warps goes through shared memory")
    names = f.values[op.operands[0]]
    own = sum(image for bit, image in enumerate(plan.lane) if image == 1 << bit)
    kept = all(image in (0, 1 << bit) for bit, image in enumerate(plan.lane))
    demanded = members(f.demanded(op.result))
    if op.attributes.get("ballot") and e == I1 and kept and plan.shuffles and not plan.selects \
            and all(len(word) == 1 for word in plan.words) \
            and not any(own & flip for _, flip in plan.rounds):
        f.values[op.result] = _ballot(f, op, plan, own, demanded)
        return
    words = [to_words(f, e, [names[r] for r in registers]) for registers in plan.words]
    words = _exchange(f, words, plan.select_in)
    needed = {plan.results[r][0] for r in demanded}
    for image in plan.select_out:
        needed |= {item ^ image for item in needed}
    items: list[list[str]] = []
    for i, (word, flip) in enumerate(plan.rounds):
        if i not in needed or plan.is_local(flip):
            items.append(words[word])
            continue
        if kept and not own & flip:
            source = str(flip), own
        else:
            lane = f.linear(plan.lane)
            source = f.prelude(f"xor i32 {lane}, {flip}") if flip else lane, 0
        items.append([shuffle_index(f, part, *source) for part in words[word]])
    items = _exchange(f, items, plan.select_out)
    each = len(plan.words[0])
    unpacked: dict[int, list[str]] = {}
    found = f.blank(op.result.type)
    for r in demanded:
        item, at = plan.results[r]
        if item not in unpacked:
            unpacked[item] = from_words(f, e, items[item], each)
        found[r] = unpacked[item][at]
    f.values[op.result] = found


def _ballot(f: FunctionEmitter, op: Op, plan: Shuffle, own: int, demanded: Sequence[int]
            ) -> list[str]:
    """Conditions of other lanes as bits of a word, of which one instruction makes that of all."""
    names, found, words = f.values[op.operands[0]], f.blank(op.result.type), dict[int, str]()
    for r in demanded:
        word, flip = plan.rounds[plan.results[r][0]]
        if word not in words:
            words[word] = f.convergent("llvm.nvvm.vote.ballot.sync", "i32", FULL_WARP,
                                       f"i1 {names[plan.words[word][0]]}")
            if own:
                lane = f.prelude(f"and i32 {f.thread}, {own}")
                words[word] = f.op(f"lshr i32 {words[word]}, {lane}")
        bit = f.op(f"and i32 {words[word]}, {1 << flip}")
        found[r] = f.op(f"icmp ne i32 {bit}, 0")
    return found


def shift_lanes(f: FunctionEmitter, op: Op) -> None:
    """As `plan_shift` says: registers of other lanes, and at ends of lines of the own one."""
    e, names, found = element(op.result.type), f.values[op.operands[0]], f.blank(op.result.type)
    plan = plan_shift(f.layout(op.result), *op.attributes["shift"])
    assert plan is not None, "a shift across warps goes through shared memory"
    moved: dict[tuple[int, int], str] = {}

    def element_of(register: int, lanes: int) -> str:
        if not lanes:
            return names[register]
        if (register, lanes) not in moved:
            source = f.prelude(f"add i32 {f.thread}, {lanes}")
            words = [shuffle_index(f, word, source) for word in to_words(f, e, [names[register]])]
            moved[register, lanes] = from_words(f, e, words, 1)[0]
        return moved[register, lanes]

    for r in members(f.demanded(op.result)):
        first, *others = plan[r]
        found[r] = element_of(first.register, first.lanes)
        for piece in others:
            lane = f.prelude(f"and i32 {f.thread}, {WARP_SIZE - 1}")
            here = f.prelude(f"trunc i32 {f.prelude(f'lshr i32 {piece.where}, {lane}')} to i1")
            other = element_of(piece.register, piece.lanes)
            found[r] = choose(f, f.type(op.result), here, other, found[r])
    f.values[op.result] = found


def tile_part(f: FunctionEmitter, op: Op) -> None:
    names = f.values[op.operands[0]]
    moved = part_registers(f.layout(op.operands[0]), op.attributes["bits"], op.attributes["index"])
    f.values[op.result] = [names[r] for r in moved]


def join_parts(f: FunctionEmitter, op: Op) -> None:
    found = f.blank(op.result.type)
    for index, part in enumerate(op.operands):
        moved = part_registers(f.layout(op.result), op.attributes["bits"], index)
        if part in f.values:  # or nobody reads any of it, as of padding
            for r, name in zip(moved, f.values[part], strict=True):
                found[r] = name
    f.values[op.result] = found


def _exchange(f: FunctionEmitter, items: list[list[str]], images: tuple[int, ...]
              ) -> list[list[str]]:
    """For each thread bit t that is 1, item i becomes item i ^ images[t]."""
    for bit, image in enumerate(images):
        if image:
            condition = f.thread_bit(bit)
            items = [[choose(f, "i32", condition, other, own) for own, other in
                      zip(items[i], items[i ^ image], strict=True)] for i in range(len(items))]
    return items


EMITTERS: dict[str, Emitter] = {
    **dict.fromkeys(("splat", "broadcast", "reshape", "trans", "convert_layout"), rename),
    "shift_lanes": shift_lanes, "tile_part": tile_part, "join_parts": join_parts}
