"""Passes on loops.

Their form: `canonicalize_loops`, `unify_exits` with `plan_exits`.  What runs how often: `licm`,
`unroll_loops`, `late_sums` (reductions leave a loop), `widen_loops`,
`fetch_late`, `merge_tails` with `masked_same`, `single_trips`, `coalesce_loops`."""
