"""Matrix products: which instruction computes each, and how its operands get there.

Read in this order: `select_dots` (the instruction), `turn_dots` (the product of the transposed
operands), `split_dots` (warps share K), `raw_operands` (what operands are computed from comes as it
is in memory), `stage_dots` (operands go to shared memory in the layout that the instruction reads),
`staged_operand`.
"""
