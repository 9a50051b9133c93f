"""The stops of a debugger: what each statement can name, noted while it is lowered."""

from collections.abc import Callable
from typing import Any

from tritonc.frontend import syntax
from tritonc.ir.core import Seen, Stop
from tritonc.sema.context import Context, Frame
from tritonc.sema.scope import Variable
from tritonc.sema.types.ctypes import Number

Handler = Callable[[Context, Any], Any]
_NOTHING_TO_SEE = (syntax.Block, syntax.Empty, syntax.LocalTypedef, syntax.StaticAssert)


class Stops:
    """Notes the stops of one kernel."""

    def __init__(self) -> None:
        self.found: list[Stop] = []
        self.latest: dict[Frame, Stop] = {}  # of the statement that a function is at
        self.part: syntax.Node | None = None  # of the last one, with which it is one step

    def handlers(self, handlers: dict[type[syntax.Node], Handler]
                 ) -> dict[type[syntax.Node], Handler]:
        """The same, and those of statements note a stop first."""
        def noting(handler: Handler) -> Handler:
            def lower(context: Context, node: syntax.Node) -> Any:
                self.note(context, node)
                return handler(context, node)

            return lower

        return {kind: noting(handler) if issubclass(kind, syntax.Statement)
                and kind not in _NOTHING_TO_SEE else handler for kind, handler in handlers.items()}

    def note(self, context: Context, node: syntax.Node) -> None:
        """A stop in front of a statement."""
        frame = context.frame
        if frame is None or context.site is not None or not context.live:
            return
        if node is self.part:
            self.found.pop()
        self.part = node.body if isinstance(node, syntax.Predicated) else (
            node.init if isinstance(node, syntax.For) else None)
        block = context.block
        caller = None if frame.outer is None else self.latest.get(frame.outer)
        stop = Stop(node.span, block, block.ops[-1] if block.ops else None, frame.function.name,
                    _variables(context), caller, depth=0 if caller is None else caller.depth + 1)
        if context.mask is not None and context.mask.full is not None:
            stop.predicate = context.value(context.mask.full[0])
        self.latest[frame] = stop
        self.found.append(stop)

    def finish(self, context: Context) -> list[Stop]:
        """All stops, once the kernel is lowered."""
        resolve = context.ssa.resolve
        for stop in self.found:
            stop.variables = {name: seen._replace(value=resolve(seen.value))
                              for name, seen in stop.variables.items()}
            if stop.predicate is not None:
                stop.predicate = resolve(stop.predicate)
        return self.found


def _variables(context: Context) -> dict[str, Seen]:
    entities = map(context.scope.lookup, dict.fromkeys(context.scope.visible()))
    return {v.name: Seen(context.ssa.read(v, context.block), str(v.type), isinstance(
        e := v.type.element, Number) and e.is_int and not e.signed)
        for entity in entities if isinstance(entity, Variable) for v in entity.leaves()}
