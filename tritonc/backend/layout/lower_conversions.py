"""lower_conversions: layout conversions across warps go through shared memory.

Before:  %y = convert_layout %x : f32<64, 64; #b>
After:   %s = alloc_shared : buffer<1 x f32<64, 64>>
         shared_store %s, %x
         %y = shared_load %s : f32<64, 64; #b>

         where the tile is too large for that, part by part: shared_store, shared_load for each,
         and %y = join_parts of what was loaded

         %y = gather %x, %i : f32<64>          likewise, and at last shared_gather %s, %i; one store
                                               for all gathers of %x that follow in a block
         %y = gather %x, %i {shift = ..}       %y = shift_lanes %x, where a warp has the axis
         %y = histogram %i : i32<64>           zeros to a buffer, shared_atomic %s, %i, 1, a load

Conversions that only rename registers or shuffle inside a warp stay as they are; which of the three
it is, and the swizzle of the buffer, is `plan_conversion`'s choice.  Pointers travel as integers,
since buffers hold numbers.  Needs layouts; leaves the place of the buffer to allocate_shared and
the barriers to insert_barriers."""

from collections.abc import Sequence
from typing import Any

from tritonc.analysis.axis import axis_info
from tritonc.analysis.axis.axis_info import AxisInfo
from tritonc.backend.layout.conversion import Shared, part_layout, plan_of, plan_shared
from tritonc.backend.layout.shift import plan_shift
from tritonc.backend.shared.allocate_shared import fits
from tritonc.backend.shared.shared_memory import LEFT
from tritonc.backend.target.target import Target
from tritonc.ir.build import make_op
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.layouts.layout import SharedLayout, log2
from tritonc.ir.layouts.shared_layout import row_major
from tritonc.ir.types import I64, Buffer, Tile, Type, is_int, is_pointer, scalar, with_element


def lower_conversions(kernel: Kernel, context: Context) -> bool:
    """Replace conversions across warps, and gathers, by a store to and a load from a buffer."""
    target: Target = context.target
    infos = axis_info.analyze(kernel) if any(map(_moves_numbers, kernel.ops())) else {}
    before = [block.ops for block in kernel.blocks]
    most = target.shared_per_block // 2
    while True:
        replaced: dict[Value, Value] = {}
        for block, ops in zip(kernel.blocks, before, strict=True):
            stored: dict[Value, Value] = {}
            block.ops = [new for op in ops for new in _lowered(op, most, infos, replaced, stored)]
        if fits(kernel, target.shared_per_block) or most <= LEFT:
            break
        most //= 2
    kernel.replace(replaced)
    return bool(replaced)


def _moves_numbers(op: Op) -> bool:
    """Whether it converts integers or pointers of which a promise may be kept."""
    return op.name == "convert_layout" and (is_pointer(op.result.type) or (
        is_int(op.result.type) and scalar(op.result.type).bits > 1))


def _lowered(op: Op, most: int, infos: axis_info.Infos, replaced: dict[Value, Value],
             stored: dict[Value, Value]) -> list[Op]:
    """What stands for the operation; its buffer has at most `most` bytes, as far as parts can be
    made that small.  `stored`: the buffers that have what was gathered from before."""
    if op.name == "gather":
        exchange = _Exchange(op)
        if _in_warps(op):
            exchange.finish(exchange.make("shift_lanes", op.operands[:1],
                                          shift=op.attributes["shift"]))
        else:
            exchange.gather(most, stored)
    elif op.name == "histogram":
        exchange = _Exchange(op)
        exchange.count()
    elif op.name == "convert_layout":
        plan = plan_of(op)
        if not isinstance(plan, Shared):
            return [op]
        plan = plan_shared(plan.source, plan.destination, plan.element_bits, most)
        exchange = _Exchange(op)
        exchange.convert(plan.layout, plan.bits)
        exchange.promise(infos.get(op.operands[0]))
    else:
        return [op]
    replaced[op.result] = exchange.ops[-1].result
    return exchange.ops


def _in_warps(op: Op) -> bool:
    """Whether lanes of each warp have what a shift brings to others."""
    t = op.result.type
    return "shift" in op.attributes and isinstance(t, Tile) and t.layout is not None \
        and t == op.operands[0].type and not is_pointer(t) \
        and plan_shift(t.layout, *op.attributes["shift"]) is not None


class _Exchange:
    """Operations that go through a buffer, one after the other for the parts that `bits` number."""

    def __init__(self, op: Op) -> None:
        self.op, self.ops = op, list[Op]()
        self.value = op.operands[0]
        if is_pointer(self.value.type):
            self.value = self.make("ptrtoint", [self.value], with_element(self.value.type, I64))
        self.element = scalar(self.value.type)
        self.result = with_element(op.result.type, self.element)

    def make(self, name: str, operands: list[Value], result: Type | None = None, **more: Any
             ) -> Value:
        """Add an operation; its result if it has one."""
        self.ops.append(make_op(name, operands, result, span=self.op.span, **more))
        return self.ops[-1].result if self.ops[-1].results else self.value

    def constant(self, t: Type, number: int) -> Value:
        return self.make("constant", [], t, value=number)

    def convert(self, layout: SharedLayout, bits: tuple[int, ...]) -> None:
        """The value in the layout of the result."""
        buffer = self.buffer(layout)
        if bits:
            loaded = []
            for index in range(1 << len(bits)):
                self.make("shared_store", [buffer, self.value], bits=bits, index=index)
                loaded.append(self.make("shared_load", [buffer], part_type(self.result, bits)))
            self.finish(self.make("join_parts", loaded, self.result, bits=bits))
        else:
            self.make("shared_store", [buffer, self.value])
            self.finish(self.make("shared_load", [buffer], self.result))

    def gather(self, most: int, stored: dict[Value, Value]) -> None:
        """The elements that the second operand names: from each part those that it has."""
        source, index = self.value.type, self.op.operands[1]
        assert isinstance(source, Tile)
        parts = source.size
        while parts > 1 and source.size // parts * 2 * self.element.bytes <= most:
            parts //= 2
        size = source.size // parts
        bits = tuple(size << i for i in range(log2(parts)))
        layout, key = row_major(part_type(source, bits).shape), self.op.operands[0]
        if parts == 1:
            if key not in stored:
                stored[key] = self.buffer(layout)
                self.make("shared_store", [stored[key], self.value])
            self.finish(self.make("shared_gather", [stored[key], index], self.result))
            return
        buffer = self.buffer(layout)
        t = index.type
        inside = self.make("and", [index, self.constant(t, size - 1)])
        which = self.make("lshr", [index, self.constant(t, log2(size))])
        found = self.value
        for number in range(parts):
            self.make("shared_store", [buffer, self.value], bits=bits, index=number)
            here = self.make("shared_gather", [buffer, inside], self.result)
            if number:
                own = self.make("icmp", [which, self.constant(t, number)], predicate="eq")
                here = self.make("select", [own, here, found])
            found = here
        self.finish(found)

    def count(self) -> None:
        """How often each number below the extent is among the elements."""
        assert isinstance(self.result, Tile)
        buffer = self.buffer(row_major(self.result.shape))
        self.make("shared_store", [buffer, self.constant(self.result, 0)])
        t = self.value.type
        limit, one = (self.constant(t, n) for n in (self.op.attributes["extent"], 1))
        inside = self.make("icmp", [self.value, limit], predicate="ult")
        self.make("shared_atomic", [buffer, self.value, one], guard=inside, kind="add")
        self.finish(self.make("shared_load", [buffer], self.result))

    def promise(self, known: AxisInfo | None) -> None:
        """Say what integers and pointers are multiples of: addresses of wide accesses, perhaps."""
        if known is not None and _moves_numbers(self.op) and min(known.divisibility) > 1 and all(
                c == 1 for c in known.contiguity):
            value = self.make("assume_multiple", [self.ops[-1].result], n=min(known.divisibility))
            value.name = self.op.result.name

    def buffer(self, layout: SharedLayout) -> Value:
        buffer = self.make("alloc_shared", [], Buffer(self.element, layout.shape, 1, layout))
        buffer.name = "exchange"
        return buffer

    def finish(self, value: Value) -> None:
        """The last operation: the result, of the type that is wanted."""
        if is_pointer(self.op.result.type):
            value = self.make("inttoptr", [value], self.op.result.type)
        value.name = self.op.result.name


def part_type(t: Type, bits: Sequence[int]) -> Tile:
    """The type of each part of a tile that `bits` of the row-major index, in registers, number."""
    assert isinstance(t, Tile) and t.layout is not None
    layout = part_layout(t.layout, bits)
    return Tile(t.element, layout.shape, layout)
