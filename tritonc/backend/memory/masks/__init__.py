"""Masks of accesses: made, simplified, tested once for a tile.

In the order of the passes: `unwrap_indices` (indices that wrap become plain ones under a mask),
`drop_selections` and `fold_masked_loads` (values of masked elements), `pad_tiles` (extents that are
powers of two), `skip_masks` with `row_masks` (one test for a tile), `join_bounds`, `tabulate_masks`
(fewer comparisons of an element)."""
