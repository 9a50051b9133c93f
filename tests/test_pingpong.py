"""Warpgroups of a persistent block that take programs in turn (ping-pong), on simulated threads."""

from __future__ import annotations

from itertools import combinations

import pytest
import random_products

from tritonc import driver
from tritonc.backend.pipeline.staged_loop import buffer_of
from tritonc.backend.shared.shared_memory import allocations, body_of
from tritonc.ir.cfg import Cfg, reached
from tritonc.ir.core import Block, Kernel, Op
from tritonc.options import Options
from tritonc.source import SourceFile
from tritonc.variants.choice import Cost

TEXT = """\
//! size: M = 300, N = 264, K = 200
//! range: M, N
//! arg: a = randn(M, K)
//! arg: b = randn(K, N)
//! arg: s = randn(N)
//! arg: d = randn(M, N)
//! arg: c = zeros(M, N)
//! arg: M = M
//! arg: N = N
//! arg: K = K
//! expect: c = RESULT
//! tolerance: 2e-2
#define TM 128
#define TN 128
#define TK 64
kernel void product(const half* a, const half* b, const float* s, const half* d, half* c, int M,
                    int N, int K) {
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  for (int k = 0; k < K; k += TK) {
    int rk[TK] = k + 0 ... TK;
    half ta[TM, TK] = (rm < M)[:, newaxis] && rk < K ? *(a + rm[:, newaxis] * K + rk) : 0;
    half tb[TK, TN] = (rk < K)[:, newaxis] && rn < N ? *(b + rk[:, newaxis] * N + rn) : 0;
    acc = dot(ta, tb, acc);
  }
  acc += rn < N ? s[rn] : 0;
  bool there[TM, TN] = (rm < M)[:, newaxis] && rn < N;
  @there *(c + rm[:, newaxis] * N + rn) = EPILOGUE;
}
"""
PLAIN = TEXT.replace("RESULT", "a @ b + s").replace("EPILOGUE", "acc")
BESIDE = TEXT.replace("RESULT", "a @ b + s + d").replace(
    "EPILOGUE", "acc + (there ? *(d + rm[:, newaxis] * N + rn) : 0)")


# Rows of c are L apart: where they are not aligned, a body has a producer, and one program.
APART = PLAIN
for _old, _new in (("//! arg: K = K", "//! arg: K = K\n//! arg: L = L"),
                   ("int K)", "int K, int L)"), ("zeros(M, N)", "zeros(M, L)"),
                   ("c + rm[:, newaxis] * N", "c + rm[:, newaxis] * L"),
                   ("a @ b + s", "np.concatenate([a @ b + s, zeros(M, L - N)], axis=1)"),
                   ("K = 200\n", "K = 200, L = 265\n")):
    assert _old in APART
    APART = APART.replace(_old, _new)


def lowered(text: str, **tune: int) -> Kernel:
    result = driver.compile(SourceFile("t.tc", text), Options(arch="sm_90a", tune=tune,
                                                              verify_each=True), ("manifest",))
    assert result.module is not None
    return result.module.kernels[0]


@pytest.mark.parametrize("sizes", [
    (300, 264, 200), (128, 128, 64), (40, 520, 8),  # the last two programs of a block are two, one
    (300, 264, 0),
    (130, 257, 63), (257, 129, 72),  # a body without a producer: a program for each warpgroup
])  # fmt: skip
def test_results(sizes: tuple[int, ...]) -> None:
    m, n, k = sizes
    text = PLAIN.replace("M = 300, N = 264, K = 200", f"M = {m}, N = {n}, K = {k}")
    product = random_products.Product(text, (("pingpong", 2),), "sm_90a")
    assert random_products.check(product, True) == "wgmma roles TMA loads, threads"


@pytest.mark.parametrize("apart", [265, 272])
def test_results_that_are_not_aligned(apart: int) -> None:
    text = APART.replace("L = 265", f"L = {apart}")
    product = random_products.Product(text, (("pingpong", 2),), "sm_90a")
    assert random_products.check(product, True) == "wgmma roles TMA loads, threads"
    kernel = lowered(text, pingpong=2)
    assert kernel.attributes["pingpong"] == 2
    names = [op.name for op in kernel.ops()]
    assert names.count("start_producer") == 2 and names.count("own_program") == 3


def test_a_warpgroup_holds_a_tile() -> None:
    kernel = lowered(PLAIN, pingpong=2)
    assert kernel.attributes["pingpong"] == 2 and kernel.attributes["num_warps"] == 4
    assert kernel.threads == 384 and kernel.attributes["registers"] == (24, 240)
    names = [op.name for op in kernel.ops()]
    assert names.count("own_program") == 2  # of the loop over programs, and of the other body
    own = [op for op in kernel.ops() if op.attributes.get("second")]
    assert own and all(op.attributes["second"] >= op.result.type.bytes  # type: ignore[union-attr]
                       for op in own if op.name == "alloc_shared")
    staged = [op for op in kernel.ops() if op.attributes.get("continues")]
    assert staged and not any(op.attributes.get("second") for op in staged)


@pytest.mark.parametrize("text", [PLAIN, APART, PLAIN.replace("half* c", "float* c")])
def test_programs_share_no_memory(text: str) -> None:
    """Each is where it is: buffers of one body lie apart, whenever they are used."""
    kernel = lowered(text, pingpong=2)
    cfg = Cfg(kernel)
    users: dict[Op, set[Block]] = {}
    for op in kernel.ops():
        for root in allocations(op):
            users.setdefault(root, set()).add(cfg.block_of[op])
    own = [op for op in users if op.attributes.get("second")]
    assert own
    for a, b in combinations(own, 2):
        if body_of(cfg, sorted(users[a], key=cfg.order.index)) & users[b]:
            (start, end), (first, last) = ((op.attributes["offset"], op.attributes["offset"]
                                            + op.attributes["second"] + buffer_of(op.result).bytes)
                                           for op in (a, b))
            assert end <= first or last <= start


@pytest.mark.parametrize("text, tune, why", [
    (PLAIN, {}, ""), (PLAIN, {"pingpong": 1}, ""),
    (BESIDE, {"pingpong": 2}, "threads have no registers for what is loaded after the product"),
    (PLAIN.replace("TN 128", "TN 256"), {"pingpong": 2},
     "the product is not one of 128x128 on wgmma"),
    (PLAIN.replace("acc = dot(ta, tb, acc)", "acc = dot(max(ta, (half)0), tb, acc)"),
     {"pingpong": 2}, "an operand is computed from loaded values"),
    (PLAIN, {"pingpong": 2, "persistent": 0},
     "blocks are not persistent: each computes one program"),
    (PLAIN, {"pingpong": 2, "producer": 0}, "producer is 0"),
    (PLAIN, {"pingpong": 2, "num_warps": 8}, "a warpgroup has 4 warps, and num_warps is 8"),
    (PLAIN, {"pingpong": 2, "tma_load": 0}, "blocks are not persistent: each computes one program"),
])  # fmt: skip
def test_where_they_work_together(text: str, tune: dict[str, int], why: str) -> None:
    """And what a remark says of it, at the place that prevents it."""
    result = driver.compile(SourceFile("t.tc", text), Options(
        arch="sm_90a", tune=tune, verify_each=True), ("manifest",))
    assert result.module is not None
    kernel = result.module.kernels[0]
    assert "pingpong" not in kernel.attributes
    assert all(op.name != "own_program" for op in kernel.ops())
    said = [item for item in result.remarks if item.pass_name == "choose_pingpong"]
    assert [item.message for item in said] == [
        f"no ping-pong of warpgroups: {why}"] * bool(why)
    assert all(item.span is not None for item in said)


# Programs whose rows begin where memory says take another body if that is not aligned.
CHOOSING = PLAIN.replace("const float* s,", "const float* s, const int* from,").replace(
    "  float acc", "  a += from[get_program_id(1)];\n  float acc")
SOME = PLAIN.replace("  for (int k = 0", "  if (s[get_program_id(1)] > 0)\n  for (int k = 0")


@pytest.mark.parametrize("text", [CHOOSING, SOME])
def test_every_program_has_its_turn(text: str) -> None:
    """A program that goes past the loop would not give its turn on."""
    kernel = lowered(text, pingpong=2)
    assert "pingpong" not in kernel.attributes
    assert all(op.name != "order_barrier" for op in kernel.ops())


def test_the_price() -> None:
    """What follows the products takes each program's time, or that of the last one, in turn;
    elements one by one take twice as long."""
    from tritonc.backend.target.target import TARGETS
    from tritonc.tune.model.cluster_times import priced
    from tritonc.tune.model.features import features
    from tritonc.tune.model.pingpong import in_pingpong, together

    def costs(text: str) -> tuple[Cost, Cost | None]:
        result = driver.compile(SourceFile("t.tc", text), Options(arch="sm_90a", opt_level=0),
                                ("tir",))
        assert result.module is not None
        profile = features(result.module.kernels[0])
        cost = priced(profile, (64,), TARGETS["sm_90a"], 1)
        assert cost is not None
        return together(profile, cost), in_pingpong(profile, cost, TARGETS["sm_90a"])

    (plain, turned), (long, more) = costs(PLAIN), costs(PLAIN.replace("= acc;", "= tanh(acc);"))
    assert turned is not None and more is not None
    assert abs(more.start - turned.start) < 4 and turned.slow == 2 * plain.slow  # one cycle
    assert turned.start < plain.start < long.start
    assert plain.once == long.once < turned.once < more.once
    assert costs(BESIDE)[1] is None


LISTS = "".join(f"const tunable int T{axis} = {{{values}}};\n" for axis, values in (
    ("M", "64, 128"), ("N", "64, 128, 256"), ("K", "32, 64")))
GELU = PLAIN.replace("#define TM 128\n#define TN 128\n#define TK 64\n", LISTS).replace(
    "= acc;", "= 0.5f * acc * (1 + tanh(0.7978845608f * (acc + 0.044715f * acc * acc * acc)));"
).replace("a @ b + s", "0.5 * (a @ b + s) * (1 + np.tanh(0.7978845608 * (a @ b + s + 0.044715 * "
          "(a @ b + s) ** 3)))")


BATCH = GELU
for _old, _new in (("N = 264, K", "N = 264, Z = 2, K"), ("range: M, N", "range: M, N, Z"),
                   ("randn(M, K)", "randn(Z, M, K)"), ("randn(K, N)", "randn(Z, K, N)"),
                   ("zeros(M, N)", "zeros(Z, M, N)"),
                   ("  float acc", "  int z = get_program_id(2);\n  float acc"),
                   ("a + rm[", "a + (z * M + rm)["), ("b + rk[", "b + (z * K + rk)["),
                   ("c + rm[", "c + (z * M + rm)[")):
    assert _old in BATCH
    BATCH = BATCH.replace(_old, _new)


def test_a_body_beside_others_for_batches() -> None:
    product = random_products.Product(BATCH, (("coarsen", 2),), "sm_90a")
    assert random_products.check(product, True) == "wgmma roles TMA loads, threads"
    assert any("pingpong" in op.attributes for op in lowered(BATCH).ops())


@pytest.mark.parametrize("sizes", [
    (300, 264, 200), (128, 264, 64), (300, 520, 0),  # in turn
    (300, 257, 63),  # rows that are not aligned
    (128, 128, 64),  # two programs, by small tiles
])  # fmt: skip
def test_a_body_beside_others(sizes: tuple[int, ...]) -> None:
    """Launches of many programs whose rows are aligned take it, others run what is there."""
    m, n, k = sizes
    text = GELU.replace("M = 300, N = 264, K = 200", f"M = {m}, N = {n}, K = {k}")
    product = random_products.Product(text, (("coarsen", 2),), "sm_90a")
    assert random_products.check(product, True) == "wgmma roles TMA loads, threads"


def test_where_a_body_is_beside_others() -> None:
    """Where what is behind the product is worth it; the branch says how its warps work."""
    for text, there in ((GELU, True), (PLAIN.replace("#define TM 128\n#define TN 128\n#define TK "
                                                     "64\n", LISTS), False)):
        kernel = lowered(text)
        cfg = Cfg(kernel)
        branches = [block for block in cfg.order if "pingpong" in block.terminator.attributes]
        assert bool(branches) == there and kernel.threads == 384 and "pingpong" not in (
            kernel.attributes)
        for block in branches:
            assert block.terminator.attributes["pingpong"] == 2
            body, again = block.successors
            inside = reached([body], stop=[again])
            assert {op.name for b in inside for op in b.ops} >= {"order_barrier", "own_program"}
            assert all(op.name != "order_barrier"
                       for b in cfg.order if b not in inside for op in b.ops)
