"""cuda.h and libcuda, or its stub, are found in toolkits, conda and Python packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command import tritonc

from tritonc import toolkit


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has nothing; what is in tmp_path/home is named by CUDA_HOME."""
    for name in ("CUDA_PATH", "CONDA_PREFIX", "PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(toolkit, "_HOMES", ())
    monkeypatch.setattr(toolkit, "glob", lambda pattern: [
        str(path) for path in Path("/").glob(pattern[1:]) if str(tmp_path) in pattern])
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    monkeypatch.setattr(toolkit, "_IN_PACKAGES", ("nvidia/cu13/test",))


def put(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path.parent)


@pytest.mark.parametrize("place", ["home/include", "home/targets/x86_64-linux/include",
                                   "site/nvidia/cu13/test"])
def test_header(place: str, tmp_path: Path) -> None:
    folder = put(tmp_path / place / "cuda.h")
    assert toolkit.header_folder() == folder
    assert tritonc("--cuda-include").out.strip() == folder


@pytest.mark.parametrize("place", ["lib64/stubs", "targets/x86_64-linux/lib/stubs", "lib"])
def test_library(place: str, tmp_path: Path) -> None:
    folder = put(tmp_path / "home" / place / "libcuda.so")
    assert toolkit.library_folder() == folder
    assert tritonc("--cuda-lib").out.strip() == folder


def test_conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "env"))
    folder = put(tmp_path / "env" / "targets" / "sbsa-linux" / "include" / "cuda.h")
    assert toolkit.header_folder() == folder


def test_what_to_install() -> None:
    header, library = tritonc("--cuda-include"), tritonc("--cuda-lib")
    assert header.code == library.code == 1
    assert "pip install nvidia-cuda-runtime-cu12" in header.err
    assert "cuda-driver-dev" in library.err and "TRITONC_DLOPEN" in library.err
