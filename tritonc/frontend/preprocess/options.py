"""What the command line says to the preprocessor, and how it reads files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tritonc.source import Diagnostics, Note, SourceFile, Span


def read_bytes(path: str) -> bytes:
    """The bytes of a file.  Raises OSError."""
    with open(path, "rb") as file:
        return file.read()


@dataclass(frozen=True)
class PreprocessOptions:
    """What the command line says.

    `defines` are "NAME" (1), "NAME=VALUE", "NAME(x)=VALUE" and "-UNAME", in its order; "-D" may
    stand before the first three.  `forced_includes` are files to read before the main one.
    `system_dirs` are searched after `include_dirs`.  `file_prefix_map` is for `__FILE__`; see
    `tritonc.options.mapped_path`.  `read_file` maps a path to bytes, or raises OSError.
    """

    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    forced_includes: tuple[str, ...] = ()
    read_file: Callable[[str], bytes] = read_bytes
    system_dirs: tuple[str, ...] = ()
    file_prefix_map: tuple[str, ...] = ()


def load_source(path: str, diagnostics: Diagnostics, included_at: Span | None = None,
                read_file: Callable[[str], bytes] = read_bytes) -> SourceFile | None:
    """Read a file as UTF-8; None after reporting bytes that are not.  Raises OSError."""
    data = read_file(path)
    try:
        return SourceFile(path, data.decode("utf-8"), included_at)
    except UnicodeDecodeError as error:
        file = SourceFile(path, data.decode("utf-8", "replace"), included_at)
        at = len(data[: error.start].decode("utf-8"))
        notes = [Note("included from here", included_at)] if included_at else []
        diagnostics.error("invalid-encoding", Span(file, at, at + 1),
                          f"byte 0x{data[error.start]:02x} is not UTF-8", *notes)
        return None
