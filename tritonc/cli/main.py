"""The command `tritonc`: compile a file, or run the problem that it states.

    tritonc [options] FILE [-o OUT]        compiles; no subcommand is needed
    tritonc run [options] FILE             runs the problems of the file and compares
    tritonc COMMAND ...                    and others, which `option_table.COMMANDS` lists

Exit codes: 0 success, 1 an error in the input or a file that cannot be read or written, 2 a wrong
command line, 3 no GPU to tune on, 70 a bug of tritonc, 130 interrupted.  Diagnostics go to standard
error.

Heavy parts are imported by the functions that need them: `tritonc --version` starts in a moment."""

import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from tritonc import __version__
from tritonc.cli.commandline import Commands, environment_flags, expand_responses
from tritonc.cli.console import FULL, INPUT_ERROR, INTERRUPTED, SUCCESS, USAGE_ERROR, Messages
from tritonc.cli.option_table import COMMANDS


def main() -> None:
    if hasattr(signal, "SIGPIPE"):
        # Like any filter: `tritonc -o - x.tc | head` ends without a message.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _open_standard_streams()
    if instruction := os.environ.get("_TRITONC_COMPLETE"):
        from tritonc.cli.completion import complete

        sys.exit(complete(instruction))
    _exit(run_command_line(sys.argv[1:]))


def _exit(code: int) -> NoReturn:
    """End the process.

    To free what a compilation made, object by object, takes a tenth of its time, so the system
    does it.  What measures Python, or has run kernels, may still have something to do at exit."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError:  # what is left of it cannot be written either
            setattr(sys, name, None)  # else Python tries again, and its exit code is 120
    if not (sys.getprofile() or sys.gettrace() or {"numpy", "cuda"} & sys.modules.keys()):
        os._exit(code)
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put something in place of streams that are closed (`tritonc ... >&-`).

    No file that is opened later takes their numbers, and what would be lost is an error: standard
    output is then one that cannot be written."""
    for number, name, access in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY),
                                 (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, access)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
            binary: Any = io.BufferedReader(raw) if number == 0 else raw
            setattr(sys, name, io.TextIOWrapper(binary, "utf-8", write_through=number != 0))


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code.  Writes to sys.stdout and sys.stderr."""
    try:
        words = [*environment_flags(), *expand_responses(arguments)]
        result = Commands(_run).main(words, prog_name="tritonc", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else SUCCESS
    except click.UsageError as error:
        print(f"tritonc: error: {error.format_message()}", file=sys.stderr)
        print("Try 'tritonc --help'.", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        if error.errno not in FULL:
            raise
        with suppress(OSError):  # it may be standard error that cannot be written
            print(f"tritonc: error: cannot write output: {error.strerror}", file=sys.stderr)
        return INPUT_ERROR
    except (KeyboardInterrupt, click.Abort):
        print("tritonc: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(command: str, files: tuple[str, ...], **given: Any) -> int:
    answered = _information(command, given)
    if answered is not None:
        return answered
    module = import_module(f"tritonc.cli.{COMMANDS[command].module or command}_command")
    run = getattr(module, f"{command}_command")
    return Messages(given).guard(lambda: run(files, **given))


# --- information ----------------------------------------------------------------------------------


def _information(command: str, given: Mapping[str, Any]) -> int | None:
    """Answer --version, --help and the like; None if nothing of the kind is asked."""
    if given["help"]:
        from tritonc.cli.help import help_text

        click.echo(help_text(command, given["help"]), nl=False)
    elif command != "compile":
        return None
    elif given["version"]:
        click.echo(version())
    elif given["dump_version"]:
        click.echo(__version__)
    elif given["cmake_dir"]:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        click.echo(os.path.join(package, "cmake"))
    elif given["cuda_folder"]:
        return Messages(given).guard(lambda: _cuda_folder(given["cuda_folder"]))
    elif given["list_targets"]:
        from tritonc.backend.target.target import TARGETS

        for target in TARGETS.values():
            click.echo(f"{target.name:8} PTX {target.ptx // 10}.{target.ptx % 10}  {target.gpus}")
    elif given["list_passes"]:
        from tritonc.driver import LOWER
        from tritonc.pass_manager import labels
        from tritonc.passes import BACKEND, OPT

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


def _cuda_folder(kind: str) -> int:
    from tritonc.toolkit import header_folder, library_folder

    click.echo(header_folder() if kind == "include" else library_folder())
    return SUCCESS


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


if __name__ == "__main__":
    main()
