"""The candidates of a search: tunables x meta-parameters, the most promising first.

The source says which values its tunables have, `meta_parameters` which choices the passes leave
open; a meta-parameter that a candidate does not bind is left to its pass, as all are in some.  A
combination is left out where no compilation is needed to see that it cannot run: its accumulators
do not fit the registers of its threads, it has more threads than elements, an operand of a product
does not fit shared memory, or an iteration does not fit the cache of instructions.  The rest is
ordered by the cost model; a deviation from a pass's own choice counts as a few percent, so that a
search that is cut off has tried the best tiles with all of them left alone, and the very best with
others."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import prod

from tritonc import sema, stages
from tritonc.backend.dots.slice_k import SUMS
from tritonc.backend.layout.dot_layouts import DEFAULT, nestings
from tritonc.backend.target.matrix import INSTRUCTIONS, WGMMA
from tritonc.backend.target.target import Target, find
from tritonc.frontend.parser import parse
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Module
from tritonc.ir.types import element
from tritonc.meta_parameters import BY_NAME, META_PARAMETERS
from tritonc.options import Options
from tritonc.problem.known import KnownLaunch
from tritonc.records import dataclass
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.model.choose import Lower, Ranked, choose, lowered, ranked
from tritonc.tune.model.feature import Profile
from tritonc.tune.model.portfolio import times_at
from tritonc.tune.model.wider import for_all_sizes, wider
from tritonc.tune.search.journal import Name, name_of
from tritonc.tune.search.where import Where
from tritonc.tune.workers.jobs import Binding

_PORTIONS = (1, 15, 64, 256)  # candidates; the last length goes on
_ITERATION = 2048  # multiply-adds of a thread: 32 KiB of instructions
_ASSERTED = 500  # tiles of which a search asks, 3 ms each, whether a static_assert forbids them
DEVIATION = 0.05  # of the cost, for each meta-parameter that is not left to its pass


@dataclass(frozen=True)
class Space:
    """`parameters`: the values of each name, None where a pass chooses; `tunables` are those
    that the source declares.  `candidates`: the default first, which is what compiling without
    a tuning file takes.  `profiles`: what the model read of a combination of tunables."""

    parameters: Mapping[str, tuple[int | None, ...]]
    tunables: frozenset[str]
    candidates: Sequence[Binding]
    profiles: Mapping[Name, Profile]

    def tile(self, candidate: Binding) -> Name:
        """The tunables of a candidate."""
        return name_of({name: candidate[name] for name in self.tunables})

    def portions(self) -> list[list[Binding]]:
        """All candidates, in lists of equal tunables, which are compiled together; the more
        promising come first, in short lists, and the first of each tile alone: it is measured
        while others are compared."""
        alike: dict[Name, list[Binding]] = {}
        for candidate in self.candidates:
            alike.setdefault(self.tile(candidate), []).append(candidate)
        place = {id(candidate): i for i, candidate in enumerate(self.candidates)}
        found = []
        for group in alike.values():
            start, lengths = 0, chain(_PORTIONS, repeat(_PORTIONS[-1]))
            while start < len(group):
                length = next(lengths)
                found.append(group[start:start + length])
                start += length
        return sorted(found, key=lambda portion: place[id(portion[0])])


def search_space(source: SourceFile, options: Options, kernel: str, nesting: bool = False,
                 launches: Sequence[KnownLaunch] = (), where: str | None = None) -> Space:
    """The space of one kernel of a source.  What `options.tune` binds is fixed.  At each of
    the `launches` some tiles are the most promising; all those come first.  Only candidates
    for which the expression `where` holds are in it.

    With `nesting` it is that of the paper (section 5.3): the tunables, and the micro- and
    nano-tiles of products on CUDA cores; all else is left to the passes.

    Raises CompileError if the source or the expression is wrong, or nothing is left."""
    diagnostics = Diagnostics()
    tokens = stages.preprocess(source, options, diagnostics).tokens
    program = parse(tokens, diagnostics)
    diagnostics.raise_if_errors()
    part = next((p.program for p in sema.parts(program) if kernel in p.kernels), program)
    declared = sema.tunables(part, diagnostics)
    names = {t.name for t in declared}
    decided = names.union(*(t.together for t in declared))
    given = {name: value for name, value in options.tune.items() if name in names}
    tunables = {t.name: t.values for t in declared if t.name not in given and t.values}
    target = find(options.arch, options.ptx)

    def lower(binding: Mapping[str, int]) -> Module:
        module, _ = sema.analyze_shapes(part, {**given, **binding}, options)
        return Module([k for k in module.kernels if k.name == kernel], module.constants)

    listed = tunables
    tunables = {**tunables, **wider(tunables, lower, target, measured=True)}
    default = choose(for_all_sizes(tunables, listed), lower, target)
    sema.analyze(program, {**given, **default}, diagnostics, options)  # says what is wrong
    found = facts(lower(default), target)
    meta: dict[str, tuple[int | None, ...]] = {
        row.name: row.values if set(row.legal) <= set(row.values) else (None, *row.values)
        for row in META_PARAMETERS
        if row.values and row.needs <= found and row.nesting == nesting
        and row.name not in options.tune and row.name not in decided}
    choices = _nestings(meta, options.tune) if nesting else _meta_choices(meta, options.tune)
    ranking = _at(launches, ranked(tunables, lower, target), tunables, lower, target)
    if any(token.text == "static_assert" for token in tokens):
        ranking = [row for at, row in enumerate(ranking) if at >= _ASSERTED
                   or lowered(lower, row.binding) is not None]
    candidates = [default, *(binding for binding in _ordered(
        ranking, choices, target, options.tune) if binding != default)]
    if where is not None:
        candidates = _satisfying(where, candidates, options.tune, {*tunables, *meta}, declared)
    return Space({**tunables, **meta}, frozenset(tunables), candidates,
                 {name_of(row.binding): row.profile for row in ranking if row.profile})


def _satisfying(text: str, candidates: Sequence[Binding], fixed: Mapping[str, int],
                parameters: Iterable[str], declared: Sequence[sema.TunableInfo]) -> list[Binding]:
    """The candidates for which the expression holds, which may name tunables chosen together."""
    names = (name for t in declared for name in (t.name, *t.together))
    where = Where(text, {*parameters, *fixed, *names})

    def values(candidate: Binding) -> dict[str, int]:
        found = {**fixed, **candidate}
        for t in declared:
            if t.rows and (row := found.get(t.name)) is not None and row < len(t.rows):
                found |= zip(t.together, t.rows[row], strict=True)
        return found

    left = [candidate for candidate in candidates if where(values(candidate))]
    if not left:
        raise where.none()
    return left


def _at(launches: Sequence[KnownLaunch], ranking: Sequence[Ranked],
        tunables: Mapping[str, Sequence[int]], lower: Lower, target: Target) -> list[Ranked]:
    """A ranking by how near each comes to the best at that launch where it comes nearest."""
    rows = [row for row in ranking if row.runs]
    nearest = [float("inf")] * len(rows)
    for launch in launches:
        times = times_at(tunables, lower, target, rows, launch.extents, launch.arguments) if (
            launch.extents) else None
        if times is None:
            return list(ranking)
        nearest = [min(old, time / max(1, min(times))) for old, time in zip(nearest, times)]
    if not launches:
        return list(ranking)
    order = sorted(range(len(rows)), key=lambda i: nearest[i])
    left = [row for row in ranking if not row.runs]
    return [*(rows[i]._replace(cost=nearest[i]) for i in order), *left]


def facts(module: Module, target: Target) -> frozenset[str]:
    """What kernels have of that which meta-parameters may need."""
    found = set()
    for kernel in module.kernels:
        in_loops = Cfg(kernel).innermost
        axes = {op.attributes.get("axis") for op in kernel.ops()
                if op.name in ("get_global_range", "get_program_id")}
        if {0, 1} <= axes:
            found.add("two axes")
        names = [op.name for op in kernel.ops()]
        if "cluster" in target.features:
            found.add("clusters")
        if ("reduce" in names or "reduce_with" in names) and "dot" not in names:
            found.add("dot on CUDA cores, or reductions alone")
        for block in kernel.blocks:
            for op in (op for op in block.ops if op.name == "dot"):
                kinds = {row.kind for row in INSTRUCTIONS if row.feature in target.features
                         and row.operand == element(op.operands[0].type)
                         and row.accumulator == element(op.result.type)}
                found.add("dot")
                found.add("dot on tensor cores" if kinds else "dot on CUDA cores")
                if not kinds:
                    found.add("dot on CUDA cores, or reductions alone")
                if block in in_loops:
                    found.add("dot in a loop")
                if WGMMA in kinds:
                    found.add("wgmma")
    return frozenset(found)


def _ordered(ranking: Sequence[Ranked], choices: Sequence[Mapping[str, int]], target: Target,
             fixed: Mapping[str, int]) -> Iterator[Binding]:
    """All candidates by the model's order; the order of the lists decides ties."""
    found: list[tuple[float, Binding]] = []
    for price, binding, profile in ranking:
        for bound in choices:
            if not profile or can_run(profile, {**fixed, **bound}, target):
                found.append((price * (1 + DEVIATION * len(bound)), {**binding, **bound}))
    found.sort(key=lambda pair: pair[0])
    return (binding for _, binding in found)


def _meta_choices(meta: Mapping[str, tuple[int | None, ...]], fixed: Mapping[str, int]
                  ) -> list[dict[str, int]]:
    """What may be bound of the meta-parameters, nothing first, but for what changes nothing."""
    found: list[dict[str, int]] = [{}]
    for name, values in meta.items():
        found = [{**bound, name: value} if value is not None else bound for bound in found
                 for value in (values if not _ignored(name, {**fixed, **bound}, meta) else (None,))]
    return [{}, *(bound for bound in found if bound)]


def _nestings(meta: Mapping[str, object], fixed: Mapping[str, int]) -> list[dict[str, int]]:
    """The micro- and nano-tiles that nest in a warp, the default's (no binding) first."""
    found: list[dict[str, int]] = [{}]
    for nesting in nestings():
        (rows, columns), (high, wide) = nesting
        bound = {"micro_rows": rows, "micro_columns": columns, "nano_rows": high,
                 "nano_columns": wide}
        if nesting != DEFAULT and all(fixed.get(name, n) == n for name, n in bound.items()):
            found.append({name: n for name, n in bound.items() if name in meta})
    return found if meta else [{}]


def _ignored(name: str, bound: Mapping[str, int], open_to_choice: Iterable[str]) -> bool:
    return any(bound[other] == value if other in bound else
               value is None and other in open_to_choice for other, value in BY_NAME[name].unless)


def can_run(profile: Profile, bound: Mapping[str, int], target: Target) -> bool:
    """Whether a candidate may run, and not plainly badly, as far as the extents of its tiles say.

    `bound` has the meta-parameters that are bound."""
    num_warps = bound.get("num_warps")
    slices = bound.get("slices", 1)
    if slices > (num_warps or slices) or any(
            extent < 1 for feature in profile for extent in feature.extents):
        return False
    largest = max((prod(f.extents) for f in profile if f.kind != "dot"), default=0)
    for feature in profile:
        if feature.kind != "dot":
            continue
        *batch, m, n, k = feature.extents
        results = prod(batch) * m * n
        largest = max(largest, results)
        threads = 32 * num_warps if num_warps is not None else target.threads_per_block
        if results * slices > threads * target.registers_per_thread:
            return False
        if slices > 1 and 4 * results * slices > SUMS:
            return False  # they are not made
        if m < bound.get("micro_rows", 1) or n < bound.get("micro_columns", 1):
            return False  # threads would compute the same twice
        on_cores = not any(row.feature in target.features and str(row.operand) == feature.element
                           for row in INSTRUCTIONS)
        if num_warps and on_cores and results * k > _ITERATION * threads:
            return False
        if prod(batch) * k * max(m, n) * feature.bytes > target.shared_per_block:
            return False
    return num_warps in (None, 1) or not largest or 32 * (num_warps or 1) <= largest

