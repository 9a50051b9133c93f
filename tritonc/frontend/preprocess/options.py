"""What the command line says to the preprocessor, and how it reads files."""

import errno
import os
import stat
from collections.abc import Callable

from tritonc.records import NamedTuple
from tritonc.source import Diagnostics, Note, SourceFile, Span

MOST_BYTES = 1 << 28  # of a source; its tokens take some thirty times as much memory


def read_bytes(path: str) -> bytes:
    """The bytes of a regular file.  Raises OSError, for anything else and for a huge one too."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
                         | getattr(os, "O_BINARY", 0))  # a FIFO without a writer must not wait
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode) and not _is_null(status):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes are too many for a source; the "
                          f"limit is {MOST_BYTES}", path)
        return file.read()


def _is_null(status: os.stat_result) -> bool:
    """Whether this is /dev/null, an empty source by custom."""
    try:
        return os.path.samestat(status, os.stat(os.devnull))
    except OSError:
        return False


class PreprocessOptions(NamedTuple):
    """What the command line says.

    `defines` are "NAME" (1), "NAME=VALUE", "NAME(x)=VALUE" and "-UNAME", in its order; "-D" may
    stand before the first three.  `forced_includes` are files to read before the main one.
    `system_dirs` are searched after `include_dirs`.  `file_prefix_map` is for `__FILE__`; see
    `tritonc.options.mapped_path`.  `read_file` maps a path to bytes, or raises OSError."""

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
