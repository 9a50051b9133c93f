"""`tritonc.compile` and `tritonc.load`: kernels that you launch from Python."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from tritonc import driver, manifest, stages
from tritonc.backend.target.target import find
from tritonc.frontend.preprocess.options import load_source
from tritonc.ir import core as ir
from tritonc.launch import cuda_driver
from tritonc.launch.python.kernel import Kernel, Module, Plan
from tritonc.options import DEFAULT_ARCH, MOST_PLANNED, NATIVE, Options
from tritonc.outputs import STANDARD
from tritonc.render import render, rendered
from tritonc.source import CompileError, SourceFile
from tritonc.spelling import hint
from tritonc.tune.tuning_file import with_tuning_file

Source = str | os.PathLike[str]
_TEXT = "<text>"  # the name of a source that is no file


class CompileWarning(UserWarning):
    """A warning of the compiler, with the text that the command line prints."""


def compile(source: Source, arch: str | None = None, *, kernel: str | None = None,
            **settings: Any) -> Kernel:
    """Compile Triton-C and return its kernel; `kernel` names one of several.

    Takes the arguments of `compile_module` and raises the same exceptions; also ValueError if the
    source has several kernels and `kernel` is missing, or has no kernel of that name."""
    return only(_compiled(source, arch, **settings), kernel)


def compile_module(source: Source, arch: str | None = None, *,
                   defines: Mapping[str, object] | Sequence[str] = (),
                   tunables: Mapping[str, int] | None = None, tuning: Source | None = None,
                   language: str | None = None, **options: Any) -> Module:
    """Compile a file of Triton-C (.tc) or Triton-IR (.tir), or a text; return all kernels.

    A `str` with a line break or a brace is a source, any other `str` a path.  `arch` is a target of
    --list-targets; by default the GPU of this machine, or sm_80 if there is none.  `defines` are
    macros by name, or words as -D takes them.  `tunables` has values of tunables and of
    meta-parameters.  `tuning` is the path of a tuning file, or "none"; by default the file beside
    the source.  `variants` is the most variants of each kernel to compile now.  Without it and
    `variant`, each launch of a kernel with open tunables chooses among a few variants, and the
    first launch of each compiles it.  Other arguments are fields of `tritonc.options.Options`, such
    as fast_math=True or include_dirs=("include",).

    Raises CompileError, whose text is what the command line would print; OSError; TypeError for an
    unknown option."""
    return _compiled(source, arch, defines=defines, tunables=tunables, tuning=tuning,
                     language=language, **options)


def _compiled(source: Source, arch: str | None, *,
              defines: Mapping[str, object] | Sequence[str] = (),
              tunables: Mapping[str, int] | None = None, tuning: Source | None = None,
              language: str | None = None, **options: Any) -> Module:
    """What both do; warnings point at whoever called them."""
    known = {f.name for f in fields(Options)} - {
        "arch", "tune", "defines", "tuning", "small_clusters"}
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option '{name}'; {hint(name, known)}".rstrip("; "))
    if isinstance(defines, Mapping):
        defines = [f"{name}={int(value) if isinstance(value, bool) else value}"
                   for name, value in defines.items()]
    elif isinstance(defines, str):
        raise TypeError(f"defines are a mapping or a sequence of words, found {defines!r}")
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    path = None if is_text else os.fspath(source)
    try:
        settings = Options(arch=_target(arch), defines=tuple(defines), tune=dict(tunables or {}),
                           tuning=None if tuning is None else os.fspath(tuning), **options)
        settings = with_tuning_file(settings, path or STANDARD)
        find(settings.arch, settings.ptx)
        diagnostics = stages.new_diagnostics(settings)
        if path is None:
            file: SourceFile | None = SourceFile(_TEXT, str(source))
        else:
            file = load_source(path, diagnostics)
        diagnostics.raise_if_errors()
        assert file is not None
        if language is None:
            language = "tir" if path is not None and path.endswith(".tir") else "tc"
        plans = language == "tc" and "variants" not in options and not settings.variant
        if plans:
            settings = replace(settings, variants=MOST_PLANNED, workspace=True)
        result = driver.compile(file, settings, ("ptx",), language=language,
                                diagnostics=diagnostics, plan=plans)
    except CompileError as error:
        raise rendered(error) from None
    if result.diagnostics:
        warnings.warn(f"\n{render(result.diagnostics).rstrip()}", CompileWarning, stacklevel=3)
    assert result.manifest is not None
    plan = Plan(result.planned, partial(_with_tunables, file, settings)) if result.planned else None
    lower = partial(_interpreted, file, settings, language, result.tunables)
    return Module(result.outputs["ptx"], result.manifest, plan, lower)


def _interpreted(file: SourceFile, settings: Options, language: str, tunables: Mapping[str, int]
                 ) -> ir.Module:
    """The Triton-IR of a source with its tunables, for the interpreter."""
    settings = replace(settings, variants=0, variant=(), tuning=None,
                       tune={**settings.tune, **tunables})
    result = driver.compile(file, settings, ("tir",), language=language)
    assert result.module is not None
    return result.module


def _with_tunables(file: SourceFile, settings: Options, tunables: Mapping[str, int], kernel: str
                   ) -> Module:
    """A source with other tunables: a variant that a launch takes for the first time.  One that
    takes memory is a variant of that module, whose kernel has the source's parameters; one with
    `coarsen` is the source as it is, which has a small body beside the cost model's tile."""
    settings = replace(settings, variants=0, tuning=None)
    if "memory_k" in tunables:
        settings = replace(settings, variant=(f"{kernel}:" + ",".join(
            f"{name}={value}" for name, value in tunables.items()),))
    elif "coarsen" not in tunables:
        settings = replace(settings, tune={**settings.tune, **tunables}, small_clusters=True)
    result = driver.compile(file, settings, ("ptx",))
    assert result.manifest is not None
    return Module(result.outputs["ptx"], result.manifest)


def load(path: Source, *, kernel: str | None = None) -> Kernel:
    """The kernel of a .ptx file that tritonc wrote; `kernel` names one of several.

    Raises OSError; ValueError for another file, or a kernel that is not there."""
    with open(path, encoding="utf-8") as file:
        ptx = file.read()
    return only(Module(ptx, manifest.read(ptx)), kernel)


def only(module: Module, kernel: str | None) -> Kernel:
    """The kernel of that name, or the only one."""
    names = ", ".join(module.kernels)
    if kernel is None:
        if len(module.kernels) != 1:
            raise ValueError(f"the source has several kernels, {names}: name one (kernel=...), or "
                             "use compile_module")
        return next(iter(module))
    if kernel not in module.kernels:
        raise ValueError(f"the source has no kernel '{kernel}'; it has {names}")
    return module[kernel]


def _target(arch: str | None) -> str:
    """The target to compile for.  Raises CompileError if the GPU is asked for and missing."""
    if arch is not None and arch != NATIVE:
        return arch
    try:
        return cuda_driver.device_target(cuda_driver.open_driver())
    except CompileError:
        if arch == NATIVE:
            raise
        return DEFAULT_ARCH
