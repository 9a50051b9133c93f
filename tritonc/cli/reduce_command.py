"""`tritonc reduce FILE -- COMMAND`: the smallest text for which a command ends alike."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from tritonc import outputs
from tritonc.cli.console import SUCCESS, language_of, options_from
from tritonc.reduce.command import Command
from tritonc.reduce.reducer import read, reduce_file, size

TIMEOUT = 30.0  # seconds that a try may take


def reduce_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc reduce FILE -- COMMAND...`: the exit code.  `given` has the parameters by name."""
    if len(files) < 2:
        raise click.UsageError("expected a file and a command: tritonc reduce FILE -- COMMAND...")
    path, *words = files
    stem, suffix = os.path.splitext(os.path.basename(path))
    output = given["output"] or f"{stem}.reduced{suffix}"
    if outputs.same_file(output, path):
        raise click.UsageError(f"the output '{output}' is the source itself")
    call = own_command if words[0] == "tritonc" else None
    command = Command(words, path, given["timeout"] or TIMEOUT, given["matching"], call)
    if call is not None:
        warm()
    try:
        search = reduce_file(path, language_of(path, given), options_from(given), command, output,
                             given["jobs"] or os.cpu_count() or 1, tell)
    except KeyboardInterrupt:
        tell(f"{output} has the smallest so far")
        raise
    finally:
        command.close()
    tell(f"{output}: {size(search.text)}, of {size(read(path))}; {search.tried} tries")
    return SUCCESS


def own_command(words: Sequence[str]) -> int:
    from tritonc.cli.main import run_command_line  # which imports this file, as it is called

    return run_command_line(words[1:])


def warm() -> None:
    """Import what compiles and runs, so that no process that is forked need do it."""
    for name in ("tritonc.frontend.parser", "tritonc.sema", "tritonc.passes", "tritonc.manifest",
                 "tritonc.backend.llvm", "tritonc.launch.run_problems", "tritonc.render",
                 "tritonc.cli.compile_command", "tritonc.cli.run_command",
                 "tritonc.launch.interpreter"):
        import_module(name)


def tell(text: str) -> None:
    print(f"tritonc: {text}", file=sys.stderr, flush=True)
