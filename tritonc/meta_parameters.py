"""Meta-parameters: choices of passes that are open to the tuner, one row each.

A pass reads `context.meta` and takes a default of its own where a name is missing.  `--tune` and
tuning files bind them as they bind a source's tunables; a tunable of that name goes first."""

from collections.abc import Sequence

from tritonc.records import NamedTuple


class MetaParameter(NamedTuple):
    """One row.  The tuner tries `values`, and the pass's own choice where they are not all that is
    `legal`, on kernels that have all of `needs` (`tune/search/space.py` finds out)."""

    name: str
    owner: str  # the pass
    doc: str
    values: tuple[int, ...]
    legal: Sequence[int]
    needs: frozenset[str] = frozenset()
    unless: tuple[tuple[str, int | None], ...] = ()  # earlier ones: where one is bound so, or for
    # None is open and not bound, this parameter changes nothing
    nesting: bool = False  # tried by --space=nesting, all of them together


_SHARED = (("cluster_k", 2), ("cluster_k", 4))  # few programs: of one each, that store parts
META_PARAMETERS: tuple[MetaParameter, ...] = (
    MetaParameter("num_warps", "choose_warps", "Number of warps of a block.", (1, 2, 4, 8, 16),
                  (1, 2, 4, 8, 16)),
    MetaParameter("num_stages", "pipeline", "Number of buffers for the operands of a loop, loaded "
                  "ahead; 1 copies nothing ahead, 0 loads nothing ahead.", (2, 3, 4), range(17),
                  frozenset({"dot on tensor cores", "dot in a loop"})),
    MetaParameter("cluster_k", "split_loops", "Number of blocks of a cluster among which the "
                  "iterations of an accumulation loop are split, or the elements of rows.", (2, 4),
                  range(1, 9),
                  frozenset({"clusters", "dot in a loop"})),
    MetaParameter("memory_k", "split_loops", "Number of blocks among which the iterations of an "
                  "accumulation loop are split, with sums in memory that the launch gives; only in "
                  "variants.", (), range(1, 65)),
    MetaParameter("group", "rasterize", "Number of rows of a band of programs that "
                  "run together and share operands in the cache.",
                  (1, 16), range(1, 65), frozenset({"dot", "two axes"}), _SHARED),
    MetaParameter("min_blocks", "limit_registers", "Number of blocks that must fit on a "
                  "multiprocessor at once, which limits registers; 0 lets the assembler decide.",
                  (0, 2, 3), range(33),
                  frozenset({"dot on CUDA cores, or reductions alone"})),
    MetaParameter("wgmma", "select_dots", "Whether wgmma may be used.", (0,), range(2),
                  frozenset({"wgmma"})),
    MetaParameter("slices", "slice_k", "Number of parts of a product's inner axis, each for "
                  "other warps; with wgmma only for 64 rows.", (1, 2, 4, 8), (1, 2, 4, 8, 16),
                  frozenset({"dot in a loop"}), (("wgmma", None),)),
    MetaParameter("tma_load", "pipeline", "Whether TMA may load operands.", (0, 1),
                  range(2), frozenset({"wgmma"}), (("wgmma", 0),)),
    MetaParameter("tma_store", "store_by_tma", "Whether TMA may store results.", (0, 1),
                  range(2), frozenset({"wgmma"}), (("wgmma", 0), ("tma_load", 0), *_SHARED)),
    MetaParameter("persistent", "rasterize", "Whether a block computes several programs.",
                  (0, 1), range(2), frozenset({"wgmma"}), (("wgmma", 0), *_SHARED)),
    MetaParameter("continued", "pipeline", "Keep the pipeline full across programs.", (0,),
                  range(2), frozenset({"wgmma"}),
                  (("wgmma", 0), ("tma_load", 0), ("persistent", 0), *_SHARED)),
    MetaParameter("producer", "pipeline", "Whether a producer warp makes the TMA loads.",
                  (0,), range(2), frozenset({"wgmma"}),
                  (("wgmma", 0), ("tma_load", 0))),
    MetaParameter("pingpong", "choose_pingpong", "How many warpgroups of a persistent block take "
                  "programs in turn (ping-pong).", (2,), (1, 2), frozenset({"wgmma"}),
                  (("wgmma", 0), ("tma_load", 0), ("persistent", 0), ("producer", 0),
                   ("continued", 0), *_SHARED, *(("num_warps", n) for n in (1, 2, 8, 16)))),
    MetaParameter("coarsen", "coarsen", "Launches of at most so many programs use smaller tiles; "
                  "0 compiles no smaller tiles.", (), range(4097)),
    *(MetaParameter(f"{tile}_{axis}", "assign_layouts", f"{axis.capitalize()} of a {owner}'s "
                    f"{tile}-tile in a product on CUDA cores.", values, values,
                    frozenset({"dot on CUDA cores"}), nesting=True)
      for tile, owner, values in (("micro", "warp", (8, 16, 32)), ("nano", "thread", (1, 2, 4)))
      for axis in ("rows", "columns")))
BY_NAME: dict[str, MetaParameter] = {row.name: row for row in META_PARAMETERS}


def legal_text(row: MetaParameter) -> str:
    """The values that may be given, as text.

    >>> legal_text(BY_NAME["num_warps"]), legal_text(BY_NAME["num_stages"])
    ('1, 2, 4, 8 or 16', '0 to 16')
    """
    if isinstance(row.legal, range) and len(row.legal) > 2:
        return f"{row.legal[0]} to {row.legal[-1]}"
    *most, last = map(str, row.legal)
    return f"{', '.join(most)} or {last}"


def refusal(name: str, value: int) -> str | None:
    """Why a meta-parameter cannot have a value; None if it can.

    >>> refusal("num_warps", 0)
    'num_warps = 0: num_warps (choose_warps) can be 1, 2, 4, 8 or 16'
    """
    row = BY_NAME[name]
    if value in row.legal:
        return None
    return f"{name} = {value}: {name} ({row.owner}) can be {legal_text(row)}"
