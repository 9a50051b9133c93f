"""Values of tunables and of meta-parameters: given, of the tuning file, else the cost model's."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tritonc.backend.target.target import Target, find
from tritonc.frontend.lexer import Token
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel, Module
from tritonc.meta_parameters import BY_NAME, refusal
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostic, Diagnostics, Note, fail
from tritonc.tune import tuning_file
from tritonc.tune.tuning_file import Entry

if TYPE_CHECKING:
    from tritonc.frontend.syntax import Program
    from tritonc.ir.context import Remark
    from tritonc.problem.known import KnownLaunch
    from tritonc.sema import Part, TunableInfo
    from tritonc.variants.variant import Fact, Variant

_KEPT_PARTS = 16


class Bindings:
    """The values of one compilation, and who chose them.

    `meta` are the meta-parameters that were bound; `chosen` are the tunables that the cost model
    chose, `chosen_meta` its meta-parameters by kernel, `facts` what holds of the known launch if
    that made it choose so; `refused` are combinations that it tried and that do not compile, with
    the first error of each;
    `tuned` is the entry of the tuning file for each name whose value it gave; `tuning` is the path
    of that file if one of its entries was used; `lists` are the declared values of each tunable."""

    def __init__(self, options: Options) -> None:
        self.meta: dict[str, int] = {}
        self.chosen: dict[str, int] = {}
        self.chosen_meta: dict[str, dict[str, int]] = {}
        self.facts: dict[str, tuple[Fact, ...]] = {}
        self.tuned: dict[str, Entry] = {}
        self.tuning: str | None = None
        self._options = options
        self._entries: dict[str, Entry] = {}  # of the tuning file, by kernel
        self._sizes: dict[str, list[Entry]] = {}  # and those of all sizes
        self._given_meta: dict[str, int] = {}  # for all kernels
        self.lists: dict[str, Sequence[int]] = {}
        self._shapes: dict[str, Callable[[Mapping[str, int]], Module]] = {}  # by kernel: its
        # part of the program, as the cost model looks at it
        self._parts: dict[str, tuple[Program, list[str]]] = {}  # by kernel; the names of tunables
        self._whole: dict[tuple[object, ...], Module] = {}  # what `analyzed` need not make again
        self._seen: dict[str, dict[tuple[int, ...], Module | CompileError]] = {}  # the last parts'
        self.refused: list[tuple[dict[str, int], Diagnostic]] = []  # of that, what has an error

    def read_tuning_file(self, path: str, tokens: Iterable[Token], diagnostics: Diagnostics
                         ) -> None:
        """Find the entries for the program of `tokens`.  Raises CompileError for a file that is
        malformed."""
        options = self._options
        entries = tuning_file.read(path)
        source = tuning_file.source_hash(tokens)
        self._entries = tuning_file.lookup(entries, source, options.arch, options.sizes)
        self._sizes = tuning_file.matching(entries, source, options.arch)
        if tuning_file.is_stale(entries, source, options.arch, options.defines):
            diagnostics.warning(
                "stale-tuning", None, f"'{path}' was measured with a different version of this "
                "program and is ignored; the cost model "
                "chooses", Note("tritonc tune measures again"))

    def of_program(self, program: "Program", diagnostics: Diagnostics,
                   known: "KnownLaunch | None" = None) -> dict[str, int]:
        """A value for each tunable: from outside, else the cost model's choice, for what is
        `known` of the launch."""
        from tritonc import sema  # the preprocessor alone starts without it

        try:
            declared = sema.tunables(program, diagnostics)
        except CompileError:
            return dict(self._options.tune)  # the analysis reports it too, and what else is wrong
        given = self.split({t.name for t in declared})
        self.lists = {t.name: t.values for t in declared if t.values}
        for t in declared:
            value = self._options.tune.get(t.name)
            if t.values and value is not None and value not in t.values:
                diagnostics.warning("tunable-value", t.span, f"{t.name} = {value} is not among its "
                                    f"values {', '.join(map(str, t.values))}")
        parts = [part for part in sema.parts(program) if part.kernels]
        for part in parts:
            own = declared if len(parts) == 1 else sema.tunables(part.program, Diagnostics())
            alone = len(parts) == 1 or (known is not None and known.kernel in part.kernels)
            self._choose(part, own, given, known if alone else None, diagnostics)
        self._tell_refused(diagnostics)
        return {**given, **{t.name: t.values[0] for t in declared if t.values
                            and t.name not in given}, **self.chosen}

    def analyzed(self, program: "Program", values: Mapping[str, int], diagnostics: Diagnostics
                 ) -> Module:
        """The program as Triton-IR; a copy of what the cost model looked at, if that is the same.
        """
        from tritonc import sema

        (name, *more) = self._parts or [""]
        known = self._whole.get((name, *sorted(values.items())))
        if known is None or more or diagnostics.errors:
            return sema.analyze(program, values, diagnostics, self._options)
        found = Module([*map(copy_kernel, known.kernels)])
        for kernel in found.kernels:
            kernel.info = [*map(replace, kernel.info)]
        sema.check(program, found, diagnostics)
        return found

    def _choose(self, part: "Part", declared: "Sequence[TunableInfo]", given: Mapping[str, int],
                known: "KnownLaunch | None", diagnostics: Diagnostics) -> None:
        """Values for the tunables of a part of the program, by the cost model."""
        unbound = {t.name: t.values for t in declared if t.name not in given and t.values}
        self._whole.clear()
        self._parts |= dict.fromkeys(part.kernels, (part.program, [
            name for t in declared for name in (t.name, *t.together)]))
        lower = self._lowering(part, [t.name for t in declared], given, unbound)
        self._shapes |= dict.fromkeys(part.kernels, lower)
        if not unbound and known is None:
            return
        from tritonc.tune.model.choose import MAX_COMBINATIONS, choose
        from tritonc.tune.model.wider import for_all_sizes, wider

        target = self._target()
        wide = wider(unbound, lower, target)
        listed = unbound
        self.lists |= wide
        unbound = {**unbound, **wide}
        count = prod(map(len, unbound.values()))
        if count > MAX_COMBINATIONS:
            diagnostics.warning(
                "many-tunables", next(t.span for t in declared if t.name in unbound),
                f"the tunables have {count} combinations, more than {MAX_COMBINATIONS}: the cost "
                "model varies one tunable after the other",
                Note("--tune NAME=VALUE binds one"))
        chosen: dict[str, int] = {}
        if count <= MAX_COMBINATIONS and known is not None and known.extents:
            from tritonc.tune.model.portfolio import best_at

            bound = "cluster_k" in {**given, **unbound, **self._given_meta}
            with suppress(ValueError, CompileError):  # several kernels; others report what is wrong
                chosen = best_at(unbound, lower, target, known.extents, known.arguments,
                                 (1,) if bound else None) or {}
        meta: dict[str, int] = {name: chosen.pop(name) for name in ("cluster_k", "pingpong")
                                if name in chosen}
        if unbound and not chosen:
            chosen = choose(unbound if known is not None and known.extents
                            else for_all_sizes(unbound, listed), lower, target)
            meta = {**self._narrow(lower, chosen), **meta}
        self.chosen |= chosen
        self.chosen_meta |= dict.fromkeys(part.kernels, meta)
        if known is not None and len(part.kernels) == 1:
            self._choose_at(part.kernels[0], known)

    def _lowering(self, part: "Part", names: Sequence[str], given: Mapping[str, int],
                  unbound: Mapping[str, Sequence[int]]) -> Callable[[Mapping[str, int]], Module]:
        """What makes Triton-IR of a part for values of its tunables, which are `names`.

        The last parts keep what they made: in files of many kernels memory is worth more."""
        from tritonc import sema

        refused = set[tuple[int, ...]]()

        def lower(binding: Mapping[str, int]) -> Module:
            program, values = self.part_of(part.kernels[0], given, self.chosen, binding)
            key = tuple(values.get(name, 0) for name in names)
            lowered = self._seen.setdefault(part.kernels[0], {})
            while len(self._seen) > _KEPT_PARTS:
                del self._seen[next(iter(self._seen))]
            if key not in lowered:
                try:
                    made, whole = sema.analyze_shapes(program, values, self._options)
                    lowered[key] = made
                    if whole and len(part.kernels) == 1:
                        self._whole[part.kernels[0], *sorted(values.items())] = made
                except CompileError as error:
                    lowered[key] = error
                    if key not in refused and all(values[k] in self.lists[k] for k in unbound):
                        refused.add(key)
                        self.refused.append(({k: values[k] for k in unbound}, error.diagnostics[0]))
            if isinstance(found := lowered[key], CompileError):
                raise found
            return found

        return lower

    def _choose_at(self, name: str, known: "KnownLaunch") -> None:
        """Choose what the entry has that the launch would take, of a kernel without products."""
        from tritonc.tune.model.stream_entries import entry_at

        try:
            (kernel,) = self._lowered({}, name).kernels
        except CompileError:  # others report it
            return
        found = None if any(op.name == "dot" for op in kernel.ops()) else entry_at(
            self.stream_entries(kernel), kernel, known)
        if found is not None:
            self.facts[name] = found.facts
            own = {k: v for k, v in found.binding.items() if k in self.chosen}
            self.chosen |= own
            self.chosen_meta[name] = {k: v for k, v in found.binding.items() if k not in own}

    def stream_entries(self, kernel: Kernel) -> "list[Variant]":
        """Entries for some sizes of a kernel without products, where nobody chose a tile or a
        number of warps."""
        from tritonc.tune.model.stream_entries import stream_entries

        chosen = self.chosen_of(kernel)
        if (kernel.name in self._entries or (kernel.tunables and not chosen)
                or "num_warps" in {*self._given_meta, *kernel.attributes.get("meta", ())}):
            return []
        try:
            return stream_entries(
                kernel, {name: self.lists[name] for name in chosen},
                lambda binding: self._lowered(binding, kernel.name).kernels[0], chosen,
                self._target())
        except CompileError:  # of values that the program refuses, which `remarks` tells
            return []

    def _tell_refused(self, diagnostics: Diagnostics) -> None:
        """A warning where the program is right for the chosen values only, as where a mask has the
        shape of another axis by chance; conditions of its own are meant."""
        wrong = [(binding, error) for binding, error in self.refused
                 if error.name == "shape-mismatch"]
        if wrong and not any(binding.items() <= self.chosen.items() for binding, _ in wrong):
            binding, error = wrong[0]
            values = ", ".join(f"{name} = {value}" for name, value in binding.items())
            diagnostics.warning("tunable-refused", error.span, f"with {values} this is an error: "
                                f"{error.message}", *error.notes, Note("the lists of the tunables "
                                "have these values; static_assert excludes some"))

    def _narrow(self, lower: Callable[[Mapping[str, int]], Module], chosen: Mapping[str, int]
                ) -> dict[str, int]:
        """The meta-parameters of a narrow product's entry for all launches."""
        from tritonc.tune.model.narrow import beside

        try:
            kernels = lower(chosen).kernels
        except CompileError:
            return {}
        return beside(kernels[0], self._target()) if len(kernels) == 1 else {}

    def split(self, declared: set[str]) -> dict[str, int]:
        """The values given for tunables, by name: --tune first, then the tuning file, whose first
        kernel wins where several share a tunable.  Those that are no tunable but meta-parameters
        count for every kernel."""
        given: dict[str, int] = {}
        for name, value in self._options.tune.items():
            if name in declared or name not in BY_NAME:
                given[name] = value
            else:
                self._given_meta[name] = _legal(name, value)
        for entry in self._entries.values():
            for name, value in entry.tunables.items():
                if name in declared and name not in given:
                    given[name] = value
                    self._take(name, entry)
        return given

    def of_kernel(self, kernel: Kernel, tunables: Mapping[str, int]) -> dict[str, int]:
        """The meta-parameters of a kernel: given, else its entry's of the tuning file.  `tunables`
        are the program's, some of which may have a meta-parameter's name."""
        entry = self._entries.get(kernel.name)
        meta = dict(kernel.attributes.get("meta", {}))  # what the source states
        if entry is None:
            meta.update(self.chosen_meta.get(kernel.name, {}))
        if entry is not None:
            for name, value in entry.tunables.items():
                if name in BY_NAME and name not in tunables:
                    meta[name] = _legal(name, value)
                    if name not in self._given_meta:
                        self._take(name, entry)
        meta.update(self._given_meta)
        if meta.get("memory_k", 1) > 1:
            raise fail("variant", kernel.span, "'memory_k' is for variants, to which a launch may "
                       "give memory: --variant=memory_k=8")
        self.meta.update(meta)
        return dict(sorted(meta.items()))

    def meta_of(self, binding: Mapping[str, int], tunables: Mapping[str, int]) -> dict[str, int]:
        """The meta-parameters of a variant: its own, and what is given for all kernels."""
        own = {name: _legal(name, value) for name, value in binding.items()
               if name in BY_NAME and name not in tunables}
        return dict(sorted({**own, **self._given_meta}.items()))

    def _target(self) -> Target:
        return find(self._options.arch, self._options.ptx)

    def lowered(self, binding: Mapping[str, int], name: str) -> Module | None:
        """A kernel as the cost model has looked at it, to be changed; None if it has not, or has
        done without the contents of tables."""
        found = self._lowered(binding, name) if self.chosen else None
        return None if found is None or self._shapes[name](binding).constants else Module(
            [*map(copy_kernel, found.kernels)])

    def part_of(self, name: str, *values: Mapping[str, int]) -> "tuple[Program, dict[str, int]]":
        """The part of the program that a kernel needs, and those of `values` that it knows, of
        which the last count."""
        part, names = self._parts[name]
        return part, {name: each[name] for each in values for name in names if name in each}

    def chosen_of(self, kernel: Kernel) -> dict[str, int]:
        """The kernel's tunables that the cost model chose."""
        return {name: self.chosen[name] for name in kernel.tunables if name in self.chosen}

    def _lowered(self, binding: Mapping[str, int], name: str) -> Module:
        return Module([k for k in self._shapes[name](binding).kernels if k.name == name])

    def remarks(self) -> "Iterator[Remark]":
        """Combinations of tunables that the cost model left out because they do not compile."""
        from tritonc.ir.context import Remark

        for binding, error in self.refused:
            values = ", ".join(f"{name} = {value}" for name, value in binding.items())
            yield Remark("tunables", f"the cost model leaves out {values}, which does not compile: "
                         f"{error.message}", error.span, True)

    def _take(self, name: str, entry: Entry) -> None:
        self.tuned[name] = entry
        self.tuning = self._options.tuning


def _legal(name: str, value: int) -> int:
    """`value`, or CompileError if the meta-parameter cannot have it."""
    why = refusal(name, value)
    if why is not None:
        raise fail("meta-parameter", None, why)
    return value
