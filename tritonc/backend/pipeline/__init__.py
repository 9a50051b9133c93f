"""Software pipelines: operands are loaded while earlier products run.

Read in this order: `staged_loop` (the loops in question), `loop_slice` (what may run ahead) and
`stages` (how many);
`channel` (how each operand is copied); `pipeline` (the pass) and `expander` (its rewriting with
cp.async); `tma_access` and `tma_pipeline` (the same with TMA); `region_expander` (with a producer
warp, through loops and branches around the loop), `specialize_warps` and `roles` (a
producer warp beside consumer warpgroups); `rotate_dots` (chained products, rotated)."""
