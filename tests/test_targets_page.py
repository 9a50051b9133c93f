"""docs/targets.md says of each target what the compiler does for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tritonc import driver
from tritonc.backend.target.target import TARGETS
from tritonc.options import Options
from tritonc.source import SourceFile

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
KERNEL = """
kernel void of_{type}(const {type}* a, const {type}* b, {result}* c) {{
  int m[128] = 0 ... 128, k[32] = 0 ... 32;
  {type} x[128, 32] = a[m[:, newaxis] * 32 + k];
  {type} y[128, 32] = b[m[:, newaxis] * 32 + k];
  {result} sum[128, 128] = 0;
  c[m[:, newaxis] * 128 + m] = dot(x, trans(y), sum);
}}
"""
RESULTS = {"char": "int", "double": "double"}
MACHINERY = {  # as the page names it; in PTX; where samples/matmul_bf16.tc uses it
    "asynchronous copies": (r"cp\.async\.c[ag]", {"sm_80", "sm_90a", "sm_100a"}),
    "TMA": (r"cp\.async\.bulk\.tensor", {"sm_90a"}),
    "matrix loads": ("ldmatrix", {"sm_80", "sm_100a"}),
    "matrix stores": ("stmatrix", {"sm_90a", "sm_100a"}),
}  # fmt: skip


def table(name: str) -> dict[str, dict[str, str]]:
    """A table of the page: for each target, its cell in each row."""
    text = PAGE.split(f"<!-- table: {name} -->\n")[1].split("<!-- end -->")[0]
    head, _, *rows = [[cell.strip() for cell in line[1:-1].split(" | ")]
                      for line in text.splitlines()]
    return {target.strip("`"): {row[0]: row[number] for row in rows}
            for number, group in enumerate(head) if number for target in group.split()}


def test_every_target_is_there() -> None:
    assert list(TARGETS) == re.findall(r"^\| `(\w+)` \| [^|]+ \| \d", PAGE, re.MULTILINE)
    assert set(table("products")) == set(table("machinery")) == set(TARGETS)


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_86", "sm_89", "sm_90a", "sm_103a"])
def test_products(target: str) -> None:
    cells = table("products")[target]
    source = "".join(KERNEL.format(type=t, result=RESULTS.get(t, "float"))
                     for t in (cell.strip("`") for cell in cells))
    done = driver.compile(SourceFile("x.tc", source),
                          Options(arch=target, stop_after="select_dots"), ("tir",))
    kernels = done.outputs["tir"].split("kernel @of_")[1:]
    assert len(kernels) == len(cells)
    for text in kernels:
        name = re.match(r"\w+", text)
        used = re.search(r"instruction = (\w+\.\w+)", text)
        assert name is not None
        assert cells[f"`{name[0]}`"] == (f"`{used[1]}`" if used else "CUDA cores"), name[0]


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_machinery(target: str) -> None:
    path = ROOT / "samples" / "matmul_bf16.tc"
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    ptx = driver.compile(source, Options(arch=target, tune={"coarsen": 0}), ("ptx",)).outputs["ptx"]
    assert "tcgen05" not in ptx
    for name, (pattern, users) in MACHINERY.items():
        (cell,) = (c for what, c in table("machinery")[target].items() if what.startswith(name))
        assert (re.search(pattern, ptx) is not None) == (target in users), name
        assert cell == "yes" or target not in users, name
