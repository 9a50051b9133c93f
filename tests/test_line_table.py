"""-lineinfo: PTX and machine code know the lines of the source, as profilers read them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from command import tritonc

from tritonc import ptxas
from tritonc.source import CompileError

SOURCE = Path(__file__).parent.parent / "samples" / "matmul.tc"


def line_of(text: str) -> int:
    """The number of the line of the source that has this text."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


@pytest.fixture
def compiled(tmp_path: Path) -> str:
    path = tmp_path / "matmul.ptx"
    assert tritonc(str(SOURCE), "--arch=sm_80", "-lineinfo", "-o", str(path)).code == 0
    return path.read_text(encoding="utf-8")


def test_instructions_stand_under_their_lines(compiled: str) -> None:
    lines: dict[str, set[int]] = defaultdict(set)
    line = 0
    for text in compiled.splitlines():
        if found := re.match(r"\s*\.loc\s+1 (\d+)", text):
            line = int(found[1])
        elif found := re.search(r"\b(fma\.rn\.f32|ld\.global|st\.global|cp\.async\.c[ag])\b", text):
            lines[found[1]].add(line)
    a, b, dot, store = map(line_of, ("? *pa", "? *pb", "dot(A, B)", "*pc = C"))
    assert lines["fma.rn.f32"] == {dot} and lines["st.global"] == {store}
    loads = {line for name in lines if name.startswith(("ld.global", "cp.async")) for line in
             lines[name]}
    assert loads == {a, b}


def test_the_machine_code_has_a_table_of_them(compiled: str, tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    try:
        code = ptxas.assemble(compiled, "sm_80", line_info=True)
    except CompileError as error:
        pytest.skip(str(error))
    (tmp_path / "matmul.cubin").write_bytes(code)
    said = subprocess.run(["readelf", "--debug-dump=decodedline", str(tmp_path / "matmul.cubin")],
                          capture_output=True, text=True, check=True).stdout
    table = {int(number) for number in re.findall(r"^matmul\.tc\s+(\d+)\s", said, re.MULTILINE)}
    assert str(SOURCE) in said
    assert {line_of(text) for text in ("? *pa", "? *pb", "dot(A, B)", "*pc = C")} <= table
    first, last = line_of("kernel void"), line_of("@check_c") + 1
    assert table <= set(range(first, last + 1))


def test_what_a_debugger_reads(tmp_path: Path) -> None:
    """-g: DWARF in the PTX, which makes the assembler keep to the lines."""
    path = tmp_path / "add.ptx"
    source = SOURCE.with_name("vector_add.tc")
    assert tritonc(str(source), "--arch=sm_80", "-g", "-o", str(path)).code == 0
    text = path.read_text(encoding="utf-8")
    assert ".target sm_80, debug" in text and ".debug_info" in text
    first, *others = re.findall(r"\.loc\s+1 (\d+)", text)
    kernel = source.read_text(encoding="utf-8").split("kernel void")[0].count("\n") + 1
    assert int(first) == kernel < min(map(int, others))
    plain = [tritonc(str(source), "--arch=sm_80", "-g", level, "-o", "-").out
             for level in ("-O0", "-O2")]
    assert text == plain[0] != plain[1]  # whose two bodies share lines; gdb would stop at one
    try:
        code = ptxas.assemble(text, "sm_80")
    except CompileError as error:
        pytest.skip(str(error))
    assert b".debug_line" in code and b".debug_info" in code
