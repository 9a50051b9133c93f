"""Accesses of global memory: versions of the body for aligned addresses, masks, widths, caching.

Read `specialize` first: it adds the version of a kernel that may assume aligned addresses and
full tiles.  `pad_tiles` makes extents powers of two; `vectorize` chooses widths; `skip_masks`,
`repeat_masks` and `fold_masked_loads` make masks cheap; `load_early` and `delay_loads` place
loads.
"""
