"""Triton-IR: SSA over basic blocks, with predicates for control flow inside a tile."""
