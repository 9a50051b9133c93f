"""What the cost model makes of what products are followed by, and of narrow tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonc import driver
from tritonc.options import Options
from tritonc.source import SourceFile
from tritonc.variants.choice import choose

ROOT = Path(__file__).parents[2]
PRODUCT = """
const tunable int TM = {64, 128};
const tunable int TN = {64, 128, 256};
kernel void f(const half* a, const half* b, half* c, int M, int N, int K) {
  int m[TM] = get_global_range(0), n[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  for (int i = 0; i < K; i += 64) {
    int k[64] = i + 0 ... 64;
    half A[TM, 64] = (m < M)[:, newaxis] && k < K ? a[m[:, newaxis] * K + k] : 0;
    half B[64, TN] = (k < K)[:, newaxis] && n < N ? b[k[:, newaxis] * N + n] : 0;
    acc += A @ B;
  }
  float t[TM, TN] = acc;
  REST
  @((m < M)[:, newaxis] && n < N) c[m[:, newaxis] * N + n] = t;
}
"""


def chosen(text: str, **tune: int) -> tuple[dict[str, int], dict[str, int]]:
    """The tunables and the meta-parameters."""
    result = driver.compile(SourceFile("p.tc", text), Options(arch="sm_90a", tune=tune), ())
    return result.bindings.chosen, result.bindings.meta


@pytest.mark.parametrize("steps, tile", [(0, (128, 256)), (32, (128, 256)), (48, (128, 128)),
                                         (64, (128, 128)), (160, (128, 64))])
def test_long_epilogues_have_smaller_tiles(steps: int, tile: tuple[int, int]) -> None:
    """Their instructions shall fit into the cache: with 64 multiply-adds for each result 4096 x
    4096 x 1024 takes 146 us by 128 x 256 and 103 by 128 x 128, with 160 332, 327 and 216 by 128 x
    64; with 16 63 and 65, with 32 72 and 71, with 48 87 and 83 (H200)."""
    found, _ = chosen(PRODUCT.replace("REST", "".join(
        f"t = t * acc + 0.{i:03}f;" for i in range(steps))))
    assert (found["TM"], found["TN"]) == tile


def test_numbers_at_random_take_instructions() -> None:
    found, _ = chosen((ROOT / "bench/unseen/dropout_mm.tc").read_text(encoding="utf-8"))
    assert (found["TM"], found["TN"]) == (128, 128)


@pytest.mark.parametrize("columns, expected", [
    (64, {"num_warps": 4, "num_stages": 4}), (128, {}), (32, {})])
def test_narrow_tiles_stand_beside_each_other(columns: int, expected: dict[str, int]) -> None:
    text = PRODUCT.replace("REST", "").replace("{64, 128, 256}", f"{{{columns}}}")
    _, meta = chosen(text)
    assert meta == expected
    assert chosen(text, num_stages=3)[1] == {**expected, "num_stages": 3}


def test_narrow_tiles_of_gathered_rows_keep_their_warps() -> None:
    _, meta = chosen((ROOT / "bench/unseen/edge_messages.tc").read_text(encoding="utf-8"))
    assert meta == {}


@pytest.mark.parametrize("name, expected", [
    ("mla_prefill", {"BQ": 128, "BK": 128}), ("mlp_hidden", {"P": 128, "HB": 64}),
    ("latent_split", {"BS": 64}), ("cosine_count", {"R": 128, "C": 128})])
def test_chains_have_the_padding_of_each_product(name: str, expected: dict[str, int]) -> None:
    """Scores of 128 and 64 columns take no 256 in shared memory, of 96 columns as much time as of
    128: 235 us by 64 keys a step, 192 by 128; 31 us by 96 hidden columns, 24 by 64 (H200)."""
    found, _ = chosen((ROOT / f"bench/unseen/{name}.tc").read_text(encoding="utf-8"))
    assert found == expected


def test_operands_that_stay_are_brought_once() -> None:
    """12000 rows by 128 x 128 146 us, by 64 x 64, of which more multiprocessors have one, 260."""
    text = (ROOT / "bench/unseen/cosine_count.tc").read_text(encoding="utf-8")
    made = driver.compile(SourceFile("p.tc", text), Options(arch="sm_90a", variants=32), (),
                          plan=True)
    (planned,) = made.planned.values()
    tiles = [(128,), *(v["tile"] for v in planned["variants"])]
    assert choose(planned["choice"], tiles, [True] * len(tiles), (12000,), {3: 12000}) == 0
