"""`tritonc.compile` and its like: what they take, and what they raise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tritonc
from tritonc.launch import cuda_driver
from tritonc.source import fail

SOURCE = """
#ifndef VALUE
#define VALUE 1
#endif
const tunable int T = {32, 64};
kernel void f(float* x) { int r[T] = get_global_range(0); *(x + r) = VALUE; }
"""
TWO = "kernel void f(float* x) { *x = 1; }\nkernel void g(float* x) { *x = 2; }"


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise fail("no-device", None, "there is no GPU here")

    monkeypatch.setattr(cuda_driver, "open_driver", missing)
    monkeypatch.chdir(tmp_path)


def test_sources(tmp_path: Path) -> None:
    """A path as str or Path, a text; the bytes are those of the command line."""
    (tmp_path / "f.tc").write_text(SOURCE)
    from command import tritonc as command

    assert command("f.tc", "-o", "f.ptx", "--header=f.h").code == 0
    written = (tmp_path / "f.ptx").read_text()
    for source in ("f.tc", tmp_path / "f.tc", SOURCE):
        assert tritonc.compile(source).ptx == written
    assert tritonc.load("f.ptx").ptx == written
    with pytest.raises(OSError, match=r"no\.tc"):
        tritonc.compile("no.tc")


def test_settings() -> None:
    kernel = tritonc.compile(SOURCE, "sm_90a", defines={"VALUE": 3}, tunables={"T": 64})
    assert kernel.tile == (64,) and kernel.tunables == {"T": 64}
    assert kernel.module.manifest["target"] == "sm_90a" and "0f40400000" in kernel.ptx.lower()
    assert tritonc.compile(SOURCE, defines=["VALUE=3"], tunables={"T": 32}).tile == (32,)
    assert tritonc.compile(SOURCE, line_info=True).ptx != tritonc.compile(SOURCE).ptx


def test_a_tuning_file_is_read_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "f.tc").write_text(SOURCE)
    (tmp_path / "f.tune.json").write_text("{")
    for tuning in (None, "f.tune.json"):
        with pytest.raises(tritonc.CompileError, match="tuning"):
            tritonc.compile("f.tc", tuning=tuning)
    tritonc.compile("f.tc", tuning="none")


def test_wrong_settings() -> None:
    with pytest.raises(TypeError, match="no option 'fastmath'; did you mean 'fast_math'"):
        tritonc.compile(SOURCE, fastmath=True)
    with pytest.raises(TypeError, match="defines are a mapping"):
        tritonc.compile(SOURCE, defines="VALUE=3")
    with pytest.raises(tritonc.CompileError, match="there is no target 'sm_91'"):
        tritonc.compile(SOURCE, "sm_91")
    with pytest.raises(tritonc.CompileError, match="there is no GPU here"):
        tritonc.compile(SOURCE, "native")


def test_errors_are_rendered() -> None:
    with pytest.raises(tritonc.CompileError) as caught:
        tritonc.compile("kernel void f(float* x) {\n  *x = y;\n}")
    assert str(caught.value) == """
<text>:2:8: error: there is nothing named 'y' [undeclared-name]
    2 |   *x = y;
      |        ^"""


def test_warnings() -> None:
    for compile in (tritonc.compile, tritonc.compile_module):
        with pytest.warns(tritonc.CompileWarning, match="unused") as seen:
            compile("kernel void f(float* x) { int unused = 1; *x = 2; }", warnings=("all",))
        assert seen[0].filename == __file__


def test_several_kernels(tmp_path: Path) -> None:
    assert tritonc.compile(TWO, kernel="g").name == "g"
    assert [kernel.name for kernel in tritonc.compile_module(TWO)] == ["f", "g"]
    with pytest.raises(ValueError, match="several kernels, f, g"):
        tritonc.compile(TWO)
    with pytest.raises(ValueError, match="no kernel 'h'; it has f, g"):
        tritonc.compile(TWO, kernel="h")
    (tmp_path / "x.ptx").write_text(".version 7.0\n")
    with pytest.raises(ValueError, match="its first line is not a manifest"):
        tritonc.load("x.ptx")


def test_names_are_imported_when_used() -> None:
    code = ("import sys, tritonc; assert 'tritonc.launch' not in sys.modules; tritonc.compile;"
            "assert 'compile' in dir(tritonc) and 'torch' not in sys.modules; tritonc.nothing")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "module 'tritonc' has no attribute 'nothing'" in done.stderr
