"""The command `tritonc`: compile a file, or run the problem that it states.

    tritonc [options] FILE [-o OUT]        compiles; no subcommand is needed
    tritonc run [options] FILE             runs the problems of the file and compares
    tritonc tune [options] FILE            finds the best tunables by measuring
    tritonc bench [options] FILE           times the kernels of the file

Exit codes: 0 success, 1 an error in the input or a file that cannot be read or written, 2 a wrong
command line, 3 no GPU to tune on, 70 a bug of tritonc, 130 interrupted.  Diagnostics go to standard
error.

Heavy parts are imported by the functions that need them: `tritonc --version` starts in a moment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from tritonc import __version__
from tritonc.commandline import (
    Arguments,
    environment_flags,
    expand_responses,
    help_text,
    program_arguments,
)
from tritonc.console import (
    INPUT_ERROR,
    INTERRUPTED,
    SUCCESS,
    USAGE_ERROR,
    Messages,
    assignments,
    check_settings,
    language_of,
    only_file,
    options_from,
    read_source,
)
from tritonc.options import NATIVE, Option, rows
from tritonc.tune.tuning_file import with_tuning_file

_DESCRIPTION = """\
Compile FILE, a Triton-C source (.tc) or Triton-IR (.tir), to PTX or another kind of output. FILE
may be -, standard input. `tritonc run FILE` runs the problem that FILE states about itself."""
_RUN_DESCRIPTION = """\
Run the problems that FILE states in its //! lines, in the interpreter or on a GPU, and compare the
results with their references. Prints one line for each problem."""
TUNE_DESCRIPTION = """\
Compile FILE with every combination of its tunables and of the passes' meta-parameters, measure each
on the GPUs of this machine, and write the best to STEM.tune.json, which tritonc reads when it
compiles FILE. What is measured is kept: a run that was stopped goes on where it was. Exit code 3:
there is no GPU, and only the cost model's order was printed."""
BENCH_DESCRIPTION = """\
Time the kernels of FILE on a GPU at the sizes of their bench: lines, after checking their results.
Rates come from the flops: and bytes: lines."""


def main() -> None:
    """The entry point of the installed command."""
    if hasattr(signal, "SIGPIPE"):
        # Like any filter: `tritonc -o - x.tc | head` ends without a message.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run_command_line(program_arguments()))


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code.  Writes to sys.stdout and sys.stderr."""
    try:
        words = [*environment_flags(), *expand_responses(arguments)]
        read = Arguments.read(words, [name for name in _COMMANDS if name != "compile"])
        command = _COMMANDS[read.command]
        result = command.main([*read.words], prog_name="tritonc", standalone_mode=False)
        return result if isinstance(result, int) else SUCCESS
    except click.UsageError as error:
        print(f"tritonc: error: {error.format_message()}", file=sys.stderr)
        print("Try 'tritonc --help'.", file=sys.stderr)
        return USAGE_ERROR
    except (KeyboardInterrupt, click.Abort):
        print("tritonc: interrupted", file=sys.stderr)
        return INTERRUPTED


# --- from rows to click ---------------------------------------------------------------------------


def _click_command(name: str, callback: Callable[..., int]) -> click.Command:
    """The click command whose options are the table's rows for `name`."""
    by_name: dict[str, list[Option]] = {}
    for row in rows(name):
        by_name.setdefault(row.name, []).append(row)
    parameters: list[click.Parameter] = [_click_option(rows_) for rows_ in by_name.values()]
    parameters.append(click.Argument(["files"], nargs=-1))
    return click.Command(name, params=parameters, callback=callback, add_help_option=False)


def _click_option(same: list[Option]) -> click.Option:
    """One click option for the rows of one name."""
    long = "--" + same[0].name.replace("_", "-")
    if all(not row.value and not row.stores for row in same):
        declared = f"{long}/--no-{long[2:]}" if any(row.off for row in same) else long
        return click.Option([declared, same[0].name], is_flag=True, default=False)
    kind: Any = str
    if same[0].choices:
        kind = click.Choice(same[0].choices)
    elif same[0].value in ("COUNT", "NUMBER"):
        kind = click.IntRange(min=0)
    return click.Option([long, same[0].name], type=kind, multiple=any(row.many for row in same),
                        default=None)


# --- information ----------------------------------------------------------------------------------


def _information(given: Mapping[str, Any]) -> int | None:
    """Answer --version, --help and the like; None if nothing of the kind is asked."""
    if given["help"]:
        usage = "\n       ".join(["tritonc [options] FILE [-o OUT]", *(
            f"tritonc {name} [options] FILE" for name in _COMMANDS if name != "compile")])
        click.echo(help_text("compile", usage, _DESCRIPTION), nl=False)
    elif given["version"]:
        click.echo(version())
    elif given["cmake_dir"]:
        click.echo(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cmake"))
    elif given["list_targets"]:
        from tritonc.backend.target import TARGETS

        for target in TARGETS.values():
            click.echo(f"{target.name:8} PTX {target.ptx // 10}.{target.ptx % 10}")
    elif given["list_passes"]:
        from tritonc.driver import LOWER
        from tritonc.passes import BACKEND, OPT, labels

        click.echo(f"{LOWER:24} Syntax to Triton-IR.")
        for label, row in zip(labels([*OPT, *BACKEND]), [*OPT, *BACKEND], strict=True):
            click.echo(f"{label:24} {row.reason}")
    elif given["explain"]:
        return _explain(given["explain"])
    else:
        return None
    return SUCCESS


def version() -> str:
    """`tritonc 0.1.0 (llvm 22.1.0)`; LLVM's version is the one that llvmlite is built with."""
    from tritonc.llvm_version import llvm_version

    return f"tritonc {__version__} (llvm {llvm_version()})"


def _explain(name: str) -> int:
    from tritonc.diagnostics import DIAGNOSTICS

    if name == "list":
        for known, row in DIAGNOSTICS.items():
            click.echo(f"{known:28} {row.kind}")
        return SUCCESS
    plain = name.removeprefix("-W").removeprefix("error=")
    if plain not in DIAGNOSTICS:
        from difflib import get_close_matches

        near = get_close_matches(plain, DIAGNOSTICS, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "--explain list lists all"
        raise click.UsageError(f"there is no diagnostic '{name}'; {hint}")
    row = DIAGNOSTICS[plain]
    click.echo(f"{plain} ({row.kind})\n")
    click.echo(click.wrap_text(row.explanation, 80))
    return SUCCESS


# --- commands -------------------------------------------------------------------------------------


def _compile_command(files: tuple[str, ...], **given: Any) -> int:
    answered = _information(given)
    if answered is not None:
        return answered
    from tritonc.compile_command import compile_command

    return compile_command(files, **given)


def _run_command(files: tuple[str, ...], **given: Any) -> int:
    if given["help"]:
        click.echo(help_text("run", "tritonc run [options] FILE", _RUN_DESCRIPTION), nl=False)
        return SUCCESS
    messages = Messages(given)
    path = only_file(files)
    sizes = assignments(given["sizes"], "--set")
    options = options_from(given)
    device = given["device"] or "interpreter"
    if device == "cuda" and given["arch"] is None:
        options = replace(options, arch=NATIVE)
    if device == "cuda":
        options = with_tuning_file(options, path)
    if device == "interpreter" and given["opt_level"] is None:
        options = replace(options, opt_level=0)  # a pass may make sense of what has none
    check_settings(options)

    def action() -> int:
        from tritonc import driver
        from tritonc.launch.run_problems import run_problems

        diagnostics = driver.new_diagnostics(options)
        source = read_source(path, diagnostics)
        failed = 0
        for outcome in run_problems(source, options, language_of(path, given), diagnostics,
                                    device=device, sizes=sizes,
                                    kernel=given["kernel"], seed=given["seed"] or 0):
            messages.show(outcome.diagnostics)
            click.echo(outcome.line())
            failed += not outcome.ok
        return INPUT_ERROR if failed else SUCCESS

    return messages.guard(action)


def _tune_command(files: tuple[str, ...], **given: Any) -> int:
    if given["help"]:
        click.echo(help_text("tune", "tritonc tune [options] FILE", TUNE_DESCRIPTION), nl=False)
        return SUCCESS
    from tritonc.tune_command import tune_command

    return tune_command(files, **given)


def _bench_command(files: tuple[str, ...], **given: Any) -> int:
    if given["help"]:
        click.echo(help_text("bench", "tritonc bench [options] FILE", BENCH_DESCRIPTION), nl=False)
        return SUCCESS
    from tritonc.tune_command import bench_command

    return bench_command(files, **given)


_COMMANDS: dict[str, click.Command] = {
    "compile": _click_command("compile", _compile_command),
    "run": _click_command("run", _run_command),
    "tune": _click_command("tune", _tune_command),
    "bench": _click_command("bench", _bench_command),
}


if __name__ == "__main__":
    main()
