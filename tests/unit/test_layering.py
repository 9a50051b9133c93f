"""Imports go downwards only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tritonc

PACKAGE = Path(tritonc.__file__).parent
# A module's layer is that of the longest prefix here.  It may import lower layers, and its own
# layer within the same part (the prefix); "peers" of one layer do not know each other.
LAYERS: list[list[str]] = [
    ["tritonc.text_table", "tritonc.later", "tritonc.records"],
    ["tritonc", "tritonc.source", "tritonc.diagnostics", "tritonc.meta_parameters",
     "tritonc.llvm_version", "tritonc.spelling", "tritonc.variants.choice"],
    ["tritonc.options", "tritonc.lalr"],
    ["tritonc.render", "tritonc.sarif", "tritonc.outputs", "tritonc.ptxas",
     "tritonc.toolkit"],
    ["tritonc.ir", "tritonc.problem"],
    ["tritonc.backend.target"],
    ["tritonc.interp", "tritonc.analysis", "tritonc.frontend"],
    ["tritonc.sema", "tritonc.opt", "tritonc.backend"],
    ["tritonc.pass_manager"],
    ["tritonc.variants", "tritonc.variants.interface"],
    ["tritonc.passes", "tritonc.manifest", "tritonc.tune.tuning_file", "tritonc.variants.kernels"],
    ["tritonc.tune.model"],
    ["tritonc.variants.small"],
    ["tritonc.bindings", "tritonc.stages"],
    ["tritonc.planning"],
    ["tritonc.result"],
    ["tritonc.two_processes"],
    ["tritonc.driver"],
    ["tritonc.launch"],
    ["tritonc.tune", "tritonc.torch", "tritonc.debugger", "tritonc.reduce",
     "tritonc.prove"],
    ["tritonc.cli"],
    ["tritonc.__main__"],
]


def part_of(module: str) -> tuple[int, str]:
    """The layer and the part that a module belongs to."""
    found = [(len(prefix), level, prefix) for level, layer in enumerate(LAYERS) for prefix in layer
             if module == prefix or (module.startswith((prefix + ".", prefix + "_"))
             and prefix != "tritonc")]  # fmt: skip
    assert found, f"{module} is in no layer"
    _, level, prefix = max(found)
    return level, prefix


def imports_of(path: Path) -> list[str]:
    """The modules of tritonc that a file imports, also inside functions and for types."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("tritonc")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tritonc"):
            assert node.module is not None
            for alias in node.names:
                inner = PACKAGE.parent / Path(*node.module.split("."), alias.name)
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                found.append(f"{node.module}.{alias.name}" if is_module else node.module)
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=module_name)
def test_imports_go_downwards(path: Path) -> None:
    level, part = part_of(module_name(path))
    for imported in imports_of(path):
        below, other = part_of(imported)
        assert below < level or other == part, (
            f"{module_name(path)} (layer {level}) imports {imported} (layer {below})")


def test_no_file_needs_itself() -> None:
    """No circle of imports, those inside functions and for types included."""
    below = {module_name(path): {name for name in imports_of(path) if name != module_name(path)}
             for path in PACKAGE.rglob("*.py")}
    while done := {name for name, needs in below.items() if not needs & below.keys()}:
        below = {name: needs for name, needs in below.items() if name not in done}
    assert not below, f"they need each other, or what does: {', '.join(sorted(below))}"


def test_start_up_is_lean() -> None:
    """What `tritonc --version` loads; in a process of its own, where nothing is loaded yet."""
    code = ("import sys, tritonc.cli.main, tritonc.driver, tritonc.render, tritonc.outputs;"
            "print(*sorted({m.split('.')[0] for m in sys.modules}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "click" in loaded and not loaded & {"numpy", "llvmlite", "lark", "cuda", "difflib"}


def test_a_compilation_imports_no_numpy() -> None:
    """It takes a tenth of a second, as much as the passes of a small kernel."""
    source = Path(__file__).parents[2] / "samples" / "matmul.tc"
    code = ("import sys; from pathlib import Path; from tritonc import driver;"
            "from tritonc.options import Options;"
            "from tritonc.source import SourceFile; text = Path(sys.argv[1]).read_text();"
            "driver.compile(SourceFile('m.tc', text), Options(arch='sm_90a'), ('ptx',));"
            "assert 'numpy' not in sys.modules")
    subprocess.run([sys.executable, "-c", code, str(source)], check=True)


def test_each_pass_of_the_backend_knows_its_operations() -> None:
    """Also where it is the first one that is imported."""
    code = ("import tritonc.backend.launch.rasterize; from tritonc.ir.ops import ROWS; "
            "assert 'get_num_multiprocessors' in ROWS")
    subprocess.run([sys.executable, "-c", code], check=True)
