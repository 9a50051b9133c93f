"""The tuner as a whole, on devices that are not there: files, reports, the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command import tritonc
from fake_gpu import BrokenGpu, FakeGpu, find_fake_gpus

from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile
from tritonc.tune.search import task as tasks
from tritonc.tune.search import tuner
from tritonc.tune.search.progress import ProgressLine
from tritonc.tune.search.sizes import expand, expand_all
from tritonc.tune.search.sizes import read as read_sizes
from tritonc.tune.search.space import can_run, search_space
from tritonc.tune.tuning_file import read, render

ROOT = Path(__file__).parents[2]
ADD = """\
//! size: N = 1000
//! range: N
//! arg: x = randn(N)
//! arg: y = randn(N)
//! arg: n = N
//! expect: y = x + 1
//! bench: N = 4096
//! bench: N = 1 << 20
//! flops: N
//! bytes: 8 * N
const tunable int T = {64, 128, 256};
kernel void add(float* x, float* y, int n) {
  int r[T] = get_global_range(0);
  @(r < n) *(y + r) = *(x + r) + 1;
}
"""


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.tc").write_text(ADD)


def request(**settings: object) -> tasks.Request:
    return replace(tasks.Request(SourceFile("add.tc", ADD), Options(), "add.tune.json"),
                   **settings)  # type: ignore[arg-type]


def run(asked: tasks.Request, out: io.StringIO | None = None) -> tuple[list[tuner.Choice], str]:
    site = find_fake_gpus(None, 1, 1.0)
    out = out or io.StringIO()
    task = tasks.prepare(asked, site.target, Diagnostics())
    return tuner.tune(asked, task, site, out), out.getvalue()


class Page(HTMLParser):
    """Tags that were opened and not closed, and what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [name for name, _ in attributes if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_from_source_to_files() -> None:
    """With candidates that hang, end their process, fail and compute something else."""
    choices, told = run(request(sizes=[{"N": 4096}], report="report.html"))
    assert [(c.size, c.best) for c in choices] == [({"N": 4096}, {"T": 128})]
    assert "took longer than 1 s" in told and "(signal 6)" in told
    assert "an illegal memory access" in told and "cannot run: 'y' is wrong" in told
    assert "with T=128" in told and "8.192" in told
    entries = read("add.tune.json")
    assert [e.size for e in entries] == [{"N": 4096}]
    assert entries[0].tunables == {"T": 128} and entries[0].device == "Fake GPU"
    page = Page()
    page.feed(Path("report.html").read_text())
    assert page.open == [] and page.loads == [] and page.count["svg"] == 3
    done = tritonc("add.tc", "-o", "add.ptx", "-v")
    assert "tunable T = 128 (add.tune.json: add N=4096 on Fake GPU)" in done.err

    again, told = run(request(sizes=[{"N": 4096}], report="report.html"))
    assert again == choices and "12 of 12 are measured already" in told
    assert Path("add.tune.json").read_text() == render(entries)


def test_being_interrupted_keeps_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: object, search: tuner.Search, record: object) -> None:
        if search.done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("tritonc.tune.search.progress.ProgressLine.finished", stop)
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        run(request(sizes=[{"N": 4096}]), out)
    assert "10 of 12 were not measured; run the same command again to continue" in out.getvalue()
    assert len(read("add.tune.json")) == 1
    assert len(Path("add.tune.journal").read_text().splitlines()) == 2


def test_a_portfolio_of_several_sizes(thorough: bool) -> None:
    """The fewest that are nearly the best everywhere: T = 256 is 3 % faster at small sizes.

    All are measured for the first portfolio, each size with as many kernels as one has; the others
    come from its journal.  With --thorough some candidates hang or end their process.
    """
    tune, small = ({}, (16, 32)) if thorough else ({"num_warps": 2}, (16,))
    cases = (0.02, 2, 256), (0.05, 1, 128), (0.0, 2, 256)
    for within, sets, first in cases[: 3 if thorough else 2]:
        told = check_portfolio(tune, (*small, 8192), within, sets, first)
        if within == 0.02:
            assert ("36 of 36 done, which are 9 different kernels" if thorough else
                    "6 of 6 done") in told, told


def check_portfolio(tune: dict[str, int], numbers: tuple[int, ...], within: float, sets: int,
                    first: int) -> str:
    sizes, bests = [{"N": n} for n in numbers], [*[first] * (len(numbers) - 1), 128]
    choices, told = run(request(options=Options(tune=tune), sizes=sizes, within=within,
                                report="report.html"))
    assert [c.best["T"] for c in choices] == bests
    values = f"{sets} set{'s' if sets > 1 else ''} of values"
    assert f"portfolio: {values} for {len(sizes)} sizes" in told
    worst = max(c.milliseconds / (c.fastest or c.milliseconds) for c in choices)
    assert worst <= 1 + max(within, 0)
    assert f"{len(sizes)} sizes, {sets} variants" in Path("report.html").read_text()
    assert [e.tunables["T"] for e in read("add.tune.json")] == bests
    (row,) = tritonc_manifest("add.tc", "--variants")["kernels"]
    assert len(row.get("variants", [])) == sets - 1
    if sets > 1:
        assert row["tunables"]["T"] == 128 and row["choice"]["sizes"] == [
            {"name": "N", "argument": 2}]
    return told


def tritonc_manifest(*arguments: str) -> Any:
    done = tritonc(*arguments, "--emit=manifest", "-o", "-")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("line, sizes", [
    ("N=5", [5]), ("N=1..8:x2", [1, 2, 4, 8]), ("N=1..6:x2", [1, 2, 4, 6]), ("N=7..7", [7]),
    ("N=8..20:+6", [8, 14, 20]), ("N=1..9", [1, 2, 4, 8, 9]),
    (" N = 0x10 .. 0x40 : x 4 ", [16, 64]), ("N=0..2:+1", [0, 1, 2])])
def test_grids(line: str, sizes: list[int]) -> None:
    assert expand(line) == [{"N": n} for n in sizes]


@pytest.mark.parametrize("line, why", [
    ("N", "none of them"), ("N=", "none of them"), ("N=1..", "none of them"), ("N=a", "not an"),
    ("N=8..1:x2", "less than"), ("N=0..8:x2", "the first value 1"), ("N=1..8:x1", "at least 2"),
    ("N=1..8:+0", "at least 1"), ("N=1,N=2", "twice"), ("N=1..100000:+1", "the limit is"),
    ("N=1..4000:+1,M=1..4000:+1", "the limit is"), ("N=1..2..3", "none of them")])
def test_grids_that_are_none(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expand(line)


def test_files_of_sizes(no_gpu: None) -> None:
    Path("sizes").write_text("# all\nN=16\n\nN=32..64:x2 # two\nN=16\n")
    assert expand_all(read_sizes("sizes")) == [{"N": 16}, {"N": 32}, {"N": 64}]
    assert tritonc("tune", "add.tc", "--sizes", "sizes").code == 3
    Path("empty").write_text("# nothing\n")
    Path("binary").write_bytes(b"\xff\xfe")
    for words, why in ((["--sizes=empty"], "has no size"), (["--sizes=none"], "cannot read 'none'"),
                       (["--sizes=binary"], "not text"), (["--within=-1"], "a percentage"),
                       (["--within=nan"], "a percentage"), (["--set", "N=1..5000:+1"], "limit")):
        done = tritonc("tune", "add.tc", *words)
        assert done.code == 2 and why in done.err, done.err


def test_a_gpu_that_cannot_be_opened() -> None:
    asked = request(sizes=[{"N": 4096}], report="report.html")
    site = replace(find_fake_gpus(None, 1, 1.0), open_device=BrokenGpu)
    task = tasks.prepare(asked, site.target, Diagnostics())
    with pytest.raises(CompileError, match=r"measure on Fake GPU: .*no memory is left"):
        tuner.tune(asked, task, site, io.StringIO())
    assert not Path("report.html").exists() and not Path("add.tune.json").exists()


def test_the_line_on_a_terminal_fits_into_it() -> None:
    """80 columns where the terminal does not say; one that wraps could not be written over."""
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    candidate = {f"parameter{number}": number for number in range(9)}
    search: Any = SimpleNamespace(
        done=1, total=2, sizes=[{}], slowed=0, started=0.0, budget=60.0,
        best=lambda size: SimpleNamespace(milliseconds=1.0, candidate=candidate))
    out = Terminal()
    ProgressLine(out).tick(search)
    assert len(out.getvalue()) == 80 and out.getvalue().startswith("\r[==========          ] 1/2")


def test_a_long_search_says_how_long_before_it_begins() -> None:
    out = io.StringIO()
    search: Any = SimpleNamespace(done=1, total=400, budget=float("inf"))
    ProgressLine(out).begins(search, 725.0)
    assert out.getvalue().startswith("at most 12:05 for 399 measurements")
    ProgressLine(out).begins(search, 5.0)
    assert out.getvalue().count("\n") == 1


def test_a_broken_tuning_file_is_told_before_measuring() -> None:
    Path("add.tune.json").write_text("{")
    with pytest.raises(CompileError):
        run(request())
    assert not Path("add.tune.journal").exists()


def test_what_was_measured_with_another_library_does_not_count(
        monkeypatch: pytest.MonkeyPatch) -> None:
    before, read_bytes = tuner._compiler(), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read_bytes(path) + b" " * (
        path.name == "gamma.tc"))
    assert tuner._compiler() != before


# --- the space ---


def test_the_default_comes_first_and_what_is_given_is_fixed() -> None:
    source = SourceFile("add.tc", ADD)
    space = search_space(source, Options(), "add")
    assert space.parameters == {"T": (64, 128, 256), "num_warps": (1, 2, 4, 8, 16)}
    assert space.candidates[0] == {"T": 256} and len(space.candidates) == 3 + 2 + 3 + 4
    space = search_space(source, Options(tune={"T": 64, "num_warps": 2}), "add")
    assert list(space.candidates) == [{}] and space.parameters == {}


def test_a_static_assert_prunes() -> None:
    """Whether the combinations that it forbids are beside the others or far from them."""
    for condition, left in (("T != 256", {64, 128}), ("T > 64", {128, 256})):
        text = ADD.replace("  int r", f'  static_assert({condition}, "no");\n  int r')
        space = search_space(SourceFile("add.tc", text), Options(), "add")
        assert {candidate["T"] for candidate in space.candidates} == left


def test_tunables_that_are_chosen_together() -> None:
    """Candidates are the rows, by number; a meta-parameter of rows is not tried by itself."""
    text = ADD.replace(
        "const tunable int T = {64, 128, 256};",
        "const tunable (T, num_warps) = {(64, 1), (128, 4)};")
    space = search_space(SourceFile("add.tc", text), Options(), "add")
    assert sorted(c["T_num_warps"] for c in space.candidates) == [0, 1]


@pytest.mark.parametrize("where, left", [
    ("T < 200 and num_warps == 4", [{"T": 128, "num_warps": 4}]),
    ("T == 64 or num_warps == 8", [
        {"T": 64}, *({"T": t, "num_warps": w} for t, w in ((64, 1), (64, 2), (256, 8)))]),
    ("np.maximum(T, 100) < 128 and num_warps >= 2", [{"T": 64, "num_warps": 2}]),
    ("T == 256 and not num_warps < 8", [{"T": 256, "num_warps": 8}])])
def test_a_condition_prunes(where: str, left: list[dict[str, int]]) -> None:
    """What a pass chooses is not known: a candidate of which the condition asks it is left out."""
    space = search_space(SourceFile("add.tc", ADD), Options(), "add", where=where)
    assert sorted(map(str, space.candidates)) == sorted(map(str, left))


def test_a_condition_knows_what_is_given_and_tunables_that_are_chosen_together() -> None:
    text = ADD.replace("const tunable int T = {64, 128, 256};", "const int W = 4;\n"
                       "const tunable (T, num_warps) = {(64, 1), (128, W), (256, W)};")
    source = SourceFile("add.tc", text)
    space = search_space(source, Options(), "add", where="num_warps == 4 and T > 128")
    assert list(space.candidates) == [{"T_num_warps": 2}]
    space = search_space(SourceFile("add.tc", ADD), Options(tune={"num_warps": 2}), "add",
                         where="T / num_warps <= 64")
    assert {candidate["T"] for candidate in space.candidates} == {64, 128}


@pytest.mark.parametrize("where, error", [
    ("T <", "--where:1:1: error: not an expression: invalid syntax"),
    ("T * TN < 9", "--where:1:5: error: 'TN' is no parameter of this search; did you mean 'T'?"),
    ("T < 9 and min(T) == 1", "--where:1:11: error: 'min' is no parameter"),
    ("T == 64 or T.x", "--where:1:12: error: "), ("", "--where:1:1: error: one expression"),
    ("T", "--where:1:1: error: a condition is true or false, and not 256"),
    ("T > 256", "--where:1:1: error: no candidate satisfies this condition")])
def test_wrong_conditions(where: str, error: str, no_gpu: None) -> None:
    done = tritonc("tune", "add.tc", "--where", where)
    assert done.code == 1 and error in done.err, done.err
    assert not list(Path().glob("*.tune.*"))


def test_the_first_of_each_tile_is_measured_before_others_are_compared() -> None:
    space = search_space(SourceFile("add.tc", ADD), Options(), "add")
    portions = space.portions()
    assert [len(portion) for portion in portions[:4]] == [1, 4, 1, 3]
    assert portions[0] == [space.candidates[0]]
    assert sum(map(len, portions)) == len(space.candidates)


@pytest.mark.parametrize("arch, element, names", [
    ("sm_80", "float", {"group", "min_blocks", "num_warps", "slices"}),
    ("sm_80", "half", {"group", "num_stages", "num_warps", "slices"}),
    ("sm_90a", "half", {"cluster_k", "continued", "producer", "group", "num_stages", "num_warps",
                        "persistent", "slices", "tma_load", "tma_store", "pingpong",
                        "wgmma"}),
])
def test_meta_parameters_that_apply(arch: str, element: str, names: set[str]) -> None:
    text = (ROOT / "samples" / "matmul.tc").read_text().replace("float", element)
    text = text.replace(f"{element} C[TM", "float C[TM")
    space = search_space(SourceFile("m.tc", text), Options(arch=arch), "matmul")
    assert set(space.parameters) == {"TM", "TN", "TK"} | names
    assert len(space.candidates) < 150_000
    assert len({tuple(sorted(c.items())) for c in space.candidates}) == len(space.candidates)
    tried = {(name, value) for c in space.candidates for name, value in c.items()}
    assert tried == {(name, value) for name, values in space.parameters.items()
                     for value in values if value is not None}
    assert not any("persistent" in c and c.get("wgmma") == 0 for c in space.candidates)
    assert not any("continued" in c and c.get("persistent") == 0 for c in space.candidates)
    sliced = [c for c in space.candidates if "slices" in c]
    assert all(("wgmma" in c) == (arch == "sm_90a") for c in sliced)
    warps = {c["num_warps"] for c in space.candidates if (c["TM"], c["TN"]) == (128, 128)
             and "num_warps" in c}
    assert warps == {4, 8, 16}  # 128 x 128 accumulators do not fit the registers of two warps


def test_blocks_of_rows_are_tried() -> None:
    source = SourceFile("row_sum.tc", (ROOT / "samples" / "row_sum.tc").read_text())
    assert {*search_space(source, Options(), "row_sum").parameters} == {
        "TM", "TN", "num_warps", "min_blocks"}


def test_what_cannot_run_is_left_out() -> None:
    from tritonc.backend.target.target import find
    from tritonc.tune.model.feature import Feature

    target = find("sm_80")
    dot = Feature("dot", (64, 64, 1024), 4)
    four = {"num_warps": 4}
    assert not can_run((dot,), four, target)  # 256 KiB of an operand
    assert can_run((dot._replace(extents=(64, 64, 32)),), four, target)
    assert not can_run((Feature("access", (64,), 4),), four, target)
    assert not can_run((Feature("access", (0,), 4),), {}, target)
    wide = dot._replace(extents=(128, 128, 16))
    assert can_run((wide,), four, target)
    assert not can_run((wide,), {**four, "slices": 2}, target)  # each warp has them all
    assert not can_run((Feature("dot", (32, 32, 64), 4),), {**four, "slices": 8}, target)
    sums = Feature("dot", (64, 128, 64), 2, element="f16")
    assert can_run((sums,), {"num_warps": 16, "slices": 2}, target)
    assert not can_run((sums,), {"num_warps": 16, "slices": 4}, target)  # 128 KiB of sums
    assert not can_run((wide._replace(extents=(128, 128, 32)),), four, target)  # 64 KiB of code
    assert can_run((wide._replace(extents=(128, 128, 32), element="f16"),), four, target)


# --- the command line ---


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritonc.launch.cuda.device_count", lambda: 0)


def test_without_a_gpu_the_model_speaks(no_gpu: None) -> None:
    done = tritonc("tune", "add.tc")
    assert done.code == 3 and "There is no GPU here" in done.out and "1  T=256\n" in done.out
    assert not Path("add.tune.json").exists()


@pytest.mark.parametrize("arguments, code, message", [
    (["tune", "add.tc", "--budget", "soon"], 2, "--budget takes a number of seconds"),
    (["tune", "add.tc", "--devices=a"], 2, "--devices takes numbers"),
    (["tune", "add.tc", "--set", "N"], 2, "--set takes NAME=INTEGER"),
    (["tune", "add.tc", "--set", "Q=1"], 1, "no size 'Q'"),
    (["tune", "add.tc", "--kernel=sub"], 1, "no problem is about kernel 'sub'"),
    (["tune", "add.tc", "--tune=T=3.5"], 2, "--tune takes"),
    (["tune", "add.tc", "--tuning=none"], 2, "has no meaning"),
    (["tune", "add.tir"], 2, "is Triton-IR"), (["tune", "missing.tc"], 1, "cannot read"),
    (["bench", "add.tc", "--devices=0,1"], 2, "on one GPU"),
])
def test_wrong_use(no_gpu: None, arguments: list[str], code: int, message: str) -> None:
    done = tritonc(*arguments)
    assert done.code == code and message in done.err and "Traceback" not in done.err


def test_bench() -> None:
    from tritonc.tune.timing.bench import bench

    lines = list(bench(SourceFile("add.tc", ADD), Options(tune={"num_warps": 16}), [], None, 0, 0,
                       Diagnostics(), None, FakeGpu))
    assert all(line.ok for line in lines) and len(lines) == 2
    assert lines[0].text == ("add N=4096: 8.192 ms (spread 0.0%), 5e-07 TFLOP/s, 0.004 GB/s "
                             "(T=256,num_warps=16)")
    (wrong,) = bench(SourceFile("add.tc", ADD), Options(tune={"T": 64}), [{"N": 5}], "add",
                     0, 0, Diagnostics(), None, FakeGpu)
    assert not wrong.ok and "'y' is wrong" in wrong.text


# --- a cluster ---


@pytest.fixture
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None,
                                  silence_logs=50) as cluster:
        yield cluster.scheduler_address


def test_a_cluster_does_the_same(scheduler: str) -> None:
    from tritonc.tune.workers.cluster import Cluster

    site = Cluster.connect(scheduler, 1.0, find_fake_gpus)
    assert (site.device, site.jobs, site.measurers) == ("Fake GPU", 4, 2)
    asked = request(sizes=[{"N": 4096}], options=Options(tune={"T": 256}))
    task = tasks.prepare(asked, site.target, Diagnostics())
    out = io.StringIO()
    (choice,) = tuner.tune(asked, task, site, out)
    assert choice.milliseconds == 8.192 and "(signal 6)" in out.getvalue()
    records = [json.loads(line) for line in Path("add.tune.journal").read_text().splitlines()]
    assert len(records) == len(task.space.candidates)
    assert "1 cannot run: took longer than 1 s" in out.getvalue()


def test_nobody_answers() -> None:
    pytest.importorskip("distributed")
    done = tritonc("tune", "add.tc", "--cluster", "nonsense://x")
    assert done.code == 1 and "no scheduler answers at nonsense://x" in done.err
