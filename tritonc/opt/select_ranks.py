"""select_ranks: a value that minima and maxima select by rank, such as a median, takes few of them.

Before:  50 minima and maxima of nine values, the  After:  30, of which 18 sort three columns, as a
         last of which is their median                     pixel's neighbours do too

What minima and maxima make of n values is known by what they make of n truths (Knuth's "0-1
principle"): the one of rank k, from 0, is what holds where at least n - k of them hold.  Where the
columns and rows of a matrix are sorted, most elements cannot be of a rank; among the others it is
looked for again."""

from functools import cache, partial, reduce

from tritonc.ir.build import Builder, replace_each
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value, uses
from tritonc.records import NamedTuple

LEAST, MOST = 4, 9  # values among which one is selected
LONGEST = 128  # operations of a selection
ROWS = 3  # of the matrix: values that are loaded row by row make columns


class Node(NamedTuple):
    """A value, or a minimum or maximum: bit s of `truth` says whether it holds where the values
    hold whose bits are set in s."""

    truth: int
    name: str = ""
    operands: "tuple[Node, ...]" = ()


def select_ranks(kernel: Kernel, context: Context) -> bool:
    """Replace selections by rank that take more operations than they need, or as many."""
    changed = False
    for name in sorted({op.name for op in kernel.ops()} & {"smin", "smax", "umin", "umax"}):
        places = {op: (block, i) for block in kernel.blocks for i, op in enumerate(block.ops)}
        changed |= replace_each(kernel, name, partial(_selected, uses(kernel), places))
    return changed


def _selected(readers: dict[Value, list[Op]], places: dict[Op, tuple[Block, int]], root: Op,
              build: Builder) -> Value | None:
    """The same value by a network, if that has no more operations than nothing else needs."""
    names = f"{root.name[0]}min", f"{root.name[0]}max"

    def inner(op: Op | None) -> bool:
        return op is not None and op.name in names and places[op][0] is places[root][0]

    if root not in places or all(map(inner, readers.get(root.result, ()))):
        return None
    cone, leaves = [root], dict[Value, None]()
    for op in cone:  # which grows
        for v in op.operands:
            if v.op is None or not inner(v.op):
                leaves[v] = None
            elif v.op not in cone:
                cone.append(v.op)
        if len(leaves) > MOST or len(cone) > LONGEST:
            return None
    if len(leaves) < LEAST:
        return None
    values = sorted(leaves, key=lambda v: -1 if v.op is None else places[v.op][1])
    inputs = _inputs(len(values))
    truths = {v: node.truth for v, node in zip(values, inputs, strict=True)}
    cone.sort(key=lambda op: places[op][1])
    for op in cone:
        a, b = (truths[v] for v in op.operands)
        truths[op.result] = a & b if op.name == names[0] else a | b
    needed = {root}
    for op in reversed(cone):
        if all(reader in needed for reader in readers.get(op.result, ())):
            needed.add(op)
    least, whole = _at_least(len(values)), truths[root.result]
    if whole not in least:
        return None
    infinite = Node(0), Node((1 << (1 << len(values))) - 1)  # below all values, and above
    found = _rank(list(inputs), len(values) - least.index(whole), infinite)
    made = {node.truth: v for v, node in zip(values, inputs, strict=True)}
    return None if _count(found, set(made)) > len(needed) else _emit(build, found, names, made)


@cache
def _inputs(n: int) -> tuple[Node, ...]:
    return tuple(Node(sum(1 << s for s in range(1 << n) if s >> i & 1)) for i in range(n))


@cache
def _at_least(n: int) -> tuple[int, ...]:
    """For each number: where no fewer of n truths hold."""
    return tuple(sum(1 << s for s in range(1 << n) if s.bit_count() >= m) for m in range(n + 1))


def _least(a: Node, b: Node) -> Node:
    return _joined("min", a.truth & b.truth, a, b)


def _most(a: Node, b: Node) -> Node:
    return _joined("max", a.truth | b.truth, a, b)


def _joined(name: str, truth: int, a: Node, b: Node) -> Node:
    """The minimum or maximum: one of the two, or of fewer values."""
    for node, other in ((a, b), (b, a)):
        if truth == node.truth:
            return node
        for part in other.operands if other.name == name else ():
            if truth == (node.truth & part.truth if name == "min" else node.truth | part.truth):
                return _joined(name, truth, node, part)
    return Node(truth, name, (a, b))


def _sorted(nodes: list[Node]) -> list[Node]:
    """By insertion."""
    found: list[Node] = []
    for node in nodes:
        for i, other in enumerate(found):
            found[i], node = _least(other, node), _most(other, node)
        found.append(node)
    return found


def _rank(nodes: list[Node], k: int, ends: tuple[Node, Node]) -> Node:
    """The one of rank k."""
    if k in (0, len(nodes) - 1):
        return reduce(_most if k else _least, nodes)
    if len(nodes) == ROWS:
        a, b, c = nodes
        return _most(_least(a, b), _least(_most(a, b), c))
    more = -len(nodes) % ROWS
    nodes, k = [ends[0]] * (more // 2) + nodes + [ends[1]] * (more - more // 2), k + more // 2
    width, n = len(nodes) // ROWS, len(nodes)
    columns = [_sorted(nodes[j::width]) for j in range(width)]
    rows = [_sorted([column[i] for column in columns]) for i in range(ROWS)]
    below = [[(i + 1) * (j + 1) - 1 > k for j in range(width)] for i in range(ROWS)]
    above = [[(ROWS - i) * (width - j) > n - k for j in range(width)] for i in range(ROWS)]
    left = [rows[i][j] for j in range(width) for i in range(ROWS)
            if not below[i][j] and not above[i][j]]
    return _rank(left, k - sum(map(sum, above)), ends)


def _count(node: Node, known: set[int]) -> int:
    """The operations that a network has."""
    if node.truth in known:
        return 0
    known.add(node.truth)
    return 1 + sum(_count(one, known) for one in node.operands)


def _emit(build: Builder, node: Node, names: tuple[str, str], made: dict[int, Value]) -> Value:
    if node.truth not in made:
        operands = [_emit(build, one, names, made) for one in node.operands]
        made[node.truth] = build.value(names[node.name == "max"], *operands)
    return made[node.truth]
