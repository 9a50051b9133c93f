"""Errors that only the command line can meet, and those of programs that run: text and place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import tritonc

KERNEL = "kernel void f(int* y) { *y = 1; }\n"
PROBLEM = """\
//! size: N = 16
//! range: N
//! arg: x = arange(N)
//! arg: n = 0
//! expect: x = np.arange(N)
kernel void f(int* x, int n) {
  int r[8] = get_global_range(0);
"""


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.tc").write_text(KERNEL)
    Path("folder.tc").mkdir()
    Path("empty.tc").write_text("")
    Path("blank.tc").write_text("\n// nothing\n")
    Path("garbage.tc").write_bytes(bytes(range(1, 256)) * 4)
    Path("zeros.tc").write_bytes(b"\0" * 100)
    Path("latin.tc").write_bytes(b"// caf\xe9\n" + KERNEL.encode())
    Path("utf16.tc").write_bytes(KERNEL.encode("utf-16"))
    Path("empty.tir").write_text("")
    Path("source.tir").write_text(KERNEL)
    Path("ir.tc").write_text("kernel @f() {\nentry:\n  ret\n}\n")
    os.symlink("good.tc", "link.tc")
    os.symlink("nowhere", "dangling.tc")
    Path("loop.h").write_text('#include "loop.h"\n')
    Path("loop.tc").write_text('#include "loop.h"\n' + KERNEL)
    Path("good.cubin").write_bytes(b"\x7fELF\x02\xff")
    Path("problem.tc").write_text("//! range: 1\n//! arg: x = [0]\n//! expect: x = [1]\n" + KERNEL)
    Path("many.tc").write_text(KERNEL.replace("int* y", ", ".join(
        f"int* {name}" for name in ["y", *(f"p{i}" for i in range(512))])))
    Path("tunable.tc").write_text("const tunable int T;\n" + KERNEL.replace("1;", "T;"))


@pytest.mark.parametrize("arguments, code, text", [
    # what cannot be read
    ("none.tc", 1, "tritonc: error: cannot read 'none.tc': No such file"),
    ("dangling.tc", 1, "tritonc: error: cannot read 'dangling.tc': No such file"),
    ("folder.tc", 1, "tritonc: error: cannot read 'folder.tc': Is a directory"),
    (".", 1, "tritonc: error: cannot read '.': Is a directory"),
    ("info /", 1, "tritonc: error: cannot read '/': Is a directory"),
    ("good.tc/x.tc", 1, "tritonc: error: cannot read 'good.tc/x.tc': Not a directory"),
    ("empty.tc", 1, "empty.tc:1:1: error: there is no kernel here"),
    ("blank.tc", 1, "error: there is no kernel here"),
    ("garbage.tc", 1, "garbage.tc:2:118: error: byte 0x80 is not UTF-8"),
    ("zeros.tc", 1, "zeros.tc:1:1: error: stray character"),
    ("latin.tc", 1, "latin.tc:1:7: error: byte 0xe9 is not UTF-8"),
    ("utf16.tc", 1, "utf16.tc:1:1: error: byte 0xff is not UTF-8"),
    ("empty.tir", 1, "empty.tir:1:1: error: there is no kernel here: `kernel @name"),
    ("source.tir", 1, "source.tir:1:8: error: expected the kernel's @name, found 'void'"),
    ("ir.tc", 1, "ir.tc:1:12: error: expected ';' after expression, found '{'"),
    ("loop.tc", 1, "loop.h:1:10: error: "),
    ("-include none.h good.tc", 1,
     "good.tc:1:1: error: 'none.h', to be included first, does not exist"),
    # what cannot be written
    ("good.tc -o good.tc", 2, "the output 'good.tc' is the source itself"),
    ("good.tc -o ./good.tc", 2, "the output './good.tc' is the source itself"),
    ("link.tc -o good.tc", 2, "the output 'good.tc' is the source itself"),
    ("good.tc -MD -MF good.tc -o x.ptx", 2, "the output 'good.tc' is the source itself"),
    ("good.tc -S -o folder.tc", 1, "cannot write 'folder.tc': Is a directory"),
    ("good.tc -o none/x.ptx", 1, "cannot write 'none/x.ptx': No such file or directory"),
    # what does not exist
    ("good.tc --tune T=3", 1, "error: there is no tunable 'T'"),
    ("tunable.tc", 1, "tunable.tc:1:19: error: tunable 'T' has no list of values, so one must be "
                      "given: --tune T="),
    ("good.tc --arch=", 2, "there is no target ''; targets: sm_60"),
    ("good.tc --header=", 1, "cannot write ''"),
    ("good.tc --arch=hopper", 2, "there is no target 'hopper'; targets: sm_60"),
    ("good.tc --arch=sm90a", 2, "there is no target 'sm90a'; did you mean sm_90a? targets: "),
    ("good.tc --arch=sm_90 -mptx=7", 2, "sm_90 cannot be written in PTX 7; versions for sm_90: "),
    ("good.tc -Werror=flaot-to-int", 2, "no warning 'flaot-to-int'; did you mean 'float-to-int'?"),
    ("good.tc --stop-after=licmm", 2, "there is no pass 'licmm'; did you mean 'licm'?"),
    ("good.tc --emit=pttx", 2, "there is no kind of output 'pttx'; did you mean 'ptx'?"),
    ("good.tc --aarch=sm_80", 2, "unknown option '--aarch'; did you mean '--arch'?"),
    ("good.tc -fbar", 2, "unknown option '-fbar'; --help=all lists the options"),
    ("--explain uninitialised", 2, "there is no diagnostic 'uninitialised'; did you mean "),
    ("good.tc -x c", 2, "'c' is not one of"),
    ("source.tir -E", 1, "a .tir source has no output 'i'"),
    # macros of the command line
    ("good.tc -D3", 1, "-D3: expected NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE"),
    ("good.tc -Df(=1", 1, "-Df(=1: expected NAME"),
    ("good.tc -Df=2", 1, "good.tc:1:13: error: expected a name after 'void', found '2'"),
    # run
    ("run none.tc", 1, "cannot read 'none.tc': No such file"),
    ("run good.tc", 1, "'good.tc' states no problem to run"),
    ("many.tc", 1, "take 4104 bytes; sm_80 in PTX 7.5 takes 4096 at most"),
    ("run problem.tc --kernel g", 1, "no problem is about kernel 'g'; there are problems of f"),
    ("good.cubin", 1, "'good.cubin' is machine code, not a source"),
    ("run good.tc --set N", 2, "--set takes NAME=INTEGER, not 'N'"),
])  # fmt: skip
def test_commands(arguments: str, code: int, text: str) -> None:
    before = sorted(os.listdir())
    done = tritonc(*arguments.split())
    assert done.code == code, done
    assert text in done.err and "Traceback" not in done.err, done.err
    assert not done.out and sorted(os.listdir()) == before
    assert Path("good.tc").read_text() == KERNEL


@pytest.mark.parametrize("body, place, text, note", [
    ("*(x + r + 1) = r;", "8:1", "store out of bounds: element [7] writes 4 bytes at x + 64",
     "this access has no mask"),
    ("@(r > 0) *(x - r) = r;", "8:10", "store out of bounds: element [1] writes 4 bytes at x - 4",
     "in instance (0) of kernel 'f'"),
    ("*(x + r) = *(x + r * 8);", "8:12", "load out of bounds: element [2] reads", "instance (0)"),
    ("*(x + r) = r / n;", "8:12", "division by zero", "instance (0)"),
    ("*(x + r) = r % n;", "8:12", "division by zero", "instance (0)"),
    ("int u; if (n) u = 1; *x = u;", "8:22", "the value stored here is undefined",
     "it was never assigned"),
    ("int u[8] = *?(r > 3)(x + r); *(x + r) = u;", "8:30",
     "element [0] of the value stored here is undefined", "this load was masked off there"),
    ("*(x + r) = 1 << (n + 32);", "8:1", "the value stored here is undefined",
     "it was shifted past the width"),
    ("int u; if (n) u = 1; if (u) *x = 1;", "8:26", "the condition of this branch is undefined",
     "it was never assigned"),
    ("assume(n > 0);", "8:1", "assume", "instance (0)"),
    ("assert(n > 0, \"n is positive\");", "8:1", "n is positive", "instance (0)"),
    ("n = multiple_of(n + 3, 4); *x = n;", "8:5", "multiple", "instance (0)"),
    ("while (true) n = n + 1;", "8:8", "a loop that does not end?", "instance (0)"),
    ("*(long*)(x + 1) = 1;", "8:1", "misaligned store: ", "instance (0)"),
])  # fmt: skip
def test_programs_that_go_wrong(body: str, place: str, text: str, note: str) -> None:
    Path("wrong.tc").write_text(PROBLEM + body + "\n}\n")
    done = tritonc("run", "wrong.tc", "--max-steps=10000")
    assert done.code == 1 and "Traceback" not in done.err
    first = done.err.split("\n")[0]
    assert first.startswith(f"wrong.tc:{place}: error: ") and text in first, done.err
    assert note in done.err


def test_every_error_of_a_run_is_shown_up_to_the_limit() -> None:
    Path("many.tc").write_text("kernel void f() {\n" + "  a;\n".join(
        f"  b{i};\n" for i in range(30)) + "}\n")
    assert tritonc("many.tc", "-ferror-limit=3").err.count("error:") == 3
    assert tritonc("many.tc").err.count("error:") == 20
    assert tritonc("many.tc", "-ferror-limit=0").err.count("error:") == 31


def test_diagnostics_without_colour_and_with(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in tritonc("empty.tc").err
    assert "\x1b[" in tritonc("empty.tc", "-fdiagnostics-color=always").err
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert "\x1b[" in tritonc("empty.tc").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in tritonc("empty.tc", "-fdiagnostics-color=never").err
