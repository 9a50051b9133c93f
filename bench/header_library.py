"""A header with a kernel and its machine code, as a shared library that launches it."""

from __future__ import annotations

import ctypes
import json
import re
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite_support import Workload

from tritonc import manifest
from tritonc.launch.python.parameters import Parameter

ADDRESSES = 16  # bytes by which equal code differs
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

    @cached_property
    def code(self) -> list[bytes]:
        """The machine code of each, the general one first."""
        found = code_of(_image(self.text))
        return [found[row["entry"]] for row in (self.row, *self.variants)]

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


def code_of(image: bytes) -> dict[str, bytes]:
    """The machine code of each entry of a cubin: the sections `.text.NAME` of its ELF file."""
    start, = struct.unpack_from("<Q", image, 0x28)
    count, of_names = struct.unpack_from("<HH", image, 0x3c)
    rows = [struct.unpack_from("<IIQQQQ", image, start + 64 * i) for i in range(count)]
    found = {}
    for name, _, _, _, at, size in rows:
        begin = rows[of_names][4] + name
        text = image[begin:image.index(b"\0", begin)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] = image[at:at + size]
    return found


def is_same(a: bytes, b: bytes) -> bool:
    """Whether two pieces of machine code are the same, but for addresses of a module's memory."""
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b)) <= ADDRESSES


def _image(header: str) -> bytes:
    """The machine code that a header has as literals, in parts with their lengths."""
    found, part = b"", b""
    for line in header[header.index('{"\\177ELF'):].split("\n"):
        words = re.fullmatch(r' *\{?"(.*)"(?:, (\d+)\},?)?', line)
        if words is None:
            break
        text = words[1].replace("\\?", "?")
        part += text.encode().decode("unicode_escape").encode("latin-1")
        if words[2]:
            found, part = found + part.ljust(int(words[2]), b"\0"), b""
    return found


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
