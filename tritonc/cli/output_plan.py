"""Which outputs a command line asks for, and where each goes."""

import os
from collections.abc import Mapping
from typing import Any

import click

from tritonc import outputs
from tritonc.cli.console import language_of
from tritonc.outputs import KINDS, STANDARD
from tritonc.result import Result
from tritonc.source import fail
from tritonc.spelling import hint


def kinds_of(given: Mapping[str, Any]) -> list[str]:
    """The kinds of output asked for, once each."""
    kinds: list[str] = []
    for word in (word for value in given["emit"] for word in value.split(",")):
        if word not in KINDS:
            raise click.UsageError(f"there is no kind of output '{word}'; "
                                   + hint(word, KINDS, f"kinds are {', '.join(KINDS)}"))
        if word not in kinds:
            kinds.append(word)
    if given["syntax_only"]:
        return []
    if not kinds:
        by_suffix = outputs.kind_of(given["output"] or "")
        several = "," in (given["arch"] or "")
        kinds = [by_suffix or ("tir" if given["stop_after"] else "fatbin" if several else "ptx")]
    if given["header"] is not None and "header" not in kinds:
        kinds.append("header")
    for name in ("embed", "prefix"):
        if given[name] and not {"header", "torch"} & {*kinds}:
            raise click.UsageError(f"--{name} needs --header, --emit=header or --emit=torch")
    if given["stop_after"]:
        for kind in kinds:
            if kind not in ("i", "ast", "tir"):
                raise click.UsageError(f"--stop-after writes .tir, not {kind}")
    return kinds


def check_suffix(given: Mapping[str, Any]) -> None:
    """Refuse an output whose suffix no kind has, where nothing else says the kind."""
    output = given["output"] or ""
    suffix = os.path.splitext(output)[1]
    said = given["emit"] or given["syntax_only"] or given["depend"] in ("M", "MM")
    if suffix and not said and outputs.kind_of(output) is None:
        known = f"suffixes are {', '.join(KINDS.values())}; --emit works with any name"
        raise click.UsageError(f"the suffix of '{output}' names no kind of output; "
                               + hint(suffix, KINDS.values(), known))


def targets_of(path: str, kinds: list[str], given: Mapping[str, Any]) -> dict[str, str]:
    """Where each kind of output goes, with --save-temps also those that come before."""
    if given["depend"] in ("M", "MM"):
        return {}
    header = given["header"] if "header" in kinds else None
    targets = outputs.paths([kind for kind in kinds if kind != "header" or header is None],
                            given["output"], path)
    if header is not None:
        targets["header"] = header
    if STANDARD in targets.values() and len(set(targets.values())) < len(targets):
        raise click.UsageError("several kinds of output cannot share standard output")
    if len(set(targets.values())) < len(targets):
        raise click.UsageError(f"several kinds of output go to '{header}'")
    if given["save_temps"] and {*kinds} - {"i", "ast", "tir"}:
        early = [] if language_of(path, given) == "tir" else ["i", "tir"]
        output = None if given["output"] == STANDARD else given["output"]
        kept = outputs.paths(["i", "tir", "ll", "ptx"], output, path)
        targets = {**{kind: kept[kind] for kind in (*early, "ll", "ptx")}, **targets}
    return targets


def stem_of(path: str) -> str:
    """The source's name without directory and suffix."""
    return os.path.splitext("stdin" if path == STANDARD else os.path.basename(path))[0]


def rule_file(path: str, targets: Mapping[str, str], given: Mapping[str, Any]) -> str | None:
    """Where the dependency rule goes; None if it is not asked for."""
    if given["depend"] is None:
        return None
    if given["depend_file"]:
        return str(given["depend_file"])
    if given["depend"] in ("M", "MM"):
        return given["output"] or STANDARD
    first = next((t for t in targets.values() if t != STANDARD), stem_of(path))
    return os.path.splitext(first)[0] + ".d"


def dependency_rule(path: str, targets: Mapping[str, str], result: Result,
                    given: Mapping[str, Any]) -> str:
    try:
        default = [outputs.quote_for_make(t, target=True)
                   for t in targets.values() if t != STANDARD]
        made = [*given["depend_targets"],
                *(outputs.quote_for_make(t, target=True) for t in given["depend_quoted"])]
        made = made or default or [outputs.quote_for_make(stem_of(path) + ".ptx", target=True)]
        left_out = result.system if given["depend"] in ("MMD", "MM") else ()
        sources = [*([] if path == STANDARD else [path]),
                   *(included for included in result.dependencies if included not in left_out)]
        return outputs.dependency_rule(made, sources, given["depend_phony"])
    except ValueError as error:
        raise fail("cannot-write", None, str(error)) from None
