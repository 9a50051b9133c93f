"""Passes that split addresses in loops into a fixed tile and a moving scalar.

In the order of the passes: `split_quotients` (quotients of counters become counters),
`strength_reduce` (pointers that the source moves), `hoist_addresses` (pointers that the source
computes) and `separate_axes` (what remains beside products); the last two place what they make by
`moved_ops`."""
