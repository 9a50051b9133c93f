"""What --help says; the manual page and docs/cli.md say it in the same words."""

from textwrap import wrap

import click

from tritonc.cli.option_table import COMMANDS, SHORT, Option, canonical, rows
from tritonc.spelling import hint


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
            raise click.UsageError(f"--help has no topic '{topic}'; " + hint(
                topic, titles, f"topics are all, {', '.join(titles)}"))
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
    indent = " " * 28
    lines = wrap(described(row), 50, break_on_hyphens=False, break_long_words=False)
    head = f"  {spelled(row)}"
    if len(head) < len(indent):
        head = head.ljust(len(indent)) + lines.pop(0)
    return [head, *(indent + line for line in lines)]
