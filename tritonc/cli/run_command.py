"""`tritonc run FILE` and `tritonc test FILE...`: problems run and compared."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from tritonc.cli import console
from tritonc.options import NATIVE, Options
from tritonc.tune.tuning_file import with_tuning_file


def run_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc run FILE`: the exit code.  `given` has the parameters by name."""
    path, options = console.only_file(files), _options(given)
    found = _run(path, options, given, console.Messages(given))
    return console.INPUT_ERROR if found["failed"] else console.SUCCESS


def test_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc test FILE...`: the worst exit code of its files."""
    if not files:
        raise click.UsageError("no input file")
    options = _options(given)
    messages = console.Messages(given)
    total: Counter[str] = Counter()
    wrong = worst = 0
    kept = ExitStack()  # the GPU's context, which a file need not make if another did

    def one(path: str) -> int:
        if given["device"] == "cuda":
            from tritonc.launch.cuda import Device

            kept.enter_context(Device())
        found = _run(path, options, given, messages)
        total.update(found)
        return console.INPUT_ERROR if found["failed"] else console.SUCCESS

    for path in dict.fromkeys(files):
        counted = total.total()
        code = messages.guard(lambda path=path: one(path))  # type: ignore[misc]
        if code != console.SUCCESS:
            kept.close()  # a kernel that faults spoils it
        wrong += code != console.SUCCESS and counted == total.total()
        worst = max(worst, code)
    kept.close()
    problems = total.total()
    click.echo(f"{total['right']} of {problems} problem{'s' if problems != 1 else ''} right"
               + (f", {wrong} file{'s' if wrong > 1 else ''} in error" if wrong else ""))
    return worst


def _options(given: dict[str, Any]) -> Options:
    options = console.options_from(given)
    if given["device"] == "cuda" and given["arch"] is None:
        options = replace(options, arch=NATIVE)
    if given["device"] != "cuda":
        options = replace(options, sizes={})  # small tiles fill a GPU, and are slow to interpret
        if given["opt_level"] is None:
            options = replace(options, opt_level=0)  # a pass may make sense of what has none
    return options if given["device"] == "cuda" else console.native(options)


def asked(given: dict[str, Any]) -> dict[str, Any]:
    """What a command line says of problems and how they run.  Raises click.UsageError."""
    return {"sizes": console.assignments(given["sizes"], "--set"), "kernel": given["kernel"],
            "seed": given["seed"] or 0, "order": _order(given), "max_steps": given["max_steps"],
            "allow_python": bool(given["allow_python"])}


def _order(given: dict[str, Any]) -> str:
    order: str = given["order"] or "forward"
    word, colon, seed = order.partition(":")
    known = word in ("forward", "reverse", "interleaved", "random")
    if not known or (word == "random") != bool(colon and seed):
        raise click.UsageError(f"--order: '{order}' is none of forward, reverse, interleaved and "
                               "random:SEED")
    return order


def _run(path: str, options: Options, given: dict[str, Any], messages: console.Messages
         ) -> Counter[str]:
    """Run the problems of one file, and print a line for each."""
    from tritonc.launch.run_problems import run_problems

    device = given["device"] or "interpreter"
    if device == "cuda":
        options = with_tuning_file(options, path)
    source, diagnostics = console.read_source(path, options)
    count: Counter[str] = Counter()
    for outcome in run_problems(source, options, console.language_of(path, given), diagnostics,
                                device=device, **asked(given)):
        messages.show(outcome.diagnostics)
        click.echo(outcome.line())
        count["right" if outcome.ok else "failed"] += 1
    return count
