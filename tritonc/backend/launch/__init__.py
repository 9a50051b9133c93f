"""How many threads run a program, in which order programs run, how many blocks are resident.

`choose_warps`, then `rasterize` (rasterisation order and persistent blocks, with `persist`),
`split_loops` (the blocks of a cluster as one program; `shared_loops` says which loops they can
share) and `lower_clusters`, then `limit_registers`."""
