"""Variants on a GPU: each is right, and so is the launch that chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from variant_sources import FACTS, PRODUCT, SIZES, STREAM, write, write_tuning

import tritonc

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
ODD = ((1, 1, 1), (17, 2560, 33), (2560, 16, 2560), (300, 500, 700), (1024, 1024, 1024))


@pytest.mark.parametrize("options", [{"variants": 4}, {}], ids=["compiled", "planned"])
@pytest.mark.parametrize("tuned", [False, True], ids=["model", "tuned"])
def test_products(tuned: bool, options: dict[str, int], tmp_path: Path) -> None:
    """At several sizes, as chosen and each variant by hand."""
    path = write(tmp_path, "product.tc", PRODUCT)
    kernel = tritonc.compile(path, **options)
    if tuned:
        write_tuning(path, kernel.module.manifest["target"])
        kernel = tritonc.compile(path, **options)
    stream = torch.cuda.current_stream()
    chosen = set()
    for m, n, k in (*ODD, *((s["M"], s["N"], s["K"]) for s in SIZES[:3])):
        a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
        wanted = (a.double() @ b.double()).float()
        numbers = [None, 0, *[number for number, variant in enumerate(kernel.variants, 1)
                              if not variant.workspace]]
        assert len(numbers) > 2
        for number in numbers:
            c = torch.full((m, n), float("nan"), device="cuda")
            arguments = (m, n), a, b, c, m, n, k, 1
            if number is None:
                kernel.launch(stream, *arguments)
            else:
                kernel.launch_variant(number, stream, *arguments)
            torch.testing.assert_close(c, wanted, rtol=1e-4, atol=1e-3)
        chosen.add(kernel.variant((m, n), a, b, c, m, n, k, 1))
    assert len(chosen) > 1


def test_facts() -> None:
    kernel = tritonc.compile(STREAM, tunables={"T": 64}, variant=FACTS)
    x = torch.randn(4096, device="cuda")
    for start, count, stride in ((0, 1024, 1), (1, 1024, 1), (0, 60, 2), (0, 1024, 2)):
        own = x.clone()
        kernel.launch(0, count, own[start:], count, stride)
        wanted = x.clone()
        wanted[start : start + count * stride : stride] *= 2
        torch.testing.assert_close(own, wanted)


def test_memory_for_sums() -> None:
    """Few tiles and a long sum, on two streams; the same bits each time, whatever ran before."""
    kernel = tritonc.compile(PRODUCT, tunables={"TM": 64, "TN": 64, "TK": 16},
                             variant=("memory_k=8", "TM=16,TN=64,memory_k=16"))
    assert [v.workspace > 0 for v in kernel.variants] == [True, True]
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    found: dict[tuple[int, int, int], torch.Tensor] = {}
    for turn in range(6):
        for m, n, k in ((64, 64, 65536), (100, 60, 30000), (17, 33, 4099)):
            torch.manual_seed(k)
            a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
            c = torch.full((m, n), float("nan"), device="cuda")
            arguments = (m, n), a, b, c, m, n, k, 1
            number = kernel._chooser.number((m, n), arguments[1:], memory=True)
            assert number and kernel.variant(*arguments) == 0
            torch.cuda.synchronize()
            with torch.cuda.stream(streams[turn % 2]):
                kernel.launch(streams[turn % 2], *arguments)
            torch.cuda.synchronize()
            torch.testing.assert_close(c, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-2)
            assert torch.equal(found.setdefault((m, n, k), c), c)
