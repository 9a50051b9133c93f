"""From what is typed to options: response files, clang's spellings, unknown names.

Compilers' options follow older rules than click knows: `-O2`, `-DNAME=1`, `-Wno-name`,
`-arch=sm_90`, `-fno-fast-math`, `-o-`.  `Arguments.read` reads them by the table of options and
hands click one spelling of each, `--long=value`; click then converts values and calls the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click

from tritonc.cli.option_table import COMMANDS, SHORT, Option, canonical, rows
from tritonc.spelling import closest

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


@dataclass
class Arguments:
    """The arguments of one run: `command`, and `words` in the one spelling that click reads."""

    command: str = "compile"
    options: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [*self.options, "--", *self.files]

    @staticmethod
    def read(arguments: Sequence[str], subcommands: Sequence[str]) -> Arguments:
        """Read a command line.  The first argument that is no option names the command, if it is
        one of `subcommands`; options before it count too.  Raises click.UsageError."""
        command = _find_command(arguments, subcommands)
        table = _Spellings(command)
        result = Arguments(command)
        words = iter(arguments)
        skipped = command == "compile"
        for word in words:
            if word == "--":
                result.files += words
            elif word == "-" or not word.startswith("-"):
                if not skipped and word == command:
                    skipped = True
                else:
                    result.files.append(word)
            else:
                row, value = table.read(word, words)
                result.options.append(_spell(row, value))
        return result


def _find_command(arguments: Sequence[str], subcommands: Sequence[str]) -> str:
    """The subcommand that the first argument names which is no option and no option's value."""
    tables = [_Spellings(name) for name in ("compile", *subcommands)]
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        if word == "-" or not word.startswith("-"):
            return word if word in subcommands else "compile"
        for table in tables:
            if table.takes_next(word):
                next(words, None)
                break
    return "compile"


def _spell(row: Option, value: str | bool) -> str:
    """One option as click shall read it."""
    name = f"--{row.name.replace('_', '-')}"
    if value is True:
        return name
    if value is False:
        return f"--no-{row.name.replace('_', '-')}"
    return f"{name}={row.prefix}{value}"


class _Spellings:
    """All spellings of a command's options."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.exact: dict[str, tuple[Option, bool]] = {}
        self.joined: list[tuple[str, Option]] = []
        for row in rows(command):
            for flag in row.flags:
                self.exact[flag] = row, True
                if row.joined and not flag.startswith("--"):
                    self.joined.append((flag, row))
            for flag in row.off:
                self.exact[flag] = row, False

    def takes_next(self, word: str) -> bool:
        """Whether the argument after `word` is its value."""
        row, _ = self.exact.get(word, (None, True))
        return row is not None and bool(row.value) and not row.optional_value

    def read(self, word: str, rest: Iterable[str]) -> tuple[Option, str | bool]:
        """The option that `word` spells and its value, taken from `rest` if it stands there."""
        flag, equals, value = word.partition("=")
        if word in self.exact:
            row, on = self.exact[word]
            if not row.value:
                return row, (row.stores or on)
            if row.optional_value:
                return row, row.optional_value
            following = next(iter(rest), None)
            if following is None:
                raise click.UsageError(f"option '{word}' needs a value {row.value}")
            return row, following
        if equals and flag in self.exact:
            row, _ = self.exact[flag]
            if not row.value:
                raise click.UsageError(f"option '{flag}' takes no value")
            if len(flag) > 2:
                return row, value
        for short, row in self.joined:
            if word.startswith(short):
                return row, word[len(short) :]
        raise click.UsageError(self._unknown(flag))

    def _unknown(self, flag: str) -> str:
        near = closest(flag, self.exact)
        elsewhere = "" if near or self.command != "compile" else "; --help=all lists the options"
        hint = f"; did you mean '{near}'?" if near else elsewhere
        return f"unknown option '{flag}'{hint}"


def value_row(command: str, flag: str) -> Option | None:
    """The option that `flag` spells, if the next word is its value."""
    table = _Spellings(command)
    return table.exact[flag][0] if table.takes_next(flag) else None


def help_text(command: str, topic: str) -> str:
    """The text of --help, by group and in the table's order: of all options, of those most used, or
    of the groups whose title begins with `topic`.  Raises click.UsageError if there is none."""
    row = COMMANDS[command]
    groups: dict[str, list[Option]] = {}
    for option in rows(command):
        if command != "compile" or topic != SHORT or option.common:
            groups.setdefault(option.group, []).append(option)
    lines = []
    if topic in (SHORT, "all"):
        lines += [f"Usage: {row.usage}", "", row.description.strip()]
        if command == "compile":
            lines.insert(1, "       tritonc COMMAND [options] FILE")
            lines += ["", "Commands, each with its own --help:"]
            lines += [f"  {name:26}{COMMANDS[name].summary}" for name in COMMANDS
                      if name != "compile"]
    else:
        groups = {title: group for title, group in groups.items()
                  if title.lower().startswith(topic.lower())}
        if not groups:
            titles = {option.group.lower().split()[0]: None for option in rows(command)}
            near = closest(topic, titles)
            hint = f"did you mean '{near}'? " if near else ""
            raise click.UsageError(f"--help has no topic '{topic}'; {hint}topics are all, "
                                   f"{', '.join(titles)}")
    for title, members in groups.items():
        lines += ["", f"{title}:"]
        for option in members:
            lines += _row_help(option)
    if command == "compile" and topic == SHORT:
        lines += ["", "--help=all lists all options, tritonc info what this machine has."]
    return "\n".join(lines).lstrip("\n") + "\n"


def spelled(row: Option) -> str:
    """The first spelling with its value, and the long one: `-D NAME[=VALUE], --define`."""
    first, long = row.flags[0], canonical(row)
    if row.value:
        join = "=" if len(first) > 2 else "" if row.optional_value else " "
        value = f"[{join}{row.value}]" if row.optional_value else f"{join}{row.value}"
        first += value
    others = [flag for flag in (long, *row.off) if flag != row.flags[0]]
    return ", ".join([first, *others])


def described(row: Option) -> str:
    """The help with choices and default."""
    choices = f" One of: {', '.join(row.choices)}." if row.choices else ""
    default = f" Default: {row.default}." if row.default else ""
    return f"{row.help}{choices}{default}"


def _row_help(row: Option) -> list[str]:
    width, indent = 78, 28
    lines, current = [], ""
    for word in described(row).split():
        if current and len(current) + 1 + len(word) > width - indent:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    lines.append(current)
    head = f"  {spelled(row)}"
    if len(head) < indent:
        return [head.ljust(indent) + lines[0], *(" " * indent + line for line in lines[1:])]
    return [head, *(" " * indent + line for line in lines)]


def environment_flags() -> list[str]:
    """The words of TRITONC_FLAGS, which come before those of the command line."""
    text = os.environ.get(FLAGS_VARIABLE, "")
    return split_words(text, FLAGS_VARIABLE) if text.strip() else []


def program_arguments() -> list[str]:
    """What the process was called with."""
    return sys.argv[1:]
