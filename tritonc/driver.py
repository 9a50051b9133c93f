"""From a source to the kinds of output that are asked for.

`compile` runs the stages in their order, as far as the outputs need:

    preprocess -> parse -> analyze -> passes of opt -> passes of backend -> LLVM IR -> PTX
       i           ast                    tir              manifest           ll       ptx

It touches no file but those that the source includes and the options' tuning file, and prints
nothing.  A user's mistake raises CompileError; anything else that is raised is a bug of tritonc and
becomes InternalError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import PurePath
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tritonc.options import Options
from tritonc.planning import Planning
from tritonc.problem.stated import stated_lines
from tritonc.records import dataclass
from tritonc.result import InternalError, Result
from tritonc.source import CompileError, Diagnostics, SourceFile, Span, deep_recursion, fail
from tritonc.stages import context_of, in_turn, new_diagnostics, preprocess, read_ir

if TYPE_CHECKING:
    from tritonc.backend.ahead import Ahead
    from tritonc.frontend.preprocess import Preprocessed
    from tritonc.frontend.syntax import Program
    from tritonc.ir.context import Context, Remark
    from tritonc.ir.core import Kernel, Module
    from tritonc.pass_manager import Pass
    from tritonc.problem.known import KnownLaunch
    from tritonc.source import Diagnostic

_LONGEST_CHAIN = 5000  # calls inside each other of passes; 8 MB of stack hold twice as many
# Kernels whose operations are there at a time, 2 MB each, and where each has entries beside it.
_BATCH, _ENTRIES = 16, 4
LOWER = "lower"  # the name of semantic analysis where names of passes are wanted


def pass_names() -> list[str]:
    """Every name that --print-after and its like take, in order."""
    from tritonc import pass_manager, passes

    return [LOWER, *pass_manager.labels([*passes.OPT, *passes.BACKEND])]


def compile(source: SourceFile, options: Options, kinds: Sequence[str] = ("ptx",), *,
            language: str = "tc", dump: Callable[[str, str], None] | None = None,
            diagnostics: Diagnostics | None = None,
            read_file: Callable[[str], bytes] | None = None, alike: Result | None = None,
            plan: bool = False) -> Result:
    """Compile `source` ("tc" or "tir") to `kinds` of output, as named in `outputs.KINDS`.

    `read_file` gives the bytes of what the source includes.  `dump(title, text)` receives the IR
    for --print-before and --print-after.  `alike` is the result for another target, whose variants
    this one shall have too.  With `plan` variants are chosen, and not compiled.  Raises
    CompileError with all diagnostics, warnings too, where the source is wrong; InternalError."""
    if diagnostics is None:
        diagnostics = new_diagnostics(options)
    compilation = _Compilation(source, options, set(kinds), language, dump, diagnostics,
                               read_file, alike, plan)
    try:
        compilation.run()
        diagnostics.raise_if_errors()
    except CompileError as error:
        known = set(map(id, diagnostics.items))
        rest = [d for d in error.diagnostics if id(d) not in known]
        raise CompileError([*diagnostics.items, *rest]) from None
    compilation.result.diagnostics = tuple(diagnostics.items)
    return compilation.result


@dataclass
class _Compilation:
    """One run of `compile`, whose arguments these are."""

    source: SourceFile
    options: Options
    wanted: set[str]  # kinds
    language: str
    dump: Callable[[str, str], None] | None
    diagnostics: Diagnostics
    read_file: Callable[[str], bytes] | None
    alike: Result | None
    plan: bool
    _lower: Callable[[Mapping[str, int], str], Module] | None = None
    _values: Mapping[str, int] = field(default_factory=dict)  # of tunables
    _ahead: Ahead | None = None  # of several kernels, if nothing asks for LLVM IR

    def __post_init__(self) -> None:
        self.bindings = Planning(self.options)
        self.result = Result(bindings=self.bindings)

    def run(self) -> None:
        module = self._read_ir() if self.language == "tir" else self._front()
        if module is None:
            return
        self.result.module = module
        self._show(LOWER, "after", module.kernels, changed=True)
        if self.options.stop_after != LOWER:
            self._optimize_and_emit(module)
        else:
            self._add_variants(module)
        if "tir" in self.wanted and "tir" not in self.result.outputs:
            self._print_ir(module)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Time a stage, and name it in what it raises by mistake."""
        started = perf_counter()
        try:
            with deep_recursion(_LONGEST_CHAIN):
                yield
        except (CompileError, InternalError):
            raise
        except RecursionError:
            raise fail("nested-too-deeply", Span(self.source, 0, 1),
                       "the source nests constructs more deeply, or computes a value in more steps "
                       "one after the other, than tritonc can follow") from None
        except Exception as error:
            label = getattr(error, "label", None)  # of a PassError
            stage = f"pass '{label}'" if label else name
            cause = error.__cause__ if label and error.__cause__ else error
            raise InternalError(stage, getattr(error, "kernel", None), cause) from error
        self.result.timings[name] += perf_counter() - started

    # the front end

    def _read_ir(self) -> Module | None:
        for kind in ("i", "ast"):
            if kind in self.wanted:
                raise fail("no-such-output", None, f"a .tir source has no output '{kind}'")
        if self.options.variants or self.options.variant:
            raise fail("variant", None, "variants are made of Triton-C, not of Triton-IR")
        with self._stage("parse"):
            module = read_ir(self.source, self.bindings.split(set()), self.diagnostics)
            self.result.problem_lines = stated_lines(self.source)
        return module if self.wanted - {"i", "ast"} else None

    def _front(self) -> Module | None:
        preprocessed = self._preprocess()
        if not self.wanted - {"i"} and self.wanted:
            return None
        with self._stage("import parser"):
            from tritonc.frontend.parser import parse
        with self._stage("parse"):
            program = parse(preprocessed.tokens, self.diagnostics)
            program.macros = (*preprocessed.macros,)
            del preprocessed  # a tenth of a kilobyte for each byte of the source
            self.diagnostics.raise_if_errors()
        if "ast" in self.wanted:
            from tritonc.frontend.tree import dump

            self.result.outputs["ast"] = dump(program)
        return None if self.wanted and not self.wanted - {"i", "ast"} else self._analyze(program)

    def _preprocess(self) -> Preprocessed:
        with self._stage("import preprocessor"):
            from tritonc.frontend.preprocess import render
        with self._stage("preprocess"):
            done = preprocess(self.source, self.options, self.diagnostics, self.read_file)
            self.diagnostics.raise_if_errors()
        self.result.dependencies = list(done.included)
        self.result.system = done.system
        self.result.problem_lines = done.problem_lines
        if self.options.tuning is not None:
            with self._stage("read tuning file"):
                self.result.dependencies.append(self.options.tuning)  # used or not
                self.bindings.read_tuning_file(self.options.tuning, done.tokens, self.diagnostics)
        if "i" in self.wanted:
            self.result.outputs["i"] = render(done)
        return done

    def _known(self) -> KnownLaunch | None:
        """What the sizes that were given say of the launch, where the source has one problem."""
        if not self.options.sizes:
            return None
        from tritonc.problem.known import known_launch

        return known_launch(self.result.problem_lines, self.options.sizes, self.options.defines)

    def _analyze(self, program: Program) -> Module:
        with self._stage("import analysis"):
            from tritonc import sema
            from tritonc.analysis.first_accesses import set_not_null
            from tritonc.ir.core import Module
        with self._stage("choose tunables"):
            values = self.bindings.of_program(program, self.diagnostics, self._known())
        with self._stage("analyze"):
            module = self.bindings.analyzed(program, values, self.diagnostics)
            self.diagnostics.raise_if_errors()
            set_not_null(module)
        for kernel in module.kernels:
            self.result.tunables.update(kernel.tunables)

        def lower(binding: Mapping[str, int], name: str) -> Module:
            if (known := self.bindings.lowered(binding, name)) is not None:
                return known
            part, own = self.bindings.part_of(name, values, binding)
            lowered = sema.analyze(part, own, Diagnostics(limit=1), self.options)
            set_not_null(lowered)
            return Module([k for k in lowered.kernels if k.name == name], lowered.constants)

        self._lower, self._values = lower, values
        self.result.variants.names = {kernel.name for kernel in module.kernels}
        return module

    def _batches(self, module: Module) -> list[Module]:
        """The kernels, as many at a time as memory is for; all, where something asks for them."""
        each, options = len(module.kernels), self.options
        if not (self.wanted & {"tir", "ll"} or options.stop_after or options.variant):
            each = _ENTRIES if options.small_clusters or options.variants else _BATCH
        return [replace(module, kernels=module.kernels[i : i + each])
                for i in range(0, len(module.kernels), each)]

    def _add_variants(self, module: Module) -> None:
        """The kernels of variants, after all others."""
        options, values, lower = self.options, self._values, self._lower
        if lower is None or not (options.variants or options.variant or options.small_clusters):
            return
        count = len(module.kernels)
        with self._stage("choose variants"):
            from tritonc.variants.kernels import check_given, sizes_of

            check_given(options.variant, module, {*values})
            other = None if self.alike is None else self.alike.variants
            sizes, variants = sizes_of(self.result.problem_lines), self.result.variants
            for kernel in module.kernels:
                found = variants.sets[kernel.name] = self.bindings.variants(
                    kernel, values, lower, sizes) if other is None else self.bindings.repriced(
                        other.sets[kernel.name], kernel, values, lower)
                if self.plan:
                    self.bindings.add_two_bodies(found, kernel)
            if self.plan:
                self.result.planned |= variants.plan(module, lower)
            else:
                variants.add(module, lower, other)
        self._show(LOWER, "after", module.kernels[count:], changed=True)

    # from Triton-IR on

    def _optimize_and_emit(self, module: Module) -> None:
        machine, stop = self.wanted & {"ptx", "ll", "manifest"}, self.options.stop_after
        if self.wanted and not (machine or "tir" in self.wanted):
            return
        with self._stage("import passes"):
            from tritonc import pass_manager, passes
            from tritonc.ir.context import by_place
        variants, batches = self.result.variants, self._batches(module)
        context, known = context_of(self.options, module.constants), self._known()
        context.known_sizes = known.arguments if known is not None else {}
        every = [*passes.OPT, *passes.BACKEND]
        names = pass_manager.labels(every)
        rows = [*zip(names, every, strict=True)]
        first = names.index(start) + 1 if (start := self.options.start_after) in names else 0
        middle = max(first, len(passes.OPT))
        front, backend, left = rows[first:middle], rows[middle:], names[middle:]
        if machine or stop is not None:
            pass_manager.check_stage(module, names[first:])
        elif pass_manager.has_layouts(module):  # what is only run or printed is so as it is
            front = []
        every_meta: dict[str, dict[str, int]] = {}
        for batch in in_turn(batches, self.options.alone):
            self._add_variants(batch)
            meta = {kernel.name: self.bindings.meta_of(
                variants.variant(kernel.name).binding, self.result.tunables)
                if kernel.name in variants.added else self.bindings.of_kernel(
                    kernel, self.result.tunables) for kernel in batch.kernels}
            done = self._passes("optimize", batch, context, front, meta)
            if done and (machine or stop in left):
                if "tir" in self.wanted and stop is None:
                    self._print_ir(batch)
                if self._ahead is None and self.wanted & {"ptx", "ll"} == {"ptx"} \
                        and max(len(module.kernels), len(batch.kernels)) > 1:
                    from tritonc.backend.ahead import Ahead

                    self._ahead = Ahead(module.constants, context.target, self.options,
                                        final=not variants.sets)
                done = self._passes("backend", batch, context, backend, meta)
            if done and machine:
                if (self.options.small_clusters or self.plan) and self.alike is None:
                    variants.pack(batch, meta, context.target)
                every_meta |= variants.settle(batch, meta, self.alike is None)
                needed = self._ahead.settle(batch.kernels) if self._ahead is not None else []
                for kernel in batch.kernels if batches[1:] else ():
                    if kernel not in needed:
                        kernel.blocks.clear()
        self.result.remarks = by_place([*self.bindings.remarks(), *context.remarks])
        for found in context.warnings:
            self.diagnostics.warning(found.name, found.span, found.message, *found.notes)
        module.kernels[:] = [kernel for batch in batches for kernel in batch.kernels]
        if done and machine:
            self._emit(module, context.target, every_meta)

    def _passes(self, stage: str, module: Module, context: Context,
                rows: Sequence[tuple[str, Pass]], meta: Mapping[str, dict[str, int]]) -> bool:
        """Run passes, each with its label, on every kernel; False if --stop-after ended them."""
        from tritonc import pass_manager, two_processes
        from tritonc.variants.small import small_body

        hooks = pass_manager.Hooks(stop_after=self.options.stop_after)
        if self.options.print_before:
            hooks.before = lambda label, kernel: self._show(label, "before", [kernel])
        if self.options.print_after or self.options.print_changed:
            hooks.after = lambda label, kernel, changed: self._show(label, "after", [kernel],
                                                                    changed)
        if self.options.verify_each:
            from tritonc.ir.verify import between_passes

            hooks.verify = between_passes()
        completed, added, refused = True, self.result.variants.added, len(self.bindings.refused)
        warnings: dict[Kernel, list[Diagnostic]] = {kernel: [] for kernel in module.kernels}
        remarks: dict[Kernel, list[Remark]] = {kernel: [] for kernel in module.kernels}
        failed: dict[Kernel, CompileError] = {}

        def run(kernel: Kernel) -> None:
            nonlocal completed
            own_context = replace(context, meta=meta[kernel.name], warnings=warnings[kernel],
                                  remarks=[] if kernel.name in added else remarks[kernel])
            if stage == "backend" and kernel.name not in added and self._lower is not None and not (
                    self.options.variants or self.options.variant):  # entries of variants have one
                own_context.small = small_body(kernel, self._lower, self.bindings.small,
                                               own_context, self.options.opt_level, hooks.verify)
            try:
                completed &= pass_manager.run(kernel, own_context, [row for _, row in rows],
                                              level=self.options.opt_level, hooks=hooks,
                                              names=[label for label, _ in rows])
            except CompileError as error:
                failed[kernel] = error
            else:
                if self._ahead is not None and completed and stage == "backend":
                    self._ahead.begin(kernel)

        def told(kernel: Kernel) -> list[Remark] | None:
            more = kernel in failed or warnings[kernel] or self.bindings.refused[refused:]
            return None if more else remarks[kernel]

        with self._stage(stage):
            here = hooks.before or hooks.after or hooks.stop_after  # in order, and by this process
            if stage == "backend" and self._ahead and self.options.alone and not here:
                every = self._ahead.final and not self.options.debug
                shared = [kernel for kernel in module.kernels if every or kernel.name in added]
                two_processes.share(module.kernels, shared, run, self._ahead, hooks.seconds, told,
                                    lambda kernel, found: remarks[kernel].extend(found))
            else:
                for kernel in module.kernels:
                    run(kernel)
        for kernel in [*module.kernels]:
            context.warnings += warnings[kernel]
            context.remarks += remarks[kernel]  # the general entry's tell of each place
            if kernel in failed:
                self.result.variants.leave_out(kernel, module, failed[kernel])
        for label, seconds in hooks.seconds.items():
            self.result.timings[f"  {label}"] += seconds
        return completed

    def _emit(self, module: Module, target: Any, meta: Mapping[str, dict[str, int]]) -> None:
        from tritonc.manifest import as_file, manifest, one_line

        tuning = self.bindings.tuning and PurePath(self.bindings.tuning).name
        contents = manifest(module, target, tuning, meta, self.result.variants.groups())
        self.result.manifest = contents
        if "manifest" in self.wanted:
            self.result.outputs["manifest"] = as_file(contents)
        if not self.wanted & {"ptx", "ll"}:
            return
        with self._stage("import emitters"):
            from tritonc.backend import assemble, llvm
        if self._ahead is None:
            with self._stage("emit llvm ir"):
                text = llvm.emit(module, target, self.options)
            if "ll" in self.wanted:
                self.result.outputs["ll"] = text
        if "ptx" in self.wanted:
            with self._stage("llvm"):
                self.result.outputs["ptx"] = f"{one_line(contents)}\n" + (
                    assemble.assemble(text, target, self.options) if self._ahead is None
                    else self._ahead.ptx())

    # text

    def _print_ir(self, module: Module) -> None:
        from tritonc.ir.syntax.text import print_module

        self.result.outputs["tir"] = print_module(module)

    def _show(self, name: str, when: str, kernels: Sequence[Kernel], changed: bool = False) -> None:
        wanted = self.options.print_after if when == "after" else self.options.print_before
        asked = "all" in wanted or name in wanted or (changed and self.options.print_changed)
        if self.dump is None or not asked:
            return
        from tritonc.ir.syntax.text import print_kernel

        for kernel in kernels:
            self.dump(f"{when} {name}, kernel {kernel.name}", print_kernel(kernel))
