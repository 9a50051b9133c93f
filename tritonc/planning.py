"""Which variants of a kernel there are: given, of the tuning file, or of the cost model."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tritonc.bindings import Bindings
from tritonc.ir.core import Kernel, Module
from tritonc.meta_parameters import BY_NAME
from tritonc.options import Options
from tritonc.tune.tuning_file import Entry
from tritonc.variants.kernels import MOST
from tritonc.variants.variant import Fact, Variant, VariantSet, parse

if TYPE_CHECKING:
    from tritonc.tune.model.alignments import Facts
    from tritonc.tune.model.coarse import Few, Small
    from tritonc.tune.model.loops import Around
    from tritonc.tune.model.portfolio import Member, Portfolio

Lower = Callable[[Mapping[str, int], str], Module]  # one kernel, for values of tunables
Sizes = Callable[[Kernel, Sequence[str]], list[dict[str, Any]]]

# Whoever chooses one of them has one entry.
_BY_HAND = frozenset(("cluster_k", "coarsen", "pingpong"))


class Planning(Bindings):
    """The values of one compilation, and the variants that follow from them."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._bodies: dict[str, tuple[Small | None, Few | None]] = {}  # by kernel

    def variants(self, kernel: Kernel, tunables: Mapping[str, int], lower: Lower, sizes: Sizes
                 ) -> VariantSet:
        """The variants to have of a kernel, beside the one with these `tunables`.

        `sizes` says what of a launch the sizes of a problem are.  Raises CompileError."""
        given = [variant for text in self._options.variant
                 if (variant := parse(text)).concerns(kernel)]
        if given:
            return self._given(given, kernel, tunables, lower)
        if self._options.variants < 1:
            return self._few(kernel)
        entries = self._sizes.get(kernel.name, [])
        if len(entries) > 1:
            return self._tuned(kernel, entries, tunables, sizes)
        return self._modelled(kernel, tunables, lower)

    def small(self, kernel: Kernel) -> "Small | None":
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
        if by_hand and any(op.name == "dot" for op in kernel.ops()):
            return VariantSet()
        found = self._beside(kernel)[1]
        if found is None or by_hand:
            return self._rows(kernel)
        from tritonc.tune.model.portfolio import Member

        variants = [_variant(member, kernel, found) for member in found.members]
        if found.ways:
            # The first and the general entry have bodies for all ways, but persistent blocks for
            # one alone: by 128 x 256, 2304 x 2048 x 3072 73 us, A transposed.
            large = found.large[1] if found.large else found.general
            whole = Member({"coarsen": 0}, large._replace(parts=0, part=0))
            variants[found.free:] = [
                _variant(member, kernel, found, way) for place, way in enumerate(found.ways)
                for member in found.members[0 if place else found.free:] + (whole,) * (place > 0)]
        return VariantSet(variants, found.general,
                          found.large and (*found.large, -1), _listed(found.loops), found.aligned)

    def _rows(self, kernel: Kernel) -> VariantSet:
        """Entries for some sizes; where they are known, one that relies on them."""
        if self._options.sizes:
            facts = self.facts.get(kernel.name)
            return VariantSet([Variant({**self.chosen_of(kernel), **self.chosen_meta[kernel.name]},
                                       facts)] if facts else [])
        return VariantSet(self.stream_entries(kernel))

    def _open(self, kernel: Kernel) -> dict[str, Sequence[int]]:
        """The lists of the kernel's tunables that the cost model chose, for all sizes."""
        if self._options.sizes or kernel.name in self._entries:
            return {}
        return {name: self.lists[name] for name in self.chosen_of(kernel)}

    def _beside(self, kernel: Kernel) -> "tuple[Small | None, Few | None]":
        """What is there beside the entry of the chosen tile, where nobody chose another."""
        space = self._open(kernel)
        if not space and (kernel.tunables or self._options.sizes):
            return None, None
        if kernel.name not in self._bodies:
            from tritonc.tune.model.coarse import bodies

            self._bodies[kernel.name] = bodies(
                space, lambda binding: self._lowered(binding, kernel.name),
                self._target(),
                {name: self.chosen[name] for name in space}, self._options.small_clusters)
        return self._bodies[kernel.name]

    def _given(self, given: list[Variant], kernel: Kernel, tunables: Mapping[str, int],
               lower: Lower) -> VariantSet:
        """Those that the user names, with their costs where the model knows them."""
        from tritonc.tune.model.alignments import aligned
        from tritonc.tune.model.portfolio import priced

        found = priced(given, tunables, lambda binding: lower(binding, kernel.name),
                       self._target())
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
        own = priced(found.variants, tunables, lambda binding: lower(binding, kernel.name), target)
        if own is None:
            return found
        general, *rest = own[1]
        return replace(found, general=general, variants=[
            variant if not {"cluster_k", "pingpong"}.isdisjoint(variant.binding)
            and "cluster" in target.features
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
        found.variants = [_variant(member, kernel, chosen) for member in chosen.members[:MOST]]
        found.general, found.loops = chosen.general, _listed(chosen.loops)
        found.aligned = chosen.aligned
        found.notes.append(
            f"variants of {kernel.name}: by the cost model {chosen.served:.0%} of all sizes are "
            f"within 5 % of the best, the worst at {chosen.worst:.2f}")
        if not any(loop.arguments for loop in chosen.loops):
            found.notes.append(f"variants of {kernel.name}: no parameter gives the iterations of "
                               "its product's loop; only the range chooses")
        return found


def _variant(member: "Member", kernel: Kernel, of: "Few | Portfolio",
             way: "tuple[Facts, Facts] | None" = None) -> Variant:
    """A member of a portfolio, for launches whose operands lie in a `way`, if not in any.  In turn,
    tiles are smaller, and bring more from the second-level cache, which delivers whole sectors:
    5000 x 2000 x 1000 takes 1.13 times as long.  In short loops results take longer than products:
    16 of 2048 x 2048 x 128 1.12 times."""
    from tritonc.tune.model.pingpong import SHORT

    in_turn = "pingpong" in member.binding
    facts = []
    for fact in way[in_turn] if way else [
            {**fact, "multiple_of": 2 * fact["multiple_of"]} for fact in of.aligned
            if in_turn and "multiple_of" in fact and "argument" in fact]:
        value = kernel.parameters[fact["argument"]]
        if "multiple_of" in fact:
            facts.append(Fact(value.name, "%", fact["multiple_of"]))
        else:
            facts.append(Fact(value.name, "==" if "at_most" in fact else ">=", fact["at_least"]))
    facts += [Fact(kernel.parameters[loop.arguments[0]].name, ">=", SHORT) for loop in of.loops
              if in_turn and loop.factor == len(loop.arguments) == 1]
    cost = member.cost._replace(slow=0) if facts else member.cost  # rows are aligned
    return Variant(member.binding, (*facts,), cost)


def _listed(loops: "Sequence[Around]") -> list[dict[str, Any]]:
    """Loops as the manifest has them."""
    return [{"factor": loop.factor, "arguments": [*loop.arguments]} for loop in loops]
