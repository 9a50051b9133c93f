"""Matrix products: which instruction computes each, and how its operands get there.

Read in this order: `select_dots` (the instruction), `swap_operands` (the product of the transposed
operands), `slice_k` (warps share K), `raw_operands` (of operands that are computed from a load, the
loaded data are copied unchanged), `stage_dots` (operands go to shared memory in the layout that the
instruction reads), `staged_operand`."""
