"""Tuning files: text, choice of an entry, and what a compilation makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import tritonc

from tritonc import stages
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile
from tritonc.tune.tuning_file import (
    Entry,
    beside,
    is_stale,
    lookup,
    merge,
    parse,
    render,
    source_hash,
)

ADD = """\
const tunable int T = {32, 64, 128};
kernel void add(float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""


def hash_of(text: str, **options: tuple[str, ...]) -> str:
    done = stages.preprocess(SourceFile("add.tc", text), Options(**options), Diagnostics())
    return source_hash(done.tokens)


ENTRY = Entry("add", "sm_80", {"N": 1000}, (), hash_of(ADD), "Test GPU", 1.5,
              {"T": 32, "num_warps": 2})


def sized(**size: int) -> Entry:
    return ENTRY._replace(size=size)


def test_text_is_read_back_sorted_and_one_fact_on_a_line() -> None:
    entries = [sized(N=2, M=1), sized(M=1, N=1)]
    text = render(entries)
    assert parse(text, "x") == [entries[1], entries[0]]
    assert json.loads(text)["format"] == 1 and '      "size": {"M": 1, "N": 1},\n' in text
    assert render(parse(text, "x")) == text and parse(render([]), "x") == []


def test_comments_do_not_matter_but_macros_do() -> None:
    assert hash_of("// a comment\n" + ADD.replace("int r", "int /* x */ r")) == hash_of(ADD)
    assert hash_of(ADD, defines=("T=7",)) != hash_of(ADD) != hash_of(ADD.replace("+ 1", "+ 2"))


@pytest.mark.parametrize("asked, found", [
    ({"N": 1000}, 1024), ({"N": 90}, 64), ({"N": 256}, 64), ({"N": 1 << 30}, 1024), ({}, 1024),
    ({"M": 5}, 64), ({"N": 0}, 64),
])
def test_nearest_size(asked: dict[str, int], found: int) -> None:
    entries = [sized(N=1024), sized(N=64)]
    assert lookup(entries, ENTRY.source, "sm_80", asked)["add"].size == {"N": found}
    assert lookup(entries, ENTRY.source, "sm_90a", asked) == {}


def test_new_entries_replace_what_they_measure_again() -> None:
    other = ENTRY._replace(defines=("X",), source="0")
    newer = ENTRY._replace(source="1", milliseconds=1.0)
    assert merge([ENTRY, other, sized(N=1)], [newer]) == [other, sized(N=1), newer]
    assert is_stale([ENTRY, other], "1", "sm_80", ()) and not is_stale([other], "1", "sm_80", ())
    assert not is_stale([ENTRY, newer], "1", "sm_80", ())


@pytest.mark.parametrize("text, message", [
    ("{", "not a tuning file"), ("[]", "format 1"), ('{"format": 1}', "no list"),
    ('{"format": 1, "entries": [{}]}', "entry 1 has no valid 'kernel'"),
    (render([ENTRY]).replace("32", "1.5"), "'tunables' holds integers"),
    ("[" * 100000, "not a tuning file"),
])
def test_wrong_files(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(text, "x.tune.json")
    assert message in str(caught.value)


# --- compiling ---


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.tc").write_text(ADD)
    Path(beside("add.tc")).write_text(render([ENTRY, sized(N=9)._replace(tunables={"T": 64})]))


def kernel_of(*arguments: str) -> dict[str, object]:
    done = tritonc("add.tc", "--emit=manifest", "-o-", *arguments)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    return {"tuning": found.get("tuning"), "threads": found["kernels"][0]["threads"],
            **found["kernels"][0]["tunables"]}


def test_the_file_beside_the_source_is_used() -> None:
    expected = {"tuning": "add.tune.json", "T": 32, "num_warps": 2, "threads": 64}
    assert kernel_of() == expected
    assert kernel_of("--set", "N=8")["T"] == 64
    assert kernel_of("--tune=T=128,num_warps=1") == {
        "tuning": None, "T": 128, "num_warps": 1, "threads": 32}
    assert kernel_of("--tuning=none")["tuning"] is None
    assert kernel_of("--arch=sm_90a")["tuning"] is None
    Path("add.tune.json").rename("other.json")
    assert kernel_of()["tuning"] is None
    assert kernel_of("--tuning=other.json") == {**expected, "tuning": "other.json"}


def test_it_is_told_and_a_dependency() -> None:
    done = tritonc("add.tc", "-o", "add.ptx", "-MD", "-v")
    assert "tunable T = 32 (add.tune.json: add N=1000 on Test GPU)" in done.err
    assert "meta-parameter num_warps = 2 (add.tune.json" in done.err
    assert "add.tune.json" in Path("add.d").read_text()
    assert "add.tune.json" in tritonc("add.tc", "-M").out


def test_a_stale_file_is_told() -> None:
    Path("add.tc").write_text(ADD.replace("+ 1", "+ 2"))
    done = tritonc("add.tc", "-o", "add.ptx")
    assert done.code == 0
    assert "warning: 'add.tune.json' was measured with a different version" in done.err
    assert tritonc("add.tc", "-o", "add.ptx", "-Werror=stale-tuning").code == 1
    assert tritonc("add.tc", "-o", "add.ptx", "-DUNUSED").err == ""
    assert kernel_of("-Wno-stale-tuning")["tuning"] is None


@pytest.mark.parametrize("arguments, message", [
    (["--tune=num_warps=3"], "num_warps (choose_warps) can be 1, 2, 4, 8 or 16"),
    (["--tune=warps=4"], "meta-parameters are num_warps, "),
    (["--tuning=missing.json"], "cannot read 'missing.json'"),
    (["--tuning=add.tc"], "'add.tc' is not a tuning file"),
])
def test_wrong_use(arguments: list[str], message: str) -> None:
    done = tritonc("add.tc", "-o", "add.ptx", *arguments)
    assert done.code == 1 and message in done.err and "Traceback" not in done.err
