"""Versions of a kernel that rely on facts, which are tested at run time.

Read `assumed_facts` and `assumed_accesses` first (which facts accesses lack), with `assumed` (how
facts are kept) and `assumed_strides`, `assumed_inside` and `assumed_apart` (kinds of facts); then
`conditions` (tests, and where they stand), `bodies` (which there are beside the fast one),
`specialize` (which makes them) and `specialize_stores` (the same for a store behind a loop)."""
