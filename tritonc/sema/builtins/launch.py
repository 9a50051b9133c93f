"""Where an instance stands in the launch: global ranges and program ids.

All uses of an axis's global range agree on its tile, which sets the grid."""

from tritonc.frontend import syntax
from tritonc.sema.context import Context
from tritonc.sema.types import constants
from tritonc.sema.types.ctypes import INT, INT_TYPE, ctype
from tritonc.sema.types.term import Term
from tritonc.source import Note, Span

AXES = 3


def _axis(context: Context, node: syntax.Call, term: Term) -> int:
    span = node.arguments[0].span
    constants.check_constant(context, node.span, "it differs from instance to instance")
    axis = constants.integer_of(context, term, span, f"the axis of {node.callee}")
    if not 0 <= axis < AXES:
        context.refuse("launch-axis", span, f"a launch has axes 0 to {AXES - 1}, found {axis}")
    return axis


def global_range(context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """`get_global_range[T](axis)`."""
    if node.template is None:
        return context.error("global-range", node.span, "without [T], get_global_range must be the "
                             "whole initialiser of a 1-D tile: int r[T] = get_global_range(axis);",
                             Note("elsewhere, write get_global_range[T](axis)"))
    extent_node = node.template[0]
    if isinstance(extent_node, syntax.TypeSpec) or len(node.template) != 1:
        return context.error("global-range", node.span, "get_global_range takes one extent: "
                             "get_global_range[T](axis)")
    (extent,) = constants.extents(context, (extent_node,))
    return slice_of(context, node, arguments[0], extent)


def slice_of(context: Context, node: syntax.Call, axis_term: Term, extent: int) -> Term:
    """The int tile of `extent` indices along an axis."""
    axis = _axis(context, node, axis_term)
    _agree(context, axis, extent, node.span)
    context.at(node.span)
    return context.op("get_global_range", ctype(INT, (extent,)), axis=axis, extent=extent)


def _agree(context: Context, axis: int, extent: int, span: Span) -> None:
    tile = context.kernel.tile
    earlier = context.tile_spans.get(axis)
    if earlier is None:
        if context.live:
            tile[axis] = extent
            context.tile_spans[axis] = span
    elif tile[axis] != extent:
        context.refuse("global-range", span, f"the global range of axis {axis} is taken in tiles "
                       f"of {extent} here, but of {tile[axis]} elsewhere; a kernel has one tile "
                       "per axis", Note("the other use is here", earlier))


def of_axis(name: str, context: Context, node: syntax.Call, arguments: list[Term]) -> Term:
    """`get_program_id(axis)`, `get_num_programs(axis)`."""
    axis = _axis(context, node, arguments[0])
    if context.live:
        context.kernel.tile.setdefault(axis, 1)
    context.at(node.span)
    return context.op(name, INT_TYPE, axis=axis)
