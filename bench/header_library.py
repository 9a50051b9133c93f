"""A header with a kernel and its machine code, as a shared library that launches it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite_support import Workload

from tritonc import manifest
from tritonc.launch.python.parameters import Parameter

SHIM = """
#define TRITONC_DLOPEN 1
#include "%(header)s"
#include <chrono>
#include <utility>
template <class R, class... A, size_t... I>
static R call(R (*f)(A...), void **a, std::index_sequence<I...>) {
  return f(*static_cast<A *>(a[I])...);
}
template <class R, class... A> static R call(R (*f)(A...), void **a) {
  return call(f, a, std::index_sequence_for<A...>());
}
#ifdef PLAIN /* the general entry alone */
#define LAUNCH_VARIANT(a) call(%(kernel)s_launch, (a) + 1)
#define VARIANT(a) 0
#else
#define LAUNCH_VARIANT(a) call(%(kernel)s_launch_variant, a)
#define VARIANT(a) call(%(kernel)s_variant, a)
#endif
extern "C" {
CUresult load(char *log, size_t size) { return %(module)s_load(log, size); }
CUresult launch(void **a) { return call(%(kernel)s_launch, a); }
CUresult launch_variant(void **a) { return LAUNCH_VARIANT(a); }
unsigned variant(void **a) { return VARIANT(a); }
CUresult check(void **a) { return call(%(kernel)s_check, a); }
double nanoseconds(void ***a, unsigned count) { /* of a choice, for each of these arguments */
  volatile unsigned sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < count; i++)
    sum = sum + VARIANT(a[i]);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count()
         / count;
}
}
"""


class Header:
    """A kernel of a header, as a shared library launches it."""

    def __init__(self, path: Path, stem: str) -> None:
        self.text = path.read_text()
        self.row = manifest.read(_manifest(self.text))["kernels"][0]
        self.parameters = [Parameter.read(row) for row in self.row["parameters"]]
        self.variants = self.row.get("variants", [])
        names = {"header": path.name, "module": stem, "kernel": self.row["name"]}
        source = path.with_suffix(".cpp")
        source.write_text(SHIM % names)
        plain = [] if self.variants else ["-DPLAIN"]
        library = path.with_suffix(".so")
        if not library.exists():
            subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC", *plain, source, "-o",
                            library, "-I", _cuda_include(), "-ldl"], check=True)
        self.library = ctypes.CDLL(str(library.resolve()))
        self.library.nanoseconds.restype = ctypes.c_double

    @property
    def tiles(self) -> list[Mapping[str, int]]:
        """The values of each variant, the general one first."""
        return [row["tunables"] for row in (self.row, *self.variants)]

    def pack(self, values: Sequence[Any]) -> Any:
        """Addresses of the values, which live as long."""
        held = [ctypes.c_float(v) if isinstance(v, float) else
                ctypes.c_int64(v.data_ptr() if hasattr(v, "data_ptr") else v) for v in values]
        found = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        found.held = held  # type: ignore[attr-defined]
        return found

    def kernels(self, number: int | None = None) -> Mapping[str, Any]:
        """As the suite has kernels: what launches, or launches variant `number`."""
        start = self.library.launch if number is None else self.library.launch_variant
        before = [] if number is None else [number]

        def launch(stream: int, extents: Sequence[int], *arguments: Any) -> None:
            code = start(self.pack([*before, *extents, stream, *arguments]))
            if code:
                raise RuntimeError(f"CUresult {code}")

        return {"kernel": SimpleNamespace(launch=launch, parameters=self.parameters)}

    def load(self) -> None:
        log = ctypes.create_string_buffer(4096)
        if code := self.library.load(log, ctypes.c_size_t(4096)):
            raise RuntimeError(f"CUresult {code}: {log.value.decode()}")


def _manifest(header: str) -> str:
    """The first line of the PTX that a header was made with, of its literals."""
    part = header.split("_manifest[] =\n", 1)[1].split(";\n", 1)[0]
    return "".join(json.loads(line.strip().replace(r"\?", "?")) for line in part.splitlines())


def _cuda_include() -> str:
    done = subprocess.run([sys.executable, "-m", "tritonc", "--cuda-include"], capture_output=True,
                          text=True, check=True)
    return done.stdout.strip()


def of_launch(workload: Workload, header: Header) -> tuple[list[int], list[int]]:
    """The range and the arguments of a launch, with an aligned address for each array."""
    (stage,) = workload.problem.stages
    return ([int(workload.number(text)) for text in stage.range],
            [0x1000 if p.pointer else int(workload.number(stage.arguments[p.name]))
             for p in header.parameters])
