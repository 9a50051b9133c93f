"""Kinds of output that are made of others: machine code of PTX, a header of the manifest, a source
for torch of both."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tritonc import ptxas
from tritonc.records import dataclass
from tritonc.result import Result
from tritonc.source import fail
from tritonc.variants.choice import is_in_memory, restricted

if TYPE_CHECKING:
    from tritonc.problem.lines import Problem

# What each kind is made of.
MADE_OF: dict[str, tuple[str, ...]] = {
    "cubin": ("ptx",), "fatbin": ("ptx", "cubin"), "header": ("manifest",),
    "torch": ("manifest", "ptx")}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How a module becomes part of a host program."""

    name: str  # of the module, for a header
    embed: str | None = None  # the kind that a header holds
    prefix: str = ""  # of what a header defines
    ptxas: str | None = None  # where it is
    line_info: bool = False
    problems: "Sequence[Problem]" = ()  # that the source states, for operators of torch


def kinds_to_compile(kinds: Sequence[str], embed: str | None) -> list[str]:
    """What the driver has to give for these kinds of output.

    >>> kinds_to_compile(["header", "tir"], embed="cubin")
    ['tir', 'manifest', 'ptx']
    """
    wanted, pending = [], [*kinds, *([embed] if embed else [])]
    while pending:
        kind = pending.pop(0)
        pending += [part for part in MADE_OF.get(kind, ()) if part not in pending]
        if kind not in MADE_OF and kind not in wanted:
            wanted.append(kind)
    return wanted


def programs_for(kinds: Sequence[str], embed: str | None, path: str | None) -> list[str]:
    """The paths of the tools that make these kinds of output; `path` is what --ptxas says.

    Raises CompileError where one is not installed."""
    needed = {*kinds, embed}
    tools = ["ptxas"] if needed & {"cubin", "fatbin"} else []
    return [ptxas.find(path, tool) for tool in (*tools, *["fatbinary"] * ("fatbin" in needed))]


def make(kinds: Sequence[str], result: Result, settings: Settings, others: Sequence[Result] = ()
         ) -> dict[str, str | bytes]:
    """The text or bytes of each kind.  Raises CompileError where a tool is missing or fails.

    `others` are for other targets, whose code a fatbin holds too.  A header tells them apart where
    they are launched differently; without one all must be launched alike."""
    made: dict[str, str | bytes] = dict(result.outputs)
    manifest = result.manifest
    for other in others:
        assert manifest is not None and other.manifest is not None
        manifest = _alike(manifest, other.manifest, bool({"header", "torch"} & {*kinds}))

    def assembled(one: Result) -> bytes:
        assert one.manifest is not None
        return ptxas.assemble(one.outputs["ptx"], one.manifest["target"], ptxas=settings.ptxas,
                              line_info=settings.line_info)

    def of(kind: str) -> str | bytes:
        if kind not in made:
            assert manifest is not None, f"'{kind}' was not compiled for"
            if kind == "cubin":
                made[kind] = assembled(result)
            elif kind == "fatbin":
                cubin = of("cubin")
                assert isinstance(cubin, bytes)
                modules = {manifest["target"]: (result.outputs["ptx"], cubin)}
                for other in others:
                    assert other.manifest is not None
                    modules[other.manifest["target"]] = other.outputs["ptx"], assembled(other)
                made[kind] = ptxas.fatbin(modules, ptxas=settings.ptxas)
            elif kind == "torch":
                from tritonc.launch.hosts.torch_source import torch_source

                made[kind] = torch_source(manifest, settings.name, settings.problems,
                                          image=of(settings.embed or "ptx"),
                                          prefix=settings.prefix)
            else:
                # it loads the backend, -E does without
                from tritonc.launch.hosts.header import header

                image = of(settings.embed) if settings.embed else None
                made[kind] = header(manifest, settings.name, image=image, prefix=settings.prefix)
        return made[kind]

    return {kind: of(kind) for kind in kinds}


def _alike(first: Mapping[str, Any], other: Mapping[str, Any], has_header: bool) -> dict[str, Any]:
    """A manifest for both targets: `targets` names them, and in an entry it has what its launch is
    for another target than the first; None where that has no such variant.

    The driver tells code of different architectures apart; sm_90 and sm_90a are one to it, and are
    launched alike, with the larger of their shared memories.  Raises CompileError if they are not,
    or if the kernel's tile differs, or what its arguments have to be."""
    kernels = []
    target, before = other["target"], first.get("targets", [first["target"]])
    alone = has_header and ptxas.version(target) not in map(ptxas.version, before)
    for one, two in zip(first["kernels"], other["kernels"], strict=True):
        if (key := _difference(one, two, alone)) is not None:
            raise fail("different-launches", None, f"kernel '{one['name']}' is launched "
                       f"differently for the targets: {key} is {one.get(key, 1)} for "
                       f"{first['target']}, {two.get(key, 1)} for {target}")
        found = _joined(one, two, target, alone)
        if "variants" in one:
            ours = {variant["entry"]: variant for variant in one["variants"]}
            theirs = {v["entry"]: v for v in two.get("variants", ()) if v["entry"] in ours
                      and _difference(ours[v["entry"]], v, alone) is None}
            kept = [number for number, variant in enumerate(one["variants"], 1)
                    if variant["entry"] in theirs or (alone and not is_in_memory(variant))]
            found["variants"] = [_joined(v, theirs.get(v["entry"]), target, alone) for v in (
                one["variants"][number - 1] for number in kept)]
            found["choice"] = restricted(one["choice"], kept)
            own = _own_choice(one, two, kept) if alone else None
            if own or "choices" in one:
                others = one.get("choices", [None] * (len(before) - 1))
                found["choices"] = [*(each and restricted(each, kept) for each in others), own]
            if not kept:
                del found["variants"], found["choice"]
                found.pop("choices", None)
        kernels.append(found)
    return {**first, "targets": [*before, target], "kernels": kernels}


def _own_choice(one: Mapping[str, Any], two: Mapping[str, Any], kept: Sequence[int]
                ) -> dict[str, Any] | None:
    """The choice among variants `kept` by what they cost on the target of `two`; None where that is
    the choice of `one`.  What that target lacks no launch there takes, whatever it costs."""
    first, own = one["choice"], two.get("choice", {})
    if any(choice.get("rule") != "cost" or "large" in choice for choice in (first, own)):
        return None
    costs = dict(zip((row["entry"] for row in (two, *two["variants"])), own["costs"], strict=True))
    entries = [row["entry"] for row in (one, *one["variants"])]
    found = restricted({**first, "costs": [costs.get(entry, cost) for entry, cost in zip(
        entries, first["costs"], strict=True)]}, kept)
    return None if found == restricted(first, kept) else found


_SHARED = ("shared_bytes", "dynamic_shared_bytes")
_LAUNCH = ("threads", "cluster", "dynamic_shared_bytes")  # what may differ between targets


def _difference(one: Mapping[str, Any], two: Mapping[str, Any], alone: bool) -> str | None:
    """What of two launches is not alike, and must be."""
    free = {*_SHARED, "variants", "choice", "choices", "targets", *_LAUNCH[: 2 * alone]}
    return next((key for key in {**one, **two} if key not in free
                 and one.get(key) != two.get(key)), None)


def _joined(one: Mapping[str, Any], two: Mapping[str, Any] | None, target: str, alone: bool
            ) -> dict[str, Any]:
    """An entry of several targets, and of one more."""
    if two is not None and (not alone or all(one.get(k) == two.get(k) for k in _LAUNCH)):
        return {**one, **{key: max(one[key], two[key]) for key in _SHARED}}
    own = None if two is None else {key: two[key] for key in _LAUNCH if key in two}
    return {**one, "targets": {**one.get("targets", {}), target: own}}
