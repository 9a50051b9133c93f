"""What a pass may know besides the kernel, and where it leaves what it has to say.

Every pass, of `opt` and of `backend`, has the form

    def pass_name(kernel: Kernel, context: Context) -> bool

and returns whether it changed the kernel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tritonc.ir.core import ConstantTable, Kernel
from tritonc.records import NamedTuple, dataclass
from tritonc.source import Diagnostic, Note, Span


class Remark(NamedTuple):
    """What a pass did, or (`missed`) could not do, at a place of the source; for `--remarks`."""

    pass_name: str
    message: str
    span: Span | None
    missed: bool

    @property
    def diagnostic(self) -> Diagnostic:
        """As it is shown: among the messages, or as JSON."""
        return Diagnostic(self.pass_name, "remark", self.message, self.span)


class Again(Exception):
    """What a pass raises that finds a decision of an earlier one wrong: the kernel goes through the
    passes again from there (`pass_manager.PIPELINE`), with other meta-parameters."""

    def __init__(self, why: str, **meta: int) -> None:
        self.meta = meta
        super().__init__(why)


class PingpongKernel(NamedTuple):
    """A kernel that went through the passes before `coarsen`, whose warpgroups take programs in
    turn, for launches of many programs in which arguments are at most so much."""

    kernel: Kernel
    longest: tuple[tuple[int, int], ...]


class SmallBody(NamedTuple):
    """A body of smaller tiles for an entry, which went through the passes before `coarsen`.  A
    launch shall run it that has at most so many programs, or whose large tiles would hold at most
    `worth` small ones each; other launches may run `pingpong`."""

    kernel: Kernel
    most: int
    worth: int
    pingpong: PingpongKernel | None = None


@dataclass
class Context:
    """Options and facts of one compilation.  Passes read; only `remarks` and `warnings` grow."""

    target: Any = None  # a backend.target.Target; passes of `opt` do not look
    meta: Mapping[str, int] = field(default_factory=dict)  # meta-parameters bound by the tuner
    contract: bool = True  # -ffp-contract=on
    fast_math: bool = False
    flushes: bool = False  # subnormal floats are zeros
    precise_math: bool = False
    device_assert: bool = False
    constants: Sequence[ConstantTable] = ()  # of the module
    # Scalar arguments by name, as far as the sizes say that a compilation is told: by these passes
    # choose, and stay right for all others.
    known_sizes: Mapping[str, int] = field(default_factory=dict)
    # Makes the small body beside a large one, if there shall be one.
    small: Callable[[Kernel], SmallBody | None] | None = None
    remarks: list[Remark] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def remark(self, pass_name: str, message: str, span: Span | None = None, *,
               missed: bool = False) -> None:
        """Tell the user of the option `--remarks` about one place."""
        self.remarks.append(Remark(pass_name, message, span, missed))

    def warn(self, name: str, message: str, span: Span | None, *notes: Note) -> None:
        """Tell every user of one place."""
        self.warnings.append(Diagnostic(name, "warning", message, span, notes))


def by_place(remarks: Sequence[Remark]) -> list[Remark]:
    """Remarks in the order of the source, each once: a body may have copies.

    Of the fallback version of a body (`Span.fallback`), only what a pass did not say of the same
    place elsewhere, and so that the reader knows which version is meant."""
    files: dict[object, int] = {}
    said = {(r.pass_name, r.span) for r in remarks if r.span is None or not r.span.fallback}
    kept = []
    for remark in remarks:
        if remark.span is not None and remark.span.fallback:
            span = remark.span._replace(fallback=False)
            if (remark.pass_name, span) in said:
                continue
            message = f"{remark.message} (fallback, when the run-time checks fail)"
            remark = remark._replace(message=message, span=span)
        kept.append(remark)

    def place(remark: Remark) -> tuple[int, int]:
        if remark.span is None:
            return -1, 0
        return files.setdefault(remark.span.file, len(files)), remark.span.start

    return sorted(dict.fromkeys(kept), key=place)
