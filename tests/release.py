"""Builds the distributions, twice, and tries them: `make dist`.  `make versions` only tries.

The wheel and the source distribution of both builds must be the same bytes.  Each is checked by
twine and installed into an empty environment: the wheel with the lowest versions of the
dependencies that pyproject.toml allows, the source distribution with the newest.  There the
command, the samples and the collections of messages are run; by `make versions`, which tries the
checkout in two such environments, all that tests the compiler.  build/dist/sbom.json, a CycloneDX
document, lists what the second environment has installed for tritonc.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What is run in the empty environments; `lit` and the programs compile with every pass.
ALL = ("tests/lit", "tests/unit", "tests/test_run.py", "tests/test_programs.py",
       "tests/test_campaign.py", "tests/test_random_programs.py")
CORE = ("tests/lit", "tests/test_readme.py::test_blocks", "tests/unit/test_parser.py")


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a command; a failure ends the release."""
    print("$", *words, flush=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(list(map(str, words)), cwd=cwd, check=True, env=clean | environment)


def commit_time() -> str:
    """Seconds since 1970 of the last commit, which all files in archives are dated."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout.strip()


def plain_archive(path: Path, epoch: int) -> None:
    """Write a .tar.gz anew without what differs between builds: times, owners, order."""
    with tarfile.open(path) as archive:
        members = [(member, file.read() if (file := archive.extractfile(member)) else b"")
                   for member in archive.getmembers()]
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in sorted(members, key=lambda row: row[0].name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, len(data), epoch
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            archive.addfile(plain, BytesIO(data))
    with open(path, "wb") as out, gzip.GzipFile("", "wb", mtime=epoch, fileobj=out) as packed:
        packed.write(buffer.getvalue())


def build(folder: Path, epoch: str) -> dict[str, str]:
    """Build both distributions from a fresh export of HEAD; their checksums by name."""
    source = folder / "source"
    source.mkdir(parents=True)
    exported = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True,
                              capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", source], check=True, input=exported)
    run(sys.executable, "-m", "build", "--outdir", folder, source, SOURCE_DATE_EPOCH=epoch)
    for path in folder.glob("*.tar.gz"):
        plain_archive(path, int(epoch))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir()) if path.is_file()}


def lowest() -> list[str]:
    """The dependencies of pyproject.toml at the lowest version that each allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.sub(r">=([\w.]+).*", r"==\1", row) for row in project["dependencies"]]


def try_out(name: str, distribution: Path, folder: Path, pins: Sequence[str],
            tests: Sequence[str] = CORE, bill: str = "") -> None:
    """Install a distribution into an empty environment, and run what users and tests run.

    `bill`, a time: write what is installed, before the tests' own needs are, to sbom.json.
    """
    place = folder / name
    venv.create(place, with_pip=True, clear=True)
    binaries = place / ("Scripts" if sys.platform == "win32" else "bin")
    python = binaries / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, distribution, *pins)
    if bill:
        text = json.dumps(bill_of_materials(python, bill), indent=2)
        (folder / "sbom.json").write_text(text + "\n", encoding="utf-8")
    work = place / "work"  # not the checkout: what is installed must be enough
    shutil.copytree(ROOT / "samples", work / "samples")
    run(binaries / "tritonc", "samples/matmul.tc", "--arch=sm_90a", "-o", "matmul.ptx", cwd=work)
    run(binaries / "tritonc", "run", "samples/matmul.tc", cwd=work)
    run(*pip, "pytest>=8", "pytest-xdist>=3", "hypothesis", "mpmath")
    for part in ("tests", "docs", "bench", "editors", "examples", "README.md", "CONTRIBUTING.md",
                 "CHANGELOG.md", "CITATION.cff", "Makefile"):
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, work / part)
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *tests, cwd=work)


def bill_of_materials(python: Path, epoch: str) -> dict[str, object]:
    """What an environment has installed, as CycloneDX 1.5 wants it: names, versions, licences.

    tritonc itself is the component that the rest belongs to.  The same commit and the same
    versions give the same text.
    """
    script = ("import json, importlib.metadata as m; print(json.dumps([[d.metadata['Name'], "
              "d.version, d.metadata['License-Expression'] or d.metadata['License'] or ''] "
              "for d in m.distributions()]))")
    found = json.loads(subprocess.run([python, "-I", "-c", script], check=True, capture_output=True,
                                      text=True).stdout)

    def component(name: str, version: str, licence: str) -> dict[str, object]:
        key = re.sub(r"[-_.]+", "-", name).lower()
        known = licence and "\n" not in licence
        return {"type": "application" if key == "tritonc" else "library", "name": name,
                "version": version, "purl": f"pkg:pypi/{key}@{version}",
                "bom-ref": f"pkg:pypi/{key}@{version}",
                **({"licenses": [{"license": {"name": licence}}]} if known else {})}

    rows = sorted((component(*row) for row in found if row[0] not in ("pip", "setuptools")),
                  key=lambda row: str(row["purl"]))
    (own,) = (row for row in rows if row["name"] == "tritonc")
    time = datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": time, "component": own},
            "components": [row for row in rows if row is not own]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist")
    parser.add_argument("--no-trial", action="store_true", help="build and compare only")
    parser.add_argument("--versions", action="store_true", help="build nothing: try the checkout "
                        "with the lowest and the newest versions of its dependencies")
    parser.add_argument("tests", nargs="*", default=ALL, help="what --versions runs")
    options = parser.parse_args()
    if options.versions:
        for name, pins in ("lowest", lowest()), ("newest", []):
            try_out(name, ROOT, options.out.parent / "versions", pins, options.tests)
        return
    shutil.rmtree(options.out, ignore_errors=True)
    epoch = commit_time()
    first, second = build(options.out / "first", epoch), build(options.out / "second", epoch)
    if first != second:
        sys.exit(f"two builds differ: {first} {second}")
    built = [shutil.copy(options.out / "first" / name, options.out / name) for name in first]
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    if not options.no_trial:
        wheel, archive = sorted(built, key=lambda path: path.suffix != ".whl")
        try_out("lowest", wheel, options.out, lowest())
        try_out("newest", archive, options.out, [], bill=epoch)
    for name, checksum in first.items():
        print(checksum, name)


if __name__ == "__main__":
    main()
