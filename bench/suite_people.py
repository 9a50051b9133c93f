"""Stencils, routers, networks, gathers and atomics as people write them; peers torch and Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from suite_support import Kind, Launches, beside, tiles, with_triton

try:
    import torch
    from torch.nn import functional
except ImportError:  # compiling needs no torch
    torch = functional = None  # type: ignore[assignment]

GROUP = "kernels of users"
FLAT = {"BLOCK": [256, 512, 1024, 1024, 2048], "warps": [4, 4, 4, 8, 8]}
PLANES = {"TM": [1, 1, 4, 8, 16, 4], "TN": [256, 1024, 256, 128, 64, 128],
          "warps": [2, 4, 4, 4, 4, 4]}
ROWS = {"ROWS": [1, 1, 2, 4, 8, 16, 32], "warps": [1, 4, 4, 4, 4, 4, 4]}


def peers_of(kernel: str, grid: Callable[[Any, Any], Any], names: str,
             **values: Any) -> Callable[[Any], Launches]:
    """Launches of a kernel in Triton for a case."""
    def make(t: Any) -> Launches:
        def launches(kit: Any) -> Launches:
            import suite_triton_people

            rows = {key: value(t) if callable(value) else value for key, value in values.items()}
            count = max(len(v) for v in rows.values())
            rows = {key: v * count if len(v) == 1 else v for key, v in rows.items()}
            return kit.each(getattr(suite_triton_people, kernel), lambda c: grid(t, c),
                            [getattr(t, name) for name in names.split()], **rows)

        return with_triton(launches)

    return make


def _planes(t: Any, c: Any) -> Any:
    return -(-t.H // c["TM"]), -(-t.W // c["TN"])


def _flat(t: Any, c: Any) -> Any:
    return (-(-t.N // c["BLOCK"]),)


def _rows(t: Any, c: Any) -> Any:
    return (-(-t.M // c["ROWS"]),)


def _life(t: Any) -> Any:
    c = t.x + t.x.roll(1, 0) + t.x.roll(-1, 0)
    n = c + c.roll(1, 1) + c.roll(-1, 1) - t.x
    return {"y": ((n == 3) | (t.x == 1) & (n == 2)).to(torch.uint8)}


def _route(t: Any) -> Any:
    e, i = torch.softmax(t.x, 1).topk(2, 1)
    return {"gates": e / e.sum(1, keepdim=True), "chosen": i.int()}


def _hadamard(t: Any) -> Any:
    n = torch.arange(t.N, device=t.device)
    both, signs = n[:, None] & n, 0 * n[:, None] + 0 * n
    for b in range(16):
        signs = signs + (both >> b & 1)
    return {"y": t.x.double() @ (1 - 2 * (signs % 2)).double() / t.N ** 0.5}


def _windows(x: Any, r: int) -> Any:
    p = functional.pad(x[None, None].float(), (r, r, r, r), mode="replicate")[0, 0]
    h, w = x.shape
    return [p[i:i + h, j:j + w] for i in range(2 * r + 1) for j in range(2 * r + 1)]


def _median(t: Any) -> Any:
    parts = []
    for part in range(0, t.H, 1024):  # in pieces, for memory
        low, high = max(part - 1, 0), min(part + 1025, t.H)
        whole = torch.stack(_windows(t.x[low:high], 1)).median(0)[0].to(torch.uint8)
        parts.append(whole[part - low:part - low + min(1024, t.H - part)])
    return {"y": torch.cat(parts)}


def _blur(t: Any) -> Any:
    return {"y": sum(w.double() for w in _windows(t.x, t.R)) / (2 * t.R + 1) ** 2}


def _nearest(t: Any) -> Any:
    found = []
    for part in t.x.split(16384):
        d = sum((part[:, None, k] - t.c[None, :, k]) ** 2 for k in range(3))
        found.append(d.min(1))
    return {"distance": torch.cat([f[0] for f in found]).sqrt()}


def _shuffled(t: Any) -> Any:
    x = t.x.reshape(t.B, t.C, t.R, t.R, t.H, t.W).permute(0, 1, 4, 2, 5, 3)
    return {"y": x.contiguous()}


def _wave(t: Any) -> Any:
    s = sum(t.x.double().roll(d, a) for d in (-1, 1) for a in range(3))
    return {"y": t.x + t.k * (s - 6 * t.x)}


def _joint(t: Any) -> Any:
    both = [a.int() // 8 * 32 + b // 8 for a, b in zip(t.a.split(1 << 26), t.b.split(1 << 26))]
    return {"counts": sum(torch.bincount(one, minlength=1024) for one in both).int()}


def _masked_softmax(t: Any) -> Any:
    kept = t.x.float().mul_(t.scale).masked_fill_(t.keep[:, None, None] == 0, -1e9)
    return torch.softmax(kept, 3)


def _norm_rope(t: Any) -> Any:
    x = t.x.float()
    a, b = (x * torch.rsqrt(x.square().mean(2, keepdim=True) + t.eps) * t.w).chunk(2, 2)
    c, s = t.c[:, None], t.s[:, None]
    return torch.cat((a * c - b * s, b * c + a * s), 2)


def _decode(t: Any) -> Any:
    found = []
    for q, k, ks, v, vs in zip(t.q, t.k, t.ks, t.v, t.vs):  # a sequence at a time, for memory
        p = torch.softmax(t.scale * (q.float() @ k.float().mT) * ks[:, None], 2) * vs[:, None]
        found.append(p @ v.float())
    return {"o": torch.stack(found)}


def _csr(t: Any) -> Any:
    return torch.sparse_csr_tensor(t.start, t.column, t.value, (t.M, t.K))


def _segments(t: Any) -> Any:
    return torch.zeros(t.S, t.D, device=t.device).index_add_(0, t.segment, t.x)


def _bins(t: Any) -> Any:
    x = t.x
    inside = (x >= t.low) & (x < t.high)
    place = ((x[inside] - t.low) * (64 / (t.high - t.low))).int().clamp(max=63)
    return {"counts": sum(torch.bincount(p, minlength=64) for p in place.split(1 << 26)).int()}


def _bin_peers(t: Any) -> Launches:
    def tritons(kit: Any) -> Launches:
        import suite_triton_people

        found = {}
        for block, warps, parts in ((2048, 4, 1056), (4096, 8, 528), (2048, 4, 2112)):
            go = kit.run(suite_triton_people.bins, (parts,), t.x, t.counts, t.low, t.high, t.N,
                         parts, BLOCK=block, num_warps=warps)
            found[f"triton {block} warps{warps} parts{parts}"] = (
                lambda go=go: (t.counts.zero_(), go(), None)[2])
        return found

    return with_triton(tritons)


def _cleared(output: str, make: Callable[[Any], Launches]) -> Callable[[Any], Launches]:
    """Peers that add to an output, which is cleared before."""
    def run(t: Any, go: Callable[[], Any]) -> None:
        getattr(t, output).zero_()
        go()

    return lambda t: {name: lambda go=go: run(t, go) for name, go in make(t).items()}


def _squares(*rows: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda s: tiles(*rows, names="TH TW")


def _sizes(*rows: int, name: str = "T") -> Callable[[Any], Any]:
    return lambda s: tiles(*[(row,) for row in rows], names=name)


KINDS: Mapping[str, Kind] = {
    "life": Kind(GROUP, want=_life, limit=True, tiles=_squares((1, 512), (4, 256), (2, 512)),
                 peers=peers_of("life", _planes, "x y H W", **PLANES)),
    "route_two": Kind(GROUP, want=_route, limit=True, tolerance=1e-4,
                      tiles=_sizes(4, 16, 32, name="TM"),
                      peers=peers_of("route_two", _rows, "x gates chosen M",
                                     E=lambda t: [t.E], **ROWS), macros=lambda s: {"E": 64}),
    "compact": Kind(GROUP, want=lambda t: {"count": (t.x > 0).sum().int().reshape(1)},
                    zeroed=("count",), tiles=_sizes(512, 2048, 4096),
                    limit=True,
                    peers=_cleared("count", peers_of("compact", _flat, "x y count N", **FLAT))),
    "hadamard": Kind(GROUP, want=_hadamard, limit=True, tolerance=1e-4,
                     tiles=_sizes(1, 2, 4, name="TM"), macros=lambda s: {"N": 1024},
                     peers=peers_of("hadamard", _rows, "x y M", N=[1024], LOG=[10], **ROWS)),
    "median": Kind(GROUP, want=_median, limit=True, tiles=_squares((1, 512), (4, 256), (2, 512)),
                   peers=peers_of("median", _planes, "x y H W", **PLANES)),
    "blur": Kind(GROUP, want=_blur, tiles=_squares((1, 512), (4, 128), (8, 128)),
                 peers=peers_of("blur", _planes, "x y H W R", **PLANES)),
    "prefix_max": Kind(GROUP, want=lambda t: {"y": t.x.cummax(1)[0]}, limit=True,
                       macros=lambda s: {"N": 4096}, tiles=lambda s: [{"num_warps": 4}],
                       peers=peers_of("prefix_max", lambda t, c: (t.M,), "x y", N=[4096],
                                      warps=[4, 8, 16])),
    "bitonic": Kind(GROUP, want=lambda t: {"y": t.x.sort(1)[0]}, macros=lambda s: {"N": 256},
                    tiles=_sizes(1, 4, 8, name="TM"),
                    peers=peers_of("bitonic", _rows, "x y M", N=[256], **ROWS)),
    "nearest": Kind(GROUP, want=_nearest, tolerance=1e-4, hot=True,
                    tiles=lambda s: tiles((128, 16), (64, 32), names="TN TK"),
                    peers=peers_of("nearest", lambda t, c: (-(-t.N // c["TN"]),),
                                   "x c place distance N K", TN=[32, 64, 128, 256, 128],
                                   TK=[32, 32, 16, 8, 32], warps=[4, 4, 4, 4, 8])),
    "max_pool": Kind(GROUP, want=lambda t: {"y": functional.max_pool2d(t.x, 3, 2, 1)}, limit=True,
                     tiles=_squares((1, 128), (4, 128), (8, 64)),
                     peers=beside("torch", lambda t: functional.max_pool2d(t.x, 3, 2, 1), peers_of(
                         "max_pool", lambda t, c: (-(-t.H // 2 // c["TM"]), -(-t.W // 2 // c["TN"]),
                                                   t.B * t.C), "x y H W",
                         TM=[1, 4, 8, 16, 4], TN=[128, 128, 128, 64, 64], warps=[1, 4, 4, 4, 4]))),
    "upsample": Kind(GROUP, want=lambda t: {"y": functional.interpolate(
        t.x[:, None], scale_factor=2, mode="bilinear")}, limit=True, tolerance=1e-4,
        tiles=_squares((1, 512), (4, 256), (8, 128)),
        peers=beside("torch", lambda t: functional.interpolate(
            t.x[:, None], scale_factor=2, mode="bilinear"), peers_of(
                "upsample", lambda t, c: (-(-2 * t.H // c["TM"]), -(-2 * t.W // c["TN"]), t.B),
                "x y H W", **PLANES))),
    "sparse_rows": Kind(
        GROUP, want=lambda t: {"y": (t.value * t.x[t.column]).reshape(t.M, t.L).sum(1)},
        tolerance=1e-4, tiles=lambda s: [{"num_warps": 1}],
        peers=beside("torch (cusparse)", lambda t: _csr(t) @ t.x, peers_of(
            "sparse_rows", lambda t, c: (t.M,), "start column value x y", BLOCK=[32, 32, 128],
            warps=[1, 4, 4]))),
    "segment_sum": Kind(
        GROUP, want=lambda t: {"y": _segments(t)}, zeroed=("y",), tolerance=1e-3,
        tiles=lambda s: tiles((4, 64), (16, 64), (64, 64), names="TN TD"),
        peers=beside("torch", _segments, _cleared("y", peers_of(
            "segment_sum", lambda t, c: (-(-t.N // c["TM"]), -(-t.D // c["TN"])),
            "x segment y N D", TM=[4, 16, 32, 64], TN=[64] * 4, warps=[1, 4, 4, 4])))),
    "bins": Kind(GROUP, want=_bins, zeroed=("counts",), tolerance=1e-4,
                 tiles=_sizes(512, 2048, 4096), peers=_bin_peers),
    "pixel_shuffle": Kind(GROUP, want=_shuffled, limit=True, tiles=_sizes(256, 512, 2048),
                          peers=beside("torch", lambda t: _shuffled(t)["y"], peers_of(
                              "pixel_shuffle", _flat, "x y C R H W N", **FLAT))),
    "wave": Kind(GROUP, want=_wave, limit=True, tiles=_sizes(256, 512, 2048),
                 peers=peers_of("wave", lambda t, c: (-(-t.D * t.H * t.W // c["BLOCK"]),),
                                "x y D H W k", **FLAT)),
    "joint_histogram": Kind(GROUP, want=_joint, zeroed=("counts",), limit=True,
                            peers=lambda t: {}, tiles=_sizes(2048, 8192)),
    "masked_softmax": Kind(GROUP, want=lambda t: {"y": _masked_softmax(t)}, limit=True,
                           tiles=_sizes(2, 4, name="TT"),
                           peers=lambda t: {"torch": lambda: _masked_softmax(t)}),
    "qk_norm_rope": Kind(GROUP, want=lambda t: {"y": _norm_rope(t)}, limit=True,
                         macros=lambda s: {"D": 128}, tiles=lambda s: tiles((1, 8), names="TT TH"),
                         peers=lambda t: {"torch": lambda: _norm_rope(t)}),
    "decode_int8": Kind(GROUP, want=_decode, limit=True, tolerance=5e-3, peers=lambda t: {},
                        macros=lambda s: {"G": 4, "D": 128}, tiles=_sizes(32, 128, name="TN")),
}
