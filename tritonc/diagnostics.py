"""Every diagnostic that tritonc can give: diagnostics.txt as a table.

A message that is raised under a name with no entry there fails a test."""

from tritonc import text_table
from tritonc.records import NamedTuple


class Row(NamedTuple):
    """`kind`: "error", "warning" or "remark", and the option that turns it on, if it is off by
    default; `section` is of the file; `explanation` is one paragraph for a user."""

    kind: str
    explanation: str
    section: str

    @property
    def severity(self) -> str:
        return self.kind.partition(" ")[0]

    @property
    def group(self) -> str:
        """Of a warning: "" is on by default, "all" with -Wall, "extra" with -Wextra."""
        return self.kind.partition("-W")[2]


def _rows() -> dict[str, Row]:
    found = {}
    for section, entries in text_table.read("diagnostics.txt").items():
        for head, explanation in entries.items():
            name, _, kind = head.partition(" ")
            found[name] = Row(kind[1:-1], explanation, section)
    return found


DIAGNOSTICS = _rows()
