"""Each hint makes some pass do better, and a promise that does not hold is reported.

A pair of kernels that differ by the hint alone; what PTX has of one and not of the other.
"""

from __future__ import annotations

import re

import pytest

from tritonc import driver
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile

WIDE, PLAIN = r"ld\.global\S*\.v4", r"ld\.global(\.nc)?\.b32"
COPY = "int r[1024] = 0 ... 1024; *(y + r) = *(x + {});"
ROWS = ("int r[16] = 0 ... 16; int c[64] = 0 ... 64;"
        " *(y + r[:, newaxis] * 64 + c) = *(x + r[:, newaxis] * n + c);")
MASKED = "int r[128] = get_global_range(0); @(r < n) *(y + r) = *(x + r);"
TWICE = "int r[1024] = 0 ... 1024; *(y + r) = *(x + r); *(z + r) = *(x + 1023 - r);"

IO = "float* x align(16), float* y align(16)"

# name, parameters and body with the hint between braces, what PTX has only with it, only without
HINTS = [
    ("align", "float* x {align(16)}, float* y align(16), int n", COPY.format("r"), WIDE, PLAIN),
    ("__aligned", "float* x {__aligned(16)}, float* y align(16), int n", COPY.format("r"), WIDE,
     PLAIN),
    ("multiple_of", IO + ", int n {multiple_of(4)}", ROWS, WIDE, PLAIN),
    ("__multipleof", IO + ", {__multipleof(4)} int n", ROWS, WIDE, PLAIN),
    ("local __multipleof", IO + ", int n",
     "int m {__multipleof(4)} = n + 3; " + COPY.format("m + r"), WIDE, PLAIN),
    ("tile __multipleof", IO + ", int n",
     "int k {__multipleof(4)}[1024] = (0 ... 1024) / 4 * n;"
     " *(y + (0 ... 1024)) = *(x + k + (0 ... 1024) % 4);", WIDE, PLAIN),
    ("multiple_of()", IO + ", int n",
     "{n = multiple_of(n, 4);} " + COPY.format("n + r"), WIDE, PLAIN),
    ("assume %", IO + ", int n", "{assume(n % 4 == 0);}" + ROWS, WIDE,
     PLAIN),
    ("assume &", IO + ", int n", "{assume(n > 5 && (n & 7) == 0);}" + ROWS,
     WIDE, PLAIN),
    ("assume of a pointer", "float* x, float* y align(16), int n", "{assume((long)x % 16 == 0);}"
     + COPY.format("r"), WIDE, PLAIN),
    ("assume of a loaded value", IO + ", short* n",
     "int k = *n; {assume(k % 4 == 0);}" + COPY.format("k + r"), WIDE, PLAIN),
    ("assume <", "float* x, float* y, int n",
     "int r[128] = get_global_range(0); {assume(r < n);} @(r < n) *(y + r) = *(x + r);",
     r"\n\tst", r"@%p\d+ st"),
    ("assume bounds", "int* y, int n", "{assume(n >= 0);} *y = n / 8;", r"shr\.u32", r"shr\.s32"),
    ("restrict", "float* x, float* {restrict} y, float* z {restrict}", TWICE, "ret", r"bar\.sync"),
    ("__noalias", "float* x, {__noalias} float* y, float* z {__noalias}", TWICE, "ret",
     r"bar\.sync"),
    ("read_only", "float* x {read_only}, float* restrict y, int n", MASKED,
     r"@%p\d+ ld\.global\.nc", r"@%p\d+ ld\.global\.b32"),
    ("__readonly", "float* x {__readonly}, float* restrict y, int n", MASKED,
     r"@%p\d+ ld\.global\.nc", r"@%p\d+ ld\.global\.b32"),
    ("const", "{const} float* x, float* restrict y, int n", MASKED,
     r"@%p\d+ ld\.global\.nc", r"@%p\d+ ld\.global\.b32"),
]


def ptx(text: str) -> str:
    """At -O1: the pass that tests alignment at run time does not hide what a hint gives."""
    source = SourceFile("hints.tc", text)
    return driver.compile(source, Options(opt_level=1, verify_each=True), ("ptx",)).outputs["ptx"]


@pytest.mark.parametrize("name, parameters, body, better, worse", HINTS, ids=lambda v: str(v)[:20])
def test_hints_help(name: str, parameters: str, body: str, better: str, worse: str) -> None:
    hinted, plain = (ptx("void f({}) {{ {} }}".format(*(
        re.sub(hint, "", text) for text in (parameters, body)))) for hint in (r"[{}]", r"\{.*?\}"))
    assert re.search(better, hinted) and not re.search(worse, hinted)
    assert re.search(worse, plain)


def test_read_only_gives_way_to_stores_that_may_reach_it() -> None:
    assert ".nc" not in ptx("void f(float* x read_only, float* y, int n) {" + MASKED + "}")


BROKEN = [
    ("float* x, int n ~multiple_of(8)", "", "argument 'n' is 12, which is not a multiple of 8"),
    ("float* x, int n", "int d __multipleof(5) = ~n; n = d;", "value 12 is not a multiple of 5"),
    ("float* x, int n", "assume((0 ... 4) + n < 16 && n ~% 5 == 0);",
     "assumed here|is 12, which is not a multiple of 5"),
    ("float* x, int n", "assume(n < 12);", "assumed here|is 12, which is more than 11"),
    ("float* x, int n", "assume(n + (0 ... 4) ~< 15);", "what is assumed here does not hold"),
]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("parameters, body, message", BROKEN)
def test_broken_promises_are_reported(parameters: str, body: str, message: str, level: int) -> None:
    text = (f"//! range: 1\n//! arg: x = zeros(8)\n//! arg: n = 12\n//! expect: x = x\n"
            f"void f({parameters}) {{ {body} *x = n - 12; }}").replace("~", "")
    with pytest.raises(CompileError) as caught:
        list(run_problems(SourceFile("broken.tc", text), Options(opt_level=level), "tc",
                          Diagnostics()))
    (item,) = caught.value.diagnostics
    assert item.name == "run-assumption" and item.span is not None
    assert re.search(message, item.message)
