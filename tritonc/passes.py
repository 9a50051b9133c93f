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

from tritonc.backend.dots.bound_conversions import bound_conversions
from tritonc.backend.dots.fuse_exponents import fuse_exponents
from tritonc.backend.dots.fuse_tanh import fuse_tanh
from tritonc.backend.dots.halve_products import halve_products
from tritonc.backend.dots.join_waits import join_waits
from tritonc.backend.dots.raw_operands import raw_operands
from tritonc.backend.dots.select_dots import select_dots
from tritonc.backend.dots.split_dots import split_dots
from tritonc.backend.dots.stage_dots import stage_dots
from tritonc.backend.launch.choose_warps import choose_warps
from tritonc.backend.launch.coarsen import coarsen
from tritonc.backend.launch.group_instances import group_instances
from tritonc.backend.launch.limit_registers import limit_registers
from tritonc.backend.launch.lower_clusters import lower_clusters
from tritonc.backend.launch.split_loops import split_loops
from tritonc.backend.layout.assign_layouts import assign_layouts
from tritonc.backend.layout.detach_results import detach_results
from tritonc.backend.layout.lower_conversions import lower_conversions
from tritonc.backend.layout.select_matrix_loads import select_matrix_loads
from tritonc.backend.layout.split_reductions import split_reductions
from tritonc.backend.layout.split_scans import split_scans
from tritonc.backend.memory.cache_loads import cache_loads
from tritonc.backend.memory.compute_pieces import compute_pieces
from tritonc.backend.memory.count_quotients import count_quotients
from tritonc.backend.memory.delay_loads import delay_loads
from tritonc.backend.memory.drop_selections import drop_selections
from tritonc.backend.memory.fold_masked_loads import fold_masked_loads
from tritonc.backend.memory.join_bounds import join_bounds
from tritonc.backend.memory.load_early import load_early
from tritonc.backend.memory.lower_atomics import lower_atomics
from tritonc.backend.memory.lower_take import lower_take
from tritonc.backend.memory.merge_stores import merge_stores
from tritonc.backend.memory.narrow_loops import narrow_loops
from tritonc.backend.memory.pad_tiles import pad_tiles
from tritonc.backend.memory.privatize_atomics import privatize_atomics
from tritonc.backend.memory.rematerialize import rematerialize
from tritonc.backend.memory.repeat_masks import repeat_masks
from tritonc.backend.memory.skip_masks import skip_masks
from tritonc.backend.memory.specialize import specialize
from tritonc.backend.memory.specialize_stores import specialize_stores
from tritonc.backend.memory.step_addresses import step_addresses
from tritonc.backend.memory.unwrap_indices import unwrap_indices
from tritonc.backend.memory.vectorize import vectorize
from tritonc.backend.pipeline.advance_dots import advance_dots
from tritonc.backend.pipeline.alternate_registers import alternate_registers
from tritonc.backend.pipeline.carry_fragments import carry_fragments
from tritonc.backend.pipeline.load_ahead import load_ahead
from tritonc.backend.pipeline.order_products import order_products
from tritonc.backend.pipeline.overlap_sums import overlap_sums
from tritonc.backend.pipeline.pipeline import pipeline
from tritonc.backend.pipeline.prefetch import prefetch
from tritonc.backend.pipeline.safe_divisors import safe_divisors
from tritonc.backend.pipeline.specialize_warps import specialize_warps
from tritonc.backend.pipeline.spread_late import spread_late
from tritonc.backend.pipeline.store_tensors import store_tensors
from tritonc.backend.shared.allocate_shared import allocate_shared
from tritonc.backend.shared.insert_barriers import insert_barriers
from tritonc.opt.addresses.hoist_addresses import hoist_addresses
from tritonc.opt.addresses.separate_axes import separate_axes
from tritonc.opt.addresses.split_quotients import split_quotients
from tritonc.opt.addresses.strength_reduce import strength_reduce
from tritonc.opt.apply_assumptions import apply_assumptions
from tritonc.opt.convert_if import convert_if
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.expand_range import expand_range
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.improve_combiners import improve_combiners
from tritonc.opt.keep_high_halves import keep_high_halves
from tritonc.opt.loops.canonicalize_loops import canonicalize_loops
from tritonc.opt.loops.coalesce_loops import coalesce_loops
from tritonc.opt.loops.fetch_late import fetch_late
from tritonc.opt.loops.late_sums import late_sums
from tritonc.opt.loops.licm import licm
from tritonc.opt.loops.merge_tails import merge_tails
from tritonc.opt.loops.single_trips import single_trips
from tritonc.opt.loops.unify_exits import unify_exits
from tritonc.opt.loops.unroll_loops import unroll_loops
from tritonc.opt.peephole import peephole
from tritonc.opt.simplify_cfg import simplify_cfg
from tritonc.opt.sink_past_returns import sink_past_returns
from tritonc.opt.swap_neighbours import swap_neighbours
from tritonc.pass_manager import Pass, check

OPT: list[Pass] = [
    Pass("expand_range", expand_range,
         "Later passes see a single form of index.", level=0),
    Pass("swap_neighbours", swap_neighbours,
         "Indices have one form, and what it makes is arithmetic too."),
    Pass("fold_constants", fold_constants,
         "Tunables are numbers now: their arithmetic disappears, and so do the branches that "
         "depend on it."),
    Pass("peephole", peephole,
         "One form for each idea, so that equal things look equal."),
    Pass("simplify_cfg", simplify_cfg,
         "Few and large blocks: the passes below look for things in one block."),
    Pass("convert_if", convert_if,
         "Small branches become selects, and the blocks around them one block."),
    Pass("fold_constants", fold_constants,
         "Again: the two passes before leave phis of one value."),
    Pass("cse", cse,
         "After peephole, which makes equal things look equal."),
    Pass("dce", dce,
         "Removes what was replaced, so that the number of a value's uses is right."),
    Pass("apply_assumptions", apply_assumptions,
         "Equal conditions are one value, and `&&` is an `and` in one block. Later passes fold "
         "what the assumptions decide."),
    Pass("peephole", peephole,
         "Again: with the true numbers of uses, sums move into dots; selects are new."),
    Pass("keep_high_halves", keep_high_halves,
         "What nobody asks for is gone, so that the halves that are left are seen."),
    Pass("fold_constants", fold_constants,
         "Again: the high halves of constants."),
    Pass("peephole", peephole,
         "Again: the high half of what an extension or a shift made is that."),
    Pass("improve_combiners", improve_combiners,
         "No later pass looks into these functions."),
    Pass("canonicalize_loops", canonicalize_loops,
         "The passes below need preheaders and single latches, the backend too.", level=0),
    Pass("unroll_loops", unroll_loops,
         "Constants that it makes may leave the loops around it."),
    Pass("licm", licm,
         "Addresses and masks leave the loops; steps of pointers too, for the next pass."),
    Pass("unify_exits", unify_exits,
         "After licm, which may take loads out of a loop whose first iteration is certain; the "
         "passes below and the backend meet one form of loop."),
    Pass("late_sums", late_sums,
         "Loops end at their headers; partial sums are tiles to all passes below."),
    Pass("fetch_late", fetch_late,
         "Counters have one form; pointers still move, so that the next one is a phi's."),
    Pass("merge_tails", merge_tails,
         "Loops have one form, and their pointers still move as the source moved them."),
    Pass("sink_past_returns", sink_past_returns,
         "After licm, whose operations may stand before a return now."),
    Pass("single_trips", single_trips,
         "Loops have one form; what it makes, the passes below see as straight code."),
    Pass("split_quotients", split_quotients,
         "Counters have one form; what it makes of them, the next passes move out of addresses."),
    Pass("strength_reduce", strength_reduce,
         "Pointers that loops move become fixed tiles and scalar offsets."),
    Pass("coalesce_loops", coalesce_loops,
         "What moves in outer loops is scalar; addresses are split for the loop that stays."),
    Pass("hoist_addresses", hoist_addresses,
         "The same for pointers that loops compute.  After the pass before, whose results it may "
         "split further, and after licm, which leaves it only what really varies."),
    Pass("separate_axes", separate_axes,
         "What is left in loops with products; the pass before has split what it could prove."),
    Pass("cse", cse,
         "Again: the passes before make the same splats and offsets several times."),
    Pass("dce", dce,
         "Again: removes what these passes replaced."),
    Pass("simplify_cfg", simplify_cfg,
         "Again: new preheaders join the block before, where there is one."),
]

BACKEND: list[Pass] = [
    Pass("select_dots", select_dots,
         "Instructions decide on persistent blocks, on the number of warps, on layouts.",
         "backend", 0),
    Pass("merge_stores", merge_stores,
         "A merged store may be wide, where the next pass makes its address aligned.", "backend"),
    Pass("unwrap_indices", unwrap_indices,
         "Rows are strides apart again, which the next pass needs to know.", "backend", 2),
    Pass("specialize", specialize,
         "Addresses and masks still have the form of the source.",
         "backend", 2),
    Pass("specialize_stores", specialize_stores,
         "The facts still missing concern stores only; each block still computes one program.",
         "backend", 2),
    Pass("group_instances", group_instances,
         "Program ids are no longer looked at, only their values.", "backend", 2),
    Pass("fold_constants", fold_constants,
         "In the backend: removes the masks that hold in the fast body.", "backend"),
    Pass("peephole", peephole,
         "In the backend: removes what depended on those masks.", "backend"),
    Pass("drop_selections", drop_selections,
         "Facts are known; where loads stand has nothing to do with it.", "backend", 2),
    Pass("fold_masked_loads", fold_masked_loads,
         "After all masks that can go have gone.", "backend"),
    Pass("fuse_exponents", fuse_exponents,
         "Which factors are above 0 is known.", "backend", 2),
    Pass("fuse_tanh", fuse_tanh,
         "What is left of tanh goes in the next pass.", "backend", 2),
    Pass("dce", dce,
         "In the backend: layouts are chosen for what is used.", "backend"),
    Pass("load_early", load_early,
         "Nothing stands yet between a reduction and what reads it.", "backend"),
    Pass("pad_tiles", pad_tiles,
         "Masks have been read in the extents of the source; layouts need powers of two.",
         "backend", 0),
    Pass("lower_take", lower_take,
         "Row-major numbers are those of the padded tiles.", "backend", 0),
    Pass("select_dots", select_dots,
         "Again: products of tiles whose extents are powers of two only now.", "backend", 0),
    Pass("split_loops", split_loops,
         "Masks and facts of the loop have been read as the source gave them; tiles have their "
         "final extents.", "backend"),
    Pass("split_dots", split_dots,
         "The instructions are known, and warps are not yet counted.", "backend"),
    Pass("bound_conversions", bound_conversions,
         "Integers have their final form, and loops no prologues yet.", "backend"),
    Pass("raw_operands", raw_operands,
         "Instructions are known; registers that hold operands count.", "backend", 2),
    Pass("safe_divisors", safe_divisors,
         "No pass folds divisions any more, or asks what divides an index.", "backend", 2),
    Pass("count_quotients", count_quotients,
         "Loads of groups are made once, with one quotient for a step; facts are known.",
         "backend", 2),
    Pass("choose_warps", choose_warps,
         "Layouts spread tiles over so many threads.", "backend", 0),
    Pass("split_scans", split_scans,
         "Parts are warps.", "backend"),
    Pass("assign_layouts", assign_layouts,
         "From here on each tile knows in which thread and register its elements are.",
         "backend", 0),
    Pass("lower_clusters", lower_clusters,
         "A thread sends what its layout gives it; buffers that pipelines leave room for.",
         "backend", 0),
    Pass("privatize_atomics", privatize_atomics,
         "A table has a layout, and so have the indices that are counted in it.", "backend", 2),
    Pass("stage_dots", stage_dots,
         "Dots read shared memory.", "backend", 0),
    Pass("halve_products", halve_products,
         "What is made of a product still stands behind it.", "backend", 2),
    Pass("join_waits", join_waits,
         "Each product stands beside its wait still, and no pipeline counts waits yet.", "backend",
         2),
    Pass("store_tensors", store_tensors,
         "Its buffers have their place before the ring takes the rest; stores still have their "
         "conversions.", "backend"),
    Pass("pipeline", pipeline,
         "While the stores to shared memory stand beside their loads.", "backend"),
    Pass("prefetch", prefetch,
         "The loops that the pass before could not serve.", "backend"),
    Pass("carry_fragments", carry_fragments,
         "Loops on rings are still one block.", "backend", 2),
    Pass("advance_dots", advance_dots,
         "After pipeline: what the copies need runs ahead already.", "backend", 2),
    Pass("load_ahead", load_ahead,
         "The loop's operations have their order.", "backend", 2),
    Pass("cse", cse,
         "In the backend: two readers in one layout share what was computed for each.", "backend"),
    Pass("dce", dce,
         "After prefetch, which leaves the loads that it replaced.", "backend"),
    Pass("order_products", order_products,
         "Rings wait and release, loads have gone ahead, and a loop is one block yet.", "backend",
         2),
    Pass("spread_late", spread_late,
         "Products and what is loaded ahead have their places; equal conversions are one.",
         "backend", 2),
    Pass("step_addresses", step_addresses,
         "After the passes that copy slices of loops, and cse, which makes equal offsets one.",
         "backend"),
    Pass("skip_masks", skip_masks,
         "Loops need not be one block any more; equal masks are one.", "backend", 2),
    Pass("join_bounds", join_bounds,
         "No pass looks at masks as bounds any more.", "backend", 2),
    Pass("split_reductions", split_reductions,
         "Makes layout conversions.", "backend", 0),
    Pass("lower_conversions", lower_conversions,
         "Makes buffers.", "backend", 0),
    Pass("narrow_loops", narrow_loops,
         "Before each atomic goes through shared memory by itself.", "backend", 2),
    Pass("lower_atomics", lower_atomics,
         "Makes buffers.", "backend", 0),
    Pass("select_matrix_loads", select_matrix_loads,
         "Tiles and buffers have their final layouts.", "backend"),
    Pass("cache_loads", cache_loads,
         "Every load from global memory to registers is final.", "backend"),
    Pass("vectorize", vectorize,
         "Guards have their final form.", "backend", 0),
    Pass("delay_loads", delay_loads,
         "Nothing moves loads and stores any more.", "backend"),
    Pass("rematerialize", rematerialize,
         "What is still live is known; copies are made before masks are.", "backend"),
    Pass("repeat_masks", repeat_masks,
         "The width of comparisons is known.", "backend"),
    Pass("detach_results", detach_results,
         "The width of stores is known.", "backend", 2),
    Pass("compute_pieces", compute_pieces,
         "Nothing is moved any more, and what is still live is known.", "backend"),
    Pass("allocate_shared", allocate_shared,
         "All buffers are there.", "backend", 0),
    Pass("limit_registers", limit_registers,
         "Shared memory says how many blocks can be resident.", "backend"),
    Pass("specialize_warps", specialize_warps,
         "What uses which bytes is known, and where copies stand.", "backend"),
    Pass("insert_barriers", insert_barriers,
         "All accesses of memory stand in their order, and buffers have their places.",
         "backend", 0),
    Pass("alternate_registers", alternate_registers,
         "Last: all earlier passes expect a loop body to be one iteration.", "backend", 2),
    Pass("overlap_sums", overlap_sums,
         "Also last, for loops that the previous pass does not change.", "backend", 2),
    Pass("coarsen", coarsen,
         "Both bodies went through all other passes, each by itself.", "backend", 2),
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
    ("merge_stores", "specialize", "whether a store can be wide depends on its guard"),
    ("specialize", "fuse_exponents", "a factor's sign is tested"),
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
    ("halve_products", "join_waits", "each half is waited for by itself"),
    ("stage_dots", "join_waits", "it makes the products that are waited for"),
    ("join_waits", "pipeline", "what is waited for together has one ring"),
    ("stage_dots", "store_tensors", "it is for kernels with wgmma"),
    ("store_tensors", "pipeline", "the ring takes the shared memory that is left"),
    ("stage_dots", "pipeline", "pipeline replaces the stores that stage_dots makes"),
    ("pipeline", "prefetch", "prefetch takes what is left"),
    ("pipeline", "carry_fragments", "it reads a stage that the pipeline fills earlier"),
    ("carry_fragments", "skip_masks", "the product is in the loop's latch"),
    ("carry_fragments", "detach_results", "sums go through several products"),
    ("pipeline", "advance_dots", "a product's operands must be there an iteration earlier"),
    ("advance_dots", "order_products", "loops that are rotated have their order"),
    ("order_products", "skip_masks", "a loop is one block"),
    ("order_products", "spread_late", "products have their places"),
    ("advance_dots", "load_ahead", "parts of a loop are recognised by its loads"),
    ("advance_dots", "skip_masks", "a loop that is rotated has one block"),
    ("prefetch", "skip_masks", "a pipelined loop has few blocks"),
    ("skip_masks", "join_bounds", "bounds show which tiles are full"),
    ("prefetch", "step_addresses", "pointers that run ahead use the same sums"),
    ("split_reductions", "lower_conversions", "the exchange between warps is a conversion"),
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
    ("insert_barriers", "overlap_sums", "a stage's distance is that from one iteration"),
    ("insert_barriers", "alternate_registers", "a stage's distance is that from one iteration"),
    ("overlap_sums", "coarsen", "a kernel has one body to the passes before"),
    ("alternate_registers", "coarsen", "a kernel has one body to the passes before"),
    ("allocate_shared", "insert_barriers", "buffers that share bytes conflict"),
]

check([*OPT, *BACKEND], ORDER)
