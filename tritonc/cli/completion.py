"""Completion of command lines in bash, zsh and fish: click's scripts, this table's words.

    eval "$(_TRITONC_COMPLETE=bash_source tritonc)"        # in ~/.bashrc; zsh_source in ~/.zshrc
    _TRITONC_COMPLETE=fish_source tritonc | source         # in ~/.config/fish/config.fish

The scripts call `tritonc` with the words so far and show what it prints.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, get_completion_class

from tritonc.cli.console import SUCCESS, USAGE_ERROR
from tritonc.cli.option_table import COMMANDS, Option, rows
from tritonc.options import NATIVE
from tritonc.outputs import KINDS

VARIABLE = "_TRITONC_COMPLETE"  # by which a shell asks


def complete(instruction: str) -> int:
    """Answer an instruction such as "bash_source" or "bash_complete"; the exit code."""
    shell, _, what = instruction.partition("_")
    kind = get_completion_class(shell)
    if kind is None or what not in ("source", "complete"):
        print(f"tritonc: error: {VARIABLE} is bash_source, zsh_source or fish_source, not "
              f"'{instruction}'", file=sys.stderr)
        return USAGE_ERROR
    completer = kind(click.Command("tritonc"), {}, "tritonc", VARIABLE)
    if what == "source":
        click.echo(completer.source())
        return SUCCESS
    before, word = completer.get_completion_args()
    for item in completions(before, word):
        click.echo(completer.format_completion(item))
    return SUCCESS


def completions(before: Sequence[str], word: str) -> list[CompletionItem]:
    """What `word` can become after the words `before` it."""
    words = [*before]
    command = next((w for w in words if w in COMMANDS and w != "compile"), "compile")
    if words and words[-1] == "=":  # bash takes `--arch=sm` for three words
        words.pop()
    wants = {flag: row for row in rows(command) for flag in row.flags
             if row.value and not row.optional_value}
    row = wants.get(words[-1]) if words else None
    prefix = ""
    if row is None and word.startswith("-") and "=" in word:
        flag, _, word = word.partition("=")
        row, prefix = wants.get(flag), f"{flag}="
    if row is not None:
        return _values(row, prefix, word)
    if word.startswith("-"):
        flags = [(flag, row.help) for row in rows(command) for flag in (*row.flags, *row.off)]
        return [CompletionItem(flag, help=text) for flag, text in flags if flag.startswith(word)]
    items = [CompletionItem(word, type="file")]
    if command == "compile":
        items += [CompletionItem(name, help=COMMANDS[name].summary)
                  for name in COMMANDS if name != "compile" and name.startswith(word)]
    return items


def _values(row: Option, prefix: str, word: str) -> list[CompletionItem]:
    """The values that an option takes; files where nothing is known of them."""
    choices: Sequence[str] = row.choices
    if row.name == "arch":
        from tritonc.backend.target.target import TARGETS

        choices = [*TARGETS, NATIVE]
    elif row.name == "emit":
        choices = [*KINDS]
    elif row.name in ("print_after", "print_before", "stop_after", "start_after"):
        from tritonc.driver import pass_names

        choices = pass_names()
    elif row.name == "explain":
        from tritonc.diagnostics import DIAGNOSTICS

        choices = ["list", *DIAGNOSTICS]
    elif row.name == "warnings":
        choices = _warnings()
    elif row.name == "tune":
        from tritonc.meta_parameters import BY_NAME

        choices = [f"{name}=" for name in BY_NAME]
    if not choices:
        return [CompletionItem(word, type="file")]
    return [CompletionItem(prefix + choice) for choice in choices if choice.startswith(word)]


def _warnings() -> list[str]:
    """What -W takes."""
    from tritonc.diagnostics import DIAGNOSTICS

    names = [name for name, row in DIAGNOSTICS.items() if row.severity == "warning"]
    return ["all", "extra", "error", *names, *(f"{prefix}{name}" for prefix in ("no-", "error=")
                                               for name in names)]
