"""What options say to the stages of a compilation: limits of messages, the preprocessor's
settings, what passes may know."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tritonc.diagnostics import DIAGNOSTICS
from tritonc.meta_parameters import BY_NAME
from tritonc.options import Options, warning_sets
from tritonc.problem.stated import stated_defines
from tritonc.source import Diagnostics, Note, SourceFile, Span, fail
from tritonc.spelling import closest

if TYPE_CHECKING:
    from tritonc.frontend.preprocess import Preprocessed
    from tritonc.ir.context import Context
    from tritonc.ir.core import ConstantTable, Module


def new_diagnostics(options: Options) -> Diagnostics:
    """An empty collection with the options' limits.  Raises CompileError for a wrong -W flag."""
    names = {name: row.group for name, row in DIAGNOSTICS.items() if row.severity != "error"}
    try:
        disabled, as_errors = warning_sets(options.warnings, names)
    except ValueError as flag:
        name = str(flag).removeprefix("no-").removeprefix("error=")
        near = closest(name, names)
        raise fail("unknown-warning", None, f"there is no warning '{name}'",
                   *([Note(f"did you mean '{near}'?")] if near else []),
                   Note(f"warnings are {', '.join(sorted(names))}")) from None
    return Diagnostics(options.error_limit, disabled, as_errors)


def preprocess(source: SourceFile, options: Options, diagnostics: Diagnostics,
               read_file: Callable[[str], bytes] | None = None) -> "Preprocessed":
    """The first stage alone."""
    from tritonc.frontend import preprocess as stage

    settings = stage.PreprocessOptions(
        include_dirs=options.include_dirs, system_dirs=options.system_dirs,
        defines=(*stated_defines(source, options.defines), *options.defines),
        forced_includes=options.forced_includes,
        file_prefix_map=options.file_prefix_map, read_file=read_file or stage.read_bytes)
    return stage.preprocess(source, settings, diagnostics)


def read_ir(source: SourceFile, unknown: Iterable[str], diagnostics: Diagnostics) -> "Module":
    """The kernels of a .tir file.  `unknown` was bound, and no meta-parameter has such a name.
    Raises CompileError with all that is wrong."""
    from tritonc.backend.target.machine_ops import ALL_OPS
    from tritonc.ir.syntax.parse import parse_module
    from tritonc.ir.verify import check

    module = parse_module(source, diagnostics, ALL_OPS)
    check(module, diagnostics, ALL_OPS)
    if not module.kernels:
        diagnostics.error("no-kernel", Span(source, 0, 0),
                          "there is no kernel here: `kernel @name(...) { ... }`")
    for name in unknown:
        diagnostics.error("unknown-tunable", None, f"there is no tunable '{name}' in Triton-IR, "
                          f"only meta-parameters: {', '.join(BY_NAME)}")
    diagnostics.raise_if_errors()
    return module


def in_turn(batches: "Sequence[Module]", alone: bool) -> "Iterator[Module]":
    """The kernels of a large source, some at a time.  What passes leave of them goes before the
    next come.  If the compiler is `alone` in the process, what stays is frozen meanwhile, so that
    no collection looks at it again."""
    try:
        for batch in batches:
            yield batch
            if batches[1:]:
                gc.collect()
            if batches[1:] and alone:
                gc.freeze()
    finally:
        if batches[1:] and alone:
            gc.unfreeze()


DEBUG_PTX = 75  # the first version whose sections have differences of labels, as DWARF has


def context_of(options: Options, constants: "Sequence[ConstantTable]" = ()) -> "Context":
    """What passes may know of the options; meta-parameters come with each kernel."""
    from tritonc.backend.target.target import find
    from tritonc.ir.context import Context

    target = find(options.arch, options.ptx)
    if options.debug and options.ptx is None and target.ptx < DEBUG_PTX:
        target = find(options.arch, f"{DEBUG_PTX // 10}.{DEBUG_PTX % 10}")
    return Context(
        target=target, constants=constants, contract=options.fp_contract,
        fast_math=options.fast_math, flushes=options.flushes, precise_math=options.precise_math,
        device_assert=options.device_assert)
