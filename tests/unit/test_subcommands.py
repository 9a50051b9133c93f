"""`tritonc test`, `tritonc info`, and what shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import tritonc

from tritonc import ptxas
from tritonc.cli.completion import complete, completions

RIGHT = """
//! range: 4
//! arg: x = zeros(4)
//! expect: x = ones(4)
kernel void f(align(16) float* x) { int r[4] = get_global_range(0); *(x + r) = 1; }
"""
WRONG = RIGHT.replace("ones(4)", "zeros(4)")
PTXAS = """\
echo "ptxas info    : Compiling entry function 'f' for 'sm_80'" >&2
echo "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads" >&2
echo "ptxas info    : Used 40 registers, 352 bytes cmem[0]" >&2
touch out
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("right.tc").write_text(RIGHT)
    Path("wrong.tc").write_text(WRONG)
    Path("broken.tc").write_text(RIGHT.replace("= 1;", "= ;"))
    Path("mute.tc").write_text("kernel void f(float* x) { *x = 1; }")
    program = Path("ptxas")
    program.write_text("#!/bin/sh\n" + PTXAS)
    program.chmod(0o755)


def test_many_files() -> None:
    done = tritonc("test", "right.tc", "right.tc")  # a file that is named twice counts once
    assert done.code == 0 and done.out == "f: ok (interpreter)\n1 of 1 problem right\n"
    done = tritonc("test", "broken.tc", "wrong.tc", "mute.tc", "none.tc", "right.tc")
    assert done.code == 1
    assert done.out.splitlines()[-2:] == ["f: ok (interpreter)",
                                          "1 of 2 problems right, 3 files in error"]
    assert "broken.tc:5:" in done.err and "'mute.tc' states no problem" in done.err
    assert "cannot read 'none.tc'" in done.err
    assert tritonc("test").code == 2


@pytest.mark.parametrize("type", ["float", "char", "bool", "float8_e5m2"])
def test_what_a_kernel_forgets_to_write(type: str) -> None:
    """Arrays of `empty` hold something before."""
    text = ("//! range: 64\n//! arg: y = empty(64)\n//! expect: y = zeros(64)\n"
            f"kernel void f({type}* y) {{ int r[64] = get_global_range(0);"
            " @(r < 63) *(y + r) = 0; }")
    done = tritonc("run", "-", stdin=text.encode())
    assert done.code == 1 and "1 of 64" in done.out
    assert tritonc("run", "-", stdin=text.replace("63", "64").encode()).code == 0


def test_info_of_a_source_and_of_its_ptx() -> None:
    said = tritonc("info", "right.tc", "--arch=sm_80", "--ptxas=./ptxas")
    assert said.code == 0
    assert said.out == """\
sm_80, PTX 7.5, tritonc 0.1.0

kernel f(float *x)
  one block of 32 threads for 4 of the global range
  0 bytes of shared memory
  x: read write
  assumes: x is aligned to 16 bytes
  40 registers a thread, spills 8 bytes, 16 bytes of stack
  32 blocks on a multiprocessor: 1024 of 2048 threads
"""
    assert tritonc("right.tc", "-o", "f.ptx").code == 0
    assert tritonc("info", "f.ptx", "--ptxas=./ptxas").out == said.out


def test_info_without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "_folders", lambda: iter(()))
    done = tritonc("info", "right.tc")
    assert done.code == 0 and "registers" not in done.out
    done = tritonc("info", "right.tc", "--ptxas=none")
    assert done.code == 1 and "there is no program 'none'" in done.err
    assert "ptxas: not installed" in tritonc("info").out


def test_info_of_the_machine() -> None:
    done = tritonc("info")
    assert done.code == 0 and done.out.startswith("tritonc 0.1.0, LLVM ")
    assert "\ntargets: sm_60, " in done.out and "GPU" in done.out


def test_info_of_another_file() -> None:
    Path("other.ptx").write_text(".version 7.0\n")
    done = tritonc("info", "other.ptx")
    assert done.code == 1
    assert "cannot read 'other.ptx': its first line is not a manifest" in done.err


def words(line: str) -> list[str]:
    *before, word = line.split(" ")
    return [item.value if item.type == "plain" else f"<{item.type}>"
            for item in completions(before, word)]


@pytest.mark.parametrize("line, wanted", [
    ("", ["<file>", "run", "test", "debug", "tune", "bench", "info", "prove", "reduce",
         "bug"]),
    ("t", ["<file>", "test", "tune"]),
    ("run ", ["<file>"]), ("--cmake", ["--cmake-dir"]), ("run --cmake", []),
    ("tune --bud", ["--budget"]), ("--arch sm_8", ["sm_80", "sm_86", "sm_87", "sm_89"]),
    ("--arch=nat", ["--arch=native"]), ("--arch = nat", ["native"]), ("--emit=pt", ["--emit=ptx"]),
    ("--print-after spec", ["specialize", "specialize_stores", "specialize_warps"]),
    ("--explain no-dev", ["no-device"]),
    ("-x ", ["tc", "tir"]), ("-o ", ["<file>"]), ("-fno-fast", ["-fno-fast-math"]),
    ("run --device ", ["interpreter", "cuda"]), ("--tune=num_w", ["--tune=num_warps="]),
    ("-W al", ["all"]), ("-W no-stale", ["no-stale-tuning"]), ("-W no-syntax", []),
])  # fmt: skip
def test_completions(line: str, wanted: list[str]) -> None:
    assert words(line) == wanted


def test_unknown_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert complete("csh_source") == 2 and "is bash_source, zsh_source" in capsys.readouterr().err


def test_bash_completes(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    program = tmp_path / "tritonc"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tritonc.cli.main "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(_TRITONC_COMPLETE=bash_source tritonc)"
COMP_WORDS=(tritonc run --see) COMP_CWORD=2
_tritonc_completion tritonc && echo "${COMPREPLY[@]}"
"""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env={
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": root})
    assert done.stdout.strip() == "--seed", done.stderr
