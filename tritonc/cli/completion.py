"""Completion of command lines in bash, zsh and fish: click's scripts, this table's words.

    eval "$(_TRITONC_COMPLETE=bash_source tritonc)"        # in ~/.bashrc; zsh_source in ~/.zshrc
    _TRITONC_COMPLETE=fish_source tritonc | source         # in ~/.config/fish/config.fish

The scripts call `tritonc` with the words so far and show what it prints."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

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
    completer: Any = kind(click.Command("tritonc"), {}, "tritonc", VARIABLE)
    completer.get_completions = completions
    click.echo(completer.source() if what == "source" else completer.complete())
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
    known: dict[str, Callable[[], Iterable[str]]] = {
        "arch": lambda: [*_of("backend.target.target", "TARGETS"), NATIVE], "emit": lambda: KINDS,
        "explain": lambda: ["list", *_of("diagnostics", "DIAGNOSTICS")], "warnings": _warnings,
        "tune": lambda: [f"{name}=" for name in _of("meta_parameters", "BY_NAME")],
        **dict.fromkeys(("print_after", "print_before", "stop_after", "start_after"),
                        lambda: _of("driver", "pass_names")())}
    choices = [*(row.choices or known.get(row.name, tuple)())]
    if not choices:
        return [CompletionItem(word, type="file")]
    return [CompletionItem(prefix + choice) for choice in choices if choice.startswith(word)]


def _of(module: str, name: str) -> Any:
    return getattr(import_module(f"tritonc.{module}"), name)  # only what is asked for


def _warnings() -> list[str]:
    """What -W takes."""
    names = [n for n, row in _of("diagnostics", "DIAGNOSTICS").items() if row.severity == "warning"]
    return ["all", "extra", "error", *names, *(f"{prefix}{name}" for prefix in ("no-", "error=")
                                               for name in names)]
