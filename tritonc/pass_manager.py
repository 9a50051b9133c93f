"""Running passes: what a pass is, its row in a list, and the hooks around each run.

The lists themselves, with the reasons for their order, are in `tritonc.passes`."""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from time import perf_counter

from tritonc.ir.context import Again, Context
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel, Module
from tritonc.ir.types import Tile
from tritonc.records import NamedTuple, dataclass
from tritonc.source import CompileError, fail

LAYOUTS = "assign_layouts"  # the pass that gives every tile a layout
PIPELINE = "pipeline"  # the pass to which `Again` goes back
PassFunction = Callable[[Kernel, Context], bool]


class Pass(NamedTuple):
    name: str
    function: PassFunction
    reason: str  # why here
    level: int = 1  # the least -O at which it runs; 0 for what the program cannot do without
    only: tuple[str, ...] = ()  # without any of these operations, a kernel is left as it is


class PassError(Exception):
    """A pass failed, which is a bug of the compiler; the cause has the details."""

    def __init__(self, label: str, kernel: str, cause: Exception) -> None:
        self.label, self.kernel = label, kernel
        super().__init__(f"pass '{label}' failed on kernel '{kernel}': "
                         f"{type(cause).__name__}: {cause}")


@dataclass
class Hooks:
    """What to do around passes: the driver's --print-after, --stop-after and so on."""

    before: Callable[[str, Kernel], None] | None = None  # label, kernel
    after: Callable[[str, Kernel, bool], None] | None = None  # label, kernel, changed
    verify: Callable[[Kernel, Context], None] | None = None  # after each change; raises
    stop_after: str | None = None  # a label; None runs all
    seconds: dict[str, float] = field(default_factory=dict)  # by label, grows


def labels(passes: Sequence[Pass]) -> list[str]:
    """A name for each run: the pass's, and for its second run `name.2`, and so on.

    >>> one = Pass("fold", lambda kernel, context: False, "a reason")
    >>> labels([one, one])
    ['fold', 'fold.2']
    """
    counts: dict[str, int] = {}
    found = []
    for row in passes:
        counts[row.name] = counts.get(row.name, 0) + 1
        found.append(row.name if counts[row.name] == 1 else f"{row.name}.{counts[row.name]}")
    return found


def run(kernel: Kernel, context: Context, passes: Sequence[Pass], *, level: int = 2,
        hooks: Hooks | None = None, names: Sequence[str] | None = None) -> bool:
    """Run passes on a kernel.  False if `hooks.stop_after` ended it.  `names` are their labels, if
    they are part of a list.

    Raises CompileError where the program is at fault, RecursionError where it is nested too
    deeply, PassError where a pass is at fault."""
    hooks = hooks or Hooks()
    present: set[str] = set()  # the operations, if that is known
    unseen = True  # by hooks.verify, which meets what a pass was given, too
    rows = [*zip(names or labels(passes), passes, strict=True)]
    kept: tuple[Kernel, int, int] | None = None  # as it was before PIPELINE, and what was said
    at = 0
    while at < len(rows):
        label, row = rows[at]
        at += 1
        if row.level <= level:
            if row.only and not present:
                present = {op.name for op in kernel.ops()}
            idle = row.only and present.isdisjoint(row.only)
            if row.name == PIPELINE and "wgmma" in present:
                kept = copy_kernel(kernel), at - 1, len(context.remarks)
            if hooks.before is not None:
                hooks.before(label, kernel)
            started = perf_counter()
            try:
                changed = not idle and row.function(kernel, context)
                present = set() if changed else present
                if hooks.verify is not None and (changed or unseen):
                    hooks.verify(kernel, context)
                    unseen = False
            except Again as again:
                if kept is None:
                    raise fail("ir-stage", kernel.span, f"{again}: compile the source") from None
                before, at, said = kept
                kernel.blocks, kernel.attributes, kept = before.blocks, before.attributes, None
                del context.remarks[said:]
                context.remark(label, str(again), kernel.span, missed=True)
                context = replace(context, meta={**context.meta, **again.meta})
                present = set()
                continue
            except (CompileError, RecursionError):
                raise  # the driver says of the source that it is nested too deeply
            except Exception as error:
                raise PassError(label, kernel.name, error) from error
            hooks.seconds[label] = hooks.seconds.get(label, 0.0) + perf_counter() - started
            if hooks.after is not None:
                hooks.after(label, kernel, changed)
        if hooks.stop_after == label:
            return False
    return True


def check(passes: Sequence[Pass], order: Sequence[tuple[str, str, str]]) -> None:
    """Raise ValueError unless the list keeps the order and gives a reason for each run."""
    first: dict[str, int] = {}
    for i, row in enumerate(passes):
        first.setdefault(row.name, i)
    for earlier, later, why in order:
        for name in (earlier, later):
            if name not in first:
                raise ValueError(f"there is no pass '{name}'")
        if first[earlier] >= first[later]:
            raise ValueError(f"{earlier} must come before {later}: {why}")
    for row in passes:
        if sum(other.name == row.name and other.reason == row.reason for other in passes) > 1:
            raise ValueError(f"pass {row.name} runs twice for one reason")


def has_layouts(module: Module) -> bool:
    """Whether a pass of the backend left the IR: those before LAYOUTS cannot go on with it."""
    return any(tile.layout is not None for kernel in module.kernels for tile in _tiles(kernel))


def _tiles(kernel: Kernel) -> list[Tile]:
    return [result.type for op in kernel.ops() for result in op.results
            if isinstance(result.type, Tile)]


def check_stage(module: Module, passes: Sequence[str]) -> None:
    """Refuse IR that `passes`, those that are left, cannot go on with.  Raises CompileError."""
    begins = LAYOUTS in passes
    for kernel in module.kernels:
        tiles = _tiles(kernel)
        if begins and any(tile.layout is not None for tile in tiles):
            raise fail("ir-stage", kernel.span, f"kernel '{kernel.name}' has layouts already: say "
                       "with --start-after=PASS which pass wrote it")
        if not begins and any(tile.layout is None for tile in tiles):
            raise fail("ir-stage", kernel.span, f"kernel '{kernel.name}' has tiles without "
                       f"layouts, but from {LAYOUTS} on every tile has one")
