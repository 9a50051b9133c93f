"""Accesses of global memory: versions for facts that are tested, masks, widths, caching.

Read `assumed_facts` and `specialize` first: the facts that accesses lack (aligned addresses,
strides of 1, signs, full tiles), and the version of a kernel that may assume them.
`unwrap_indices` comes before: indices that wrap past the end are plain ones under a mask;
`assumed_inside` has tested that others do not wrap.  `pad_tiles` makes extents powers of two;
`vectorize` chooses widths; `skip_masks` and `fold_masked_loads` make masks cheap; `load_early` and
`delay_loads` place loads."""
