"""Kinds of output that are made of others: machine code of PTX, a header of the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonc import ptxas
from tritonc.driver import Result
from tritonc.launch.header import header

# What each kind is made of.
MADE_OF: dict[str, tuple[str, ...]] = {
    "cubin": ("ptx",), "fatbin": ("ptx", "cubin"), "header": ("manifest",),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How a module becomes part of a host program."""

    name: str  # of the module, for a header
    embed: str | None = None  # the kind that a header holds
    prefix: str = ""  # of what a header defines
    ptxas: str | None = None  # where it is
    line_info: bool = False


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


def make(kinds: Sequence[str], result: Result, settings: Settings) -> dict[str, str | bytes]:
    """The text or bytes of each kind.  Raises CompileError where a tool is missing or fails."""
    made: dict[str, str | bytes] = dict(result.outputs)
    manifest = result.manifest

    def of(kind: str) -> str | bytes:
        if kind not in made:
            assert manifest is not None, f"'{kind}' was not compiled for"
            if kind == "cubin":
                made[kind] = ptxas.assemble(result.outputs["ptx"], manifest["target"],
                                            ptxas=settings.ptxas, line_info=settings.line_info)
            elif kind == "fatbin":
                cubin = of("cubin")
                assert isinstance(cubin, bytes)
                made[kind] = ptxas.fatbin(result.outputs["ptx"], cubin, manifest["target"],
                                          ptxas=settings.ptxas)
            else:
                image = of(settings.embed) if settings.embed else None
                made[kind] = header(manifest, settings.name, image=image, prefix=settings.prefix)
        return made[kind]

    return {kind: of(kind) for kind in kinds}
