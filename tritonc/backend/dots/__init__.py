"""Matrix products: which instruction computes each, and how its operands get there.

Read in this order: `select_dots` (the instruction), `split_dots` (warps share K), `stage_dots`
(operands go to shared memory in the layout that the instruction reads), `staged_operand`.
"""
