"""Static single assignment form, made while the program is read.

After Braun, Buchwald, Hack, Leissa, Mallon, Zwinkau, "Simple and Efficient Construction of Static
Single Assignment Form" (2013).  Per block there is a map from variables to values.  A read that
finds nothing in its block asks the predecessors.  Where there are several, a phi stands for their
values; it is entered in the map before its operands are looked up, which ends the recursion in
loops.  A block is *sealed* once all its predecessors are known; a read in an unsealed block makes a
phi whose operands are filled in at the sealing.  A phi that merges one value (beside itself) is
*trivial* and gives way to that value, which can make phis that use it trivial too.

The recursion of the paper is a work list here, so that long programs need no deep stack.  Nothing
keeps the users of a value, so replaced phis are noted and all operations are rewritten once, by
`finish`.

A block with no predecessor, except the entry, is *dead*: its operations are checked but dropped."""

from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Type
from tritonc.sema.scope import Variable


class Ssa:
    """The variables of one kernel."""

    def __init__(self, entry: Block) -> None:
        self.entry = entry
        self.predecessors: dict[Block, list[Block]] = {entry: []}
        self.sealed: set[Block] = {entry}
        self.definitions: dict[Block, dict[Variable, Value]] = {}
        self.phis: dict[Block, list[Op]] = {}
        self.incomplete: dict[Block, list[tuple[Variable, Op]]] = {}
        self.phi_users: dict[Value, list[Op]] = {}
        self.replaced: dict[Value, Value] = {}
        self.undefined: dict[Value, Variable | None] = {}

    # --- the graph ---

    def add_edge(self, source: Block, target: Block) -> None:
        self.predecessors.setdefault(target, []).append(source)

    def is_live(self, block: Block) -> bool:
        return block is self.entry or bool(self.predecessors.get(block))

    def seal(self, block: Block) -> None:
        """All predecessors of the block are known."""
        self.sealed.add(block)
        pending = self.incomplete.pop(block, None)
        if pending:
            self._complete([(block, variable, phi) for variable, phi in pending])

    # --- variables ---

    def write(self, variable: Variable, block: Block, value: Value) -> None:
        if not value.name and value.op is not None:
            value.name = variable.name
        self.definitions.setdefault(block, {})[variable] = value

    def declare(self, variable: Variable, block: Block) -> None:
        """From here on the variable has no value."""
        self.definitions.setdefault(block, {})[variable] = self.undef(variable.type.ir, variable)

    def undef(self, type: Type, variable: Variable | None = None) -> Value:
        """A new undefined value; its operation is placed by `finish`, if anything reads it."""
        op = Op("undef", [], None, (type,))
        op.result.name = variable.name if variable is not None else ""
        self.undefined[op.result] = variable
        return op.result

    def read(self, variable: Variable, block: Block) -> Value:
        found = self.definitions.get(block, _NONE).get(variable)
        if found is None:
            pending: list[tuple[Block, Variable, Op]] = []
            found = self._look_up(variable, block, pending)
            if pending:
                self._complete(pending)
        return self.resolve(found)

    def resolve(self, value: Value) -> Value:
        """The value that stands for a replaced phi; others are themselves."""
        replaced = self.replaced
        if value not in replaced:
            return value
        last = replaced[value]
        while last in replaced:
            last = replaced[last]
        while value is not last:
            replaced[value], value = last, replaced[value]
        return last

    def _look_up(self, variable: Variable, block: Block,
                 pending: list[tuple[Block, Variable, Op]]) -> Value:
        """The variable's value at the end of a block; phis without operands go to `pending`."""
        path: list[Block] = []
        while True:
            definitions = self.definitions.setdefault(block, {})
            found = definitions.get(variable)
            if found is not None:
                break
            predecessors = self.predecessors.get(block, ())
            if block not in self.sealed:
                found = self._new_phi(variable, block)
                self.incomplete.setdefault(block, []).append((variable, found.op))  # type: ignore[arg-type]
            elif len(predecessors) == 1:
                path.append(block)
                block = predecessors[0]
                continue
            elif predecessors:
                found = self._new_phi(variable, block)
                pending.append((block, variable, found.op))  # type: ignore[arg-type]
            else:
                found = self.undef(variable.type.ir)
            definitions[variable] = found
            break
        for passed in path:
            self.definitions[passed][variable] = found
        return found

    def _new_phi(self, variable: Variable, block: Block) -> Value:
        phi = Op("phi", [], None, (variable.type.ir,))
        phi.result.name = variable.name
        self.phis.setdefault(block, []).append(phi)
        return phi.result

    def _complete(self, pending: list[tuple[Block, Variable, Op]]) -> None:
        """Give phis their operands; the list grows by phis met on the way."""
        at = 0
        while at < len(pending):
            block, variable, phi = pending[at]
            at += 1
            for predecessor in self.predecessors.get(block, ()):
                operand = self.resolve(self._look_up(variable, predecessor, pending))
                if operand not in phi.operands and operand.op is not None \
                        and operand.op.name == "phi":
                    self.phi_users.setdefault(operand, []).append(phi)
                phi.operands.append(operand)
                phi.blocks.append(predecessor)
        # Those met last, nearest to the definitions, go first: each makes the next one trivial.
        self._simplify([phi for _, _, phi in pending])

    def _simplify(self, work: list[Op]) -> None:
        while work:
            phi = work.pop()
            result = phi.results[0]
            if result in self.replaced:
                continue
            merged = {*map(self.resolve, phi.operands)} - {result}
            # A phi with no operands belongs to a block that is not sealed, or to a dead one.
            if len(merged) > 1 or not phi.operands:
                continue
            same = merged.pop() if merged else self.undef(result.type)
            self.replaced[result] = same
            users = [user for user in self.phi_users.pop(result, ())
                     if user.results[0] not in self.replaced]
            work.extend(users)
            if users and same.op is not None and same.op.name == "phi":
                self.phi_users.setdefault(same, []).extend(users)

    # --- the end ---

    def finish(self, kernel: Kernel) -> None:
        """Place phis and undefined values in the kernel's blocks; replaced phis disappear."""
        for block in kernel.blocks:
            kept = [phi for phi in self.phis.get(block, ()) if phi.result not in self.replaced]
            if kept:
                block.ops[:0] = kept
        used: dict[Value, None] = {}
        for op in kernel.ops():
            if self.replaced:
                op.operands = [self.resolve(v) for v in op.operands]
                if op.guard is not None:
                    op.guard = self.resolve(op.guard)
            for value in op.inputs():
                if value in self.undefined:
                    used[value] = None
        kernel.entry.ops[:0] = [value.op for value in used if value.op is not None]


_NONE: dict[Variable, Value] = {}
