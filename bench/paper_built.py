"""Compilations kept in a folder, so that a machine with a GPU need not wait for them.

    python bench/paper.py --try --build FOLDER      compiles there, with or without a GPU
    python bench/paper.py --try --built FOLDER      takes from there what the same compiler made
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import suite_support
from suite_worker import ROOT, Job, do_all

COMPILE_LIMIT = 60.0  # seconds of one compilation,
TRY_LIMIT = 25.0  # and of one that is tried: a tile that spills a thousand registers takes minutes
INDEX = "index.jsonl"
_PLACE = ("folder", "key", "cubin", "load")  # what of a job says where, and not what


def all_compiled(jobs: Sequence[Job], count: int, folder: Path, trusted: bool = False,
                 limit: float = COMPILE_LIMIT) -> dict[str, Job]:
    """The results of compilations by their keys.  What the folder has is taken from it; `trusted`:
    though another compiler made it."""
    known = {} if not (folder / INDEX).exists() else {
        row["name"]: row for row in map(json.loads, (folder / INDEX).read_text().splitlines())}
    compiler = maker(ROOT / "tritonc")
    found: dict[str, Job] = {}
    left = []
    for job in jobs:
        row = known.get(_name(job))
        if row is None or not (trusted or row["compiler"] == compiler):
            left.append(job)
            continue
        result = row["result"]
        found[job["key"]] = result | (
            {"at": str(folder / result["at"])} if "at" in result else {})
    placed = [{**job, "folder": str(folder)} for job in left]
    with (folder / INDEX).open("a") as index:
        for job, result in do_all(placed, count, limit, folder / "log"):
            kept = {k: v for k, v in result.items() if k not in ("remarks", "warnings", "where")}
            if "at" in kept:
                kept["at"] = Path(kept["at"]).name
            row = {"name": _name(job), "compiler": compiler, "result": kept}
            index.write(json.dumps(row) + "\n")
            index.flush()
            found[job["key"]] = result
    return found


def _name(job: Job) -> str:
    """What a job compiles: its text counts, its place does not."""
    path = suite_support.source(job["stem"], job["collection"])
    own = {name: value for name, value in job.items() if name not in _PLACE}
    lines = [line for line in path.read_text().splitlines() if not line.startswith("//")]
    return sha256("\n".join([json.dumps(own, sort_keys=True), *lines]).encode()).hexdigest()[:24]


def maker(*folders: Path) -> str:
    """A digest of what makes a compilation: the compiler's files, and others."""
    found = sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.suffix in (".py", ".lark", ".tc"):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]
