"""Loops with several products that depend on each other, such as attention.

Read in this order: `chain_parts` (which operations belong to which product), `rotate_dots` (the
first product runs an iteration ahead) with `iteration_ends`; `order_products` (starts and waits);
`overlap_sums` and `alternate_registers` (what threads compute beside a product in flight)."""
