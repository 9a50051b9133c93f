"""Portfolios of the cost model: what a launch's work depends on, and covers of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tritonc import sema, stages
from tritonc.backend.target.target import find
from tritonc.frontend.parser import parse
from tritonc.ir.core import Module
from tritonc.options import Options
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune.model.choose import choose
from tritonc.tune.model.coarse import bodies
from tritonc.tune.model.features import features
from tritonc.tune.model.form import form_of
from tritonc.tune.model.launches import launches_of
from tritonc.tune.model.loops import TYPICAL, loops_around
from tritonc.tune.model.portfolio import cover, portfolio
from tritonc.tune.model.times import formula
from tritonc.variants import choice
from tritonc.variants.variant import Variant, VariantSet

SOURCE = """
const tunable int TM = {16, 32, 64, 128};
const tunable int TN = {16, 32, 64, 128};
const tunable int TK = {16, 32, 64};
kernel void f(const half* a, const half* b, half* c, int M, int N, int K, int U) {
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  int rk[TK] = 0 ... TK;
  float C[TM, TN] = 0;
  LOOP {
    half A[TM, TK] = (rm < M)[:, newaxis] ? *(a + rm[:, newaxis] * K + rk + k) : 0;
    half B[TK, TN] = (rn < N)[newaxis, :] ? *(b + (rk + k)[:, newaxis] * N + rn) : 0;
    C += dot(A, B);
  }
  @((rm < M)[:, newaxis] && (rn < N)) *(c + rm[:, newaxis] * N + rn) = C;
}
"""
ROOT = Path(__file__).parents[2]
UP = "for (int k = 0; k < K; k += TK)"


class Program:
    def __init__(self, loop: str, text: str = SOURCE) -> None:
        self.options = Options(arch="sm_90a")
        diagnostics = Diagnostics()
        source = SourceFile("f.tc", text.replace("LOOP", loop))
        self.text = text
        self.program = parse(stages.preprocess(source, self.options, diagnostics).tokens,
                             diagnostics)
        self.space = {t.name: t.values or ()
                      for t in sema.tunables(self.program, diagnostics)}
        self.target = find("sm_90a", None)

    def lower(self, binding: Mapping[str, int]) -> Module:
        return sema.analyze(self.program, binding, Diagnostics(limit=1), self.options)


@pytest.mark.parametrize("loop, expected", [
    (UP, [(1, (5,), 32)]), ("for (int k = K; k > 0; k -= TK)", [(1, (5,), 32)]),
    ("for (int k = U; k < 4096; k += TK)", [(1, (6,), 32)]),
    ("for (int k = 0; k < (K + TK - 1) / TK; k++)", [(1, (5,), 32)]),
    ("for (int k = 0; k < K >> 2; k += 2)", [(1, (5,), 8)]),
    ("for (int k = 0; k < min(K, get_program_id(0) * 9); k += TK)", [(1, (5,), 32)]),
    ("for (long k = 0; k < K; k += TK)", [(1, (5,), 32)]),
    ("for (int k = 0; k < K * U * 9; k += TK)", [(9, (5, 6), 32)]),
    ("for (int r = 0; r < U; r++) for (int k = 0; k < K; k += TK)", [(1, (5,), 32), (1, (6,), 1)]),
    ("for (int k = 0; k < 4096; k += TK)", [(4096, (), 32)]),
    ("for (int r = -1; r <= 1; r++) for (int k = 0; k < K; k += TK)", [(1, (5,), 32), (3, (), 1)]),
    ("for (int r = 4; r >= 0; r -= 2) for (int k = 0; k < K; k += TK)",
     [(1, (5,), 32), (5, (), 2)]),
    ("int from = get_program_id(2) * U; for (int k = from; k < min(from + U, K); k += TK)",
     [(1, (6,), 32)]),
    ("for (int k = 0; k < *(int*)a; k += TK)", [(TYPICAL, (), 32)])])
def test_the_lengths_of_loops(loop: str, expected: list[tuple[int, tuple[int, ...], int]]) -> None:
    (kernel,) = Program(loop).lower({"TM": 16, "TN": 16, "TK": 32}).kernels
    assert [*map(tuple, loops_around(kernel))] == expected


def test_a_portfolio_serves_small_and_large() -> None:
    """Better than the general entry where it leaves most of the machine idle; its equal where it
    fills it."""
    p = Program(UP)
    general = choose(p.space, p.lower, p.target)
    found = portfolio(p.space, p.lower, p.target, general, 4)
    assert found is not None and found.loops[0].arguments == (5,) and 1 <= len(found.members) <= 4
    tiles = [(general["TM"], general["TN"]), *((m.binding["TM"], m.binding["TN"])
                                               for m in found.members)]
    costs = [found.general, *(m.cost for m in found.members)]

    def times(m: int, n: int, k: int) -> list[int]:
        return [choice.time(c, t, (m, n), (k,)) for c, t in zip(costs, tiles, strict=True)]

    skinny, large = times(2560, 16, 2560), times(8192, 8192, 8192)
    assert min(skinny) < 0.8 * skinny[0] and min(large) >= 0.9 * large[0]
    more = portfolio(p.space, p.lower, p.target, general, 8)
    assert more is not None and more.worst <= found.worst and more.served >= found.served
    assert portfolio(p.space, p.lower, p.target, general, 4) == found


def test_costs_fit_their_places() -> None:
    """The choice has cut-offs by which 64 bits suffice: no cost exceeds them."""
    p = Program(UP)
    found = portfolio(p.space, p.lower, p.target, choose(p.space, p.lower, p.target), 60)
    assert found is not None
    for cost in (found.general, *(m.cost for m in found.members)):
        assert cost.processors >= 1 and 0 <= cost.blocks <= choice.MOST_BLOCKS
        assert cost.once <= 1 << 20 and cost.start <= 1 << 20
        assert all(0 <= n <= choice.MOST_CYCLES
                   for n in (cost.busy, cost.wait, cost.edge, cost.slow))


def test_clusters_on_tensor_cores_run_all_at_once() -> None:
    """No launch takes them that has more: decode products and convolutions were slower so, but of
    the fewest rows of mma."""
    p = Program(UP)
    found = portfolio(p.space, p.lower, p.target, choose(p.space, p.lower, p.target), 12)
    assert found is not None and any("cluster_k" in m.binding for m in found.members)
    assert all((m.cost.blocks == 0) == (
        "cluster_k" in m.binding and max(m.binding["TM"], m.binding["TN"]) > 16)
        for m in found.members)


def test_a_cost_does_not_depend_on_how_addresses_are_written() -> None:
    """What a row of an operand begins with may be part of each element's index."""
    p = Program(UP)
    plain = "*(a + rm[:, newaxis] * K + rk + k)"
    assert plain in p.text
    other = Program(UP, p.text.replace(plain, "a[(rm[:, newaxis] + 0 * rk) * K + (rk + k)]"))
    tile = {"TM": 64, "TN": 64, "TK": 64}
    costs = [formula(features(each.lower(tile).kernels[0]), (64,), p.target)
             for each in (p, other)]
    assert costs[0] == costs[1]


def test_gathered_elements_take_two_warpgroups() -> None:
    """Where a version copies elements, not pieces, 128 rows of 64 columns are those of two
    warpgroups, beside which fewer blocks have room: one channel of 161 x 700 takes 169 us by
    128 x 64 on an H200, 159 by 64 x 64."""
    for path, blocks in (("bench/suite/conv_nhwc_flat.tc", (2, 4)),
                         ("samples/conv_nhwc.tc", (3, 4))):
        p = Program("", (ROOT / path).read_text())
        depth = "TK" if "flat" in path else "TC"
        found = tuple(formula(features(p.lower({"TM": m, "TN": 64, depth: 32}).kernels[0]), (32,),
                              p.target).blocks for m in (128, 64))
        assert found == blocks, (path, found)


def test_tiles_of_convolutions() -> None:
    """79 x 341, 32 channels and filters: 128 x 64 takes 116 us on an H200, 128 x 32 104.  And in
    clusters the rows, which are computed, are few: 14 x 14 pixels take 16.7 us by 128 x 64, 15.6 by
    64 x 128."""
    p = Program("", (ROOT / "samples/conv_nhwc.tc").read_text())
    found = portfolio(p.space, p.lower, p.target, choose(p.space, p.lower, p.target), 12)
    assert found is not None
    for extents, lengths, tile in (((8 * 75 * 332, 32), (32, 5, 10), (128, 32)),
                                   ((784, 512), (512, 3, 3), (64, 128))):
        best = min(found.members, key=lambda m: choice.time(
            m.cost, (m.binding["TM"], m.binding["TN"]), extents, lengths))
        assert (best.binding["TM"], best.binding["TN"]) == tile


def test_entries_of_convolutions_on_cores() -> None:
    """On an H200, 14 x 14 pixels of 512 channels take 159 us by 64 x 128 in clusters of two, and
    205 by 64 x 64; 28 x 28 of 256 202 and 444; 79 x 341, 32 filters, 766 by 128 x 32, 1202 by the
    general tile."""
    p = Program("", (ROOT / "samples/conv_nchw.tc").read_text())
    _, few = bodies(p.space, p.lower, p.target, choose(p.space, p.lower, p.target), True)
    assert few is not None
    found = [tuple(member.binding.values()) for member in few.members]
    assert (64, 128, 16, 2) in found and (128, 32, 32) in found


def test_taps_inside_of_channels() -> None:
    """What is long is the loop over channels: 256 filters of 64 channels take 37.7 us by 128 x 128
    x 64 on an H200, 70.9 by the small body of 64 x 64 x 16."""
    loop = "for (int k = 0; k < K; k += TK) for (int t = 0; t < 9; t++)"
    p = Program(loop)
    form = form_of(p.space, p.lower)
    assert form is not None
    assert {lengths for _, lengths in launches_of(form)} == {(9, 512), (9, 4096)}


def test_few_columns_are_not_swapped() -> None:
    """A grouped convolution of 32 channels takes 75 us by 128 rows on an H200, 102 by the two
    warpgroups of 256."""
    p = Program("", (ROOT / "bench/unseen/conv_grouped.tc").read_text())
    times = [choice.time(formula(features(p.lower({"T": rows}).kernels[0]), (1, 1), p.target),
                         (rows, 1), (32 * 56 * 56, 8), (3, 3)) for rows in (128, 256)]
    assert times[0] < times[1]


def test_elements_that_are_gathered_one_by_one() -> None:
    """Halves in NCHW order take 44 to 54 us by 128 x 64 x 32 on an H200, 70 to 120 by 128 x 128 x 8
    on mma.sync: what is gathered serves as many filters as possible, by whole instructions."""
    p = Program("", "#define T half\n" + (ROOT / "bench/unseen/conv_nchw.tc").read_text())
    assert tuple(choose(p.space, p.lower, p.target).values()) == (128, 64, 32)


@pytest.mark.parametrize("sample, extents, lengths, tile", [
    ("conv_nchw", (8 * 75 * 332, 32), (1600,), {"TM": 128, "TN": 32, "TK": 32}),
    ("fp8_block", (128, 7168), (2048,), {"TM": 128, "TN": 64}),
    ("conv_nchw", (784, 512), (4608,), {"TM": 64, "TN": 128, "cluster_k": 2}),
    ("conv_nhwc_flat", (3136, 512), (2304,), {"TM": 128, "TN": 128, "TK": 64}),
    ("shift_conv_half", (3136, 512), (256,), {"TM": 64, "TN": 256, "TK": 64}),
    ("int4_linear", (16, 4096), (4096,), {"TM": 16, "TN": 32, "cluster_k": 2}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_launches_take(sample: str, extents: tuple[int, ...], lengths: tuple[int, ...],
                            tile: dict[str, int]) -> None:
    """On an H200, 32 filters by the general 128 x 64 take 1134 us, and 767 by 128 x 32 x 32, of
    which the indices are no more doubtful; scaled sums take 11.4 us by one warpgroup, 10.8 by
    two.  14 x 14 pixels by 64 x 128 in clusters 157, by 64 x 64 174; the others (the same by what
    was chosen before): 20.1, as taps are boxes of one matrix (64 x 256 by threads 23.8), 13.3
    (14.6), 9.0 (12.0; 32 x 64 10.0)."""
    p = Program("", next(path for folder in ("samples", "bench/suite") if (
        path := ROOT / folder / f"{sample}.tc").exists()).read_text())
    general = choose(p.space, p.lower, p.target)
    found = portfolio(p.space, p.lower, p.target, general, 12)
    assert found is not None
    of = [*((m.binding, m.cost) for m in found.members), (general, found.general)]
    best, _ = min(of, key=lambda one: choice.time(
        one[1], (one[0]["TM"], one[0]["TN"]), extents, lengths))
    assert tile.items() <= best.items()


@pytest.mark.parametrize("name, extents, lengths", [
    ("conv_dilated", (32768, 256), (4608,)), ("deconv2", (16384, 256, 4), (512, 2, 2))])
def test_indices_beside_products_of_two_warpgroups(name: str, extents: tuple[int, ...],
                                                   lengths: tuple[int, ...]) -> None:
    """On an H200 the general 64 x 128 x 64 takes 182 and 153 us, 128 x 128 x 64 155 and 136."""
    p = Program("", (ROOT / f"bench/unseen/{name}.tc").read_text())
    general = choose(p.space, p.lower, p.target)
    found = portfolio(p.space, p.lower, p.target, general, 12)
    assert found is not None
    of = [*((m.binding, m.cost) for m in found.members), (general, found.general)]
    best, _ = min(of, key=lambda one: choice.time(
        one[1], (*[*one[0].values()][:2], 1)[:len(extents)], extents, lengths))
    assert [*best.values()] == [128, 128, 64]


def test_products_whose_warps_compute_in_turn() -> None:
    """They are not sliced, so several blocks share a multiprocessor: by 64 x 64 of 64 threads 637
    us on an H200, of 128 311, by 128 x 64 of 128 threads 619."""
    p = Program("", (ROOT / "bench/unseen/rbf_predict.tc").read_text())
    general = choose(p.space, p.lower, p.target)
    found = portfolio(p.space, p.lower, p.target, general, 12)
    assert found is not None and found.general.blocks > 1
    of = [*((m.binding, m.cost) for m in found.members), (general, found.general)]
    best, _ = min(of, key=lambda one: choice.time(one[1], (one[0]["BM"],), (16384,), (8192,)))
    assert best["BM"] == 64


def test_covers() -> None:
    """What is left out of no need; what cannot be served; the limit."""
    ratios = np.array([[1, 3, 3, 3], [3, 1, 1, 3], [3, 3, 1.02, 1], [3, 1, 3, 3]], float)
    chosen, served, worst = cover(ratios, 0, 3)
    assert chosen == [1, 2] and served == 1.0 and worst == 1.0
    assert cover(ratios, 0, 1) == ([1], 0.75, 3.0)
    assert cover(ratios[:1], 0, 3) == ([], 0.25, 3.0)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        some = 1 + rng.integers(0, 8, (6, 9)) / 20.0
        some /= some.min(axis=0)
        chosen, served, worst = cover(some, 0, 5)
        assert served == 1.0 and worst <= 1.05 and len({0, *chosen}) == 1 + len(chosen)
        for rest in product((True, False), repeat=len(chosen)):
            if not all(rest):  # none of them is superfluous
                kept = [0, *(i for i, keep in zip(chosen, rest, strict=True) if keep)]
                assert some[kept].min(axis=0).max() > 1.05


@pytest.mark.parametrize("extents, length, rows", [
    ((4095, 4097), 4093, 256), ((4096, 4097), 4096, 256), ((4096, 4104), 4096, 128)])
def test_rows_that_are_not_aligned(extents: tuple[int, ...], length: int, rows: int) -> None:
    """Their elements come one by one, fewest by the largest tiles: 4095 x 4097 x 4093 takes 796 us
    by 128 x 256 on an H200, 866 by 128 x 128.  Aligned, 17 columns of tiles fill the last wave
    worse than 33."""
    p = Program("", (ROOT / "bench/suite/matmul_f16.tc").read_text())
    general = choose(p.space, p.lower, p.target)
    found = portfolio(p.space, p.lower, p.target, general, 12)
    assert found is not None
    known = VariantSet([Variant(m.binding, cost=m.cost) for m in found.members], found.general,
                       None, [loop._asdict() for loop in found.loops], found.aligned)
    bindings = [general, *(m.binding for m in found.members)]
    number = choice.choose(known.rule(range(len(found.members))),
                           [(b["TM"], b["TN"]) for b in bindings], [True] * len(bindings), extents,
                           {3: extents[0], 4: extents[1], 5: length})
    assert bindings[number]["TN"] == rows, bindings[number]


@pytest.mark.parametrize("sample", ["attention", "attention_causal"])
def test_short_programs_of_chains_have_more_rows(sample: str) -> None:
    """In long loops blocks of one warpgroup are faster, and where they are all on the machine."""
    text = (ROOT / "samples" / f"{sample}.tc").read_text(encoding="utf-8")
    program = Program("", text)
    chosen = choose(program.space, program.lower, program.target)
    small, few = bodies(program.space, program.lower, program.target, chosen, clusters=True)
    assert chosen["TM"] == 64 and small is None and few is not None
    (member,) = few.members
    assert member.binding == {"TM": 128, "TN": 128}
    known = VariantSet([Variant(member.binding, cost=member.cost)], few.general,
                       loops=[loop._asdict() for loop in few.loops])
    place = few.loops[0].arguments[0]
    for heads, keys, best in ((64, 4096, 0), (32, 4096, 0), (64, 1024, 1), (16, 2048, 1),
                              (8, 1024, 0)):
        assert choice.choose(known.rule([0]), [(64, 1), (128, 1)], [True] * 2, (keys, heads),
                             {place: keys}) == best
