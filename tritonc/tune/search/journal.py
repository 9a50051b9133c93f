"""The journal of a search: a line of JSON for each finished measurement, written at once.

A search that is killed, at whatever moment, loses what was still running and nothing else: the next
one reads the journal and goes on.  Lines are appended whole; one that a power failure cut off is
skipped when the journal is read, and ended before the next is written.  Lines of other programs,
compilers or GPUs have another key and are left alone."""

import json
import os
from collections.abc import Mapping
from typing import Any

from tritonc.records import dataclass

Name = tuple[tuple[str, int], ...]


def name_of(values: Mapping[str, int]) -> Name:
    """A size or a candidate as a key of dictionaries."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True)
class Record:
    """One finished measurement: its time, or why there is none.

    `milliseconds` is as on a GPU that is not slowed; `digest` names the machine code."""

    size: Mapping[str, int]
    candidate: Mapping[str, int]
    milliseconds: float | None = None
    digest: str = ""
    error: str = ""
    slowed: float = 1.0

    @property
    def name(self) -> tuple[Name, Name]:
        return name_of(self.size), name_of(self.candidate)


class Journal:
    """The journal at `path`, for the measurements of one `key`; `records` has those so far."""

    def __init__(self, path: str, key: str, fresh: bool = False) -> None:
        """`fresh` leaves out what earlier searches measured.  Raises OSError."""
        self.path, self.key = path, key
        self.records: dict[tuple[Name, Name], Record] = {}
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        content = b""
        while part := os.read(self._descriptor, 1 << 20):
            content += part
        if content and not content.endswith(b"\n"):
            os.write(self._descriptor, b"\n")
        for line in content.split(b"\n") if not fresh else []:
            record = _read(line, key)
            if record is not None:
                self.records[record.name] = record

    def add(self, record: Record) -> None:
        """Write a measurement down; when this returns, it is not lost any more."""
        row = {"key": self.key, **vars(record), "size": dict(record.size),
               "candidate": dict(record.candidate)}
        os.write(self._descriptor, json.dumps(row).encode() + b"\n")
        self.records[record.name] = record

    def get(self, size: Mapping[str, int], candidate: Mapping[str, int]) -> Record | None:
        return self.records.get((name_of(size), name_of(candidate)))

    def close(self) -> None:
        os.close(self._descriptor)


def _read(line: bytes, key: str) -> Record | None:
    """A line's record; None for one that is broken or not of this search."""
    try:
        row: Any = json.loads(line)
        if row.pop("key") != key:
            return None
        record = Record(**row)
        return record if record.name is not None else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
