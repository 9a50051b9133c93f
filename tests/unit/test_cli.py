"""The command line: options, outputs, dependencies, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import tritonc

from tritonc import outputs
from tritonc.cli import compile_command, run_command
from tritonc.llvm_version import llvm_version

ADD = """\
const tunable int T = {32, 64};
kernel void add(float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""
IR = """\
kernel @fill(i32* %y) {tile = [4]} {
entry:
  %r = get_global_range {axis = 0, extent = 4} : i32<4>
  %ys = splat %y : i32*<4>
  %py = addptr %ys, %r : i32*<4>
  store %py, %r
  ret
}
"""


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.tc").write_text(ADD)
    Path("fill.tir").write_text(IR)


# --- spellings ---


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the commands were called with, which do nothing."""
    calls: list[dict[str, Any]] = []

    def record(name: str) -> Any:
        return lambda files, **given: calls.append({"": name, "files": files, **given})

    monkeypatch.setattr(compile_command, "compile_command", record("compile"))
    monkeypatch.setattr(run_command, "run_command", record("run"))
    return calls


@pytest.mark.parametrize("typed, name, value", [
    ("-O2", "opt_level", "2"), ("-O", "opt_level", "1"), ("--optimize=0", "opt_level", "0"),
    ("-DX=1", "defines", ("X=1",)), ("-D X", "defines", ("X",)), ("--define=X", "defines", ("X",)),
    ("-DX -UX --define Y -U Y", "defines", ("X", "-UX", "Y", "-UY")),
    ("-I dir", "include_dirs", ("dir",)), ("-isystemdir", "system_dirs", ("dir",)),
    ("-o-", "output", "-"), ("-o --help", "output", "--help"),
    ("-Wno-x -w", "warnings", ("no-x", "no-all")), ("-Werror=x", "warnings", ("error=x",)),
    ("-arch=sm_90a", "arch", "sm_90a"), ("-arch sm_75", "arch", "sm_75"),
    ("-S --emit=ll -c", "emit", ("ptx", "ll", "cubin")),
    ("-ffast-math", "fast_math", True), ("-fno-fast-math", "fast_math", False),
    ("-fno-fast-math --fast-math", "fast_math", True), ("-v", "verbose", True),
    ("-ffp-contract=off", "fp_contract", "off"), ("-fdiagnostics-color", "color", "always"),
    ("--remarks", "remarks", "-"), ("--remarks=r.json", "remarks", "r.json"),
    ("-MD", "depend", "MD"), ("-MMD", "depend", "MMD"), ("-MM", "depend", "MM"),
    ("-MF f", "depend_file", "f"),
])  # fmt: skip
def test_spellings(typed: str, name: str, value: object, called: list[dict[str, Any]]) -> None:
    assert tritonc(*typed.split(), "a.tc") == (0, "", "")
    assert called[0][""] == "compile" and called[0]["files"] == ("a.tc",)
    assert called[0][name] == value


@pytest.mark.parametrize("typed, name, files", [
    ("-v run a.tc", "run", "a.tc"), ("-o run a.tc", "compile", "a.tc"),
    ("-Ddir -v run -- a.tc -b", "run", "a.tc -b"), ("--remarks a.tc", "compile", "a.tc"),
    ("a.tc run", "compile", "a.tc run"), ("./run", "compile", "./run"), ("run run", "run", "run"),
    ("-- run", "compile", "run"), ("- -v", "compile", "-"),
])  # fmt: skip
def test_subcommand_is_the_first_word_that_is_no_option(
        typed: str, name: str, files: str, called: list[dict[str, Any]]) -> None:
    assert tritonc(*typed.split()) == (0, "", "")
    assert called[0][""] == name and called[0]["files"] == tuple(files.split())
    assert called[0]["verbose"] == ("-v" in typed)


@pytest.mark.parametrize("arguments, text", [
    ("--arhc=sm_80 add.tc", "unknown option '--arhc'; did you mean '--arch'?"),
    ("-fno-such add.tc", "unknown option '-fno-such'"),
    ("--emit=ptxx add.tc", "did you mean 'ptx'?"),
    ("-o", "option '-o' needs a value FILE"),
    ("-S=1 add.tc", "option '-S' takes no value"),
    ("-gv add.tc", "unknown option '-gv'"),
    ("-x=tc add.tc", "unknown option '-x'"),
    ("-bogus run add.tc", "unknown option '-bogus'"),
    ("-O7 add.tc", "'7' is not one of"),
    ("--tune=T add.tc", "--tune takes NAME=INTEGER, not 'T'"),
    ("--tune=T=x add.tc", "--tune takes NAME=INTEGER"),
    ("", "no input file"),
    ("add.tc fill.tir", "one input file at a time"),
    ("rnu add.tc", "did you mean the command 'run'?"),
    ("add.tc -o add.tc", "the output 'add.tc' is the source itself"),
    ("add.tc --emit=ptx,ll -o - -o-", "cannot share standard output"),
    ("add.tc --print-after=css", "did you mean 'cse'?"),
    ("add.tc --stop-after=all", "there is no pass 'all'"),
    ("add.tc -MF f", "-MF needs -MD or -M"),
    ("--explain no-such", "there is no diagnostic 'no-such'"),
    ("@none", "cannot read response file 'none'"),
    ("run", "no input file"),
    ("run --emit=ptx add.tc", "unknown option '--emit'"),
    ("run --device=gpu add.tc", "'gpu' is not one of"),
    ("--arch=sm_91 add.tc", "there is no target 'sm_91'; did you mean sm_90"),
    ("-arch=sm_80 -mptx=1.0 add.tc", "cannot be written in PTX 1.0; versions for sm_80:"),
    ("-Wno-such add.tc", "there is no warning 'such'"),
    ("run --arch=sm_91 add.tc", "there is no target 'sm_91'"),
    ("-ferror-limit=-1 add.tc", "-1 is not in the range"),
])  # fmt: skip
def test_wrong_command_lines_exit_2(arguments: str, text: str) -> None:
    done = tritonc(*arguments.split())
    assert done.code == 2 and text in done.err and not done.out
    assert sorted(os.listdir()) == ["add.tc", "fill.tir"]


def test_response_files_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("args").write_text("-DX='a b' @more\n")
    Path("more").write_text('"add.tc"')
    monkeypatch.setenv("TRITONC_FLAGS", "-E -DY=3")
    Path("add.tc").write_text("X Y\n")
    assert tritonc("@args").out.endswith("\na b 3\n")
    Path("more").write_text("@args")
    assert "does 'args' name itself?" in tritonc("@args").err


# --- information ---


def test_version_is_that_of_the_library() -> None:
    import llvmlite.binding

    assert llvm_version() == ".".join(map(str, llvmlite.binding.llvm_version_info))
    assert re.fullmatch(r"tritonc \d+\.\d+\.\d+ \(llvm \d+\.\d+\.\d+\)\n", tritonc("--version").out)


def test_help_lists_options_and_the_default_target() -> None:
    done = tritonc("--help")
    assert done.code == 0 and "--arch=NAME" in done.out and "Default: sm_80" in done.out
    assert all(len(line) <= 100 for line in done.out.splitlines())
    assert "--set=NAME=VALUE" in tritonc("run", "--help").out


def test_lists() -> None:
    assert "sm_90a" in tritonc("--list-targets").out
    passes = tritonc("--list-passes").out
    assert passes.startswith("lower ") and "\nlicm " in passes
    assert "problem-syntax" in tritonc("--explain", "list").out
    assert "(error)" in tritonc("--explain", "problem-syntax").out


# --- reading ---


def test_standard_input_and_output() -> None:
    done = tritonc("-E", "-DX=5", "-", stdin=b"X\n")
    assert done == (0, '# 1 "<stdin>"\n5\n', "")


@pytest.mark.parametrize("name, content, text", [
    ("none.tc", None, "cannot read 'none.tc': No such file"),
    ("bad.tc", b"int \xff\x00", "bad.tc:1:5: error: byte 0xff is not UTF-8"),
    ("open.tc", b"/* int", "open.tc:1:1: error:"),
    ("add.tir", b"kernel @f( {", "add.tir:1:"),
])  # fmt: skip
def test_unreadable_sources_exit_1(name: str, content: bytes | None, text: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    done = tritonc(name, "-o", "out.ptx")
    assert done.code == 1 and text in done.err and not Path("out.ptx").exists()


def test_json_diagnostics() -> None:
    import json

    Path("bad.tc").write_text("/* int")
    (item,) = json.loads(tritonc("bad.tc", "-fdiagnostics-format=json").err)
    assert item["kind"] == "error"
    assert tritonc("-E", "add.tc", "-fdiagnostics-format=json").err == "[]\n"


# --- writing ---


def test_outputs_are_whole_or_not_there() -> None:
    done = tritonc("fill.tir", "-o", "no/such/dir.tir")
    assert done.code == 1 and "cannot write 'no/such/dir.tir': No such file" in done.err
    Path("old.tir").write_text("old")
    Path("bad.tir").write_text("kernel")
    assert tritonc("bad.tir", "-o", "old.tir").code == 1
    assert sorted(os.listdir()) == ["add.tc", "bad.tir", "fill.tir"]


def test_what_the_source_reads_is_not_removed() -> None:
    Path("c.h").write_text("}")
    Path("bad.tc").write_text('#include "c.h"\n')
    assert tritonc("bad.tc", "--emit=tir", "-o", "c.h").code == 1
    Path("c.h").write_text("kernel void f() {}")
    done = tritonc("bad.tc", "--emit=tir", "-o", "c.h")
    assert done.code == 1 and "a file that the source reads" in done.err
    assert Path("c.h").read_text() == "kernel void f() {}"


def test_a_failed_rename_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError):
        outputs.write_all({"a": "1", "b": "2"})
    assert sorted(os.listdir()) == ["add.tc", "fill.tir"]


def test_outputs_keep_links_and_permissions() -> None:
    Path("real").write_text("")
    os.chmod("real", 0o640)
    os.symlink("real", "link")
    outputs.write_all({"link": "text", "/dev/null": "text"})
    assert Path("real").read_text() == "text" and os.path.islink("link")
    assert os.stat("real").st_mode & 0o777 == 0o640


def test_syntax_only_writes_nothing() -> None:
    assert tritonc("-fsyntax-only", "fill.tir") == (0, "", "")
    assert sorted(os.listdir()) == ["add.tc", "fill.tir"]


def test_ir_goes_in_and_out() -> None:
    assert tritonc("fill.tir", "--stop-after=lower", "-o", "-").out == IR
    assert tritonc("fill.tir", "--stop-after=lower").code == 2  # it would replace the source
    done = tritonc("-x", "tir", "-", "--emit=tir", "-o", "-", stdin=IR.encode())
    assert done.code == 0 and "kernel @fill" in done.out


def test_printing_between_passes() -> None:
    done = tritonc("fill.tir", "--emit=tir", "-o", "-", "--print-after=lower", "--print-after=cse",
                   "--print-before=cse")
    titles = re.findall(r"^// \*\*\* (.*), kernel fill \*\*\*$", done.err, re.MULTILINE)
    assert titles == ["after lower", "before cse", "after cse"]


# --- dependencies ---


def test_dependency_rules() -> None:
    Path("one.h").write_text("#define ONE 1\n")
    Path("a b.tc").write_text('#include "one.h"\nconst int X = ONE;\n')
    done = tritonc("-M", "-MP", "a b.tc", "-MT", "x$y", "-MQ", "x$y")
    assert done.out == "x$y x$$y: \\\n  a\\ b.tc \\\n  one.h\n\none.h:\n"
    assert tritonc("-E", "-MD", "a b.tc", "-o", "out.i").code == 0
    assert Path("out.d").read_text() == "out.i: \\\n  a\\ b.tc \\\n  one.h\n"


def test_quoting_for_make() -> None:
    assert outputs.quote_for_make(r"a\ b") == r"a\\\ b"
    assert outputs.quote_for_make("C:/x") == "C:/x" and outputs.quote_for_make("a:b") == r"a\:b"
    assert outputs.quote_for_make("50%", target=True) == r"50\%"


def test_make_reads_the_rule(tmp_path: Path) -> None:
    """Names that need quotes come back as they were."""
    names = ["plain.h", "with space.h", "dollar$.h", "hash#.h"]
    for name in names:
        Path(name).write_text("")
    rule = outputs.dependency_rule(["target"], names, phony=True)
    Path("Makefile").write_text(rule + "\ntarget:\n\t@printf '%s\\n' $(foreach f,$^,.)\n")
    done = subprocess.run(["make", "-s"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    Path("with space.h").unlink()
    assert subprocess.run(["make", "-s"], capture_output=True).returncode == 0


# --- exit codes ---


def test_a_bug_exits_70_and_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc.ir.syntax import parse

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(parse, "parse_module", broken)
    done = tritonc("fill.tir", "-fsyntax-only")
    assert done.code == 70
    assert "internal error in parse: ZeroDivisionError: deep inside" in done.err
    assert "Traceback" not in done.err and "report it" in done.err
    assert "Traceback" in tritonc("fill.tir", "-fsyntax-only", "-v").err


def test_a_bug_of_a_command_exits_70(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc.cli import info_command

    monkeypatch.setattr(info_command.console, "only_file", lambda files: files[7])
    done = tritonc("info", "add.tc")
    assert done.code == 70
    assert "internal error in the driver: IndexError" in done.err and "report it" in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["--list-passes", "run one.tc"])  # the second has NumPy
def test_a_full_disk_is_no_bug(arguments: str) -> None:
    Path("one.tc").write_text(ONE)
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "tritonc", *arguments.split()], stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        1, "tritonc: error: cannot write output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_messages_that_cannot_be_written_are_no_bug() -> None:
    Path("wrong.tc").write_text("x")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "tritonc", "wrong.tc"], stderr=full)
    assert done.returncode == 1


ONE = ("//! range: 1\n//! arg: x = zeros(1)\n//! expect: x = ones(1)\n"
       "kernel void one(float* x) { *x = 1; }\n")
CLOSED = "exec 1>&-; exec \"$@\""  # a shell's way to start a program with no standard output


@pytest.mark.parametrize("arguments", ["--version", "--help", "add.tc -o -", "run one.tc",
                                       "-E add.tc -o -", "info add.tc"])
def test_a_closed_output_is_no_bug(arguments: str) -> None:
    """What cannot be written is said, and does not count as done."""
    Path("one.tc").write_text(ONE)
    done = subprocess.run(["sh", "-c", CLOSED, "sh", sys.executable, "-m", "tritonc",
                           *arguments.split()], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        1, "tritonc: error: cannot write output: Bad file descriptor\n")


@pytest.mark.parametrize("path, reason", [
    ("/dev/zero", "not a regular file"), ("pipe.tc", "not a regular file"),
    ("folder.tc", "Is a directory"), ("huge.tc", "are too many for a source")])
def test_what_is_no_regular_file_is_not_read(path: str, reason: str) -> None:
    os.mkfifo("pipe.tc")
    Path("folder.tc").mkdir()
    with open("huge.tc", "wb") as file:
        file.truncate(6 << 30)
    Path("includes.tc").write_text(f'#include "{path}"\n')
    for name in (path, "includes.tc"):
        done = tritonc(name, "-o", "-")
        assert done.code == 1 and (reason in done.err or "was not found" in done.err), name


def test_the_null_device_is_an_empty_source() -> None:
    assert tritonc("-E", os.devnull, "-o", "-").code == 0


def test_a_broken_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc import pass_manager, passes

    def broken(kernel: object, context: object) -> bool:
        raise KeyError("x")

    monkeypatch.setattr(passes, "OPT", [pass_manager.Pass("broken", broken, "For the test.")])
    done = tritonc("fill.tir", "--emit=tir", "-o", "-")
    assert done.code == 70 and "in pass 'broken' of kernel 'fill': KeyError" in done.err


def test_interrupts_exit_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from tritonc.ir.syntax import parse

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(parse, "parse_module", interrupted)
    assert tritonc("fill.tir", "-fsyntax-only").code == 130


def test_a_closed_pipe_is_silent() -> None:
    command = f"{sys.executable} -m tritonc.cli.main --help | head -1"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("Usage") and done.stderr == ""




def test_remarks_go_to_a_file() -> None:
    done = tritonc("add.tc", "--remarks=r.json", "-o", "out.ptx")
    assert done.code == 0 and "remark" not in done.err
    found = json.loads(Path("r.json").read_text())
    assert {row["kind"] for row in found} == {"remark"} and found[0]["locations"]
    assert tritonc("add.tc", "--remarks=out.ptx", "-o", "out.ptx").code == 2
    assert tritonc("add.tc", "--remarks=add.tc").code == 2
