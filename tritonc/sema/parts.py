"""Parts of a program whose kernels share no tunables, each a program of its own.

The cost model lowers a kernel for many values of tunables, so it is given only what the kernel
needs.  A thousand kernels in one file would take a million lowerings otherwise, and their tunables
have more combinations than anyone can compare."""

from collections.abc import Iterable, Sequence
from typing import Any

from tritonc.frontend import syntax
from tritonc.frontend.tree import walk
from tritonc.meta_parameters import BY_NAME
from tritonc.records import NamedTuple

_TUNABLES = (syntax.Tunable, syntax.JointTunable)


class Part(NamedTuple):
    """Kernels, by name, and the program of these and what they use, in the order of the file."""

    kernels: list[str]
    program: syntax.Program


def split(program: syntax.Program, kernels: Sequence[str]) -> list[Part]:
    """The parts of a program whose entry points are `kernels`.

    A name counts as used wherever it stands, also where a local variable hides it."""
    if len(kernels) < 2:
        return [Part([*kernels], program)]
    declared: dict[str, list[syntax.Node]] = {}
    starts: list[tuple[list[str], list[syntax.Node]]] = [
        ([kernel], declared.setdefault(kernel, [])) for kernel in kernels]
    everywhere: list[syntax.Node] = []  # what counts for all kernels
    for node in (*program.structs, *program.items):
        for name in _names(node):
            declared.setdefault(name, []).append(node)
        if isinstance(node, syntax.StaticAssert):
            starts.append(([], [node]))
        elif isinstance(node, syntax.Statement | syntax.ConstantTable) or any(
                name in BY_NAME for name in _names(node)):
            everywhere.append(node)
    used: dict[syntax.Node, list[syntax.Node]] = {}  # by each node itself
    found: dict[int, tuple[list[str], set[syntax.Node]]] = {}
    owner: dict[syntax.Node, int] = {}  # the part of each tunable
    for number, (names, start) in enumerate(starts):
        nodes = _reached([*everywhere, *start], declared, used)
        tunables = [node for node in nodes if isinstance(node, _TUNABLES)]
        for other in {owner[node] for node in tunables if node in owner}:
            others, more = found.pop(other)
            names, nodes = others + names, nodes | more
        found[number] = names, nodes
        owner |= dict.fromkeys((node for node in nodes if isinstance(node, _TUNABLES)), number)
    place = {node: number for number, node in enumerate((*program.structs, *program.items))}

    def program_of(nodes: set[Any]) -> syntax.Program:
        kept = sorted(nodes, key=place.__getitem__)
        count = sum(isinstance(node, syntax.Struct) for node in kept)
        return syntax.Program(program.span, (*kept[count:],), (*kept[:count],), program.macros)

    return [Part(names, program_of(nodes)) for names, nodes in found.values() if names]


def _names(node: syntax.Node) -> list[str]:
    """What names may stand for a declaration elsewhere."""
    if isinstance(node, syntax.JointTunable):
        names = [name.name for name in node.names]
        return [*names, "_".join(names)]
    if isinstance(node, syntax.Struct):
        return [node.key]
    return [node.name] if isinstance(node, syntax.Named) else []


def _reached(start: Iterable[syntax.Node], declared: dict[str, list[syntax.Node]],
             used: dict[syntax.Node, list[syntax.Node]]) -> set[syntax.Node]:
    """The declarations that are used from some on; `used` remembers each one's own uses."""
    pending, found = [*start], set[syntax.Node]()
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found.add(node)
        if node not in used:
            names = {name for inner in walk(node) for name in (
                getattr(inner, "name", ""), getattr(inner, "callee", ""),
                getattr(inner, "scalar", ""))}
            used[node] = [other for name in names for other in declared.get(name, ())]
        pending += used[node]
    return found
