"""What a compilation gives, or how it failed by a fault of tritonc's own."""

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tritonc.planning import Planning
from tritonc.records import dataclass
from tritonc.source import Diagnostic, Span
from tritonc.variants.kernels import Variants

if TYPE_CHECKING:
    from tritonc.ir.context import Remark
    from tritonc.ir.core import Module


class InternalError(Exception):
    """A bug of tritonc: what failed, on which kernel."""

    def __init__(self, stage: str, kernel: str | None, cause: BaseException) -> None:
        self.stage, self.kernel = stage, kernel
        of = f" of kernel '{kernel}'" if kernel else ""
        super().__init__(f"in {stage}{of}: {type(cause).__name__}: {cause}")


@dataclass
class Result:
    """What a compilation gave.  `outputs` has a text for each kind asked for."""

    bindings: Planning  # meta-parameters, and who chose which value
    outputs: dict[str, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    # As the last stage that ran left it; of several kernels that are PTX, all but the operations.
    module: "Module | None" = None
    manifest: dict[str, Any] | None = None
    dependencies: list[str] = field(default_factory=list)  # included files, then the tuning file
    system: set[str] = field(default_factory=set)  # of the included files, those of -isystem
    tunables: dict[str, int] = field(default_factory=dict)  # of every tunable
    remarks: "list[Remark]" = field(default_factory=list)  # in the order of their places
    timings: defaultdict[str, float] = field(  # seconds of each stage, of each "  pass" behind it
        default_factory=lambda: defaultdict(float))
    problem_lines: list[tuple[str, Span]] = field(default_factory=list)
    variants: Variants = field(default_factory=Variants)  # none, if they are not asked for
    planned: dict[str, dict[str, Any]] = field(default_factory=dict)  # with `plan`
