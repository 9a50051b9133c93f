"""Axis information: contiguity, divisibility and constancy of tiles along each axis.

Read `axis_info` (what is known, and the walk), `axis_lattice` (the values), `axis_rules` (a rule
for each operation)."""
