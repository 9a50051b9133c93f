"""Tile predicates: which elements a statement computes.

`in_force` holds the predicates that apply; `needs` and `conditions` bring them back through shapes
to the elements that an operand needs; `guards` limits what is computed to these; `if_conversion`
merges what a predicated statement changes; `masks` warns of accesses without one."""
