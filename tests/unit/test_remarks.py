"""Remarks about the versions of one body: which are shown, and what they say of the fallback."""

from tritonc.ir.context import Remark, by_place
from tritonc.source import SourceFile, Span

FILE = SourceFile("a.tc", "abcdefgh")
FIRST, SECOND = Span(FILE, 0, 2), Span(FILE, 4, 6)


def test_the_fallback_is_named() -> None:
    (shown,) = by_place([Remark("vectorize", "narrow", SECOND._replace(fallback=True), True)])
    assert shown.message == "narrow (fallback, when the run-time checks fail)"
    assert shown.span == SECOND


def test_the_fast_version_speaks_for_its_place() -> None:
    fast = Remark("pipeline", "pipelined", FIRST, False)
    slow = Remark("pipeline", "not pipelined", FIRST._replace(fallback=True), True)
    elsewhere = Remark("pipeline", "not copied", SECOND._replace(fallback=True), True)
    assert [r.span for r in by_place([elsewhere, slow, fast])] == [FIRST, SECOND]
    assert by_place([slow, fast]) == [fast]
