"""Diagnostics as SARIF 2.1.0 (OASIS), which code hosts and editors show beside the source."""

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from tritonc import __version__
from tritonc.diagnostics import DIAGNOSTICS
from tritonc.source import Diagnostic, Span

_SCHEMA = ("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
           "sarif-schema-2.1.0.json")  # fmt: skip
_LEVELS = {"error": "error", "warning": "warning", "remark": "note"}


def render_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """One line: a log of one run, whose rules are those that have results.

    Columns count Unicode code points from 1, as in the text form."""
    items = [*diagnostics]
    rules = sorted({item.name for item in items})
    driver = {"name": "tritonc", "version": __version__, "rules": [_rule(name) for name in rules]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints",
           "results": [_result(item, rules) for item in items]}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    """A kind of diagnostic; a remark's name is that of its pass, which has no explanation."""
    row = DIAGNOSTICS.get(name)
    return {"id": name, **({"fullDescription": {"text": row.explanation}} if row else {})}


def _result(item: Diagnostic, rules: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": item.name, "ruleIndex": rules.index(item.name), "level": _LEVELS[item.severity],
        "message": {"text": item.message}, "locations": [_location(item.span)] if item.span else []}
    if notes := item.all_notes():
        result["relatedLocations"] = [
            {**(_location(note.span) if note.span else {}), "message": {"text": note.message}}
            for note in notes]
    if item.suggestion is not None and item.span:
        change = {"artifactLocation": _artifact(item.span), "replacements": [
            {"deletedRegion": _region(item.span), "insertedContent": {"text": item.suggestion}}]}
        result["fixes"] = [{"artifactChanges": [change]}]
    return result


def _location(span: Span) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(span), "region": _region(span)}}


def _artifact(span: Span) -> dict[str, str]:
    """The file as a URI reference, relative as the user gave it."""
    return {"uri": quote(span.presumed[0].replace("\\", "/"))}


def _region(span: Span) -> dict[str, int]:
    """From the first character to behind the last."""
    line, column = span.file.line_column(span.start)
    end_line, end_column = span.file.line_column(max(span.end, span.start))
    return {"startLine": span.file.presumed(line)[1], "startColumn": column,
            "endLine": span.file.presumed(end_line)[1], "endColumn": end_column}
