"""The command line as click reads it: commands and options by the rows of the table.

Compilers' options follow older rules than click knows, so `read_options` spells them for click: a
word is one option (`-fbar` is not -f -b -a -r), `-isystemDIR` attaches a value as `-O2` does,
several flags add to one list in their order (`-D`, `-U`), and a value that may be missing is
attached or missing (click takes the next word that does not begin with a dash).
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """The words of a response file or of TRITONC_FLAGS."""
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
    """The options among `words` as click reads them, each with its row's first flag and its value
    as two words, and the other words.  Without `files_between`, these begin with the first file."""
    spellings = {flag: row for row in table for flag in (*row.flags, *row.off)}
    first: dict[str, Option] = {}  # rows of one name are one option for click
    for row in table:
        first.setdefault(row.name, row)
    options: list[str] = []
    files: list[str] = []
    left = [*words][::-1]
    while left:
        word = left.pop()
        if word == "--":
            break
        if word == "-" or not word.startswith("-"):
            files.append(word)
            if not files_between:
                break
            continue
        flag, value = _flag_and_value(word, spellings, table)
        row = spellings[flag]
        if not row.value:
            if value is not None:
                raise click.UsageError(f"option '{flag}' takes no value")
            value = row.stores or None
        elif value is None and row.optional_value:
            value = row.optional_value
        elif value is None:
            if not left:
                raise click.UsageError(f"option '{flag}' needs a value {row.value}")
            value = left.pop()
        known = first[row.name]
        options.append(known.off[0] if flag in row.off else known.flags[0])
        if value is not None:
            options.append(row.prefix + value)
    return options, files + left[::-1]


def _flag_and_value(word: str, spellings: Mapping[str, Option], table: Sequence[Option]
                    ) -> tuple[str, str | None]:
    """The flag that a word begins with, and the value that is attached to it."""
    flag, equals, value = word.partition("=")
    row = spellings.get(flag)
    if row is not None and not (equals and row.value and len(flag) == 2):
        return flag, value if equals else None
    joined = [flag for flag, row in spellings.items()
              if row.joined and flag[1] != "-" and word.startswith(flag)]
    if joined:
        flag = max(joined, key=len)
        return flag, word[len(flag) :]
    lists = "--help=all lists the options" if rows("compile") == table else ""
    meant = hint(flag, spellings, lists)
    raise click.UsageError(f"unknown option '{flag}'" + (f"; {meant}" if meant else ""))


class _Command(click.Command):
    """A command whose options are the table's rows for its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options, files = read_options(rows(self.name or ""), args)
        return super().parse_args(ctx, [*options, "--", *files])


class _Number(click.ParamType):  # type: ignore[type-arg]
    """A number, not below `least`."""

    name = "number"

    def __init__(self, what: str, least: float) -> None:
        self.what = what
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None
                ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if param is not None and not self.least <= number < 1e9:
            raise click.UsageError(f"{param.opts[0]} takes {self.what}, not '{value}'")
        return number


class _Regex(click.ParamType):  # type: ignore[type-arg]
    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return re.compile(value)
        except re.error as error:
            flag = param.opts[0] if param is not None else ""
            raise click.UsageError(
                f"{flag}: '{value}' is not a regular expression: {error}") from None


_TYPES: dict[str, click.ParamType[Any]] = {
    "COUNT": click.IntRange(min=0), "NUMBER": click.IntRange(min=0), "REGEX": _Regex(),
    "SECONDS": _Number("a number of seconds", 1e-9), "PERCENT": _Number("a percentage", 0.0)}


def _option(same: list[Option]) -> click.Option:
    """The option for the rows of one name."""
    first = same[0]
    if not any(row.value or row.stores for row in same):
        return click.Option(["/".join([first.flags[0], *first.off[:1]]), first.name], is_flag=True,
                            default=False)
    kind = click.Choice(first.choices) if first.choices else _TYPES.get(first.value, click.STRING)
    return click.Option([first.flags[0], first.name], type=kind, default=None,
                        multiple=any(row.many for row in same))


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
        by_name: dict[str, list[Option]] = {}
        for row in rows(name):
            by_name.setdefault(row.name, []).append(row)
        parameters = [*map(_option, by_name.values()), click.Argument(["files"], nargs=-1)]
        return _Command(name, params=parameters, callback=partial(self.run, name),
                        add_help_option=False)
