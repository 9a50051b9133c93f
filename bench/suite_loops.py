"""Histograms, sorts, scans, stencils and recurrences in the suite; peers torch and Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, beside, elsewise, power, tiles, with_triton

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

Sizes = Mapping[str, int]
SCANS, LOOPS = "histogram, sort, scan", "loops of tiles"


def choices(names: str, *rows: tuple[int, ...]) -> Callable[[Sizes], Sequence[Mapping[str, int]]]:
    return lambda sizes: tiles(*rows, names=names)


def _warps(s: Sizes) -> Sequence[Mapping[str, int]]:
    return [{"num_warps": n} for n in (1, 2, 4, 8)]


def peers_of(kernel: str, grid: Callable[[Any, Any], Any],
             arguments: Callable[[Any], Sequence[Any]], **values: Any) -> Callable[[Any], Launches]:
    """Launches of a kernel in Triton for a case."""
    def make(t: Any) -> Launches:
        def launches(kit: Any) -> Launches:
            import suite_triton_loops

            rows = {key: value(t) if callable(value) else value for key, value in values.items()}
            return kit.each(getattr(suite_triton_loops, kernel), lambda c: grid(t, c),
                            arguments(t), **rows)

        return with_triton(launches)

    return make


def _counts(t: Any) -> Mapping[str, Any]:
    parts = [torch.bincount(x.int(), minlength=256) for x in t.x.split(1 << 26)]
    return {"counts": sum(parts).int()}


def _count_peers(t: Any) -> Launches:
    def tritons(kit: Any) -> Launches:
        import suite_triton_loops

        found = {}
        for block, warps, parts in ((2048, 4, 1056), (4096, 8, 528), (8192, 8, 528),
                                    (2048, 4, 2112)):
            go = kit.run(suite_triton_loops.histogram, (parts,), t.x, t.counts, t.N, parts,
                         BLOCK=block, num_warps=warps)
            found[f"triton {block} warps{warps} parts{parts}"] = (
                lambda go=go: (t.counts.zero_(), go(), None)[2])
        return found

    return {"torch": lambda: torch.histc(t.x, 256, 0, 255), **with_triton(tritons)}


def _stencil(t: Any) -> Any:
    e, c = t.edge, t.corner
    weights = torch.tensor([[c, e, c], [e, 1 - 4 * e - 4 * c, e], [c, e, c]], device=t.device)
    return weights[None, None]


def _stencil_want(t: Any) -> Any:
    p = functional.pad(t.x.double(), (1, 1, 1, 1))
    sides = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    corners = p[:-2, :-2] + p[:-2, 2:] + p[2:, :-2] + p[2:, 2:]
    middle = (1 - 4 * t.edge - 4 * t.corner) * p[1:-1, 1:-1]
    return middle + t.edge * sides + t.corner * corners


def _bodies(t: Any) -> Mapping[str, Any]:
    ax, ay, az = [], [], []
    x, y, z, m = (v.double() for v in (t.x, t.y, t.z, t.mass))
    for part in torch.arange(t.N, device=t.device).split(2048):
        dx, dy, dz = (v - v[part, None] for v in (x, y, z))
        f = m * (dx * dx + dy * dy + dz * dz + t.soft) ** -1.5
        ax.append((f * dx).sum(1))
        ay.append((f * dy).sum(1))
        az.append((f * dz).sum(1))
    return {"ax": torch.cat(ax), "ay": torch.cat(ay), "az": torch.cat(az)}


def _scan(t: Any) -> Mapping[str, Any]:
    h = torch.zeros(t.B, t.E, t.NS, device=t.device)
    y = torch.empty(t.B, t.L, t.E, device=t.device)
    for i in range(t.L):
        dt = t.dt[:, i, :, None]
        h = torch.exp(dt * t.a) * h + dt * t.x[:, i, :, None] * t.b[:, i, None]
        y[:, i] = (h * t.c[:, i, None]).sum(2)
    return {"y": y}


def _depthwise(t: Any, kind: Any) -> Any:
    return functional.conv2d(t.x.to(kind), t.w.to(kind)[:, None], padding=3, groups=t.C)


def _over_time(t: Any, kind: Any) -> Any:
    x = t.x.to(kind).transpose(1, 2)
    y = functional.conv1d(x, t.w.to(kind)[:, None], t.bias.to(kind), padding=3, groups=t.E)
    return functional.silu(y[:, :, :t.L]).transpose(1, 2)


def _exact(function: Callable[[Any, Any], Any], *arguments: Any) -> Any:
    """Without cuDNN, which has few convolutions of such kinds in such types."""
    with torch.backends.cudnn.flags(enabled=False):
        return function(*arguments)


def _escape(t: Any) -> Mapping[str, Any]:
    y = t.low + t.step * torch.arange(t.H, device=t.device)[:, None]
    x = t.left + t.step * torch.arange(t.W, device=t.device)
    zr = torch.zeros(t.H, t.W, device=t.device)
    zi, count = zr.clone(), zr.int()
    running = zr == 0
    for _ in range(t.LIMIT):
        u, v = zr * zr - zi * zi + x, 2 * zr * zi + y
        zr, zi = torch.where(running, u, zr), torch.where(running, v, zi)
        count += running
        running &= zr * zr + zi * zi <= 4
    return {"times": count}


def _squares(t: Any, c: Any) -> Any:
    return -(-t.H // c["TM"]), -(-t.W // c["TN"])


def _planes(t: Any, c: Any) -> Any:
    return *_squares(t, c), t.B * t.C


def _sort_float(t: Any) -> Any:
    return torch.sort(t.x, 1)[0]


def _sum_of_all(t: Any) -> Any:
    """Of torch; which is CUB's."""
    return torch.cumsum(t.x, 0, out=t.y)


def long_scan(**more: Any) -> Kind:
    return Kind(SCANS, want=lambda t: {"y": torch.cumsum(t.x.double(), 0)},
                peers=lambda t: {"torch (cub)": lambda: _sum_of_all(t)}, tolerance=1e-4,
                variants=({"T": 4096}, {"T": 1024}), tiles=lambda s: [{"num_warps": n} for n in
                                                                    (4, 8, 16)], **more)


KINDS = {
    "cumsum_columns": Kind(
        SCANS, want=lambda t: {"y": t.x.double().cumsum(0)},
        peers=lambda t: {"torch": lambda: t.x.cumsum(0)}, limit=True,
        tiles=lambda s: tiles((32, 32), (64, 16), names="TC TR")),
    "histogram": Kind(SCANS, want=_counts, peers=_count_peers, zeroed=("counts",),
                      tiles=choices("T", (512,), (2048,), (4096,))),
    "histogram_bytes": Kind(SCANS, want=_counts, peers=_count_peers, zeroed=("counts",),
                            tiles=choices("T", (512,), (2048,), (4096,))),
    "sort_rows": Kind(
        SCANS, want=lambda t: {"y": _sort_float(t)}, tiles=_warps,
        peers=beside("torch", _sort_float, peers_of(
            "sort_rows", lambda t, c: (-(-t.M // c["ROWS"]),), lambda t: [t.x, t.y],
            N=[256] * 3, ROWS=[1, 1, 4], warps=[1, 4, 8]))),
    "rank_rows": Kind(
        SCANS, want=lambda t: {"y": _sort_float(t)}, tiles=_warps,
        peers=lambda t: peers_of(
            "rank_some", lambda t, c: (t.M,), lambda t: [t.x, t.y, t.M, t.N],
            BLOCK=lambda t: [power(t.N)] * 4, warps=[1, 2, 4, 8])(t) | elsewise(beside(
                "torch sort", _sort_float, peers_of(
                    "sort_some", lambda t, c: (-(-t.M // c["ROWS"]),),
                    lambda t: [t.x, t.y, t.M, t.N], BLOCK=lambda t: [power(t.N)] * 4,
                    ROWS=[1, 2, 4, 8], warps=[1, 2, 4, 4]))(t))),
    "scan_three": long_scan(),
    "scan_lookback": long_scan(zeroed=("told", "ticket")),
    "scan_lookback_window": long_scan(zeroed=("told", "ticket")),
    "stencil": Kind(
        LOOPS, want=lambda t: {"y": _stencil_want(t)},
        peers=beside("torch", lambda t: functional.conv2d(t.x[None, None], _stencil(t), padding=1),
                     peers_of("stencil", _squares,
                              lambda t: [t.x, t.y, t.H, t.W, t.edge, t.corner],
                              TM=[1, 4, 8, 16, 32], TN=[1024, 256, 128, 64, 64],
                              warps=[4, 4, 4, 4, 8])),
        tiles=choices("TH TW", (1, 512), (4, 256), (8, 128), (16, 64))),
    "n_body": Kind(
        LOOPS, want=_bodies, tolerance=2e-4, hot=True,
        peers=peers_of("n_body", lambda t, c: (-(-t.N // c["TI"]),),
                       lambda t: [t.x, t.y, t.z, t.mass, t.ax, t.ay, t.az, t.N, t.soft],
                       TI=[64, 128, 64, 256, 32], TJ=[32, 16, 16, 8, 32], warps=[4, 4, 4, 4, 4]),
        tiles=choices("TI TJ", (64, 32), (128, 16), (256, 8), (64, 16))),
    "selective_scan": Kind(
        LOOPS, want=_scan, tolerance=1e-4,
        peers=peers_of("selective_scan", lambda t, c: (-(-t.E // c["TE"]), t.B),
                       lambda t: [t.x, t.dt, t.a, t.b, t.c, t.y, t.L, t.E],
                       NS=lambda t: [t.NS] * 5, TE=[8, 16, 32, 64, 128], warps=[1, 1, 2, 4, 4]),
        tiles=choices("TE", (8,), (16,), (32,), (64,)), macros=lambda s: {"NS": 16}),
    "depthwise": Kind(
        LOOPS, want=lambda t: {"y": _exact(_depthwise, t, torch.float64)}, hot=True,
        peers=beside("cudnn", lambda t: _depthwise(t, torch.float32), peers_of(
            "depthwise", _planes, lambda t: [t.x, t.w, t.y, t.C, t.H, t.W],
            TM=[8, 16, 16, 32], TN=[64, 64, 32, 64], warps=[4, 4, 4, 8])),
        tiles=choices("TH TW", (16, 128), (8, 64), (16, 64), (32, 32))),
    "depthwise_time": Kind(
        LOOPS, want=lambda t: {"y": _exact(_over_time, t, torch.float32).contiguous()},
        peers=beside("torch", lambda t: _over_time(t, torch.bfloat16), peers_of(
            "depthwise_time", lambda t, c: (-(-t.L // c["TM"]), -(-t.E // c["TN"]), t.B),
            lambda t: [t.x, t.w, t.bias, t.y, t.L, t.E], TM=[4, 8, 16, 32],
            TN=[256, 256, 128, 128], warps=[4, 4, 4, 8])),
        tiles=choices("TL TE", (4, 256), (8, 256), (8, 512), (16, 128))),
    "mandelbrot": Kind(
        LOOPS, want=_escape, tolerance=0.05, hot=True,
        peers=peers_of("mandelbrot", _squares,
                       lambda t: [t.times, t.H, t.W, t.left, t.low, t.step, t.limit],
                       TM=[1, 4, 8, 16, 8], TN=[128, 32, 16, 16, 32], warps=[1, 1, 1, 4, 4]),
        tiles=choices("TH TW", (1, 32), (4, 32), (8, 16), (8, 64))),
    "search_sorted": Kind(
        LOOPS, want=lambda t: {"place": torch.searchsorted(t.table, t.x).int()},
        inputs=lambda t: {"table": torch.sort(torch.randn(t.R, device=t.device))[0]},
        peers=beside("torch", lambda t: torch.searchsorted(t.table, t.x, out_int32=True), peers_of(
            "search_sorted", lambda t, c: (-(-t.N // c["BLOCK"]),),
            lambda t: [t.table, t.x, t.place, t.N, t.R], BLOCK=[128, 256, 512, 1024],
            warps=[4, 4, 4, 4])),
        tiles=choices("T", (128,), (256,), (512,), (1024,))),
}
