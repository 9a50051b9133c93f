"""Values of tunables and of meta-parameters: given, of the tuning file, else the cost model's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from tritonc.backend.target.target import Target, find
from tritonc.frontend.lexer import Token
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel, Module
from tritonc.meta_parameters import BY_NAME, refusal
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostic, Diagnostics, Note, fail
from tritonc.tune import tuning_file
from tritonc.tune.tuning_file import Entry
from tritonc.variants.kernels import MOST
from tritonc.variants.variant import Fact, Variant, VariantSet, concerns, parse

if TYPE_CHECKING:
    from tritonc.frontend.syntax import Program
    from tritonc.ir.context import Remark
    from tritonc.problem.known import KnownLaunch
    from tritonc.tune.model.coarse import Few, Small
    from tritonc.tune.model.loops import Around

Lower = Callable[[Mapping[str, int], str], Module]  # one kernel, for values of tunables
Sizes = Callable[[Kernel, Sequence[str]], list[dict[str, Any]]]

_BY_HAND = frozenset(("cluster_k", "coarsen"))  # whoever chooses one of them has one entry


class Bindings:
    """The values of one compilation, and who chose them.

    `meta` are the meta-parameters that were bound; `chosen` are the tunables that the cost model
    chose, `chosen_meta` its meta-parameters, `general_meta` those of the entry for all launches;
    `refused` are combinations that it tried and that do not compile, with the first error of each;
    `tuned` is the entry of the tuning file for each name whose value it gave; `tuning` is the path
    of that file if one of its entries was used; `lists` are the declared values of each tunable.
    """

    def __init__(self, options: Options) -> None:
        self.meta: dict[str, int] = {}
        self.chosen: dict[str, int] = {}
        self.chosen_meta: dict[str, int] = {}
        self.tuned: dict[str, Entry] = {}
        self.tuning: str | None = None
        self._options = options
        self._entries: dict[str, Entry] = {}  # of the tuning file, by kernel
        self._sizes: dict[str, list[Entry]] = {}  # and those of all sizes
        self._given_meta: dict[str, int] = {}  # for all kernels
        self.general_meta: dict[str, int] = {}  # of the entry for all launches, by the cost model
        self.lists: dict[str, Sequence[int]] = {}
        self._bodies: dict[str, tuple[Small | None, Few | None]] = {}  # by kernel
        self._shapes: Callable[[Mapping[str, int]], Module]  # what the cost model looks at
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

    def of_program(self, program: Program, diagnostics: Diagnostics,
                   known: KnownLaunch | None = None) -> dict[str, int]:
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
        unbound = {t.name: t.values for t in declared if t.name not in given and t.values}
        if not unbound and known is None:
            return dict(given)
        from tritonc.tune.model.choose import MAX_COMBINATIONS, choose
        from tritonc.tune.model.wider import wider

        lowered: dict[tuple[int, ...], Module | CompileError] = {}

        def lower(binding: Mapping[str, int]) -> Module:
            values = {**given, **self.chosen, **binding}
            key = tuple(values.get(tunable.name, 0) for tunable in declared)
            if key not in lowered:
                try:
                    lowered[key] = sema.analyze_shapes(program, values, self._options)
                except CompileError as error:
                    lowered[key] = error
                    if all(values[k] in self.lists[k] for k in unbound):
                        self.refused.append(({k: values[k] for k in unbound}, error.diagnostics[0]))
            if isinstance(found := lowered[key], CompileError):
                raise found
            return found

        self._shapes = lower
        target = self._target()
        wide = wider(unbound, lower, target)
        self.lists, unbound = {**self.lists, **wide}, {**unbound, **wide}
        count = prod(map(len, unbound.values()))
        if count > MAX_COMBINATIONS:
            diagnostics.warning(
                "many-tunables", next(t.span for t in declared if t.name in unbound),
                f"the tunables have {count} combinations, more than {MAX_COMBINATIONS}: the cost "
                "model varies one tunable after the other",
                Note("--tune NAME=VALUE binds one"))
        elif known is not None and known.extents:
            from tritonc.tune.model.portfolio import best_at

            bound = "cluster_k" in {**given, **unbound, **self._given_meta}
            try:
                self.chosen = best_at(unbound, lower, target, known.extents, known.arguments,
                                      (1,) if bound else None) or {}
            except (ValueError, CompileError):  # several kernels; others report what is wrong
                self.chosen = {}
            if "cluster_k" in self.chosen:
                self.chosen_meta = {"cluster_k": self.chosen.pop("cluster_k")}
        if unbound and not self.chosen:
            self.chosen = choose(unbound, lower, target, known.extents if known is not None else ())
            self.general_meta = self._narrow(lower)
        self._tell_refused(diagnostics)
        return {**given, **self.chosen}

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

    def _narrow(self, lower: Callable[[Mapping[str, int]], Module]) -> dict[str, int]:
        """The meta-parameters of a narrow product's entry for all launches."""
        from tritonc.tune.model.narrow import beside

        try:
            kernels = lower(self.chosen).kernels
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
            meta.update({**self.general_meta, **self.chosen_meta})
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

    def variants(self, kernel: Kernel, tunables: Mapping[str, int], lower: Lower, sizes: Sizes
                 ) -> VariantSet:
        """The variants to have of a kernel, beside the one with these `tunables`.

        `sizes` says what of a launch the sizes of a problem are.  Raises CompileError.
        """
        given = [variant for text in self._options.variant
                 if concerns(variant := parse(text), kernel)]
        if given:
            return self._given(given, kernel, tunables, lower)
        if self._options.variants < 1:
            return self._few(kernel)
        entries = self._sizes.get(kernel.name, [])
        if len(entries) > 1:
            return self._tuned(kernel, entries, tunables, sizes)
        return self._modelled(kernel, tunables, lower)

    def small(self, kernel: Kernel) -> Small | None:
        """The tunables of a second body for launches of few programs, and how many those are; None
        where the sizes are known, where somebody chose the tile, or where it does not pay."""
        return self._beside(kernel)[0]

    def add_two_bodies(self, found: VariantSet, kernel: Kernel) -> None:
        """Plan the entry that a compilation without variants has, for the last rounds of its
        persistent blocks: a variant of the small body's tunables, and `coarsen`."""
        from tritonc.tune.model.portfolio import DOUBT, slower

        by_hand = {*self._given_meta, *kernel.attributes.get("meta", ())} & _BY_HAND
        small = None if found.general is None or by_hand else self.small(kernel)
        if small is not None and small.large is not None and small.cost is not None:
            tile, cost = small.large
            found.large = tile, slower(cost, DOUBT), len(found.variants)
            found.variants.append(Variant({**small.binding, "coarsen": small.most},
                                          cost=small.cost._replace(blocks=0)))

    def _few(self, kernel: Kernel) -> VariantSet:
        """An entry of clusters for launches of few programs, where a launch chooses."""
        by_hand = {*self._given_meta, *kernel.attributes.get("meta", ())} & _BY_HAND
        found = self._beside(kernel)[1]
        if found is None or by_hand:
            return self._rows(kernel)
        return VariantSet([Variant(member.binding, cost=member.cost) for member in found.members],
                          found.general, found.large and (*found.large, -1),
                          _listed(found.loops), found.aligned)

    def _rows(self, kernel: Kernel) -> VariantSet:
        """Entries for lengths of rows, where nobody chose a tile or a number of warps."""
        from tritonc.tune.model.rows import row_entries

        space = self._open(kernel)
        if not space or "num_warps" in {*self._given_meta, *kernel.attributes.get("meta", ())}:
            return VariantSet()
        found = row_entries(space, lambda binding: self._lowered(binding, kernel.name).kernels[0],
                            {name: self.chosen[name] for name in space})
        return VariantSet([Variant(one.binding, tuple(
            Fact(kernel.parameters[one.argument].name, relation, value)
            for relation, value in ((">=", one.least), ("<=", one.most)) if value is not None))
            for one in found])

    def _target(self) -> Target:
        return find(self._options.arch, self._options.ptx)

    def _open(self, kernel: Kernel) -> dict[str, Sequence[int]]:
        """The lists of the kernel's tunables that the cost model chose, for all sizes."""
        if self._options.sizes or self.chosen_meta or kernel.name in self._entries:
            return {}
        return {name: self.lists[name] for name in self.chosen if name in kernel.tunables}

    def lowered(self, binding: Mapping[str, int], name: str) -> Module | None:
        """A kernel as the cost model has looked at it, to be changed; None if it has not, or has
        done without the contents of tables."""
        found = self._lowered(binding, name) if self.chosen else None
        return None if found is None or self._shapes(binding).constants else Module(
            [*map(copy_kernel, found.kernels)])

    def _lowered(self, binding: Mapping[str, int], name: str) -> Module:
        return Module([k for k in self._shapes(binding).kernels if k.name == name])

    def _beside(self, kernel: Kernel) -> tuple[Small | None, Few | None]:
        """What is there beside the entry of the chosen tile, where nobody chose another."""
        space = self._open(kernel)
        if not space:
            return None, None
        if kernel.name not in self._bodies:
            from tritonc.tune.model.coarse import bodies

            self._bodies[kernel.name] = bodies(
                space, lambda binding: self._lowered(binding, kernel.name),
                self._target(),
                {name: self.chosen[name] for name in space}, self._options.small_clusters)
        return self._bodies[kernel.name]

    def remarks(self) -> Iterator[Remark]:
        """Combinations of tunables that the cost model left out because they do not compile."""
        from tritonc.ir.context import Remark

        for binding, error in self.refused:
            values = ", ".join(f"{name} = {value}" for name, value in binding.items())
            yield Remark("tunables", f"the cost model leaves out {values}, which does not compile: "
                         f"{error.message}", error.span, True)

    def _given(self, given: list[Variant], kernel: Kernel, tunables: Mapping[str, int],
               lower: Lower) -> VariantSet:
        """Those that the user names, with their costs where the model knows them."""
        from tritonc.tune.model.portfolio import priced
        from tritonc.tune.model.times import aligned

        known = {*tunables, "memory_k"}
        bindings = [{**tunables, **{k: v for k, v in each.items() if k in known}}
                    for each in ({}, *(variant.binding for variant in given))]
        found = priced(bindings, lambda binding: lower(binding, kernel.name), self._target())
        if found is None:
            return VariantSet(given)
        loops, (general, *costs) = found
        return VariantSet([variant._replace(cost=cost) for variant, cost
                           in zip(given, costs, strict=True)], general, loops=_listed(loops),
                          aligned=aligned(kernel, self._target()))

    def repriced(self, found: VariantSet, kernel: Kernel, tunables: Mapping[str, int], lower: Lower
                 ) -> VariantSet:
        """The variants that were chosen for another target, with their costs for this one.  Costs
        stay that this model does not know: of clusters, where this target has them, too."""
        from tritonc.tune.model.portfolio import DOUBT, priced, slower

        target = self._target()
        costs = [found.general, *(variant.cost for variant in found.variants)]
        if found.sizes or found.large or None in costs:
            return found
        known = {*tunables, "memory_k"}
        own = priced([{**tunables, **{k: v for k, v in each.items() if k in known}}
                      for each in ({}, *(variant.binding for variant in found.variants))],
                     lambda binding: lower(binding, kernel.name), target)
        if own is None:
            return found
        general, *rest = own[1]
        return replace(found, general=general, variants=[
            variant if "cluster_k" in variant.binding and "cluster" in target.features
            else variant._replace(cost=slower(cost, 0 if variant.given else DOUBT))
            for variant, cost in zip(found.variants, rest, strict=True)])

    def _tuned(self, kernel: Kernel, entries: Sequence[Entry], tunables: Mapping[str, int],
               sizes: Sizes) -> VariantSet:
        """A variant for each binding of the tuning file, the most frequent first."""
        found = VariantSet()
        names = sorted(entries[0].size)
        found.sizes = [dict(row) for row in sizes(kernel, names)]
        if not found.sizes:
            found.notes.append(f"no variants of {kernel.name}: a launch does not give the "
                               f"sizes {', '.join(names)} of the tuning file")
            return found
        given = self._options.tune
        bindings = [{**{k: v for k, v in tunables.items() if k in kernel.tunables},
                     **entry.tunables, **given} for entry in entries]
        general = {**tunables, **(self._entries[kernel.name].tunables
                                  if kernel.name in self._entries else {}), **given}
        general = {k: v for k, v in general.items() if k in kernel.tunables or k in BY_NAME}
        keys = [tuple(sorted(binding.items())) for binding in bindings]
        counts = Counter(keys)
        places = {tuple(sorted(general.items())): -1}
        for key, _ in sorted(counts.items(), key=lambda item: (-item[1], keys.index(item[0]))):
            if key not in places and len(found.variants) < self._options.variants:
                places[key] = len(found.variants)
                found.variants.append(Variant(dict(key)))
        for entry, key in zip(entries, keys, strict=True):
            if key in places and sorted(entry.size) == names:
                known = tuple(entry.size[str(row["name"])] for row in found.sizes)
                found.points.append((known, places[key]))
        self.tuning = self._options.tuning
        return found

    def _modelled(self, kernel: Kernel, tunables: Mapping[str, int], lower: Lower) -> VariantSet:
        """The cost model's portfolio."""
        from tritonc.tune.model.portfolio import portfolio
        space = {name: values for name, values in self.lists.items()
                 if name in kernel.tunables and name not in self._options.tune}
        found = VariantSet()
        fixed = {name: value for name, value in tunables.items() if name not in space}
        chosen = portfolio(space, lambda binding: lower({**fixed, **binding}, kernel.name),
                           self._target(), tunables, self._options.variants,
                           self._options.workspace) if space else None
        if chosen is None and (rows := self._rows(kernel)).variants:
            return rows
        if chosen is None:
            found.notes.append(f"no variants of {kernel.name}: all tunables have values, or the "
                               "cost model finds no product in a loop")
            return found
        found.variants = [Variant(member.binding, cost=member.cost)
                          for member in chosen.members[:MOST]]
        found.general, found.loops = chosen.general, _listed(chosen.loops)
        found.aligned = chosen.aligned
        found.notes.append(
            f"variants of {kernel.name}: by the cost model {chosen.served:.0%} of all sizes are "
            f"within 5 % of the best, the worst at {chosen.worst:.2f}")
        if not any(loop.arguments for loop in chosen.loops):
            found.notes.append(f"variants of {kernel.name}: no parameter gives the iterations of "
                               "its product's loop; only the range chooses")
        return found

    def _take(self, name: str, entry: Entry) -> None:
        self.tuned[name] = entry
        self.tuning = self._options.tuning


def _listed(loops: Sequence[Around]) -> list[dict[str, Any]]:
    """Loops as the manifest has them."""
    return [{"factor": loop.factor, "arguments": [*loop.arguments]} for loop in loops]


def _legal(name: str, value: int) -> int:
    """`value`, or CompileError if the meta-parameter cannot have it."""
    why = refusal(name, value)
    if why is not None:
        raise fail("meta-parameter", None, why)
    return value
