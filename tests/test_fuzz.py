"""The fuzzer's short form, and that it finds what it looks for."""

from __future__ import annotations

import os
import time
from typing import Any

import fuzz
import pytest
from damage import Input, damaged

from tritonc import driver
from tritonc.source import CompileError, Diagnostic


def test_damaged_sources_give_diagnostics() -> None:
    report = fuzz.fuzz(seed=20190622, first=0, count=200)
    assert report.total == 200 and not report.failures, report.text()
    assert 100 < report.counts["error"] < report.total - 3  # some compile: the corpus says how many


def test_inputs_depend_on_seed_and_number_alone() -> None:
    sources = fuzz.corpus()
    first = [damaged(1, number, sources) for number in range(50)]
    again = fuzz.corpus()
    assert first == [damaged(1, number, again) for number in range(50)]
    assert first != [damaged(2, number, sources) for number in range(50)]
    assert len({given.data for given in first}) > 40


def outcomes(monkeypatch: pytest.MonkeyPatch, compile: Any) -> fuzz.Report:
    """What the fuzzer says when every compilation is replaced."""
    monkeypatch.setattr(driver, "compile", compile)
    monkeypatch.setattr(fuzz, "corpus", lambda: [Input(b"kernel void f() {}", "tc"),
                                                 Input(b"kernel @f() {", "tir")])
    return fuzz.fuzz(seed=0, first=0, count=3)


def test_exceptions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **more: Any) -> None:
        raise KeyError("x")

    report = outcomes(monkeypatch, broken)
    assert report.total == 3
    assert any(what.startswith("KeyError at test_fuzz.py") for what in report.failures)


def test_the_end_of_the_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    report = outcomes(monkeypatch, lambda *arguments, **more: os._exit(7))
    assert report.total == 3 and "the process ended with code 7" in report.failures


def test_hangs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LIMIT", 0.1)
    report = outcomes(monkeypatch, lambda *arguments, **more: time.sleep(60))
    assert report.total == 3
    assert all(what.startswith("takes longer") for what in report.failures)


@pytest.mark.parametrize("item, what", [
    (Diagnostic("syntax-error", "error", "text"), "without a place: syntax-error"),
    (Diagnostic("no-such", "error", "text"), "no such diagnostic"),
    (Diagnostic("no-problem", "warning", "text"), "an error without a message"),
])
def test_bad_diagnostics_are_found(item: Diagnostic, what: str,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **more: Any) -> None:
        raise CompileError([item])

    report = outcomes(monkeypatch, broken)
    assert any(what in found for found in report.failures), report.text()
