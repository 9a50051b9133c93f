"""Builtins that move the elements of a tile, and reductions and scans by functions; peers Triton.

Kernel and peer do equal work: a program reads some rows, calls the builtin and writes its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite_support import Kind, Launches, tiles, with_triton

try:
    import torch
except ImportError:  # compiling needs no torch
    torch = None  # type: ignore[assignment]

GROUP = "builtins of tiles"
SMALL = ((1, 1), (4, 4), (8, 4))  # rows and warps of a program
LARGE = ((1, 4), (1, 8), (1, 16))


def _distinct(t: Any) -> Mapping[str, Any]:
    """Rows of which no two numbers are equal, so that places are certain."""
    return {"x": torch.rand(t.M, t.N, device=t.device).argsort(1).float()}


def tile(kernel: str, want: Callable[[Any], Mapping[str, Any]], names: str, rows: Any,
         macros: Sequence[Mapping[str, int]], tolerance: float | None = None,
         inputs: Any = None) -> Kind:
    """A kernel of rows that are as long as macro N says; `names` are the peer's arguments."""
    def peers(t: Any) -> Launches:
        def launches(kit: Any) -> Launches:
            import suite_triton_tiles

            more = {name: [getattr(t, name)] * len(rows) for name in macros[0]}
            if rows[0][0]:
                more["ROWS"] = [row for row, _ in rows]
            return kit.each(getattr(suite_triton_tiles, kernel),
                            lambda c: (-(-t.M // c.get("ROWS", 1)),),
                            [getattr(t, name) for name in names.split()],
                            **more, warps=[warps for _, warps in rows])

        return with_triton(launches)

    return Kind(GROUP, want=want, peers=peers, variants=macros, tolerance=tolerance,
                inputs=inputs,
                tiles=lambda s: tiles((1,), (2,), (4,), (8,), names="TM") if rows[0][0] else [])


def _top(t: Any) -> Mapping[str, Any]:
    values, places = t.x.topk(t.K, 1)
    return {"values": values, "places": places.int()}


def _steps(t: Any) -> Mapping[str, Any]:
    f, x = t.f.double() + 0.5, t.x.double()
    s, y = torch.zeros_like(x[:, 0]), torch.empty_like(x)
    for i in range(x.shape[1]):
        s = s * f[:, i] + x[:, i]
        y[:, i] = s
    return {"y": y}


def _lse(t: Any) -> Mapping[str, Any]:
    return {"y": torch.logsumexp(t.x, 1)}


def _counts(t: Any) -> Mapping[str, Any]:
    counts = torch.zeros(t.M, 256, dtype=torch.int32, device=t.device)
    counts.scatter_add_(1, t.x.long(), torch.ones_like(t.x))
    return {"counts": counts}


KINDS = {
    "tile_sort": tile("sort", lambda t: {"y": torch.sort(t.x, 1)[0]}, "x y M", SMALL,
                      ({"N": 256}, {"N": 1024})),
    "tile_topk": tile("topk", _top, "x values places M", SMALL,
                      ({"N": 256, "K": 8}, {"N": 1024, "K": 32}), inputs=_distinct),
    "tile_topk_values": tile("topk_values", lambda t: {"values": t.x.topk(t.K, 1)[0]},
                             "x values M", SMALL, ({"N": 256, "K": 8}, {"N": 1024, "K": 32})),
    "tile_gather": tile(
        "gather", lambda t: {"y": t.x.gather(1, t.order.long())}, "x order y M", SMALL,
        ({"N": 1024},)),
    "tile_cumsum": tile("cumsum", lambda t: {"y": torch.cumsum(t.x.double(), 1)}, "x y M", SMALL,
                        ({"N": 1024},), tolerance=1e-4),
    "tile_histogram": tile("histogram", _counts, "x counts", ((0, 1), (0, 4), (0, 8)),
                           ({"N": 2048},)),
    "scan_steps": tile("steps", _steps, "f x y M", SMALL, ({"N": 1024},), tolerance=1e-3),
    "lse_merge": tile("lse_merge", _lse, "x y M", LARGE, ({"N": 4096},)),
    "lse_two": tile("lse_two", _lse, "x y M", LARGE, ({"N": 4096},)),
    "welford": tile(
        "welford", lambda t: {"mean": t.x.mean(1), "variance": t.x.double().var(1, correction=0)},
        "x mean variance M", LARGE, ({"N": 4096},), tolerance=1e-4),
    "argmax_pairs": tile(
        "argmax", lambda t: {"most": t.x.amax(1), "place": t.x.argmax(1).int()},
        "x most place M", LARGE, ({"N": 4096},)),
}
