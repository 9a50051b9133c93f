"""Which thread holds which element of a tile, and how tiles move between threads.

Read in this order: `layout_choice`, `dot_layouts` and `accesses` (which layouts suit what),
`assignment` (the layouts that each operation gives and prefers), `moves` (small loads go to their
readers) and `assign_layouts` (the pass); then `conversion` (planning a change of layout: renaming,
`shuffle`, or through shared memory with the `swizzle` that avoids bank conflicts) and
`lower_conversions`.  `compute_once` lets lanes that hold copies share work.
`pack_halves` lets neighbours share registers, as far as `halves` finds that it pays.
`access` and `matrix_access` say how registers group into accesses of memory."""
