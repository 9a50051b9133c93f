"""`tritonc debug FILE`: the problems of a file in the interpreter, stopped at statements."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, Any

import click

from tritonc import driver
from tritonc.cli import console
from tritonc.cli.run_command import asked
from tritonc.source import CompileError, fail


def debug_command(files: tuple[str, ...], **given: Any) -> int:
    """The exit code: 1 if a problem fails, 0 too where the user ends the program before that."""
    from tritonc.debugger.prompt import Prompt
    from tritonc.debugger.stopping import Quit
    from tritonc.launch.run_problems import run_problems

    path, options = console.only_file(files), replace(
        console.options_from(given), sizes={}, opt_level=0, stops=True, stop_after=driver.LOWER)
    if console.language_of(path, given) != "tc":
        raise click.UsageError("debug takes Triton-C: Triton-IR does not know its statements")
    messages = console.Messages(given)
    source, diagnostics = console.read_source(path, options)
    with ExitStack() as opened:
        commands = _commands(given["commands"], opened)
        prompt = Prompt(source, commands, sys.stdout, echo=not commands.isatty())
        failed = False
        try:
            for outcome in run_problems(
                    source, console.native(options), "tc", diagnostics, after=prompt.session.steps,
                    **asked(given)):
                messages.show(outcome.diagnostics)
                click.echo(outcome.line())
                failed |= not outcome.ok
        except CompileError as error:
            messages.show(error.diagnostics)
            failed = True
            prompt.failed()
        except Quit:
            pass
    return console.INPUT_ERROR if failed else console.SUCCESS


def _commands(path: str | None, opened: ExitStack) -> IO[str]:
    """Where commands come from: a file, or standard input."""
    if path is None:
        return sys.stdin
    try:
        return opened.enter_context(open(path, encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise fail("unreadable-file", None, f"cannot read '{path}': {reason}") from None
