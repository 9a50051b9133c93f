"""Every kernel of the repository compiles: no pass fails, whatever the target and the arithmetic.

What is measured in bench/ meets the backend nowhere else without a GPU.  Without --thorough it
compiles for the latest target at its defaults, to LLVM IR: a half, of bench/ways a sixth.  A
quarter of the other programs, which test_programs.py simulates for a target each, take turns at the
rest; each sixth compiles without its macros, too.  `make gpu` does all of it, to PTX.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from in_flight import touched_in_flight
from llvmlite import binding as llvm

from tritonc import driver
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "bench"))

from registers import compile_plainly, sources  # noqa: E402

EVERY = [pytest.param(number, path, id=path.relative_to(ROOT).with_suffix("").as_posix())
         for number, path in enumerate(sources())]
FORMS = [Options(arch=arch, fast_math=fast) for arch in ("sm_90a", "sm_80", "sm_75")
         for fast in (False, True)]


def check(path: Path, form: Options, kind: str, bare: bool = True) -> None:
    """With its problem's macros and, if `bare`, without: then an error of the source's own may
    stand."""
    results = [compile_plainly(path, form, kind)]
    text = path.read_text(encoding="utf-8")
    plain = re.sub(r"(?m)^//! define:", "//", text)
    if bare and plain != text:
        with suppress(CompileError):
            results.append(driver.compile(SourceFile(path.name, plain), form, (kind,)))
    for result in results:
        if kind == "ll":
            llvm.parse_assembly(result.outputs[kind]).verify()
        else:
            assert not touched_in_flight(result.outputs[kind])


@pytest.mark.parametrize("number, path", EVERY)
def test_compiles(number: int, path: Path, thorough: bool) -> None:
    measured = path.is_relative_to(ROOT / "bench")
    turns = 6 if path.is_relative_to(ROOT / "bench" / "ways") else 2
    if measured and number % turns and not thorough:
        pytest.skip("needs --thorough")
    forms = FORMS if thorough else FORMS[number // 4 % 6:][:number % 4 == 0]
    for form in FORMS[:1] if measured and not thorough else forms:
        check(path, form, "ll", thorough or number % 6 == 0)


@pytest.mark.gpu
@pytest.mark.parametrize("number, path", EVERY)
def test_compiles_in_every_form(number: int, path: Path) -> None:
    """Where there are many processors."""
    for form in FORMS:
        check(path, form, "ptx")
