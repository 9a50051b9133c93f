"""If-conversion of small scalar branches.

    a: cond_br %c, b, d              ->   a: %y = add %x, 1
    b: %y = add %x, 1   br d              %z = select %c, %y, %x
    d: %z = phi [%x, a], [%y, b]          br d

Both sides may hold at most a few pure scalar operations that cannot trap, and merge scalars only:
a tile's work is worth a branch.  Conditions on tiles never branch; they are predicates from the
start.  In a loop with a product they may hold more, since only a loop of one block is pipelined:
work of tiles, too, as long as it takes less time than the loop's products, and loads and stores,
which then have the condition as their guard.  `uniform_choice` has what merges tiles.  Where both
sides load, `merge_tails` finds that they load the same."""

from tritonc.analysis.values import speculatable
from tritonc.ir.build import Builder, until_unchanged
from tritonc.ir.cfg import Cfg, add_incoming, incoming, remove_operands
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.types import Tile
from tritonc.opt.simplify_cfg import merge_chains
from tritonc.opt.uniform_choice import choose, fits_beside, put_under

MOST_OPERATIONS = 4  # on both sides together: about what a branch costs
MOST_BESIDE_PRODUCTS = 16  # the product takes a hundred times as long


def convert_if(kernel: Kernel, context: Context) -> bool:
    """Convert until no branch fits.  The emptied blocks are removed."""
    return until_unchanged(lambda: _convert_each(kernel))


def _convert_each(kernel: Kernel) -> bool:
    """One walk, inner branches first.  The graph is that from before it, in which a join has more
    predecessors, so that what surrounds a converted branch waits for the next walk."""
    cfg = Cfg(kernel)
    mapping: dict[Value, Value] = {}
    converted = [_convert(cfg, block, mapping) for block in reversed(cfg.order)
                 if block.terminator.name == "cond_br"]
    if not any(converted):
        return False
    kernel.blocks = [block for block in kernel.blocks if block.ops]
    kernel.replace(mapping)
    merge_chains(kernel)  # what a branch has become may be a side of the one around it
    return True


def _side(cfg: Cfg, block: Block, side: Block) -> Block | None:
    """Where a side leads that only `block` enters and that only branches on."""
    if cfg.predecessors[side] != [block] or side.terminator.name != "br":
        return None
    return side.terminator.blocks[0]


def _convert(cfg: Cfg, block: Block, mapping: dict[Value, Value]) -> bool:
    """Whether the branch was converted; it leaves its sides empty, and `mapping` has what phis
    become."""
    yes, no = block.terminator.blocks
    if yes is no:
        return False
    after_yes, after_no = _side(cfg, block, yes), _side(cfg, block, no)
    if after_yes is no:
        sides, join = [yes], no
    elif after_no is yes:
        sides, join = [no], yes
    elif after_yes is not None and after_yes is after_no:
        sides, join = [yes, no], after_yes
    else:
        return False
    if join is block or join in sides:
        return False
    moved = [op for side in sides for op in side.ops[:-1]]
    phis = join.phis()
    loop = cfg.innermost.get(block)
    most = MOST_BESIDE_PRODUCTS if loop is not None and any(
        op.name == "dot" for op in loop.ops()) else MOST_OPERATIONS
    small = len(moved) <= most and all(
        op.guard is None and speculatable(op) for op in moved) and not any(
        isinstance(v.type, Tile) for op in (*moved, *phis) for v in op.results)
    loading = [any(op.name == "load" for op in side.ops) for side in sides]
    if not small and (loop is None or loading == [True, True] or not fits_beside(
            moved, phis, [one for one in loop.blocks if cfg.innermost.get(one) is loop])):
        return False
    condition = block.terminator.operands[0]
    span = block.terminator.span
    block.ops.pop()
    build = Builder(block, span=span)
    for side in sides:
        put_under(condition, side is yes, side.ops[:-1], build)
    from_yes, from_no = (yes if yes in sides else block), (no if no in sides else block)
    for op in phis:
        a, b = incoming(op, from_yes), incoming(op, from_no)
        merged = a if a is b else choose(condition, a, b, build)
        merged.name = merged.name or op.result.name
        remove_operands(op, (from_yes, from_no))
        add_incoming(op, merged, block)
        if len(op.operands) == 1:
            mapping[op.result] = merged
    block.ops.append(Op("br", [], blocks=[join], span=span))
    for side in sides:
        side.ops = []
    join.ops = [op for op in join.ops if not op.results or op.results[0] not in mapping]
    return True

