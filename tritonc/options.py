"""What a compilation can be told: the `Options` that every stage reads."""

from collections.abc import Mapping
from dataclasses import field

from tritonc.records import dataclass

DEFAULT_ARCH = "sm_80"  # its PTX runs on every GPU from Ampere on
MOST_VARIANTS = 12  # of a kernel beside the general entry, where --variants has no number
MOST_PLANNED = 32  # where each is compiled only when a launch first takes it
NATIVE = "native"  # as --arch: the GPU of this machine
WORKAROUNDS = ("high-halves", "extents", "choices", "negations")  # `backend/ptxas_faults` has them


@dataclass(frozen=True)
class Options:
    """The settings of one compilation; the same source and options give the same bytes."""

    # the target
    arch: str = DEFAULT_ARCH
    ptx: str | None = None  # PTX ISA version such as "8.3"; None takes the target's own
    # the preprocessor
    defines: tuple[str, ...] = ()  # NAME, NAME=VALUE or -UNAME, in order
    include_dirs: tuple[str, ...] = ()
    system_dirs: tuple[str, ...] = ()  # searched after them; no warnings about what is there
    forced_includes: tuple[str, ...] = ()  # files to read before the main one
    file_prefix_map: tuple[str, ...] = ()  # OLD=NEW, for paths that get into the output
    # tunables: values given from outside, by name
    tune: Mapping[str, int] = field(default_factory=dict)  # meta-parameters too
    tuning: str | None = None  # a tuning file, for what `tune` leaves open
    sizes: Mapping[str, int] = field(default_factory=dict)  # for which the tuning file is asked
    variants: int = 0  # of each kernel, at most, beside the general entry
    workspace: bool = False  # the cost model's may take memory of the launch
    variant: tuple[str, ...] = ()  # the user's: "TM=64,N%8"
    small_clusters: bool = False  # an entry more, of clusters, for few programs: launches choose
    alone: bool = False  # nothing else runs in this process: a fork may go through some kernels
    # optimisation and arithmetic
    opt_level: int = 2
    fp_contract: bool = True  # a * b + c within one expression may become fma
    fast_math: bool = False
    denormal: str | None = None  # "ieee", or "flush" of floats; None: flush if fast_math
    precise_math: bool = False
    device_assert: bool = False  # assert and printf are compiled, not dropped
    no_workarounds: tuple[str, ...] = ()  # for ptxas: those to leave out
    line_info: bool = False  # the PTX names source lines (and so the source's path)
    stops: bool = False  # the IR knows where the interpreter's debugger can stop
    debug: bool = False  # the same as DWARF, for cuda-gdb; the assembler optimises nothing
    # diagnostics
    warnings: tuple[str, ...] = ()  # what stood after -W, in order
    error_limit: int = 20  # 0: no limit
    # looking inside
    print_before: tuple[str, ...] = ()  # names of passes, or "all"
    print_after: tuple[str, ...] = ()
    print_changed: bool = False  # after each pass that changes the IR
    stop_after: str | None = None
    start_after: str | None = None  # of a .tir, the pass that wrote it
    verify_each: bool = False
    verbose: bool = False
    time_report: bool = False

    @property
    def flushes(self) -> bool:
        return self.denormal == "flush" or (self.denormal is None and self.fast_math)


def mapped_path(path: str, prefixes: tuple[str, ...]) -> str:
    """A source's path as outputs shall name it: the last OLD=NEW of `prefixes` whose OLD it begins
    with says what stands there instead, as -ffile-prefix-map of GCC does.

    >>> mapped_path("/home/me/src/a.tc", ("/home/me=.",)), mapped_path("a.tc", ("/home/me=.",))
    ('./src/a.tc', 'a.tc')
    """
    for prefix in reversed(prefixes):
        old, _, new = prefix.partition("=")
        if path.startswith(old):
            return new + path[len(old):]
    return path


def warning_sets(flags: tuple[str, ...], groups: Mapping[str, str]
                 ) -> tuple[frozenset[str], frozenset[str]]:
    """(disabled, as_errors) of `Diagnostics` for `-W` flags, the last one about a name winning.

    `groups` has every warning and its group: "" is on by default, "all" with -Wall, "extra" with
    -Wextra.  -Wno-all turns off everything.  Raises ValueError naming a flag that says no warning.

    >>> groups = {"a": "", "b": "", "c": "", "d": "all", "e": "extra"}
    >>> disabled, errors = warning_sets(("error", "no-error=b", "no-c"), groups)
    >>> sorted(disabled), sorted(errors)
    (['c', 'd', 'e'], ['a', 'c', 'd', 'e'])
    >>> sorted(warning_sets(("all", "error=e"), groups)[0])
    []
    """
    disabled = {name for name, group in groups.items() if group}
    errors: set[str] = set()
    for flag in flags:
        on = not flag.startswith("no-")
        what = flag if on else flag[3:]
        strict = what == "error" or what.startswith("error=")
        name = (what[6:] if strict else what) or "all"
        if name == "all" and (strict or not on):
            affected = set(groups)
        elif name in ("all", "extra"):
            affected = {n for n, group in groups.items()
                        if group == name or (name == "all" and not group)}
        elif name in groups:
            affected = {name}
        else:
            raise ValueError(flag)
        if not strict:
            disabled = disabled - affected if on else disabled | affected
        elif on:
            errors |= affected
            if name != "all":
                disabled -= affected
        else:
            errors -= affected
    return frozenset(disabled), frozenset(errors)
