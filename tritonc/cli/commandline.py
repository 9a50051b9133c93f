"""The command line as click reads it: commands and options by the rows of the table.

click has the options with all their spellings, pairs and lists, but would read four things
otherwise than compilers do, so `read_options` puts values after their flags: a word is one option
(`-fbar` is not -f -b -a -r), `-isystemDIR` attaches a value as `-O2` does, `-U X` is in one list
with `-D X`, and a value that may be missing is attached or missing (click takes the next word)."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click

from tritonc.cli.option_table import COMMANDS, TABLE, Option, rows
from tritonc.spelling import hint

FLAGS_VARIABLE = "TRITONC_FLAGS"
_MAX_RESPONSES = 1000  # response files read in one run; a file that names itself reaches it


def expand_responses(arguments: Iterable[str]) -> list[str]:
    """Replace each `@file` by the words of the file, quoted as a shell would; they may nest."""
    result: list[str] = []
    pending = list(arguments)[::-1]
    read = 0
    while pending:
        word = pending.pop()
        if not word.startswith("@") or len(word) == 1:
            result.append(word)
            continue
        read += 1
        if read > _MAX_RESPONSES:
            raise click.UsageError(f"too many response files; does '{word[1:]}' name itself?")
        try:
            with open(word[1:], encoding="utf-8") as file:
                pending += split_words(file.read(), f"'{word[1:]}'")[::-1]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise click.UsageError(f"cannot read response file '{word[1:]}': {reason}") from None
    return result


def split_words(text: str, source: str) -> list[str]:
    import shlex  # only where there are such words

    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from None


def environment_flags() -> list[str]:
    """The words of TRITONC_FLAGS, which come before those of the command line."""
    text = os.environ.get(FLAGS_VARIABLE, "")
    return split_words(text, FLAGS_VARIABLE) if text.strip() else []


def read_options(table: Sequence[Option], words: Sequence[str], *, files_between: bool = True
                 ) -> tuple[list[str], list[str]]:
    """The options among `words`, each value a word of its own, and the other words.  Without
    `files_between`, these begin with the first file."""
    known = {flag: row for row in table for flag in (*row.flags, *row.off)}
    options: list[str] = []
    files: list[str] = []
    left = [*words][::-1]
    while left and (word := left.pop()) != "--":
        if word == "-" or not word.startswith("-"):
            files.append(word)
            if not files_between:
                break
            continue
        flag, equals, value = word.partition("=")
        if flag not in known or (equals and known[flag].value and len(flag) == 2):
            joined = [start for start, row in known.items()
                      if row.joined and start[1] != "-" and word.startswith(start)]
            if not joined:
                lists = "--help=all lists the options" if rows("compile") == table else ""
                meant = hint(flag, known, lists)
                raise click.UsageError(f"unknown option '{flag}'" + (f"; {meant}" if meant else ""))
            flag = equals = max(joined, key=len)
            value = word[len(flag) :]
        row = known[flag]
        if equals and not row.value:
            raise click.UsageError(f"option '{flag}' takes no value")
        if row.value and not equals:
            if not (row.optional_value or left):
                raise click.UsageError(f"option '{flag}' needs a value {row.value}")
            value = row.optional_value or left.pop()
        options += [flag, row.prefix + value] if row.value else [flag]
    return options, files + left[::-1]


class _Command(click.Command):
    """A command whose options are the table's rows for its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options, files = read_options(rows(self.name or ""), args)
        return super().parse_args(ctx, [*options, "--", *files])


def _number(what: str, least: float, _: click.Context, option: click.Parameter, text: str | None
            ) -> float | None:
    with suppress(ValueError):
        if text is None or least <= float(text) < 1e9:
            return None if text is None else float(text)
    raise click.UsageError(f"{option.opts[0]} takes {what}, not '{text}'")


def _regex(_: click.Context, option: click.Parameter, text: str | None) -> re.Pattern[str] | None:
    try:
        return text if text is None else re.compile(text)
    except re.error as error:
        raise click.UsageError(
            f"{option.opts[0]}: '{text}' is not a regular expression: {error}") from None


_READERS: dict[str, Callable[[click.Context, click.Parameter, Any], Any]] = {
    "REGEX": _regex, "SECONDS": partial(_number, "a number of seconds", 1e-9),
    "PERCENT": partial(_number, "a percentage", 0.0)}


class _Option(click.Option):
    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"'{self.opts[0]}'"  # of all spellings


def _option(row: Option, table: Sequence[Option]) -> click.Option:
    """A row with all its spellings; rows of one name set one value, or add to one list in turn."""
    spellings = ["/".join([row.flags[0], *row.off]), *row.flags[1:], row.name]
    many = any(other.many for other in table if other.name == row.name)
    if not row.value:
        stores: dict[str, Any] = {"flag_value": row.stores, "multiple": many} if row.stores else {}
        return _Option(spellings, is_flag=True, **stores)
    kind = (click.Choice(row.choices) if row.choices
            else click.IntRange(min=0) if row.value in ("COUNT", "NUMBER") else None)
    return _Option(spellings, type=kind, callback=_READERS.get(row.value), multiple=many)


class Commands(click.Group):
    """`tritonc`: the first word that is no option names the command, else it is `compile`; options
    before that word count too.  `run` takes the command's name, and its files and options."""

    def __init__(self, run: Callable[..., int]) -> None:
        super().__init__("tritonc", add_help_option=False)
        self.run = run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = read_options(TABLE, args, files_between=False)[1]
        except click.UsageError:  # which the command finds again, and knows its own options
            rest = []
        at = len(args) - len(rest)
        if rest and rest[0] in COMMANDS and rest[0] != "compile" and args[at - 1 : at] != ["--"]:
            return super().parse_args(ctx, [rest[0], *args[:at], *rest[1:]])
        return super().parse_args(ctx, ["compile", *args])

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        table = rows(name)
        parameters = [*(_option(row, table) for row in table), click.Argument(["files"], nargs=-1)]
        return _Command(name, params=parameters, callback=partial(self.run, name),
                        add_help_option=False)
