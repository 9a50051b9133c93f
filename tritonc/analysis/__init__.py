"""What is known of a kernel's values, for every pass that asks: nothing here changes a kernel.

Read in this order: `facts` (ranges of integers, and the power of two that divides them),
`axis_info` (how integers and pointers run along each axis of a tile), `linear` (polynomials of
scalars), `counters` (loops that count) and `affine` (pointers as base, strides and box), `extents`
(the least and the greatest index of a tile), `signs` and `multiples` (what is not negative, and
what a multiple; and of which scalars it would have to be known or tested), `aliases` (which
pointers may reach the same bytes), `weights` and `pressure` (how many registers live tiles take).

An analysis proves; a pass acts on what is proved and falls back where nothing is."""
