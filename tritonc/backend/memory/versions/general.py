"""The general bodies: those that run where no tested facts hold.

All bodies of a kernel get the registers of the one that needs the most, and how many blocks are
resident is chosen by what the fast bodies need.  With products on wgmma: beside mma.sync, addresses
that are recomputed made spills instead (sm_80, docs/notes/registers.md)."""

from collections.abc import Collection, Sequence

from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Block


def general_blocks(cfg: Cfg, names: Collection[str] = ("wgmma",)) -> list[Block]:
    """The blocks behind the last test of facts that fails, of a kernel with such products.  Tests
    behind products, which are about stores, part no bodies."""
    products = [block for block in cfg.order if any(op.name in names for op in block.ops)]
    tests = [block for block in cfg.order if block.terminator.attributes.get("facts")
             and any(cfg.dominates(block, home) for home in products)]
    starts = [start for start in (block.terminator.blocks[1] for block in tests)
              if not any(cfg.dominates(start, block) for block in tests)]
    return [block for block in cfg.order if any(cfg.dominates(start, block) for start in starts)]


def rare(cfg: Cfg, part: Sequence[Block]) -> list[Block]:
    """The blocks of bodies that do without the facts that another one, of more speed, assumes: as
    far as `part` chooses between the two."""
    starts = [block.terminator.blocks[1] for block in part
              if block.terminator.attributes.get("facts")]
    return [block for block in part if any(cfg.dominates(start, block) for start in starts)]
