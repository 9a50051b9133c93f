"""`tritonc bug FILE`: what a bug report needs, in one archive."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from tritonc import driver, outputs
from tritonc.cli import console
from tritonc.cli.info_command import machine
from tritonc.cli.option_table import canonical, rows
from tritonc.cli.reduce_command import TIMEOUT, own_command, tell, warm
from tritonc.records import dataclass
from tritonc.reduce.command import Command
from tritonc.reduce.reducer import read, reduce_file, size
from tritonc.source import CompileError, SourceFile
from tritonc.tune.tuning_file import with_tuning_file

_PATIENCE = 300.0  # seconds for the whole source
_FAILED = re.compile(r"internal error in (?:pass '([^']*)'|([^:]*?))(?: of kernel '[^']*')?: (\w+)")
_OWN = ("output", "help", "reduce", "language", "diagnostics_format", "color", "verbose")


@dataclass
class _Run:
    """A command of tritonc, and how it ended; `code` is None where it took too long."""

    words: list[str]
    code: int | None
    output: str

    def text(self) -> str:
        ended = "took too long" if self.code is None else f"exit status {self.code}"
        return f"$ tritonc {' '.join(self.words)}\n{self.output}[{ended}]\n"


def bug_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc bug FILE`: the exit code.  `given` has the parameters by name."""
    path = console.only_file(files)
    text = read(path)
    options = with_tuning_file(console.options_from(given), path)
    language = console.language_of(path, given)
    name = os.path.basename(path)
    stem, suffix = os.path.splitext(name)
    archive = given["output"] or f"{stem}.bug.tar.gz"
    words = [*_words(given), *(["-x", language] if given["language"] else [])]
    contents = {name: outputs.as_bytes(text),
                "versions.txt": "\n".join(machine(None)).encode(),
                "options.json": json.dumps(vars(options), indent=2, default=str).encode()}
    if options.tuning is not None and os.path.exists(options.tuning):
        with open(options.tuning, "rb") as file:
            contents[os.path.basename(options.tuning)] = file.read()
    if language == "tc":
        with suppress(Exception):  # the outcome says what it was
            done = driver.compile(SourceFile(path, text), options, ("i",))
            contents[f"{stem}.i"] = outputs.as_bytes(done.outputs["i"])
    runs, stage = _outcome(path, words, contents)
    contents["outcome.txt"] = outputs.as_bytes(
        "\n".join([stage, "", *(run.text() for run in runs)]))
    if given["reduce"]:
        smallest = _reduced(path, language, options, words, runs)
        if smallest is not None:
            contents[f"{stem}.reduced{suffix}"] = outputs.as_bytes(smallest)
    outputs.write_or_fail({archive: _packed(f"{stem}.bug", contents)})
    click.echo(f"{archive}: {stage}")
    for member, data in contents.items():
        click.echo(f"  {member} ({len(data)} bytes)")
    return console.SUCCESS


def _words(given: Mapping[str, Any]) -> list[str]:
    """The options of the command line again, as `tritonc` takes them."""
    words: list[str] = []
    # Of several spellings of an option one that takes `=VALUE` and puts nothing before it.
    for row in {row.name: row for row in reversed(rows("bug")) if not row.prefix}.values():
        value = given[row.name]
        if row.name in _OWN or value is None or value is False or value == ():
            continue
        if value is True:
            words.append(canonical(row))
        else:
            many = value if isinstance(value, tuple) else (value,)
            words += [f"{canonical(row)}={one}" for one in many]
    return words


def _run(words: Sequence[str]) -> _Run:
    """Run a command in another process: LLVM ends its own where it finds a bug."""
    child = [sys.executable, "-X", "faulthandler", "-m", "tritonc", *words]
    try:
        done = subprocess.run(child, capture_output=True, timeout=_PATIENCE,
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as late:
        return _Run([*words], None, _decoded(late.stdout) + _decoded(late.stderr))
    return _Run([*words], done.returncode, _decoded(done.stdout) + _decoded(done.stderr))


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _outcome(path: str, words: Sequence[str], contents: dict[str, bytes]) -> tuple[list[_Run], str]:
    """Compile and run the source; add the IR before the pass that failed.  The runs, and in one
    line how far they came."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [_run(["-v", *words, path, "-o", os.path.join(folder, "out.ptx")])]
        code, output = runs[0].code, runs[0].output
        failed = _FAILED.search(output)
        if failed and failed[1]:
            before = _run([*words, path, f"--print-before={failed[1]}", "-o",
                           os.path.join(folder, "out.ptx")]).output
            contents["before_pass.txt"] = before.encode("utf-8", "replace")
    if failed and code == console.INTERNAL_ERROR:
        return runs, failed[0]
    if code is None:
        return runs, f"compiling takes longer than {_PATIENCE:g} s"
    if code < 0 or code > console.INTERNAL_ERROR:
        return runs, f"the compiler ended with exit status {code}"
    if code != console.SUCCESS:
        first = re.search(r"error: .*", output)
        return runs, f"the source has errors: {first[0] if first else output}"
    common = [word for word in words if not word.startswith(_COMPILING)]
    if "//!" in read(path):
        runs += [_run(["run", f"-O{level}", *common, path]) for level in (0, 2)]
        codes = [run.code for run in runs[1:]]
        if codes != [console.SUCCESS, console.SUCCESS]:
            return runs, (f"compiles; run without and with passes: exit status {codes[0]}, "
                          f"{codes[1]}")
        return runs, "compiles, and runs right in the interpreter"
    return runs, "compiles; the source states no problem to run"


_COMPILING = ("--optimize", "--ptx", "--variant", "--set", "--start-after")  # not options of run


def _reduced(path: str, language: str, options: Any, words: Sequence[str], runs: Sequence[_Run]
             ) -> str | None:
    """The source reduced to what goes wrong; None where nothing does."""
    failed = _FAILED.search(runs[0].output)
    pattern = None
    if failed:
        place = failed[1] or failed[2]
        pattern = re.compile(rf"internal error in .*{re.escape(place)}.*: {failed[3]}")
    tried: list[Sequence[str]]
    if runs[0].code != console.SUCCESS:
        tried = [["tritonc", *words, "{}", "-o", os.devnull]]
    elif [run.code == console.SUCCESS for run in runs[1:]] == [True, False]:
        tried = [["tritonc", *run.words[:-1], "{}"] for run in runs[1:]]
    else:
        return None

    def call(given: Sequence[str]) -> int:
        """The command; of two, whether the first is right and the second is not."""
        codes = [own_command([w.replace("{}", given[-1]) for w in one]) for one in tried]
        return codes[0] if len(codes) == 1 else int(codes[0] != 0 or codes[1] == 0)

    warm()
    command = Command(["tritonc"], path, TIMEOUT, pattern, call)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = reduce_file(path, language, options, command, os.path.join(folder, "out"),
                                os.cpu_count() or 1, tell)
        except CompileError as error:
            tell(f"not reduced: {error}")
            return None
        finally:
            command.close()
    tell(f"reduced to {size(found.text)} in {found.tried} tries")
    return found.text


def _packed(folder: str, contents: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()
