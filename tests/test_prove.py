"""`tritonc prove`: samples, planted mistakes, and random mistakes against the interpreter."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from command import tritonc
from mutations import SAMPLES, doubted, mutated

from tritonc import stages
from tritonc.launch.run_problems import run_problems
from tritonc.options import Options
from tritonc.prove import report
from tritonc.prove.accesses import PROVED, REFUTED, UNKNOWN
from tritonc.prove.report import Proof, prove
from tritonc.source import CompileError, SourceFile

OPTIONS = Options(opt_level=0, warnings=("no-all",))
# Samples of which not all is proved; docs/proofs.md says why.
OPEN = {"attention_lengths": 1, "conv_nchw": 4}


def proofs(text: str, seconds: float = 5.0) -> list[Proof]:
    return list(prove(SourceFile("test.tc", text), OPTIONS, "tc", stages.new_diagnostics(OPTIONS),
                      seconds=seconds))


def verdicts(text: str) -> list[str]:
    return [v for proof in proofs(text) for v in proof.verdicts()]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.tc")), ids=lambda p: p.stem)
def test_samples(path: Path, thorough: bool) -> None:
    if path.stem in ("attention_backward", "attention_grouped", "conv_nchw",
                     "paged_decode_split") and not thorough:
        pytest.skip("needs --thorough")
    found = [v for proof in proofs(path.read_text(), 0.0) for v in proof.verdicts()]
    assert REFUTED not in found
    most = OPEN.get(path.stem, 0)
    assert found.count(UNKNOWN) <= most
    if find_spec("z3") is None:
        assert found.count(UNKNOWN) == most, "the table in docs/proofs.md says otherwise"


ADD = """\
//! size: N = 100
//! range: N
//! arg: x = randn(N)
//! arg: y = zeros(N)
//! arg: N = N
//! expect: y = x
kernel void add(const float* x, float* y, int N) {
  int i[16] = get_global_range(0);
  @(i < N) *(y + i) = (i < N) ? *(x + i) : 0;
}
"""


def test_a_mask_proves() -> None:
    assert verdicts(ADD) == [PROVED, PROVED, PROVED]


@pytest.mark.parametrize(("old", "new", "wrong"), [
    ("@(i < N)", "@(i <= N)", 1),  # off by one
    ("@(i < N)", "@(i < N + 1)", 1),
    ("@(i < N) ", "", 1),  # no mask for the tail
    ("(y + i)", "(y + i + 1)", 1),
    ("(y + i)", "(y + i - 1)", 1),
    ("(x + i)", "(x + 2 * i)", 0),
    ("zeros(N)", "zeros(N - 1)", 1),
    ("//! range: N", "//! range: N + 16\n//! where: N % 16 == 0", None),
])  # fmt: skip
def test_planted_mistakes(old: str, new: str, wrong: int | None) -> None:
    found = verdicts(ADD.replace(old, new))
    if wrong is None:
        assert found == [PROVED] * 3  # the mask takes care of it
    else:
        assert found[wrong] == REFUTED


def test_a_witness_has_sizes_instance_and_element() -> None:
    (proof,) = proofs(ADD.replace("@(i < N)", "@(i <= N)"))
    (text,) = [a.verdict.fact for a in proof.accesses if a.verdict.verdict == REFUTED]
    assert text == ("N = 100: instance (6), element [4] reaches y + 400 (buffer 'y' has 400 bytes)")


def test_a_multiple_needs_no_mask_for_the_tail() -> None:
    bare = ADD.replace("@(i < N) ", "").replace("(i < N) ? *(x + i) : 0", "*(x + i)")
    assert PROVED not in verdicts(bare)[:2]
    assert verdicts(bare.replace("//! range", "//! where: N % 16 == 0\n//! range")) == [PROVED] * 3


def test_every_choice_of_tunables() -> None:
    """Tiles of 16 end with the buffers, tiles of 32 need not."""
    text = ADD.replace("@(i < N) ", "").replace("(i < N) ? *(x + i) : 0", "*(x + i)").replace(
        "//! size: N = 100", "//! size: N = 96\n//! where: N % 16 == 0").replace("[16]", "[T]")
    text = "const tunable int T = {16, 32};\n" + text
    source = SourceFile("test.tc", text)

    def found(every: bool, **tune: int) -> list[tuple[int, list[str]]]:
        options = replace(OPTIONS, tune=tune)
        return [(proof.tunables["T"], proof.verdicts()) for proof in prove(
            source, options, "tc", stages.new_diagnostics(options), every=every)]

    good, bad = (16, [PROVED] * 3), (32, [REFUTED, REFUTED, UNKNOWN])
    assert found(False, T=16) == found(True, T=16) == [good] and sorted(found(True)) == [good, bad]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "MOST", 1)
        with pytest.raises(CompileError, match="have 2 combinations, more than 1"):
            found(True)


def test_how_choices_of_tunables_are_told(tmp_path: Path) -> None:
    path = tmp_path / "add.tc"
    path.write_text("const tunable int T = {16, 32};\n" + ADD.replace("[16]", "[T]"))
    done = tritonc("prove", str(path))
    assert done.code == 0 and "1 other choices of tunables are not looked at (--every)" in done.out
    done = tritonc("prove", str(path), "--every")
    assert "6 proved; 1 other choices of tunables have the same answers" in done.out


def test_bounds_of_sizes_count() -> None:
    """Four elements of the last tile wrap to negative indices."""
    near = ADD.replace("i < N", "i - 4 < N - 4")
    assert verdicts(near)[0] == UNKNOWN or verdicts(near)[0] == PROVED
    wraps = ADD.replace("randn(N)", "randn(N * 4096)").replace("(x + i)", "(x + i * 65536)")
    assert PROVED not in verdicts(wraps)[:1]


def test_two_instances_that_store_to_one_place() -> None:
    assert REFUTED not in verdicts(ADD.replace("(y + i)", "(y + i / 2)"))  # 8 elements each
    assert verdicts(ADD.replace("(y + i)", "(y + i / 3)")) == [PROVED, PROVED, REFUTED]
    shifted = verdicts(ADD.replace("zeros(N)", "zeros(N + 1)").replace(
        "@(i < N) *(y + i) = (i < N) ? *(x + i) : 0",
        "@(i < N) *(y + i + 1) = (i < N) ? *(y + i) + *(x + i) : 0"))
    assert shifted[-1] == REFUTED


def test_a_loop_that_steps_over_the_end() -> None:
    text = """\
//! size: M = 5, N = 30
//! range: M
//! arg: x = randn(M, N)
//! arg: y = zeros(M)
//! arg: N = N
//! expect: y = x.sum(1)
kernel void sums(const float* x, float* y, int N) {
  int m = get_program_id(0);
  float total = 0;
  for (int n = 0; n < N; n += 8) {
    int rn[8] = n + 0 ... 8;
    float v[8] = rn < N ? *(x + m * N + rn) : 0;
    total += v[+];
  }
  *(y + m) = total;
}
"""
    assert verdicts(text) == [PROVED] * 3
    assert verdicts(text.replace("rn < N ? *(x + m * N + rn) : 0", "*(x + m * N + rn)"))[0] == \
        REFUTED
    assert verdicts(text.replace("rn < N ?", "rn <= N ?"))[0] == REFUTED
    assert verdicts(text.replace("int m = get_program_id(0)", "int m = get_program_id(0) + 1")
                    )[0] == REFUTED


def test_tables_have_the_bounds_of_their_expression() -> None:
    text = """\
//! size: N = 30, T = 7
//! range: T
//! arg: table = randint(0, N, T)
//! arg: x = randn(N)
//! arg: y = zeros(T)
//! arg: T = T
//! expect: y = x[table]
kernel void gather(const int* table, const float* x, float* y, int T) {
  int t[8] = get_global_range(0);
  int from[8] = t < T ? *(table + t) : 0;
  @(t < T) *(y + t) = t < T ? *(x + from) : 0;
}
"""
    assert verdicts(text) == [PROVED] * 4
    assert verdicts(text.replace("randint(0, N, T)", "randint(0, N + 1, T)"))[1] != PROVED
    assert verdicts(text.replace("randint(0, N, T)", "randint(-1, N, T)"))[1] != PROVED


def test_sizes_that_the_problem_does_not_allow() -> None:
    text = ADD.replace("//! range", "//! where: N >= 20, N % 4 == 0\n//! range")
    source = SourceFile("test.tc", text.replace("N % 4", "N % 3"))
    with pytest.raises(CompileError, match="this does not hold for N = 100"):
        list(run_problems(source, OPTIONS, "tc", stages.new_diagnostics(OPTIONS)))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_false_is_proved(seed: int) -> None:
    """`python tests/campaign.py proofs` tries more."""
    _, text = mutated(seed)
    doubted(text, 1.0)
