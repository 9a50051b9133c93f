"""Pipelines with TMA (the tensor memory accelerator), producer warps, and results stored by TMA.

Read in this order: `tma_access` (which loads and stores are boxes of a tensor; `windows` for
those whose mask has a lower bound), `map_slots` (memory for the tensor maps, which the kernel
makes itself), `boxes` (which loads of a loop TMA makes), `tma_pipeline` (the decision),
`tma_expander` and `tma_loop` (the rewriting of one loop) and `region_expander` (the same across the
tiles of a persistent block); `roles` and `specialize_warps` (the producer warp); `warm_start`;
`store_by_tma` with `store_order`, and `warpgroup_stores` (results)."""
