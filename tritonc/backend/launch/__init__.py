"""How many threads run a program, in which order programs run, how many blocks are resident.

`choose_warps`, then `group_instances` (rasterisation order and persistent blocks, with `persist`
and `longest_first`), then `limit_registers`.
"""
