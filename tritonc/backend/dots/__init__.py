"""Matrix products: which instruction computes each, and how its operands get there.

Read in this order: `select_dots` (the instruction), `swap_operands` (the product of the transposed
operands), `slice_k` (warps share K), `raw_operands` (what operands are computed from comes as it
is in memory), `stage_dots` (operands go to shared memory in the layout that the instruction reads),
`staged_operand`."""
