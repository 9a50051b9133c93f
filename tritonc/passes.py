"""The passes, in the order in which they run, and the reasons for it.

Start here to learn what happens to a kernel between the source and LLVM IR.  Semantic analysis
makes Triton-IR (docs/ir.md); `OPT` makes it better without looking at the target; `BACKEND` decides
layouts, instructions, shared memory and barriers.  A pass is a function in a file of its name:

    def pass_name(kernel: Kernel, context: Context) -> bool        # whether it changed the kernel

Its docstring says what it does, needs and leaves to others.  Below, each pass has the reason why it
stands where it does; one that runs twice has two.  `after NAME: why` and `before NAME: why` are
checked by tests: the first run of the one comes before the first run of the other."""

import re

from tritonc.later import Later
from tritonc.pass_manager import Pass

# Passes that leave a kernel as it is unless it has one of these operations; they are not imported.
ONLY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("select_dots", "slice_k", "raw_operands", "safe_divisors", "merge_tails",
                     "jam_loops", "coalesce_loops", "separate_axes", "merge_axes", "split_masks",
                     "sort_residues", "rasterize", "flatten_rows",
                     "join_products"), ("dot",)),
    **dict.fromkeys(("tabulate_masks", "join_bounds"), ("fma_dot", "mma_dot", "wgmma")),
    "compute_pieces": ("load", "store"), "clamped_loads": ("smin", "smax"),
    **dict.fromkeys(("drop_selections", "skip_masks"), ("select",)),
    "bound_conversions": ("sitofp", "uitofp", "fpcast"),
    "stage_dots": ("dot", "channel", "shared_store"), "pipeline": ("shared_store",),
    "double_buffer_fragments": ("fma_dot",), "detach_results": ("fma_dot",),
    "choose_pingpong": ("dot",), "pingpong_programs": ("start_producer",),
    **dict.fromkeys(("halve_products", "store_by_tma", "rotate_dots", "order_products",
                     "spread_late", "overlap_sums", "pingpong_chains"), ("wgmma",)),
    "specialize_warps": ("start_producer",), "stagger_warpgroups": ("start_producer",),
    "swap_neighbours": ("take",), "lower_take": ("take",), "apply_assumptions": ("assume",),
    "improve_combiners": ("reduce_with", "scan_with"), "split_scans": ("scan", "scan_with"),
    **dict.fromkeys(("split_reductions", "late_sums"), ("reduce", "reduce_with")),
    "exchange_late": ("reduce",), "scalar_tests": ("reduce",),
    "privatize_atomics": ("atomic_rmw",),
    "lower_clusters": ("cluster_arrive",), "fuse_logistic": ("tanh", "exp"),
    "fuse_exponents": ("exp", "exp2"), "select_ranks": ("smin", "smax", "umin", "umax"),
    "split_quotients": ("sdiv", "udiv", "srem", "urem"),
    "pack_halves": ("zext", "sext", "truncate", "smin", "smax", "umin", "umax"),
    **dict.fromkeys(("fetch_late", "widen_loops", "single_trips", "strength_reduce", "keep_rows",
                     "unroll_runtime", "load_ahead", "alternate_registers"), ("phi",)),
    **dict.fromkeys(("unify_exits", "hoist_addresses"), ("phi", "cond_br")),  # all loops that end
    **dict.fromkeys(("select_matrix_loads", "join_exchanges"), ("shared_load", "shared_store"))}


def _row(module: str, *why: str, level: int = 1) -> Pass:
    """The pass of a module, which is the function of its name."""
    name = module.rpartition(".")[2]
    reason = ". ".join(text[0].upper() + text[1:] for text in why) + "."
    return Pass(name, Later(f"tritonc.{module}", name), reason, level, ONLY.get(name, ()))


OPT: list[Pass] = [
    _row("opt.expand_range", "First, so that later passes see a single form of index", level=0),
    _row("opt.swap_neighbours", "indices have one form; folding and cse clean up what it makes"),
    _row("opt.fold_constants", "after expand_range: indices fold like other arithmetic",
         "tunables are numbers now: what depends on them disappears, branches too"),
    _row("opt.peephole", "one form for each idea"),
    _row("opt.simplify_cfg", "after fold_constants: branches are decided before blocks are merged",
         "the passes below look for things in one block"),
    _row("opt.convert_if", "after simplify_cfg: an empty block in between would hide the branch",
         "small branches become selects, and the blocks around them one block"),
    _row("opt.cse", "after peephole: equal operations must look equal: operands in one order, one "
         "form"),
    _row("opt.addresses.merge_axes", "before dce: loads that it replaced go",
         "before licm: addresses of merged axes leave loops"),
    _row("opt.dce", "passes that count a value's uses count right"),
    _row("opt.apply_assumptions", "after cse: a mask that repeats an assumption must be the same "
         "value", "before licm: facts are attached where the assumption stands",
         "`&&` is an `and` in one block; later passes fold what the assumptions decide"),
    _row("opt.peephole", "again: uses are counted right after dce, so sums move into dots; "
         "convert_if has made selects"),
    _row("opt.join_products", "after peephole: sums have moved into dots, and indices are products "
         "of ranges"),
    _row("opt.fold_constants", "again: assumptions and rewrite rules have decided more; "
         "simplify_cfg and convert_if leave phis of one value"),
    _row("opt.small_floats", "Selections are operations by now, and constants folded; the cost "
         "model counts what is left beside products."),
    _row("opt.improve_combiners", "no later pass looks into the functions of reductions and scans"),
    _row("opt.loops.canonicalize_loops", "the passes below need preheaders and single latches, "
         "and so does the backend", level=0),
    _row("opt.loops.unroll_loops", "after canonicalize_loops: the first iteration begins at the "
         "preheader", "before licm: what becomes constant in the copies may leave the loops "
         "around"),
    _row("opt.select_ranks", "after unroll_loops: loops over a window's elements are straight code",
         "cse below merges what is equal"),
    _row("opt.loops.licm", "after cse: what is computed twice would leave a loop twice",
         "after canonicalize_loops: it moves operations to preheaders", "steps of pointers leave "
         "the loops, too"),
    _row("opt.loops.scalar_tests", "after canonicalize_loops: scalars start in a preheader, step "
         "at one latch", "after licm: steps of tiles have left the loops",
         "before unify_exits: tests of scalars move into headers, their tiles need not"),
    _row("opt.loops.leave_early", "after licm: bounds that do not change stand before the loop",
         "before unify_exits: that makes one test of two"),
    _row("opt.loops.unify_exits", "after licm: loads leave a loop whose first iteration is certain",
         "all passes below expect one form of loop"),
    _row("opt.loops.late_sums", "after unify_exits: the sum that leaves the loop is a phi of its "
         "header", "the passes below see partial sums as tiles"),
    _row("opt.loops.widen_loops", "after late_sums: sums of rows are elementwise",
         "the passes below treat the result like source code"),
    _row("opt.loops.fetch_late", "after unify_exits: counters have one form",
         "before strength_reduce: pointers are still phis"),
    _row("opt.loops.merge_tails", "after unify_exits: both loops are tested at their headers",
         "before strength_reduce: bodies are compared as the source wrote them"),
    _row("opt.loops.split_masks", "after unify_exits: loops end at their headers",
         "after merge_tails: loops that the source wrote apart are compared as it wrote them"),
    _row("opt.loops.single_trips", "after late_sums: sums of rows are tiles in both bodies",
         "the passes below treat a loop that runs once as straight code"),
    _row("opt.loops.sort_residues", "after unify_exits: loops end at their headers",
         "after licm: sums of rows have left the loops", "loops that it changes count in steps "
         "that are no numbers"),
    _row("opt.loops.jam_loops", "after unify_exits: both loops are tested at their headers",
         "after merge_tails: a tail joins its loop before that one is copied"),
    _row("opt.addresses.split_quotients", "after licm: ranges have left the loops",
         "before strength_reduce: it knows the counters that quotients become"),
    _row("opt.addresses.strength_reduce", "after canonicalize_loops: offsets start in a "
         "preheader, step at one latch", "after unify_exits: offsets become phis of one header",
         "after jam_loops: addresses follow from counters", "after licm: a step that leaves the "
         "loop is extended only once", "after widen_loops: rows are strides apart as the source "
         "wrote them", "after single_trips: addresses are those of the first iteration"),
    _row("opt.loops.coalesce_loops", "after strength_reduce: a merged latch selects between "
         "scalars, not tiles", "the passes below split addresses for the merged loop"),
    _row("opt.addresses.hoist_addresses", "after licm: only what varies is left",
         "after split_quotients: offsets with quotients have no fixed part",
         "after coalesce_loops: only addresses in innermost loops are split",
         "after strength_reduce: a moving tile has a fixed part once it is reduced"),
    _row("opt.addresses.separate_axes", "after hoist_addresses: what can be proved needs no rule "
         "of the language"),
    _row("opt.cse", "again: the passes before make the same splats and offsets several times"),
    _row("opt.dce", "again: removes what these passes replaced"),
    _row("opt.simplify_cfg", "again: new preheaders join the block before, where there is one")]

BACKEND: list[Pass] = [
    # --- instructions, facts, versions of the kernel ---
    _row("backend.dots.select_dots", "first: persistent blocks, the number of warps and layouts "
         "depend on the instruction", level=0),
    _row("backend.memory.merge_accesses", "before specialize: whether a store can be wide depends "
         "on its guard"),
    _row("backend.memory.masks.unwrap_indices", "before specialize: facts are about plain "
         "indices, and rows become strides apart", level=2),
    _row("backend.memory.versions.specialize", "after canonicalize_loops: an affine pointer in a "
         "loop starts in a preheader", "addresses and masks have the form of the source", level=2),
    _row("backend.memory.masks.flatten_rows", "after specialize: it needs its facts",
         "before rasterize: that asks what threads find rows for", level=2),
    _row("backend.memory.versions.specialize_stores", "after specialize: facts that a body "
         "assumes are not tested again", "before rasterize: its branches end a program, not a "
         "persistent block", level=2),
    _row("backend.launch.rasterize", "after specialize: tests at entry use program ids of the "
         "source", "after select_dots: products on wgmma run in persistent blocks", level=2),
    _row("opt.fold_constants", "in the backend: removes the masks that hold in the fast body"),
    _row("opt.peephole", "in the backend: removes what depended on those masks"),
    _row("backend.memory.masks.drop_selections", "after specialize: whether steps of K are whole "
         "is one of its facts", "nothing depends on where loads stand", level=2),
    _row("backend.memory.masks.fold_masked_loads", "after specialize: a load that needs no mask "
         "needs no other value"),
    _row("backend.memory.masks.round_masks", "after fold_masked_loads: that says what masked "
         "elements are", level=2),
    _row("backend.dots.fuse_exponents", "after specialize: a factor's sign is tested", level=2),
    _row("backend.dots.fuse_logistic", "before dce, which removes the exponential", level=2),
    _row("opt.dce", "in the backend: layouts are chosen for what is used"),
    # --- extents that are powers of two; who computes what ---
    _row("backend.memory.load_early", "before split_reductions: loads move over reductions, not "
         "over exchanges"),
    _row("backend.memory.masks.pad_tiles", "after fold_masked_loads: padding then adds no select "
         "for masked elements", "after specialize: whether a tile is full depends on its extents "
         "in the source", level=0),
    _row("backend.memory.lower_take", "after pad_tiles: it numbers the elements of padded tiles",
         level=0),
    _row("backend.dots.select_dots", "again: some products have extents that are powers of two "
         "only now", level=0),
    _row("backend.launch.split_loops", "after specialize: a block's share begins at no known "
         "iteration", "after pad_tiles: parts of a tile are bits of an element's number"),
    _row("backend.dots.slice_k", "after select_dots: a slice is as deep as an instruction, and "
         "wgmma is not split", "after pad_tiles: the inner axis divides into slices",
         "after split_loops: the slices' sums are added before the blocks'"),
    _row("backend.dots.bound_conversions", "before pipeline: loads are not copied to prologues yet",
         "integers have their final form"),
    _row("backend.dots.raw_operands", "after select_dots: whether an operand may stay raw depends "
         "on the instruction", "after fold_masked_loads: a load without a select can be an "
         "asynchronous copy", level=2),
    _row("backend.pipeline.safe_divisors", "after specialize: divisors are values in both bodies",
         "before pipeline: it runs address arithmetic ahead", "no later pass folds divisions, or "
         "asks what divides an index", level=2),
    _row("backend.launch.choose_pingpong", "after rasterize: that says whether blocks persist",
         "before choose_warps: that leaves a number that is set", level=2),
    _row("backend.launch.choose_warps", "after slice_k: each warp computes one slice of K",
         "after select_dots: wgmma runs in groups of four warps", level=0),
    _row("backend.layout.split_scans", "after choose_warps: parts are warps",
         "after pad_tiles: an axis divides into parts"),
    # --- layouts ---
    _row("backend.layout.assign_layouts", "after lower_take: a gather needs a layout of its own",
         "after raw_operands: operands are computed in the layout of their reader",
         "after split_scans: a layout has parts in warps", "after choose_warps: a layout spreads "
         "a tile over the warps", "after split_loops: masks of what a block owns are in the "
         "store's layout", level=0),
    _row("backend.layout.exchange_late", "after assign_layouts: layouts say what threads exchange",
         "before pipeline: loops are rotated there, and their order is chosen"),
    _row("backend.launch.lower_clusters", "after assign_layouts: a mailbox has a place for each "
         "thread", "before pipeline: multi-stage buffers take the shared memory that is left",
         level=0),
    _row("backend.memory.privatize_atomics", "after assign_layouts: an atomic happens once, in "
         "the owner of its element", level=2),
    # --- shared memory for operands, software pipelines ---
    _row("backend.dots.stage_dots", "after assign_layouts: the buffer's swizzle depends on who "
         "writes it", level=0),
    _row("backend.dots.halve_products", "after stage_dots: halves are views of a staged operand",
         "before pipeline: the scaling of a product still follows the product", level=2),
    _row("backend.pipeline.tma.store_by_tma", "after stage_dots: it is for kernels with wgmma",
         "before pipeline: multi-stage buffers take the shared memory that is left",
         "stores still have their layout conversions"),
    _row("backend.pipeline.pipeline", "after stage_dots: pipeline replaces the stores that "
         "stage_dots makes"),
    _row("backend.pipeline.double_buffer_fragments", "after pipeline: it reads a stage that the "
         "pipeline fills earlier", "loops are still one block", level=2),
    _row("backend.pipeline.chains.rotate_dots", "after pipeline: a product's operands must be "
         "there an iteration earlier", level=2),
    _row("backend.memory.keep_rows", "after pipeline: it takes the shared memory that is left",
         "before load_ahead: what is made of a load is stored where it was loaded"),
    _row("backend.pipeline.unroll_runtime", "before load_ahead: that leaves such loops", level=2),
    _row("backend.pipeline.load_ahead", "after rotate_dots: it recognises products by the loads "
         "beside them", level=2),
    _row("opt.cse", "in the backend: two readers in one layout share what was computed for each"),
    _row("opt.dce", "after pipeline, which leaves the loads that it replaced"),
    _row("backend.pipeline.chains.order_products", "after rotate_dots: rotated loops already have "
         "their order", "after load_ahead: barriers of operands are there, and loads have moved",
         level=2),
    _row("backend.pipeline.spread_late", "after order_products: products have their places",
         "cse has merged equal conversions", level=2),
    # --- masks and addresses ---
    _row("backend.memory.step_addresses", "after pipeline: pointers that run ahead use the same "
         "sums", "cse has merged equal offsets"),
    _row("backend.memory.masks.skip_masks", "after double_buffer_fragments: the product is in the "
         "loop's latch", "after order_products: a loop is one block", "after rotate_dots: a loop "
         "that is rotated has one block", "after pipeline: a pipelined loop has few blocks",
         level=2),
    _row("backend.memory.clamped_loads", "makes branches, too", level=2),
    _row("backend.memory.masks.join_bounds", "after skip_masks: bounds show which tiles are full",
         level=2),
    _row("backend.memory.masks.tabulate_masks", "after join_bounds: one comparison for both ends "
         "of an index", level=2),
    _row("opt.dce", "what was compared does not take registers for comparisons that nobody reads",
         level=2),
    # --- exchanges between threads ---
    _row("backend.layout.split_reductions", "before lower_conversions: the exchange between warps "
         "is a conversion", level=0),
    _row("backend.layout.compute_once", "after assign_layouts: it looks for lanes that hold "
         "copies of an element", "after tabulate_masks: masks are words of bits",
         "before lower_conversions: it makes conversions", level=2),
    _row("backend.layout.lower_conversions", "before allocate_shared: conversions have buffers",
         level=0),
    _row("backend.memory.narrow_loops", "before lower_atomics: it keeps in one warp what would "
         "otherwise go to all warps", level=2),
    _row("backend.memory.lower_atomics", "before allocate_shared: results of atomics have buffers",
         level=0),
    _row("backend.layout.select_matrix_loads", "after lower_conversions: conversions have buffers",
         "after stage_dots: it looks at loads of fragments from buffers"),
    _row("backend.shared.join_exchanges", "after lower_conversions: conversions have buffers",
         "before allocate_shared: both buffers are in use at once", level=2),
    # --- accesses of global memory; registers ---
    _row("backend.memory.cache_loads", "no later pass makes loads from global memory"),
    _row("backend.memory.vectorize", "guards have their final form", level=0),
    _row("backend.memory.delay_loads", "after vectorize: how many registers a load needs depends "
         "on its width", "no later pass moves loads and stores"),
    _row("backend.memory.rematerialize", "after delay_loads: delayed loads may free enough "
         "registers"),
    _row("backend.layout.detach_results", "after double_buffer_fragments: accumulators pass "
         "through several products", "after vectorize: narrow stores take any register", level=2),
    _row("backend.memory.compute_pieces", "after rematerialize: it copies whole operations",
         "after detach_results: results are read where they were detached",
         "no later pass moves operations: live ranges are final"),
    _row("backend.layout.pack_halves", "after compute_pieces: operations that are emitted in "
         "pieces are not packed", "after vectorize: a wide access loads neighbours in one word",
         "no later pass looks for elementwise operations by name", level=2),
    # --- places in shared memory, roles, barriers ---
    _row("backend.pipeline.chains.stagger_warpgroups", "after pipeline: only where a producer "
         "warp is ahead of all", "before allocate_shared: turns have barriers", level=2),
    _row("backend.shared.allocate_shared", "after privatize_atomics: tables are buffers", level=0),
    _row("backend.launch.limit_registers", "after allocate_shared: residency depends on the bytes "
         "of shared memory", "after rematerialize: fewer registers are live",
         "after delay_loads: fewer registers are live", "after compute_pieces: fewer registers "
         "are live", "after pack_halves: pairs need half the registers"),
    _row("backend.pipeline.tma.specialize_warps", "after allocate_shared: buffers have their "
         "places, so that it is known which copies overlap other uses"),
    _row("backend.shared.insert_barriers", "after delay_loads: a delayed load and its store are "
         "one access", "after compute_pieces: loads have moved", "after allocate_shared: buffers "
         "that share bytes conflict", level=0),
    # --- the whole loop, the whole kernel ---
    _row("backend.pipeline.tma.pingpong_programs", "after insert_barriers: the barriers of a "
         "program are of its threads alone", level=2),
    _row("backend.pipeline.chains.pingpong_chains", "after insert_barriers: no turn has a barrier "
         "of the block in it", "after specialize_warps: whether there is a producer warp", level=2),
    _row("backend.pipeline.chains.alternate_registers", "after insert_barriers: a stage's "
         "distance is that from one iteration", level=2),
    _row("backend.pipeline.chains.overlap_sums", "after insert_barriers: a stage's distance is "
         "that from one iteration", "after alternate_registers: for loops that it does not change",
         level=2),
    _row("backend.launch.coarsen", "after overlap_sums: a kernel has one body to the passes before",
         "after alternate_registers: a kernel has one body to the passes before", level=2)]


def order() -> list[tuple[str, str, str]]:
    """(earlier, later, why): what the reasons say of which pass comes before which."""
    found = [(row.name, *said) for row in (*OPT, *BACKEND)
             for said in re.findall(r"(After|Before) (\w+): ([^.]+)", row.reason)]
    return [(other, name, why) if word == "After" else (name, other, why)
            for name, word, other, why in found]
