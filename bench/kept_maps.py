"""What it costs that kernels make their own tensor maps: an upper bound of what maps that the
launch encodes on the host and keeps could gain.

    python bench/kept_maps.py [--rounds N] [--json FILE] [--compile-only]

At each size, by several tiles and clusters, half products as the compiler makes them, with TMA
("maps"), and the same without what claims, makes, publishes and frees maps ("kept"): that reads
the maps that the former left in memory, which were made for the same arguments.  "threads" make all
copies themselves.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from compiling import Compiled, compile_source

from tritonc.backend.emit.accesses import tensor_maps
from tritonc.backend.pipeline.tma.roles import CONSUMERS

SOURCE = Path(__file__).parent / "suite" / "matmul_f16.tc"
SIZES = [(512, 512, 512), (1024, 1024, 1024), (1024, 2048, 256), (2048, 512, 512),
         (512, 2048, 512), (2048, 2048, 512), (2560, 64, 2560), (128, 4096, 4096),
         (2048, 2048, 2048)]
TILES = [(64, 64), (64, 128), (128, 64), (128, 128), (128, 256)]
HOWS = ("default", "maps", "kept", "threads")
MAP = r"(\.global \.align 128 \.b8 )(tensor_maps_\w+)\[(\d+)\]"
Key = tuple[tuple[int, int], int, str]  # tile, blocks of a cluster, how


def compiled(key: Key) -> Compiled:
    (rows, columns), blocks, how = key
    tune = {"TM": rows, "TN": columns, "TK": 64, "coarsen": 0, "cluster_k": blocks}
    if how == "default":
        return compile_source(SOURCE, tune=tune)
    tune["tma_load"] = tune["tma_store"] = int(how != "threads")
    if how in ("maps", "threads"):
        return compile_source(SOURCE, tune=tune)
    nothing: Any = lambda *arguments: None  # noqa: E731
    with patch.object(tensor_maps, "_take", lambda f, claims: "0"), \
            patch.object(tensor_maps, "_acquire", nothing), \
            patch.dict(tensor_maps.EMITTERS, {"tensor_map": nothing, "release_slot": _meet}), \
            patch.object(tensor_maps, "_publish", nothing):
        return compile_source(SOURCE, tune=tune)


def _meet(f: Any, op: Any) -> None:
    """What is left of giving a slot back."""
    if f.role == CONSUMERS and tensor_maps._early(f, op.operands[0]) is not None:
        f.under(tensor_maps._in_warp(f, 0), "claimed",
                lambda: f.meet_at(*tensor_maps._HANDING_BACK))


def measure(found: dict[Key, Compiled], rounds: int) -> list[dict[str, Any]]:
    import harness
    import torch
    from cuda.bindings import driver

    def loaded(one: Compiled) -> tuple[Any, Any]:
        """The kernel, and where its maps are."""
        seen = re.search(MAP, one.ptx)
        text = re.sub(MAP, r".visible \1\2[\3]", one.ptx)
        kernel = harness.load(text, one.kernel)
        if seen is None:
            return kernel, None
        module = harness.call(driver.cuFuncGetModule(kernel.entry))
        place = harness.call(driver.cuModuleGetGlobal(module, seen[2].encode()))
        return kernel, (int(place), int(seen[3]))

    def copy(maps: tuple[int, int], kept: tuple[int, int]) -> None:
        """The first maps that are there to the first slot."""
        slot = maps[1] // (tensor_maps.ROWS * tensor_maps.SLOTS)
        buffer = ctypes.create_string_buffer(maps[1])
        harness.call(driver.cuMemcpyDtoH(ctypes.addressof(buffer), maps[0], maps[1]))
        data = buffer.raw
        start = next((i for i in range(0, maps[1], slot) if any(data[i:i + slot])), None)
        if start is not None:
            harness.call(driver.cuMemcpyHtoD(kept[0], ctypes.addressof(buffer) + start, slot))

    kernels = {key: loaded(one) for key, one in found.items()}
    rows = []
    for m, n, k in SIZES:
        a = torch.randn(m, k, device="cuda").half()
        b = torch.randn(k, n, device="cuda").half()
        c = torch.empty(m, n, device="cuda").half()
        want = a.double() @ b.double()
        runs: dict[str, Any] = {}
        for key, (kernel, maps) in kernels.items():
            tile, blocks, how = key
            if blocks * -(-m // tile[0]) * -(-n // tile[1]) > 1024:
                continue
            if how == "maps" and maps:
                harness.call(driver.cuMemsetD8(maps[0], 0, maps[1]))
            if how == "kept" and maps:
                copy(kernels[tile, blocks, "maps"][1], maps)

            run = partial(_launch, kernel, blocks, (m, n), a, b, c, m, n, k)
            c.fill_(float("nan"))
            run()
            torch.cuda.synchronize()
            if not harness.relative_error(c, want) < 2e-3:
                print(f"{m} x {n} x {k}: {_words(key)} is wrong")
                continue
            runs[_words(key)] = run
        quick = {name: min(times) for name, times in
                 harness.interleaved(runs, 2, 0.3, 0).items()}
        least = min(quick.values())
        kept = {name.rsplit(" ", 1)[0] for name, time in quick.items() if time < 1.25 * least}
        runs = {name: run for name, run in runs.items() if name.rsplit(" ", 1)[0] in kept}
        times = {name: 1e3 * harness.median(all_)
                 for name, all_ in harness.interleaved(runs, rounds, 1, 0.002).items()}
        rows.append({"size": (m, n, k), "microseconds": times})
        best = {how: min((time, name) for name, time in times.items() if name.endswith(how))
                for how in HOWS}
        print(f"{m} x {n} x {k}: " + "; ".join(f"{name} {time:.2f}" for time, name in
                                                best.values()), flush=True)
        for pair in sorted(kept):
            print(f"    {pair:16}" + "".join(
                f" {how} {times.get(f'{pair} {how}', 0):7.2f}" for how in best))
    return rows


def _launch(kernel: Any, blocks: int, extents: tuple[int, int], *arguments: Any) -> None:
    """Over a global range; the blocks of a cluster are the third axis of the grid."""
    tile = kernel.manifest["tile"]
    kernel.manifest["tile"] = [*tile[:2], 1] if blocks > 1 else tile
    kernel((*extents, blocks) if blocks > 1 else extents, *arguments)


def _words(key: Key) -> str:
    (rows, columns), blocks, how = key
    return f"{rows}x{columns}/{blocks} {how}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--json", type=Path, help="write what was measured to a file")
    options = parser.parse_args()
    keys: list[Key] = [*product(TILES, (1, 2), HOWS)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(keys, pool.map(compiled, keys), strict=True))
    if options.compile_only:
        for key, one in found.items():
            print(_words(key), one.kernel["tile"], one.kernel.get("cluster"),
                  *(one.ptx.count(word) for word in (
                      "cp.async.bulk.tensor", "tensormap.replace", "fenceproxy", "atom.")))
        return
    rows = measure(found, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
