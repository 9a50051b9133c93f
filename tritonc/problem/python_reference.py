"""References in Python: the file beside a source whose functions a problem's expressions call.

    //! python: attention_reference.py

The expressions of a problem are no Python (see `problem.evaluate`), so that a stranger's source
does nothing to whoever runs it.  Such a file is Python, and may do anything: it runs only where the
user says so."""

import runpy
from collections.abc import Sequence
from pathlib import Path

from tritonc.problem.lines import Problem
from tritonc.source import fail


def load(problems: Sequence[Problem], allowed: bool) -> None:
    """Give the problems the functions of their files.  Raises CompileError."""
    for problem in problems:
        if problem.python is None:
            continue
        name, span = problem.python
        if not allowed:
            raise fail("problem-python", span, f"'{name}' is Python, which may do anything on this "
                       "machine; read it, then allow it by --allow-python")
        path = Path(span.file.name).parent / name
        if not path.is_file():
            raise fail("problem-python", span, f"there is no file '{path}' beside the source")
        try:
            found = runpy.run_path(str(path))
        except Exception as error:
            raise fail("problem-python", span, f"'{name}' fails: {type(error).__name__}: "
                       f"{error}") from None
        problem.functions = {key: value for key, value in found.items()
                             if callable(value) and not key.startswith("_")}
