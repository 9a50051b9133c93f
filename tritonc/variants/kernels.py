"""The kernels of variants in a module: they are added behind the others, and some leave it again.

    add       lowers each variant to Triton-IR, as a kernel `NAME__v1`, `NAME__v2`, ...
    plan      only says what there would be: the launch compiles the one that it takes
    leave_out of one that a pass refuses, unless the user asked for it by name
    pack      after the passes: of small programs a block has several, aligned arguments their own
    settle    after the passes: of equal ones the first stays; numbers have no gaps
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tritonc.meta_parameters import BY_NAME
from tritonc.records import dataclass
from tritonc.source import CompileError, Diagnostics, Span, fail
from tritonc.variants.variant import (
    WITHIN,
    Variant,
    assume,
    can_hold,
    entry_name,
    parse,
    required,
    tile_of,
)

if TYPE_CHECKING:
    from tritonc.backend.target.target import Target
    from tritonc.ir.core import Kernel, Module
    from tritonc.variants.variant import VariantSet

MOST = 63  # variants of a kernel: a launch has a bit for each, and for the general entry
Lower = Callable[[Mapping[str, int], str], "Module"]


@dataclass
class Variants:
    """Of one compilation.  `sets`: by kernel.  `added`: the kernel and the place in its set of each
    kernel that is a variant, by its name.  `names`: of the source's kernels."""

    names: set[str] = field(default_factory=set)
    sets: "dict[str, VariantSet]" = field(default_factory=dict)
    added: dict[str, tuple[str, int]] = field(default_factory=dict)

    def variant(self, name: str) -> Variant:
        """The variant that a kernel of the module is."""
        kernel, place = self.added[name]
        return self.sets[kernel].variants[place]

    def groups(self) -> "dict[str, tuple[VariantSet, dict[str, int]]]":
        """For each kernel its set, and which of it the module has, by name."""
        found = {kernel: (known, dict[str, int]()) for kernel, known in self.sets.items()}
        for name, (of, place) in self.added.items():
            found[of][1][name] = place
        return found

    def notes(self) -> list[str]:
        """What -v says."""
        return [note for known in self.sets.values() for note in known.notes]

    def add(self, module: "Module", lower: Lower, other: "Variants | None" = None) -> None:
        """Lower all variants.  Raises CompileError if one that the user asked for cannot be.

        `other`: what another target has, from which the sets are; only that is added."""
        kernels, taken = [*module.kernels], {*self.names}
        names = {of: name for name, of in other.added.items()} if other is not None else None
        for general in kernels:
            if (count := len(self.sets[general.name].variants)) > MOST:
                raise fail("variant", general.span, f"kernel '{general.name}' has {count} "
                           f"variants; it can have {MOST}")
            for place, kernel in self._lowered(general, module, lower, names):
                kernel.name = (names[general.name, place] if names is not None else
                               entry_name(general.name, place + 1, taken))
                taken.add(kernel.name)
                self.added[kernel.name] = general.name, place
                module.kernels.append(kernel)

    def plan(self, module: "Module", lower: Lower) -> dict[str, dict[str, Any]]:
        """What the manifest would say of variants that nobody has compiled, by kernel: those that
        can take its place."""
        found = {}
        for general in module.kernels:
            known = self.sets[general.name]
            kernels = dict(self._lowered(general, module, lower))
            if kernels:
                rows = [{"tile": tile_of(kernel), "tunables": dict(known.variants[place].binding),
                         "requires": required(_promised(general), {
                             **_promised(kernel), "cluster": known.variants[
                                 place].binding.get("cluster_k", 1)})}
                        for place, kernel in kernels.items()]
                found[general.name] = {"variants": rows, "choice": known.rule([*kernels])}
        return found

    def _lowered(self, general: "Kernel", module: "Module", lower: Lower,
                 names: Container[tuple[str, int]] | None = None) -> "Iterator[tuple[int, Kernel]]":
        """The kernels of the variants of `general` that can take its place, with their places in
        its set; of `names` where that is given."""
        known = self.sets[general.name]
        for place, variant in enumerate(known.variants):
            if names is not None and (general.name, place) not in names:
                continue
            try:
                yield place, lowered(variant, general, module, lower)
            except CompileError as error:
                if variant.given:
                    raise
                if names is None:
                    known.notes.append(variant.failed(general.name, error))

    def leave_out(self, kernel: "Kernel", module: "Module", error: CompileError) -> None:
        """Take a variant away that a pass refuses.  Raises `error` if somebody asked for it."""
        if kernel.name not in self.added or self.variant(kernel.name).given:
            raise error
        general, _ = self.added[kernel.name]
        self.sets[general].notes.append(self.variant(kernel.name).failed(general, error))
        module.kernels.remove(kernel)
        del self.added[kernel.name]

    def pack(self, module: "Module", meta: dict[str, dict[str, int]], target: "Target") -> None:
        """Add, after the passes, entries whose blocks have several programs each: before a variant
        of which a launch takes the first that it may, and behind all for the kernel itself, where
        any launch may take them; and those for arguments that are aligned."""
        from tritonc.backend.launch.aligned_entry import aligned_entry
        from tritonc.backend.launch.pack_programs import pack_programs

        for kernel in [*module.kernels]:
            general, place = self.added.get(kernel.name, (kernel.name, -1))
            known = self.sets.get(general)
            if known is None or (known.variants and known.chosen()) or any(
                    variant.given for variant in known.variants):
                continue
            packed = pack_programs(kernel) or (aligned_entry(kernel, target) if place < 0 else None)
            if packed is None or not can_hold(required(_promised(kernel), _promised(packed))):
                continue
            packed.name = entry_name(general, len(known.variants) + 1, meta)
            self.added[packed.name] = general, len(known.variants)
            known.variants.append(known.variants[place] if place >= 0 else Variant({}))
            meta[packed.name] = meta[kernel.name]
            at = module.kernels.index(kernel) if place >= 0 else len(module.kernels)
            module.kernels.insert(at, packed)

    def settle(self, module: "Module", meta: Mapping[str, Mapping[str, int]], renumber: bool
               ) -> dict[str, dict[str, int]]:
        """Let each kernel of the module be another one, and give them their final names.

        Returns `meta`, by the new names.  Without `renumber` all stay as they are: what another
        target has must find its own."""
        if not renumber or not self.added:
            return {name: {**own} for name, own in meta.items()}
        from tritonc.ir.syntax.text import print_kernel

        found: dict[str, dict[str, int]] = {}
        added: dict[str, tuple[str, int]] = {}
        seen: dict[tuple[str, str], int] = {}
        kept = []
        names = [(*(op.name for op in kernel.ops()),) for kernel in module.kernels]
        taken = {*self.names}
        for own_names, kernel in zip(names, module.kernels, strict=True):
            general, place = self.added.get(kernel.name, (kernel.name, -1))
            if place >= 0 and self._has_lost_its_cluster(kernel, place):
                self.sets[general].notes.append(
                    f"an entry of {general} is left out: no loop is split over its cluster")
                continue
            text = names.count(own_names) > 1 and print_kernel(
                replace(kernel, name="", tunables={}))
            if text and (same := seen.setdefault((general, text), place)) != place:
                self.sets[general].merge(place, same)
                continue
            own = {**meta[kernel.name]}
            if place >= 0:
                number = 1 + sum(of == general for of, _ in added.values())
                kernel.name = entry_name(general, number, taken)
                taken.add(kernel.name)
                added[kernel.name] = general, place
            found[kernel.name] = own
            kept.append(kernel)
        module.kernels[:] = kept
        self.added = {**{name: of for name, of in self.added.items() if of[0] not in found},
                      **added}
        return found

    def _has_lost_its_cluster(self, kernel: "Kernel", place: int) -> bool:
        """Whether an entry that the model chose for its clusters, and priced so, has none."""
        general, _ = self.added[kernel.name]
        variant = self.sets[general].variants[place]
        return not variant.given and variant.binding.get("cluster_k", 1) > 1 and (
            "cluster" not in kernel.attributes)


def lowered(variant: Variant, general: "Kernel", module: "Module", lower: Lower) -> "Kernel":
    """The kernel of a variant.  Raises CompileError if it cannot take the place of `general`."""
    from tritonc.variants.interface import difference

    found = lower(variant.binding, general.name)
    (kernel,) = found.kernels
    reason = difference(general, kernel)
    if [*map(_content, found.constants)] != [*map(_content, module.constants)]:
        reason = "constant tables depend on its tunables"
    if reason is not None:
        raise fail("variant", general.span, f"a variant of '{general.name}' cannot take its place: "
                   f"{reason}")
    assume(kernel, variant.facts)
    if variant.few:
        kernel.attributes["few"] = variant.few
    if variant.within:
        axis, most = variant.within
        kernel.attributes[WITHIN[axis]] = most
    return kernel


def _promised(kernel: "Kernel") -> dict[str, Any]:
    """What `required` reads of a kernel's row in the manifest."""
    names = {"multiple_of": "multiple_of", "least": "at_least", "greatest": "at_most"}
    found = {"tile": tile_of(kernel), "parameters": [{
        key: value for name, key in names.items()
        if (value := getattr(info, name)) is not None} for info in kernel.info]}
    return found | {name: number for name, number in kernel.attributes.items()
                    if name in ("few", "programs", *WITHIN)}


def _content(table: Any) -> tuple[Any, ...]:
    return table.name, table.element, table.count, table.data


def check_given(texts: Sequence[str], module: "Module", tunables: set[str]) -> None:
    """Refuse a variant that is no kernel's, or binds what nobody knows.  Raises CompileError."""
    for text in texts:
        variant = parse(text)
        for name in variant.binding:
            if name not in tunables and name not in BY_NAME:
                raise fail("variant", None, f"variant '{text}': there is no tunable '{name}'; "
                           f"there are {', '.join([*sorted(tunables), *BY_NAME])}")
        if not any(variant.concerns(kernel) for kernel in module.kernels):
            raise fail("variant", None, f"variant '{text}': there is no kernel of that name, or "
                       "none that has the parameters of its facts")


def sizes_of(problem_lines: Sequence[tuple[str, Span]]
             ) -> "Callable[[Kernel, Sequence[str]], list[dict[str, Any]]]":
    """What says a problem's sizes in a launch of a kernel: an integer parameter of that name, one
    whose `arg:` line is the name, or an axis of the range that is; those of the names that have
    something."""

    def sizes(kernel: "Kernel", names: Sequence[str]) -> list[dict[str, Any]]:
        from tritonc.problem.lines import parse

        problem = next((p for p in parse(problem_lines, Diagnostics())
                        if p.kernel in (None, kernel.name)), None)
        integers = {value.name: i for i, value in enumerate(kernel.parameters)
                    if getattr(value.type, "is_int", False) and getattr(value.type, "bits", 1) > 1}
        stated = {a.expression.text.strip(): integers[a.name]
                  for a in reversed(problem.arguments if problem else [])
                  if a.name in integers}
        ranges = {e.text.strip(): axis for axis, e in
                  reversed([*enumerate(problem.range if problem else [])])}
        found: list[dict[str, Any]] = []
        for name in names:
            if (argument := stated.get(name, integers.get(name))) is not None:
                found.append({"name": name, "argument": argument})
            elif name in ranges:
                found.append({"name": name, "range": ranges[name]})
        return found

    return sizes
