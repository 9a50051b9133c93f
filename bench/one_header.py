"""Products and convolutions of many sizes through one header each, as a program in C++ has them.

    python bench/one_header.py [--filter REGEX] [--json FILE] [--tuned] [--known FILE]
    python bench/one_header.py --keep FOLDER --compile-only     compiles there, without a GPU
    python bench/one_header.py --keep FOLDER                    takes from there what it finds

Each kernel is compiled with variants into a header that holds the machine code, and a library with
nothing else is built of it.  Printed are the sizes of image and header, the choice for each size,
how long a choice takes, what wrong arguments give; the header is written twice and compared.

On a GPU each size is then launched through the header, and timed beside each variant of it and
beside other tiles, compiled alone: "of best" is the time of the best single tile by the header's.
What was measured gives a tuning file, as `tritonc tune` writes it, and with `--tuned` a second
header, which is compiled with it, is measured beside the first.  `--known` has what an earlier run
measured: those sizes are only measured in the end.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import paper_built
import suite_support
from header_library import Header, code_of, is_same, of_launch
from suite_support import Workload
from suite_worker import ROOT, Job, commit

from tritonc import driver, stages
from tritonc.launch.python.choosing import Chooser
from tritonc.options import MOST_VARIANTS, Options
from tritonc.problem.known import KnownLaunch
from tritonc.source import Diagnostics, SourceFile
from tritonc.tune import tuning_file
from tritonc.tune.model.portfolio import cover
from tritonc.tune.search.space import search_space

GROUPS = suite_support.GROUPS[:9]  # products and convolutions;
PLAIN = ("gemv", "int4_gemv")  # without a choice of tiles
ARCH, WITHIN = "sm_90a", 0.005
PREFIX = {"ours": "", "tuned": "other "}  # of the names of their variants; first words are groups
SCREEN = 4  # variants, and other tiles, that are compared with care, by what a glance gives
GRAPHS = 3  # of each candidate that is compared
# Of times that only a glance gave: below 10 us they are wrong by so much; of those of one graph.
DOUBT, DOUBT_ONCE = 1.25, 1.02


def write_headers(macros: Mapping[str, Sequence[str]], folder: Path, tuning: Mapping[str, Path],
                  count: int) -> dict[str, Header]:
    """Each kernel's, `count` times; exits where one is not as the others.  `macros` of each.
    Those that are there are not written again."""
    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            subprocess.run([
                sys.executable, "-m", "tritonc", suite_support.source(path.stem), f"--arch={ARCH}",
                "--variants", "--emit=header", "--embed=cubin", "-w", "-o", path,
                *(f"-D{macro}" for macro in macros[path.stem]),
                f"--tuning={tuning.get(path.stem, 'none')}"], check=True)

    def read(stem: str) -> Header:
        first, *others = (folder / str(number) / f"{stem}.h" for number in range(count))
        if any(path.read_bytes() != first.read_bytes() for path in others):
            raise RuntimeError(f"{stem}: two compilations differ")
        return Header(first, stem)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, [folder / str(number) / f"{stem}.h" for stem in macros
                              for number in range(count)]))
        return dict(zip(macros, pool.map(read, macros), strict=True))


def report(stem: str, header: Header, workloads: Sequence[Workload], count: int) -> None:
    """What needs no GPU: sizes, the choice, wrong arguments."""
    image = sum(int(line.rsplit(", ", 1)[1].rstrip("},")) for line in header.text.splitlines()
                if line.startswith(("    {\"", "     \"")) and line.endswith("},")
                and line.rsplit(", ", 1)[1].rstrip("},").isdigit())
    rule = header.row["choice"]["rule"] if header.variants else "none"
    print(f"{stem}: {len(header.variants)} variants, rule {rule}; machine code "
          f"{image / 1e3:.0f} kB, the header {len(header.text) / 1e3:.0f}; written {count} times, "
          "the same bytes")
    for workload in workloads:
        extents, arguments = of_launch(workload, header)
        number = header.library.variant(header.pack([*extents, *arguments]))
        print(f"    {workload.name:32} {number} {_words(header.tiles[number])}")
    known = [of_launch(w, header) for w in workloads]
    if header.variants:
        _random_sizes(stem, header, known)
    extents, arguments = known[0]
    for what, range_, given in (
            ("a negative extent", [-1, *extents[1:]], arguments),
            ("an extent of 2^40", [1 << 40, *extents[1:]], arguments),
            ("a misaligned array", extents, [v + (v == 0x1000) for v in arguments]),
            ("null arrays", extents, [0 if v == 0x1000 else v for v in arguments])):
        reason = ctypes.c_char_p()
        code = header.library.check(header.pack([
            *range_, *given, ctypes.addressof(reason)]))
        print(f"    {what}: CUresult {code}, {(reason.value or b'').decode()}")
    if header.variants:
        code = header.library.launch_variant(header.pack([99, *extents, 0, *arguments]))
        print(f"    variant 99: CUresult {code}")


def _random_sizes(stem: str, header: Header, known: Sequence[tuple[list[int], list[int]]]) -> None:
    """C and Python choose alike, and how long they take."""
    rng, packed = random.Random(1), []
    chooser = Chooser(header.row, header.parameters)
    native, launches = chooser.native(), []
    for _ in range(2000):
        launch = tuple(tuple(max(1, int(v * 2 ** rng.uniform(-3, 3))) if v != 0x1000 else v
                             for v in part) for part in rng.choice(known))
        launches.append(launch)
        packed.append(header.pack([*launch[0], *launch[1]]))
        wanted = chooser.number(launch[0], launch[1])
        if not header.library.variant(packed[-1]) == native(*launch) == wanted:
            sys.exit(f"{stem}: C and Python choose different variants")
    addresses = (ctypes.c_void_p * len(packed))(*map(ctypes.addressof, packed))
    nanoseconds = min(header.library.nanoseconds(addresses, len(packed)) for _ in range(200))
    python = math.inf
    for _ in range(20):
        start = time.perf_counter()
        for launch in launches:
            native(*launch)
        python = min(python, 1e9 * (time.perf_counter() - start) / len(launches))
    print(f"    2000 other sizes: C chooses as Python, in {nanoseconds:.0f} ns; Python in "
          f"{python:.0f}")


def _words(tunables: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in tunables.items())


def alone(workloads: Sequence[Workload], headers: Mapping[str, Header], folder: Path, more: int,
          known: Mapping[str, Job]) -> dict[str, dict[str, Any]]:
    """Tiles that are compiled by themselves, by stem and name: those that the suite tries, and of
    each kernel as many `more` that the cost model thinks the best at these sizes; at sizes that are
    `known`, the best."""
    jobs: dict[tuple[str, str], Job] = {}
    with ProcessPoolExecutor() as pool:
        found_more = {stem: pool.submit(
            _promising, stem, header.row["name"],
            [_known(w, header) for w in workloads if w.stem == stem and w.name not in known], more)
            for stem, header in headers.items() if more}
    for w in workloads:
        tiles = [*w.tiles, *(found_more[w.stem].result() if more else ())]
        if w.name in known:
            tiles = [_tile(name, known[w.name]) for name in (known[w.name]["best"],)
                     if name.startswith("tile")]
        for tile in tiles:
            jobs[w.stem, f"tile {_words(tile)}"] = {
                "do": "compile", "collection": "suite", "stem": w.stem, "defines": w.defines,
                "sizes": {}, "arch": ARCH, "tune": {**tile, "coarsen": 0}, "options": {},
                "cubin": True}
    for key, job in jobs.items():
        job["key"] = " ".join(key)
    made = paper_built.all_compiled([*jobs.values()], os.cpu_count() or 1, folder, limit=90)
    found: dict[str, dict[str, Any]] = {}
    for (stem, tile), job in jobs.items():
        if "at" in (result := made[job["key"]]):
            found.setdefault(stem, {})[tile] = result["at"]
        else:
            print(f"{job['key']}: {result['failed']}")
    return found


def _promising(stem: str, kernel: str, launches: Sequence[KnownLaunch], count: int
               ) -> list[dict[str, int]]:
    """The tiles that the cost model thinks the best at some of the launches."""
    source = SourceFile(stem, suite_support.source(stem).read_text())
    space = search_space(source, Options(arch=ARCH), kernel, launches=launches)
    return [*islice((dict(c) for c in space.candidates if set(c) == space.tunables), count)]


def _known(workload: Workload, header: Header) -> KnownLaunch:
    extents, arguments = of_launch(workload, header)
    return KnownLaunch(tuple(extents), {p.name: value for p, value in
                                        zip(header.parameters, arguments) if not p.pointer})


def measured(workload: Workload, headers: Mapping[str, Header], tiles: Mapping[str, str],
             rounds: int, least_ms: float) -> Job:
    """The times of the headers at one size, and those of each variant and tile, in milliseconds."""
    import suite_measure
    from suite_worker import _module

    bare = replace(workload, kind=replace(workload.kind, peers=lambda t: {}, hot=False),
                   problem=replace(workload.problem, bytes=None))
    modules: dict[str, tuple[Any, Any]] = {}
    for which, header in headers.items():
        row = {"kernels": [header.row]}
        modules[which] = (header.kernels(), row)
        for number in range(len(header.tiles)):
            modules[f"{PREFIX[which]}variant {number}"] = header.kernels(number), row
    for name, place in tiles.items():
        modules[name] = _module(place).kernels, row
    found = suite_measure.measure(bare, modules, rounds, least_ms, [], lambda text: None,
                                  screen=SCREEN, graphs=GRAPHS)
    samples = _of_equal_code(workload, headers, tiles, found["times"])
    times = {name: statistics.median(values) for name, values in samples.items()}
    return {"times": times, "glances": found["screened"], "compared": found["compared"],
            "wrong": found["wrong"]}


def _of_equal_code(workload: Workload, headers: Mapping[str, Header], tiles: Mapping[str, str],
                   samples: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """The samples of each, with those of what is the same machine code: a launch is its variant,
    and a tile by itself may be a variant.  Below 10 us the same code differs by 5 per cent."""
    code = {name: next(iter(code_of(Path(place).with_suffix(".cubin").read_bytes()).values()))
            for name, place in tiles.items() if name in samples}
    for which, header in headers.items():
        names = [f"{PREFIX[which]}variant {number}" for number in range(len(header.code))]
        taken = _number(workload, header)
        code |= {name: own for number, (name, own) in enumerate(zip(names, header.code))
                 if name in samples or number == taken}
        if which in samples:
            code[which] = header.code[taken]
    return {**samples, **{name: [value for other, same in code.items() if is_same(own, same)
                                 for value in samples.get(other, ())]
                          for name, own in code.items()}}


def measure_all(workloads: Sequence[Workload], sets: Mapping[str, Mapping[str, Header]],
                tiles: Mapping[str, Mapping[str, str]], options: argparse.Namespace,
                only: Mapping[str, str] | None = None) -> list[Job]:
    """`only`: of the tiles those of these names, by workload."""
    import torch

    torch.cuda.init()
    torch.cuda.current_stream()
    torch.zeros(1, device="cuda")
    rows = []
    for headers in sets.values():
        for header in headers.values():
            header.load()
    for w in workloads:
        if time.perf_counter() - options.started > options.limit:
            print("out of time")
            break
        headers = {which: of[w.stem] for which, of in sets.items()}
        mine = {name: place for name, place in tiles.get(w.stem, {}).items()
                if only is None or only[w.name] == name}
        row = measured(w, headers, mine, options.rounds, options.least_ms)
        times = row["times"]
        if not times.keys() & sets.keys() or not times.keys() - sets.keys():
            print(f"{w.name}: nothing was measured: {row['wrong']}")
            continue
        best = min((name for name in times if name not in sets), key=times.__getitem__)
        row |= {"name": w.name, "stem": w.stem, "sizes": dict(w.sizes), "best": best,
                "tiles": {f"{PREFIX[which]}variant {i}": tile for which, header in headers.items()
                          for i, tile in enumerate(header.tiles)},
                "ratio": {which: times[best] / times[which] for which in headers}}
        rows.append(row)
        print(f"{w.name:32} best {1e3 * times[best]:9.1f} us by {best:24}", *(
            f"{which} {1e3 * times[which]:9.1f} us by {_number(w, header)}, of best "
            f"{row['ratio'][which]:.3f}" for which, header in headers.items()),
            *(f"{name}: {why}" for name, why in row["wrong"].items()), sep="  ", flush=True)
    for which in sets:
        for stem in sets[which]:
            _print_summary(f"{which} {stem}", [row["ratio"][which] for row in rows
                                               if row["stem"] == stem])
        _print_summary(which, [row["ratio"][which] for row in rows])
    return rows


def _number(workload: Workload, header: Header) -> int:
    """The variant that a launch takes."""
    extents, arguments = of_launch(workload, header)
    return int(header.library.variant(header.pack([*extents, *arguments])))


def _print_summary(name: str, ratios: Sequence[float]) -> None:
    if ratios:
        print(f"{name}: least {min(ratios):.3f}, geometric mean "
              f"{math.exp(statistics.mean(map(math.log, ratios))):.3f}, of {len(ratios)} below "
              f"0.95: {sum(r < 0.95 for r in ratios)}, below 0.98: {sum(r < 0.98 for r in ratios)}")


def tuning_files(rows: Sequence[Job], folder: Path) -> dict[str, Path]:
    """What was measured as tuning files: of each size the best of the fewest tiles that are good
    everywhere."""
    import numpy as np

    found = {}
    for stem in dict.fromkeys(row["stem"] for row in rows):
        mine = [row for row in rows if row["stem"] == stem]
        times = []  # of each size, by tunables
        for row in mine:
            of: dict[tuple[tuple[str, int], ...], float] = {}
            for known, doubt in ((row["glances"], DOUBT), (row.get("compared", {}), DOUBT_ONCE),
                                 (row["times"], 1.0)):
                own = {name: tuple(sorted(_tile(name, row).items())) for name in known
                       if name not in PREFIX and name not in row["wrong"]}
                of |= {tile: doubt * min(known[name] for name in own if own[name] == tile)
                       for tile in own.values()}
            times.append(of)
        names = sorted(set().union(*times))
        best = [min(of.values()) for of in times]
        ratios = np.array([[of.get(name, math.inf) / least for of, least in zip(times, best)]
                           for name in names])
        largest = max(range(len(mine)), key=lambda i: math.prod(mine[i]["sizes"].values()))
        first = min(range(len(names)), key=lambda i: ratios[i][largest])
        chosen, _, _ = cover(np.minimum(ratios, 1e3), first, MOST_VARIANTS, WITHIN)
        members = [names[i] for i in sorted({first, *chosen})]
        path = suite_support.source(stem)
        text = SourceFile(str(path), path.read_text())
        digest = tuning_file.source_hash(stages.preprocess(text, Options(), Diagnostics()).tokens)
        entries = []
        for row, of in zip(mine, times, strict=True):
            name = min(members, key=lambda n: of.get(n, math.inf))
            entries.append(tuning_file.Entry(_kernel(stem), ARCH, row["sizes"], (), digest, "GPU",
                                             of[name], dict(name)))
        found[stem] = folder / f"{stem}.tune.json"
        found[stem].write_text(tuning_file.render(entries))
        print(f"{stem}: tuned, {len(members)} tiles")
    return found


def _kernel(stem: str) -> str:
    source = SourceFile(stem, suite_support.source(stem).read_text())
    module = driver.compile(source, Options(stop_after=driver.LOWER), ("tir",)).module
    assert module is not None
    return str(module.kernels[0].name)


def _tile(name: str, row: Job) -> dict[str, int]:
    if name in row["tiles"]:
        return dict(row["tiles"][name])
    return {key: int(value) for key, value in (word.split("=") for word in name.split()[1:])}


def _save(options: argparse.Namespace, results: Mapping[str, Any]) -> None:
    if options.json:
        options.json.write_text(json.dumps(results))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only workloads whose names match")
    parser.add_argument("--compile-only", action="store_true", help="what needs no GPU")
    parser.add_argument("--tuned", action="store_true", help="a tuned header, too")
    parser.add_argument("--known", type=Path, metavar="FILE", help="results of an earlier run")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="compile there, and take from "
                        "there what this compiler made of these kernels")
    parser.add_argument("--count", type=int, default=2, help="of compilations to compare")
    parser.add_argument("--more", type=int, default=0, metavar="N",
                        help="beside other tiles, too: N that the cost model thinks the best")
    parser.add_argument("--rounds", type=int, default=3, help="through each graph")
    parser.add_argument("--least-ms", type=float, default=1.0, help="of a sample")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds to begin sizes in")
    parser.add_argument("--json", type=Path, help="write what was measured to a file")
    options = parser.parse_args()
    options.started = time.perf_counter()
    workloads = [w for w in suite_support.workloads(options.filter)
                 if w.kind.group in GROUPS and w.stem not in PLAIN]
    macros = {w.stem: w.defines for w in workloads}
    print(commit())

    known = json.loads(options.known.read_text())["rows"] if options.known else []
    by_name = {row["name"]: row for row in known}

    with tempfile.TemporaryDirectory(prefix="tritonc-header-") as name:
        folder = kept = Path(name)
        if options.keep:
            kept = options.keep / paper_built.maker(
                ROOT / "tritonc", ROOT / "samples", ROOT / "bench" / "suite")
            kept.mkdir(parents=True, exist_ok=True)

        def headers(which: str, folder: Path, tuning: Mapping[str, Path]) -> dict[str, Header]:
            found = write_headers(macros, folder / which, tuning, options.count)
            print(f"--- {which}")
            for stem, header in found.items():
                report(stem, header, [w for w in workloads if w.stem == stem], options.count)
            return found

        sets = {"ours": headers("ours", kept, {})}
        new = [w for w in workloads if w.name not in by_name]
        tiles: dict[str, dict[str, Any]] = {}
        if options.keep or not options.compile_only:
            tiles = alone(workloads, sets["ours"], kept, options.more, by_name)
        if not options.compile_only:
            known += measure_all(new, sets, tiles, options)
            _save(options, {"commit": commit(), "rows": known})
        if options.tuned:
            tuning = tuning_files(known, folder)
            of = sha256(b"".join(path.read_bytes() for path in tuning.values())).hexdigest()[:16]
            sets["tuned"] = headers("tuned", kept / of, tuning)
        results = {"commit": commit(), "rows": known}
        if options.tuned and not options.compile_only:
            best = {row["name"]: row["best"] for row in known}
            workloads = [w for w in workloads if w.name in best]
            results["tuned"] = measure_all(workloads, sets, tiles, options, best)
        _save(options, results)
    print(f"{time.perf_counter() - options.started:.0f} s")


if __name__ == "__main__":
    main()
