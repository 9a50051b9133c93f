"""The same input gives the same bytes: under any hash seed, from any directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def compile_in_process_of_its_own(seed: str, directory: Path) -> dict[str, bytes]:
    source = os.path.relpath(ROOT / "samples" / "matmul.tc", directory)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "tritonc", source, "--emit=ptx,tir,manifest,header",
                    "--embed", "-o", str(directory / "out")], env=environment, cwd=directory,
                   check=True)
    return {path.suffix: path.read_bytes() for path in sorted(directory.glob("out.*"))}


def test_hash_seeds_and_directories(tmp_path: Path) -> None:
    found = []
    for seed in ("0", "1", "2"):
        directory = tmp_path / f"in {seed}"
        directory.mkdir()
        found.append(compile_in_process_of_its_own(seed, directory))
    assert found[0].keys() == {".h", ".ptx", ".tir", ".json"}
    assert found[0] == found[1] == found[2]
