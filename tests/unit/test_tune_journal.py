"""The journal survives what happens to it."""

from __future__ import annotations

from pathlib import Path

from tritonc.tune.search.journal import Journal, Record

RECORDS = [Record({"N": 1}, {"T": 32}, 1.5, "aa"), Record({"N": 2}, {"T": 32}, None, "bb", "wrong"),
           Record({"N": 1}, {"T": 64, "num_warps": 2}, 2.25, "cc", "", 1.25)]


def written(path: Path, key: str = "k") -> bytes:
    journal = Journal(str(path), key)
    for record in RECORDS:
        journal.add(record)
    journal.close()
    return path.read_bytes()


def read(path: Path, key: str = "k", fresh: bool = False) -> list[Record]:
    journal = Journal(str(path), key, fresh)
    journal.close()
    return list(journal.records.values())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    assert written(path).count(b"\n") == 3
    assert read(path) == RECORDS
    assert read(path, "other") == [] and read(path, fresh=True) == []
    journal = Journal(str(path), "k")
    assert journal.get({"N": 1}, {"num_warps": 2, "T": 64}) == RECORDS[2]
    journal.add(Record({"N": 1}, {"T": 32}, 1.0))  # again: the later counts
    journal.close()
    assert sorted(r.milliseconds or 0 for r in read(path)) == [0, 1.0, 2.25]


def test_a_line_cut_off_anywhere_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    content = written(path)
    ends = [i for i, byte in enumerate(content) if byte == ord("\n")]
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        assert read(path) == RECORDS[: sum(end <= length for end in ends)]
        written(path)  # the search goes on
        assert read(path) == RECORDS


def test_lines_that_mean_nothing_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    path.write_bytes(b'[]\n1\n{"key": "k"}\n{"key": "k", "size": 1, "candidate": {}}\n\xff\n{}\n'
                     b'{"key": "k", "size": {}, "candidate": {}, "later": 1}\n' + written(path))
    assert read(path) == RECORDS
