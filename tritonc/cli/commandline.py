"""The command line as click reads it: commands and options by the rows of the table.

Compilers' options follow older rules than click knows, so one method of click's parser is replaced,
`_Parser._process_opts`: a word is one option (`-fbar` is not -f -b -a -r), `-O2`, `-DNAME=1` and
`-isystemDIR` attach a value, and a value that may be missing is attached or missing.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import click
from click.parser import _OptionParser

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


class _Parser(_OptionParser):
    """See the top."""

    def __init__(self, table: Sequence[Option], context: click.Context | None = None) -> None:
        super().__init__(context)
        self.table = table
        self.spellings = {flag: row for row in table for flag in (*row.flags, *row.off)}

    def _process_opts(self, arg: str, state: Any) -> None:
        flag, equals, value = arg.partition("=")
        row = self.spellings.get(flag)
        if row is None or (equals and row.value and len(flag) == 2):
            joined = [flag for flag, row in self.spellings.items()
                      if row.joined and flag[1] != "-" and arg.startswith(flag)]
            if not joined:
                raise click.UsageError(self._unknown(flag))
            flag = max(joined, key=len)
            row, equals, value = self.spellings[flag], "=", arg[len(flag) :]
        if not row.value:
            if equals:
                raise click.UsageError(f"option '{flag}' takes no value")
            value = row.stores
        elif not equals and row.optional_value:
            value = row.optional_value
        elif not equals:
            if not state.rargs:
                raise click.UsageError(f"option '{flag}' needs a value {row.value}")
            value = state.rargs.pop(0)
        # Rows of one name are one option for click, which knows it by the first one's flag.
        first = next(other for other in self.table if other.name == row.name)
        known = first.off[0] if flag in row.off else first.flags[0]
        if option := self._long_opt.get(known) or self._short_opt.get(known):
            option.process(row.prefix + value, state)

    def _unknown(self, flag: str) -> str:
        lists = "--help=all lists the options" if rows("compile") == self.table else ""
        meant = hint(flag, self.spellings, lists)
        return f"unknown option '{flag}'" + (f"; {meant}" if meant else "")


class _Command(click.Command):
    """A command whose options are the table's rows for its name."""

    def make_parser(self, ctx: click.Context) -> _OptionParser:
        parser = _Parser(rows(self.name or ""), ctx)
        for parameter in self.params:
            parameter.add_to_parser(parser, ctx)
        return parser


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
        parser = _Parser(TABLE)
        parser.allow_interspersed_args = False
        try:
            rest = parser.parse_args([*args])[1]
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
