"""`tritonc tune FILE` and `tritonc bench FILE`: measuring on GPUs."""

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from tritonc.cli import console
from tritonc.cli.option_table import WITHIN
from tritonc.options import DEFAULT_ARCH, NATIVE
from tritonc.tune.tuning_file import beside, with_tuning_file


def tune_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc tune FILE`: the exit code.  `given` has the parameters by name."""
    messages = console.Messages(given)
    path = _source_path(files, given)
    sizes = _sizes(given)
    options = replace(console.options_from({**given, "sizes": ()}), tuning=None)
    budget = given["budget"] or math.inf
    within = (WITHIN if given["within"] is None else given["within"]) / 100
    timeout = given["timeout"] or 30.0
    jobs = given["jobs"] or os.cpu_count() or 1
    indices = _indices(given)
    if given["tuning"] == "none":
        raise click.UsageError("tune writes a tuning file, so --tuning=none has no meaning")

    from tritonc.tune.search import task as tasks
    from tritonc.tune.search import tuner
    from tritonc.tune.workers.sites import Site, local_gpus

    source, diagnostics = console.read_source(path, options)
    site: Site | None
    if given["cluster"] is not None:
        from tritonc.tune.workers.cluster import Cluster

        site = Cluster.connect(given["cluster"], timeout)
    else:
        site = local_gpus(indices, jobs, timeout)
    target = site.target if site is not None else DEFAULT_ARCH
    if given["arch"] not in (None, NATIVE):
        target = given["arch"]
    request = tasks.Request(source, options, given["tuning"] or beside(path), given["kernel"],
                            sizes, given["seed"] or 0, budget, given["fresh"], given["report"],
                            within, given["space"] == "nesting", given["where"])
    task = tasks.prepare(request, target, diagnostics)
    messages.show(diagnostics.items)
    if site is None:
        click.echo(f"There is no GPU here. The cost model ranks {len(task.space.candidates)} "
                   f"candidates for {target}; the first are:")
        click.echo("\n".join(tuner.ranking(task)))
        return console.NO_DEVICE
    choices = tuner.tune(request, task, site, sys.stderr)
    return console.SUCCESS if len(choices) == len(task.sizes) else console.INPUT_ERROR


def bench_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc bench FILE`: the exit code."""
    messages = console.Messages(given)
    path = _source_path(files, given)
    sizes = _sizes(given)
    options = with_tuning_file(console.options_from({**given, "sizes": ()}), path)
    indices = _indices(given) or [0]
    if len(indices) > 1:
        raise click.UsageError("bench measures on one GPU: --devices=N")

    from tritonc.tune.timing.bench import bench

    source, diagnostics = console.read_source(path, options)
    if given["arch"] is None:
        options = replace(options, arch=NATIVE)
    failed = False
    for line in bench(source, options, sizes, given["kernel"], given["seed"] or 0, indices[0],
                      diagnostics, given["against"]):
        click.echo(line.text)
        failed |= not line.ok
    messages.show(diagnostics.items)
    return console.INPUT_ERROR if failed else console.SUCCESS


def _source_path(files: tuple[str, ...], given: Mapping[str, Any]) -> str:
    path = console.only_file(files)
    if console.language_of(path, given) != "tc":
        raise click.UsageError(f"'{path}' is Triton-IR; only Triton-C sources can be measured")
    return path


def _indices(given: Mapping[str, Any]) -> list[int] | None:
    if given["devices"] is None:
        return None
    words = given["devices"].split(",")
    if not all(word.isdecimal() for word in words):
        raise click.UsageError(f"--devices takes numbers of GPUs, not '{given['devices']}'")
    return list(dict.fromkeys(map(int, words)))


def _sizes(given: Mapping[str, Any]) -> list[dict[str, int]]:
    from tritonc.tune.search import sizes

    flag = "--set"
    try:
        found = sizes.expand_all(given["sizes"])
        if given.get("size_files"):
            flag = "--sizes"
            lines = [line for path in given["size_files"] for line in sizes.read(path)]
            found = sizes.expand_all([*given["sizes"], *lines])
    except ValueError as error:
        raise click.UsageError(f"{flag} takes NAME=INTEGER, NAME=LOW..HIGH:x2 and "
                               f"NAME=LOW..HIGH:+64: {error}") from None
    except OSError as error:
        raise click.UsageError(f"--sizes: cannot read '{error.filename}': {error.strerror}"
                               ) from None
    return found
