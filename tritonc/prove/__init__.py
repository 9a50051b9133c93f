"""`tritonc prove`: accesses in bounds, and instances apart, for all sizes that a problem allows.

Read in this order: `model` and `build` (what the problem's lines say of sizes, arguments
and the range), `claims`, `symbols` and `terms` (what a value is at one element of a tile, as a
polynomial), `points` (what holds where an access stands), `certificates` (whether facts imply an
inequality), `accesses` and `sharing` (the two questions), `witness` (sizes, instance and element
that refute), `report`.

Polynomials are those of `analysis.linear`, which affine accesses are made of.  A tile is looked at
in one element, whose indices are symbols, so that what has no affine form (quotients, table
lookups, minima) is a symbol with facts of its own.

A proof is a sum of facts, times factors that are not negative, that says 0 <= -1 together with the
opposite of the goal; it is added up once more, in exact integers, before it counts.  Arithmetic
wraps in the kernel: a polynomial stands for a value only where it is proved to fit the type."""
