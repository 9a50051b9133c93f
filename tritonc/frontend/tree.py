"""Walking and printing the syntax tree."""

from collections.abc import Iterator
from dataclasses import fields

from tritonc.frontend.syntax import Node

_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def _field_names(kind: type[Node]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in fields(kind) if f.name != "span")
    return _FIELDS[kind]


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in the order of the source."""
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for entry in value:
                if isinstance(entry, Node):
                    yield entry


def walk(node: Node) -> Iterator[Node]:
    """`node` and every node below it, parents first; needs no recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(children(current))))


def dump(program: Node) -> str:
    """The tree as text, for `--emit=ast`: one line for each node, with its line and column.

    Children are indented by two spaces and follow the name of the field that holds them; a field
    that is None or has its default value is left out."""
    lines: list[str] = []
    pending: list[tuple[int, str, Node]] = [(0, "", program)]
    while pending:
        depth, label, node = pending.pop()
        plain: list[str] = []
        below: list[tuple[int, str, Node]] = []
        defaults = {field.name: field.default for field in fields(node)}
        for name in _field_names(type(node)):
            value = getattr(node, name)
            if isinstance(value, Node | tuple):
                entries = value if isinstance(value, tuple) else (value,)
                below += [(depth + 1, f"{name}: ", e) for e in entries if isinstance(e, Node)]
            elif value is not None and value != defaults.get(name):
                plain.append(f"{name}={value!r}")
        head = " ".join([type(node).__name__, *plain])
        lines.append(f"{'  ' * depth}{label}{head} <{node.span.line}:{node.span.column}>")
        pending.extend(reversed(below))
    return "\n".join(lines) + "\n"
