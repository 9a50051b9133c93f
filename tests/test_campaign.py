"""Campaigns, a few inputs of each, and what they found once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import campaign
import fuzz
import kills
import pytest
from damage import Input
from programs import PTXAS

from tritonc import outputs

FOUND = sorted(campaign.FINDINGS.glob("*.json"))


@pytest.mark.parametrize("name, count", [("programs", 2), ("sources", 30), ("passes", 10),
                                         ("hostile", 4), ("conversions", 12), ("ptxas", 2),
                                         ("products", 2), ("proofs", 3), ("threads", 4),
                                         ("kills", 2)])
def test_some_inputs(name: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                     ) -> None:
    if name == "ptxas" and PTXAS is None:
        pytest.skip("needs ptxas")
    monkeypatch.setattr(campaign, "FINDINGS", tmp_path)
    report = campaign.run(name, 0, 0, count, 600)
    assert report.total == count and not report.failures, report.text()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found(path: Path) -> None:
    _outcome, failure = campaign.again(path)
    assert failure is None, failure


def test_findings_are_kept_once_for_each_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                               ) -> None:
    def attempt(given: Input, rng: object) -> tuple[str, str | None]:
        number = int(given.data)
        return ("failed", f"a cause\nof {number}") if number % 2 else ("ran", None)

    row = campaign.Campaign("For this test.", lambda seed, number: Input(b"%d" % number, "tc"),
                            attempt)
    monkeypatch.setitem(campaign.CAMPAIGNS, "odd", row)
    monkeypatch.setattr(campaign, "FINDINGS", tmp_path)
    report = campaign.run("odd", 0, 0, 10, 60)
    assert report.counts == {"ran": 5, "failed": 5} and [*report.failures] == ["a cause"]
    (path,) = tmp_path.glob("*.json")
    assert path.name.startswith("odd-") and campaign.again(path) == ("failed", "a cause\nof 1")


def test_conversions_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    given = campaign.CAMPAIGNS["conversions"].make(0, campaign.conversions.PAIRS.index(
        ("float32", "int8")))
    right = campaign.conversions.expected
    monkeypatch.setattr(campaign.conversions, "expected",
                        lambda source, target, held: right(source, target, held) + 1)
    _outcome, failure = campaign.CAMPAIGNS["conversions"].attempt(given, campaign.generator(0, 0))
    assert failure is not None and "float#" in failure


def test_small_formats_against_ml_dtypes() -> None:
    """All conversions to bfloat16 and float8 from numbers of at most 16 bits, of which all are
    tried; the campaign does all pairs."""
    pytest.importorskip("ml_dtypes")
    conversions = campaign.conversions
    for source, target in (("float16", "bfloat16"), ("bfloat16", "float8_e4m3"),
                           ("float16", "float8_e5m2"), ("float8_e5m2", "float8_e4m3")):
        conversions.check(conversions.make(0, conversions.PAIRS.index((source, target))))


def test_half_a_file_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_all(contents: Mapping[str, str | bytes], if_changed: bool = False) -> None:
        for path, content in contents.items():
            with open(path, "wb") as file:
                file.write(b"half")
                file.flush()
                file.write(outputs.as_bytes(content))

    monkeypatch.setattr(outputs, "write_all", write_all)
    monkeypatch.setattr(kills, "WRITERS", ("test_campaign.py",))
    row = {"what": "compile", "signal": "SIGKILL", "line": 5, "moment": None}
    with pytest.raises(AssertionError, match="is broken"):
        kills.check(Input(json.dumps(row).encode(), "tc"))


def test_a_loop_for_ever_is_a_finding() -> None:
    def forever() -> None:
        while True:
            pass

    assert campaign._judged(forever, 0.1) == ("failed", "takes longer than the limit")
    assert isinstance(fuzz.LIMIT, int)
