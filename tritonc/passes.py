"""The passes, in the order in which they run, and the reasons for it.

Start here to learn what happens to a kernel between the source and LLVM IR.  Semantic analysis
makes Triton-IR (docs/ir.md); `OPT` makes it better without looking at the target; `BACKEND` decides
layouts, instructions, shared memory and barriers.  A pass is a function in a file of its name:

    def pass_name(kernel: Kernel, context: Context) -> bool        # whether it changed the kernel

Its docstring says what it does, needs and leaves to others.  Below, each pass has the reason why it
stands where it does; one that runs twice has two.  `ORDER` holds what must come before what; tests
check it.
"""

from __future__ import annotations

from tritonc.later import Later
from tritonc.pass_manager import Pass

# Passes that leave a kernel as it is unless it has one of these operations; they are not imported.
ONLY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("select_dots", "slice_k", "raw_operands", "safe_divisors", "merge_tails",
                     "jam_loops", "coalesce_loops", "separate_axes", "merge_axes",
                     "sort_residues", "rasterize", "flatten_rows",
                     "count_from_zero"), ("dot",)),
    **dict.fromkeys(("tabulate_masks", "join_bounds"), ("fma_dot", "mma_dot", "wgmma")),
    "compute_pieces": ("load",), "clamped_loads": ("smin", "smax"),
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
    "scalar_tests": ("reduce",),
    "exchange_late": ("reduce",), "privatize_atomics": ("atomic_rmw",),
    "lower_clusters": ("cluster_arrive",), "fuse_logistic": ("tanh", "exp"),
    "fuse_exponents": ("exp", "exp2"), "select_ranks": ("smin", "smax", "umin", "umax"),
    "split_quotients": ("sdiv", "udiv", "srem", "urem"),
    "pack_halves": ("zext", "sext", "truncate", "smin", "smax", "umin", "umax"),
    **dict.fromkeys(("fetch_late", "widen_loops", "single_trips", "strength_reduce", "keep_rows",
                     "unroll_runtime", "load_ahead", "alternate_registers"), ("phi",)),
    **dict.fromkeys(("unify_exits", "hoist_addresses"), ("phi", "cond_br")),  # all loops that end
    **dict.fromkeys(("select_matrix_loads", "join_exchanges"), ("shared_load", "shared_store")),
}


def _row(module: str, reason: str, level: int = 1) -> Pass:
    """The pass of a module, which is the function of its name."""
    name = module.rpartition(".")[2]
    return Pass(name, Later(f"tritonc.{module}", name), reason, level, ONLY.get(name, ()))


OPT: list[Pass] = [
    _row("opt.expand_range", "First, so that later passes see a single form of index.", 0),
    _row("opt.swap_neighbours", "Indices have one form; folding and cse clean up what it makes."),
    _row("opt.fold_constants", "Tunables are numbers now: their arithmetic disappears, and so do "
         "the branches that depend on it."),
    _row("opt.peephole", "One form for each idea, so that cse finds equal operations."),
    _row("opt.simplify_cfg", "The passes below look for things in one block, so there should be "
         "few and large ones."),
    _row("opt.convert_if", "Small branches become selects, and the blocks around them one block."),
    _row("opt.cse", "After peephole, which makes equal things look equal."),
    _row("opt.addresses.merge_axes", "Addresses have few forms; dce removes what it replaces."),
    _row("opt.dce", "Removes what was replaced, so that passes that count a value's uses count "
         "right."),
    _row("opt.apply_assumptions", "Equal conditions are one value, and `&&` is an `and` in one "
         "block. Later passes fold what the assumptions decide."),
    _row("opt.peephole", "Again: uses are counted right after dce, so sums move into dots; "
         "convert_if has made selects."),
    _row("opt.fold_constants", "Again: assumptions and rewrite rules have decided more; "
         "simplify_cfg and convert_if leave phis of one value."),
    _row("opt.improve_combiners", "No later pass looks into the functions of reductions and "
         "scans."),
    _row("opt.loops.canonicalize_loops", "The passes below need preheaders and single latches, and "
         "so does the backend.", 0),
    _row("opt.loops.unroll_loops", "Before licm: what becomes constant in the copies may leave the "
         "loops around."),
    _row("opt.select_ranks", "Loops over a window's elements are straight code now; cse below "
         "merges what is equal."),
    _row("opt.loops.licm", "Addresses and masks leave the loops; steps of pointers too, for the "
         "next pass."),
    _row("opt.loops.scalar_tests", "After licm, which leaves only the steps of tiles; the passes "
         "below read tests of scalars."),
    _row("opt.loops.unify_exits", "After licm, which takes loads out of loops whose first "
         "iteration is certain. All passes below expect one form of loop."),
    _row("opt.loops.late_sums", "Loops end at their headers. The passes below see partial sums as "
         "tiles."),
    _row("opt.loops.widen_loops", "Needs sums that are tiles and loops of one form; the passes "
         "below treat the result like source code."),
    _row("opt.loops.fetch_late", "Before strength_reduce: counters have one form, and pointers are "
         "still phis."),
    _row("opt.loops.merge_tails", "Before strength_reduce: pointers of both loops still move as in "
         "the source."),
    _row("opt.loops.single_trips", "Loops have one form; the passes below treat a loop that runs "
         "once as straight code."),
    _row("opt.loops.sort_residues", "Loops have one form, and masks are conditions of indices; "
         "loops that it changes count in steps that are no numbers."),
    _row("opt.loops.jam_loops", "Loops have one form, and addresses follow from counters, which "
         "are numbers in the copies."),
    _row("opt.loops.count_from_zero", "Short loops have been unrolled, and taps that lie side by "
         "side are one loop; before addresses are split."),
    _row("opt.addresses.split_quotients", "Before the passes that split addresses: a quotient of a "
         "counter becomes a counter, which they know."),
    _row("opt.addresses.strength_reduce", "Pointers that loops move become fixed tiles and scalar "
         "offsets."),
    _row("opt.loops.coalesce_loops", "Only scalars move in outer loops now; the passes below split "
         "addresses for the merged loop."),
    _row("opt.addresses.hoist_addresses", "The same for pointers that loops compute. After "
         "strength_reduce, whose results it may split further, and after licm, which leaves only "
         "what varies."),
    _row("opt.addresses.separate_axes", "For loops with products: what hoist_addresses could not "
         "prove rests on the language's rule that indices do not wrap."),
    _row("opt.cse", "Again: the passes before make the same splats and offsets several times."),
    _row("opt.dce", "Again: removes what these passes replaced."),
    _row("opt.simplify_cfg", "Again: new preheaders join the block before, where there is one."),
]

BACKEND: list[Pass] = [
    # --- instructions, facts, versions of the kernel ---
    _row("backend.dots.select_dots", "First: persistent blocks, the number of warps and layouts "
         "depend on the instruction.", 0),
    _row("backend.memory.merge_accesses", "Before specialize, which makes the address of a merged "
         "store aligned."),
    _row("backend.memory.masks.unwrap_indices", "Before specialize: rows become strides apart, "
         "which it needs to see.", 2),
    _row("backend.memory.versions.specialize", "While addresses and masks have the form of the "
         "source.", 2),
    _row("backend.memory.masks.flatten_rows", "After specialize, whose facts it needs; before "
         "rasterize, which asks what threads find rows for.", 2),
    _row("backend.memory.versions.specialize_stores", "Tests the facts that stores alone need. "
         "Before rasterize: a block still computes one program.", 2),
    _row("backend.launch.rasterize", "Replaces program ids, so it comes after the passes that look "
         "for them.", 2),
    _row("opt.fold_constants", "In the backend: removes the masks that hold in the fast body."),
    _row("opt.peephole", "In the backend: removes what depended on those masks."),
    _row("backend.memory.masks.drop_selections", "The facts are known by now; nothing depends on "
         "where loads stand.", 2),
    _row("backend.memory.masks.fold_masked_loads", "After the passes that remove masks."),
    _row("backend.memory.masks.round_masks", "After fold_masked_loads, which says what masked "
         "elements are.", 2),
    _row("backend.dots.fuse_exponents", "After specialize, which tests that factors are "
         "positive.", 2),
    _row("backend.dots.fuse_logistic", "Before dce, which removes the exponential.", 2),
    _row("opt.dce", "In the backend: layouts are chosen for what is used."),
    # --- extents that are powers of two; who computes what ---
    _row("backend.memory.load_early", "Before reductions get exchanges, over which loads do not "
         "move."),
    _row("backend.memory.masks.pad_tiles", "Masks have been compared with the extents of the "
         "source; layouts need powers of two.", 0),
    _row("backend.memory.lower_take", "Uses row-major numbers of the padded tiles.", 0),
    _row("backend.dots.select_dots", "Again: some products have extents that are powers of two "
         "only now.", 0),
    _row("backend.launch.split_loops", "After specialize and pad_tiles, which read masks and "
         "extents of the whole loop."),
    _row("backend.dots.slice_k", "After select_dots, since a slice is as deep as an "
         "instruction, and before choose_warps."),
    _row("backend.dots.bound_conversions", "Integers have their final form; pipelines have not "
         "copied loads to prologues yet."),
    _row("backend.dots.raw_operands", "After select_dots: whether an operand may stay raw depends "
         "on the instruction.", 2),
    _row("backend.pipeline.safe_divisors", "After the passes that fold divisions or ask what "
         "divides an index; before pipelines run divisions ahead.", 2),
    _row("backend.launch.choose_pingpong", "Before choose_warps, which leaves a number that is "
         "set; after rasterize, which says whether blocks persist.", 2),
    _row("backend.launch.choose_warps", "Before assign_layouts, which spreads tiles over the "
         "warps.", 0),
    _row("backend.layout.split_scans", "After choose_warps: each warp gets a part."),
    # --- layouts ---
    _row("backend.layout.assign_layouts", "After this pass each tile's type says which thread and "
         "register has which element.", 0),
    _row("backend.layout.exchange_late", "Layouts say which threads have parts of a sum; pipelines "
         "have not rewritten the loops yet."),
    _row("backend.launch.lower_clusters", "A thread sends what its layout gives it. Before "
         "pipeline, which takes the shared memory that is left.", 0),
    _row("backend.memory.privatize_atomics", "A table and its indices have layouts.", 2),
    # --- shared memory for operands, software pipelines ---
    _row("backend.dots.stage_dots", "Dots read shared memory, in layouts that are known now.", 0),
    _row("backend.dots.halve_products", "Before pipelines: the scaling of a product still follows "
         "the product.", 2),
    _row("backend.pipeline.tma.store_by_tma", "Before pipeline, which takes the shared memory "
         "that is left; stores still have their layout conversions."),
    _row("backend.pipeline.pipeline", "While stores to shared memory stand beside the loads that "
         "they store."),
    _row("backend.pipeline.double_buffer_fragments", "After pipeline, while its loops are still "
         "one block.", 2),
    _row("backend.pipeline.chains.rotate_dots", "After pipeline: copies already run ahead of the "
         "products.", 2),
    _row("backend.memory.keep_rows", "After the passes that take shared memory; before load_ahead, "
         "which moves a loop's load and leaves the store behind it."),
    _row("backend.pipeline.unroll_runtime", "As load_ahead, which leaves such loops.", 2),
    _row("backend.pipeline.load_ahead", "After pipeline and rotate_dots, which decide the order "
         "of a loop's operations.", 2),
    _row("opt.cse", "In the backend: two readers in one layout share what was computed for each."),
    _row("opt.dce", "After pipeline, which leaves the loads that it replaced."),
    _row("backend.pipeline.chains.order_products", "Barriers of operands are there, loads have "
         "moved ahead, and a loop is still one block.", 2),
    _row("backend.pipeline.spread_late", "Products and loads have their final places, and cse has "
         "merged equal conversions.", 2),
    # --- masks and addresses ---
    _row("backend.memory.step_addresses", "After the passes that copy slices of loops, and after "
         "cse, which merges equal offsets."),
    _row("backend.memory.masks.skip_masks", "Makes branches, so it comes after the passes that "
         "need a loop of one block.", 2),
    _row("backend.memory.clamped_loads", "Makes branches, too.", 2),
    _row("backend.memory.masks.join_bounds", "After the last pass that reads masks as bounds.", 2),
    _row("backend.memory.masks.tabulate_masks", "After join_bounds, which leaves fewer "
         "comparisons.", 2),
    _row("opt.dce", "What was compared does not take registers for comparisons that nobody reads.",
         2),
    # --- exchanges between threads ---
    _row("backend.layout.split_reductions", "Before lower_conversions: it makes layout "
         "conversions.", 0),
    _row("backend.layout.compute_once", "Before lower_conversions: it makes layout "
         "conversions.", 2),
    _row("backend.layout.lower_conversions", "Before allocate_shared: it makes buffers.", 0),
    _row("backend.memory.narrow_loops", "Before lower_atomics, which sends the result of each "
         "atomic through shared memory.", 2),
    _row("backend.memory.lower_atomics", "Before allocate_shared: it makes buffers.", 0),
    _row("backend.layout.select_matrix_loads", "Tiles and buffers have their final layouts."),
    _row("backend.shared.join_exchanges", "Exchanges have buffers, and barriers are not there yet.",
         2),
    # --- accesses of global memory; registers ---
    _row("backend.memory.cache_loads", "No later pass makes loads from global memory."),
    _row("backend.memory.vectorize", "Guards have their final form.", 0),
    _row("backend.memory.delay_loads", "After the last pass that moves loads and stores."),
    _row("backend.memory.rematerialize", "Loads have their places, so live ranges are known."),
    _row("backend.layout.detach_results", "After vectorize: only wide stores need it.", 2),
    _row("backend.memory.compute_pieces", "After the last pass that moves operations: live ranges "
         "are final."),
    _row("backend.layout.pack_halves", "After the last pass that looks for elementwise operations "
         "by name.", 2),
    # --- places in shared memory, roles, barriers ---
    _row("backend.pipeline.chains.stagger_warpgroups", "Products have their places. Before "
         "allocate_shared: it makes barriers in shared memory.", 2),
    _row("backend.shared.allocate_shared", "All buffers exist.", 0),
    _row("backend.launch.limit_registers", "The bytes of shared memory say how many blocks can be "
         "resident."),
    _row("backend.pipeline.tma.specialize_warps", "Buffers have their places, so that it is "
         "known which copies overlap other uses."),
    _row("backend.shared.insert_barriers", "All accesses of memory are in their order, and buffers "
         "have their places.", 0),
    # --- the whole loop, the whole kernel ---
    _row("backend.pipeline.tma.pingpong_programs", "Barriers stand: those of a program are of "
         "its threads alone.", 2),
    _row("backend.pipeline.chains.pingpong_chains", "Barriers stand, which must not be in a turn.",
         2),
    _row("backend.pipeline.chains.alternate_registers", "Last: earlier passes expect a loop body "
         "to be one iteration.", 2),
    _row("backend.pipeline.chains.overlap_sums", "Also last, for loops that the previous pass does "
         "not change.", 2),
    _row("backend.launch.coarsen", "Both bodies have gone through all other passes by "
         "themselves.", 2),
]

# (earlier, later, why): the first run of `later` comes after a run of `earlier`.
ORDER: list[tuple[str, str, str]] = [
    ("unify_exits", "late_sums", "the sum that leaves the loop is a phi of its header"),
    ("expand_range", "fold_constants", "indices fold like other arithmetic"),
    ("fold_constants", "simplify_cfg", "branches are decided before blocks are merged"),
    ("peephole", "cse", "equal operations must look equal: operands in one order, one form"),
    ("simplify_cfg", "convert_if", "an empty block in between would hide the branch"),
    ("merge_axes", "dce", "loads that it replaced go"),
    ("merge_axes", "licm", "addresses of merged axes leave loops"),
    ("cse", "apply_assumptions", "a mask that repeats an assumption must be the same value"),
    ("apply_assumptions", "licm", "facts are attached where the assumption stands"),
    ("cse", "licm", "what is computed twice would leave a loop twice"),
    ("canonicalize_loops", "unroll_loops", "the first iteration begins at the preheader"),
    ("canonicalize_loops", "licm", "it moves operations to preheaders"),
    ("canonicalize_loops", "strength_reduce", "offsets start in a preheader, step at one latch"),
    ("licm", "unify_exits", "loads leave a loop whose first iteration is certain"),
    ("unify_exits", "merge_tails", "both loops are tested at their headers"),
    ("merge_tails", "strength_reduce", "bodies are compared as the source wrote them"),
    ("unify_exits", "strength_reduce", "offsets become phis of one header"),
    ("unify_exits", "jam_loops", "both loops are tested at their headers"),
    ("unify_exits", "sort_residues", "loops end at their headers"),
    ("licm", "sort_residues", "sums of rows have left the loops"),
    ("merge_tails", "jam_loops", "a tail joins its loop before that one is copied"),
    ("jam_loops", "strength_reduce", "addresses follow from counters"),
    ("licm", "split_quotients", "ranges have left the loops"),
    ("split_quotients", "hoist_addresses", "offsets with quotients have no fixed part"),
    ("licm", "strength_reduce", "a step that leaves the loop is extended only once"),
    ("strength_reduce", "coalesce_loops", "a merged latch selects between scalars, not tiles"),
    ("coalesce_loops", "hoist_addresses", "only addresses in innermost loops are split"),
    ("hoist_addresses", "separate_axes", "what can be proved needs no rule of the language"),
    ("strength_reduce", "hoist_addresses", "a moving tile has a fixed part once it is reduced"),
    ("canonicalize_loops", "specialize", "an affine pointer in a loop starts in a preheader"),
    ("unwrap_indices", "specialize", "facts are about plain indices"),
    ("merge_accesses", "specialize", "whether a store can be wide depends on its guard"),
    ("specialize", "fuse_exponents", "a factor's sign is tested"),
    ("late_sums", "widen_loops", "sums of rows are elementwise"),
    ("widen_loops", "strength_reduce", "rows are strides apart as the source wrote them"),
    ("late_sums", "single_trips", "sums of rows are tiles in both bodies"),
    ("single_trips", "strength_reduce", "addresses are those of the first iteration"),
    ("specialize", "fold_masked_loads", "a load that needs no mask needs no other value"),
    ("fold_masked_loads", "pad_tiles", "padding then adds no select for masked elements"),
    ("specialize", "pad_tiles", "whether a tile is full depends on its extents in the source"),
    ("pad_tiles", "lower_take", "it numbers the elements of padded tiles"),
    ("lower_take", "assign_layouts", "a gather needs a layout of its own"),
    ("load_early", "split_reductions", "loads move over reductions, not over exchanges"),
    ("specialize", "safe_divisors", "divisors are values in both bodies"),
    ("safe_divisors", "pipeline", "pipelines run address arithmetic ahead"),
    ("choose_warps", "split_scans", "parts are warps"),
    ("fold_masked_loads", "raw_operands", "a load without a select can be an asynchronous copy"),
    ("raw_operands", "assign_layouts", "operands are computed in the layout of their reader"),
    ("pad_tiles", "split_scans", "an axis divides into parts"),
    ("split_scans", "assign_layouts", "a layout has parts in warps"),
    ("choose_warps", "assign_layouts", "a layout spreads a tile over the warps"),
    ("assign_layouts", "exchange_late", "layouts say what threads exchange"),
    ("exchange_late", "pipeline", "loops are rotated there, and their order is chosen"),
    ("assign_layouts", "privatize_atomics", "an atomic happens once, in the owner of its element"),
    ("privatize_atomics", "allocate_shared", "tables are buffers"),
    ("assign_layouts", "stage_dots", "the buffer's swizzle depends on who writes it"),
    ("specialize", "specialize_stores", "facts that a body assumes are not tested again"),
    ("specialize_stores", "rasterize", "its branches end a program, not a persistent block"),
    ("specialize", "drop_selections", "whether steps of K are whole is one of its facts"),
    ("specialize", "rasterize", "tests at entry use program ids of the source"),
    ("select_dots", "rasterize", "products on wgmma run in persistent blocks"),
    ("select_dots", "slice_k", "a slice is as deep as an instruction, and wgmma is not split"),
    ("pad_tiles", "slice_k", "the inner axis divides into slices"),
    ("specialize", "split_loops", "a block's share begins at no known iteration"),
    ("pad_tiles", "split_loops", "parts of a tile are bits of an element's number"),
    ("split_loops", "slice_k", "the slices' sums are added before the blocks'"),
    ("split_loops", "assign_layouts", "masks of what a block owns are in the store's layout"),
    ("assign_layouts", "lower_clusters", "a mailbox has a place for each thread"),
    ("lower_clusters", "pipeline", "multi-stage buffers take the shared memory that is left"),
    ("slice_k", "choose_warps", "each warp computes one slice of K"),
    ("select_dots", "choose_warps", "wgmma runs in groups of four warps"),
    ("stage_dots", "halve_products", "halves are views of a staged operand"),
    ("stage_dots", "store_by_tma", "it is for kernels with wgmma"),
    ("store_by_tma", "pipeline", "multi-stage buffers take the shared memory that is left"),
    ("stage_dots", "pipeline", "pipeline replaces the stores that stage_dots makes"),
    ("pipeline", "double_buffer_fragments", "it reads a stage that the pipeline fills earlier"),
    ("double_buffer_fragments", "skip_masks", "the product is in the loop's latch"),
    ("double_buffer_fragments", "detach_results", "accumulators pass through several products"),
    ("pipeline", "rotate_dots", "a product's operands must be there an iteration earlier"),
    ("rotate_dots", "order_products", "rotated loops already have their order"),
    ("order_products", "skip_masks", "a loop is one block"),
    ("order_products", "spread_late", "products have their places"),
    ("pipeline", "keep_rows", "it takes the shared memory that is left"),
    ("keep_rows", "load_ahead", "what is made of a load is stored where it was loaded"),
    ("rotate_dots", "load_ahead", "it recognises products by the loads beside them"),
    ("rotate_dots", "skip_masks", "a loop that is rotated has one block"),
    ("pipeline", "skip_masks", "a pipelined loop has few blocks"),
    ("skip_masks", "join_bounds", "bounds show which tiles are full"),
    ("join_bounds", "tabulate_masks", "one comparison for both ends of an index"),
    ("pipeline", "step_addresses", "pointers that run ahead use the same sums"),
    ("split_reductions", "lower_conversions", "the exchange between warps is a conversion"),
    ("assign_layouts", "compute_once", "it looks for lanes that hold copies of an element"),
    ("compute_once", "lower_conversions", "it makes conversions"),
    ("tabulate_masks", "compute_once", "masks are words of bits"),
    ("lower_conversions", "join_exchanges", "conversions have buffers"),
    ("join_exchanges", "allocate_shared", "both buffers are in use at once"),
    ("lower_conversions", "select_matrix_loads", "conversions have buffers"),
    ("stage_dots", "select_matrix_loads", "it looks at loads of fragments from buffers"),
    ("lower_conversions", "allocate_shared", "conversions have buffers"),
    ("narrow_loops", "lower_atomics", "it keeps in one warp what would otherwise go to all warps"),
    ("lower_atomics", "allocate_shared", "results of atomics have buffers"),
    ("vectorize", "detach_results", "narrow stores take any register"),
    ("allocate_shared", "limit_registers", "residency depends on the bytes of shared memory"),
    ("vectorize", "delay_loads", "how many registers a load needs depends on its width"),
    ("delay_loads", "rematerialize", "delayed loads may free enough registers"),
    ("rematerialize", "limit_registers", "fewer registers are live"),
    ("delay_loads", "limit_registers", "fewer registers are live"),
    ("delay_loads", "insert_barriers", "a delayed load and its store are one access"),
    ("rematerialize", "compute_pieces", "it copies whole operations"),
    ("detach_results", "compute_pieces", "results are read where they were detached"),
    ("compute_pieces", "limit_registers", "fewer registers are live"),
    ("compute_pieces", "insert_barriers", "loads have moved"),
    ("compute_pieces", "pack_halves", "operations that are emitted in pieces are not packed"),
    ("vectorize", "pack_halves", "a wide access loads neighbours in one word"),
    ("pack_halves", "limit_registers", "pairs need half the registers"),
    ("pipeline", "stagger_warpgroups", "only where a producer warp is ahead of all"),
    ("stagger_warpgroups", "allocate_shared", "turns have barriers"),
    ("insert_barriers", "pingpong_chains", "no turn has a barrier of the block in it"),
    ("specialize_warps", "pingpong_chains", "whether there is a producer warp"),
    ("insert_barriers", "overlap_sums", "a stage's distance is that from one iteration"),
    ("insert_barriers", "alternate_registers", "a stage's distance is that from one iteration"),
    ("overlap_sums", "coarsen", "a kernel has one body to the passes before"),
    ("alternate_registers", "coarsen", "a kernel has one body to the passes before"),
    ("allocate_shared", "insert_barriers", "buffers that share bytes conflict"),
]
