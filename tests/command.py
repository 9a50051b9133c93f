"""Running the command line in this process, for tests."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from typing import Any, NamedTuple

from tritonc.cli.main import run_command_line


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@contextmanager
def _streams(stdin: bytes) -> Any:
    saved = sys.stdin, sys.stdout, sys.stderr
    new = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (stdin, b"", b"")]
    sys.stdin, sys.stdout, sys.stderr = new
    try:
        yield new
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


def tritonc(*arguments: str, stdin: bytes = b"") -> Finished:
    """Run `tritonc` with these arguments."""
    with _streams(stdin) as (_, out, err):
        code = run_command_line(list(arguments))
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8"))
    return Finished(code, *texts)


