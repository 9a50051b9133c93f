"""Which LLVM llvmlite has inside, without loading it: that takes longer than all of `--version`."""

import os
import sys
from contextlib import suppress

# LLVM's version in each series of llvmlite that pyproject.toml admits; a test asks the library.
_BUILT_WITH = {"0.50": "22.1.0"}


def llvm_version() -> str:
    """LLVM's version, by the version of the installed llvmlite; "none" without one."""
    series = _installed_series()
    return "none" if series is None else _BUILT_WITH.get(series) or f"of llvmlite {series}"


def _installed_series() -> str | None:
    """ "0.50" for llvmlite 0.50.1, by the name of its metadata's folder."""
    for directory in sys.path:
        with suppress(OSError):
            for name in os.listdir(directory or "."):
                if name.startswith("llvmlite-") and name.endswith(".dist-info"):
                    return ".".join(name.split("-")[1].split(".")[:2])
    return None
