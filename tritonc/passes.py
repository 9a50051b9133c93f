"""The passes, in the order in which they run, and the reasons for it.

Start here to learn what happens to a kernel between the source and LLVM IR.  Semantic analysis
makes Triton-IR (docs/ir.md); `OPT` makes it better without looking at the target; `BACKEND` decides
layouts, instructions, shared memory and barriers.  A pass is a function in a file of its name:

    def pass_name(kernel: Kernel, context: Context) -> bool        # whether it changed the kernel

Its docstring says what it does, needs and leaves to others.  Below, each pass has the reason why it
stands where it does; one that runs twice has two.  `ORDER` holds what must come before what, and is
checked when this file is imported.
"""

from __future__ import annotations

from importlib import import_module

from tritonc.pass_manager import Pass, check


def _row(module: str, reason: str, level: int = 1) -> Pass:
    """The pass of a module, which is the function of its name."""
    name = module.rpartition(".")[2]
    return Pass(name, getattr(import_module(f"tritonc.{module}"), name), reason, level)


OPT: list[Pass] = [
    _row("opt.expand_range", "Later passes see a single form of index.", 0),
    _row("opt.swap_neighbours", "Indices have one form, and what it makes is arithmetic too."),
    _row("opt.fold_constants", "Tunables are numbers now: their arithmetic disappears, and so do "
         "the branches that depend on it."),
    _row("opt.peephole", "One form for each idea, so that equal things look equal."),
    _row("opt.simplify_cfg", "Few and large blocks: the passes below look for things in one "
         "block."),
    _row("opt.convert_if", "Small branches become selects, and the blocks around them one block."),
    _row("opt.fold_constants", "Again: the two passes before leave phis of one value."),
    _row("opt.cse", "After peephole, which makes equal things look equal."),
    _row("opt.dce", "Removes what was replaced, so that the number of a value's uses is right."),
    _row("opt.apply_assumptions", "Equal conditions are one value, and `&&` is an `and` in one "
         "block. Later passes fold what the assumptions decide."),
    _row("opt.peephole", "Again: with the true numbers of uses, sums move into dots; selects are "
         "new."),
    _row("opt.fold_constants", "Again: what assumptions and rules decide."),
    _row("opt.improve_combiners", "No later pass looks into these functions."),
    _row("opt.loops.canonicalize_loops", "The passes below need preheaders and single latches, the "
         "backend too.", 0),
    _row("opt.loops.unroll_loops", "Constants that it makes may leave the loops around it."),
    _row("opt.select_ranks", "Loops over a window's elements are straight code; equal things are "
         "made equal again below."),
    _row("opt.loops.licm", "Addresses and masks leave the loops; steps of pointers too, for the "
         "next pass."),
    _row("opt.loops.unify_exits", "After licm, which may take loads out of a loop whose first "
         "iteration is certain; the passes below and the backend meet one form of loop."),
    _row("opt.loops.late_sums", "Loops end at their headers; partial sums are tiles to all passes "
         "below."),
    _row("opt.loops.widen_loops", "Sums are tiles and loops have one form; what it makes, the "
         "passes below see as if the source had written it."),
    _row("opt.loops.fetch_late", "Counters have one form; pointers still move, so that the next "
         "one is a phi's."),
    _row("opt.loops.merge_tails", "Loops have one form, and their pointers still move as the "
         "source moved them."),
    _row("opt.loops.single_trips", "Loops have one form; what it makes, the passes below see as "
         "straight code."),
    _row("opt.addresses.split_quotients", "Counters have one form; what it makes of them, the next "
         "passes move out of addresses."),
    _row("opt.addresses.strength_reduce", "Pointers that loops move become fixed tiles and scalar "
         "offsets."),
    _row("opt.loops.coalesce_loops", "What moves in outer loops is scalar; addresses are split for "
         "the loop that stays."),
    _row("opt.addresses.hoist_addresses", "The same for pointers that loops compute.  After the "
         "pass before, whose results it may split further, and after licm, which leaves it only "
         "what really varies."),
    _row("opt.addresses.separate_axes", "What is left in loops with products; the pass before has "
         "split what it could prove."),
    _row("opt.cse", "Again: the passes before make the same splats and offsets several times."),
    _row("opt.dce", "Again: removes what these passes replaced."),
    _row("opt.simplify_cfg", "Again: new preheaders join the block before, where there is one."),
]

BACKEND: list[Pass] = [
    _row("backend.dots.select_dots", "Instructions decide on persistent blocks, on the number of "
         "warps, on layouts.", 0),
    _row("backend.memory.merge_accesses", "A merged store or load may be wide, where the "
         "next passes make its address aligned."),
    _row("backend.memory.masks.unwrap_indices", "Rows are strides apart again, which the next pass "
         "needs to know.", 2),
    _row("backend.memory.versions.specialize", "Addresses and masks still have the form of the "
         "source.", 2),
    _row("backend.memory.versions.specialize_stores", "The facts still missing concern stores "
         "only; each block still computes one program.", 2),
    _row("backend.launch.group_instances", "Program ids are no longer looked at, only their "
         "values.", 2),
    _row("opt.fold_constants", "In the backend: removes the masks that hold in the fast body."),
    _row("opt.peephole", "In the backend: removes what depended on those masks."),
    _row("backend.memory.masks.drop_selections", "Facts are known; where loads stand has nothing "
         "to do with it.", 2),
    _row("backend.memory.masks.fold_masked_loads", "After all masks that can go have gone."),
    _row("backend.dots.fuse_exponents", "Which factors are above 0 is known.", 2),
    _row("backend.dots.fuse_tanh", "What is left of tanh goes in the next pass.", 2),
    _row("opt.dce", "In the backend: layouts are chosen for what is used."),
    _row("backend.memory.load_early", "Nothing stands yet between a reduction and what reads it."),
    _row("backend.memory.masks.pad_tiles", "Masks have been read in the extents of the source; "
         "layouts need powers of two.", 0),
    _row("backend.memory.lower_take", "Row-major numbers are those of the padded tiles.", 0),
    _row("backend.dots.select_dots", "Again: products of tiles whose extents are powers of two "
         "only now.", 0),
    _row("backend.launch.split_loops", "Masks and facts of the loop have been read as the source "
         "gave them; tiles have their final extents."),
    _row("backend.dots.split_dots", "The instructions are known, and warps are not yet counted."),
    _row("backend.dots.bound_conversions", "Integers have their final form, and loops no prologues "
         "yet."),
    _row("backend.dots.raw_operands", "Instructions are known; registers that hold operands "
         "count.", 2),
    _row("backend.pipeline.safe_divisors", "No pass folds divisions any more, or asks what divides "
         "an index.", 2),
    _row("backend.memory.count_quotients", "Loads of groups are made once, with one quotient for a "
         "step; facts are known.", 2),
    _row("backend.launch.choose_warps", "Layouts spread tiles over so many threads.", 0),
    _row("backend.layout.split_scans", "Parts are warps."),
    _row("backend.layout.assign_layouts", "From here on each tile knows in which thread and "
         "register its elements are.", 0),
    _row("backend.layout.exchange_late", "Which threads have parts of a sum is known; loops are "
         "as the source has them."),
    _row("backend.launch.lower_clusters", "A thread sends what its layout gives it; buffers that "
         "pipelines leave room for.", 0),
    _row("backend.memory.privatize_atomics", "A table has a layout, and so have the indices that "
         "are counted in it.", 2),
    _row("backend.dots.stage_dots", "Dots read shared memory.", 0),
    _row("backend.dots.halve_products", "What is made of a product still stands behind it.", 2),
    _row("backend.pipeline.tensors.store_tensors", "Its buffers have their place before the ring "
         "takes the rest; stores still have their conversions."),
    _row("backend.pipeline.pipeline", "While the stores to shared memory stand beside their "
         "loads."),
    _row("backend.pipeline.carry_fragments", "Loops on rings are still one block.", 2),
    _row("backend.pipeline.chains.advance_dots", "After pipeline: what the copies need runs ahead "
         "already.", 2),
    _row("backend.pipeline.load_ahead", "The loop's operations have their order.", 2),
    _row("opt.cse", "In the backend: two readers in one layout share what was computed for each."),
    _row("opt.dce", "After pipeline, which leaves the loads that it replaced."),
    _row("backend.pipeline.chains.order_products", "Rings wait and release, loads have gone ahead, "
         "and a loop is one block yet.", 2),
    _row("backend.pipeline.spread_late", "Products and what is loaded ahead have their places; "
         "equal conversions are one.", 2),
    _row("backend.memory.step_addresses", "After the passes that copy slices of loops, and cse, "
         "which makes equal offsets one."),
    _row("backend.memory.masks.skip_masks", "Loops need not be one block any more; equal masks are "
         "one.", 2),
    _row("backend.memory.masks.join_bounds", "No pass looks at masks as bounds any more.", 2),
    _row("backend.layout.split_reductions", "Makes layout conversions.", 0),
    _row("backend.layout.compute_once", "Makes layout conversions, of what the passes before have "
         "not merged.", 2),
    _row("backend.layout.lower_conversions", "Makes buffers.", 0),
    _row("backend.memory.narrow_loops", "Before each atomic goes through shared memory by "
         "itself.", 2),
    _row("backend.memory.lower_atomics", "Makes buffers.", 0),
    _row("backend.layout.select_matrix_loads", "Tiles and buffers have their final layouts."),
    _row("backend.memory.cache_loads", "Every load from global memory to registers is final."),
    _row("backend.memory.vectorize", "Guards have their final form.", 0),
    _row("backend.memory.delay_loads", "Nothing moves loads and stores any more."),
    _row("backend.memory.rematerialize", "What is still live is known; copies are made before "
         "masks are."),
    _row("backend.memory.masks.repeat_masks", "The width of comparisons is known."),
    _row("backend.layout.detach_results", "The width of stores is known.", 2),
    _row("backend.memory.compute_pieces", "Nothing is moved any more, and what is still live is "
         "known."),
    _row("backend.layout.pack_halves", "No pass reads elementwise operations by their form any "
         "more.", 2),
    _row("backend.pipeline.chains.stagger_warpgroups", "Products have their places.", 2),
    _row("backend.shared.allocate_shared", "All buffers are there.", 0),
    _row("backend.launch.limit_registers", "Shared memory says how many blocks can be resident."),
    _row("backend.pipeline.tensors.specialize_warps", "What uses which bytes is known, and where "
         "copies stand."),
    _row("backend.shared.insert_barriers", "All accesses of memory stand in their order, and "
         "buffers have their places.", 0),
    _row("backend.pipeline.chains.alternate_registers", "Last: all earlier passes expect a loop "
         "body to be one iteration.", 2),
    _row("backend.pipeline.chains.overlap_sums", "Also last, for loops that the previous pass does "
         "not change.", 2),
    _row("backend.launch.coarsen", "Both bodies went through all other passes, each by itself.", 2),
]

# (earlier, later, why): the first run of `later` comes after a run of `earlier`.
ORDER: list[tuple[str, str, str]] = [
    ("unify_exits", "late_sums", "what a loop leaves is what its header has"),
    ("expand_range", "fold_constants", "indices fold like other arithmetic"),
    ("fold_constants", "simplify_cfg", "branches are decided before blocks are merged"),
    ("peephole", "cse", "equal operations must look equal: operands in one order, one form"),
    ("simplify_cfg", "convert_if", "an empty block between hides a branch of the wanted form"),
    ("cse", "apply_assumptions", "a mask that repeats an assumption must be the same value"),
    ("apply_assumptions", "licm", "a promise is made where the assumption stands"),
    ("cse", "licm", "what is computed twice would leave a loop twice"),
    ("canonicalize_loops", "unroll_loops", "the first iteration begins at the preheader"),
    ("canonicalize_loops", "licm", "operations go to a preheader"),
    ("canonicalize_loops", "strength_reduce", "offsets start in a preheader, step at one latch"),
    ("licm", "unify_exits", "loads leave a loop whose first iteration is certain"),
    ("unify_exits", "merge_tails", "both loops are tested at their headers"),
    ("merge_tails", "strength_reduce", "bodies are compared as the source wrote them"),
    ("unify_exits", "strength_reduce", "offsets go on in phis of one header"),
    ("licm", "split_quotients", "ranges are loop-invariant now"),
    ("split_quotients", "hoist_addresses", "offsets with quotients have no fixed part"),
    ("licm", "strength_reduce", "a step that leaves the loop is extended only once"),
    ("strength_reduce", "coalesce_loops", "only scalars are chosen between at a latch"),
    ("coalesce_loops", "hoist_addresses", "only addresses in innermost loops are split"),
    ("hoist_addresses", "separate_axes", "it takes what rests on proofs alone"),
    ("strength_reduce", "hoist_addresses", "a moving tile has no fixed part until it is reduced"),
    ("canonicalize_loops", "specialize", "an affine pointer in a loop starts in a preheader"),
    ("unwrap_indices", "specialize", "facts about plain indices are asked for"),
    ("merge_accesses", "specialize", "whether a store can be wide depends on its guard"),
    ("specialize", "fuse_exponents", "a factor's sign is tested"),
    ("late_sums", "widen_loops", "sums of rows are elementwise"),
    ("widen_loops", "strength_reduce", "rows are strides apart as the source wrote them"),
    ("late_sums", "single_trips", "sums of rows are tiles in both bodies"),
    ("single_trips", "strength_reduce", "addresses are those of the first iteration"),
    ("specialize", "fold_masked_loads", "a load that needs no mask needs no other value"),
    ("fold_masked_loads", "pad_tiles", "a load that has a value for what it masks needs no select"),
    ("specialize", "pad_tiles", "whether a tile is full depends on its extents in the source"),
    ("pad_tiles", "lower_take", "it numbers the elements of padded tiles"),
    ("lower_take", "assign_layouts", "a gather needs a layout of its own"),
    ("load_early", "split_reductions", "loads move over reductions, not over exchanges"),
    ("specialize", "safe_divisors", "divisors are values in both bodies"),
    ("safe_divisors", "pipeline", "what addresses need may run ahead"),
    ("choose_warps", "split_scans", "parts are warps"),
    ("fold_masked_loads", "raw_operands", "a load that needs no select is one that copies make"),
    ("raw_operands", "assign_layouts", "operands are computed in the layout of their reader"),
    ("pad_tiles", "split_scans", "an axis divides into parts"),
    ("split_scans", "assign_layouts", "a layout has parts in warps"),
    ("choose_warps", "assign_layouts", "a layout spreads a tile over the warps"),
    ("assign_layouts", "exchange_late", "layouts say what threads exchange"),
    ("exchange_late", "pipeline", "loops are rotated there, and their order is chosen"),
    ("assign_layouts", "privatize_atomics", "an atomic happens once, in the owner of its element"),
    ("privatize_atomics", "allocate_shared", "tables are buffers"),
    ("assign_layouts", "stage_dots", "the buffer's swizzle depends on who writes it"),
    ("specialize", "specialize_stores", "what bodies assume need not be tested again"),
    ("specialize_stores", "group_instances", "nothing may follow the end of a block's program"),
    ("specialize", "drop_selections", "whether steps of K are whole is one of its facts"),
    ("specialize", "group_instances", "conditions at entry are made of program ids"),
    ("select_dots", "group_instances", "products on wgmma run in persistent blocks"),
    ("select_dots", "split_dots", "a slice is as deep as an instruction, and wgmma is not split"),
    ("pad_tiles", "split_dots", "the inner axis divides into slices"),
    ("specialize", "split_loops", "a block's share begins at no known iteration"),
    ("pad_tiles", "split_loops", "parts of a tile are bits of an element's number"),
    ("split_loops", "split_dots", "the slices' sums are added before the blocks'"),
    ("split_loops", "assign_layouts", "masks of what a block owns are in the store's layout"),
    ("assign_layouts", "lower_clusters", "a mailbox has a place for each thread"),
    ("lower_clusters", "pipeline", "the ring takes the shared memory that is left"),
    ("raw_operands", "count_quotients", "what tiles repeat has one quotient"),
    ("split_dots", "choose_warps", "each warp computes one slice of K"),
    ("select_dots", "choose_warps", "wgmma runs in groups of four warps"),
    ("stage_dots", "halve_products", "halves are views of a staged operand"),
    ("stage_dots", "store_tensors", "it is for kernels with wgmma"),
    ("store_tensors", "pipeline", "the ring takes the shared memory that is left"),
    ("stage_dots", "pipeline", "pipeline replaces the stores that stage_dots makes"),
    ("pipeline", "carry_fragments", "it reads a stage that the pipeline fills earlier"),
    ("carry_fragments", "skip_masks", "the product is in the loop's latch"),
    ("carry_fragments", "detach_results", "sums go through several products"),
    ("pipeline", "advance_dots", "a product's operands must be there an iteration earlier"),
    ("advance_dots", "order_products", "loops that are rotated have their order"),
    ("order_products", "skip_masks", "a loop is one block"),
    ("order_products", "spread_late", "products have their places"),
    ("advance_dots", "load_ahead", "parts of a loop are recognised by its loads"),
    ("advance_dots", "skip_masks", "a loop that is rotated has one block"),
    ("pipeline", "skip_masks", "a pipelined loop has few blocks"),
    ("skip_masks", "join_bounds", "bounds show which tiles are full"),
    ("pipeline", "step_addresses", "pointers that run ahead use the same sums"),
    ("split_reductions", "lower_conversions", "the exchange between warps is a conversion"),
    ("assign_layouts", "compute_once", "lanes hold copies"),
    ("compute_once", "lower_conversions", "it makes conversions"),
    ("lower_conversions", "select_matrix_loads", "conversions have buffers"),
    ("stage_dots", "select_matrix_loads", "fragments are loaded from buffers"),
    ("vectorize", "repeat_masks", "a copied limit hides how many neighbours compare alike"),
    ("lower_conversions", "allocate_shared", "conversions have buffers"),
    ("narrow_loops", "lower_atomics", "it keeps in one warp what would otherwise go to all warps"),
    ("lower_atomics", "allocate_shared", "results of atomics have buffers"),
    ("vectorize", "detach_results", "narrow stores take any register"),
    ("allocate_shared", "limit_registers", "residency depends on the bytes of shared memory"),
    ("vectorize", "delay_loads", "a tile takes the fewer registers, the wider its load"),
    ("delay_loads", "repeat_masks", "a mask is repeated before the load, wherever that is"),
    ("delay_loads", "rematerialize", "loaded elements need room too, and may give it back"),
    ("rematerialize", "limit_registers", "fewer registers are live"),
    ("delay_loads", "limit_registers", "fewer registers are live"),
    ("delay_loads", "insert_barriers", "a delayed load and its store are one access"),
    ("rematerialize", "compute_pieces", "copies are whole"),
    ("detach_results", "compute_pieces", "results are read where they were detached"),
    ("compute_pieces", "limit_registers", "so that less is held"),
    ("compute_pieces", "insert_barriers", "loads have moved"),
    ("compute_pieces", "pack_halves", "what comes piece by piece stays so"),
    ("vectorize", "pack_halves", "neighbours that an access brings share words"),
    ("pack_halves", "limit_registers", "pairs need half the registers"),
    ("pipeline", "stagger_warpgroups", "only where a producer warp is ahead of all"),
    ("stagger_warpgroups", "allocate_shared", "turns have barriers"),
    ("insert_barriers", "overlap_sums", "a stage's distance is that from one iteration"),
    ("insert_barriers", "alternate_registers", "a stage's distance is that from one iteration"),
    ("overlap_sums", "coarsen", "a kernel has one body to the passes before"),
    ("alternate_registers", "coarsen", "a kernel has one body to the passes before"),
    ("allocate_shared", "insert_barriers", "buffers that share bytes conflict"),
]

check([*OPT, *BACKEND], ORDER)
