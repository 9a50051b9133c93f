"""Tables of prose, in text files of this package: names, and what is said of them.

    # A comment.
    [section]
    name, another name: What is said, which may continue
      on indented lines.
"""

from pkgutil import get_data  # importlib.resources would cost 10 ms


def read(file: str) -> dict[str, dict[str, str]]:
    """Of each section of `file` the texts by name, in its order."""
    data = get_data("tritonc", file)
    assert data is not None, "it is part of the package"
    table: dict[str, dict[str, str]] = {}
    for line in data.decode().replace("\n  ", " ").splitlines():
        if line.startswith("["):
            section = table[line[1:-1]] = {}
        elif line and line[0] != "#":
            names, _, text = line.partition(": ")
            section.update(dict.fromkeys(names.split(", "), text))
    return table
