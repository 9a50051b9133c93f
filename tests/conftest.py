"""Collection of the tests that are files: tests/lit here, programs in test_run.py."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small products, and all processors are busy

import gc
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from lit import ROOT, LitFailure, LitTest

from tritonc.backend.target.target import TARGETS, Target
from tritonc.launch.cuda import Device
from tritonc.source import CompileError

_CONTEXT = ExitStack()  # of the GPU: making one for each test would take the most time of many


def pytest_configure() -> None:
    # A shell's jobs in the background ignore interruptions, and so would the commands of tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite golden files and documents")
    parser.addoption("--gpu", action="store_true", help="run tests that need a GPU too")
    parser.addoption("--thorough", action="store_true", help="all combinations, not some")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--gpu"):
        left = [item for item in items if "gpu" in item.keywords]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if "gpu" not in item.keywords]


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests, which each full collection would look through
    gc.set_threshold(2_000_000)  # most of what a compilation makes is gone by then


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "gpu" in item.keywords and item.config.getoption("--gpu"):
        with suppress(CompileError):  # without a GPU, tests say so
            gpu = _CONTEXT.enter_context(Device())
            arch = getattr(item, "callspec", None) and item.callspec.params.get("arch")
            if arch in TARGETS and not runs(gpu, TARGETS[arch]):
                pytest.skip(f"needs a GPU that runs code for {arch}")


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """As pytest has it, but setups and teardowns that pass are not reported: sent from process to
    process, they took half of what xdist takes."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def runs(gpu: Device, target: Target) -> bool:
    """Whether a GPU can run the PTX for a target."""
    mine = TARGETS[gpu.target].capability
    return mine == target.capability if target.name.endswith("a") else mine >= target.capability


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None:
        _CONTEXT.close()  # a kernel that faults spoils it


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector
                        ) -> Iterator[list[pytest.Collector]]:
    """Lit tests are files; Python files here have tests, and no doctests to look for."""
    found = yield
    if file_path.suffix in (".tc", ".tir") and "lit" in file_path.parts:
        return [LitFile.from_parent(parent, path=file_path)]
    return [one for one in found if type(one).__name__ != "DoctestModule"]


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--bless"))


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # MAKE...: a make that a test runs is not one of the make that runs the tests.
    for name in ("TRITONC_FLAGS", "NO_COLOR", "CLICOLOR_FORCE", "PYTHONUNBUFFERED",
                 "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        monkeypatch.delenv(name, raising=False)


class LitFile(pytest.File):
    """One file of tests/lit."""

    def collect(self) -> Iterator[pytest.Item]:
        item: pytest.Item = LitItem.from_parent(self, name="lit")
        yield item


class LitItem(pytest.Item):
    def runtest(self) -> None:
        scratch = self.config._tmp_path_factory.mktemp("lit")  # type: ignore[attr-defined]
        before = os.getcwd()
        os.chdir(ROOT)  # so that messages name files alike everywhere
        try:
            LitTest.read(self.path).run(scratch, bool(self.config.getoption("--bless")))
        finally:
            os.chdir(before)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
                     ) -> str:
        if isinstance(excinfo.value, LitFailure):
            return f"{self.path}: {excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"lit {self.path.name}"
