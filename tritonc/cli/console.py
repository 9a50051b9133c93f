"""What the subcommands share: settings from parameters, reading the source, showing messages."""

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import click

from tritonc import __version__
from tritonc.cli.option_table import COMMANDS
from tritonc.options import NATIVE, Options
from tritonc.outputs import STANDARD
from tritonc.source import CompileError, Diagnostic, Diagnostics, SourceFile, fail
from tritonc.spelling import closest

SUCCESS, INPUT_ERROR, USAGE_ERROR, NO_DEVICE = 0, 1, 2, 3
INTERNAL_ERROR, INTERRUPTED = 70, 130


def assignments(values: Sequence[str], option: str) -> dict[str, int]:
    """NAME=VALUE[,NAME=VALUE] options as integers by name."""
    found: dict[str, int] = {}
    for word in (word for value in values for word in value.split(",") if word):
        name, equals, text = word.partition("=")
        try:
            if not equals or not name.strip().isidentifier():
                raise ValueError
            found[name.strip()] = int(text.strip(), 0)
        except ValueError:
            raise click.UsageError(f"{option} takes NAME=INTEGER, not '{word}'") from None
    return found


def options_from(given: Mapping[str, Any]) -> Options:
    """The settings of a compilation from a command's parameters, checked."""
    known = {f.name for f in fields(Options)}
    values = {name: value for name, value in given.items() if name in known and value is not None}
    values["tune"] = assignments(given.get("tune") or (), "--tune")
    values["sizes"] = assignments(given.get("sizes") or (), "--set")
    for prefix in given.get("file_prefix_map") or ():
        if "=" not in prefix:
            raise click.UsageError(f"-ffile-prefix-map takes OLD=NEW, not '{prefix}'")
    if "opt_level" in values:
        values["opt_level"] = int(values["opt_level"])
    elif values.get("debug"):
        values["opt_level"] = 0  # a line that passes copied has several places; gdb stops at one
    if (count := values.get("variants")) is not None and not 0 <= count <= 63:
        raise click.UsageError(f"--variants takes 0 to 63, not '{count}'")
    if "fp_contract" in values:
        values["fp_contract"] = values["fp_contract"] == "on"
    options = Options(**values)
    check_settings(options)
    return options


def native(options: Options) -> Options:
    """The options with this machine's GPU as their target, if they ask for it."""
    if options.arch != NATIVE:
        return options
    from tritonc.launch import cuda_driver

    return replace(options, arch=cuda_driver.device_target(cuda_driver.open_driver()))


def check_settings(options: Options) -> None:
    """Refuse a target, a PTX version or a warning that does not exist."""
    from tritonc.backend.target.target import find
    from tritonc.stages import new_diagnostics

    try:
        new_diagnostics(options)
        if options.arch != NATIVE:
            find(options.arch, options.ptx)
    except CompileError as error:
        (item,) = error.diagnostics
        parts = [item.message, *(note.message for note in item.notes)]
        raise click.UsageError("; ".join(parts).replace("?;", "?")) from None


def only_file(files: Sequence[str]) -> str:
    if not files:
        raise click.UsageError("no input file")
    if len(files) > 1:
        near = closest(files[0], COMMANDS)
        hint = f"; did you mean the command '{near}'?" if near else ""
        raise click.UsageError(f"one input file at a time, found {', '.join(files)}{hint}")
    if files[0].isalpha() and not os.path.exists(files[0]):
        words = [*COMMANDS, "help", "version"]
        near = files[0] if files[0] in words else closest(files[0], words)
        hint = f"the command '{near}'" if near in COMMANDS else f"--{near}"
        if near:
            raise click.UsageError(f"there is no file '{files[0]}'; did you mean {hint}?")
    return files[0]


def language_of(path: str, given: Mapping[str, Any]) -> str:
    return str(given.get("language") or ("tir" if path.endswith(".tir") else "tc"))


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)  # EBADF: it was closed


class Messages:
    """Writes diagnostics in the format and colour that the command line asks for."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.verbose = bool(given.get("verbose"))
        self.format = given.get("diagnostics_format") or "text"
        self.color = given.get("color") or "auto"

    def show(self, items: Sequence[Diagnostic]) -> None:
        """Write all diagnostics of a run to standard error."""
        if not items and self.format == "text":
            return
        from tritonc.render import render, render_json, use_color

        if self.format == "sarif":
            from tritonc.sarif import render_sarif

            text = render_sarif(items)
        elif self.format == "json":
            text = render_json(items)
        else:
            text = render(items, use_color(self.color, sys.stderr, os.environ))
        try:
            sys.stderr.write(text)
        except UnicodeEncodeError:
            encoding = sys.stderr.encoding or "ascii"
            sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def guard(self, action: Callable[[], int]) -> int:
        """The exit code of `action`; what it raises becomes a message and the code that fits.

        The command line runs each command under it; `test` each of its files."""
        from tritonc.result import InternalError

        try:
            return action()
        except CompileError as error:
            self.show(error.diagnostics)
            return INPUT_ERROR
        except click.ClickException:
            raise
        except MemoryError:
            self.show(fail("out-of-memory", None, "there is not enough memory").diagnostics)
            return INPUT_ERROR
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise  # from print, to whatever standard output is
            known = isinstance(error, InternalError)
            bug = error if known else InternalError("the driver", None, error)
            print(f"tritonc: internal error {bug}", file=sys.stderr)
            print(f"This is a bug of tritonc {__version__}. Please report it; `tritonc bug FILE` "
                  "with these options makes one archive of the source and all else that is needed.",
                  file=sys.stderr)
            if self.verbose:
                import traceback

                traceback.print_exception(error)
            return INTERNAL_ERROR


def read_source(path: str, options: Options) -> tuple[SourceFile, Diagnostics]:
    """The source, or CompileError if it cannot be read or is not UTF-8; where its messages go."""
    from tritonc.frontend.preprocess.options import load_source, read_bytes
    from tritonc.stages import new_diagnostics

    diagnostics = new_diagnostics(options)

    def read(name: str) -> bytes:
        data = sys.stdin.buffer.read() if name == STANDARD else read_bytes(name)
        if data[:4] in (b"\x7fELF", b"\x50\xed\x55\xba"):  # cubin, fatbin
            raise fail("unreadable-file", None, f"'{path}' is machine code, not a source")
        return data

    try:
        source = load_source(path, diagnostics, read_file=read)
    except OSError as error:
        reason = error.strerror or error
        raise fail("unreadable-file", None, f"cannot read '{path}': {reason}") from None
    except ValueError as error:  # a name with a null character
        raise fail("unreadable-file", None, f"cannot read '{path}': {error}") from None
    diagnostics.raise_if_errors()
    assert source is not None
    source.name = "<stdin>" if path == STANDARD else path
    return source, diagnostics
