"""The operations that the backend adds to Triton-IR, one row each, in the form of `ir.ops`.

They speak of what Triton-IR leaves open: where a tile's elements lie, shared memory and its
barriers, matrix instructions, copies in flight.  A kernel in the backend uses both tables."""

from tritonc.backend.target import machine_rules as own
from tritonc.ir import rules
from tritonc.ir.ops import OPS, OUTPUT, READ, ROWS, SHARED_READ, SHARED_WRITE, SYNC, OpInfo
from tritonc.ir.types import I1, scalar

_ROWS: list[OpInfo] = [
    OpInfo("get_num_multiprocessors", (), rules.stated_type,
           "How many multiprocessors the device has.", None),
    OpInfo("get_cluster_rank", (), rules.scalar_i32,
           "This block's number among those of its cluster, which compute one program.", None),
    OpInfo("cluster_arrive", ("*mailboxes",), rules.nothing,
           "Tells the other blocks of the cluster that they may write to the mailboxes.",
           effects=frozenset({SHARED_WRITE, SYNC})),
    OpInfo("cluster_reduce", ("a", "*mailbox"),
           lambda types, attributes, stated: (types[0],),
           "The reduction, by `kind`, of the a of all `size` blocks of a cluster, in the elements "
           "that this block owns: its number has the bit i where theirs, row-major, has the bit "
           "`owner[i]`.  Other elements are undefined.  `all`: each block owns all elements.  "
           "`waits`: first for cluster_arrive.", None,
           ("kind", "size", "owner"), ("waits", "all"),
           effects=frozenset({SHARED_READ, SHARED_WRITE, SYNC})),
    OpInfo("first_warp", (), rules.stated_type,
           "Whether this warp is the block's first: what is done where that holds, it does alone.",
           None),
    OpInfo("device_fence", (), rules.nothing,
           "What this thread, and those that it met, wrote is seen by the device before what it "
           "writes from here on.", None, effects=frozenset({SYNC})),
    OpInfo("from_first_lane", ("a",), own.same_types,
           "The number that the first thread of the warp has.", lambda m, op, a: a),
    OpInfo("again", ("a",), own.same_types,
           "The same number, hidden from later passes: what is computed from it is computed again.",
           lambda m, op, a: a),
    OpInfo("convert_layout", ("a",), own.layout_change,
           "The same tile, its elements placed in threads by another layout; `ballot`: conditions "
           "of other lanes as bits of a word, where they are few.",
           lambda m, op, a: a, optional=("ballot",)),
    OpInfo("channel", ("a",), lambda types, attributes, stated: own.layout_change(
               types, attributes, stated or types[0]),
           "The same tile, brought through shared memory to where it is read in another layout; "
           "`stored`: from where it is stored to a second buffer (see raw_operands), with another "
           "axis than `transposed` contiguous.",
           lambda m, op, a: a, optional=("stored", "transposed")),
    OpInfo("detach", ("a",), own.same_types,
           "The same tile in other registers.", lambda m, op, a: a, elementwise=True),
    OpInfo("any_other", ("x",), lambda types, attributes, stated: (I1,),
           "Whether an element of x is not `number`; a warp answers for those that it holds.",
           lambda m, op, x: (x != op.attributes["number"]).any(), ("number",)),
    OpInfo("warp_extreme", ("x",), lambda types, attributes, stated: (scalar(types[0]),),
           "The least element of x (`kind` smin) or the greatest (smax); a warp answers for those "
           "that it holds.",
           lambda m, op, x: x.min() if op.attributes["kind"] == "smin" else x.max(), ("kind",)),
    OpInfo("scale", ("a", "factor", "some"), lambda types, attributes, stated: rules.same_float(
               types[:2], attributes, stated),
           "Product; where `some` is false the factor is 1, and a warp skips it.",
           lambda m, op, a, factor, some: a * factor if some else a),
    OpInfo("step_pointers", ("p", "offset", "*strides"), own.step_pointers,
           "The pointers `offset` elements further on.  The elements of p are known to lie "
           "`strides` elements apart along its axes: a thread needs the first one that it holds.",
           lambda m, op, p, offset, *strides: m.add_pointer(op, p, offset)),
    OpInfo("gather", ("a", "index"), own.gather,
           "Element i is element `index[i]` of a, counted row-major; `shift`: as `shift_lanes` "
           "says.", optional=("shift",)),
    OpInfo("shift_lanes", ("a",), own.same_types,
           "The element so many places on along an axis, which is in a warp: `shift` has the axis, "
           "the places, and whether they go on at the other end (1) or stay at the last one (0).",
           None, ("shift",)),
    OpInfo("tile_part", ("a",), own.tile_part,
           "The elements of a whose row-major number has at its bits `bits` (powers of two, the "
           "first counts least, all of them in registers) the number `index`, in their order.",
           None, ("bits", "index")),
    OpInfo("join_parts", ("*parts",), own.join_parts,
           "The tile of which these are the parts that `bits` numbers (see tile_part).", None,
           ("bits",)),
    OpInfo("alloc_shared", (), rules.stated_type,
           "A buffer in shared memory, at byte `offset` once it is allocated; `pinned`: for the "
           "whole run; `continues`: its stages go on from one run of their loop to the "
           "next; `private`: each element is used by one thread only; `groups`: each of so many "
           "warpgroups has rows of its own; `behind`: of what is read behind a product's loop; "
           "`second`: bytes from there to that of the second program of a block; `pitch`: the "
           "bytes of a stage that copies fill and products read, where those are not all: stages "
           "are so far apart, the last one first, as the first may be filled whole.",
           None, optional=("offset", "pinned", "continues", "private", "groups", "behind",
                           "second", "pitch"),
           effects=frozenset({SHARED_WRITE})),
    OpInfo("buffer_stage", ("buffer", "stage"), own.stage,
           "One stage of a buffer.  In a loop, `ahead` tells how many iterations early its content "
           "is written or read (see insert_barriers).", None, optional=("ahead",)),
    OpInfo("buffer_trans", ("buffer",), own.buffer_view,
           "The same memory, read with axis d of the result at axis `permutation[d]`.", None,
           ("permutation",)),
    OpInfo("buffer_reshape", ("buffer",), own.buffer_view,
           "The same memory, its elements row-major in another shape.", None),
    OpInfo("shared_store", ("buffer", "value", "*some"), own.shared_store,
           "Writes a tile to a buffer, unless `some` is there and false.  `bits` and `index`: only "
           "that part of it (see tile_part), whatever threads hold it, as all of a buffer of its "
           "size or at its place in one of the tile's.  `stmatrix`: by that instruction, \"plain\" "
           "or \"trans\".  `round`: as a dot reads tf32 numbers.",
           optional=("bits", "index", "stmatrix", "round"), effects=frozenset({SHARED_WRITE})),
    OpInfo("shared_load", ("buffer",), own.shared_load,
           "Reads a tile from a buffer.  `ldmatrix`: by that instruction, \"plain\" or \"trans\".  "
           "`late`: piece by piece, where the dot that follows reads it; `piecewise`: where it is "
           "stored.", optional=("ldmatrix", "late", "piecewise"), effects=frozenset({SHARED_READ})),
    OpInfo("load_slice", ("buffer",), own.load_slice,
           "Reads the elements with the number `index` along `axis`.", None, ("axis", "index"),
           effects=frozenset({SHARED_READ})),
    OpInfo("shared_gather", ("buffer", "index"), own.gather,
           "Reads, as element i, element `index[i]` of the buffer's tile, counted row-major.",
           effects=frozenset({SHARED_READ})),
    OpInfo("shared_atomic", ("buffer", "index", "value"), own.shared_atomic,
           "Combines element `index[i]` of the buffer's tile, counted row-major, with element i of "
           "value by `kind`, atomically.", None, ("kind",),
           effects=frozenset({SHARED_READ, SHARED_WRITE}), guardable=True),
    OpInfo("barrier", (), rules.nothing, "Waits for all threads of the block.",
           effects=frozenset({SYNC})),
    OpInfo("group_barrier", (), rules.nothing, "Waits for all threads of the warpgroup.",
           effects=frozenset({SYNC})),
    OpInfo("own_program", ("turn",), own.truth,
           "Whether the program whose `turn` it is, 0 or 1, is this thread's."),
    OpInfo("order_barrier", ("*some",), rules.nothing,
           "Warpgroups pass in order (CUTLASS: OrderedSequenceBarrier).  `step`: \"open\" at "
           "entry, \"wait\" for the own turn, \"arrive\" to give it on, if `some` holds.",
           None, ("step",), effects=frozenset({OUTPUT})),
    OpInfo("async_copy", ("buffer", "p", "*some"), own.async_copy,
           "Starts a copy from global memory to a buffer (cp.async); zeros where the guard does "
           "not hold.  Nothing at all if `some` is there and false: nobody will read the buffer.  "
           "`vector`: elements of each piece.  `amid`: rows may begin amid a sector of the cache.",
           optional=("vector", "amid"), effects=frozenset({READ, SHARED_WRITE}), guardable=True),
    OpInfo("async_commit", (), rules.nothing, "Closes a group of started copies.",
           effects=frozenset({SHARED_WRITE})),
    OpInfo("async_wait", (), rules.nothing,
           "Waits until at most `pending` of this thread's groups are in flight.", None,
           ("pending",), effects=frozenset({SHARED_WRITE, SYNC})),
    OpInfo("fma_dot", ("a", "b", "c"), own.machine_dot,
           "dot by scalar multiply-adds, operands read from buffers, or tiles in the layout in "
           "which it reads them.  `inner`, here and below: (start, end) of the k that take part; "
           "`minus`: the products are taken away.", optional=("inner", "minus"),
           effects=frozenset({SHARED_READ})),
    OpInfo("mma_dot", ("a", "b", "c"), own.machine_dot,
           "dot by `instruction` (mma.sync), operands in its fragment layouts.  `rounded`: which "
           "of them are tf32 numbers that a store has rounded.", None,
           ("instruction",), ("inner", "minus", "rounded")),
    OpInfo("wgmma", ("a", "b", "c"), own.machine_dot,
           "Starts a dot by `instruction`; a is a buffer or a tile in its fragment layout, b a "
           "buffer.  Its result may be read after a wgmma_wait.  `columns`: those of b; `asked`: "
           "how many of the result's, whose others are as in c.", None, ("instruction",),
           ("inner", "columns", "asked", "minus"),
           effects=frozenset({SHARED_READ})),
    OpInfo("wgmma_wait", ("*values",), own.without_live,
           "The values, after all but the last `pending` started dots have ended.  The last `held` "
           "of them are what those read from registers: they stay where they are until then.",
           None, ("pending",), ("live",), effects=frozenset({SHARED_READ})),
    OpInfo("pack", ("a",), own.packed,
           "Words of neighbours along the last axis, the first lowest.",
           lambda m, op, a: m.bitcast(op, a.copy())),
    OpInfo("unpack", ("a",), own.unpacked, "The neighbours that words hold: undoes a pack.",
           lambda m, op, a: m.bitcast(op, a.copy())),
    *(OpInfo(f"{name}_halves", ("a", "b"), rules.same_int,
             f"The {what} of each half of a word, without sign, by itself.  `sums`: by sums of "
             "f16, whose bits count as whole numbers below 2048 do.",
             lambda m, op, a, b, less=less: (m.minimum if less else m.maximum)(
                 m.halves(a), m.halves(b)).view(a.dtype), elementwise=True, optional=("sums",))
      for name, what, less in (("umin", "lesser", True), ("umax", "greater", False))),
    OpInfo("add_halves", ("a", "b"), rules.same_int,
           "The sums of the halves of words, which are below 2048, by sums of f16 (see `sums`).",
           lambda m, op, a, b: a + b, elementwise=True),
    OpInfo("spread_halves", ("a",), rules.same_int,
           "Each half of a word with all bits as its highest one.",
           lambda m, op, a: (m.halves(a).view("i2") >> 15).view(a.dtype), elementwise=True),
    OpInfo("proxy_fence", (), rules.nothing,
           "This thread's writes of shared memory are seen by wgmma and TMA loads that come "
           "after the next barrier.", effects=frozenset({SHARED_WRITE})),
    OpInfo("claim_slot", ("cell",), rules.stated_type,
           "Global memory for `maps` tensor maps that no other running block has; known to the "
           "first thread, which writes it to the cell.", None, ("maps",),
           effects=frozenset({OUTPUT, SHARED_WRITE})),
    OpInfo("release_slot", ("slot",), rules.nothing, "Gives the memory of a claim_slot back.",
           effects=frozenset({OUTPUT})),
    OpInfo("tensor_map", ("scratch", "base", "extent0", "extent1", "stride1", "*strides"),
           rules.nothing,
           "Makes map `index`: `element`s at base, extent0 of them side by side, extent1 rows "
           "stride1 bytes apart, and further axes of `strides` bytes; copied in boxes of `box`, or "
           "of fewer rows, if `short`: as many as the last operand says; swizzled in `swizzle` "
           "bytes.", None, ("index", "element", "box", "swizzle"), ("short",),
           effects=frozenset({OUTPUT, SHARED_WRITE})),
    OpInfo("publish_maps", ("slot", "scratch", "cell"), rules.nothing,
           "Brings the maps `indices` from the scratch to the slot, which the cell names; the "
           "first thread may use them.", None, ("indices",),
           effects=frozenset({OUTPUT, SHARED_READ})),
    OpInfo("init_barriers", ("barriers",), rules.nothing,
           "Initialises the barriers of a multi-stage buffer, one for each stage: full barriers, "
           "whose phases end with copied bytes, or empty ones (`empty`), whose phases end when "
           "all warps have arrived.", None, optional=("empty",),
           effects=frozenset({SHARED_WRITE})),
    OpInfo("start_producer", ("slot", "cell"), lambda types, attributes, stated: (types[0],),
           "Waits for all threads of the block, and gives the slot, which the cell names, to the "
           "thread that makes the copies: it may use maps `indices`.  If that is one of a warp of "
           "its own, it goes on by itself from here, and if not `waits`, it goes before the others "
           "come; these, if `early`, go on before the slot is claimed.",
           lambda m, op, slot, cell: slot, ("indices",), ("waits", "early"),
           effects=frozenset({SHARED_READ, SYNC})),
    OpInfo("order_wait", ("barriers", "phase"), rules.nothing,
           "All warpgroups but the first one wait until that one has passed the stage on.",
           effects=frozenset({OUTPUT})),
    OpInfo("order_arrive", ("barriers",), rules.nothing, "The first warpgroup passes the stage on.",
           effects=frozenset({OUTPUT})),
    OpInfo("expect_full", ("barriers", "*more"), rules.nothing,
           "The stage's full barrier completes its phase after `bytes` more bytes (expect-tx), and "
           "those that an operand says.", None, ("bytes",),
           effects=frozenset({OUTPUT}), guardable=True),
    OpInfo("arrive_full", ("barriers",), rules.nothing,
           "Completes the phase of the stage's full barrier: the threads have brought themselves "
           "what copied bytes would, and met.", effects=frozenset({OUTPUT}), guardable=True),
    OpInfo("tma_load", ("buffer", "barriers", "slot", "start0", "start1", "*starts"),
           rules.nothing,
           "Starts the copy of a box (start0, start1: its first element) of map `index` to the "
           "buffer in `panels` pieces along axis 0 of the map; counts at the full barrier.  "
           "`row`: of the buffer where the box begins, if that has more rows.  `nothing`: the map "
           "where start1 is behind the rows of the tensor, so that nothing is loaded.",
           None, ("index", "panels", "box"), ("row", "nothing"),
           effects=frozenset({READ, SHARED_WRITE}), guardable=True),
    OpInfo("tma_store", ("buffer", "slot", "start0", "start1", "*starts"),
           rules.nothing,
           "Starts to store the buffer to the box (start0, start1: its first element) of map "
           "`index`, in `panels` pieces along axis 0 of the map; each of `groups` warpgroups such "
           "a box of its own rows, one below the other.  Nothing else that the program does meets "
           "with what it writes.", None, ("index", "panels", "box"), ("groups",),
           effects=frozenset({OUTPUT, SHARED_READ})),
    OpInfo("store_wait", (), rules.nothing,
           "Waits until all but the last `pending` tma_stores have read their buffers, or if "
           "`written` are done; in each of `groups` warpgroups its own.", None, ("pending",),
           ("groups", "written"),
           effects=frozenset({SHARED_WRITE, OUTPUT})),
    OpInfo("wait_full", ("barriers", "phase"), rules.nothing,
           "Waits for the phase of that parity of the stage's full barrier to complete.",
           effects=frozenset({SHARED_READ, SYNC})),
    OpInfo("arrive_empty", ("barriers", "*buffers"), rules.nothing,
           "This warp no longer reads these buffers: it arrives at the stage's empty barrier.  "
           "`meets`: its threads read by themselves, and meet first.", optional=("meets",),
           effects=frozenset({SHARED_READ, OUTPUT}), guardable=True),
    OpInfo("wait_empty", ("barriers", "phase", "*buffers"), rules.nothing,
           "The producer waits for the phase of that parity of the empty barrier: then all warps "
           "have released these buffers.", effects=frozenset({SHARED_READ, SYNC}), guardable=True),
]

MACHINE_OPS: dict[str, OpInfo] = {row.name: row for row in _ROWS}

# With what is computed by register.
_COMPUTED = ("splat", "broadcast", "reshape", "trans", "tile_part", "convert_layout")


def _by_pieces(row: OpInfo) -> OpInfo:
    """The row of what may be emitted a few registers at a time (`compute_pieces`)."""
    if not row.elementwise and row.name not in _COMPUTED:
        return row
    return row._replace(optional=(*row.optional, "piecewise"))


# The table of a kernel in the backend.
ALL_OPS: dict[str, OpInfo] = {name: _by_pieces(row) for name, row in {**OPS, **MACHINE_OPS}.items()}
ROWS.update(ALL_OPS)

