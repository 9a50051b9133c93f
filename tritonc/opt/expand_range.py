"""global ranges become arithmetic on the program id.

    %r = get_global_range {axis = 0, extent = 128} : i32<128>
->
    %p = get_program_id {axis = 0} : i32
    %s = mul %p, 128
    %r = add (splat %s), (range 0 ... 128)

The kernel keeps `tile[axis]`, from which the grid is computed.  Runs first, so that all other
passes see one form of index."""

from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Kernel, Op, Value
from tritonc.ir.types import I32, Tile


def expand_range(kernel: Kernel, context: Context) -> bool:
    """Expand each get_global_range in place."""
    return replace_each(kernel, "get_global_range", _expand)


def _expand(op: Op, build: Builder) -> Value:
    axis, extent = op.attributes["axis"], op.attributes["extent"]
    type = op.result.type
    program = build.value("get_program_id", axis=axis)
    start = build.value("mul", program, build.constant(extent, I32))
    assert isinstance(type, Tile)
    indices = build.value("range", type=type, start=0, stop=extent)
    found = build.value("add", indices, build.value("splat", start, type=type))
    found.name = op.result.name
    return found
