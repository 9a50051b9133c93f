"""bench/unseen: kernels written from the language page alone mean what they say, interpreted.

The compiler had not seen them when docs/performance.md's figures of such kernels were measured.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile

UNSEEN = sorted((Path(__file__).parent.parent / "bench" / "unseen").glob("*.tc"))


@pytest.mark.parametrize("path", UNSEEN, ids=lambda path: path.stem)
def test_interpreted(path: Path) -> None:
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))
    outcomes = list(run_problems(source, Options(), "tc", Diagnostics(), allow_python=True))
    assert outcomes
    for outcome in outcomes:
        assert outcome.ok, outcome.line()
