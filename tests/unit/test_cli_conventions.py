"""What users of other compilers expect of a command line: help, temporaries, remarks, paths."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command import tritonc

from tritonc import __version__

ADD = """\
kernel void add(float* x, float* y, int n) {
  int r[64] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.tc").write_text(ADD)


def test_help_is_short_long_or_of_a_topic() -> None:
    short, everything = tritonc("--help").out, tritonc("--help=all").out
    assert len(short) < len(everything) / 2 and "  bench  " in short
    assert "-ferror-limit" in everything and "-ferror-limit" not in short
    topic = tritonc("run", "--help=prep").out
    assert topic.startswith("Preprocessor:\n  -D") and "--arch" not in topic
    assert "did you mean 'target'?" in tritonc("--help=targt").err
    assert tritonc("-dumpversion").out == f"{__version__}\n"


@pytest.mark.parametrize("arguments, text", [
    ("add.tc -o x.cubn", "the suffix of 'x.cubn' names no kind of output; did you mean '.cubin'?"),
    ("add.tc -Ofast", "'-O': 'fast' is not one of"),
    ("add.tc -Rpass-missed=[", "-Rpass-missed: '[' is not a regular expression: unterminated"),
    ("tset", "there is no file 'tset'; did you mean the command 'test'?"),
    ("help", "there is no file 'help'; did you mean --help?"),
    ("add.tc --start-after=cse", "--start-after continues with a .tir file"),
    ("add.tc -ffile-prefix-map=a", "-ffile-prefix-map takes OLD=NEW, not 'a'"),
    ("add.tc --arch=sm_80,sm_90a -S", "several targets go into a fatbin"),
    ("info x.cubin", "cannot read 'x.cubin': machine code does not say"),
])  # fmt: skip
def test_wrong_command_lines(arguments: str, text: str) -> None:
    done = tritonc(*arguments.split())
    assert done.code == (1 if arguments.startswith("info") else 2) and text in done.err


def test_temporaries_are_kept_beside_the_output() -> None:
    assert tritonc("add.tc", "-o", "out.ptx", "--save-temps").code == 0
    assert {*os.listdir()} == {"add.tc", "out.i", "out.tir", "out.ll", "out.ptx"}
    os.rename("out.tir", "back.tir")
    assert tritonc("back.tir", "-save-temps").code == 0  # which is not written over
    assert {*os.listdir()} >= {"back.ll", "back.ptx"} and not Path("back.i").exists()


def test_a_dry_run_writes_nothing() -> None:
    Path("ptxas").write_text("")
    Path("ptxas").chmod(0o755)
    done = tritonc("-###", "-c", "add.tc", "--arch=sm_90a", "--ptxas=./ptxas",
                   "-MD", "-ftime-trace=t.json")
    assert done.out == (f"tritonc {__version__}, target sm_90a\nread add.tc\nrun ./ptxas\n"
                        "write add.cubin (cubin)\nwrite add.d\nwrite t.json\n")
    assert {*os.listdir()} == {"add.tc", "ptxas"}


def test_several_targets_make_a_fatbin() -> None:
    Path("ptxas").write_text("")
    Path("fatbinary").write_text("")
    for tool in ("ptxas", "fatbinary"):
        Path(tool).chmod(0o755)
    done = tritonc("--dry-run", "add.tc", "--arch=sm_80,sm_90a", "--ptxas=./ptxas")
    assert done.out.endswith("write add.fatbin (fatbin)\n")


def test_remarks_of_passes_by_name() -> None:
    Path("add.tc").write_text(ADD.replace("*(x + r)", "*(x + r * 3)"))
    say = ("add.tc", "-o", os.devnull)
    done, missed = tritonc(*say, "-Rpass").err, tritonc(*say, "-Rpass-missed").err
    assert "[vectorize]" in missed and "[vectorize]" not in done
    assert tritonc(*say, "-Rpass-missed=^licm").err == ""
    assert sorted([*done.splitlines(), *missed.splitlines()]) == sorted(
        tritonc(*say, "--remarks").err.splitlines())


def test_only_changes_are_printed() -> None:
    shown = tritonc("add.tc", "--print-changed", "-o", os.devnull).err
    assert "after lower, kernel add" in shown and "after pipeline" not in shown


@pytest.mark.parametrize("name", ["lower", "cse.2", "assign_layouts", "insert_barriers"])
def test_compiling_goes_on_after_any_pass(name: str) -> None:
    wanted = tritonc("add.tc", "-o-").out
    assert tritonc("add.tc", f"--stop-after={name}", "-o", "x.tir").code == 0
    assert tritonc("x.tir", f"--start-after={name}", "-o-").out == wanted
    layouts = name in ("assign_layouts", "insert_barriers")
    other = tritonc("x.tir", *([] if layouts else ["--start-after=pipeline"]), "-o-")
    assert other.code == 1 and f"kernel 'add' has {'layouts' if layouts else 'tiles'}" in other.err


def test_ir_with_tma_loads_says_all_of_it() -> None:
    given = ("--arch=sm_90a", "--tune=num_stages=2")
    Path("product.tc").write_text("""
      kernel void product(const half* a align(16), const half* b align(16), float* c) {
        int i[128] = get_global_range(0), j[64] = get_global_range(1), k[64] = 0 ... 64;
        float C[128, 64] = 0;
        for (int n = 0; n < 256; n += 64)
          C += dot(*(a + i[:, newaxis] * 256 + k + n), *(b + (k + n)[:, newaxis] * 64 + j));
        *(c + i[:, newaxis] * 64 + j) = C;
      }""")
    wanted = tritonc("product.tc", *given, "-o-").out
    assert "wgmma" in wanted
    assert tritonc("product.tc", *given, "--stop-after=specialize_warps", "-o", "x.tir").code == 0
    assert tritonc("x.tir", *given, "--start-after=specialize_warps", "-o-").out == wanted


def test_trace_of_times() -> None:
    assert tritonc("add.tc", "-ftime-trace=t.json", "-o", os.devnull).code == 0
    events = {event["name"]: event for event in json.loads(Path("t.json").read_text())}
    stage, inner = events["backend"], events["choose_warps"]
    assert stage["ts"] <= inner["ts"] <= inner["ts"] + inner["dur"] <= stage["ts"] + stage["dur"]


def test_subnormal_floats() -> None:
    for flags, flushed in ((), False), (("-fdenormal=flush",), True), (("-ffast-math",), True), (
            ("-ffast-math", "-fdenormal=ieee"), False):
        text = tritonc("add.tc", *flags, "-o-").out
        assert ("add.rn.ftz.f32" in text or "add.ftz.f32" in text) == flushed, flags


def test_sarif() -> None:
    Path("a dir").mkdir()
    Path("a dir/bad.tc").write_text("#define A b\nkernel void f(int* p) { *p = A + q; }\n")
    log = json.loads(tritonc("a dir/bad.tc", "-fdiagnostics-format=sarif").err)
    (run,) = log["runs"]
    first, _ = run["results"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["fullDescription"]["text"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20dir/bad.tc"}, "region": {
        "startLine": 2, "startColumn": 30, "endLine": 2, "endColumn": 31}}
    assert "macro 'A'" in first["relatedLocations"][-1]["message"]["text"]


def test_directories_of_the_system() -> None:
    for folder in ("own", "system"):
        Path(folder).mkdir()
        Path(folder, f"{folder}.h").write_text("#define X 1\n#define X 2\n")
    Path("add.tc").write_text("#include <own.h>\n#include <system.h>\n#undef X\n" + ADD)
    done = tritonc("add.tc", "-I", "own", "-isystem", "system", "-MM")
    assert done.out == "add.ptx: \\\n  add.tc \\\n  own/own.h\n"
    assert "own/own.h:2:9: warning" in done.err and "system.h" not in done.err
    assert "system.h" in tritonc("add.tc", "-Iown", "-isystemsystem", "-M").out


def test_paths_in_the_output() -> None:
    Path("add.tc").write_text(ADD.replace("  int r", '  assert(n > 0, __FILE__);\n  int r'))
    here = f"{os.getcwd()}/add.tc"
    flags = ("-lineinfo", "--device-assert", "--emit=ll", "-o-")
    assert os.getcwd() in tritonc(here, *flags).out
    mapped = tritonc(here, *flags, f"-ffile-prefix-map={os.getcwd()}=/src").out
    assert os.getcwd() not in mapped and mapped.count("/src/add.tc") == 2
