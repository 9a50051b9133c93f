"""The entries of a kernel as they are planned: what its manifest says of them before any but the
general one is compiled, in a tenth of the time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile


def planned_entries(source: SourceFile, options: Options | None = None) -> list[dict[str, Any]]:
    """The general entry, with the rule that chooses, and those beside it."""
    options = replace(options or Options(arch="sm_90a"), small_clusters=True)
    found = driver.compile(source, options, ("manifest",), plan=True)
    assert found.manifest is not None
    (kernel,) = found.manifest["kernels"]
    if not found.planned:
        return [kernel]
    (plan,) = found.planned.values()
    return [{**kernel, "choice": plan["choice"]}, *plan["variants"]]
